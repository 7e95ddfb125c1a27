//! What must hold for a listing as a program.

use std::fs;
use std::path::Path;

use anyhow::{bail, ensure, Context, Result};
use xtask::examples::Example;
use xtask::files;
use xtask::record::{record, Driver, Env, Recorded};
use xtask::timeline;

/// What a check came to, if the listing is not wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Proved,
    /// The machine lacks what the listing shows, for this reason.
    Waived(String),
}

/// A listing, and the program that cargo made of it.
#[derive(Clone, Debug)]
pub struct Listing<'a> {
    /// The repository that the listing and its recorded files lie in.
    pub root: &'a Path,
    /// The listing.
    pub example: &'a Example,
    /// Its program.
    pub program: &'a Path,
}

/// The random schedules, of which every one must come out right.
pub const SEEDS: std::ops::Range<u32> = 0..100;

/// Hazards that are calls which the driver refuses, and not accesses without an order: no schedule hides one.
pub const REFUSED: [&str; 3] = ["H19", "H23", "H25"];

impl Listing<'_> {
    /// `stdout.txt`, `timeline.mmd` and `report.txt` are what the listing prints and does today.
    ///
    /// # Errors
    /// When one is stale, or the listing does not run.
    pub fn is_recorded(&self) -> Result<Verdict> {
        let recorded = self.run(Driver::Model, "last")?;
        if let Some(reason) = recorded.waived() {
            return Ok(Verdict::Waived(reason.to_owned()));
        }
        for file in files::of(self.example, &recorded)? {
            let now = file.now(self.root)?;
            if now != file.content {
                bail!(
                    "{}: {}; `cargo xtask bless {}` records it again",
                    file.path,
                    difference(now.as_deref(), file.content.as_deref()),
                    self.example.slug
                );
            }
        }
        Ok(Verdict::Proved)
    }

    /// A right listing prints the same under every schedule of the model, without a hazard.
    ///
    /// A listing that gives the driver nothing to order runs once.
    ///
    /// # Errors
    /// When it does not under one of them, which the message names.
    pub fn is_right_in_every_order(&self) -> Result<Verdict> {
        let named = ["last", "eager", "fifo"].map(str::to_owned);
        let random = SEEDS.map(|seed| format!("random:{seed}"));
        for schedule in named.into_iter().chain(random) {
            let recorded = self.run(Driver::Model, &schedule)?;
            if let Some(reason) = recorded.waived() {
                return Ok(Verdict::Waived(reason.to_owned()));
            }
            self.expect(&recorded, &[], &schedule)?;
            if timeline::mermaid(&recorded.trace)?.is_none() {
                break;
            }
        }
        Ok(Verdict::Proved)
    }

    /// A broken listing prints the recorded wrong values, and has its declared hazard and no other, in each of `runs`
    /// runs.
    ///
    /// # Errors
    /// When one run differs, or the recorded output is not wrong at all.
    pub fn is_wrong_every_time(&self, runs: usize) -> Result<Verdict> {
        let declared = self.declared()?;
        ensure!(
            self.recorded_stdout()?.contains("WRONG"),
            "{}: no line says WRONG, so the listing is not broken",
            self.file("stdout.txt")
        );
        for run in 1..=runs {
            let recorded = self.run(Driver::Model, "last")?;
            self.expect(
                &recorded,
                &[declared],
                &format!("last, run {run} of {runs}"),
            )?;
        }
        Ok(Verdict::Proved)
    }

    /// A broken listing looks right when each call is complete as it returns: that is what a naive fake hides.
    ///
    /// # Errors
    /// When it prints a wrong value or has a hazard all the same.
    pub fn looks_right_when_eager(&self) -> Result<Verdict> {
        let recorded = self.run(Driver::Model, "eager")?;
        ensure!(
            !recorded.stdout.contains("WRONG") && recorded.hazards().is_empty(),
            "{}: under eager it should look right, but it prints\n{}and has the hazards {:?}",
            self.file("main.rs"),
            recorded.stdout,
            recorded.hazards()
        );
        Ok(Verdict::Proved)
    }

    /// A listing with a call that the driver refuses is as wrong when each call is complete as it returns.
    ///
    /// # Errors
    /// When it prints something else then, or has other hazards: its mistake is one of order.
    pub fn is_refused_when_eager(&self) -> Result<Verdict> {
        let recorded = self.run(Driver::Model, "eager")?;
        self.expect(&recorded, &[self.declared()?], "eager")?;
        Ok(Verdict::Proved)
    }

    /// On a GPU a right listing prints what is recorded, and a broken one is wrong.
    ///
    /// # Errors
    /// When it does not.
    pub fn holds_on_the_gpu(&self) -> Result<Verdict> {
        let recorded = self.run(Driver::Gpu, "of the GPU")?;
        if let Some(reason) = recorded.waived() {
            return Ok(Verdict::Waived(reason.to_owned()));
        }
        if self.example.hazard.is_some() {
            ensure!(
                recorded.stdout.contains("WRONG"),
                "{}: on this GPU the missing wait does not show; it prints\n{}",
                self.file("main.rs"),
                recorded.stdout
            );
        } else if !self.example.of_the_machine {
            self.expect(&recorded, &[], "of the GPU")?;
        }
        Ok(Verdict::Proved)
    }

    fn run(&self, driver: Driver, schedule: &str) -> Result<Recorded> {
        record(
            self.example,
            self.program,
            &Env::new(self.root, driver, schedule),
        )
    }

    /// The run printed what is recorded, and had these hazards and no others.
    fn expect(&self, recorded: &Recorded, hazards: &[&str], schedule: &str) -> Result<()> {
        let expected = self.recorded_stdout()?;
        ensure!(
            recorded.stdout == expected,
            "{}: {} (schedule {schedule})",
            self.file("stdout.txt"),
            difference(Some(&expected), Some(&recorded.stdout))
        );
        ensure!(
            recorded.hazards() == hazards,
            "{}: it should have the hazards {hazards:?}, but has {:?} (schedule {schedule}):\n{}",
            self.file("main.rs"),
            recorded.hazards(),
            recorded.stderr
        );
        Ok(())
    }

    fn declared(&self) -> Result<&str> {
        let hazard = self.example.hazard.as_deref();
        hazard.with_context(|| format!("{}: it declares no hazard", self.file("main.rs")))
    }

    fn recorded_stdout(&self) -> Result<String> {
        let path = self.file("stdout.txt");
        fs::read_to_string(self.root.join(&path))
            .with_context(|| format!("{path}: `cargo xtask bless` has not recorded it"))
    }

    /// A file of the listing, relative to the repository.
    fn file(&self, name: &str) -> String {
        format!("examples/{}/{name}", self.example.slug)
    }
}

/// Where two texts differ first; a missing file is `None`.
fn difference(recorded: Option<&str>, now: Option<&str>) -> String {
    let (recorded, now) = match (recorded, now) {
        (Some(recorded), Some(now)) => (recorded, now),
        (None, _) => return "it is missing".to_owned(),
        (_, None) => return "it should not be there".to_owned(),
    };
    let (mut old, mut new) = (recorded.lines(), now.lines());
    let mut number = 1;
    loop {
        match (old.next(), new.next()) {
            (Some(old), Some(new)) if old == new => number += 1,
            (None, None) => return "the line ends differ".to_owned(),
            (old, new) => {
                let quote = |line: Option<&str>| {
                    line.map_or("nothing".to_owned(), |line| format!("`{line}`"))
                };
                return format!(
                    "line {number} is {}, but the listing now gives {}",
                    quote(old),
                    quote(new)
                );
            }
        }
    }
}
