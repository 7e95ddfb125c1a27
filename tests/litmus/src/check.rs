//! What must hold on the model.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::process::Command;
use std::{env, fs};

use anyhow::{bail, ensure, Context, Result};

use crate::field::Case;
use crate::hazards::Hazard;
use crate::lab::Lab;
use crate::litmus::{Litmus, Outcome, ANY_REPORT};
use crate::model::{Model, Report, Settings};

/// The size of buffers on the model: a page, because only orders matter there.
pub const BYTES: usize = 4 << 10;
/// How often `last` must show the marked outcome.
pub const RUNS: usize = 1000;
/// Seeds of the schedule `random` that must stay inside the explored set.
pub const SEEDS: u64 = 50;
/// Seeds that are run again.
const REPLAYED_SEEDS: u64 = 10;
/// Schedules of an exploration that are run again.
const REPLAYED_SCHEDULES: usize = 10;
/// A small program has far fewer schedules; more means that the exploration does not end.
const MOST_SCHEDULES: usize = 100_000;

/// What one run of a program came to.
pub struct Run {
    /// What the program saw.
    pub outcome: Outcome,
    /// What the model reported, sorted.
    pub reports: Vec<Report>,
    /// What the program noted.
    pub notes: Vec<String>,
}

impl Run {
    fn short_reports(&self) -> Vec<String> {
        let mut short: Vec<String> = self.reports.iter().map(Report::short).collect();
        short.sort();
        short
    }

    fn ids(&self) -> BTreeSet<&str> {
        self.reports.iter().map(|report| &*report.id).collect()
    }

    fn texts(&self) -> String {
        let texts: Vec<&str> = self.reports.iter().map(|report| &*report.text).collect();
        texts.join("\n")
    }
}

/// Runs a program once, however the model is set up now.
fn run_as_configured(model: Model, program: impl FnOnce(&mut Lab) -> Outcome) -> Result<Run> {
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let mut lab = Lab::new(BYTES, false);
        let outcome = program(&mut lab);
        (outcome, lab.end())
    }));
    let reports = model.take_reports()?;
    match ended {
        Ok((outcome, notes)) => Ok(Run {
            outcome,
            reports,
            notes,
        }),
        Err(panic) => bail!("the program panicked: {}", words(&*panic)),
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without words")
}

/// Runs a program once under these settings.
///
/// # Errors
/// When the model refuses the settings, or the program panics.
pub fn run(
    model: Model,
    settings: &Settings,
    program: impl FnOnce(&mut Lab) -> Outcome,
) -> Result<Run> {
    model.configure(settings)?;
    run_as_configured(model, program).with_context(|| format!("under {}", settings.schedule))
}

/// What came out over all schedules of a program.
#[derive(Clone, Debug)]
pub struct Explored {
    /// Pageable memory staged.
    pub staged: BTreeSet<Outcome>,
    /// Pageable memory copied directly.
    pub direct: BTreeSet<Outcome>,
}

impl Explored {
    /// Everything that came out.
    pub fn all(&self) -> BTreeSet<Outcome> {
        self.staged.union(&self.direct).cloned().collect()
    }
}

/// One run for each schedule that can make a difference.
fn explore(
    model: Model,
    settings: &Settings,
    program: fn(&mut Lab) -> Outcome,
) -> Result<Vec<Run>> {
    model.configure(settings)?;
    let mut runs = Vec::new();
    for _ in 0..MOST_SCHEDULES {
        runs.push(run_as_configured(model, program).context("under explore")?);
        if !model.explore_next() {
            return Ok(runs);
        }
    }
    bail!("{MOST_SCHEDULES} schedules and no end")
}

fn outcomes(runs: Vec<Run>) -> BTreeSet<Outcome> {
    runs.into_iter().map(|run| run.outcome).collect()
}

/// Runs a litmus test under all schedules.
///
/// # Errors
/// When the model refuses, the program panics, or the exploration does not end.
pub fn explored(model: Model, litmus: &Litmus) -> Result<Explored> {
    let settings = Settings::schedule("explore");
    Ok(Explored {
        staged: outcomes(explore(model, &settings, litmus.run)?),
        direct: outcomes(explore(model, &settings.direct(), litmus.run)?),
    })
}

fn same_reports(expected: &[&str], run: &Run) -> bool {
    let mut expected: Vec<&str> = expected.to_vec();
    expected.sort_unstable();
    expected == [ANY_REPORT] || run.short_reports() == expected
}

