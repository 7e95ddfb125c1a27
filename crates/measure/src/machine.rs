//! What a figure belongs to: the machine, its settings and its state. No host name, no user name.
//!
//! What cannot be read is null in the record; nothing here is an error.

use std::fs;
use std::path::Path;

use procfs::{CpuInfo, FromRead, LoadAverage, Meminfo};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a run was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The architecture that the program was built for, as in `aarch64`.
    pub architecture: String,
    /// The processor's name.
    pub cpu: Option<String>,
    /// Whether the processor says that it is a virtual machine's.
    pub virtual_machine: Option<bool>,
    /// How many processors this process may use at once: affinity and container limits included.
    pub threads: usize,
    /// Memory of the machine in bytes.
    pub memory_bytes: Option<u64>,
    /// Memory that was available at the start, in bytes.
    pub available_bytes: Option<u64>,
    /// The limit of the control group in bytes; null where there is none.
    pub cgroup_limit_bytes: Option<u64>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The size of a base page in bytes.
    pub page_bytes: u64,
    /// `transparent_hugepage/enabled`: the chosen word.
    pub thp: Option<String>,
    /// `transparent_hugepage/defrag`: the chosen word.
    pub thp_defrag: Option<String>,
    /// Free huge pages of the default size.
    pub free_huge_pages: Option<u64>,
    /// The default size of a huge page in bytes.
    pub huge_page_bytes: Option<u64>,
    /// The NUMA nodes that have memory.
    pub nodes: Vec<Node>,
    /// `kernel.numa_balancing`.
    pub numa_balancing: Option<u64>,
    /// `vm.compaction_proactiveness`.
    pub compaction_proactiveness: Option<u64>,
    /// `vm.compact_unevictable_allowed`.
    pub compact_unevictable_allowed: Option<u64>,
    /// The frequency governor of processor 0.
    pub governor: Option<String>,
    /// The load averages of 1, 5 and 15 minutes at the start.
    pub load_average: Option<[f32; 3]>,
    /// The first CUDA device; null without a driver or a device.
    pub device: Option<Device>,
    /// Why there is no device.
    pub no_device_because: Option<String>,
}

/// A NUMA node that has memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its number.
    pub id: u32,
    /// Its processors as the kernel lists them; empty for memory of a device.
    pub cpus: Option<String>,
    /// Its memory in bytes.
    pub bytes: Option<u64>,
    /// Its free memory at the start, in bytes.
    pub free_bytes: Option<u64>,
}

/// The CUDA device that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Whether it is the driver model of this repository.
    pub simulated: bool,
    /// The driver: the model and its version, or NVIDIA and the newest CUDA version it supports.
    pub driver: String,
    /// Attribute 100, pageable memory access uses host page tables: the sign of C2C.
    pub uses_host_page_tables: Option<bool>,
    /// Attribute 88, pageable memory access; it is true without C2C, too.
    pub pageable_memory_access: Option<bool>,
    /// Attribute 134, the nearest NUMA node of the host.
    pub host_numa_id: Option<i32>,
    /// What NVML says of the C2C links; null where it does not know them.
    pub c2c: Option<C2c>,
    /// Why there is nothing about C2C links.
    pub no_c2c_because: Option<String>,
}

/// The C2C links as NVML counts them before the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct C2c {
    /// How many links (field 170).
    pub links: u64,
    /// The status of link 0 (field 171).
    pub status: Option<u64>,
    /// The most that link 0 carries one way, in MB/s (field 172).
    pub mb_per_s_of_link: Option<u64>,
    /// Errors of link 0 so far: CRC (field 231).
    pub crc_errors: Option<u64>,
    /// Replays of link 0 so far (field 232).
    pub replays: Option<u64>,
    /// The power state of link 0: 0 is full (field 234).
    pub power_state: Option<u64>,
}

