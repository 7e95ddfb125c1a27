//! Which cases are measured: every kind of memory, at every size, each way.

use crate::kind::{Allocator, Direction, Kind};

/// The smallest buffer, in bytes.
pub const SMALLEST: u64 = 4 << 10;
/// The largest buffer where memory permits, in bytes.
pub const LARGEST: u64 = 2 << 30;
/// From one size to the next.
const STEP: u64 = 4;
/// Up to this many bytes every kind is measured; above it only those that the verdict compares.
pub const EVERY_KIND_UP_TO: u64 = 256 << 20;
/// A processor reads write-combined memory slowly, and a download is verified by reading it.
const READ_WRITE_COMBINED_UP_TO: u64 = 64 << 20;
/// The sizes that are copied on the model, in bytes. Its link is not real: these show that each
/// case works, and no more.
pub const ON_THE_MODEL: [u64; 3] = [4 << 10, 256 << 10, 4 << 20];
/// A pass handles at least so many bytes: as many buffers as that takes, so that reading the clock
/// and the counters costs little beside it.
const PASS: u64 = 1 << 20;

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Which way the bytes go.
    pub direction: Direction,
    /// The host memory.
    pub kind: Kind,
    /// How many streams share a copy.
    pub streams: usize,
    /// The size of a buffer in bytes, a multiple of 4 KiB.
    pub bytes: u64,
}

impl Case {
    /// What tells it apart from all others of its size: `device_to_host/reused_pinned/2_streams`.
    pub fn name(&self) -> String {
        let name = format!("{}/{}", self.direction.word(), self.kind);
        match (self.direction, self.streams) {
            (Direction::BothWays, _) | (_, 1) => name,
            (_, streams) => format!("{name}/{streams}_streams"),
        }
    }

    /// How many buffers a pass handles.
    pub fn buffers(&self) -> usize {
        (PASS / self.bytes).max(1) as usize
    }

    /// How many bytes a pass handles.
    pub fn bytes_of_pass(&self) -> usize {
        self.buffers() * self.bytes as usize
    }
}

/// What the plan needs to know of the machine.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The largest buffer in bytes.
    pub largest: u64,
    /// How many threads may run at once.
    pub threads: usize,
    /// The NUMA nodes that have memory.
    pub nodes: Vec<u32>,
    /// The size of a reserved huge page in bytes.
    pub huge_page_bytes: u64,
}

/// Sizes from 4 KiB, each four times the one before, and at last `largest`, which is at least four
/// times the one before.
pub fn sizes(largest: u64) -> Vec<u64> {
    let mut sizes: Vec<u64> = std::iter::successors(Some(SMALLEST), |size| Some(size * STEP))
        .take_while(|&size| size * STEP <= largest)
        .collect();
    sizes.push(largest);
    sizes
}

/// What a host can measure without a device.
pub fn host_cases(scope: &Scope) -> Vec<Case> {
    cross(
        scope,
        Direction::HostToHost,
        &pageable(scope),
        &sizes(scope.largest),
    )
}

/// What needs a device, at these sizes.
pub fn device_cases(scope: &Scope, sizes: &[u64]) -> Vec<Case> {
    let mut kinds = pageable(scope);
    kinds.extend(PINNED);
    let mut cases = cross(scope, Direction::DeviceToHost, &kinds, sizes);
    // The source of an upload has been written, so there are no faults left that a copy or a
    // thread could take.
    kinds.retain(|kind| !matches!(kind, Kind::Prefaulted(_)));
    cases.extend(cross(scope, Direction::HostToDevice, &kinds, sizes));
    let several = sizes.iter().flat_map(|&bytes| {
        [
            (Direction::DeviceToHost, bytes),
            (Direction::HostToDevice, bytes),
            (Direction::BothWays, bytes),
        ]
    });
    cases.extend(several.map(|(direction, bytes)| Case {
        direction,
        kind: Kind::ReusedPinned,
        streams: 2,
        bytes,
    }));
    cases
}

const PINNED: [Kind; 5] = [
    Kind::FreshPinned,
    Kind::ReusedPinned,
    Kind::Registered,
    Kind::WriteCombined,
    Kind::Managed,
];

