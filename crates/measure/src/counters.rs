//! What the kernel counted while something was measured.

use std::collections::BTreeMap;

use procfs::{FromRead, VmStat};

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

/// The machine's counters at one moment.
#[derive(Clone, Debug, Default)]
pub struct Counters(BTreeMap<&'static str, i64>);

impl Counters {
    /// Reads them from a file in the form of `/proc/vmstat`; `None` where it cannot be read.
    pub fn read(vmstat: &str) -> Option<Self> {
        let VmStat(all) = VmStat::from_file(vmstat).ok()?;
        let known = |name| Some((name, *all.get(name)?));
        Some(Self(NAMES.into_iter().filter_map(known).collect()))
    }

    /// What was counted between `earlier` and `self`, without what did not change.
    pub fn since(&self, earlier: &Self) -> BTreeMap<String, i64> {
        let change = |(name, now): (&&'static str, &i64)| {
            let change = now - earlier.0.get(name)?;
            (change != 0).then(|| ((*name).to_owned(), change))
        };
        self.0.iter().filter_map(change).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("vmstat");
        let path = file.to_str().unwrap();
        std::fs::write(path, "pgfault 10\npgmajfault 3\nunknown 1\n").unwrap();
        let before = Counters::read(path).unwrap();
        std::fs::write(path, "pgfault 15\npgmajfault 3\nunknown 2\n").unwrap();
        let after = Counters::read(path).unwrap();
        assert_eq!(
            after.since(&before),
            BTreeMap::from([("pgfault".into(), 5)])
        );
    }

    #[test]
    fn what_cannot_be_read_is_none() {
        assert!(Counters::read("/proc/there-is-no-such-file").is_none());
        assert!(Counters::read("/proc/self/mem").is_none());
    }
}
