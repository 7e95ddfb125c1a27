//! Three things together let a copy run beside compute: pinned memory, a stream of its own, and no wait in between.
//! hazard: none

use std::sync::Arc;

use anyhow::Result;
use cudarc::driver::{CudaContext, CudaEvent, CudaSlice, CudaStream, HostSlice, PinnedHostSlice};
use lab::kernels::FillPattern;
use lab::{Faults, Pageable};

/// 256 KiB of values a layer.
const LEN: usize = 64 << 10;
const LAYERS: usize = 4;
const STEPS: usize = 3;

/// What can be counted without a clock.
#[derive(Default)]
struct Count {
    waits: usize,
    /// Bytes that are queued and that no wait of the host has covered yet.
    in_flight: usize,
    most_in_flight: usize,
}

impl Count {
    fn queue(&mut self) {
        self.in_flight += LEN * size_of::<u32>();
        self.most_in_flight = self.most_in_flight.max(self.in_flight);
    }

    fn wait(&mut self, stream: &CudaStream) -> Result<()> {
        self.waits += 1;
        self.in_flight = 0;
        Ok(stream.synchronize()?)
    }
}

/// A device buffer, and what the two streams tell each other about it.
struct Slot {
    device: CudaSlice<u32>,
    computed: CudaEvent,
    copied: CudaEvent,
}

// ANCHOR: idea
/// One stream, and a wait behind each copy: compute stands still meanwhile.
fn one_by_one<'a, H: HostSlice<u32> + ?Sized + 'a>(
    kernel: &FillPattern,
    stream: &Arc<CudaStream>,
    device: &mut CudaSlice<u32>,
    hosts: impl Iterator<Item = &'a mut H>,
    count: &mut Count,
) -> Result<()> {
    for (layer, host) in (1..).zip(hosts) {
        kernel.launch(stream, device, layer, 0)?;
        stream.memcpy_dtoh(device, host)?;
        count.queue();
        count.wait(stream)?;
    }
    Ok(())
}

/// A stream of its own for the copies, two device buffers, both barriers, and one wait in a step.
fn overlapped(
    kernel: &FillPattern,
    (compute, copy): (&Arc<CudaStream>, &Arc<CudaStream>),
    slots: &mut [Slot; 2],
    hosts: &mut [PinnedHostSlice<u32>],
    count: &mut Count,
) -> Result<()> {
    for (layer, host) in (1..).zip(hosts) {
        let slot = &mut slots[layer as usize % 2];
        compute.wait(&slot.copied)?;
        kernel.launch(compute, &mut slot.device, layer, 0)?;
        slot.computed.record(compute)?;
        copy.wait(&slot.computed)?;
        copy.memcpy_dtoh(&slot.device, host)?;
        slot.copied.record(copy)?;
        count.queue();
    }
    count.wait(copy)
}
// ANCHOR_END: idea

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the events and waits order everything; the listing counts them, and cudarc's own
    // would stay uncounted.
    unsafe { ctx.disable_event_tracking() };
    let (compute, copy) = (ctx.new_stream()?, ctx.new_stream()?);
    let kernel = FillPattern::load(&ctx)?;
    let slot = || -> Result<Slot> {
        Ok(Slot {
            device: compute.alloc_zeros(LEN)?,
            computed: ctx.new_event(None)?,
            copied: ctx.new_event(None)?,
        })
    };
    let mut slots = [slot()?, slot()?];
    let pageable = (0..LAYERS).map(|_| Pageable::<u32>::zeroed(LEN));
    let mut pageable = pageable.collect::<Result<Vec<_>>>()?;
    let mut pinned = Vec::new();
    for _ in 0..LAYERS {
        // SAFETY: the memory is poisoned in the next line, before anything reads it.
        let mut host = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;
        lab::poison(host.as_mut_slice()?);
        pinned.push(host);
    }
    // The driver's own first faults must not be counted, so it launches and copies beforehand.
    kernel.launch(&compute, &mut slots[0].device, 0, 0)?;
    compute.memcpy_dtoh(&slots[0].device, &mut *pageable[0])?;
    copy.join(&compute)?;
    for host in &mut pinned {
        copy.memcpy_dtoh(&slots[0].device, host)?;
    }
    ctx.synchronize()?;

    print("fresh pageable, one by one", |count| {
        let fresh = (0..LAYERS).map(|_| Pageable::<u32>::untouched(LEN));
        let mut fresh = fresh.collect::<Result<Vec<_>>>()?;
        let hosts = fresh.iter_mut().map(|host| &mut **host);
        one_by_one(&kernel, &compute, &mut slots[0].device, hosts, count)
    })?;
    print("reused pageable, one by one", |count| {
        let hosts = pageable.iter_mut().map(|host| &mut **host);
        one_by_one(&kernel, &compute, &mut slots[0].device, hosts, count)
    })?;
    print("reused pinned, one by one", |count| {
        one_by_one(
            &kernel,
            &compute,
            &mut slots[0].device,
            pinned.iter_mut(),
            count,
        )
    })?;
    print("reused pinned, overlapped", |count| {
        overlapped(&kernel, (&compute, &copy), &mut slots, &mut pinned, count)
    })?;

    for (layer, host) in (1..).zip(&pinned) {
        let read = lab::probe(host.as_slice()?);
        println!("layer {layer}: {}", lab::verdict(read, layer));
    }
    Ok(())
}

/// Makes the steps, and prints what they cost.
fn print(what: &str, mut step: impl FnMut(&mut Count) -> Result<()>) -> Result<()> {
    let mut count = Count::default();
    let before = Faults::now()?;
    for _ in 0..STEPS {
        step(&mut count)?;
    }
    let faults = Faults::now()?.since(&before).minor as f64;
    let pages = STEPS * LAYERS * LEN * size_of::<u32>() / lab::page_size();
    println!(
        "{what}: {:.1} faults per page, {} waits a step, at most {} KiB in flight",
        faults / pages as f64,
        count.waits / STEPS,
        count.most_in_flight >> 10
    );
    Ok(())
}
