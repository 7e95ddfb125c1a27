//! One program, once.

use std::process::ExitCode;

use anyhow::{Context, Result};
use litmus::lab::Lab;
use litmus::litmus::Outcome;
use litmus::{check, field, hazards, tests};

/// Runs one program, named like its trial, and says what it saw: with the model's variables, a run to look into.
pub fn run(name: &str) -> Result<ExitCode> {
    let programs = tests::all()
        .into_iter()
        .map(|litmus| (litmus.id.to_owned(), Program::Sees(litmus.run)))
        .chain(hazards::all().into_iter().flat_map(|hazard| {
            [
                (
                    format!("{}::broken", hazard.id),
                    Program::Does(hazard.broken),
                ),
                (format!("{}::twin", hazard.id), Program::Does(hazard.twin)),
            ]
        }))
        .chain(field::all().into_iter().flat_map(|case| {
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
