//! What the environment tells PyTorch and the allocators under it.

use super::{Answer, Check};
use crate::sources;
use crate::tree::Tree;

/// The options for pinned memory of PyTorch 2.15.0.
const PINNED_OPTIONS: [&str; 7] = [
    "pinned_use_cuda_host_register",
    "pinned_num_register_threads",
    "pinned_use_background_threads",
    "pinned_reserve_segment_size_mb",
    "pinned_max_round_threshold_mb",
    "pinned_max_cached_size_mb",
    "pinned_free_catch_all",
];

pub static PYTORCH_SETTINGS: Check = Check {
    id: "pytorch-settings",
    why: "PyTorch's cache of pinned buffers is what makes a fresh pinned tensor cheap in every \
          step; one option turns it off. Both names of the variable are read, and we do not know \
          which wins.",
    sources: &[&sources::PINNED_OPTIONS],
    look: pytorch_settings,
};

fn pytorch_settings(tree: &Tree) -> Answer {
    let old = tree.variable("PYTORCH_CUDA_ALLOC_CONF");
    let new = tree.variable("PYTORCH_ALLOC_CONF");
    let Some(settings) = new.or(old) else {
        return Answer::fine("PYTORCH_ALLOC_CONF is not set");
    };
    if let (Some(old), Some(new)) = (old, new) {
        if old != new {
            return Answer::finding(
                format!("PYTORCH_ALLOC_CONF=`{new}`, PYTORCH_CUDA_ALLOC_CONF=`{old}`"),
                "unset PYTORCH_CUDA_ALLOC_CONF, the old name",
            );
        }
    }
    let evidence = format!("PyTorch's allocator is set to `{settings}`");
    for (option, value) in options(settings) {
        if option.starts_with("pinned_") && !PINNED_OPTIONS.contains(&option) {
            return Answer::finding(
                format!("{evidence}; PyTorch 2.15.0 has no option `{option}`"),
                format!("take one of {}", PINNED_OPTIONS.join(", ")),
            );
        }
        if option == "pinned_max_cached_size_mb" && value == "0" {
            return Answer::finding(
                format!("{evidence}: no pinned buffer is kept"),
                "leave pinned_max_cached_size_mb out, or set it above your largest buffer",
            );
        }
    }
    Answer::fine(evidence)
}

fn options(settings: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = settings.split(',').filter_map(|pair| pair.split_once(':'));
    pairs.map(|(option, value)| (option.trim(), value.trim()))
}

pub static MALLOC_SETTINGS: Check = Check {
    id: "malloc-settings",
    why: "PyTorch's wheels for aarch64 take CPU memory from mimalloc since 2.10: variables for \
          glibc and jemalloc do nothing to `.cpu()`. A purge delay of 0 gives pages back at \
          once, so that the next tensor faults again.",
    sources: &[&sources::MIMALLOC_IN_PYTORCH, &sources::MIMALLOC],
    look: malloc_settings,
};

fn malloc_settings(tree: &Tree) -> Answer {
    let set = tree.manifest.environment.iter();
    let set: Vec<String> = set
        .filter(|(name, _)| !name.starts_with("PYTORCH_"))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    if set.is_empty() {
        return Answer::fine("no variable of an allocator is set");
    }
    let evidence = set.join(", ");
    if tree.machine.architecture != "aarch64" {
        return Answer::fine(evidence);
    }
    if tree.variable("MIMALLOC_PURGE_DELAY") == Some("0") {
        return Answer::finding(
            evidence,
            "unset MIMALLOC_PURGE_DELAY, or set -1: blocks up to 512 MiB then stay",
        );
    }
    let idle = |name: &String| {
        name.starts_with("MALLOC_") || ["THP_MEM_ALLOC_ENABLE", "GLIBC_TUNABLES"].contains(&&**name)
    };
    if tree.manifest.environment.keys().any(idle) {
        return Answer::finding(
            evidence,
            "do not count on these for `.cpu()` with PyTorch 2.10 or later on aarch64; reuse a \
             pinned buffer instead",
        );
    }
    Answer::fine(evidence)
}
