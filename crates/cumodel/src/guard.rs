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

impl Page {
    /// What those who hold the page leave to the host.
    fn held(&self) -> Level {
        match (self.writers, self.readers) {
            (0, 0) => Level::Open,
            (0, _) => Level::ReadOnly,
            _ => Level::NoAccess,
        }
    }
}

#[derive(Debug)]
struct Guarded {
    /// Pages that nothing holds: `Open`, or `NoAccess` when the first host access is to be seen as well.
    rest: Level,
    pages: Vec<Page>,
}

/// The pages of all guarded allocations.
#[derive(Debug)]
pub struct Guard {
    page_size: u64,
    regions: BTreeMap<u64, Guarded>,
}

impl Guard {
    /// A guard for pages of `page_size` bytes.
    pub fn new(page_size: u64) -> Guard {
        Guard {
            page_size,
            regions: BTreeMap::new(),
        }
    }

    /// Guards the pages of `range`, which starts at a page and is open until now; its last page belongs to it alone.
    ///
    /// With `watch` the first host access after every change of the guarded operations faults too, so that a trace can
    /// show when the host read a result.
    pub fn insert(&mut self, range: &Range<u64>, watch: bool) -> Vec<Change> {
        let count = (range.end - range.start).div_ceil(self.page_size) as usize;
        let page = Page {
            readers: 0,
            writers: 0,
            level: Level::Open,
        };
        self.regions.insert(
            range.start,
            Guarded {
                rest: if watch { Level::NoAccess } else { Level::Open },
                pages: vec![page; count],
            },
        );
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
        self.each_page(range, |at, size, page, _| {
            if page.level < level {
                page.level = level;
                push(&mut changes, at..at + size, level);
            }
        });
        changes
    }

    /// The protection of the guarded pages of `range`, as it was last announced.
    pub fn levels(&self, range: &Range<u64>) -> Vec<Change> {
        let mut levels = Vec::new();
        let size = self.page_size;
        for start in (range.start / size * size..range.end).step_by(size as usize) {
            if let Some(level) = self.level(start) {
                push(&mut levels, start..start + size, level);
            }
        }
        levels
    }

    /// The protection of the page that holds `address`, as it was last announced.
    pub fn level(&self, address: u64) -> Option<Level> {
        let (&start, guarded) = self.regions.range(..=address).next_back()?;
        guarded
            .pages
            .get(((address - start) / self.page_size) as usize)
            .map(|page| page.level)
    }

    /// Guards again what was opened of the pages of `range`, as far as something holds them.
    pub fn restore(&mut self, range: &Range<u64>) -> Vec<Change> {
        let mut changes = Vec::new();
        self.each_page(range, |at, size, page, _| {
            let level = page.held();
            if level < page.level {
                page.level = level;
                push(&mut changes, at..at + size, level);
            }
        });
        changes
    }

    fn update(&mut self, range: &Range<u64>, mut count: impl FnMut(&mut Page)) -> Vec<Change> {
        let mut changes = Vec::new();
        self.each_page(range, |at, size, page, rest| {
            count(page);
            let level = match page.held() {
                Level::Open => rest,
                held => held,
            };
            if level != page.level {
                page.level = level;
                push(&mut changes, at..at + size, level);
            }
        });
        changes
    }

    /// Visits the guarded pages of one allocation that `range` touches; the rest of `range` is not guarded.
    fn each_page(&mut self, range: &Range<u64>, mut visit: impl FnMut(u64, u64, &mut Page, Level)) {
        let size = self.page_size;
        if range.is_empty() {
            return;
        }
        let Some((&start, guarded)) = self.regions.range_mut(..range.end).next_back() else {
            return;
        };
        let first = (range.start.saturating_sub(start) / size) as usize;
        let end = ((range.end - 1 - start) / size + 1) as usize;
        let rest = guarded.rest;
        let end = end.min(guarded.pages.len());
        let Some(pages) = guarded.pages.get_mut(first..end) else {
            return;
        };
        for (index, page) in (first as u64..).zip(pages) {
            visit(start + index * size, size, page, rest);
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
        let mut guard = Guard::new(PAGE);
        assert_eq!(guard.insert(&(0..4 * PAGE), false), []);
        // Bytes of pages 1 and 2.
        let range = PAGE + 8..3 * PAGE;
        assert_eq!(guard.hold(&range, true), [change(1..3, Level::NoAccess)]);
        assert_eq!(guard.hold(&range, true), []);
        assert_eq!(guard.release(&range, true), []);
        assert_eq!(guard.release(&range, true), [change(1..3, Level::Open)]);
    }

    #[test]
    fn a_source_may_be_read_and_a_destination_may_not() {
        let mut guard = Guard::new(PAGE);
        guard.insert(&(0..PAGE), false);
        assert_eq!(guard.hold(&(0..1), false), [change(0..1, Level::ReadOnly)]);
        assert_eq!(guard.hold(&(8..9), true), [change(0..1, Level::NoAccess)]);
        assert_eq!(
            guard.release(&(8..9), true),
            [change(0..1, Level::ReadOnly)]
        );
    }

    #[test]
    fn an_opened_page_is_guarded_again_by_the_next_operation() {
        let mut guard = Guard::new(PAGE);
        guard.insert(&(0..PAGE), false);
        guard.hold(&(0..PAGE), true);
        assert_eq!(
            guard.open(&(0..PAGE), Level::Open),
            [change(0..1, Level::Open)]
        );
        assert_eq!(guard.hold(&(0..8), true), [change(0..1, Level::NoAccess)]);
    }

    #[test]
    fn watching_makes_the_first_access_visible() {
        let mut guard = Guard::new(PAGE);
        assert_eq!(
            guard.insert(&(0..PAGE), true),
            [change(0..1, Level::NoAccess)]
        );
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
