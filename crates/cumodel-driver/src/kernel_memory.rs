//! The memory that a kernel can reach, while it runs.

use std::ops::Range;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use cumodel::{Region, Space};
use cumodel_ptx::OutOfRange;

use crate::assertion::{self, Assertion};
use crate::config::Machine;
use crate::kernel::Launch;
use crate::state::State;

/// A stretch of addresses of the kernel, and where its bytes are.
struct Piece {
    /// As the kernel knows them.
    kernel: Range<u64>,
    /// Where the model reads and writes the first of them.
    engine: usize,
    /// The same byte as the program and the ledger know it.
    program: u64,
}

/// Everything that one launch can reach.
///
/// Threads of a kernel may race, so every access is an atomic one of the widest size that fits.
/// Where two of different sizes race, the bytes of either can be seen, as on a GPU.
pub struct KernelMemory {
    /// Sorted and disjoint.
    pieces: Vec<Piece>,
    /// On a coherent machine the device uses the page tables of the CPU, and reaches everything that is mapped.
    pageable: Option<Pageable>,
    /// What a failed assertion of the kernel says.
    assertion: Assertion,
}

impl KernelMemory {
    /// What a launch can reach of the allocations `regions`, the first of which goes where two overlap.
    pub fn new(state: &State, regions: &[Arc<Region>], launch: &Launch) -> KernelMemory {
        let mut pieces: Vec<Piece> = Vec::with_capacity(regions.len());
        for region in regions {
            let block = state.memory.block(region.range.start);
            let foreign = region.space == Space::Device
                && block.is_some_and(|block| {
                    block.device != launch.device
                        && !state.peers.contains(&(launch.context, block.context))
                });
            if !foreign {
                let start = state.memory.device_address(region, region.range.start);
                pieces.push(Piece {
                    kernel: start..start + (region.range.end - region.range.start),
                    engine: state.memory.engine_address(region),
                    program: region.range.start,
                });
            }
        }
        // The sort is stable, and an allocation that begins where another has ended has no other bytes.
        pieces.sort_by_key(|piece| (piece.kernel.start, u64::MAX - piece.kernel.end));
        pieces.dedup_by(|later, earlier| later.kernel.start < earlier.kernel.end);
        let coherent = state.config.machine == Machine::Coherent;
        KernelMemory {
            pieces,
            pageable: coherent.then(|| Pageable {
                forbidden: state.memory.views(),
                mapped: OnceLock::new(),
            }),
            assertion: Assertion::default(),
        }
    }

    /// Why the kernel has stopped itself, if an assertion has failed.
    pub fn failed_assertion(&self) -> Option<String> {
        self.assertion.sentence(|address| self.text(address))
    }

    /// What the kernel takes for a string, as far as it can be read.
    fn text(&self, address: u64) -> String {
        const LONGEST: u64 = 500;
        let bytes = (address..address.saturating_add(LONGEST)).map_while(|at| {
            let mut byte = [0];
            cumodel_ptx::Memory::load(self, at, &mut byte).ok()?;
            (byte != [0]).then_some(byte[0])
        });
        String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
    }

    /// Where `bytes` bytes at the kernel's `address` are.
    fn find(&self, address: u64, bytes: usize, write: bool) -> Result<usize, OutOfRange> {
        let end = address.checked_add(bytes as u64).ok_or(OutOfRange)?;
        let index = self
            .pieces
            .partition_point(|piece| piece.kernel.end <= address);
        match self.pieces.get(index) {
            Some(piece) if piece.kernel.start <= address => {
                if end <= piece.kernel.end {
                    Ok(piece.engine + (address - piece.kernel.start) as usize)
                } else {
                    Err(OutOfRange)
                }
            }
            _ => match &self.pageable {
                Some(pageable) if pageable.holds(address..end, write) => Ok(address as usize),
                _ => Err(OutOfRange),
            },
        }
    }

    /// The program's addresses of sorted, disjoint ranges of the kernel's; the result is sorted and disjoint as well.
    pub fn program_ranges(&self, ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
        if self
            .pieces
            .iter()
            .all(|piece| piece.kernel.start == piece.program)
        {
            return ranges;
        }
        let mut all: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            let first = self
                .pieces
                .partition_point(|piece| piece.kernel.end <= range.start);
            let touched = self.pieces[first..]
                .iter()
                .take_while(|piece| piece.kernel.start < range.end);
            all.extend(touched.map(|piece| {
                let start = range.start.max(piece.kernel.start) - piece.kernel.start;
                let end = range.end.min(piece.kernel.end) - piece.kernel.start;
                piece.program + start..piece.program + end
            }));
        }
        all.sort_unstable_by_key(|range| range.start);
        all
    }
}

