//! The same with `as_slice` in place of the wait: it waits for the block's own copies, and a piece's are none of them.
//! hazard: H01

use cudarc::driver::CudaContext;

/// How many values each layer has to offload. None of the sizes is a power of two.
const LAYERS: [usize; 3] = [9_000, 5_000, 1_100];

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.new_stream()?;
    let layers = LAYERS.map(|len| stream.alloc_zeros::<u32>(len));
    let mut layers = layers.into_iter().collect::<Result<Vec<_>, _>>()?;

    // ANCHOR: idea
    // One allocation before the loop, as long as all layers together.
    // SAFETY: the memory is poisoned in the next line, before anything reads it.
    let mut block = unsafe { ctx.alloc_pinned_with_flags::<u32>(LAYERS.iter().sum(), 0) }?;
    lab::poison(block.as_mut_slice()?);

    // The gate holds the copies, so they have certainly not run.
    let gate = lab::Gate::close(&stream)?;
    let mut rest = block.as_mut_slice()?;
    for layer in &mut layers {
        lab::fill(&stream, layer, 1)?;
        let (piece, behind) = rest.split_at_mut(layer.len());
        stream.memcpy_dtoh(layer, piece)?;
        rest = behind;
    }

    // On a created stream this waits for a copy into `block`. It knows of none.
    let mut rest = block.as_slice()?;
    for (number, layer) in (1..).zip(&layers) {
        let (piece, behind) = rest.split_at(layer.len());
        println!("layer {number}: {}", lab::verdict(lab::probe(piece), 1));
        rest = behind;
    }
    // ANCHOR_END: idea

    // The buffers must outlive the copies all the same.
    gate.open();
    stream.synchronize()?;
    Ok(())
}
