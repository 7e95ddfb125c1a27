//! Straight-line kernels of random C, compiled by nvrtc and by the host's compiler: the results agree bit for bit.
//!
//! Contraction is off on both sides. The text of a function is the same for both, and undefined behaviour is kept out of
//! it: sums wrap in unsigned types, shift amounts and divisors are bounded, floats are clamped before they become integers.
#[path = "support/nvrtc.rs"]
mod nvrtc;
#[path = "support/mod.rs"]
mod support;

use std::fmt::Write as _;
use support::{at, Device, Numbers};

/// Functions in one compilation.
const BATCH: u64 = 125;
const BATCHES: u64 = 4;
/// Inputs and outputs of a function, 64 bits each.
const INPUTS: usize = 8;
const OUTPUTS: usize = 4;
/// Threads: two warps and a part of a third.
const ELEMENTS: usize = 70;

const PRELUDE: &str = r#"
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef signed char s8; typedef short s16; typedef int s32; typedef long long s64; typedef float f32; typedef double f64;
#ifdef __CUDACC_RTC__
#define FN static __device__ __forceinline__
#define POPC(x) __popcll(x)
#define CLZ(x) __clzll(x)
#define MULHI(a, b) __umul64hi(a, b)
#define BITS32(x) __float_as_uint(x)
#define BITS64(x) ((u64)__double_as_longlong(x))
#define FROM32(x) __uint_as_float(x)
#define FROM64(x) __longlong_as_double((s64)(x))
#else
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define FN static
#define POPC(x) __builtin_popcountll(x)
#define CLZ(x) ((x) ? __builtin_clzll(x) : 64)
#define MULHI(a, b) ((u64)(((unsigned __int128)(a) * (b)) >> 64))
static u32 BITS32(f32 x) { u32 b; memcpy(&b, &x, 4); return b; }
static u64 BITS64(f64 x) { u64 b; memcpy(&b, &x, 8); return b; }
static f32 FROM32(u32 x) { f32 f; memcpy(&f, &x, 4); return f; }
static f64 FROM64(u64 x) { f64 f; memcpy(&f, &x, 8); return f; }
#endif
/* NaN has many patterns, and neither side promises one. */
#define OUT32(x) ((x) != (x) ? 1u : BITS32(x))
#define OUT64(x) ((x) != (x) ? 1ull : BITS64(x))
#define TO_S32(x) ((x) > -2e9 && (x) < 2e9 ? (s32)(x) : 7)
#define TO_S64(x) ((x) > -9e18 && (x) < 9e18 ? (s64)(x) : -7)
"#;

const TYPES: [&str; 10] = [
    "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64",
];

fn is_float(ty: &str) -> bool {
    ty.starts_with('f')
}

/// The unsigned type that arithmetic on this integer type is done in.
fn unsigned(ty: &str) -> &'static str {
    if ty.ends_with("64") {
        "u64"
    } else {
        "u32"
    }
}

struct Writer {
    numbers: Numbers,
    /// Type of each variable `v0`, `v1`…
    variables: Vec<&'static str>,
}

