use crate::harness::{bits, check, eval, mask, rows, value, word};
use crate::support::{at, Device};
use cumodel_ptx::{Access, Reason};

const HEADER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";
const TYPES: [&str; 12] = [
    "b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64",
];

#[test]
pub fn loads_extend() {
    for ty in TYPES {
        for register in ["b16", "b32", "b64"]
            .into_iter()
            .filter(|register| bits(register) >= bits(ty))
        {
            for space in ["local", "shared"] {
                // Each thread has a place of its own, in shared memory by its number.
                let text = match space {
                    "local" => format!(".local .align 8 .b8 m[16]; st.local.u64 [m+8], %a; ld.local.{ty} %d, [m+8];"),
                    _ => format!(
                        ".shared .align 8 .b8 m[1024]; mov.u32 %x, %tid.x; shl.b32 %x, %x, 3; mov.u32 %y, m; add.u32 %x, %x, %y; \
                         st.shared.u64 [%x], %a; ld.volatile.shared.{ty} %d, [%x];"
                    ),
                };
                check(&text, &["b64"], register, |v| {
                    word(register, value(&ty.replace('b', "u"), v[0]))
                });
            }
        }
    }
    for load in [
        "ld.global.nc.u32",
        "ld.global.cg.u32",
        "ld.global.ca.u32",
        "ld.volatile.global.u32",
        "ld.relaxed.gpu.global.u32",
        "ld.acquire.sys.global.u32",
        "ld.global.L1::no_allocate.L2::128B.u32",
        "ldu.global.u32",
        "ld.u32",
        "ld.weak.global.u32",
    ] {
        check(
            &format!("st.global.u32 [%out], %a; {load} %d, [%out];"),
            &["u32"],
            "u32",
            |v| v[0],
        );
    }
}

#[test]
pub fn stores_truncate() {
    for ty in TYPES {
        let text = format!(".local .align 8 .b64 m; mov.b64 %z, -1; st.local.b64 [m], %z; st.local.{ty} [m], %a; ld.local.b64 %d, [m];");
        check(&text, &["b64"], "b64", |v| {
            v[0] & mask(bits(ty)) | !mask(bits(ty))
        });
    }
    for store in [
        "st.global.wb.u32",
        "st.global.cs.u32",
        "st.volatile.global.u32",
        "st.release.gpu.global.u32",
        "st.u32",
    ] {
        check(
            &format!("{store} [%out], %a; ld.global.u32 %d, [%out];"),
            &["u32"],
            "u32",
            |v| v[0],
        );
    }
}

#[test]
fn vectors() {
    check(
        ".local .align 16 .b8 m[16]; st.local.v2.b32 [m+8], {%a, %b}; ld.local.b64 %d, [m+8];",
        &["b32", "b32"],
        "b64",
        |v| v[0] | v[1] << 32,
    );
    check(
        ".local .align 16 .b8 m[16]; st.local.v4.b16 [m], {%a, %b, %c, %e}; ld.local.b64 %d, [m];",
        &["b16"; 4],
        "b64",
        |v| v[0] | v[1] << 16 | v[2] << 32 | v[3] << 48,
    );
    check(".local .align 16 .b8 m[16]; st.local.v2.b64 [m], {%a, %b}; ld.local.v4.b32 {%x, _, %y, _}, [m]; mov.b64 %d, {%x, %y};",
        &["b64", "b64"], "b64", |v| v[0] & mask(32) | v[1] << 32);
    check(".local .align 16 .b8 m[16]; st.local.b64 [m], %a; ld.local.v4.s8 {%x, %y, _, _}, [m]; sub.s32 %d, %x, %y;", &["b64"], "b32", |v| {
        word("u32", i128::from(v[0] as i8) - i128::from((v[0] >> 8) as i8))
    });
    // Whole warps with a stride, backwards, and all at one place.
    let ptx = format!("{HEADER}.entry k(.param .u64 in, .param .u64 out) {{ .reg .b32 %r<9>; .reg .b64 %rd<9>;
        ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x;
        mul.wide.u32 %rd3, %r1, 12; add.u64 %rd3, %rd1, %rd3; ld.global.u32 %r2, [%rd3];
        mul.wide.s32 %rd4, %r1, -4; add.u64 %rd4, %rd1, %rd4; ld.global.u32 %r3, [%rd4+252];
        ld.global.u32 %r4, [%rd1+40];
        mul.wide.u32 %rd5, %r1, 16; add.u64 %rd5, %rd2, %rd5; st.global.v4.u32 [%rd5], {{%r2, %r3, %r4, %r1}}; }}");
    let device = Device::new(&ptx);
    let input = device.upload(&(0..192u32).map(|i| i * i).collect::<Vec<_>>());
    let out = device.upload(&[0u32; 256]);
    let executed = device
        .run("k", [1, 1, 1], [64, 1, 1], &[at(input), at(out)])
        .unwrap();
    let expected: Vec<u32> = (0..64)
        .flat_map(|i| [9 * i * i, (63 - i) * (63 - i), 100, i])
        .collect();
    assert_eq!(device.download::<u32>(out, 256), expected);
    let mut reads: Vec<u64> = (0..64).flat_map(|i| [3 * i, 63 - i, 10]).collect();
    reads.sort_unstable();
    reads.dedup();
    let bytes: Vec<u64> = executed.reads.into_iter().flatten().collect();
    assert_eq!(
        bytes,
        reads
            .iter()
            .flat_map(|word| input + 4 * word..input + 4 * word + 4)
            .collect::<Vec<_>>()
    );
    assert_eq!(
        (executed.writes[0].clone(), executed.writes.len()),
        (out..out + 1024, 1)
    );
}

