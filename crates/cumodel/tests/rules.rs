//! The engine's rules, one small program each: what runs, and what is a race, when nothing but the rule decides it.

use std::collections::BTreeMap;
use std::ops::Range;

use cumodel::guard::Level;
use cumodel::{
    Access, AccessKind, Engine, EventId, Freed, HazardKind, HostTouch, Notice, OpId, Part, Place,
    Point, Schedule, Severity, Site, Space, Spec, StreamId, StreamKind, Target, Visibility, What,
};

const DEVICE: u64 = 1000;
const PINNED: u64 = 2000;
const BYTES: u64 = 8;

/// A context with three streams, a device buffer and a pinned one, and a log of what has run.
struct Model {
    engine: Engine<&'static str>,
    legacy: StreamId,
    streams: [StreamId; 3],
    ran: Vec<&'static str>,
    levels: BTreeMap<u64, Level>,
}

impl Model {
    fn new(schedule: Schedule, kind: StreamKind) -> Model {
        let mut engine = Engine::new(schedule, 1);
        let legacy = engine.create_context("default stream".into());
        let streams = ["a", "b", "c"].map(|name| engine.create_stream(name.into(), kind, legacy));
        let device = DEVICE..DEVICE + BYTES;
        engine.allocate(Space::Device, device, None, false, Site::default());
        let pinned = PINNED..PINNED + BYTES;
        let guarded = Some(pinned.clone());
        engine.allocate(Space::Pinned, pinned, guarded, false, Site::default());
        Model {
            engine,
            legacy,
            streams,
            ran: Vec::new(),
            levels: BTreeMap::new(),
        }
    }

    fn last() -> Model {
        Model::new(Schedule::Last, StreamKind::NonBlocking)
    }

    fn enqueue(&mut self, name: &'static str, stream: StreamId, accesses: Vec<Access>) -> OpId {
        let spec = Spec {
            call: name,
            what: What::Fill {
                bytes: BYTES,
                to: Place::Pageable,
            },
            accesses,
            late: None,
            effect: name,
            visibility: Visibility::ByRace,
            site: Site::default(),
        };
        let op = self.engine.enqueue(stream, spec, &[]);
        self.return_from_call();
        op
    }

    /// Enqueues an operation that tells what it touches when it has run.
    fn kernel(&mut self, stream: StreamId) -> OpId {
        let mut spec = Spec::bare("kernel", What::HostFunction, Site::default(), "kernel");
        spec.late = Some(vec![DEVICE..DEVICE + BYTES, PINNED..PINNED + BYTES]);
        self.engine.enqueue(stream, spec, &[])
    }

    /// Runs the only pending operation, a kernel, which reads and writes these bytes.
    fn run_kernel(&mut self, reads: &[Range<u64>], writes: &[Range<u64>]) {
        let everything = self.engine.everything();
        self.engine.want(&everything);
        let step = self.engine.next(true).expect("the kernel is pending");
        assert_eq!(step.part, Part::Whole, "a kernel runs in one piece");
        self.engine.complete_late(step.op, reads, writes);
    }

    fn write(&mut self, name: &'static str, stream: StreamId) -> OpId {
        self.enqueue(name, stream, vec![access(DEVICE, AccessKind::Write)])
    }

    fn read(&mut self, name: &'static str, stream: StreamId) -> OpId {
        self.enqueue(name, stream, vec![access(DEVICE, AccessKind::Read)])
    }

    fn write_pinned(&mut self, name: &'static str, stream: StreamId) -> OpId {
        self.enqueue(name, stream, vec![access(PINNED, AccessKind::Write)])
    }

    fn event(&mut self) -> EventId {
        self.engine.create_event().0
    }

    fn record(&mut self, event: EventId, stream: StreamId) {
        self.engine
            .record(event, stream, "record", Site::default(), "record");
        self.return_from_call();
    }

    fn wait(&mut self, stream: StreamId, event: EventId) {
        self.engine
            .wait(stream, event, "wait", Site::default(), "wait");
        self.return_from_call();
    }

    fn settle(&mut self, target: &Target) {
        self.engine.want(target);
        while let Some(step) = self.engine.next(true) {
            if step.part != Part::First {
                self.ran.push(step.effect);
            }
            self.engine.complete(step.op, step.part);
        }
        assert!(self.engine.is_done(target));
        self.engine.order_host_after(target);
    }

    fn sync_stream(&mut self, stream: StreamId) {
        let target = self.engine.stream_target(stream);
        self.settle(&target);
    }

    fn sync_event(&mut self, event: EventId) {
        let target = self.engine.event_target(event);
        self.settle(&target);
    }

