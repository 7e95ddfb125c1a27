//! The engine of the model: a graph of operations that run on demand.
//!
//! CUDA's ordering rules say which operations must be complete before which others, and which host calls wait for what.
//! Everything else is up to the driver.
//! This crate keeps exactly those rules: every operation has a [`Stamp`](clock::Stamp) that says what it is ordered after,
//! nothing runs until a host call makes it (or a [`Schedule`] chooses to run it), and two accesses to the same bytes
//! that no rule orders are a [`Hazard`].
//!
//! The engine moves no bytes and knows no address space.
//! Addresses are numbers, an operation carries an effect of the caller's type `E`, and whoever owns the memory performs
//! the effect when [`Engine::next`] hands it out.
//! That keeps the rules testable without a driver, and the driver free of policy.
//!
//! | module | its one job |
//! |---|---|
//! | [`clock`] | what is ordered after what |
//! | [`region`] | what an address belongs to |
//! | [`ledger`] | which operations touched which bytes and are not ordered before the host yet |
//! | [`late`] | what an operation that is pending, and whose accesses nobody knows, can still race with |
//! | [`guard`] | which pages of pinned memory the host must not touch now |
//! | [`waits`] | why the nearest wait did not help |
//! | [`explore`] | all schedules of a small program, one run after the other |
//! | [`schedule`] | which ready operation runs next, and when |
//! | [`hazard`] | what a missing wait looks like in words |
//! | [`engine`] | streams, events and operations: puts the above together |
//!
//! Rule numbers (R1, R20, …) are explained in the chapter "The model" of the book.
#![forbid(unsafe_code)]

pub mod clock;
pub mod engine;
pub mod explore;
pub mod guard;
pub mod hazard;
pub mod late;
pub mod ledger;
pub mod op;
pub mod region;
pub mod schedule;
pub mod waits;

pub use clock::{Point, Stamp, StreamId};
pub use engine::{Engine, EventId, Freed, HostTouch, Notice, Part, Step, StreamKind, Target};
pub use explore::Explorer;
pub use hazard::{Hazard, HazardKind, Party, Severity};
pub use op::{Access, AccessKind, OpId, OpInfo, Place, Site, Spec, Visibility, What};
pub use region::{Region, Space};
pub use schedule::{Schedule, ScheduleError};