/// The word in memory before and after, for one thread at a time.
fn atomic(text: &str, ty: &str, expected: impl Fn(u64, u64, u64) -> u64) {
    let width = if bits(ty) == 16 {
        "b16"
    } else if bits(ty) == 32 {
        "b32"
    } else {
        "b64"
    };
    for space in ["global", "shared"] {
        let (home, load) = match space {
            "global" => ("", format!("ld.global.{width} %d, [%out];")),
            _ => (
                ".shared .align 8 .b8 m[1024];",
                format!("ld.shared.{width} %d, [%out];"),
            ),
        };
        // In shared memory each thread has a place by its number; `%z` keeps the address for the result.
        let place = match space {
            "global" => "",
            _ => "mov.u64 %z, %out; mov.u32 %x, %tid.x; mul.wide.u32 %out, %x, 8; mov.u64 %o, m; add.u64 %out, %out, %o;",
        };
        let back = if space == "global" {
            ""
        } else {
            "mov.u64 %out, %z;"
        };
        let run = format!(
            "{home} {place} st.{space}.{width} [%out], %a; {} {load} {back}",
            text.replace("SPACE", space)
        );
        check(&run, &[width; 3], width, |v| expected(v[0], v[1], v[2]));
        if text.starts_with("atom") {
            // The destination gets the value before.
            let run = format!(
                "{home} {place} st.{space}.{width} [%out], %a; {} {back}",
                text.replace("SPACE", space).replace("%c, [", "%d, [")
            );
            let rows = rows(&[width; 3]);
            let found = eval(&run, &[width; 3], width, &rows);
            assert!(
                rows.iter().zip(found).all(|(row, found)| row[0] == found),
                "{text}"
            );
        }
    }
}

