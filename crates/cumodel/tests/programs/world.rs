//! Runs a program on the engine, as a driver would.

use std::collections::HashMap;
use std::ops::Range;

use cumodel::guard::Level;
use cumodel::{
    Access, AccessKind, Engine, EventId, HazardKind, Notice, OpId, Part, Party, Place, Schedule,
    Severity, Site, Space, Spec, Stamp, StreamId, StreamKind, Target, Visibility, What,
};

use crate::naive::{initial_memory, Memory, Outcome};
use crate::program::{Kind, Line, Program, Span, BUFFERS, CELLS, PINNED};

/// A fault that is put between the program and the engine, to see that the checks find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The rule of the legacy default stream is forgotten.
    NoLegacyRule,
    /// Streams do not wait for events.
    NoWaits,
    /// Waiting for an event waits for its whole stream as it is now.
    EventsCoverTooMuch,
    /// Every stream orders with every other one, by the legacy rule.
    EverythingIsOrdered,
    /// What a kernel touches is never told.
    SilentKernels,
}

/// A hazard in terms of the program's lines; the host's own touches are lines too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    pub kind: HazardKind,
    pub a: usize,
    pub b: usize,
}

impl Report {
    /// Is the line one of the two?
    pub fn names(&self, line: usize) -> bool {
        self.a == line || self.b == line
    }
}

/// What a run shows.
pub struct Run {
    pub outcome: Outcome,
    pub reports: Vec<Report>,
    pub schedule: Schedule,
}

#[derive(Clone, Debug)]
enum Effect {
    Nothing,
    Copy { from: usize, to: usize, len: usize },
    Kernel { from: Span, to: Span },
    Fill { to: usize, len: usize, value: u8 },
}

struct World {
    engine: Engine<Effect>,
    legacy: StreamId,
    streams: Vec<StreamId>,
    events: Vec<EventId>,
    memory: Memory,
    /// What the host may do with each guarded byte, as the engine announced it; pages are one byte long.
    levels: HashMap<u64, Level>,
    loads: Vec<u8>,
    lines: HashMap<OpId, usize>,
    reports: Vec<Report>,
    fault: Fault,
}

/// Runs `program` under `schedule`.
pub fn run(program: &Program, schedule: Schedule, fault: Fault) -> Run {
    let mut world = World::new(program, schedule, fault);
    for (index, line) in program.lines.iter().enumerate() {
        world.perform(index, *line);
    }
    let everything = world.engine.context_target(world.legacy);
    world.wait(&everything);
    world.take_notices();
    assert!(!world.engine.has_pending());
    Run {
        outcome: Outcome {
            memory: world.memory,
            loads: world.loads,
        },
        reports: world.reports,
        schedule: world.engine.into_schedule(),
    }
}

/// The first address of a buffer; buffers do not touch each other.
fn base(buffer: usize) -> u64 {
    (buffer as u64 + 1) * 100
}

fn addresses(span: Span) -> Range<u64> {
    let start = base(span.buffer) + span.start as u64;
    start..start + span.len as u64
}

fn index(span: Span) -> usize {
    span.buffer * CELLS + span.start
}

impl World {
    fn new(program: &Program, schedule: Schedule, fault: Fault) -> World {
        let mut engine = Engine::new(schedule, 1);
        let legacy = engine.create_context("default stream".into());
        let streams = (0..)
            .zip(program.kinds)
            .map(|(number, kind)| {
                let kind = match kind {
                    Kind::Legacy => return legacy,
                    _ if fault == Fault::NoLegacyRule => StreamKind::NonBlocking,
                    Kind::Blocking => StreamKind::Blocking,
                    Kind::NonBlocking => StreamKind::NonBlocking,
                };
                engine.create_stream(format!("stream {number}").into(), kind, legacy)
            })
            .collect();
        let events = (0..program.events())
            .map(|_| engine.create_event().0)
            .collect();
        for buffer in 0..BUFFERS {
            let range = base(buffer)..base(buffer) + CELLS as u64;
            let (space, guarded) = if buffer == PINNED {
                (Space::Pinned, Some(range.clone()))
            } else {
                (Space::Device, None)
            };
            engine.allocate(space, range, guarded, false, Site::default());
        }
        World {
            engine,
            legacy,
            streams,
            events,
            memory: initial_memory(),
            levels: HashMap::new(),
            loads: Vec::new(),
            lines: HashMap::new(),
            reports: Vec::new(),
            fault,
        }
    }

    fn perform(&mut self, number: usize, line: Line) {
        let cell = |cell| Span {
            buffer: PINNED,
            start: cell,
            len: 1,
        };
        match line {
            Line::Copy { stream, from, to } => {
                let effect = Effect::Copy {
                    from: index(from),
                    to: index(to),
                    len: from.len,
                };
                let accesses = vec![
                    access(from, AccessKind::Read),
                    access(to, AccessKind::Write),
                ];
                self.enqueue(number, stream, accesses, None, effect);
            }
            Line::Kernel { stream, from, to } => {
                let whole = |span: Span| base(span.buffer)..base(span.buffer) + CELLS as u64;
                let expected = Some(vec![whole(from), whole(to)]);
                let effect = Effect::Kernel { from, to };
                self.enqueue(number, stream, Vec::new(), expected, effect);
            }
            Line::Fill { stream, to, value } => {
                let effect = Effect::Fill {
                    to: index(to),
                    len: to.len,
                    value,
                };
                let accesses = vec![access(to, AccessKind::Write)];
                self.enqueue(number, stream, accesses, None, effect);
            }
            Line::Record { event, stream } => {
                let (event, stream) = (self.events[event], self.streams[stream]);
                self.engine
                    .record(event, stream, "record", Site::default(), Effect::Nothing);
            }
            Line::Wait { stream, event } => self.wait_for_event(stream, event),
            Line::SyncStream(stream) => {
                let target = self.engine.stream_target(self.streams[stream]);
                self.wait(&target);
            }
            Line::SyncEvent(event) => {
                let target = self.event_target(event);
                self.wait(&target);
            }
            Line::SyncContext => {
                let target = self.engine.context_target(self.legacy);
                self.wait(&target);
            }
            Line::Load(at) => {
                self.touch(number, cell(at), false);
                self.loads.push(self.memory[index(cell(at))]);
            }
            Line::Store(at, value) => {
                self.touch(number, cell(at), true);
                self.memory[index(cell(at))] = value;
            }
        }
        if self.fault == Fault::EverythingIsOrdered {
            let everything = self.engine.everything();
            self.engine.order_host_after(&everything);
        }
        self.return_from_call();
        self.take_notices();
    }

