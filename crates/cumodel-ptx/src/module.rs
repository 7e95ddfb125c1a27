//! A loaded module: its kernels and variables.
use crate::code::{function_address, Code};
use crate::decode::{decode, Layout};
use crate::syntax::ast::Initial;
use crate::{Executed, Launch, Memory, Stopped};

/// PTX that cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("PTX line {line}: {problem}")]
pub struct LoadError {
    /// The line of the text, from 1.
    pub line: u32,
    /// One sentence that names the instruction.
    pub problem: String,
}

/// One parameter of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param {
    /// Bytes from the start of the parameter block.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
    /// Bytes.
    pub align: usize,
}

/// An entry point.
#[derive(Debug, Clone)]
pub struct Kernel {
    pub(crate) name: String,
    /// Its index among the functions of the module.
    pub(crate) function: usize,
    pub(crate) params: Vec<Param>,
    pub(crate) param_bytes: usize,
    pub(crate) static_shared: u32,
    pub(crate) local: u32,
    pub(crate) registers: u32,
    pub(crate) max_threads: u32,
}

impl Kernel {
    /// Its name in the PTX.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its parameters in order.
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Bytes of the whole parameter block.
    pub fn param_bytes(&self) -> usize {
        self.param_bytes
    }

    /// Bytes of shared memory that it declares itself.
    pub fn static_shared(&self) -> u32 {
        self.static_shared
    }

    /// Bytes of local memory of one thread, without those of the functions that it calls.
    pub fn local_bytes(&self) -> u32 {
        self.local
    }

    /// Registers of one thread, at most 255: those that the PTX names, of which an assembler would need fewer.
    pub fn registers(&self) -> u32 {
        self.registers
    }

    /// The largest number of threads in a block: from `.maxntid` or `.reqntid`, else 1024.
    pub fn max_threads(&self) -> u32 {
        self.max_threads
    }
}

/// One element of a variable's initial value.
#[derive(Debug, Clone, Copy)]
enum Element {
    Bits(u64),
    /// The address of another variable, and an offset.
    Global(usize, i64),
}

/// A variable of the module: the caller gives it an address before a launch.
#[derive(Debug, Clone)]
pub struct Global {
    name: String,
    size: usize,
    align: usize,
    constant: bool,
    element: usize,
    initial: Vec<Element>,
}

impl Global {
    /// Its name in the PTX.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The address must be a multiple of this.
    pub fn align(&self) -> usize {
        self.align
    }

    /// In constant memory.
    pub fn is_constant(&self) -> bool {
        self.constant
    }

    /// What the variable holds before the first launch: [`Global::size`] bytes.
    /// `addresses` are those of all [`Module::globals`], because a variable may hold the address of another.
    pub fn initial_bytes(&self, addresses: &[u64]) -> Vec<u8> {
        let mut bytes = vec![0; self.size];
        for (place, element) in bytes
            .chunks_exact_mut(self.element.max(1))
            .zip(&self.initial)
        {
            let value = match *element {
                Element::Bits(bits) => bits,
                Element::Global(index, offset) => addresses
                    .get(index)
                    .copied()
                    .unwrap_or(0)
                    .wrapping_add(offset as u64),
            };
            let value = value.to_le_bytes();
            let length = place.len().min(8);
            place[..length].copy_from_slice(&value[..length]);
        }
        bytes
    }
}

/// PTX, decoded.
pub struct Module {
    kernels: Vec<Kernel>,
    globals: Vec<Global>,
    pub(crate) code: Code,
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Module")
            .field("kernels", &self.kernels)
            .field("globals", &self.globals)
            .finish_non_exhaustive()
    }
}

impl Module {
    /// Parses and decodes PTX text. A final zero byte, as C strings have, is the caller's to cut off.
    ///
    /// # Errors
    /// The first line that is not PTX, or that is not supported.
    pub fn load(text: &str) -> Result<Module, LoadError> {
        let file = crate::syntax::parse(text)?;
        let mut layout = Layout::of(&file)?;
        let (code, kernels) = decode(&file, &mut layout)?;
        let globals = layout.variables.iter().map(|variable| {
            let initial = variable.initial.iter().map(|initial| match *initial {
                Initial::Bits(bits) => Ok(Element::Bits(bits)),
                Initial::Address { name, offset } => {
                    match (layout.globals.get(name), layout.functions.get(name)) {
                        (Some(&index), _) => Ok(Element::Global(index, offset)),
                        (_, Some(&index)) if offset == 0 => {
                            Ok(Element::Bits(function_address(index)))
                        }
                        _ => {
                            let problem = format!(
                                "`{}` is initialised with `{name}`, which has no address here",
                                variable.name
                            );
                            Err(LoadError {
                                line: variable.line,
                                problem,
                            })
                        }
                    }
                }
            });
            Ok(Global {
                name: variable.name.to_owned(),
                size: variable.size(),
                align: variable.align,
                constant: variable.space == "const",
                element: variable.element,
                initial: initial.collect::<Result<_, _>>()?,
            })
        });
        let globals = globals.collect::<Result<_, _>>()?;
        Ok(Module {
            kernels,
            globals,
            code,
        })
    }

    /// The entry points in the order of the text.
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// The entry point of this name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// The variables of global and constant memory, in the order of the text.
    pub fn globals(&self) -> &[Global] {
        &self.globals
    }

    /// Executes one launch of a kernel of this module to its end.
    ///
    /// # Errors
    /// [`Stopped`] says where, why, and what had been done until then.
    pub fn run(
        &self,
        kernel: &Kernel,
        launch: &Launch<'_>,
        memory: &dyn Memory,
    ) -> Result<Executed, Box<Stopped>> {
        crate::launch::run(self, kernel, launch, memory)
    }
}
