//! The thread that runs host functions, and the rescue of a program that waits for one without calling the driver.

use std::cell::Cell;
use std::ffi::c_void;
use std::fs;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use cumodel::hazard::{Hazard, HazardKind, Party};
use cumodel::{OpId, Part};

use crate::run::{finish, run_wanted};
use crate::state::{lock, wait_for_change_or, Effect, Locked, State, CALLS_EVER, CALLS_NOW};

/// A function of the program and its argument, from cuLaunchHostFunc.
#[derive(Clone, Copy)]
pub struct HostFunction {
    /// The function.
    pub function: unsafe extern "C" fn(*mut c_void),
    /// The address that is its argument.
    pub data: usize,
}

thread_local! {
    static IS_HOST_FUNCTION_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Is this the thread on which host functions run? They must not call the driver (R55).
pub fn is_host_function_thread() -> bool {
    IS_HOST_FUNCTION_THREAD.get()
}

/// The way to the thread; it starts with the first host function.
#[derive(Default)]
pub struct HostFunctions {
    sender: Option<Sender<Job>>,
    /// The operation whose function runs now, if one does.
    pub running: Option<OpId>,
    /// When it started.
    running_since: Option<Instant>,
    /// Guarded memory that it has touched: its place in the order let it, and nobody else.
    pub touched: Vec<u64>,
    /// H20 is reported once for each function.
    reported: bool,
    queued: usize,
}

/// Waits until the functions that were started have returned, or the one that runs sleeps: it can be waiting for what the
/// program does next.
///
/// Without this, a function that the schedule starts at a call would run beside the program's next steps, and the same
/// schedule would not be the same run.
pub fn let_functions_finish(state: &mut Locked) {
    let mut asleep = 0;
    while state.host_functions.queued > 0 && asleep < SAMPLES_ASLEEP {
        wait_for_change_or(state, SAMPLE);
        let sleeping =
            state.host_functions.running.is_some() && sleeps(OWN_THREADS[0].load(Ordering::SeqCst));
        asleep = if sleeping { asleep + 1 } else { 0 };
    }
}

/// One function to run.
struct Job {
    op: OpId,
    function: HostFunction,
    /// The life of the state that it belongs to.
    epoch: u64,
}

static OWN_THREADS: [AtomicI32; 2] = [AtomicI32::new(0), AtomicI32::new(0)];

impl HostFunctions {
    /// Starts the threads if they are not running.
    pub fn start(&mut self) -> std::io::Result<()> {
        if self.sender.is_some() {
            return Ok(());
        }
        let (sender, receiver) = mpsc::channel::<Job>();
        thread::Builder::new()
            .name("cumodel-hostfn".into())
            .spawn(move || {
                IS_HOST_FUNCTION_THREAD.set(true);
                OWN_THREADS[0].store(thread_id(), Ordering::SeqCst);
                for job in receiver {
                    run(&job);
                }
            })?;
        thread::Builder::new()
            .name("cumodel-rescue".into())
            .spawn(rescue_idle_programs)?;
        self.sender = Some(sender);
        Ok(())
    }

    /// Runs a function on the thread, after those before it: one at a time (R55).
    pub fn run(&mut self, op: OpId, function: HostFunction, epoch: u64) {
        if let Some(sender) = &self.sender {
            self.queued += 1;
            // The thread only ends with the process.
            let _ = sender.send(Job {
                op,
                function,
                epoch,
            });
        }
    }
}

fn run(job: &Job) {
    let sources = {
        let mut state = lock();
        state.host_functions.running = Some(job.op).filter(|_| state.epoch == job.epoch);
        state.host_functions.running_since = Some(Instant::now());
        state.host_functions.reported = false;
        unchanged_sources(&state, job.op)
    };
    // SAFETY: the program handed the function and its argument over to be called on a thread of the driver's.
    unsafe { (job.function.function)(job.function.data as *mut c_void) };
    let mut state = lock();
    state.host_functions.running = None;
    state.host_functions.running_since = None;
    state.host_functions.queued -= 1;
    state.guard_again();
    if state.epoch == job.epoch {
        report_changed_sources(&mut state, job.op, &sources);
        finish(&mut state, job.op, Part::Whole);
    }
}

/// The staged copies behind the host function `op` whose pageable source still holds what was taken from it.
///
/// Empty unless every other thread sleeps or waits in the driver: then whoever changes a source is the host function.
fn unchanged_sources(state: &State, op: OpId) -> Vec<OpId> {
    let staged = state
        .engine
        .pending(|effect| matches!(effect, Effect::Staged { .. }));
    let behind: Vec<OpId> = staged
        .into_iter()
        .filter(|&copy| state.engine.same_stream(op, copy))
        .collect();
    if behind.is_empty() || !others_settle() {
        return Vec::new();
    }
    behind
        .into_iter()
        .filter(|&copy| source_is_unchanged(state, copy) == Some(true))
        .collect()
}

/// Waits a little for the thread whose call led here to come to rest in the driver.
fn others_settle() -> bool {
    for _ in 0..5 {
        if !others_could_write() {
            return true;
        }
        thread::sleep(SAMPLE);
    }
    false
}

/// H12: the host function `op` has changed a source that a later copy of its stream had taken already.
fn report_changed_sources(state: &mut State, op: OpId, sources: &[OpId]) {
    if sources.is_empty() || others_could_write() {
        return;
    }
    for &copy in sources {
        if source_is_unchanged(state, copy) != Some(false) {
            continue;
        }
        let party = |op| {
            state.engine.info(op).cloned().map(|info| Party::Operation {
                info,
                touches: None,
            })
        };
        let hazard = Hazard {
            kind: HazardKind::PageableSourceEarly,
            a: party(op),
            b: party(copy),
            region: None,
            useless: None,
        };
        state.report(hazard);
    }
}

/// Does the source of a staged copy hold what was taken from it? Nothing when it can no longer be read.
fn source_is_unchanged(state: &State, op: OpId) -> Option<bool> {
    let Some(Effect::Staged {
        contents, source, ..
    }) = state.engine.effect(op)
    else {
        return None;
    };
    let mut now = vec![0u8; contents.len()];
    let local = libc::iovec {
        iov_base: now.as_mut_ptr().cast(),
        iov_len: now.len(),
    };
    let remote = libc::iovec {
        iov_base: *source as *mut c_void,
        iov_len: contents.len(),
    };
    // SAFETY: reading by the kernel fails with an error, not a fault, where the program has unmapped the source since.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    (read == contents.len() as isize).then(|| now[..] == contents[..])
}

const SAMPLE: Duration = Duration::from_millis(1);
const SAMPLES_ASLEEP: u32 = 3;
const PATIENCE: Duration = Duration::from_secs(1);

/// R9: work completes even if the program makes no further call, so a program may wait for a host function's message.
///
/// When every thread of the program has been asleep for a few samples, or none has called the driver for a second
/// (it may spin on an atomic), the oldest pending host function runs, with everything that it is ordered after.
fn rescue_idle_programs() {
    OWN_THREADS[1].store(thread_id(), Ordering::SeqCst);
    let mut calls = 0;
    let mut asleep = 0;
    let mut since = Instant::now();
    loop {
        thread::sleep(SAMPLE);
        check_for_a_blocked_function(&mut lock());
        let calls_ever = CALLS_EVER.load(Ordering::SeqCst);
        if calls_ever != calls || CALLS_NOW.load(Ordering::SeqCst) != 0 {
            calls = calls_ever;
            asleep = 0;
            since = Instant::now();
            continue;
        }
        if oldest_host_function(&lock()).is_none() {
            // Nothing to rescue: look again when the driver is called.
            asleep = 0;
            since = Instant::now();
            thread::sleep(10 * SAMPLE);
            continue;
        }
        asleep = if others_sleep() { asleep + 1 } else { 0 };
        if asleep < SAMPLES_ASLEEP && since.elapsed() < PATIENCE {
            continue;
        }
        let mut state = lock();
        if let Some(op) = oldest_host_function(&state) {
            state.trace.rescue(op);
            if let Some(info) = state.engine.info(op).cloned() {
                state.report(Hazard {
                    kind: HazardKind::ProgressRescue,
                    a: None,
                    b: Some(Party::Operation {
                        info,
                        touches: None,
                    }),
                    region: None,
                    useless: None,
                });
            }
            let target = state.engine.op_target(op);
            state.engine.want(&target);
            run_wanted(&mut state, true);
            state.handle_notices();
        }
        asleep = 0;
        since = Instant::now();
    }
}

fn oldest_host_function(state: &State) -> Option<OpId> {
    state
        .engine
        .pending(|effect| matches!(effect, Effect::HostFunction(_)))
        .first()
        .copied()
}

/// H20: a function that has slept for long while another waits to run after it.
fn check_for_a_blocked_function(state: &mut State) {
    let functions = &state.host_functions;
    let long = functions
        .running_since
        .is_some_and(|since| since.elapsed() >= PATIENCE);
    if !long || functions.reported {
        return;
    }
    let waiting = functions.queued > 1 || oldest_host_function(state).is_some();
    if !waiting || !sleeps(OWN_THREADS[0].load(Ordering::SeqCst)) {
        return;
    }
    state.host_functions.reported = true;
    if let Some(info) = oldest_host_function(state).and_then(|op| state.engine.info(op).cloned()) {
        state.report(Hazard {
            kind: HazardKind::HostFunctionBlocks,
            a: None,
            b: Some(Party::Operation {
                info,
                touches: None,
            }),
            region: None,
            useless: None,
        });
    }
}

/// Is every thread but the model's own asleep?
fn others_sleep() -> bool {
    awake() == 0
}

/// Is a thread awake that is not in a driver function?
fn others_could_write() -> bool {
    awake() > CALLS_NOW.load(Ordering::SeqCst)
}

/// How many threads besides the model's own are awake.
fn awake() -> usize {
    let own = OWN_THREADS
        .each_ref()
        .map(|id| id.load(Ordering::SeqCst).to_string());
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return usize::MAX;
    };
    tasks
        .flatten()
        .filter(|task| {
            let name = task.file_name();
            !own.iter().any(|id| name.to_string_lossy() == id.as_str())
                && !name.to_string_lossy().parse().map_or(true, sleeps)
        })
        .count()
}

/// Is a thread asleep, or gone?
fn sleeps(thread: i32) -> bool {
    // The state is the first field after the name, which is in parentheses and can hold anything.
    fs::read_to_string(format!("/proc/self/task/{thread}/stat"))
        .ok()
        .and_then(|stat| {
            stat.rsplit_once(") ")
                .map(|(_, rest)| rest.starts_with('S'))
        })
        .unwrap_or(true)
}

fn thread_id() -> i32 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::gettid() }
}
