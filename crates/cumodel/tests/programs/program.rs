//! Small random programs, written down so that a person can read them.

use std::fmt;

use fastrand::Rng;

/// Streams of a program.
pub const STREAMS: usize = 3;
/// Buffers of a program; the last one is pinned, the others are device memory.
pub const BUFFERS: usize = 3;
/// The pinned buffer.
pub const PINNED: usize = BUFFERS - 1;
/// Bytes of a buffer.
pub const CELLS: usize = 4;
/// Events that a random program uses; repairs can add more.
const EVENTS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    NonBlocking,
    Blocking,
    Legacy,
}

/// Some bytes of one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub buffer: usize,
    pub start: usize,
    pub len: usize,
}

impl Span {
    pub fn overlaps(self, other: Span) -> bool {
        self.buffer == other.buffer
            && self.start < other.start + other.len
            && other.start < self.start + self.len
    }
}

/// One call of the driver, or one load or store of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    Copy {
        stream: usize,
        from: Span,
        to: Span,
    },
    /// A copy by a kernel: which bytes it touches is not known before it has run, and it runs in one piece.
    Kernel {
        stream: usize,
        from: Span,
        to: Span,
    },
    Fill {
        stream: usize,
        to: Span,
        value: u8,
    },
    Record {
        event: usize,
        stream: usize,
    },
    Wait {
        stream: usize,
        event: usize,
    },
    SyncStream(usize),
    SyncEvent(usize),
    SyncContext,
    Load(usize),
    Store(usize, u8),
}

impl Line {
    /// The bytes that it touches, and whether it writes them.
    pub fn accesses(self) -> Vec<(Span, bool)> {
        let cell = |start| Span {
            buffer: PINNED,
            start,
            len: 1,
        };
        match self {
            Line::Copy { from, to, .. } | Line::Kernel { from, to, .. } => {
                vec![(from, false), (to, true)]
            }
            Line::Fill { to, .. } => vec![(to, true)],
            Line::Load(start) => vec![(cell(start), false)],
            Line::Store(start, _) => vec![(cell(start), true)],
            _ => Vec::new(),
        }
    }

    /// The stream that it is enqueued in; none for what the host does itself.
    pub fn stream(self) -> Option<usize> {
        match self {
            Line::Copy { stream, .. }
            | Line::Kernel { stream, .. }
            | Line::Fill { stream, .. }
            | Line::Record { stream, .. }
            | Line::Wait { stream, .. } => Some(stream),
            _ => None,
        }
    }

