//! What Linux counts about memory: `/proc/vmstat` for the machine, `/proc/self/status` for this process.

use std::collections::HashMap;

use anyhow::{Context, Result};
use procfs::process::Process;

/// The counters of `/proc/vmstat`, which are those of the whole machine.
///
/// Each CPU adds its share now and then, so a counter can lag behind by some hundred.
#[derive(Clone, Debug)]
pub struct VmStat(HashMap<String, i64>);

impl VmStat {
    /// All counters now.
    ///
    /// # Errors
    /// When Linux does not show `/proc/vmstat`.
    pub fn now() -> Result<Self> {
        let counters = procfs::vmstat().context("reading the machine's counters: /proc/vmstat")?;
        Ok(Self(counters))
    }

    /// By how much the counter `name` has risen since `earlier`; `None` when this Linux has no
    /// counter of that name.
    pub fn rise(&self, earlier: &Self, name: &str) -> Option<i64> {
        Some(self.0.get(name)? - earlier.0.get(name)?)
    }
}

/// How many bytes of this process Linux has pinned and charged to it (`VmPin`).
///
/// A driver that pins memory need not charge it, so zero does not mean that nothing is pinned.
///
/// # Errors
/// When Linux does not show `/proc/self/status`.
pub fn pinned_bytes() -> Result<u64> {
    let status = Process::myself()
        .and_then(|process| process.status())
        .context("looking up pinned memory: /proc/self/status")?;
    Ok(status.vmpin.unwrap_or(0) * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() -> Result<()> {
        let earlier = VmStat::now()?;
        let later = VmStat::now()?;
        assert!(later.rise(&earlier, "pgfault").is_some_and(|it| it >= 0));
        assert_eq!(later.rise(&earlier, "no_such_counter"), None);
        Ok(())
    }
}
