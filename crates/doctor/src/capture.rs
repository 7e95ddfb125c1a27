//! What a diagnosis reads: a short list of files, and what the process says of itself.
//!
//! The list is the same for a live machine and for a capture, and lines that could name the host,
//! a user or a folder are left out of both. So a capture gives the diagnosis of the machine that
//! it was taken on.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;

use anyhow::{anyhow, ensure, Context, Result};
use jiff::{Timestamp, Unit};
use measure::device::Gpu;
use measure::machine::{Device, Machine};
use serde::{Deserialize, Serialize};

/// What `format` says in every capture.
pub const FORMAT: &str = "c2c doctor capture";
/// The version of the format; it changes when a key changes its meaning or goes away.
pub const VERSION: u32 = 1;
/// The manifest's name in a capture.
pub const MANIFEST: &str = "capture.json";
/// No file that is read here is larger, in bytes.
pub const LARGEST_FILE: u64 = 1 << 20;
/// A capture has fewer files than this: a node of a large machine adds two, a GPU three.
pub const MOST_FILES: usize = 4096;

/// The part of a file that is kept.
#[derive(Clone, Copy)]
enum Part {
    All,
    /// Lines that begin with one of these.
    Lines(&'static [&'static str]),
    /// Words that begin with one of these, in one line.
    Words(&'static [&'static str]),
    /// What stands before the first empty line: one processor of many.
    FirstBlock,
    /// The first line up to a parenthesis, in which drivers name who built them, and where.
    BeforeParenthesis,
}

/// The files; a `*` stands for one name.
const FILES: [(&str, Part); 26] = [
    ("proc/buddyinfo", Part::All),
    (
        "proc/cmdline",
        Part::Words(&["init_on_alloc=", "numa_balancing=", "transparent_hugepage="]),
    ),
    ("proc/cpuinfo", Part::FirstBlock),
    (
        "proc/driver/nvidia/params",
        Part::Lines(&["CoherentGPUMemoryMode:"]),
    ),
    ("proc/driver/nvidia/version", Part::BeforeParenthesis),
    ("proc/loadavg", Part::All),
    ("proc/meminfo", Part::All),
    ("proc/self/limits", Part::Lines(&["Max locked memory"])),
    (
        "proc/self/status",
        Part::Lines(&["Cpus_allowed_list:", "Mems_allowed_list:"]),
    ),
    ("proc/sys/kernel/numa_balancing", Part::All),
    ("proc/sys/kernel/osrelease", Part::All),
    ("proc/sys/vm/compact_unevictable_allowed", Part::All),
    ("proc/sys/vm/compaction_proactiveness", Part::All),
    ("proc/vmstat", Part::Lines(&["compact_"])),
    ("sys/bus/pci/devices/*/class", Part::All),
    ("sys/bus/pci/devices/*/numa_node", Part::All),
    ("sys/bus/pci/devices/*/vendor", Part::All),
    (
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
        Part::All,
    ),
    ("sys/devices/system/node/*/cpulist", Part::All),
    ("sys/devices/system/node/*/meminfo", Part::All),
    ("sys/fs/cgroup/cpu.max", Part::All),
    ("sys/fs/cgroup/memory.max", Part::All),
    ("sys/fs/cgroup/memory/memory.limit_in_bytes", Part::All),
    ("sys/kernel/mm/transparent_hugepage/defrag", Part::All),
    ("sys/kernel/mm/transparent_hugepage/enabled", Part::All),
    // Named after the kernel's release.
    (
        "boot/*",
        Part::Lines(&[
            "CONFIG_INIT_ON_ALLOC_DEFAULT_ON=",
            "# CONFIG_INIT_ON_ALLOC_DEFAULT_ON ",
        ]),
    ),
];

/// Variables that decide how PyTorch and the allocators under it get memory.
const VARIABLES: [&str; 5] = [
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "THP_MEM_ALLOC_ENABLE",
    "GLIBC_TUNABLES",
];
const VARIABLE_PREFIXES: [&str; 2] = ["MALLOC_", "MIMALLOC_"];

/// What no file says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Always `c2c doctor capture`.
    pub format: String,
    /// The version of this format.
    pub format_version: u32,
    /// The version of the program.
    pub tool_version: String,
    /// When it was taken: UTC, RFC 3339, to the second.
    pub date: String,
    /// The machine's name, if it was asked for.
    #[serde(default)]
    pub host_name: Option<String>,
    /// The architecture that the program was built for.
    pub architecture: String,
    /// The size of a base page in bytes.
    pub page_bytes: u64,
    /// The process's memory policy as `/proc/self/numa_maps` shows it, as in `bind:1`.
    #[serde(default)]
    pub memory_policy: Option<String>,
    /// Variables of the environment that concern allocators.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The first CUDA device.
    #[serde(default)]
    pub device: Option<Device>,
    /// Why there is no device.
    #[serde(default)]
    pub no_device_because: Option<String>,
    /// Files that are there and could not be read.
    #[serde(default)]
    pub unreadable: Vec<String>,
}

