//! Small programs on the model: what they read, and which hazards are reported.
//!
//! Each runs in a process of its own (this test executes itself), because a process has one driver.
//! Programs use `sys` and `result`, where nothing is added to what the program asks for.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs};

use cudarc::driver::sys::{
    self, CUdeviceptr, CUevent, CUevent_flags, CUresult, CUstream, CUstream_flags,
};
use cudarc::driver::CudaContext;
use libtest_mimic::{Arguments, Failed, Trial};

/// Elements of every buffer: 256 KiB of u32.
const N: usize = 64 << 10;
const BYTES: usize = N * 4;

/// The driver, called without anything in between.
struct Cuda {
    _context: std::sync::Arc<CudaContext>,
}

impl Cuda {
    fn new() -> Cuda {
        let context = CudaContext::new(0).expect("the model has device 0");
        Cuda { _context: context }
    }

    fn stream(&self) -> CUstream {
        let mut stream = ptr::null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the out-pointer is valid.
        ok(unsafe { sys::cuStreamCreate(&mut stream, flags) });
        stream
    }

    fn event(&self) -> CUevent {
        let mut event = ptr::null_mut();
        let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: the out-pointer is valid.
        ok(unsafe { sys::cuEventCreate(&mut event, flags) });
        event
    }

    /// A device buffer that holds `value`, with the host ordered after the fill.
    fn device(&self, value: u32) -> CUdeviceptr {
        let mut address = 0;
        // SAFETY: the out-pointer is valid.
        ok(unsafe { sys::cuMemAlloc_v2(&mut address, BYTES) });
        fill(address, value, ptr::null_mut());
        sync(ptr::null_mut());
        address
    }

    /// A pinned buffer that holds `value`.
    fn pinned(&self, value: u32) -> Pinned {
        let mut address = ptr::null_mut();
        // SAFETY: the out-pointer is valid.
        ok(unsafe { sys::cuMemHostAlloc(&mut address, BYTES, 0) });
        let pinned = Pinned(address.cast());
        pinned.set(value);
        pinned
    }
}

/// A pinned buffer of `N` elements, never freed: what is in flight must outlive the program's mistakes.
#[derive(Clone, Copy)]
struct Pinned(*mut u32);

impl Pinned {
    fn get(&self, index: usize) -> u32 {
        // SAFETY: the buffer has N elements and lives as long as the process.
        unsafe { self.0.add(index).read_volatile() }
    }

    fn set(&self, value: u32) {
        for index in 0..N {
            // SAFETY: as above.
            unsafe { self.0.add(index).write_volatile(value) };
        }
    }
}

/// Bytes of a buffer that is guarded by moving page tables.
const LARGE: usize = 64 << 20;

fn large(cuda: &Cuda, value: u32) -> CUdeviceptr {
    let _ = cuda;
    let mut address = 0;
    // SAFETY: the out-pointer is valid, and the memory has LARGE bytes.
    unsafe {
        ok(sys::cuMemAlloc_v2(&mut address, LARGE));
        ok(sys::cuMemsetD32Async(
            address,
            value,
            LARGE / 4,
            ptr::null_mut(),
        ));
    }
    sync(ptr::null_mut());
    address
}

fn large_pinned(value: u32) -> Pinned {
    let mut address = ptr::null_mut();
    // SAFETY: the out-pointer is valid, and the memory has LARGE bytes.
    unsafe {
        ok(sys::cuMemHostAlloc(&mut address, LARGE, 0));
        std::slice::from_raw_parts_mut(address.cast::<u32>(), LARGE / 4).fill(value);
    }
    Pinned(address.cast())
}

/// Releases the primary context of a second device, which nobody has retained.
fn release_once_too_often() -> u32 {
    // SAFETY: no arguments that point anywhere.
    unsafe { sys::cuDevicePrimaryCtxRelease_v2(1) as u32 }
}

fn minor_faults() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the out-pointer is valid, and the call fills it.
    unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init().ru_minflt
    }
}

#[track_caller]
fn ok(code: CUresult) {
    assert_eq!(code, CUresult::CUDA_SUCCESS);
}

fn fill(to: CUdeviceptr, value: u32, stream: CUstream) {
    // SAFETY: device buffers have N elements.
    ok(unsafe { sys::cuMemsetD32Async(to, value, N, stream) });
}

