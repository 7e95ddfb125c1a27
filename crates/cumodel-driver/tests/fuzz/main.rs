//! Random calls of the driver's functions: handles that are dead, foreign or garbage, sizes that overflow, addresses that
//! are misaligned or in nobody's memory, flags that do not exist, from one to three threads.
//!
//! Nothing of it may crash, hang, return a code that the driver does not have, or spoil what the driver knows: after each
//! round a right program finds a driver as good as new.
//! Host pointers always point to memory that exists, because another one is undefined on hardware too.
//!
//! The calls are made in child processes, so that a crash or a hang has a seed.
//! `CUMODEL_FUZZ_SECONDS=1800` runs with new seeds for that long; `CUMODEL_FUZZ_SEED=…` repeats one.

mod calls;
mod kernels;
mod pool;

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::panic::catch_unwind;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, ptr, thread};

use calls::Caller;
use cumodel_driver::abi::{context::*, control::*, copy::*, device::*, memory::*, stream::*};
use fastrand::Rng;
use pool::Pool;

/// Seeds of a run that is part of the tests.
const SEEDS: u64 = 6;
/// Programs of random calls for each seed.
const ROUNDS: usize = 20;
/// Calls of each thread in a round.
const CALLS: usize = 250;
/// A child that has not ended after this long hangs; it needs a fraction of it.
const PATIENCE: Duration = Duration::from_secs(120);
const DEVICE_MEMORY: usize = 64 << 20;

const SEED: &str = "CUMODEL_FUZZ_SEED";
const LOG: &str = "CUMODEL_FUZZ_LOG";

#[test]
fn random_calls_neither_crash_nor_hang_nor_spoil_the_driver() {
    if let (Ok(seed), Some(log)) = (env::var(SEED), env::var_os(LOG)) {
        return run_seed(seed.parse().expect("the seed is a number"), log.as_ref());
    }
    let folder = tempfile::tempdir().expect("there is room for logs");
    let log = folder.path().join("calls");
    if let Ok(seed) = env::var(SEED) {
        return check_seed(seed.parse().expect("the seed is a number"), &log);
    }
    let Ok(seconds) = env::var("CUMODEL_FUZZ_SECONDS") else {
        (0..SEEDS).for_each(|seed| check_seed(seed, &log));
        return;
    };
    let limit = Duration::from_secs(seconds.parse().expect("the seconds are a number"));
    let first = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| now.as_secs());
    let start = Instant::now();
    let mut seeds = 0;
    while start.elapsed() < limit {
        check_seed(first + seeds, &log);
        seeds += 1;
    }
    println!(
        "{seeds} seeds from {first}, {} rounds, at most {} calls, in {:?}",
        seeds * ROUNDS as u64,
        seeds * (ROUNDS * CALLS * 3) as u64,
        start.elapsed()
    );
}

/// Runs one seed in a process of its own.
fn check_seed(seed: u64, log: &Path) {
    let said = log.with_extension("stderr");
    let stderr = File::create(&said).expect("there is room for what is said");
    let child = start_child(seed, log, stderr.into());
    let Err(error) = wait(child, PATIENCE) else {
        return;
    };
    let last_of = |path: &Path, count| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    };
    panic!(
        "seed {seed}: {error}; to repeat: {SEED}={seed}\nwhat was said last:\n{}\nthe last calls:\n{}",
        last_of(&said, 20),
        last_of(log, 40)
    );
}

fn start_child(seed: u64, log: &Path, stderr: Stdio) -> Child {
    let name = "random_calls_neither_crash_nor_hang_nor_spoil_the_driver";
    Command::new(env::current_exe().expect("the test has a path"))
        .args(["--exact", name, "--nocapture"])
        .env(SEED, seed.to_string())
        .env(LOG, log)
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .expect("the test can run itself")
}

