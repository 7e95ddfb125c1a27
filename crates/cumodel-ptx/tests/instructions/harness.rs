//! Runs one instruction on many operands.
use crate::support::{at, Arg, Device, Numbers};

/// Bits of a type by its name.
pub fn bits(ty: &str) -> u32 {
    match ty {
        "f16x2" | "bf16x2" => 32,
        "pred" => 1,
        _ => ty
            .trim_start_matches(|c: char| !c.is_ascii_digit())
            .parse()
            .unwrap(),
    }
}

pub fn mask(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

/// The value of the low bits as a signed or unsigned type reads them.
pub fn value(ty: &str, word: u64) -> i128 {
    let bits = bits(ty);
    let word = i128::from(word & mask(bits));
    if ty.starts_with('s') && word >> (bits - 1) == 1 {
        word - (1 << bits)
    } else {
        word
    }
}

/// The low bits of a value.
pub fn word(ty: &str, value: i128) -> u64 {
    value as u64 & mask(bits(ty))
}

/// Operands that matter to a type.
pub fn edges(ty: &str) -> Vec<u64> {
    let bits = bits(ty);
    let single = [
        0.0f32,
        1.0,
        0.1,
        1.5,
        2.5,
        0.499_999_97,
        16_777_216.0,
        8_388_609.0,
        2_147_483_648.0,
        4e9,
        1e19,
        f32::MAX,
        f32::MIN_POSITIVE,
        f32::INFINITY,
        f32::NAN,
    ];
    let double = [
        0.0f64,
        1.0,
        0.1,
        1.5,
        2.5,
        0.499_999_999_999_999_94,
        9_007_199_254_740_993.0,
        4e9,
        1.8e19,
        f64::MAX,
        f64::MIN_POSITIVE,
        1e-310,
        f64::INFINITY,
        f64::NAN,
        3.4e38,
        1e-40,
    ];
    let half = [
        0u64, 1, 0x3ff, 0x400, 0x3c00, 0x3c01, 0x3800, 0x4248, 0x7bff, 0x7c00, 0x7e00, 0x3555,
    ];
    let brain = [
        0u64, 1, 0x7f, 0x80, 0x3f80, 0x3f81, 0x4049, 0x7f7f, 0x7f80, 0x7fc0, 0x3eab,
    ];
    let mut edges: Vec<u64> = match ty {
        "f32" => single
            .iter()
            .map(|v| u64::from(v.to_bits()))
            .chain([1, 0x7f_ffff, 0x0080_0001])
            .collect(),
        "f64" => double
            .iter()
            .map(|v| v.to_bits())
            .chain([1, 0xf_ffff_ffff_ffff])
            .collect(),
        "f16" => half.to_vec(),
        "bf16" => brain.to_vec(),
        "f16x2" => half
            .iter()
            .zip(half.iter().rev())
            .map(|(a, b)| a | b << 16)
            .collect(),
        "bf16x2" => brain
            .iter()
            .zip(brain.iter().rev())
            .map(|(a, b)| a | b << 16)
            .collect(),
        _ => (0..10)
            .chain([
                15, 16, 24, 31, 32, 33, 40, 63, 64, 65, 100, 127, 128, 255, 256, 0xff_ffff,
                0x80_0000,
            ])
            .collect(),
    };
    if ty.contains('f') {
        let sign = if ty.ends_with("x2") {
            0x8000_8000
        } else {
            1 << (bits - 1)
        };
        edges.extend(edges.clone().iter().map(|word| word | sign));
    } else {
        let top = 1u64 << (bits - 1);
        edges.extend([
            top,
            top - 1,
            top + 1,
            u64::MAX,
            u64::MAX - 1,
            0x5555_5555_5555_5555,
            0xdead_beef_8000_7fff,
        ]);
    }
    edges.iter().map(|word| word & mask(bits)).collect()
}

/// Rows of operands: mostly edges, some others.
pub fn rows(types: &[&str]) -> Vec<Vec<u64>> {
    let mut numbers = Numbers(types.len() as u64);
    let edges: Vec<Vec<u64>> = types.iter().map(|ty| edges(ty)).collect();
    if let [edges] = &edges[..] {
        let others = (0..100).map(|_| numbers.next() & mask(bits(types[0])));
        return edges
            .iter()
            .copied()
            .chain(others)
            .map(|word| vec![word])
            .collect();
    }
    let mut row = || {
        let pick = |(ty, edges): (&&str, &Vec<u64>)| match numbers.below(4) {
            0 => numbers.next() & mask(bits(ty)),
            _ => edges[numbers.below(edges.len() as u64) as usize],
        };
        types.iter().zip(&edges).map(pick).collect()
    };
    (0..600).map(|_| row()).collect()
}

fn register(ty: &str) -> String {
    match bits(ty) {
        1 => ".pred".to_owned(),
        8 | 16 => ".b16".to_owned(),
        bits => format!(".b{bits}"),
    }
}

const NAMES: [&str; 4] = ["%a", "%b", "%c", "%e"];

/// Executes `text` for each row; the operands are `%a`, `%b`, `%c`, `%e`, the result is `%d`.
/// `%p` and `%q` are predicates, `%x`, `%y` words and `%z` a double word for its own use.
pub fn eval(text: &str, inputs: &[&str], output: &str, rows: &[Vec<u64>]) -> Vec<u64> {
    let mut body = format!(".reg {} %d; .reg .pred %p, %q; .reg .b32 %x, %y, %i, %n, %t; .reg .b64 %z, %in, %out, %o;\n", register(output));
    for (name, ty) in NAMES.iter().zip(inputs) {
        body += &format!(".reg {} {name};\n", register(ty));
    }
    let size = 8 * inputs.len();
    body += &format!(
        "ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u32 %n, [n];\n\
         mov.u32 %i, %ctaid.x; mov.u32 %t, %ntid.x; mad.lo.u32 %i, %i, %t, 0; mov.u32 %t, %tid.x; add.u32 %i, %i, %t;\n\
         setp.ge.u32 %p, %i, %n; @%p ret;\n\
         mul.wide.u32 %o, %i, {size}; add.u64 %in, %in, %o; mul.wide.u32 %o, %i, 8; add.u64 %out, %out, %o;\n"
    );
    for (place, (name, ty)) in NAMES.iter().zip(inputs).enumerate() {
        body += &format!(
            "ld.global.b{} {name}, [%in+{}];\n",
            bits(ty).max(16),
            8 * place
        );
    }
    body += text;
    body += &match bits(output) {
        1 => "\n.reg .b64 %w; selp.b64 %w, 1, 0, %d; st.global.u64 [%out], %w;".to_owned(),
        bits => format!("\nst.global.b{} [%out], %d;", bits.max(16)),
    };
    let ptx = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 in, .param .u64 out, .param .u32 n) {{\n{body}\nret;\n}}"
    );
    let device = Device::with_memory(&ptx, 1 << 17);
    let flat: Vec<u64> = rows.concat();
    let (input, output) = (device.upload(&flat), device.upload(&vec![0u64; rows.len()]));
    let grid = [(rows.len() as u32).div_ceil(96), 1, 1];
    device
        .run(
            "k",
            grid,
            [96, 1, 1],
            &[at(input), at(output), Arg::I(rows.len() as i64)],
        )
        .unwrap();
    device.download(output, rows.len())
}

/// Compares an instruction with a function of its operands, on all rows.
pub fn check(text: &str, inputs: &[&str], output: &str, expected: impl Fn(&[u64]) -> u64) {
    check_by(text, inputs, output, |args, found| {
        let expected = expected(args);
        (found == expected)
            .then_some(())
            .ok_or(format!("{expected:#x}"))
    });
}

/// As `check`, with a judgement instead of a value.
pub fn check_by(
    text: &str,
    inputs: &[&str],
    output: &str,
    judge: impl Fn(&[u64], u64) -> Result<(), String>,
) {
    let rows = rows(inputs);
    for (row, found) in rows.iter().zip(eval(text, inputs, output, &rows)) {
        if let Err(expected) = judge(row, found) {
            panic!("{text} of {row:#x?}: {found:#x} instead of {expected}");
        }
    }
}
