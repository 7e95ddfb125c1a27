//! One pinned block of exactly the sum of the sizes serves layers of every size, step after step.
//! hazard: none

use cudarc::driver::CudaContext;

/// How many values each layer has to offload. None of the sizes is a power of two.
const LAYERS: [usize; 3] = [9_000, 5_000, 1_100];
const STEPS: u32 = 3;

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

    for step in 1..=STEPS {
        // Each layer gets the next piece of the block.
        let mut pieces = Vec::new();
        let mut rest = block.as_mut_slice()?;
        for layer in &mut layers {
            lab::fill(&stream, layer, step)?;
            let (piece, behind) = rest.split_at_mut(layer.len());
            stream.memcpy_dtoh(layer, piece)?;
            pieces.push(piece);
            rest = behind;
        }

        // To cudarc a piece is a slice like any other, so it tracks none of these copies: one wait for all of them.
        stream.synchronize()?;
        let read = pieces.iter().map(|piece| lab::probe(piece));
        let read: Vec<String> = read.map(|value| lab::verdict(value, step)).collect();
        println!("step {step}: {}", read.join(", "));
    }
    // ANCHOR_END: idea

    let bytes = |len: usize| len * size_of::<u32>();
    let rounded: usize = LAYERS
        .map(|len| bytes(len).next_power_of_two())
        .iter()
        .sum();
    println!(
        "{} bytes pinned for {}",
        block.num_bytes(),
        bytes(LAYERS.iter().sum())
    );
    println!("{rounded} if each layer were rounded up to a power of two");
    Ok(())
}
