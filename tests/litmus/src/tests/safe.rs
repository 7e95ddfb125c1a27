//! Safe cudarc 0.19.10: what its types wait for, and what they do not.

use std::sync::Arc;
use std::thread;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DriverError, PinnedHostSlice};

use crate::host::Host;
use crate::litmus::{test, Litmus};

pub const TESTS: &[Litmus] = &[
    test(
        "C01",
        "R12, R20",
        "default stream: memcpy_dtoh(&d, &mut pinned); as_slice()",
        &["1"],
        |lab| said(c01(lab.words())),
    )
    .also_gated(&["1", "7", "mix"])
    .eager("7")
    .reports(&["H01/H13"]),
    test(
        "C02",
        "R14, R20",
        "new_stream(): memcpy_dtoh(&d, &mut pinned); as_slice()",
        &["7"],
        |lab| said(c02(lab.words())),
    ),
    test(
        "C03",
        "R7",
        "default stream: memcpy_dtoh(&d, &mut pinned); synchronize(); as_slice()",
        &["7"],
        |lab| said(c03(lab.words())),
    ),
    test(
        "C04",
        "R12, R22",
        "default stream: memcpy_htod(&pinned, &mut d); as_mut_slice().fill(99); read d",
        &["99"],
        |lab| said(c04(lab.words())),
    )
    .also_gated(&["1", "99", "mix"])
    .eager("1")
    .reports(&["H02/H13"]),
    test(
        "C05",
        "R12, R20",
        "new_stream(): memcpy_dtoh(&d, pinned.as_mut_slice()); read",
        &["1"],
        |lab| said(c05(lab.words())),
    )
    .also_gated(&["1", "7", "mix"])
    .eager("7")
    .reports(&["H01/H13"]),
    test(
        "C06",
        "R2, R11",
        "streams a and b copy x to pinned memory, c overwrites x; c.synchronize(); look at a's buffer",
        &["9"],
        |lab| said(c06(lab.words())),
    )
    .also_gated(&["7", "9", "mix"])
    .eager("7")
    .reports(&["H09/H15"]),
    test(
        "C07",
        "R45",
        "x and y of the default stream, then s = new_stream(); s.memcpy_dtod(&x, &mut y); end of scope",
        &["done"],
        |lab| said(c07(lab.words())),
    )
    .reports(&["H05", "H05"]),
    test(
        "C08",
        "R12, R28",
        "alloc_unified holds 1; default stream: memset_zeros; as_slice()",
        &["1"],
        |lab| said(c08(lab.words())),
    )
    .also_gated(&["1", "0", "mix"])
    .eager("0")
    .reports(&["H01/H13"]),
    test(
        "C09",
        "R71, R72",
        "a thread without the context drops a slice of the default stream; then ctx.name()",
        &["Err(201)"],
        |lab| said(c09(lab.words())),
    )
    .reports(&["H25", "H27", "H28"]),
    test(
        "C10",
        "R21",
        "default stream: memcpy_dtoh(&d, &mut vec); look at it",
        &["7"],
        |lab| said(c10(lab.words())),
    )
    .also_gated(&["1", "7", "mix"])
    .direct("1")
    .reports(&["H11"])
    .soft(),
    test(
        "C11",
        "R5",
        "per_thread_stream(): memcpy_dtoh; another thread synchronizes the same value; look at the buffer",
        &["1"],
        |lab| said(c11(lab.words())),
    )
    .also_gated(&["1", "7", "mix"])
    .eager("7")
    .reports(&["H01/H17"]),
    test(
        "C12",
        "R62",
        "new_stream(): capture memset_zeros of a slice that was used before",
        &["Err(901)"],
        |lab| said(c12(lab.words())),
    )
    .also_gated(&["Err(901)", "Err(905)"])
    .incomplete()
    .reports(&["H23"]),
    test(
        "C13",
        "R60",
        "disable_event_tracking(), then capture memset_zeros, launch, read",
        &["0"],
        |lab| said(c13(lab.words())),
    ),
];

type Seen = Result<String, DriverError>;

fn said(seen: Seen) -> String {
    seen.unwrap_or_else(|error| format!("Err({})", error.0 as u32))
}

/// What a slice holds, looked at as a program that races with a copy would.
fn look(slice: &[u32]) -> String {
    Host {
        address: slice.as_ptr() as usize,
        bytes: 4 * slice.len(),
    }
    .read()
}

/// Device memory that holds `value`; its stream is idle afterwards.
fn upload(stream: &Arc<CudaStream>, n: usize, value: u32) -> Result<CudaSlice<u32>, DriverError> {
    let values = vec![value; n];
    let slice = stream.clone_htod(&values)?;
    // The copy may read the vector until here.
    stream.synchronize()?;
    Ok(slice)
}

/// What a device buffer holds, after everything so far.
fn download(stream: &Arc<CudaStream>, slice: &CudaSlice<u32>) -> Seen {
    stream.context().synchronize()?;
    let values = stream.clone_dtoh(slice)?;
    stream.synchronize()?;
    Ok(look(&values))
}

fn pinned(
    context: &Arc<CudaContext>,
    n: usize,
    value: u32,
) -> Result<PinnedHostSlice<u32>, DriverError> {
    // SAFETY: every bit pattern is a u32, and it is filled before it is read.
    let mut slice = unsafe { context.alloc_pinned_with_flags(n, 0) }?;
    slice.as_mut_slice()?.fill(value);
    Ok(slice)
}