/// A manifest and the files beside it, by their path without the leading `/`.
pub struct Capture {
    /// What no file says.
    pub manifest: Manifest,
    /// The files.
    pub files: BTreeMap<String, String>,
}

impl Capture {
    /// Captures the machine and the process that this is.
    ///
    /// # Errors
    /// When this machine shows no `/proc`, or the clock cannot be read.
    pub fn live(with_host_name: bool) -> Result<Self> {
        let (files, unreadable) = collect(Path::new("/"));
        ensure!(
            files.contains_key("proc/meminfo"),
            "/proc/meminfo cannot be read, so nothing can be said of this machine; mount /proc"
        );
        let date = Timestamp::now()
            .round(Unit::Second)
            .context("reading the clock")?;
        let (device, no_device_because) = match Gpu::open() {
            Ok(gpu) => (Some(gpu.about), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        let machine = Machine::read(Path::new("/"));
        let name = || {
            let name = fs::read_to_string("/proc/sys/kernel/hostname");
            name.map(|name| name.trim().to_owned())
        };
        let manifest = Manifest {
            format: FORMAT.to_owned(),
            format_version: VERSION,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            date: date.to_string(),
            host_name: match with_host_name {
                true => Some(name().context("reading the host's name")?),
                false => None,
            },
            architecture: machine.architecture,
            page_bytes: machine.page_bytes,
            memory_policy: memory_policy(),
            environment: environment(std::env::vars_os()),
            device,
            no_device_because,
            unreadable,
        };
        Ok(Self { manifest, files })
    }

    /// Reads a capture that lies in a folder.
    ///
    /// # Errors
    /// When its manifest is missing, or is none.
    pub fn folder(folder: &Path) -> Result<Self> {
        let path = folder.join(MANIFEST);
        let text = match read(&path) {
            Some(text) => text.with_context(|| format!("reading {}", path.display()))?,
            None => anyhow::bail!(
                "{} has no {MANIFEST}, so it is no capture; `c2c doctor --capture FILE` makes one",
                folder.display()
            ),
        };
        let manifest = manifest(&text).with_context(|| format!("reading {}", path.display()))?;
        let (files, _) = collect(folder);
        Ok(Self { manifest, files })
    }
}

/// Reads a manifest.
///
/// # Errors
/// When it is not JSON, of another format, or of another version of it.
pub fn manifest(text: &str) -> Result<Manifest> {
    let value: serde_json::Value =
        serde_json::from_str(text).with_context(|| format!("{MANIFEST} is not JSON"))?;
    ensure!(
        value["format"] == FORMAT,
        "{MANIFEST} is not of the format `{FORMAT}`"
    );
    ensure!(
        value["format_version"] == VERSION,
        "{MANIFEST} is of version {} and this program reads version {VERSION}",
        value["format_version"]
    );
    let manifest: Manifest = serde_json::from_value(value).map_err(|error| {
        // It quotes what it read, and the sentence stays in one line.
        let error = error.to_string().replace(char::is_control, " ");
        anyhow!("{MANIFEST} is incomplete: {error}")
    })?;
    ensure!(
        manifest.page_bytes.is_power_of_two(),
        "{MANIFEST} says that a page has {} bytes",
        manifest.page_bytes
    );
    Ok(manifest)
}

/// What of a file at `path` belongs into a capture; `None` if nothing does.
pub fn kept(path: &str, text: &str) -> Option<String> {
    let (_, part) = FILES.iter().find(|(pattern, _)| matches(pattern, path))?;
    Some(match part {
        Part::All => text.to_owned(),
        Part::Lines(starts) => {
            let lines = text.lines();
            lines
                .filter(|line| starts.iter().any(|start| line.starts_with(start)))
                .flat_map(|line| [line, "\n"])
                .collect()
        }
        Part::Words(starts) => {
            let words: Vec<&str> = text
                .split_whitespace()
                .filter(|word| starts.iter().any(|start| word.starts_with(start)))
                .collect();
            words.join(" ") + "\n"
        }
        Part::FirstBlock => {
            let block = text.split_once("\n\n").map_or(text, |(first, _)| first);
            block.trim_end().to_owned() + "\n\n"
        }
        Part::BeforeParenthesis => {
            let line = text.lines().next().unwrap_or_default();
            line.split('(')
                .next()
                .unwrap_or_default()
                .trim_end()
                .to_owned()
                + "\n"
        }
    })
}

fn matches(pattern: &str, path: &str) -> bool {
    let (mut of_pattern, mut of_path) = (pattern.split('/'), path.split('/'));
    loop {
        match (of_pattern.next(), of_path.next()) {
            (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(one), Some(other)) if one == other => {}
            _ => return false,
        }
    }
}

/// Reads every file of the list under `root`, and names those that are there and cannot be read.
fn collect(root: &Path) -> (BTreeMap<String, String>, Vec<String>) {
    let mut files = BTreeMap::new();
    let mut unreadable = Vec::new();
    let paths = FILES.iter().flat_map(|(pattern, _)| paths(root, pattern));
    for path in paths.take(MOST_FILES) {
        match read(&root.join(&path)) {
            None => {}
            Some(Err(_)) => unreadable.push(path),
            Some(Ok(text)) => {
                if let Some(text) = kept(&path, &text) {
                    files.insert(path, text);
                }
            }
        }
    }
    keep_gpus_only(&mut files);
    (files, unreadable)
}

/// The paths under `root` that a pattern stands for.
fn paths(root: &Path, pattern: &str) -> Vec<String> {
    if pattern == "boot/*" {
        let release = fs::read_to_string(root.join("proc/sys/kernel/osrelease"));
        let release = release.unwrap_or_default();
        return match release.trim() {
            "" => Vec::new(),
            release if release.contains('/') => Vec::new(),
            release => vec![format!("boot/config-{release}")],
        };
    }
    let Some((folder, rest)) = pattern.split_once("/*/") else {
        return vec![pattern.to_owned()];
    };
    let entries = fs::read_dir(root.join(folder)).into_iter().flatten();
    let mut paths: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .map(|name| format!("{folder}/{name}/{rest}"))
        .collect();
    paths.sort();
    paths
}

/// `None` if there is no such file.
fn read(path: &Path) -> Option<Result<String>> {
    // A pipe would keep the reader waiting.
    match fs::metadata(path) {
        Ok(about) if about.is_file() => {}
        Ok(_) => return None,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Some(Err(error.into()))
        }
        Err(_) => return None,
    }
    let text = || -> Result<String> {
        let mut text = String::new();
        let read = File::open(path)?
            .take(LARGEST_FILE + 1)
            .read_to_string(&mut text)?;
        ensure!(
            read as u64 <= LARGEST_FILE,
            "it is larger than {LARGEST_FILE} bytes"
        );
        Ok(text)
    };
    Some(text())
}

/// Of the devices on the bus only NVIDIA's display and 3D controllers matter.
fn keep_gpus_only(files: &mut BTreeMap<String, String>) {
    const DEVICES: &str = "sys/bus/pci/devices/";
    let is_gpu = |device: &str| {
        let says = |file: &str, start: &str| {
            let text = files.get(&format!("{DEVICES}{device}/{file}"));
            text.is_some_and(|text| text.starts_with(start))
        };
        says("vendor", "0x10de") && says("class", "0x03")
    };
    let others: Vec<String> = files
        .keys()
        .filter(|path| {
            let device = path
                .strip_prefix(DEVICES)
                .and_then(|rest| rest.split('/').next());
            device.is_some_and(|device| !is_gpu(device))
        })
        .cloned()
        .collect();
    for path in others {
        files.remove(&path);
    }
}

/// The policy of this process; a program started by `numactl` inherits it.
fn memory_policy() -> Option<String> {
    let maps = fs::read_to_string("/proc/self/numa_maps").ok()?;
    let policy = maps.lines().next()?.split_whitespace().nth(1)?;
    Some(policy.to_owned())
}

fn environment(
    all: impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
) -> BTreeMap<String, String> {
    all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| {
            VARIABLES.contains(&name.as_str())
                || VARIABLE_PREFIXES
                    .iter()
                    .any(|prefix| name.starts_with(prefix))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_a_host_or_a_user_is_left_out() {
        let version = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  \
                       Release Build  (root@secret-node)\nGCC version:  gcc 13 (secret)\n";
        let command_line = "root=UUID=1 ip=10.0.0.1::::secret-node init_on_alloc=0 quiet\n";
        let status = "Name:\tsecret\nCpus_allowed_list:\t0-71\n";
        for (path, text) in [
            ("proc/driver/nvidia/version", version),
            ("proc/cmdline", command_line),
            ("proc/self/status", status),
        ] {
            let kept = kept(path, text).unwrap();
            assert!(
                !kept.contains("secret") && kept.len() > 10,
                "{path}: {kept}"
            );
        }
        assert_eq!(kept("etc/hostname", "secret"), None);
    }

    #[test]
    fn of_the_environment_only_allocators_are_kept() {
        let all = [
            ("HOME", "/home/secret"),
            ("MALLOC_CONF", "thp:always"),
            ("MIMALLOC_PURGE_DELAY", "0"),
            ("PYTORCH_ALLOC_CONF", "pinned_use_cuda_host_register:True"),
        ];
        let kept = environment(
            all.into_iter()
                .map(|(name, value)| (name.into(), value.into())),
        );
        assert_eq!(kept.len(), 3);
        assert!(!kept.contains_key("HOME"));
    }
}
