//! The names of one function: registers, variables and labels, by block.
use super::form::Problem;
use super::layout::{align, shared_place, Layout, SharedPlace};
use crate::code::{Constant, Pred, Reg, LOCAL_LIMIT};
use crate::syntax::ast::{Operand, Variable};
use crate::types::Type;
use crate::LoadError;
use rustc_hash::{FxHashMap, FxHashSet};

/// A name of a function.
#[derive(Debug, Clone, Copy)]
enum Named {
    Register {
        reg: Reg,
        bits: u32,
    },
    Predicate(Pred),
    /// `%r<10>`: registers come into being when they are first named.
    Family {
        ty: Type,
        count: u32,
    },
    /// In local memory; its size.
    Local(u32, usize),
    Shared(SharedPlace),
    /// A kernel's parameter: its offset.
    Param(u32),
    Label(u32),
    /// An index into the lists of targets.
    Targets(usize),
}

/// Where an address lies that is written as a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    Register,
    Global,
    Constant,
    Shared,
    Local,
    Param,
    Function,
    /// A number.
    Absolute,
}

/// Everything that the function being decoded has named and used.
pub(crate) struct Scope<'l, 'a> {
    pub(crate) layout: &'l Layout<'a>,
    blocks: Vec<FxHashMap<&'a str, Named>>,
    pub(crate) registers: u32,
    pub(crate) predicates: u32,
    pub(crate) local: usize,
    /// Bytes of shared memory with those of this function.
    pub(crate) shared: u32,
    constants: FxHashMap<Constant, Reg>,
    /// Special registers that the instruction names as operands: each is read into a register before it.
    pub(crate) specials: Vec<(Reg, &'a str)>,
    /// Registers that some instruction reads.
    pub(crate) read: FxHashSet<Reg>,
    /// For each label its instruction, once it is known.
    pub(crate) labels: Vec<Option<u32>>,
    pub(crate) targets: Vec<Vec<u32>>,
}

impl<'l, 'a> Scope<'l, 'a> {
    pub(crate) fn new(layout: &'l Layout<'a>) -> Scope<'l, 'a> {
        Scope {
            layout,
            blocks: vec![FxHashMap::default()],
            registers: 0,
            predicates: 0,
            local: 0,
            shared: layout.shared_bytes,
            constants: FxHashMap::default(),
            specials: Vec::new(),
            read: FxHashSet::default(),
            labels: Vec::new(),
            targets: Vec::new(),
        }
    }

    pub(crate) fn enter(&mut self) {
        self.blocks.push(FxHashMap::default());
    }

    pub(crate) fn leave(&mut self) {
        self.blocks.pop();
    }

    fn define(&mut self, name: &'a str, named: Named) -> Result<(), Problem> {
        match self
            .blocks
            .last_mut()
            .and_then(|block| block.insert(name, named))
        {
            None => Ok(()),
            Some(_) => Err(format!("`{name}` is declared twice")),
        }
    }

    pub(crate) fn declare_registers(
        &mut self,
        name: &'a str,
        ty: &str,
        count: Option<u32>,
    ) -> Result<(), Problem> {
        let Some(ty) = Type::named(ty) else {
            return Err(format!("registers of type `.{ty}` are not supported"));
        };
        let named = match count {
            Some(count) => Named::Family { ty, count },
            None => self.fresh(ty),
        };
        self.define(name, named)
    }

    fn fresh(&mut self, ty: Type) -> Named {
        if ty == Type::Pred {
            self.predicates += 1;
            return Named::Predicate(self.predicates - 1);
        }
        Named::Register {
            reg: self.new_register(),
            bits: ty.bits(),
        }
    }

    pub(crate) fn new_register(&mut self) -> Reg {
        self.registers += 1;
        self.registers - 1
    }

