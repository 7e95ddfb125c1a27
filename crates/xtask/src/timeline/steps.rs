//! Says each event of a trace in the words of a sequence diagram.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, Result};
use serde::Deserialize;

/// One step of the diagram.
pub(super) struct Step {
    /// Its lines in mermaid.
    pub lines: Vec<String>,
    /// The same for two steps that differ in numbers only.
    pub pattern: String,
}

/// A line of `CUMODEL_TRACE`; other kinds of lines draw nothing.
#[derive(Deserialize)]
#[serde(tag = "t", rename_all = "lowercase")]
enum Event {
    Op {
        op: u64,
        what: String,
        stream: String,
    },
    Run {
        op: u64,
    },
    Wait {
        call: String,
        on: String,
    },
    Waited {
        on: String,
    },
    Host {
        access: Access,
        what: String,
    },
    Hazard {
        id: String,
        name: String,
        /// The earlier operation, and the later one; the host is neither.
        a: Option<u64>,
        b: Option<u64>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Access {
    Read,
    Write,
}

/// The steps of a run, and the streams that take part in it.
#[derive(Default)]
pub(super) struct Steps {
    /// The streams in order of appearance: `S1` is the first.
    pub streams: Vec<String>,
    pub list: Vec<Step>,
    /// The stream of each operation.
    stream_of: HashMap<u64, usize>,
    /// Where each event, such as `event 1`, was last recorded.
    recorded_on: HashMap<String, usize>,
    /// Operations that are not drawn, because nothing comes of them.
    without_effect: HashSet<u64>,
    /// Operations that ran one after the other on one stream, and are not drawn yet.
    ran: Vec<u64>,
}

impl Steps {
    pub fn read(trace: &str) -> Result<Steps> {
        let mut steps = Steps::default();
        for (number, line) in (1..).zip(trace.lines()) {
            serde_json::from_str(line)
                .map_err(anyhow::Error::from)
                .and_then(|event| steps.add(event))
                .with_context(|| format!("line {number} of the trace: {line}"))?;
        }
        steps.draw_runs();
        steps.drop_last_frees();
        Ok(steps)
    }

    fn add(&mut self, event: Event) -> Result<()> {
        if let Event::Run { op } = event {
            return self.run(op);
        }
        self.draw_runs();
        match event {
            Event::Op { op, what, stream } => {
                let stream = self.stream(&stream);
                self.stream_of.insert(op, stream);
                self.enqueue(op, &what, stream);
            }
            Event::Wait { call, on } => self.wait(&call, &on),
            Event::Waited { on } => self.waited(&on),
            Event::Host { access, what } => {
                let verb = match access {
                    Access::Read => "reads",
                    Access::Write => "writes",
                };
                self.draw("Note over H: ", &format!("{verb} {what}"));
            }
            Event::Hazard { id, name, a, b } => {
                let a = a.map(|a| self.known(a)).transpose()?;
                let b = b.map(|b| self.known(b)).transpose()?;
                let over = match (a, b) {
                    (Some(a), Some(b)) if a != b => format!("S{},S{}", a.min(b), a.max(b)),
                    (Some(a), Some(_)) => format!("S{a}"),
                    (Some(one), None) | (None, Some(one)) => format!("H,S{one}"),
                    (None, None) => "H".to_owned(),
                };
                self.list.push(Step {
                    lines: vec![
                        "rect rgba(255, 0, 0, 0.2)".to_owned(),
                        format!("Note over {over}: {id} {name}"),
                        "end".to_owned(),
                    ],
                    pattern: format!("{id} {over}"),
                });
            }
            Event::Run { .. } | Event::Other => {}
        }
        Ok(())
    }

    /// An operation is an arrow from the host to its stream, and a wait for an event one from the stream that recorded
    /// the event.
    fn enqueue(&mut self, op: u64, what: &str, stream: usize) {
        let mut arrow = format!("H->>S{stream}: ");
        if let Some(event) = what.strip_prefix("wait for ") {
            match self.recorded_on.get(event) {
                Some(&from) if from != stream => arrow = format!("S{from}-->>S{stream}: "),
                Some(_) => {}
                // A wait for an event that was never recorded waits for nothing; cudarc makes many of them.
                None => {
                    self.without_effect.insert(op);
                    return;
                }
            }
        }
        if let Some(event) = what.strip_prefix("record ") {
            self.recorded_on.insert(event.to_owned(), stream);
        }
        self.draw(&arrow, &format!("#{op} {what}"));
    }

    /// Operations that run in a row on one stream share a note.
    fn run(&mut self, op: u64) -> Result<()> {
        let stream = self.known(op)?;
        if self.without_effect.contains(&op) {
            return Ok(());
        }
        if self.ran.last().map(|last| self.stream_of[last]) != Some(stream) {
            self.draw_runs();
        }
        self.ran.push(op);
        Ok(())
    }

    fn draw_runs(&mut self) {
        let ran = std::mem::take(&mut self.ran);
        let Some(first) = ran.first() else {
            return;
        };
        let over = format!("Note over S{}: ", self.stream_of[first]);
        let verb = if ran.len() == 1 { "runs" } else { "run" };
        self.list.push(Step {
            lines: vec![format!("{over}{} {verb}", escape(&numbers(&ran)))],
            pattern: over,
        });
    }

    /// What a program frees last, when nothing follows, is cleaning up.
    fn drop_last_frees(&mut self) {
        while self
            .list
            .last()
            .is_some_and(|step| step.pattern.contains(": # free "))
        {
            self.list.pop();
        }
    }

    fn wait(&mut self, call: &str, on: &str) {
        // Where the function is not made for waiting, the reader should see which one waited.
        let inside = if call.contains("Synchronize") {
            String::new()
        } else {
            format!(" inside {call}")
        };
        match self.waited_for(on) {
            Some(stream) if on.starts_with("event ") => {
                self.draw(
                    &format!("H->>S{stream}: "),
                    &format!("wait for {on}{inside}"),
                );
            }
            Some(stream) => self.draw(&format!("H->>S{stream}: "), &format!("wait{inside}")),
            None => self.draw("Note over H: ", &format!("waits for {on}{inside}")),
        }
    }

    fn waited(&mut self, on: &str) {
        match self.waited_for(on) {
            Some(stream) if on.starts_with("event ") => {
                self.draw(&format!("S{stream}-->>H: "), &format!("{on} is complete"));
            }
            Some(stream) => self.draw(&format!("S{stream}-->>H: "), "done"),
            None => self.draw("Note over H: ", &format!("has waited for {on}")),
        }
    }

    /// The one stream that a wait is about, if it is about one: a context is many, and an event that was never
    /// recorded is on none.
    fn waited_for(&mut self, on: &str) -> Option<usize> {
        if on.starts_with("event ") {
            self.recorded_on.get(on).copied()
        } else if on.contains("stream") {
            Some(self.stream(on))
        } else {
            None
        }
    }

    /// The number of a stream, from 1; a new one gets the next.
    fn stream(&mut self, name: &str) -> usize {
        let known = self.streams.iter().position(|it| it == name);
        let index = known.unwrap_or_else(|| {
            self.streams.push(name.to_owned());
            self.streams.len() - 1
        });
        index + 1
    }

    fn known(&self, op: u64) -> Result<usize> {
        let stream = self.stream_of.get(&op).copied();
        stream.with_context(|| format!("operation {op} was never enqueued"))
    }

    fn draw(&mut self, who: &str, text: &str) {
        self.list.push(Step {
            lines: vec![format!("{who}{}", escape(text))],
            pattern: format!("{who}{}", without_numbers(text)),
        });
    }
}

/// `#1 to #3, #7` for 1, 2, 3, 7; many stretches are only counted.
fn numbers(ops: &[u64]) -> String {
    let mut stretches: Vec<(u64, u64)> = Vec::new();
    for &op in ops {
        match stretches.last_mut() {
            Some((_, last)) if *last + 1 == op => *last = op,
            _ => stretches.push((op, op)),
        }
    }
    if stretches.len() > 3 {
        let (first, last) = (ops[0], ops[ops.len() - 1]);
        return format!("{} operations from #{first} to #{last}", ops.len());
    }
    let stretches: Vec<String> = stretches
        .into_iter()
        .map(|(first, last)| match last - first {
            0 => format!("#{first}"),
            1 => format!("#{first}, #{last}"),
            _ => format!("#{first} to #{last}"),
        })
        .collect();
    stretches.join(", ")
}

/// In mermaid, `#` starts a character's code and `;` ends a line.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '#' => escaped.push_str("#35;"),
            ';' => escaped.push_str("#59;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// The text without the numbers that count up: `#12` and `event 3`. Sizes stay: copies of two sizes are not alike.
fn without_numbers(text: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in text.split(' ') {
        let number = word.trim_start_matches('#');
        let counts_up = number.len() < word.len() || words.last() == Some(&"event");
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        words.push(if counts_up && is_number { "#" } else { word });
    }
    words.join(" ")
}
