//! One random call of the driver.

use std::ffi::{c_int, c_uint, c_void};
use std::fs::File;
use std::io::Write;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cumodel_driver::abi::copy::BatchAttributes;
use cumodel_driver::abi::managed::Location;
use cumodel_driver::abi::{
    context::*, copy::*, device::*, error::*, event::*, graph::*, managed::*, memory::*,
    register::*, stream::*, unmodelled,
};
use cumodel_driver::Code;
use fastrand::Rng;

use crate::pool::{pageable, size, Kind, Pool, PAGEABLE};

/// A thread that makes random calls.
pub struct Caller {
    pub rng: Rng,
    pub pool: Arc<Mutex<Pool>>,
    /// Every call is written here before it is made, so that a crash leaves the call that it died of.
    pub log: File,
    /// The thread's number, for the log.
    pub number: usize,
    /// May a kernel do what no kernel may do? The error stays until the process ends.
    pub faults: bool,
    /// Does nobody else use the driver, so that what is alive now is alive until the next call?
    pub alone: bool,
}

macro_rules! call {
    ($caller:expr, $function:path $(, $argument:expr)*) => {{
        $caller.calling(stringify!($function), &[$(format!("{:?}", $argument)),*]);
        // SAFETY: out-pointers are null or valid, host pointers are null, valid for the size, or the driver's own, and
        // everything else is for the driver to refuse.
        let code = unsafe { $function($($argument),*) };
        $caller.returned(stringify!($function), code)
    }};
}

pub(crate) use call;