    /// A variable in the thread's local memory: `.local`, or a parameter outside of a kernel's own.
    pub(crate) fn declare_local(&mut self, variable: &Variable<'a>) -> Result<u32, Problem> {
        if variable.align > 128 {
            return Err(format!(
                "an alignment of {} bytes in local memory is not supported",
                variable.align
            ));
        }
        let offset = align(self.local, variable.align);
        self.local = offset + variable.size();
        if self.local > LOCAL_LIMIT {
            return Err(format!(
                "`{}` makes local memory larger than {LOCAL_LIMIT} bytes",
                variable.name
            ));
        }
        if variable.name != "_" {
            self.define(variable.name, Named::Local(offset as u32, variable.size()))?;
        }
        Ok(offset as u32)
    }

    pub(crate) fn declare_shared(&mut self, variable: &Variable<'a>) -> Result<(), LoadError> {
        let (place, end) = shared_place(self.shared, variable)?;
        self.shared = end;
        self.define(variable.name, Named::Shared(place))
            .map_err(|problem| LoadError {
                line: variable.line,
                problem,
            })
    }

    pub(crate) fn declare_param(&mut self, name: &'a str, offset: usize) -> Result<(), Problem> {
        self.define(name, Named::Param(offset as u32))
    }

    pub(crate) fn declare_label(&mut self, name: &'a str) -> Result<(), Problem> {
        self.labels.push(None);
        self.define(name, Named::Label(self.labels.len() as u32 - 1))
    }

