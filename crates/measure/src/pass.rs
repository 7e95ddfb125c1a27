//! One case: the passes over it, each phase with a clock and a fault counter of its own.

use std::collections::BTreeMap;
use std::ptr::{self, NonNull};
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use lab::{Faults, VmStat};

use crate::counters;
use crate::device::{DeviceMemory, Gpu};
use crate::kind::Direction;
use crate::machine::Node;
use crate::memory::{Backing, Memory};
use crate::numa;
use crate::pattern;
use crate::plan::Case;
use crate::record::{Figures, Phase, PhaseFigures};
use crate::stats::Summary;

/// Timed passes of a case: at least so many, ...
pub const FEWEST: usize = 3;
/// ... at most so many, ...
pub const MOST: usize = 9;
/// ... and between the two until they have taken so long together.
pub const ENOUGH: Duration = Duration::from_millis(500);
/// How many pages are looked up on their NUMA nodes.
const PAGES_LOOKED_UP: usize = 1024;

/// How a case ended.
#[derive(Debug)]
pub enum Outcome {
    /// The figures, and from how many timed passes they are.
    Passed(Box<Figures>, usize),
    /// The machine lacks something.
    Waived(String),
    /// The data was wrong, or a call failed after the first one had worked.
    Failed(String),
    /// Interrupted before the first timed pass was complete.
    NotBegun,
}

/// What all cases share.
pub struct Bench<'a> {
    /// The device, unless only the host is measured.
    pub gpu: Option<&'a Gpu>,
    /// The nodes of the machine.
    pub nodes: &'a [Node],
    /// Says whether the user wants the run to end.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Is told after each pass which part of the case is done, at most 1.
    pub progress: &'a dyn Fn(f64),
}

