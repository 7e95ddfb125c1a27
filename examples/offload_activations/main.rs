//! Activations leave in forward and come back in backward; the gradient is the same bit by bit.
//! hazard: none

use std::sync::Arc;

use anyhow::Result;
use cudarc::driver::{CudaContext, CudaEvent, CudaSlice, CudaStream, PinnedHostSlice};
use lab::kernels::{Matvec, Relu, ReluBackward};

/// Values of a layer.
const WIDTH: usize = 64;
const LAYERS: usize = 6;
const STEPS: usize = 2;

/// A device buffer for activations. Compute and the copies hand it to each other.
struct Slot {
    device: CudaSlice<f32>,
    used: CudaEvent,
    copied: CudaEvent,
}

/// A pinned buffer for the activation of one layer. The two copy streams hand it to each other.
struct Host {
    values: PinnedHostSlice<f32>,
    saved: CudaEvent,
    loaded: CudaEvent,
}

// ANCHOR: idea
/// Copies an activation out, in forward.
fn save(out: &Arc<CudaStream>, slot: &Slot, host: &mut Host) -> Result<()> {
    out.wait(&slot.used)?; // device, read after write: compute has written it
    out.wait(&host.loaded)?; // host, write after read: the last step has taken it back
    out.memcpy_dtoh(&slot.device, &mut host.values)?;
    slot.copied.record(out)?;
    Ok(host.saved.record(out)?)
}

/// Copies an activation back, in backward.
fn load(back: &Arc<CudaStream>, host: &Host, slot: &mut Slot) -> Result<()> {
    back.wait(&slot.used)?; // device, write after read: compute is done with the one before
    back.wait(&host.saved)?; // host, read after write: it has arrived
    back.memcpy_htod(&host.values, &mut slot.device)?;
    slot.copied.record(back)?;
    Ok(host.loaded.record(back)?)
}

/// One training step with two activations on the device, however many layers there are.
fn step(net: &mut Net, gpu: &Gpu, slots: &mut [Slot; 2], hosts: &mut [Host]) -> Result<()> {
    for layer in 0..LAYERS {
        let (before, slot) = turn(slots, layer);
        gpu.compute.wait(&slot.copied)?; // device, write after read
        net.forward(layer, &before.device, &mut slot.device)?;
        slot.used.record(&gpu.compute)?;
        // The last two stay, and have no host buffer: backward begins with them.
        if let Some(host) = hosts.get_mut(layer) {
            save(&gpu.out, slot, host)?;
        }
    }
    for layer in (0..LAYERS).rev() {
        let (_, slot) = turn(slots, layer);
        gpu.compute.wait(&slot.copied)?; // device, read after write
        net.backward(layer, &slot.device)?;
        slot.used.record(&gpu.compute)?;
        if layer >= 2 {
            load(&gpu.back, &hosts[layer - 2], slot)?;
        }
    }
    Ok(())
}
// ANCHOR_END: idea

/// The slot of the layer before, and that of this layer.
fn turn(slots: &mut [Slot; 2], layer: usize) -> (&Slot, &mut Slot) {
    let [even, odd] = slots;
    if layer.is_multiple_of(2) {
        (odd, even)
    } else {
        (even, odd)
    }
}

/// Compute, and the copies in each direction.
struct Gpu {
    compute: Arc<CudaStream>,
    out: Arc<CudaStream>,
    back: Arc<CudaStream>,
}

/// Layers of the form relu(matrix * x). The loss is half the square of the last layer.
struct Net {
    compute: Arc<CudaStream>,
    matvec: Matvec,
    relu: Relu,
    relu_backward: ReluBackward,
    /// Symmetric, so that backward multiplies by the same ones.
    matrices: Vec<CudaSlice<f32>>,
    input: CudaSlice<f32>,
    product: CudaSlice<f32>,
    gradient: CudaSlice<f32>,
}

impl Net {
    fn new(ctx: &Arc<CudaContext>, compute: &Arc<CudaStream>) -> Result<Net> {
        let value = |layer: usize, at: usize| {
            let (row, column) = (at / WIDTH, at % WIDTH);
            ((row * column + 5 * (row + column) + layer) % 13) as f32 / 16.0 - 0.35
        };
        let matrix = |layer| {
            let values: Vec<f32> = (0..WIDTH * WIDTH).map(|at| value(layer, at)).collect();
            let matrix = compute.clone_htod(&values)?;
            // The source is pageable, and must outlive its copy.
            compute.synchronize()?;
            Ok(matrix)
        };
        Ok(Net {
            compute: compute.clone(),
            matvec: Matvec::load(ctx)?,
            relu: Relu::load(ctx)?,
            relu_backward: ReluBackward::load(ctx)?,
            matrices: (0..LAYERS).map(matrix).collect::<Result<_>>()?,
            input: compute.alloc_zeros(WIDTH)?,
            product: compute.alloc_zeros(WIDTH)?,
            gradient: compute.alloc_zeros(WIDTH)?,
        })
    }