    fn sync_context(&mut self) {
        let target = self.engine.context_target(self.legacy);
        self.settle(&target);
    }

    fn return_from_call(&mut self) {
        self.engine.tick();
        while let Some(step) = self.engine.next(false) {
            self.ran.push(step.effect);
            self.engine.complete(step.op, step.part);
        }
        if self.engine.every_call_waits() {
            let everything = self.engine.everything();
            self.settle(&everything);
        }
    }

    /// What has run since the last question, events aside.
    fn ran(&mut self) -> Vec<&'static str> {
        let mut ran = std::mem::take(&mut self.ran);
        ran.retain(|name| !matches!(*name, "record" | "wait"));
        ran
    }

    /// The hazards since the last question.
    fn hazards(&mut self) -> Vec<&'static str> {
        let mut ids = Vec::new();
        for notice in self.engine.take_notices() {
            match notice {
                Notice::Hazard(hazard) if hazard.kind.severity() == Severity::Hazard => {
                    ids.push(hazard.kind.id());
                }
                Notice::Hazard(_) | Notice::Decided { .. } => (),
                Notice::Protect(change) => {
                    for byte in change.range {
                        self.levels.insert(byte, change.level);
                    }
                }
            }
        }
        ids
    }
}

fn access(start: u64, kind: AccessKind) -> Access {
    Access {
        range: start..start + BYTES,
        kind,
    }
}

#[test]
fn r1_one_stream_runs_in_order() {
    let mut model = Model::last();
    let [a, ..] = model.streams;
    for name in ["1", "2", "3"] {
        model.write(name, a);
    }
    assert_eq!(model.ran(), [""; 0]);
    model.sync_stream(a);
    assert_eq!(model.ran(), ["1", "2", "3"]);
    assert_eq!(model.hazards(), [""; 0]);
}

#[test]
fn r2_streams_are_not_ordered() {
    let mut model = Model::last();
    let [a, b, _] = model.streams;
    model.write("first", a);
    model.read("second", b);
    model.sync_stream(b);
    assert_eq!(model.ran(), ["second"]);
    assert_eq!(model.hazards(), ["H08"]);
}

#[test]
fn r3_the_legacy_stream_orders_with_blocking_streams_both_ways() {
    let mut model = Model::new(Schedule::Last, StreamKind::Blocking);
    let ([a, b, _], legacy) = (model.streams, model.legacy);
    model.write("a", a);
    model.write("legacy", legacy);
    model.write("b", b);
    model.sync_stream(b);
    assert_eq!(model.ran(), ["a", "legacy", "b"]);
    // Waiting for it is waiting for all of them.
    model.write("a again", a);
    model.sync_stream(legacy);
    assert_eq!(model.ran(), ["a again"]);
    assert_eq!(model.hazards(), [""; 0]);
}

#[test]
fn r4_non_blocking_streams_are_exempt() {
    let mut model = Model::last();
    let ([a, ..], legacy) = (model.streams, model.legacy);
    model.write("a", a);
    model.write("legacy", legacy);
    model.sync_stream(legacy);
    assert_eq!(model.ran(), ["legacy"]);
    assert_eq!(model.hazards(), ["H18"]);
}

#[test]
fn r5_default_streams_of_threads_order_with_the_legacy_stream_and_not_with_each_other() {
    let mut model = Model::new(Schedule::Last, StreamKind::PerThread);
    let ([a, b, _], legacy) = (model.streams, model.legacy);
    model.write("legacy", legacy);
    model.write("a", a);
    assert_eq!(model.hazards(), [""; 0]);
    model.write("b", b);
    assert_eq!(model.hazards(), ["H10"]);
    model.sync_stream(a);
    assert_eq!(model.ran(), ["legacy", "a"]);
}

#[test]
fn r6_a_destroyed_stream_still_runs_what_is_in_it() {
    let mut model = Model::last();
    let [a, ..] = model.streams;
    model.write("a", a);
    model.engine.destroy_stream(a);
    model.sync_context();
    assert_eq!(model.ran(), ["a"]);
}

#[test]
fn r8_the_context_covers_all_streams_latest_first() {
    let mut model = Model::last();
    let [a, b, c] = model.streams;
    for (name, stream) in [("1", a), ("2", b), ("3", c)] {
        model.enqueue(name, stream, Vec::new());
    }
    model.sync_context();
    assert_eq!(model.ran(), ["3", "2", "1"]);
}

