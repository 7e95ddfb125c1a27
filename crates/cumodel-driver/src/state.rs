//! Everything behind the one lock: the engine, the memory, and the objects that handles stand for.

use std::collections::{BTreeSet, HashMap};
use std::ops::{Deref, DerefMut};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;

use cumodel::hazard::{Hazard, HazardKind, Party, Severity};
use cumodel::{
    Engine, EventId, Freed, HostTouch, Notice, OpId, OpInfo, Part, Region, Site, Space, Spec,
    Stamp, StreamId, StreamKind, Target,
};
use parking_lot::{Condvar, Mutex, MutexGuard};
use slab::Slab;

use crate::config::{Config, OnHazard};
use crate::graph::Graphs;
use crate::guard::{self, page_size};
use crate::host_function::{is_host_function_thread, HostFunction, HostFunctions};
use crate::kernel::Launch;
use crate::memory::{Memory, Owner};
use crate::module::Modules;
use crate::report::Reports;
use crate::trace::Trace;
use crate::Code;

/// Handles of each kind start here, far from 0, 1 and 2, which name the default streams.
const FIRST_CONTEXT: usize = 0xC0_0000;
const FIRST_STREAM: usize = 0x51_0000;
const FIRST_EVENT: usize = 0xE7_0000;
/// Handles of one kind are this far apart.
pub const HANDLE_STRIDE: usize = 16;

/// What happens when an operation runs; addresses are those of the engine's view, or of the program's memory.
#[derive(Clone)]
pub enum Effect {
    /// Only its place in the order matters.
    Nothing,
    /// Bytes from one address to another.
    Copy(Copy),
    /// Bytes that were taken from pageable memory at the call (R23).
    Staged {
        contents: Arc<[u8]>,
        /// Where they were taken from, to see whether an earlier operation has changed them since (H12).
        source: usize,
        to: usize,
    },
    /// `count` repetitions of a value of `width` bytes: 1, 2 or 4.
    Fill {
        to: usize,
        value: u32,
        width: usize,
        count: usize,
    },
    /// A function of the program.
    HostFunction(HostFunction),
    /// A kernel.
    Kernel(Arc<Launch>),
}

/// A copy between two addresses.
#[derive(Clone)]
pub struct Copy {
    pub from: usize,
    pub to: usize,
    pub bytes: usize,
}

/// A context that a handle stands for.
pub struct Context {
    pub device: usize,
    /// Its legacy default stream, which stands for it in the engine.
    pub legacy: StreamId,
    per_thread: HashMap<ThreadId, StreamId>,
}

/// A stream that a handle stands for.
pub struct StreamEntry {
    pub id: StreamId,
    pub flags: u32,
    pub priority: i32,
    pub context: usize,
}

/// An event that a handle stands for.
pub struct EventEntry {
    pub id: EventId,
    pub timed: bool,
    pub context: usize,
    /// The record that elapsed time starts or ends at.
    pub recorded: Option<OpId>,
}

/// The model's driver.
pub struct State {
    pub config: Config,
    pub engine: Engine<Effect>,
    pub memory: Memory,
    pub trace: Trace,
    pub reports: Reports,
    pub host_functions: HostFunctions,
    pub graphs: Graphs,
    pub modules: Modules,
    contexts: HashMap<usize, Context>,
    /// Contexts made so far; handles of contexts are never reused, so that a destroyed one is told from the next.
    context_count: usize,
    /// For each device: the retains of its primary context that are not released, and its handle (R70).
    pub primaries: Vec<(u32, usize)>,
    streams: Slab<StreamEntry>,
    events: Slab<EventEntry>,
    created_streams: u32,
    /// Destroyed objects by the handle that stood for them: what it was, and where it was destroyed.
    dead: HashMap<usize, (&'static str, Site)>,
    /// Set by cuInit.
    pub initialized: bool,
    /// An error that stays (R74).
    pub sticky: Option<Code>,
    calls: HashMap<&'static str, u64>,
    /// Copies into pageable memory that ran at their call and that no wait has covered yet.
    unawaited: Vec<(Stamp, Arc<OpInfo>)>,
    /// When each record of a timed event ran, if it has, in operations executed.
    ran_at: HashMap<OpId, Option<u64>>,
    executed: u64,
    /// Instructions that kernels have executed, counted for each thread.
    pub instructions: u64,
    /// Changes when everything is forgotten: what another thread still runs belongs to an earlier life.
    pub epoch: u64,
    /// Two contexts of different devices that may use each other's memory: (user, owner) by handle.
    pub peers: BTreeSet<(usize, usize)>,
}

/// The state with the lock held.
pub struct Locked(MutexGuard<'static, State>);

impl Deref for Locked {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        HOLDER.store(0, Ordering::SeqCst);
    }
}

/// Which thread holds the lock, by the address of a variable of its own; 0 for none.
static HOLDER: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: u8 = const { 0 };
}

