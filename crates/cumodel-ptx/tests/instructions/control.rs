use crate::harness::{check, value, word};
use crate::support::{at, Arg, Device};
use cumodel_ptx::Reason;

const HEADER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// A kernel whose thread `i` stores `%r0` to `out[i]`.
fn kernel(functions: &str, body: &str) -> String {
    format!(
        "{HEADER}{functions}\n.entry k(.param .u64 out) {{ .reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .pred %p<9>; .shared .align 4 .b32 s[64];
        mov.u32 %r1, %tid.x; mov.u32 %r0, 0;
        {body}
        ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r0; ret; }}"
    )
}

fn results(ptx: &str, threads: u32) -> Vec<u32> {
    let device = Device::new(ptx);
    let out = device.upload(&vec![0xffff_ffffu32; threads as usize]);
    device
        .run_with("k", [1, 1, 1], [threads, 1, 1], 0, &[at(out)], 1 << 28)
        .unwrap();
    device.download(out, threads as usize)
}

fn stopped(ptx: &str, threads: u32) -> cumodel_ptx::Stopped {
    let device = Device::new(ptx);
    let out = device.upload(&vec![0u32; threads as usize]);
    *device
        .run_with("k", [1, 1, 1], [threads, 1, 1], 0, &[at(out)], 1 << 20)
        .unwrap_err()
}

#[test]
pub fn branches_part_and_meet() {
    // Collatz: each lane leaves the loop at a time of its own.
    let body = "add.u32 %r2, %r1, 1;
        LOOP: setp.eq.u32 %p1, %r2, 1; @%p1 bra DONE;
        add.u32 %r0, %r0, 1; and.b32 %r3, %r2, 1; setp.eq.u32 %p2, %r3, 0; @!%p2 bra ODD;
        shr.u32 %r2, %r2, 1; bra.uni LOOP;
        ODD: mad.lo.u32 %r2, %r2, 3, 1; bra LOOP;
        DONE:";
    let expected: Vec<u32> = (1..=77u32)
        .map(|n| {
            std::iter::successors(Some(n), |n| {
                Some(if n % 2 == 0 { n / 2 } else { 3 * n + 1 })
            })
            .take_while(|&n| n != 1)
            .count() as u32
        })
        .collect();
    assert_eq!(results(&kernel("", body), 77), expected);
    // All lanes are together again behind the condition.
    let body = "and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra EVEN; add.u32 %r3, %r1, 1; add.u32 %r3, %r1, 2; bra MEET;
        EVEN: add.u32 %r3, %r1, 4; MEET: activemask.b32 %r0;";
    assert_eq!(results(&kernel("", body), 32), [u32::MAX; 32]);
}

/// A lane that waits for its neighbour gets its turn, and so does the neighbour.
#[test]
fn lanes_that_spin_make_way() {
    let body = "mov.u32 %r2, s; mov.u32 %r3, 0; st.shared.u32 [s], %r3; bar.sync 0;
        setp.eq.u32 %p1, %r1, 5; @%p1 bra RELEASE;
        SPIN: ld.volatile.shared.u32 %r4, [s]; setp.eq.u32 %p2, %r4, 0; @%p2 bra SPIN; bra DONE;
        RELEASE: mov.u32 %r5, 9; st.shared.u32 [s], %r5;
        DONE: ld.shared.u32 %r0, [s];";
    assert_eq!(results(&kernel("", body), 96), [9; 96]);
    // A lock that each lane takes once.
    let body = "mov.u32 %r3, 0; st.shared.u32 [s], %r3; st.shared.u32 [s+4], %r3; bar.sync 0;
        LOCK: atom.shared.cas.b32 %r4, [s], 0, 1; setp.ne.u32 %p1, %r4, 0; @%p1 bra LOCK;
        ld.shared.u32 %r5, [s+4]; add.u32 %r5, %r5, 1; st.shared.u32 [s+4], %r5; atom.shared.exch.b32 %r6, [s], 0;
        bar.sync 0; ld.shared.u32 %r0, [s+4];";
    assert_eq!(results(&kernel("", body), 70), [70; 70]);
}