impl Bench<'_> {
    /// Measures one case.
    pub fn measure(&self, case: &Case) -> Outcome {
        let mut setup = match self.prepare(case) {
            Ok(setup) => setup,
            Err(error) => return Outcome::Waived(format!("{error:#}")),
        };
        match self.passes(case, &mut setup) {
            Ok(Some((figures, passes))) => Outcome::Passed(Box::new(figures), passes),
            Ok(None) => Outcome::NotBegun,
            Err(error) => Outcome::Failed(format!("{error:#}")),
        }
    }

    /// Gets everything that outlives a pass, and one piece of the memory that a pass allocates:
    /// what fails here, the machine lacks.
    fn prepare(&self, case: &Case) -> Result<Setup> {
        let recipe = case.kind.recipe();
        let (bytes, whole) = (case.bytes as usize, case.bytes_of_pass());
        if let Backing::Node(node) = recipe.backing {
            ensure_room(self.nodes, node, whole)?;
        }
        if let Some(gpu) = self.gpu {
            gpu.context()?;
        }
        let mut source = Memory::allocate(Backing::Mmap, whole)?;
        source.touch(1);
        let mut trial = Memory::allocate(recipe.backing, bytes)?;
        if recipe.registered {
            trial.touch(1);
            trial.register()?;
        }
        drop(trial);
        let mut kept = Vec::new();
        if recipe.reused {
            for _ in 0..case.buffers() {
                let mut memory = Memory::allocate(recipe.backing, bytes)?;
                memory.touch(recipe.touched_by);
                kept.push(memory);
            }
        }
        let on_device = match self.gpu {
            Some(_) => Some(DeviceMemory::allocate(whole)?),
            None => None,
        };
        let upload = match case.direction {
            Direction::BothWays => Some((
                Memory::allocate(recipe.backing, whole)?,
                DeviceMemory::allocate(whole)?,
            )),
            _ => None,
        };
        Ok(Setup {
            source,
            kept,
            on_device,
            upload,
        })
    }

    fn passes(&self, case: &Case, setup: &mut Setup) -> Result<Option<(Figures, usize)>> {
        let mut timed: Vec<Pass> = Vec::new();
        let mut spent = Duration::ZERO;
        // The first pass is the warm-up; its seed, like every other, is used once.
        let warm_up = self.pass(case, setup, 1)?;
        (self.progress)(1.0 / (FEWEST + 1) as f64);
        let before = VmStat::now().ok();
        // An odd number of passes has one in the middle.
        let too_few = |made: usize, spent| {
            made < FEWEST || made.is_multiple_of(2) || (made < MOST && spent < ENOUGH)
        };
        while too_few(timed.len(), spent) {
            if (self.interrupted)() {
                break;
            }
            let pass = self.pass(case, setup, 2 + timed.len() as u64)?;
            spent += pass.total;
            timed.push(pass);
            (self.progress)((timed.len() + 1) as f64 / (FEWEST + 1) as f64);
        }
        let after = VmStat::now().ok();
        if timed.is_empty() {
            return Ok(None);
        }
        let vmstat = before.zip(after);
        let vmstat = vmstat.map(|(before, after)| counters::rises(&before, &after));
        let figures = figures(case, &warm_up, &timed, vmstat)?;
        Ok(Some((figures, timed.len())))
    }

    fn pass(&self, case: &Case, setup: &mut Setup, seed: u64) -> Result<Pass> {
        let recipe = case.kind.recipe();
        let bytes = case.bytes as usize;
        let fills = case.direction == Direction::HostToDevice;
        self.renew(case, setup, seed)?;
        let mut pass = Pass::default();
        let mut fresh: Vec<Memory> = Vec::with_capacity(case.buffers());

        let whole = Instant::now();
        if !recipe.reused {
            pass.time(Phase::Allocate, || {
                for _ in 0..case.buffers() {
                    fresh.push(Memory::allocate(recipe.backing, bytes)?);
                }
                Ok(())
            })?;
            if fills {
                pass.time(Phase::Touch, || {
                    fill(&mut fresh, seed);
                    Ok(())
                })?;
            } else if recipe.touched_by > 0 {
                pass.time(Phase::Touch, || {
                    fresh
                        .iter_mut()
                        .for_each(|memory| memory.touch(recipe.touched_by));
                    Ok(())
                })?;
            }
            if recipe.registered {
                pass.time(Phase::Register, || {
                    fresh.iter_mut().try_for_each(Memory::register)
                })?;
            }
        }
        let buffers = if recipe.reused { &setup.kept } else { &fresh };
        pass.time(Phase::Copy, || self.copy(case, setup, buffers))?;
        pass.total = whole.elapsed();

        // Not timed: neither looking up pages nor verification is part of a copy.
        let starts: Vec<NonNull<u8>> = buffers.iter().map(Memory::start).collect();
        pass.nodes = numa::nodes_of_pages(&starts, bytes, PAGES_LOOKED_UP).ok();
        self.verify(case, setup, &fresh, seed)?;

        if !recipe.reused {
            let rest = Instant::now();
            pass.time(Phase::Free, || {
                drop(fresh);
                Ok(())
            })?;
            pass.total += rest.elapsed();
        }
        Ok(pass)
    }

    /// Puts the pattern of this pass where the copy takes its bytes from.
    fn renew(&self, case: &Case, setup: &mut Setup, seed: u64) -> Result<()> {
        let whole = setup.source.bytes();
        if case.direction == Direction::HostToDevice {
            fill(&mut setup.kept, seed);
            return Ok(());
        }
        pattern::fill(setup.source.room(), seed, 0);
        if let (Some(gpu), Some(device)) = (self.gpu, &setup.on_device) {
            // SAFETY: the source was just filled, and the wait comes before anything else.
            unsafe { device.upload(0, setup.source.start(), whole, gpu.stream(0))? };
            gpu.wait(1)?;
        }
        if let Some((memory, _)) = &mut setup.upload {
            pattern::fill(memory.room(), seed, 0);
        }
        Ok(())
    }

    /// The copy of every buffer, each complete before the next begins, as with `tensor.cpu()`.
    fn copy(&self, case: &Case, setup: &Setup, buffers: &[Memory]) -> Result<()> {
        for (index, buffer) in buffers.iter().enumerate() {
            let offset = index * buffer.bytes();
            match self.gpu {
                None => {
                    let from = setup.source.start().as_ptr().wrapping_add(offset);
                    // SAFETY: the source holds all buffers of a pass one after the other, and is
                    // other memory than this buffer.
                    unsafe {
                        ptr::copy_nonoverlapping(from, buffer.start().as_ptr(), buffer.bytes())
                    };
                }
                Some(gpu) => {
                    self.queue(gpu, case, setup, buffer, offset)?;
                    gpu.wait(case.streams)?;
                }
            }
        }
        Ok(())
    }

    fn queue(
        &self,
        gpu: &Gpu,
        case: &Case,
        setup: &Setup,
        buffer: &Memory,
        offset: usize,
    ) -> Result<()> {
        let device = setup.on_device.as_ref().context("no device memory")?;
        if let Some((memory, target)) = &setup.upload {
            let from = at(memory, offset);
            // SAFETY: both buffers outlive the wait that follows, and the source was filled.
            unsafe {
                device.download(offset, buffer.start(), buffer.bytes(), gpu.stream(0))?;
                target.upload(offset, from, buffer.bytes(), gpu.stream(1))?;
            }
            return Ok(());
        }
        let part = buffer.bytes() / case.streams;
        for stream in 0..case.streams {
            let (start, place) = (at(buffer, stream * part), offset + stream * part);
            // SAFETY: as above; the parts do not overlap, and 4 KiB is a multiple of two parts.
            unsafe {
                match case.direction {
                    Direction::HostToDevice => {
                        device.upload(place, start, part, gpu.stream(stream))?
                    }
                    _ => device.download(place, start, part, gpu.stream(stream))?,
                }
            }
        }
        Ok(())
    }

    /// Every byte is where it belongs, and is of this pass.
    fn verify(&self, case: &Case, setup: &mut Setup, fresh: &[Memory], seed: u64) -> Result<()> {
        if case.direction != Direction::HostToDevice {
            let buffers = if setup.kept.is_empty() {
                fresh
            } else {
                &setup.kept
            };
            for (index, buffer) in buffers.iter().enumerate() {
                // SAFETY: the copy has written every byte and has been waited for.
                check(unsafe { buffer.words() }, seed, index * buffer.bytes() / 8)?;
            }
        }
        let uploaded = match (case.direction, &setup.upload) {
            (Direction::HostToDevice, _) => setup.on_device.as_ref(),
            (_, Some((_, target))) => Some(target),
            _ => None,
        };
        if let (Some(gpu), Some(device)) = (self.gpu, uploaded) {
            // What is there now must not look like what ought to arrive.
            pattern::fill(setup.source.room(), 0, 0);
            let whole = setup.source.bytes();
            // SAFETY: the source has room for the whole, and the wait comes before it is read.
            unsafe { device.download(0, setup.source.start(), whole, gpu.stream(0))? };
            gpu.wait(1)?;
            // SAFETY: every byte was written, above and by the download.
            check(unsafe { setup.source.words() }, seed, 0)?;
        }
        Ok(())
    }
}

