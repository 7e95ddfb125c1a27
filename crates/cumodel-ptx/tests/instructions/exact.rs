//! Floats as exact fractions, rounded by their digits.
use num_rational::BigRational;
use num_traits::{Signed, ToPrimitive, Zero};

/// A binary format: bits of the exponent and of the fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format(pub u32, pub u32);

pub const HALF: Format = Format(5, 10);
pub const BRAIN: Format = Format(8, 7);
pub const SINGLE: Format = Format(8, 23);
pub const DOUBLE: Format = Format(11, 52);

/// The format of a type.
pub fn format(ty: &str) -> Format {
    match ty {
        "f16" | "f16x2" => HALF,
        "bf16" | "bf16x2" => BRAIN,
        "f32" => SINGLE,
        _ => DOUBLE,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Nearest,
    Zero,
    Down,
    Up,
}

pub const MODES: [(&str, Mode); 4] = [
    ("rn", Mode::Nearest),
    ("rz", Mode::Zero),
    ("rm", Mode::Down),
    ("rp", Mode::Up),
];

impl Format {
    fn total(self) -> u32 {
        1 + self.0 + self.1
    }

    pub fn sign(self) -> u64 {
        1 << (self.total() - 1)
    }

    pub fn infinity(self) -> u64 {
        ((1 << self.0) - 1) << self.1
    }

    pub fn is_nan(self, word: u64) -> bool {
        word & !self.sign() > self.infinity()
    }

    pub fn is_finite(self, word: u64) -> bool {
        word & !self.sign() < self.infinity()
    }

    pub fn is_subnormal(self, word: u64) -> bool {
        let magnitude = word & !self.sign();
        magnitude != 0 && magnitude >> self.1 == 0
    }

    /// What single-precision results of NaN are; the others are any NaN.
    pub fn same(self, found: u64, expected: u64) -> bool {
        match (self.is_nan(found), self.is_nan(expected)) {
            (true, true) => self != SINGLE || found == 0x7fff_ffff,
            _ => found == expected,
        }
    }

    /// The exact value of a finite float.
    pub fn value(self, word: u64) -> BigRational {
        let magnitude = word & !self.sign();
        let (exponent, fraction) = (magnitude >> self.1, magnitude & ((1 << self.1) - 1));
        let bias = (1i32 << (self.0 - 1)) - 1;
        let (digits, power) = match exponent {
            0 => (fraction, 1 - bias - self.1 as i32),
            _ => (
                fraction | 1 << self.1,
                exponent as i32 - bias - self.1 as i32,
            ),
        };
        let value = BigRational::from_integer(digits.into()) * power_of_two(power);
        if word & self.sign() != 0 {
            -value
        } else {
            value
        }
    }

    /// The float that stands for a value which is not zero.
    pub fn round(self, exact: &BigRational, mode: Mode) -> u64 {
        let magnitude = exact.abs();
        let negative = exact.is_negative();
        let sign = if negative { self.sign() } else { 0 };
        let (bias, fraction) = ((1i32 << (self.0 - 1)) - 1, self.1 as i32);
        // The exponent: between the lengths of numerator and denominator there is room for one error.
        let length = magnitude.numer().bits() as i32 - magnitude.denom().bits() as i32;
        let exponent = if magnitude < power_of_two(length) {
            length - 1
        } else {
            length
        };
        let exponent = exponent.max(1 - bias);
        // The largest finite float not above the magnitude: its digits, counted in units of the last place.
        let digits = (&magnitude / power_of_two(exponent - fraction))
            .to_integer()
            .to_u64()
            .unwrap();
        let low = match digits.checked_sub(1 << fraction) {
            None => digits,
            Some(rest) => ((exponent + bias).min(1 << self.0) as u64) << fraction | rest,
        };
        let low = low.min(self.infinity() - 1);
        let below = self.value(low);
        if below == magnitude {
            return sign | low;
        }
        // Beyond the last float the next one would be a power of two, which infinity stands for.
        let above = self.value(low)
            + (self.value(low)
                - if low == 0 {
                    self.value(low)
                } else {
                    self.value(low - 1)
                });
        let above = if low + 1 < self.infinity() {
            self.value(low + 1)
        } else {
            above
        };
        let up = match mode {
            Mode::Zero => false,
            Mode::Down => negative,
            Mode::Up => !negative,
            Mode::Nearest => {
                let (down, up) = (&magnitude - &below, &above - &magnitude);
                up < down || (up == down && low & 1 == 1)
            }
        };
        sign | if up { low + 1 } else { low }
    }

    /// The float of a value that may be zero; `zero_negative` is the sign of that.
    pub fn round_any(self, exact: &BigRational, mode: Mode, zero_negative: bool) -> u64 {
        match (exact.is_zero(), zero_negative) {
            (true, true) => self.sign(),
            (true, false) => 0,
            _ => self.round(exact, mode),
        }
    }

    pub fn flush(self, word: u64, flush: bool) -> u64 {
        if flush && self.is_subnormal(word) {
            word & self.sign()
        } else {
            word
        }
    }

    /// `a * b + c`, with all that is not finite by the rules of IEEE 754.
    pub fn fma(self, a: u64, b: u64, c: u64, mode: Mode) -> u64 {
        let nan = self.infinity() | 1;
        let product_sign = (a ^ b) & self.sign();
        if [a, b, c].iter().any(|&word| self.is_nan(word)) {
            return nan;
        }
        if !self.is_finite(a) || !self.is_finite(b) {
            let zero = |word: u64| word & !self.sign() == 0;
            if zero(a) || zero(b) || (!self.is_finite(c) && c & self.sign() != product_sign) {
                return nan;
            }
            return product_sign | self.infinity();
        }
        if !self.is_finite(c) {
            return c;
        }
        let product = self.value(a) * self.value(b);
        let same_sign = product_sign == c & self.sign();
        let zero_negative = if same_sign {
            product_sign != 0
        } else {
            mode == Mode::Down
        };
        self.round_any(&(product + self.value(c)), mode, zero_negative)
    }

    pub fn one(self) -> u64 {
        ((1 << (self.0 - 1)) - 1) << self.1
    }

    pub fn add(self, a: u64, b: u64, mode: Mode) -> u64 {
        self.fma(a, self.one(), b, mode)
    }

    pub fn mul(self, a: u64, b: u64, mode: Mode) -> u64 {
        // Adding a zero of the product's sign changes nothing.
        self.fma(a, b, (a ^ b) & self.sign(), mode)
    }

    pub fn div(self, a: u64, b: u64, mode: Mode) -> u64 {
        let nan = self.infinity() | 1;
        let sign = (a ^ b) & self.sign();
        let (zero_a, zero_b) = (a & !self.sign() == 0, b & !self.sign() == 0);
        match (self.is_finite(a), self.is_finite(b)) {
            _ if self.is_nan(a) || self.is_nan(b) => nan,
            (false, false) => nan,
            (false, true) => sign | self.infinity(),
            (true, false) => sign,
            _ if zero_a && zero_b => nan,
            _ if zero_b => sign | self.infinity(),
            _ => self.round_any(&(self.value(a) / self.value(b)), mode, sign != 0),
        }
    }
}

pub fn power_of_two(power: i32) -> BigRational {
    let two = BigRational::from_integer(2.into());
    num_traits::pow::Pow::pow(two, power)
}

#[test]
fn rounding_is_what_the_host_computes() {
    for (a, b) in [
        (0.1f32, 0.2f32),
        (1e-40, 3.0),
        (3e38, 3e38),
        (-1.5, 1.5),
        (0.0, -0.0),
        (f32::INFINITY, -1.0),
    ] {
        let words = (u64::from(a.to_bits()), u64::from(b.to_bits()));
        assert_eq!(
            SINGLE.add(words.0, words.1, Mode::Nearest),
            u64::from((a + b).to_bits()),
            "{a} + {b}"
        );
        assert_eq!(
            SINGLE.mul(words.0, words.1, Mode::Nearest),
            u64::from((a * b).to_bits()),
            "{a} * {b}"
        );
    }
    assert_eq!(
        DOUBLE.div(1f64.to_bits(), 3f64.to_bits(), Mode::Nearest),
        (1.0f64 / 3.0).to_bits()
    );
    assert_eq!(
        HALF.round(&BigRational::from_integer(65_519.into()), Mode::Nearest),
        0x7bff
    );
    assert_eq!(
        HALF.round(&BigRational::from_integer(65_520.into()), Mode::Nearest),
        0x7c00
    );
}