fn own() -> usize {
    OWN.with(|own| std::ptr::from_ref(own) as usize)
}

/// Does this thread hold the lock? Then a fault of its is the model's own, or of an argument that points nowhere.
pub fn is_held_here() -> bool {
    HOLDER.load(Ordering::SeqCst) == own()
}

static STATE: OnceLock<Mutex<State>> = OnceLock::new();
static CHANGED: Condvar = Condvar::new();
/// Threads inside a driver function now.
pub static CALLS_NOW: AtomicUsize = AtomicUsize::new(0);
/// Driver functions called so far.
pub static CALLS_EVER: AtomicUsize = AtomicUsize::new(0);

/// How many copies into pageable memory can be told to have never been waited for.
const REMEMBERED_COPIES: usize = 4096;

/// Locks the state, building it from the environment at the first call.
pub fn lock() -> Locked {
    hold(STATE.get_or_init(|| Mutex::new(State::new())).lock())
}

fn hold(guard: MutexGuard<'static, State>) -> Locked {
    HOLDER.store(own(), Ordering::SeqCst);
    Locked(guard)
}

/// The state if it exists and nobody holds it: at the end of the process nothing may block.
pub fn try_lock() -> Option<Locked> {
    STATE.get()?.try_lock().map(hold)
}

/// Waits until another thread has changed the state.
pub fn wait_for_change(state: &mut Locked) {
    HOLDER.store(0, Ordering::SeqCst);
    CHANGED.wait(&mut state.0);
    HOLDER.store(own(), Ordering::SeqCst);
}

/// The same, for no longer than `limit`.
pub fn wait_for_change_or(state: &mut Locked, limit: std::time::Duration) {
    HOLDER.store(0, Ordering::SeqCst);
    CHANGED.wait_for(&mut state.0, limit);
    HOLDER.store(own(), Ordering::SeqCst);
}

/// Tells the waiting threads that the state has changed.
pub fn notify() {
    CHANGED.notify_all();
}

/// Ends the program with a sentence: a library has no better way to refuse a bad environment.
fn refuse_to_start(sentence: &str) -> ! {
    eprintln!("model: {sentence}");
    process::exit(2)
}

extern "C" fn at_exit() {
    if let Some(mut state) = try_lock() {
        if !state.contexts.is_empty() {
            let contexts: Vec<usize> = state.contexts.keys().copied().collect();
            for context in contexts {
                state.check_the_end_of(context, "the end of the program");
            }
        }
    }
}

impl State {
    fn new() -> State {
        let config = Config::from_env().unwrap_or_else(|error| refuse_to_start(&error));
        let trace = Trace::create(config.trace.as_deref()).unwrap_or_else(|error| {
            refuse_to_start(&format!("CUMODEL_TRACE cannot be written: {error}"))
        });
        let reports = Reports::open(config.report.as_deref()).unwrap_or_else(|error| {
            refuse_to_start(&format!("CUMODEL_REPORT cannot be written: {error}"))
        });
        let memory = Memory::new().unwrap_or_else(|error| {
            refuse_to_start(&format!("no address space for the model's memory: {error}"))
        });
        if let Err(error) = guard::install(memory.watched(), memory.parking()) {
            refuse_to_start(&format!("host accesses cannot be watched: {error}"));
        }
        // SAFETY: the function lives as long as the process.
        if unsafe { libc::atexit(at_exit) } != 0 {
            eprintln!("model: what is pending at the end of the program will go unreported");
        }
        let mut state = State {
            engine: Engine::new(config.schedule.clone(), page_size() as u64),
            memory,
            trace,
            reports,
            host_functions: HostFunctions::default(),
            graphs: Graphs::default(),
            modules: Modules::default(),
            contexts: HashMap::new(),
            context_count: 0,
            primaries: Vec::new(),
            streams: Slab::new(),
            events: Slab::new(),
            created_streams: 0,
            dead: HashMap::new(),
            initialized: false,
            sticky: None,
            calls: HashMap::new(),
            unawaited: Vec::new(),
            ran_at: HashMap::new(),
            executed: 0,
            instructions: 0,
            epoch: 0,
            peers: BTreeSet::new(),
            config,
        };
        state.start();
        state
    }