#[test]
fn r9_the_third_query_of_what_is_pending_is_the_last() {
    let mut model = Model::last();
    let [a, ..] = model.streams;
    let event = model.event();
    model.write("a", a);
    model.record(event, a);
    let answers = [(); 3].map(|()| model.engine.event_query_exhausts_patience(event));
    assert_eq!(answers, [false, false, true]);
    let answers = [(); 3].map(|()| model.engine.stream_query_exhausts_patience(a));
    assert_eq!(answers, [false, false, true]);
    // A new record, or a new operation, is a new question.
    model.record(event, a);
    assert!(!model.engine.event_query_exhausts_patience(event));
    assert!(!model.engine.stream_query_exhausts_patience(a));
}

#[test]
fn r10_a_record_covers_what_came_before_it_and_nothing_after() {
    let mut model = Model::last();
    let [a, ..] = model.streams;
    let event = model.event();
    model.write("before", a);
    model.record(event, a);
    model.write("after", a);
    model.sync_event(event);
    assert_eq!(model.ran(), ["before"]);
}

#[test]
fn r11_a_wait_keeps_the_capture_of_its_moment() {
    let mut model = Model::last();
    let [a, b, c] = model.streams;
    let event = model.event();
    model.enqueue("1", a, Vec::new());
    model.record(event, a);
    model.wait(b, event);
    model.enqueue("2", a, Vec::new());
    model.record(event, a);
    model.wait(c, event);
    model.sync_stream(b);
    assert_eq!(model.ran(), ["1"]);
    model.sync_stream(c);
    assert_eq!(model.ran(), ["2"]);
}

#[test]
fn r12_an_event_that_was_never_recorded_stands_for_nothing() {
    let mut model = Model::last();
    let [a, b, _] = model.streams;
    let event = model.event();
    model.write("a", a);
    model.wait(b, event);
    model.write("b", b);
    assert_eq!(model.hazards(), ["H10"]);
    assert!(model.engine.event_target(event).is_empty());
    model.sync_event(event);
    assert_eq!(model.ran(), [""; 0]);
}

#[test]
fn r13_a_wait_orders_the_future_of_its_stream_and_not_its_past() {
    let mut model = Model::last();
    let [a, b, _] = model.streams;
    let event = model.event();
    model.enqueue("past", b, Vec::new());
    let past = model.engine.tail(b);
    model.write("a", a);
    model.record(event, a);
    model.wait(b, event);
    model.write("future", b);
    assert_eq!(model.hazards(), [""; 0]);
    model.settle(&vec![past]);
    assert_eq!(model.ran(), ["past"]);
    model.sync_stream(b);
    assert_eq!(model.ran(), ["a", "future"]);
}

#[test]
fn r13_waits_order_through_a_third_stream() {
    let mut model = Model::last();
    let [a, b, c] = model.streams;
    let (first, second) = (model.event(), model.event());
    model.write("a", a);
    model.record(first, a);
    model.wait(b, first);
    model.record(second, b);
    model.wait(c, second);
    model.write("c", c);
    assert_eq!(model.hazards(), [""; 0]);
    model.sync_stream(c);
    assert_eq!(model.ran(), ["a", "c"]);
}

#[test]
fn r15_waits_outlive_the_event() {
    let mut model = Model::last();
    let [a, b, _] = model.streams;
    let event = model.event();
    model.write("a", a);
    model.record(event, a);
    model.wait(b, event);
    model.engine.destroy_event(event);
    model.write("b", b);
    model.sync_stream(b);
    assert_eq!(model.ran(), ["a", "b"]);
    assert_eq!(model.hazards(), [""; 0]);
}

#[test]
fn r20_the_host_reads_a_destination_only_after_a_wait() {
    let mut model = Model::last();
    let [a, ..] = model.streams;
    model.write_pinned("a", a);
    assert_eq!(model.hazards(), [""; 0]);
    assert_eq!(model.levels[&PINNED], Level::NoAccess);
    let touch = model
        .engine
        .host_touch(PINNED, false, None, Site::default());
    assert!(matches!(touch, HostTouch::Race), "{touch:?}");
    assert_eq!(model.hazards(), ["H01"]);
    // Another operation on the same bytes closes them again, and a wait opens them for good.
    model.write_pinned("again", a);
    assert_eq!(model.hazards(), [""; 0]);
    assert_eq!(model.levels[&PINNED], Level::NoAccess);
    model.sync_stream(a);
    assert_eq!(model.hazards(), [""; 0]);
    assert_eq!(model.levels[&PINNED], Level::Open);
}

