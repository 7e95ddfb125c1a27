//! What random calls and their reading have found, each in the smallest form.

use std::ffi::{c_void, CString};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use cumodel_driver::abi::{
    context::*, control::*, copy::*, device::*, event::*, graph::*, managed::*, memory::*,
    register::*, stream::*,
};
use cumodel_driver::Code;

const PAGE: usize = 4096;

/// A process has one driver: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // A test that has failed leaves nothing that another one depends on.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ok(code: u32) {
    assert_eq!(code, 0);
}

/// A context that is current on this thread, until it is dropped.
struct Cuda {
    context: usize,
    _alone: MutexGuard<'static, ()>,
}

impl Cuda {
    fn with(settings: &str) -> Cuda {
        let alone = alone();
        let settings = format!("on_hazard=collect {settings}");
        let settings = CString::new(settings).expect("settings hold no NUL");
        // SAFETY: the string ends with a NUL.
        assert_eq!(unsafe { cumodel_configure(settings.as_ptr()) }, 0);
        Cuda {
            context: retain(),
            _alone: alone,
        }
    }

    fn stream(&self) -> usize {
        let mut stream = 0;
        // SAFETY: the out-pointer is valid.
        ok(unsafe { cuStreamCreate(&mut stream, 1) });
        stream
    }

    fn device(&self) -> u64 {
        let mut address = 0;
        // SAFETY: the out-pointer is valid.
        ok(unsafe { cuMemAlloc_v2(&mut address, 2 * PAGE) });
        address
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        // SAFETY: nothing is passed; a test may have released the context itself.
        unsafe { cuDevicePrimaryCtxRelease_v2(0) };
    }
}

fn retain() -> usize {
    let mut context = 0;
    // SAFETY: the out-pointer is valid.
    unsafe {
        ok(cuInit(0));
        ok(cuDevicePrimaryCtxRetain(&mut context, 0));
        ok(cuCtxSetCurrent(context));
    }
    context
}

/// Two whole pages of the program's own memory, which live as long as the process.
fn host_pages() -> *mut u8 {
    let memory: &'static mut [u8] = vec![1; 3 * PAGE].leak();
    let offset = memory.as_ptr().align_offset(PAGE);
    memory[offset..].as_mut_ptr()
}

fn reports() -> String {
    // SAFETY: nothing is written without a buffer, and no more than its length with one.
    unsafe {
        let mut buffer = vec![0u8; cumodel_take_reports(ptr::null_mut(), 0)];
        cumodel_take_reports(buffer.as_mut_ptr().cast(), buffer.len());
        String::from_utf8(buffer).expect("reports are text")
    }
}

#[test]
fn sizes_that_overflow_are_refused() {
    let cuda = Cuda::with("");
    let _used = cuda.device();
    let (mut address, mut pointer) = (0, ptr::null_mut());
    for bytes in [usize::MAX, usize::MAX - 600, usize::MAX - 5000, 1 << 63] {
        // SAFETY: the out-pointers are valid.
        unsafe {
            assert_eq!(cuMemAlloc_v2(&mut address, bytes), Code::OutOfMemory as u32);
            assert_eq!(
                cuMemHostAlloc(&mut pointer, bytes, 0),
                Code::OutOfMemory as u32
            );
            assert_eq!(
                cuMemAllocManaged(&mut address, bytes, 1),
                Code::OutOfMemory as u32
            );
        }
    }
    // SAFETY: the out-pointer is valid, and the sizes are the driver's to check.
    unsafe {
        ok(cuMemAllocManaged(&mut address, 64, 1));
        let prefetch = cuMemPrefetchAsync(address + 8, usize::MAX, 0, 0);
        assert_eq!(prefetch, Code::InvalidValue as u32);
        let advise = cuMemAdvise(address + 8, usize::MAX, 1, 0);
        assert_eq!(advise, Code::InvalidValue as u32);
    }
}

#[test]
fn a_stream_can_be_destroyed_while_it_captures() {
    let cuda = Cuda::with("");
    let (stream, other) = (cuda.stream(), cuda.stream());
    // SAFETY: the streams are alive when they are used.
    unsafe {
        ok(cuStreamBeginCapture_v2(stream, 0));
        ok(cuStreamDestroy_v2(stream));
        let code = cuCtxSynchronize();
        assert_ne!(code, Code::Unknown as u32);
        ok(cuStreamSynchronize(other));
    }
}

#[test]
fn registered_memory_can_be_written_by_every_operation() {
    let cuda = Cuda::with("");
    let (stream, host) = (cuda.stream(), host_pages());
    let pageable = [7u8; 200];
    // SAFETY: the memory holds two pages and lives; the sizes are those of the buffers.
    unsafe {
        ok(cuMemHostRegister_v2(host.cast(), 2 * PAGE, 0));
        ok(cuMemcpy(host as u64, pageable.as_ptr() as u64, 200));
        assert_eq!(
            [host.read(), host.add(199).read(), host.add(200).read()],
            [7, 7, 1]
        );
        ok(cuMemcpyAsync(
            host as u64 + 1000,
            pageable.as_ptr() as u64,
            200,
            stream,
        ));
        ok(cuMemsetD8Async(host as u64, 9, PAGE, stream));
        ok(cuStreamSynchronize(stream));
        assert_eq!(
            [host.read(), host.add(1000).read(), host.add(PAGE).read()],
            [9, 9, 1]
        );
        ok(cuMemHostUnregister(host.cast()));
    }
}

