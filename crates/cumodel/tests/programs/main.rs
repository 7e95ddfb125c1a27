//! Random programs: the engine against an interpreter that knows no clocks, no ledger and no schedules.
//!
//! Three streams, two device buffers, a pinned one, copies, kernels that copy, memsets, records, waits, host waits, loads and stores.
//! Which accesses race is found by ancestor sets, and what a program can end with by trying every order of its steps.

mod explored;
mod naive;
mod program;
mod world;

use std::collections::BTreeSet;

use cumodel::{Explorer, HazardKind, Schedule};
use fastrand::Rng;
use naive::{outcome_in_program_order, outcomes, Order, Outcome, Pieces};
use program::{Line, Program};
use world::{run, Fault, Report, Run};

const PROGRAMS: u64 = 10_000;
/// States that the interpreter tries before it gives a program up.
const MOST_STATES: usize = 20_000;

/// A random program that is free of races, and the edges that were put in for that.
fn legal_program(rng: &mut Rng) -> Program {
    let length = rng.usize(4..14);
    let mut program = Program::random(rng, length);
    loop {
        let races = Order::of(&program).races(&program);
        let Some(&(first, second)) = races.first() else {
            return program;
        };
        program.order(rng, first, second);
    }
}

/// A legal program with one of its edges gone or in another place, or a program that only chance has ordered.
fn any_program(rng: &mut Rng) -> Program {
    let program = legal_program(rng);
    let edges: Vec<usize> = (0..program.lines.len())
        .filter(|&index| program.lines[index].is_edge())
        .collect();
    match rng.choice(edges) {
        Some(edge) if rng.bool() => {
            let mut broken = program.without(edge);
            if rng.bool() {
                let place = rng.usize(..=broken.lines.len());
                broken.lines.insert(place, program.lines[edge]);
            }
            broken
        }
        _ => {
            let length = rng.usize(2..20);
            Program::random(rng, length)
        }
    }
}

/// The schedules that a program runs under, but for `explore`.
fn schedules(seed: u64) -> Vec<Schedule> {
    vec![
        Schedule::Last,
        Schedule::Fifo,
        Schedule::random(seed),
        Schedule::random(!seed),
    ]
}

/// What was checked about a program, beyond that nothing was wrong.
struct Checked {
    is_legal: bool,
    runs: u64,
    /// Were all orders of its steps tried?
    all_orders: bool,
}

/// Compares the engine with the interpreter: the races of every schedule, and the outcomes.
fn check(program: &Program, seed: u64, fault: Fault) -> Result<Checked, String> {
    let order = Order::of(program);
    let races = order.races(program);
    let allowed = outcomes(program, &order, Pieces::Two, MOST_STATES);
    if let (true, Some(allowed)) = (races.is_empty(), &allowed) {
        let in_order = outcome_in_program_order(program, &order);
        if *allowed != BTreeSet::from([in_order]) {
            return Err("the interpreter disagrees with itself: no race, several outcomes".into());
        }
    }
    let is_allowed = |outcome: &Outcome| match &allowed {
        Some(allowed) => allowed.contains(outcome),
        None => !races.is_empty() || *outcome == outcome_in_program_order(program, &order),
    };
    let mut runs = 0;
    let mut compare = |run: &Run, name: &str| {
        runs += 1;
        compare_races(program, &races, run).map_err(|error| format!("under {name}: {error}"))?;
        if is_allowed(&run.outcome) {
            Ok(())
        } else {
            Err(format!(
                "under {name}: {:?} is no outcome of any order of the steps",
                run.outcome
            ))
        }
    };
    for schedule in schedules(seed) {
        let name = schedule.to_string();
        compare(&run(program, schedule, fault), &name)?;
    }
    if races.is_empty() {
        // Nothing is pending under `eager`, so its outcome means something for legal programs only.
        compare(&run(program, Schedule::Eager, fault), "eager")?;
        let mut schedule = Schedule::Explore(Explorer::default());
        loop {
            let explored = run(program, schedule, fault);
            compare(&explored, "explore")?;
            schedule = explored.schedule;
            if !next_run(&mut schedule) {
                break;
            }
        }
    }
    Ok(Checked {
        is_legal: races.is_empty(),
        runs,
        all_orders: allowed.is_some(),
    })
}

/// The engine reports nothing that is no race, something for every line that races with an earlier one, and something for
/// every kernel that races.
fn compare_races(
    program: &Program,
    races: &BTreeSet<(usize, usize)>,
    run: &Run,
) -> Result<(), String> {
    for report in &run.reports {
        if !races.contains(&(report.a, report.b)) {
            return Err(format!("a false alarm: {report:?}"));
        }
        let host = program.lines[report.b].stream().is_none();
        let of_host = matches!(
            report.kind,
            HazardKind::ReadBeforeCopy | HazardKind::WriteUnderCopy
        );
        if host != of_host {
            return Err(format!("the wrong kind of hazard: {report:?}"));
        }
    }
    let is_kernel = |line: usize| matches!(program.lines[line], Line::Kernel { .. });
    for &(a, b) in races {
        let reported = if program.lines[b].stream().is_none() {
            // The pages of an operation are opened when its race with the host is reported, so later ones go unseen.
            run.reports
                .iter()
                .any(|report| program.lines[report.b].stream().is_none())
        } else {
            // A kernel's race is found when it has run; by then a later access can stand for the one that it races with.
            let of_kernel = |report: &Report| {
                [a, b]
                    .iter()
                    .any(|&line| is_kernel(line) && report.names(line))
            };
            run.reports
                .iter()
                .any(|report| report.b == b || of_kernel(report))
        };
        if !reported {
            return Err(format!("the race of lines {a} and {b} is not reported"));
        }
    }
    Ok(())
}

