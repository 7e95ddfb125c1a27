//! The result in sentences, computed from the figures. What is simulated has no say in it.

use crate::format::{bytes, percent, seconds, times};
use crate::kind::Direction;
use crate::record::{Ceiling, Figures, Phase, Record, Testcase};

/// The buffer size at which allocators are compared, in bytes: the one of PyTorch users' tensors
/// that glibc takes straight from the kernel.
const ALLOCATOR_BYTES: u64 = 64 << 20;

/// The sentences for a record whose other fields are complete.
pub fn verdict(record: &Record) -> Vec<String> {
    // In an upload the time of a fresh source holds the filling of it, which a reused one needs, too.
    let directions = [Direction::DeviceToHost, Direction::HostToHost];
    let real: Vec<&Testcase> = record
        .testcases
        .iter()
        .filter(|case| !case.simulated)
        .collect();
    let mut sentences: Vec<String> = directions
        .into_iter()
        .flat_map(|direction| of_direction(&real, direction))
        .collect();
    sentences.extend(of_link(&real, &record.ceilings));
    if record.counts.simulated > 0 {
        sentences.push(format!(
            "{} cases went over the simulated link of the driver model; their durations say nothing about hardware and are left out here.",
            record.counts.simulated
        ));
    }
    if record.counts.failed > 0 {
        sentences.push(format!(
            "{} cases failed; this machine should not be trusted before they are understood.",
            record.counts.failed
        ));
    }
    if record.interrupted {
        sentences
            .push("The run was interrupted; these are the cases that were complete.".to_owned());
    }
    sentences
}

/// Looks up the figures of a case by the end of its name and its size.
struct Lookup<'a> {
    cases: &'a [&'a Testcase],
    direction: Direction,
}

impl<'a> Lookup<'a> {
    fn get(&self, kind: &str, size: u64) -> Option<&'a Figures> {
        let name = format!("{}/{kind}", self.direction.word());
        let is_it = |case: &&&Testcase| case.name == name && case.buffer_bytes == size;
        self.cases.iter().find(is_it)?.figures.as_ref()
    }

    /// The largest size at which all these kinds have figures.
    fn largest(&self, kinds: &[&str]) -> Option<u64> {
        let sizes = self.cases.iter().map(|case| case.buffer_bytes);
        let complete = |size: &u64| kinds.iter().all(|kind| self.get(kind, *size).is_some());
        sizes.filter(complete).max()
    }
}

fn of_direction(cases: &[&Testcase], direction: Direction) -> Vec<String> {
    let lookup = Lookup { cases, direction };
    let parts = [
        fresh_against_reused(&lookup),
        threads(&lookup),
        huge_pages(&lookup),
        pinned(&lookup),
        allocators(&lookup),
    ];
    parts.into_iter().flatten().collect()
}

fn of_what(direction: Direction) -> &'static str {
    match direction {
        Direction::DeviceToHost => "A download",
        _ => "A copy within host memory",
    }
}

fn fresh_against_reused(lookup: &Lookup) -> Option<String> {
    let (fresh, reused) = ("fresh_pageable", "reused_pageable");
    let size = lookup.largest(&[fresh, reused])?;
    let slow = lookup.get(fresh, size)?.total_ns.median;
    let fast = lookup.get(reused, size)?.total_ns.median;
    let mut sentence = format!(
        "{} of {} with a fresh destination costs {} a reused one here: {} against {}",
        of_what(lookup.direction),
        bytes(size),
        times(slow / fast),
        seconds(slow),
        seconds(fast),
    );
    if let Some(apart) = lookup.get("prefaulted_1_thread", size) {
        let touch = apart.phases.get(&Phase::Touch)?.ns;
        sentence.push_str(&format!(
            "; with the first touch timed apart, it is {} of the whole",
            percent(touch / apart.total_ns.median)
        ));
    }
    Some(sentence + ".")
}

fn threads(lookup: &Lookup) -> Option<String> {
    let one = "prefaulted_1_thread";
    let most = lookup
        .cases
        .iter()
        .filter(|case| case.direction == lookup.direction)
        .filter_map(|case| case.threads)
        .max()
        .filter(|&threads| threads > 1)?;
    let many = format!("prefaulted_{most}_threads");
    let size = lookup.largest(&[one, &many])?;
    let touch = |kind: &str| Some(lookup.get(kind, size)?.phases.get(&Phase::Touch)?.ns);
    Some(format!(
        "{most} threads touch {} {} as fast as one.",
        bytes(size),
        times(touch(one)? / touch(&many)?)
    ))
}

