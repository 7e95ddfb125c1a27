//! The litmus tests, by what they are about. P, H: pinned and pageable memory that hold 1. D: device memory that holds 7.

mod codes;
mod copies;
mod events;
mod graphs;
mod host_functions;
mod kernels;
mod memory;
mod rules;
mod safe;
mod streams;

use crate::litmus::Litmus;

/// All litmus tests, in the order of their ids.
pub fn all() -> Vec<Litmus> {
    let mut all: Vec<Litmus> = [
        copies::TESTS,
        events::TESTS,
        streams::TESTS,
        host_functions::TESTS,
        kernels::TESTS,
        memory::TESTS,
        graphs::TESTS,
        codes::TESTS,
        rules::TESTS,
        safe::TESTS,
    ]
    .concat();
    // The tests on the driver's functions come before those on safe cudarc.
    all.sort_by_key(|test| (test.id.starts_with('C'), test.id));
    all
}