#[test]
pub fn atomics() {
    for ty in ["u32", "s32", "u64", "s64"] {
        for name in ["atom.SPACE", "red.relaxed.gpu.SPACE"] {
            let d = if name.starts_with("atom") { "%c, " } else { "" };
            let v = |word: u64| value(ty, word);
            atomic(&format!("{name}.add.{ty} {d}[%out], %b;"), ty, |a, b, _| {
                word(ty, v(a) + v(b))
            });
            atomic(&format!("{name}.min.{ty} {d}[%out], %b;"), ty, |a, b, _| {
                word(ty, v(a).min(v(b)))
            });
            atomic(&format!("{name}.max.{ty} {d}[%out], %b;"), ty, |a, b, _| {
                word(ty, v(a).max(v(b)))
            });
        }
    }
    for ty in ["b32", "b64"] {
        atomic(
            &format!("atom.SPACE.and.{ty} %c, [%out], %b;"),
            ty,
            |a, b, _| a & b,
        );
        atomic(
            &format!("atom.SPACE.or.{ty} %c, [%out], %b;"),
            ty,
            |a, b, _| a | b,
        );
        atomic(
            &format!("atom.acq_rel.gpu.SPACE.xor.{ty} %c, [%out], %b;"),
            ty,
            |a, b, _| a ^ b,
        );
        atomic(
            &format!("atom.SPACE.exch.{ty} %c, [%out], %b;"),
            ty,
            |_, b, _| b,
        );
        atomic(&format!("red.SPACE.or.{ty} [%out], %b;"), ty, |a, b, _| {
            a | b
        });
    }
    for ty in ["b16", "b32", "b64"] {
        atomic(
            &format!("atom.SPACE.cas.{ty} %c, [%out], %b, %c;"),
            ty,
            |a, b, c| if a == b { c } else { a },
        );
        atomic(
            &format!("atom.SPACE.cas.{ty} %c, [%out], %a, %c;"),
            ty,
            |_, _, c| c,
        );
    }
    atomic("atom.SPACE.inc.u32 %c, [%out], %b;", "u32", |a, b, _| {
        if a >= b {
            0
        } else {
            a + 1
        }
    });
    atomic("atom.SPACE.dec.u32 %c, [%out], %b;", "u32", |a, b, _| {
        if a == 0 || a > b {
            b
        } else {
            a - 1
        }
    });
    let f = crate::exact::SINGLE;
    let nan = |word: u64| if f.is_nan(word) { 0x7fff_ffff } else { word };
    atomic("atom.SPACE.add.f32 %c, [%out], %b;", "f32", |a, b, _| {
        nan(f.add(a, b, crate::exact::Mode::Nearest))
    });
    let half = |a: u64, b: u64| {
        let sum = crate::exact::HALF.add(a & 0xffff, b & 0xffff, crate::exact::Mode::Nearest);
        if crate::exact::HALF.is_nan(sum) {
            0x7fff
        } else {
            sum
        }
    };
    atomic(
        "atom.SPACE.add.noftz.f16 %c, [%out], %b;",
        "f16",
        |a, b, _| half(a, b),
    );
    atomic(
        "red.SPACE.add.noftz.f16x2 [%out], %b;",
        "f16x2",
        |a, b, _| half(a, b) | half(a >> 16, b >> 16) << 16,
    );
    let f = crate::exact::DOUBLE;
    let nan = |word: u64| {
        if f.is_nan(word) {
            0x7ff8_0000_0000_0000
        } else {
            word
        }
    };
    atomic("red.SPACE.add.f64 [%out], %b;", "f64", |a, b, _| {
        nan(f.add(a, b, crate::exact::Mode::Nearest))
    });
}

/// Sums of floats depend on their order, so such kernels run their blocks one after the other.
#[test]
fn float_atomics_give_the_same_sum_every_time() {
    let ptx = format!("{HEADER}.entry k(.param .u64 out) {{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
        ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 64, %r1;
        add.u32 %r1, %r1, 1; cvt.rn.f32.u32 %f1, %r1; rcp.rn.f32 %f1, %f1; red.global.add.f32 [%rd1], %f1; }}");
    let expected = (1..=64 * 200).fold(0f32, |sum, i| sum + 1.0 / i as f32);
    for _ in 0..5 {
        let device = Device::new(&ptx);
        let out = device.upload(&[0f32]);
        device
            .run("k", [200, 1, 1], [64, 1, 1], &[at(out)])
            .unwrap();
        assert_eq!(device.download::<f32>(out, 1), [expected]);
    }
}