#[test]
pub fn jump_tables() {
    let body = "and.b32 %r2, %r1, 3; TABLE: .branchtargets A, B, C, A; brx.idx %r2, TABLE;
        A: add.u32 %r0, %r1, 100; bra DONE; B: add.u32 %r0, %r1, 200; bra DONE; C: add.u32 %r0, %r1, 300; DONE:";
    let expected: Vec<u32> = (0..40)
        .map(|i| i + [100, 200, 300, 100][i as usize % 4])
        .collect();
    assert_eq!(results(&kernel("", body), 40), expected);
    let wild = stopped(
        &kernel("", &body.replace("and.b32 %r2, %r1, 3", "mov.u32 %r2, 4")),
        32,
    );
    assert!(matches!(wild.reason, Reason::Undefined { .. }), "{wild}");
}

const FUNCTIONS: &str = "
    .func (.param .b32 r) twice(.param .b32 a) { .reg .b32 %r<3>; ld.param.b32 %r1, [a]; add.u32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; }
    .func (.param .b32 r) half(.param .b32 a) { .reg .b32 %r<3>; ld.param.b32 %r1, [a]; shr.u32 %r2, %r1, 1; st.param.b32 [r+0], %r2; ret; }
    .func (.param .b32 r) sum(.param .b32 a);
    .func (.param .b32 r) sum(.param .b32 a) { .reg .b32 %r<4>; .reg .pred %p; .local .b32 kept;
        ld.param.b32 %r1, [a]; setp.eq.u32 %p, %r1, 0; mov.u32 %r2, 0; @%p bra DONE; st.local.u32 [kept], %r1;
        { .param .b32 x; .param .b32 y; sub.u32 %r3, %r1, 1; st.param.b32 [x], %r3; call (y), sum, (x); ld.param.b32 %r2, [y]; }
        ld.local.u32 %r1, [kept]; add.u32 %r2, %r2, %r1; DONE: st.param.b32 [r], %r2; ret; }
    .func nothing() { ret.uni; }
    .func forever(.param .b32 a) { .reg .b32 %r<2>; { .param .b32 x; ld.param.b32 %r1, [a]; st.param.b32 [x], %r1; call forever, (x); } ret; }";

#[test]
pub fn calls() {
    let call = |name: &str| {
        format!("{{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call (y), {name}, (x); ld.param.b32 %r0, [y]; }}")
    };
    assert_eq!(
        results(&kernel(FUNCTIONS, &call("twice")), 40),
        (0..40).map(|i| 2 * i).collect::<Vec<_>>()
    );
    assert_eq!(
        results(&kernel(FUNCTIONS, &call("sum")), 70),
        (0..70).map(|i| i * (i + 1) / 2).collect::<Vec<_>>()
    );
    assert_eq!(
        results(&kernel(FUNCTIONS, "call nothing; call.uni nothing, ();"), 3),
        [0; 3]
    );
    // Through a pointer that differs between lanes.
    let body = "mov.u64 %rd3, twice; mov.u64 %rd4, half; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; selp.b64 %rd3, %rd3, %rd4, %p1;
        { .param .b32 x; .param .b32 y; P: .callprototype (.param .b32 _) _ (.param .b32 _);
        st.param.b32 [x], %r1; call (y), %rd3, (x), P; ld.param.b32 %r0, [y]; }";
    let expected: Vec<u32> = (0..50)
        .map(|i| if i % 2 == 0 { 2 * i } else { i / 2 })
        .collect();
    assert_eq!(results(&kernel(FUNCTIONS, body), 50), expected);
    let wild = stopped(
        &kernel(
            FUNCTIONS,
            &body.replace("mov.u64 %rd4, half", "mov.u64 %rd4, 64"),
        ),
        32,
    );
    assert!(matches!(wild.reason, Reason::Undefined { .. }), "{wild}");
    let deep = stopped(
        &kernel(
            FUNCTIONS,
            "{ .param .b32 x; st.param.b32 [x], %r1; call forever, (x); }",
        ),
        32,
    );
    assert_eq!(deep.reason, Reason::Stack { depth: 256 });
    // 512 KiB of local memory hold seven frames of 64 KiB behind that of the kernel.
    let large = FUNCTIONS.replace(
        "forever(.param .b32 a) {",
        "forever(.param .b32 a) { .local .b8 large[65536];",
    );
    let deep = stopped(
        &kernel(
            &large,
            "{ .param .b32 x; st.param.b32 [x], %r1; call forever, (x); }",
        ),
        32,
    );
    assert_eq!(deep.reason, Reason::Stack { depth: 7 });
    // A result that only some lanes fetch.
    let body = "setp.lt.u32 %p1, %r1, 7; { .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; @%p1 call (y), twice, (x); @%p1 ld.param.b32 %r0, [y]; }";
    assert_eq!(
        results(&kernel(FUNCTIONS, body), 10),
        [0, 2, 4, 6, 8, 10, 12, 0, 0, 0]
    );
}

