//! Where the variables of a module lie.
use crate::syntax::ast::{File, Variable};
use crate::LoadError;
use rustc_hash::FxHashMap;

/// Where a variable of shared memory lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SharedPlace {
    /// Bytes from the start of the block's shared memory.
    At(u32),
    /// `extern __shared__`: behind everything that the kernel declares.
    Dynamic,
}

/// Names of the module.
#[derive(Debug, Default)]
pub(crate) struct Layout<'a> {
    /// Variables of global and constant memory by index, functions by index.
    pub(crate) globals: FxHashMap<&'a str, usize>,
    pub(crate) functions: FxHashMap<&'a str, usize>,
    pub(crate) shared: FxHashMap<&'a str, SharedPlace>,
    /// Bytes of shared memory that every kernel of the module has.
    pub(crate) shared_bytes: u32,
    /// For each function the bytes of its parameters and of its results, and whether it is a kernel.
    pub(crate) signatures: Vec<(Vec<usize>, Vec<usize>, bool)>,
    /// The variables that the caller gives an address.
    pub(crate) variables: Vec<Variable<'a>>,
}

/// Rounds up to a multiple of a power of two.
pub(crate) fn align(offset: usize, to: usize) -> usize {
    offset.next_multiple_of(to.max(1))
}

impl<'a> Layout<'a> {
    /// Places the variables of the module and names its functions.
    pub(crate) fn of(file: &File<'a>) -> Result<Layout<'a>, LoadError> {
        let mut layout = Layout::default();
        for variable in &file.variables {
            layout.place(variable)?;
        }
        for function in file
            .functions
            .iter()
            .filter(|function| function.body.is_some())
        {
            if layout
                .functions
                .insert(function.name, layout.signatures.len())
                .is_some()
            {
                let problem = format!("function `{}` is defined twice", function.name);
                return Err(LoadError {
                    line: function.line,
                    problem,
                });
            }
            let sizes = |variables: &[Variable<'_>]| variables.iter().map(Variable::size).collect();
            layout.signatures.push((
                sizes(&function.params),
                sizes(&function.returns),
                function.entry,
            ));
        }
        Ok(layout)
    }

    /// Gives one variable of the module, or of a function, its place.
    pub(crate) fn place(&mut self, variable: &Variable<'a>) -> Result<(), LoadError> {
        let fail = |problem: String| {
            Err(LoadError {
                line: variable.line,
                problem,
            })
        };
        let name = variable.name;
        if variable.space == "shared" {
            if variable.count.is_none() {
                self.shared.insert(name, SharedPlace::Dynamic);
                return Ok(());
            }
            let (place, end) = shared_place(self.shared_bytes, variable)?;
            self.shared_bytes = end;
            if self.shared.insert(name, place).is_some() {
                return fail(format!("variable `{name}` is defined twice"));
            }
            return Ok(());
        }
        if variable.external {
            return fail(format!(
                "variable `{name}` is defined in another module; linking is not supported"
            ));
        }
        if variable.count.is_none() {
            return fail(format!("the size of variable `{name}` is missing"));
        }
        if self.globals.insert(name, self.variables.len()).is_some() {
            return fail(format!("variable `{name}` is defined twice"));
        }
        self.variables.push(variable.clone());
        Ok(())
    }
}

/// The place of a variable behind `used` bytes of shared memory, and the bytes used with it.
pub(crate) fn shared_place(
    used: u32,
    variable: &Variable<'_>,
) -> Result<(SharedPlace, u32), LoadError> {
    let offset = align(used as usize, variable.align);
    match u32::try_from(offset + variable.size()) {
        Ok(end) if end <= 1 << 20 => Ok((SharedPlace::At(offset as u32), end)),
        _ => {
            let problem = format!(
                "`{}` makes shared memory larger than a block can have",
                variable.name
            );
            Err(LoadError {
                line: variable.line,
                problem,
            })
        }
    }
}
