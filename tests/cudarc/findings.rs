//! Safe cudarc 0.19.10: what the page on its types says, and no litmus test shows.
//!
//! Where a program is wrong, the one after it, named `…_repaired`, is what the page says to write instead.

use std::sync::Arc;
use std::thread;

use cudarc::driver::result::{self, stream::StreamKind};
use cudarc::driver::sys::{
    self, CUevent_flags, CUgraphInstantiate_flags, CUstreamCaptureMode, CUstreamCaptureStatus,
};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DriverError, PinnedHostSlice};

/// A program, and what is seen of it on the model under `last`.
pub struct Finding {
    /// Its name, after which the page cites it.
    pub name: &'static str,
    /// The program; it returns what it read.
    pub program: fn() -> Result<String, DriverError>,
    /// What it returns.
    pub reads: &'static str,
    /// The ids of the model's reports, each once, in order; after a stroke the useless wait that explains a hazard.
    pub reports: &'static [&'static str],
    /// The driver calls in which the host waited, in order, where these are the point.
    pub waits: Option<&'static [&'static str]>,
    /// A variable of the model, if it needs one.
    pub setting: Option<(&'static str, &'static str)>,
}

impl Finding {
    const fn new(name: &'static str, program: fn() -> Seen, reads: &'static str) -> Finding {
        Finding {
            name,
            program,
            reads,
            reports: &[],
            waits: None,
            setting: None,
        }
    }

    const fn reports(self, reports: &'static [&'static str]) -> Finding {
        Finding { reports, ..self }
    }

    const fn waits(self, waits: &'static [&'static str]) -> Finding {
        let waits = Some(waits);
        Finding { waits, ..self }
    }

    const fn with(self, variable: &'static str, value: &'static str) -> Finding {
        let setting = Some((variable, value));
        Finding { setting, ..self }
    }
}

/// All of them.
pub const ALL: &[Finding] = &[
    Finding::new("pinned_dropped", pinned_dropped, "").reports(&["H03/H13"]),
    Finding::new("pinned_dropped_repaired", pinned_dropped_repaired, ""),
    Finding::new("borrowed_stream", || borrowed_stream(false), "1").reports(&["H18/H13"]),
    Finding::new("borrowed_stream_repaired", || borrowed_stream(true), "0"),
    Finding::new("pinned_part_repaired", pinned_part_repaired, "7"),
    Finding::new("write_combined", || download(true), "7").reports(&["H30"]),
    Finding::new("write_combined_repaired", || download(false), "7"),
    Finding::new("two_readers_repaired", two_readers_repaired, "7"),
    Finding::new("two_readers_drop", || two_readers_drop(false), "7").reports(&["H05/H15"]),
    Finding::new("two_readers_drop_repaired", || two_readers_drop(true), "7"),
    Finding::new("last_stream_repaired", last_stream_repaired, ""),
    Finding::new("unsafe_alloc", || unsafe_alloc(false), "").reports(&["H07/H13"]),
    Finding::new("unsafe_alloc_repaired", || unsafe_alloc(true), ""),
    Finding::new("foreign_thread_repaired", foreign_thread_repaired, "Ok"),
    Finding::new("foreign_context", || foreign_context(false), "Err(709)")
        .reports(&["H27", "H28"])
        .with("CUMODEL_DEVICES", "2"),
    Finding::new("foreign_context_repaired", || foreign_context(true), "Ok")
        .with("CUMODEL_DEVICES", "2"),
    Finding::new("peer_copy", || peer_copy(false), "not 7")
        .reports(&["H05/H16", "H07", "H08/H13"])
        .with("CUMODEL_DEVICES", "2"),
    Finding::new("peer_copy_repaired", || peer_copy(true), "7").with("CUMODEL_DEVICES", "2"),
    Finding::new("first_new_stream", first_new_stream, "").waits(&["cuCtxSynchronize"]),
    Finding::new("fork", fork, "").waits(&[]),
    Finding::new("drop_with_pools", drop_slice, "").waits(&[]),
    Finding::new("drop_without_pools", drop_slice, "")
        .waits(&["cuStreamSynchronize"])
        .with("CUMODEL_ATTRIBUTES", "115=0"),
    Finding::new("per_thread_repaired", per_thread_repaired, "7"),
    Finding::new("elapsed", || elapsed(None), "Err(400)"),
    Finding::new(
        "elapsed_repaired",
        || elapsed(Some(CUevent_flags::CU_EVENT_DEFAULT)),
        "Ok",
    )
    .waits(&["cuEventSynchronize", "cuEventSynchronize"]),
    Finding::new(
        "capture_goes_on",
        capture_goes_on,
        "Err(901) Err(905) invalidated Err(901) none",
    )
    .reports(&["H23"]),
    Finding::new("graph_without_slice", || graph(true), "").reports(&["H24"]),
    Finding::new("graph_without_slice_repaired", || graph(false), ""),
];

