//! Which operations touched which bytes, for as long as the host has not waited for them.
//!
//! A race is two conflicting accesses that nothing orders.
//! An access leaves the ledger when it is past: the host has waited for it, so that everything that is enqueued later is
//! ordered after it, and so is everything pending that may still touch anything.
//! It also leaves when a later access of the same bytes stands for it: whoever is ordered after the later one is ordered
//! after the earlier one too.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::clock::Stamp;
use crate::late::Horizon;
use crate::op::{Access, AccessKind, OpInfo};

/// One remembered access.
#[derive(Clone, Debug)]
pub struct Entry {
    /// When it happens.
    pub stamp: Stamp,
    /// How it touches the bytes.
    pub kind: AccessKind,
    /// All the bytes of the access, of which the ledger's segment may be a part.
    pub range: Range<u64>,
    /// What reports say about the operation.
    pub info: Arc<OpInfo>,
}

impl Entry {
    fn same_access(&self, other: &Entry) -> bool {
        self.info.op == other.info.op && self.kind == other.kind && self.range == other.range
    }
}

#[derive(Clone, Debug)]
struct Segment {
    end: u64,
    entries: Vec<Entry>,
}

impl Segment {
    fn same_entries(&self, other: &Segment) -> bool {
        self.entries.len() == other.entries.len()
            && self
                .entries
                .iter()
                .zip(&other.entries)
                .all(|(a, b)| a.same_access(b))
    }
}

/// The accesses of device and pinned memory that the host has not waited for.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Disjoint segments by first byte; within one, all bytes have the same history.
    segments: BTreeMap<u64, Segment>,
    /// Segments left over by the last sweep: the next one is due at twice as many.
    swept: usize,
}

impl Ledger {
    /// The remembered accesses that overlap `range`, conflict with an access of `kind`, and are not `ordered` before it.
    ///
    /// Each access appears once, in the order of the operations.
    pub fn conflicts(
        &self,
        range: &Range<u64>,
        kind: AccessKind,
        ordered: impl Fn(&Entry) -> bool,
    ) -> Vec<Entry> {
        let mut found: Vec<Entry> = Vec::new();
        for entry in self.touching(range, kind) {
            if !ordered(entry) && !found.iter().any(|known| known.same_access(entry)) {
                found.push(entry.clone());
            }
        }
        found.sort_by_key(|entry| entry.info.op);
        found
    }

    /// The remembered accesses that overlap `range` and conflict with an access of `kind`, once for each stretch of bytes.
    pub fn touching(&self, range: &Range<u64>, kind: AccessKind) -> impl Iterator<Item = &Entry> {
        self.overlapping(range)
            .flat_map(|(_, segment)| &segment.entries)
            .filter(move |entry| kind.is_write() || entry.kind.is_write())
    }

    /// Remembers `access`; what is past is dropped on the way.
    pub fn record(&mut self, access: &Access, stamp: &Stamp, info: &Arc<OpInfo>, horizon: Horizon) {
        if access.range.is_empty() {
            return;
        }
        let new = Entry {
            stamp: stamp.clone(),
            kind: access.kind,
            range: access.range.clone(),
            info: info.clone(),
        };
        self.split_at(access.range.start);
        self.split_at(access.range.end);
        let covered: Vec<u64> = self
            .segments
            .range(access.range.clone())
            .map(|(&start, _)| start)
            .collect();
        let mut pieces: Vec<(u64, Segment)> = Vec::with_capacity(covered.len() + 1);
        let mut position = access.range.start;
        for start in covered {
            let Some(mut segment) = self.segments.remove(&start) else {
                continue;
            };
            if position < start {
                push_merged(&mut pieces, position, start, vec![new.clone()]);
            }
            segment
                .entries
                .retain(|old| !stands_for(&new, old, horizon) && !horizon.is_past(old.stamp.point));
            // Accesses that come late find some that are ordered after them.
            if !segment
                .entries
                .iter()
                .any(|later| stands_for(later, &new, horizon))
            {
                segment.entries.push(new.clone());
            }
            position = segment.end;
            push_merged(&mut pieces, start, segment.end, segment.entries);
        }
        if position < access.range.end {
            push_merged(&mut pieces, position, access.range.end, vec![new]);
        }
        self.segments.extend(pieces);
        if self.segments.len() > 64 + 2 * self.swept {
            self.sweep(horizon);
        }
    }

