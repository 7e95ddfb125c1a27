//! Hazards, printed for people and written for programs.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use cumodel::hazard::Later;
use cumodel::{Hazard, HazardKind, OpInfo};
use serde_json::{json, Value};

use crate::site::locate;

/// Where hazards go.
#[derive(Debug)]
pub struct Reports {
    /// Besides stderr.
    file: Option<File>,
    /// What has been told in full: the kind and the two places in the program.
    told: HashSet<(HazardKind, String, String)>,
}

impl Reports {
    /// Opens the file for appending; without a path hazards are only printed.
    pub fn open(path: Option<&Path>) -> io::Result<Reports> {
        let file = path.map(|path| OpenOptions::new().create(true).append(true).open(path));
        Ok(Reports {
            file: file.transpose()?,
            told: HashSet::new(),
        })
    }

    /// Prints a hazard on stderr and appends it to the file; in a loop, the second and later times in one line.
    pub fn add(&mut self, hazard: &Hazard) {
        let places = (locate(&hazard.a.site), locate(hazard.b.site()));
        let new = self
            .told
            .insert((hazard.kind, places.0.clone(), places.1.clone()));
        let text = if new {
            hazard.text(&locate)
        } else {
            format!(
                "model: {} {} again: operation {}, {} and {}\n",
                hazard.kind.id(),
                hazard.kind.name(),
                hazard.a.op,
                places.0,
                places.1
            )
        };
        // One write, so that reports of several threads or processes do not mix.
        let _ = io::stderr().write_all(text.as_bytes());
        let Some(file) = &mut self.file else { return };
        let line = format!("{}\n", as_json(hazard, &text));
        if let Err(error) = file.write_all(line.as_bytes()) {
            eprintln!("model: the report file ends here: {error}");
            self.file = None;
        }
    }
}

fn as_json(hazard: &Hazard, text: &str) -> Value {
    let later = match &hazard.b {
        Later::Operation { info, .. } => operation(info),
        Later::Touch { write, site, .. } => {
            json!({"access": if *write { "write" } else { "read" }, "site": locate(site)})
        }
        Later::Call { call, site } => json!({"call": call, "site": locate(site)}),
    };
    json!({
        "id": hazard.kind.id(),
        "name": hazard.kind.name(),
        "text": text,
        "a": operation(&hazard.a),
        "b": later,
        "fix": hazard.kind.fix(),
        "replay": hazard.replay,
    })
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
