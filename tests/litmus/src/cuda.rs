//! The functions of the driver that programs here call, with nothing added.
//!
//! Handles and addresses are plain numbers, as in C. The [`crate::lab::Lab`] that gave them keeps them alive until the
//! program has ended. A program that frees one earlier does so to see what the driver makes of it.

use std::ffi::{c_void, CStr};
use std::fmt;
use std::ptr;

use cudarc::driver::sys::{self, CUresult};

use crate::host::Host;

/// What a driver function returned; 0 is success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[must_use = "a code that nobody looks at hides why a test fails"]
pub struct Code(pub u32);

impl Code {
    /// Success.
    pub const SUCCESS: Code = Code(0);
    /// The asked-for work is not complete.
    pub const NOT_READY: Code = Code(600);

    /// Panics unless it is success.
    #[track_caller]
    pub fn ok(self) {
        assert_eq!(self, Code::SUCCESS, "the driver refused the call");
    }

    /// "ok" or "error", where the documentation does not say which error.
    pub fn ok_or_error(self) -> &'static str {
        match self {
            Code::SUCCESS => "ok",
            _ => "error",
        }
    }
}

impl From<CUresult> for Code {
    fn from(result: CUresult) -> Code {
        Code(result as u32)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Several codes as one outcome.
pub fn codes(codes: &[Code]) -> String {
    let codes: Vec<String> = codes.iter().map(Code::to_string).collect();
    codes.join(" ")
}

/// A stream handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(pub usize);

impl Stream {
    /// The legacy default stream.
    pub const NULL: Stream = Stream(0);
    /// The default stream of the calling thread.
    pub const PER_THREAD: Stream = Stream(2);

    fn raw(self) -> sys::CUstream {
        self.0 as sys::CUstream
    }
}

/// An event handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event(pub usize);

impl Event {
    fn raw(self) -> sys::CUevent {
        self.0 as sys::CUevent
    }
}

/// A graph handle; 0 is no graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graph(pub usize);

/// The handle of an executable graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exec(pub usize);

/// The handle of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(pub usize);

/// Device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// The address.
    pub address: u64,
    /// The size.
    pub bytes: usize,
}

impl Device {
    /// A part of it, in bytes.
    pub fn part(self, start: usize, bytes: usize) -> Device {
        Device {
            address: self.address + start as u64,
            bytes,
        }
    }
}

/// How strictly a capture forbids other calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Unsafe calls of every thread are refused.
    Global,
    /// Unsafe calls of this thread are refused.
    ThreadLocal,
}

/// Declares functions that pass their arguments on.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) = $function:ident($($pass:expr),*);)*) => {
        $(
            $(#[$doc])*
            pub fn $name($($argument: $type),*) -> Code {
                $(let $argument = $argument;)*
                // SAFETY: what the driver needs alive is kept by the lab; what it may refuse, it refuses with a code.
                unsafe { sys::$function($($pass),*) }.into()
            }
        )*
    };
}

