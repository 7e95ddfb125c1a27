//! Operations that show what they touch only by running: kernels.
//!
//! The rules are those of every other operation; only the moment differs at which a race is found.
//! When such an operation has run, its accesses are compared with everything that it is not ordered with, in both
//! directions, and with what the host did meanwhile: loads and stores, and frees.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use rangemap::RangeSet;

use super::{end_of, Engine, HostTouch, Notice, Op, Part};
use crate::guard::Level;
use crate::hazard::{HazardKind, Party};
use crate::late::{Ended, Past, Touch, Unknown};
use crate::ledger::Entry;
use crate::op::{Access, AccessKind, OpId, OpInfo, Site};
use crate::region::{Region, Space};
use crate::schedule::Schedule;
use crate::waits::Moment;

/// Accesses of one operation in one allocation.
struct Touched {
    region: Arc<Region>,
    /// How the allocation ended while the operation was pending, if it did.
    ended: Option<Ended>,
    /// Sorted and disjoint.
    reads: Vec<Range<u64>>,
    /// Sorted and disjoint.
    writes: Vec<Range<u64>>,
}

impl<E: Clone> Engine<E> {
    /// An operation of unknown accesses has run; these are the bytes that it has read and written, sorted and disjoint.
    ///
    /// Bytes outside of every allocation are pageable memory, which is not watched.
    pub fn complete_late(&mut self, op: OpId, reads: &[Range<u64>], writes: &[Range<u64>]) {
        if let Some((unknown, info)) = self.ops.get(&op).and_then(|done| {
            let info = done.info.clone();
            Some((self.late.take(done.stamp.point)?, info))
        }) {
            let touched = self.by_allocation(op, reads, writes);
            for touched in &touched {
                self.find_races(&unknown, &info, touched);
            }
            for touched in &touched {
                self.find_past_touches(&unknown, &info, touched);
                self.find_past_end(&unknown, &info, touched);
                if touched.ended.is_none() {
                    self.find_unwritten(&info, touched);
                }
                // The bytes of what was freed at once are never handed out again, so nobody can race for them.
                if touched
                    .ended
                    .as_ref()
                    .is_none_or(|ended| ended.call.is_none())
                {
                    for access in touched.accesses() {
                        self.remember(&access, &unknown.stamp, &info);
                    }
                }
            }
            if matches!(self.schedule, Schedule::Explore(_)) {
                if let Some(done) = self.ops.get_mut(&op) {
                    done.accesses = touched.iter().flat_map(Touched::accesses).collect();
                }
            }
        }
        self.complete(op, Part::Whole);
    }

    /// The allocations that `op` may touch, each once: those that ended since it was enqueued, and those that live.
    pub fn reachable(&self, op: OpId) -> Vec<Arc<Region>> {
        let ended = self.late.ended.iter().filter(|ended| ended.after >= op);
        ended
            .map(|ended| ended.region.clone())
            .chain(self.regions.all().cloned())
            .collect()
    }

    /// Takes the pages of an allocation away that an operation of unknown accesses can be expected to touch.
    pub(super) fn hold_expected(&mut self, range: &Range<u64>) {
        if self.is_guarded(range) {
            let changes = self.guard.hold(range, true);
            self.notice_changes(changes);
        }
    }

    fn is_guarded(&self, range: &Range<u64>) -> bool {
        self.regions
            .find(range.start)
            .is_some_and(|region| region.guarded.is_some())
    }

    /// An operation has run: what was remembered for its sake can go.
    pub(super) fn finish_late(&mut self, done: &Op<E>, op: OpId) {
        if let Some(expected) = &done.late {
            // Without accesses from the caller it has touched nothing.
            self.late.take(done.stamp.point);
            for range in expected {
                // The allocation may have ended, and another begun.
                if self.is_guarded(range) {
                    let changes = self.guard.release(range, true);
                    self.notice_changes(changes);
                }
            }
        }
        for (access, info) in self.late.unwritten.remove(&op).into_iter().flatten() {
            let region = self.regions.find(access.range.start).cloned();
            let still = |region: &Arc<Region>| {
                let written = self.written.get(&region.range.start);
                written.is_some_and(|written| written.gaps(&access.range).next().is_some())
            };
            // What is pending still may have come first: then nobody knows, and there is a race to report.
            let unknown = self.late.is_pending_before(op);
            if let Some(region) = region.filter(|region| !unknown && still(region)) {
                self.report_unwritten(&access, &info, region);
            }
        }
        if matches!(self.schedule, Schedule::Explore(_)) && self.late.is_pending() {
            self.late.past.push(Past {
                op,
                stamp: done.stamp.clone(),
                accesses: done.accesses.clone(),
            });
        }
        for ended in self.late.forget() {
            if ended.call.is_some() {
                self.notices.push(Notice::Decided {
                    region: ended.region,
                    in_flight: ended.in_flight,
                });
            }
        }
    }

