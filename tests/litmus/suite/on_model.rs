//! The model: every schedule, every hazard, every field case, the page, and the faults that must be found.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{ensure, Context, Result};
use libtest_mimic::Arguments;
use litmus::check::{self, Explored};
use litmus::litmus::Litmus;
use litmus::model::Model;
use litmus::{field, gpu, hazards, page, planted, tests};

use crate::watch::Watch;

/// The suite must tell a naive fake from the model on at least so many tests.
const TOLD_APART: usize = 10;

/// What was explored, by test: each test is explored once.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<BTreeMap<&'static str, Explored>>>);

impl Memory {
    fn explored(&self, model: Model, litmus: &Litmus) -> Result<Explored> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(explored) = known.get(litmus.id) {
            return Ok(explored.clone());
        }
        let explored = check::explored(model, litmus).context(litmus.id)?;
        known.insert(litmus.id, explored.clone());
        Ok(explored)
    }

    fn page(&self, model: Model, all: &[Litmus]) -> Result<String> {
        for litmus in all {
            self.explored(model, litmus)?;
        }
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(page::render(all, &known))
    }

    fn print(&self, all: &[Litmus]) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for litmus in all {
            if let Some(explored) = known.get(litmus.id) {
                let outcomes: Vec<String> = explored.all().into_iter().collect();
                println!("{}", page::line(litmus, &outcomes.join(", ")));
            }
        }
    }
}

type Property = (&'static str, fn(Model, &Litmus, &Memory) -> Result<()>);

/// What must hold of each litmus test.
const PROPERTIES: [Property; 5] = [
    ("last", |model, litmus, _| check::last(model, litmus)),
    ("eager", |model, litmus, _| check::eager(model, litmus)),
    ("permitted", |model, litmus, memory| {
        check::permitted(litmus, &memory.explored(model, litmus)?)
    }),
    ("random", |model, litmus, memory| {
        check::random(model, litmus, &memory.explored(model, litmus)?)
    }),
    ("replays", |model, litmus, _| check::replays(model, litmus)),
];

/// Runs the suite, or writes the page.
pub fn run(arguments: &Arguments, watch: &Watch) -> Result<ExitCode> {
    let model = Model::find()?;
    let all = tests::all();
    let memory = Memory::default();
    if let Some(path) = env::var_os("LITMUS_TABLE") {
        page::write(Path::new(&path), &memory.page(model, &all)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut trials = Vec::new();
    let mut trial = |name: String, check: Box<dyn FnOnce() -> Result<()> + Send>| {
        trials.push(watch.trial(name, check));
    };
    for litmus in all.clone() {
        for (name, property) in PROPERTIES {
            let (litmus, memory) = (litmus.clone(), memory.clone());
            trial(
                format!("{}::{name}", litmus.id),
                Box::new(move || property(model, &litmus, &memory)),
            );
        }
    }
    for hazard in hazards::all() {
        trial(
            format!("{}::broken", hazard.id),
            Box::new(move || check::has_hazard(model, &hazard)),
        );
        trial(
            format!("{}::twin", hazard.id),
            Box::new(move || check::has_none(model, &hazard)),
        );
    }
    for case in field::all() {
        trial(
            format!("{}::broken", case.id),
            Box::new(move || check::goes_wrong(model, &case)),
        );
        trial(
            format!("{}::repaired", case.id),
            Box::new(move || check::goes_right(model, &case)),
        );
    }
    for fault in planted::ALL {
        trial(
            format!("planted::{}", fault.0),
            Box::new(move || planted::is_found(model, fault)),
        );
    }
    {
        let all = all.clone();
        trial(
            "suite::tells_eager_from_last".into(),
            Box::new(move || tells_eager_from_last(model, &all)),
        );
        let (all, memory) = (tests::all(), memory.clone());
        trial(
            "suite::the_page_is_current".into(),
            Box::new(move || page::is_current(&litmus::root(), &memory.page(model, &all)?)),
        );
    }
    let conclusion = libtest_mimic::run(arguments, trials);
    memory.print(&all);
    println!(
        "waived: the GPU half, {} tests of {} runs without a gate and one with it, for {} sizes: the model served this run",
        all.len(),
        gpu::RUNS,
        gpu::SIZES.len()
    );
    Ok(conclusion.exit_code())
}

fn tells_eager_from_last(model: Model, all: &[Litmus]) -> Result<()> {
    let differing = check::eager_differs(model, all)?;
    println!();
    for (litmus, last, eager) in &differing {
        println!("{:4} last \"{last}\", eager \"{eager}\"", litmus.id);
    }
    ensure!(
        differing.len() >= TOLD_APART,
        "eager differs from last in {} tests; at least {TOLD_APART} must tell them apart",
        differing.len()
    );
    Ok(())
}
