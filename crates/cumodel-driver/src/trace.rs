//! The trace: everything that happened, one JSON object a line, in order.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use cumodel::{Hazard, OpId, OpInfo, Party, Severity, Site};
use serde_json::{json, Value};

use crate::site::locate;

/// An open trace file, or nothing.
#[derive(Debug, Default)]
pub struct Trace(Option<File>);

impl Trace {
    /// Creates the file; without a path every line is dropped.
    pub fn create(path: Option<&Path>) -> io::Result<Trace> {
        Ok(Trace(path.map(File::create).transpose()?))
    }

    /// Is anything written at all?
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The first line: which model runs how.
    pub fn start(&mut self, version: &str, schedule: &str) {
        self.line(|| json!({"t": "start", "version": version, "schedule": schedule, "pageable": "staged"}));
    }

    /// A stream came into being.
    pub fn stream(&mut self, name: &str) {
        self.line(|| json!({"t": "stream", "name": name}));
    }

    /// An operation was enqueued.
    pub fn operation(&mut self, info: &OpInfo) {
        self.line(|| {
            json!({
                "t": "op", "op": info.op, "call": info.call, "what": info.what.to_string(),
                "stream": &*info.stream, "site": locate(&info.site),
            })
        });
    }

    /// An operation took effect.
    pub fn ran(&mut self, op: OpId) {
        self.line(|| json!({"t": "run", "op": op}));
    }

    /// The host starts to wait.
    pub fn wait(&mut self, call: &str, on: &str, site: &Site) {
        self.line(|| json!({"t": "wait", "call": call, "on": on, "site": locate(site)}));
    }

    /// A wait of the host returned.
    pub fn waited(&mut self, call: &str, on: &str) {
        self.line(|| json!({"t": "waited", "call": call, "on": on}));
    }

    /// The first host access to pinned memory since an operation touched it.
    pub fn host(&mut self, write: bool, what: &str, site: &Site) {
        let access = if write { "write" } else { "read" };
        self.line(|| json!({"t": "host", "access": access, "what": what, "site": locate(site)}));
    }

    /// Something was reported.
    pub fn hazard(&mut self, hazard: &Hazard) {
        if hazard.kind.severity() != Severity::Hazard {
            return;
        }
        let op = |party: &Option<Party>| match party {
            Some(Party::Operation { info, .. }) => Some(info.op),
            _ => None,
        };
        self.line(|| {
            json!({
                "t": "hazard", "id": hazard.kind.id(), "name": hazard.kind.name(),
                "a": op(&hazard.a), "b": op(&hazard.b),
            })
        });
    }

    /// An idle program was rescued by running what it may be waiting for (R9).
    pub fn rescue(&mut self, op: OpId) {
        self.line(|| json!({"t": "rescue", "op": op}));
    }

    fn line(&mut self, value: impl FnOnce() -> Value) {
        let Some(file) = &mut self.0 else { return };
        // One write a line: a program that ends at any moment leaves whole lines.
        let text = format!("{}\n", value());
        if let Err(error) = file.write_all(text.as_bytes()) {
            eprintln!("model: the trace ends here: {error}");
            self.0 = None;
        }
    }
}
