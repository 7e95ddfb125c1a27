//! What a missing wait, or another mistake, looks like in words.

use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::Arc;

use crate::op::{AccessKind, OpInfo, Site};
use crate::region::{Region, Space};

macro_rules! catalogue {
    ($($variant:ident $severity:ident $id:literal $name:literal:
        $sentence:literal; $hardware:literal; $fix:literal)*) => {
        /// Everything that the model reports.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum HazardKind {
            $(#[doc = $sentence] $variant,)*
        }

        impl HazardKind {
            /// All kinds, by id.
            pub const ALL: &'static [HazardKind] = &[$(HazardKind::$variant,)*];

            fn entry(self) -> Entry {
                match self {
                    $(HazardKind::$variant => Entry {
                        id: $id,
                        name: $name,
                        severity: Severity::$severity,
                        sentence: $sentence,
                        hardware: $hardware,
                        fix: $fix,
                    },)*
                }
            }
        }
    };
}

/// The fixed words of one kind of hazard.
struct Entry {
    id: &'static str,
    name: &'static str,
    severity: Severity,
    sentence: &'static str,
    hardware: &'static str,
    fix: &'static str,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The program is wrong.
    Hazard,
    /// The program is right; something about it deserves to be known.
    Note,
    /// The same, about speed: written to reports, and not printed among what matters.
    SpeedNote,
    /// Not reported by itself: it explains why two accesses of another hazard are not ordered.
    Cause,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Hazard => "hazard",
            Severity::Note | Severity::SpeedNote => "note",
            Severity::Cause => "cause",
        })
    }
}

