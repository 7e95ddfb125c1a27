//! The numbers of the figures, each with its machine and its source.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{ensure, Context, Result};
use serde::Deserialize;

/// Everything that a figure shows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    sources: BTreeMap<String, Source>,
    /// Copies on different machines.
    pub links: Vec<Copy>,
    /// The same copy, to memory in different places.
    pub placement: Vec<Copy>,
    /// What one page fault was measured to cost.
    pub faults: Vec<Fault>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    name: String,
    url: Option<String>,
    date: String,
    what: String,
}

/// A measured copy, in GB/s, from the lowest to the highest value that was reported.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Copy {
    /// `C2C` or `PCIe`.
    pub link: String,
    pub machine: String,
    pub to_cpu: [f64; 2],
    pub to_gpu: Option<[f64; 2]>,
    source: String,
}

/// A measured page fault, in nanoseconds, from the lowest to the highest value that was reported.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub machine: String,
    pub page_kib: u32,
    pub ns: [f64; 2],
    source: String,
}

impl Numbers {
    pub fn read(path: &Path) -> Result<Numbers> {
        let text = fs::read_to_string(path).context("reading the numbers of the figures")?;
        let numbers: Numbers =
            serde_json::from_str(&text).context("reading the numbers of the figures")?;
        let copies = numbers.links.iter().chain(&numbers.placement);
        let named = copies.map(|it| (&it.machine, &it.source));
        let named = named.chain(numbers.faults.iter().map(|it| (&it.machine, &it.source)));
        for (machine, source) in named {
            ensure!(
                numbers.sources.contains_key(source),
                "\"{machine}\" names the source \"{source}\", which is not among `sources`"
            );
        }
        Ok(numbers)
    }

    /// The numbers of a figure as a table of Markdown: what the figure shows, for whoever cannot see it.
    pub fn table(&self, copies: &[Copy]) -> String {
        let mut table = "| Machine | to the CPU, GB/s | to the GPU, GB/s | Source |\n\
                         |---|---|---|---|\n"
            .to_owned();
        for copy in copies {
            let Source {
                name,
                url,
                date,
                what,
            } = &self.sources[&copy.source];
            let name = match url {
                Some(url) => format!("[{name}]({url})"),
                None => name.clone(),
            };
            table += &format!(
                "| {} | {} | {} | {name}, {date}: {what} |\n",
                copy.machine,
                range(copy.to_cpu),
                copy.to_gpu.map_or("not given".to_owned(), range),
            );
        }
        table
    }
}

/// `52 to 55`, or `170` when only one value was reported.
pub fn range([low, high]: [f64; 2]) -> String {
    if low == high {
        low.to_string()
    } else {
        format!("{low} to {high}")
    }
}
