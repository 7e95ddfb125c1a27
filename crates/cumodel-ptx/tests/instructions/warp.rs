use crate::support::{at, Device, Numbers};
use cumodel_ptx::Reason;

/// Runs a body in one warp: `%a` is the lane's input, `%d` its result, `%i` its lane.
fn warp(lanes: u32, inputs: &[u32], body: &str) -> Result<Vec<u32>, Box<cumodel_ptx::Stopped>> {
    let ptx = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 in, .param .u64 out) {{ .reg .b32 %a, %d, %i, %x, %y; .reg .b64 %z, %w, %in, %out; .reg .pred %p, %q;
        ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %i, %tid.x; mul.wide.u32 %z, %i, 4; add.u64 %in, %in, %z; add.u64 %out, %out, %z;
        ld.global.u32 %a, [%in]; mov.u32 %d, 0;
        {body}
        st.global.u32 [%out], %d; }}"
    );
    let device = Device::new(&ptx);
    let (input, out) = (device.upload(inputs), device.upload(&[0u32; 32]));
    device.run("k", [1, 1, 1], [lanes, 1, 1], &[at(input), at(out)])?;
    Ok(device.download(out, lanes as usize))
}

fn inputs() -> Vec<u32> {
    let mut numbers = Numbers(7);
    (0..32).map(|_| numbers.next() as u32).collect()
}

/// The pseudo code of the ISA in signed numbers.
fn source(mode: &str, lane: i64, b: i64, c: i64) -> (i64, bool) {
    let (clamp, segment) = (c & 31, c >> 8 & 31);
    let max = (lane & segment) | (clamp & !segment);
    let min = lane & segment;
    let (j, inside) = match mode {
        "up" => (lane - b, lane - b >= max),
        "down" => (lane + b, lane + b <= max),
        "bfly" => (lane ^ b, lane ^ b <= max),
        _ => {
            let j = min | (b & !segment);
            (j, j <= max)
        }
    };
    (if inside { j } else { lane }, inside)
}

#[test]
pub fn shuffles() {
    let values = inputs();
    for mode in ["up", "down", "bfly", "idx"] {
        for width in [32, 16, 8, 1] {
            // As `__shfl_*_sync` of this width pass it.
            let c = (32 - width) << 8 | if mode == "up" { 0 } else { 31 };
            for b in [0, 1, 3, 7, 16, 31, 33] {
                let text = format!(
                    "shfl.sync.{mode}.b32 %d|%p, %a, {b}, {c}, -1; @!%p xor.b32 %d, %d, 1;"
                );
                let expected: Vec<u32> = (0..32)
                    .map(|lane| {
                        let (from, inside) = source(mode, lane, b & 31, c);
                        values[from as usize] ^ u32::from(!inside)
                    })
                    .collect();
                assert_eq!(warp(32, &values, &text).unwrap(), expected, "{text}");
            }
        }
    }
    // Lanes choose for themselves.
    let expected: Vec<u32> = (0..32).map(|lane| values[(lane * 5 + 3) % 32]).collect();
    let text = "mad.lo.u32 %x, %i, 5, 3; shfl.sync.idx.b32 %d, %a, %x, 31, 0xffffffff;";
    assert_eq!(warp(32, &values, text).unwrap(), expected);
}

#[test]
fn parts_of_a_warp() {
    let values = inputs();
    // Two halves that part, shuffle among themselves at different places, and meet.
    let text = "setp.lt.u32 %p, %i, 16; @%p bra LOW; shfl.sync.bfly.b32 %d, %a, 1, 31, 0xffff0000; bra DONE;
        LOW: shfl.sync.bfly.b32 %d, %a, 2, 31, 0xffff; DONE:";
    let expected: Vec<u32> = (0..32)
        .map(|lane| values[if lane < 16 { lane ^ 2 } else { lane ^ 1 }])
        .collect();
    assert_eq!(warp(32, &values, text).unwrap(), expected);
    // The same mask at two copies of one instruction: all lanes meet there.
    let text =
        "setp.lt.u32 %p, %i, 16; @%p bra LOW; shfl.sync.bfly.b32 %d, %a, 16, 31, -1; bra DONE;
        LOW: shfl.sync.bfly.b32 %d, %a, 16, 31, -1; DONE:";
    assert_eq!(
        warp(32, &values, text).unwrap(),
        (0..32).map(|lane| values[lane ^ 16]).collect::<Vec<_>>()
    );
    // Lanes that have exited are not waited for.
    let text = "setp.ge.u32 %p, %i, 20; @%p exit; shfl.sync.idx.b32 %d, %a, 3, 31, -1;";
    assert_eq!(warp(32, &values, text).unwrap()[..20], [values[3]; 20]);
    // One instruction, two masks.
    let text =
        "setp.lt.u32 %p, %i, 8; selp.b32 %x, 0xff, 0xffffff00, %p; redux.sync.max.u32 %d, %a, %x;";
    let max = |values: &[u32]| *values.iter().max().unwrap();
    let expected: Vec<u32> = (0..32)
        .map(|lane| {
            if lane < 8 {
                max(&values[..8])
            } else {
                max(&values[8..])
            }
        })
        .collect();
    assert_eq!(warp(32, &values, text).unwrap(), expected);
    // bar.warp.sync orders what the lanes of a part wrote.
    let text = ".shared .b32 s[32]; mov.u32 %x, s; mad.lo.u32 %x, %i, 4, %x; st.shared.u32 [%x], %a; bar.warp.sync 0xffffffff;
        xor.b32 %y, %i, 9; mov.u32 %x, s; mad.lo.u32 %x, %y, 4, %x; ld.shared.u32 %d, [%x];";
    assert_eq!(
        warp(32, &values, text).unwrap(),
        (0..32).map(|lane| values[lane ^ 9]).collect::<Vec<_>>()
    );
}