    pub(crate) fn declare_targets(
        &mut self,
        name: &'a str,
        labels: &[&'a str],
    ) -> Result<(), Problem> {
        let labels = labels
            .iter()
            .map(|label| self.label(label))
            .collect::<Result<_, _>>()?;
        self.targets.push(labels);
        self.define(name, Named::Targets(self.targets.len() - 1))
    }

    fn find(&mut self, name: &'a str) -> Option<Named> {
        if let Some(&named) = self.blocks.iter().rev().find_map(|block| block.get(name)) {
            return Some(named).filter(|named| !matches!(named, Named::Family { .. }));
        }
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = &name[prefix.len()..];
        if number.len() > 1 && number.starts_with('0') {
            return None;
        }
        let number: u32 = number.parse().ok()?;
        let at = self
            .blocks
            .iter()
            .rposition(|block| block.contains_key(prefix))?;
        let Some(&Named::Family { ty, count }) = self.blocks[at].get(prefix) else {
            return None;
        };
        if number >= count {
            return None;
        }
        let named = self.fresh(ty);
        self.blocks[at].insert(name, named);
        Some(named)
    }

    pub(crate) fn label(&mut self, name: &'a str) -> Result<u32, Problem> {
        match self.find(name) {
            Some(Named::Label(label)) => Ok(label),
            _ => Err(format!("`{name}` is no label of this function")),
        }
    }

    pub(crate) fn target_list(&mut self, name: &'a str) -> Result<Vec<u32>, Problem> {
        match self.find(name) {
            Some(Named::Targets(index)) => Ok(self.targets[index].clone()),
            _ => Err(format!("`{name}` is no list of branch targets")),
        }
    }

    /// A variable in local memory: its offset and size.
    pub(crate) fn local_variable(&mut self, name: &'a str) -> Result<(u32, usize), Problem> {
        match self.find(name) {
            Some(Named::Local(offset, size)) => Ok((offset, size)),
            _ => Err(format!("`{name}` is no parameter that was declared here")),
        }
    }

    /// The register that holds a constant.
    pub(crate) fn constant(&mut self, constant: Constant) -> Reg {
        if let Some(&reg) = self.constants.get(&constant) {
            return reg;
        }
        let reg = self.new_register();
        self.constants.insert(constant, reg);
        reg
    }

    pub(crate) fn constants(&self) -> Vec<(Reg, Constant)> {
        let mut all: Vec<_> = self
            .constants
            .iter()
            .map(|(&constant, &reg)| (reg, constant))
            .collect();
        all.sort_unstable_by_key(|&(reg, _)| reg);
        all
    }

    /// The register of this name and its bits.
    pub(crate) fn register(&mut self, name: &'a str) -> Result<(Reg, u32), Problem> {
        match self.find(name) {
            Some(Named::Register { reg, bits }) => Ok((reg, bits)),
            Some(Named::Predicate(_)) => {
                Err(format!("`{name}` is a predicate; a register was expected"))
            }
            Some(_) => Err(format!("`{name}` is no register")),
            None => Err(format!("register `{name}` is not declared")),
        }
    }

    /// A register that is written; it must have `bits` bits.
    pub(crate) fn destination(&mut self, operand: &Operand<'a>, bits: u32) -> Result<Reg, Problem> {
        let (reg, found) = self.wide_destination(operand)?;
        if found != bits {
            return Err(format!("{} has {found} bits, not {bits}", show(operand)));
        }
        Ok(reg)
    }

    /// A register that is written, of any width, and its bits.
    pub(crate) fn wide_destination(
        &mut self,
        operand: &Operand<'a>,
    ) -> Result<(Reg, u32), Problem> {
        match operand {
            Operand::Name(name, 0) => self.register(name),
            _ => Err(format!("{} cannot be a destination", show(operand))),
        }
    }

    /// A register that holds the operand, which must have the type's bits.
    pub(crate) fn source(&mut self, operand: &Operand<'a>, ty: Type) -> Result<Reg, Problem> {
        let (reg, bits) = self.wide_source(operand, ty)?;
        if bits != ty.bits() {
            return Err(format!(
                "{} has {bits} bits, not {}",
                show(operand),
                ty.bits()
            ));
        }
        Ok(reg)
    }

    /// Several operands of the same type.
    pub(crate) fn sources<const N: usize>(
        &mut self,
        operands: [&Operand<'a>; N],
        ty: Type,
    ) -> Result<[Reg; N], Problem> {
        let mut regs = [0; N];
        for (reg, operand) in regs.iter_mut().zip(operands) {
            *reg = self.source(operand, ty)?;
        }
        Ok(regs)
    }

    /// A register that holds the operand, and its bits: literals have those of the type.
    pub(crate) fn wide_source(
        &mut self,
        operand: &Operand<'a>,
        ty: Type,
    ) -> Result<(Reg, u32), Problem> {
        let bits = ty.bits();
        match *operand {
            Operand::Integer(value) if ty.is_float() => Err(format!(
                "the integer {value} is no {} literal",
                show_type(ty)
            )),
            Operand::Integer(value) => {
                let reg = self.constant(Constant::Bits(crate::types::truncate(value, bits)));
                Ok((reg, bits))
            }
            Operand::Single(value) if matches!(ty, Type::F32 | Type::B32) => {
                Ok((self.constant(Constant::Bits(u64::from(value))), 32))
            }
            Operand::Double(value) if matches!(ty, Type::F64 | Type::B64) => {
                Ok((self.constant(Constant::Bits(value)), 64))
            }
            // Decimal fractions are doubles that take the type of the instruction.
            Operand::Double(value) if ty == Type::F32 => {
                let value = f64::from_bits(value) as f32;
                Ok((
                    self.constant(Constant::Bits(u64::from(value.to_bits()))),
                    32,
                ))
            }
            Operand::Name(name, 0) if super::special::bits(name).is_some() => {
                let reg = self.new_register();
                self.specials.push((reg, name));
                Ok((reg, super::special::bits(name).unwrap_or(32)))
            }
            Operand::Name(name, offset) => {
                if offset == 0 {
                    if let Some(Named::Register { reg, bits }) = self.find(name) {
                        self.read.insert(reg);
                        return Ok((reg, bits));
                    }
                }
                let (home, reg) = self.address_of(name, offset)?;
                // The address of a shared variable fits 32 bits, and nvrtc uses that.
                if home == Home::Register || bits != 64 && !(bits == 32 && home == Home::Shared) {
                    return Err(format!("{} is no operand of {bits} bits", show(operand)));
                }
                Ok((reg, bits))
            }
            _ => Err(format!(
                "{} is no operand of type {}",
                show(operand),
                show_type(ty)
            )),
        }
    }

    /// A register that holds the address which `name` stands for.
    pub(crate) fn address_of(
        &mut self,
        name: &'a str,
        offset: i64,
    ) -> Result<(Home, Reg), Problem> {
        let number = |base: u32| Constant::Bits(i64::from(base).wrapping_add(offset) as u64);
        match self.find(name) {
            Some(Named::Register { reg, bits }) => {
                if bits < 32 {
                    return Err(format!("`{name}` has {bits} bits, too few for an address"));
                }
                self.read.insert(reg);
                return Ok((Home::Register, reg));
            }
            Some(Named::Local(base, _)) => {
                let at = u32::try_from(i64::from(base).wrapping_add(offset)).unwrap_or(u32::MAX);
                return Ok((Home::Local, self.constant(Constant::Local(at))));
            }
            Some(Named::Shared(place)) => {
                return Ok((Home::Shared, self.shared_address(place, offset)))
            }
            Some(Named::Param(base)) => return Ok((Home::Param, self.constant(number(base)))),
            Some(_) => return Err(format!("`{name}` has no address")),
            None => {}
        }
        if let Some(&index) = self.layout.globals.get(name) {
            let home = if self.layout.variables[index].space == "const" {
                Home::Constant
            } else {
                Home::Global
            };
            return Ok((home, self.constant(Constant::Global(index, offset))));
        }
        if let Some(&place) = self.layout.shared.get(name) {
            return Ok((Home::Shared, self.shared_address(place, offset)));
        }
        if let Some(&index) = self.layout.functions.get(name) {
            if offset != 0 {
                return Err(format!(
                    "`{name}` is a function, which has no inner addresses"
                ));
            }
            let address = crate::code::function_address(index);
            return Ok((Home::Function, self.constant(Constant::Bits(address))));
        }
        Err(format!("`{name}` is not declared"))
    }

    fn shared_address(&mut self, place: SharedPlace, offset: i64) -> Reg {
        self.constant(match place {
            SharedPlace::At(base) => Constant::Bits(i64::from(base).wrapping_add(offset) as u64),
            SharedPlace::Dynamic => Constant::DynamicShared(offset),
        })
    }

    pub(crate) fn predicate(&mut self, name: &'a str) -> Result<Pred, Problem> {
        match self.find(name) {
            Some(Named::Predicate(pred)) => Ok(pred),
            Some(_) => Err(format!("`{name}` is no predicate")),
            None => Err(format!("predicate `{name}` is not declared")),
        }
    }

    /// `%p1` or `!%p1`: the predicate and whether it is negated.
    pub(crate) fn truth(&mut self, operand: &Operand<'a>) -> Result<(Pred, bool), Problem> {
        match *operand {
            Operand::Name(name, 0) => Ok((self.predicate(name)?, false)),
            Operand::Not(name) => Ok((self.predicate(name)?, true)),
            _ => Err(format!("{} is no predicate", show(operand))),
        }
    }
}

/// An operand, for a message.
pub(crate) fn show(operand: &Operand<'_>) -> String {
    match operand {
        Operand::Name(name, 0) => format!("`{name}`"),
        Operand::Name(name, offset) => format!("`{name}+{offset}`"),
        Operand::Integer(value) => format!("`{}`", *value as i64),
        Operand::Single(bits) => format!("`0f{bits:08X}`"),
        Operand::Double(bits) => format!("`0d{bits:016X}`"),
        Operand::Not(name) => format!("`!{name}`"),
        Operand::Pair(first, second) => format!("`{first}|{second}`"),
        Operand::Address(..) => "an address in brackets".to_owned(),
        Operand::Vector(_) => "a list in braces".to_owned(),
        Operand::List(_) => "a list in parentheses".to_owned(),
    }
}

fn show_type(ty: Type) -> String {
    format!(".{ty:?}").to_lowercase()
}
