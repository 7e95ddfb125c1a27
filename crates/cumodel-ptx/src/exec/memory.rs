//! Loads, stores and atomics.
use super::lanes::{lanes, set, Slot, ALL, WARP};
use crate::access::Ranges;
use crate::code::{Mask, Reg, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW};
use crate::launch::Reason;
use crate::types::{sign_extend, truncate};
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
        // The most frequent case, without a branch for each lane.
        let coalesced =
            mask == ALL && differs(self.addresses, ALL, self.addresses[0], self.size as u64) == 0;
        let mut rest = mask;
        std::iter::from_fn(move || {
            let first = rest.trailing_zeros() as usize;
            if first >= WARP {
                return None;
            }
            let mut count = if coalesced { WARP } else { 1 };
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

/// Not zero if the address of any lane of `mask` differs from `first + lane * step`.
#[inline(always)]
fn differs(addresses: &Slot, mask: Mask, first: u64, step: u64) -> u64 {
    let difference = |lane: usize| addresses[lane] ^ first.wrapping_add(lane as u64 * step);
    if mask == ALL {
        (0..WARP).fold(0, |all, lane| all | difference(lane))
    } else {
        lanes(mask).fold(0, |all, lane| all | difference(lane))
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
    // Bits that no aligned address has, of all lanes at once; which lane it is matters only for the report.
    let bits = if mask == ALL {
        request
            .addresses
            .iter()
            .fold(0, |all, address| all | address)
    } else {
        lanes(mask).fold(0, |all, lane| all | request.addresses[lane])
    };
    if bits & low == 0 {
        return Ok(());
    }
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
        let (first, last) = (
            mask.trailing_zeros() as usize,
            31 - mask.leading_zeros() as usize,
        );
        // Most addresses that differ at all differ between the first lane and the last.
        let uniform = addresses[first] == addresses[last]
            && differs(&addresses, mask, addresses[first], 0) == 0;
        check_alignment(&request, if uniform { 1 << first } else { mask })?;
        if uniform && matches!(transfer.space, Space::Param | Space::Global) {
            return self.load_uniform(&request, transfer, regs, mask, first);
        }
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
                        copy(&mut data[lane * size..][..size], from);
                    }
                }
            }
        }
        for (element, reg) in transfer.regs.iter().enumerate() {
            let Some(reg) = *reg else { continue };
            let slot = &mut regs[reg as usize];
            let at = element * transfer.bytes;
            let extended = |value: u64| match transfer.extend {
                None => value,
                Some(width) => truncate(sign_extend(value, 8 * transfer.bytes as u32), width),
            };
            match (transfer.bytes, size) {
                // Without arithmetic on places, so that the loop becomes a few vector instructions.
                (4, 4) if mask == ALL && transfer.extend.is_none() => {
                    for (bits, bytes) in slot.iter_mut().zip(data.chunks_exact(4)) {
                        *bits =
                            u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
                    }
                }
                (bytes, _) => set(slot, mask, |lane| {
                    extended(word(&data[lane * size + at..][..bytes]))
                }),
            }
        }
        Ok(())
    }

    /// All lanes read the same bytes, as parameters, constants and sizes are read.
    fn load_uniform(
        &mut self,
        request: &Request<'_>,
        transfer: &Transfer,
        regs: &mut [Slot],
        mask: Mask,
        first: usize,
    ) -> Result<(), Failed> {
        let (size, address) = (request.size, request.addresses[first]);
        let mut data = [0; WIDEST];
        if transfer.space == Space::Param {
            copy(
                &mut data[..size],
                &self.params[request.place(first, 0, self.params.len())?],
            );
        } else {
            self.memory
                .load(address, &mut data[..size])
                .map_err(|_| request.fault(first))?;
            self.reads.add(request.id, first, address, size as u64);
        }
        for (reg, bytes) in transfer.regs.iter().zip(data.chunks_exact(transfer.bytes)) {
            let Some(reg) = *reg else { continue };
            let value = match transfer.extend {
                None => word(bytes),
                Some(width) => truncate(sign_extend(word(bytes), 8 * transfer.bytes as u32), width),
            };
            set(&mut regs[reg as usize], mask, |_| value);
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
            if (transfer.bytes, size) == (4, 4) {
                for (bytes, bits) in data.chunks_exact_mut(4).zip(slot) {
                    bytes.copy_from_slice(&(*bits as u32).to_le_bytes());
                }
                continue;
            }
            for lane in lanes(mask) {
                let at = lane * size + element * transfer.bytes;
                copy(
                    &mut data[at..][..transfer.bytes],
                    &slot[lane].to_le_bytes()[..transfer.bytes],
                );
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
            set(&mut regs[destination as usize], mask, |lane| before[lane]);
        }
        Ok(())
    }
}

/// Copies an element; a length that is known is a move, any other a call.
#[inline(always)]
fn copy(into: &mut [u8], from: &[u8]) {
    match into.len() {
        4 => into[..4].copy_from_slice(&from[..4]),
        8 => into[..8].copy_from_slice(&from[..8]),
        _ => into.copy_from_slice(from),
    }
}

/// Up to eight little-endian bytes.
#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    copy(&mut word[..bytes.len()], bytes);
    u64::from_le_bytes(word)
}
