//! What an operation is: the call that made it, the bytes it touches, the effect it has.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::region::{Region, Space};

/// The number of an operation, in the order of the API calls, counted from 1.
pub type OpId = u64;

/// Where in the program something happened: return addresses, innermost first.
///
/// The engine only carries them; whoever prints a report turns them into file and line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site(pub Arc<[usize]>);

/// How an operation touches a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// Only reads.
    Read,
    /// Writes.
    Write,
    /// Begins the life of the bytes (a stream-ordered allocation).
    Allocate,
    /// Ends the life of the bytes (a stream-ordered free).
    Free,
}

impl AccessKind {
    /// Does it change the bytes? Two accesses conflict when either does.
    pub fn is_write(self) -> bool {
        self != AccessKind::Read
    }
}

/// One range of bytes that an operation touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The addresses.
    pub range: Range<u64>,
    /// What happens to them.
    pub kind: AccessKind,
}

/// One end of a copy, in the words of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Inside an allocation of the model.
    Region {
        /// The kind of memory.
        space: Space,
        /// The allocation's number.
        number: u32,
    },
    /// Ordinary host memory.
    Pageable,
}

impl Place {
    /// The place of an allocation.
    pub fn of(region: &Region) -> Place {
        Place::Region {
            space: region.space,
            number: region.number,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Region { space, number } => write!(f, "{space} #{number}"),
            Place::Pageable => f.write_str("pageable memory"),
        }
    }
}

/// What an operation does, in the words of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A copy.
    Copy {
        /// Bytes copied.
        bytes: u64,
        /// Source.
        from: Place,
        /// Destination.
        to: Place,
    },
    /// A memset.
    Fill {
        /// Bytes written.
        bytes: u64,
        /// Destination.
        to: Place,
    },
    /// The record of an event, by number.
    Record(u32),
    /// A stream's wait for an event, by number.
    Wait(u32),
    /// A kernel.
    Kernel {
        /// Its name in the module.
        name: Arc<str>,
        /// Blocks of the grid.
        grid: [u32; 3],
        /// Threads of a block.
        block: [u32; 3],
    },
    /// The move of managed memory that a prefetch or an attachment asks for.
    Migrate(Place),
    /// The start or the end of a graph's launch.
    Graph(&'static str),
    /// A host function.
    HostFunction,
    /// A stream-ordered allocation.
    Allocate(Place),
    /// A stream-ordered free.
    Free(Place),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Copy { bytes, from, to } => write!(f, "copy {} {from} → {to}", Bytes(*bytes)),
            What::Fill { bytes, to } => write!(f, "fill {} {to}", Bytes(*bytes)),
            What::Record(event) => write!(f, "record event {event}"),
            What::Wait(event) => write!(f, "wait for event {event}"),
            What::Kernel { name, grid, block } => {
                write!(
                    f,
                    "kernel {name}, {} × {} threads",
                    Extent(*grid),
                    Extent(*block)
                )
            }
            What::Migrate(place) => write!(f, "migrate {place}"),
            What::Graph(what) => write!(f, "graph {what}"),
            What::HostFunction => f.write_str("host function"),
            What::Allocate(place) => write!(f, "allocate {place}"),
            What::Free(place) => write!(f, "free {place}"),
        }
    }
}

/// The size of a grid or a block: trailing ones are left out.
struct Extent([u32; 3]);

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [x, 1, 1] => write!(f, "{x}"),
            [x, y, 1] => write!(f, "({x}, {y})"),
            [x, y, z] => write!(f, "({x}, {y}, {z})"),
        }
    }
}

/// A number of bytes as people write it: 4 MiB when it is exact, bytes otherwise.
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
            if self.0 >= 1 << shift && self.0.is_multiple_of(1 << shift) {
                return write!(f, "{} {unit}", self.0 >> shift);
            }
        }
        write!(f, "{} bytes", self.0)
    }
}

/// What reports say about an operation; outlives the operation itself.
#[derive(Debug)]
pub struct OpInfo {
    /// Its number.
    pub op: OpId,
    /// The driver function that enqueued it.
    pub call: &'static str,
    /// The name of its stream.
    pub stream: Arc<str>,
    /// What it does.
    pub what: What,
    /// The caller.
    pub site: Site,
}

/// How the program can tell when an operation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Only by a race on its bytes.
    ByRace,
    /// In ways that the engine does not see: it is a function of the program, or touches pageable memory.
    Always,
}

/// An operation to enqueue.
#[derive(Debug)]
pub struct Spec<E> {
    /// The driver function.
    pub call: &'static str,
    /// What it does, for reports.
    pub what: What,
    /// The bytes of device and pinned memory that it touches.
    ///
    /// Pageable memory is left out: the program frees and reuses it without telling the driver, so an address says
    /// nothing about identity, and a report on it could be false.
    pub accesses: Vec<Access>,
    /// For an operation that shows what it touches only by running, as a kernel does: the allocations that it can be
    /// expected to touch. It has no other `accesses`, and [`Engine::complete_late`](crate::Engine::complete_late) tells
    /// them.
    pub late: Option<Vec<Range<u64>>>,
    /// What the caller performs when the operation runs.
    pub effect: E,
    /// What an exploration has to know.
    pub visibility: Visibility,
    /// The caller.
    pub site: Site,
}

impl<E> Spec<E> {
    /// An operation that touches no bytes and has only a place in the order.
    pub fn bare(call: &'static str, what: What, site: Site, effect: E) -> Spec<E> {
        Spec {
            call,
            what,
            accesses: Vec::new(),
            late: None,
            effect,
            site,
            visibility: Visibility::ByRace,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_in_the_largest_exact_unit() {
        let write = |bytes| Bytes(bytes).to_string();
        assert_eq!(write(0), "0 bytes");
        assert_eq!(write(4), "4 bytes");
        assert_eq!(write(4096), "4 KiB");
        assert_eq!(write(4097), "4097 bytes");
        assert_eq!(write(64 << 20), "64 MiB");
        assert_eq!(write(3 << 30), "3 GiB");
    }
}
