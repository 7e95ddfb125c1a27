//! Tiny pools of pinned memory, as the field cases have them: a slab cut into blocks, the last one given back first.

use crate::cuda::{self, Code, Event};
use crate::host::Host;
use crate::lab::Lab;

/// Two blocks of pinned memory.
pub struct Slab {
    free: Vec<(Host, Option<Event>)>,
}

impl Slab {
    /// Cuts a pinned buffer in two.
    pub fn new(lab: &mut Lab) -> Slab {
        let whole = lab.pinned(0);
        let half = whole.len() / 2;
        let free = [whole.part(half, half), whole.part(0, half)]
            .map(|block| (block, None))
            .to_vec();
        Slab { free }
    }

    /// The block that was given back last and that no copy is known to use.
    pub fn take(&mut self) -> Host {
        let index = self
            .free
            .iter()
            .rposition(|(_, event)| event.is_none_or(|it| cuda::event_query(it) == Code::SUCCESS))
            .expect("one of two blocks is free");
        self.free.remove(index).0
    }

    /// Gives a block back; with an event, it is taken again only when that is complete.
    pub fn give(&mut self, block: Host, event: Option<Event>) {
        self.free.push((block, event));
    }
}

/// A cache in front of cuMemHostAlloc.
pub struct Cache {
    rounds_up: bool,
    cap: Option<usize>,
    cached: Vec<Host>,
    obtained: usize,
}

impl Cache {
    /// A cache that rounds sizes up to a power of two, or that keeps at most `cap` bytes that nobody uses.
    pub fn new(rounds_up: bool, cap: Option<usize>) -> Cache {
        Cache {
            rounds_up,
            cap,
            cached: Vec::new(),
            obtained: 0,
        }
    }

    /// A block of at least this size.
    pub fn take(&mut self, bytes: usize) -> Host {
        let bytes = if self.rounds_up {
            bytes.next_power_of_two()
        } else {
            bytes
        };
        if let Some(index) = self.cached.iter().position(|block| block.bytes == bytes) {
            return self.cached.swap_remove(index);
        }
        let (code, host) = cuda::allocate_host(bytes, 0);
        code.ok();
        self.obtained += bytes;
        host
    }

    /// Takes a block back.
    pub fn give(&mut self, block: Host) {
        match self.cap {
            Some(cap) if self.cached() + block.bytes > cap => cuda::free_host(block).ok(),
            _ => self.cached.push(block),
        }
    }

    /// The bytes that were asked of the driver.
    pub fn obtained(&self) -> usize {
        self.obtained
    }

    /// The bytes that nobody uses and that stay page-locked.
    pub fn cached(&self) -> usize {
        self.cached.iter().map(|block| block.bytes).sum()
    }

    /// Gives everything that nobody uses back to the driver.
    pub fn trim(&mut self) {
        for block in self.cached.drain(..) {
            cuda::free_host(block).ok();
        }
    }
}
