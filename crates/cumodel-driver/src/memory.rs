//! The model's memory: what is allocated where, and what has been freed.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::Arc;

use cumodel::guard::Level;
use cumodel::{Access, AccessKind, Engine, Freed, Region, Site, Space, StreamId, Target};

use crate::arena::{reserve_addresses, Arena};
use crate::guard::{self, page_size};
use crate::state::Effect;
use crate::Code;

/// Address space for page-locked and managed memory, in bytes; frames are taken only for what is allocated.
const HOST_MEMORY: usize = 64 << 30;
/// Address space for the memory of all devices, in bytes.
const DEVICE_MEMORY: usize = 256 << 30;
/// CUDA aligns allocations to at least 256 bytes; 512 is what stream-ordered pools use.
const DEVICE_GRAIN: usize = 512;
/// What device memory holds before anything is written: not zeros, so that nobody takes it for initialized.
const UNWRITTEN: u8 = 0xA5;
/// How many freed allocations are remembered, for reports.
const REMEMBERED_FREES: usize = 1024;

/// cuMemHostAlloc's flag for write-combined memory.
pub const WRITE_COMBINED: u32 = 4;

/// An allocation, beyond what the engine needs to know.
pub struct Block {
    /// What the arena handed out: the size rounded up. Registered memory is the program's own.
    reserved: Range<u64>,
    /// The flags that it was allocated with.
    pub flags: u32,
    /// The device or, for host memory, the device of the context that allocated it.
    pub device: usize,
    /// The context that allocated it.
    pub context: usize,
    /// From cuMemAllocAsync?
    pub stream_ordered: bool,
}

/// A block whose stream-ordered free is enqueued.
struct QueuedFree {
    reserved: Range<u64>,
    device: usize,
    /// The moment of the free.
    moment: Target,
}

/// The end of an allocation, for reports.
#[derive(Clone)]
pub struct Ended {
    /// What it was.
    pub region: Arc<Region>,
    /// The function that freed it.
    pub call: &'static str,
    /// The caller.
    pub site: Site,
}

/// All memory that the model hands out.
pub struct Memory {
    device: Arena,
    host: Arena,
    /// Device addresses of write-combined memory, which are not its host addresses (R29).
    alias: Range<usize>,
    /// Addresses for the page tables of host memory that is taken away.
    parking: Range<usize>,
    blocks: BTreeMap<u64, Block>,
    /// By freeing stream, most recent last (R44).
    freed: HashMap<StreamId, Vec<QueuedFree>>,
    /// Blocks that a pending operation may still use, by their first address.
    undecided: HashMap<u64, Range<u64>>,
    ended: VecDeque<Ended>,
    /// Bytes in use on each device.
    used: Vec<usize>,
    /// Bytes of each device.
    limit: usize,
}

impl Memory {
    /// Reserves address space.
    pub fn new() -> io::Result<Memory> {
        Ok(Memory {
            device: Arena::new(DEVICE_MEMORY, DEVICE_GRAIN)?,
            host: Arena::new(HOST_MEMORY, page_size())?,
            alias: reserve_addresses(HOST_MEMORY)?,
            parking: reserve_addresses(HOST_MEMORY)?,
            blocks: BTreeMap::new(),
            freed: HashMap::new(),
            undecided: HashMap::new(),
            ended: VecDeque::new(),
            used: Vec::new(),
            limit: 0,
        })
    }

    /// Forgets everything, for `devices` devices with `limit` bytes each.
    pub fn reset(&mut self, devices: usize, limit: usize) {
        for (_, block) in std::mem::take(&mut self.blocks) {
            self.give_back(&block.reserved);
        }
        self.device.reset();
        self.host.reset();
        guard::unwatch_all_registered();
        self.freed.clear();
        self.undecided.clear();
        self.ended.clear();
        self.used = vec![0; devices];
        self.limit = limit;
    }

    /// The addresses at which the program's accesses can fault: host memory first, device memory second.
    pub fn watched(&self) -> [Range<usize>; 2] {
        [self.host.program_view(), self.device.program_view()]
    }

    /// Addresses for the page tables of host memory that is taken away.
    pub fn parking(&self) -> Range<usize> {
        self.parking.clone()
    }

