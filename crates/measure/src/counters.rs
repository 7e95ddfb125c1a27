//! What the kernel counted while something was measured.

use std::collections::BTreeMap;

use lab::VmStat;

/// The counters of `/proc/vmstat` that tell of page faults, huge pages, compaction, moved pages
/// and pinned pages. They count the whole machine, not this process alone.
const NAMES: [&str; 30] = [
    "pgfault",
    "pgmajfault",
    "compact_stall",
    "compact_fail",
    "compact_success",
    "compact_migrate_scanned",
    "compact_free_scanned",
    "compact_isolated",
    "compact_daemon_wake",
    "pgmigrate_success",
    "pgmigrate_fail",
    "thp_migration_success",
    "thp_migration_fail",
    "thp_migration_split",
    "numa_pte_updates",
    "numa_hint_faults",
    "numa_hint_faults_local",
    "numa_pages_migrated",
    "numa_miss",
    "numa_foreign",
    "numa_other",
    "nr_foll_pin_acquired",
    "nr_foll_pin_released",
    "thp_fault_alloc",
    "thp_fault_fallback",
    "thp_collapse_alloc",
    "thp_split_page",
    "htlb_buddy_alloc_success",
    "htlb_buddy_alloc_fail",
    "allocstall_normal",
];

/// By how much each of them rose between the two readings, without those that did not change.
pub fn rises(earlier: &VmStat, later: &VmStat) -> BTreeMap<String, i64> {
    let rise = |name: &str| {
        let rise = later.rise(earlier, name)?;
        (rise != 0).then(|| (name.to_owned(), rise))
    };
    NAMES.into_iter().filter_map(rise).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Backing, Memory};

    #[test]
    fn faults_are_among_what_rose_and_nothing_is_zero() {
        let earlier = VmStat::now().unwrap();
        // Each processor adds its share now and then, so a few faults might not show yet.
        let mut memory = Memory::allocate(Backing::BasePages, 64 << 20).unwrap();
        memory.touch(1);
        let rises = rises(&earlier, &VmStat::now().unwrap());
        assert!(rises["pgfault"] > 0, "{rises:?}");
        assert!(rises.values().all(|&rise| rise != 0));
    }
}
