//! What the machine reaches at best: plain copies and fills of touched memory, a triad over all
//! threads, and the link by nvbandwidth's method.

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use cudarc::driver::{sys, CudaEvent};
use lab::Gate;

use crate::device::{DeviceMemory, Gpu};
use crate::kind::Direction;
use crate::memory::{Backing, Memory};
use crate::pattern;
use crate::plan::ON_THE_MODEL;
use crate::record::{Ceiling, Status};
use crate::stats::Summary;

/// Timed passes of a host ceiling, after one that is not timed.
const PASSES: usize = 7;
/// An array is this large where memory permits: far more than a processor's caches hold.
const ARRAY: u64 = 256 << 20;
/// nvbandwidth's defaults: bytes of a buffer, copies behind one gate, and samples.
const LINK_BUFFER: u64 = 512 << 20;
const LINK_COPIES: usize = 16;
const LINK_SAMPLES: usize = 3;

/// A host ceiling: its name, what it counts, how many threads.
struct Work {
    name: &'static str,
    description: &'static str,
    /// Bytes that count, as a multiple of an array's.
    counted: u64,
    kernel: fn(&mut [MaybeUninit<u64>], &[u64], &[u64]),
}

const WORKS: [Work; 3] = [
    Work {
        name: "memcpy",
        description: "bytes of the destination over the time of memcpy, both arrays touched (GB/s)",
        counted: 1,
        kernel: |to, from, _| {
            // SAFETY: the arrays have one length and do not overlap.
            unsafe {
                let from = from.as_ptr().cast::<MaybeUninit<u64>>();
                std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len());
            }
        },
    },
    Work {
        name: "memset",
        description: "bytes of the destination over the time of memset, the array touched (GB/s)",
        counted: 1,
        kernel: |to, _, _| {
            // SAFETY: any byte makes a word.
            unsafe { std::ptr::write_bytes(to.as_mut_ptr(), 1, to.len()) };
        },
    },
    Work {
        name: "triad",
        description:
            "bytes of three arrays over the time of a[i] = b[i] + 3 c[i], as STREAM counts (GB/s)",
        counted: 3,
        kernel: |to, b, c| {
            for ((to, b), c) in to.iter_mut().zip(b).zip(c) {
                to.write((f64::from_bits(*b) + 3.0 * f64::from_bits(*c)).to_bits());
            }
        },
    },
];

/// Measures memcpy, memset and triad, each with one thread and with all of them. `largest` limits
/// the size of an array in bytes. `progress` is called once for each.
pub fn host(largest: u64, threads: usize, mut progress: impl FnMut()) -> Result<Vec<Ceiling>> {
    let bytes = ARRAY.min(largest);
    let mut to = touched(bytes)?;
    let [b, c] = [written(bytes)?, written(bytes)?];
    let mut counts = vec![1, threads];
    counts.dedup();
    let mut ceilings = Vec::new();
    for work in &WORKS {
        for &threads in &counts {
            let gb_per_s = run(work, threads, &mut to, &b, &c)?;
            ceilings.push(Ceiling {
                name: work.name.to_owned(),
                status: Status::Passed,
                reason: None,
                bandwidth_description: work.description.to_owned(),
                simulated: false,
                threads,
                buffer_bytes: bytes,
                test_samples: PASSES,
                use_mean: false,
                bandwidth_matrix: None,
                sum: Some(gb_per_s.median),
                gb_per_s: Some(gb_per_s),
            });
            progress();
        }
    }
    Ok(ceilings)
}

/// How many ceilings [`host`] measures.
pub fn host_count(threads: usize) -> usize {
    WORKS.len() * if threads == 1 { 1 } else { 2 }
}

fn run(work: &Work, threads: usize, to: &mut Memory, b: &Memory, c: &Memory) -> Result<Summary> {
    let counted = (work.counted * to.bytes() as u64) as f64;
    // SAFETY: `written` has written every word of both.
    let (b, c) = unsafe { (b.words(), c.words()) };
    let share = b.len().div_ceil(threads);
    let mut samples = Vec::new();
    for _ in 0..=PASSES {
        let start = Instant::now();
        let parts = to.room().chunks_mut(share);
        let parts = parts.zip(b.chunks(share)).zip(c.chunks(share));
        if threads == 1 {
            parts.for_each(|((to, b), c)| (work.kernel)(to, b, c));
        } else {
            thread::scope(|scope| {
                for ((to, b), c) in parts {
                    scope.spawn(|| (work.kernel)(to, b, c));
                }
            });
        }
        let took = start.elapsed();
        black_box(to.room().as_ptr());
        samples.push(counted / took.as_nanos() as f64);
    }
    // The first pass warms up.
    Summary::of(&samples[1..]).context("no pass was timed")
}

fn touched(bytes: u64) -> Result<Memory> {
    let mut memory = Memory::allocate(Backing::Mmap, bytes as usize)?;
    memory.touch(1);
    Ok(memory)
}

/// Memory of which every word is a number that a triad computes with at full speed.
fn written(bytes: u64) -> Result<Memory> {
    let mut memory = Memory::allocate(Backing::Mmap, bytes as usize)?;
    for word in memory.room() {
        word.write(1.5_f64.to_bits());
    }
    Ok(memory)
}

/// nvbandwidth's names for the link's ceilings, with copy engines and one device.
const LINKS: [(&str, Direction); 3] = [
    ("host_to_device_memcpy_ce", Direction::HostToDevice),
    ("device_to_host_memcpy_ce", Direction::DeviceToHost),
    (
        "device_to_host_bidirectional_memcpy_ce",
        Direction::BothWays,
    ),
];

