//! Reports, printed for people and written for programs.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use cumodel::{Hazard, HazardKind, OpInfo, Party, Severity};
use serde_json::{json, Value};

use crate::config::OnHazard;
use crate::site::locate;

/// How many reports are kept for `cumodel_take_reports`.
const KEPT: usize = 10_000;

/// Where reports go.
#[derive(Debug)]
pub struct Reports {
    file: Option<File>,
    /// Printed on stderr?
    printed: bool,
    /// What has been told in full: the kind and the places in the program.
    told: HashSet<(HazardKind, Vec<String>)>,
    /// JSON lines that nobody has taken yet.
    kept: Vec<String>,
}

impl Reports {
    /// Opens the file for appending; without a path reports are only printed and kept.
    pub fn open(path: Option<&Path>) -> io::Result<Reports> {
        let file = path.map(|path| OpenOptions::new().create(true).append(true).open(path));
        Ok(Reports {
            file: file.transpose()?,
            printed: true,
            told: HashSet::new(),
            kept: Vec::new(),
        })
    }

    /// Begins a run.
    pub fn start(&mut self, on_hazard: OnHazard) {
        self.printed = on_hazard != OnHazard::Collect;
        self.told.clear();
    }

    /// Prints something, a report or why a call is refused.
    pub fn say(&self, line: String) {
        if self.printed {
            // One write, so that what several threads or processes say does not mix.
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }

    /// Prints, writes and keeps a report; what `settings` gives repeats the run.
    ///
    /// A hazard in a loop is told in full once and then in one line; a note is printed in one line, once.
    pub fn add(&mut self, hazard: &Hazard, settings: impl FnOnce() -> String) {
        let severity = hazard.kind.severity();
        let parties = [&hazard.a, &hazard.b];
        let places: Vec<String> = parties
            .into_iter()
            .flatten()
            .map(|party| locate(party.site()))
            .collect();
        let new = self.told.insert((hazard.kind, places.clone()));
        if !new && severity != Severity::Hazard {
            return;
        }
        let settings = settings();
        let text = if new {
            hazard.text(&settings, &locate)
        } else {
            let operation = hazard
                .operation()
                .map_or_else(String::new, |op| format!("operation {op}, "));
            format!(
                "model: {} {} again: {operation}{}\n",
                hazard.kind.id(),
                hazard.kind.name(),
                places.join(" and ")
            )
        };
        match severity {
            Severity::Hazard => self.say(text.clone()),
            Severity::Note => self.say(format!(
                "model: note {} {}: {}   {}\n",
                hazard.kind.id(),
                hazard.kind.name(),
                hazard.kind.sentence(),
                places.join(" and ")
            )),
            Severity::SpeedNote | Severity::Cause => (),
        }
        let line = format!("{}\n", as_json(hazard, &text, &settings));
        if let Some(file) = &mut self.file {
            if let Err(error) = file.write_all(line.as_bytes()) {
                eprintln!("model: the report file ends here: {error}");
                self.file = None;
            }
        }
        if self.kept.len() < KEPT {
            self.kept.push(line);
        }
    }

    /// The reports that nobody has taken yet, as JSON lines.
    pub fn kept(&self) -> String {
        self.kept.concat()
    }

    /// Forgets the reports that are kept.
    pub fn forget_kept(&mut self) {
        self.kept.clear();
    }
}

fn as_json(hazard: &Hazard, text: &str, settings: &str) -> Value {
    json!({
        "id": hazard.kind.id(),
        "name": hazard.kind.name(),
        "severity": hazard.kind.severity().to_string(),
        "cause": hazard.useless.as_ref().map(|wait| wait.cause.id()),
        "text": text,
        "a": hazard.a.as_ref().map(party),
        "b": hazard.b.as_ref().map(party),
        "fix": hazard.kind.fix(),
        "replay": settings,
    })
}

fn party(party: &Party) -> Value {
    match party {
        Party::Operation { info, .. } => operation(info),
        Party::Touch { write, site, .. } => {
            json!({"access": if *write { "write" } else { "read" }, "site": locate(site)})
        }
        Party::Call { call, does, site } => {
            json!({"call": call, "does": does, "site": locate(site)})
        }
    }
}

fn operation(info: &OpInfo) -> Value {
    json!({
        "op": info.op,
        "call": info.call,
        "stream": &*info.stream,
        "what": info.what.to_string(),
        "site": locate(&info.site),
    })
}
