//! Streams, events and operations: what is pending, what is ordered, what runs next.
//!
//! Two facts are kept apart for every operation.
//! *Executed* says that its effect has happened; *ordered* says that a host wait covers it.
//! Races are decided by the second: an operation that happened early by chance is still a race.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use rangemap::RangeSet;
use rustc_hash::FxHashMap;

mod late;

use crate::clock::{Clock, Point, Stamp, StreamId};
use crate::explore::Explorer;
use crate::guard::{Change, Guard, Level};
use crate::hazard::{Hazard, HazardKind, Party};
use crate::late::{Horizon, Late, Unknown};
use crate::ledger::{Entry, Ledger};
use crate::op::{Access, AccessKind, OpId, OpInfo, Site, Spec, Visibility, What};
use crate::region::{Region, Regions, Space};
use crate::schedule::Schedule;
use crate::waits::{Moment, Wait, Waited, Waits};

/// An event of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(u32);

/// What a host call waits for: moments of streams, each with everything before it.
pub type Target = Vec<Stamp>;

/// Which ordering rules a stream follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// The legacy default stream of a context (R3).
    Legacy,
    /// A thread's default stream (R5).
    PerThread,
    /// A created stream that orders with the legacy default stream.
    Blocking,
    /// A created stream that does not (R4): every stream that cudarc creates.
    NonBlocking,
}

/// Something that whoever owns the memory must do or print.
#[derive(Debug)]
pub enum Notice {
    /// Something to report.
    Hazard(Box<Hazard>),
    /// Pages of host memory to protect or open.
    Protect(Change),
    /// It has been found out whether an operation still used an allocation at its end: [`Freed::Undecided`] no more.
    Decided {
        /// The allocation.
        region: Arc<Region>,
        /// Did one?
        in_flight: bool,
    },
}

/// Was an operation that the host had not waited for using an allocation when it ended?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freed {
    /// No: its bytes can be handed out again.
    Idle,
    /// Yes: its bytes must never be handed out again.
    InFlight,
    /// An operation is pending that may use it: a [`Notice::Decided`] will say.
    Undecided,
}

/// What a load or store of guarded memory was.
#[derive(Debug)]
pub enum HostTouch {
    /// A race; the hazard is among the notices.
    Race,
    /// Ordered, and the first access since the last operation on this memory: worth a line in a trace.
    First {
        /// The memory.
        region: Arc<Region>,
        /// A store?
        write: bool,
    },
    /// Bytes of a neighbour in the same page, or a race that was reported already.
    Unremarkable,
    /// The address is in no live allocation.
    Unknown,
}

/// How much of an operation's effect happens in one step.
///
/// No copy is atomic: under exploration those that race happen in two halves (R33).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// The first half of the bytes.
    First,
    /// The rest.
    Second,
}

/// One step of an operation: whoever owns the memory performs it and calls [`Engine::complete`].
#[derive(Debug)]
pub struct Step<E> {
    /// The operation.
    pub op: OpId,
    /// How much of it.
    pub part: Part,
    /// Its effect.
    pub effect: E,
}

#[derive(Debug)]
struct Stream {
    name: Arc<str>,
    kind: StreamKind,
    /// The legacy default stream of the same context.
    legacy: StreamId,
    destroyed: bool,
    /// Operations that have not executed, in order.
    pending: VecDeque<OpId>,
    /// How many have executed.
    executed: u64,
    /// The last operation enqueued, and what the next one is ordered after.
    tail: Stamp,
    /// Accesses of host memory that the host has not waited for, in order.
    held: VecDeque<Held>,
    /// Queries in a row that found it pending (R9).
    queries: u32,
}

#[derive(Debug)]
struct Held {
    seq: u64,
    range: Range<u64>,
    writes: bool,
}

#[derive(Debug)]
struct Event {
    number: u32,
    /// What the records captured, the last one last (R10); nothing when it was never recorded (R12).
    captured: VecDeque<Stamp>,
    /// Queries since the last record that found it pending (R9).
    queries: u32,
}

/// How many captures of an event are remembered, for reports: the valid one and some that it replaced.
const REMEMBERED_CAPTURES: usize = 4;

#[derive(Debug)]
struct Op<E> {
    stamp: Stamp,
    /// Taken when the last step of the operation starts.
    effect: Option<E>,
    info: Arc<OpInfo>,
    /// Unexecuted operations that must come first.
    predecessors: Vec<OpId>,
    successors: Vec<OpId>,
    /// Some host call waits for it.
    wanted: bool,
    visibility: Visibility,
    /// The bytes that it touches; under exploration only.
    accesses: Vec<Access>,
    /// The allocations that an operation of unknown accesses can be expected to touch.
    late: Option<Vec<Range<u64>>>,
    /// Does it move bytes, which can happen in two halves?
    moves_bytes: bool,
    half_done: bool,
}

/// How often an unfinished event or stream can be queried before the answer must become "complete" (R9).
const QUERY_BUDGET: u32 = 3;