    fn enqueue(
        &mut self,
        number: usize,
        stream: usize,
        accesses: Vec<Access>,
        late: Option<Vec<Range<u64>>>,
        effect: Effect,
    ) {
        let spec = Spec {
            call: "operation",
            what: What::Fill {
                bytes: 0,
                to: Place::Pageable,
            },
            accesses,
            late,
            effect,
            visibility: Visibility::ByRace,
            site: Site::default(),
        };
        let op = self.engine.enqueue(self.streams[stream], spec, &[]);
        self.lines.insert(op, number);
    }

    /// What waiting for an event waits for.
    fn event_target(&self, event: usize) -> Target {
        let target = self.engine.event_target(self.events[event]);
        if self.fault != Fault::EventsCoverTooMuch {
            return target;
        }
        let now = |record: &Stamp| self.engine.tail(record.point.stream);
        target.iter().map(now).collect()
    }

    fn wait_for_event(&mut self, stream: usize, event: usize) {
        let stream = self.streams[stream];
        match self.fault {
            Fault::NoWaits => (),
            Fault::EventsCoverTooMuch => {
                let target = self.event_target(event);
                let spec = Spec {
                    call: "wait",
                    what: What::Wait(0),
                    accesses: Vec::new(),
                    late: None,
                    effect: Effect::Nothing,
                    visibility: Visibility::ByRace,
                    site: Site::default(),
                };
                self.engine.enqueue(stream, spec, &target);
            }
            _ => {
                let event = self.events[event];
                self.engine
                    .wait(stream, event, "wait", Site::default(), Effect::Nothing);
            }
        }
    }

    fn wait(&mut self, target: &Target) {
        self.engine.want(target);
        while !self.engine.is_done(target) {
            assert!(self.step(true), "what the host waits for does not run");
        }
        self.engine.order_host_after(target);
    }

    /// What a driver does at the end of every call. A load or store is no call; treating it as one lets the schedule run
    /// operations between two of them, as hardware can.
    fn return_from_call(&mut self) {
        self.engine.tick();
        while self.step(false) {}
        if self.engine.every_call_waits() {
            let everything = self.engine.everything();
            self.wait(&everything);
        }
    }

    fn step(&mut self, forced: bool) -> bool {
        let Some(step) = self.engine.next(forced) else {
            return false;
        };
        let piece = |len: usize| match step.part {
            Part::Whole => 0..len,
            Part::First => 0..len / 2,
            Part::Second => len / 2..len,
        };
        match step.effect {
            Effect::Nothing => (),
            Effect::Copy { from, to, len } => {
                let piece = piece(len);
                self.memory
                    .copy_within(from + piece.start..from + piece.end, to + piece.start);
            }
            Effect::Kernel { from, to } => {
                let start = index(from);
                self.memory.copy_within(start..start + from.len, index(to));
                let (reads, writes) = (addresses(from), addresses(to));
                if self.fault == Fault::SilentKernels {
                    self.engine.complete_late(step.op, &[], &[]);
                } else {
                    self.engine.complete_late(step.op, &[reads], &[writes]);
                }
                return true;
            }
            Effect::Fill { to, len, value } => {
                let piece = piece(len);
                self.memory[to + piece.start..to + piece.end].fill(value);
            }
        }
        self.engine.complete(step.op, step.part);
        true
    }

    /// A load or store by the host, which faults if the engine has taken the byte away.
    fn touch(&mut self, number: usize, span: Span, write: bool) {
        let address = addresses(span).start;
        let needed = if write { Level::Open } else { Level::ReadOnly };
        let allowed =
            |world: &World| world.levels.get(&address).copied().unwrap_or(Level::Open) >= needed;
        if !allowed(self) {
            let site = Site([number].into());
            self.engine.host_touch(address, write, None, site);
            self.take_notices();
            assert!(allowed(self), "the access would fault for ever");
        }
    }

    /// Takes what the engine announces; the place of a host access is the number of its line.
    fn take_notices(&mut self) {
        for notice in self.engine.take_notices() {
            match notice {
                Notice::Protect(change) => {
                    for address in change.range {
                        self.levels.insert(address, change.level);
                    }
                }
                Notice::Hazard(hazard) if hazard.kind.severity() == Severity::Hazard => {
                    let line = |party: &Option<Party>| match party {
                        Some(Party::Operation { info, .. }) => self.lines[&info.op],
                        Some(Party::Touch { site, .. }) => site.0[0],
                        _ => unreachable!("nothing is freed"),
                    };
                    self.reports.push(Report {
                        kind: hazard.kind,
                        a: line(&hazard.a),
                        b: line(&hazard.b),
                    });
                }
                // A copy of device memory that nothing was written to is no mistake here.
                Notice::Hazard(_) | Notice::Decided { .. } => (),
            }
        }
    }
}

fn access(span: Span, kind: AccessKind) -> Access {
    Access {
        range: addresses(span),
        kind,
    }
}