/// `last` shows the marked outcome every time, with the declared reports.
///
/// # Errors
/// When it does not.
pub fn last(model: Model, litmus: &Litmus) -> Result<()> {
    for _ in 0..RUNS {
        let run = run(model, &Settings::schedule("last"), litmus.run)?;
        ensure!(
            run.outcome == litmus.last,
            "last showed \"{}\", not \"{}\"\n{}",
            run.outcome,
            litmus.last,
            run.texts()
        );
        ensure!(
            same_reports(litmus.reports, &run),
            "last reported {:?}, not {:?}\n{}",
            run.short_reports(),
            litmus.reports,
            run.texts()
        );
    }
    let run = run(model, &Settings::schedule("last").direct(), litmus.run)?;
    ensure!(
        run.outcome == litmus.direct,
        "last with direct copies of pageable memory showed \"{}\", not \"{}\"",
        run.outcome,
        litmus.direct
    );
    Ok(())
}

/// `eager` shows what it is declared to show.
///
/// # Errors
/// When it does not.
pub fn eager(model: Model, litmus: &Litmus) -> Result<()> {
    let run = run(model, &Settings::schedule("eager"), litmus.run)?;
    ensure!(
        run.outcome == litmus.eager,
        "eager showed \"{}\", not \"{}\"",
        run.outcome,
        litmus.eager
    );
    Ok(())
}

/// The outcomes over all schedules are those that the documentation permits.
///
/// # Errors
/// When they are not.
pub fn permitted(litmus: &Litmus, explored: &Explored) -> Result<()> {
    let all = explored.all();
    for outcome in &all {
        ensure!(
            litmus.allows(outcome, false),
            "a schedule showed \"{outcome}\", which is not permitted: {:?}",
            litmus.allowed
        );
    }
    for marked in [litmus.last, litmus.direct] {
        ensure!(
            all.contains(marked),
            "no schedule showed \"{marked}\", only {all:?}"
        );
    }
    if litmus.complete {
        for outcome in litmus.allowed {
            ensure!(
                all.contains(*outcome),
                "\"{outcome}\" is permitted, but the schedules only showed {all:?}"
            );
        }
    }
    if litmus.reports.is_empty() {
        ensure!(
            explored.staged.len() == 1,
            "nothing is reported, but the schedules showed {:?}",
            explored.staged
        );
    }
    Ok(())
}

/// What random schedules show was found by the exploration.
///
/// # Errors
/// When it was not.
pub fn random(model: Model, litmus: &Litmus, explored: &Explored) -> Result<()> {
    for seed in 0..SEEDS {
        let settings = Settings::schedule(format!("random:{seed}"));
        let run = run(model, &settings, litmus.run)?;
        ensure!(
            explored.staged.contains(&run.outcome),
            "random:{seed} showed \"{}\", the exploration only {:?}",
            run.outcome,
            explored.staged
        );
    }
    Ok(())
}

/// The same settings give the same run, and so do the variables that a report gives to repeat it.
///
/// # Errors
/// When they do not.
pub fn replays(model: Model, litmus: &Litmus) -> Result<()> {
    let schedules = (0..REPLAYED_SEEDS)
        .map(|seed| format!("random:{seed}"))
        .chain(["last".to_owned()]);
    for settings in schedules.map(Settings::schedule) {
        let first = run(model, &settings, litmus.run)?;
        let again = run(model, &settings, litmus.run)?;
        same_run(&first, &again).with_context(|| format!("{} again", settings.schedule))?;
        replayed(model, litmus, &first)?;
    }
    let explored = explore(model, &Settings::schedule("explore"), litmus.run)?;
    let reported = explored.iter().filter(|run| !run.reports.is_empty());
    for run in reported.take(REPLAYED_SCHEDULES) {
        replayed(model, litmus, run)?;
    }
    Ok(())
}

/// The variables of the first report repeat the run, if there is a report.
fn replayed(model: Model, litmus: &Litmus, first: &Run) -> Result<()> {
    let Some(report) = first.reports.first() else {
        return Ok(());
    };
    model.configure_as_replayed(&report.replay)?;
    let again = run_as_configured(model, litmus.run)?;
    same_run(first, &again).with_context(|| format!("replaying {}", report.replay))
}

/// Two runs came to the same.
///
/// # Errors
/// When they did not.
pub fn same_run(first: &Run, second: &Run) -> Result<()> {
    ensure!(
        first.outcome == second.outcome && first.short_reports() == second.short_reports(),
        "\"{}\" with {:?}, then \"{}\" with {:?}",
        first.outcome,
        first.short_reports(),
        second.outcome,
        second.short_reports()
    );
    Ok(())
}