    /// Can it be one end of an edge between two accesses?
    pub fn is_edge(self) -> bool {
        matches!(
            self,
            Line::Record { .. }
                | Line::Wait { .. }
                | Line::SyncStream(_)
                | Line::SyncEvent(_)
                | Line::SyncContext
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub kinds: [Kind; STREAMS],
    pub lines: Vec<Line>,
}

impl Program {
    /// A program of `length` lines; nothing orders its accesses but chance.
    pub fn random(rng: &mut Rng, length: usize) -> Program {
        use Kind::{Blocking, Legacy, NonBlocking};
        let kinds = match rng.u8(..10) {
            0 => [Legacy, Blocking, NonBlocking],
            1 => [Legacy, Blocking, Blocking],
            2 => [Blocking, Blocking, NonBlocking],
            _ => [NonBlocking; STREAMS],
        };
        let lines = (0..length).map(|index| random_line(rng, index)).collect();
        Program { kinds, lines }
    }

    /// How many events it names.
    pub fn events(&self) -> usize {
        let named = self.lines.iter().map(|line| match line {
            Line::Record { event, .. } | Line::Wait { event, .. } | Line::SyncEvent(event) => {
                event + 1
            }
            _ => 0,
        });
        named.max().unwrap_or(0)
    }

    pub fn without(&self, line: usize) -> Program {
        let mut rest = self.clone();
        rest.lines.remove(line);
        rest
    }

    /// Removes lines for as long as `fails` holds: what is left is easier to read.
    pub fn shrink(&self, fails: impl Fn(&Program) -> bool) -> Program {
        let mut small = self.clone();
        let mut index = 0;
        while index < small.lines.len() {
            let smaller = small.without(index);
            if fails(&smaller) {
                small = smaller;
                index = 0;
            } else {
                index += 1;
            }
        }
        small
    }

    /// Makes `second`, which conflicts with the earlier `first`, come after it, in one of the ways that CUDA has.
    pub fn order(&mut self, rng: &mut Rng, first: usize, second: usize) {
        let Some(stream) = self.lines[first].stream() else {
            unreachable!("what the host did is before everything that it does later");
        };
        // Sometimes an event that is in use already, whose next record then covers more than was meant.
        let event = if rng.u8(..3) == 0 {
            rng.usize(..EVENTS)
        } else {
            self.events()
        };
        let record = Line::Record { event, stream };
        let early = rng.bool();
        let wait = match self.lines[second].stream() {
            Some(waiter) if rng.u8(..3) != 0 => Line::Wait {
                stream: waiter,
                event,
            },
            _ => match rng.u8(..4) {
                0 => return self.lines.insert(second, Line::SyncContext),
                1 => return self.lines.insert(second, Line::SyncStream(stream)),
                _ => Line::SyncEvent(event),
            },
        };
        self.lines.insert(second, wait);
        let at = if early { first + 1 } else { second };
        self.lines.insert(at, record);
    }
}

fn random_line(rng: &mut Rng, index: usize) -> Line {
    let stream = rng.usize(..STREAMS);
    let event = rng.usize(..EVENTS);
    let value = 100 + index as u8;
    match rng.u8(..20) {
        0..=4 => random_copy(rng, stream),
        5..=8 => Line::Fill {
            stream,
            to: random_span(rng),
            value,
        },
        9..=10 => Line::Record { event, stream },
        11..=13 => Line::Wait { stream, event },
        14 => Line::SyncStream(stream),
        15 => Line::SyncEvent(event),
        16 if rng.bool() => Line::SyncContext,
        16..=17 => Line::Load(rng.usize(..CELLS)),
        _ => Line::Store(rng.usize(..CELLS), value),
    }
}

fn random_copy(rng: &mut Rng, stream: usize) -> Line {
    let from = random_span(rng);
    loop {
        let start = rng.usize(..=CELLS - from.len);
        let to = Span {
            buffer: rng.usize(..BUFFERS),
            start,
            len: from.len,
        };
        if !from.overlaps(to) {
            return if rng.u8(..5) < 2 {
                Line::Kernel { stream, from, to }
            } else {
                Line::Copy { stream, from, to }
            };
        }
    }
}

fn random_span(rng: &mut Rng) -> Span {
    let len = rng.usize(1..=CELLS);
    Span {
        buffer: rng.usize(..BUFFERS),
        start: rng.usize(..=CELLS - len),
        len,
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, end) = (self.start, self.start + self.len);
        if self.buffer == PINNED {
            write!(f, "pinned[{start}..{end}]")
        } else {
            write!(f, "device{}[{start}..{end}]", self.buffer)
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Copy { stream, from, to } => write!(f, "copy {from} to {to} on stream {stream}"),
            Line::Kernel { stream, from, to } => {
                write!(f, "let a kernel copy {from} to {to} on stream {stream}")
            }
            Line::Fill { stream, to, value } => {
                write!(f, "fill {to} with {value} on stream {stream}")
            }
            Line::Record { event, stream } => write!(f, "record event {event} on stream {stream}"),
            Line::Wait { stream, event } => write!(f, "let stream {stream} wait for event {event}"),
            Line::SyncStream(stream) => write!(f, "synchronize stream {stream}"),
            Line::SyncEvent(event) => write!(f, "synchronize event {event}"),
            Line::SyncContext => f.write_str("synchronize the context"),
            Line::Load(cell) => write!(f, "load pinned[{cell}]"),
            Line::Store(cell, value) => write!(f, "store {value} to pinned[{cell}]"),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "streams: {:?}", self.kinds)?;
        for (index, line) in self.lines.iter().enumerate() {
            writeln!(f, "{index:3}  {line}")?;
        }
        Ok(())
    }
}