fn next_run(schedule: &mut Schedule) -> bool {
    match schedule {
        Schedule::Explore(explorer) => explorer.next_run(),
        _ => false,
    }
}

/// Fails with the seed, what is wrong, and the smallest program that shows it.
fn fail(seed: u64, error: &str, program: &Program, fails: impl Fn(&Program) -> bool) -> ! {
    panic!(
        "seed {seed}: {error}\nthe program, without the lines that do not matter:\n{}the whole program:\n{program}",
        program.shrink(fails)
    );
}

#[test]
fn legal_programs_have_one_outcome_and_no_hazard_under_every_schedule() {
    let (mut runs, mut all_orders) = (0, 0);
    for seed in 0..PROGRAMS {
        let program = legal_program(&mut Rng::with_seed(seed));
        match check(&program, seed, Fault::None) {
            Ok(checked) => {
                assert!(checked.is_legal);
                runs += checked.runs;
                all_orders += u64::from(checked.all_orders);
            }
            Err(error) => fail(seed, &error, &program, |program| {
                check(program, seed, Fault::None).is_err()
            }),
        }
    }
    println!("{PROGRAMS} legal programs, {runs} runs, {all_orders} with all orders tried");
    assert!(all_orders > PROGRAMS / 2);
}

// R33: under exploration a copy that races happens in two halves, and both agree on what that can give.
#[test]
fn any_program_races_where_the_interpreter_says_so() {
    let (mut runs, mut racy) = (0, 0);
    for seed in 0..PROGRAMS {
        let program = any_program(&mut Rng::with_seed(seed));
        match check(&program, seed, Fault::None) {
            Ok(checked) => {
                runs += checked.runs;
                racy += u64::from(!checked.is_legal);
            }
            Err(error) => fail(seed, &error, &program, |program| {
                check(program, seed, Fault::None).is_err()
            }),
        }
    }
    println!("{PROGRAMS} programs, {racy} of them racy, {runs} runs");
    assert!(racy > PROGRAMS / 2 && racy < PROGRAMS);
}

#[test]
fn every_necessary_edge_is_missed_when_it_is_gone() {
    let (mut removed, mut necessary, mut changed) = (0, 0, 0);
    for seed in 0..PROGRAMS {
        let program = legal_program(&mut Rng::with_seed(seed));
        let right = outcome_in_program_order(&program, &Order::of(&program));
        for index in 0..program.lines.len() {
            if !program.lines[index].is_edge() {
                continue;
            }
            removed += 1;
            let broken = program.without(index);
            if Order::of(&broken).races(&broken).is_empty() {
                continue;
            }
            necessary += 1;
            let last = run(&broken, Schedule::Last, Fault::None);
            changed += u64::from(last.outcome != right);
            if last.reports.is_empty() {
                fail(seed, "the missing edge goes unseen", &broken, |program| {
                    let racy = !Order::of(program).races(program).is_empty();
                    racy && run(program, Schedule::Last, Fault::None).reports.is_empty()
                });
            }
        }
    }
    println!(
        "{PROGRAMS} legal programs, {removed} edges removed one at a time, {necessary} of them necessary: all caught, {changed} with another outcome under last"
    );
    assert!(necessary > PROGRAMS);
}

/// How many of a few programs a check finds fault with.
fn faults_found(mut finds: impl FnMut(&mut Rng, u64) -> bool) -> usize {
    (0..500)
        .filter(|&seed| finds(&mut Rng::with_seed(seed), seed))
        .count()
}

#[test]
fn an_engine_with_a_fault_is_caught() {
    let legal = |fault| faults_found(|rng, seed| check(&legal_program(rng), seed, fault).is_err());
    let any = |fault| faults_found(|rng, seed| check(&any_program(rng), seed, fault).is_err());
    assert_eq!(legal(Fault::None), 0);
    assert_eq!(any(Fault::None), 0);
    // Too little order is a false alarm in a legal program, too much is a race that goes unseen in another.
    for (fault, found) in [
        (Fault::NoLegacyRule, legal(Fault::NoLegacyRule)),
        (Fault::NoWaits, legal(Fault::NoWaits)),
        (Fault::EventsCoverTooMuch, any(Fault::EventsCoverTooMuch)),
        (Fault::EverythingIsOrdered, any(Fault::EverythingIsOrdered)),
        (Fault::SilentKernels, any(Fault::SilentKernels)),
    ] {
        println!("{fault:?}: found by {found} of 500 programs");
        assert!(found >= 5, "{fault:?}: {found}");
    }
}