fn c01(n: usize) -> Seen {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let (d, mut p) = (upload(&stream, n, 7)?, pinned(&context, n, 1)?);
    stream.memcpy_dtoh(&d, &mut p)?;
    let r = look(p.as_slice()?);
    stream.synchronize()?;
    Ok(r)
}

fn c02(n: usize) -> Seen {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let (d, mut p) = (upload(&stream, n, 7)?, pinned(&context, n, 1)?);
    stream.memcpy_dtoh(&d, &mut p)?;
    let r = look(p.as_slice()?);
    stream.synchronize()?;
    Ok(r)
}

fn c03(n: usize) -> Seen {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let (d, mut p) = (upload(&stream, n, 7)?, pinned(&context, n, 1)?);
    stream.memcpy_dtoh(&d, &mut p)?;
    stream.synchronize()?;
    Ok(look(p.as_slice()?))
}

fn c04(n: usize) -> Seen {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let (mut d, mut p) = (upload(&stream, n, 7)?, pinned(&context, n, 1)?);
    stream.memcpy_htod(&p, &mut d)?;
    p.as_mut_slice()?.fill(99);
    download(&stream, &d)
}

fn c05(n: usize) -> Seen {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let (d, mut p) = (upload(&stream, n, 7)?, pinned(&context, n, 1)?);
    stream.memcpy_dtoh(&d, p.as_mut_slice()?)?;
    let r = look(p.as_slice()?);
    stream.synchronize()?;
    Ok(r)
}

fn c06(n: usize) -> Seen {
    let context = CudaContext::new(0)?;
    let (a, b) = (context.new_stream()?, context.new_stream()?);
    let c = context.new_stream()?;
    let (mut x, nine) = (upload(&a, n, 7)?, pinned(&context, n, 9)?);
    let (mut p, mut q) = (pinned(&context, n, 1)?, pinned(&context, n, 1)?);
    a.memcpy_dtoh(&x, &mut p)?;
    b.memcpy_dtoh(&x, &mut q)?;
    c.memcpy_htod(&nine, &mut x)?;
    c.synchronize()?;
    let r = look(p.as_slice()?);
    context.synchronize()?;
    Ok(r)
}

fn c07(n: usize) -> Seen {
    let context = CudaContext::new(0)?;
    {
        let stream = context.default_stream();
        let x = upload(&stream, n, 7)?;
        let mut y = upload(&stream, n, 1)?;
        let s = context.new_stream()?;
        s.memcpy_dtod(&x, &mut y)?;
        // The stream, declared last, is dropped first; with it goes cudarc's tracking.
    }
    context.synchronize()?;
    Ok("done".into())
}

fn c08(n: usize) -> Seen {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    // SAFETY: every bit pattern is a u32, and it is filled before it is read.
    let mut unified = unsafe { context.alloc_unified::<u32>(n, true) }?;
    unified.as_mut_slice()?.fill(1);
    stream.memset_zeros(&mut unified)?;
    let r = look(unified.as_slice()?);
    stream.synchronize()?;
    Ok(r)
}

fn c09(n: usize) -> Seen {
    let context = CudaContext::new(0)?;
    let x = upload(&context.default_stream(), n, 7)?;
    thread::spawn(move || drop(x))
        .join()
        .expect("dropping does not panic");
    context.name()
}

fn c10(n: usize) -> Seen {
    // Declared first, so dropped last: the copy may be pending until the context is gone.
    let mut values = vec![1; n];
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let d = upload(&stream, n, 7)?;
    stream.memcpy_dtoh(&d, &mut values)?;
    Ok(look(&values))
}

fn c11(n: usize) -> Seen {
    let context = CudaContext::new(0)?;
    let d = upload(&context.default_stream(), n, 7)?;
    let stream = context.per_thread_stream();
    let mut p = pinned(&context, n, 1)?;
    let buffer = Host {
        address: p.as_ptr()? as usize,
        bytes: 4 * n,
    };
    stream.memcpy_dtoh(&d, &mut p)?;
    let elsewhere = Arc::clone(&stream);
    thread::spawn(move || elsewhere.synchronize())
        .join()
        .expect("synchronizing does not panic")?;
    let r = buffer.read();
    stream.synchronize()?;
    Ok(r)
}

fn c12(n: usize) -> Seen {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let mut d = stream.alloc_zeros::<u32>(n)?;
    stream.synchronize()?;
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    let captured = stream.memset_zeros(&mut d);
    // cudarc keeps back the 905 of a wait, and would let it hit the next call: end_capture() would not even ask the driver.
    let _ = context.check_err();
    let ended = stream.end_capture(CUgraphInstantiate_flags(0)).map(drop);
    captured?;
    ended?;
    Ok("ok".into())
}

fn c13(n: usize) -> Seen {
    let context = CudaContext::new(0)?;
    // SAFETY: one stream uses the slice.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream()?;
    let mut d = upload(&stream, n, 7)?;
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    stream.memset_zeros(&mut d)?;
    let graph = stream.end_capture(CUgraphInstantiate_flags(0))?;
    if let Some(graph) = &graph {
        graph.launch()?;
    }
    stream.synchronize()?;
    download(&stream, &d)
}