impl Machine {
    /// Reads what the kernel tells under `root`, which is `/` but for a test.
    pub fn read(root: &Path) -> Self {
        let word = |path: &str| fs::read_to_string(root.join(path)).ok();
        let trimmed = |path: &str| word(path).map(|text| text.trim().to_owned());
        let number = |path: &str| trimmed(path)?.parse().ok();
        let memory = Meminfo::from_file(root.join("proc/meminfo")).ok();
        let cpus = CpuInfo::from_file(root.join("proc/cpuinfo")).ok();
        let load = LoadAverage::from_file(root.join("proc/loadavg")).ok();
        let flags = |cpus: &CpuInfo| cpus.flags(0).map(|flags| flags.contains(&"hypervisor"));
        Self {
            architecture: std::env::consts::ARCH.to_owned(),
            cpu: cpus.as_ref().and_then(cpu_name),
            virtual_machine: cpus.as_ref().and_then(flags),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory.as_ref().map(|memory| memory.mem_total),
            available_bytes: memory.as_ref().and_then(|memory| memory.mem_available),
            cgroup_limit_bytes: cgroup_limit(root),
            kernel: trimmed("proc/sys/kernel/osrelease"),
            page_bytes: lab::page_size() as u64,
            thp: word("sys/kernel/mm/transparent_hugepage/enabled").and_then(chosen),
            thp_defrag: word("sys/kernel/mm/transparent_hugepage/defrag").and_then(chosen),
            free_huge_pages: memory.as_ref().and_then(|memory| memory.hugepages_free),
            huge_page_bytes: memory.as_ref().and_then(|memory| memory.hugepagesize),
            nodes: nodes(root),
            numa_balancing: number("proc/sys/kernel/numa_balancing"),
            compaction_proactiveness: number("proc/sys/vm/compaction_proactiveness"),
            compact_unevictable_allowed: number("proc/sys/vm/compact_unevictable_allowed"),
            governor: trimmed("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            load_average: load.map(|load| [load.one, load.five, load.fifteen]),
            device: None,
            no_device_because: None,
        }
    }

    /// How many bytes this process may still use: memory that is available, or the limit of its
    /// control group, whichever is less.
    pub fn usable_bytes(&self) -> Option<u64> {
        let limits = [self.available_bytes, self.cgroup_limit_bytes];
        limits.into_iter().flatten().min()
    }

    /// In which respects `other` is another machine, so that durations cannot be compared. A
    /// simulated device is not one.
    pub fn is_other_than(&self, other: &Self) -> Vec<String> {
        let device = |machine: &Self| {
            let device = machine.device.as_ref().filter(|device| !device.simulated);
            device.map_or_else(|| "none".to_owned(), |device| device.name.clone())
        };
        differences([
            (
                "architecture",
                self.architecture.clone(),
                other.architecture.clone(),
            ),
            ("processor", shown(&self.cpu), shown(&other.cpu)),
            (
                "threads",
                self.threads.to_string(),
                other.threads.to_string(),
            ),
            ("device", device(self), device(other)),
        ])
    }

    /// Which settings of the same machine differ, so that a difference may come from them.
    pub fn set_up_other_than(&self, other: &Self) -> Vec<String> {
        differences([
            ("kernel", shown(&self.kernel), shown(&other.kernel)),
            (
                "page size",
                self.page_bytes.to_string(),
                other.page_bytes.to_string(),
            ),
            (
                "transparent huge pages",
                shown(&self.thp),
                shown(&other.thp),
            ),
            (
                "their defrag",
                shown(&self.thp_defrag),
                shown(&other.thp_defrag),
            ),
            ("governor", shown(&self.governor), shown(&other.governor)),
        ])
    }
}

fn shown(value: &Option<String>) -> String {
    value.clone().unwrap_or_else(|| "unknown".to_owned())
}

fn differences<const N: usize>(pairs: [(&str, String, String); N]) -> Vec<String> {
    let differ = pairs.into_iter().filter(|(_, mine, its)| mine != its);
    differ
        .map(|(what, mine, its)| format!("{what}: {mine} here, {its} there"))
        .collect()
}

/// x86 names the model; Arm gives numbers only, which are kept as they are.
fn cpu_name(cpus: &CpuInfo) -> Option<String> {
    if let Some(name) = cpus.model_name(0) {
        return Some(name.to_owned());
    }
    let field = |name| cpus.get_field(0, name);
    Some(format!(
        "Arm implementer {} part {}",
        field("CPU implementer")?,
        field("CPU part")?
    ))
}

/// The word in brackets: `always [madvise] never`.
fn chosen(text: String) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// The limit of the control group that this process sees as its root, version 2 or 1.
fn cgroup_limit(root: &Path) -> Option<u64> {
    let files = [
        "sys/fs/cgroup/memory.max",
        "sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    let limit = |file: &&str| {
        fs::read_to_string(root.join(file))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    // Version 1 says "no limit" with a number near 2^63.
    files
        .iter()
        .find_map(limit)
        .filter(|&limit: &u64| limit < 1 << 60)
}

fn nodes(root: &Path) -> Vec<Node> {
    let folder = root.join("sys/devices/system/node");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut nodes: Vec<Node> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let id = name.strip_prefix("node")?.parse().ok()?;
            node(id, &entry.path())
        })
        .collect();
    nodes.sort_by_key(|node| node.id);
    nodes
}