#[test]
fn what_the_isa_leaves_undefined_is_reported() {
    let values = inputs();
    for text in [
        "shfl.sync.idx.b32 %d, %a, 0, 31, 0xfffffffe;",
        "setp.eq.u32 %p, %i, 3; @%p exit; shfl.sync.idx.b32 %d, %a, 3, 31, -1;",
        "setp.lt.u32 %p, %i, 16; @%p bra LOW; shfl.sync.idx.b32 %d, %a, 1, 31, -1; bra DONE; LOW: redux.sync.add.u32 %d, %a, -1; DONE:",
    ] {
        let stopped = warp(32, &values, text).unwrap_err();
        assert!(matches!(stopped.reason, Reason::Undefined { .. }), "{stopped}");
    }
}

#[test]
pub fn votes() {
    for lanes in [32, 20] {
        for limit in [0, 1, 7, 20, 32] {
            let truths: Vec<bool> = (0..lanes).map(|lane| lane < limit).collect();
            let (all, any) = (truths.iter().all(|&t| t), truths.iter().any(|&t| t));
            for (kind, truth) in [("all", all), ("any", any), ("uni", all || !any)] {
                let text = format!("setp.lt.u32 %p, %i, {limit}; vote.sync.{kind}.pred %q, %p, -1; selp.u32 %d, 1, 0, %q;");
                assert_eq!(
                    warp(lanes, &inputs(), &text).unwrap(),
                    vec![u32::from(truth); lanes as usize],
                    "{text}"
                );
            }
            let ballot = (0..lanes)
                .filter(|&lane| lane >= limit)
                .fold(0, |all, lane| all | 1 << lane);
            let text = format!("setp.lt.u32 %p, %i, {limit}; vote.sync.ballot.b32 %d, !%p, -1;");
            assert_eq!(
                warp(lanes, &inputs(), &text).unwrap(),
                vec![ballot; lanes as usize]
            );
        }
    }
}

#[test]
pub fn matches() {
    let values: Vec<u32> = (0..32).map(|lane| lane * lane % 7).collect();
    let same = |value: u32| {
        (0..32)
            .filter(|&lane| values[lane] == value)
            .fold(0u32, |all, lane| all | 1 << lane)
    };
    let expected: Vec<u32> = values.iter().map(|&value| same(value)).collect();
    assert_eq!(
        warp(32, &values, "match.any.sync.b32 %d, %a, -1;").unwrap(),
        expected
    );
    let wide = "cvt.u64.u32 %z, %a; shl.b64 %z, %z, 40; match.any.sync.b64 %d, %z, -1;";
    assert_eq!(warp(32, &values, wide).unwrap(), expected);
    let all = "match.all.sync.b32 %d|%p, %a, -1; @%p add.u32 %d, %d, 1;";
    assert_eq!(warp(32, &values, all).unwrap(), [0; 32]);
    assert_eq!(warp(20, &[5; 32], all).unwrap(), [0x10_0000; 20]);
}

#[test]
pub fn reductions() {
    let values = inputs();
    let signed: Vec<i32> = values.iter().map(|&value| value as i32).collect();
    let rows = [
        (
            "add.u32",
            values.iter().fold(0u32, |a, b| a.wrapping_add(*b)),
        ),
        (
            "add.s32",
            values.iter().fold(0u32, |a, b| a.wrapping_add(*b)),
        ),
        ("min.u32", *values.iter().min().unwrap()),
        ("max.u32", *values.iter().max().unwrap()),
        ("min.s32", *signed.iter().min().unwrap() as u32),
        ("max.s32", *signed.iter().max().unwrap() as u32),
        ("and.b32", values.iter().fold(u32::MAX, |a, b| a & b)),
        ("or.b32", values.iter().fold(0, |a, b| a | b)),
        ("xor.b32", values.iter().fold(0, |a, b| a ^ b)),
    ];
    for (name, expected) in rows {
        assert_eq!(
            warp(32, &values, &format!("redux.sync.{name} %d, %a, -1;")).unwrap(),
            [expected; 32],
            "{name}"
        );
    }
}

#[test]
pub fn active_lanes() {
    let text = "setp.lt.u32 %p, %i, 5; @%p activemask.b32 %d;";
    let expected: Vec<u32> = (0..10).map(|lane| if lane < 5 { 31 } else { 0 }).collect();
    assert_eq!(warp(10, &inputs(), text).unwrap(), expected);
}