/// The state of one model of a CUDA driver; `E` is what the caller performs when an operation runs.
#[derive(Debug)]
pub struct Engine<E> {
    schedule: Schedule,
    streams: FxHashMap<StreamId, Stream>,
    next_stream: u32,
    events: FxHashMap<EventId, Event>,
    next_event: u32,
    ops: FxHashMap<OpId, Op<E>>,
    last_op: OpId,
    /// Unexecuted operations with no unexecuted predecessor that nothing forces.
    ready: BTreeSet<OpId>,
    /// The same that a host call waits for.
    runnable: BTreeSet<OpId>,
    /// Under exploration: the operation that was chosen to run, after what must come first.
    focus: Option<OpId>,
    /// Under exploration: has anything happened since the last choice that the program could tell from the other order?
    ///
    /// Between two such moments it makes no difference at which call an operation runs, so one call stands for all.
    eventful: bool,
    /// Under exploration: allocations that were opened after a report, so that the host's next accesses are not seen.
    unseen: Vec<Range<u64>>,
    /// What the host has waited for.
    host: Clock,
    regions: Regions,
    ledger: Ledger,
    late: Late,
    guard: Guard,
    /// Device memory that something has been written to, by the start of the allocation.
    written: FxHashMap<u64, RangeSet<u64>>,
    waits: Waits,
    /// Operations whose race with the host has been reported.
    reported: BTreeSet<OpId>,
    notices: Vec<Notice>,
}

impl<E: Clone> Engine<E> {
    /// An engine with nothing in it; `page_size` (bytes) is that of the guarded mappings.
    pub fn new(schedule: Schedule, page_size: u64) -> Engine<E> {
        Engine {
            schedule,
            streams: FxHashMap::default(),
            next_stream: 0,
            events: FxHashMap::default(),
            next_event: 0,
            ops: FxHashMap::default(),
            last_op: 0,
            ready: BTreeSet::new(),
            runnable: BTreeSet::new(),
            focus: None,
            eventful: true,
            unseen: Vec::new(),
            host: Clock::default(),
            regions: Regions::default(),
            ledger: Ledger::default(),
            late: Late::default(),
            guard: Guard::new(page_size),
            written: FxHashMap::default(),
            waits: Waits::default(),
            reported: BTreeSet::new(),
            notices: Vec::new(),
        }
    }

    /// The schedule, for whoever starts the next run with it.
    pub fn into_schedule(self) -> Schedule {
        self.schedule
    }

    // Streams

    /// A new context, as its legacy default stream (R3), which stands for it.
    pub fn create_context(&mut self, name: Arc<str>) -> StreamId {
        let id = StreamId(self.next_stream);
        self.add_stream(name, StreamKind::Legacy, id)
    }

    /// A new stream of the context whose legacy default stream is `legacy`.
    pub fn create_stream(
        &mut self,
        name: Arc<str>,
        kind: StreamKind,
        legacy: StreamId,
    ) -> StreamId {
        self.add_stream(name, kind, legacy)
    }

    fn add_stream(&mut self, name: Arc<str>, kind: StreamKind, legacy: StreamId) -> StreamId {
        let id = StreamId(self.next_stream);
        self.next_stream += 1;
        let tail = Stamp {
            point: Point { stream: id, seq: 0 },
            before: Arc::default(),
        };
        self.streams.insert(
            id,
            Stream {
                name,
                kind,
                legacy,
                destroyed: false,
                pending: VecDeque::new(),
                executed: 0,
                tail,
                held: VecDeque::new(),
                queries: 0,
            },
        );
        id
    }

