//! What an address belongs to: the allocations of the model.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::op::Site;

/// Which kind of memory an allocation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Device memory.
    Device,
    /// Page-locked host memory of the driver's.
    Pinned,
    /// Host memory of the program's that it has registered.
    Registered,
    /// Managed memory.
    Managed,
}

impl Space {
    /// Can the host load and store it?
    pub fn is_host(self) -> bool {
        self != Space::Device
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Space::Device => "device",
            Space::Pinned => "pinned",
            Space::Registered => "registered",
            Space::Managed => "managed",
        })
    }
}

/// One live allocation.
#[derive(Debug)]
pub struct Region {
    /// The kind of memory.
    pub space: Space,
    /// The how-manieth allocation of its kind it is, counted from 1.
    pub number: u32,
    /// First byte and one past the last.
    pub range: Range<u64>,
    /// The whole pages of it that can be taken away from the host; nothing for device memory.
    pub guarded: Option<Range<u64>>,
    /// Where the program allocated it.
    pub site: Site,
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} #{}", self.space, self.number)
    }
}

/// All live allocations, found by any address inside them.
#[derive(Debug, Default)]
pub struct Regions {
    by_start: BTreeMap<u64, Arc<Region>>,
    counts: [u32; 4],
}

impl Regions {
    /// Adds an allocation of `range`, which overlaps no live one.
    pub fn insert(
        &mut self,
        space: Space,
        range: Range<u64>,
        guarded: Option<Range<u64>>,
        site: Site,
    ) -> Arc<Region> {
        let count = &mut self.counts[space as usize];
        *count += 1;
        let region = Arc::new(Region {
            space,
            number: *count,
            range,
            guarded,
            site,
        });
        self.by_start.insert(region.range.start, region.clone());
        region
    }

    /// The live allocation that holds `address`.
    pub fn find(&self, address: u64) -> Option<&Arc<Region>> {
        let (_, region) = self.by_start.range(..=address).next_back()?;
        region.range.contains(&address).then_some(region)
    }

    /// The live allocation that starts at `address`.
    pub fn starting_at(&self, address: u64) -> Option<&Arc<Region>> {
        self.by_start.get(&address)
    }

    /// The live allocations that overlap `range`.
    pub fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = &Arc<Region>> {
        let start = range.start;
        self.by_start
            .range(..range.end)
            .map(|(_, region)| region)
            .rev()
            // Allocations do not overlap, so the first that ends too early ends the search.
            .take_while(move |region| region.range.end > start)
    }

    /// All live allocations, by address.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Region>> {
        self.by_start.values()
    }

    /// Removes the allocation that starts at `address`.
    pub fn remove(&mut self, address: u64) -> Option<Arc<Region>> {
        self.by_start.remove(&address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_is_found_by_any_of_its_bytes_and_by_no_other() {
        let mut regions = Regions::default();
        regions.insert(Space::Device, 100..200, None, Site::default());
        regions.insert(Space::Pinned, 200..300, None, Site::default());
        let name = |address| regions.find(address).map(|region| region.to_string());
        assert_eq!(name(99), None);
        assert_eq!(name(100).as_deref(), Some("device #1"));
        assert_eq!(name(199).as_deref(), Some("device #1"));
        assert_eq!(name(200).as_deref(), Some("pinned #1"));
        assert_eq!(name(300), None);
    }
}
