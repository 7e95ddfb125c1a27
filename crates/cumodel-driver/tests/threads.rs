//! Several threads use one context at once: their own streams, a buffer that they hand to each other by events, pinned
//! memory, host functions. Every value must be right, and nothing may be reported, under every schedule.
//!
//! `valgrind --tool=helgrind` and `--tool=drd` run this test as it is.

use std::ffi::{c_void, CString};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use cumodel_driver::abi::{
    context::*, control::*, copy::*, device::*, event::*, memory::*, stream::*,
};

const THREADS: usize = 4;
const ROUNDS: u32 = 40;
/// Elements of a buffer, of 4 bytes each.
const LENGTH: usize = 1024;
const BYTES: usize = LENGTH * 4;

/// One test at a time: a process has one driver.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // A test that has failed leaves nothing that another one depends on.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ok(code: u32) {
    assert_eq!(code, 0);
}

/// A context with settings; released, with all that it holds, when dropped.
struct Cuda {
    context: usize,
}

impl Cuda {
    fn with(settings: &str) -> Cuda {
        let settings = CString::new(settings).expect("settings hold no NUL");
        let mut context = 0;
        // SAFETY: the string ends with a NUL, and the out-pointer is valid.
        unsafe {
            assert_eq!(cumodel_configure(settings.as_ptr()), 0);
            ok(cuInit(0));
            ok(cuDevicePrimaryCtxRetain(&mut context, 0));
        }
        let cuda = Cuda { context };
        cuda.bind();
        take_reports();
        cuda
    }

    /// Makes the context current on this thread.
    fn bind(&self) {
        // SAFETY: the context is alive.
        ok(unsafe { cuCtxSetCurrent(self.context) });
    }

    fn stream(&self) -> usize {
        let mut stream = 0;
        // SAFETY: the out-pointer is valid.
        ok(unsafe { cuStreamCreate(&mut stream, 1) });
        stream
    }

    fn event(&self) -> usize {
        let mut event = 0;
        // SAFETY: the out-pointer is valid.
        ok(unsafe { cuEventCreate(&mut event, 2) });
        event
    }

    fn device(&self) -> u64 {
        let mut address = 0;
        // SAFETY: the out-pointer is valid.
        ok(unsafe { cuMemAlloc_v2(&mut address, BYTES) });
        address
    }

    fn pinned(&self) -> Pinned {
        let mut address = ptr::null_mut();
        // SAFETY: the out-pointer is valid.
        ok(unsafe { cuMemHostAlloc(&mut address, BYTES, 0) });
        Pinned(address.cast())
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        // SAFETY: the context is alive.
        ok(unsafe { cuDevicePrimaryCtxRelease_v2(0) });
    }
}

/// A pinned buffer of one thread.
#[derive(Clone, Copy)]
struct Pinned(*mut u32);

impl Pinned {
    /// The only value in the buffer.
    fn value(self) -> u32 {
        // SAFETY: the buffer has LENGTH elements and is alive.
        let values = (0..LENGTH).map(|index| unsafe { self.0.add(index).read_volatile() });
        let distinct: std::collections::BTreeSet<u32> = values.collect();
        assert_eq!(distinct.len(), 1, "{distinct:?}");
        distinct.into_iter().next().unwrap_or(0)
    }

    fn free(self) {
        // SAFETY: the buffer is alive and idle.
        ok(unsafe { cuMemFreeHost(self.0.cast()) });
    }
}

fn take_reports() -> String {
    // SAFETY: nothing is written without a buffer, and no more than its length with one.
    unsafe {
        let mut buffer = vec![0u8; cumodel_take_reports(ptr::null_mut(), 0)];
        cumodel_take_reports(buffer.as_mut_ptr().cast(), buffer.len());
        String::from_utf8(buffer).expect("reports are text")
    }
}

