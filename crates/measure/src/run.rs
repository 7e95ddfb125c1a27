//! A whole run: the ceilings, every case of the plan, and the record of them.

use std::path::Path;

use anyhow::{ensure, Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::{Timestamp, Unit};

use crate::ceiling;
use crate::device::Gpu;
use crate::format::{bytes, seconds};
use crate::kind::{Direction, Kind};
use crate::machine::Machine;
use crate::pass::{self, Bench, Outcome};
use crate::plan::{self, Case, Scope};
use crate::record::{Counts, Method, Record, Status, Testcase, FORMAT, VERSION};
use crate::verdict;

/// Work is counted in bytes that memcpy would copy in the same time. These are estimates for the
/// progress bar and nothing else.
const FAULTS_COST: f64 = 5.0;
const PATTERN_COST: f64 = 2.0;
/// memcpy is taken for this fast before it has been measured, in bytes per second.
const GUESSED_RATE: f64 = 5e9;

/// Prepares a run on this machine with buffers of up to `largest` bytes.
///
/// # Errors
/// When `largest` bytes, or the smallest buffer, do not fit into memory.
pub fn open(largest: Option<u64>) -> Result<Run> {
    let mut machine = Machine::read(Path::new("/"));
    let largest = largest_buffer(&machine, largest)?;
    let gpu = match Gpu::open() {
        Ok(gpu) => {
            machine.device = Some(gpu.about.clone());
            Some(gpu)
        }
        Err(error) => {
            machine.no_device_because = Some(format!("{error:#}"));
            None
        }
    };
    Ok(Run {
        machine,
        largest,
        gpu,
    })
}

/// A run that can begin.
pub struct Run {
    /// Where it will be.
    pub machine: Machine,
    largest: u64,
    gpu: Option<Gpu>,
}

impl Run {
    /// Measures everything; `interrupted` is asked before each pass whether to end.
    ///
    /// # Errors
    /// When not even the ceilings of the host can be measured.
    pub fn measure(self, interrupted: &dyn Fn() -> bool) -> Result<Record> {
        let began = Timestamp::now()
            .round(Unit::Second)
            .context("reading the clock")?;
        let scope = self.scope();
        let host = plan::host_cases(&scope);
        let device = plan::device_cases(&scope, &self.device_sizes());
        let measured = match &self.gpu {
            Some(_) => device.as_slice(),
            None => &[],
        };
        let work: f64 = host.iter().chain(measured).map(cost).sum();
        let bar = progress_bar(work, scope.threads);

        bar.set_message("ceilings");
        let mut ceilings = ceiling::host(self.largest, scope.threads, || {
            bar.inc(plan::EVERY_KIND_UP_TO);
        })?;
        let rate = ceilings
            .first()
            .and_then(|memcpy| memcpy.sum)
            .map(|rate| rate * 1e9);
        say_estimate(
            &bar,
            host.len() + measured.len(),
            work,
            rate.unwrap_or(GUESSED_RATE),
        );
        bar.set_message("the link's ceilings");
        ceilings.extend(match &self.gpu {
            Some(gpu) => ceiling::link(gpu, self.largest),
            None => ceiling::no_link(self.why_no_device()),
        });

        let mut testcases = self.cases(&host, None, &bar, interrupted);
        match &self.gpu {
            Some(gpu) => testcases.extend(self.cases(&device, Some(gpu), &bar, interrupted)),
            None => testcases.extend(self.waived(&device)),
        }
        bar.finish_and_clear();
        Ok(self.record(began, ceilings, testcases, interrupted()))
    }

    fn scope(&self) -> Scope {
        Scope {
            largest: self.largest,
            threads: self.machine.threads,
            nodes: self.machine.nodes.iter().map(|node| node.id).collect(),
            huge_page_bytes: self.machine.huge_page_bytes.unwrap_or(2 << 20),
        }
    }

    fn device_sizes(&self) -> Vec<u64> {
        let sizes = match &self.gpu {
            Some(gpu) if gpu.about.simulated => plan::ON_THE_MODEL.to_vec(),
            _ => plan::sizes(self.largest),
        };
        sizes
            .into_iter()
            .filter(|&size| size <= self.largest)
            .collect()
    }

    fn why_no_device(&self) -> &str {
        self.machine
            .no_device_because
            .as_deref()
            .unwrap_or("there is no device")
    }

    fn cases(
        &self,
        cases: &[Case],
        gpu: Option<&Gpu>,
        bar: &ProgressBar,
        interrupted: &dyn Fn() -> bool,
    ) -> Vec<Testcase> {
        let mut testcases = Vec::new();
        for case in cases {
            if interrupted() {
                break;
            }
            bar.set_message(format!("{} {}", case.name(), bytes(case.bytes)));
            let start = bar.position();
            let work = cost(case);
            let bench = Bench {
                gpu,
                nodes: &self.machine.nodes,
                interrupted,
                progress: &|share| bar.set_position(start + (share.min(1.0) * work) as u64),
            };
            let outcome = bench.measure(case);
            bar.set_position(start + work as u64);
            let simulated = gpu.is_some_and(|gpu| gpu.about.simulated);
            testcases.extend(testcase(case, simulated, outcome));
        }
        testcases
    }

    /// Each kind once, with its smallest size: the reason is the same for all sizes.
    fn waived(&self, cases: &[Case]) -> Vec<Testcase> {
        let smallest = cases.iter().map(|case| case.bytes).min();
        let cases = cases.iter().filter(|case| Some(case.bytes) == smallest);
        let waived = |case| {
            let reason = self.why_no_device().to_owned();
            testcase(case, false, Outcome::Waived(reason))
        };
        cases.filter_map(waived).collect()
    }

    fn record(
        self,
        began: Timestamp,
        ceilings: Vec<crate::record::Ceiling>,
        testcases: Vec<Testcase>,
        interrupted: bool,
    ) -> Record {
        let mut record = Record {
            format: FORMAT.to_owned(),
            format_version: VERSION,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            date: began.to_string(),
            interrupted,
            machine: self.machine,
            method: method(self.largest),
            counts: Counts::default(),
            verdict: Vec::new(),
            ceilings,
            testcases,
        };
        record.counts = Record::count(&record.testcases);
        record.verdict = verdict::verdict(&record);
        record
    }
}

fn method(largest_bytes: u64) -> Method {
    Method {
        clock: "CLOCK_MONOTONIC of the host, read around each phase and around the whole pass; the link's ceilings: CUDA events".to_owned(),
        passes: format!(
            "one untimed pass, then {} to {} timed ones, no more once they have taken {} together; a total is the median, phases are those of the pass in the middle; a pass handles as many buffers as make 1 MiB, and a figure is that of one buffer",
            pass::FEWEST,
            pass::MOST,
            seconds(pass::ENOUGH.as_nanos() as f64),
        ),
        verification: "each pass moves words that depend on their place and on the pass, and every word is compared afterwards, outside of the time".to_owned(),
        counters: "page faults: getrusage of this process, read around each phase; vmstat: the whole machine, over all timed passes of a case; nodes: move_pages on at most 1024 pages, evenly spread".to_owned(),
        largest_bytes,
    }
}

/// What was asked for, or the most that is sensible: 2 GiB or a quarter of memory, rounded down to
/// a power of two.
fn largest_buffer(machine: &Machine, asked: Option<u64>) -> Result<u64> {
    let usable = machine.usable_bytes();
    let Some(asked) = asked else {
        let quarter = usable.map_or(plan::LARGEST, |usable| usable / 4);
        ensure!(
            quarter >= plan::SMALLEST,
            "there is too little memory to measure anything"
        );
        return Ok((1 << quarter.ilog2()).min(plan::LARGEST));
    };
    ensure!(
        asked >= plan::SMALLEST && asked.is_multiple_of(plan::SMALLEST),
        "the largest buffer must be a multiple of {}, not {asked} bytes",
        bytes(plan::SMALLEST)
    );
    if let Some(usable) = usable {
        ensure!(
            asked <= usable / 3,
            "a buffer of {} needs a source and room to spare, and only {} of memory are available; ask for at most {}",
            bytes(asked),
            bytes(usable),
            bytes(1 << (usable / 3).max(1).ilog2())
        );
    }
    Ok(asked)
}

fn cost(case: &Case) -> f64 {
    let recipe = case.kind.recipe();
    let faults = if recipe.reused { 0.0 } else { FAULTS_COST };
    let bytes = case.bytes_of_pass() as f64;
    let pass = bytes * (1.0 + faults);
    let enough = pass::ENOUGH.as_secs_f64() * GUESSED_RATE;
    let passes = (enough / pass).clamp(pass::FEWEST as f64, pass::MOST as f64) + 1.0;
    passes * (pass + PATTERN_COST * bytes)
}

fn progress_bar(work: f64, threads: usize) -> ProgressBar {
    let ceilings = ceiling::host_count(threads) as u64 * plan::EVERY_KIND_UP_TO;
    let bar = ProgressBar::with_draw_target(
        Some(work as u64 + ceilings),
        ProgressDrawTarget::stderr_with_hz(4),
    );
    // The template is ours and has no error in it; without it the bar looks plainer.
    if let Ok(style) =
        ProgressStyle::with_template("{bar:32} {percent:>3} %, {eta} left  {wide_msg}")
    {
        bar.set_style(style);
    }
    bar
}

/// On a terminal the bar says how long it will take; elsewhere one line does.
fn say_estimate(bar: &ProgressBar, cases: usize, work: f64, rate: f64) {
    if bar.is_hidden() {
        eprintln!("c2c: {cases} cases, about {:.0} s", (work / rate).max(1.0));
    }
}

/// What the record says of a case; nothing of one that was interrupted before it had figures.
fn testcase(case: &Case, simulated: bool, outcome: Outcome) -> Option<Testcase> {
    let (status, reason, figures, samples) = match outcome {
        Outcome::Passed(figures, samples) => (Status::Passed, None, Some(*figures), samples),
        Outcome::Waived(reason) => (Status::Waived, Some(reason), None, 0),
        Outcome::Failed(reason) => (Status::Failed, Some(reason), None, 0),
        Outcome::NotBegun => return None,
    };
    let counted = match case.direction {
        Direction::BothWays => "bytes of both buffers over the total time (GB/s)",
        _ => "bytes of a buffer over the total time (GB/s)",
    };
    Some(Testcase {
        name: case.name(),
        status,
        reason,
        bandwidth_description: counted.to_owned(),
        simulated,
        direction: case.direction,
        kind: case.kind.word().to_owned(),
        allocator: match case.kind {
            Kind::FreshPageable(allocator) => Some(allocator),
            _ => None,
        },
        threads: match case.kind {
            Kind::Prefaulted(threads) => Some(threads),
            _ => None,
        },
        node: match case.kind {
            Kind::BoundToNode(node) => Some(node),
            _ => None,
        },
        streams: case.streams,
        buffer_bytes: case.bytes,
        buffers_per_pass: case.buffers(),
        test_samples: samples,
        use_mean: false,
        figures,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(available: u64) -> Machine {
        Machine {
            available_bytes: Some(available),
            ..Machine::default()
        }
    }

    #[test]
    fn the_largest_buffer_is_a_quarter_of_memory_or_two_gib() {
        let largest = |available| largest_buffer(&machine(available), None).unwrap();
        assert_eq!(largest(64 << 30), 2 << 30);
        assert_eq!(largest(3 << 30), 512 << 20);
        assert_eq!(largest_buffer(&Machine::default(), None).unwrap(), 2 << 30);
        assert!(largest_buffer(&machine(8192), None).is_err());
    }

    #[test]
    fn a_size_that_memory_does_not_hold_is_refused() {
        let ask = |bytes| largest_buffer(&machine(1 << 30), Some(bytes));
        assert_eq!(ask(64 << 20).unwrap(), 64 << 20);
        for bytes in [0, 1, 4095, 4097, 1 << 30, u64::MAX / 4096 * 4096] {
            assert!(ask(bytes).is_err(), "{bytes}");
        }
    }
}