/// Splits `bytes` bytes at `address` into accesses that are aligned and as wide as they can be, and calls `access` with
/// the offset and the width of each.
#[inline(always)]
fn split(address: usize, bytes: usize, mut access: impl FnMut(usize, usize)) {
    let mut offset = 0;
    while offset < bytes {
        let left = bytes - offset;
        let at = address + offset;
        let width = match () {
            () if left >= 8 && at.is_multiple_of(8) => 8,
            () if left >= 4 && at.is_multiple_of(4) => 4,
            () if left >= 2 && at.is_multiple_of(2) => 2,
            () => 1,
        };
        access(offset, width);
        offset += width;
    }
}

impl cumodel_ptx::Memory for KernelMemory {
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), OutOfRange> {
        let from = self.find(address, into.len(), false)?;
        split(from, into.len(), |offset, width| {
            let at = from + offset;
            let piece = &mut into[offset..offset + width];
            // SAFETY: `find` has checked that the bytes lie in the engine's view of an allocation, which stays mapped
            // for the life of the process, in memory that the program has registered and promised to keep, or in
            // mapped pages of a program that lets a kernel use them; `split` aligns. Everybody who could race with
            // this is a thread of the same kernel, and uses relaxed atomics as well.
            unsafe {
                match width {
                    8 => piece.copy_from_slice(
                        &AtomicU64::from_ptr(at as *mut u64)
                            .load(Ordering::Relaxed)
                            .to_ne_bytes(),
                    ),
                    4 => piece.copy_from_slice(
                        &AtomicU32::from_ptr(at as *mut u32)
                            .load(Ordering::Relaxed)
                            .to_ne_bytes(),
                    ),
                    2 => piece.copy_from_slice(
                        &AtomicU16::from_ptr(at as *mut u16)
                            .load(Ordering::Relaxed)
                            .to_ne_bytes(),
                    ),
                    _ => piece[0] = AtomicU8::from_ptr(at as *mut u8).load(Ordering::Relaxed),
                }
            }
        });
        Ok(())
    }

    fn store(&self, address: u64, from: &[u8]) -> Result<(), OutOfRange> {
        if assertion::WINDOW.contains(&address) {
            self.assertion.store(address, from);
            return Ok(());
        }
        let to = self.find(address, from.len(), true)?;
        split(to, from.len(), |offset, width| {
            let at = to + offset;
            let mut wide = [0; 8];
            wide[..width].copy_from_slice(&from[offset..offset + width]);
            let [a, b, c, d, ..] = wide;
            // SAFETY: as in `load`.
            unsafe {
                match width {
                    8 => AtomicU64::from_ptr(at as *mut u64)
                        .store(u64::from_ne_bytes(wide), Ordering::Relaxed),
                    4 => AtomicU32::from_ptr(at as *mut u32)
                        .store(u32::from_ne_bytes([a, b, c, d]), Ordering::Relaxed),
                    2 => AtomicU16::from_ptr(at as *mut u16)
                        .store(u16::from_ne_bytes([a, b]), Ordering::Relaxed),
                    _ => AtomicU8::from_ptr(at as *mut u8).store(a, Ordering::Relaxed),
                }
            }
        });
        Ok(())
    }

    fn update(
        &self,
        address: u64,
        bytes: usize,
        update: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, OutOfRange> {
        let at = self.find(address, bytes, true)?;
        if !matches!(bytes, 2 | 4 | 8) || !at.is_multiple_of(bytes) {
            return Err(OutOfRange);
        }
        let order = (Ordering::AcqRel, Ordering::Acquire);
        // SAFETY: as in `load`; the address is aligned, as was just checked.
        let updated = unsafe {
            match bytes {
                2 => AtomicU16::from_ptr(at as *mut u16)
                    .fetch_update(order.0, order.1, |value| {
                        Some(update(u64::from(value)) as u16)
                    })
                    .map_or_else(u64::from, u64::from),
                4 => AtomicU32::from_ptr(at as *mut u32)
                    .fetch_update(order.0, order.1, |value| {
                        Some(update(u64::from(value)) as u32)
                    })
                    .map_or_else(u64::from, u64::from),
                _ => AtomicU64::from_ptr(at as *mut u64)
                    .fetch_update(order.0, order.1, |value| Some(update(value)))
                    .unwrap_or_else(|value| value),
            }
        };
        Ok(updated)
    }
}

