//! Text that is not PTX, or that is not supported: one sentence with the line, and never a panic.
mod support;
use cumodel_ptx::{Launch, Module};
use support::{FlatMemory, Numbers};

const ALGORITHMS: &str = include_str!("kernels/algorithms.ptx");
const BASICS: &str = include_str!("kernels/basics.ptx");

const HEADER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";
const DECLARED: &str = ".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %fd<9>;\n";

/// A body, and a word that its message must have.
const BODIES: &[(&str, &str)] = &[
    ("frobnicate.u32 %r1, %r2;", "`frobnicate` is not supported"),
    (
        "wmma.load.a.sync.aligned.m16n16k16.row.f16 %r1, [%rd1];",
        "`wmma` is not supported",
    ),
    (
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 %fd1, %fd2, %fd3, %fd4;",
        "`mma` is not supported",
    ),
    (
        "tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, {%f1,%f2}];",
        "expected",
    ),
    (
        "cp.async.ca.shared.global [%rd1], [%rd2], 16;",
        "`cp` is not supported",
    ),
    ("add.u32 %r1, %r2;", "3 operands were expected, not 2"),
    (
        "add.u32 %r1, %r2, %r3, %r4;",
        "3 operands were expected, not 4",
    ),
    ("add %r1, %r2, %r3;", "the type is missing"),
    ("add.u8 %r1, %r2, %r3;", "`.u8` is not supported here"),
    (
        "add.u32.frob %r1, %r2, %r3;",
        "`.frob` is not supported here",
    ),
    ("add.sat.u32 %r1, %r2, %r3;", "`.sat` is not supported here"),
    ("add.u64 %r1, %rd2, %rd3;", "`%r1` has 32 bits, not 64"),
    ("add.u32 %r1, %rd2, %r3;", "`%rd2` has 64 bits, not 32"),
    ("add.u32 %r1, %r2, 0f3F800000;", "no operand"),
    ("add.f32 %f1, %f2, 1;", "no .f32 literal"),
    ("add.u32 %r1, %r2, %r9;", "`%r9` is not declared"),
    ("add.u32 %r1, %r2, nobody;", "`nobody` is not declared"),
    ("add.u32 %r1, %r2, %r01;", "`%r01` is not declared"),
    ("add.u32 7, %r2, %r3;", "cannot be a destination"),
    ("add.u32 %p1, %r2, %r3;", "`%p1` is a predicate"),
    ("@%p9 add.u32 %r1, %r2, %r3;", "`%p9` is not declared"),
    ("@%r1 add.u32 %r1, %r2, %r3;", "`%r1` is no predicate"),
    (
        "mul.u32 %r1, %r2, %r3;",
        "one of .lo, .hi, .wide is missing",
    ),
    (
        "mul.wide.u64 %rd1, %rd2, %rd3;",
        "`.wide` has no 128-bit form",
    ),
    ("bra NOWHERE;", "`NOWHERE` is no label"),
    ("bra %r1;", "`%r1` is no label"),
    ("L: L: ret;", "`L` is declared twice"),
    (".reg .b32 %r<3>;", "`%r` is declared twice"),
    (".reg .b128 %q;", "`.b128` are not supported"),
    (".reg .b32 %z<70000>;", "more than the 65,536"),
    (".shared .align 3 .b8 s[4];", "no power of two"),
    (".shared .b8 s[2000000];", "larger than a block can have"),
    (".local .b8 s[600000];", "local memory larger"),
    (".shared .u32 s = 4;", "cannot have an initial value"),
    (
        "ld.global.u32 %r1, %rd1;",
        "an address in brackets is missing",
    ),
    (
        "ld.global.v3.u32 {%r1,%r2,%r3}, [%rd1];",
        "`.v3` is not supported",
    ),
    (
        "ld.global.v4.u64 {%rd1,%rd2,%rd3,%rd4}, [%rd1];",
        "more than 16 bytes",
    ),
    (
        "ld.global.v2.u32 {%r1}, [%rd1];",
        "2 elements were expected, not 1",
    ),
    (
        "ld.global.u64 %r1, [%rd1];",
        "a register of 32 bits cannot take 64",
    ),
    ("ld.shared.u32 %r1, [k_param];", "another space"),
    ("st.param.u32 [k_param], %r1;", "cannot be written"),
    (
        "atom.local.add.u32 %r1, [%rd1], 1;",
        "global and shared memory",
    ),
    (
        "atom.global.add.u16 %h1, [%rd1], 1;",
        "`.u16` is not supported here",
    ),
    (
        "atom.global.cas.b32 %r1, [%rd1], 1;",
        "2 operands were expected behind the address, not 1",
    ),
    ("cvt.f32.s32 %f1, %r1;", "a rounding mode is missing"),
    (
        "cvt.s32.f32 %r1, %f1;",
        "an integer rounding mode is missing",
    ),
    ("shfl.up.b32 %r1, %r2, 1, 0;", "removed in sm_70"),
    ("vote.all.pred %p1, %p2;", "removed in sm_70"),
    ("mov.u64 %rd1, %globaltimer;", "time is not modelled"),
    ("mov.u32 %r1, %tid.q;", "no special register `%tid.q`"),
    ("mov.b64 %rd1, {%r1, %r2, %r3};", "do not make up 64 bits"),
    ("lop3.b32 %r1, %r2, %r3, %r4, 256;", "from 0 to 255"),
    ("setp.lo.s32 %p1, %r1, %r2;", "is missing"),
    ("setp.lt.b32 %p1, %r1, %r2;", "one of .eq, .ne is missing"),
    ("setp.eq.u32 !%p1, %r1, %r2;", "must be a predicate"),
    ("call nobody, ();", "`nobody` is not defined"),
    ("call k;", "is a kernel"),
    ("sin.f32 %f1, %f2;", "`.approx` is missing"),
    ("bar.sync 0, 32, 32;", "3 operands do not fit"),
    ("{ { {", "cannot start a statement"),
    ("add.u32 %r1, %r2, %r3", "expected `;`"),
    ("add.u32 %r1, [%r2, %r3;", "expected `]`"),
    ("add.u32 %r1, %r2, 4+5;", "expected `;`"),
    ("add.u32 %r1, %r2, ~4;", "`~` is no token"),
    ("add.u32 %r1, %r2, 99999999999999999999;", "is no token"),
];

