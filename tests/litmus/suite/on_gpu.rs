//! NVIDIA's driver: nothing but permitted outcomes, and the field cases behind gates.

use std::collections::BTreeMap;
use std::env;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{ensure, Result};
use libtest_mimic::Arguments;
use litmus::gpu::Observed;
use litmus::{field, gpu, hazards, model, page, tests};

use crate::watch::Watch;

/// Runs the suite.
pub fn run(arguments: &Arguments, watch: &Watch) -> Result<ExitCode> {
    ensure!(
        env::var_os("LITMUS_TABLE").is_none(),
        "the page is written from the model: C2C_DRIVER=model"
    );
    gpu::hold_context()?;
    let all = tests::all();
    let seen: Arc<Mutex<BTreeMap<&str, Observed>>> = Arc::default();
    let mut trials = vec![watch.trial(
        "suite::the_model_does_not_answer".into(),
        Box::new(|| {
            ensure!(!model::answers(), "cumodel_version resolves");
            Ok(())
        }),
    )];
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
    for case in field::all() {
        trials.push(watch.trial(case.id.into(), Box::new(move || gpu::field_case(&case))));
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
        hazards::all().len()
    );
    Ok(conclusion.exit_code())
}
