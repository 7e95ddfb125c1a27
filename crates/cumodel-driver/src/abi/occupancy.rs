//! How many blocks fit onto a multiprocessor: the arithmetic of the CUDA Programming Guide, for compute capability 8.0.
//!
//! Threads, blocks and shared memory are counted.
//! Registers are not: how many a kernel takes is decided by an assembler, and there is none here.

use std::ffi::{c_int, c_uint, c_void};

use super::{call, give, Call, Handle};
use crate::Code;

/// Threads of a multiprocessor.
pub(super) const THREADS: u64 = 2048;
/// Blocks of a multiprocessor.
pub(super) const BLOCKS: u64 = 32;
/// Shared memory of a multiprocessor, in bytes.
pub(super) const SHARED: u64 = 164 << 10;
/// Shared memory that the system takes for each block, in bytes.
pub(super) const SHARED_RESERVED: u64 = 1 << 10;
const WARP: u64 = 32;
const MAX_THREADS: u64 = 1024;

/// A function of the program that says how much dynamic shared memory a block of so many threads takes.
type SharedOfBlock = unsafe extern "C" fn(c_int) -> usize;

/// How many blocks of so many threads fit onto a multiprocessor.
#[no_mangle]
pub unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut c_int,
    function: Handle,
    block_size: c_int,
    dynamic_shared: usize,
) -> u32 {
    call("cuOccupancyMaxActiveBlocksPerMultiprocessor", |call| {
        let fit = call.blocks_that_fit(function, block_size, dynamic_shared)?;
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(blocks, fit as c_int) }
    })
}

/// The same; the flag concerns caching, which is not modelled.
#[no_mangle]
pub unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    blocks: *mut c_int,
    function: Handle,
    block_size: c_int,
    dynamic_shared: usize,
    _flags: c_uint,
) -> u32 {
    call(
        "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
        |call| {
            let fit = call.blocks_that_fit(function, block_size, dynamic_shared)?;
            // SAFETY: the manual's requirement on the out-pointer.
            unsafe { give(blocks, fit as c_int) }
        },
    )
}

/// The block size for which most threads fit, and how many such blocks fill the device, which has one multiprocessor.
#[no_mangle]
pub unsafe extern "C" fn cuOccupancyMaxPotentialBlockSize(
    grid_size: *mut c_int,
    block_size: *mut c_int,
    function: Handle,
    shared_of_block: Option<SharedOfBlock>,
    dynamic_shared: usize,
    limit: c_int,
) -> u32 {
    call("cuOccupancyMaxPotentialBlockSize", |call| {
        let (grid, block) = call.best_block(function, shared_of_block, dynamic_shared, limit)?;
        // SAFETY: the manual's requirement on the out-pointers.
        unsafe {
            give(grid_size, grid as c_int)?;
            give(block_size, block as c_int)
        }
    })
}

/// The same; the flag concerns caching, which is not modelled.
#[no_mangle]
pub unsafe extern "C" fn cuOccupancyMaxPotentialBlockSizeWithFlags(
    grid_size: *mut c_int,
    block_size: *mut c_int,
    function: Handle,
    shared_of_block: Option<SharedOfBlock>,
    dynamic_shared: usize,
    limit: c_int,
    _flags: c_uint,
) -> u32 {
    call("cuOccupancyMaxPotentialBlockSizeWithFlags", |call| {
        let (grid, block) = call.best_block(function, shared_of_block, dynamic_shared, limit)?;
        // SAFETY: the manual's requirement on the out-pointers.
        unsafe {
            give(grid_size, grid as c_int)?;
            give(block_size, block as c_int)
        }
    })
}

/// How much dynamic shared memory each block can have when so many are to fit onto a multiprocessor.
#[no_mangle]
pub unsafe extern "C" fn cuOccupancyAvailableDynamicSMemPerBlock(
    bytes: *mut usize,
    function: Handle,
    blocks: c_int,
    block_size: c_int,
) -> u32 {
    call("cuOccupancyAvailableDynamicSMemPerBlock", |call| {
        let fit = call.blocks_that_fit(function, block_size, 0)?;
        let known = call.function(function)?;
        let wanted = u64::try_from(blocks).unwrap_or(0);
        if wanted == 0 || wanted > fit {
            let why =
                format!("{blocks} blocks of {block_size} threads do not fit onto a multiprocessor");
            return Err(call.refuse(Code::InvalidValue, &why));
        }
        let each = SHARED / wanted - SHARED_RESERVED;
        let left = each.saturating_sub(u64::from(known.kernel.static_shared()));
        let available = left.min(u64::from(known.max_dynamic_shared));
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(bytes, available as usize) }
    })
}