functions! {
    /// Starts the driver.
    init(flags: u32) = cuInit(flags);
    /// Makes a context current in this thread.
    bind(context: Context) = cuCtxSetCurrent(context.0 as sys::CUcontext);
    /// Waits for all work of the context.
    context_sync() = cuCtxSynchronize();
    /// Lets go of the primary context of a device.
    release(device: i32) = cuDevicePrimaryCtxRelease_v2(device);

    /// Waits for all work of a stream.
    sync(stream: Stream) = cuStreamSynchronize(stream.raw());
    /// Asks whether a stream has work left.
    query(stream: Stream) = cuStreamQuery(stream.raw());
    /// Destroys a stream.
    destroy_stream(stream: Stream) = cuStreamDestroy_v2(stream.raw());
    /// Lets the later work of a stream wait for an event.
    wait(stream: Stream, event: Event) = cuStreamWaitEvent(stream.raw(), event.raw(), 0);

    /// Records an event on a stream.
    record(event: Event, stream: Stream) = cuEventRecord(event.raw(), stream.raw());
    /// Waits for an event.
    event_sync(event: Event) = cuEventSynchronize(event.raw());
    /// Asks whether an event is complete.
    event_query(event: Event) = cuEventQuery(event.raw());
    /// Destroys an event.
    destroy_event(event: Event) = cuEventDestroy_v2(event.raw());

    /// Copies a device buffer to the host, in stream order; the smaller of the two sizes.
    dtoh(to: Host, from: Device, stream: Stream) =
        cuMemcpyDtoHAsync_v2(to.address as *mut c_void, from.address, to.bytes.min(from.bytes), stream.raw());
    /// Copies host memory to the device, in stream order; the smaller of the two sizes.
    htod(to: Device, from: Host, stream: Stream) =
        cuMemcpyHtoDAsync_v2(to.address, from.address as *const c_void, to.bytes.min(from.bytes), stream.raw());
    /// Copies device memory, in stream order; the smaller of the two sizes.
    dtod(to: Device, from: Device, stream: Stream) =
        cuMemcpyDtoDAsync_v2(to.address, from.address, to.bytes.min(from.bytes), stream.raw());
    /// The synchronous copy to the host.
    dtoh_sync(to: Host, from: Device) =
        cuMemcpyDtoH_v2(to.address as *mut c_void, from.address, to.bytes.min(from.bytes));
    /// The synchronous copy to the device.
    htod_sync(to: Device, from: Host) =
        cuMemcpyHtoD_v2(to.address, from.address as *const c_void, to.bytes.min(from.bytes));
    /// The synchronous copy inside the device.
    dtod_sync(to: Device, from: Device) = cuMemcpyDtoD_v2(to.address, from.address, to.bytes.min(from.bytes));
    /// Copies between two places in host memory, in stream order.
    htoh(to: Host, from: Host, stream: Stream) =
        cuMemcpyAsync(to.address as u64, from.address as u64, to.bytes.min(from.bytes), stream.raw());
    /// Fills a device buffer with zeros, with the synchronous form.
    clear_sync(to: Device) = cuMemsetD8_v2(to.address, 0, to.bytes);
    /// Fills a device buffer, in stream order.
    fill(to: Device, value: u32, stream: Stream) = cuMemsetD32Async(to.address, value, to.bytes / 4, stream.raw());

    /// Frees device memory.
    free(device: Device) = cuMemFree_v2(device.address);
    /// Frees device memory, in stream order.
    free_async(device: Device, stream: Stream) = cuMemFreeAsync(device.address, stream.raw());
    /// Frees pinned memory.
    free_host(host: Host) = cuMemFreeHost(host.address as *mut c_void);
    /// Page-locks memory that exists.
    register(host: Host, flags: u32) = cuMemHostRegister_v2(host.address as *mut c_void, host.bytes, flags);
    /// Unlocks memory.
    unregister(host: Host) = cuMemHostUnregister(host.address as *mut c_void);

    /// Begins to capture a stream.
    begin_capture(stream: Stream, mode: Mode) = cuStreamBeginCapture_v2(stream.raw(), match mode {
        Mode::Global => sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL,
        Mode::ThreadLocal => sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
    });
    /// Launches an executable graph.
    launch(exec: Exec, stream: Stream) = cuGraphLaunch(exec.0 as sys::CUgraphExec, stream.raw());
    /// Destroys an executable graph.
    destroy_exec(exec: Exec) = cuGraphExecDestroy(exec.0 as sys::CUgraphExec);
    /// Destroys a graph.
    destroy_graph(graph: Graph) = cuGraphDestroy(graph.0 as sys::CUgraph);
    /// Ends a module and its kernels.
    unload(module: Module) = cuModuleUnload(module.0 as sys::CUmodule);
}

/// The device with this number.
pub fn device(ordinal: i32) -> (Code, i32) {
    let mut device = 0;
    // SAFETY: the out-pointer is valid.
    let code = unsafe { sys::cuDeviceGet(&mut device, ordinal) };
    (code.into(), device)
}

/// Takes hold of the primary context of a device.
pub fn retain(device: i32) -> (Code, Context) {
    let mut context = ptr::null_mut();
    // SAFETY: the out-pointer is valid.
    let code = unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, device) };
    (code.into(), Context(context as usize))
}

/// A property of a device.
pub fn attribute(attribute: sys::CUdevice_attribute) -> i32 {
    let mut value = 0;
    // SAFETY: the out-pointer is valid, and device 0 is the one that the lab uses.
    Code::from(unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, 0) }).ok();
    value
}

/// Makes a stream; flag 1 is non-blocking.
pub fn stream(flags: u32) -> (Code, Stream) {
    let mut stream = ptr::null_mut();
    // SAFETY: the out-pointer is valid.
    let code = unsafe { sys::cuStreamCreate(&mut stream, flags) };
    (code.into(), Stream(stream as usize))
}

/// Makes an event; flag 2 is without timing.
pub fn event(flags: u32) -> (Code, Event) {
    let mut event = ptr::null_mut();
    // SAFETY: the out-pointer is valid.
    let code = unsafe { sys::cuEventCreate(&mut event, flags) };
    (code.into(), Event(event as usize))
}

/// The time between two events.
pub fn elapsed(start: Event, end: Event) -> Code {
    let mut milliseconds = 0.0;
    // SAFETY: the out-pointer is valid and the events live.
    unsafe { sys::cuEventElapsedTime(&mut milliseconds, start.raw(), end.raw()) }.into()
}

/// Allocates device memory.
pub fn allocate(bytes: usize) -> (Code, Device) {
    let mut address = 0;
    // SAFETY: the out-pointer is valid.
    let code = unsafe { sys::cuMemAlloc_v2(&mut address, bytes) };
    (code.into(), Device { address, bytes })
}

/// Allocates device memory, in stream order.
pub fn allocate_async(bytes: usize, stream: Stream) -> (Code, Device) {
    let mut address = 0;
    // SAFETY: the out-pointer is valid.
    let code = unsafe { sys::cuMemAllocAsync(&mut address, bytes, stream.raw()) };
    (code.into(), Device { address, bytes })
}