#[test]
fn r22_the_host_leaves_a_source_alone_until_a_wait() {
    let mut model = Model::last();
    let [a, ..] = model.streams;
    model.enqueue("a", a, vec![access(PINNED, AccessKind::Read)]);
    assert_eq!(model.hazards(), [""; 0]);
    assert_eq!(model.levels[&PINNED], Level::ReadOnly);
    let touch = model.engine.host_touch(PINNED, true, None, Site::default());
    assert!(matches!(touch, HostTouch::Race), "{touch:?}");
    assert_eq!(model.hazards(), ["H02"]);
}

/// An operation that has run because the schedule chose so is not ordered: a wait is missing all the same.
#[test]
fn r21_executed_is_not_ordered() {
    let mut model = Model::last();
    let [a, b, _] = model.streams;
    let op = model.write("a", a);
    let target = model.engine.op_target(op);
    model.engine.want(&target);
    while let Some(step) = model.engine.next(true) {
        model.engine.complete(step.op, step.part);
    }
    assert!(model.engine.is_done(&target) && !model.engine.host_is_after(&target));
    model.read("b", b);
    assert_eq!(model.hazards(), ["H08"]);
}

#[test]
fn r33_a_racing_copy_happens_in_halves_under_explore() {
    let mut schedule: Schedule = "explore".parse().expect("there is such a schedule");
    let mut halves = false;
    loop {
        let mut model = Model::new(schedule, StreamKind::NonBlocking);
        let [a, b, _] = model.streams;
        model.write("a", a);
        model.read("b", b);
        let everything = model.engine.everything();
        model.engine.want(&everything);
        while let Some(step) = model.engine.next(true) {
            halves |= step.part == Part::First;
            model.engine.complete(step.op, step.part);
        }
        model.engine.order_host_after(&everything);
        let more = model
            .engine
            .explorer()
            .is_some_and(|explorer| explorer.next_run());
        schedule = model.engine.into_schedule();
        if !more {
            break;
        }
    }
    assert!(halves);
}

#[test]
fn r43_an_allocation_is_used_after_it_in_stream_order() {
    let mut model = Model::last();
    let [a, b, _] = model.streams;
    model.enqueue("allocate", a, vec![access(DEVICE, AccessKind::Allocate)]);
    model.write("same stream", a);
    assert_eq!(model.hazards(), [""; 0]);
    model.sync_context();
    model.enqueue("allocate", a, vec![access(DEVICE, AccessKind::Allocate)]);
    model.write("another stream", b);
    assert_eq!(model.hazards(), ["H07"]);
}

#[test]
fn r45_a_free_comes_after_every_use() {
    let mut model = Model::last();
    let [a, b, _] = model.streams;
    model.read("use", b);
    model.enqueue("free", a, vec![access(DEVICE, AccessKind::Free)]);
    assert_eq!(model.hazards(), ["H05"]);
}

#[test]
fn r46_memory_that_is_freed_in_flight_is_reported_and_never_handed_out_again() {
    let mut model = Model::last();
    let [a, ..] = model.streams;
    model.write_pinned("a", a);
    let region = model.engine.region(PINNED).cloned().expect("it is alive");
    let freed = model.engine.free_now(&region, "free", Site::default());
    assert_eq!(freed, Freed::InFlight);
    assert_eq!(model.hazards(), ["H03"]);
    assert!(model.engine.region(PINNED).is_none());
    model.write("b", a);
    model.sync_stream(a);
    let region = model.engine.region(DEVICE).cloned().expect("it is alive");
    let freed = model.engine.free_now(&region, "free", Site::default());
    assert_eq!(freed, Freed::Idle);
    assert_eq!(model.hazards(), [""; 0]);
}

/// What became of memory of which it was not known whether it was in use when it was freed.
fn decided(model: &mut Model) -> Vec<bool> {
    let notices = model.engine.take_notices();
    let in_flight = notices.iter().filter_map(|notice| match notice {
        Notice::Decided { in_flight, .. } => Some(*in_flight),
        _ => None,
    });
    let in_flight = in_flight.collect();
    for notice in notices {
        if let Notice::Hazard(hazard) = notice {
            assert_eq!(hazard.kind, HazardKind::FreeHostInFlight);
            assert_eq!(hazard.operation(), Some(1), "the kernel is one side");
        }
    }
    in_flight
}

#[test]
fn whether_a_kernel_uses_freed_memory_is_decided_when_it_has_run() {
    for (touched, in_flight) in [(PINNED..PINNED + 1, true), (DEVICE..DEVICE + 1, false)] {
        let mut model = Model::last();
        let [a, ..] = model.streams;
        model.kernel(a);
        let region = model.engine.region(PINNED).cloned().expect("it is alive");
        let freed = model.engine.free_now(&region, "free", Site::default());
        assert_eq!(freed, Freed::Undecided);
        assert_eq!(model.hazards(), [""; 0]);
        assert_eq!(model.engine.reachable(1).len(), 2);
        assert_eq!(model.engine.reachable(2).len(), 1);
        model.run_kernel(&[], &[touched]);
        assert_eq!(decided(&mut model), [in_flight]);
    }
}

