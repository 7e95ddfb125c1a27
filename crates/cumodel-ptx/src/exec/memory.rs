//! Loads, stores and atomics.
use super::lanes::{lanes, Slot, ALL, WARP};
use crate::access::Ranges;
use crate::code::{Mask, Reg, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW};
use crate::launch::Reason;
use crate::types::sign_extend;
use crate::{Access, Memory};

/// A state space, as an instruction names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    /// Global and constant memory: the caller's.
    Global,
    Shared,
    /// The thread's own, in the frames of its calls.
    Local,
    /// The parameters of the kernel.
    Param,
    /// Whichever the address says.
    Generic,
}

/// A load or a store of one to four elements.
pub(crate) struct Transfer {
    /// The number of this instruction among those that touch memory.
    pub(crate) id: usize,
    pub(crate) space: Space,
    pub(crate) base: Reg,
    pub(crate) offset: i64,
    /// Bytes of one element.
    pub(crate) bytes: usize,
    /// Bits of the register that a signed element is extended to.
    pub(crate) extend: Option<u32>,
    /// One register for each element; `None` for `_`.
    pub(crate) regs: Vec<Option<Reg>>,
}

/// What an atomic makes of the value before and its operands.
pub(crate) type Combine = Box<dyn Fn(u64, u64, u64) -> u64 + Send + Sync>;

/// A read, a change and a write in one step.
pub(crate) struct Atomic {
    pub(crate) id: usize,
    pub(crate) space: Space,
    pub(crate) base: Reg,
    pub(crate) offset: i64,
    pub(crate) bytes: usize,
    pub(crate) destination: Option<Reg>,
    pub(crate) operands: [Reg; 2],
    pub(crate) combine: Combine,
}

/// The most bytes that a lane transfers at once.
const WIDEST: usize = 16;

/// Everything that a warp's addresses can reach.
pub(crate) struct Reach<'r> {
    pub(crate) memory: &'r dyn Memory,
    pub(crate) shared: &'r mut [u8],
    /// For each lane.
    pub(crate) local: &'r mut [Vec<u8>],
    pub(crate) params: &'r [u8],
    pub(crate) reads: &'r mut Ranges,
    pub(crate) writes: &'r mut Ranges,
}

/// A lane whose access failed, and why.
pub(crate) type Failed = (usize, Reason);

/// An access of one warp: which lanes, where, how many bytes each.
struct Request<'q> {
    id: usize,
    addresses: &'q Slot,
    size: usize,
    access: Access,
}

impl Request<'_> {
    fn fault(&self, lane: usize) -> Failed {
        (
            lane,
            Reason::Fault {
                address: self.addresses[lane],
                bytes: self.size as u32,
                access: self.access,
            },
        )
    }

    /// The place of a lane's bytes in a memory of this many bytes that starts at `window`.
    fn place(
        &self,
        lane: usize,
        window: u64,
        length: usize,
    ) -> Result<std::ops::Range<usize>, Failed> {
        let start = self.addresses[lane].wrapping_sub(window);
        match start.checked_add(self.size as u64) {
            Some(end) if end <= length as u64 => Ok(start as usize..end as usize),
            _ => Err(self.fault(lane)),
        }
    }

    /// Neighbouring lanes that touch neighbouring bytes: first lane and number of lanes.
    fn runs(&self, mask: Mask) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut rest = mask;
        std::iter::from_fn(move || {
            let first = rest.trailing_zeros() as usize;
            if first >= WARP {
                return None;
            }
            let mut count = 1;
            while first + count < WARP
                && rest >> (first + count) & 1 == 1
                && self.addresses[first + count]
                    == self.addresses[first].wrapping_add((count * self.size) as u64)
            {
                count += 1;
            }
            // A shift by all 32 lanes would be one too far.
            rest &= !((ALL >> (WARP - count)) << first);
            Some((first, count))
        })
    }
}

fn addresses(base: &Slot, offset: i64) -> Slot {
    let mut addresses = *base;
    for address in &mut addresses {
        *address = address.wrapping_add(offset as u64);
    }
    addresses
}

fn check_alignment(request: &Request<'_>, mask: Mask) -> Result<(), Failed> {
    let low = request.size as u64 - 1;
    match lanes(mask).find(|&lane| request.addresses[lane] & low != 0) {
        None => Ok(()),
        Some(lane) => {
            let (address, bytes) = (request.addresses[lane], request.size as u32);
            Err((
                lane,
                Reason::Misaligned {
                    address,
                    bytes,
                    access: request.access,
                },
            ))
        }
    }
}

