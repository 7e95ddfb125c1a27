//! Floating-point arithmetic as PTX defines it: rounding modes, flushing and saturation.
use crate::types::Lane;
use rustc_apfloat::ieee::{Double, Quad, Single};
use rustc_apfloat::{Float as _, FloatConvert, Round};

/// How a result is rounded and what happens around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) round: Round,
    /// Subnormal operands and results become zeros of the same sign.
    pub(super) flush: bool,
    /// The result is clamped to 0 to 1, NaN becomes 0.
    pub(super) saturate: bool,
}

impl Mode {
    pub(super) const PLAIN: Mode = Mode {
        round: Round::NearestTiesToEven,
        flush: false,
        saturate: false,
    };
}

/// The rounding modes of results.
pub(super) const ROUNDS: &[(&str, Round)] = &[
    ("rn", Round::NearestTiesToEven),
    ("rz", Round::TowardZero),
    ("rm", Round::TowardNegative),
    ("rp", Round::TowardPositive),
];

/// `f32` and `f64`.
///
/// Rounding to nearest is the host's own arithmetic, which IEEE 754 defines to the bit; the other modes are computed by
/// LLVM's soft floating point.
pub(super) trait Real: Lane + PartialOrd {
    const NAN: Self;
    fn is_nan(self) -> bool;
    fn is_subnormal(self) -> bool;
    fn zero_like(self) -> Self;
    fn clamp_01(self) -> Self;
    fn has_sign(self) -> bool;
    fn with_sign(self, negative: bool) -> Self;
    fn add(self, other: Self, round: Round) -> Self;
    fn mul(self, other: Self, round: Round) -> Self;
    fn div(self, other: Self, round: Round) -> Self;
    fn fma(self, b: Self, c: Self, round: Round) -> Self;
    fn sqrt(self, round: Round) -> Self;
    fn from_double(value: f64, round: Round) -> Self;

    /// One NaN stands for all, because PTX says nothing about payloads.
    #[inline(always)]
    fn canonical(self) -> Self {
        if self.is_nan() {
            Self::NAN
        } else {
            self
        }
    }

    #[inline(always)]
    fn flushed(self, flush: bool) -> Self {
        if flush && self.is_subnormal() {
            self.zero_like()
        } else {
            self
        }
    }

    /// What is done to every result.
    #[inline(always)]
    fn finished(self, mode: Mode) -> Self {
        let value = self.flushed(mode.flush);
        if mode.saturate {
            value.clamp_01()
        } else {
            value.canonical()
        }
    }
}

macro_rules! real {
    ($ty:ident, $soft:ident, $nan:expr) => {
        impl Real for $ty {
            const NAN: Self = $ty::from_bits($nan);
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn is_subnormal(self) -> bool {
                self.is_subnormal()
            }
            #[inline(always)]
            fn zero_like(self) -> Self {
                (0.0 as $ty).copysign(self)
            }
            fn clamp_01(self) -> Self {
                // NaN and -0 become +0.
                if self > 0.0 {
                    self.min(1.0)
                } else {
                    0.0
                }
            }
            fn has_sign(self) -> bool {
                self.is_sign_negative()
            }
            fn with_sign(self, negative: bool) -> Self {
                self.copysign(if negative { -1.0 } else { 1.0 })
            }
            #[inline(always)]
            fn add(self, other: Self, round: Round) -> Self {
                if round == Round::NearestTiesToEven {
                    return self + other;
                }
                soft::<$soft>(&[self.to_lane(), other.to_lane()], |v| {
                    v[0].add_r(v[1], round).value
                })
                .map_or(Self::NAN, Lane::from_lane)
            }
            #[inline(always)]
            fn mul(self, other: Self, round: Round) -> Self {
                if round == Round::NearestTiesToEven {
                    return self * other;
                }
                soft::<$soft>(&[self.to_lane(), other.to_lane()], |v| {
                    v[0].mul_r(v[1], round).value
                })
                .map_or(Self::NAN, Lane::from_lane)
            }
            #[inline(always)]
            fn div(self, other: Self, round: Round) -> Self {
                if round == Round::NearestTiesToEven {
                    return self / other;
                }
                soft::<$soft>(&[self.to_lane(), other.to_lane()], |v| {
                    v[0].div_r(v[1], round).value
                })
                .map_or(Self::NAN, Lane::from_lane)
            }
            #[inline(always)]
            fn fma(self, b: Self, c: Self, round: Round) -> Self {
                if round == Round::NearestTiesToEven {
                    return self.mul_add(b, c);
                }
                soft::<$soft>(&[self.to_lane(), b.to_lane(), c.to_lane()], |v| {
                    v[0].mul_add_r(v[1], v[2], round).value
                })
                .map_or(Self::NAN, Lane::from_lane)
            }
            fn sqrt(self, round: Round) -> Self {
                let root = self.sqrt();
                if round == Round::NearestTiesToEven || !root.is_finite() || root == 0.0 {
                    return root;
                }
                // The square of a root fits 113 bits exactly, so the sign of what is missing is exact, too.
                let mut lossy = false;
                let quad = |value: $ty, lossy: &mut bool| -> Quad {
                    $soft::from_bits(u128::from(value.to_lane()))
                        .convert(lossy)
                        .value
                };
                let (square, root_quad) = (quad(self, &mut lossy), quad(root, &mut lossy));
                let missing = square - (root_quad * root_quad).value;
                let missing = missing.value;
                if missing.is_zero() {
                    root
                } else if missing.is_negative() {
                    // The root lies above the true one.
                    if round == Round::TowardPositive {
                        root
                    } else {
                        root.next_down()
                    }
                } else if round == Round::TowardPositive {
                    root.next_up()
                } else {
                    root
                }
            }
            fn from_double(value: f64, round: Round) -> Self {
                if round == Round::NearestTiesToEven {
                    return value as $ty;
                }
                let mut lossy = false;
                let soft: $soft = Double::from_bits(u128::from(value.to_bits()))
                    .convert_r(round, &mut lossy)
                    .value;
                if soft.is_nan() {
                    Self::NAN
                } else {
                    Lane::from_lane(soft.to_bits() as u64)
                }
            }
        }
    };
}

real!(f32, Single, 0x7fff_ffff);
real!(f64, Double, 0x7ff8_0000_0000_0000);

/// Computes with soft floating point; `None` for NaN.
fn soft<F: rustc_apfloat::Float>(values: &[u64], f: impl Fn(&[F]) -> F) -> Option<u64> {
    let values: Vec<F> = values
        .iter()
        .map(|&bits| F::from_bits(u128::from(bits)))
        .collect();
    let result = f(&values);
    (!result.is_nan()).then(|| result.to_bits() as u64)
}
