//! On which node the process, its memory and the GPU are.

use std::collections::BTreeSet;

use super::{Answer, Check};
use crate::sources;
use crate::tree::Tree;

pub static GPU_NODE: Check = Check {
    id: "gpu-node",
    why: "A copy to the other socket's memory crosses the link between the sockets: 132 to 133 \
          instead of 297 to 298 GB/s on two GH200, about 120 instead of 350 on GB200, 13.5 \
          instead of 33 GiB/s on a DGX H100, as users report.",
    sources: &[&sources::TWO_GH200, &sources::TORCHTITAN, &sources::XLA],
    look: gpu_node,
};

fn gpu_node(tree: &Tree) -> Answer {
    let nodes = tree.cpu_nodes();
    let near = tree.gpu_nodes();
    if nodes.len() < 2 {
        return Answer::not_here(format!("{} node with processors", nodes.len()));
    }
    if near.is_empty() {
        return match tree.device().is_none() && tree.gpus().is_empty() {
            true => Answer::not_here("no NVIDIA GPU"),
            false => Answer::unknown("neither the driver nor the bus tells the GPU's node"),
        };
    }
    let Some(runs_on) = tree.allowed_nodes() else {
        return Answer::unknown("/proc/self/status does not tell the allowed processors");
    };
    // Memory goes where the policy says, or else where the thread that touches it runs.
    let policy = tree.policy_nodes();
    let memory_from = if policy.is_empty() { &runs_on } else { &policy };
    let evidence = format!(
        "the GPU is next to {}, the process runs on {}, its memory comes from {}",
        named(&near),
        named(&runs_on),
        named(memory_from)
    );
    let bind = near.iter().next().map_or_else(String::new, |node| {
        format!("`numactl --cpunodebind={node} --membind={node}`")
    });
    if memory_from.is_disjoint(&near) || runs_on.is_disjoint(&near) {
        return Answer::finding(evidence, format!("start the program with {bind}"));
    }
    // The bus may tell of GPUs on several nodes: then two nodes are no binding.
    if memory_from.len() == 1 {
        return Answer::fine(evidence);
    }
    Answer::measure(
        evidence + ": not bound, so the first touch decides",
        format!(
            "compare the rows `bound_to_node` of `c2c measure`; then start the program with {bind}"
        ),
    )
}

fn named(nodes: &BTreeSet<u32>) -> String {
    let numbers: Vec<String> = nodes.iter().map(u32::to_string).collect();
    match numbers.len() {
        1 => format!("node {}", numbers[0]),
        _ => format!("nodes {}", numbers.join(", ")),
    }
}

pub static HBM_NODES: Check = Check {
    id: "hbm-nodes",
    why: "A process whose memory is bound to a node of the GPU gets the GPU's memory for its \
          buffers, and no message: a download then never leaves the GPU.",
    sources: &[&sources::NVBANDWIDTH, &sources::COHERENT_MEMORY],
    look: hbm_nodes,
};

fn hbm_nodes(tree: &Tree) -> Answer {
    let hbm = tree.memory_only_nodes();
    if !tree.coherent() || hbm.is_empty() {
        return Answer::not_here("no node is a GPU's memory");
    }
    let policy = tree.policy_nodes();
    let evidence = format!(
        "GPU memory is {}; the memory policy is {}",
        named(&hbm),
        tree.manifest
            .memory_policy
            .as_deref()
            .unwrap_or("not known")
    );
    if !policy.is_disjoint(&hbm) {
        let bind: Vec<String> = tree.cpu_nodes().iter().map(u32::to_string).collect();
        return Answer::finding(
            evidence,
            format!(
                "bind memory to nodes with processors only: `numactl --membind={}`",
                bind.join(",")
            ),
        );
    }
    Answer::fine(evidence)
}

pub static NUMA_BALANCING: Check = Check {
    id: "numa-balancing",
    why: "NUMA balancing takes pages away to see who touches them, and moves them: page faults \
          and copies that nobody asked for. NVIDIA's guide for Grace turns it off; Linux's \
          documentation does so for processes that are bound already.",
    sources: &[&sources::GRACE_PLATFORM, &sources::KERNEL_SYSCTL],
    look: numa_balancing,
};

fn numa_balancing(tree: &Tree) -> Answer {
    let evidence = match tree.machine.numa_balancing {
        None => return Answer::not_here("this kernel has no NUMA balancing"),
        Some(0) => return Answer::fine("numa_balancing is 0"),
        Some(value) => format!("numa_balancing is {value}"),
    };
    let nodes = tree.machine.nodes.len();
    if nodes < 2 {
        return Answer::not_here(evidence + ", with one node");
    }
    let cpu_nodes = tree.cpu_nodes().len();
    let bound = tree
        .allowed_nodes()
        .is_some_and(|nodes| nodes.len() < cpu_nodes)
        || !tree.policy_nodes().is_empty();
    let fix = "`sysctl kernel.numa_balancing=0`, or `numa_balancing=disable` on the kernel's \
               command line";
    if tree.is_grace() {
        return Answer::finding(format!("{evidence}, on Grace, {nodes} nodes"), fix);
    }
    if bound {
        return Answer::finding(
            format!("{evidence}, and this process is bound already"),
            fix,
        );
    }
    Answer::fine(format!("{evidence}, and this process is not bound"))
}