/// What outlives a pass.
struct Setup {
    /// What the copy must bring, in the order of the buffers; touched.
    source: Memory,
    /// The buffers that all passes use, if they do.
    kept: Vec<Memory>,
    /// The other end of the link.
    on_device: Option<DeviceMemory>,
    /// Source and target of the upload beside a download.
    upload: Option<(Memory, DeviceMemory)>,
}

/// The figures of one pass, for all of its buffers together.
#[derive(Debug, Default)]
struct Pass {
    total: Duration,
    phases: BTreeMap<Phase, (Duration, Faults)>,
    nodes: Option<BTreeMap<String, u64>>,
}

impl Pass {
    /// Runs a phase. Reading the fault counter is in its time: a fraction of a microsecond, in a
    /// pass that handles at least 1 MiB.
    fn time(&mut self, phase: Phase, run: impl FnOnce() -> Result<()>) -> Result<()> {
        let start = Instant::now();
        let before = Faults::now()?;
        run()?;
        let faults = Faults::now()?.since(&before);
        self.phases.insert(phase, (start.elapsed(), faults));
        Ok(())
    }

    fn faults(&self, of: impl Fn(&Faults) -> u64) -> f64 {
        self.phases
            .values()
            .map(|(_, faults)| of(faults) as f64)
            .sum()
    }

    /// The share of the total that belongs to no phase: what lies between two of them.
    fn unaccounted_share(&self) -> f64 {
        let phases: Duration = self.phases.values().map(|(took, _)| *took).sum();
        1.0 - phases.as_secs_f64() / self.total.as_secs_f64()
    }
}

fn at(memory: &Memory, offset: usize) -> NonNull<u8> {
    debug_assert!(offset <= memory.bytes());
    // SAFETY: the offset lies within the memory.
    unsafe { memory.start().add(offset) }
}

fn fill(buffers: &mut [Memory], seed: u64) {
    let mut place = 0;
    for buffer in buffers {
        let room = buffer.room();
        pattern::fill(room, seed, place);
        place += room.len();
    }
}

fn check(words: &[u64], seed: u64, first: usize) -> Result<()> {
    match pattern::first_difference(words, seed, first) {
        None => Ok(()),
        Some(index) => anyhow::bail!(
            "the copy brought wrong data: byte {} is not what was sent",
            (first + index) * 8
        ),
    }
}

/// A full node would not refuse memory that is bound to it; the kernel would kill the process.
fn ensure_room(nodes: &[Node], node: u32, bytes: usize) -> Result<()> {
    let free = nodes
        .iter()
        .find(|it| it.id == node)
        .and_then(|it| it.free_bytes);
    let free =
        free.with_context(|| format!("how much of NUMA node {node} is free is not known"))?;
    ensure!(
        free / 2 > bytes as u64,
        "NUMA node {node} has {free} bytes free, and twice {bytes} would be safe"
    );
    Ok(())
}