fn hazards(reports: &str) -> Vec<&str> {
    reports
        .lines()
        .filter(|line| line.contains(r#""severity":"hazard""#))
        .collect()
}

/// Settings whose order of operations differs most.
fn each_setting(test: impl Fn(&str)) {
    let _alone = alone();
    for schedule in ["last", "fifo", "eager", "random:1", "random:2", "random:3"] {
        for pageable in ["staged", "direct"] {
            let settings = format!("schedule={schedule} pageable={pageable} on_hazard=collect");
            test(&settings);
        }
    }
}

#[test]
fn threads_with_streams_of_their_own_do_not_disturb_each_other() {
    each_setting(|settings| {
        let cuda = Cuda::with(settings);
        thread::scope(|scope| {
            for number in 0..THREADS as u32 {
                let cuda = &cuda;
                scope.spawn(move || own_stream(cuda, number));
            }
        });
        let reports = take_reports();
        assert_eq!(hazards(&reports), [""; 0], "{settings}");
    });
}

fn own_stream(cuda: &Cuda, number: u32) {
    cuda.bind();
    let (stream, event, pinned) = (cuda.stream(), cuda.event(), cuda.pinned());
    for round in 0..ROUNDS {
        let value = number * 1000 + round;
        let mut device = 0;
        // SAFETY: handles are alive, out-pointers valid, and sizes those of the allocations.
        unsafe {
            ok(cuMemAllocAsync(&mut device, BYTES, stream));
            ok(cuMemsetD32Async(device, value, LENGTH, stream));
            ok(cuMemcpyDtoHAsync_v2(pinned.0.cast(), device, BYTES, stream));
            ok(cuEventRecord(event, stream));
            match round % 3 {
                0 => ok(cuStreamSynchronize(stream)),
                1 => ok(cuEventSynchronize(event)),
                _ => while cuEventQuery(event) != 0 {},
            }
        }
        assert_eq!(pinned.value(), value);
        // SAFETY: as above; the host has waited for the last use.
        ok(unsafe { cuMemFreeAsync(device, stream) });
    }
    // SAFETY: the stream and the event are alive, and nothing uses the buffer.
    unsafe {
        ok(cuStreamSynchronize(stream));
        pinned.free();
        ok(cuEventDestroy_v2(event));
        ok(cuStreamDestroy_v2(stream));
    }
}

/// A buffer goes around: each thread waits for the event of the one before it, writes, and records its own.
#[test]
fn a_buffer_is_handed_from_thread_to_thread_by_events() {
    each_setting(|settings| {
        let cuda = Cuda::with(settings);
        let device = cuda.device();
        let events: Vec<usize> = (0..THREADS).map(|_| cuda.event()).collect();
        // Whose turn it is to enqueue. The order on the device is the events' work, the host never waits for it.
        let turn = AtomicU32::new(0);
        thread::scope(|scope| {
            for number in 0..THREADS {
                let (cuda, events, turn) = (&cuda, &events, &turn);
                scope.spawn(move || hand_on(cuda, number, device, events, turn));
            }
        });
        let last = THREADS as u32 * ROUNDS - 1;
        let pinned = cuda.pinned();
        // SAFETY: the threads are gone, and the context waits for their work.
        unsafe {
            ok(cuCtxSynchronize());
            ok(cuMemcpyDtoH_v2(pinned.0.cast(), device, BYTES));
            assert_eq!(pinned.value(), last);
            pinned.free();
            ok(cuMemFree_v2(device));
        }
        assert_eq!(hazards(&take_reports()), [""; 0], "{settings}");
    });
}

fn hand_on(cuda: &Cuda, number: usize, device: u64, events: &[usize], turn: &AtomicU32) {
    cuda.bind();
    let (stream, pinned) = (cuda.stream(), cuda.pinned());
    let before = events[(number + THREADS - 1) % THREADS];
    for round in 0..ROUNDS {
        let mine = round * THREADS as u32 + number as u32;
        while turn.load(Ordering::Acquire) != mine {
            thread::yield_now();
        }
        // SAFETY: handles are alive, and sizes those of the allocations.
        unsafe {
            ok(cuStreamWaitEvent(stream, before, 0));
            ok(cuMemcpyDtoHAsync_v2(pinned.0.cast(), device, BYTES, stream));
            ok(cuMemsetD32Async(device, mine, LENGTH, stream));
            ok(cuEventRecord(events[number], stream));
        }
        turn.store(mine + 1, Ordering::Release);
        // SAFETY: the stream is alive.
        ok(unsafe { cuStreamSynchronize(stream) });
        // The very first reads what nobody has written.
        if mine > 0 {
            assert_eq!(pinned.value(), mine - 1);
        }
    }
    pinned.free();
}

/// Host functions of all threads run one at a time, each after the work before it in its stream.
#[test]
fn host_functions_of_many_threads_see_what_came_before_them() {
    each_setting(|settings| {
        let cuda = Cuda::with(settings);
        COUNT.store(0, Ordering::SeqCst);
        RUNNING.store(0, Ordering::SeqCst);
        thread::scope(|scope| {
            for number in 0..THREADS as u32 {
                let cuda = &cuda;
                scope.spawn(move || launch_functions(cuda, number));
            }
        });
        assert_eq!(COUNT.load(Ordering::SeqCst), THREADS as u32 * ROUNDS);
        assert_eq!(hazards(&take_reports()), [""; 0], "{settings}");
    });
}

static COUNT: AtomicU32 = AtomicU32::new(0);
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// What a host function looks at, and what it has to find there.
struct Expected {
    pinned: Pinned,
    value: u32,
}

unsafe extern "C" fn look(data: *mut c_void) {
    let alone = RUNNING.fetch_add(1, Ordering::SeqCst) == 0;
    // SAFETY: the thread that launched the function keeps the data until it has run.
    let expected = unsafe { &*data.cast::<Expected>() };
    // SAFETY: the buffer is alive, and the copy before this function has written it.
    let seen = unsafe { expected.pinned.0.read_volatile() };
    if alone && seen == expected.value {
        COUNT.fetch_add(1, Ordering::SeqCst);
    }
    RUNNING.fetch_sub(1, Ordering::SeqCst);
}

fn launch_functions(cuda: &Cuda, number: u32) {
    cuda.bind();
    let (stream, pinned, device) = (cuda.stream(), cuda.pinned(), cuda.device());
    for round in 0..ROUNDS {
        let value = number * 1000 + round;
        let expected = Expected { pinned, value };
        // SAFETY: handles are alive, and the data outlives the function: the stream is waited for.
        unsafe {
            ok(cuMemsetD32Async(device, value, LENGTH, stream));
            ok(cuMemcpyDtoHAsync_v2(pinned.0.cast(), device, BYTES, stream));
            let data = (&raw const expected).cast_mut().cast();
            ok(cuLaunchHostFunc(stream, Some(look), data));
            ok(cuStreamSynchronize(stream));
        }
        assert_eq!(pinned.value(), value);
    }
    pinned.free();
    // SAFETY: nothing uses the memory any more.
    ok(unsafe { cuMemFree_v2(device) });
}

/// The planted fault: without the event the threads race for the buffer, which `last` must report.
#[test]
fn handing_on_without_an_event_is_reported() {
    let _alone = alone();
    let cuda = Cuda::with("schedule=last on_hazard=collect");
    let device = cuda.device();
    thread::scope(|scope| {
        for value in 0..2 {
            let cuda = &cuda;
            scope.spawn(move || {
                cuda.bind();
                let stream = cuda.stream();
                // SAFETY: the memory is alive.
                ok(unsafe { cuMemsetD32Async(device, value, LENGTH, stream) });
            });
        }
    });
    // SAFETY: the context is alive.
    ok(unsafe { cuCtxSynchronize() });
    let reports = take_reports();
    assert_eq!(hazards(&reports).len(), 1, "{reports}");
    assert!(reports.contains(r#""id":"H10""#), "{reports}");
}
