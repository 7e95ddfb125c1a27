//! What a missing wait looks like in words.

use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::Arc;

use crate::op::{AccessKind, OpInfo, Site};
use crate::region::Region;

/// The hazards that the model reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HazardKind {
    /// H01: the host reads bytes that a pending operation will write.
    ReadBeforeCopy,
    /// H02: the host writes bytes that a pending operation reads or writes.
    WriteUnderCopy,
    /// H03: page-locked memory is freed while an operation on it is pending.
    FreeHostInFlight,
    /// H04: device memory is freed, not in stream order, while an operation on it is pending.
    FreeDeviceInFlight,
    /// H05: a stream-ordered free is not ordered after an operation of another stream.
    FreeAsyncUnordered,
    /// H08: a reader is not ordered after the writer.
    StreamRaceRaw,
    /// H09: a writer is not ordered after the reader.
    StreamRaceWar,
    /// H10: two writers are not ordered.
    StreamRaceWaw,
}

/// The fixed words of one kind of hazard.
struct Entry {
    id: &'static str,
    name: &'static str,
    sentence: &'static str,
    hardware: &'static str,
    fix: &'static str,
}

impl HazardKind {
    /// All kinds, by id.
    pub const ALL: [HazardKind; 8] = [
        HazardKind::ReadBeforeCopy,
        HazardKind::WriteUnderCopy,
        HazardKind::FreeHostInFlight,
        HazardKind::FreeDeviceInFlight,
        HazardKind::FreeAsyncUnordered,
        HazardKind::StreamRaceRaw,
        HazardKind::StreamRaceWar,
        HazardKind::StreamRaceWaw,
    ];

    fn entry(self) -> Entry {
        match self {
            HazardKind::ReadBeforeCopy => Entry {
                id: "H01",
                name: "READ-BEFORE-COPY",
                sentence: "the host read pinned memory that a pending operation will write",
                hardware: "the read sees old bytes, new bytes or a mixture; a small copy tends to finish first and hide the bug",
                fix: "wait before the read: stream.synchronize()?, or event.synchronize()? on an event recorded after the copy",
            },
            HazardKind::WriteUnderCopy => Entry {
                id: "H02",
                name: "WRITE-UNDER-COPY",
                sentence: "the host wrote pinned memory that a pending operation still uses",
                hardware: "the copy takes old bytes, new bytes or a mixture; a small copy tends to finish first and hide the bug",
                fix: "wait for the copy before refilling the buffer (stream.synchronize()?, or an event recorded after the copy), or refill another buffer",
            },
            HazardKind::FreeHostInFlight => Entry {
                id: "H03",
                name: "FREE-HOST-IN-FLIGHT",
                sentence: "pinned memory was freed while a pending operation still uses it",
                hardware: "a driver that waits in the free hides the bug; no manual promises that wait",
                fix: "wait for the operation before dropping the buffer: stream.synchronize()?",
            },
            HazardKind::FreeDeviceInFlight => Entry {
                id: "H04",
                name: "FREE-DEVICE-IN-FLIGHT",
                sentence: "device memory was freed while a pending operation still uses it",
                hardware: "cuMemFree may wait and hide the bug; the manual only says that it may",
                fix: "wait for the operation before the free, or free in stream order (cuMemFreeAsync) after an event",
            },
            HazardKind::FreeAsyncUnordered => Entry {
                id: "H05",
                name: "FREE-ASYNC-UNORDERED",
                sentence: "a stream-ordered free is not ordered after an operation of another stream",
                hardware: "the block can be handed to the next allocation while the operation still uses it",
                fix: "let the freeing stream wait first: freeing.join(&other)?, and keep the other stream alive longer than its slices",
            },
            HazardKind::StreamRaceRaw => Entry {
                id: "H08",
                name: "STREAM-RACE-RAW",
                sentence: "an operation reads bytes that an unordered operation writes",
                hardware: "the reader sees old bytes, new bytes or a mixture",
                fix: "record an event after the writer and let the reader's stream wait for it: reader.wait(&writer.record_event(None)?)?",
            },
            HazardKind::StreamRaceWar => Entry {
                id: "H09",
                name: "STREAM-RACE-WAR",
                sentence: "an operation overwrites bytes that an unordered operation reads",
                hardware: "the reader sees old bytes, new bytes or a mixture",
                fix: "record an event after the reader and let the writer's stream wait for it: writer.wait(&reader.record_event(None)?)?",
            },
            HazardKind::StreamRaceWaw => Entry {
                id: "H10",
                name: "STREAM-RACE-WAW",
                sentence: "two unordered operations write the same bytes",
                hardware: "either write can be the one that stays, or parts of both",
                fix: "record an event after the first writer and let the second writer's stream wait for it",
            },
        }
    }

