//! Who is ordered after whom: vector clocks over streams.
//!
//! Operations of one stream are totally ordered (R1), so "everything up to the n-th operation of stream s" is one number
//! per stream, and a handful of such numbers says everything that an operation is ordered after.
//! Streams that no number mentions have no order with it (R2).

use std::sync::Arc;

/// A stream of the engine; never reused, so a stale one names nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub(crate) u32);

/// The `seq`-th operation of a stream, counted from 1; 0 is the moment before the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    /// The stream.
    pub stream: StreamId,
    /// How many operations of the stream are covered.
    pub seq: u64,
}

/// For each stream, how many of its operations are known to be over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Sorted by stream; streams that are absent have 0.
    entries: Vec<(StreamId, u64)>,
}

impl Clock {
    /// How many operations of `stream` are covered.
    pub fn seq(&self, stream: StreamId) -> u64 {
        match self.entries.binary_search_by_key(&stream, |entry| entry.0) {
            Ok(index) => self.entries[index].1,
            Err(_) => 0,
        }
    }

    /// Is the operation at `point` covered?
    pub fn covers(&self, point: Point) -> bool {
        self.seq(point.stream) >= point.seq
    }

    /// Covers everything up to `point` as well.
    pub fn advance(&mut self, point: Point) {
        if point.seq == 0 {
            return;
        }
        match self
            .entries
            .binary_search_by_key(&point.stream, |entry| entry.0)
        {
            Ok(index) => self.entries[index].1 = self.entries[index].1.max(point.seq),
            Err(index) => self.entries.insert(index, (point.stream, point.seq)),
        }
    }

    /// Covers everything that `other` covers as well.
    pub fn join(&mut self, other: &Clock) {
        for &(stream, seq) in &other.entries {
            self.advance(Point { stream, seq });
        }
    }

    /// Forgets what `known` covers too: the result says only what is news.
    pub fn subtract(&mut self, known: &Clock) {
        self.entries
            .retain(|&(stream, seq)| !known.covers(Point { stream, seq }));
    }
}

/// The moment of one operation: its own place and everything that it is ordered after.
#[derive(Clone, Debug)]
pub struct Stamp {
    /// The operation's own place in its stream.
    pub point: Point,
    /// What it is ordered after on other streams; shared by all operations between two waits.
    pub before: Arc<Clock>,
}

impl Stamp {
    /// Is the operation at `point` this one, or ordered before it?
    pub fn covers(&self, point: Point) -> bool {
        if point.stream == self.point.stream {
            point.seq <= self.point.seq
        } else {
            self.before.covers(point)
        }
    }

    /// Adds everything that this moment is ordered after, itself included, to `clock`.
    pub fn join_into(&self, clock: &mut Clock) {
        clock.join(&self.before);
        clock.advance(self.point);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(stream: u32, seq: u64) -> Point {
        Point {
            stream: StreamId(stream),
            seq,
        }
    }

    #[test]
    fn a_clock_covers_what_it_was_advanced_to() {
        let mut clock = Clock::default();
        clock.advance(at(2, 5));
        clock.advance(at(1, 3));
        clock.advance(at(2, 4));
        assert!(clock.covers(at(2, 5)) && clock.covers(at(1, 3)) && clock.covers(at(9, 0)));
        assert!(!clock.covers(at(2, 6)) && !clock.covers(at(9, 1)));
    }

    #[test]
    fn subtracting_keeps_only_news() {
        let mut clock = Clock::default();
        clock.advance(at(1, 3));
        clock.advance(at(2, 5));
        let mut known = Clock::default();
        known.advance(at(1, 3));
        known.advance(at(2, 4));
        clock.subtract(&known);
        assert_eq!(clock.seq(StreamId(1)), 0);
        assert_eq!(clock.seq(StreamId(2)), 5);
    }

    #[test]
    fn a_stamp_covers_its_own_stream_up_to_itself() {
        let mut before = Clock::default();
        before.advance(at(2, 7));
        let stamp = Stamp {
            point: at(1, 4),
            before: Arc::new(before),
        };
        assert!(stamp.covers(at(1, 4)) && stamp.covers(at(2, 7)));
        assert!(!stamp.covers(at(1, 5)) && !stamp.covers(at(2, 8)));
    }
}
