//! What the documentation of the crate says that is not modelled, or chosen where the PTX ISA leaves it open.
mod support;
use cumodel_ptx::Reason;
use support::{at, Arg, Device};

/// A kernel of one thread in each block, with the parameters `out` and `n`.
fn kernel(body: &str) -> Device {
    Device::new(&format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 out, .param .u32 n) {{
        .reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .pred %p<9>; .reg .f32 %f<5>;
        ld.param.u64 %rd1, [out]; ld.param.u32 %r9, [n]; mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2;
        {body} }}"
    ))
}

/// Each block waits for the flag of a neighbour, then sets its own; the last in the chain does not wait.
fn chain(offset: &str, last: &str) -> String {
    format!(
        "setp.eq.u32 %p1, %r1, {last}; @%p1 bra GO;
        SPIN: ld.volatile.global.u32 %r2, [%rd2{offset}]; setp.eq.u32 %p2, %r2, 0; @%p2 bra SPIN;
        GO: membar.gl; mov.u32 %r3, 1; st.volatile.global.u32 [%rd2], %r3;"
    )
}

#[test]
fn a_block_may_wait_for_an_earlier_one_but_not_for_a_later_one() {
    let blocks = 500u32;
    let device = kernel(&chain("+-4", "0"));
    let flags = device.upload(&vec![0u32; blocks as usize]);
    device
        .run_with(
            "k",
            [blocks, 1, 1],
            [1, 1, 1],
            0,
            &[at(flags), Arg::I(0)],
            1 << 26,
        )
        .unwrap();
    assert_eq!(
        device.download::<u32>(flags, blocks as usize),
        vec![1; blocks as usize]
    );

    let device = kernel(&chain("+4", "%r9"));
    let flags = device.upload(&vec![0u32; blocks as usize]);
    let params = [at(flags), Arg::I(i64::from(blocks) - 1)];
    let stopped = device
        .run_with("k", [blocks, 1, 1], [1, 1, 1], 0, &params, 1 << 20)
        .unwrap_err();
    assert_eq!(stopped.reason, Reason::Budget { budget: 1 << 20 });
}

#[test]
fn memory_of_the_block_holds_a_pattern_before_the_first_write() {
    let device = kernel(
        ".shared .b32 s; .local .b32 l; ld.shared.u32 %r2, [s]; ld.local.u32 %r3, [l]; st.global.v2.u32 [%rd1], {%r2, %r3};
        st.shared.u32 [s], %r9; st.local.u32 [l], %r9;",
    );
    let out = device.upload(&[0u32; 2]);
    // The second block finds nothing that the first one left.
    device
        .run("k", [2, 1, 1], [1, 1, 1], &[at(out), Arg::I(7)])
        .unwrap();
    assert_eq!(device.download::<u32>(out, 2), [0xcdcd_cdcd; 2]);
}

#[test]
fn a_clock_counts_instructions() {
    let device = kernel("mov.u64 %rd3, %clock64; mov.u32 %r2, %clock; nanosleep.u32 1000; mov.u32 %r3, %clock; sub.u32 %r2, %r3, %r2; st.global.u32 [%rd1], %r2;");
    let out = device.upload(&[0u32]);
    device
        .run("k", [1, 1, 1], [1, 1, 1], &[at(out), Arg::I(0)])
        .unwrap();
    assert_eq!(device.download::<u32>(out, 1), [2]);
}

#[test]
fn a_missing_fence_does_not_show() {
    // The data is written before the flag, without a fence, and the reader sees both.
    let device = kernel(
        "setp.eq.u32 %p1, %r1, 0; @!%p1 bra READ; st.global.u32 [%rd1+8], %r9; mov.u32 %r3, 1; st.volatile.global.u32 [%rd1], %r3; ret;
        READ: ld.volatile.global.u32 %r2, [%rd1]; setp.eq.u32 %p2, %r2, 0; @%p2 bra READ; ld.global.u32 %r4, [%rd1+8]; st.global.u32 [%rd1+4], %r4;",
    );
    let out = device.upload(&[0u32; 3]);
    device
        .run("k", [2, 1, 1], [1, 1, 1], &[at(out), Arg::I(41)])
        .unwrap();
    assert_eq!(device.download::<u32>(out, 3), [1, 41, 41]);
}

#[test]
fn one_nan_stands_for_all() {
    let device =
        kernel("mov.b32 %f1, 0xffc12345; add.f32 %f2, %f1, %f1; st.global.f32 [%rd1], %f2;");
    let out = device.upload(&[0u32]);
    device
        .run("k", [1, 1, 1], [1, 1, 1], &[at(out), Arg::I(0)])
        .unwrap();
    assert_eq!(device.download::<u32>(out, 1), [0x7fff_ffff]);
}
