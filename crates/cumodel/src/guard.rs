//! Which pages of pinned memory the host must not touch right now.
//!
//! A driver cannot see loads and stores, but it can take the pages away: no access while a pending operation will write
//! them, no stores while one will read them.
//! This module counts, page by page, and says when a page's protection changes; whoever owns the mapping changes it.

use std::collections::BTreeMap;
use std::ops::Range;

/// What the host may do with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    NoAccess,
    /// Loads.
    ReadOnly,
    /// Loads and stores.
    Open,
}

/// A run of pages whose protection changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Whole pages.
    pub range: Range<u64>,
    /// Their new protection.
    pub level: Level,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    readers: u32,
    writers: u32,
    /// The protection as it was last announced.
    level: Level,
}

/// The pages of all guarded allocations.
#[derive(Debug)]
pub struct Guard {
    page_size: u64,
    /// Pages that nothing guards: `Open`, or `NoAccess` when the first host access is to be seen as well.
    rest: Level,
    regions: BTreeMap<u64, Vec<Page>>,
}

impl Guard {
    /// A guard for pages of `page_size` bytes.
    ///
    /// With `watch` the first host access after every change of the guarded operations faults too, so that a trace can
    /// show when the host read a result.
    pub fn new(page_size: u64, watch: bool) -> Guard {
        Guard {
            page_size,
            rest: if watch { Level::NoAccess } else { Level::Open },
            regions: BTreeMap::new(),
        }
    }

    /// Guards an allocation that starts at a page and is open until now; it has its last page to itself.
    pub fn insert(&mut self, range: &Range<u64>) -> Vec<Change> {
        let count = (range.end - range.start).div_ceil(self.page_size) as usize;
        let page = Page {
            readers: 0,
            writers: 0,
            level: Level::Open,
        };
        self.regions.insert(range.start, vec![page; count]);
        self.update(range, |_| ())
    }

    /// Stops guarding the allocation that starts at `start`.
    pub fn remove(&mut self, start: u64) {
        self.regions.remove(&start);
    }

    /// A pending operation reads (or, with `writes`, writes) the bytes of `range`.
    pub fn hold(&mut self, range: &Range<u64>, writes: bool) -> Vec<Change> {
        self.update(range, |page| {
            if writes {
                page.writers += 1;
            } else {
                page.readers += 1;
            }
        })
    }

    /// The host has waited for an operation that held `range`.
    pub fn release(&mut self, range: &Range<u64>, writes: bool) -> Vec<Change> {
        self.update(range, |page| {
            if writes {
                page.writers = page.writers.saturating_sub(1);
            } else {
                page.readers = page.readers.saturating_sub(1);
            }
        })
    }

    /// Lets an access to `range` through although it is guarded: it has been reported, or concerns a neighbour in the
    /// same page, where bytes cannot be told apart.
    pub fn open(&mut self, range: &Range<u64>, level: Level) -> Vec<Change> {
        let mut changes = Vec::new();
        self.each_page(range, |at, size, page| {
            if page.level < level {
                page.level = level;
                push(&mut changes, at..at + size, level);
            }
        });
        changes
    }

    /// The protection of the page that holds `address`, as it was last announced.
    pub fn level(&self, address: u64) -> Option<Level> {
        let (&start, pages) = self.regions.range(..=address).next_back()?;
        pages
            .get(((address - start) / self.page_size) as usize)
            .map(|page| page.level)
    }

    fn update(&mut self, range: &Range<u64>, mut count: impl FnMut(&mut Page)) -> Vec<Change> {
        let rest = self.rest;
        let mut changes = Vec::new();
        self.each_page(range, |at, size, page| {
            count(page);
            let level = match (page.writers, page.readers) {
                (0, 0) => rest,
                (0, _) => Level::ReadOnly,
                _ => Level::NoAccess,
            };
            if level != page.level {
                page.level = level;
                push(&mut changes, at..at + size, level);
            }
        });
        changes
    }

    fn each_page(&mut self, range: &Range<u64>, mut visit: impl FnMut(u64, u64, &mut Page)) {
        let size = self.page_size;
        let Some((&start, pages)) = self.regions.range_mut(..=range.start).next_back() else {
            return;
        };
        if range.is_empty() {
            return;
        }
        let first = ((range.start - start) / size) as usize;
        let last = ((range.end - 1 - start) / size) as usize;
        for (index, page) in pages.iter_mut().enumerate().take(last + 1).skip(first) {
            visit(start + index as u64 * size, size, page);
        }
    }
}

fn push(changes: &mut Vec<Change>, range: Range<u64>, level: Level) {
    match changes.last_mut() {
        Some(last) if last.level == level && last.range.end == range.start => {
            last.range.end = range.end;
        }
        _ => changes.push(Change { range, level }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    fn change(pages: Range<u64>, level: Level) -> Change {
        Change {
            range: pages.start * PAGE..pages.end * PAGE,
            level,
        }
    }

    #[test]
    fn a_page_opens_when_the_last_holder_is_gone() {
        let mut guard = Guard::new(PAGE, false);
        assert_eq!(guard.insert(&(0..4 * PAGE)), []);
        // Bytes of pages 1 and 2.
        let range = PAGE + 8..3 * PAGE;
        assert_eq!(guard.hold(&range, true), [change(1..3, Level::NoAccess)]);
        assert_eq!(guard.hold(&range, true), []);
        assert_eq!(guard.release(&range, true), []);
        assert_eq!(guard.release(&range, true), [change(1..3, Level::Open)]);
    }

    #[test]
    fn a_source_may_be_read_and_a_destination_may_not() {
        let mut guard = Guard::new(PAGE, false);
        guard.insert(&(0..PAGE));
        assert_eq!(guard.hold(&(0..1), false), [change(0..1, Level::ReadOnly)]);
        assert_eq!(guard.hold(&(8..9), true), [change(0..1, Level::NoAccess)]);
        assert_eq!(
            guard.release(&(8..9), true),
            [change(0..1, Level::ReadOnly)]
        );
    }

    #[test]
    fn an_opened_page_is_guarded_again_by_the_next_operation() {
        let mut guard = Guard::new(PAGE, false);
        guard.insert(&(0..PAGE));
        guard.hold(&(0..PAGE), true);
        assert_eq!(
            guard.open(&(0..PAGE), Level::Open),
            [change(0..1, Level::Open)]
        );
        assert_eq!(guard.hold(&(0..8), true), [change(0..1, Level::NoAccess)]);
    }

    #[test]
    fn watching_makes_the_first_access_visible() {
        let mut guard = Guard::new(PAGE, true);
        assert_eq!(guard.insert(&(0..PAGE)), [change(0..1, Level::NoAccess)]);
        assert_eq!(
            guard.open(&(0..PAGE), Level::Open),
            [change(0..1, Level::Open)]
        );
        guard.hold(&(0..PAGE), false);
        assert_eq!(
            guard.release(&(0..PAGE), false),
            [change(0..1, Level::NoAccess)]
        );
    }
}
