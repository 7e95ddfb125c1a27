//! What must be remembered as long as operations are pending that show what they touch only by running.
//!
//! A copy says at its call which bytes it touches, so a race is found at the call of the later operation.
//! A kernel does not: its accesses come when it has run, and by then the other side of a race can be past in every
//! other respect: the host has waited for it, a later access stands for it, its memory has been freed.
//! This module keeps what such an operation can still race with, and nothing once no such operation is pending.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::clock::{Clock, Point, Stamp, StreamId};
use crate::ledger::Entry;
use crate::op::{Access, OpId, OpInfo, Site};
use crate::region::Region;

/// How many host accesses are remembered.
const REMEMBERED_TOUCHES: usize = 4096;

/// A pending operation whose accesses are not known.
#[derive(Debug)]
pub struct Unknown {
    /// The operation.
    pub op: OpId,
    /// Its moment.
    pub stamp: Stamp,
    /// What the host had waited for when it was enqueued: what it is ordered after besides its stamp.
    pub host: Arc<Clock>,
}

impl Unknown {
    /// Is the operation at `point` ordered before this one?
    pub fn is_after(&self, point: Point) -> bool {
        self.stamp.covers(point) || self.host.covers(point)
    }

    /// What the ledger would hold of one of its accesses, now that it is known.
    pub fn entry(&self, access: Access, info: &Arc<OpInfo>) -> Entry {
        Entry {
            stamp: self.stamp.clone(),
            kind: access.kind,
            range: access.range,
            info: info.clone(),
        }
    }
}

/// A load or store of the host while such an operation was pending.
#[derive(Clone, Debug)]
pub struct Touch {
    /// The byte.
    pub address: u64,
    /// A store?
    pub write: bool,
    /// The load or store.
    pub site: Site,
    /// The moment of the host function that did it, if one did.
    pub by: Option<Stamp>,
    /// The last operation that was enqueued before it.
    pub after: OpId,
    /// How many waits had been made before it.
    pub waits: u64,
}

/// An allocation that ended while such an operation was pending.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The allocation.
    pub region: Arc<Region>,
    /// The function that ended it at once; nothing for a free in stream order, which is an operation itself.
    pub call: Option<&'static str>,
    /// The caller.
    pub site: Site,
    /// The last operation that was enqueued before it, or the free itself.
    pub after: OpId,
    /// How many waits had been made before it.
    pub waits: u64,
    /// Is it known that an operation uses it after its end?
    pub in_flight: bool,
}

/// An operation that has run, with its accesses; under exploration only.
#[derive(Debug)]
pub struct Past {
    /// The operation.
    pub op: OpId,
    /// Its moment.
    pub stamp: Stamp,
    /// The bytes that it touched.
    pub accesses: Vec<Access>,
}

/// All that is remembered.
#[derive(Debug, Default)]
pub struct Late {
    pending: BTreeMap<StreamId, VecDeque<Unknown>>,
    /// Host accesses, in order.
    pub touches: Vec<Touch>,
    /// Ended allocations, in order.
    pub ended: Vec<Ended>,
    /// Operations that have run, in order.
    pub past: Vec<Past>,
    /// Reads of bytes that nothing had written when the reader was enqueued: a pending operation may do it first.
    pub unwritten: FxHashMap<OpId, Vec<(Access, Arc<OpInfo>)>>,
}

impl Late {
    /// An operation is pending whose accesses are not known.
    pub fn add(&mut self, unknown: Unknown) {
        let stream = unknown.stamp.point.stream;
        self.pending.entry(stream).or_default().push_back(unknown);
    }

    /// The operation at `point` has run.
    pub fn take(&mut self, point: Point) -> Option<Unknown> {
        let stream = self.pending.get_mut(&point.stream)?;
        let index = stream
            .iter()
            .position(|unknown| unknown.stamp.point == point)?;
        let taken = stream.remove(index);
        if stream.is_empty() {
            self.pending.remove(&point.stream);
        }
        taken
    }

    /// Is any such operation pending?
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The oldest such operation.
    fn oldest(&self) -> Option<OpId> {
        let first = |stream: &VecDeque<Unknown>| stream.front().map(|unknown| unknown.op);
        self.pending.values().filter_map(first).min()
    }

    /// Is such an operation pending that was enqueued before `op`?
    pub fn is_pending_before(&self, op: OpId) -> bool {
        self.oldest().is_some_and(|oldest| oldest < op)
    }