impl Writer {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.numbers.below(from.len() as u64) as usize]
    }

    /// An operand of this type: a variable, converted where it has another one, or a literal.
    fn operand(&mut self, ty: &str) -> String {
        if self.numbers.below(8) == 0 {
            // No zeros among the floats: gcc 12 takes `0.0 - (double)i` for `-(double)i`, which differs for i = 0.
            let literals: &[&str] = match ty {
                "f32" => &[
                    "0.5f",
                    "1.0f",
                    "-2.5f",
                    "3.1415927f",
                    "1e-38f",
                    "16777216.0f",
                    "1e30f",
                ],
                "f64" => &[
                    "0.5",
                    "1.0",
                    "-2.5",
                    "3.141592653589793",
                    "1e-308",
                    "9007199254740992.0",
                    "1e200",
                ],
                _ => &[
                    "0",
                    "1",
                    "2",
                    "-1",
                    "7",
                    "100",
                    "0x55",
                    "-128",
                    "255",
                    "0x7fffffff",
                    "65535",
                ],
            };
            return format!("(({ty}){})", self.pick(literals));
        }
        let index = self.numbers.below(self.variables.len() as u64) as usize;
        let from = self.variables[index];
        let variable = format!("v{index}");
        match (is_float(from), is_float(ty)) {
            _ if from == ty => variable,
            (true, false) if ty == "s64" => format!("TO_S64({variable})"),
            (true, false) => format!("(({ty})TO_S32({variable}))"),
            _ => format!("(({ty}){variable})"),
        }
    }

    fn integer(&mut self, ty: &str) -> String {
        let (a, b, wide) = (self.operand(ty), self.operand(ty), unsigned(ty));
        let bits = if ty.ends_with("64") { 63 } else { 31 };
        match self.numbers.below(16) {
            0 | 1 => format!("(({wide}){a} + ({wide}){b})"),
            2 => format!("(({wide}){a} - ({wide}){b})"),
            3 | 4 => format!("(({wide}){a} * ({wide}){b})"),
            // The least number divided by -1 overflows, so small divisors are replaced.
            5 => format!("({a} / (({b} == 0 || {b} == ({ty})-1) ? ({ty})3 : {b}))"),
            6 => format!("({a} % (({b} == 0 || {b} == ({ty})-1) ? ({ty})5 : {b}))"),
            7 => format!("({a} & {b})"),
            8 => format!("({a} | ~{b})"),
            9 => format!("({a} ^ {b})"),
            10 => format!("(({wide}){a} << ({b} & {bits}))"),
            11 => format!("({a} >> ({b} & ({bits} / 2)))"),
            12 => format!("({a} < {b} ? {a} : {b})"),
            13 => {
                format!("(({wide}){a} >> ({b} & {bits}) | ({wide}){a} << (-({wide}){b} & {bits}))")
            }
            14 => format!("MULHI((u64){a}, (u64){b})"),
            _ => format!("(POPC((u64){a}) + 3 * CLZ((u64){b}))"),
        }
    }

    fn float(&mut self, ty: &str) -> String {
        let (a, b, c) = (self.operand(ty), self.operand(ty), self.operand(ty));
        let suffix = if ty == "f32" { "f" } else { "" };
        match self.numbers.below(12) {
            0 | 1 => format!("({a} + {b})"),
            2 => format!("({a} - {b})"),
            3 | 4 => format!("({a} * {b})"),
            5 => format!("({a} / {b})"),
            6 => format!("fma{suffix}({a}, {b}, {c})"),
            7 => format!("sqrt{suffix}(fabs{suffix}({a}))"),
            8 => format!("(-{a})"),
            9 => format!("({a} < {b} ? {b} : {c})"),
            10 => {
                let round = self.pick(&["floor", "ceil", "trunc", "rint"]);
                format!("{round}{suffix}({a})")
            }
            // The sign of a NaN is promised by nobody.
            _ => {
                format!("copysign{suffix}({a}, {b} != {b} ? {c} != {c} ? 1.0{suffix} : {c} : {b})")
            }
        }
    }

    /// One function: reads its inputs as various types, computes, writes its last values.
    fn function(&mut self, name: &str) -> String {
        self.variables.clear();
        let mut text = format!("FN void {name}(const u64 *in, u64 *out) {{\n");
        for input in 0..INPUTS {
            let ty = self.pick(&TYPES);
            let value = match ty {
                "f32" => format!("FROM32((u32)in[{input}])"),
                "f64" => format!("FROM64(in[{input}])"),
                _ => format!("({ty})in[{input}]"),
            };
            writeln!(text, "    {ty} v{input} = {value};").unwrap();
            self.variables.push(ty);
        }
        for _ in 0..10 + self.numbers.below(16) {
            let ty = self.pick(&TYPES);
            let value = if is_float(ty) {
                self.float(ty)
            } else {
                self.integer(ty)
            };
            writeln!(text, "    {ty} v{} = ({ty}){value};", self.variables.len()).unwrap();
            self.variables.push(ty);
        }
        for output in 0..OUTPUTS {
            let index = self.variables.len() - 1 - output;
            let value = match self.variables[index] {
                "f32" => format!("OUT32(v{index})"),
                "f64" => format!("OUT64(v{index})"),
                _ => format!("(u64)v{index}"),
            };
            writeln!(text, "    out[{output}] = {value};").unwrap();
        }
        text + "}\n"
    }
}

/// Bit patterns that matter to some type, and any others.
fn inputs(numbers: &mut Numbers) -> Vec<u64> {
    let special = [
        0,
        1,
        u64::MAX,
        1 << 63,
        1 << 31,
        0x7fff_ffff,
        f64::INFINITY.to_bits(),
        f64::NAN.to_bits(),
        1f64.to_bits(),
        (-0.0f64).to_bits(),
        u64::from(1.5f32.to_bits()),
        u64::from(f32::INFINITY.to_bits()),
        u64::from(f32::MIN_POSITIVE.to_bits() >> 3),
        0x8080_8080_8080_8080,
    ];
    (0..ELEMENTS * INPUTS)
        .map(|_| match numbers.below(4) {
            0 => special[numbers.below(special.len() as u64) as usize],
            1 => (numbers.float() * 1000.0).to_bits().into(),
            2 => f64::from(numbers.float() * 1000.0).to_bits(),
            _ => numbers.next(),
        })
        .collect()
}

