//! One instruction on its way through a decoder: what is left of its modifiers, and its operands.
use crate::syntax::ast::{Instruction, Operand};
use crate::types::Type;

/// Why an instruction is refused; the line and the text are added by the caller.
pub(crate) type Problem = String;

/// An instruction whose modifiers are taken one after the other.
///
/// A modifier that no decoder takes is an error, so nothing that changes the meaning can be overlooked.
pub(crate) struct Form<'i, 'a> {
    pub(crate) inst: &'i Instruction<'a>,
    modifiers: Vec<&'a str>,
}

impl<'i, 'a> Form<'i, 'a> {
    pub(crate) fn new(inst: &'i Instruction<'a>) -> Form<'i, 'a> {
        Form {
            inst,
            modifiers: inst.modifiers.clone(),
        }
    }

    /// Takes this modifier, if it is there.
    pub(crate) fn take(&mut self, name: &str) -> bool {
        let found = self.modifiers.iter().position(|modifier| *modifier == name);
        if let Some(at) = found {
            self.modifiers.remove(at);
        }
        found.is_some()
    }

    /// Takes the first of these modifiers that is there.
    pub(crate) fn choose<T: Copy>(&mut self, choices: &[(&str, T)]) -> Option<T> {
        choices
            .iter()
            .find(|(name, _)| self.take(name))
            .map(|&(_, choice)| choice)
    }

    /// Takes one of these modifiers, which must be there.
    pub(crate) fn require<T: Copy>(&mut self, choices: &[(&str, T)]) -> Result<T, Problem> {
        self.choose(choices).ok_or_else(|| {
            let names: Vec<_> = choices.iter().map(|(name, _)| format!(".{name}")).collect();
            format!("one of {} is missing", names.join(", "))
        })
    }

    /// Takes the first modifier that is a type, which must be one of `allowed`.
    pub(crate) fn ty(&mut self, allowed: &[Type]) -> Result<Type, Problem> {
        let found = self
            .modifiers
            .iter()
            .enumerate()
            .find_map(|(at, name)| Some((at, Type::named(name)?)));
        match found {
            Some((at, ty)) if allowed.contains(&ty) => {
                self.modifiers.remove(at);
                Ok(ty)
            }
            Some((at, _)) => Err(format!(
                "type `.{}` is not supported here",
                self.modifiers[at]
            )),
            None => Err("the type is missing".to_owned()),
        }
    }

    /// All modifiers were taken, and there are this many operands.
    pub(crate) fn finish<const N: usize>(&mut self) -> Result<&'i [Operand<'a>; N], Problem> {
        self.no_more_modifiers()?;
        let operands = &self.inst.operands;
        operands[..]
            .try_into()
            .map_err(|_| format!("{} operands were expected, not {}", N, operands.len()))
    }

    pub(crate) fn no_more_modifiers(&self) -> Result<(), Problem> {
        match self.modifiers.first() {
            None => Ok(()),
            Some(modifier) => Err(format!("modifier `.{modifier}` is not supported here")),
        }
    }
}

/// Integers of 16 to 64 bits.
pub(crate) const INTEGERS: &[Type] = &[
    Type::U16,
    Type::U32,
    Type::U64,
    Type::S16,
    Type::S32,
    Type::S64,
];

/// Runs `$body` with `$name` standing for the Rust type of an integer type, and fails for others.
macro_rules! with_integer {
    ($ty:expr, $name:ident => $body:expr) => {
        match $ty {
            $crate::types::Type::U8 | $crate::types::Type::B8 => {
                type $name = u8;
                $body
            }
            $crate::types::Type::S8 => {
                type $name = i8;
                $body
            }
            $crate::types::Type::U16 | $crate::types::Type::B16 => {
                type $name = u16;
                $body
            }
            $crate::types::Type::S16 => {
                type $name = i16;
                $body
            }
            $crate::types::Type::U32 | $crate::types::Type::B32 => {
                type $name = u32;
                $body
            }
            $crate::types::Type::S32 => {
                type $name = i32;
                $body
            }
            $crate::types::Type::S64 => {
                type $name = i64;
                $body
            }
            _ => {
                type $name = u64;
                $body
            }
        }
    };
}
pub(crate) use with_integer;