    /// Free and total bytes of a device.
    pub fn of_device(&self, device: usize) -> (usize, usize) {
        let used = self.used.get(device).copied().unwrap_or(0);
        (self.limit.saturating_sub(used), self.limit)
    }

    /// Allocates device memory; `stream` is that of a stream-ordered allocation.
    pub fn allocate_device(
        &mut self,
        engine: &mut Engine<Effect>,
        bytes: usize,
        stream: Option<StreamId>,
        owner: Owner,
        site: Site,
    ) -> Option<Arc<Region>> {
        let length = bytes
            .checked_next_multiple_of(DEVICE_GRAIN)?
            .max(DEVICE_GRAIN);
        let reused = stream.and_then(|stream| {
            let freed = self.freed.get_mut(&stream)?;
            let index = freed.iter().rposition(|block| {
                block.reserved.end - block.reserved.start == length as u64
                    && block.device == owner.device
            })?;
            Some(freed.remove(index).reserved)
        });
        let reserved = match reused {
            // The block's next life begins, in stream order, after its last one ended.
            Some(reserved) => reserved,
            None => {
                let used = self.used.get_mut(owner.device)?;
                if length > self.limit.saturating_sub(*used) {
                    return None;
                }
                if !machine_has(length) {
                    return None;
                }
                let reserved = self.device.allocate(length)?;
                *used += length;
                self.device.fill(&reserved, UNWRITTEN);
                reserved
            }
        };
        let start = reserved.start;
        self.remember(reserved, 0, owner, stream.is_some());
        let range = start..start + bytes as u64;
        Some(engine.allocate(Space::Device, range, None, false, site))
    }