type Seen = Result<String, DriverError>;

/// Elements of every buffer.
const N: usize = 1024;

const THREAD_LOCAL: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;

/// The program ended, and nothing that it read matters.
fn done() -> Seen {
    Ok(String::new())
}

fn code<T>(result: Result<T, DriverError>) -> String {
    match result {
        Ok(_) => "Ok".to_owned(),
        Err(error) => format!("Err({})", error.0 as u32),
    }
}

fn first(values: &PinnedHostSlice<u32>) -> Seen {
    Ok(values.as_slice()?[0].to_string())
}

/// Device memory that holds 7, on an idle stream.
fn seven(stream: &Arc<CudaStream>) -> Result<CudaSlice<u32>, DriverError> {
    let values = vec![7; N];
    let slice = stream.clone_htod(&values)?;
    stream.synchronize()?;
    Ok(slice)
}

/// Pinned memory that holds 1.
fn pinned(context: &Arc<CudaContext>) -> Result<PinnedHostSlice<u32>, DriverError> {
    // SAFETY: every bit pattern is a u32, and it is filled before it is read.
    let mut slice = unsafe { context.alloc_pinned_with_flags(N, 0) }?;
    slice.as_mut_slice()?.fill(1);
    Ok(slice)
}

fn pinned_dropped() -> Seen {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let (d, mut p) = (seven(&stream)?, pinned(&context)?);
    stream.memcpy_dtoh(&d, &mut p)?;
    drop(p);
    stream.synchronize()?;
    done()
}

fn pinned_dropped_repaired() -> Seen {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let (d, mut p) = (seven(&stream)?, pinned(&context)?);
    stream.memcpy_dtoh(&d, &mut p)?;
    stream.synchronize()?;
    drop(p);
    done()
}

/// Memory of the default stream is set to 1 and waited for, then to 0, and downloaded on a stream of another library.
fn borrowed_stream(join: bool) -> Seen {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let handle = result::stream::create(StreamKind::NonBlocking)?;
    // SAFETY: the handle is a stream of this context, and is destroyed after the wrapper is dropped.
    let borrowed = unsafe { context.wrap_borrowed_stream(handle) };
    let ones = vec![1; N];
    let mut p = pinned(&context)?;
    let mut x = stream.clone_htod(&ones)?;
    stream.synchronize()?;
    stream.memset_zeros(&mut x)?;
    if join {
        borrowed.join(&stream)?;
    }
    borrowed.memcpy_dtoh(&x, &mut p)?;
    borrowed.synchronize()?;
    stream.synchronize()?;
    drop(borrowed);
    // SAFETY: the stream was created above, and its wrapper is gone.
    unsafe { result::stream::destroy(handle) }?;
    first(&p)
}

fn pinned_part_repaired() -> Seen {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let (d, mut p) = (seven(&stream)?, pinned(&context)?);
    let part = &mut p.as_mut_slice()?[..N / 2];
    stream.memcpy_dtoh(&d.slice(..N / 2), part)?;
    stream.synchronize()?;
    Ok(part[0].to_string())
}

fn download(write_combined: bool) -> Seen {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let d = seven(&stream)?;
    // SAFETY: every bit pattern is a u32, and the copy is waited for before it is read.
    let mut p = unsafe {
        if write_combined {
            context.alloc_pinned::<u32>(N)?
        } else {
            context.alloc_pinned_with_flags::<u32>(N, 0)?
        }
    };
    stream.memcpy_dtoh(&d, &mut p)?;
    stream.synchronize()?;
    first(&p)
}

fn two_readers_repaired() -> Seen {
    let context = CudaContext::new(0)?;
    let (a, b) = (context.new_stream()?, context.new_stream()?);
    let c = context.new_stream()?;
    let (mut x, source) = (seven(&a)?, pinned(&context)?);
    let (mut p, mut q) = (pinned(&context)?, pinned(&context)?);
    a.memcpy_dtoh(&x, &mut p)?;
    b.memcpy_dtoh(&x, &mut q)?;
    c.join(&a)?;
    c.memcpy_htod(&source, &mut x)?;
    c.synchronize()?;
    first(&p)
}

fn two_readers_drop(join: bool) -> Seen {
    let context = CudaContext::new(0)?;
    let (a, b) = (context.new_stream()?, context.new_stream()?);
    let c = context.new_stream()?;
    let x = seven(&c)?;
    let (mut p, mut q) = (pinned(&context)?, pinned(&context)?);
    a.memcpy_dtoh(&x, &mut p)?;
    b.memcpy_dtoh(&x, &mut q)?;
    if join {
        c.join(&a)?;
    }
    drop(x);
    context.synchronize()?;
    first(&p)
}

