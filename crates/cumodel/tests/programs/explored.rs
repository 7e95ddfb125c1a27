//! The schedule `explore`: the outcomes of all its runs are those of all orders of the steps, no more and no fewer.

use std::collections::BTreeSet;

use cumodel::{Explorer, Schedule};
use fastrand::Rng;

use crate::naive::{outcomes, Order, Outcome, Pieces};
use crate::program::{Line, Program};
use crate::world::{run, Fault};
use crate::{fail, faults_found, next_run, MOST_STATES};

/// Programs whose outcomes are compared as sets.
const EXPLORED: u64 = 1_000;

/// Runs of `explore` after which a program is given up.
const MOST_RUNS: u64 = 2_000;

/// The outcomes of `explore`, and how many runs it took; nothing when that is too many.
fn explored_outcomes(program: &Program) -> Option<(BTreeSet<Outcome>, u64)> {
    let mut schedule = Schedule::Explore(Explorer::default());
    let mut found = BTreeSet::new();
    let mut runs = 0;
    loop {
        let explored = run(program, schedule, Fault::None);
        found.insert(explored.outcome);
        runs += 1;
        schedule = explored.schedule;
        if !next_run(&mut schedule) {
            return Some((found, runs));
        }
        if runs == MOST_RUNS {
            return None;
        }
    }
}

/// Compares the outcomes of `explore` with those of all orders of steps; tells how many there are and what it took, or
/// nothing when the program has too many schedules.
fn compare_outcomes(program: &Program, pieces: Pieces) -> Result<Option<(usize, u64)>, String> {
    let order = Order::of(program);
    let Some(expected) = outcomes(program, &order, pieces, usize::MAX) else {
        unreachable!("there is no limit");
    };
    let Some((found, runs)) = explored_outcomes(program) else {
        return Ok(None);
    };
    if let Some(outcome) = expected.difference(&found).next() {
        return Err(format!("explore never finds {outcome:?}"));
    }
    if let Some(outcome) = found.difference(&expected).next() {
        return Err(format!("explore finds {outcome:?}, which is impossible"));
    }
    Ok(Some((found.len(), runs)))
}

/// A program with few accesses, so that all its schedules can be run.
fn small_program(rng: &mut Rng) -> Program {
    loop {
        let length = rng.usize(2..8);
        let program = Program::random(rng, length);
        let accesses = |line: &&Line| !line.accesses().is_empty();
        let in_streams = |line: &&Line| accesses(line) && line.stream().is_some();
        let few = program.lines.iter().filter(accesses).count() <= 4
            && program.lines.iter().filter(in_streams).count() <= 3;
        if few && !Order::of(&program).races(&program).is_empty() {
            return program;
        }
    }
}

#[test]
fn explore_finds_exactly_the_outcomes_of_all_orders_of_halves() {
    let (mut compared, mut runs, mut found) = (0, 0, 0);
    for seed in 0..EXPLORED {
        let program = small_program(&mut Rng::with_seed(seed));
        match compare_outcomes(&program, Pieces::Two) {
            Ok(None) => (),
            Ok(Some((outcomes, took))) => {
                compared += 1;
                found += outcomes;
                runs += took;
            }
            Err(error) => fail(seed, &error, &program, |program| {
                compare_outcomes(program, Pieces::Two).is_err()
            }),
        }
    }
    println!(
        "{EXPLORED} racy programs, {compared} of them small enough: {found} outcomes, {runs} runs"
    );
    assert!(compared > EXPLORED / 2);
}

#[test]
fn an_exploration_that_is_incomplete_or_impossible_is_caught() {
    // Whole copies are fewer outcomes than halves: against them, what explore finds seems impossible.
    let caught = faults_found(|rng, _| compare_outcomes(&small_program(rng), Pieces::One).is_err());
    println!("halves against whole copies: told apart by {caught} of 500 programs");
    assert!(caught >= 5, "{caught}");
    // One run is not all of them.
    let caught = faults_found(|rng, _| {
        let program = small_program(rng);
        let order = Order::of(&program);
        let first = run(&program, Schedule::Last, Fault::None).outcome;
        outcomes(&program, &order, Pieces::Two, MOST_STATES) != Some(BTreeSet::from([first]))
    });
    println!("one schedule against all: told apart by {caught} of 500 programs");
    assert!(caught >= 5, "{caught}");
}