    /// The kind of two unordered operations' conflict, `a` enqueued before `b`.
    pub fn of_streams(a: AccessKind, b: AccessKind) -> HazardKind {
        match (a.is_write(), b) {
            (_, AccessKind::Free) => HazardKind::FreeAsyncUnordered,
            (true, AccessKind::Read) => HazardKind::StreamRaceRaw,
            (true, AccessKind::Write) => HazardKind::StreamRaceWaw,
            (false, _) => HazardKind::StreamRaceWar,
        }
    }

    /// The id, H01 to H33.
    pub fn id(self) -> &'static str {
        self.entry().id
    }

    /// The name in capitals.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// One plain sentence about what happened.
    pub fn sentence(self) -> &'static str {
        self.entry().sentence
    }

    /// What to do about it, in cudarc's terms.
    pub fn fix(self) -> &'static str {
        self.entry().fix
    }
}

/// The later of the two accesses of a hazard.
#[derive(Clone, Debug)]
pub enum Later {
    /// An operation that was just enqueued.
    Operation {
        /// The operation.
        info: Arc<OpInfo>,
        /// How it touches the bytes.
        kind: AccessKind,
        /// The bytes.
        range: Range<u64>,
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
    /// A driver call that takes effect at once, such as cuMemFree.
    Call {
        /// The function.
        call: &'static str,
        /// The caller.
        site: Site,
    },
}

impl Later {
    /// Where in the program it is.
    pub fn site(&self) -> &Site {
        match self {
            Later::Operation { info, .. } => &info.site,
            Later::Touch { site, .. } | Later::Call { site, .. } => site,
        }
    }
}

/// A wait that ran between the two accesses and did not order them.
#[derive(Clone, Debug)]
pub struct UselessWait {
    /// The function.
    pub call: &'static str,
    /// Why it did not help, as the end of a sentence that starts with the call.
    pub because: String,
    /// The caller.
    pub site: Site,
}

/// Two conflicting accesses that nothing orders.
#[derive(Clone, Debug)]
pub struct Hazard {
    /// What it is.
    pub kind: HazardKind,
    /// The earlier operation.
    pub a: Arc<OpInfo>,
    /// How the earlier operation touches the bytes.
    pub a_kind: AccessKind,
    /// The bytes that the earlier operation touches.
    pub a_range: Range<u64>,
    /// The later access.
    pub b: Later,
    /// The allocation that both touch.
    pub region: Option<Arc<Region>>,
    /// The nearest wait that did not help.
    pub useless: Option<UselessWait>,
    /// The settings that repeat the run.
    pub replay: String,
}

impl Hazard {
    /// The whole report; `locate` turns a place in the program into `file:line`.
    pub fn text(&self, locate: &dyn Fn(&Site) -> String) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut text, locate);
        text
    }

    fn write(&self, out: &mut String, locate: &dyn Fn(&Site) -> String) -> fmt::Result {
        let kind = self.kind;
        writeln!(
            out,
            "model: {} {}: {}",
            kind.id(),
            kind.name(),
            kind.sentence()
        )?;
        writeln!(
            out,
            "  A  {} #{} on {}   {}",
            self.a.call,
            self.a.op,
            self.a.stream,
            locate(&self.a.site)
        )?;
        writeln!(out, "     {}", self.touches(self.a_kind, &self.a_range))?;
        match &self.b {
            Later::Operation { info, kind, range } => {
                writeln!(
                    out,
                    "  B  {} #{} on {}   {}",
                    info.call,
                    info.op,
                    info.stream,
                    locate(&info.site)
                )?;
                writeln!(out, "     {}", self.touches(*kind, range))?;
            }
            Later::Touch {
                address,
                write,
                site,
            } => {
                let access = if *write { "store" } else { "load" };
                writeln!(out, "  B  a {access} by the host   {}", locate(site))?;
                let offset = address.saturating_sub(self.base());
                writeln!(out, "     touches byte {offset} of {}", self.region_name())?;
            }
            Later::Call { call, site } => {
                writeln!(out, "  B  {call}   {}", locate(site))?;
                writeln!(out, "     ends the life of {}", self.region_name())?;
            }
        }
        if let Some(region) = &self.region {
            writeln!(out, "  {region} was allocated at {}", locate(&region.site))?;
        }
        write!(out, "  Nothing orders B after A.")?;
        if let Some(wait) = &self.useless {
            write!(
                out,
                " {} ran in between ({}), but {}.",
                wait.call,
                locate(&wait.site),
                wait.because
            )?;
        }
        writeln!(out)?;
        let entry = kind.entry();
        writeln!(out, "  On a GPU: {}.", entry.hardware)?;
        writeln!(out, "  Fix: {}.", entry.fix)?;
        writeln!(out, "  Replay: {}, operation {}.", self.replay, self.a.op)
    }

    fn touches(&self, kind: AccessKind, range: &Range<u64>) -> String {
        let verb = match kind {
            AccessKind::Read => "reads",
            AccessKind::Write => "writes",
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