    /// Forgets everything about `range`: its bytes are gone.
    pub fn forget(&mut self, range: &Range<u64>) {
        self.split_at(range.start);
        self.split_at(range.end);
        let gone: Vec<u64> = self
            .segments
            .range(range.clone())
            .map(|(&start, _)| start)
            .collect();
        for start in gone {
            self.segments.remove(&start);
        }
    }

    fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = (&u64, &Segment)> {
        let first = self
            .segments
            .range(..=range.start)
            .next_back()
            .filter(|(_, segment)| segment.end > range.start)
            .map_or(range.start, |(&start, _)| start);
        // An empty range touches nothing, even inside a segment.
        let end = if range.is_empty() { first } else { range.end };
        self.segments.range(first..end)
    }

    fn split_at(&mut self, address: u64) {
        let Some((_, segment)) = self.segments.range_mut(..address).next_back() else {
            return;
        };
        if segment.end > address {
            let tail = Segment {
                end: segment.end,
                entries: segment.entries.clone(),
            };
            segment.end = address;
            self.segments.insert(address, tail);
        }
    }

    fn sweep(&mut self, horizon: Horizon) {
        self.segments.retain(|_, segment| {
            segment
                .entries
                .retain(|entry| !horizon.is_past(entry.stamp.point));
            !segment.entries.is_empty()
        });
        self.swept = self.segments.len();
    }
}

/// Does whoever races with `earlier` race with `later` as well?
fn stands_for(later: &Entry, earlier: &Entry, horizon: Horizon) -> bool {
    later.stamp.covers(earlier.stamp.point)
        && (later.kind.is_write() || !earlier.kind.is_write())
        && horizon.late.lets_stand(&later.stamp, &earlier.stamp)
}

