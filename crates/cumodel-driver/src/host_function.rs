//! The thread that runs host functions, and the rescue of a program that waits for one without calling the driver.

use std::cell::Cell;
use std::ffi::c_void;
use std::fs;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use cumodel::OpId;

use crate::run::{finish, run_wanted};
use crate::state::{lock, Effect, CALLS_EVER, CALLS_NOW};

/// A function of the program and its argument, from cuLaunchHostFunc.
#[derive(Clone, Copy)]
pub struct HostFunction {
    /// The function.
    pub function: unsafe extern "C" fn(*mut c_void),
    /// Its argument.
    pub data: *mut c_void,
}

// SAFETY: cuLaunchHostFunc runs the function on a thread of the driver's; that the argument may go there is the
// caller's promise.
unsafe impl Send for HostFunction {}

thread_local! {
    static IS_HOST_FUNCTION_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Is this the thread on which host functions run? They must not call the driver (R55).
pub fn is_host_function_thread() -> bool {
    IS_HOST_FUNCTION_THREAD.get()
}

/// The way to the thread; it starts with the first host function.
#[derive(Default)]
pub struct HostFunctions(Option<Sender<(OpId, HostFunction)>>);

static OWN_THREADS: [AtomicI32; 2] = [AtomicI32::new(0), AtomicI32::new(0)];

impl HostFunctions {
    /// Starts the threads if they are not running.
    pub fn start(&mut self) -> std::io::Result<()> {
        if self.0.is_some() {
            return Ok(());
        }
        let (sender, receiver) = mpsc::channel::<(OpId, HostFunction)>();
        thread::Builder::new()
            .name("cumodel-hostfn".into())
            .spawn(move || {
                IS_HOST_FUNCTION_THREAD.set(true);
                OWN_THREADS[0].store(thread_id(), Ordering::SeqCst);
                for (op, host) in receiver {
                    // SAFETY: the program handed the function and its argument over to be called once, here.
                    unsafe { (host.function)(host.data) };
                    let mut state = lock();
                    finish(&mut state, op);
                }
            })?;
        thread::Builder::new()
            .name("cumodel-rescue".into())
            .spawn(rescue_idle_programs)?;
        self.0 = Some(sender);
        Ok(())
    }

    /// Runs a function on the thread, after those before it: one at a time (R55).
    pub fn run(&self, op: OpId, function: HostFunction) {
        if let Some(sender) = &self.0 {
            // The thread only ends with the process.
            let _ = sender.send((op, function));
        }
    }
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
        let calls_ever = CALLS_EVER.load(Ordering::SeqCst);
        if calls_ever != calls || CALLS_NOW.load(Ordering::SeqCst) != 0 {
            calls = calls_ever;
            asleep = 0;
            since = Instant::now();
            continue;
        }
        let pending = |effect: &Effect| matches!(effect, Effect::HostFunction(_));
        if lock().engine.oldest_pending(pending).is_none() {
            // Nothing to rescue: look again when the driver is called.
            while CALLS_EVER.load(Ordering::SeqCst) == calls {
                thread::sleep(SAMPLE);
            }
            continue;
        }
        asleep = if others_sleep() { asleep + 1 } else { 0 };
        if asleep < SAMPLES_ASLEEP && since.elapsed() < PATIENCE {
            continue;
        }
        let mut state = lock();
        if let Some(op) = state.engine.oldest_pending(pending) {
            state.trace.rescue(op);
            let target = state.engine.op_target(op);
            state.engine.want(&target);
            run_wanted(&mut state);
            state.handle_notices();
        }
        asleep = 0;
        since = Instant::now();
    }
}

/// Is every thread but the model's own asleep?
fn others_sleep() -> bool {
    let own = OWN_THREADS
        .each_ref()
        .map(|id| id.load(Ordering::SeqCst).to_string());
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return false;
    };
    tasks.flatten().all(|task| {
        if own
            .iter()
            .any(|id| task.file_name().to_string_lossy() == id.as_str())
        {
            return true;
        }
        // The state is the first field after the name, which is in parentheses and can hold anything.
        fs::read_to_string(task.path().join("stat"))
            .ok()
            .and_then(|stat| {
                stat.rsplit_once(") ")
                    .map(|(_, rest)| rest.starts_with('S'))
            })
            .unwrap_or(true)
    })
}

fn thread_id() -> i32 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::gettid() }
}