/// Allocates managed memory; flag 1 is accessible from everywhere.
pub fn allocate_managed(bytes: usize, flags: u32) -> (Code, Device) {
    let mut address = 0;
    // SAFETY: the out-pointer is valid.
    let code = unsafe { sys::cuMemAllocManaged(&mut address, bytes, flags) };
    (code.into(), Device { address, bytes })
}

/// Allocates pinned memory.
pub fn allocate_host(bytes: usize, flags: u32) -> (Code, Host) {
    let mut address = ptr::null_mut();
    // SAFETY: the out-pointer is valid.
    let code = unsafe { sys::cuMemHostAlloc(&mut address, bytes, flags) };
    let address = address as usize;
    (code.into(), Host { address, bytes })
}

/// The flags of a pinned allocation.
pub fn host_flags(host: Host) -> (Code, u32) {
    let mut flags = 0;
    // SAFETY: the out-pointer is valid; the address is only looked up.
    let code = unsafe { sys::cuMemHostGetFlags(&mut flags, host.address as *mut c_void) };
    (code.into(), flags)
}

/// The address at which the device sees pinned memory.
pub fn device_pointer(host: Host) -> (Code, Device) {
    let mut address = 0;
    // SAFETY: the out-pointer is valid; the host address is only looked up.
    let code =
        unsafe { sys::cuMemHostGetDevicePointer_v2(&mut address, host.address as *mut c_void, 0) };
    let bytes = host.bytes;
    (code.into(), Device { address, bytes })
}

/// Ends the capture of a stream.
pub fn end_capture(stream: Stream) -> (Code, Graph) {
    let mut graph = ptr::null_mut();
    // SAFETY: the out-pointer is valid.
    let code = unsafe { sys::cuStreamEndCapture(stream.raw(), &mut graph) };
    (code.into(), Graph(graph as usize))
}

/// Makes a graph executable.
pub fn instantiate(graph: Graph) -> (Code, Exec) {
    let mut exec = ptr::null_mut();
    // SAFETY: the out-pointer is valid and the graph lives.
    let code = unsafe { sys::cuGraphInstantiateWithFlags(&mut exec, graph.0 as sys::CUgraph, 0) };
    (code.into(), Exec(exec as usize))
}

/// A loaded module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module(pub usize);

/// A kernel of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel(pub usize);

/// Loads PTX.
pub fn load(ptx: &CStr) -> (Code, Module) {
    let mut module = ptr::null_mut();
    // SAFETY: the out-pointer is valid, and the text ends with a NUL.
    let code = unsafe { sys::cuModuleLoadData(&mut module, ptx.as_ptr().cast()) };
    (code.into(), Module(module as usize))
}

/// The kernel of this name.
pub fn kernel(module: Module, name: &CStr) -> (Code, Kernel) {
    let mut function = ptr::null_mut();
    let module = module.0 as sys::CUmodule;
    // SAFETY: the out-pointer is valid, and the name ends with a NUL.
    let code = unsafe { sys::cuModuleGetFunction(&mut function, module, name.as_ptr()) };
    (code.into(), Kernel(function as usize))
}

/// Launches a kernel with one thread for each of `threads`, 256 to a block, or with one block of 256 for none.
pub fn launch_kernel(
    kernel: Kernel,
    threads: usize,
    arguments: &mut [u64],
    stream: Stream,
) -> Code {
    let mut pointers: Vec<*mut c_void> = arguments
        .iter_mut()
        .map(|argument| ptr::from_mut(argument).cast())
        .collect();
    let blocks = threads.div_ceil(256).max(1) as u32;
    let function = kernel.0 as sys::CUfunction;
    let none = ptr::null_mut();
    // SAFETY: a kernel of the lab has as many parameters, of at most 8 bytes each, and on this machine the low bytes of
    // an argument come first; what it does with its memory is what the program is about.
    unsafe {
        sys::cuLaunchKernel(
            function,
            blocks,
            1,
            1,
            256,
            1,
            1,
            0,
            stream.raw(),
            pointers.as_mut_ptr(),
            none,
        )
    }
    .into()
}

/// A function for [`host_function`], boxed twice to have a thin address.
pub type HostFunction = Box<Box<dyn Fn() + Send + Sync>>;

/// Queues a host function; whoever owns the box keeps it until the function cannot run any more.
pub fn host_function(stream: Stream, function: &HostFunction) -> Code {
    unsafe extern "C" fn call(data: *mut c_void) {
        // SAFETY: the pointer came from a box that is alive, by the requirement above.
        let function = unsafe { &*data.cast::<Box<dyn Fn() + Send + Sync>>() };
        function();
    }
    let data = ptr::from_ref(function.as_ref()).cast_mut().cast();
    // SAFETY: the driver calls `call` with what it expects.
    unsafe { sys::cuLaunchHostFunc(stream.raw(), Some(call), data) }.into()
}
