//! Streams, events and operations: what is pending, what is ordered, what runs next.
//!
//! Two facts are kept apart for every operation.
//! *Executed* says that its effect has happened; *ordered* says that a host wait covers it.
//! Races are decided by the second: an operation that happened early by chance is still a race.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::clock::{Clock, Point, Stamp, StreamId};
use crate::guard::{Change, Guard, Level};
use crate::hazard::{Hazard, HazardKind, Later, UselessWait};
use crate::ledger::{Entry, Ledger};
use crate::op::{AccessKind, OpId, OpInfo, Site, Spec, What};
use crate::region::{Region, Regions, Space};
use crate::schedule::Schedule;

/// An event of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(u32);

/// What a host call waits for: moments of streams, each with everything before it.
pub type Target = Vec<Stamp>;

/// Something that whoever owns the memory must do or print.
#[derive(Debug)]
pub enum Notice {
    /// A hazard to report.
    Hazard(Box<Hazard>),
    /// Pages of pinned memory to protect or open.
    Protect(Change),
}

/// What a load or store of guarded memory was.
#[derive(Debug)]
pub enum HostTouch {
    /// A race; the hazard is among the notices.
    Race,
    /// Ordered, and the first access since the last operation on this memory: worth a line in a trace.
    First(Arc<Region>),
    /// Bytes of a neighbour in the same page, or a race that was reported already.
    Unremarkable,
    /// The address is in no live allocation.
    Unknown,
}

#[derive(Debug)]
struct Stream {
    name: Arc<str>,
    blocking: bool,
    /// Operations that have not executed, in order.
    pending: VecDeque<OpId>,
    /// How many have executed.
    executed: u64,
    /// The last operation enqueued, and what the next one is ordered after.
    tail: Stamp,
    /// Accesses of pinned memory that the host has not waited for, in order.
    held: VecDeque<Held>,
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
    /// What the last record captured (R10); nothing when it was never recorded (R12).
    captured: Option<Stamp>,
    /// Queries since the last record that found it pending (R9).
    queries: u32,
}

#[derive(Debug)]
struct Op<E> {
    stamp: Stamp,
    effect: Option<E>,
    info: Arc<OpInfo>,
    /// Unexecuted operations that must come first.
    predecessors: Vec<OpId>,
    /// How many of them are still unexecuted.
    waiting_for: usize,
    successors: Vec<OpId>,
    /// Some host call waits for it.
    wanted: bool,
}

/// A wait as later reports remember it.
#[derive(Debug)]
struct Wait {
    call: &'static str,
    site: Site,
    /// The stream that waits; the host when absent.
    by: Option<StreamId>,
    on: Waited,
    /// Operations enqueued before it.
    after: OpId,
}

#[derive(Debug)]
enum Waited {
    Stream(Arc<str>),
    Event(u32, Option<Point>),
}

/// How many waits reports can look back on.
const REMEMBERED_WAITS: usize = 32;

/// How often an unfinished event or stream can be queried before the answer must become "complete" (R9).
const QUERY_BUDGET: u32 = 3;

/// The state of one model of a CUDA driver; `E` is what the caller performs when an operation runs.
#[derive(Debug)]
pub struct Engine<E> {
    schedule: Schedule,
    settings: String,
    streams: HashMap<StreamId, Stream>,
    legacy: StreamId,
    next_stream: u32,
    events: HashMap<EventId, Event>,
    next_event: u32,
    ops: HashMap<OpId, Op<E>>,
    last_op: OpId,
    /// Unexecuted operations with no unexecuted predecessor that nothing forces.
    ready: BTreeSet<OpId>,
    /// The same that a host call waits for.
    runnable: BTreeSet<OpId>,
    /// What the host has waited for.
    host: Clock,
    regions: Regions,
    ledger: Ledger,
    guard: Guard,
    waits: VecDeque<Wait>,
    /// Operations whose race with the host has been reported.
    reported: BTreeSet<OpId>,
    notices: Vec<Notice>,
    stream_queries: HashMap<StreamId, u32>,
}