    /// Begins a life with the present settings.
    fn start(&mut self) {
        self.memory
            .reset(self.config.devices, self.config.device_memory);
        self.primaries = vec![(0, 0); self.config.devices];
        let schedule = self.config.schedule.to_string();
        self.reports.start(self.config.on_hazard);
        self.trace.start(env!("CARGO_PKG_VERSION"), &schedule);
    }

    /// Replaces the settings; refused while a context lives.
    pub fn configure(&mut self, settings: &str) -> Result<(), String> {
        if !self.contexts.is_empty() {
            return Err("settings cannot change while a context lives".to_owned());
        }
        let mut config = Config::from_env()?;
        config.apply(settings)?;
        self.config = config;
        self.engine = Engine::new(self.config.schedule.clone(), page_size() as u64);
        self.forget_everything();
        Ok(())
    }

    /// Forgets everything when the last context is gone; the search of the schedule `explore` goes on.
    fn forget_everything(&mut self) {
        let page = page_size() as u64;
        let schedule = match self.engine.explorer() {
            Some(explorer) => cumodel::Schedule::Explore(explorer.clone()),
            None => self.config.schedule.clone(),
        };
        for region in self.engine.regions().all().cloned().collect::<Vec<_>>() {
            self.engine.abandon(&region);
        }
        self.handle_notices();
        self.engine = Engine::new(schedule, page);
        self.epoch += 1;
        self.graphs = Graphs::default();
        self.modules = Modules::default();
        self.streams.clear();
        self.events.clear();
        self.created_streams = 0;
        self.dead.clear();
        self.sticky = None;
        self.calls.clear();
        self.unawaited.clear();
        self.ran_at.clear();
        self.executed = 0;
        self.instructions = 0;
        self.peers.clear();
        self.start();
        notify();
    }

    /// Counts a call of a driver function, and says whether this one is made to fail.
    pub fn count_call(&mut self, name: &'static str) -> Option<Code> {
        if self.config.fail.is_empty() {
            return None;
        }
        let count = self.calls.entry(name).or_insert(0);
        *count += 1;
        let fail = self
            .config
            .fail
            .iter()
            .find(|fail| fail.function == name && fail.nth == *count)?;
        if fail.code.is_sticky() {
            self.sticky = Some(fail.code);
        }
        Some(fail.code)
    }

    // Contexts

    /// Makes a context on a device and the handle that stands for it.
    pub fn create_context(&mut self, device: usize) -> usize {
        self.context_count += 1;
        let handle = FIRST_CONTEXT + HANDLE_STRIDE * self.context_count;
        let name: Arc<str> = if self.contexts.is_empty() {
            "default stream".into()
        } else {
            format!("default stream of context {}", self.context_count).into()
        };
        let legacy = self.engine.create_context(name);
        self.contexts.insert(
            handle,
            Context {
                device,
                legacy,
                per_thread: HashMap::new(),
            },
        );
        handle
    }

    /// The context of a handle.
    pub fn context(&self, handle: usize) -> Option<&Context> {
        self.contexts.get(&handle)
    }

    /// Has a handle ever stood for a context?
    pub fn was_context(&self, handle: usize) -> bool {
        index(handle, FIRST_CONTEXT).is_some_and(|index| (1..=self.context_count).contains(&index))
    }

    /// Ends a context with everything in it (R70).
    pub fn destroy_context(&mut self, handle: usize, call: &'static str) {
        self.check_the_end_of(handle, call);
        let Some(context) = self.contexts.remove(&handle) else {
            return;
        };
        if self.contexts.is_empty() {
            self.forget_everything();
            return;
        }
        let theirs: Vec<Arc<Region>> = self.regions_of(handle);
        for region in theirs {
            self.engine.abandon(&region);
            self.handle_notices();
            self.memory
                .free(&region, Freed::InFlight, call, Site::default());
        }
        self.modules.forget_context(handle);
        self.streams.retain(|_, stream| stream.context != handle);
        self.events.retain(|_, event| event.context != handle);
        self.engine.destroy_stream(context.legacy);
        self.peers
            .retain(|(user, owner)| *user != handle && *owner != handle);
    }

