//! Measures the model itself; `cargo xtask bench-model` runs it in release mode on the model.
//!
//! Method, copies: a pinned source and a device buffer of 1 GiB, both memory of the model, and a destination of 1 GiB
//! that is touched beforehand, once pageable and once pinned.
//! In turn, the device buffer is copied into the destination through the driver and waited for, and the pinned source
//! is copied into the same destination by memcpy.
//! The figure is the ratio of the two medians.
//!
//! Method, operations: 4-byte memsets and 4-byte copies to pinned memory are enqueued on one stream in turn, with a
//! synchronize at the end or after every so many; the clock covers all of it.
//! The growth of resident memory is read from /proc/self/statm.
//!
//! Method, kernels: `lab`'s saxpy over vectors of growing length, each three times; the clock covers the launch and the
//! synchronize, the instructions are those that the model counts for each thread, and the best of the three stands, as
//! well as the least processor time.
//!
//! Method, exploration: one program of twelve operations on three streams, three of which race, is run in every order.

use std::ffi::{c_char, c_int};
use std::time::{Duration, Instant};
use std::{fs, ptr};

use anyhow::{ensure, Context, Result};
use cudarc::driver::{sys, CudaContext, CudaStream, DevicePtr};
use lab::kernels::Saxpy;
use serde::Serialize;

/// Bytes of each buffer that is copied.
const BYTES: usize = 1 << 30;
/// How often each of the two copies is timed.
const REPEATS: usize = 9;
/// How often each kernel is timed.
const KERNEL_REPEATS: u32 = 3;

/// Times in milliseconds.
#[derive(Serialize)]
struct Spread {
    median_ms: f64,
    min_ms: f64,
    max_ms: f64,
}

#[derive(Serialize)]
struct Copies {
    destination: &'static str,
    bytes: usize,
    repeats: usize,
    model: Spread,
    memcpy: Spread,
    ratio_of_medians: f64,
}

#[derive(Serialize)]
struct Operations {
    operations: u32,
    /// Operations between two synchronizes.
    synchronize_every: u32,
    total_ms: f64,
    us_per_operation: f64,
    /// Resident memory at the end less that after the first tenth, in bytes.
    growth_bytes: i64,
}

#[derive(Serialize)]
struct Kernel {
    elements: usize,
    instructions: u64,
    best_ms: f64,
    /// Of the processors, all together, in the same run; a busy machine changes it little.
    cpu_ms: f64,
    /// Of the processors.
    ns_per_instruction: f64,
}

#[derive(Serialize)]
struct Exploration {
    operations: u32,
    runs: u32,
    total_ms: f64,
}

#[derive(Serialize)]
struct Results {
    copies: Vec<Copies>,
    operations: Vec<Operations>,
    kernels: Vec<Kernel>,
    exploration: Exploration,
}

fn main() -> Result<()> {
    let json = std::env::args().any(|argument| argument == "--json");
    let results = Results {
        copies: copies()?,
        operations: vec![
            operations(100_000, 100_000)?,
            operations(1_000_000, 1_000)?,
            operations(10_000_000, 1_000)?,
        ],
        kernels: [1 << 20, 4 << 20, 16 << 20]
            .into_iter()
            .map(saxpy)
            .collect::<Result<_>>()?,
        exploration: exploration()?,
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&results)?);
    } else {
        print(&results);
    }
    Ok(())
}

fn print(results: &Results) {
    let line = |name, spread: &Spread| {
        println!(
            "  {name:22} {:7.1} ms  ({:.1} to {:.1})",
            spread.median_ms, spread.min_ms, spread.max_ms
        );
    };
    for copies in &results.copies {
        println!(
            "1 GiB into one touched {} buffer, {} times each in turn, medians (min to max):",
            copies.destination, copies.repeats
        );
        line("device, by the model", &copies.model);
        line("pinned, by memcpy", &copies.memcpy);
        println!("  ratio of medians       {:7.3}", copies.ratio_of_medians);
    }
    println!("Memsets and copies of 4 bytes on one stream, once:");
    for it in &results.operations {
        println!(
            "  {:8}, a synchronize after every {:6}: {:8.1} ms, {:.2} µs each, resident memory grew by {} KiB",
            it.operations,
            it.synchronize_every,
            it.total_ms,
            it.us_per_operation,
            it.growth_bytes / 1024
        );
    }
    println!("A kernel, saxpy, launched and waited for, the best of {KERNEL_REPEATS}:");
    for it in &results.kernels {
        println!(
            "  {:8} elements, {:10} instructions: {:7.1} ms; {:7.1} ms of processor time, {:.2} ns for an instruction",
            it.elements, it.instructions, it.best_ms, it.cpu_ms, it.ns_per_instruction
        );
    }
    let it = &results.exploration;
    println!(
        "A program of {} operations in every order that can make a difference: {} runs, {:.1} ms",
        it.operations, it.runs, it.total_ms
    );
}