catalogue! {
    ReadBeforeCopy Hazard "H01" "READ-BEFORE-COPY":
        "the host read memory that a pending operation will write";
        "the read sees old bytes, new bytes or a mixture; a small copy tends to finish first and hide the bug";
        "wait before the read: stream.synchronize()?, or event.synchronize()? on an event recorded after the copy"
    WriteUnderCopy Hazard "H02" "WRITE-UNDER-COPY":
        "the host wrote memory that a pending operation still uses";
        "the copy takes old bytes, new bytes or a mixture; a small copy tends to finish first and hide the bug";
        "wait for the copy before refilling the buffer (stream.synchronize()?, or an event recorded after the copy), or refill another buffer"
    FreeHostInFlight Hazard "H03" "FREE-HOST-IN-FLIGHT":
        "page-locked memory was freed or unregistered while a pending operation still uses it";
        "a driver that waits in the call hides the bug; no manual promises that wait";
        "wait for the operation before dropping the buffer: stream.synchronize()?"
    FreeDeviceInFlight Hazard "H04" "FREE-DEVICE-IN-FLIGHT":
        "device memory was freed while a pending operation still uses it";
        "cuMemFree may wait and hide the bug; the manual only says that it may";
        "wait for the operation before the free, or free in stream order (cuMemFreeAsync) after an event"
    FreeAsyncUnordered Hazard "H05" "FREE-ASYNC-UNORDERED":
        "a stream-ordered free is not ordered after an operation of another stream";
        "the block can be handed to the next allocation while the operation still uses it";
        "let the freeing stream wait first: freeing.join(&other)?, and keep the other stream alive longer than its slices"
    UseAfterFree Hazard "H06" "USE-AFTER-FREE":
        "an operation uses device memory that has been freed";
        "the block may already belong to somebody else: wrong values, or an illegal address";
        "do not use a slice after it has been dropped"
    UseBeforeAlloc Hazard "H07" "USE-BEFORE-ALLOC":
        "an operation uses a stream-ordered allocation that it is not ordered after";
        "the block may still be in use by earlier work of the allocating stream";
        "allocate on the stream that uses the memory, or let that stream wait first: user.join(&allocating)?"
    StreamRaceRaw Hazard "H08" "STREAM-RACE-RAW":
        "an operation reads bytes that an unordered operation writes";
        "the reader sees old bytes, new bytes or a mixture";
        "record an event after the writer and let the reader's stream wait for it: reader.wait(&writer.record_event(None)?)?"
    StreamRaceWar Hazard "H09" "STREAM-RACE-WAR":
        "an operation overwrites bytes that an unordered operation reads";
        "the reader sees old bytes, new bytes or a mixture";
        "record an event after the reader and let the writer's stream wait for it: writer.wait(&reader.record_event(None)?)?"
    StreamRaceWaw Hazard "H10" "STREAM-RACE-WAW":
        "two unordered operations write the same bytes";
        "either write can be the one that stays, or parts of both";
        "record an event after the first writer and let the second writer's stream wait for it"
    PageableWasSync Note "H11" "PAGEABLE-WAS-SYNC":
        "a copy into pageable memory was never waited for";
        "drivers for discrete GPUs finish such a copy before the call returns; since CUDA 12.2 the manual says only that they might";
        "stream.synchronize()? before the destination is used"
    PageableSourceEarly Hazard "H12" "PAGEABLE-SOURCE-EARLY":
        "a copy took its pageable source before an earlier operation of the stream had written it";
        "a staged copy reads its source when it is called, not in stream order";
        "use pinned memory as the source, or wait for the earlier operation before the call"
    EventNeverRecorded Cause "H13" "EVENT-NEVER-RECORDED":
        "the event that was waited for had never been recorded";
        "such a wait returns at once";
        "record the event after the operation; in cudarc, pinned buffers record theirs only while a created stream exists"
    EventTooEarly Cause "H14" "EVENT-TOO-EARLY":
        "the event that was waited for had been recorded before the operation";
        "an event covers what was enqueued before its record, and nothing after";
        "record the event after the last use"
    EventOverwritten Cause "H15" "EVENT-OVERWRITTEN":
        "the event that was waited for had covered the operation, until it was recorded again";
        "a record replaces the one before";
        "use one event for each outstanding use"
    WrongStreamSync Cause "H16" "WRONG-STREAM-SYNC":
        "the wait was for another stream";
        "streams do not wait for each other";
        "wait for the operation's own stream"
    PerThreadMixup Cause "H17" "PER-THREAD-MIXUP":
        "the wait was for this thread's default stream, and the operation is on another thread's";
        "the handle 2 names the calling thread's stream, in every call";
        "use a created stream for work that several threads see"
    NullStreamAssumption Hazard "H18" "NULL-STREAM-ASSUMPTION":
        "an operation on the legacy default stream is not ordered with one on a non-blocking stream";
        "whichever runs first; every stream that cudarc creates is non-blocking";
        "join the two streams by an event, or use one stream"
    HostFunctionCallsCuda Hazard "H19" "HOSTFN-CALLS-CUDA":
        "a host function called the driver";
        "the call fails with 800, or deadlocks";
        "signal another thread and let it make the call"
    HostFunctionBlocks Hazard "H20" "HOSTFN-BLOCKS":
        "a host function sleeps while another host function waits to run";
        "host functions of unordered streams can be run one at a time, so the program can stop";
        "signal and return; wait on an ordinary thread"
    DeadHandle Hazard "H21" "DEAD-HANDLE":
        "a handle was used after the object had been destroyed";
        "undefined: an error, a crash, or another object that has got the same value";
        "keep the owner alive as long as the handle is used"
    NeverAwaited Hazard "H22" "NEVER-AWAITED":
        "work was still pending when the context ended";
        "the work may never run, or run after its buffers are gone";
        "synchronize before the end: stream.synchronize()?"
    CaptureViolation Hazard "H23" "CAPTURE-VIOLATION":
        "a call is not allowed while a stream captures";
        "the capture is invalidated, and its end returns an error";
        "move the call out of the capture; with cudarc, switch event tracking off before the slices are made"
    GraphStalePointer Hazard "H24" "GRAPH-STALE-POINTER":
        "a graph was launched that uses memory which has been freed since the capture";
        "the launch reads or writes whatever is there now";
        "keep every buffer alive and in place as long as the graph can be launched"
    NoCurrentContext Hazard "H25" "NO-CURRENT-CONTEXT":
        "no context is current on this thread";
        "the call fails with 201";
        "ctx.bind_to_thread()? at the start of the thread"
    UninitializedRead Note "H26" "UNINITIALIZED-READ":
        "an operation reads device memory that was never written";
        "the bytes are whatever was there before";
        "fill the memory first: alloc_zeros, or a memset"
    Leak Note "H27" "LEAK":
        "memory was still allocated when its context ended";
        "the memory is gone with the context";
        "drop the buffer before the context"
    ErrorInDrop Hazard "H28" "ERROR-IN-DROP":
        "a call in a destructor failed";
        "cudarc keeps the error and returns it from a later call that has nothing to do with it";
        "see the code; bind the context in every thread that drops CUDA values"
    OverlappingCopy Hazard "H29" "OVERLAPPING-COPY":
        "source and destination of a copy overlap";
        "undefined";
        "copy through a temporary buffer"
    WriteCombinedRead SpeedNote "H30" "WC-READ":
        "the host reads write-combined memory";
        "such reads bypass the caches";
        "use flags 0 for memory that the host reads: ctx.alloc_pinned_with_flags(n, 0); alloc_pinned is write-combined"
    HiddenSync SpeedNote "H31" "HIDDEN-SYNC":
        "the call can wait for work in flight";
        "drivers wait here although no manual says that they must";
        "move the call out of the loop"
    HostDerefDevice Hazard "H32" "HOST-DEREF-DEVICE":
        "the host used a device address as if it were its own";
        "a segmentation fault on machines without coherent memory";
        "copy the data to the host"
    ProgressRescue Note "H33" "PROGRESS-RESCUE":
        "the program waits without calling the driver, so pending work was run for it";
        "work completes without further calls";
        "nothing, if the wait is intended"
    KernelFault Hazard "H34" "KERNEL-FAULT":
        "a kernel did something that no kernel may do, and was stopped";
        "an error that stays: every later call returns it, and only a new process gets rid of it";
        "check the kernel's arguments and bounds; on a GPU, compute-sanitizer names the same thread and address"
}