fn huge_pages(lookup: &Lookup) -> Option<String> {
    let (huge, base) = ("transparent_huge_pages", "base_pages");
    let size = lookup.largest(&[huge, base])?;
    let (huge, base) = (lookup.get(huge, size)?, lookup.get(base, size)?);
    if huge.minor_faults.median >= base.minor_faults.median {
        return Some(format!(
            "Asked for transparent huge pages, the kernel gives none for {}.",
            bytes(size)
        ));
    }
    Some(format!(
        "With transparent huge pages a fresh {} takes {:.0} page faults instead of {:.0}, and {} instead of {}.",
        bytes(size),
        huge.minor_faults.median,
        base.minor_faults.median,
        seconds(huge.total_ns.median),
        seconds(base.total_ns.median),
    ))
}

fn pinned(lookup: &Lookup) -> Option<String> {
    let (fresh, reused) = ("fresh_pinned", "reused_pinned");
    let size = lookup.largest(&[fresh, reused])?;
    let slow = lookup.get(fresh, size)?.total_ns.median;
    let fast = lookup.get(reused, size)?.total_ns.median;
    Some(format!(
        "{} of {} with freshly allocated pinned memory costs {} a reused one.",
        of_what(lookup.direction),
        bytes(size),
        times(slow / fast)
    ))
}

fn allocators(lookup: &Lookup) -> Option<String> {
    let faults = |allocator: &str| {
        let figures = lookup.get(&format!("fresh_pageable_{allocator}"), ALLOCATOR_BYTES)?;
        Some(format!(
            "{:.0} with {allocator}",
            figures.minor_faults.median
        ))
    };
    let [glibc, mimalloc, jemalloc] = ["glibc", "mimalloc", "jemalloc"].map(faults);
    Some(format!(
        "Page faults when {} are allocated, filled and freed again: {}, {}, {}.",
        bytes(ALLOCATOR_BYTES),
        glibc?,
        mimalloc?,
        jemalloc?
    ))
}

fn of_link(cases: &[&Testcase], ceilings: &[Ceiling]) -> Option<String> {
    let ceiling = ceilings
        .iter()
        .find(|it| it.name == "device_to_host_memcpy_ce" && !it.simulated)?
        .sum?;
    let lookup = Lookup {
        cases,
        direction: Direction::DeviceToHost,
    };
    let size = lookup.largest(&["fresh_pageable"])?;
    let fresh = lookup.get("fresh_pageable", size)?.gb_per_s.median;
    Some(format!(
        "The link carries {ceiling:.1} GB/s to the host by nvbandwidth's method; a fresh pageable destination gets {} of it.",
        percent(fresh / ceiling)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    fn cases(direction: Direction) -> Vec<Testcase> {
        vec![
            fixture::case(direction, "fresh_pageable", 640.0, 0.0),
            fixture::case(direction, "reused_pageable", 100.0, 0.0),
            fixture::case(direction, "prefaulted_1_thread", 600.0, 480.0),
        ]
    }

    #[test]
    fn the_ratio_and_the_share_are_computed() {
        assert_eq!(
            verdict(&fixture::record(cases(Direction::DeviceToHost))),
            [
                "A download of 64 MiB with a fresh destination costs 6.4 times a reused one here: \
              640 ns against 100 ns; with the first touch timed apart, it is 80 % of the whole."
            ]
        );
    }

    #[test]
    fn what_is_simulated_has_no_say() {
        let mut cases = cases(Direction::DeviceToHost);
        for case in &mut cases {
            case.simulated = true;
        }
        let sentences = verdict(&fixture::record(cases));
        assert_eq!(sentences.len(), 1);
        assert!(sentences[0].starts_with("3 cases went over the simulated link"));
    }

    #[test]
    fn without_figures_there_is_no_sentence() {
        assert_eq!(verdict(&fixture::record(Vec::new())), Vec::<String>::new());
    }
}