/// A whole text, and a word that its message must have.
const TEXTS: &[(&str, &str)] = &[
    ("", "starts with `.version`"),
    ("hello", "starts with `.version`"),
    (
        ".version 5.0\n.target sm_80\n.address_size 64",
        "version 6.0 to 9.x",
    ),
    (
        ".version 8.0\n.target sm_20\n.address_size 64",
        "`sm_20` is not supported",
    ),
    (
        ".version 8.0\n.target sm_80, texmode_unified\n.address_size 64",
        "`texmode_unified` is not supported",
    ),
    (
        ".version 8.0\n.target sm_80\n.address_size 32",
        "`.address_size 64`",
    ),
    (".version 8.0\n.target sm_80\n", "`.address_size 64`"),
    (
        ".version 8.0\n.target sm_80\n.address_size 64\n.tex .u64 t;",
        "cannot start a declaration",
    ),
    (
        ".version 8.0\n.target sm_80\n.address_size 64\n.extern .global .u32 g;",
        "another module",
    ),
    (
        ".version 8.0\n.target sm_80\n.address_size 64\n.global .u32 g[];",
        "size of variable `g` is missing",
    ),
    (
        ".version 8.0\n.target sm_80\n.address_size 64\n.global .u32 g; .global .u32 g;",
        "`g` is defined twice",
    ),
    (
        ".version 8.0\n.target sm_80\n.address_size 64\n.global .u32 g[2] = {1, 2, 3};",
        "2 elements and 3 initial values",
    ),
    (
        ".version 8.0\n.target sm_80\n.address_size 64\n.global .u64 g = nobody;",
        "has no address here",
    ),
    (
        ".version 8.0\n.target sm_80\n.address_size 64\n.global .b8 g[9999999999];",
        "up to 2147483648",
    ),
    (
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { ret; } .entry k() { ret; }",
        "`k` is defined twice",
    ),
    (
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.reg .u32 x) { ret; }",
        "parameters in registers",
    ),
    (
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { ret;",
        "the end of the text",
    ),
    (
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() \u{1f600}",
        "is no token",
    ),
];