    /// Keeps an allocation that ends in mind, if an operation is pending that may use it; says whether one is.
    pub(super) fn keep_for_late(
        &mut self,
        region: &Arc<Region>,
        call: Option<&'static str>,
        site: Site,
        in_flight: bool,
    ) -> bool {
        let pending = self.late.is_pending();
        if pending {
            self.late.ended.push(Ended {
                region: region.clone(),
                call,
                site,
                after: self.last_op,
                waits: self.waits.count(),
                in_flight,
            });
        }
        pending
    }

    /// The host touched `address` while an operation of unknown accesses may be pending: remembers it, and lets it
    /// through if one can be expected to touch the allocation.
    pub(super) fn touch_for_late(
        &mut self,
        address: u64,
        write: bool,
        by: Option<OpId>,
        site: &Site,
        region: &Arc<Region>,
    ) -> Option<HostTouch> {
        if !self.late.is_pending() {
            return None;
        }
        let same = |touch: &Touch| region.range.contains(&touch.address) && touch.write == write;
        let first = !self.late.touches.iter().any(same);
        let room = self.late.touch(Touch {
            address,
            write,
            site: site.clone(),
            by: by
                .and_then(|op| self.ops.get(&op))
                .map(|op| op.stamp.clone()),
            after: self.last_op,
            waits: self.waits.count(),
        });
        let expected = self
            .ops
            .values()
            .any(|op| op.late.is_some() && op.touches(&region.range));
        if !expected {
            return None;
        }
        if self.explorer().is_some() && !self.unseen.contains(&region.range) {
            self.unseen.push(region.range.clone());
        }
        let level = if write { Level::Open } else { Level::ReadOnly };
        let page = address..address + 1;
        let changes = self
            .guard
            .open(if room { &page } else { &region.range }, level);
        self.notice_changes(changes);
        Some(if first {
            let region = region.clone();
            HostTouch::First { region, write }
        } else {
            HostTouch::Unremarkable
        })
    }

    /// Cuts accesses at the ends of allocations.
    ///
    /// Where one has ended since the operation was enqueued and another begun, the bytes were those of the first.
    fn by_allocation(&self, op: OpId, reads: &[Range<u64>], writes: &[Range<u64>]) -> Vec<Touched> {
        let ended = self.late.ended.iter().filter(|ended| ended.after >= op);
        let lives = ended.map(|ended| (ended.region.clone(), Some(ended.clone())));
        let lives = lives.chain(self.regions.all().map(|region| (region.clone(), None)));
        let mut taken: RangeSet<u64> = RangeSet::new();
        let mut all: Vec<Touched> = Vec::new();
        for (region, ended) in lives {
            if taken.overlaps(&region.range) {
                continue;
            }
            if ended.is_some() && !region.range.is_empty() {
                taken.insert(region.range.clone());
            }
            let (reads, writes) = (cut(reads, &region.range), cut(writes, &region.range));
            if !(reads.is_empty() && writes.is_empty()) {
                all.push(Touched {
                    region,
                    ended,
                    reads,
                    writes,
                });
            }
        }
        all
    }

    /// Reports the operations that the one that has run races with: one race for each of them and each allocation, that
    /// of a read if there is one.
    fn find_races(&mut self, unknown: &Unknown, info: &Arc<OpInfo>, touched: &Touched) {
        let mut known: BTreeSet<OpId> = BTreeSet::new();
        let mut races: Vec<(Entry, Access)> = Vec::new();
        for access in touched.accesses() {
            for entry in self.ledger.touching(&access.range, access.kind) {
                let later_allocation =
                    entry.kind == AccessKind::Allocate && entry.info.op > unknown.op;
                let ordered = unknown.is_after(entry.stamp.point)
                    || entry.stamp.covers(unknown.stamp.point)
                    || later_allocation;
                if !ordered && known.insert(entry.info.op) {
                    races.push((entry.clone(), access.clone()));
                }
            }
        }
        races.sort_by_key(|(entry, _)| entry.info.op);
        for (other, access) in races {
            self.found(info.op);
            self.found(other.info.op);
            self.found_past(unknown, &access.range);
            let own = unknown.entry(access, info);
            let (a, b) = if other.info.op < unknown.op {
                (other, own)
            } else {
                (own, other)
            };
            let kind = self.kind_of_race(&a, b.kind, &b.stamp);
            let waiter = Some(b.stamp.point.stream);
            let moment = Moment::Enqueued(b.info.op);
            let b = Party::Operation {
                info: b.info,
                touches: Some((b.kind, b.range)),
            };
            self.report(kind, a, b, Some(touched.region.clone()), waiter, moment);
        }
    }

