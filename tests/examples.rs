//! Every listing as a program: on the model in every order, or on a GPU.
//!
//! One trial for each listing and property; a listing that this machine cannot run is ignored, with its reason, and
//! named again at the end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use proofs::checks::driver;
use proofs::checks::listing::{Listing, Verdict, REFUSED, SEEDS};
use xtask::build;
use xtask::examples::{self, Example};
use xtask::record::Driver;

/// How often a broken listing must go wrong: "sometimes" would teach that it may work.
const RUNS: usize = 1000;

/// A property of a listing.
#[derive(Clone, Copy)]
enum Property {
    Recorded,
    RightInEveryOrder,
    WrongEveryTime,
    LooksRightWhenEager,
    RefusedWhenEager,
    HoldsOnTheGpu,
}

impl Property {
    fn of(example: &Example, driver: Driver) -> &'static [Property] {
        match (driver, &example.hazard) {
            (Driver::Gpu, _) => &[Property::HoldsOnTheGpu],
            (Driver::Model, None) => &[Property::Recorded, Property::RightInEveryOrder],
            (Driver::Model, Some(hazard)) if REFUSED.contains(&hazard.as_str()) => &[
                Property::Recorded,
                Property::WrongEveryTime,
                Property::RefusedWhenEager,
            ],
            (Driver::Model, Some(_)) => &[
                Property::Recorded,
                Property::WrongEveryTime,
                Property::LooksRightWhenEager,
            ],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Property::Recorded => "is_recorded",
            Property::RightInEveryOrder => "is_right_in_every_order",
            Property::WrongEveryTime => "is_wrong_every_time",
            Property::LooksRightWhenEager => "looks_right_when_eager",
            Property::RefusedWhenEager => "is_refused_when_eager",
            Property::HoldsOnTheGpu => "holds_on_the_gpu",
        }
    }

    fn check(self, listing: &Listing) -> Result<Verdict> {
        match self {
            Property::Recorded => listing.is_recorded(),
            Property::RightInEveryOrder => listing.is_right_in_every_order(),
            Property::WrongEveryTime => listing.is_wrong_every_time(RUNS),
            Property::LooksRightWhenEager => listing.looks_right_when_eager(),
            Property::RefusedWhenEager => listing.is_refused_when_eager(),
            Property::HoldsOnTheGpu => listing.holds_on_the_gpu(),
        }
    }
}

/// What came out, by listing; the worst of its properties counts.
#[derive(Default)]
struct Summary(BTreeMap<String, Outcome>);

struct Outcome {
    broken: bool,
    failed: bool,
    waived: Option<String>,
}

impl Summary {
    fn add(&mut self, example: &Example, verdict: &Result<Verdict>) {
        let outcome = self.0.entry(example.slug.clone()).or_insert(Outcome {
            broken: example.hazard.is_some(),
            failed: false,
            waived: None,
        });
        match verdict {
            Ok(Verdict::Proved) => {}
            Ok(Verdict::Waived(reason)) => outcome.waived = Some(reason.clone()),
            Err(_) => outcome.failed = true,
        }
    }

    fn print(&self, driver: Driver, name: &str) {
        let (right, broken) = match driver {
            Driver::Model => (
                format!(
                    "the same output and no hazard under last, eager, fifo and {} random schedules",
                    SEEDS.len()
                ),
                format!(
                    "wrong, with the declared hazard, in {RUNS} of {RUNS} runs; under eager only if the driver refuses a call"
                ),
            ),
            Driver::Gpu => ("the recorded output".to_owned(), "a wrong value".to_owned()),
        };
        let count =
            |which: &dyn Fn(&Outcome) -> bool| self.0.values().filter(|it| which(it)).count();
        let fine = |it: &Outcome| !it.failed && it.waived.is_none();
        println!("listings on {name}: {}", self.0.len());
        println!("{:4} right   {right}", count(&|it| fine(it) && !it.broken));
        println!("{:4} broken  {broken}", count(&|it| fine(it) && it.broken));
        println!("{:4} failed", count(&|it| it.failed));
        println!(
            "{:4} waived",
            count(&|it| !it.failed && it.waived.is_some())
        );
        for (slug, outcome) in &self.0 {
            if let (false, Some(reason)) = (outcome.failed, &outcome.waived) {
                println!("             {slug}: {reason}");
            }
        }
        println!();
    }
}

fn main() -> ExitCode {
    match run(&Arguments::from_args()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let root = Arc::new(proofs::root());
    let (driver, name) = driver::chosen()?;
    let built = build::examples(&root)?;
    let summary = Arc::new(Mutex::new(Summary::default()));
    let mut trials = Vec::new();
    for example in examples::all(&root)? {
        let program = built
            .programs
            .get(&example.slug)
            .with_context(|| format!("cargo built no example named {}", example.slug))?;
        for &property in Property::of(&example, driver) {
            trials.push(trial(&root, &example, program.clone(), property, &summary));
        }
    }
    let conclusion = libtest_mimic::run(arguments, trials);
    let summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
    // With a filter it may be that no listing was asked for.
    if !summary.0.is_empty() {
        summary.print(driver, &name);
    }
    Ok(conclusion.exit_code())
}

fn trial(
    root: &Arc<PathBuf>,
    example: &Example,
    program: PathBuf,
    property: Property,
    summary: &Arc<Mutex<Summary>>,
) -> Trial {
    let (root, example, summary) = (root.clone(), example.clone(), summary.clone());
    let name = format!("{}::{}", example.slug, property.name());
    Trial::ignorable_test(name, move || {
        let listing = Listing {
            root: &root,
            example: &example,
            program: &program,
        };
        let verdict = property.check(&listing);
        summary
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(&example, &verdict);
        match verdict {
            Ok(Verdict::Proved) => Ok(Completion::Completed),
            Ok(Verdict::Waived(reason)) => Ok(Completion::ignored_with(reason)),
            Err(error) => Err(Failed::from(format!("{error:#}"))),
        }
    })
}