impl HazardKind {
    /// The kind of two unordered operations' conflict, `a` enqueued before `b`.
    pub fn of_streams(a: AccessKind, b: AccessKind) -> HazardKind {
        match (a, b) {
            (_, AccessKind::Free) => HazardKind::FreeAsyncUnordered,
            (AccessKind::Free, _) => HazardKind::UseAfterFree,
            (AccessKind::Allocate, _) => HazardKind::UseBeforeAlloc,
            (AccessKind::Write, AccessKind::Read) => HazardKind::StreamRaceRaw,
            (AccessKind::Write, _) => HazardKind::StreamRaceWaw,
            (AccessKind::Read, _) => HazardKind::StreamRaceWar,
        }
    }

    /// The kind of a host access that conflicts with an operation that the host has not waited for.
    pub fn of_touch(write: bool) -> HazardKind {
        if write {
            HazardKind::WriteUnderCopy
        } else {
            HazardKind::ReadBeforeCopy
        }
    }

    /// The kind of an end of memory that an operation still uses.
    pub fn of_free(space: Space) -> HazardKind {
        match space {
            Space::Device | Space::Managed => HazardKind::FreeDeviceInFlight,
            Space::Pinned | Space::Registered => HazardKind::FreeHostInFlight,
        }
    }

    /// The id, H01 to H34.
    pub fn id(self) -> &'static str {
        self.entry().id
    }

    /// The name in capitals.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// How bad it is.
    pub fn severity(self) -> Severity {
        self.entry().severity
    }

    /// One plain sentence about what happened.
    pub fn sentence(self) -> &'static str {
        self.entry().sentence
    }

    /// What real hardware may do.
    pub fn hardware(self) -> &'static str {
        self.entry().hardware
    }

    /// What to do about it, in cudarc's terms.
    pub fn fix(self) -> &'static str {
        self.entry().fix
    }
}