    /// Nothing more will be enqueued in `stream`; its pending work still runs (R6).
    pub fn destroy_stream(&mut self, stream: StreamId) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.destroyed = true;
        }
    }

    /// The name of a stream, as reports write it.
    pub fn stream_name(&self, stream: StreamId) -> Arc<str> {
        self.streams[&stream].name.clone()
    }

    /// The legacy default stream of a stream's context.
    pub fn legacy_of(&self, stream: StreamId) -> StreamId {
        self.streams[&stream].legacy
    }

    /// Is `legacy` a legacy default stream that orders with the stream `other` (R3)?
    pub fn is_ordered_by_legacy_rule(&self, legacy: StreamId, other: StreamId) -> bool {
        self.streams[&legacy].kind == StreamKind::Legacy
            && self
                .streams
                .get(&other)
                .is_some_and(|stream| stream.legacy == legacy && stream.kind.is_blocking())
    }

    // Events

    /// A new event, never recorded; its number is for reports.
    pub fn create_event(&mut self) -> (EventId, u32) {
        self.next_event += 1;
        let id = EventId(self.next_event);
        self.events.insert(
            id,
            Event {
                number: self.next_event,
                captured: VecDeque::new(),
                queries: 0,
            },
        );
        (id, self.next_event)
    }

    /// Forgets an event; waits that were issued on it stay (R15).
    pub fn destroy_event(&mut self, event: EventId) {
        self.events.remove(&event);
    }

    /// The number of an event, as reports write it.
    pub fn event_number(&self, event: EventId) -> u32 {
        self.events[&event].number
    }

    /// Captures the present contents of `stream` in `event` (R10); an earlier capture is overwritten (R11).
    pub fn record(
        &mut self,
        event: EventId,
        stream: StreamId,
        call: &'static str,
        site: Site,
        effect: E,
    ) -> OpId {
        let what = What::Record(self.event_number(event));
        let op = self.enqueue(stream, Spec::bare(call, what, site, effect), &[]);
        let captured = self.streams[&stream].tail.clone();
        if let Some(event) = self.events.get_mut(&event) {
            if event.captured.len() == REMEMBERED_CAPTURES {
                event.captured.pop_front();
            }
            event.captured.push_back(captured);
            event.queries = 0;
        }
        op
    }

    /// Orders the future work of `stream` after what `event` captured (R13); nothing if it was never recorded (R12).
    pub fn wait(
        &mut self,
        stream: StreamId,
        event: EventId,
        call: &'static str,
        site: Site,
        effect: E,
    ) -> OpId {
        let what = What::Wait(self.event_number(event));
        let captured = self.event_target(event);
        self.waits.remember(Wait {
            call,
            site: site.clone(),
            by: Some(stream),
            on: self.waited_event(event),
            after: self.last_op,
        });
        self.enqueue(stream, Spec::bare(call, what, site, effect), &captured)
    }

    fn waited_event(&self, event: EventId) -> Waited {
        let event = &self.events[&event];
        let mut earlier: Vec<Stamp> = event.captured.iter().cloned().collect();
        Waited::Event {
            number: event.number,
            captured: earlier.pop(),
            earlier,
        }
    }

    // Memory

    /// Makes `range` an allocation that overlaps no live one.
    ///
    /// `guarded` is what of it is whole pages and can be taken away from the host; with `watch` the first host access
    /// after each operation is told as well.
    pub fn allocate(
        &mut self,
        space: Space,
        range: Range<u64>,
        guarded: Option<Range<u64>>,
        watch: bool,
        site: Site,
    ) -> Arc<Region> {
        if space == Space::Device {
            self.written.insert(range.start, RangeSet::new());
        }
        let region = self.regions.insert(space, range, guarded, site);
        if let Some(pages) = &region.guarded {
            let changes = self.guard.insert(pages, watch);
            self.notice_changes(changes);
        }
        region
    }

    /// An allocation has been filled before its first use, as the variables of a module are.
    pub fn initialize(&mut self, region: &Region) {
        if let Some(written) = self.written.get_mut(&region.range.start) {
            if !region.range.is_empty() {
                written.insert(region.range.clone());
            }
        }
    }

    /// The live allocation that holds `address`.
    pub fn region(&self, address: u64) -> Option<&Arc<Region>> {
        self.regions.find(address)
    }

    /// All live allocations.
    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Ends an allocation by a call that takes effect at once (R41, R42, R46).
    ///
    /// Returns whether an operation that the host has not waited for still uses it.
    pub fn free_now(&mut self, region: &Arc<Region>, call: &'static str, site: Site) -> Freed {
        let races = self.unordered(&region.range, AccessKind::Free);
        let in_flight = !races.is_empty();
        if let Some(entry) = races.into_iter().next() {
            let kind = HazardKind::of_free(region.space);
            let later = end_of(region, call, site.clone());
            self.report(kind, entry, later, Some(region.clone()), None, Moment::Now);
        }
        self.abandon(region);
        let undecided = self.keep_for_late(region, Some(call), site, in_flight);
        match (in_flight, undecided) {
            (true, _) => Freed::InFlight,
            (false, true) => Freed::Undecided,
            (false, false) => Freed::Idle,
        }
    }

    /// Ends an allocation whose free has been enqueued with an access of kind [`AccessKind::Free`] (R45).
    pub fn free_in_stream(&mut self, region: &Arc<Region>) {
        self.regions.remove(region.range.start);
        self.written.remove(&region.range.start);
        self.keep_for_late(region, None, Site::default(), false);
    }

    /// Ends an allocation; nothing is reported.
    pub fn abandon(&mut self, region: &Arc<Region>) {
        self.regions.remove(region.range.start);
        self.written.remove(&region.range.start);
        if let Some(pages) = &region.guarded {
            // What is still guarded is opened: the pages may be the program's own.
            let changes = self.guard.open(pages, Level::Open);
            self.notice_changes(changes);
            self.guard.remove(pages.start);
        }
        self.ledger.forget(&region.range);
    }

    // Operations

    /// Appends an operation to a stream, ordered after the moments of `also` as well.
    pub fn enqueue(&mut self, stream: StreamId, spec: Spec<E>, also: &[Stamp]) -> OpId {
        self.last_op += 1;
        let id = self.last_op;
        let mut predecessors: Vec<OpId> = Vec::new();
        let mut news = Clock::default();
        for stamp in also {
            predecessors.extend(self.pending_at(stamp.point));
            stamp.join_into(&mut news);
        }
        for other in self.legacy_partners(stream) {
            let tail = &self.streams[&other].tail;
            tail.join_into(&mut news);
            predecessors.extend(self.pending_at(tail.point));
        }
        news.subtract(&self.host);

        let entry = self
            .streams
            .get_mut(&stream)
            .expect("operations are enqueued in live streams only");
        predecessors.extend(entry.pending.back());
        let mut before = entry.tail.before.clone();
        if news != Clock::default() {
            let mut merged = (*before).clone();
            merged.join(&news);
            merged.subtract(&self.host);
            before = Arc::new(merged);
        }
        let stamp = Stamp {
            point: Point {
                stream,
                seq: entry.tail.point.seq + 1,
            },
            before,
        };
        entry.tail = stamp.clone();
        entry.pending.push_back(id);
        entry.queries = 0;
        let info = Arc::new(OpInfo {
            op: id,
            call: spec.call,
            stream: entry.name.clone(),
            what: spec.what,
            site: spec.site,
        });

        if predecessors.len() > 1 {
            predecessors.sort_unstable();
            predecessors.dedup();
        }
        for predecessor in &predecessors {
            if let Some(op) = self.ops.get_mut(predecessor) {
                op.successors.push(id);
            }
        }
        if predecessors.is_empty() {
            self.ready.insert(id);
        }
        if spec.visibility == Visibility::Always {
            self.found(id);
        }
        let seen_before = match &self.schedule {
            Schedule::Explore(explorer) => explorer.is_visible(id),
            _ => false,
        };
        self.eventful |= seen_before || spec.visibility == Visibility::Always;
        for access in &spec.accesses {
            self.check(access, &stamp, &info);
            self.remember(access, &stamp, &info);
        }
        if let [a, b] = &spec.accesses[..] {
            self.check_overlap(a, b, &info);
        }
        let moves_bytes = spec
            .accesses
            .iter()
            .any(|access| matches!(access.kind, AccessKind::Read | AccessKind::Write));
        if let Some(expected) = &spec.late {
            self.late.add(Unknown {
                op: id,
                stamp: stamp.clone(),
                host: Arc::new(self.host.clone()),
            });
            for range in expected {
                self.hold_expected(range);
            }
        }
        self.ops.insert(
            id,
            Op {
                stamp,
                effect: Some(spec.effect),
                info,
                predecessors,
                successors: Vec::new(),
                wanted: false,
                visibility: spec.visibility,
                accesses: match self.schedule {
                    Schedule::Explore(_) => spec.accesses,
                    _ => Vec::new(),
                },
                late: spec.late,
                moves_bytes,
                half_done: false,
            },
        );
        id
    }

    /// Remembers an access for what comes later, and takes its pages away from the host.
    fn remember(&mut self, access: &Access, stamp: &Stamp, info: &Arc<OpInfo>) {
        let horizon = Horizon {
            host: &self.host,
            late: &self.late,
        };
        self.ledger.record(access, stamp, info, horizon);
        self.hold(access, stamp.point);
    }

    /// Takes guarded pages away from the host until it has waited for the operation at `point`.
    fn hold(&mut self, access: &Access, point: Point) {
        let guarded = self
            .regions
            .find(access.range.start)
            .is_some_and(|region| region.guarded.is_some());
        if !guarded || access.range.is_empty() {
            return;
        }
        let writes = access.kind.is_write();
        if let Some(stream) = self.streams.get_mut(&point.stream) {
            // Accesses that come late belong before those of operations that were enqueued since.
            let index = stream.held.partition_point(|held| held.seq <= point.seq);
            stream.held.insert(
                index,
                Held {
                    seq: point.seq,
                    range: access.range.clone(),
                    writes,
                },
            );
        }
        let changes = self.guard.hold(&access.range, writes);
        self.notice_changes(changes);
    }

    /// The streams whose present work an operation of `stream` is ordered after by the legacy rule (R3, R5).
    fn legacy_partners(&self, stream: StreamId) -> Vec<StreamId> {
        let entry = &self.streams[&stream];
        match entry.kind {
            StreamKind::Legacy => self
                .streams
                .iter()
                .filter(|(_, other)| other.legacy == stream && other.kind.is_blocking())
                .map(|(&id, _)| id)
                .collect(),
            StreamKind::PerThread | StreamKind::Blocking => vec![entry.legacy],
            StreamKind::NonBlocking => Vec::new(),
        }
    }

    /// The unexecuted operation at a point of a stream, if it has not executed.
    fn pending_at(&self, point: Point) -> Option<OpId> {
        let stream = self.streams.get(&point.stream)?;
        let index = point.seq.checked_sub(stream.executed + 1)?;
        stream.pending.get(index as usize).copied()
    }

    // Waiting

    /// Everything enqueued in `stream` so far; for the legacy default stream all blocking streams too (R3, R7).
    pub fn stream_target(&self, stream: StreamId) -> Target {
        let entry = &self.streams[&stream];
        let mut target = vec![entry.tail.clone()];
        if entry.kind == StreamKind::Legacy {
            let partners = self.legacy_partners(stream);
            target.extend(
                partners
                    .iter()
                    .map(|other| self.streams[other].tail.clone()),
            );
        }
        target
    }

    /// What the last record of `event` captured; nothing when it was never recorded (R12, R14).
    pub fn event_target(&self, event: EventId) -> Target {
        self.events[&event]
            .captured
            .back()
            .cloned()
            .into_iter()
            .collect()
    }

    /// Everything enqueued in the context whose legacy default stream is `legacy` (R8).
    pub fn context_target(&self, legacy: StreamId) -> Target {
        self.streams
            .values()
            .filter(|stream| stream.legacy == legacy)
            .map(|stream| stream.tail.clone())
            .collect()
    }

    /// Everything enqueued anywhere.
    pub fn everything(&self) -> Target {
        self.streams
            .values()
            .map(|stream| stream.tail.clone())
            .collect()
    }

    /// The moment of one pending operation, to wait for it alone.
    pub fn op_target(&self, op: OpId) -> Target {
        self.ops
            .get(&op)
            .map(|op| op.stamp.clone())
            .into_iter()
            .collect()
    }

    /// The moment of the last operation of `stream`.
    pub fn tail(&self, stream: StreamId) -> Stamp {
        self.streams[&stream].tail.clone()
    }

    /// Has everything of `target` executed?
    pub fn is_done(&self, target: &Target) -> bool {
        target.iter().all(|stamp| {
            self.streams
                .get(&stamp.point.stream)
                .is_none_or(|stream| stream.executed >= stamp.point.seq)
        })
    }

    /// The program asks whether `target` has executed, so it can tell when that happens.
    pub fn observe(&mut self, target: &Target) -> bool {
        self.eventful = true;
        let pending: Vec<OpId> = target
            .iter()
            .filter_map(|stamp| self.pending_at(stamp.point))
            .collect();
        for op in pending {
            self.found(op);
        }
        self.is_done(target)
    }

    /// Makes the operations of `target`, with everything that they are ordered after, run.
    pub fn want(&mut self, target: &Target) {
        let mut stack: Vec<OpId> = target
            .iter()
            .filter_map(|stamp| self.pending_at(stamp.point))
            .collect();
        while let Some(id) = stack.pop() {
            let Some(op) = self.ops.get_mut(&id) else {
                continue;
            };
            if op.wanted {
                continue;
            }
            op.wanted = true;
            stack.extend(&op.predecessors);
            if self.ready.remove(&id) {
                self.runnable.insert(id);
            }
        }
    }

    // Running

    /// Lets the schedule start ready operations at this call although nothing forces them; they run by [`Engine::next`].
    pub fn tick(&mut self) {
        let ready: Vec<OpId> = self.ready.iter().copied().collect();
        for id in ready {
            if self.schedule.runs_unforced() {
                self.ready.remove(&id);
                self.runnable.insert(id);
                if let Some(op) = self.ops.get_mut(&id) {
                    op.wanted = true;
                }
            }
        }
    }

    /// The next step to perform now; [`Engine::complete`] must follow when its effect has happened.
    ///
    /// `forced` says that a host call waits; otherwise the step is one that the schedule takes at a call.
    /// None when everything wanted has run or is running.
    pub fn next(&mut self, forced: bool) -> Option<Step<E>> {
        let id = if matches!(self.schedule, Schedule::Explore(_)) {
            self.next_explored(forced)?
        } else {
            self.next_wanted()?
        };
        let halves = self.is_visible(id);
        let op = self.ops.get_mut(&id)?;
        let part = match (op.half_done, halves && op.moves_bytes) {
            (true, _) => Part::Second,
            (false, true) => Part::First,
            (false, false) => Part::Whole,
        };
        let effect = match part {
            Part::First => op.effect.clone()?,
            Part::Whole | Part::Second => op.effect.take()?,
        };
        self.ready.remove(&id);
        self.runnable.remove(&id);
        Some(Step {
            op: id,
            part,
            effect,
        })
    }

    fn next_wanted(&mut self) -> Option<OpId> {
        if self.runnable.is_empty() {
            return None;
        }
        let index = self.schedule.pick(self.runnable.len());
        if index + 1 == self.runnable.len() {
            self.runnable.last().copied()
        } else {
            self.runnable.iter().nth(index).copied()
        }
    }

    /// The next step under exploration: every visible operation is a choice, the others run as late as they can.
    fn next_explored(&mut self, forced: bool) -> Option<OpId> {
        if let Some(focus) = self.focus {
            let next = self.first_step_towards(focus);
            if next == Some(focus) || next.is_none() {
                self.focus = None;
            }
            if next.is_some() {
                return next;
            }
        }
        let options = self.open_choices();
        let wanted = self
            .ops
            .iter()
            .any(|(&id, op)| op.wanted && op.effect.is_some() && self.is_visible(id));
        if forced && !wanted {
            return self.next_wanted();
        }
        let unseen = options.iter().any(|op| {
            let op = &self.ops[op];
            self.unseen.iter().any(|range| op.touches(range))
        });
        if options.is_empty() || !(forced || self.eventful || unseen) {
            return None;
        }
        self.eventful = forced;
        let Schedule::Explore(explorer) = &mut self.schedule else {
            return None;
        };
        let chosen = if forced {
            explorer.choose(options.len())
        } else {
            // Not to run any operation now is the first choice: the first run is as late as `last`.
            explorer.choose(options.len() + 1).checked_sub(1)?
        };
        self.focus = Some(options[chosen]);
        self.eventful = true;
        self.next_explored(forced)
    }

    /// Visible operations that wait for no other visible one.
    fn open_choices(&self) -> Vec<OpId> {
        let mut options: Vec<OpId> = self
            .ops
            .iter()
            .filter(|(&id, op)| op.effect.is_some() && self.is_visible(id))
            .map(|(&id, _)| id)
            .filter(|&id| !self.waits_for(id, |other| self.is_visible(other)))
            .collect();
        options.sort_unstable();
        options
    }

    /// Does a pending operation that must come before `op` satisfy `is`?
    fn waits_for(&self, op: OpId, is: impl Fn(OpId) -> bool) -> bool {
        let mut seen = BTreeSet::new();
        let mut stack: Vec<OpId> = self.ops[&op].predecessors.clone();
        while let Some(id) = stack.pop() {
            if !seen.insert(id) {
                continue;
            }
            if is(id) {
                return true;
            }
            if let Some(op) = self.ops.get(&id) {
                stack.extend(&op.predecessors);
            }
        }
        false
    }

    /// The latest operation that can run now and must come before `op`, or `op` itself.
    fn first_step_towards(&self, op: OpId) -> Option<OpId> {
        let mut best = None;
        let mut seen = BTreeSet::new();
        let mut stack = vec![op];
        while let Some(id) = stack.pop() {
            let Some(entry) = self.ops.get(&id).filter(|_| seen.insert(id)) else {
                continue;
            };
            if entry.predecessors.is_empty() && entry.effect.is_some() {
                best = best.max(Some(id));
            }
            stack.extend(&entry.predecessors);
        }
        best
    }

    fn is_visible(&self, op: OpId) -> bool {
        match &self.schedule {
            Schedule::Explore(explorer) => {
                explorer.is_visible(op)
                    || self
                        .ops
                        .get(&op)
                        .is_some_and(|op| op.visibility == Visibility::Always)
            }
            _ => false,
        }
    }

    fn found(&mut self, op: OpId) {
        if let Some(explorer) = self.explorer() {
            explorer.found(op);
        }
    }

    /// The program can tell when the pending operations that touch `range` run, unless they are `ordered`.
    ///
    /// The ledger does not know all of them: a later access of the same bytes stands for an earlier one.
    fn found_in(&mut self, range: &Range<u64>, ordered: impl Fn(Point) -> bool) {
        let Schedule::Explore(explorer) = &mut self.schedule else {
            return;
        };
        for (&id, op) in &self.ops {
            if op.touches(range) && !ordered(op.stamp.point) {
                explorer.found(id);
            }
        }
    }

    /// What decides the order; of a search, the schedule of the present run.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The search of the schedule `explore`.
    pub fn explorer(&mut self) -> Option<&mut Explorer> {
        match &mut self.schedule {
            Schedule::Explore(explorer) => Some(explorer),
            _ => None,
        }
    }

    /// A step's effect has happened.
    pub fn complete(&mut self, op: OpId, part: Part) {
        if part == Part::First {
            if let Some(half) = self.ops.get_mut(&op) {
                half.half_done = true;
                if half.wanted {
                    self.runnable.insert(op);
                } else {
                    self.ready.insert(op);
                }
            }
            return;
        }
        let Some(done) = self.ops.remove(&op) else {
            return;
        };
        self.finish_late(&done, op);
        if let Some(stream) = self.streams.get_mut(&done.stamp.point.stream) {
            stream.pending.pop_front();
            stream.executed = done.stamp.point.seq;
        }
        for successor in done.successors {
            let Some(next) = self.ops.get_mut(&successor) else {
                continue;
            };
            next.predecessors.retain(|&other| other != op);
            if next.predecessors.is_empty() {
                if next.wanted {
                    self.runnable.insert(successor);
                } else {
                    self.ready.insert(successor);
                }
            }
        }
    }

    /// Does the return of every call count as a wait (the schedule `eager`)?
    pub fn every_call_waits(&self) -> bool {
        self.schedule.every_call_waits()
    }

    /// The host has waited for `target`: everything that is enqueued later, and every later host access, is ordered after it.
    pub fn order_host_after(&mut self, target: &Target) {
        self.eventful = true;
        for stamp in target {
            stamp.join_into(&mut self.host);
        }
        let mut released = Vec::new();
        for (&id, stream) in &mut self.streams {
            let seq = self.host.seq(id);
            while stream.held.front().is_some_and(|held| held.seq <= seq) {
                released.extend(stream.held.pop_front());
            }
        }
        for held in released {
            let changes = self.guard.release(&held.range, held.writes);
            self.notice_changes(changes);
        }
        let host = &self.host;
        self.streams.retain(|_, stream| {
            !stream.destroyed || !stream.pending.is_empty() || !host.covers(stream.tail.point)
        });
    }

    /// Has the host waited for everything of `target`?
    pub fn host_is_after(&self, target: &Target) -> bool {
        target.iter().all(|stamp| self.host.covers(stamp.point))
    }

    /// The start of the host function `op` is a wait for everything before it (R56), and what the program does
    /// because the function ran is ordered after it too.
    pub fn host_function_starts(&mut self, op: OpId) {
        let Some(op) = self.ops.get(&op) else { return };
        let mut stamp = op.stamp.clone();
        stamp.point.seq -= 1;
        self.order_host_after(&vec![stamp]);
    }

    /// Remembers, for reports, that the host waited for a stream by `call`.
    pub fn host_waited_for_stream(&mut self, stream: StreamId, call: &'static str, site: Site) {
        let Some(entry) = self.streams.get(&stream) else {
            return;
        };
        self.waits.remember(Wait {
            call,
            site,
            by: None,
            on: Waited::Stream {
                name: entry.name.clone(),
                per_thread: entry.kind == StreamKind::PerThread,
            },
            after: self.last_op,
        });
    }

    /// Remembers, for reports, that the host waited for an event by `call`.
    pub fn host_waited_for_event(&mut self, event: EventId, call: &'static str, site: Site) {
        // Another thread can have destroyed it during the wait (R15).
        if !self.events.contains_key(&event) {
            return;
        }
        self.waits.remember(Wait {
            call,
            site,
            by: None,
            on: self.waited_event(event),
            after: self.last_op,
        });
    }

    /// A query of an event: does it have to become complete now, because the program has asked often enough (R9)?
    pub fn event_query_exhausts_patience(&mut self, event: EventId) -> bool {
        self.events.get_mut(&event).is_some_and(|event| {
            event.queries += 1;
            event.queries >= QUERY_BUDGET
        })
    }

    /// The same for a query of a stream.
    pub fn stream_query_exhausts_patience(&mut self, stream: StreamId) -> bool {
        self.streams.get_mut(&stream).is_some_and(|stream| {
            stream.queries += 1;
            stream.queries >= QUERY_BUDGET
        })
    }

    /// What reports say about a pending operation.
    pub fn info(&self, op: OpId) -> Option<&Arc<OpInfo>> {
        self.ops.get(&op).map(|op| &op.info)
    }

    /// The effect of a pending operation whose last step has not started.
    pub fn effect(&self, op: OpId) -> Option<&E> {
        self.ops.get(&op)?.effect.as_ref()
    }

    /// Is the pending operation `later` behind the pending operation `earlier` in one stream?
    pub fn same_stream(&self, earlier: OpId, later: OpId) -> bool {
        let stream = |op| self.ops.get(&op).map(|op| op.stamp.point.stream);
        earlier < later && stream(earlier).is_some() && stream(earlier) == stream(later)
    }

    /// The context of a pending operation, as its legacy default stream.
    pub fn context_of(&self, op: OpId) -> Option<StreamId> {
        let stream = self.ops.get(&op)?.stamp.point.stream;
        self.streams.get(&stream).map(|stream| stream.legacy)
    }

    /// The pending operations whose effect satisfies `wanted`, oldest first.
    pub fn pending(&self, wanted: impl Fn(&E) -> bool) -> Vec<OpId> {
        let mut found: Vec<OpId> = self
            .ops
            .iter()
            .filter(|(_, op)| op.effect.as_ref().is_some_and(&wanted))
            .map(|(&id, _)| id)
            .collect();
        found.sort_unstable();
        found
    }

    /// Is any operation pending?
    pub fn has_pending(&self) -> bool {
        !self.ops.is_empty()
    }

    // Hazards

    /// What has to be done or printed since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// The host touched `address`, on a page that is guarded or watched; `by` is the host function that did it, if one.
    pub fn host_touch(
        &mut self,
        address: u64,
        write: bool,
        by: Option<OpId>,
        site: Site,
    ) -> HostTouch {
        let Some(region) = self.regions.find(address).cloned() else {
            return HostTouch::Unknown;
        };
        // Loads of a read-only page do not fault.
        let write = write || self.guard.level(address) == Some(Level::ReadOnly);
        self.eventful = true;
        let told = self.touch_for_late(address, write, by, &site, &region);
        let kind = if write {
            AccessKind::Write
        } else {
            AccessKind::Read
        };
        let mut races = self.unordered(&(address..address + 1), kind);
        if let Some(function) = by.and_then(|op| self.ops.get(&op)) {
            // What the function comes after, and what comes after it, is no race (R55, R56).
            let stamp = &function.stamp;
            races.retain(|entry| {
                !stamp.covers(entry.stamp.point) && !entry.stamp.covers(stamp.point)
            });
        }
        if !races.is_empty() {
            // Its pages are opened when a race is reported, so what the host touches next is not seen.
            self.found_in(&region.range, |_| false);
            if self.explorer().is_some() && !self.unseen.contains(&region.range) {
                self.unseen.push(region.range.clone());
            }
        }
        let race = races
            .into_iter()
            .find(|entry| !self.reported.contains(&entry.info.op));
        let Some(entry) = race else {
            return told.unwrap_or_else(|| self.open_page(address, region, write));
        };
        let kind = HazardKind::of_touch(write);
        let range = entry.range.clone();
        self.reported.insert(entry.info.op);
        let later = Party::Touch {
            address,
            write,
            site,
        };
        self.report(kind, entry, later, Some(region), None, Moment::Now);
        let changes = self.guard.open(&range, Level::Open);
        self.notice_changes(changes);
        HostTouch::Race
    }

    /// Guards the allocation at `address` again, after a host function was let touch it.
    pub fn guard_again(&mut self, address: u64) {
        if let Some(pages) = self
            .regions
            .find(address)
            .and_then(|region| region.guarded.clone())
        {
            let changes = self.guard.restore(&pages);
            self.notice_changes(changes);
        }
    }

    /// Lets a harmless access through: the page alone when something in the allocation is guarded, else all of it.
    fn open_page(&mut self, address: u64, region: Arc<Region>, write: bool) -> HostTouch {
        if self.unordered(&region.range, AccessKind::Write).is_empty() {
            let level = if write { Level::Open } else { Level::ReadOnly };
            let changes = self.guard.open(&region.range, level);
            self.notice_changes(changes);
            HostTouch::First { region, write }
        } else {
            let changes = self.guard.open(&(address..address + 1), Level::Open);
            self.notice_changes(changes);
            HostTouch::Unremarkable
        }
    }

    /// What the host may do now with the guarded pages of `range`.
    pub fn protection(&self, range: &Range<u64>) -> Vec<Change> {
        self.guard.levels(range)
    }

    /// The remembered accesses of `range` that conflict with one of `kind` by the host at this moment.
    fn unordered(&self, range: &Range<u64>, kind: AccessKind) -> Vec<Entry> {
        self.ledger
            .conflicts(range, kind, |entry| self.host.covers(entry.stamp.point))
    }

    /// Reports the accesses that a new operation races with, and a read of what was never written.
    fn check(&mut self, access: &Access, stamp: &Stamp, info: &Arc<OpInfo>) {
        if access.kind == AccessKind::Allocate {
            // An allocation touches no bytes; whoever uses it unordered is the one that races.
            return;
        }
        let races = self.ledger.conflicts(&access.range, access.kind, |entry| {
            stamp.covers(entry.stamp.point) || self.host.covers(entry.stamp.point)
        });
        if !races.is_empty() {
            let region = self.regions.find(access.range.start).cloned();
            self.found(info.op);
            self.found_in(&access.range, |point| stamp.covers(point));
            for entry in races {
                let kind = self.kind_of_race(&entry, access.kind, stamp);
                let later = Party::Operation {
                    info: info.clone(),
                    touches: Some((access.kind, access.range.clone())),
                };
                let waiter = Some(stamp.point.stream);
                self.report(kind, entry, later, region.clone(), waiter, Moment::Now);
            }
        }
        self.check_written(access, info);
    }

    fn kind_of_race(&self, a: &Entry, b_kind: AccessKind, b: &Stamp) -> HazardKind {
        let kind = HazardKind::of_streams(a.kind, b_kind);
        let stream_kind = |stamp: &Stamp| {
            self.streams
                .get(&stamp.point.stream)
                .map(|stream| stream.kind)
        };
        match (kind, stream_kind(&a.stamp), stream_kind(b)) {
            (
                HazardKind::StreamRaceRaw | HazardKind::StreamRaceWar | HazardKind::StreamRaceWaw,
                Some(StreamKind::Legacy),
                Some(StreamKind::NonBlocking),
            )
            | (
                HazardKind::StreamRaceRaw | HazardKind::StreamRaceWar | HazardKind::StreamRaceWaw,
                Some(StreamKind::NonBlocking),
                Some(StreamKind::Legacy),
            ) => HazardKind::NullStreamAssumption,
            _ => kind,
        }
    }

    fn check_written(&mut self, access: &Access, info: &Arc<OpInfo>) {
        let Some(region) = self.regions.find(access.range.start) else {
            return;
        };
        let Some(written) = self.written.get_mut(&region.range.start) else {
            return;
        };
        match access.kind {
            AccessKind::Write if !access.range.is_empty() => written.insert(access.range.clone()),
            AccessKind::Read if written.gaps(&access.range).next().is_some() => {
                if self.late.is_pending_before(info.op) {
                    // What is pending may write the bytes: it is known when the reader has run.
                    let reads = self.late.unwritten.entry(info.op).or_default();
                    reads.push((access.clone(), info.clone()));
                } else {
                    let region = region.clone();
                    self.report_unwritten(access, info, region);
                }
            }
            _ => (),
        }
    }

    fn report_unwritten(&mut self, access: &Access, info: &Arc<OpInfo>, region: Arc<Region>) {
        let hazard = Hazard {
            kind: HazardKind::UninitializedRead,
            a: None,
            b: Some(Party::Operation {
                info: info.clone(),
                touches: Some((access.kind, access.range.clone())),
            }),
            region: Some(region),
            useless: None,
        };
        self.notices.push(Notice::Hazard(Box::new(hazard)));
    }

    /// Source and destination must not overlap (R31).
    fn check_overlap(&mut self, a: &Access, b: &Access, info: &Arc<OpInfo>) {
        let overlap = a.range.start < b.range.end && b.range.start < a.range.end;
        if !overlap || a.kind == b.kind {
            return;
        }
        let hazard = Hazard {
            kind: HazardKind::OverlappingCopy,
            a: None,
            b: Some(Party::Operation {
                info: info.clone(),
                touches: Some((b.kind, b.range.clone())),
            }),
            region: self.regions.find(b.range.start).cloned(),
            useless: None,
        };
        self.notices.push(Notice::Hazard(Box::new(hazard)));
    }

    fn report(
        &mut self,
        kind: HazardKind,
        a: Entry,
        b: Party,
        region: Option<Arc<Region>>,
        waiter: Option<StreamId>,
        b_moment: Moment,
    ) {
        let a_is_per_thread = self
            .streams
            .get(&a.stamp.point.stream)
            .is_some_and(|stream| stream.kind == StreamKind::PerThread);
        // An event that was waited for before it was recorded would have covered A.
        let recorded_since: Vec<u32> = self
            .events
            .values()
            .filter(|event| {
                event
                    .captured
                    .back()
                    .is_some_and(|stamp| stamp.covers(a.stamp.point))
            })
            .map(|event| event.number)
            .collect();
        let useless = self.waits.useless(
            &a.info,
            &a.stamp,
            a_is_per_thread,
            b_moment,
            waiter,
            &recorded_since,
        );
        self.notices.push(Notice::Hazard(Box::new(Hazard {
            kind,
            a: Some(Party::Operation {
                info: a.info,
                touches: Some((a.kind, a.range)),
            }),
            b: Some(b),
            region,
            useless,
        })));
    }

    fn notice_changes(&mut self, changes: Vec<Change>) {
        self.notices
            .extend(changes.into_iter().map(Notice::Protect));
    }
}

impl<E> Op<E> {
    /// Does it touch a byte of `range`, or can it be expected to?
    fn touches(&self, range: &Range<u64>) -> bool {
        let accesses = self.accesses.iter().map(|access| &access.range);
        accesses
            .chain(self.late.iter().flatten())
            .any(|touched| touched.start < range.end && range.start < touched.end)
    }
}

/// The end of an allocation, as one side of a hazard.
fn end_of(region: &Region, call: &'static str, site: Site) -> Party {
    let does = format!("ends the life of {region}");
    Party::Call { call, does, site }
}

impl StreamKind {
    /// Does it order with the legacy default stream, without being it?
    fn is_blocking(self) -> bool {
        matches!(self, StreamKind::PerThread | StreamKind::Blocking)
    }
}