/// Times the copy through the model and the plain one, for both kinds of destination.
fn copies() -> Result<Vec<Copies>> {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let device = stream.alloc_zeros::<u8>(BYTES)?;
    // SAFETY: the next line fills the memory before anything reads it.
    let mut source = unsafe { context.alloc_pinned_with_flags::<u8>(BYTES, 0) }?;
    source.as_mut_slice()?.fill(1);

    let mut pageable = vec![2u8; BYTES];
    let (mut model, mut memcpy) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        let start = Instant::now();
        stream.memcpy_dtoh(&device, &mut pageable)?;
        stream.synchronize()?;
        model.push(start.elapsed());

        let start = Instant::now();
        pageable.copy_from_slice(source.as_slice()?);
        std::hint::black_box(&mut pageable);
        memcpy.push(start.elapsed());
    }
    let into_pageable = compare("pageable", model, memcpy);
    drop(pageable);

    // SAFETY: the next line fills the memory before anything reads it.
    let mut pinned = unsafe { context.alloc_pinned_with_flags::<u8>(BYTES, 0) }?;
    pinned.as_mut_slice()?.fill(2);
    let (mut model, mut memcpy) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        let start = Instant::now();
        stream.memcpy_dtoh(&device, &mut pinned)?;
        stream.synchronize()?;
        model.push(start.elapsed());

        let start = Instant::now();
        pinned.as_mut_slice()?.copy_from_slice(source.as_slice()?);
        std::hint::black_box(&mut pinned);
        memcpy.push(start.elapsed());
    }
    Ok(vec![into_pageable, compare("pinned", model, memcpy)])
}

fn compare(destination: &'static str, model: Vec<Duration>, memcpy: Vec<Duration>) -> Copies {
    let (model, memcpy) = (spread(model), spread(memcpy));
    Copies {
        destination,
        bytes: BYTES,
        repeats: REPEATS,
        ratio_of_medians: model.median_ms / memcpy.median_ms,
        model,
        memcpy,
    }
}

/// Times small operations, from the first call to the end of the last synchronize.
fn operations(count: u32, synchronize_every: u32) -> Result<Operations> {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let device = stream.alloc_zeros::<u32>(1)?;
    // SAFETY: nothing reads the memory.
    let mut pinned = unsafe { context.alloc_pinned_with_flags::<u32>(1, 0) }?;
    let destination = pinned.as_mut_slice()?.as_mut_ptr();
    let address = device.device_ptr(&stream).0;
    stream.synchronize()?;

    let start = Instant::now();
    let mut resident = resident_bytes()?;
    for operation in 0..count {
        if operation == count / 10 {
            resident = resident_bytes()?;
        }
        enqueue(operation, address, destination, &stream)?;
        if (operation + 1) % synchronize_every == 0 {
            stream.synchronize()?;
        }
    }
    stream.synchronize()?;
    let total = start.elapsed();
    Ok(Operations {
        operations: count,
        synchronize_every,
        total_ms: milliseconds(total),
        us_per_operation: total.as_secs_f64() * 1e6 / f64::from(count),
        growth_bytes: resident_bytes()? - resident,
    })
}

fn enqueue(
    operation: u32,
    address: sys::CUdeviceptr,
    destination: *mut u32,
    stream: &CudaStream,
) -> Result<()> {
    // SAFETY: both addresses stay valid until the caller has synchronized.
    unsafe {
        if operation.is_multiple_of(2) {
            sys::cuMemsetD32Async(address, operation, 1, stream.cu_stream()).result()?;
        } else {
            sys::cuMemcpyDtoHAsync_v2(destination.cast(), address, 4, stream.cu_stream())
                .result()?;
        }
    }
    Ok(())
}

/// What all threads of this process have taken of the processors.
fn processor_time() -> Result<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the out-pointer is valid.
    let code = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    ensure!(code == 0, "the system does not tell the processor time");
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

fn resident_bytes() -> Result<i64> {
    let statm = fs::read_to_string("/proc/self/statm").context("reading /proc/self/statm")?;
    let pages: i64 = statm
        .split(' ')
        .nth(1)
        .and_then(|field| field.parse().ok())
        .context("/proc/self/statm has no second number")?;
    Ok(pages * lab::page_size() as i64)
}

/// Times saxpy over `elements` values, from the launch to the end of the synchronize.
fn saxpy(elements: usize) -> Result<Kernel> {
    let model = Model::open()?;
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let kernel = Saxpy::load(&context)?;
    let x = stream.clone_htod(&vec![1f32; elements])?;
    let mut y = stream.clone_htod(&vec![2f32; elements])?;
    stream.synchronize()?;
    let (mut best, mut cpu) = (Duration::MAX, Duration::MAX);
    // SAFETY: the function has no arguments.
    let before = unsafe { (model.instructions)() };
    for _ in 0..KERNEL_REPEATS {
        let (start, cpu_start) = (Instant::now(), processor_time()?);
        kernel.launch(&stream, 0.5, &x, &mut y)?;
        stream.synchronize()?;
        best = best.min(start.elapsed());
        cpu = cpu.min(processor_time()? - cpu_start);
    }
    // SAFETY: as above.
    let after = unsafe { (model.instructions)() };
    let instructions = (after - before) / u64::from(KERNEL_REPEATS);
    let last = stream.clone_dtoh(&y)?[elements - 1];
    stream.synchronize()?;
    ensure!(last == 3.5, "saxpy computed {last}, not 3.5");
    Ok(Kernel {
        elements,
        instructions,
        best_ms: milliseconds(best),
        cpu_ms: milliseconds(cpu),
        ns_per_instruction: cpu.as_secs_f64() * 1e9 / instructions as f64,
    })
}

