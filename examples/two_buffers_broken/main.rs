//! With a barrier in one direction only, compute refills a buffer that a copy has yet to read.
//! hazard: H09

use anyhow::Result;
use cudarc::driver::{CudaContext, CudaEvent, CudaSlice};
use lab::kernels::FillPattern;

/// 64 KiB of values.
const LEN: usize = 16 << 10;
const LAYERS: u32 = 6;

/// A device buffer, and what the two streams tell each other about it.
struct Slot {
    device: CudaSlice<u32>,
    computed: CudaEvent,
    copied: CudaEvent,
}

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the copies into host memory are waited for before it is read or freed. What device
    // memory holds meanwhile is the point: cudarc would insert the wait that is missing below.
    unsafe { ctx.disable_event_tracking() };
    // The kernel that stands for a layer: it writes the layer's number everywhere.
    let run_layer = FillPattern::load(&ctx)?;
    let compute = ctx.new_stream()?;
    let copy = ctx.new_stream()?;
    let slot = || -> Result<Slot> {
        let device = compute.alloc_zeros(LEN)?;
        Ok(Slot {
            device,
            computed: ctx.new_event(None)?,
            copied: ctx.new_event(None)?,
        })
    };
    let mut slots = [slot()?, slot()?];
    // SAFETY: a copy has filled each buffer before anything reads it.
    let offloaded = (0..LAYERS).map(|_| unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) });
    let mut offloaded = offloaded.collect::<Result<Vec<_>, _>>()?;

    // ANCHOR: idea
    // The gate holds the copies, so compute is certainly ahead of them.
    let gate = lab::Gate::close(&copy)?;
    for (layer, host) in (0..).zip(&mut offloaded) {
        // Layers take turns on the two device buffers.
        let slot = &mut slots[layer as usize % 2];

        // Barrier 1 is missing here: nothing keeps compute from refilling the buffer early.
        run_layer.launch(&compute, &mut slot.device, layer, 0)?;
        slot.computed.record(&compute)?;

        // Barrier 2: the copy starts only after compute has written the buffer.
        copy.wait(&slot.computed)?;
        copy.memcpy_dtoh(&slot.device, host)?;
        slot.copied.record(&copy)?;
    }

    // The host reads after the copies, as it should, and still gets the values of later layers.
    compute.synchronize()?;
    gate.open();
    copy.synchronize()?;
    for (layer, host) in (0..).zip(&offloaded) {
        let read = lab::probe(host.as_slice()?);
        println!("layer {layer}: {}", lab::verdict(read, layer));
    }
    // ANCHOR_END: idea
    Ok(())
}
