//! Device attribute 100 tells a coherent machine, such as one with NVLink-C2C; 88 alone does not.
//! hazard: none
//! stdout: of the machine

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::CudaContext;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;

    // ANCHOR: idea
    // Also 1 on PCIe machines, where Linux can move pages for the GPU (HMM): no proof of C2C.
    let pageable = ctx.attribute(Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS)?;
    println!("88 = {pageable}: the GPU can access pageable memory");

    // This one decides. NVIDIA's own tests take it as the mark of a coherent platform.
    let coherent =
        ctx.attribute(Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES)?;
    println!("100 = {coherent}: it uses the page tables of the CPU for that");

    let direct =
        ctx.attribute(Attribute::CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST)?;
    println!("101 = {direct}: the CPU reaches managed memory on the GPU without moving it");

    // Host memory for this GPU belongs on this node; -1 means that the GPU has none.
    let node = ctx.attribute(Attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID)?;
    println!("134 = {node}: the nearest NUMA node of the CPU");

    let verdict = match coherent {
        0 => "no: the GPU and the CPU have page tables of their own, so this is not C2C",
        _ => "yes: the GPU and the CPU share page tables, as on NVLink-C2C",
    };
    println!("{verdict}");
    // ANCHOR_END: idea
    Ok(())
}
