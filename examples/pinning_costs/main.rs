//! Pinning in every step pays for each page and calls the driver twice a tensor; pinning once pays once.
//! hazard: none
//! stdout: of the machine

use std::sync::Arc;

use anyhow::Result;
use cudarc::driver::{CudaContext, PinnedHostSlice};
use lab::Faults;

/// 512 KiB of values a tensor, so that a stray fault elsewhere does not show.
const LEN: usize = 128 << 10;
const TENSORS: usize = 4;
const STEPS: usize = 5;

/// What pinning has cost: calls of the driver, and the page faults of this process in them.
#[derive(Default)]
struct Cost {
    allocations: usize,
    frees: usize,
    faults: u64,
}

impl Cost {
    fn print(&self, what: &str) {
        let pages = TENSORS * LEN * size_of::<u32>() / lab::page_size();
        let Cost {
            allocations, frees, ..
        } = self;
        let times = self.faults as f64 / pages as f64;
        println!(
            "{what}: {allocations} allocations, {frees} frees, each page faulted {times:.1} times"
        );
    }
}

/// Pins memory for one tensor and touches every page of it.
fn pin(ctx: &Arc<CudaContext>, cost: &mut Cost) -> Result<PinnedHostSlice<u32>> {
    let before = Faults::now()?;
    // SAFETY: the memory is poisoned in the next line, before anything reads it.
    let mut host = unsafe { ctx.alloc_pinned_with_flags(LEN, 0) }?;
    lab::poison(host.as_mut_slice()?);
    cost.faults += Faults::now()?.since(&before).minor;
    cost.allocations += 1;
    Ok(host)
}

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;
    lab::fill(&stream, &mut device, 7)?;
    // The first allocation is the driver's first as well: it is not counted.
    drop(pin(&ctx, &mut Cost::default())?);

    // ANCHOR: idea
    // A new pinned buffer for each tensor in each step, and away with it.
    let mut in_every_step = Cost::default();
    for _ in 0..STEPS * TENSORS {
        let mut host = pin(&ctx, &mut in_every_step)?;
        stream.memcpy_dtoh(&device, &mut host)?;
        stream.synchronize()?;
        drop(host);
        in_every_step.frees += 1;
    }

    // One for each tensor, for all steps.
    let mut once = Cost::default();
    let hosts = (0..TENSORS).map(|_| pin(&ctx, &mut once));
    let mut hosts = hosts.collect::<Result<Vec<_>>>()?;
    for _ in 0..STEPS {
        for host in &mut hosts {
            stream.memcpy_dtoh(&device, host)?;
        }
        stream.synchronize()?;
    }
    // ANCHOR_END: idea

    in_every_step.print("pinned in every step");
    once.print("pinned once");
    for host in &hosts {
        println!("{}", lab::verdict(lab::probe(host.as_slice()?), 7));
    }
    Ok(())
}