fn last_stream_repaired() -> Seen {
    let context = CudaContext::new(0)?;
    let s = context.new_stream()?;
    let stream = context.default_stream();
    let (x, mut y) = (seven(&stream)?, seven(&stream)?);
    s.memcpy_dtod(&x, &mut y)?;
    done()
}

fn unsafe_alloc(join: bool) -> Seen {
    let context = CudaContext::new(0)?;
    let (a, b) = (context.new_stream()?, context.new_stream()?);
    // SAFETY: it is written before it is read.
    let mut x = unsafe { a.alloc::<u32>(N) }?;
    if join {
        b.join(&a)?;
    }
    b.memset_zeros(&mut x)?;
    context.synchronize()?;
    done()
}

fn foreign_thread_repaired() -> Seen {
    let context = CudaContext::new(0)?;
    let x = seven(&context.default_stream())?;
    let bound = thread::spawn(move || {
        x.context().bind_to_thread()?;
        drop(x);
        Ok(())
    });
    bound.join().expect("the thread does not panic")?;
    Ok(code(context.name()))
}

fn foreign_context(bind: bool) -> Seen {
    let context = CudaContext::new(0)?;
    let x = seven(&context.default_stream())?;
    drop(CudaContext::new(1)?);
    if bind {
        context.bind_to_thread()?;
    }
    drop(x);
    Ok(code(context.name()))
}

fn peer_copy(created: bool) -> Seen {
    let (here, there) = (CudaContext::new(0)?, CudaContext::new(1)?);
    let stream = if created {
        there.new_stream()?
    } else {
        there.default_stream()
    };
    let mut p = pinned(&there)?;
    let x = seven(&here.default_stream())?;
    let y = stream.clone_dtod(&x)?;
    stream.memcpy_dtoh(&y, &mut p)?;
    stream.synchronize()?;
    // What the device memory held before is anything.
    let seen = if p.as_slice()?[0] == 7 { "7" } else { "not 7" };
    drop(y);
    here.synchronize()?;
    Ok(seen.to_owned())
}

fn first_new_stream() -> Seen {
    let context = CudaContext::new(0)?;
    let _x = context.default_stream().alloc_zeros::<u32>(N)?;
    let _first = context.new_stream()?;
    let _second = context.new_stream()?;
    done()
}

fn fork() -> Seen {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let _x = stream.alloc_zeros::<u32>(N)?;
    let _first = stream.fork()?;
    done()
}

fn drop_slice() -> Seen {
    let context = CudaContext::new(0)?;
    drop(context.default_stream().alloc_zeros::<u32>(N)?);
    done()
}

fn per_thread_repaired() -> Seen {
    let context = CudaContext::new(0)?;
    let d = seven(&context.default_stream())?;
    let stream = context.per_thread_stream();
    let mut p = pinned(&context)?;
    stream.memcpy_dtoh(&d, &mut p)?;
    let copied = stream.record_event(None)?;
    let waited = thread::spawn(move || copied.synchronize());
    waited.join().expect("the thread does not panic")?;
    first(&p)
}

fn elapsed(flags: Option<CUevent_flags>) -> Seen {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let (start, end) = (stream.record_event(flags)?, stream.record_event(flags)?);
    Ok(code(start.elapsed_ms(&end)))
}

fn capture_goes_on() -> Seen {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let mut d = stream.alloc_zeros::<u32>(N)?;
    stream.synchronize()?;
    stream.begin_capture(THREAD_LOCAL)?;
    let end = || stream.end_capture(CUgraphInstantiate_flags(0));
    let seen = [
        code(stream.memset_zeros(&mut d)),
        code(end()),
        status(&stream),
        code(end()),
        status(&stream),
    ];
    Ok(seen.join(" "))
}

fn status(stream: &CudaStream) -> String {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the stream lives, and the out-pointer is valid.
    let result = unsafe { sys::cuStreamIsCapturing(stream.cu_stream(), &mut status) };
    let name = match status {
        CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE => "none",
        CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE => "active",
        CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED => "invalidated",
    };
    result
        .result()
        .map_or_else(|error| code::<()>(Err(error)), |()| name.to_owned())
}

fn graph(drop_first: bool) -> Seen {
    let context = CudaContext::new(0)?;
    // SAFETY: one stream uses the slice.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream()?;
    let mut d = seven(&stream)?;
    stream.begin_capture(THREAD_LOCAL)?;
    stream.memset_zeros(&mut d)?;
    let graph = stream.end_capture(CUgraphInstantiate_flags(0))?;
    let kept = (!drop_first).then_some(d);
    if let Some(graph) = &graph {
        graph.launch()?;
    }
    stream.synchronize()?;
    drop(kept);
    done()
}
