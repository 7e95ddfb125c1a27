//! Eight uploads through two pinned buffers: each is lent again only after its last copy.
//! hazard: none

use cudarc::driver::CudaContext;
use pinned_pool::Pool;

/// 64 KiB of values.
const LEN: usize = 16 << 10;
const UPLOADS: u32 = 8;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let devices = (0..UPLOADS).map(|_| stream.alloc_zeros::<u32>(LEN));
    let mut devices = devices.collect::<Result<Vec<_>, _>>()?;

    // ANCHOR: idea
    // All pinned memory that there will ever be: two buffers, flags 0, every page touched.
    let pool = Pool::<u32>::new(&ctx, 2, LEN)?;

    for (value, device) in (0..).zip(&mut devices) {
        // Waits for the last copy of the buffer that it lends. This is the back-pressure: the host is never more than
        // two copies ahead.
        let mut lease = pool.acquire()?;
        lease.as_mut_slice()?.fill(value);
        lease.upload(&stream, device)?;
        // The lease ends here and the copy may not have begun. The pool has the event that is recorded behind it.
    }

    for (value, device) in (0..).zip(&devices) {
        let mut lease = pool.acquire()?;
        lease.download(&stream, device)?;
        // Waits for the copy, on any stream.
        let read = lab::probe(lease.as_slice()?);
        println!("upload {value}: {}", lab::verdict(read, value));
    }
    println!("{} KiB pinned", pool.pinned_bytes() >> 10);
    // ANCHOR_END: idea
    Ok(())
}