/// Appends a segment, or lengthens the last one when it ends here with the same history.
fn push_merged(pieces: &mut Vec<(u64, Segment)>, start: u64, end: u64, entries: Vec<Entry>) {
    let segment = Segment { end, entries };
    match pieces.last_mut() {
        Some((_, last)) if last.end == start && last.same_entries(&segment) => last.end = end,
        _ => pieces.push((start, segment)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, Point, StreamId};
    use crate::late::Late;
    use crate::op::{Site, What};

    struct Book {
        ledger: Ledger,
        host: Clock,
        op: u64,
    }

    impl Book {
        fn new() -> Book {
            Book {
                ledger: Ledger::default(),
                host: Clock::default(),
                op: 0,
            }
        }

        fn access(&mut self, stream: u32, seq: u64, range: Range<u64>, kind: AccessKind) -> Stamp {
            self.op += 1;
            let stamp = Stamp {
                point: Point {
                    stream: StreamId(stream),
                    seq,
                },
                before: Arc::default(),
            };
            let info = Arc::new(OpInfo {
                op: self.op,
                call: "test",
                stream: "stream".into(),
                what: What::HostFunction,
                site: Site::default(),
            });
            let horizon = Horizon {
                host: &self.host,
                late: &Late::default(),
            };
            self.ledger
                .record(&Access { range, kind }, &stamp, &info, horizon);
            stamp
        }

        /// The numbers of the operations that race with an access of `kind` by the host.
        fn races(&self, range: Range<u64>, kind: AccessKind) -> Vec<u64> {
            self.ledger
                .conflicts(&range, kind, |entry| self.host.covers(entry.stamp.point))
                .iter()
                .map(|entry| entry.info.op)
                .collect()
        }
    }

    use AccessKind::{Read, Write};

    #[test]
    fn only_overlapping_conflicting_unordered_accesses_race() {
        let mut book = Book::new();
        book.access(1, 1, 0..100, Write);
        book.access(2, 1, 200..300, Read);
        assert_eq!(book.races(0..10, Read), [1]);
        assert_eq!(book.races(99..201, Write), [1, 2]);
        assert_eq!(book.races(100..200, Write), [0; 0]);
        assert_eq!(book.races(250..251, Read), [0; 0]);
        assert_eq!(book.races(50..50, Write), [0; 0]);
        book.host.advance(Point {
            stream: StreamId(1),
            seq: 1,
        });
        assert_eq!(book.races(99..201, Write), [2]);
    }

    #[test]
    fn a_later_access_of_the_same_stream_stands_for_the_earlier_one_only_where_it_covers_it() {
        let mut book = Book::new();
        book.access(1, 1, 0..100, Write);
        book.access(1, 2, 0..50, Write);
        assert_eq!(book.races(0..100, Read), [1, 2]);
        assert_eq!(book.races(0..50, Read), [2]);
        // A read does not stand for the write before it: a reader conflicts with the write alone.
        book.access(1, 3, 0..100, Read);
        assert_eq!(book.races(60..70, Read), [1]);
        assert_eq!(book.races(60..70, Write), [1, 3]);
    }

    #[test]
    fn many_small_accesses_collapse_under_one_large_one() {
        let mut book = Book::new();
        for n in 0..1000 {
            book.access(1, n + 1, n * 4..n * 4 + 4, Write);
        }
        assert_eq!(book.ledger.segments.len(), 1000);
        book.access(1, 1001, 0..4000, Write);
        assert_eq!(book.ledger.segments.len(), 1);
        assert_eq!(book.races(0..4000, Read), [1001]);
    }

    #[test]
    fn waited_for_accesses_do_not_accumulate() {
        let mut book = Book::new();
        for n in 0..10_000 {
            let stamp = book.access(1, n + 1, n * 8..n * 8 + 4, Write);
            stamp.join_into(&mut book.host);
        }
        assert!(
            book.ledger.segments.len() <= 66,
            "{}",
            book.ledger.segments.len()
        );
    }

    #[test]
    fn freed_bytes_are_forgotten_and_their_neighbours_are_not() {
        let mut book = Book::new();
        book.access(1, 1, 0..300, Write);
        book.ledger.forget(&(100..200));
        assert_eq!(book.races(100..200, Write), [0; 0]);
        assert_eq!(book.races(0..100, Read), [1]);
        assert_eq!(book.races(200..201, Read), [1]);
    }

    /// The ledger must find a race exactly where a list of all accesses, kept forever, finds one.
    #[test]
    fn agrees_with_a_list_that_forgets_nothing() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..300 {
            let mut book = Book::new();
            let mut all: Vec<(Stamp, AccessKind, Range<u64>)> = Vec::new();
            let mut seqs = [0u64; 3];
            for _ in 0..40 {
                let stream = rng.usize(..3);
                seqs[stream] += 1;
                let start = rng.u64(..24);
                let range = start..start + rng.u64(1..12);
                let kind = if rng.bool() { Read } else { Write };
                let stamp = book.access(stream as u32, seqs[stream], range.clone(), kind);
                all.push((stamp, kind, range));
                if rng.u32(..8) == 0 {
                    let waited = rng.usize(..all.len());
                    all[waited].0.join_into(&mut book.host);
                }
                let probe = rng.u64(..36);
                let kind = if rng.bool() { Read } else { Write };
                let expected = all.iter().any(|(stamp, other, range)| {
                    range.contains(&probe)
                        && (kind.is_write() || other.is_write())
                        && !book.host.covers(stamp.point)
                });
                assert_eq!(!book.races(probe..probe + 1, kind).is_empty(), expected);
            }
        }
    }
}
