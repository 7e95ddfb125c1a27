//! A memory that is one run of bytes.
use cumodel_ptx::{Memory, OutOfRange};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a word.
const WORD: usize = 8;

/// One run of bytes from an address on: enough for tests and for measuring.
///
/// It consists of words that are read and written as atomics, so that racing blocks stay sound.
#[derive(Debug)]
pub struct FlatMemory {
    base: u64,
    words: Vec<AtomicU64>,
}

impl FlatMemory {
    /// Zeros from `base` on; `base` and `bytes` are rounded up to a multiple of 8.
    pub fn new(base: u64, bytes: usize) -> FlatMemory {
        let words = (0..bytes.div_ceil(WORD))
            .map(|_| AtomicU64::new(0))
            .collect();
        FlatMemory {
            base: base.next_multiple_of(WORD as u64),
            words,
        }
    }

    /// The address of the first byte.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The words that hold these bytes, each with the part of it that is meant and its place among the bytes.
    fn pieces(
        &self,
        address: u64,
        bytes: usize,
    ) -> Result<impl Iterator<Item = (&AtomicU64, Range<usize>, usize)>, OutOfRange> {
        let start = address.checked_sub(self.base).ok_or(OutOfRange)?;
        let end = start.checked_add(bytes as u64).ok_or(OutOfRange)?;
        if end > (WORD * self.words.len()) as u64 {
            return Err(OutOfRange);
        }
        let (start, end) = (start as usize, end as usize);
        Ok((start / WORD..end.div_ceil(WORD)).map(move |index| {
            let part = start.saturating_sub(index * WORD)..(end - index * WORD).min(WORD);
            let place = index * WORD + part.start - start;
            (&self.words[index], part, place)
        }))
    }
}

/// The bits of a word that these bytes take.
fn mask(part: &Range<usize>) -> u64 {
    (u64::MAX >> (64 - 8 * part.len())) << (8 * part.start)
}

impl Memory for FlatMemory {
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), OutOfRange> {
        for (word, part, place) in self.pieces(address, into.len())? {
            let word = word.load(Ordering::Relaxed).to_le_bytes();
            if part.len() == WORD {
                into[place..place + WORD].copy_from_slice(&word);
            } else {
                into[place..place + part.len()].copy_from_slice(&word[part]);
            }
        }
        Ok(())
    }

    fn store(&self, address: u64, from: &[u8]) -> Result<(), OutOfRange> {
        for (word, part, place) in self.pieces(address, from.len())? {
            let mut bytes = [0; WORD];
            bytes[part.clone()].copy_from_slice(&from[place..place + part.len()]);
            let bits = u64::from_le_bytes(bytes);
            if part.len() == WORD {
                word.store(bits, Ordering::Relaxed);
                continue;
            }
            word.fetch_and(!mask(&part), Ordering::Relaxed);
            word.fetch_or(bits, Ordering::Relaxed);
        }
        Ok(())
    }

    fn update(
        &self,
        address: u64,
        bytes: usize,
        update: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, OutOfRange> {
        let (word, part, _) = self.pieces(address, bytes)?.next().ok_or(OutOfRange)?;
        let (mask, shift) = (mask(&part), 8 * part.start);
        let changed = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| {
            Some(old & !mask | (update((old & mask) >> shift) << shift) & mask)
        });
        changed
            .map(|old| (old & mask) >> shift)
            .map_err(|_| OutOfRange)
    }
}

#[test]
fn parts_of_words_and_ends() {
    let memory = FlatMemory::new(16, 16);
    memory.store(21, &[1, 2, 3, 4, 5]).unwrap();
    let mut all = [0; 16];
    memory.load(16, &mut all).unwrap();
    assert_eq!(all, [0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0]);
    assert_eq!(memory.update(24, 2, &mut |old| old + 0x1_0001), Ok(0x0504));
    memory.load(16, &mut all).unwrap();
    assert_eq!(all[8..11], [5, 5, 0]);
    assert_eq!(memory.load(17, &mut all), Err(OutOfRange));
    assert_eq!(memory.store(15, &[0]), Err(OutOfRange));
    assert_eq!(memory.load(u64::MAX, &mut [0; 2]), Err(OutOfRange));
}