/// One of the two sides of a hazard.
#[derive(Clone, Debug)]
pub enum Party {
    /// An operation.
    Operation {
        /// The operation.
        info: Arc<OpInfo>,
        /// How it touches which bytes, if the hazard is about bytes.
        touches: Option<(AccessKind, Range<u64>)>,
    },
    /// A load or store of the host.
    Touch {
        /// The first byte that was seen to be touched.
        address: u64,
        /// A store?
        write: bool,
        /// The load or store.
        site: Site,
    },
    /// A driver call.
    Call {
        /// The function.
        call: &'static str,
        /// What the call did, or why it was refused, as a sentence without a full stop; may be empty.
        does: String,
        /// The caller.
        site: Site,
    },
}

impl Party {
    /// Where in the program it is.
    pub fn site(&self) -> &Site {
        match self {
            Party::Operation { info, .. } => &info.site,
            Party::Touch { site, .. } | Party::Call { site, .. } => site,
        }
    }
}

/// A wait that ran between two accesses and did not order them.
#[derive(Clone, Debug)]
pub struct UselessWait {
    /// What kind of mistake it is: one of severity [`Severity::Cause`].
    pub cause: HazardKind,
    /// The function.
    pub call: &'static str,
    /// Why it did not help, as the end of a sentence that starts with the call.
    pub because: String,
    /// The caller.
    pub site: Site,
}

/// Something to report.
#[derive(Clone, Debug)]
pub struct Hazard {
    /// What it is.
    pub kind: HazardKind,
    /// The earlier side, if there are two.
    pub a: Option<Party>,
    /// The later side.
    pub b: Option<Party>,
    /// The allocation that it is about.
    pub region: Option<Arc<Region>>,
    /// The most telling wait that did not help.
    pub useless: Option<UselessWait>,
}

impl Hazard {
    /// A hazard of one driver call.
    pub fn of_call(kind: HazardKind, call: &'static str, does: String, site: Site) -> Hazard {
        Hazard {
            kind,
            a: None,
            b: Some(Party::Call { call, does, site }),
            region: None,
            useless: None,
        }
    }

    /// The number of the operation that replays it, if there is one.
    pub fn operation(&self) -> Option<u64> {
        [&self.a, &self.b]
            .into_iter()
            .flatten()
            .find_map(|party| match party {
                Party::Operation { info, .. } => Some(info.op),
                _ => None,
            })
    }