/// Splits the lanes of a generic access by the window that each address lies in.
fn by_space(space: Space, addresses: &Slot, mask: Mask) -> [(Space, u64, Mask); 4] {
    let mut parts = [
        (Space::Global, 0, 0),
        (Space::Shared, 0, 0),
        (Space::Local, 0, 0),
        (Space::Param, 0, 0),
    ];
    if space != Space::Generic {
        let part = parts.iter_mut().find(|part| part.0 == space);
        if let Some(part) = part {
            part.2 = mask;
        }
        return parts;
    }
    let windows = [(1, SHARED_WINDOW), (2, LOCAL_WINDOW), (3, PARAM_WINDOW)];
    parts[0].2 = mask;
    for (index, window) in windows {
        let inside =
            lanes(mask).filter(|&lane| (window..window + WINDOW).contains(&addresses[lane]));
        parts[index].1 = window;
        parts[index].2 = inside.fold(0, |inside, lane| inside | 1 << lane);
        parts[0].2 &= !parts[index].2;
    }
    parts
}

/// Bytes of all lanes, each at `lane * size`.
type Data = [u8; WARP * WIDEST];

impl Reach<'_> {
    /// Executes a load.
    pub(crate) fn load(
        &mut self,
        transfer: &Transfer,
        regs: &mut [Slot],
        mask: Mask,
    ) -> Result<(), Failed> {
        let addresses = addresses(&regs[transfer.base as usize], transfer.offset);
        let size = transfer.bytes * transfer.regs.len();
        let request = Request {
            id: transfer.id,
            addresses: &addresses,
            size,
            access: Access::Read,
        };
        check_alignment(&request, mask)?;
        let mut data: Data = [0; WARP * WIDEST];
        for (space, window, mask) in by_space(transfer.space, &addresses, mask) {
            if mask == 0 {
                continue;
            }
            match space {
                Space::Global => self.load_global(&request, &mut data, mask)?,
                _ => {
                    for lane in lanes(mask) {
                        let from = match space {
                            Space::Shared => {
                                &self.shared[request.place(lane, window, self.shared.len())?]
                            }
                            Space::Param => {
                                &self.params[request.place(lane, window, self.params.len())?]
                            }
                            _ => {
                                &self.local[lane]
                                    [request.place(lane, window, self.local[lane].len())?]
                            }
                        };
                        data[lane * size..][..size].copy_from_slice(from);
                    }
                }
            }
        }
        for (element, reg) in transfer.regs.iter().enumerate() {
            let Some(reg) = *reg else { continue };
            let slot = &mut regs[reg as usize];
            let at = |lane: usize| lane * size + element * transfer.bytes;
            match (transfer.bytes, transfer.extend) {
                (bytes, Some(width)) => super::lanes::set(slot, mask, |lane| {
                    let value = sign_extend(word(&data[at(lane)..][..bytes]), 8 * bytes as u32);
                    crate::types::truncate(value, width)
                }),
                (4, None) => super::lanes::set(slot, mask, |lane| {
                    let at = at(lane);
                    u64::from(u32::from_le_bytes([
                        data[at],
                        data[at + 1],
                        data[at + 2],
                        data[at + 3],
                    ]))
                }),
                (bytes, None) => {
                    super::lanes::set(slot, mask, |lane| word(&data[at(lane)..][..bytes]))
                }
            }
        }
        Ok(())
    }

    fn load_global(
        &mut self,
        request: &Request<'_>,
        data: &mut Data,
        mask: Mask,
    ) -> Result<(), Failed> {
        let size = request.size;
        let first = mask.trailing_zeros() as usize;
        let address = request.addresses[first];
        if mask.count_ones() > 1 && lanes(mask).all(|lane| request.addresses[lane] == address) {
            // All lanes read the same, as constants and sizes are read.
            let mut element = [0; WIDEST];
            self.memory
                .load(address, &mut element[..size])
                .map_err(|_| request.fault(first))?;
            self.reads.add(request.id, first, address, size as u64);
            for lane in lanes(mask) {
                data[lane * size..][..size].copy_from_slice(&element[..size]);
            }
            return Ok(());
        }
        for (first, count) in request.runs(mask) {
            let bytes = &mut data[first * size..][..count * size];
            let address = request.addresses[first];
            if self.memory.load(address, bytes).is_err() {
                for lane in first..first + count {
                    let bytes = &mut data[lane * size..][..size];
                    self.memory
                        .load(request.addresses[lane], bytes)
                        .map_err(|_| request.fault(lane))?;
                }
            }
            self.reads
                .add(request.id, first, address, (count * size) as u64);
        }
        Ok(())
    }

    /// Executes a store.
    pub(crate) fn store(
        &mut self,
        transfer: &Transfer,
        regs: &[Slot],
        mask: Mask,
    ) -> Result<(), Failed> {
        let addresses = addresses(&regs[transfer.base as usize], transfer.offset);
        let size = transfer.bytes * transfer.regs.len();
        let request = Request {
            id: transfer.id,
            addresses: &addresses,
            size,
            access: Access::Write,
        };
        check_alignment(&request, mask)?;
        let mut data: Data = [0; WARP * WIDEST];
        for (element, reg) in transfer.regs.iter().enumerate() {
            let Some(reg) = *reg else { continue };
            let slot = &regs[reg as usize];
            for lane in lanes(mask) {
                let at = lane * size + element * transfer.bytes;
                data[at..][..transfer.bytes]
                    .copy_from_slice(&slot[lane].to_le_bytes()[..transfer.bytes]);
            }
        }
        for (space, window, mask) in by_space(transfer.space, &addresses, mask) {
            if mask == 0 {
                continue;
            }
            if space == Space::Global {
                self.store_global(&request, &data, mask)?;
                continue;
            }
            for lane in lanes(mask) {
                let from = &data[lane * size..][..size];
                match space {
                    Space::Shared => {
                        let place = request.place(lane, window, self.shared.len())?;
                        self.shared[place].copy_from_slice(from);
                    }
                    Space::Local => {
                        let place = request.place(lane, window, self.local[lane].len())?;
                        self.local[lane][place].copy_from_slice(from);
                    }
                    _ => return Err(request.fault(lane)),
                }
            }
        }
        Ok(())
    }

    fn store_global(
        &mut self,
        request: &Request<'_>,
        data: &Data,
        mask: Mask,
    ) -> Result<(), Failed> {
        let size = request.size;
        for (first, count) in request.runs(mask) {
            let address = request.addresses[first];
            if self
                .memory
                .store(address, &data[first * size..][..count * size])
                .is_err()
            {
                for lane in first..first + count {
                    let bytes = &data[lane * size..][..size];
                    self.memory
                        .store(request.addresses[lane], bytes)
                        .map_err(|_| request.fault(lane))?;
                    self.writes
                        .add(request.id, lane, request.addresses[lane], size as u64);
                }
                continue;
            }
            self.writes
                .add(request.id, first, address, (count * size) as u64);
        }
        Ok(())
    }

    /// Executes an atomic, lane after lane.
    pub(crate) fn atomic(
        &mut self,
        atomic: &Atomic,
        regs: &mut [Slot],
        mask: Mask,
    ) -> Result<(), Failed> {
        let addresses = addresses(&regs[atomic.base as usize], atomic.offset);
        let request = Request {
            id: atomic.id,
            addresses: &addresses,
            size: atomic.bytes,
            access: Access::Atomic,
        };
        check_alignment(&request, mask)?;
        let [b, c] = atomic.operands.map(|reg| regs[reg as usize]);
        let mut before = [0; WARP];
        for (space, window, mask) in by_space(atomic.space, &addresses, mask) {
            for lane in lanes(mask) {
                let bytes = match space {
                    Space::Global => {
                        let mut update = |old| (atomic.combine)(old, b[lane], c[lane]);
                        let address = addresses[lane];
                        let old = self.memory.update(address, atomic.bytes, &mut update);
                        before[lane] = old.map_err(|_| request.fault(lane))?;
                        self.reads
                            .add(request.id, lane, address, atomic.bytes as u64);
                        self.writes
                            .add(request.id, lane, address, atomic.bytes as u64);
                        continue;
                    }
                    Space::Shared => {
                        let place = request.place(lane, window, self.shared.len())?;
                        &mut self.shared[place]
                    }
                    _ => {
                        let what = "an atomic on local or parameter memory".to_owned();
                        return Err((lane, Reason::Undefined { what }));
                    }
                };
                before[lane] = word(bytes);
                let after = (atomic.combine)(before[lane], b[lane], c[lane]);
                bytes.copy_from_slice(&after.to_le_bytes()[..atomic.bytes]);
            }
        }
        if let Some(destination) = atomic.destination {
            super::lanes::set(&mut regs[destination as usize], mask, |lane| before[lane]);
        }
        Ok(())
    }
}

/// Up to eight little-endian bytes.
#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