    /// Another input for each step.
    fn start(&mut self, step: usize) -> Result<()> {
        let value = |at| ((37 * at + 11 * step) % 17) as f32 / 8.0 - 1.0;
        let values: Vec<f32> = (0..WIDTH).map(value).collect();
        self.compute.memcpy_htod(&values, &mut self.input)?;
        // As above.
        Ok(self.compute.synchronize()?)
    }

    /// Layer 0 takes the input instead of a layer before.
    fn forward(
        &mut self,
        layer: usize,
        before: &CudaSlice<f32>,
        activation: &mut CudaSlice<f32>,
    ) -> Result<()> {
        let x = if layer == 0 { &self.input } else { before };
        let matrix = &self.matrices[layer];
        self.matvec
            .launch(&self.compute, matrix, x, &mut self.product)?;
        self.relu.launch(&self.compute, &self.product, activation)
    }

    /// Takes the gradient from behind the layer to in front of it.
    fn backward(&mut self, layer: usize, activation: &CudaSlice<f32>) -> Result<()> {
        if layer + 1 == LAYERS {
            self.compute.memcpy_dtod(activation, &mut self.gradient)?;
        }
        self.relu_backward
            .launch(&self.compute, activation, &mut self.gradient)?;
        let matrix = &self.matrices[layer];
        self.matvec
            .launch(&self.compute, matrix, &self.gradient, &mut self.product)?;
        std::mem::swap(&mut self.gradient, &mut self.product);
        Ok(())
    }

    /// The same step with every activation left on the device.
    fn step_without_offload(&mut self) -> Result<()> {
        let activations = (0..=LAYERS).map(|_| self.compute.alloc_zeros::<f32>(WIDTH));
        let mut activations = activations.collect::<Result<Vec<_>, _>>()?;
        for layer in 0..LAYERS {
            let (before, behind) = activations.split_at_mut(layer + 1);
            self.forward(layer, &before[layer], &mut behind[0])?;
        }
        for layer in (0..LAYERS).rev() {
            self.backward(layer, &activations[layer + 1])?;
        }
        Ok(())
    }

    /// The bits of the gradient in front of layer 0.
    fn gradient(&self) -> Result<Vec<u32>> {
        let values = self.compute.clone_dtoh(&self.gradient)?;
        self.compute.synchronize()?;
        Ok(values.iter().map(|value| value.to_bits()).collect())
    }
}

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    // SAFETY: the events order everything. cudarc would insert waits of its own, and this listing
    // is about the waits that a program needs.
    unsafe { ctx.disable_event_tracking() };
    let gpu = Gpu {
        compute: ctx.new_stream()?,
        out: ctx.new_stream()?,
        back: ctx.new_stream()?,
    };
    let mut net = Net::new(&ctx, &gpu.compute)?;
    let slot = || -> Result<Slot> {
        Ok(Slot {
            device: gpu.compute.alloc_zeros(WIDTH)?,
            used: ctx.new_event(None)?,
            copied: ctx.new_event(None)?,
        })
    };
    let mut slots = [slot()?, slot()?];
    let mut hosts = Vec::new();
    for _ in 0..LAYERS - 2 {
        // SAFETY: the memory is zeroed in the next line, before anything reads it.
        let mut values = unsafe { ctx.alloc_pinned_with_flags::<f32>(WIDTH, 0) }?;
        values.as_mut_slice()?.fill(0.0);
        hosts.push(Host {
            values,
            saved: ctx.new_event(None)?,
            loaded: ctx.new_event(None)?,
        });
    }
    ctx.synchronize()?;

    for number in 1..=STEPS {
        net.start(number)?;
        net.step_without_offload()?;
        let right = net.gradient()?;

        step(&mut net, &gpu, &mut slots, &mut hosts)?;
        let gradient = net.gradient()?;
        let differ = gradient.iter().zip(&right).filter(|(a, b)| a != b).count();
        let wrong = if differ == 0 { "" } else { ": WRONG" };
        println!("step {number}: {differ} of {WIDTH} values of the gradient differ{wrong}");
    }
    ctx.synchronize()?;
    println!(
        "{LAYERS} activations, {} of them on the device, {} pinned buffers",
        slots.len(),
        hosts.len()
    );
    Ok(())
}