    /// Allocates page-locked or managed memory; every page has its frame when this returns.
    ///
    /// `watch` makes the first host access after each operation visible.
    #[allow(
        clippy::too_many_arguments,
        reason = "each is a property of the allocation"
    )]
    pub fn allocate_host(
        &mut self,
        engine: &mut Engine<Effect>,
        space: Space,
        bytes: usize,
        flags: u32,
        watch: bool,
        owner: Owner,
        site: Site,
    ) -> Option<Arc<Region>> {
        if !machine_has(bytes) {
            return None;
        }
        let reserved = self.host.allocate(bytes)?;
        guard::protect(&reserved, Level::Open);
        self.host.populate(&reserved);
        let range = reserved.start..reserved.start + bytes as u64;
        let pages = reserved.clone();
        self.remember(reserved, flags, owner, false);
        Some(engine.allocate(space, range, Some(pages), watch, site))
    }

    /// Makes memory of the program page-locked (R27).
    pub fn register(
        &mut self,
        engine: &mut Engine<Effect>,
        range: Range<u64>,
        flags: u32,
        owner: Owner,
        site: Site,
    ) -> Arc<Region> {
        let page = page_size() as u64;
        let pages = range.start.next_multiple_of(page)..range.end / page * page;
        // Memory of the program can only be taken away page by page, and pages at the ends may hold other things.
        let guarded = (pages.start < pages.end && guard::watch_registered(&pages)).then_some(pages);
        self.remember(range.clone(), flags, owner, false);
        engine.allocate(Space::Registered, range, guarded, false, site)
    }

    fn remember(&mut self, reserved: Range<u64>, flags: u32, owner: Owner, stream_ordered: bool) {
        self.blocks.insert(
            reserved.start,
            Block {
                reserved,
                flags,
                device: owner.device,
                context: owner.context,
                stream_ordered,
            },
        );
    }

    /// What is known about the allocation that starts at `address`.
    pub fn block(&self, address: u64) -> Option<&Block> {
        self.blocks.get(&address)
    }

    /// Frees an allocation at once; it is handed out again only if it is known that nothing uses it any more.
    pub fn free(&mut self, region: &Arc<Region>, freed: Freed, call: &'static str, site: Site) {
        self.note_end(region, call, site);
        let Some(block) = self.blocks.remove(&region.range.start) else {
            return;
        };
        match region.space {
            Space::Registered => {
                if let Some(pages) = &region.guarded {
                    guard::unwatch_registered(pages);
                }
                return;
            }
            Space::Pinned | Space::Managed => guard::protect(&block.reserved, Level::NoAccess),
            Space::Device => {
                if let Some(used) = self.used.get_mut(block.device) {
                    *used -= (block.reserved.end - block.reserved.start) as usize;
                }
            }
        }
        match freed {
            Freed::Idle => self.give_back(&block.reserved),
            Freed::Undecided => {
                self.undecided.insert(block.reserved.start, block.reserved);
            }
            Freed::InFlight => (),
        }
    }

    /// Nothing has used an allocation after its end, as has been found out since.
    pub fn was_idle(&mut self, region: &Region) {
        if let Some(reserved) = self.undecided.remove(&region.range.start) {
            self.give_back(&reserved);
        }
    }

    fn give_back(&mut self, reserved: &Range<u64>) {
        for arena in [&mut self.device, &mut self.host] {
            if arena.program_view().contains(&(reserved.start as usize)) {
                arena.release(reserved);
            }
        }
    }

    /// Frees an allocation in stream order; `moment` is that of the free.
    pub fn free_in_stream(
        &mut self,
        region: &Arc<Region>,
        stream: StreamId,
        moment: Target,
        call: &'static str,
        site: Site,
    ) {
        self.note_end(region, call, site);
        if let Some(block) = self.blocks.remove(&region.range.start) {
            self.freed.entry(stream).or_default().push(QueuedFree {
                reserved: block.reserved,
                device: block.device,
                moment,
            });
        }
    }

    fn note_end(&mut self, region: &Arc<Region>, call: &'static str, site: Site) {
        if self.ended.len() == REMEMBERED_FREES {
            self.ended.pop_front();
        }
        self.ended.push_back(Ended {
            region: region.clone(),
            call,
            site,
        });
    }

    /// The latest allocation that held `address` and has ended.
    pub fn ended(&self, address: u64) -> Option<&Ended> {
        self.ended
            .iter()
            .rev()
            .find(|ended| ended.region.range.contains(&address))
    }

    /// Gives the blocks back whose free the host has waited for (R49).
    pub fn release_freed(&mut self, engine: &Engine<Effect>) {
        let mut released = Vec::new();
        for blocks in self.freed.values_mut() {
            blocks.retain(|block| {
                let waited = engine.host_is_after(&block.moment);
                if waited {
                    released.push((block.reserved.clone(), block.device));
                }
                !waited
            });
        }
        self.freed.retain(|_, blocks| !blocks.is_empty());
        for (reserved, device) in released {
            if let Some(used) = self.used.get_mut(device) {
                *used -= (reserved.end - reserved.start) as usize;
            }
            self.give_back(&reserved);
        }
    }

    /// The device address of host memory that the device can reach.
    pub fn device_address(&self, region: &Region, address: u64) -> u64 {
        if self.is_write_combined(region) {
            address - self.host.program_view().start as u64 + self.alias.start as u64
        } else {
            address
        }
    }

    /// The address by which the program knows a byte that it may have named by its device address.
    pub fn program_address(&self, address: u64) -> u64 {
        if self.alias.contains(&(address as usize)) {
            address - self.alias.start as u64 + self.host.program_view().start as u64
        } else {
            address
        }
    }

    /// Where the engine reads and writes the first byte of an allocation.
    pub fn engine_address(&self, region: &Region) -> usize {
        match region.space {
            Space::Device => self.device.engine_address(region.range.start),
            Space::Pinned | Space::Managed => self.host.engine_address(region.range.start),
            Space::Registered => region.range.start as usize,
        }
    }

    /// All addresses of the model's memory, by whatever name.
    pub fn views(&self) -> Vec<Range<u64>> {
        [
            self.device.program_view(),
            self.device.engine_view(),
            self.host.program_view(),
            self.host.engine_view(),
            self.alias.clone(),
            self.parking.clone(),
        ]
        .into_iter()
        .map(|view| view.start as u64..view.end as u64)
        .collect()
    }

    /// Writes what an allocation holds before its first use.
    pub fn write(&self, region: &Region, bytes: &[u8]) {
        let length = bytes
            .len()
            .min((region.range.end - region.range.start) as usize);
        let to = self.engine_address(region) as *mut u8;
        // SAFETY: the range lies in the engine's view of the allocation, which is always writable, and nothing is
        // enqueued that uses it yet.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, length) };
    }

    /// Is it an address of the engine's view of device memory?
    pub fn is_device_view(&self, address: usize) -> bool {
        self.device.engine_view().contains(&address)
    }

    /// Is it write-combined?
    pub fn is_write_combined(&self, region: &Region) -> bool {
        region.space == Space::Pinned
            && self
                .blocks
                .get(&region.range.start)
                .is_some_and(|block| block.flags & WRITE_COMBINED != 0)
    }

    /// What `bytes` bytes at `address` are: inside one allocation, or pageable memory.
    ///
    /// `device` says that the program passes the address as one of the device.
    pub fn place(
        &self,
        engine: &Engine<Effect>,
        address: u64,
        bytes: usize,
        device: bool,
    ) -> Result<Place, Code> {
        let program = self.program_address(address);
        let end = program
            .checked_add(bytes as u64)
            .ok_or(Code::InvalidValue)?;
        if let Some(region) = engine.region(program) {
            if end > region.range.end {
                return Err(Code::InvalidValue);
            }
            if device && program == address && self.is_write_combined(region) {
                return Err(Code::InvalidValue);
            }
            let offset = (program - region.range.start) as usize;
            return Ok(Place::Allocation {
                region: region.clone(),
                program,
                engine: self.engine_address(region) + offset,
            });
        }
        let last = (end as usize).saturating_sub(1).max(address as usize);
        let ours = program != address
            || [self.device.program_view(), self.host.program_view()]
                .iter()
                .any(|view| view.start <= last && (address as usize) < view.end);
        // A range that starts outside of registered memory and ends inside is neither (facts about mixed ranges).
        let mixed = engine
            .regions()
            .overlapping(&(program..end))
            .next()
            .is_some();
        if ours || mixed || device || (address == 0 && bytes > 0) {
            return Err(Code::InvalidValue);
        }
        Ok(Place::Pageable(address as usize))
    }
}

