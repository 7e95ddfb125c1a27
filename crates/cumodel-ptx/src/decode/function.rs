//! One function after the other into code.
use super::form::{Form, Problem};
use super::layout::{align, Layout};
use super::scope::Scope;
use super::{special, table};
use crate::code::{Code, Function, Inst, Op, Reg, Target};
use crate::module::{Kernel, Param};
use crate::syntax::ast::{File, Function as Parsed, Instruction, Statement};
use crate::LoadError;
use std::ops::Range;

/// An atomic on memory that other blocks see.
pub(crate) struct AtomicUse {
    /// Operation and type, if the order in which it is applied shows in no result; `None` for any other.
    pub(crate) commutes: Option<String>,
    pub(crate) destination: Option<Reg>,
}

/// A function on its way into code.
pub(crate) struct Builder<'l, 'a> {
    pub(crate) scope: Scope<'l, 'a>,
    /// Instructions of the module that touch memory, until now.
    pub(crate) accesses: usize,
    pub(crate) atomics: Vec<AtomicUse>,
    pub(crate) calls: Vec<Target>,
    /// Whether the function is a kernel.
    pub(crate) entry: bool,
    insts: Vec<Inst>,
    /// Instructions before this function.
    start: usize,
}

impl Builder<'_, '_> {
    /// A number for an instruction that touches memory.
    pub(crate) fn access(&mut self) -> usize {
        self.accesses += 1;
        self.accesses - 1
    }
}

/// Decodes all functions of a file, and lists its kernels.
pub(crate) fn decode<'a>(
    file: &File<'a>,
    layout: &mut Layout<'a>,
) -> Result<(Code, Vec<Kernel>), LoadError> {
    let mut code = Code::default();
    let (mut kernels, mut orders) = (Vec::new(), Vec::new());
    let functions: Vec<_> = file
        .functions
        .iter()
        .filter_map(|function| Some((function, function.body.as_ref()?)))
        .collect();
    for (_, body) in functions.iter().filter(|(function, _)| !function.entry) {
        place_shared(layout, body)?;
    }
    for (index, (parsed, body)) in functions.iter().enumerate() {
        let mut builder = Builder {
            scope: Scope::new(layout),
            accesses: code.accesses,
            atomics: Vec::new(),
            calls: Vec::new(),
            entry: parsed.entry,
            insts: Vec::new(),
            start: code.insts.len(),
        };
        let (params, results, kernel_params) =
            declare_params(&mut builder, parsed).map_err(|problem| LoadError {
                line: parsed.line,
                problem: format!("in `{}`: {problem}", parsed.name),
            })?;
        declare_labels(&mut builder.scope, body)?;
        statements(&mut builder, body)?;
        // A body that is not closed by a jump ends its thread, or returns.
        builder.insts.push(Inst {
            line: parsed.line,
            guard: None,
            op: Op::Return,
        });
        link(&mut builder, parsed)?;
        let commuting = commuting(&builder);
        let Builder {
            scope,
            accesses,
            calls,
            insts,
            start,
            ..
        } = builder;
        code.accesses = accesses;
        let function = Function {
            entry: parsed.entry,
            start: start as u32,
            registers: scope.registers as usize,
            constants: scope.constants(),
            predicates: scope.predicates as usize,
            local: align(scope.local, 128),
            params,
            results,
            ordered: false,
        };
        if parsed.entry {
            let param_bytes = kernel_params
                .last()
                .map_or(0, |last| last.offset + last.size);
            kernels.push(Kernel {
                name: parsed.name.to_owned(),
                function: index,
                params: kernel_params,
                param_bytes,
                static_shared: scope.shared,
                local: function.local as u32,
                registers: scope.registers.min(255),
                max_threads: parsed.max_threads.unwrap_or(1024),
            });
        }
        orders.push((commuting, calls));
        code.insts.extend(insts);
        code.functions.push(function);
    }
    mark_ordered(&mut code, &orders);
    Ok((code, kernels))
}

/// Shared variables inside of device functions belong to the module, because several kernels may call them.
fn place_shared<'a>(layout: &mut Layout<'a>, body: &[Statement<'a>]) -> Result<(), LoadError> {
    for statement in body {
        match statement {
            Statement::Variable(variable) if variable.space == "shared" => {
                layout.place(variable)?
            }
            Statement::Block(inner) => place_shared(layout, inner)?,
            _ => {}
        }
    }
    Ok(())
}

type Places = Vec<(u32, usize)>;

/// Places parameters and results; those of a kernel lie in its launch, all others in local memory.
fn declare_params<'a>(
    builder: &mut Builder<'_, 'a>,
    parsed: &Parsed<'a>,
) -> Result<(Places, Places, Vec<Param>), Problem> {
    let scope = &mut builder.scope;
    if parsed.entry {
        let mut end = 0;
        let mut params = Vec::new();
        for param in &parsed.params {
            let offset = align(end, param.align);
            end = offset + param.size();
            if end > 32_764 {
                return Err("the parameters take more than 32,764 bytes".to_owned());
            }
            scope.declare_param(param.name, offset)?;
            params.push(Param {
                offset,
                size: param.size(),
                align: param.align,
            });
        }
        return Ok((Vec::new(), Vec::new(), params));
    }
    let mut place = |variables: &[crate::syntax::ast::Variable<'a>]| {
        variables
            .iter()
            .map(|variable| Ok((scope.declare_local(variable)?, variable.size())))
            .collect::<Result<Places, Problem>>()
    };
    Ok((place(&parsed.params)?, place(&parsed.returns)?, Vec::new()))
}