fn dtoh(to: Pinned, from: CUdeviceptr, stream: CUstream) {
    // SAFETY: both buffers have BYTES bytes and are never freed while in use.
    ok(unsafe { sys::cuMemcpyDtoHAsync_v2(to.0.cast(), from, BYTES, stream) });
}

fn htod(to: CUdeviceptr, from: Pinned, stream: CUstream) {
    // SAFETY: as above.
    ok(unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.0.cast(), BYTES, stream) });
}

fn sync(stream: CUstream) {
    // SAFETY: the stream lives.
    ok(unsafe { sys::cuStreamSynchronize(stream) });
}

fn record(event: CUevent, stream: CUstream) {
    // SAFETY: both live.
    ok(unsafe { sys::cuEventRecord(event, stream) });
}

fn host_function(stream: CUstream, function: unsafe extern "C" fn(*mut c_void), data: *mut c_void) {
    // SAFETY: every program here keeps the argument alive until it has waited for the function.
    ok(unsafe { sys::cuLaunchHostFunc(stream, Some(function), data) });
}

/// Reads a device buffer's first element, ordered after everything.
fn read_device(from: CUdeviceptr) -> u32 {
    let mut value = 0u32;
    // SAFETY: the buffers have at least 4 bytes.
    unsafe {
        ok(sys::cuCtxSynchronize());
        ok(sys::cuMemcpyDtoH_v2(
            ptr::from_mut(&mut value).cast(),
            from,
            4,
        ));
    }
    value
}

/// A program, what it prints under `last`, and the hazards that are reported there.
struct Program {
    name: &'static str,
    run: fn(&Cuda),
    last: &'static str,
    hazards: &'static [&'static str],
    /// What the schedule `eager` prints: the value that hides a missing wait.
    eager: &'static str,
    /// Are the hazards mistakes of a call, which no schedule hides?
    in_every_schedule: bool,
    /// Settings.
    env: [(&'static str, &'static str); 2],
    /// The one schedule that it runs under.
    only: Option<&'static str>,
    /// The signal that ends it.
    signal: Option<i32>,
    /// What it says on stderr.
    says: &'static str,
}

impl Program {
    const fn with(mut self, name: &'static str, value: &'static str) -> Program {
        let free = if self.env[0].0.is_empty() { 0 } else { 1 };
        self.env[free] = (name, value);
        self
    }

    const fn only(mut self, schedule: &'static str) -> Program {
        self.only = Some(schedule);
        self
    }

    const fn dies_of(mut self, signal: i32) -> Program {
        self.signal = Some(signal);
        self
    }

    const fn says(mut self, text: &'static str) -> Program {
        self.says = text;
        self
    }
}

const NOTHING: Program = Program {
    name: "",
    run: |_| (),
    last: "",
    hazards: &[],
    eager: "",
    in_every_schedule: true,
    env: [("", ""); 2],
    only: None,
    signal: None,
    says: "",
};

/// A program that does the same under every schedule, without a hazard.
const fn always(name: &'static str, run: fn(&Cuda), prints: &'static str) -> Program {
    Program {
        name,
        run,
        last: prints,
        hazards: &[],
        eager: prints,
        in_every_schedule: true,
        ..NOTHING
    }
}

/// A program that makes a mistake which no schedule hides.
const fn mistake(
    name: &'static str,
    run: fn(&Cuda),
    prints: &'static str,
    hazards: &'static [&'static str],
) -> Program {
    Program {
        name,
        run,
        last: prints,
        hazards,
        eager: prints,
        in_every_schedule: true,
        ..NOTHING
    }
}

/// A program that depends on when operations run, by mistake or to show it.
const fn timing_dependent(
    name: &'static str,
    run: fn(&Cuda),
    last: &'static str,
    hazards: &'static [&'static str],
    eager: &'static str,
) -> Program {
    Program {
        name,
        run,
        last,
        hazards,
        eager,
        in_every_schedule: false,
        ..NOTHING
    }
}

