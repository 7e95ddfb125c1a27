//! What a program can do, found without the engine and without its ideas: a set of ancestors for every line, and every
//! order of steps tried.

use std::collections::{BTreeSet, HashSet};

use crate::program::{Kind, Line, Program, Span, BUFFERS, CELLS, STREAMS};

/// For each line, the lines that are complete before it starts.
pub struct Order {
    pub before: Vec<BTreeSet<usize>>,
}

impl Order {
    pub fn of(program: &Program) -> Order {
        let mut before: Vec<BTreeSet<usize>> = Vec::new();
        let mut last_of_stream: [Option<usize>; STREAMS] = [None; STREAMS];
        let mut last_of_host: Option<usize> = None;
        let mut recorded: Vec<Option<usize>> = vec![None; program.events()];
        for (index, line) in program.lines.iter().enumerate() {
            // What the host has done is done before it makes the next call.
            let mut direct: Vec<Option<usize>> = vec![last_of_host];
            match *line {
                Line::Copy { stream, .. }
                | Line::Kernel { stream, .. }
                | Line::Fill { stream, .. }
                | Line::Record { stream, .. }
                | Line::Wait { stream, .. } => {
                    direct.push(last_of_stream[stream]);
                    direct.extend(
                        (0..STREAMS)
                            .filter(|&other| ordered_by_legacy_rule(program, stream, other))
                            .map(|other| last_of_stream[other]),
                    );
                }
                Line::SyncStream(stream) => {
                    direct.push(last_of_stream[stream]);
                    if program.kinds[stream] == Kind::Legacy {
                        direct.extend(
                            (0..STREAMS)
                                .filter(|&other| program.kinds[other] == Kind::Blocking)
                                .map(|other| last_of_stream[other]),
                        );
                    }
                }
                Line::SyncContext => direct.extend(last_of_stream),
                Line::SyncEvent(_) | Line::Load(_) | Line::Store(..) => (),
            }
            match *line {
                Line::Wait { event, .. } | Line::SyncEvent(event) => direct.push(recorded[event]),
                Line::Record { event, .. } => recorded[event] = Some(index),
                _ => (),
            }
            let mut ancestors = BTreeSet::new();
            for line in direct.into_iter().flatten() {
                ancestors.extend(&before[line]);
                ancestors.insert(line);
            }
            before.push(ancestors);
            match line.stream() {
                Some(stream) => last_of_stream[stream] = Some(index),
                None => last_of_host = Some(index),
            }
        }
        Order { before }
    }

    /// The pairs of lines, earlier line first, that touch the same bytes, not both reading, and that nothing orders.
    pub fn races(&self, program: &Program) -> BTreeSet<(usize, usize)> {
        let mut races = BTreeSet::new();
        for (b, later) in program.lines.iter().enumerate() {
            for (a, earlier) in program.lines[..b].iter().enumerate() {
                if !self.before[b].contains(&a) && conflict(*earlier, *later) {
                    races.insert((a, b));
                }
            }
        }
        races
    }
}

/// Does an operation of `stream` come after what is in `other` (the legacy default stream's rule)?
fn ordered_by_legacy_rule(program: &Program, stream: usize, other: usize) -> bool {
    matches!(
        (program.kinds[stream], program.kinds[other]),
        (Kind::Legacy, Kind::Blocking) | (Kind::Blocking, Kind::Legacy)
    )
}

fn conflict(a: Line, b: Line) -> bool {
    a.accesses().into_iter().any(|(span, writes)| {
        b.accesses()
            .into_iter()
            .any(|(other, also_writes)| (writes || also_writes) && span.overlaps(other))
    })
}

/// All bytes of all buffers.
pub type Memory = [u8; BUFFERS * CELLS];

/// Every byte different.
pub fn initial_memory() -> Memory {
    std::array::from_fn(|index| index as u8)
}

/// What can be seen of a run: the memory at its end, and what the host loaded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Outcome {
    pub memory: Memory,
    pub loads: Vec<u8>,
}

/// One indivisible step of a line.
#[derive(Clone, Copy)]
enum Step {
    Move { from: Span, to: Span },
    Fill { to: Span, value: u8 },
    Load(usize),
    Store(usize, u8),
}

