//! The GPU, its link and its driver.

use super::{compare, Answer, Check};
use crate::sources;
use crate::tree::Tree;

/// Products whose GPU and CPU share a C2C link.
const C2C_PRODUCTS: [&str; 4] = ["GH200", "GB200", "GB300", "GB10"];
/// From this version on, one registration ends at [`LARGEST_REGISTRATION`] with pages of 4 KiB.
const LIMITED_SINCE: u32 = 580;
const LARGEST_REGISTRATION: u64 = 512 << 30;

pub static C2C: Check = Check {
    id: "c2c",
    why: "Attribute 100 says that the GPU uses the host's page tables, which is what C2C gives. \
          Attribute 88 is set over PCIe, too, where Linux has HMM: it is no sign of C2C.",
    sources: &[&sources::GDRCOPY, &sources::RMM],
    look: c2c,
};

fn c2c(tree: &Tree) -> Answer {
    let Some(device) = tree.device() else {
        let why = match (&tree.machine.device, &tree.machine.no_device_because) {
            (Some(_), _) => "the driver is this repository's model",
            (None, Some(reason)) => reason,
            (None, None) => "no CUDA device was opened",
        };
        return match tree.gpus().len() {
            0 => Answer::not_here(format!("no NVIDIA GPU: {why}")),
            gpus => Answer::unknown(format!("{gpus} NVIDIA GPUs on the bus, but {why}")),
        };
    };
    let say = |value: Option<bool>| match value {
        Some(true) => "1",
        Some(false) => "0",
        None => "not told",
    };
    let mut evidence = format!(
        "{}: attribute 100 is {}, attribute 88 is {}",
        device.name,
        say(device.uses_host_page_tables),
        say(device.pageable_memory_access)
    );
    if let Some(c2c) = &device.c2c {
        evidence += &format!("; {} C2C links", c2c.links);
        if let Some(rate) = c2c.mb_per_s_of_link {
            evidence += &format!(" of {rate} MB/s");
        }
    }
    let mut words = device.name.split_whitespace();
    let expected = words.any(|word| C2C_PRODUCTS.contains(&word));
    match device.uses_host_page_tables {
        None => Answer::unknown(evidence),
        Some(true) => Answer::fine(evidence + ": C2C"),
        Some(false) if expected => Answer::finding(
            evidence + ", on a product that has C2C",
            "look at `dmesg` for the SMMU and ATS, at the firmware's settings, and whether a \
             virtual machine hides ATS",
        ),
        Some(false) => Answer::fine(evidence + ": no C2C, copies go over PCIe"),
    }
}

pub static COHERENT_MODE: Check = Check {
    id: "coherent-mode",
    why: "In NUMA mode the GPU's memory is memory of Linux: the page cache can fill it, and \
          system memory may move there. In CDMM, from driver 580 on, it is the driver's alone.",
    sources: &[&sources::COHERENT_MEMORY, &sources::TENSORRT],
    look: coherent_mode,
};

fn coherent_mode(tree: &Tree) -> Answer {
    if !tree.coherent() {
        return Answer::not_here("no GPU with the host's page tables");
    }
    let set = tree.line("proc/driver/nvidia/params", "CoherentGPUMemoryMode:");
    let set = set.map(|mode| mode.trim_matches('"'));
    let nodes = tree.memory_only_nodes();
    if nodes.is_empty() {
        return Answer::fine(match set {
            Some("driver") => "CDMM: CoherentGPUMemoryMode is `driver`, no node is the GPU's",
            _ => "no NUMA node is the GPU's memory",
        });
    }
    Answer::measure(
        format!("NUMA mode: nodes {nodes:?} have memory and no processors"),
        compare(
            "load the driver with `NVreg_CoherentGPUMemoryMode=driver` (580 or later)",
            "`fresh_pageable` and `reused_pageable`",
        ),
    )
}

pub static WSL2: Check = Check {
    id: "wsl2",
    why: "Under WSL2 pinned memory counts against a budget of the GPU's side, far below the \
          machine's memory; a larger memlock limit changes nothing.",
    sources: &[&sources::WSL],
    look: wsl2,
};

fn wsl2(tree: &Tree) -> Answer {
    let Some(kernel) = &tree.machine.kernel else {
        return Answer::unknown("the kernel's release cannot be read");
    };
    if kernel.to_lowercase().contains("microsoft") {
        return Answer::finding(
            format!("kernel {kernel}"),
            "at the start, pin the most that works, from your wish downwards; fall back to \
             pageable memory and say so",
        );
    }
    Answer::not_here(format!("kernel {kernel}"))
}

pub static REGISTRATION_LIMIT: Check = Check {
    id: "registration-limit",
    why:
        "With driver 580 or later and pages of 4 KiB, one registration of more than 512 GiB fails.",
    sources: &[&sources::LMCACHE],
    look: registration_limit,
};

fn registration_limit(tree: &Tree) -> Answer {
    let Some(driver) = tree.driver() else {
        return no_driver(tree);
    };
    let Some(memory) = tree.machine.memory_bytes else {
        return Answer::unknown("the size of memory cannot be read");
    };
    let evidence = format!(
        "driver {}, pages of {} bytes, {} GiB of memory",
        dotted(&driver),
        tree.machine.page_bytes,
        memory >> 30
    );
    let limited = driver[0] >= LIMITED_SINCE && tree.machine.page_bytes == 4096;
    if limited && memory > LARGEST_REGISTRATION {
        return Answer::finding(
            evidence,
            "register in pieces of 64 GiB, and check each call",
        );
    }
    Answer::fine(evidence)
}

pub static DRIVER: Check = Check {
    id: "driver",
    why: "Copies straight from pages of a mapped file can hang on GB300 with driver 610.43.02.",
    sources: &[&sources::COSMOS],
    look: driver,
};

fn driver(tree: &Tree) -> Answer {
    let Some(driver) = tree.driver() else {
        return no_driver(tree);
    };
    let mut evidence = format!("driver {}", dotted(&driver));
    if let Some(device) = tree.device() {
        evidence += &format!(", {}", device.driver);
    }
    let gb300 = tree
        .device()
        .is_some_and(|device| device.name.contains("GB300"));
    if gb300 && driver == [610, 43, 2] {
        return Answer::finding(
            evidence + ", GB300",
            "copy from a buffer of your own instead of the mapping, or take another driver",
        );
    }
    Answer::fine(evidence + ": no limit of it is known here")
}

fn no_driver(tree: &Tree) -> Answer {
    match tree.gpus().is_empty() && tree.device().is_none() {
        true => Answer::not_here("no NVIDIA driver"),
        false => Answer::unknown("/proc/driver/nvidia/version cannot be read"),
    }
}

/// As NVIDIA writes it: two digits in every part but the first.
fn dotted(version: &[u32]) -> String {
    let mut text = version[0].to_string();
    for part in &version[1..] {
        text += &format!(".{part:02}");
    }
    text
}

pub static WRITE_COMBINED: Check = Check {
    id: "write-combined",
    why: "Write-combined memory halved uploads on a GH200, and reading it on the CPU is slow \
          everywhere. No file tells whether a program asks for it.",
    sources: &[&sources::VORTEX],
    look: write_combined,
};

fn write_combined(tree: &Tree) -> Answer {
    if !tree.coherent() {
        return Answer::not_here("no GPU with the host's page tables");
    }
    Answer::measure(
        "a C2C machine, where write-combined memory gains nothing that was reported",
        "compare the rows `write_combined` and `reused_pinned` of `c2c measure`, and look for \
         `cudaHostAllocWriteCombined` in your program",
    )
}
