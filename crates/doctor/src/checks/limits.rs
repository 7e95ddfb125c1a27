//! What this process may use: frequency, locked memory, a container's share.

use super::{Answer, Check};
use crate::sources;
use crate::tree::Tree;

pub static GOVERNOR: Check = Check {
    id: "governor",
    why: "A fresh destination is cleared by the CPU, page by page, so its frequency counts. \
          NVIDIA's guide for Grace asks for `performance`.",
    sources: &[&sources::GRACE_PLATFORM],
    look: governor,
};

fn governor(tree: &Tree) -> Answer {
    let Some(governor) = tree.machine.governor.as_deref() else {
        return Answer::not_here("the kernel shows no governor");
    };
    let evidence = format!("the governor of processor 0 is `{governor}`");
    match governor {
        "performance" => Answer::fine(evidence),
        _ if tree.is_grace() => {
            Answer::finding(evidence, "`cpupower frequency-set -g performance`")
        }
        _ => Answer::not_here(evidence + "; the advice is for Grace"),
    }
}

pub static MEMLOCK: Check = Check {
    id: "memlock",
    why: "Beyond this limit mlock and the registrations of RDMA fail. It is not known to limit \
          CUDA's pinned memory, so raising it does not help there.",
    sources: &[&sources::MLOCK],
    look: memlock,
};

/// What Linux gives since 5.16, in bytes.
const DEFAULT_MEMLOCK: u64 = 8 << 20;

fn memlock(tree: &Tree) -> Answer {
    let line = tree.line("proc/self/limits", "Max locked memory");
    let Some(soft) = line.and_then(|line| line.split_whitespace().next()) else {
        return Answer::unknown("/proc/self/limits does not tell the limit");
    };
    let evidence = match soft {
        "unlimited" => return Answer::fine("locked memory is not limited"),
        bytes => format!("at most {bytes} bytes may be locked"),
    };
    match soft.parse::<u64>() {
        Err(_) => Answer::unknown(evidence),
        Ok(bytes) if bytes < DEFAULT_MEMLOCK => Answer::finding(
            evidence + ", less than Linux's default of 8 MiB",
            "`ulimit -l unlimited`, in a container `--ulimit memlock=-1`",
        ),
        Ok(_) => Answer::fine(evidence),
    }
}

pub static CONTAINER_MEMORY: Check = Check {
    id: "container-memory",
    why: "Beyond this limit processes of the control group are killed, however much memory \
          `free` shows. Pinned buffers count, and PyTorch rounds each up to a power of two: \
          1.73 times the memory in one report.",
    sources: &[&sources::CGROUP, &sources::ROUNDING],
    look: container_memory,
};

fn container_memory(tree: &Tree) -> Answer {
    let Some(limit) = tree.machine.cgroup_limit_bytes else {
        return Answer::not_here("no limit at the root of the control groups");
    };
    let evidence = format!("the control group ends at {} MiB", limit >> 20);
    match tree.machine.available_bytes {
        None => Answer::unknown(evidence + "; available memory cannot be read"),
        Some(available) if limit < available => Answer::finding(
            format!("{evidence}, {} MiB are available outside", available >> 20),
            "plan buffers against this limit, not against `free`; bound PyTorch's rounding with \
             `PYTORCH_ALLOC_CONF=pinned_max_round_threshold_mb:N`",
        ),
        Some(_) => Answer::fine(evidence),
    }
}

pub static CONTAINER_PROCESSORS: Check = Check {
    id: "container-processors",
    why: "Threads that touch or copy pages stop when the control group's quota is used up, \
          although the process sees more processors.",
    sources: &[&sources::CGROUP],
    look: container_processors,
};

fn container_processors(tree: &Tree) -> Answer {
    let Some(limit) = tree.text("sys/fs/cgroup/cpu.max") else {
        return Answer::not_here("no quota at the root of the control groups");
    };
    let numbers = limit.split_once(' ').and_then(|(quota, period)| {
        Some((quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?))
    });
    let (quota, period) = match numbers {
        _ if limit.starts_with("max") => return Answer::fine("no quota"),
        Some((quota, period)) if period > 0 => (quota, period),
        _ => return Answer::unknown(format!("cpu.max reads `{limit}`")),
    };
    let Some(allowed) = tree.allowed_processors() else {
        return Answer::unknown("/proc/self/status does not tell the allowed processors");
    };
    let seen: u64 = allowed
        .iter()
        .map(|range| u64::from(*range.end()).saturating_sub(u64::from(*range.start())) + 1)
        .sum();
    let evidence = format!(
        "a quota of {:.1} processors, and {seen} are seen",
        quota as f64 / period as f64
    );
    if quota / period < seen {
        return Answer::finding(
            evidence,
            "use as many threads as the quota has processors, or have it raised",
        );
    }
    Answer::fine(evidence)
}