/// How many pieces a copy or a memset is performed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pieces {
    One,
    Two,
}

/// The outcomes of all orders of steps, or nothing when that is too many states.
pub fn outcomes(
    program: &Program,
    order: &Order,
    pieces: Pieces,
    most_states: usize,
) -> Option<BTreeSet<Outcome>> {
    let (steps, after) = steps_of(program, order, pieces);
    let all = (1u64 << steps.len()) - 1;
    let start = Outcome {
        memory: initial_memory(),
        loads: Vec::new(),
    };
    let mut found = BTreeSet::new();
    let mut seen = HashSet::from([(0u64, start.clone())]);
    let mut stack = vec![(0u64, start)];
    while let Some((done, state)) = stack.pop() {
        if done == all {
            found.insert(state);
            continue;
        }
        for (index, step) in steps.iter().enumerate() {
            if done & 1 << index != 0 || after[index] & !done != 0 {
                continue;
            }
            let next = (done | 1 << index, perform(&state, *step));
            if seen.insert(next.clone()) {
                if seen.len() > most_states {
                    return None;
                }
                stack.push(next);
            }
        }
    }
    Some(found)
}

/// The outcome of the order in which the program is written.
pub fn outcome_in_program_order(program: &Program, order: &Order) -> Outcome {
    let (steps, _) = steps_of(program, order, Pieces::One);
    let start = Outcome {
        memory: initial_memory(),
        loads: Vec::new(),
    };
    steps
        .iter()
        .fold(start, |state, step| perform(&state, *step))
}

/// The steps of a program, and for each one the steps that must be done before it, as bits.
fn steps_of(program: &Program, order: &Order, pieces: Pieces) -> (Vec<Step>, Vec<u64>) {
    let mut steps = Vec::new();
    let mut after = Vec::new();
    // The steps of each line, as bits.
    let mut of_line: Vec<u64> = Vec::new();
    for (index, line) in program.lines.iter().enumerate() {
        let ancestors = order.before[index]
            .iter()
            .fold(0, |bits, &line| bits | of_line[line]);
        let mut own = 0;
        for step in split(*line, pieces) {
            assert!(steps.len() < 63, "the program is too long to be tried");
            after.push(ancestors | own);
            own |= 1 << steps.len();
            steps.push(step);
        }
        of_line.push(own);
    }
    (steps, after)
}

fn split(line: Line, pieces: Pieces) -> Vec<Step> {
    let parts = |span: Span| match pieces {
        Pieces::One => vec![span],
        Pieces::Two => {
            let half = span.len / 2;
            let (first, second) = (
                Span { len: half, ..span },
                Span {
                    start: span.start + half,
                    len: span.len - half,
                    ..span
                },
            );
            vec![first, second]
        }
    };
    match line {
        Line::Copy { from, to, .. } => parts(from)
            .into_iter()
            .zip(parts(to))
            .map(|(from, to)| Step::Move { from, to })
            .collect(),
        Line::Kernel { from, to, .. } => vec![Step::Move { from, to }],
        Line::Fill { to, value, .. } => parts(to)
            .into_iter()
            .map(|to| Step::Fill { to, value })
            .collect(),
        Line::Load(cell) => vec![Step::Load(cell)],
        Line::Store(cell, value) => vec![Step::Store(cell, value)],
        _ => Vec::new(),
    }
}

fn perform(state: &Outcome, step: Step) -> Outcome {
    let mut next = state.clone();
    let pinned = |cell| (BUFFERS - 1) * CELLS + cell;
    match step {
        Step::Move { from, to } => {
            let source = from.buffer * CELLS + from.start;
            let destination = to.buffer * CELLS + to.start;
            next.memory
                .copy_within(source..source + from.len, destination);
        }
        Step::Fill { to, value } => {
            let start = to.buffer * CELLS + to.start;
            next.memory[start..start + to.len].fill(value);
        }
        Step::Load(cell) => next.loads.push(next.memory[pinned(cell)]),
        Step::Store(cell, value) => next.memory[pinned(cell)] = value,
    }
    next
}
