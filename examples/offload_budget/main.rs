//! A budget decides how many activations leave the device; what does not fit stays, and the values are the same.
//! hazard: none

use anyhow::Result;
use cudarc::driver::{CudaContext, CudaSlice};
use lab::kernels::FillPattern;
use pinned_pool::{Lease, Pool};

/// 64 KiB of values a layer.
const LEN: usize = 16 << 10;
const LAYERS: u32 = 6;
/// Pinned buffers: half of the layers can leave.
const BUDGET: usize = 3;
const STEPS: u32 = 2;

/// Where the activation of a layer waits for the backward pass.
enum Saved {
    OnTheHost(Lease<u32>),
    OnTheDevice(CudaSlice<u32>),
}

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: every order between the streams is made below; cudarc would add waits of its own.
    unsafe { ctx.disable_event_tracking() };
    let (compute, copy) = (ctx.new_stream()?, ctx.new_stream()?);

    let kernel = FillPattern::load(&ctx)?;

    // ANCHOR: idea
    let pool = Pool::<u32>::new(&ctx, BUDGET, LEN)?;

    for step in 1..=STEPS {
        let mut saved = Vec::new();
        for layer in 1..=LAYERS {
            let mut activation = compute.alloc_zeros::<u32>(LEN)?;
            kernel.launch(&compute, &mut activation, 10 * step + layer, 0)?;
            // The budget, asked before anything is queued. With a buffer left, `acquire` waits for
            // its last copy at most.
            if pool.lent() == pool.buffers() {
                saved.push(Saved::OnTheDevice(activation));
                continue;
            }
            let mut lease = pool.acquire()?;
            copy.join(&compute)?;
            lease.download(&copy, &activation)?;
            // The activation is freed on `compute`, behind its copy.
            lease.order_before(&compute)?;
            saved.push(Saved::OnTheHost(lease));
        }

        let on_the_host = pool.lent();
        for layer in (1..=LAYERS).rev() {
            let activation = match saved.pop() {
                Some(Saved::OnTheDevice(activation)) => activation,
                Some(Saved::OnTheHost(mut lease)) => {
                    let mut activation = copy.alloc_zeros::<u32>(LEN)?;
                    lease.upload(&copy, &mut activation)?;
                    // The lease ends here: its buffer is lent again when this copy has run.
                    activation
                }
                None => anyhow::bail!("layer {layer} was not saved"),
            };
            check(step, layer, &activation)?;
        }
        println!(
            "step {step}: {on_the_host} on the host, {} on the device",
            LAYERS as usize - on_the_host
        );
    }
    // ANCHOR_END: idea
    println!("{} KiB pinned", pool.pinned_bytes() >> 10);
    Ok(())
}

/// Stands for the backward pass of a layer: reads the activation on its own stream.
fn check(step: u32, layer: u32, activation: &CudaSlice<u32>) -> Result<()> {
    let stream = activation.stream();
    let values = stream.clone_dtoh(activation)?;
    stream.synchronize()?;
    let right = 10 * step + layer;
    println!(
        "layer {layer}: {}",
        lab::verdict(lab::probe(&values), right)
    );
    Ok(())
}