fn pageable(scope: &Scope) -> Vec<Kind> {
    let mut kinds = vec![
        Kind::FreshPageable(Allocator::Mmap),
        Kind::FreshPageable(Allocator::Glibc),
        Kind::FreshPageable(Allocator::Mimalloc),
        Kind::FreshPageable(Allocator::Jemalloc),
        Kind::ReusedPageable,
    ];
    kinds.extend(thread_counts(scope.threads).map(Kind::Prefaulted));
    kinds.extend([Kind::HugePages, Kind::BasePages, Kind::Hugetlb]);
    kinds.extend(scope.nodes.iter().copied().map(Kind::BoundToNode));
    kinds
}

/// 1, 2, 4 and so on, and `all` itself.
pub fn thread_counts(all: usize) -> impl Iterator<Item = usize> {
    let below = std::iter::successors(Some(1), |threads| Some(threads * 2));
    below.take_while(move |&threads| threads < all).chain([all])
}

fn cross(scope: &Scope, direction: Direction, kinds: &[Kind], sizes: &[u64]) -> Vec<Case> {
    let mut cases = Vec::new();
    for &bytes in sizes {
        for &kind in kinds {
            let fits = match (kind, direction) {
                _ if is_compared_by_verdict(kind) => true,
                (Kind::WriteCombined, Direction::DeviceToHost) => {
                    bytes <= READ_WRITE_COMBINED_UP_TO
                }
                // A part of a huge page cannot be mapped.
                (Kind::Hugetlb, _) if !bytes.is_multiple_of(scope.huge_page_bytes) => false,
                _ => bytes <= EVERY_KIND_UP_TO,
            };
            if fits {
                cases.push(Case {
                    direction,
                    kind,
                    streams: 1,
                    bytes,
                });
            }
        }
    }
    cases
}

fn is_compared_by_verdict(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::FreshPageable(Allocator::Mmap)
            | Kind::ReusedPageable
            | Kind::Prefaulted(1)
            | Kind::FreshPinned
            | Kind::ReusedPinned
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn scope() -> Scope {
        Scope {
            largest: LARGEST,
            threads: 6,
            nodes: vec![0, 1],
            huge_page_bytes: 2 << 20,
        }
    }

    #[test]
    fn sizes_go_from_the_smallest_to_the_largest() {
        assert_eq!(sizes(SMALLEST), [SMALLEST]);
        assert_eq!(sizes(32 << 10), [4 << 10, 32 << 10]);
        assert_eq!(sizes(64 << 10), [4 << 10, 16 << 10, 64 << 10]);
        let sizes = sizes(LARGEST);
        assert_eq!((sizes[0], sizes.last()), (SMALLEST, Some(&LARGEST)));
    }

    #[test]
    fn thread_counts_double_up_to_all() {
        let counts = |all| thread_counts(all).collect::<Vec<_>>();
        assert_eq!(counts(1), [1]);
        assert_eq!(counts(2), [1, 2]);
        assert_eq!(counts(6), [1, 2, 4, 6]);
    }

    #[test]
    fn no_two_cases_have_one_name_and_one_size() {
        let mut cases = host_cases(&scope());
        cases.extend(device_cases(&scope(), &sizes(LARGEST)));
        let names: HashSet<_> = cases.iter().map(|case| (case.name(), case.bytes)).collect();
        assert_eq!(names.len(), cases.len());
    }

    #[test]
    fn every_kind_is_there_and_goes_both_ways() {
        let cases = device_cases(&scope(), &sizes(LARGEST));
        for direction in [Direction::DeviceToHost, Direction::HostToDevice] {
            let kinds = cases.iter().filter(|case| case.direction == direction);
            let words: HashSet<_> = kinds.map(|case| case.kind.word()).collect();
            assert!(words.len() >= 11, "{words:?}");
        }
        assert!(cases
            .iter()
            .any(|case| case.direction == Direction::BothWays));
    }

    #[test]
    fn a_pass_is_long_enough_for_the_clock() {
        for case in host_cases(&scope()) {
            assert!(case.bytes_of_pass() as u64 >= PASS);
        }
    }
}