#[test]
fn a_host_access_of_a_neighbouring_byte_is_no_race_with_a_kernel() {
    for (touched, hazards) in [
        (PINNED..PINNED + 1, vec!["H01"]),
        (PINNED + 1..PINNED + 8, vec![]),
    ] {
        let mut model = Model::last();
        let [a, ..] = model.streams;
        model.kernel(a);
        assert_eq!(model.hazards(), [""; 0]);
        assert_eq!(model.levels[&PINNED], Level::NoAccess);
        let touch = model
            .engine
            .host_touch(PINNED, false, None, Site::default());
        assert!(matches!(touch, HostTouch::First { .. }), "{touch:?}");
        assert_eq!(model.hazards(), [""; 0]);
        model.run_kernel(&[], &[touched]);
        assert_eq!(model.hazards(), hazards);
        // What the kernel has written is taken away until the host has waited for it, and the rest is open.
        let levels = [PINNED, PINNED + 7].map(|byte| model.levels[&byte]);
        assert!(levels.contains(&Level::NoAccess) && levels.contains(&Level::Open));
        model.sync_stream(a);
        model.hazards();
        assert!(model.levels.values().all(|level| *level == Level::Open));
    }
}

#[test]
fn a_read_of_what_a_pending_kernel_may_write_is_judged_when_it_has_run() {
    for (written, notes) in [(DEVICE..DEVICE + BYTES, 0), (DEVICE..DEVICE + 1, 1)] {
        let mut model = Model::last();
        let [a, ..] = model.streams;
        model.kernel(a);
        model.read("download", a);
        assert_eq!(unwritten(&mut model), 0);
        model.run_kernel(&[], &[written]);
        model.sync_stream(a);
        assert_eq!(unwritten(&mut model), notes);
    }
}

/// How many operations have been found to read what was never written.
fn unwritten(model: &mut Model) -> usize {
    let is_it = |notice: &Notice| matches!(notice, Notice::Hazard(hazard) if hazard.kind == HazardKind::UninitializedRead);
    let notices = model.engine.take_notices();
    notices.iter().filter(|notice| is_it(notice)).count()
}

#[test]
fn r56_the_start_of_a_host_function_is_a_wait_for_what_is_before_it() {
    let mut model = Model::last();
    let [a, ..] = model.streams;
    model.write_pinned("copy", a);
    let function = model.enqueue("function", a, Vec::new());
    model.write_pinned("later copy", a);
    model.hazards();
    let target = model.engine.op_target(function);
    model.engine.want(&target);
    while let Some(step) = model.engine.next(true) {
        if step.op == function {
            model.engine.host_function_starts(function);
            // Within the function, memory of the copy before it and of the one after it is no race.
            let by = Some(function);
            let touch = model.engine.host_touch(PINNED, false, by, Site::default());
            assert!(!matches!(touch, HostTouch::Race), "{touch:?}");
        }
        model.engine.complete(step.op, step.part);
    }
    assert_eq!(model.hazards(), [""; 0]);
    assert!(model.engine.has_pending());
}

#[test]
fn under_eager_nothing_is_pending_and_nothing_races() {
    let mut model = Model::new(Schedule::Eager, StreamKind::NonBlocking);
    let [a, b, _] = model.streams;
    model.write("a", a);
    model.write("b", b);
    assert_eq!(model.ran(), ["a", "b"]);
    assert!(!model.engine.has_pending());
    assert_eq!(model.hazards(), [""; 0]);
}

#[test]
fn a_race_names_the_earlier_operation_and_the_later_one() {
    let mut model = Model::last();
    let [a, b, _] = model.streams;
    let first = model.write("first", a);
    model.write("second", b);
    let hazard = model
        .engine
        .take_notices()
        .into_iter()
        .find_map(|notice| match notice {
            Notice::Hazard(hazard) => Some(hazard),
            Notice::Protect(_) | Notice::Decided { .. } => None,
        })
        .expect("the writes race");
    assert_eq!(hazard.kind, HazardKind::StreamRaceWaw);
    assert_eq!(hazard.operation(), Some(first));
    let tail = model.engine.tail(b).point;
    assert_eq!(tail, Point { stream: b, seq: 1 });
}
