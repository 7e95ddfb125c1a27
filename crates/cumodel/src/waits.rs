//! The waits that a report can look back on: why the nearest one did not help.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::clock::{Stamp, StreamId};
use crate::hazard::{HazardKind, UselessWait};
use crate::op::{OpId, OpInfo, Site};

/// How many waits are remembered.
const REMEMBERED: usize = 32;

/// A wait of the host or of a stream.
#[derive(Debug)]
pub struct Wait {
    /// The function.
    pub call: &'static str,
    /// The caller.
    pub site: Site,
    /// The stream that waits; the host when absent.
    pub by: Option<StreamId>,
    /// What it waits for.
    pub on: Waited,
    /// The last operation that was enqueued before it.
    pub after: OpId,
}

/// What a wait was for.
#[derive(Debug)]
pub enum Waited {
    /// Everything in a stream.
    Stream {
        /// The stream's name.
        name: Arc<str>,
        /// Was it named as the calling thread's default stream?
        per_thread: bool,
    },
    /// An event.
    Event {
        /// Its number.
        number: u32,
        /// What its record captured; nothing if it was never recorded.
        captured: Option<Stamp>,
        /// What earlier records had captured.
        earlier: Vec<Stamp>,
    },
}

/// When the later of two accesses was made.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    /// It is being made.
    Now,
    /// After so many waits, at a call or a host access.
    Call(u64),
    /// When the operation was enqueued.
    Enqueued(OpId),
}

/// The latest waits.
#[derive(Debug, Default)]
pub struct Waits {
    latest: VecDeque<Wait>,
    /// How many there have been.
    count: u64,
}

impl Waits {
    /// Remembers a wait.
    pub fn remember(&mut self, wait: Wait) {
        self.count += 1;
        if self.latest.len() == REMEMBERED {
            self.latest.pop_front();
        }
        self.latest.push_back(wait);
    }

    /// How many waits there have been: a moment to look back from.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The most telling wait between `a` and `b`, by the host or by the stream `waiter`, and why it did not cover `a`.
    ///
    /// Events whose record covers `a` by now are `recorded_since`: a wait for one of them that came before `a` came too early.
    pub fn useless(
        &self,
        a: &OpInfo,
        stamp: &Stamp,
        a_is_per_thread: bool,
        b: Moment,
        waiter: Option<StreamId>,
        recorded_since: &[u32],
    ) -> Option<UselessWait> {
        let forgotten = self.count - self.latest.len() as u64;
        self.latest
            .iter()
            .enumerate()
            .rev()
            .filter(|(index, wait)| match b {
                Moment::Now => true,
                Moment::Call(count) => forgotten + (*index as u64) < count,
                Moment::Enqueued(op) => wait.after < op,
            })
            .map(|(_, wait)| wait)
            .filter(|wait| {
                let before_the_record = matches!(
                    &wait.on,
                    Waited::Event { number, captured: None, .. } if recorded_since.contains(number)
                );
                wait.after >= a.op || wait.by.is_some() && before_the_record
            })
            .filter(|wait| wait.by.is_none() || wait.by == waiter)
            .map(|wait| (wait, wait.cause(stamp, a_is_per_thread)))
            // Among equals the first, which is the latest.
            .min_by_key(|(_, cause)| match cause {
                HazardKind::EventOverwritten => 0,
                HazardKind::EventTooEarly | HazardKind::PerThreadMixup => 1,
                HazardKind::WrongStreamSync => 2,
                // cudarc waits for events that were never recorded on nearly every first use.
                _ => 3,
            })
            .map(|(wait, cause)| UselessWait {
                cause,
                call: wait.call,
                because: wait.because(cause, a),
                site: wait.site.clone(),
            })
    }
}

impl Wait {
    fn cause(&self, a: &Stamp, a_is_per_thread: bool) -> HazardKind {
        match &self.on {
            Waited::Event { captured: None, .. } => HazardKind::EventNeverRecorded,
            Waited::Event {
                captured: Some(captured),
                earlier,
                ..
            } => {
                if earlier.iter().any(|stamp| stamp.covers(a.point)) {
                    HazardKind::EventOverwritten
                } else if captured.point.stream == a.point.stream {
                    HazardKind::EventTooEarly
                } else {
                    HazardKind::WrongStreamSync
                }
            }
            Waited::Stream { per_thread, .. } => {
                if *per_thread && a_is_per_thread {
                    HazardKind::PerThreadMixup
                } else {
                    HazardKind::WrongStreamSync
                }
            }
        }
    }

    fn because(&self, cause: HazardKind, a: &OpInfo) -> String {
        match (&self.on, cause) {
            (Waited::Stream { name, .. }, _) => {
                format!("it waited for {name}, and A is on {}", a.stream)
            }
            (Waited::Event { number, .. }, HazardKind::EventNeverRecorded) => {
                format!("event {number} had not been recorded, so it waited for nothing")
            }
            (Waited::Event { number, .. }, HazardKind::EventTooEarly) => {
                format!("event {number} was recorded before A")
            }
            (Waited::Event { number, .. }, HazardKind::EventOverwritten) => {
                format!("event {number} covered A until it was recorded again")
            }
            (Waited::Event { number, .. }, _) => {
                format!("event {number} was recorded on another stream than A's")
            }
        }
    }
}