/// Measures the link as nvbandwidth does: pinned memory, copies queued behind a gate, and the
/// device's own clock from before the first to after the last. No allocation, no fault and no call
/// is in that time. A link that cannot be measured is waived.
pub fn link(gpu: &Gpu, largest: u64) -> Vec<Ceiling> {
    let largest = match gpu.about.simulated {
        true => ON_THE_MODEL.into_iter().max().unwrap_or(largest),
        false => largest,
    };
    let bytes = LINK_BUFFER.min(largest);
    let measure = |(name, direction): (&str, Direction)| {
        let mut ceiling = without_figures(name, gpu.about.simulated, bytes);
        match link_samples(gpu, direction, bytes as usize) {
            Ok(gb_per_s) => {
                ceiling.sum = Some(gb_per_s.median);
                ceiling.bandwidth_matrix = Some(vec![vec![format!("{:.2}", gb_per_s.median)]]);
                ceiling.gb_per_s = Some(gb_per_s);
            }
            Err(error) => {
                ceiling.status = Status::Waived;
                ceiling.reason = Some(format!("{error:#}"));
                ceiling.test_samples = 0;
            }
        }
        ceiling
    };
    LINKS.map(measure).into()
}

/// The link's ceilings where there is no link.
pub fn no_link(reason: &str) -> Vec<Ceiling> {
    let waived = |(name, _): (&str, Direction)| Ceiling {
        status: Status::Waived,
        reason: Some(reason.to_owned()),
        test_samples: 0,
        ..without_figures(name, false, LINK_BUFFER)
    };
    LINKS.map(waived).into()
}

fn without_figures(name: &str, simulated: bool, bytes: u64) -> Ceiling {
    Ceiling {
        name: name.to_owned(),
        status: Status::Passed,
        reason: None,
        bandwidth_description: "bytes of the copies over the device's time, queued behind a gate; \
                                of two directions the one to the host is counted (GB/s)"
            .to_owned(),
        simulated,
        threads: 1,
        buffer_bytes: bytes,
        test_samples: LINK_SAMPLES,
        use_mean: false,
        bandwidth_matrix: None,
        sum: None,
        gb_per_s: None,
    }
}

fn link_samples(gpu: &Gpu, direction: Direction, bytes: usize) -> Result<Summary> {
    let context = gpu.context()?;
    let [mut down, mut up] = [
        Memory::allocate(Backing::Pinned, bytes)?,
        Memory::allocate(Backing::Pinned, bytes)?,
    ];
    down.touch(1);
    pattern::fill(up.room(), 1, 0);
    let [source, target] = [
        DeviceMemory::allocate(bytes)?,
        DeviceMemory::allocate(bytes)?,
    ];
    // SAFETY: both are alive, the upload's source was filled, and the wait comes next.
    unsafe { source.upload(0, up.start(), bytes, gpu.stream(0))? };
    gpu.wait(2)?;
    let event = || {
        context
            .new_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT))
            .context("creating an event")
    };
    let mut samples = Vec::new();
    // One sample more than is used: it warms up.
    for _ in 0..=LINK_SAMPLES {
        let [start, end] = [event()?, event()?];
        let gate = Gate::close(gpu.stream(0))?;
        start.record(gpu.stream(0))?;
        // The second stream begins and ends with the first one.
        gpu.stream(1).wait(&start)?;
        for _ in 0..LINK_COPIES {
            // SAFETY: all four buffers outlive the wait below, and the sources were written.
            unsafe {
                if direction != Direction::HostToDevice {
                    source.download(0, down.start(), bytes, gpu.stream(0))?;
                }
                match direction {
                    Direction::BothWays => target.upload(0, up.start(), bytes, gpu.stream(1))?,
                    Direction::HostToDevice => {
                        target.upload(0, up.start(), bytes, gpu.stream(0))?
                    }
                    _ => {}
                }
            }
        }
        end.record(gpu.stream(0))?;
        gate.open();
        gpu.wait(2)?;
        samples.push((LINK_COPIES * bytes) as f64 / nanoseconds(&start, &end)?);
    }
    if direction != Direction::HostToDevice {
        // SAFETY: the downloads have written every word and were waited for.
        let wrong = pattern::first_difference(unsafe { down.words() }, 1, 0);
        anyhow::ensure!(wrong.is_none(), "the copies brought wrong data");
    }
    Summary::of(&samples[1..]).context("no sample was taken")
}

fn nanoseconds(start: &CudaEvent, end: &CudaEvent) -> Result<f64> {
    let milliseconds = start
        .elapsed_ms(end)
        .context("reading the device's clock")?;
    anyhow::ensure!(milliseconds > 0.0, "the device's clock stood still");
    Ok(f64::from(milliseconds) * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_measured_with_one_thread_and_with_all() {
        let mut steps = 0;
        let ceilings = host(1 << 20, 2, || steps += 1).unwrap();
        assert_eq!((ceilings.len(), steps), (6, host_count(2)));
        for ceiling in ceilings {
            assert!(ceiling.sum.is_some_and(|sum| sum > 0.0), "{ceiling:?}");
        }
    }

    #[test]
    fn a_triad_computes_what_it_says() {
        let [mut to, b, c] = [
            touched(4096).unwrap(),
            written(4096).unwrap(),
            written(4096).unwrap(),
        ];
        let triad = &WORKS[2];
        run(triad, 2, &mut to, &b, &c).unwrap();
        // SAFETY: the triad has written every word.
        let words = unsafe { to.words() };
        assert!(words.iter().all(|word| f64::from_bits(*word) == 6.0));
    }

    #[test]
    fn without_a_link_each_of_its_ceilings_is_waived() {
        let waived = no_link("no device");
        assert_eq!(waived.len(), 3);
        assert!(waived
            .iter()
            .all(|it| it.status == Status::Waived && it.sum.is_none()));
    }
}
