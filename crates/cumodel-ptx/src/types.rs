//! The types of PTX, and how each lies in a register.

/// A type as it stands behind the dot of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Type {
    B8,
    B16,
    B32,
    B64,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F64,
    Pred,
}

impl Type {
    /// The type of this name, without the dot.
    pub(crate) fn named(name: &str) -> Option<Type> {
        Some(match name {
            "b8" => Type::B8,
            "b16" => Type::B16,
            "b32" => Type::B32,
            "b64" => Type::B64,
            "u8" => Type::U8,
            "u16" => Type::U16,
            "u32" => Type::U32,
            "u64" => Type::U64,
            "s8" => Type::S8,
            "s16" => Type::S16,
            "s32" => Type::S32,
            "s64" => Type::S64,
            "f16" => Type::F16,
            "f16x2" => Type::F16x2,
            "bf16" => Type::Bf16,
            "bf16x2" => Type::Bf16x2,
            "f32" => Type::F32,
            "f64" => Type::F64,
            "pred" => Type::Pred,
            _ => return None,
        })
    }

    pub(crate) fn bits(self) -> u32 {
        match self {
            Type::Pred => 1,
            Type::B8 | Type::U8 | Type::S8 => 8,
            Type::B16 | Type::U16 | Type::S16 | Type::F16 | Type::Bf16 => 16,
            Type::B32 | Type::U32 | Type::S32 | Type::F32 | Type::F16x2 | Type::Bf16x2 => 32,
            Type::B64 | Type::U64 | Type::S64 | Type::F64 => 64,
        }
    }

    /// Bytes in memory.
    pub(crate) fn bytes(self) -> usize {
        self.bits().div_ceil(8) as usize
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Type::S8 | Type::S16 | Type::S32 | Type::S64)
    }

    /// Bits without a meaning.
    pub(crate) fn is_untyped(self) -> bool {
        matches!(self, Type::B8 | Type::B16 | Type::B32 | Type::B64)
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(
            self,
            Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 | Type::F32 | Type::F64
        )
    }
}

/// A Rust type that a lane of a register can hold: in the low bits, with zeros above.
pub(crate) trait Lane: Copy {
    fn from_lane(bits: u64) -> Self;
    fn to_lane(self) -> u64;
}

macro_rules! lane {
    ($($ty:ty as $unsigned:ty),*) => {$(
        impl Lane for $ty {
            #[inline(always)]
            fn from_lane(bits: u64) -> Self {
                bits as $ty
            }
            #[inline(always)]
            fn to_lane(self) -> u64 {
                u64::from(self as $unsigned)
            }
        }
    )*};
}

lane!(u8 as u8, u16 as u16, u32 as u32, u64 as u64, i8 as u8, i16 as u16, i32 as u32, i64 as u64);

impl Lane for f32 {
    #[inline(always)]
    fn from_lane(bits: u64) -> Self {
        f32::from_bits(bits as u32)
    }
    #[inline(always)]
    fn to_lane(self) -> u64 {
        u64::from(self.to_bits())
    }
}

impl Lane for f64 {
    #[inline(always)]
    fn from_lane(bits: u64) -> Self {
        f64::from_bits(bits)
    }
    #[inline(always)]
    fn to_lane(self) -> u64 {
        self.to_bits()
    }
}

/// The low `bits` of a value, sign-extended to 64.
#[inline(always)]
pub(crate) fn sign_extend(value: u64, bits: u32) -> u64 {
    let unused = 64 - bits;
    ((value << unused) as i64 >> unused) as u64
}

/// The low `bits` of a value.
#[inline(always)]
pub(crate) fn truncate(value: u64, bits: u32) -> u64 {
    value & (u64::MAX >> (64 - bits))
}