fn figures(
    case: &Case,
    warm_up: &Pass,
    passes: &[Pass],
    vmstat: Option<BTreeMap<String, i64>>,
) -> Result<Figures> {
    let buffers = case.buffers() as f64;
    let summary = |of: &dyn Fn(&Pass) -> f64| {
        let samples: Vec<f64> = passes.iter().map(of).collect();
        Summary::of(&samples).context("no pass was timed")
    };
    let ns = |took: Duration| took.as_nanos() as f64 / buffers;
    let both = if case.direction == Direction::BothWays {
        2
    } else {
        1
    };
    let bytes = (both * case.bytes) as f64;
    let mut by_total: Vec<&Pass> = passes.iter().collect();
    by_total.sort_by_key(|pass| pass.total);
    let middle = by_total[by_total.len() / 2];
    let mut phases = BTreeMap::new();
    for phase in warm_up.phases.keys() {
        let took = |pass: &Pass| ns(pass.phases[phase].0);
        let faults = |pass: &Pass| pass.phases[phase].1.minor as f64 / buffers;
        phases.insert(
            *phase,
            PhaseFigures {
                ns: took(middle),
                over_passes: summary(&took)?,
                minor_faults: summary(&faults)?.median,
            },
        );
    }
    Ok(Figures {
        gb_per_s: summary(&|pass| bytes / ns(pass.total))?,
        total_ns: summary(&|pass| ns(pass.total))?,
        phases,
        unaccounted_share: middle.unaccounted_share(),
        warm_up_ns: ns(warm_up.total),
        minor_faults: summary(&|pass| pass.faults(|faults| faults.minor) / buffers)?,
        major_faults: summary(&|pass| pass.faults(|faults| faults.major) / buffers)?,
        vmstat,
        pages_on_nodes: passes.last().and_then(|pass| pass.nodes.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{Allocator, Kind};

    fn bench(interrupted: &dyn Fn() -> bool) -> Bench<'_> {
        Bench {
            gpu: None,
            nodes: &[],
            interrupted,
            progress: &|_| {},
        }
    }

    fn case(kind: Kind, bytes: usize) -> Case {
        Case {
            direction: Direction::HostToHost,
            kind,
            streams: 1,
            bytes: bytes as u64,
        }
    }

    fn measured(kind: Kind, bytes: usize) -> Figures {
        match bench(&|| false).measure(&case(kind, bytes)) {
            Outcome::Passed(figures, passes) => {
                assert!((FEWEST..=MOST).contains(&passes));
                *figures
            }
            other => panic!("{kind}: {other:?}"),
        }
    }

    fn phases(figures: &Figures) -> Vec<Phase> {
        figures.phases.keys().copied().collect()
    }

    #[test]
    fn each_kind_has_the_phases_that_it_has() {
        use Phase::{Allocate, Copy, Free, Touch};
        let bytes = 64 * lab::page_size();
        let fresh = measured(Kind::FreshPageable(Allocator::Mmap), bytes);
        assert_eq!(phases(&fresh), [Allocate, Copy, Free]);
        assert_eq!(phases(&measured(Kind::ReusedPageable, bytes)), [Copy]);
        let prefaulted = measured(Kind::Prefaulted(2), bytes);
        assert_eq!(phases(&prefaulted), [Allocate, Touch, Copy, Free]);
    }

    #[test]
    fn faults_are_in_the_phase_that_takes_them() {
        // Other tests fault in the same process meanwhile, so these are bounds; that the counts are
        // exact is tested with the program, which is a process of its own.
        let bytes = 4096 * lab::page_size();
        let faults = |figures: &Figures, phase| figures.phases[&phase].minor_faults;
        let fresh = measured(Kind::BasePages, bytes);
        assert!(faults(&fresh, Phase::Copy) >= 4096.0);
        assert!(faults(&fresh, Phase::Allocate) < 2048.0);
        let prefaulted = measured(Kind::Prefaulted(1), bytes);
        assert!(faults(&prefaulted, Phase::Touch) >= 1.0);
        assert!(faults(&prefaulted, Phase::Copy) < 2048.0);
        assert!(measured(Kind::ReusedPageable, bytes).minor_faults.median < 2048.0);
    }

    #[test]
    fn wrong_data_is_found() {
        let words: Vec<u64> = (0..100).map(|place| pattern::word(3, place)).collect();
        assert!(check(&words, 3, 0).is_ok());
        let error = check(&words, 4, 0).unwrap_err();
        assert!(error.to_string().contains("wrong data"), "{error}");
    }

    #[test]
    fn a_node_that_is_not_there_is_waived() {
        let outcome = bench(&|| false).measure(&case(Kind::BoundToNode(4000), 4096));
        assert!(matches!(outcome, Outcome::Waived(_)), "{outcome:?}");
    }

    #[test]
    fn an_interrupted_case_has_no_figures_yet() {
        let outcome = bench(&|| true).measure(&case(Kind::ReusedPageable, 4096));
        assert!(matches!(outcome, Outcome::NotBegun), "{outcome:?}");
    }
}
