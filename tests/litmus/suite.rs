//! The litmus suite, on whichever driver is there.
//!
//! On the model: every schedule, every hazard, every field case, and the page of the book.
//! On a GPU: outcomes, and the field cases behind gates.
//! `LITMUS_TABLE=path cargo test -p litmus` writes the page, and `LITMUS_PROGRAM=L01` runs that program once.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use lab::Driver;
use libtest_mimic::{Arguments, Failed, Trial};
use litmus::check::{self, Explored};
use litmus::gpu::Observed;
use litmus::lab::Lab;
use litmus::litmus::{Litmus, Outcome};
use litmus::model::Model;
use litmus::{field, gpu, hazards, page, planted, tests};

/// No trial takes this long unless the driver hangs.
const HANGS_AFTER: Duration = Duration::from_secs(300);
/// The suite must tell a naive fake from the model on at least so many tests.
const TOLD_APART: usize = 10;

fn main() -> ExitCode {
    match suite() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("litmus: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn suite() -> Result<ExitCode> {
    if let Ok(name) = env::var(check::ALONE) {
        return run_alone(&name);
    }
    let mut arguments = Arguments::from_args();
    // There is one driver in the process, with one schedule at a time.
    arguments.test_threads = Some(1);
    lab::announce()?;
    let driver = lab::driver()?;
    let watch = Watch::start();
    match driver {
        Driver::Model { .. } => on_the_model(&arguments, &watch),
        Driver::Nvidia { .. } => on_a_gpu(&arguments, &watch),
    }
}

/// Runs one program, named like its trial, and says what it saw: with the model's variables, a run to look into.
fn run_alone(name: &str) -> Result<ExitCode> {
    let programs = tests::all()
        .into_iter()
        .map(|litmus| (litmus.id.to_owned(), Program::Sees(litmus.run)))
        .chain(hazards::ALL.iter().flat_map(|hazard| {
            [
                (
                    format!("{}::broken", hazard.id),
                    Program::Does(hazard.broken),
                ),
                (format!("{}::twin", hazard.id), Program::Does(hazard.twin)),
            ]
        }))
        .chain(field::ALL.iter().flat_map(|case| {
            [
                (format!("{}::broken", case.id), Program::Sees(case.broken)),
                (format!("{}::repaired", case.id), Program::Sees(case.fixed)),
            ]
        }));
    let (_, program) = programs
        .into_iter()
        .find(|(known, _)| known == name)
        .with_context(|| {
            format!("there is no program {name}; L01, H01::twin and F01::broken are some")
        })?;
    let mut lab = Lab::new(check::BYTES, false);
    let saw = match program {
        Program::Sees(run) => run(&mut lab),
        Program::Does(run) => {
            run(&mut lab);
            "nothing".into()
        }
    };
    lab.end();
    println!("{name} saw {saw}");
    Ok(ExitCode::SUCCESS)
}

enum Program {
    Sees(fn(&mut Lab) -> Outcome),
    Does(fn(&mut Lab)),
}

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
const PROPERTIES: [Property; 4] = [
    ("last", |model, litmus, _| check::last(model, litmus)),
    ("eager", |model, litmus, _| check::eager(model, litmus)),
    ("permitted", |model, litmus, memory| {
        check::permitted(litmus, &memory.explored(model, litmus)?)
    }),
    ("random", |model, litmus, memory| {
        check::random(model, litmus, &memory.explored(model, litmus)?)
    }),
];

fn on_the_model(arguments: &Arguments, watch: &Watch) -> Result<ExitCode> {
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
    for hazard in hazards::ALL {
        trial(
            format!("{}::broken", hazard.id),
            Box::new(move || check::has_hazard(model, hazard)),
        );
        trial(
            format!("{}::twin", hazard.id),
            Box::new(move || check::has_none(model, hazard)),
        );
    }
    for case in field::ALL {
        trial(
            format!("{}::broken", case.id),
            Box::new(move || check::goes_wrong(model, case)),
        );
        trial(
            format!("{}::repaired", case.id),
            Box::new(move || check::goes_right(model, case)),
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

fn on_a_gpu(arguments: &Arguments, watch: &Watch) -> Result<ExitCode> {
    ensure!(
        env::var_os("LITMUS_TABLE").is_none(),
        "the page is written from the model: C2C_DRIVER=model"
    );
    gpu::hold_context()?;
    let all = tests::all();
    let seen: Arc<Mutex<BTreeMap<&str, Observed>>> = Arc::default();
    let mut trials = Vec::new();
    for litmus in all.clone() {
        let seen = Arc::clone(&seen);
        trials.push(watch.trial(
            litmus.id.into(),
            Box::new(move || {
                let observed = gpu::observe(&litmus)?;
                seen.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(litmus.id, observed);
                Ok(())
            }),
        ));
    }
    for case in field::ALL {
        trials.push(watch.trial(case.id.into(), Box::new(move || gpu::field_case(case))));
    }
    let conclusion = libtest_mimic::run(arguments, trials);
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    for litmus in &all {
        let Some(observed) = seen.get(litmus.id) else {
            continue;
        };
        let outcomes: Vec<&str> = observed.outcomes.iter().map(String::as_str).collect();
        println!("{}", page::line(litmus, &outcomes.join(", ")));
        for (note, times) in &observed.notes {
            println!("     {times} × {note}");
        }
    }
    println!(
        "waived: {} hazards, which only the model reports",
        hazards::ALL.len()
    );
    Ok(conclusion.exit_code())
}

/// Ends the process when a trial hangs: then the driver hangs, and no thread of ours can go on.
#[derive(Clone, Default)]
struct Watch(Arc<Mutex<Option<(String, Instant)>>>);

impl Watch {
    fn start() -> Watch {
        let watch = Watch::default();
        let watched = watch.clone();
        thread::spawn(move || loop {
            thread::sleep(Duration::from_secs(1));
            let running = watched.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((name, since)) = &*running {
                if since.elapsed() > HANGS_AFTER {
                    eprintln!("litmus: {name} hangs");
                    std::process::exit(124);
                }
            }
        });
        watch
    }

    fn trial(&self, name: String, check: Box<dyn FnOnce() -> Result<()> + Send>) -> Trial {
        let watch = self.clone();
        let started = name.clone();
        Trial::test(name, move || {
            watch.set(Some((started, Instant::now())));
            let result = check();
            watch.set(None);
            result.map_err(|error| Failed::from(format!("{error:#}")))
        })
    }

    fn set(&self, running: Option<(String, Instant)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = running;
    }
}
