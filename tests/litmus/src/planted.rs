//! Faults that the checks must find: a check that cannot fail proves nothing.

use std::fs;

use anyhow::{bail, ensure, Context, Result};

use crate::check::{self, Explored};
use crate::field::{self, Case};
use crate::gpu;
use crate::hazards::{self, Hazard};
use crate::litmus::Litmus;
use crate::model::{Model, Settings};
use crate::{page, tests};

/// A planted fault: what is wrong, and the check that has to fail.
pub type Fault = (&'static str, fn(Model) -> Result<()>);

/// Faults on the model.
pub const ALL: &[Fault] = &[
    ("another_marked_outcome", |model| {
        let planted = Litmus {
            last: "7",
            ..find("L01")?
        };
        check::last(model, &planted)
    }),
    ("a_report_that_is_not_declared", |model| {
        let planted = Litmus {
            reports: &[],
            ..find("L01")?
        };
        check::last(model, &planted)
    }),
    ("a_report_that_does_not_come", |model| {
        let planted = Litmus {
            reports: &["H01"],
            ..find("L02")?
        };
        check::last(model, &planted)
    }),
    ("another_outcome_under_eager", |model| {
        let planted = Litmus {
            eager: "1",
            ..find("L01")?
        };
        check::eager(model, &planted)
    }),
    ("an_outcome_that_is_not_permitted", |model| {
        let planted = Litmus {
            allowed: &["1", "mix"],
            ..find("L01")?
        };
        check::permitted(&planted, &check::explored(model, &planted)?)
    }),
    ("a_permitted_outcome_that_does_not_come", |model| {
        let planted = Litmus {
            allowed: &["7", "8"],
            ..find("L02")?
        };
        check::permitted(&planted, &check::explored(model, &planted)?)
    }),
    ("two_outcomes_without_a_report", |model| {
        let planted = Litmus {
            reports: &[],
            ..find("L01")?
        };
        check::permitted(&planted, &check::explored(model, &planted)?)
    }),
    ("a_random_schedule_that_was_not_explored", |model| {
        let nothing = Explored {
            staged: Default::default(),
            direct: Default::default(),
        };
        check::random(model, &find("L02")?, &nothing)
    }),
    ("a_run_that_is_not_repeated", |model| {
        let litmus = find("L01")?;
        let last = check::run(model, &Settings::schedule("last"), litmus.run)?;
        let eager = check::run(model, &Settings::schedule("eager"), litmus.run)?;
        check::same_run(&last, &eager)
    }),
    ("a_broken_program_without_its_mistake", |model| {
        let hazard = hazards::all()
            .into_iter()
            .next()
            .context("there is a hazard")?;
        let planted = Hazard {
            broken: hazard.twin,
            ..hazard
        };
        check::has_hazard(model, &planted)
    }),
    ("a_twin_with_the_mistake", |model| {
        let hazard = hazards::all()
            .into_iter()
            .next()
            .context("there is a hazard")?;
        let planted = Hazard {
            twin: hazard.broken,
            ..hazard
        };
        check::has_none(model, &planted)
    }),
    ("a_field_case_that_is_already_repaired", |model| {
        let case = field::all().into_iter().next().context("there is a case")?;
        let planted = Case {
            broken: case.fixed,
            ..case
        };
        check::goes_wrong(model, &planted)
    }),
    ("a_repair_that_repairs_nothing", |model| {
        let case = field::all().into_iter().next().context("there is a case")?;
        let planted = Case {
            fixed: case.broken,
            ..case
        };
        check::goes_right(model, &planted)
    }),
    ("a_gpu_that_shows_something_else", |_| {
        gpu::judge(&find("L02")?, "1", false)
    }),
    ("a_gate_that_does_not_hold", |_| {
        gpu::judge(&find("L01")?, "7", true)
    }),
    ("a_stale_page", |_| {
        let root = tempfile::tempdir()?;
        let path = root.path().join(page::PATH);
        fs::create_dir_all(path.parent().context("the page lies in a folder")?)?;
        fs::write(&path, "# Another page\n")?;
        page::is_current(root.path(), "# This page\n")
    }),
];

/// The check must fail.
///
/// # Errors
/// When it does not.
pub fn is_found(model: Model, fault: &Fault) -> Result<()> {
    let (what, check) = fault;
    ensure!(
        check(model).is_err(),
        "{what} was planted, and the check did not find it"
    );
    Ok(())
}

fn find(id: &str) -> Result<Litmus> {
    match tests::all().into_iter().find(|litmus| litmus.id == id) {
        Some(litmus) => Ok(litmus),
        None => bail!("there is no litmus test {id}"),
    }
}
