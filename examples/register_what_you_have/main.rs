//! Registered memory is pinned memory from then on: copies into it return early, and it stays registered until they end.
//! hazard: none

use cudarc::driver::{sys, CudaContext};
use lab::Pageable;

/// 64 KiB of values.
const LEN: usize = 16 << 10;

/// Whether the driver counts the memory as pinned.
fn is_pinned(memory: &[u32]) -> bool {
    let mut kind = 0_u32;
    let asked = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    let address = memory.as_ptr() as sys::CUdeviceptr;
    // SAFETY: the attribute is a 32-bit number; the address is only looked up.
    let answer = unsafe { sys::cuPointerGetAttribute((&raw mut kind).cast(), asked, address) };
    answer.result().is_ok() && kind == sys::CUmemorytype::CU_MEMORYTYPE_HOST as u32
}

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let stream = ctx.default_stream();
    let mut device = stream.alloc_zeros::<u32>(LEN)?;
    lab::fill(&stream, &mut device, 7)?;

    // ANCHOR: idea
    // Memory that somebody else has allocated: whole pages, which belong to nobody but us.
    let mut memory = Pageable::<u32>::zeroed(LEN)?;
    println!("as allocated: pinned {}", is_pinned(&memory));
    memory.lock()?;
    println!("locked with mlock: pinned {}", is_pinned(&memory));

    // Once, before the loop: this is what takes long.
    let (start, bytes) = (memory.as_mut_ptr().cast(), LEN * size_of::<u32>());
    // SAFETY: the range is ours, and it stays mapped until it is unregistered below.
    unsafe { sys::cuMemHostRegister_v2(start, bytes, 0) }.result()?;
    println!("registered: pinned {}", is_pinned(&memory));

    // The copy is asynchronous now, although cudarc sees an ordinary slice.
    stream.memcpy_dtoh(&device, &mut *memory)?;
    stream.synchronize()?;
    println!("{}", lab::verdict(lab::probe(&memory), 7));

    // After the last copy, and before the memory goes back to whoever it came from.
    // SAFETY: the range was registered with this start, and nothing uses it.
    unsafe { sys::cuMemHostUnregister(start) }.result()?;
    println!("unregistered: pinned {}", is_pinned(&memory));
    // ANCHOR_END: idea
    Ok(())
}
