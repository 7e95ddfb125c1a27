//! The facts of one machine, live or captured: what the checks look at.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;

use anyhow::{Context, Result};
use measure::machine::{Device, Machine, Node};

use crate::capture::{Capture, Manifest};

/// Grace's processor, as `measure` names it; other processors with Neoverse V2 cores have the same name.
const NEOVERSE_V2: &str = "Arm implementer 0x41 part 0xd4f";

/// A captured machine that can be asked.
pub struct Tree {
    /// What no file says.
    pub manifest: Manifest,
    /// What `measure` reads of a machine.
    pub machine: Machine,
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the machine out of a capture.
    ///
    /// # Errors
    /// When there is no room for the files in the folder for temporary ones.
    pub fn new(capture: Capture) -> Result<Self> {
        let Capture { manifest, files } = capture;
        // The reader of machines reads files, and there is only one such reader.
        let laid_out = || -> Result<Machine> {
            let folder = tempfile::tempdir()?;
            for (path, text) in &files {
                let path = folder.path().join(path);
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent)?;
                }
                fs::write(path, text)?;
            }
            Ok(Machine::read(folder.path()))
        };
        let read =
            laid_out().context("laying out the capture in the folder for temporary files")?;
        let machine = Machine {
            architecture: manifest.architecture.clone(),
            page_bytes: manifest.page_bytes,
            device: manifest.device.clone(),
            no_device_because: manifest.no_device_because.clone(),
            ..read
        };
        Ok(Self {
            manifest,
            machine,
            files,
        })
    }

    /// A file without the space around it; `None` if it is not there.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(|text| text.trim())
    }

    /// What follows `name` in the line of a file that begins with it.
    pub fn line(&self, path: &str, name: &str) -> Option<&str> {
        let line = self
            .files
            .get(path)?
            .lines()
            .find_map(|line| line.strip_prefix(name))?;
        Some(line.trim())
    }

    /// The first number that follows `name` in a file.
    pub fn number(&self, path: &str, name: &str) -> Option<u64> {
        self.line(path, name)?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    }

    /// A variable of the environment.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.manifest.environment.get(name).map(String::as_str)
    }

    /// The CUDA device, if it is a real one.
    pub fn device(&self) -> Option<&Device> {
        self.machine
            .device
            .as_ref()
            .filter(|device| !device.simulated)
    }

    /// Whether the device uses the host's page tables: attribute 100.
    pub fn coherent(&self) -> bool {
        self.device()
            .and_then(|device| device.uses_host_page_tables)
            == Some(true)
    }

    /// Whether this is a Grace with its GPU, for which NVIDIA's guides were written.
    pub fn is_grace(&self) -> bool {
        let gpu = match self.device() {
            Some(_) => self.coherent(),
            None => !self.gpus().is_empty(),
        };
        gpu && self.machine.cpu.as_deref() == Some(NEOVERSE_V2)
    }

    /// NVIDIA's GPUs on the bus, each with the NUMA node that the kernel gives for it.
    pub fn gpus(&self) -> BTreeMap<&str, Option<u32>> {
        let vendors = self.files.keys().filter_map(|path| {
            path.strip_prefix("sys/bus/pci/devices/")?
                .strip_suffix("/vendor")
        });
        let node = |gpu: &str| {
            let path = format!("sys/bus/pci/devices/{gpu}/numa_node");
            self.text(&path)?.parse().ok()
        };
        vendors.map(|gpu| (gpu, node(gpu))).collect()
    }

    /// The host's NUMA nodes next to the GPUs: the device's own, or else those of all on the bus.
    pub fn gpu_nodes(&self) -> BTreeSet<u32> {
        let told = self.device().and_then(|device| device.host_numa_id);
        match told.and_then(|node| u32::try_from(node).ok()) {
            Some(node) => BTreeSet::from([node]),
            None => self.gpus().into_values().flatten().collect(),
        }
    }

    /// Nodes with memory and processors.
    pub fn cpu_nodes(&self) -> BTreeSet<u32> {
        self.nodes(|node| node.cpus.as_deref().is_some_and(|cpus| !cpus.is_empty()))
    }

    /// Nodes with memory and without processors: on a coherent machine the memory of GPUs.
    pub fn memory_only_nodes(&self) -> BTreeSet<u32> {
        self.nodes(|node| node.cpus.as_deref() == Some(""))
    }

    fn nodes(&self, is_one: impl Fn(&Node) -> bool) -> BTreeSet<u32> {
        let nodes = self.machine.nodes.iter().filter(|node| is_one(node));
        nodes.map(|node| node.id).collect()
    }

    /// The processors that this process may run on; `None` if it is not known.
    pub fn allowed_processors(&self) -> Option<Vec<RangeInclusive<u32>>> {
        ranges(self.line("proc/self/status", "Cpus_allowed_list:")?)
    }

    /// The nodes on which this process may run; `None` if it is not known.
    pub fn allowed_nodes(&self) -> Option<BTreeSet<u32>> {
        let allowed = self.allowed_processors()?;
        let meets = |node: &Node| {
            let cpus = node.cpus.as_deref().and_then(ranges).unwrap_or_default();
            cpus.iter().any(|one| {
                let meet = |other: &RangeInclusive<u32>| {
                    one.start() <= other.end() && other.start() <= one.end()
                };
                allowed.iter().any(meet)
            })
        };
        Some(self.nodes(meets))
    }

    /// The nodes to which the memory policy binds this process; empty if it does not bind.
    pub fn policy_nodes(&self) -> BTreeSet<u32> {
        let policy = self.manifest.memory_policy.as_deref().unwrap_or_default();
        let Some((_, nodes)) = policy.split_once(':') else {
            return BTreeSet::new();
        };
        let nodes = ranges(nodes).unwrap_or_default();
        // A node of this machine: a range may claim four billion.
        self.nodes(|node| nodes.iter().any(|range| range.contains(&node.id)))
    }

    /// The version of NVIDIA's kernel module, as in `[580, 95, 5]`.
    pub fn driver(&self) -> Option<Vec<u32>> {
        let line = self.line("proc/driver/nvidia/version", "NVRM version:")?;
        line.split_whitespace().find_map(|word| {
            let parts: Option<Vec<u32>> = word.split('.').map(|part| part.parse().ok()).collect();
            parts.filter(|parts| parts.len() >= 2)
        })
    }
}

/// `0-71,144` as the kernel writes it; `None` if it is something else.
fn ranges(list: &str) -> Option<Vec<RangeInclusive<u32>>> {
    let one = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    let parts = list.trim().split(',').filter(|part| !part.is_empty());
    parts.map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_the_kernel_is_read() {
        assert_eq!(ranges("0-71,144"), Some(vec![0..=71, 144..=144]));
        assert_eq!(ranges(""), Some(Vec::new()));
        assert_eq!(ranges("0-"), None);
        assert_eq!(ranges("a"), None);
    }
}