fn wait(mut child: Child, patience: Duration) -> Result<(), String> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("the child is ours") {
            return if status.success() {
                Ok(())
            } else {
                Err(format!("the calls ended with {status}"))
            };
        }
        if start.elapsed() > patience {
            // It may have ended just now; either way it is gone.
            let _ = child.kill();
            let _ = child.wait();
            return Err("the calls hang".to_owned());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The child's part: rounds of random calls, and a right program after each.
fn run_seed(seed: u64, log: &Path) {
    let mut rng = Rng::with_seed(seed);
    for round in 0..ROUNDS {
        let log = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .open(log)
            .expect("the log can be written");
        // An error that stays, stays until the process ends (R74): it ends this one's rounds.
        let last = round + 1 == ROUNDS;
        configure(&random_settings(&mut rng, last));
        run_round(&mut rng, log, last);
        if last {
            return;
        }
        configure("schedule=last on_hazard=collect");
        take_reports();
        run_a_right_program();
        let reports = take_reports();
        assert!(reports.is_empty(), "a right program is reported: {reports}");
    }
}

/// `fatal` allows those that let an error stay.
fn random_settings(rng: &mut Rng, fatal: bool) -> String {
    let seed = rng.u16(..);
    let random = format!("random:{seed}");
    let schedules = ["last", "eager", "fifo", &random, "explore"];
    let mut settings = format!(
        "schedule={} pageable={} free={} machine={} on_hazard={} devices={} kernel_budget=100000",
        schedules[rng.usize(..schedules.len())],
        ["staged", "direct"][rng.usize(..2)],
        ["doc", "driver"][rng.usize(..2)],
        ["discrete", "coherent"][rng.usize(..2)],
        if fatal {
            "error"
        } else {
            ["collect", "report"][rng.usize(..2)]
        },
        rng.usize(1..3),
    );
    if rng.u8(..4) == 0 {
        let functions = ["cuMemAllocAsync", "cuEventRecord", "cuMemcpyDtoHAsync_v2"];
        let function = functions[rng.usize(..functions.len())];
        let (nth, code) = (
            rng.u8(1..20),
            [1, 2, 719][rng.usize(..2 + usize::from(fatal))],
        );
        settings.push_str(&format!(" fail={function}:{nth}:{code}"));
    }
    settings
}

fn configure(settings: &str) {
    let settings = format!("{settings} device_memory={DEVICE_MEMORY}");
    let text = CString::new(settings.clone()).expect("settings hold no NUL");
    // SAFETY: the string ends with a NUL.
    assert_eq!(unsafe { cumodel_configure(text.as_ptr()) }, 0, "{settings}");
}

/// `faults` allows kernels that do what no kernel may do.
fn run_round(rng: &mut Rng, log: File, faults: bool) {
    let pool = Arc::new(Mutex::new(Pool::default()));
    let threads = rng.usize(1..=3);
    let callers: Vec<Caller> = (0..threads)
        .map(|number| Caller {
            rng: rng.fork(),
            pool: pool.clone(),
            log: log.try_clone().expect("the log is open"),
            number,
            alone: threads == 1,
            faults,
        })
        .collect();
    let running: Vec<_> = callers
        .into_iter()
        .map(|mut caller| {
            thread::spawn(move || {
                start(&mut caller);
                for _ in 0..CALLS {
                    caller.step();
                }
            })
        })
        .collect();
    let results: Vec<_> = running.into_iter().map(|thread| thread.join()).collect();
    // The threads' panics have been printed; what they leave behind is nobody's concern.
    assert!(results.iter().all(Result::is_ok), "a call went wrong");
    release_all(&pool.lock().expect("no thread has panicked"));
}

/// A context to begin with: without one, nearly all calls would be refused.
fn start(caller: &mut Caller) {
    let mut context = 0;
    // SAFETY: the out-pointer is valid.
    unsafe {
        cuInit(0);
        if caller.rng.u8(..10) != 0 && cuDevicePrimaryCtxRetain(&mut context, 0) == 0 {
            cuCtxSetCurrent(context);
        }
    }
}

/// Ends all contexts, whatever still runs in them.
fn release_all(pool: &Pool) {
    // SAFETY: handles that are dead are refused.
    unsafe {
        // Every call is refused for as long as an error stays, which is until the last context ends.
        for &context in pool.contexts() {
            cuCtxDestroy_v2(context);
        }
        for device in 0..2 {
            while cuDevicePrimaryCtxRelease_v2(device) == 0 {}
        }
    }
}

/// Copies four values through the device, and leaves nothing behind.
fn run_a_right_program() {
    const BYTES: usize = 4096;
    let (mut context, mut stream, mut device) = (0usize, 0usize, 0u64);
    let mut pinned = ptr::null_mut();
    let memory = || {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the out-pointers are valid.
        assert_eq!(unsafe { cuMemGetInfo_v2(&mut free, &mut total) }, 0);
        (free, total)
    };
    // SAFETY: out-pointers are valid, handles alive, and sizes those of the allocations.
    unsafe {
        assert_eq!(cuInit(0), 0);
        assert_eq!(cuDevicePrimaryCtxRetain(&mut context, 0), 0);
        assert_eq!(cuCtxSetCurrent(context), 0);
        assert_eq!(memory(), (DEVICE_MEMORY, DEVICE_MEMORY));
        assert_eq!(cuStreamCreate(&mut stream, 1), 0);
        assert_eq!(cuMemAllocAsync(&mut device, BYTES, stream), 0);
        assert_eq!(cuMemHostAlloc(&mut pinned, BYTES, 0), 0);
        let values = pinned.cast::<u32>();
        values.write_volatile(7);
        assert_eq!(cuMemsetD32Async(device, 5, BYTES / 4, stream), 0);
        assert_eq!(cuMemcpyDtoHAsync_v2(pinned, device, BYTES, stream), 0);
        assert_eq!(cuStreamSynchronize(stream), 0);
        assert_eq!(values.add(BYTES / 4 - 1).read_volatile(), 5);
        values.write_volatile(9);
        assert_eq!(cuMemcpyHtoDAsync_v2(device, pinned, BYTES, stream), 0);
        let mut back = [0u32; 4];
        let to = back.as_mut_ptr().cast();
        assert_eq!(cuMemcpyDtoHAsync_v2(to, device, 16, stream), 0);
        assert_eq!(cuStreamSynchronize(stream), 0);
        assert_eq!(back, [9, 5, 5, 5]);
        assert_eq!(cuMemFreeHost(pinned), 0);
        assert_eq!(cuMemFreeAsync(device, stream), 0);
        assert_eq!(cuStreamSynchronize(stream), 0);
        assert_eq!(memory(), (DEVICE_MEMORY, DEVICE_MEMORY));
        assert_eq!(cuStreamDestroy_v2(stream), 0);
        assert_eq!(cuDevicePrimaryCtxRelease_v2(0), 0);
        assert_ne!(cuDevicePrimaryCtxRelease_v2(0), 0);
    }
}

/// The reports since the last time; each is a JSON object with an id.
fn take_reports() -> String {
    // SAFETY: nothing is written without a buffer.
    let length = unsafe { cumodel_take_reports(ptr::null_mut(), 0) };
    let mut buffer = vec![0u8; length];
    // SAFETY: the buffer has the length; nobody else causes reports now.
    let written = unsafe { cumodel_take_reports(buffer.as_mut_ptr().cast(), length) };
    assert_eq!(written, length);
    let text = String::from_utf8(buffer).expect("reports are text");
    for line in text.lines() {
        let report: serde_json::Value = serde_json::from_str(line).expect("a report is JSON");
        let id = report["id"].as_str().expect("a report has an id");
        assert!(id.starts_with('H'), "{id}");
    }
    text
}

/// Planted faults: a child that crashes, one that fails, one that hangs.
#[test]
fn a_child_that_does_not_end_well_is_caught() {
    let run = |script, patience| {
        let child = Command::new("sh").args(["-c", script]).spawn();
        wait(child.expect("sh runs"), patience)
    };
    assert_eq!(run("true", PATIENCE), Ok(()));
    for script in ["kill -SEGV $$", "exit 101"] {
        assert!(run(script, PATIENCE).is_err(), "{script}");
    }
    let hang = run("exec sleep 600", Duration::from_millis(50));
    assert_eq!(hang, Err("the calls hang".to_owned()));
}

/// A planted fault: a driver that does not do what a right program asks for.
#[test]
fn a_spoiled_driver_is_caught() {
    configure("schedule=last on_hazard=collect fail=cuMemsetD32Async:1:1");
    assert!(catch_unwind(run_a_right_program).is_err());
}
