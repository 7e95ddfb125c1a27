use crate::harness::{check, eval, rows};
use crate::support::{at, Device};

#[test]
pub fn moves() {
    for ty in ["b16", "b32", "b64", "f32", "f64"] {
        check(&format!("mov.{ty} %d, %a;"), &[ty], ty, |v| v[0]);
    }
    check("mov.b32 %d, {%a, %b};", &["b16", "b16"], "b32", |v| {
        v[0] | v[1] << 16
    });
    check("mov.b64 %d, {%a, %b};", &["b32", "b32"], "b64", |v| {
        v[0] | v[1] << 32
    });
    check("mov.b64 %d, {%a, %b, %c, %e};", &["b16"; 4], "b64", |v| {
        v[0] | v[1] << 16 | v[2] << 32 | v[3] << 48
    });
    check("mov.b64 {_, %d}, %a;", &["b64"], "b32", |v| v[0] >> 32);
    check(
        ".reg .b16 %l; mov.b32 {%d, %l}, %a;",
        &["b32"],
        "b16",
        |v| v[0] & 0xffff,
    );
    check(
        "setp.gt.u32 %p, %a, 5; mov.pred %d, %p;",
        &["u32"],
        "pred",
        |v| u64::from(v[0] > 5),
    );
    check("mov.pred %d, 1;", &["u32"], "pred", |_| 1);
    check("mov.u64 %d, 0x1234567890abcdef;", &["u32"], "b64", |_| {
        0x1234_5678_90ab_cdef
    });
    check("mov.s32 %d, -5;", &["u32"], "b32", |_| 0xffff_fffb);
    check(
        "mov.u32 %d, 0b1011; add.u32 %d, %d, 017;",
        &["u32"],
        "b32",
        |_| 11 + 15,
    );
    check("mov.f32 %d, 1.5;", &["u32"], "f32", |_| {
        u64::from(1.5f32.to_bits())
    });
    check("mov.f64 %d, 0.1;", &["u32"], "f64", |_| 0.1f64.to_bits());
}

#[test]
fn special_registers() {
    let ptx = format!(
        "{HEADER}.entry k(.param .u64 out) {{ .reg .b32 %r<30>; .reg .b64 %rd<9>; .shared .align 4 .b8 s[20];
        mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y; mov.u32 %r6, %ntid.z;
        mov.u32 %r7, %ctaid.x; mov.u32 %r8, %ctaid.y; mov.u32 %r9, %ctaid.z; mov.u32 %r10, %nctaid.x; mov.u32 %r11, %nctaid.y; mov.u32 %r12, %nctaid.z;
        mov.u32 %r13, %laneid; mov.u32 %r14, %warpid; mov.u32 %r15, %nwarpid;
        mov.u32 %r16, %lanemask_eq; mov.u32 %r17, %lanemask_lt; mov.u32 %r18, %lanemask_le; mov.u32 %r19, %lanemask_gt; mov.u32 %r20, %lanemask_ge;
        mov.u32 %r21, %dynamic_smem_size; mov.u32 %r22, %total_smem_size; mov.u32 %r23, %tid.w; mov.u32 %r24, %ntid.w; mov.u32 %r25, %smid; mov.u32 %r26, %nsmid;
        mad.lo.u32 %r0, %r3, %r5, %r2; mad.lo.u32 %r0, %r0, %r4, %r1;
        mul.lo.u32 %r27, %r4, %r5; mul.lo.u32 %r27, %r27, %r6;
        mad.lo.u32 %r28, %r9, %r11, %r8; mad.lo.u32 %r28, %r28, %r10, %r7; mad.lo.u32 %r28, %r28, %r27, %r0;
        ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r28, 104; add.u64 %rd1, %rd1, %rd2;
        {stores} }}",
        stores = (1..27).map(|r| format!("st.global.u32 [%rd1+{}], %r{r};", 4 * (r - 1))).collect::<String>()
    );
    let device = Device::new(&ptx);
    let (grid, block) = ([3, 2, 2], [5, 3, 3]);
    let threads = 12 * 45;
    let out = device.upload(&vec![0u32; 26 * threads]);
    device
        .run_with("k", grid, block, 64, &[at(out)], 1 << 20)
        .unwrap();
    for (index, found) in device
        .download::<u32>(out, 26 * threads)
        .chunks(26)
        .enumerate()
    {
        let (thread, number) = (index as u32 % 45, index as u32 / 45);
        let lane = thread % 32;
        let below = |lane: u32| ((1u64 << lane) - 1) as u32;
        let expected = [
            thread % 5,
            thread / 5 % 3,
            thread / 15,
            5,
            3,
            3,
            number % 3,
            number / 3 % 2,
            number / 6,
            3,
            2,
            2,
            lane,
            thread / 32,
            2,
            1 << lane,
            below(lane),
            below(lane + 1),
            !below(lane + 1),
            !below(lane),
            64,
            96,
            0,
            1,
            0,
            1,
        ];
        assert_eq!(found, expected, "thread {thread} of block {number}");
    }
}

const HEADER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// Generic addresses of shared, local and parameter memory lie in windows of their own; global ones stay as they are.
#[test]
pub fn windows() {
    check("cvta.to.global.u64 %d, %a;", &["u64"], "u64", |v| v[0]);
    check("cvta.global.u64 %d, %a;", &["u64"], "u64", |v| v[0]);
    for space in ["shared", "local", "param"] {
        check(
            &format!("cvta.{space}.u64 %z, %a; cvta.to.{space}.u64 %d, %z;"),
            &["u64"],
            "u64",
            |v| v[0],
        );
        for other in ["shared", "local", "param", "global", "const"] {
            let found = eval(
                &format!(
                    "and.b64 %a, %a, 0xffff; cvta.{space}.u64 %z, %a; isspacep.{other} %d, %z;"
                ),
                &["u64"],
                "pred",
                &rows(&["u64"]),
            );
            assert!(
                found
                    .iter()
                    .all(|&truth| truth == u64::from(space == other)),
                "{space} {other}"
            );
        }
    }
    check(
        "shr.u64 %a, %a, 16; isspacep.global %d, %a;",
        &["u64"],
        "pred",
        |_| 1,
    );
    // The same byte by both of its addresses.
    check(
        ".shared .b32 s; cvta.shared.u64 %z, s; st.u32 [%z], 7; ld.shared.u32 %d, [s];",
        &["u32"],
        "u32",
        |_| 7,
    );
    check(
        ".local .b32 l; cvta.local.u64 %z, l; st.local.u32 [l], %a; ld.u32 %d, [%z];",
        &["u32"],
        "u32",
        |v| v[0],
    );
    check(
        "cvta.param.u64 %z, n; ld.u32 %d, [%z];",
        &["u32"],
        "u32",
        |_| rows(&["u32"]).len() as u64,
    );
}