    /// Remembers a host access; false when there are too many.
    pub fn touch(&mut self, touch: Touch) -> bool {
        let room = self.touches.len() < REMEMBERED_TOUCHES;
        if room {
            self.touches.push(touch);
        }
        room
    }

    /// Is the operation at `point` ordered before every pending operation whose accesses are not known?
    ///
    /// In one stream the first is the one that is ordered after least.
    pub fn all_are_after(&self, point: Point) -> bool {
        self.pending
            .values()
            .filter_map(VecDeque::front)
            .all(|unknown| unknown.is_after(point))
    }

    /// Can an access at `new` stand for one at `old`, which it is ordered after?
    ///
    /// Not when a pending operation is ordered before `new` and not with `old`: it could race with `old` alone.
    pub fn lets_stand(&self, new: &Stamp, old: &Stamp) -> bool {
        let seq = |stamp: &Stamp, stream| {
            if stamp.point.stream == stream {
                stamp.point.seq
            } else {
                stamp.before.seq(stream)
            }
        };
        self.pending.iter().all(|(&stream, pending)| {
            let known_to_old = seq(old, stream);
            let index = pending.partition_point(|it| it.stamp.point.seq <= known_to_old);
            pending.get(index).is_none_or(|first| {
                first.stamp.point.seq > seq(new, stream) || first.is_after(old.point)
            })
        })
    }

    /// Forgets what no pending operation can race with any more, and returns the allocations among it that can be used
    /// again or not: what was `in_flight` at its end, or has been found to be since, cannot.
    pub fn forget(&mut self) -> Vec<Ended> {
        let Some(oldest) = self.oldest() else {
            self.touches.clear();
            self.past.clear();
            return std::mem::take(&mut self.ended);
        };
        let kept = self.touches.partition_point(|touch| touch.after < oldest);
        self.touches.drain(..kept);
        let kept = self.ended.partition_point(|ended| ended.after < oldest);
        self.ended.drain(..kept).collect()
    }
}

/// How far the ledger must remember.
#[derive(Clone, Copy, Debug)]
pub struct Horizon<'a> {
    /// What the host has waited for.
    pub host: &'a Clock,
    /// What is pending and may touch anything.
    pub late: &'a Late,
}

impl Horizon<'_> {
    /// Is the operation at `point` ordered before everything that can still touch something?
    pub fn is_past(&self, point: Point) -> bool {
        self.host.covers(point) && self.late.all_are_after(point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(stream: u32, seq: u64, before: &[(u32, u64)]) -> Stamp {
        let mut clock = Clock::default();
        for &(stream, seq) in before {
            clock.advance(Point {
                stream: StreamId(stream),
                seq,
            });
        }
        Stamp {
            point: Point {
                stream: StreamId(stream),
                seq,
            },
            before: Arc::new(clock),
        }
    }

    fn pending(stamp: Stamp) -> Late {
        let mut late = Late::default();
        late.add(Unknown {
            op: 1,
            stamp,
            host: Arc::default(),
        });
        late
    }

    #[test]
    fn an_access_that_only_the_later_one_is_ordered_after_keeps_the_earlier_one() {
        // Stream 1: old, new. Stream 2: the unknown one.
        let (old, new) = (stamp(1, 1, &[]), stamp(1, 2, &[]));
        assert!(pending(stamp(2, 1, &[])).lets_stand(&new, &old));
        let new = stamp(1, 2, &[(2, 1)]);
        assert!(!pending(stamp(2, 1, &[])).lets_stand(&new, &old));
        // Ordered with both.
        assert!(pending(stamp(2, 1, &[(1, 1)])).lets_stand(&new, &old));
        let old = stamp(1, 1, &[(2, 1)]);
        assert!(pending(stamp(2, 1, &[])).lets_stand(&new, &old));
    }

    #[test]
    fn nothing_is_past_that_a_pending_operation_is_not_ordered_after() {
        let mut host = Clock::default();
        let done = stamp(1, 1, &[]);
        done.join_into(&mut host);
        let is_past = |late: &Late| Horizon { host: &host, late }.is_past(done.point);
        assert!(is_past(&Late::default()));
        assert!(!is_past(&pending(stamp(2, 1, &[]))));
        assert!(is_past(&pending(stamp(2, 1, &[(1, 1)]))));
    }
}