/// `None` for a node without memory.
fn node(id: u32, folder: &Path) -> Option<Node> {
    let text = fs::read_to_string(folder.join("meminfo")).unwrap_or_default();
    // A line reads `Node 0 MemTotal:       24566236 kB`.
    let bytes = |name: &str| {
        let line = text.lines().find(|line| line.contains(name))?;
        let kib: u64 = line.split_whitespace().rev().nth(1)?.parse().ok()?;
        kib.checked_mul(1024)
    };
    let total = bytes(" MemTotal:");
    if total == Some(0) {
        return None;
    }
    let cpus = fs::read_to_string(folder.join("cpulist")).ok();
    Some(Node {
        id,
        cpus: cpus.map(|list| list.trim().to_owned()),
        bytes: total,
        free_bytes: bytes(" MemFree:"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn planted(files: &[(&str, &str)]) -> TempDir {
        let root = TempDir::new().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn a_tree_with_nothing_in_it_is_a_machine_of_which_little_is_known() {
        let root = TempDir::new().unwrap();
        let machine = Machine::read(root.path());
        assert_eq!((machine.cpu, machine.memory_bytes), (None, None));
        assert_eq!((machine.nodes, machine.thp), (Vec::new(), None));
        assert!(machine.page_bytes >= 4096);
    }

    #[test]
    fn a_tree_of_nonsense_is_no_different() {
        let nonsense = [
            "proc/meminfo",
            "proc/cpuinfo",
            "proc/loadavg",
            "proc/sys/kernel/numa_balancing",
            "sys/kernel/mm/transparent_hugepage/enabled",
            "sys/fs/cgroup/memory.max",
            "sys/devices/system/node/node0/meminfo",
            "sys/devices/system/node/nodeX/meminfo",
        ];
        let root =
            planted(&nonsense.map(|path| (path, "\u{1}] [ :: 99999999999999999999999 kB\n")));
        let machine = Machine::read(root.path());
        assert_eq!((machine.memory_bytes, machine.numa_balancing), (None, None));
        assert_eq!(machine.nodes.len(), 1);
    }

    #[test]
    fn a_grace_node_is_read() {
        let root = planted(&[
            (
                "proc/cpuinfo",
                "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n\n",
            ),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always [madvise] never\n",
            ),
            ("sys/fs/cgroup/memory.max", "1000000\n"),
            (
                "sys/devices/system/node/node0/meminfo",
                "Node 0 MemTotal: 4 kB\nNode 0 MemFree: 1 kB\n",
            ),
            ("sys/devices/system/node/node0/cpulist", "0-71\n"),
            (
                "sys/devices/system/node/node1/meminfo",
                "Node 1 MemTotal: 2 kB\n",
            ),
            ("sys/devices/system/node/node1/cpulist", "\n"),
            (
                "sys/devices/system/node/node2/meminfo",
                "Node 2 MemTotal: 0 kB\n",
            ),
        ]);
        let machine = Machine::read(root.path());
        assert_eq!(
            machine.cpu.as_deref(),
            Some("Arm implementer 0x41 part 0xd4f")
        );
        assert_eq!(machine.thp.as_deref(), Some("madvise"));
        assert_eq!(machine.usable_bytes(), Some(1_000_000));
        let nodes: Vec<_> = machine
            .nodes
            .iter()
            .map(|node| (node.id, node.bytes))
            .collect();
        assert_eq!(nodes, [(0, Some(4096)), (1, Some(2048))]);
        assert_eq!(machine.nodes[0].free_bytes, Some(1024));
    }

    #[test]
    fn another_machine_is_told_apart_from_another_setting() {
        let one = Machine::read(Path::new("/"));
        assert_eq!(one.is_other_than(&one), Vec::<String>::new());
        let other = Machine {
            cpu: Some("another".to_owned()),
            threads: one.threads + 1,
            thp: Some("another".to_owned()),
            ..one.clone()
        };
        assert_eq!(one.is_other_than(&other).len(), 2);
        assert_eq!(one.set_up_other_than(&other).len(), 1);
    }
}