#[test]
fn memory_can_be_registered_under_a_pending_copy() {
    let cuda = Cuda::with("pageable=direct");
    let (device, first, second) = (cuda.device(), cuda.stream(), cuda.stream());
    let host = host_pages();
    // SAFETY: the memory holds two pages and lives.
    unsafe {
        ok(cuMemsetD8Async(device, 5, 2 * PAGE, first));
        ok(cuMemcpyDtoHAsync_v2(host.cast(), device, 2 * PAGE, first));
        ok(cuMemHostRegister_v2(host.cast(), 2 * PAGE, 0));
        // Closes the pages to the host; the copy before must get through all the same.
        ok(cuMemcpyDtoHAsync_v2(host.cast(), device, 2 * PAGE, second));
        ok(cuStreamSynchronize(first));
        ok(cuStreamSynchronize(second));
        assert_eq!(host.read(), 5);
        ok(cuMemHostUnregister(host.cast()));
    }
}

#[test]
fn host_memory_that_reaches_into_the_drivers_own_is_refused() {
    let cuda = Cuda::with("");
    let (device, mut pinned) = (cuda.device(), ptr::null_mut());
    // SAFETY: the freed memory is only named, which the driver has to find out.
    unsafe {
        ok(cuMemHostAlloc(&mut pinned, PAGE, 0));
        ok(cuMemFreeHost(pinned));
        let before = pinned.cast::<u8>().wrapping_sub(1).cast();
        let code = cuMemcpyHtoDAsync_v2(device, before, 116, 0);
        assert_eq!(code, Code::InvalidValue as u32);
    }
}

static OPEN: AtomicBool = AtomicBool::new(false);
static STARTED: AtomicBool = AtomicBool::new(false);

/// Holds its stream until `OPEN`, but not for ever.
unsafe extern "C" fn gate(_: *mut c_void) {
    STARTED.store(true, Ordering::SeqCst);
    for _ in 0..2000 {
        if OPEN.load(Ordering::SeqCst) {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Calls `wait` on another thread, does `meanwhile` when it waits for a host function, and returns what the wait returned.
fn during_a_wait(cuda: &Cuda, wait: impl FnOnce() -> u32 + Send, meanwhile: impl FnOnce()) -> u32 {
    let context = cuda.context;
    thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            // SAFETY: the context is alive.
            ok(unsafe { cuCtxSetCurrent(context) });
            wait()
        });
        while !STARTED.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        meanwhile();
        OPEN.store(true, Ordering::SeqCst);
        waiting.join().expect("the wait returns")
    })
}

fn gated_stream(cuda: &Cuda) -> usize {
    OPEN.store(false, Ordering::SeqCst);
    STARTED.store(false, Ordering::SeqCst);
    let stream = cuda.stream();
    // SAFETY: the function needs no data.
    ok(unsafe { cuLaunchHostFunc(stream, Some(gate), ptr::null_mut()) });
    stream
}

/// Destroying a pending event is legal, whoever waits for it (R15).
#[test]
fn an_event_can_be_destroyed_while_another_thread_waits_for_it() {
    let cuda = Cuda::with("");
    let stream = gated_stream(&cuda);
    let mut event = 0;
    // SAFETY: the handles are alive when they are used.
    let code = unsafe {
        ok(cuEventCreate(&mut event, 2));
        ok(cuEventRecord(event, stream));
        during_a_wait(
            &cuda,
            || cuEventSynchronize(event),
            || ok(cuEventDestroy_v2(event)),
        )
    };
    assert_eq!(code, 0);
}

#[test]
fn a_wait_ends_when_its_context_does() {
    let cuda = Cuda::with("");
    let stream = gated_stream(&cuda);
    // SAFETY: the stream is alive when the wait begins.
    let code = unsafe {
        during_a_wait(
            &cuda,
            || cuStreamSynchronize(stream),
            || {
                ok(cuDevicePrimaryCtxRelease_v2(0));
                // The next life of the driver has streams of its own.
                retain();
            },
        )
    };
    assert_eq!(code, Code::ContextIsDestroyed as u32);
    // What is pending in the new life is not taken for waited for.
    let (device, stream) = (cuda.device(), cuda.stream());
    let other = cuda.stream();
    reports();
    // SAFETY: the memory is alive.
    unsafe {
        ok(cuMemsetD8Async(device, 1, PAGE, stream));
        ok(cuMemsetD8Async(device, 2, PAGE, other));
        ok(cuCtxSynchronize());
    }
    assert!(reports().contains("H10"));
}

/// Memory that is still registered when its context ends costs nothing afterwards: later registrations are guarded.
#[test]
fn registrations_that_end_with_their_context_are_forgotten() {
    let host = host_pages();
    for _ in 0..300 {
        let _cuda = Cuda::with("");
        // SAFETY: the memory holds two pages and lives.
        ok(unsafe { cuMemHostRegister_v2(host.cast(), 2 * PAGE, 0) });
    }
    let cuda = Cuda::with("");
    let (device, stream) = (cuda.device(), cuda.stream());
    reports();
    // SAFETY: as above.
    unsafe {
        ok(cuMemHostRegister_v2(host.cast(), 2 * PAGE, 0));
        ok(cuMemcpyDtoHAsync_v2(host.cast(), device, PAGE, stream));
        host.read_volatile();
        ok(cuStreamSynchronize(stream));
    }
    assert!(reports().contains("H01"));
}