    /// Under exploration, the program can tell when the operations run that touch `range` and are not ordered with the
    /// one that has run; the ledger does not know all of them.
    fn found_past(&mut self, unknown: &Unknown, range: &Range<u64>) {
        let ordered = |op: OpId, stamp: &crate::clock::Stamp| {
            op == unknown.op || unknown.is_after(stamp.point) || stamp.covers(unknown.stamp.point)
        };
        let overlaps =
            |access: &Access| access.range.start < range.end && range.start < access.range.end;
        let Schedule::Explore(explorer) = &mut self.schedule else {
            return;
        };
        for (&id, op) in &self.ops {
            if op.touches(range) && !ordered(id, &op.stamp) {
                explorer.found(id);
            }
        }
        for past in &self.late.past {
            if past.accesses.iter().any(overlaps) && !ordered(past.op, &past.stamp) {
                explorer.found(past.op);
            }
        }
    }

    /// Reports the first access of the host, while the operation was pending, to a byte that it has touched (H01, H02).
    fn find_past_touches(&mut self, unknown: &Unknown, info: &Arc<OpInfo>, touched: &Touched) {
        let races = |touch: &&Touch| {
            touch.after >= unknown.op
                && touch.by.as_ref().is_none_or(|function| {
                    !function.covers(unknown.stamp.point) && !unknown.is_after(function.point)
                })
        };
        let race = self.late.touches.iter().filter(races).find_map(|touch| {
            let kind = AccessKind::Write;
            let written =
                holding(&touched.writes, touch.address).map(|range| Access { range, kind });
            let kind = AccessKind::Read;
            let read = holding(&touched.reads, touch.address).map(|range| Access { range, kind });
            let access = written.or(read.filter(|_| touch.write))?;
            Some((touch.clone(), access))
        });
        let Some((touch, access)) = race else { return };
        self.found(info.op);
        if !self.reported.insert(info.op) {
            return;
        }
        let a = unknown.entry(access, info);
        let b = Party::Touch {
            address: touch.address,
            write: touch.write,
            site: touch.site,
        };
        let kind = HazardKind::of_touch(touch.write);
        let region = Some(touched.region.clone());
        self.report(kind, a, b, region, None, Moment::Call(touch.waits));
    }

    /// Reports that the operation has touched memory that was freed while it was pending (H03, H04).
    ///
    /// A free in stream order is an operation, and among the races.
    fn find_past_end(&mut self, unknown: &Unknown, info: &Arc<OpInfo>, touched: &Touched) {
        let Some((ended, call)) = touched
            .ended
            .as_ref()
            .and_then(|ended| Some((ended, ended.call?)))
        else {
            return;
        };
        let same = |other: &&mut Ended| Arc::ptr_eq(&other.region, &ended.region);
        if let Some(ended) = self.late.ended.iter_mut().find(same) {
            ended.in_flight = true;
        }
        let Some(access) = touched.accesses().next() else {
            return;
        };
        let a = unknown.entry(access, info);
        let kind = HazardKind::of_free(touched.region.space);
        let b = end_of(&touched.region, call, ended.site.clone());
        let region = Some(touched.region.clone());
        self.report(kind, a, b, region, None, Moment::Call(ended.waits));
    }

    /// Notes what the operation has written, and that it has read what nothing had written, itself included (H26).
    fn find_unwritten(&mut self, info: &Arc<OpInfo>, touched: &Touched) {
        if touched.region.space != Space::Device {
            return;
        }
        let unknown = self.late.is_pending();
        let Some(written) = self.written.get_mut(&touched.region.range.start) else {
            return;
        };
        for range in &touched.writes {
            written.insert(range.clone());
        }
        // What is pending may have come first: then nobody knows.
        let mut reads = touched.reads.iter().filter(|_| !unknown);
        if let Some(range) = reads.find(|range| written.gaps(range).next().is_some()) {
            let (range, kind) = (range.clone(), AccessKind::Read);
            let region = touched.region.clone();
            self.report_unwritten(&Access { range, kind }, info, region);
        }
    }
}

impl Touched {
    /// The reads, then the writes.
    fn accesses(&self) -> impl Iterator<Item = Access> + '_ {
        let of = |kind| {
            move |range: &Range<u64>| Access {
                range: range.clone(),
                kind,
            }
        };
        let reads = self.reads.iter().map(of(AccessKind::Read));
        reads.chain(self.writes.iter().map(of(AccessKind::Write)))
    }
}

/// What of the sorted, disjoint ranges `list` lies inside of `bounds`.
fn cut(list: &[Range<u64>], bounds: &Range<u64>) -> Vec<Range<u64>> {
    let first = list.partition_point(|range| range.end <= bounds.start);
    list[first..]
        .iter()
        .take_while(|range| range.start < bounds.end)
        .map(|range| range.start.max(bounds.start)..range.end.min(bounds.end))
        .collect()
}

/// The one of the sorted, disjoint ranges `list` that holds `address`.
fn holding(list: &[Range<u64>], address: u64) -> Option<Range<u64>> {
    let index = list.partition_point(|range| range.end <= address);
    list.get(index)
        .filter(|range| range.contains(&address))
        .cloned()
}