/// The committed PTX is what nvrtc makes of the source beside it, as far as the same nvrtc is installed.
#[test]
fn committed_ptx_is_not_stale() {
    let compilers = match nvrtc::compilers() {
        Ok(compilers) => compilers,
        Err(reason) => return eprintln!("waived: {reason}"),
    };
    let build = |ptx: &str| {
        ptx.lines()
            .find(|line| line.contains("Build ID"))
            .map(str::to_owned)
    };
    for (name, source, committed) in [
        (
            "basics",
            include_str!("kernels/basics.cu"),
            include_str!("kernels/basics.ptx"),
        ),
        (
            "algorithms",
            include_str!("kernels/algorithms.cu"),
            include_str!("kernels/algorithms.ptx"),
        ),
    ] {
        let made = compilers.ptx(source, &[]);
        if build(&made) == build(committed) {
            assert_eq!(made, committed, "tests/kernels/{name}.ptx is stale");
        } else {
            eprintln!("waived: {name}.ptx was made by another build of nvrtc");
        }
    }
}

#[test]
fn five_hundred_random_kernels_agree_with_the_host() {
    let compilers = match nvrtc::compilers() {
        Ok(compilers) => compilers,
        Err(reason) => {
            eprintln!("waived: {reason}");
            return;
        }
    };
    let mut compared = 0;
    for batch in 0..BATCHES {
        let mut writer = Writer {
            numbers: Numbers(0xc2c0 + batch),
            variables: Vec::new(),
        };
        let functions: String = (0..BATCH)
            .map(|number| writer.function(&format!("run{number}")))
            .collect();
        let values = inputs(&mut writer.numbers);

        let mut kernels = format!("{PRELUDE}{functions}");
        let mut program = kernels.clone() + "int main() {\n    static u64 in[ELEMENTS][INPUTS], out[OUTPUTS];\n    if (fread(in, sizeof in, 1, stdin) != 1) return 1;\n";
        program = format!("#define ELEMENTS {ELEMENTS}\n#define INPUTS {INPUTS}\n#define OUTPUTS {OUTPUTS}\n{program}");
        for number in 0..BATCH {
            writeln!(
                kernels,
                "extern \"C\" __global__ void k{number}(const u64 *in, u64 *out) {{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < {ELEMENTS}) run{number}(in + {INPUTS} * i, out + {OUTPUTS} * i);\n}}"
            )
            .unwrap();
            writeln!(program, "    for (int i = 0; i < ELEMENTS; i++) {{ run{number}(in[i], out); fwrite(out, sizeof out, 1, stdout); }}").unwrap();
        }
        program += "    return 0;\n}\n";

        let input: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        let options = [
            "-O1",
            "-ffp-contract=off",
            "-fwrapv",
            "-fno-strict-aliasing",
            "-w",
        ];
        let expected = compilers.run_c(&format!("host{batch}"), &program, &options, &input);
        let expected: Vec<u64> = expected
            .chunks_exact(8)
            .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
            .collect();
        let ptx = compilers.ptx(&kernels, &["--fmad=false", "--std=c++17"]);

        let device = Device::new(&ptx);
        let (input, output) = (
            device.upload(&values),
            device.allocate(8 * ELEMENTS * OUTPUTS),
        );
        for (number, expected) in expected.chunks_exact(ELEMENTS * OUTPUTS).enumerate() {
            device
                .run(
                    &format!("k{number}"),
                    [3, 1, 1],
                    [32, 1, 1],
                    &[at(input), at(output)],
                )
                .unwrap();
            let found = device.download::<u64>(output, ELEMENTS * OUTPUTS);
            if let Some(place) = (0..found.len()).find(|&place| found[place] != expected[place]) {
                let (element, out) = (place / OUTPUTS, place % OUTPUTS);
                let kept = std::env::temp_dir().join("against_c_failed.ptx");
                std::fs::write(&kept, &ptx).unwrap();
                let function = functions.split("FN ").nth(number + 1).unwrap();
                panic!(
                    "batch {batch}, k{number}, element {element}, out[{out}]: {:#x} instead of {:#x} (PTX in {})\nin: {:x?}\n{function}",
                    found[place],
                    expected[place],
                    kept.display(),
                    &values[element * INPUTS..][..INPUTS],
                );
            }
            compared += 1;
        }
    }
    assert_eq!(compared, BATCH * BATCHES);
}
