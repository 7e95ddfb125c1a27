//! The book's gallery: one page made from the records that people have contributed.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::format::bytes;
use crate::record::Record;
use crate::svg;
use crate::table;

/// The page, below the root of the repository.
const PAGE: &str = "src/measure/results.md";
/// The folder of the records.
const RECORDS: &str = "results";

/// A machine is called quiet below this load average, as a share of its threads.
const QUIET: f64 = 0.5;

const HEAD: &str = "\
<!-- Generated: MEASURE_GALLERY=write cargo test -p measure --test gallery -->
# Results, each with its machine {#measured-results}

> **Rule.** Compare your figures with those of a machine like yours, and not with the best on this page.

Each section is one file of `results/`, as `c2c measure --json` wrote it; the page is generated from them.
[How to measure](how-to-measure.md) says what the phases are, [how to read a bandwidth](how-to-read-a-bandwidth.md) what to compare.
Figures marked *simulated* went over the link of the [driver model](../reference/glossary.md#driver-model), which is not real.
No machine with C2C and no GPU is among them yet.

";

const CONTRIBUTE: &str = "\
## Add yours {#contribute-a-result}

1. On a quiet machine: `cargo run --release -- measure --json results/<machine>-<year>-<month>.json`.
   The name is words and numbers, not your host's.
2. Read the file. It holds the processor, the kernel, settings of memory, the device and the figures; no host name, no user name, no address.
3. `MEASURE_GALLERY=write cargo test -p measure --test gallery` writes this page and its plots anew.
4. `ADD_ADDRESSES=1 cargo test -p proofs --test pages addresses` locks the address of your section.
5. Send the four as one change, and say what else ran on the machine.

A figure is not corrected by hand.
A record that turns out to be wrong is taken away, and the change says why.

";

/// A file of the gallery: its path below the root of the repository, and its content.
#[derive(Debug)]
pub struct File {
    /// The path below the root.
    pub path: String,
    /// The whole content.
    pub content: String,
}

/// The page and the plots for the records of the repository at `root`.
///
/// # Errors
/// When a record cannot be read or drawn.
pub fn files(root: &Path) -> Result<Vec<File>> {
    let folder = root.join(RECORDS);
    let entries = fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "json")
    });
    paths.sort();

    let mut page = String::from(HEAD);
    let mut notes = String::from("## Sources {#measured-results-sources}\n\n");
    let mut files = Vec::new();
    for path in paths {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let record = Record::read(&path)?;
        section(&mut page, &stem, &record, &mut files)?;
        let _ = writeln!(
            notes,
            "[^{stem}]: Our measurement, `{RECORDS}/{stem}.json`, {}: {}. Method: [how to measure](how-to-measure.md).",
            day(&record),
            table::machine(&record)
        );
    }
    page.push_str(CONTRIBUTE);
    page.push_str(&notes);
    files.push(File {
        path: PAGE.to_owned(),
        content: page,
    });
    Ok(files)
}

fn day(record: &Record) -> &str {
    record.date.split('T').next().unwrap_or_default()
}

fn section(page: &mut String, stem: &str, record: &Record, files: &mut Vec<File>) -> Result<()> {
    let title = stem.replace(['-', '_'], " ");
    let _ = writeln!(page, "## {title} {{#result-{stem}}}\n");
    page.push_str(&provenance(record));
    for sentence in &record.verdict {
        let _ = writeln!(page, "- {sentence}[^{stem}]");
    }
    page.push('\n');
    for plot in svg::plots(record)? {
        let name = format!("{stem}-{}", plot.file);
        let _ = writeln!(page, "![{}]({name})[^{stem}]\n", plot.description);
        files.push(File {
            path: format!("src/measure/{name}"),
            content: plot.svg,
        });
    }
    let _ = writeln!(
        page,
        "<details>\n<summary>Everything as the terminal showed it</summary>\n\n```text\n{}\n```\n\n</details>\n",
        table::tables(record).trim_end()
    );
    Ok(())
}

fn provenance(record: &Record) -> String {
    let machine = &record.machine;
    let unknown = "unknown";
    let word = |value: &Option<String>| value.clone().unwrap_or_else(|| unknown.to_owned());
    let number = |value: Option<u64>| value.map_or_else(|| unknown.to_owned(), |it| it.to_string());
    let size = |value: Option<u64>| value.map_or_else(|| unknown.to_owned(), bytes);
    let device = match &machine.device {
        Some(device) => format!("{}, {}", device.name, device.driver),
        None => "none".to_owned(),
    };
    let load = machine.load_average.map_or_else(
        || unknown.to_owned(),
        |load| {
            let quiet = f64::from(load[0]) < QUIET * machine.threads as f64;
            let text = load.map(|load| format!("{load:.2}")).join(", ");
            text + if quiet { "" } else { ": not a quiet machine" }
        },
    );
    let rows = [
        ("Processor", word(&machine.cpu)),
        (
            "Virtual machine",
            match machine.virtual_machine {
                Some(true) => "yes".to_owned(),
                Some(false) => "no".to_owned(),
                None => unknown.to_owned(),
            },
        ),
        ("Threads", machine.threads.to_string()),
        (
            "Memory, available at the start",
            format!(
                "{}, {}",
                size(machine.memory_bytes),
                size(machine.available_bytes)
            ),
        ),
        ("NUMA nodes with memory", machine.nodes.len().to_string()),
        (
            "Kernel, base page",
            format!("{}, {}", word(&machine.kernel), bytes(machine.page_bytes)),
        ),
        (
            "Transparent huge pages, defrag",
            format!("{}, {}", word(&machine.thp), word(&machine.thp_defrag)),
        ),
        (
            "compaction_proactiveness, numa_balancing",
            format!(
                "{}, {}",
                number(machine.compaction_proactiveness),
                number(machine.numa_balancing)
            ),
        ),
        ("Device", device),
        ("Load average of 1, 5, 15 minutes", load),
        ("Date", record.date.clone()),
        (
            "c2c, format",
            format!("{}, {}", record.tool_version, record.format_version),
        ),
        (
            "Cases",
            format!(
                "{} passed, {} of them simulated; {} waived; {} failed",
                record.counts.passed,
                record.counts.simulated,
                record.counts.waived,
                record.counts.failed
            ),
        ),
    ];
    let mut text = String::from("| Where and when | |\n|---|---|\n");
    for (what, value) in rows {
        let _ = writeln!(text, "| {what} | {value} |");
    }
    text.push('\n');
    text
}
