//! Places in host memory, read and written as a program races with the device.

use std::collections::BTreeSet;

/// The value that fills a buffer before anything meaningful is in it.
pub const POISON: u32 = ::lab::POISON;

/// Buffers above this size are looked at once for each line of 64 bytes.
const LOOK_AT_EVERYTHING: usize = 1 << 20;
const LINE: usize = 16;

/// Words in host memory: pinned, registered, managed or pageable. The lab that gave it keeps it alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// The address.
    pub address: usize,
    /// Its size.
    pub bytes: usize,
}

impl Host {
    /// The number of 4-byte words.
    pub fn len(self) -> usize {
        self.bytes / 4
    }

    /// Has it no words?
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// A part of it, in words.
    pub fn part(self, start: usize, len: usize) -> Host {
        assert!(
            start + len <= self.len(),
            "the part lies outside the buffer"
        );
        Host {
            address: self.address + 4 * start,
            bytes: 4 * len,
        }
    }

    /// One word, as it is at this moment.
    pub fn get(self, index: usize) -> u32 {
        assert!(index < self.len(), "the word lies outside the buffer");
        // SAFETY: the word lies inside; the lab keeps the buffer until the program has ended. A device may write it at
        // the same time: a volatile read is a probe of that, and nothing but a number comes of it.
        unsafe { (self.address as *const u32).add(index).read_volatile() }
    }

    /// Changes one word.
    pub fn put(self, index: usize, value: u32) {
        assert!(index < self.len(), "the word lies outside the buffer");
        // SAFETY: as for `get`; a device may read it at the same time.
        unsafe { (self.address as *mut u32).add(index).write_volatile(value) };
    }

    /// Fills it with a value.
    pub fn set(self, value: u32) {
        for index in 0..self.len() {
            self.put(index, value);
        }
    }

    /// What it holds: the value of every word, or "mix".
    pub fn read(self) -> String {
        let step = if self.bytes > LOOK_AT_EVERYTHING {
            LINE
        } else {
            1
        };
        let words = (0..self.len()).step_by(step).map(|index| self.get(index));
        classify(words)
    }
}

/// The value that all words have, or "mix".
pub fn classify(words: impl Iterator<Item = u32>) -> String {
    let values: BTreeSet<u32> = words.collect();
    match values.first() {
        Some(&POISON) if values.len() == 1 => "poison".into(),
        // A larger number is a pattern.
        Some(value) if values.len() == 1 && *value > 0xFFFF => format!("{value:#x}"),
        Some(value) if values.len() == 1 => value.to_string(),
        Some(_) => "mix".into(),
        None => "empty".into(),
    }
}