    fn regions_of(&self, context: usize) -> Vec<Arc<Region>> {
        self.engine
            .regions()
            .all()
            .filter(|region| {
                self.memory
                    .block(region.range.start)
                    .is_some_and(|block| block.context == context)
            })
            .cloned()
            .collect()
    }

    /// Reports what a context leaves behind: pending work (H22), memory (H27), copies that were never waited for (H11).
    fn check_the_end_of(&mut self, handle: usize, call: &'static str) {
        // After an error that stays nothing runs any more, so what is left says nothing about the program.
        let Some(context) = self.contexts.get(&handle).filter(|_| self.sticky.is_none()) else {
            return;
        };
        let legacy = context.legacy;
        let pending = self.engine.pending(|effect| match effect {
            Effect::HostFunction(_) => true,
            Effect::Copy(copy) => !self.memory.is_device_view(copy.to),
            _ => false,
        });
        let end = |site| Party::Call {
            call,
            does: "ends the context".to_owned(),
            site,
        };
        for op in pending {
            let Some(info) = self.engine.info(op).cloned() else {
                continue;
            };
            if self.engine.context_of(op) != Some(legacy) {
                continue;
            }
            self.report(Hazard {
                kind: HazardKind::NeverAwaited,
                a: Some(Party::Operation {
                    info,
                    touches: None,
                }),
                b: Some(end(crate::site::capture())),
                region: None,
                useless: None,
            });
        }
        for (_, info) in std::mem::take(&mut self.unawaited) {
            self.report(Hazard {
                kind: HazardKind::PageableWasSync,
                a: None,
                b: Some(Party::Operation {
                    info,
                    touches: None,
                }),
                region: None,
                useless: None,
            });
        }
        for region in self.regions_of(handle) {
            if self.modules.owns(region.range.start) {
                continue;
            }
            self.report(Hazard {
                kind: HazardKind::Leak,
                a: None,
                b: Some(end(crate::site::capture())),
                region: Some(region),
                useless: None,
            });
        }
    }

    // Streams

    /// Makes a stream of a context and the handle that stands for it.
    pub fn create_stream(&mut self, context: usize, flags: u32, priority: i32) -> usize {
        self.created_streams += 1;
        let name: Arc<str> = format!("stream {}", self.created_streams).into();
        self.trace.stream(&name);
        let kind = if flags & 1 == 0 {
            StreamKind::Blocking
        } else {
            StreamKind::NonBlocking
        };
        let legacy = self.contexts[&context].legacy;
        let id = self.engine.create_stream(name, kind, legacy);
        let handle = FIRST_STREAM
            + HANDLE_STRIDE
                * self.streams.insert(StreamEntry {
                    id,
                    flags,
                    priority,
                    context,
                });
        self.dead.remove(&handle);
        handle
    }

    /// The stream of a handle that cuStreamCreate made.
    pub fn created_stream(&self, handle: usize) -> Result<&StreamEntry, Code> {
        index(handle, FIRST_STREAM)
            .and_then(|index| self.streams.get(index))
            .ok_or(Code::InvalidHandle)
    }

    /// Ends a handle; its value is reused at once, and pending work of the stream still runs (R6).
    pub fn destroy_stream(&mut self, handle: usize, site: Site) -> Result<(), Code> {
        let entry = index(handle, FIRST_STREAM)
            .and_then(|index| self.streams.try_remove(index))
            .ok_or(Code::InvalidHandle)?;
        self.engine.destroy_stream(entry.id);
        self.graphs.forget_stream(entry.id);
        self.dead.insert(handle, ("stream", site));
        Ok(())
    }

    /// The default stream of a thread in a context (R5).
    pub fn per_thread_stream(&mut self, context: usize, thread: ThreadId) -> StreamId {
        let entry = &self.contexts[&context];
        if let Some(&id) = entry.per_thread.get(&thread) {
            return id;
        }
        let (legacy, number) = (entry.legacy, entry.per_thread.len() + 1);
        let name: Arc<str> = format!("per-thread default stream {number}").into();
        self.trace.stream(&name);
        let id = self
            .engine
            .create_stream(name, StreamKind::PerThread, legacy);
        if let Some(context) = self.contexts.get_mut(&context) {
            context.per_thread.insert(thread, id);
        }
        id
    }

