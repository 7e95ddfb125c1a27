//! Which NUMA node memory is bound to, and on which node its pages lie.

use std::collections::BTreeMap;
use std::io;
use std::ptr::{self, NonNull};

use anyhow::{Context, Result};

/// Bits of one word of a node mask.
const WORD: usize = libc::c_ulong::BITS as usize;

/// Binds memory that nobody has touched yet to one node: pages come from there, or not at all.
///
/// # Errors
/// When the kernel has no NUMA, or the node has no memory or is not permitted.
pub fn bind(start: NonNull<u8>, bytes: usize, node: u32) -> Result<()> {
    let node = node as usize;
    let mut mask = vec![0 as libc::c_ulong; node / WORD + 1];
    mask[node / WORD] = 1 << (node % WORD);
    // The kernel reads one bit less than it is told.
    let bits = mask.len() * WORD + 1;
    // SAFETY: the kernel only reads the mask, which has at least `bits` - 1 bits; the policy
    // concerns memory of the caller.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            start.as_ptr(),
            bytes,
            libc::MPOL_BIND,
            mask.as_ptr(),
            bits,
            0,
        )
    };
    if answer != 0 {
        return Err(io::Error::last_os_error())
            .with_context(|| format!("binding memory to NUMA node {node}: mbind"));
    }
    Ok(())
}

/// Counts on which nodes pages lie, by the node's number; a page that is not in memory counts as
/// `absent`. At most `limit` pages are asked for, evenly spread over the buffers.
///
/// # Errors
/// When the kernel does not answer `move_pages`.
pub fn nodes_of_pages(
    buffers: &[NonNull<u8>],
    bytes: usize,
    limit: usize,
) -> Result<BTreeMap<String, u64>> {
    let page = lab::page_size();
    let pages_of_one = bytes.div_ceil(page);
    let step = (buffers.len() * pages_of_one).div_ceil(limit).max(1);
    let addresses: Vec<usize> = buffers
        .iter()
        .flat_map(|start| {
            let first = start.as_ptr() as usize / page * page;
            (0..pages_of_one).map(move |index| first + index * page)
        })
        .step_by(step)
        .collect();
    let mut status = vec![0 as libc::c_int; addresses.len()];
    // SAFETY: without target nodes the call moves nothing; it reads the addresses and writes one
    // status for each.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            addresses.len(),
            addresses.as_ptr(),
            ptr::null::<libc::c_int>(),
            status.as_mut_ptr(),
            0,
        )
    };
    if answer < 0 {
        return Err(io::Error::last_os_error())
            .context("asking on which NUMA node pages lie: move_pages");
    }
    let mut nodes = BTreeMap::new();
    for status in status {
        let node = match status {
            0.. => status.to_string(),
            _ => "absent".to_owned(),
        };
        *nodes.entry(node).or_insert(0) += 1;
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Backing, Memory};

    #[test]
    fn a_page_is_absent_until_it_is_touched() -> Result<()> {
        let bytes = 8 * lab::page_size();
        let mut memory = Memory::allocate(Backing::BasePages, bytes)?;
        let absent = BTreeMap::from([("absent".to_owned(), 8)]);
        assert_eq!(nodes_of_pages(&[memory.start()], bytes, 100)?, absent);
        memory.touch(1);
        let nodes = nodes_of_pages(&[memory.start()], bytes, 100)?;
        assert_eq!(nodes.values().sum::<u64>(), 8);
        assert!(!nodes.contains_key("absent"));
        assert_eq!(
            nodes_of_pages(&[memory.start()], bytes, 4)?
                .values()
                .sum::<u64>(),
            4
        );
        Ok(())
    }

    #[test]
    fn a_node_that_is_not_there_is_an_error() -> Result<()> {
        let memory = Memory::allocate(Backing::Mmap, lab::page_size())?;
        assert!(bind(memory.start(), memory.bytes(), 4000).is_err());
        Ok(())
    }
}