#[test]
pub fn exits() {
    let body = "setp.gt.u32 %p1, %r1, 40; @%p1 exit; bar.sync 0; mov.u32 %r0, 1;";
    let expected: Vec<u32> = (0..70).map(|i| if i > 40 { u32::MAX } else { 1 }).collect();
    assert_eq!(results(&kernel("", body), 70), expected);
}

#[test]
pub fn traps() {
    let stopped = stopped(&kernel("", "setp.eq.u32 %p1, %r1, 33;\n@%p1 trap;"), 64);
    assert_eq!(
        (stopped.reason, stopped.line, stopped.thread),
        (Reason::Trap, 8, [33, 0, 0])
    );
}

#[test]
pub fn hints_change_nothing() {
    for text in [
        "membar.cta;",
        "membar.gl;",
        "membar.sys;",
        "fence.sc.gpu;",
        "fence.acq_rel.sys;",
        "fence.acq_rel.cta;",
        "nanosleep.u32 100;",
        "nanosleep.u32 %a;",
        "prefetch.global.L1 [%out];",
        "prefetch.global.L2 [%out];",
        "prefetchu.L1 [%out];",
        "discard.global.L2 [%out], 128;",
    ] {
        check(
            &format!("{text} add.u32 %d, %a, 1;"),
            &["u32"],
            "u32",
            |v| word("u32", value("u32", v[0]) + 1),
        );
    }
}

