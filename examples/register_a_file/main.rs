//! Whether a mapped file can be registered depends on the mapping and on attribute 113: ask, try, and say what came out.
//! hazard: none
//! stdout: of the machine

use std::io::Write;

use anyhow::Result;
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::{sys, CudaContext};
use memmap2::MmapOptions;

/// Registers the bytes, unregisters them if that went well, and says what the driver answered.
fn try_to_register(bytes: &[u8], flags: u32) -> Result<String> {
    let start = bytes.as_ptr().cast_mut().cast();
    // SAFETY: the mapping outlives this call, and nothing is copied.
    match unsafe { sys::cuMemHostRegister_v2(start, bytes.len(), flags) }.result() {
        Ok(()) => {
            // SAFETY: it was registered just now, and nothing uses it.
            unsafe { sys::cuMemHostUnregister(start) }.result()?;
            Ok("registered".to_owned())
        }
        Err(error) => Ok(format!("refused with {}", error.0 as u32)),
    }
}

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let mut file = tempfile::tempfile()?;
    file.write_all(&vec![7; 4 * lab::page_size()])?;

    // ANCHOR: idea
    let supported = |attribute| ctx.attribute(attribute).map(|value| value != 0);
    let any = supported(Attribute::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED)?;
    let read_only = supported(Attribute::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED)?;
    println!("99: registration is supported: {any}");
    println!("113: registration of read-only memory is supported: {read_only}");

    // SAFETY: nobody else has this file, so it does not change under the mappings.
    let (mapping, copy) = unsafe {
        (
            MmapOptions::new().map(&file)?,
            MmapOptions::new().map_copy(&file)?,
        )
    };
    let flag = sys::CU_MEMHOSTREGISTER_READ_ONLY;
    println!(
        "read-only mapping, flag READ_ONLY: {}",
        try_to_register(&mapping, flag)?
    );
    println!(
        "read-only mapping, flag 0: {}",
        try_to_register(&mapping, 0)?
    );
    // What registration pins of this one are private pages: a second copy of the file in memory.
    println!(
        "private writable mapping, flag 0: {}",
        try_to_register(&copy, 0)?
    );

    let way = match (any, read_only) {
        (true, true) => "register the read-only mapping",
        _ => "stage: copy the file through pinned buffers",
    };
    println!("so: {way}");
    // ANCHOR_END: idea
    Ok(())
}