/// Memory of the program that the driver does not know.
struct Pageable {
    /// The model's own mappings.
    forbidden: Vec<Range<u64>>,
    /// What was mapped when the kernel first asked, and whether it can be written.
    mapped: OnceLock<Vec<(Range<u64>, bool)>>,
}

impl Pageable {
    /// Can the program itself read, or with `write` write, all bytes of `range`?
    fn holds(&self, range: Range<u64>, write: bool) -> bool {
        let overlaps = |other: &Range<u64>| range.start < other.end && other.start < range.end;
        if self.forbidden.iter().any(overlaps) {
            return false;
        }
        let mapped = self.mapped.get_or_init(mapped_now);
        // Neighbouring mappings can hold one range together.
        let mut start = range.start;
        for (part, writable) in mapped {
            if part.contains(&start) && (*writable || !write) {
                if range.end <= part.end {
                    return true;
                }
                start = part.end;
            }
        }
        false
    }
}

/// The mappings that this process can read, in order, and whether it can write them.
fn mapped_now() -> Vec<(Range<u64>, bool)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            let (start, end) = fields.next()?.split_once('-')?;
            let start = u64::from_str_radix(start, 16).ok()?;
            let end = u64::from_str_radix(end, 16).ok()?;
            let rights = fields.next()?;
            rights
                .starts_with('r')
                .then_some((start..end, rights.as_bytes().get(1) == Some(&b'w')))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cumodel_ptx::Memory as _;

    fn over(bytes: &mut [u64]) -> KernelMemory {
        let start = bytes.as_mut_ptr() as u64;
        KernelMemory {
            pieces: vec![Piece {
                kernel: 1000..1000 + size_of_val(bytes) as u64,
                engine: start as usize,
                program: 5000,
            }],
            pageable: None,
            assertion: Assertion::default(),
        }
    }

    #[test]
    fn bytes_arrive_whatever_their_alignment() {
        let mut words = [0u64; 8];
        let memory = over(&mut words);
        for start in 0..16 {
            for length in 0..32 {
                let from: Vec<u8> = (0..length).map(|byte| byte + start + 1).collect();
                let mut into = vec![0; from.len()];
                let address = 1000 + u64::from(start);
                assert_eq!(memory.store(address, &from), Ok(()));
                assert_eq!(memory.load(address, &mut into), Ok(()));
                assert_eq!(into, from);
            }
        }
    }

    #[test]
    fn nothing_beyond_the_end_is_touched() {
        let mut words = [0u64; 2];
        let memory = over(&mut words);
        for (address, bytes) in [(999, 1), (1000, 17), (1015, 2), (1016, 1), (u64::MAX, 4)] {
            assert_eq!(memory.store(address, &vec![1; bytes]), Err(OutOfRange));
            assert_eq!(memory.load(address, &mut vec![0; bytes]), Err(OutOfRange));
        }
        assert_eq!(memory.update(1014, 4, &mut |value| value), Err(OutOfRange));
        drop(memory);
        assert_eq!(words, [0; 2]);
    }

    #[test]
    fn an_update_is_one_step_of_any_width() {
        let mut words = [0u64; 2];
        let memory = over(&mut words);
        for bytes in [2, 4, 8] {
            for expected in 0..3 {
                assert_eq!(memory.update(1008, bytes, &mut |it| it + 1), Ok(expected));
            }
            assert_eq!(memory.store(1008, &[0; 8]), Ok(()));
        }
    }

    #[test]
    fn ranges_are_told_as_the_program_knows_them() {
        let mut words = [0u64; 2];
        let memory = over(&mut words);
        let told = memory.program_ranges(vec![1000..1004, 1008..1016]);
        assert_eq!(told, [5000..5004, 5008..5016]);
    }

    #[test]
    fn a_coherent_device_reaches_what_is_mapped_and_nothing_else() {
        let pageable = Pageable {
            forbidden: vec![100..150, 150..200],
            mapped: OnceLock::from(vec![(0..300, true), (300..400, false), (500..600, true)]),
        };
        assert!(pageable.holds(0..100, true));
        assert!(pageable.holds(250..400, false));
        for (range, write) in [
            (99..101, false),
            (250..400, true),
            (399..401, false),
            (400..500, false),
        ] {
            assert!(!pageable.holds(range.clone(), write), "{range:?}");
        }
    }
}