#[test]
fn wild_and_misaligned_addresses() {
    let body = |text: &str| {
        format!("{HEADER}.entry k(.param .u64 a) {{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p; .shared .align 4 .b8 s[64];
        ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; setp.eq.u32 %p, %r1, 37;\n{text}\n}}")
    };
    let base = crate::support::BASE;
    let fault = |address, bytes, access| Reason::Fault {
        address,
        bytes,
        access,
    };
    let misaligned = |address, bytes, access| Reason::Misaligned {
        address,
        bytes,
        access,
    };
    let cases = [
        (
            "@%p ld.global.u32 %r2, [%rd1];",
            0x1000,
            fault(0x1000, 4, Access::Read),
        ),
        (
            "@%p st.global.u64 [%rd1+8], %rd1;",
            0x1000,
            fault(0x1008, 8, Access::Write),
        ),
        (
            "@%p atom.global.add.u32 %r2, [%rd1], 1;",
            0x1000,
            fault(0x1000, 4, Access::Atomic),
        ),
        ("@%p ld.u32 %r2, [%rd1];", 0, fault(0, 4, Access::Read)),
        (
            "@%p ld.global.u32 %r2, [%rd1+2];",
            base,
            misaligned(base + 2, 4, Access::Read),
        ),
        (
            "@%p st.global.v2.u32 [%rd1+4], {%r1, %r1};",
            base,
            misaligned(base + 4, 8, Access::Write),
        ),
        (
            "@%p atom.global.add.u64 %rd2, [%rd1+4], 1;",
            base,
            misaligned(base + 4, 8, Access::Atomic),
        ),
        (
            "@%p ld.shared.u32 %r2, [s+64];",
            0,
            fault(64, 4, Access::Read),
        ),
        (
            "@%p st.shared.u32 [%rd1], %r1;",
            u64::MAX - 3,
            fault(u64::MAX - 3, 4, Access::Write),
        ),
    ];
    for (text, argument, reason) in cases {
        let device = Device::new(&body(text));
        let stopped = device
            .run("k", [2, 1, 1], [64, 1, 1], &[at(argument)])
            .unwrap_err();
        assert_eq!(stopped.reason, reason, "{text}");
        assert_eq!(
            (
                stopped.kernel.as_str(),
                stopped.line,
                stopped.block,
                stopped.thread
            ),
            ("k", 6, [0, 0, 0], [37, 0, 0]),
            "{text}"
        );
        assert!(stopped.executed.instructions > 0);
    }
    // What the other lanes of the same store wrote stays written, and is recorded.
    let device = Device::with_memory(
        &body("mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r1;"),
        64,
    );
    let stopped = device
        .run("k", [1, 1, 1], [32, 1, 1], &[at(base)])
        .unwrap_err();
    assert_eq!(stopped.reason, fault(base + 64, 4, Access::Write));
    assert_eq!(
        (stopped.thread, stopped.executed.writes[0].clone()),
        ([16, 0, 0], base..base + 64)
    );
    assert_eq!(
        device.download::<u32>(base, 16),
        (0..16).collect::<Vec<_>>()
    );
}

#[test]
fn variables_of_the_module() {
    let ptx = format!("{HEADER}
        .global .align 4 .u32 counter = 5;
        .global .align 8 .u64 pointer = counter;
        .global .u64 inside = generic(table)+4;
        .const .align 4 .s16 table[4] = {{1, -2, 3}};
        .global .f32 single = 0f3FC00000;
        .global .f64 double = 2.5;
        .global .align 8 .b8 nested[2][2] = {{{{1, 2}}, {{3, 4}}}};
        .entry k(.param .u64 out) {{ .reg .b32 %r<9>; .reg .b64 %rd<9>;
        ld.param.u64 %rd1, [out];
        ld.global.u64 %rd2, [pointer]; ld.global.u32 %r1, [%rd2]; ld.const.s16 %r2, [table+2];
        ld.global.u64 %rd3, [inside]; ld.s16 %r3, [%rd3]; ld.global.u32 %r4, [nested]; ld.global.u32 %r5, [single]; ld.global.u32 %r6, [double+4];
        st.global.v4.u32 [%rd1], {{%r1, %r2, %r3, %r4}}; st.global.v2.u32 [%rd1+16], {{%r5, %r6}};
        atom.global.add.u32 %r1, [counter], 1; }}");
    let device = Device::new(&ptx);
    let out = device.upload(&[0u32; 6]);
    device.run("k", [1, 1, 1], [1, 1, 1], &[at(out)]).unwrap();
    let expected = [
        5,
        -2i32 as u32,
        3,
        0x0403_0201,
        1.5f32.to_bits(),
        (2.5f64.to_bits() >> 32) as u32,
    ];
    assert_eq!(device.download::<u32>(out, 6), expected);
    assert_eq!(device.download::<u32>(device.globals[0], 1), [6]);
    let names: Vec<_> = device
        .module
        .globals()
        .iter()
        .map(|global| {
            (
                global.name(),
                global.size(),
                global.align(),
                global.is_constant(),
            )
        })
        .collect();
    assert_eq!(
        names[..4],
        [
            ("counter", 4, 4, false),
            ("pointer", 8, 8, false),
            ("inside", 8, 8, false),
            ("table", 8, 4, true)
        ]
    );
}
