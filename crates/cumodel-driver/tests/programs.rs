//! Small programs on the model: what they read, and which hazards are reported.
//!
//! Each runs in a process of its own (this test executes itself), because a process has one driver.
//! Programs use `sys` and `result`, where nothing is added to what the program asks for.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::process::{Command, ExitCode};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{channel, Sender};
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

fn wait(stream: CUstream, event: CUevent) {
    // SAFETY: both live.
    ok(unsafe { sys::cuStreamWaitEvent(stream, event, 0) });
}

fn event_sync(event: CUevent) {
    // SAFETY: the event lives.
    ok(unsafe { sys::cuEventSynchronize(event) });
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
}

/// A program that does the same under every schedule, without a hazard.
const fn always(name: &'static str, run: fn(&Cuda), prints: &'static str) -> Program {
    Program {
        name,
        run,
        last: prints,
        hazards: &[],
        eager: prints,
        in_every_schedule: true,
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
    }
}

/// Hazards H01 to H05 and H08 to H10, each with a twin that has the missing edge; then the ordering rules.
const PROGRAMS: &[Program] = &[
    timing_dependent("h01_read_without_wait", |cuda| {
        let (d, p, s) = (cuda.device(7), cuda.pinned(1), cuda.stream());
        dtoh(p, d, s);
        println!("{}", p.get(N - 1));
        sync(s);
        println!("{}", p.get(N - 1));
    }, "1 7", &["H01"], "7 7"),
    always("h01_twin", |cuda| {
        let (d, p, s) = (cuda.device(7), cuda.pinned(1), cuda.stream());
        dtoh(p, d, s);
        sync(s);
        println!("{}", p.get(N - 1));
    }, "7"),
    timing_dependent("h02_refill_under_upload", |cuda| {
        let (d, p, s) = (cuda.device(0), cuda.pinned(1), cuda.stream());
        htod(d, p, s);
        p.set(99);
        println!("{}", read_device(d));
    }, "99", &["H02"], "1"),
    always("h02_twin", |cuda| {
        let (d, p, s) = (cuda.device(0), cuda.pinned(1), cuda.stream());
        htod(d, p, s);
        sync(s);
        p.set(99);
        println!("{}", read_device(d));
    }, "1"),
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
    timing_dependent("h03_free_pinned_in_flight", |cuda| {
        let (d, p, s) = (cuda.device(0), cuda.pinned(1), cuda.stream());
        htod(d, p, s);
        // SAFETY: the mistake under test; the model never hands such a block out again.
        ok(unsafe { sys::cuMemFreeHost(p.0.cast()) });
        println!("{}", read_device(d));
    }, "1", &["H03"], "1"),
    always("h03_twin", |cuda| {
        let (d, p, s) = (cuda.device(0), cuda.pinned(1), cuda.stream());
        htod(d, p, s);
        sync(s);
        // SAFETY: nothing uses the buffer any more.
        ok(unsafe { sys::cuMemFreeHost(p.0.cast()) });
        println!("{}", read_device(d));
    }, "1"),
    timing_dependent("h04_free_device_in_flight", |cuda| {
        let (d, p, s) = (cuda.device(7), cuda.pinned(1), cuda.stream());
        dtoh(p, d, s);
        // SAFETY: the mistake under test.
        ok(unsafe { sys::cuMemFree_v2(d) });
        sync(s);
        println!("{}", p.get(0));
    }, "7", &["H04"], "7"),
    always("h04_twin", |cuda| {
        let (d, p, s) = (cuda.device(7), cuda.pinned(1), cuda.stream());
        dtoh(p, d, s);
        sync(s);
        // SAFETY: nothing uses the buffer any more.
        ok(unsafe { sys::cuMemFree_v2(d) });
        println!("{}", p.get(0));
    }, "7"),
    timing_dependent("h05_free_async_unordered", |cuda| {
        let (a, b, p) = (cuda.stream(), cuda.stream(), cuda.pinned(1));
        let mut x = 0;
        // SAFETY: the out-pointer is valid.
        ok(unsafe { sys::cuMemAllocAsync(&mut x, BYTES, a) });
        fill(x, 7, a);
        sync(a);
        dtoh(p, x, b);
        // SAFETY: the mistake under test: b still reads.
        ok(unsafe { sys::cuMemFreeAsync(x, a) });
        let mut y = 0;
        // SAFETY: the out-pointer is valid.
        ok(unsafe { sys::cuMemAllocAsync(&mut y, BYTES, a) });
        fill(y, 9, a);
        sync(a);
        sync(b);
        println!("{} {}", x == y, p.get(0));
    }, "true 9", &["H05", "H09"], "true 7"),
    always("h05_twin", |cuda| {
        let (a, b, p, e) = (cuda.stream(), cuda.stream(), cuda.pinned(1), cuda.event());
        let mut x = 0;
        // SAFETY: the out-pointer is valid.
        ok(unsafe { sys::cuMemAllocAsync(&mut x, BYTES, a) });
        fill(x, 7, a);
        sync(a);
        dtoh(p, x, b);
        record(e, b);
        wait(a, e);
        // SAFETY: a is ordered after the last use.
        ok(unsafe { sys::cuMemFreeAsync(x, a) });
        let mut y = 0;
        // SAFETY: the out-pointer is valid.
        ok(unsafe { sys::cuMemAllocAsync(&mut y, BYTES, a) });
        fill(y, 9, a);
        sync(a);
        println!("{} {}", x == y, p.get(0));
    }, "true 7"),
    timing_dependent("h08_read_on_another_stream", |cuda| {
        let (d, nine, p) = (cuda.device(7), cuda.pinned(9), cuda.pinned(1));
        let (a, b) = (cuda.stream(), cuda.stream());
        htod(d, nine, a);
        dtoh(p, d, b);
        sync(b);
        println!("{}", p.get(0));
    }, "7", &["H08"], "9"),
    always("h08_twin", |cuda| {
        let (d, nine, p) = (cuda.device(7), cuda.pinned(9), cuda.pinned(1));
        let (a, b, e) = (cuda.stream(), cuda.stream(), cuda.event());
        htod(d, nine, a);
        record(e, a);
        wait(b, e);
        dtoh(p, d, b);
        sync(b);
        println!("{}", p.get(0));
    }, "9"),
    timing_dependent("h09_overwrite_on_another_stream", |cuda| {
        let (d, nine, p) = (cuda.device(7), cuda.pinned(9), cuda.pinned(1));
        let (a, b) = (cuda.stream(), cuda.stream());
        dtoh(p, d, b);
        htod(d, nine, a);
        sync(a);
        sync(b);
        println!("{}", p.get(0));
    }, "9", &["H09"], "7"),
    always("h09_twin", |cuda| {
        let (d, nine, p) = (cuda.device(7), cuda.pinned(9), cuda.pinned(1));
        let (a, b, e) = (cuda.stream(), cuda.stream(), cuda.event());
        dtoh(p, d, b);
        record(e, b);
        wait(a, e);
        htod(d, nine, a);
        sync(a);
        sync(b);
        println!("{}", p.get(0));
    }, "7"),
    timing_dependent("h10_two_writers", |cuda| {
        let d = cuda.device(7);
        let (a, b) = (cuda.stream(), cuda.stream());
        fill(d, 5, a);
        fill(d, 6, b);
        // Both are forced by the same wait: the order of the calls is not an order.
        println!("{}", read_device(d));
    }, "5", &["H10"], "6"),
    always("h10_twin", |cuda| {
        let d = cuda.device(7);
        let (a, b, e) = (cuda.stream(), cuda.stream(), cuda.event());
        fill(d, 5, a);
        record(e, a);
        wait(b, e);
        fill(d, 6, b);
        println!("{}", read_device(d));
    }, "6"),
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

    // R10 to R16: events
    timing_dependent("event_recorded_before_the_copy", |cuda| {
        let (d, p, s, e) = (cuda.device(7), cuda.pinned(1), cuda.stream(), cuda.event());
        record(e, s);
        dtoh(p, d, s);
        event_sync(e);
        println!("{}", p.get(0));
        sync(s);
    }, "1", &["H01"], "7"),
    timing_dependent("event_never_recorded", |cuda| {
        let (d, p, s, e) = (cuda.device(7), cuda.pinned(1), cuda.stream(), cuda.event());
        dtoh(p, d, s);
        event_sync(e);
        println!("{}", p.get(0));
        sync(s);
    }, "1", &["H01"], "7"),
    always("wait_keeps_the_older_capture", |cuda| {
        let (d, d2, p) = (cuda.device(7), cuda.device(0), cuda.pinned(1));
        let (a, b, e) = (cuda.stream(), cuda.stream(), cuda.event());
        record(e, a);
        wait(b, e);
        fill(d2, 5, a);
        record(e, a);
        dtoh(p, d, b);
        sync(b);
        println!("{}", p.get(0));
    }, "7"),
    always("destroyed_event_keeps_its_waits", |cuda| {
        let (d, nine, p) = (cuda.device(7), cuda.pinned(9), cuda.pinned(1));
        let (a, b, e) = (cuda.stream(), cuda.stream(), cuda.event());
        htod(d, nine, a);
        record(e, a);
        wait(b, e);
        // SAFETY: the event lives.
        ok(unsafe { sys::cuEventDestroy_v2(e) });
        dtoh(p, d, b);
        sync(b);
        println!("{}", p.get(0));
    }, "9"),
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

    // R3 to R6: the default streams and destroyed ones
    timing_dependent("null_stream_and_nonblocking_stream", |cuda| {
        let (d, p, s) = (cuda.device(7), cuda.pinned(1), cuda.stream());
        fill(d, 9, s);
        dtoh(p, d, ptr::null_mut());
        sync(ptr::null_mut());
        println!("{}", p.get(0));
        sync(s);
    }, "7", &["H18"], "9"),
    always("null_stream_and_blocking_stream", |cuda| {
        let (d, p) = (cuda.device(7), cuda.pinned(1));
        let mut s = ptr::null_mut();
        // SAFETY: the out-pointer is valid.
        ok(unsafe { sys::cuStreamCreate(&mut s, 0) });
        fill(d, 9, s);
        dtoh(p, d, ptr::null_mut());
        sync(ptr::null_mut());
        println!("{}", p.get(0));
    }, "9"),
    always("null_stream_and_per_thread_stream", |cuda| {
        let (d, p) = (cuda.device(7), cuda.pinned(1));
        fill(d, 9, 2 as CUstream);
        dtoh(p, d, ptr::null_mut());
        sync(ptr::null_mut());
        println!("{}", p.get(0));
    }, "9"),
    always("destroyed_stream_finishes_its_work", |cuda| {
        let (d, p, s) = (cuda.device(7), cuda.pinned(1), cuda.stream());
        dtoh(p, d, s);
        // SAFETY: the stream lives; the manual lets its work finish.
        unsafe {
            ok(sys::cuStreamDestroy_v2(s));
            ok(sys::cuCtxSynchronize());
        }
        println!("{}", p.get(0));
    }, "7"),

    // R20 to R26: copies
    always("pageable_source_is_read_at_the_call", |cuda| {
        let (d, s) = (cuda.device(0), cuda.stream());
        let mut host = vec![1u32; N];
        // SAFETY: the source has BYTES bytes.
        ok(unsafe { sys::cuMemcpyHtoDAsync_v2(d, host.as_ptr().cast(), BYTES, s) });
        host.fill(99);
        println!("{}", read_device(d));
    }, "1"),
    always("pageable_destination_is_complete_at_the_return", |cuda| {
        let (d, s) = (cuda.device(7), cuda.stream());
        let mut host = vec![1u32; N];
        // SAFETY: the destination has BYTES bytes.
        ok(unsafe { sys::cuMemcpyDtoHAsync_v2(host.as_mut_ptr().cast(), d, BYTES, s) });
        println!("{}", host[N - 1]);
    }, "7"),
    always("through_pinned_memory_in_one_stream", |cuda| {
        let (a, b, p, s) = (cuda.device(7), cuda.device(0), cuda.pinned(1), cuda.stream());
        dtoh(p, a, s);
        htod(b, p, s);
        println!("{}", read_device(b));
    }, "7"),
    timing_dependent("synchronous_copy_does_not_wait_for_nonblocking_streams", |cuda| {
        let (d, s) = (cuda.device(7), cuda.stream());
        fill(d, 9, s);
        let mut value = 0u32;
        // SAFETY: the destination has 4 bytes.
        ok(unsafe { sys::cuMemcpyDtoH_v2(ptr::from_mut(&mut value).cast(), d, 4) });
        println!("{value}");
        sync(s);
    }, "7", &["H18"], "9"),
    timing_dependent("synchronous_device_copy_does_not_wait", |cuda| {
        let (d, e, p, s) = (cuda.device(7), cuda.device(1), cuda.pinned(0), cuda.stream());
        // SAFETY: both have BYTES bytes.
        ok(unsafe { sys::cuMemcpyDtoD_v2(e, d, BYTES) });
        dtoh(p, e, s);
        sync(s);
        println!("{}", p.get(0));
        sync(ptr::null_mut());
    }, "1", &["H18"], "7"),
    always("unwritten_device_memory_is_not_zero", |cuda| {
        let s = cuda.stream();
        let mut x = 0;
        let p = cuda.pinned(1);
        // SAFETY: the out-pointer is valid.
        ok(unsafe { sys::cuMemAllocAsync(&mut x, BYTES, s) });
        dtoh(p, x, s);
        sync(s);
        println!("{:#x}", p.get(0));
    }, "0xa5a5a5a5"),

    // R9, R55, R56: host functions and progress
    always("a_host_function_sees_what_came_before_it", |cuda| {
        static SEEN: AtomicU32 = AtomicU32::new(0);
        unsafe extern "C" fn look(data: *mut c_void) {
            SEEN.store(Pinned(data.cast()).get(0), Ordering::SeqCst);
        }
        let (d, p, s) = (cuda.device(7), cuda.pinned(1), cuda.stream());
        dtoh(p, d, s);
        host_function(s, look, p.0.cast());
        sync(s);
        println!("{}", SEEN.load(Ordering::SeqCst));
    }, "7"),
    always("waiting_on_a_channel_ends", |cuda| {
        unsafe extern "C" fn send(data: *mut c_void) {
            // SAFETY: the box was leaked for this one call.
            let sender = unsafe { Box::from_raw(data.cast::<Sender<u32>>()) };
            sender.send(3).expect("the receiver waits");
        }
        let (d, p, s) = (cuda.device(7), cuda.pinned(1), cuda.stream());
        let (sender, receiver) = channel::<u32>();
        dtoh(p, d, s);
        host_function(s, send, Box::into_raw(Box::new(sender)).cast());
        let received = receiver.recv_timeout(Duration::from_secs(20));
        println!("{received:?} {}", p.get(0));
    }, "Ok(3) 7"),
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
    always("asking_often_enough_completes", |cuda| {
        let (d, p, s, e) = (cuda.device(7), cuda.pinned(1), cuda.stream(), cuda.event());
        dtoh(p, d, s);
        record(e, s);
        let mut asked = 0;
        // SAFETY: the event lives.
        while unsafe { sys::cuEventQuery(e) } == CUresult::CUDA_ERROR_NOT_READY {
            asked += 1;
        }
        println!("{} {}", asked < 10, p.get(0));
    }, "true 7"),
    mistake("a_host_function_must_not_call_the_driver", |cuda| {
        static CODE: AtomicU32 = AtomicU32::new(0);
        unsafe extern "C" fn call(_: *mut c_void) {
            // SAFETY: no arguments.
            CODE.store(unsafe { sys::cuCtxSynchronize() } as u32, Ordering::SeqCst);
        }
        let s = cuda.stream();
        host_function(s, call, ptr::null_mut());
        sync(s);
        println!("{}", CODE.load(Ordering::SeqCst));
    }, "800", &["H19"]),

    // 2.I: what is refused
    always("bad_arguments_are_refused", |cuda| {
        let d = cuda.device(7);
        let mut device = 0;
        let mut address = 0;
        let mut host = ptr::null_mut();
        let mut graph = ptr::null_mut();
        // SAFETY: every call is refused before it touches anything.
        let codes = unsafe {
            [
                ("out of range device", sys::cuDeviceGet(&mut device, 7)),
                ("null out-pointer", sys::cuMemAlloc_v2(ptr::null_mut(), 4)),
                ("0 bytes", sys::cuMemAlloc_v2(&mut address, 0)),
                ("17 GiB", sys::cuMemAlloc_v2(&mut address, 17 << 30)),
                ("free twice", {
                    ok(sys::cuMemFree_v2(d));
                    sys::cuMemFree_v2(d)
                }),
                ("free of null", sys::cuMemFree_v2(0)),
                ("unknown host flags", sys::cuMemHostAlloc(&mut host, 4, 64)),
                ("free of a foreign pointer", sys::cuMemFreeHost(ptr::from_mut(&mut device).cast())),
                ("unknown stream", sys::cuStreamSynchronize(0x1234 as CUstream)),
                ("unknown event", sys::cuEventSynchronize(0x1234 as CUevent)),
                ("null event", sys::cuStreamWaitEvent(ptr::null_mut(), ptr::null_mut(), 0)),
                ("beyond the end", {
                    let d = cuda.device(7);
                    sys::cuMemsetD8Async(d + 1, 0, BYTES, ptr::null_mut())
                }),
                ("misaligned", {
                    let d = cuda.device(7);
                    sys::cuMemsetD32Async(d + 1, 0, 1, ptr::null_mut())
                }),
                ("not modelled", sys::cuGraphCreate(&mut graph, 0)),
            ]
        };
        for (what, code) in codes {
            println!("{what}: {}", code as u32);
        }
    }, "out of range device: 101 null out-pointer: 1 0 bytes: 1 17 GiB: 2 free twice: 1 free of null: 0 unknown host flags: 1 \
        free of a foreign pointer: 1 unknown stream: 400 unknown event: 400 null event: 400 beyond the end: 1 misaligned: 1 \
        not modelled: 801"),
    mistake("a_thread_without_a_context_is_refused", |_| {
        let code = std::thread::spawn(|| {
            let mut address = 0;
            // SAFETY: the out-pointer is valid.
            unsafe { sys::cuMemAlloc_v2(&mut address, 4) as u32 }
        });
        println!("{:?}", code.join().ok());
    }, "Some(201)", &["H25"]),
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
];