/// Does the machine have the frames? Every page is filled at the allocation, and running out would end the process.
fn machine_has(bytes: usize) -> bool {
    /// Below this many bytes the question costs more than it is worth.
    const ALWAYS: usize = 256 << 20;
    if bytes < ALWAYS {
        return true;
    }
    let available = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|info| {
            let line = info
                .lines()
                .find_map(|line| line.strip_prefix("MemAvailable:"))?;
            line.trim().strip_suffix(" kB")?.parse::<usize>().ok()
        });
    // Without an answer nothing is known against it.
    available.is_none_or(|kilobytes| bytes / 1024 < kilobytes)
}

/// Whose memory an allocation is.
#[derive(Clone, Copy)]
pub struct Owner {
    /// The device.
    pub device: usize,
    /// The handle of the context.
    pub context: usize,
}

/// Where the bytes of one end of a copy are.
pub enum Place {
    /// In an allocation of the model.
    Allocation {
        region: Arc<Region>,
        /// In the program's view, which names the bytes in reports and in the ledger.
        program: u64,
        /// In the engine's view, which is copied from and to.
        engine: usize,
    },
    /// Anywhere else in the program's memory.
    Pageable(usize),
}

impl Place {
    /// The address to copy from or to.
    pub fn address(&self) -> usize {
        match self {
            Place::Allocation { engine, .. } => *engine,
            Place::Pageable(address) => *address,
        }
    }

    /// The place in the words of a report.
    pub fn describe(&self) -> cumodel::Place {
        match self {
            Place::Allocation { region, .. } => cumodel::Place::of(region),
            Place::Pageable(_) => cumodel::Place::Pageable,
        }
    }

    /// Is it pageable memory?
    pub fn is_pageable(&self) -> bool {
        matches!(self, Place::Pageable(_))
    }

    /// Is it memory of the host, however obtained, and not managed?
    pub fn is_host(&self) -> bool {
        match self {
            Place::Allocation { region, .. } => {
                matches!(region.space, Space::Pinned | Space::Registered)
            }
            Place::Pageable(_) => true,
        }
    }

    /// Is it device memory?
    pub fn is_device(&self) -> bool {
        matches!(self, Place::Allocation { region, .. } if region.space == Space::Device)
    }

    /// The access of `bytes` bytes here; pageable memory is not watched.
    pub fn access(&self, bytes: usize, kind: AccessKind) -> Option<Access> {
        match self {
            Place::Allocation { program, .. } => Some(Access {
                range: *program..*program + bytes as u64,
                kind,
            }),
            Place::Pageable(_) => None,
        }
    }
}
