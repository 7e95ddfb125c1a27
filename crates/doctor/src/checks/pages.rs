//! Pages: their size, how they are found, moved and cleared.

use super::{compare, Answer, Check};
use crate::sources;
use crate::tree::Tree;

pub static PAGE_SIZE: Check = Check {
    id: "page-size",
    why: "A fresh destination takes one page fault for each base page: 262,144 for 1 GiB with \
          4 KiB, 16,384 with 64 KiB. NVIDIA's default for Grace is 64 KiB.",
    sources: &[&sources::GRACE_SETTINGS],
    look: page_size,
};

fn page_size(tree: &Tree) -> Answer {
    let bytes = tree.machine.page_bytes;
    let evidence = format!(
        "base pages of {bytes} bytes: {} faults for 1 GiB",
        (1 << 30) / bytes
    );
    if tree.is_grace() && bytes < 64 << 10 {
        return Answer::finding(
            evidence,
            "boot your distribution's kernel with pages of 64 KiB; until then allocate once and \
             reuse",
        );
    }
    Answer::fine(evidence)
}

pub static HUGE_PAGES: Check = Check {
    id: "huge-pages",
    why: "Sources disagree: CSCS found that transparent huge pages can hurt and advises against \
          them for large Megatron runs, another user runs with `always`. With base pages of \
          64 KiB a huge page has 512 MiB, and NVIDIA suggests hugetlbfs.",
    sources: &[
        &sources::CSCS,
        &sources::TWO_GH200,
        &sources::GRACE_SETTINGS,
    ],
    look: huge_pages,
};

fn huge_pages(tree: &Tree) -> Answer {
    match tree.machine.thp.as_deref() {
        None => Answer::unknown("transparent_hugepage/enabled cannot be read"),
        Some(word) => Answer::measure(
            format!("transparent_hugepage/enabled is `{word}`"),
            "compare the rows `transparent_huge_pages` and `base_pages` of `c2c measure`, for \
             your buffer's size",
        ),
    }
}

pub static HUGE_PAGES_DEFRAG: Check = Check {
    id: "huge-pages-defrag",
    why: "With `always`, a page fault that finds no huge page free reclaims and compacts memory \
          before it returns.",
    sources: &[&sources::HUGE_PAGES],
    look: huge_pages_defrag,
};

fn huge_pages_defrag(tree: &Tree) -> Answer {
    let Some(defrag) = tree.machine.thp_defrag.as_deref() else {
        return Answer::unknown("transparent_hugepage/defrag cannot be read");
    };
    let evidence = format!("transparent_hugepage/defrag is `{defrag}`");
    match (defrag, tree.machine.thp.as_deref()) {
        ("always", Some("never")) => Answer::not_here(evidence + ", and huge pages are off"),
        ("always", _) => Answer::finding(
            evidence,
            "`echo madvise > /sys/kernel/mm/transparent_hugepage/defrag`",
        ),
        _ => Answer::fine(evidence),
    }
}

pub static HUGETLB: Check = Check {
    id: "hugetlb",
    why: "Huge pages that were set aside need no compaction when they are touched. NVIDIA \
          suggests hugetlbfs for Grace; once none is free, such an allocation fails.",
    sources: &[&sources::GRACE_SETTINGS],
    look: hugetlb,
};

fn hugetlb(tree: &Tree) -> Answer {
    let total = tree.number("proc/meminfo", "HugePages_Total:");
    let (Some(total), Some(free)) = (total, tree.machine.free_huge_pages) else {
        return Answer::not_here("this kernel tells of no huge pages");
    };
    let evidence = format!("{free} of {total} huge pages are free");
    match (total, free) {
        (0, _) if tree.is_grace() => Answer::measure(
            evidence,
            "set some aside with `sysctl vm.nr_hugepages=N`, and compare the rows `hugetlb` and \
             `fresh_pageable` of `c2c measure`",
        ),
        (0, _) => Answer::not_here(evidence),
        (_, 0) => Answer::finding(
            evidence,
            "raise `vm.nr_hugepages`, best on the kernel's command line",
        ),
        _ => Answer::fine(evidence),
    }
}

pub static FRAGMENTATION: Check = Check {
    id: "fragmentation",
    why: "Where free memory is in small pieces, pinned and huge allocations compact memory \
          first. A GB10 compacted at every pinned allocation after seven days; a registration \
          can do so while it holds the driver's lock. The thresholds are ours.",
    sources: &[&sources::SPARKRING, &sources::DRIVER_LOCK],
    look: fragmentation,
};

/// Pieces of at least this many bytes count as large.
const LARGE: u64 = 2 << 20;
/// Free memory of a node that is worth to be judged, in bytes.
const ENOUGH_FREE: u64 = 1 << 30;
/// So many failed compactions since boot are more than an accident.
const MANY_FAILED: u64 = 10_000;