/// Runs one program in a process of its own: what it printed, and the ids of the hazards, each once.
fn run(name: &str, schedule: &str) -> Result<(String, Vec<String>), Failed> {
    let folder = tempfile::tempdir()?;
    let reports = folder.path().join("reports");
    let output = Command::new(env::current_exe()?)
        .env("CUMODEL_TEST_PROGRAM", name)
        .env("CUMODEL_SCHEDULE", schedule)
        .env("CUMODEL_REPORT", &reports)
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{name} under {schedule}: {}\n{stderr}", output.status).into());
    }
    let mut hazards: BTreeMap<String, ()> = BTreeMap::new();
    for line in fs::read_to_string(&reports).unwrap_or_default().lines() {
        let report: serde_json::Value = serde_json::from_str(line)?;
        if report["severity"] != "hazard" {
            continue;
        }
        hazards.insert(report["id"].as_str().unwrap_or("no id").to_owned(), ());
    }
    let printed = String::from_utf8(output.stdout)?;
    Ok((
        printed.split_whitespace().collect::<Vec<_>>().join(" "),
        hazards.into_keys().collect(),
    ))
}

fn check(program: &Program, schedule: &str, prints: &str, hazards: &[&str]) -> Result<(), Failed> {
    let (printed, found) = run(program.name, schedule)?;
    if printed != prints || found != hazards {
        return Err(format!(
            "under {schedule}: printed \"{printed}\" with hazards {found:?}, expected \"{prints}\" with {hazards:?}"
        )
        .into());
    }
    Ok(())
}

fn test(program: &'static Program) -> Result<(), Failed> {
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
