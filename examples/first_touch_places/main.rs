//! A page gets its NUMA node when it is first touched, from the thread that touches it or from a policy.
//! hazard: none
//! stdout: of the machine

use std::fs;
use std::io;
use std::mem::size_of_val;
use std::ptr;

use anyhow::{bail, ensure, Context, Result};
use lab::Pageable;

const PAGES: usize = 64;

// ANCHOR: idea
/// The NUMA node of each page, or `None` for a page that does not exist yet.
fn nodes(buffer: &[u8]) -> Result<Vec<Option<i32>>> {
    let pages: Vec<_> = buffer
        .chunks(lab::page_size())
        .map(<[u8]>::as_ptr)
        .collect();
    let mut status = vec![0; pages.len()];
    // With no list of target nodes, move_pages moves nothing and only says where each page is.
    // SAFETY: both lists have one entry for each page.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            pages.len(),
            pages.as_ptr(),
            ptr::null::<i32>(),
            status.as_mut_ptr(),
            0,
        )
    };
    ensure!(result == 0, "move_pages: {}", io::Error::last_os_error());
    Ok(status
        .into_iter()
        .map(|node| (node >= 0).then_some(node))
        .collect())
}
// ANCHOR_END: idea

/// Has pages that do not exist yet come from `node`, whoever touches them.
fn bind(buffer: &mut [u8], node: u32) -> Result<()> {
    let nodes = 1_u64 << node;
    // SAFETY: the range is the buffer, and the mask has the 64 bits that it is said to have.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            buffer.as_mut_ptr(),
            size_of_val(buffer),
            libc::MPOL_BIND,
            &nodes,
            u64::BITS as usize + 1,
            0,
        )
    };
    ensure!(
        result == 0,
        "binding to node {node}: {}",
        io::Error::last_os_error()
    );
    Ok(())
}

fn main() -> Result<()> {
    lab::announce()?;
    let bytes = PAGES * lab::page_size();
    println!(
        "untouched: {}",
        describe(&nodes(&Pageable::<u8>::untouched(bytes)?)?)?
    );

    for node in nodes_with("has_cpu")? {
        run_on(node)?;
        let buffer = Pageable::<u8>::zeroed(bytes)?;
        println!(
            "first touched by a CPU of node {node}: {}",
            describe(&nodes(&buffer)?)?
        );
    }
    for node in nodes_with("has_memory")? {
        let mut buffer = Pageable::<u8>::untouched(bytes)?;
        bind(&mut buffer, node)?;
        buffer.fill(0);
        println!(
            "bound to node {node}, touched from anywhere: {}",
            describe(&nodes(&buffer)?)?
        );
    }
    Ok(())
}

/// The nodes in one of Linux's lists, such as `0-3,8`; up to 64, which is what `bind` can name.
fn nodes_with(what: &str) -> Result<Vec<u32>> {
    let file = format!("/sys/devices/system/node/{what}");
    let list = fs::read_to_string(&file)
        .unwrap_or_else(|_| lab::waive("this Linux does not know NUMA nodes"));
    let mut nodes = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| {
            text.parse::<u32>()
                .with_context(|| format!("{file} says {list}"))
        };
        nodes.extend((number(first)?..=number(last)?).filter(|&node| node < u64::BITS));
    }
    Ok(nodes)
}

/// Has this thread run on the CPUs of `node` from now on.
fn run_on(node: u32) -> Result<()> {
    let file = format!("/sys/devices/system/node/node{node}/cpumap");
    let mask = fs::read_to_string(&file).with_context(|| format!("reading {file}"))?;
    // SAFETY: a set of CPUs is a field of bits, and zero is the empty set.
    let mut cpus: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let digits = mask.trim().chars().rev().filter(|&it| it != ',');
    for (digit, text) in digits.enumerate() {
        let bits = text
            .to_digit(16)
            .with_context(|| format!("{file} says {mask}"))?;
        for bit in (0..4).filter(|bit| bits & (1 << bit) != 0) {
            // SAFETY: CPU_SET ignores a CPU that is beyond the set.
            unsafe { libc::CPU_SET(digit * 4 + bit, &mut cpus) };
        }
    }
    // SAFETY: the set is as large as it is said to be.
    if unsafe { libc::sched_setaffinity(0, size_of_val(&cpus), &cpus) } != 0 {
        bail!(
            "running on the CPUs of node {node}: {}",
            io::Error::last_os_error()
        );
    }
    Ok(())
}

/// For example `64 of 64 pages on node 0`.
fn describe(nodes: &[Option<i32>]) -> Result<String> {
    let first = *nodes.first().context("a buffer of no pages")?;
    let alike = nodes.iter().filter(|&&node| node == first).count();
    let place = first.map_or("nowhere".to_owned(), |node| format!("on node {node}"));
    Ok(format!("{alike} of {} pages {place}", nodes.len()))
}
