//! Data that shows whether it has arrived: every word depends on its place and on the pass.

use std::mem::MaybeUninit;

/// Odd, so that two passes with different seeds have no word in common at any place.
const STEP_OF_SEED: u64 = 0xD6E8_FEB8_6659_FD93;
const STEP_OF_PLACE: u64 = 0x9E37_79B9_7F4A_7C15;
/// How many words are compared before the comparison looks whether one of them differs.
const CHUNK: usize = 512;

/// The word at `place` of the pattern with `seed`.
pub fn word(seed: u64, place: usize) -> u64 {
    let start = seed.wrapping_mul(STEP_OF_SEED);
    start.wrapping_add((place as u64).wrapping_mul(STEP_OF_PLACE))
}

/// Writes the pattern into `room`; its first word has the place `first`.
pub fn fill(room: &mut [MaybeUninit<u64>], seed: u64, first: usize) {
    for (index, value) in room.iter_mut().enumerate() {
        value.write(word(seed, first + index));
    }
}

/// The index of the first word that is not the pattern's, or `None` if all are.
pub fn first_difference(words: &[u64], seed: u64, first: usize) -> Option<usize> {
    let differs = |index: usize| words[index] ^ word(seed, first + index);
    (0..words.len()).step_by(CHUNK).find_map(|start| {
        let chunk = start..words.len().min(start + CHUNK);
        let difference = chunk.clone().fold(0, |bits, index| bits | differs(index));
        (difference != 0).then(|| chunk.clone().find(|&index| differs(index) != 0))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(words: usize, seed: u64, first: usize) -> Vec<u64> {
        (first..first + words)
            .map(|place| word(seed, place))
            .collect()
    }

    #[test]
    fn a_pattern_is_recognized_at_its_place_and_with_its_seed() {
        let mut room = vec![MaybeUninit::new(0); 2000];
        fill(&mut room, 7, 100);
        // SAFETY: all words were initialized above.
        let words: Vec<u64> = room
            .iter()
            .map(|word| unsafe { word.assume_init() })
            .collect();
        assert_eq!(words, filled(2000, 7, 100));
        assert_eq!(first_difference(&words, 7, 100), None);
        assert_eq!(first_difference(&words, 8, 100), Some(0));
        assert_eq!(first_difference(&words, 7, 101), Some(0));
    }

    #[test]
    fn one_wrong_bit_is_found() {
        let mut words = filled(2000, 7, 0);
        words[1999] ^= 1 << 63;
        assert_eq!(first_difference(&words, 7, 0), Some(1999));
    }

    #[test]
    fn neither_fresh_nor_old_memory_looks_right() {
        assert_eq!(first_difference(&[0; 4096], 1, 0), Some(0));
        let same = filled(4096, 1, 0).into_iter().zip(filled(4096, 2, 0));
        assert_eq!(same.filter(|(old, new)| old == new).count(), 0);
    }
}