impl<E> Engine<E> {
    /// An engine with the legacy default stream and nothing else.
    ///
    /// `settings` is what repeats the run and ends every report; `page_size` (bytes) is that of the guarded mappings;
    /// with `watch` the first host access to pinned memory after each operation is shown as well.
    pub fn new(schedule: Schedule, settings: String, page_size: u64, watch: bool) -> Engine<E> {
        let mut engine = Engine {
            schedule,
            settings,
            streams: HashMap::new(),
            legacy: StreamId(0),
            next_stream: 0,
            events: HashMap::new(),
            next_event: 0,
            ops: HashMap::new(),
            last_op: 0,
            ready: BTreeSet::new(),
            runnable: BTreeSet::new(),
            host: Clock::default(),
            regions: Regions::default(),
            ledger: Ledger::default(),
            guard: Guard::new(page_size, watch),
            waits: VecDeque::new(),
            reported: BTreeSet::new(),
            notices: Vec::new(),
            stream_queries: HashMap::new(),
        };
        engine.legacy = engine.create_stream("default stream".into(), true);
        engine
    }

    // Streams

    /// The legacy default stream (R3).
    pub fn legacy_stream(&self) -> StreamId {
        self.legacy
    }

    /// A new stream; `blocking` ones order with the legacy default stream (R3, R4).
    pub fn create_stream(&mut self, name: Arc<str>, blocking: bool) -> StreamId {
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
                blocking,
                pending: VecDeque::new(),
                executed: 0,
                tail,
                held: VecDeque::new(),
            },
        );
        id
    }

    /// The name of a stream, as reports write it.
    pub fn stream_name(&self, stream: StreamId) -> Arc<str> {
        self.streams[&stream].name.clone()
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
                captured: None,
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
        let number = self.event_number(event);
        let op = self.enqueue(
            stream,
            Spec {
                call,
                what: What::Record(number),
                accesses: Vec::new(),
                effect,
                site,
            },
        );
        let captured = self.streams[&stream].tail.clone();
        if let Some(event) = self.events.get_mut(&event) {
            event.captured = Some(captured);
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
        let event = &self.events[&event];
        let number = event.number;
        let captured = event.captured.clone();
        self.remember_wait(Wait {
            call,
            site: site.clone(),
            by: Some(stream),
            on: Waited::Event(number, captured.as_ref().map(|stamp| stamp.point)),
            after: self.last_op,
        });
        let spec = Spec {
            call,
            what: What::Wait(number),
            accesses: Vec::new(),
            effect,
            site,
        };
        self.enqueue_after(stream, spec, captured)
    }

    // Memory

    /// Makes `range` an allocation; `range` overlaps no live one, and pinned ranges are whole pages.
    pub fn allocate(&mut self, space: Space, range: Range<u64>, site: Site) -> Arc<Region> {
        if space == Space::Pinned {
            let changes = self.guard.insert(&range);
            self.notice_changes(changes);
        }
        self.regions.insert(space, range, site)
    }

    /// The live allocation that holds `address`.
    pub fn region(&self, address: u64) -> Option<&Arc<Region>> {
        self.regions.find(address)
    }

    /// The live allocation that starts at `address`.
    pub fn region_at(&self, address: u64) -> Option<&Arc<Region>> {
        self.regions.at(address)
    }

    /// Ends an allocation by a call that takes effect at once (R41, R42, R46).
    ///
    /// Returns whether an operation that the host has not waited for still uses it: then the bytes must never be handed
    /// out again.
    pub fn free_now(&mut self, region: &Arc<Region>, call: &'static str, site: Site) -> bool {
        let races = self.unordered(&region.range, AccessKind::Free);
        let in_flight = !races.is_empty();
        if let Some(entry) = races.into_iter().next() {
            let kind = match region.space {
                Space::Device => HazardKind::FreeDeviceInFlight,
                Space::Pinned => HazardKind::FreeHostInFlight,
            };
            let later = Later::Call { call, site };
            self.report(kind, entry, later, Some(region.clone()), None);
        }
        self.regions.remove(region.range.start);
        if region.space == Space::Pinned {
            self.guard.remove(region.range.start);
        }
        self.ledger.forget(&region.range);
        in_flight
    }

    /// Ends an allocation whose free has been enqueued with an access of kind [`AccessKind::Free`] (R45).
    pub fn free_in_stream(&mut self, region: &Arc<Region>) {
        self.regions.remove(region.range.start);
    }

    /// Ends an allocation together with everything else of its context (R70): nothing is reported.
    pub fn abandon(&mut self, region: &Arc<Region>) {
        self.regions.remove(region.range.start);
        self.guard.remove(region.range.start);
        self.ledger.forget(&region.range);
    }

    /// Forgets what was remembered about bytes that are allocated anew.
    pub fn forget(&mut self, range: &Range<u64>) {
        self.ledger.forget(range);
    }

    // Operations

    /// Appends an operation to a stream.
    pub fn enqueue(&mut self, stream: StreamId, spec: Spec<E>) -> OpId {
        self.enqueue_after(stream, spec, None)
    }

    fn enqueue_after(&mut self, stream: StreamId, spec: Spec<E>, also: Option<Stamp>) -> OpId {
        self.last_op += 1;
        let id = self.last_op;
        let mut predecessors: Vec<OpId> = Vec::new();
        let mut news = Clock::default();
        if let Some(stamp) = also {
            predecessors.extend(self.pending_at(stamp.point));
            stamp.join_into(&mut news);
        }
        for other in self.legacy_partners(stream) {
            let tail = self.streams[&other].tail.clone();
            predecessors.extend(self.pending_at(tail.point));
            tail.join_into(&mut news);
        }
        news.subtract(&self.host);

        let entry = self
            .streams
            .get_mut(&stream)
            .expect("streams live as long as the engine");
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
        let info = Arc::new(OpInfo {
            op: id,
            call: spec.call,
            stream: entry.name.clone(),
            what: spec.what,
            site: spec.site,
        });

        predecessors.sort_unstable();
        predecessors.dedup();
        for predecessor in &predecessors {
            if let Some(op) = self.ops.get_mut(predecessor) {
                op.successors.push(id);
            }
        }
        if predecessors.is_empty() {
            self.ready.insert(id);
        }
        self.ops.insert(
            id,
            Op {
                stamp: stamp.clone(),
                effect: Some(spec.effect),
                info: info.clone(),
                waiting_for: predecessors.len(),
                predecessors,
                successors: Vec::new(),
                wanted: false,
            },
        );

        for access in &spec.accesses {
            self.check(access.kind, &access.range, &stamp, &info);
            self.ledger.record(access, &stamp, &info, &self.host);
            let pinned = self
                .regions
                .find(access.range.start)
                .is_some_and(|region| region.space == Space::Pinned);
            if pinned && !access.range.is_empty() {
                let writes = access.kind.is_write();
                if let Some(stream) = self.streams.get_mut(&stream) {
                    stream.held.push_back(Held {
                        seq: stamp.point.seq,
                        range: access.range.clone(),
                        writes,
                    });
                }
                let changes = self.guard.hold(&access.range, writes);
                self.notice_changes(changes);
            }
        }
        id
    }

    /// The streams whose present work an operation of `stream` is ordered after by the legacy rule (R3, R5).
    fn legacy_partners(&self, stream: StreamId) -> Vec<StreamId> {
        if stream == self.legacy {
            self.streams
                .iter()
                .filter(|(&id, other)| id != stream && other.blocking)
                .map(|(&id, _)| id)
                .collect()
        } else if self.streams[&stream].blocking {
            vec![self.legacy]
        } else {
            Vec::new()
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
        let mut target = vec![self.streams[&stream].tail.clone()];
        if stream == self.legacy {
            target.extend(
                self.legacy_partners(stream)
                    .iter()
                    .map(|other| self.streams[other].tail.clone()),
            );
        }
        target
    }

    /// What the last record of `event` captured; nothing when it was never recorded (R12, R14).
    pub fn event_target(&self, event: EventId) -> Target {
        self.events[&event].captured.iter().cloned().collect()
    }

    /// Everything enqueued anywhere (R8).
    pub fn device_target(&self) -> Target {
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

    /// Has everything of `target` executed?
    pub fn is_done(&self, target: &Target) -> bool {
        target.iter().all(|stamp| {
            self.streams
                .get(&stamp.point.stream)
                .is_none_or(|stream| stream.executed >= stamp.point.seq)
        })
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

    /// The next operation to run now, with its effect; [`Engine::complete`] must follow when the effect has happened.
    ///
    /// None when everything wanted has run or is running.
    pub fn next(&mut self) -> Option<(OpId, E)> {
        if self.runnable.is_empty() {
            return None;
        }
        let index = self.schedule.pick(self.runnable.len());
        let id = if index + 1 == self.runnable.len() {
            self.runnable.pop_last()?
        } else {
            let id = *self.runnable.iter().nth(index)?;
            self.runnable.remove(&id);
            id
        };
        let effect = self.ops.get_mut(&id)?.effect.take()?;
        Some((id, effect))
    }

    /// The effect of `op` has happened.
    pub fn complete(&mut self, op: OpId) {
        let Some(done) = self.ops.remove(&op) else {
            return;
        };
        if let Some(stream) = self.streams.get_mut(&done.stamp.point.stream) {
            stream.pending.pop_front();
            stream.executed = done.stamp.point.seq;
        }
        for successor in done.successors {
            let Some(next) = self.ops.get_mut(&successor) else {
                continue;
            };
            next.waiting_for -= 1;
            next.predecessors.retain(|&other| other != op);
            if next.waiting_for == 0 {
                if next.wanted {
                    self.runnable.insert(successor);
                } else {
                    self.ready.insert(successor);
                }
            }
        }
    }

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

    /// Does the return of every call count as a wait (the schedule `eager`)?
    pub fn every_call_waits(&self) -> bool {
        self.schedule.every_call_waits()
    }

    /// The host has waited for `target`: everything that is enqueued later, and every later host access, is ordered after it.
    pub fn order_host_after(&mut self, target: &Target) {
        for stamp in target {
            stamp.join_into(&mut self.host);
        }
        self.release_held();
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

    fn release_held(&mut self) {
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
    }

    /// Remembers, for reports, that the host waited for a stream by `call`.
    pub fn host_waited_for_stream(&mut self, stream: StreamId, call: &'static str, site: Site) {
        let name = self.stream_name(stream);
        self.remember_wait(Wait {
            call,
            site,
            by: None,
            on: Waited::Stream(name),
            after: self.last_op,
        });
    }

    /// Remembers, for reports, that the host waited for an event by `call`.
    pub fn host_waited_for_event(&mut self, event: EventId, call: &'static str, site: Site) {
        let event = &self.events[&event];
        let captured = event.captured.as_ref().map(|stamp| stamp.point);
        self.remember_wait(Wait {
            call,
            site,
            by: None,
            on: Waited::Event(event.number, captured),
            after: self.last_op,
        });
    }

    fn remember_wait(&mut self, wait: Wait) {
        if self.waits.len() == REMEMBERED_WAITS {
            self.waits.pop_front();
        }
        self.waits.push_back(wait);
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
        let queries = self.stream_queries.entry(stream).or_insert(0);
        *queries += 1;
        *queries >= QUERY_BUDGET && {
            *queries = 0;
            true
        }
    }

    /// What reports say about a pending operation.
    pub fn info(&self, op: OpId) -> Option<&Arc<OpInfo>> {
        self.ops.get(&op).map(|op| &op.info)
    }

    // Hazards

    /// What has to be done or printed since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// The host touched `address`, on a page that is guarded or watched.
    pub fn host_touch(&mut self, address: u64, write: bool, site: Site) -> HostTouch {
        let Some(region) = self.regions.find(address).cloned() else {
            return HostTouch::Unknown;
        };
        // Loads of a read-only page do not fault.
        let write = write || self.guard.level(address) == Some(Level::ReadOnly);
        let kind = if write {
            AccessKind::Write
        } else {
            AccessKind::Read
        };
        let races: Vec<Entry> = self
            .unordered(&(address..address + 1), kind)
            .into_iter()
            .filter(|entry| !self.reported.contains(&entry.info.op))
            .collect();
        let Some(entry) = races.into_iter().next() else {
            let ordered = self.unordered(&region.range, AccessKind::Write).is_empty();
            let level = if write { Level::Open } else { Level::ReadOnly };
            // The page alone when a neighbour is guarded, all of the allocation when nothing is.
            let range = if ordered {
                region.range.clone()
            } else {
                address..address + 1
            };
            let changes = self
                .guard
                .open(&range, if ordered { level } else { Level::Open });
            self.notice_changes(changes);
            return if ordered {
                HostTouch::First(region)
            } else {
                HostTouch::Unremarkable
            };
        };
        let kind = if write {
            HazardKind::WriteUnderCopy
        } else {
            HazardKind::ReadBeforeCopy
        };
        let range = entry.range.clone();
        self.reported.insert(entry.info.op);
        let later = Later::Touch {
            address,
            write,
            site,
        };
        self.report(kind, entry, later, Some(region), None);
        let changes = self.guard.open(&range, Level::Open);
        self.notice_changes(changes);
        HostTouch::Race
    }

    /// The remembered accesses of `range` that conflict with one of `kind` by the host at this moment.
    fn unordered(&self, range: &Range<u64>, kind: AccessKind) -> Vec<Entry> {
        self.ledger
            .conflicts(range, kind, |entry| self.host.covers(entry.stamp.point))
    }

    /// Reports the accesses that a new operation races with.
    fn check(&mut self, kind: AccessKind, range: &Range<u64>, stamp: &Stamp, info: &Arc<OpInfo>) {
        let races = self.ledger.conflicts(range, kind, |entry| {
            stamp.covers(entry.stamp.point) || self.host.covers(entry.stamp.point)
        });
        let region = self.regions.find(range.start).cloned();
        for entry in races {
            let hazard = HazardKind::of_streams(entry.kind, kind);
            let later = Later::Operation {
                info: info.clone(),
                kind,
                range: range.clone(),
            };
            self.report(
                hazard,
                entry,
                later,
                region.clone(),
                Some(stamp.point.stream),
            );
        }
    }

    fn report(
        &mut self,
        kind: HazardKind,
        a: Entry,
        b: Later,
        region: Option<Arc<Region>>,
        waiter: Option<StreamId>,
    ) {
        let useless = self.useless_wait(&a, waiter);
        self.notices.push(Notice::Hazard(Box::new(Hazard {
            kind,
            a: a.info,
            a_kind: a.kind,
            a_range: a.range,
            b,
            region,
            useless,
            replay: self.settings.clone(),
        })));
    }

    /// The most telling wait since `a` was enqueued, by the host or by the stream `waiter`, and why it did not cover `a`.
    fn useless_wait(&self, a: &Entry, waiter: Option<StreamId>) -> Option<UselessWait> {
        self.waits
            .iter()
            .rev()
            .take_while(|wait| wait.after >= a.info.op)
            .filter(|wait| wait.by.is_none() || wait.by == waiter)
            // Among equals the first, which is the latest.
            .min_by_key(|wait| match &wait.on {
                Waited::Event(_, Some(point)) if point.stream == a.stamp.point.stream => 0,
                Waited::Event(_, Some(_)) | Waited::Stream(_) => 1,
                // cudarc waits for events that were never recorded on nearly every first use.
                Waited::Event(_, None) => 2,
            })
            .map(|wait| UselessWait {
                call: wait.call,
                because: match &wait.on {
                    Waited::Event(number, None) => {
                        format!("event {number} was never recorded, so it waited for nothing")
                    }
                    Waited::Event(number, Some(point)) if point.stream == a.stamp.point.stream => {
                        format!("event {number} was recorded before A")
                    }
                    Waited::Event(number, Some(_)) => {
                        format!("event {number} was recorded on another stream than A's")
                    }
                    Waited::Stream(name) => {
                        format!("it waited for {name}, and A is on {}", a.info.stream)
                    }
                },
                site: wait.site.clone(),
            })
    }

    fn notice_changes(&mut self, changes: Vec<Change>) {
        self.notices
            .extend(changes.into_iter().map(Notice::Protect));
    }

    // For the rescue of an idle program

    /// The oldest pending operation whose effect satisfies `wanted`.
    pub fn oldest_pending(&self, wanted: impl Fn(&E) -> bool) -> Option<OpId> {
        self.ops
            .iter()
            .filter(|(_, op)| op.effect.as_ref().is_some_and(&wanted))
            .map(|(&id, _)| id)
            .min()
    }
}
