//! The kinds of host memory that a copy can meet, and which way it goes.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::memory::Backing;

/// Which way the bytes go.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// A plain `memcpy` from touched memory: the host's half of a download, without a device.
    HostToHost,
    /// A download: the memory of the case is the destination.
    DeviceToHost,
    /// An upload: the memory of the case is the source.
    HostToDevice,
    /// A download and an upload at once, each in a stream of its own.
    BothWays,
}

impl Direction {
    /// The word that the record uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::HostToHost => "host_to_host",
            Self::DeviceToHost => "device_to_host",
            Self::HostToDevice => "host_to_device",
            Self::BothWays => "both_ways",
        }
    }

    /// Whether bytes go over the link to a device.
    pub fn uses_device(self) -> bool {
        self != Self::HostToHost
    }
}

/// Where fresh pageable memory comes from.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Allocator {
    /// `mmap` and `munmap` for every buffer.
    Mmap,
    /// The C library.
    Glibc,
    /// mimalloc, which PyTorch uses on aarch64.
    Mimalloc,
    /// jemalloc.
    Jemalloc,
}

/// A kind of host memory, and what is done to it before the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Allocated and freed in every pass; the copy takes the page faults of a download.
    FreshPageable(Allocator),
    /// Allocated and touched once; a pass only copies.
    ReusedPageable,
    /// Fresh, and touched by so many threads before the copy.
    Prefaulted(usize),
    /// Fresh, with transparent huge pages asked for.
    HugePages,
    /// Fresh, with transparent huge pages forbidden.
    BasePages,
    /// Fresh, from the pool of reserved huge pages.
    Hugetlb,
    /// Fresh, bound to this NUMA node, touched by one thread before the copy.
    BoundToNode(u32),
    /// `cuMemHostAlloc` and `cuMemFreeHost` in every pass.
    FreshPinned,
    /// `cuMemHostAlloc` once; a pass only copies.
    ReusedPinned,
    /// Fresh pageable memory, touched and registered in every pass.
    Registered,
    /// Write-combined pinned memory, allocated once; a pass only copies.
    WriteCombined,
    /// `cuMemAllocManaged` in every pass.
    Managed,
}

/// How a pass treats a kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Where the memory comes from.
    pub backing: Backing,
    /// Whether all passes use the same memory.
    pub reused: bool,
    /// How many threads touch it before the copy; with 0 the copy takes the faults.
    pub touched_by: usize,
    /// Whether it is registered with CUDA before the copy.
    pub registered: bool,
}

impl Kind {
    /// How a pass treats it.
    pub fn recipe(self) -> Recipe {
        let fresh = |backing| Recipe {
            backing,
            reused: false,
            touched_by: 0,
            registered: false,
        };
        let reused = |backing| Recipe {
            reused: true,
            touched_by: 1,
            ..fresh(backing)
        };
        match self {
            Self::FreshPageable(Allocator::Mmap) => fresh(Backing::Mmap),
            Self::FreshPageable(Allocator::Glibc) => fresh(Backing::Glibc),
            Self::FreshPageable(Allocator::Mimalloc) => fresh(Backing::Mimalloc),
            Self::FreshPageable(Allocator::Jemalloc) => fresh(Backing::Jemalloc),
            Self::ReusedPageable => reused(Backing::Mmap),
            Self::Prefaulted(threads) => Recipe {
                touched_by: threads,
                ..fresh(Backing::Mmap)
            },
            Self::HugePages => fresh(Backing::HugePages),
            Self::BasePages => fresh(Backing::BasePages),
            Self::Hugetlb => fresh(Backing::Hugetlb),
            Self::BoundToNode(node) => Recipe {
                touched_by: 1,
                ..fresh(Backing::Node(node))
            },
            Self::FreshPinned => fresh(Backing::Pinned),
            Self::ReusedPinned => reused(Backing::Pinned),
            Self::Registered => Recipe {
                touched_by: 1,
                registered: true,
                ..fresh(Backing::Mmap)
            },
            Self::WriteCombined => reused(Backing::WriteCombined),
            Self::Managed => fresh(Backing::Managed),
        }
    }

    /// Whether it is made by the CUDA driver, so that without one there is nothing to measure.
    pub fn needs_driver(self) -> bool {
        matches!(
            self,
            Self::FreshPinned
                | Self::ReusedPinned
                | Self::Registered
                | Self::WriteCombined
                | Self::Managed
        )
    }

    /// The word that the record uses, without allocator, threads and node.
    pub fn word(self) -> &'static str {
        match self {
            Self::FreshPageable(_) => "fresh_pageable",
            Self::ReusedPageable => "reused_pageable",
            Self::Prefaulted(_) => "prefaulted",
            Self::HugePages => "transparent_huge_pages",
            Self::BasePages => "base_pages",
            Self::Hugetlb => "hugetlb",
            Self::BoundToNode(_) => "bound_to_node",
            Self::FreshPinned => "fresh_pinned",
            Self::ReusedPinned => "reused_pinned",
            Self::Registered => "registered",
            Self::WriteCombined => "write_combined",
            Self::Managed => "managed",
        }
    }
}

impl fmt::Display for Kind {
    /// The word, and what else tells two of one word apart: `prefaulted_2_threads`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())?;
        match self {
            Self::FreshPageable(Allocator::Mmap) => Ok(()),
            Self::FreshPageable(Allocator::Glibc) => out.write_str("_glibc"),
            Self::FreshPageable(Allocator::Mimalloc) => out.write_str("_mimalloc"),
            Self::FreshPageable(Allocator::Jemalloc) => out.write_str("_jemalloc"),
            Self::Prefaulted(1) => out.write_str("_1_thread"),
            Self::Prefaulted(threads) => write!(out, "_{threads}_threads"),
            Self::BoundToNode(node) => write!(out, "_{node}"),
            _ => Ok(()),
        }
    }
}
