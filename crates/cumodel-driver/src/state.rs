//! Everything behind the one lock: the engine, the two arenas, and the objects that handles stand for.

use std::collections::HashMap;
use std::ops::Range;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;

use cumodel::{
    Access, AccessKind, Engine, EventId, HostTouch, Notice, OpId, Region, Site, Space, Spec,
    StreamId, Target,
};
use parking_lot::{Condvar, Mutex, MutexGuard};
use slab::Slab;

use crate::arena::Arena;
use crate::config::Config;
use crate::guard::{self, page_size};
use crate::host_function::{HostFunction, HostFunctions};
use crate::report::Reports;
use crate::trace::Trace;
use crate::Code;

/// Memory of the model's device, in bytes.
const DEVICE_MEMORY: usize = 16 << 30;
/// Address space for pinned memory, in bytes; frames are taken only for what is allocated.
const PINNED_MEMORY: usize = 64 << 30;
/// CUDA aligns allocations to at least 256 bytes; 512 is what stream-ordered pools use.
const DEVICE_GRAIN: usize = 512;
/// What device memory holds before anything is written: not zeros, so that nobody takes it for initialized.
const UNWRITTEN: u8 = 0xA5;

/// Handles start here, far from 0, 1 and 2, which name the default streams.
const FIRST_STREAM: usize = 0x51_0000;
const FIRST_EVENT: usize = 0xE7_0000;
const HANDLE_STRIDE: usize = 16;

/// What happens when an operation runs; addresses are those of the engine's view, or of pageable memory.
pub enum Effect {
    /// Only its place in the order matters.
    Nothing,
    /// Bytes from one address to another.
    Copy {
        from: usize,
        to: usize,
        bytes: usize,
    },
    /// Bytes that were taken from pageable memory at the call (R23).
    Staged { contents: Box<[u8]>, to: usize },
    /// `count` repetitions of a value of `width` bytes: 1, 2 or 4.
    Fill {
        to: usize,
        value: u32,
        width: usize,
        count: usize,
    },
    /// A function of the program.
    HostFunction(HostFunction),
}

/// A stream that a handle stands for.
pub struct StreamEntry {
    pub id: StreamId,
    pub flags: u32,
    pub priority: i32,
}

/// An event that a handle stands for.
pub struct EventEntry {
    pub id: EventId,
    pub timed: bool,
    /// The record that elapsed time starts or ends at.
    pub recorded: Option<OpId>,
}

/// An allocation, beyond what the engine needs to know.
struct Block {
    /// What the arena handed out: the size rounded up.
    reserved: Range<u64>,
    flags: u32,
}

/// A block whose stream-ordered free is enqueued.
struct Freed {
    reserved: Range<u64>,
    /// The moment of the free.
    moment: Target,
}

/// The model's driver.
pub struct State {
    pub engine: Engine<Effect>,
    pub trace: Trace,
    pub reports: Reports,
    pub host_functions: HostFunctions,
    device: Arena,
    pinned: Arena,
    blocks: HashMap<u64, Block>,
    /// By freeing stream, most recent last (R44).
    freed: HashMap<StreamId, Vec<Freed>>,
    streams: Slab<StreamEntry>,
    events: Slab<EventEntry>,
    per_thread: HashMap<ThreadId, StreamId>,
    created_streams: u32,
    /// Retains of the primary context that are not released (R70).
    pub retained: u32,
    /// Changes when the primary context is reset, so that an old current context is told from the new one.
    pub generation: u32,
    /// Set by cuInit.
    pub initialized: bool,
    /// When each record of a timed event ran, if it has, in operations executed.
    ran_at: HashMap<OpId, Option<u64>>,
    executed: u64,
}

/// The state with the lock held.
pub type Locked = MutexGuard<'static, State>;

static STATE: OnceLock<Mutex<State>> = OnceLock::new();
static CHANGED: Condvar = Condvar::new();
/// Threads inside a driver function now.
pub static CALLS_NOW: AtomicUsize = AtomicUsize::new(0);
/// Driver functions called so far.
pub static CALLS_EVER: AtomicUsize = AtomicUsize::new(0);

/// Locks the state, building it from the environment at the first call.
pub fn lock() -> Locked {
    STATE.get_or_init(|| Mutex::new(State::new())).lock()
}