    /// What a dead handle stood for and where it was destroyed.
    pub fn dead(&self, handle: usize) -> Option<&(&'static str, Site)> {
        self.dead.get(&handle)
    }

    /// Remembers that a handle is dead.
    pub fn bury(&mut self, handle: usize, what: &'static str, site: Site) {
        self.dead.insert(handle, (what, site));
    }

    /// A handle value stands for a live object again.
    pub fn unbury(&mut self, handle: usize) {
        self.dead.remove(&handle);
    }

    // Events

    /// Makes an event and the handle that stands for it.
    pub fn create_event(&mut self, context: usize, timed: bool) -> usize {
        let (id, _) = self.engine.create_event();
        let entry = EventEntry {
            id,
            timed,
            context,
            recorded: None,
        };
        let handle = FIRST_EVENT + HANDLE_STRIDE * self.events.insert(entry);
        self.dead.remove(&handle);
        handle
    }

    /// The event of a handle.
    pub fn event(&mut self, handle: usize) -> Result<&mut EventEntry, Code> {
        index(handle, FIRST_EVENT)
            .and_then(|index| self.events.get_mut(index))
            .ok_or(Code::InvalidHandle)
    }

    /// Ends a handle; its value is reused at once, and waits that were issued stay (R15).
    pub fn destroy_event(&mut self, handle: usize, site: Site) -> Result<(), Code> {
        let entry = index(handle, FIRST_EVENT)
            .and_then(|index| self.events.try_remove(index))
            .ok_or(Code::InvalidHandle)?;
        self.engine.destroy_event(entry.id);
        self.graphs.forget_event(entry.id);
        if let Some(op) = entry.recorded {
            self.forget_time_of(op);
        }
        self.dead.insert(handle, ("event", site));
        Ok(())
    }

    /// The record `op` belongs to a timed event: remember when it runs.
    pub fn keep_time_of(&mut self, op: OpId) {
        self.ran_at.insert(op, None);
    }

    /// When a record ran, if it has.
    pub fn time_of(&self, op: OpId) -> Option<u64> {
        self.ran_at.get(&op).copied().flatten()
    }

    /// The time of an earlier record is no longer asked for.
    pub fn forget_time_of(&mut self, op: OpId) {
        self.ran_at.remove(&op);
    }

    // Memory

    /// Allocates device memory for a context; `stream` is that of a stream-ordered allocation.
    pub fn allocate_device(
        &mut self,
        bytes: usize,
        stream: Option<StreamId>,
        owner: Owner,
        site: Site,
    ) -> Option<Arc<Region>> {
        self.memory
            .allocate_device(&mut self.engine, bytes, stream, owner, site)
    }

    /// Allocates page-locked or managed memory for a context.
    pub fn allocate_host(
        &mut self,
        space: Space,
        bytes: usize,
        flags: u32,
        owner: Owner,
        site: Site,
    ) -> Option<Arc<Region>> {
        // Reads of write-combined memory are told, and a trace shows every first access.
        let write_combined = space == Space::Pinned && flags & crate::memory::WRITE_COMBINED != 0;
        let watch = self.trace.is_on() || write_combined;
        let region =
            self.memory
                .allocate_host(&mut self.engine, space, bytes, flags, watch, owner, site);
        self.handle_notices();
        region
    }

    /// Frees an allocation at once; returns whether an operation still uses it.
    pub fn free_now(&mut self, region: &Arc<Region>, call: &'static str, site: Site) -> Freed {
        let freed = self.engine.free_now(region, call, site.clone());
        // The engine opens what it still guards; the memory closes what nobody owns.
        self.handle_notices();
        self.memory.free(region, freed, call, site);
        freed
    }

    // Operations

    /// Appends an operation to a stream, ordered after the moments of `also` as well.
    pub fn enqueue(&mut self, stream: StreamId, spec: Spec<Effect>, also: &[Stamp]) -> OpId {
        let op = self.engine.enqueue(stream, spec, also);
        self.trace_operation(op);
        self.handle_notices();
        op
    }

    /// Writes an operation that was just enqueued to the trace.
    pub fn trace_operation(&mut self, op: OpId) {
        if self.trace.is_on() {
            if let Some(info) = self.engine.info(op).cloned() {
                self.trace.operation(&info);
            }
        }
    }

