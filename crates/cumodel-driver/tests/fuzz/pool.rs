//! What the random calls have been given so far: handles and addresses, alive or not.

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

use fastrand::Rng;

/// Bytes of host memory that random calls can name.
pub const PAGEABLE: usize = 256 << 10;

/// Handles of one kind are remembered up to this many, stale ones included.
const REMEMBERED: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Context,
    Stream,
    Event,
    Graph,
    Exec,
    Module,
    Function,
}

const KINDS: usize = 7;

/// Shared by the threads of a round.
#[derive(Default)]
pub struct Pool {
    handles: [Vec<usize>; KINDS],
    /// Addresses of device and managed memory with their sizes.
    device: Vec<(u64, usize)>,
    /// Addresses of page-locked memory with their sizes.
    pinned: Vec<(u64, usize)>,
    /// Addresses in pageable memory that was registered, with their sizes.
    registered: Vec<(u64, usize)>,
}

impl Pool {
    pub fn add(&mut self, kind: Kind, handle: usize) {
        push(&mut self.handles[kind as usize], handle);
    }

    pub fn add_device(&mut self, address: u64, size: usize) {
        push(&mut self.device, (address, size));
    }

    pub fn add_pinned(&mut self, address: u64, size: usize) {
        push(&mut self.pinned, (address, size));
    }

    pub fn add_registered(&mut self, address: u64, size: usize) {
        push(&mut self.registered, (address, size));
    }

    /// A handle: mostly one of its kind, sometimes one of another kind, null, a default stream, or garbage.
    pub fn handle(&self, rng: &mut Rng, kind: Kind) -> usize {
        let own = &self.handles[kind as usize];
        let foreign = &self.handles[rng.usize(..KINDS)];
        let some = |rng: &mut Rng, list: &[usize]| rng.choice(list).copied().unwrap_or(0);
        match rng.u8(..40) {
            0 => some(rng, foreign),
            1 => some(rng, own).wrapping_add(rng.usize(1..40)),
            2 => rng.usize(..),
            // Null and the default streams' handles.
            3 => rng.usize(..4),
            _ => some(rng, own),
        }
    }

    /// Contexts that were ever made.
    pub fn contexts(&self) -> &[usize] {
        &self.handles[Kind::Context as usize]
    }

    /// An address that is passed as one of the device.
    pub fn device_address(&self, rng: &mut Rng) -> u64 {
        match rng.u8(..40) {
            0 => 0,
            1 => rng.u64(..),
            2 => u64::MAX - rng.u64(..64),
            3 => pageable() as u64 + rng.u64(..PAGEABLE as u64),
            4 => somewhere_in(rng, &self.registered),
            5 => somewhere_in(rng, &self.device).wrapping_sub(1),
            6..=8 => somewhere_in(rng, &self.pinned),
            _ => somewhere_in(rng, &self.device),
        }
    }

    /// The start of an allocation, most of the time.
    pub fn start(&self, rng: &mut Rng) -> u64 {
        let list = match rng.u8(..5) {
            0 => &self.registered,
            1..=2 => &self.pinned,
            _ => &self.device,
        };
        match rng.u8(..10) {
            0 => self.device_address(rng),
            _ => rng.choice(list).map_or(0, |(start, _)| *start),
        }
    }

    /// An address that is passed as one of the host, for `size` bytes: memory that exists, or null, or memory of the
    /// driver's, freed or not, of which the driver knows the size.
    pub fn host_address(&self, rng: &mut Rng, size: usize) -> *mut c_void {
        match rng.u8(..10) {
            0 => ptr::null_mut(),
            1..=4 if size <= PAGEABLE => {
                let offset = rng.usize(..=PAGEABLE - size);
                pageable().wrapping_add(offset).cast()
            }
            // It may be pageable again, so it has to be large enough for that.
            5 => match rng.choice(&self.registered) {
                Some(&(start, _)) if size <= PAGEABLE - (start as usize - pageable() as usize) => {
                    start as *mut c_void
                }
                _ => ptr::null_mut(),
            },
            6 => somewhere_in(rng, &self.device) as *mut c_void,
            _ => somewhere_in(rng, &self.pinned) as *mut c_void,
        }
    }
}

fn push<T>(list: &mut Vec<T>, item: T) {
    if list.len() == REMEMBERED {
        list.remove(0);
    }
    list.push(item);
}

fn somewhere_in(rng: &mut Rng, list: &[(u64, usize)]) -> u64 {
    let Some(&(start, size)) = rng.choice(list) else {
        return 0;
    };
    let size = size as u64;
    match rng.u8(..8) {
        0 => start.wrapping_add(rng.u64(..=size)),
        1 => start.wrapping_add(rng.u64(..=size) / 4 * 4),
        2 => start.wrapping_add(size),
        _ => start,
    }
}

/// Host memory that lives as long as the process, so that an operation in flight can never miss it.
///
/// No memory of anybody else's lies next to it: a registration that is too long would take that away from its owner.
pub fn pageable() -> *mut u8 {
    const MARGIN: usize = 1 << 20;
    static START: OnceLock<usize> = OnceLock::new();
    let start = START.get_or_init(|| {
        // SAFETY: a new private mapping at an address of the kernel's choice replaces nothing, and the middle of it is
        // opened.
        unsafe {
            let size = PAGEABLE + 2 * MARGIN;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let outer = libc::mmap(ptr::null_mut(), size, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(outer, libc::MAP_FAILED);
            let start = outer.cast::<u8>().add(MARGIN);
            let both = libc::PROT_READ | libc::PROT_WRITE;
            assert_eq!(libc::mprotect(start.cast(), PAGEABLE, both), 0);
            start as usize
        }
    });
    *start as *mut u8
}

/// A size in bytes: small ones mostly, sometimes none, more than there is, or so many that sums of it overflow.
///
/// Sizes between a few megabytes and the whole address space of an arena are left out: they would really be allocated.
pub fn size(rng: &mut Rng) -> usize {
    match rng.u8(..24) {
        // So large that the driver takes it away from the host by moving page tables.
        0 if rng.u8(..4) == 0 => (16 << 20) + rng.usize(..3) * (2 << 20) + rng.usize(..2) * 4096,
        0 => 0,
        1 => usize::MAX - rng.usize(..2000),
        2 => (1 << 63) - rng.usize(..2) * 512,
        3 => (1 << 40) + rng.usize(..5000),
        4 => rng.usize(..4 << 20),
        5..=8 => rng.usize(..3 * 4096),
        _ => rng.usize(1..=64) * 4,
    }
}