/// Waits until another thread has changed the state.
pub fn wait_for_change(state: &mut Locked) {
    CHANGED.wait(state);
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

impl State {
    fn new() -> State {
        let config = Config::from_env().unwrap_or_else(|error| refuse_to_start(&error));
        let trace = Trace::create(config.trace.as_deref()).unwrap_or_else(|error| {
            refuse_to_start(&format!("CUMODEL_TRACE cannot be written: {error}"))
        });
        let reports = Reports::open(config.report.as_deref()).unwrap_or_else(|error| {
            refuse_to_start(&format!("CUMODEL_REPORT cannot be written: {error}"))
        });
        let arena = |size, grain| {
            Arena::new(size, grain).unwrap_or_else(|error| {
                refuse_to_start(&format!("no address space for the model's memory: {error}"))
            })
        };
        let pinned = arena(PINNED_MEMORY, page_size());
        if let Err(error) = guard::install(pinned.program_view()) {
            refuse_to_start(&format!("host accesses cannot be watched: {error}"));
        }
        let replay = config.replay();
        let mut state = State {
            engine: Engine::new(
                config.schedule.clone(),
                replay,
                page_size() as u64,
                trace.is_on(),
            ),
            trace,
            reports,
            host_functions: HostFunctions::default(),
            device: arena(DEVICE_MEMORY, DEVICE_GRAIN),
            pinned,
            blocks: HashMap::new(),
            freed: HashMap::new(),
            streams: Slab::new(),
            events: Slab::new(),
            per_thread: HashMap::new(),
            created_streams: 0,
            retained: 0,
            generation: 0,
            initialized: false,
            ran_at: HashMap::new(),
            executed: 0,
        };
        state
            .trace
            .start(env!("CARGO_PKG_VERSION"), &config.schedule.to_string());
        state
    }

    // Streams

    /// Makes a stream and the handle that stands for it.
    pub fn create_stream(&mut self, flags: u32, priority: i32) -> usize {
        self.created_streams += 1;
        let name: Arc<str> = format!("stream {}", self.created_streams).into();
        self.trace.stream(&name);
        let id = self.engine.create_stream(name, flags & 1 == 0);
        FIRST_STREAM
            + HANDLE_STRIDE
                * self.streams.insert(StreamEntry {
                    id,
                    flags,
                    priority,
                })
    }

    /// The stream of a handle that cuStreamCreate made.
    pub fn created_stream(&self, handle: usize) -> Result<&StreamEntry, Code> {
        index(handle, FIRST_STREAM)
            .and_then(|index| self.streams.get(index))
            .ok_or(Code::InvalidHandle)
    }

    /// Ends a handle; its value is reused at once, and pending work of the stream still runs (R6).
    pub fn destroy_stream(&mut self, handle: usize) -> Result<(), Code> {
        index(handle, FIRST_STREAM)
            .and_then(|index| self.streams.try_remove(index))
            .map(|_| ())
            .ok_or(Code::InvalidHandle)
    }

    /// The default stream of a thread (R5).
    pub fn per_thread_stream(&mut self, thread: ThreadId) -> StreamId {
        if let Some(&id) = self.per_thread.get(&thread) {
            return id;
        }
        let name: Arc<str> =
            format!("per-thread default stream {}", self.per_thread.len() + 1).into();
        self.trace.stream(&name);
        let id = self.engine.create_stream(name, true);
        self.per_thread.insert(thread, id);
        id
    }

    // Events

    /// Makes an event and the handle that stands for it.
    pub fn create_event(&mut self, timed: bool) -> usize {
        let (id, _) = self.engine.create_event();
        let entry = EventEntry {
            id,
            timed,
            recorded: None,
        };
        FIRST_EVENT + HANDLE_STRIDE * self.events.insert(entry)
    }

    /// The event of a handle.
    pub fn event(&mut self, handle: usize) -> Result<&mut EventEntry, Code> {
        index(handle, FIRST_EVENT)
            .and_then(|index| self.events.get_mut(index))
            .ok_or(Code::InvalidHandle)
    }

    /// Ends a handle; its value is reused at once, and waits that were issued stay (R15).
    pub fn destroy_event(&mut self, handle: usize) -> Result<(), Code> {
        let entry = index(handle, FIRST_EVENT)
            .and_then(|index| self.events.try_remove(index))
            .ok_or(Code::InvalidHandle)?;
        self.engine.destroy_event(entry.id);
        if let Some(op) = entry.recorded {
            self.forget_time_of(op);
        }
        Ok(())
    }

    /// An operation ran; if it is the record of a timed event, the virtual time is remembered.
    pub fn operation_ran(&mut self, op: OpId) {
        self.executed += 1;
        if let Some(time) = self.ran_at.get_mut(&op) {
            *time = Some(self.executed);
        }
        self.trace.ran(op);
        self.engine.complete(op);
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

    /// Memory of the device: free and total bytes.
    pub fn device_memory(&self) -> (usize, usize) {
        (self.device.size() - self.device.used(), self.device.size())
    }

    /// Allocates device memory; `stream` is that of a stream-ordered allocation.
    pub fn allocate_device(
        &mut self,
        bytes: usize,
        stream: Option<StreamId>,
        site: Site,
    ) -> Option<Arc<Region>> {
        let length = bytes
            .checked_next_multiple_of(DEVICE_GRAIN)?
            .max(DEVICE_GRAIN);
        let reused = stream.and_then(|stream| {
            let freed = self.freed.get_mut(&stream)?;
            let index = freed
                .iter()
                .rposition(|block| block.reserved.end - block.reserved.start == length as u64)?;
            Some(freed.remove(index).reserved)
        });
        let reserved = match reused {
            // The block's next life begins, in stream order, after its last one ended.
            Some(reserved) => reserved,
            None => {
                let reserved = self.device.allocate(length)?;
                self.device.fill(&reserved, UNWRITTEN);
                self.engine.forget(&reserved);
                reserved
            }
        };
        let start = reserved.start;
        self.blocks.insert(start, Block { reserved, flags: 0 });
        Some(
            self.engine
                .allocate(Space::Device, start..start + bytes as u64, site),
        )
    }

    /// Allocates page-locked memory; every page has its frame when this returns.
    pub fn allocate_pinned(&mut self, bytes: usize, flags: u32, site: Site) -> Option<Arc<Region>> {
        let reserved = self.pinned.allocate(bytes)?;
        guard::protect(&reserved, cumodel::guard::Level::Open);
        self.pinned.populate(&reserved);
        self.engine.forget(&reserved);
        let start = reserved.start;
        self.blocks.insert(start, Block { reserved, flags });
        let region = self
            .engine
            .allocate(Space::Pinned, start..start + bytes as u64, site);
        self.handle_notices();
        Some(region)
    }

    /// The flags that a pinned allocation was made with.
    pub fn pinned_flags(&self, address: u64) -> Option<u32> {
        let region = self.engine.region(address)?;
        (region.space == Space::Pinned).then(|| {
            self.blocks
                .get(&region.range.start)
                .map(|block| block.flags)
        })?
    }

    /// Frees an allocation at once; one that is still in use is never handed out again.
    pub fn free_now(&mut self, region: &Arc<Region>, call: &'static str, site: Site) {
        let in_flight = self.engine.free_now(region, call, site);
        let Some(block) = self.blocks.remove(&region.range.start) else {
            return;
        };
        if region.space == Space::Pinned {
            guard::protect(&block.reserved, cumodel::guard::Level::NoAccess);
        }
        if !in_flight {
            match region.space {
                Space::Device => self.device.release(&block.reserved),
                Space::Pinned => self.pinned.release(&block.reserved),
            }
        }
    }

    /// Frees an allocation in stream order; the free has just been enqueued as `op`.
    pub fn free_in_stream(&mut self, region: &Arc<Region>, stream: StreamId, op: OpId) {
        self.engine.free_in_stream(region);
        if let Some(block) = self.blocks.remove(&region.range.start) {
            self.freed.entry(stream).or_default().push(Freed {
                reserved: block.reserved,
                moment: self.engine.op_target(op),
            });
        }
    }

    /// Gives the blocks back whose free the host has waited for (R49).
    pub fn release_freed(&mut self) {
        for blocks in self.freed.values_mut() {
            blocks.retain(|block| {
                let waited = self.engine.host_is_after(&block.moment);
                if waited {
                    self.device.release(&block.reserved);
                }
                !waited
            });
        }
    }

    /// Ends the primary context: its streams, events and allocations are gone (R70).
    pub fn reset(&mut self) {
        self.generation += 1;
        let starts: Vec<u64> = self.blocks.keys().copied().collect();
        for start in starts {
            if let Some(region) = self.engine.region_at(start).cloned() {
                self.engine.abandon(&region);
            }
        }
        self.blocks.clear();
        self.freed.clear();
        self.streams.clear();
        self.events.clear();
        self.per_thread.clear();
    }

    /// What `bytes` bytes at `address` are: inside one allocation, or pageable memory.
    pub fn place(&self, address: u64, bytes: usize) -> Result<Place, Code> {
        let ours = [self.device.program_view(), self.pinned.program_view()]
            .iter()
            .any(|view| view.contains(&(address as usize)));
        if !ours {
            return if address == 0 && bytes > 0 {
                Err(Code::InvalidValue)
            } else {
                Ok(Place::Pageable(address as usize))
            };
        }
        let region = self.engine.region(address).ok_or(Code::InvalidValue)?;
        let end = address
            .checked_add(bytes as u64)
            .ok_or(Code::InvalidValue)?;
        if end > region.range.end {
            return Err(Code::InvalidValue);
        }
        let arena = match region.space {
            Space::Device => &self.device,
            Space::Pinned => &self.pinned,
        };
        Ok(Place::Allocation {
            region: region.clone(),
            program: address,
            engine: arena.engine_address(address),
        })
    }

    // Operations

    /// Appends an operation to a stream.
    pub fn enqueue(&mut self, stream: StreamId, spec: Spec<Effect>) -> OpId {
        let op = self.engine.enqueue(stream, spec);
        self.trace_operation(op);
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

    /// The host has waited for `target`.
    pub fn host_waited(&mut self, target: &Target) {
        self.engine.order_host_after(target);
        self.release_freed();
    }

    /// Prints the hazards and changes the page protections that the engine asks for.
    pub fn handle_notices(&mut self) {
        for notice in self.engine.take_notices() {
            match notice {
                Notice::Protect(change) => guard::protect(&change.range, change.level),
                Notice::Hazard(hazard) => {
                    self.trace.hazard(&hazard);
                    self.reports.add(&hazard);
                }
            }
        }
    }

    /// The host touched guarded memory at `address`; false when that memory is not the model's concern.
    pub fn host_touch(&mut self, address: u64, write: bool, site: Site) -> bool {
        let touch = self.engine.host_touch(address, write, site.clone());
        if let HostTouch::First(region) = &touch {
            self.trace.host(write, &region.to_string(), &site);
        }
        self.handle_notices();
        !matches!(touch, HostTouch::Unknown)
    }
}

/// Where the bytes of one end of a copy are.
pub enum Place {
    /// In an allocation of the model.
    Allocation {
        region: Arc<Region>,
        /// In the program's view, which names the bytes in reports and in the ledger.
        program: u64,
        /// In the engine's view, which is copied from and to.
        engine: usize,
    },
    /// Anywhere else in the program's memory.
    Pageable(usize),
}

impl Place {
    /// The address to copy from or to.
    pub fn address(&self) -> usize {
        match self {
            Place::Allocation { engine, .. } => *engine,
            Place::Pageable(address) => *address,
        }
    }

    /// The place in the words of a report.
    pub fn describe(&self) -> cumodel::Place {
        match self {
            Place::Allocation { region, .. } => cumodel::Place::of(region),
            Place::Pageable(_) => cumodel::Place::Pageable,
        }
    }

    /// Is it pageable memory?
    pub fn is_pageable(&self) -> bool {
        matches!(self, Place::Pageable(_))
    }

    /// Is it device memory?
    pub fn is_device(&self) -> bool {
        matches!(self, Place::Allocation { region, .. } if region.space == Space::Device)
    }

    /// The access of `bytes` bytes here; pageable memory is not watched.
    pub fn access(&self, bytes: usize, kind: AccessKind) -> Option<Access> {
        match self {
            Place::Allocation { program, .. } => Some(Access {
                range: *program..*program + bytes as u64,
                kind,
            }),
            Place::Pageable(_) => None,
        }
    }
}

fn index(handle: usize, first: usize) -> Option<usize> {
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
