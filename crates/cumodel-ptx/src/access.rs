//! Which bytes a launch read and wrote.
use crate::exec::lanes::WARP;
use std::ops::Range;

/// Sorted runs are merged again when this many have come together.
const FIRST_MERGE: usize = 1 << 14;

/// Ranges of bytes, collected.
///
/// Each lane of each instruction keeps one run open, because the next thing it touches is most often the neighbour of the
/// last: a coalesced kernel costs one comparison for a warp, and a walk along rows one for a lane.
#[derive(Debug)]
pub(crate) struct Ranges {
    /// For each instruction that has run, one for each lane.
    open: Vec<Option<Box<[Range<u64>; WARP]>>>,
    closed: Vec<Range<u64>>,
    merge_at: usize,
}

impl Ranges {
    /// For a module with this many instructions that touch memory.
    pub(crate) fn new(instructions: usize) -> Ranges {
        Ranges {
            open: (0..instructions).map(|_| None).collect(),
            closed: Vec::new(),
            merge_at: FIRST_MERGE,
        }
    }

    /// Adds `bytes` from `start` on, touched by `instruction` from this lane on.
    #[inline]
    pub(crate) fn add(&mut self, instruction: usize, lane: usize, start: u64, bytes: u64) {
        let end = start + bytes;
        let open = self.open[instruction].get_or_insert_with(|| Box::new([const { 0..0 }; WARP]));
        let open = &mut open[lane];
        if start <= open.end && end >= open.start && open.start < open.end {
            open.start = open.start.min(start);
            open.end = open.end.max(end);
            return;
        }
        let old = std::mem::replace(open, start..end);
        if old.is_empty() {
            return;
        }
        self.closed.push(old);
        if self.closed.len() >= self.merge_at {
            merge(&mut self.closed);
            self.merge_at = FIRST_MERGE.max(2 * self.closed.len());
        }
    }

    /// All of them, not yet merged.
    pub(crate) fn into_runs(self) -> impl Iterator<Item = Range<u64>> {
        let open = self.open.into_iter().flatten().flat_map(|lanes| *lanes);
        self.closed
            .into_iter()
            .chain(open.filter(|range| !range.is_empty()))
    }
}

/// Sorts ranges, and joins those that overlap or touch.
pub(crate) fn merge(ranges: &mut Vec<Range<u64>>) {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, kept| {
        let joins = next.start <= kept.end;
        if joins {
            kept.end = kept.end.max(next.end);
        }
        joins
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_and_overlaps_become_one() {
        let mut ranges = vec![8..12, 0..4, 4..8, 20..24, 22..23];
        merge(&mut ranges);
        assert_eq!(ranges, [0..12, 20..24]);
    }

    #[test]
    fn a_run_that_grows_costs_nothing() {
        let mut log = Ranges::new(1);
        for warp in 0..100 {
            log.add(0, 0, warp * 128, 128);
        }
        assert!(log.closed.is_empty());
        assert!(log.into_runs().eq(std::iter::once(0..12_800)));
    }

    #[test]
    fn many_scattered_runs_are_the_set_of_their_bytes() {
        let mut log = Ranges::new(2);
        let mut bytes = std::collections::BTreeSet::new();
        let mut state = 1u64;
        for step in 0..100_000u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(step | 1);
            let (start, length) = (state >> 40 & 0xffff, 1 + (state >> 60));
            log.add((step % 2) as usize, (step % 32) as usize, start, length);
            bytes.extend(start..start + length);
        }
        let mut runs: Vec<_> = log.into_runs().collect();
        merge(&mut runs);
        assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start));
        assert!(runs.into_iter().flatten().eq(bytes));
    }
}