/// What the litmus suite does not cover: settings, the end of the process, faults that are not the model's.
const PROGRAMS: &[Program] = &[
    timing_dependent("h02_store_under_download", |cuda| {
        let (d, p, s) = (cuda.device(7), cuda.pinned(1), cuda.stream());
        dtoh(p, d, s);
        p.set(99);
        sync(s);
        println!("{}", p.get(0));
    }, "7", &["H02"], "99"),
    always("reading_an_upload_source_is_fine", |cuda| {
        let (d, p, s) = (cuda.device(0), cuda.pinned(1), cuda.stream());
        htod(d, p, s);
        println!("{}", p.get(0));
        sync(s);
    }, "1"),
    always("disjoint_ranges_do_not_race", |cuda| {
        let (d, p) = (cuda.device(7), cuda.pinned(1));
        let (a, b) = (cuda.stream(), cuda.stream());
        // SAFETY: halves of a device buffer and of a pinned one.
        unsafe {
            ok(sys::cuMemsetD32Async(d, 5, N / 2, a));
            ok(sys::cuMemsetD32Async(d + BYTES as u64 / 2, 6, N / 2, b));
            ok(sys::cuMemcpyDtoHAsync_v2(p.0.cast(), d, BYTES / 2, a));
        }
        println!("{}", p.get(N - 1));
        sync(a);
        sync(b);
        println!("{} {}", p.get(0), read_device(d + BYTES as u64 - 4));
    }, "1 5 6"),
    // R16: the time between two events exists only if both are timed, recorded and complete.
    timing_dependent("elapsed_time_needs_timed_events", |cuda| {
        let (s, e) = (cuda.stream(), cuda.event());
        let mut timed = ptr::null_mut();
        let mut ms = 0f32;
        // SAFETY: the out-pointers are valid and the handles live.
        unsafe {
            ok(sys::cuEventCreate(&mut timed, 0));
            record(e, s);
            record(timed, s);
            println!("{:?}", sys::cuEventElapsedTime(&mut ms, e, timed));
            println!("{:?}", sys::cuEventElapsedTime(&mut ms, timed, timed));
            sync(s);
            println!("{:?}", sys::cuEventElapsedTime(&mut ms, timed, timed));
        }
    }, "CUDA_ERROR_INVALID_HANDLE CUDA_ERROR_NOT_READY CUDA_SUCCESS", &[], "CUDA_ERROR_INVALID_HANDLE CUDA_SUCCESS CUDA_SUCCESS"),
    always("spinning_on_an_atomic_ends", |cuda| {
        static GO: AtomicU32 = AtomicU32::new(0);
        unsafe extern "C" fn go(_: *mut c_void) {
            GO.store(1, Ordering::SeqCst);
        }
        let s = cuda.stream();
        host_function(s, go, ptr::null_mut());
        let start = Instant::now();
        while GO.load(Ordering::SeqCst) == 0 && start.elapsed() < Duration::from_secs(20) {}
        println!("{}", GO.load(Ordering::SeqCst));
    }, "1"),
    always("handles_are_reused_at_once", |cuda| {
        let first = cuda.stream();
        // SAFETY: the stream lives.
        ok(unsafe { sys::cuStreamDestroy_v2(first) });
        println!("{}", cuda.stream() == first);
    }, "true"),
    always("errors_have_names", |_| {
        let error = cudarc::driver::DriverError(CUresult::CUDA_ERROR_INVALID_VALUE);
        println!("{error}");
    }, "DriverError(CUDA_ERROR_INVALID_VALUE, \"invalid argument\")"),
    timing_dependent("large_pinned_memory_is_guarded", |cuda| {
        let (d, p, s) = (large(cuda, 7), large_pinned(1), cuda.stream());
        // SAFETY: both have LARGE bytes and live as long as the process.
        ok(unsafe { sys::cuMemcpyDtoHAsync_v2(p.0.cast(), d, LARGE, s) });
        println!("{} {}", p.get(LARGE / 4 - 1), p.get(LARGE / 8));
        sync(s);
        println!("{} {}", p.get(LARGE / 4 - 1), p.get(0));
    }, "1 1 7 7", &["H01"], "7 7 7 7"),
    always("large_pinned_memory_comes_back_without_faults", |cuda| {
        let (d, p, s) = (large(cuda, 7), large_pinned(1), cuda.stream());
        for _ in 0..3 {
            // SAFETY: both have LARGE bytes and live as long as the process.
            ok(unsafe { sys::cuMemcpyDtoHAsync_v2(p.0.cast(), d, LARGE, s) });
            sync(s);
        }
        let before = minor_faults();
        let sum: u64 = (0..LARGE / 4).step_by(1024).map(|index| u64::from(p.get(index))).sum();
        println!("{} {}", sum == 7 * (LARGE as u64 / 4096), minor_faults() - before < 8);
    }, "true true"),
    // R31: overlapping source and destination are undefined.
    mistake("an_overlapping_copy_is_reported", |cuda| {
        let d = cuda.device(7);
        // SAFETY: both ranges are inside the buffer.
        ok(unsafe { sys::cuMemcpyDtoDAsync_v2(d + 4, d, BYTES - 4, ptr::null_mut()) });
        sync(ptr::null_mut());
        println!("done");
    }, "done", &["H29"]),
    // R32: zero bytes are a success and touch nothing.
    always("copies_of_nothing_succeed", |cuda| {
        let (d, p) = (cuda.device(7), cuda.pinned(1));
        // SAFETY: nothing is read or written.
        let codes = unsafe {
            [
                sys::cuMemcpyDtoHAsync_v2(p.0.cast(), d, 0, ptr::null_mut()),
                sys::cuMemcpyHtoDAsync_v2(d, ptr::null(), 0, ptr::null_mut()),
                sys::cuMemsetD32Async(d, 9, 0, ptr::null_mut()),
            ]
        };
        println!("{:?} {} {}", codes.map(|code| code as u32), p.get(0), read_device(d));
    }, "[0, 0, 0] 1 7"),
    // R36: memsets of 2 and 4 bytes need aligned addresses; R48: a free needs the start of a live allocation.
    always("misaligned_memsets_and_bad_frees_are_refused", |cuda| {
        let (d, p) = (cuda.device(7), cuda.pinned(1));
        // SAFETY: every call is refused.
        let codes = unsafe {
            [
                sys::cuMemsetD16Async(d + 1, 0, 1, ptr::null_mut()),
                sys::cuMemsetD32Async(d + 2, 0, 1, ptr::null_mut()),
                sys::cuMemFree_v2(d + 4),
                sys::cuMemFreeHost(p.0.add(1).cast()),
                sys::cuMemFreeAsync(1234, ptr::null_mut()),
            ]
        };
        println!("{:?}", codes.map(|code| code as u32));
    }, "[1, 1, 1, 1, 1]"),
    // R47: sizes of zero.
    always("allocations_of_nothing", |_| {
        let (mut x, mut p) = (0, ptr::null_mut());
        // SAFETY: the out-pointers are valid.
        let codes = unsafe {
            [
                sys::cuMemAlloc_v2(&mut x, 0),
                sys::cuMemAllocManaged(&mut x, 0, 1),
                sys::cuMemHostAlloc(&mut p, 0, 0),
                sys::cuMemAllocAsync(&mut x, 0, ptr::null_mut()),
                sys::cuMemFree_v2(0),
            ]
        };
        println!("{:?}", codes.map(|code| code as u32));
    }, "[1, 1, 1, 0, 0]"),
    // R49: freed pool memory counts as free once the host has waited for the free.
    timing_dependent("freed_memory_returns_at_the_next_wait", |cuda| {
        let s = cuda.stream();
        let free = || {
            let (mut free, mut total) = (0, 0);
            // SAFETY: the out-pointers are valid.
            ok(unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) });
            total - free
        };
        let mut x = 0;
        // SAFETY: the out-pointer is valid, and nothing uses the block.
        unsafe {
            ok(sys::cuMemAllocAsync(&mut x, BYTES, s));
            println!("{}", free() / BYTES);
            ok(sys::cuMemFreeAsync(x, s));
        }
        println!("{}", free() / BYTES);
        sync(s);
        println!("{}", free() / BYTES);
    }, "1 1 0", &[], "1 0 0"),
    // R65: memory from outside cannot be freed in a capture.
    mistake("a_free_of_outside_memory_is_not_captured", |cuda| {
        let s = cuda.stream();
        let (mut x, mut graph) = (0, ptr::null_mut());
        // SAFETY: the out-pointers are valid.
        unsafe {
            ok(sys::cuMemAllocAsync(&mut x, BYTES, s));
            ok(sys::cuStreamBeginCapture_v2(s, sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED));
            let freed = sys::cuMemFreeAsync(x, s);
            let ended = sys::cuStreamEndCapture(s, &mut graph);
            println!("{} {} {}", freed as u32, ended as u32, graph.is_null());
            ok(sys::cuMemFreeAsync(x, s));
        }
    }, "1 901 true", &["H23"]),
    // R66: an event that was last recorded in a capture which is gone cannot be waited for.
    mistake("an_event_of_a_capture_that_is_gone", |cuda| {
        let (s, other, e) = (cuda.stream(), cuda.stream(), cuda.event());
        let mut graph = ptr::null_mut();
        // SAFETY: the out-pointer is valid and the handles live.
        unsafe {
            ok(sys::cuStreamBeginCapture_v2(s, sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED));
            record(e, s);
            ok(sys::cuStreamEndCapture(s, &mut graph));
            ok(sys::cuGraphDestroy(graph));
            println!("{}", sys::cuStreamWaitEvent(other, e, 0) as u32);
        }
    }, "1", &["H23"]),
    // R70: the primary context counts its users; R73: a destroyed context that is still current.
    always("the_primary_context_counts_its_users", |cuda| {
        let (mut flags, mut active, mut context) = (0, 0, ptr::null_mut());
        // SAFETY: the out-pointers are valid.
        unsafe {
            ok(sys::cuDevicePrimaryCtxRetain(&mut context, 0));
            ok(sys::cuDevicePrimaryCtxRelease_v2(0));
            ok(sys::cuDevicePrimaryCtxGetState(0, &mut flags, &mut active));
            let mut created = ptr::null_mut();
            ok(sys::cuCtxCreate_v2(&mut created, 0, 0));
            ok(sys::cuCtxSetCurrent(context));
            ok(sys::cuCtxDestroy_v2(created));
            println!("{active} {}", sys::cuCtxSetCurrent(created) as u32);
        }
        println!("{}", release_once_too_often());
        let _ = cuda;
    }, "1 709 201").with("CUMODEL_DEVICES", "2"),
    always("a_process_may_end_with_its_context_retained", |_| {
        std::mem::forget(CudaContext::new(0));
        println!("over");
    }, "over"),
    always("a_call_is_made_to_fail", |cuda| {
        let s = cuda.stream();
        let mut codes = Vec::new();
        for _ in 0..3 {
            let mut x = 0;
            // SAFETY: the out-pointer is valid.
            codes.push(unsafe { sys::cuMemAllocAsync(&mut x, 4, s) as u32 });
        }
        println!("{codes:?}");
    }, "[0, 2, 0]").with("CUMODEL_FAIL", "cuMemAllocAsync:2:2"),
    always("a_failure_of_the_device_stays", |cuda| {
        let s = cuda.stream();
        // SAFETY: the stream lives.
        let codes = unsafe { [sys::cuStreamSynchronize(s), sys::cuStreamSynchronize(s), sys::cuCtxSynchronize()] };
        println!("{:?}", codes.map(|code| code as u32));
    }, "[700, 700, 700]").with("CUMODEL_FAIL", "cuStreamSynchronize:1:700"),
    always("attributes_and_memory_are_as_set", |cuda| {
        let mut value = 0;
        let (mut free, mut total, mut x) = (0, 0, 0);
        // SAFETY: the out-pointers are valid.
        unsafe {
            ok(sys::cuDeviceGetAttribute(&mut value, sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
            ok(sys::cuMemGetInfo_v2(&mut free, &mut total));
            println!("{value} {total} {}", sys::cuMemAlloc_v2(&mut x, 2 << 20) as u32);
        }
        let _ = cuda;
    }, "0 1048576 2").with("CUMODEL_ATTRIBUTES", "115=0").with("CUMODEL_DEVICE_MEMORY", "1048576"),
    // R30: where the GPU uses the page tables of the CPU, attribute 100 says so.
    always("the_coherent_machine_says_so", |_| {
        let mut value = 0;
        // SAFETY: the out-pointer is valid.
        unsafe {
            ok(sys::cuDeviceGetAttribute(&mut value, sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 0));
        }
        println!("{value}");
    }, "1").with("CUMODEL_MACHINE", "coherent"),
    always("a_copy_between_two_devices", |cuda| {
        let second = CudaContext::new(1).expect("there are two devices");
        let mut x = 0;
        // SAFETY: the out-pointer is valid.
        ok(unsafe { sys::cuMemAlloc_v2(&mut x, BYTES) });
        fill(x, 7, ptr::null_mut());
        sync(ptr::null_mut());
        cuda._context.bind_to_thread().expect("the context lives");
        let y = cuda.device(0);
        // SAFETY: both buffers have BYTES bytes.
        unsafe {
            ok(sys::cuMemcpyPeerAsync(y, cuda._context.cu_ctx(), x, second.cu_ctx(), BYTES, ptr::null_mut()));
        }
        println!("{}", read_device(y));
    }, "7").with("CUMODEL_DEVICES", "2"),
    mistake("a_hazard_makes_every_call_fail", |cuda| {
        let (d, p, s) = (cuda.device(7), cuda.pinned(1), cuda.stream());
        dtoh(p, d, s);
        p.get(0);
        // SAFETY: the stream lives.
        let codes = unsafe { [sys::cuStreamSynchronize(s), sys::cuStreamSynchronize(s)] };
        println!("{:?}", codes.map(|code| code as u32));
    }, "[719, 719]", &["H01"]).with("CUMODEL_ON_HAZARD", "error").only("last"),
    mistake("a_hazard_aborts", |cuda| {
        let (d, p, s) = (cuda.device(7), cuda.pinned(1), cuda.stream());
        dtoh(p, d, s);
        p.get(0);
        println!("not reached");
    }, "", &["H01"]).with("CUMODEL_ON_HAZARD", "abort").only("last").dies_of(libc::SIGABRT),
    always("a_stack_overflow_is_still_told", |cuda| {
        fn deep(n: u64) -> u64 {
            let frame = [n; 1000];
            if std::hint::black_box(&frame)[0] == u64::MAX { 0 } else { deep(n + 1) + frame[1] }
        }
        cuda.pinned(1);
        println!("{}", deep(0));
    }, "").only("last").dies_of(libc::SIGABRT).says("has overflowed its stack"),
    always("a_null_pointer_still_ends_the_program", |cuda| {
        cuda.pinned(1);
        // SAFETY: none; the fault is the point.
        println!("{}", unsafe { std::hint::black_box(ptr::null::<u8>()).read_volatile() });
    }, "").only("last").dies_of(libc::SIGSEGV),
];

/// Runs one program in a process of its own: what it printed, and the ids of the hazards, each once.
fn run(program: &Program, schedule: &str) -> Result<(String, Vec<String>), Failed> {
    let name = program.name;
    let folder = tempfile::tempdir()?;
    let reports = folder.path().join("reports");
    let settings = program.env.iter().filter(|(name, _)| !name.is_empty());
    let output = Command::new(env::current_exe()?)
        .env("CUMODEL_TEST_PROGRAM", name)
        .env("CUMODEL_SCHEDULE", schedule)
        .env("CUMODEL_REPORT", &reports)
        .envs(settings.copied())
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let as_expected = match program.signal {
        Some(signal) => output.status.signal() == Some(signal),
        None => output.status.success(),
    };
    if !as_expected || !stderr.contains(program.says) {
        return Err(format!("{name} under {schedule}: {}\n{stderr}", output.status).into());
    }
    let mut hazards: BTreeSet<String> = BTreeSet::new();
    for line in fs::read_to_string(&reports).unwrap_or_default().lines() {
        let report: serde_json::Value = serde_json::from_str(line)?;
        if report["severity"] == "hazard" {
            hazards.insert(report["id"].as_str().unwrap_or("no id").to_owned());
        }
    }
    let printed = String::from_utf8(output.stdout)?;
    Ok((
        printed.split_whitespace().collect::<Vec<_>>().join(" "),
        hazards.into_iter().collect(),
    ))
}

fn check(program: &Program, schedule: &str, prints: &str, hazards: &[&str]) -> Result<(), Failed> {
    let (printed, found) = run(program, schedule)?;
    if printed != prints || found != hazards {
        return Err(format!(
            "under {schedule}: printed \"{printed}\" with hazards {found:?}, expected \"{prints}\" with {hazards:?}"
        )
        .into());
    }
    Ok(())
}

fn test(program: &'static Program) -> Result<(), Failed> {
    if let Some(schedule) = program.only {
        return check(program, schedule, program.last, program.hazards);
    }
    check(program, "last", program.last, program.hazards)?;
    if !program.in_every_schedule {
        return check(program, "eager", program.eager, &[]);
    }
    for schedule in ["eager", "fifo", "random:1", "random:2", "random:3"] {
        check(program, schedule, program.last, program.hazards)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    if let Ok(name) = env::var("CUMODEL_TEST_PROGRAM") {
        let Some(program) = PROGRAMS.iter().find(|program| program.name == name) else {
            eprintln!("there is no program {name}");
            return ExitCode::FAILURE;
        };
        (program.run)(&Cuda::new());
        return ExitCode::SUCCESS;
    }
    let trials = PROGRAMS
        .iter()
        .map(|program| Trial::test(program.name, move || test(program)))
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
