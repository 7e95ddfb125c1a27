//! Device attribute 100 tells a coherent machine, such as one with NVLink-C2C; 88 alone does not.
//! hazard: none

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::CudaContext;

fn main() -> anyhow::Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;

    // ANCHOR: idea
    // Also 1 on a PCIe machine whose Linux kernel moves pages for the GPU (HMM).
    let pageable = ctx.attribute(Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS)?;
    println!("88: {pageable} (the GPU can access pageable memory)");

    // This one decides: GPU and CPU go through the same page tables.
    let coherent =
        ctx.attribute(Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES)?;
    println!("100: {coherent} (it does so through the page tables of the CPU)");

    let managed =
        ctx.attribute(Attribute::CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST)?;
    println!("101: {managed} (the CPU reaches managed memory on the GPU without moving it)");

    // Host memory for this GPU belongs on this NUMA node; -1 means that there is none to prefer.
    let node = ctx.attribute(Attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID)?;
    println!("134: {node} (the NUMA node of the CPU that is nearest to the GPU)");

    let verdict = if coherent == 1 {
        "coherent with the CPU"
    } else {
        "not coherent: no C2C"
    };
    println!("verdict: {verdict}");
    // ANCHOR_END: idea
    Ok(())
}