fn fragmentation(tree: &Tree) -> Answer {
    let Some(buddies) = tree.text("proc/buddyinfo") else {
        return Answer::unknown("/proc/buddyinfo cannot be read");
    };
    let (free, large) = pieces(buddies, tree.machine.page_bytes);
    let stalls = tree.number("proc/vmstat", "compact_stall ");
    let fails = tree.number("proc/vmstat", "compact_fail ");
    let mut evidence = format!(
        "{} MiB free, {} MiB of it in pieces of 2 MiB or more",
        free >> 20,
        large >> 20
    );
    if let (Some(stalls), Some(fails)) = (stalls, fails) {
        evidence += &format!("; {stalls} allocations waited for compaction, {fails} in vain");
    }
    let in_pieces = free >= ENOUGH_FREE && large < free / 10;
    let failing =
        fails.is_some_and(|fails| fails >= MANY_FAILED && fails >= stalls.unwrap_or_default() / 4);
    if in_pieces || failing {
        return Answer::finding(
            evidence,
            "allocate pinned buffers once, right after the start; on the reported machine \
             `drop_caches` and `compact_memory` hardly helped, and a reboot did",
        );
    }
    Answer::fine(evidence)
}

/// The bytes that are free, and those of them in large pieces, over all nodes and zones.
fn pieces(buddies: &str, page_bytes: u64) -> (u64, u64) {
    let (mut free, mut large) = (0u64, 0u64);
    for line in buddies.lines() {
        // A line reads `Node 0, zone   Normal    393    511 …`: pieces of one page, two, four, …
        let counts = line.split_whitespace().skip(4);
        for (order, count) in counts.enumerate().take(32) {
            let piece = page_bytes.saturating_mul(1 << order);
            let bytes = count.parse::<u64>().unwrap_or(0).saturating_mul(piece);
            free = free.saturating_add(bytes);
            if piece >= LARGE {
                large = large.saturating_add(bytes);
            }
        }
    }
    (free, large)
}

pub static COMPACTION: Check = Check {
    id: "compaction",
    why: "Compaction moves pages while nobody asks for it, and Linux's documentation says that \
          it can cause latency spikes. CUDA does not promise that pinned memory is locked where \
          attribute 100 is set. What this costs on C2C has not been published.",
    sources: &[&sources::VM_SYSCTL, &sources::CUDA_MEMORY],
    look: compaction,
};

fn compaction(tree: &Tree) -> Answer {
    let Some(value) = tree.machine.compaction_proactiveness else {
        return Answer::not_here("this kernel does not compact in the background");
    };
    let evidence = format!("vm.compaction_proactiveness is {value}");
    match value {
        0 => Answer::fine(evidence),
        _ if tree.coherent() => Answer::measure(
            evidence,
            compare(
                "`sysctl vm.compaction_proactiveness=0`",
                "`reused_pinned` and its counters",
            ),
        ),
        _ => Answer::not_here(evidence + ", without a GPU that uses the host's page tables"),
    }
}

pub static COMPACT_UNEVICTABLE: Check = Check {
    id: "compact-unevictable",
    why: "With 1, compaction may move memory that was locked with mlock, too, and the next \
          access faults. Linux's documentation sets 0 where such faults are not acceptable.",
    sources: &[&sources::VM_SYSCTL],
    look: compact_unevictable,
};

fn compact_unevictable(tree: &Tree) -> Answer {
    let Some(value) = tree.machine.compact_unevictable_allowed else {
        return Answer::not_here("this kernel has no such setting");
    };
    let evidence = format!("vm.compact_unevictable_allowed is {value}");
    match value {
        0 => Answer::fine(evidence),
        _ if tree.coherent() => Answer::measure(
            evidence,
            compare(
                "`sysctl vm.compact_unevictable_allowed=0`",
                "`reused_pageable` and its counters",
            ),
        ),
        _ => Answer::not_here(evidence + ", without a GPU that uses the host's page tables"),
    }
}

pub static INIT_ON_ALLOC: Check = Check {
    id: "init-on-alloc",
    why: "With init_on_alloc the kernel clears every page that it allocates. NVIDIA's guide for \
          Grace turns it off.",
    sources: &[&sources::GRACE_PLATFORM],
    look: init_on_alloc,
};

fn init_on_alloc(tree: &Tree) -> Answer {
    if !tree.is_grace() {
        return Answer::not_here("the advice is for Grace");
    }
    let command_line = tree.text("proc/cmdline").unwrap_or_default();
    // The last one counts.
    let given = command_line
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("init_on_alloc="))
        .next_back();
    let kernel = tree.machine.kernel.as_deref().unwrap_or_default();
    let config = format!("boot/config-{kernel}");
    let default = tree.line(&config, "CONFIG_INIT_ON_ALLOC_DEFAULT_ON=");
    let fix = "add `init_on_alloc=0` to the kernel's command line";
    match (given, default) {
        (Some("0" | "n" | "N" | "off"), _) => Answer::fine("init_on_alloc=0 on the command line"),
        (Some(value), _) => {
            Answer::finding(format!("init_on_alloc={value} on the command line"), fix)
        }
        (None, Some("y")) => Answer::finding("on by the default of this kernel", fix),
        (None, _) if tree.text(&config).is_some() => {
            Answer::fine("off by the default of this kernel")
        }
        (None, _) => Answer::unknown(format!(
            "not on the command line, and /{config} does not tell the default"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_free_memory_are_counted_by_size() {
        let line = "Node 0, zone   Normal      1      0      0      0      0      0      0      0      0      2      1\n";
        assert_eq!(pieces(line, 4096), (4096 + (4 << 20) + (4 << 20), 8 << 20));
        assert_eq!(pieces(line, 65536).1, (65536 << 10) + (2 * (65536 << 9)));
        assert_eq!(pieces("nonsense\n", 4096), (0, 0));
    }
}