    /// The whole report; `locate` turns a place in the program into `file:line`, `settings` repeat the run.
    pub fn text(&self, settings: &str, locate: &dyn Fn(&Site) -> String) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut text, settings, locate);
        text
    }

    fn write(
        &self,
        out: &mut String,
        settings: &str,
        locate: &dyn Fn(&Site) -> String,
    ) -> fmt::Result {
        let entry = self.kind.entry();
        let note = if entry.severity == Severity::Note {
            "note "
        } else {
            ""
        };
        writeln!(
            out,
            "model: {note}{} {}: {}",
            entry.id, entry.name, entry.sentence
        )?;
        for (letter, party) in [("A", &self.a), ("B", &self.b)] {
            let Some(party) = party else { continue };
            // A letter is only needed where there are two.
            let letter = if self.a.is_some() && self.b.is_some() {
                letter
            } else {
                " "
            };
            self.write_party(out, letter, party, locate)?;
        }
        if let Some(region) = &self.region {
            writeln!(out, "  {region} was allocated at {}", locate(&region.site))?;
        }
        if self.is_race() {
            write!(out, "  Nothing orders B after A.")?;
            if let Some(wait) = &self.useless {
                write!(
                    out,
                    " {} ran in between ({}), but {} ({} {}).",
                    wait.call,
                    locate(&wait.site),
                    wait.because,
                    wait.cause.id(),
                    wait.cause.name()
                )?;
            }
            writeln!(out)?;
        }
        writeln!(out, "  On a GPU: {}.", entry.hardware)?;
        writeln!(out, "  Fix: {}.", entry.fix)?;
        match self.operation() {
            Some(op) => writeln!(out, "  Replay: {settings}, operation {op}."),
            None => writeln!(out, "  Replay: {settings}."),
        }
    }

    /// Is it about two accesses that nothing orders?
    fn is_race(&self) -> bool {
        self.a.is_some()
            && self.b.is_some()
            && self.kind.entry().severity == Severity::Hazard
            && !matches!(
                self.kind,
                HazardKind::DeadHandle
                    | HazardKind::UseAfterFree
                    | HazardKind::GraphStalePointer
                    | HazardKind::PageableSourceEarly
                    | HazardKind::HostFunctionBlocks
            )
    }

    fn write_party(
        &self,
        out: &mut String,
        letter: &str,
        party: &Party,
        locate: &dyn Fn(&Site) -> String,
    ) -> fmt::Result {
        let site = locate(party.site());
        match party {
            Party::Operation { info, touches } => {
                writeln!(
                    out,
                    "  {letter}  {} #{} on {}   {site}",
                    info.call, info.op, info.stream
                )?;
                match touches {
                    Some((kind, range)) => writeln!(out, "     {}", self.touches(*kind, range)),
                    None => writeln!(out, "     {}", info.what),
                }
            }
            Party::Touch { address, write, .. } => {
                let access = if *write { "store" } else { "load" };
                writeln!(out, "  {letter}  a {access} by the host   {site}")?;
                let offset = address.saturating_sub(self.base());
                writeln!(out, "     touches byte {offset} of {}", self.region_name())
            }
            Party::Call { call, does, .. } => {
                writeln!(out, "  {letter}  {call}   {site}")?;
                if does.is_empty() {
                    Ok(())
                } else {
                    writeln!(out, "     {does}")
                }
            }
        }
    }

    fn touches(&self, kind: AccessKind, range: &Range<u64>) -> String {
        let verb = match kind {
            AccessKind::Read => "reads",
            AccessKind::Write => "writes",
            AccessKind::Allocate => "allocates",
            AccessKind::Free => "frees",
        };
        let base = self.base();
        format!(
            "{verb} bytes {}..{} of {}",
            range.start.saturating_sub(base),
            range.end.saturating_sub(base),
            self.region_name()
        )
    }

    fn base(&self) -> u64 {
        self.region.as_ref().map_or(0, |region| region.range.start)
    }

    fn region_name(&self) -> String {
        self.region
            .as_ref()
            .map_or_else(|| "memory".to_owned(), |region| region.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_h01_to_h34_in_order() {
        let ids: Vec<&str> = HazardKind::ALL.iter().map(|kind| kind.id()).collect();
        let expected: Vec<String> = (1..=34).map(|n| format!("H{n:02}")).collect();
        assert_eq!(ids, expected);
    }

    /// The page "The driver model" lists every kind with the sentence that reports use.
    #[test]
    fn the_book_knows_every_kind() {
        let page = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../src/reference/the-model.md"
        );
        let page = std::fs::read_to_string(page).expect("the page is in the repository");
        for kind in HazardKind::ALL {
            let row = page
                .lines()
                .find(|line| line.starts_with(&format!("| {} | {} |", kind.id(), kind.name())))
                .unwrap_or_else(|| panic!("{} is not on the page", kind.id()));
            assert!(row.contains(&kind.sentence()[1..]), "{row}");
        }
    }
}