/// Runs one small program in every order.
fn exploration() -> Result<Exploration> {
    let model = Model::open()?;
    model.configure(c"schedule=explore on_hazard=collect")?;
    let start = Instant::now();
    let mut runs = 0;
    loop {
        twelve_operations()?;
        runs += 1;
        // SAFETY: no context lives any more.
        if unsafe { (model.explore_next)() } == 0 {
            break;
        }
    }
    let total = start.elapsed();
    model.configure(c"schedule=last")?;
    Ok(Exploration {
        operations: 12,
        runs,
        total_ms: milliseconds(total),
    })
}

/// Memsets, copies, a record and a wait on three streams; three of the operations race.
fn twelve_operations() -> Result<()> {
    let context = CudaContext::new(0)?;
    let (mut v, mut w, mut x, mut y) = (0, 0, 0, 0);
    // SAFETY: all memory lives until the synchronize, and the races are the point.
    unsafe {
        let stream = || -> Result<sys::CUstream> {
            let mut stream = ptr::null_mut();
            sys::cuStreamCreate(&mut stream, 1).result()?;
            Ok(stream)
        };
        let (a, b, c) = (stream()?, stream()?, stream()?);
        let mut event = ptr::null_mut();
        sys::cuEventCreate(&mut event, 2).result()?;
        for address in [&mut v, &mut w, &mut x, &mut y] {
            sys::cuMemAlloc_v2(address, 4096).result()?;
        }
        let fill =
            |address, value, stream| sys::cuMemsetD32Async(address, value, 1024, stream).result();
        fill(w, 1, a)?;
        fill(w, 2, a)?;
        fill(w, 3, a)?;
        fill(x, 4, a)?;
        sys::cuEventRecord(event, a).result()?;
        sys::cuStreamWaitEvent(b, event, 0).result()?;
        fill(w, 5, b)?;
        fill(w, 6, b)?;
        fill(w, 7, b)?;
        sys::cuMemcpyDtoDAsync_v2(y, x, 4096, b).result()?;
        // Nothing orders stream c.
        fill(x, 8, c)?;
        fill(v, 9, c)?;
        sys::cuCtxSynchronize().result()?;
        for address in [v, w, x, y] {
            sys::cuMemFree_v2(address).result()?;
        }
    }
    drop(context);
    Ok(())
}

/// What the model exports besides the driver's functions.
struct Model {
    configure: unsafe extern "C" fn(*const c_char) -> c_int,
    explore_next: unsafe extern "C" fn() -> c_int,
    instructions: unsafe extern "C" fn() -> u64,
}

impl Model {
    fn open() -> Result<Model> {
        // SAFETY: loading the driver again runs no code, and both names have these types in the model.
        unsafe {
            let library = libc::dlopen(c"libcuda.so".as_ptr(), libc::RTLD_NOW);
            let configure = libc::dlsym(library, c"cumodel_configure".as_ptr());
            let explore_next = libc::dlsym(library, c"cumodel_explore_next".as_ptr());
            let instructions = libc::dlsym(library, c"cumodel_instructions".as_ptr());
            ensure!(
                !configure.is_null() && !explore_next.is_null() && !instructions.is_null(),
                "the driver is not the model; run this by `cargo xtask bench-model`"
            );
            Ok(Model {
                configure: std::mem::transmute::<
                    *mut libc::c_void,
                    unsafe extern "C" fn(*const c_char) -> c_int,
                >(configure),
                explore_next: std::mem::transmute::<
                    *mut libc::c_void,
                    unsafe extern "C" fn() -> c_int,
                >(explore_next),
                instructions: std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn() -> u64>(
                    instructions,
                ),
            })
        }
    }

    fn configure(&self, settings: &std::ffi::CStr) -> Result<()> {
        // SAFETY: the text ends with a NUL.
        let code = unsafe { (self.configure)(settings.as_ptr()) };
        ensure!(
            code == 0,
            "the model refuses {}",
            settings.to_string_lossy()
        );
        Ok(())
    }
}

fn spread(mut times: Vec<Duration>) -> Spread {
    times.sort();
    Spread {
        median_ms: milliseconds(times[times.len() / 2]),
        min_ms: milliseconds(times[0]),
        max_ms: milliseconds(times[times.len() - 1]),
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