/// Schedules under which a right program must be right.
fn every_schedule() -> impl Iterator<Item = Settings> {
    ["last", "fifo", "eager"]
        .map(str::to_owned)
        .into_iter()
        .chain((0..10).map(|seed| format!("random:{seed}")))
        .map(Settings::schedule)
}

/// The broken program has exactly the hazard.
///
/// # Errors
/// When it has another one, or none.
pub fn has_hazard(model: Model, hazard: &Hazard) -> Result<()> {
    let found = if hazard.may_die {
        in_another_process(hazard)?
    } else {
        let settings = Settings::schedule("last").with(hazard.settings);
        run(model, &settings, silent(hazard.broken))?
    };
    ensure!(
        same_reports(&[hazard.report], &found),
        "reported {:?}, not {:?}\n{}",
        found.short_reports(),
        hazard.report,
        found.texts()
    );
    Ok(())
}

/// The twin has none.
///
/// # Errors
/// When it has one.
pub fn has_none(model: Model, hazard: &Hazard) -> Result<()> {
    for settings in every_schedule() {
        let run = run(model, &settings, silent(hazard.twin))?;
        ensure!(
            run.reports.is_empty(),
            "under {}: {:?}\n{}",
            settings.schedule,
            run.short_reports(),
            run.texts()
        );
    }
    Ok(())
}

fn silent(program: fn(&mut Lab)) -> impl FnOnce(&mut Lab) -> Outcome {
    move |lab| {
        program(lab);
        String::new()
    }
}

/// The variable that makes the suite run one program and nothing else.
pub const ALONE: &str = "LITMUS_PROGRAM";

/// Runs the broken program in a process of its own, which may end as it likes.
fn in_another_process(hazard: &Hazard) -> Result<Run> {
    let folder = tempfile::tempdir().context("making a temporary folder")?;
    let file = folder.path().join("reports");
    let this = env::current_exe().context("asking for the path of this program")?;
    let output = Command::new(this)
        .env(ALONE, format!("{}::broken", hazard.id))
        .env("CUMODEL_SCHEDULE", "last")
        .env("CUMODEL_REPORT", &file)
        .output()
        .context("running the program in another process")?;
    let lines = fs::read_to_string(&file).unwrap_or_default();
    let reports = lines
        .lines()
        .map(Report::parse)
        .collect::<Result<Vec<_>>>()?;
    Ok(Run {
        outcome: output.status.to_string(),
        reports,
        notes: Vec::new(),
    })
}

/// The broken form shows the wrong outcome and the hazards.
///
/// # Errors
/// When it does not.
pub fn goes_wrong(model: Model, case: &Case) -> Result<()> {
    let run = run(model, &Settings::schedule("last"), case.broken)?;
    ensure!(
        run.outcome == case.wrong,
        "showed \"{}\", not \"{}\"\n{}",
        run.outcome,
        case.wrong,
        run.texts()
    );
    let expected: BTreeSet<&str> = case.hazards.iter().copied().collect();
    ensure!(
        run.ids() == expected,
        "reported {:?}, not {expected:?}\n{}",
        run.short_reports(),
        run.texts()
    );
    Ok(())
}

/// The repaired form shows the right outcome, and no hazard, under every schedule.
///
/// # Errors
/// When it does not.
pub fn goes_right(model: Model, case: &Case) -> Result<()> {
    for settings in every_schedule().chain(every_schedule().map(Settings::direct)) {
        let run = run(model, &settings, case.fixed)?;
        ensure!(
            run.outcome == case.right && run.reports.is_empty(),
            "under {} with {:?} copies of pageable memory: \"{}\", not \"{}\", with {:?}\n{}",
            settings.schedule,
            settings.pageable,
            run.outcome,
            case.right,
            run.short_reports(),
            run.texts()
        );
    }
    Ok(())
}

/// Tests whose outcome under `eager` differs from that under `last`, with both outcomes.
///
/// # Errors
/// When a program panics.
pub fn eager_differs(model: Model, all: &[Litmus]) -> Result<Vec<(Litmus, Outcome, Outcome)>> {
    let mut differing = Vec::new();
    for litmus in all {
        let outcome = |schedule| {
            run(model, &Settings::schedule(schedule), litmus.run)
                .map(|run| run.outcome)
                .with_context(|| litmus.id)
        };
        let (last, eager) = (outcome("last")?, outcome("eager")?);
        if last != eager {
            differing.push((litmus.clone(), last, eager));
        }
    }
    Ok(differing)
}