/// Labels are known before their block is decoded, because a jump may lead forward.
fn declare_labels<'a>(scope: &mut Scope<'_, 'a>, body: &[Statement<'a>]) -> Result<(), LoadError> {
    for statement in body {
        if let Statement::Label(line, name) = statement {
            scope.declare_label(name).map_err(|problem| LoadError {
                line: *line,
                problem,
            })?;
        }
    }
    Ok(())
}

fn statements<'a>(builder: &mut Builder<'_, 'a>, body: &[Statement<'a>]) -> Result<(), LoadError> {
    for statement in body {
        match statement {
            Statement::Instruction(inst) => {
                instruction(builder, inst).map_err(|problem| LoadError {
                    line: inst.line,
                    problem: format!("`{}`: {problem}", squeezed(inst.text)),
                })?
            }
            Statement::Label(line, name) => {
                let label = builder.scope.label(name).map_err(|problem| LoadError {
                    line: *line,
                    problem,
                })?;
                builder.scope.labels[label as usize] =
                    Some((builder.start + builder.insts.len()) as u32);
            }
            Statement::Register {
                line,
                name,
                ty,
                count,
            } => {
                let declared = builder.scope.declare_registers(name, ty, *count);
                declared.map_err(|problem| LoadError {
                    line: *line,
                    problem,
                })?;
            }
            Statement::Variable(variable) => match variable.space {
                "shared" if !builder.entry => {}
                "shared" if variable.count.is_some() => builder.scope.declare_shared(variable)?,
                "local" | "param" => {
                    let declared = builder.scope.declare_local(variable);
                    declared.map_err(|problem| LoadError {
                        line: variable.line,
                        problem,
                    })?;
                }
                space => {
                    let problem = format!(
                        "`.{space}` variable `{}` inside of a function is not supported",
                        variable.name
                    );
                    return Err(LoadError {
                        line: variable.line,
                        problem,
                    });
                }
            },
            Statement::Targets { line, name, labels } => {
                let declared = builder.scope.declare_targets(name, labels);
                declared.map_err(|problem| LoadError {
                    line: *line,
                    problem,
                })?;
            }
            Statement::Block(inner) => {
                builder.scope.enter();
                declare_labels(&mut builder.scope, inner)?;
                statements(builder, inner)?;
                builder.scope.leave();
            }
        }
    }
    Ok(())
}

fn instruction<'a>(builder: &mut Builder<'_, 'a>, inst: &Instruction<'a>) -> Result<(), Problem> {
    let decoder = table::find(inst.mnemonic)
        .ok_or_else(|| format!("instruction `{}` is not supported", inst.mnemonic))?;
    let guard = match inst.guard {
        Some((name, negated)) => Some((builder.scope.predicate(name)?, negated)),
        None => None,
    };
    let op = decoder(&mut Form::new(inst), builder)?;
    for (reg, name) in std::mem::take(&mut builder.scope.specials) {
        builder.insts.push(Inst {
            line: inst.line,
            guard: None,
            op: special::read(reg, name)?,
        });
    }
    builder.insts.push(Inst {
        line: inst.line,
        guard,
        op,
    });
    Ok(())
}

/// Replaces labels by the instructions they stand at.
fn link(builder: &mut Builder<'_, '_>, parsed: &Parsed<'_>) -> Result<(), LoadError> {
    let labels = &builder.scope.labels;
    let place = |label: u32| {
        labels
            .get(label as usize)
            .copied()
            .flatten()
            .ok_or_else(|| LoadError {
                line: parsed.line,
                problem: format!("`{}` jumps to a label that stands nowhere", parsed.name),
            })
    };
    for inst in &mut builder.insts {
        match &mut inst.op {
            Op::Branch(target) => *target = place(*target)?,
            Op::BranchIndexed { targets, .. } => {
                for target in targets.iter_mut() {
                    *target = place(*target)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The kinds of the function's atomics, if each alone gives the same result in any order.
fn commuting(builder: &Builder<'_, '_>) -> Option<Vec<String>> {
    let used =
        |destination: Option<Reg>| destination.is_some_and(|reg| builder.scope.read.contains(&reg));
    builder
        .atomics
        .iter()
        .map(|atomic| {
            atomic
                .commutes
                .clone()
                .filter(|_| !used(atomic.destination))
        })
        .collect()
}

/// A function is ordered if it, or one that it calls, has an atomic whose order may show.
/// Different kinds of atomics on one address do not commute, so one function may have one kind only.
fn mark_ordered(code: &mut Code, orders: &[(Option<Vec<String>>, Vec<Target>)]) {
    for index in 0..code.functions.len() {
        let mut reached = vec![index];
        let mut next = 0;
        let mut kinds: Vec<&String> = Vec::new();
        let mut ordered = false;
        while next < reached.len() {
            let (commuting, calls) = &orders[reached[next]];
            next += 1;
            match commuting {
                Some(more) => kinds.extend(more),
                None => ordered = true,
            }
            for call in calls {
                let callees: Range<usize> = match call {
                    Target::Function(function) => *function..function + 1,
                    Target::Pointer(_) => 0..orders.len(),
                };
                for callee in callees {
                    if !reached.contains(&callee) {
                        reached.push(callee);
                    }
                }
            }
        }
        code.functions[index].ordered = ordered || kinds.windows(2).any(|pair| pair[0] != pair[1]);
    }
}

/// The text of an instruction on one line.
fn squeezed(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(160) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}