/// Clusters are not modelled.
#[no_mangle]
pub unsafe extern "C" fn cuOccupancyMaxActiveClusters(
    _clusters: *mut c_int,
    _function: Handle,
    _config: *const c_void,
) -> u32 {
    call("cuOccupancyMaxActiveClusters", |call| {
        Err(call.refuse(Code::NotSupported, "clusters of blocks are not modelled"))
    })
}

/// Clusters are not modelled.
#[no_mangle]
pub unsafe extern "C" fn cuOccupancyMaxPotentialClusterSize(
    _size: *mut c_int,
    _function: Handle,
    _config: *const c_void,
) -> u32 {
    call("cuOccupancyMaxPotentialClusterSize", |call| {
        Err(call.refuse(Code::NotSupported, "clusters of blocks are not modelled"))
    })
}

/// How many blocks fit that have so many threads and so much shared memory, in bytes.
fn fit(threads: u64, shared: u64) -> u64 {
    // Threads are taken by the warp.
    let by_threads = THREADS / threads.next_multiple_of(WARP);
    let by_shared = SHARED / (shared + SHARED_RESERVED);
    BLOCKS.min(by_threads).min(by_shared)
}

impl Call {
    fn blocks_that_fit(
        &mut self,
        function: Handle,
        block_size: c_int,
        dynamic_shared: usize,
    ) -> Result<u64, Code> {
        let most = u64::from(self.function(function)?.kernel.max_threads());
        let threads = u64::try_from(block_size).unwrap_or(0);
        if threads == 0 {
            let why = format!("a block cannot have {block_size} threads");
            return Err(self.refuse(Code::InvalidValue, &why));
        }
        let shared = self.shared_of_block(function, dynamic_shared)?;
        if threads > most {
            return Ok(0);
        }
        Ok(fit(threads, shared))
    }

    /// The number of blocks and the block size that fill a multiprocessor best; of equals, the largest block.
    fn best_block(
        &mut self,
        function: Handle,
        shared_of_block: Option<SharedOfBlock>,
        dynamic_shared: usize,
        limit: c_int,
    ) -> Result<(u64, u64), Code> {
        let kernel = self.function(function)?.kernel;
        // No limit is written as 0.
        let limit = u64::try_from(limit).ok().filter(|&limit| limit > 0);
        let most = MAX_THREADS
            .min(u64::from(kernel.max_threads()))
            .min(limit.unwrap_or(MAX_THREADS));
        let sizes = (1..=most.div_ceil(WARP)).map(|warps| (warps * WARP).min(most));
        let best = sizes
            .map(|threads| {
                // SAFETY: the program passes a function that can be called with any block size.
                let dynamic = shared_of_block.map_or(dynamic_shared, |function| unsafe {
                    function(threads as c_int)
                });
                let shared = u64::from(kernel.static_shared()) + dynamic as u64;
                (fit(threads, shared), threads)
            })
            .max_by_key(|(blocks, threads)| (blocks * threads, *threads));
        best.filter(|(blocks, _)| *blocks > 0).ok_or_else(|| {
            let why = "no block of this kernel fits onto a multiprocessor";
            self.refuse(Code::InvalidValue, why)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scarcest_resource_decides() {
        assert_eq!(fit(1024, 0), 2);
        assert_eq!(fit(256, 0), 8);
        assert_eq!(fit(32, 0), 32);
        assert_eq!(fit(1, 0), 32);
        assert_eq!(fit(33, 0), 32);
        assert_eq!(fit(96, 0), 21);
        assert_eq!(fit(32, 48 << 10), 3);
        assert_eq!(fit(32, 163 << 10), 1);
        assert_eq!(fit(32, 164 << 10), 0);
    }
}