fn refused(text: &str) -> String {
    let Err(error) = Module::load(text) else {
        return format!("loaded: {text}");
    };
    let lines = text.lines().count().max(1) as u32;
    assert!(
        (1..=lines).contains(&error.line),
        "line {} of {lines}: {text}",
        error.line
    );
    let sentence = error.to_string();
    assert!(
        !sentence.contains('\n') && sentence.len() < 400,
        "{sentence}"
    );
    sentence
}

#[test]
fn unsupported_and_malformed_instructions_are_named_with_their_line() {
    const { assert!(BODIES.len() >= 50) };
    let mut wrong = Vec::new();
    for (body, expected) in BODIES {
        let text = format!("{HEADER}.entry k(.param .u64 k_param)\n{{\n{DECLARED}\n\n{body}\n}}\n");
        let sentence = refused(&text);
        // Where one instruction is at fault, its line and its text are there.
        let names_an_instruction = sentence.contains(": `") && sentence.contains("`: ");
        if !sentence.contains(expected)
            || names_an_instruction && !sentence.starts_with("PTX line 9: ")
        {
            wrong.push(format!("{body}\n    {sentence}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn malformed_files_are_refused() {
    for (text, expected) in TEXTS {
        let sentence = refused(text);
        assert!(sentence.contains(expected), "{text}\n{sentence}");
    }
}

#[test]
fn deep_nesting_is_refused() {
    let text = format!("{HEADER}.entry k() {}", "{".repeat(100_000));
    assert!(refused(&text).contains("nested more than 64 deep"));
}

/// Runs each kernel for a while; how it ends is its own matter.
fn run_all(module: &Module) {
    let memory = FlatMemory::new(1 << 20, 1 << 16);
    let globals: Vec<u64> = (0..module.globals().len() as u64)
        .map(|index| (1 << 20) + 512 * index)
        .collect();
    for kernel in module.kernels() {
        // Each parameter is an address and, where it is read as 32 bits, a size.
        let params: Vec<u8> = (0..kernel.param_bytes())
            .map(|at| if at % 8 == 2 { 0x10 } else { 0 })
            .collect();
        let (grid, block) = ([3, 1, 1], [40, 1, 1]);
        let launch = Launch {
            grid,
            block,
            dynamic_shared: 64,
            params: &params,
            globals: &globals,
            budget: 1 << 17,
            cores: 1,
        };
        match module.run(kernel, &launch, &memory) {
            Ok(executed) => assert!(executed.instructions > 0),
            Err(stopped) => assert!(!stopped.to_string().contains('\n')),
        }
    }
}

/// Texts cut, words exchanged, characters replaced: each is refused, or loads and runs to an end.
#[test]
fn damaged_text_never_panics() {
    let mut numbers = Numbers(50);
    let (mut loaded, mut refused) = (0, 0);
    for source in [BASICS, ALGORITHMS] {
        let words: Vec<&str> = source
            .split_inclusive(|c: char| c.is_whitespace() || ",;[]{}".contains(c))
            .collect();
        for round in 0..300 {
            let mut words = words.clone();
            for _ in 0..1 + numbers.below(3) {
                let place = numbers.below(words.len() as u64) as usize;
                let other = words[numbers.below(words.len() as u64) as usize];
                match numbers.below(4) {
                    0 => words[place] = other,
                    1 => words.insert(place, other),
                    2 => drop(words.remove(place)),
                    _ if round % 10 == 0 => words.truncate(place),
                    _ => {
                        let last = words.len() - 1;
                        words.swap(place, (place + 7).min(last));
                    }
                }
            }
            let mut text = words.concat();
            if round % 3 == 0 {
                let place = (0..text.len())
                    .cycle()
                    .skip(numbers.below(text.len() as u64) as usize)
                    .find(|&at| text.is_char_boundary(at));
                text.insert(
                    place.unwrap(),
                    ['\0', '%', '.', '}', '"', '9', '-'][numbers.below(7) as usize],
                );
            }
            match Module::load(&text) {
                Err(error) => {
                    assert!(!error.to_string().contains('\n'));
                    refused += 1;
                }
                Ok(module) => {
                    run_all(&module);
                    loaded += 1;
                }
            }
        }
    }
    assert!(refused > 200 && loaded > 20, "{refused} {loaded}");
}