    /// A copy into pageable memory has run at its call; somebody should wait for it all the same (R21).
    pub fn expect_a_wait_for(&mut self, op: OpId) {
        let info = self.engine.info(op).cloned();
        let stamp = self.engine.op_target(op).pop();
        if let Some(pair) = stamp.zip(info) {
            if self.unawaited.len() < REMEMBERED_COPIES {
                self.unawaited.push(pair);
            }
        }
    }

    /// A step of an operation has been performed.
    pub fn step_done(&mut self, op: OpId, part: Part) {
        if part != Part::First {
            self.count_run(op);
        }
        self.engine.complete(op, part);
    }

    /// An operation has run.
    pub fn count_run(&mut self, op: OpId) {
        self.executed += 1;
        if let Some(time) = self.ran_at.get_mut(&op) {
            *time = Some(self.executed);
        }
        self.trace.ran(op);
    }

    /// The host has waited for `target`.
    pub fn host_waited(&mut self, target: &Target) {
        self.engine.order_host_after(target);
        self.memory.release_freed(&self.engine);
        let engine = &self.engine;
        self.unawaited
            .retain(|(stamp, _)| !engine.host_is_after(&vec![stamp.clone()]));
    }

    /// Reports the hazards and changes the page protections that the engine asks for.
    pub fn handle_notices(&mut self) {
        for notice in self.engine.take_notices() {
            match notice {
                Notice::Protect(change) => guard::protect(&change.range, change.level),
                Notice::Hazard(hazard) => self.report(*hazard),
                Notice::Decided { region, in_flight } => {
                    if !in_flight {
                        self.memory.was_idle(&region);
                    }
                }
            }
        }
    }

    /// Reports something.
    pub fn report(&mut self, hazard: Hazard) {
        self.trace.hazard(&hazard);
        self.reports
            .add(&hazard, || self.config.replay(self.engine.schedule()));
        if hazard.kind.severity() == Severity::Hazard {
            match self.config.on_hazard {
                OnHazard::Report | OnHazard::Collect => (),
                OnHazard::Error => self.sticky = Some(Code::LaunchFailed),
                OnHazard::Abort => process::abort(),
            }
        }
    }

    /// The host touched watched memory at `address`; false when that memory is not the model's concern.
    pub fn host_touch(&mut self, address: u64, write: bool, site: Site) -> bool {
        // A host function has a place in the order; any other code of the program is ordered by the host's waits alone.
        let by = self
            .host_functions
            .running
            .filter(|_| is_host_function_thread());
        if by.is_some() {
            self.host_functions.touched.push(address);
        }
        let touch = self.engine.host_touch(address, write, by, site.clone());
        self.handle_notices();
        match touch {
            HostTouch::First { region, write } => {
                self.trace.host(write, &region.to_string(), &site);
                if !write && self.memory.is_write_combined(&region) {
                    self.report(Hazard {
                        kind: HazardKind::WriteCombinedRead,
                        a: None,
                        b: Some(Party::Touch {
                            address,
                            write,
                            site,
                        }),
                        region: Some(region),
                        useless: None,
                    });
                }
                true
            }
            HostTouch::Race | HostTouch::Unremarkable => true,
            HostTouch::Unknown => false,
        }
    }

    /// Takes away again what a host function was let touch.
    pub fn guard_again(&mut self) {
        for address in std::mem::take(&mut self.host_functions.touched) {
            self.engine.guard_again(address);
        }
        self.handle_notices();
    }

    /// The host touched device memory (H32).
    pub fn host_deref_device(&mut self, address: u64, write: bool, site: Site) {
        let region = self.engine.region(address).cloned();
        self.report(Hazard {
            kind: HazardKind::HostDerefDevice,
            a: None,
            b: Some(Party::Touch {
                address,
                write,
                site,
            }),
            region,
            useless: None,
        });
    }
}

/// The place in its slab that a handle stands for, `first` being the handle of place 0.
pub fn index(handle: usize, first: usize) -> Option<usize> {
    let distance = handle.checked_sub(first)?;
    distance
        .is_multiple_of(HANDLE_STRIDE)
        .then_some(distance / HANDLE_STRIDE)
}

/// One driver function is being called, until this is dropped.
pub struct Calling(());

impl Calling {
    /// Counts the call.
    pub fn start() -> Calling {
        CALLS_NOW.fetch_add(1, Ordering::SeqCst);
        CALLS_EVER.fetch_add(1, Ordering::SeqCst);
        Calling(())
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        CALLS_NOW.fetch_sub(1, Ordering::SeqCst);
    }
}