#[test]
pub fn barriers_count_threads() {
    for barrier in [
        "bar.sync 0",
        "barrier.sync 0",
        "barrier.cta.sync.aligned 3",
        "bar.cta.sync 1",
        "bar.sync %r9",
    ] {
        let body = format!("mov.u32 %r9, 2; mov.u32 %r2, s; mad.lo.u32 %r2, %r1, 4, %r2; st.shared.u32 [%r2], %r1; {barrier};
            mov.u32 %r2, s; sub.u32 %r3, 63, %r1; mad.lo.u32 %r2, %r3, 4, %r2; ld.shared.u32 %r0, [%r2];");
        assert_eq!(
            results(&kernel("", &body), 64),
            (0..64).rev().collect::<Vec<_>>(),
            "{barrier}"
        );
    }
    // 70 threads, of which 23 have a number divisible by three and above zero.
    let vote = "rem.u32 %r2, %r1, 3; setp.eq.u32 %p1, %r2, 0; setp.ne.and.u32 %p1, %r1, 0, %p1;";
    assert_eq!(
        results(
            &kernel(
                "",
                &format!("{vote} barrier.cta.red.popc.aligned.u32 %r0, 0, %p1;")
            ),
            70
        ),
        [23; 70]
    );
    assert_eq!(
        results(
            &kernel("", &format!("{vote} bar.red.popc.u32 %r0, 0, !%p1;")),
            70
        ),
        [47; 70]
    );
    for (kind, truth) in [("and", 0), ("or", 1)] {
        let body = format!("{vote} bar.red.{kind}.pred %p2, 0, %p1; selp.u32 %r0, 1, 0, %p2;");
        assert_eq!(results(&kernel("", &body), 70), [truth; 70]);
    }
    // Producers arrive and go on, consumers wait for both.
    let body = "setp.ge.u32 %p1, %r1, 32; @%p1 bra CONSUME; mov.u32 %r2, 41; st.shared.u32 [s], %r2; bar.arrive 1, 64; bra DONE;
        CONSUME: bar.sync 1, 64; ld.shared.u32 %r0, [s]; DONE:";
    let expected: Vec<u32> = (0..64).map(|i| if i < 32 { 0 } else { 41 }).collect();
    assert_eq!(results(&kernel("", body), 64), expected);
    // Threads of one warp that meet at two copies of the same barrier.
    let body = "setp.lt.u32 %p1, %r1, 16; @%p1 bra LOW; bar.sync 0; mov.u32 %r0, 2; bra DONE; LOW: bar.sync 0; mov.u32 %r0, 1; DONE:";
    assert_eq!(
        results(&kernel("", body), 32),
        (0..32)
            .map(|i| if i < 16 { 1 } else { 2 })
            .collect::<Vec<_>>()
    );
}

#[test]
fn deadlocks_and_endless_loops_end() {
    let body =
        "setp.lt.u32 %p1, %r1, 16;\n@%p1 bra LOW;\nbar.sync 0;\nbra DONE;\nLOW: bar.sync 1;\nDONE:";
    let dead = stopped(&kernel("", body), 64);
    let Reason::Deadlock { what } = &dead.reason else {
        panic!("{dead}")
    };
    assert!(
        what.starts_with("64 threads wait at a barrier of the block and 0 for lanes")
            && what.contains("PTX lines 9, 11"),
        "{what}"
    );
    let body = "setp.lt.u32 %p1, %r1, 16;\n@%p1 bra LOW;\nbar.warp.sync -1;\nLOW: bar.sync 0;";
    let dead = stopped(&kernel("", body), 32);
    assert_eq!(dead.line, 9, "{dead}");
    assert!(
        dead.to_string()
            .contains("16 threads wait at a barrier of the block and 16 for lanes of their warp"),
        "{dead}"
    );
    let endless = stopped(&kernel("", "LOOP:\nadd.u32 %r0, %r0, 1;\nbra LOOP;"), 64);
    assert_eq!(endless.reason, Reason::Budget { budget: 1 << 20 });
    assert!((8..=9).contains(&endless.line), "{endless}");
    assert!(
        endless.to_string().starts_with("kernel `k`, PTX line "),
        "{endless}"
    );
    let spins = stopped(
        &kernel(
            "",
            "SPIN: ld.volatile.shared.u32 %r4, [s]; setp.ne.u32 %p2, %r4, 7; @%p2 bra SPIN;",
        ),
        64,
    );
    assert_eq!(spins.reason, Reason::Budget { budget: 1 << 20 });
    let sixteen = stopped(&kernel("", "bar.sync 16;"), 32);
    assert!(matches!(sixteen.reason, Reason::Undefined { .. }));
}

#[test]
fn launches_that_do_not_fit() {
    let device = Device::new(&kernel("", ""));
    let out = device.upload(&[0u32; 8]);
    for (grid, block, shared) in [
        ([0, 1, 1], [1, 1, 1], 0),
        ([1, 1, 1], [1, 0, 1], 0),
        ([1, 1, 1], [1025, 1, 1], 0),
        ([1, 1, 1], [64, 64, 1], 0),
        ([1, 1, 1], [1, 1, 1], u32::MAX),
    ] {
        let stopped = device
            .run_with("k", grid, block, shared, &[at(out)], 1 << 20)
            .unwrap_err();
        assert!(
            matches!(stopped.reason, Reason::BadLaunch { .. }),
            "{stopped}"
        );
    }
    // A grid with many blocks in each direction.
    let ptx = format!("{HEADER}.entry k(.param .u64 out, .param .u32 add) {{ .reg .b32 %r<9>; .reg .b64 %rd<3>; ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [add];
        mov.u32 %r2, %ctaid.z; mov.u32 %r3, %nctaid.y; mov.u32 %r4, %ctaid.y; mad.lo.u32 %r2, %r2, %r3, %r4; add.u32 %r2, %r2, %r1;
        red.global.add.u32 [%rd1], %r2; }}");
    let device = Device::new(&ptx);
    let out = device.upload(&[0u32]);
    let executed = device
        .run("k", [7, 11, 13], [3, 1, 1], &[at(out), Arg::I(2)])
        .unwrap();
    let expected: u32 = (0..143).map(|block| (block + 2) * 7 * 3).sum();
    assert_eq!(device.download::<u32>(out, 1), [expected]);
    assert_eq!(executed.instructions, 1001 * 3 * 9);
}