impl Caller {
    fn pool(&self) -> std::sync::MutexGuard<'_, Pool> {
        // A thread that has failed ends the test anyway.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn handle(&mut self, kind: Kind) -> usize {
        let pool = self.pool.clone();
        let pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.handle(&mut self.rng, kind)
    }

    pub fn stream(&mut self) -> usize {
        self.handle(Kind::Stream)
    }

    pub fn device_address(&mut self) -> u64 {
        let pool = self.pool.clone();
        let pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.device_address(&mut self.rng)
    }

    fn start(&mut self) -> u64 {
        let pool = self.pool.clone();
        let pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.start(&mut self.rng)
    }

    fn host_address(&mut self, size: usize) -> *mut c_void {
        let pool = self.pool.clone();
        let pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.host_address(&mut self.rng, size)
    }

    /// A unified address for `size` bytes: any that is passed as the host's, since garbage would be pageable memory.
    fn unified_address(&mut self, size: usize) -> u64 {
        self.host_address(size) as u64
    }

    fn flags(&mut self) -> c_uint {
        match self.rng.u8(..10) {
            0 => self.rng.u32(..),
            1 => 1 << self.rng.u32(..32),
            _ => self.rng.u32(..5),
        }
    }

    fn device(&mut self) -> c_int {
        match self.rng.u8(..10) {
            0 => self.rng.i32(..),
            1 => -1,
            _ => self.rng.i32(..3),
        }
    }

    /// A place for a result, or null.
    pub fn out<T>(&mut self, place: &mut T) -> *mut T {
        if self.rng.u8(..20) == 0 {
            ptr::null_mut()
        } else {
            place
        }
    }

    pub fn calling(&mut self, function: &str, arguments: &[String]) {
        let line = format!("{} {function}({})\n", self.number, arguments.join(", "));
        self.log
            .write_all(line.as_bytes())
            .expect("the log can be written");
    }

    pub fn returned(&mut self, function: &str, code: u32) -> bool {
        self.log
            .write_all(format!("{}   {code}\n", self.number).as_bytes())
            .expect("the log can be written");
        assert!(
            code == 0 || Code::from_number(code).is_some(),
            "{function} returned {code}, which is no code of the model's"
        );
        assert_ne!(
            code,
            Code::Unknown as u32,
            "{function} failed inside the model"
        );
        code == 0
    }

    pub fn made(&mut self, ok: bool, kind: Kind, handle: usize) {
        if ok && handle != 0 {
            self.pool().add(kind, handle);
        }
    }

    /// Makes one random call.
    pub fn step(&mut self) {
        match self.rng.u8(..100) {
            0..=2 => self.contexts(),
            3..=9 => self.questions(),
            10..=17 => self.streams(),
            18..=28 => self.events(),
            29..=46 => self.allocations(),
            47..=51 => self.registrations(),
            52..=59 => self.memory_questions(),
            60..=76 => self.copies(),
            77..=84 => self.memsets(),
            85..=88 => self.host_functions(),
            89..=92 => self.graphs(),
            93..=95 => self.kernels(),
            96 => self.touch(),
            _ => self.managed(),
        }
    }

    fn contexts(&mut self) {
        let mut handle = 0usize;
        let (context, device) = (self.handle(Kind::Context), self.device());
        let out = self.out(&mut handle);
        match self.rng.u8(..16) {
            0 => {
                let flags = self.flags();
                let ok = call!(self, cuCtxCreate_v2, out, flags, device);
                self.made(ok, Kind::Context, handle);
            }
            1 => {
                let none = ptr::null_mut();
                let ok = call!(self, cuCtxCreate_v4, out, none, 0, device);
                self.made(ok, Kind::Context, handle);
            }
            2 => {
                call!(self, cuCtxDestroy_v2, context);
            }
            3 => {
                call!(self, cuDevicePrimaryCtxRelease_v2, device);
            }
            4..=6 => {
                let ok = call!(self, cuDevicePrimaryCtxRetain, out, device);
                self.made(ok, Kind::Context, handle);
            }
            7 => {
                call!(self, cuCtxPushCurrent_v2, context);
            }
            8 => {
                call!(self, cuCtxPopCurrent_v2, out);
            }
            9..=12 => {
                call!(self, cuCtxSetCurrent, context);
            }
            13 => {
                let flags = self.rng.u32(..20) / 19;
                call!(self, cuCtxEnablePeerAccess, context, flags);
            }
            14 => {
                call!(self, cuCtxDisablePeerAccess, context);
            }
            _ => {
                call!(self, cuCtxSynchronize);
            }
        }
    }

    fn questions(&mut self) {
        let (mut number, mut text, mut bytes, mut uuid) = (0, ptr::null(), 0, [0u8; 16]);
        let (mut handle, mut flags, mut name) = (0usize, 0, [0i8; 256]);
        let device = self.device();
        match self.rng.u8(..18) {
            0 => {
                let argument = self.rng.u32(..20) / 19;
                call!(self, cuInit, argument);
            }
            1 => {
                let out = self.out(&mut number);
                call!(self, cuDriverGetVersion, out);
            }
            2 => {
                let out = self.out(&mut number);
                call!(self, cuDeviceGet, out, device);
            }
            3 => {
                let out = self.out(&mut number);
                call!(self, cuDeviceGetCount, out);
            }
            4 => {
                let length = self.rng.i32(-3..=256);
                let out = if self.rng.u8(..10) == 0 {
                    ptr::null_mut()
                } else {
                    name.as_mut_ptr()
                };
                call!(self, cuDeviceGetName, out, length, device);
            }
            5 => {
                let out = self.out(&mut uuid);
                call!(self, cuDeviceGetUuid_v2, out, device);
            }
            6 => {
                let out = self.out(&mut bytes);
                call!(self, cuDeviceTotalMem_v2, out, device);
            }
            7 => {
                let attribute = self.rng.i32(-5..200);
                let out = self.out(&mut number);
                call!(self, cuDeviceGetAttribute, out, attribute, device);
            }
            8 => {
                let peer = self.device();
                let out = self.out(&mut number);
                call!(self, cuDeviceCanAccessPeer, out, device, peer);
            }
            9 => {
                let code = self.rng.u32(..1000);
                let out = self.out(&mut text);
                call!(self, cuGetErrorString, code, out);
                call!(self, cuGetErrorName, code, out);
            }
            10 => {
                let (flags, active) = (self.out(&mut flags), self.out(&mut number));
                call!(self, cuDevicePrimaryCtxGetState, device, flags, active);
            }
            11 => {
                let out = self.out(&mut handle);
                call!(self, cuCtxGetCurrent, out);
            }
            12 => {
                let out = self.out(&mut number);
                call!(self, cuCtxGetDevice, out);
            }
            13 => {
                let mut other = 0;
                let (least, greatest) = (self.out(&mut number), self.out(&mut other));
                call!(self, cuCtxGetStreamPriorityRange, least, greatest);
            }
            14 => {
                let flags = self.flags();
                call!(self, cuCtxSetFlags, flags);
            }
            15 => {
                self.calling("cuLibraryLoadData", &[]);
                let code = unmodelled::cuLibraryLoadData();
                self.returned("cuLibraryLoadData", code);
            }
            16 => {
                let out = self.out(&mut flags);
                call!(self, cuThreadExchangeStreamCaptureMode, out);
            }
            _ => {
                call!(self, cuCtxSynchronize);
            }
        }
    }

    fn streams(&mut self) {
        let (mut handle, mut flags, mut priority) = (0usize, 0, 0);
        let (stream, event) = (self.stream(), self.handle(Kind::Event));
        match self.rng.u8(..16) {
            0..=2 => {
                let flags = self.flags();
                let out = self.out(&mut handle);
                let ok = call!(self, cuStreamCreate, out, flags);
                self.made(ok, Kind::Stream, handle);
            }
            3 => {
                let (flags, priority) = (self.flags(), self.rng.i32(..));
                let out = self.out(&mut handle);
                let ok = call!(self, cuStreamCreateWithPriority, out, flags, priority);
                self.made(ok, Kind::Stream, handle);
            }
            4 => {
                call!(self, cuStreamDestroy_v2, stream);
            }
            5..=6 => {
                call!(self, cuStreamSynchronize, stream);
            }
            7 => {
                call!(self, cuStreamQuery, stream);
            }
            8..=12 => {
                let flags = self.rng.u32(..20) / 19;
                call!(self, cuStreamWaitEvent, stream, event, flags);
            }
            13 => {
                let out = self.out(&mut flags);
                call!(self, cuStreamGetFlags, stream, out);
            }
            14 => {
                let out = self.out(&mut priority);
                call!(self, cuStreamGetPriority, stream, out);
            }
            _ => {
                let out = self.out(&mut handle);
                call!(self, cuStreamGetCtx, stream, out);
            }
        }
    }

    fn events(&mut self) {
        let (mut handle, mut time) = (0usize, 0f32);
        let (stream, event, other) = (
            self.stream(),
            self.handle(Kind::Event),
            self.handle(Kind::Event),
        );
        match self.rng.u8(..14) {
            0..=2 => {
                let flags = self.flags();
                let out = self.out(&mut handle);
                let ok = call!(self, cuEventCreate, out, flags);
                self.made(ok, Kind::Event, handle);
            }
            3 => {
                call!(self, cuEventDestroy_v2, event);
            }
            4..=8 => {
                call!(self, cuEventRecord, event, stream);
            }
            9 => {
                let flags = self.rng.u32(..3);
                call!(self, cuEventRecordWithFlags, event, stream, flags);
            }
            10..=11 => {
                call!(self, cuEventSynchronize, event);
            }
            12 => {
                call!(self, cuEventQuery, event);
            }
            _ => {
                let out = self.out(&mut time);
                call!(self, cuEventElapsedTime, out, event, other);
                call!(self, cuEventElapsedTime_v2, out, event, other);
            }
        }
    }

    fn allocations(&mut self) {
        let (mut address, mut pointer) = (0u64, ptr::null_mut());
        let bytes = size(&mut self.rng);
        let (stream, start) = (self.stream(), self.start());
        match self.rng.u8(..16) {
            0..=2 => {
                let out = self.out(&mut address);
                if call!(self, cuMemAlloc_v2, out, bytes) {
                    self.pool().add_device(address, bytes);
                }
            }
            3..=5 => {
                let out = self.out(&mut address);
                if call!(self, cuMemAllocAsync, out, bytes, stream) {
                    self.pool().add_device(address, bytes);
                }
            }
            6..=8 => {
                let flags = self.flags();
                let out = self.out(&mut pointer);
                if call!(self, cuMemHostAlloc, out, bytes, flags) {
                    self.pool().add_pinned(pointer as u64, bytes);
                }
            }
            9 => {
                let out = self.out(&mut pointer);
                if call!(self, cuMemAllocHost_v2, out, bytes) {
                    self.pool().add_pinned(pointer as u64, bytes);
                }
            }
            10 => {
                let flags = self.flags();
                let out = self.out(&mut address);
                if call!(self, cuMemAllocManaged, out, bytes, flags) {
                    self.pool().add_device(address, bytes);
                }
            }
            11..=12 => {
                call!(self, cuMemFreeAsync, start, stream);
            }
            13 => {
                call!(self, cuMemFree_v2, start);
            }
            _ => {
                let start = start as *mut c_void;
                call!(self, cuMemFreeHost, start);
            }
        }
    }

    fn registrations(&mut self) {
        let start = pageable() as usize;
        let offset = self.rng.usize(..PAGEABLE);
        let bytes = size(&mut self.rng);
        let address = match self.rng.u8(..10) {
            // An allocation of the driver's, freed or not; anything else could be memory of others.
            0 => Some(self.start())
                .filter(|start| start.is_multiple_of(512))
                .unwrap_or(0) as *mut c_void,
            1 => ptr::null_mut(),
            2..=5 => (start + offset / 4096 * 4096) as *mut c_void,
            _ => (start + offset) as *mut c_void,
        };
        if self.rng.bool() {
            let flags = self.flags();
            if call!(self, cuMemHostRegister_v2, address, bytes, flags) {
                self.pool().add_registered(address as u64, bytes);
            }
        } else {
            let start = self.start() as *mut c_void;
            call!(self, cuMemHostUnregister, start);
        }
    }

    fn memory_questions(&mut self) {
        let address = self.device_address();
        let host = address as *mut c_void;
        let (mut value, mut size, mut flags) = (0u64, 0usize, 0);
        match self.rng.u8(..7) {
            0 => {
                let (free, total) = (self.out(&mut size), &mut 0usize as *mut usize);
                call!(self, cuMemGetInfo_v2, free, total);
            }
            1..=2 => {
                let (base, size) = (self.out(&mut value), self.out(&mut size));
                call!(self, cuMemGetAddressRange_v2, base, size, address);
            }
            3..=4 => {
                let attribute = self.rng.u32(..20);
                let data = self.out(&mut value).cast::<c_void>();
                call!(self, cuPointerGetAttribute, data, attribute, address);
            }
            5 => {
                let out = self.out(&mut flags);
                call!(self, cuMemHostGetFlags, out, host);
            }
            _ => {
                let flags = self.rng.u32(..20) / 19;
                let out = self.out(&mut value);
                if call!(self, cuMemHostGetDevicePointer_v2, out, host, flags) && !out.is_null() {
                    self.pool().add_device(value, 64);
                }
            }
        }
    }

    fn copies(&mut self) {
        let bytes = size(&mut self.rng);
        let (to, from) = (self.device_address(), self.device_address());
        let host = self.host_address(bytes);
        let stream = self.stream();
        let (one, two) = (self.unified_address(bytes), self.unified_address(bytes));
        match self.rng.u8(..20) {
            0..=4 => {
                call!(self, cuMemcpyHtoDAsync_v2, to, host, bytes, stream);
            }
            5..=9 => {
                call!(self, cuMemcpyDtoHAsync_v2, host, from, bytes, stream);
            }
            10..=11 => {
                call!(self, cuMemcpyDtoDAsync_v2, to, from, bytes, stream);
            }
            12 => {
                call!(self, cuMemcpyAsync, one, two, bytes, stream);
            }
            13 => {
                call!(self, cuMemcpy, one, two, bytes);
            }
            14 => {
                call!(self, cuMemcpyHtoD_v2, to, host, bytes);
            }
            15 => {
                call!(self, cuMemcpyDtoH_v2, host, from, bytes);
            }
            16 => {
                call!(self, cuMemcpyDtoD_v2, to, from, bytes);
            }
            17 => {
                let contexts = [self.handle(Kind::Context), self.handle(Kind::Context)];
                let [a, b] = contexts;
                call!(self, cuMemcpyPeerAsync, to, a, from, b, bytes, stream);
                call!(self, cuMemcpyPeer, to, a, from, b, bytes);
            }
            _ => self.batch(),
        }
    }

    fn batch(&mut self) {
        let count = self.rng.usize(..5);
        let sizes: Vec<usize> = (0..count).map(|_| size(&mut self.rng)).collect();
        let to: Vec<u64> = sizes
            .iter()
            .map(|&size| self.unified_address(size))
            .collect();
        let from: Vec<u64> = sizes
            .iter()
            .map(|&size| self.unified_address(size))
            .collect();
        let attributes: Vec<BatchAttributes> = (0..count)
            .map(|_| BatchAttributes {
                source_order: self.rng.u32(..5),
                hints: [[0; 2]; 2],
                flags: 0,
            })
            .collect();
        let mut starts: Vec<usize> = (0..count).collect();
        if self.rng.u8(..4) == 0 {
            self.rng.shuffle(&mut starts);
        }
        let attribute_count = self.rng.usize(..=count + 1);
        let mut failed = 0usize;
        let failed = self.out(&mut failed);
        let (to, from, sizes) = (to.as_ptr(), from.as_ptr(), sizes.as_ptr());
        let (attributes, starts) = (attributes.as_ptr(), starts.as_ptr());
        let to = if self.rng.u8(..20) == 0 {
            ptr::null()
        } else {
            to
        };
        let stream = self.stream();
        call!(
            self,
            cuMemcpyBatchAsync,
            to,
            from,
            sizes,
            count,
            attributes,
            starts,
            attribute_count,
            failed,
            stream
        );
    }

    fn memsets(&mut self) {
        let (to, count, stream) = (self.device_address(), size(&mut self.rng), self.stream());
        let value = self.rng.u32(..);
        let (byte, short) = (value as u8, value as u16);
        match self.rng.u8(..6) {
            0 => {
                call!(self, cuMemsetD8Async, to, byte, count, stream);
            }
            1 => {
                call!(self, cuMemsetD16Async, to, short, count, stream);
            }
            2 => {
                call!(self, cuMemsetD32Async, to, value, count, stream);
            }
            3 => {
                call!(self, cuMemsetD8_v2, to, byte, count);
            }
            4 => {
                call!(self, cuMemsetD16_v2, to, short, count);
            }
            _ => {
                call!(self, cuMemsetD32_v2, to, value, count);
            }
        }
    }

    fn host_functions(&mut self) {
        let functions: [unsafe extern "C" fn(*mut c_void); 4] =
            [nothing, sleep, call_the_driver, write_to_pageable_memory];
        let function = self
            .rng
            .choice(functions)
            .filter(|_| self.rng.u8(..20) != 0);
        let (stream, data) = (self.stream(), ptr::null_mut());
        call!(self, cuLaunchHostFunc, stream, function, data);
    }

    fn graphs(&mut self) {
        let (mut handle, mut number, mut count) = (0usize, 0, 0usize);
        let (stream, graph, exec) = (
            self.stream(),
            self.handle(Kind::Graph),
            self.handle(Kind::Exec),
        );
        match self.rng.u8(..14) {
            0..=2 => {
                let mode = self.rng.i32(-1..4);
                call!(self, cuStreamBeginCapture_v2, stream, mode);
            }
            3..=6 => {
                let out = self.out(&mut handle);
                let ok = call!(self, cuStreamEndCapture, stream, out);
                self.made(ok, Kind::Graph, handle);
            }
            7 => {
                let out = self.out(&mut number);
                call!(self, cuStreamIsCapturing, stream, out);
            }
            8..=9 => {
                let flags = u64::from(self.flags());
                let out = self.out(&mut handle);
                let ok = call!(self, cuGraphInstantiateWithFlags, out, graph, flags);
                self.made(ok, Kind::Exec, handle);
            }
            10..=11 => {
                call!(self, cuGraphLaunch, exec, stream);
            }
            12 => match self.rng.u8(..4) {
                0 => {
                    call!(self, cuGraphDestroy, graph);
                }
                1 => {
                    call!(self, cuGraphExecDestroy, exec);
                }
                2 => {
                    call!(self, cuGraphUpload, exec, stream);
                }
                _ => {
                    let (nodes, count) = (self.out(&mut handle), self.out(&mut count));
                    call!(self, cuGraphGetNodes, graph, nodes, count);
                }
            },
            _ => {
                let out = self.out(&mut number);
                call!(self, cuStreamIsCapturing, stream, out);
            }
        }
    }

    fn managed(&mut self) {
        let (address, bytes, stream) = (self.device_address(), size(&mut self.rng), self.stream());
        let (device, flags) = (self.device(), self.flags());
        let location = Location {
            kind: device,
            id: device,
        };
        match self.rng.u8(..5) {
            0 => {
                call!(self, cuMemPrefetchAsync, address, bytes, device, stream);
            }
            1 => {
                self.calling("cuMemPrefetchAsync_v2", &[format!("{address}, {bytes}")]);
                // SAFETY: there is no pointer to anything of ours.
                let code =
                    unsafe { cuMemPrefetchAsync_v2(address, bytes, location, flags, stream) };
                self.returned("cuMemPrefetchAsync_v2", code);
            }
            2 => {
                call!(self, cuMemAdvise, address, bytes, flags, device);
            }
            3 => {
                self.calling("cuMemAdvise_v2", &[format!("{address}, {bytes}")]);
                // SAFETY: as above.
                let code = unsafe { cuMemAdvise_v2(address, bytes, flags, location) };
                self.returned("cuMemAdvise_v2", code);
            }
            _ => {
                call!(self, cuStreamAttachMemAsync, stream, address, bytes, flags);
            }
        }
    }

    /// Loads or stores a byte of memory that the driver has allocated for the host, if it is alive.
    fn touch(&mut self) {
        const HOST_POINTER: c_uint = 4;
        let address = self.start();
        let mut host = 0u64;
        let out = (&raw mut host).cast::<c_void>();
        if !self.alone || !call!(self, cuPointerGetAttribute, out, HOST_POINTER, address) {
            return;
        }
        self.calling("touch", &[format!("{address:#x}")]);
        let byte = host as *mut u8;
        // SAFETY: the driver says that the host can use the address, and nobody else makes calls that could end it.
        unsafe {
            if self.rng.bool() {
                byte.write_volatile(self.rng.u8(..));
            } else {
                byte.read_volatile();
            }
        }
    }
}

unsafe extern "C" fn nothing(_: *mut c_void) {}

unsafe extern "C" fn sleep(_: *mut c_void) {
    std::thread::sleep(Duration::from_millis(1));
}

/// A host function must not call the driver, which has to say so.
unsafe extern "C" fn call_the_driver(_: *mut c_void) {
    let mut address = 0;
    // SAFETY: the out-pointer is valid.
    let code = unsafe { cuMemAlloc_v2(&mut address, 16) };
    if code != Code::NotPermitted as u32 {
        // Nothing can be thrown across the driver: a status that the parent reads as a failure.
        eprintln!("a host function could call cuMemAlloc: {code}");
        std::process::abort();
    }
}

unsafe extern "C" fn write_to_pageable_memory(_: *mut c_void) {
    for offset in (0..PAGEABLE).step_by(5000) {
        // SAFETY: the memory lives as long as the process; other threads only access it by volatile accesses or copies.
        unsafe { pageable().add(offset).write_volatile(7) };
    }
}
