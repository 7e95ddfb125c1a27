//! Kernels: what a launch is, and how it runs.

use std::ops::Range;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::thread;

use cumodel::hazard::{Hazard, HazardKind, Party};
use cumodel::{Engine, OpId, OpInfo, Region};
use cumodel_ptx::{Executed, Reason, Stopped};

use crate::kernel_memory::KernelMemory;
use crate::memory::Memory;
use crate::run::{close_registered, open_registered};
use crate::state::{Effect, State};
use crate::Code;

/// One launch of a kernel, as it was asked for.
pub struct Launch {
    /// Its code.
    pub module: Arc<cumodel_ptx::Module>,
    /// Its name in the module.
    pub name: Arc<str>,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Shared memory beyond what the kernel declares, in bytes.
    pub dynamic_shared: u32,
    /// The parameters, copied at the call.
    pub params: Vec<u8>,
    /// The addresses of the module's variables.
    pub globals: Vec<u64>,
    /// The context that it runs in.
    pub context: usize,
    /// The device of the context.
    pub device: usize,
    /// For a captured launch, the allocations that its parameters pointed into.
    pub captured: Vec<Arc<Region>>,
}

impl Launch {
    /// The allocations that the launch can be expected to touch: those that its parameters point into.
    ///
    /// A pointer in device memory is not seen.
    pub fn expected(&self, memory: &Memory, engine: &Engine<Effect>) -> Vec<Arc<Region>> {
        let words = self.params.chunks_exact(8);
        let mut regions: Vec<Arc<Region>> = Vec::new();
        for word in words.filter_map(|word| word.try_into().ok()) {
            let address = memory.program_address(u64::from_le_bytes(word));
            if let Some(region) = engine.region(address) {
                if !regions.iter().any(|known| Arc::ptr_eq(known, region)) {
                    regions.push(region.clone());
                }
            }
        }
        regions
    }
}

/// Runs a kernel, and tells the engine which bytes it has touched.
///
/// What no kernel may do ends the launch and is reported; then the error stays (R74).
pub fn run(state: &mut State, op: OpId, launch: &Launch) {
    // After an error that stays, and in a context that has ended, nothing runs.
    if state.sticky.is_some() || state.context(launch.context).is_none() {
        state.engine.complete_late(op, &[], &[]);
        return;
    }
    let Some(kernel) = launch.module.kernel(&launch.name) else {
        state.engine.complete_late(op, &[], &[]);
        return;
    };
    let reachable = state.engine.reachable(op);
    let memory = KernelMemory::new(state, &reachable, launch);
    let everywhere = open_registered(state, 0, usize::MAX);
    let opened: Vec<Range<u64>> = everywhere.collect();
    let arguments = cumodel_ptx::Launch {
        grid: launch.grid,
        block: launch.block,
        dynamic_shared: launch.dynamic_shared,
        params: &launch.params,
        globals: &launch.globals,
        budget: state.config.kernel_budget,
        cores: thread::available_parallelism().map_or(1, usize::from),
    };
    // Whoever waits for the operation must not wait for ever, whatever goes wrong here.
    let result = catch_unwind(AssertUnwindSafe(|| {
        launch.module.run(kernel, &arguments, &memory)
    }));
    close_registered(state, &opened);
    let (executed, stopped) = match result {
        Ok(Ok(executed)) => (executed, None),
        Ok(Err(mut stopped)) => (std::mem::take(&mut stopped.executed), Some(stopped)),
        Err(_) => {
            eprintln!(
                "model: the kernel {} failed inside the model, which is a bug of the model",
                launch.name
            );
            state.sticky = Some(Code::Unknown);
            (Executed::default(), None)
        }
    };
    state.instructions += executed.instructions;
    let reads = memory.program_ranges(executed.reads);
    let writes = memory.program_ranges(executed.writes);
    if let Some(info) = state.engine.info(op).cloned() {
        match &stopped {
            Some(stopped) => report_stop(state, info, launch, stopped, &memory),
            None => report_stale(state, info, launch, &reachable, &[&reads, &writes]),
        }
    }
    if let Some(stopped) = stopped {
        state.sticky = Some(code_of(&stopped.reason, &memory));
    }
    state.engine.complete_late(op, &reads, &writes);
    state.handle_notices();
}

/// The code that a launch that was stopped ends with.
fn code_of(reason: &Reason, memory: &KernelMemory) -> Code {
    match reason {
        Reason::Trap if memory.failed_assertion().is_some() => Code::Assert,
        Reason::Fault { .. } => Code::IllegalAddress,
        Reason::Misaligned { .. } => Code::MisalignedAddress,
        // A barrier that never opens is a kernel that never ends.
        Reason::Budget { .. } | Reason::Deadlock { .. } => Code::LaunchTimeout,
        Reason::Stack { .. } => Code::HardwareStackError,
        Reason::Trap | Reason::Undefined { .. } | Reason::BadLaunch { .. } => Code::LaunchFailed,
    }
}

/// Reports that a kernel was stopped: H34, or H06 when it used memory that had been freed before its launch.
fn report_stop(
    state: &mut State,
    info: Arc<OpInfo>,
    launch: &Launch,
    stopped: &Stopped,
    memory: &KernelMemory,
) {
    let code = code_of(&stopped.reason, memory);
    let mut does = format!(
        "operation {} on {}, {stopped}; the error is {} ({})",
        info.op,
        info.stream,
        code as u32,
        code.name()
    );
    if let Some(sentence) = memory.failed_assertion() {
        does = format!("{does}; {sentence}");
    }
    let mut kind = HazardKind::KernelFault;
    let mut region = None;
    let mut a = None;
    if let Reason::Fault { address, .. } = stopped.reason {
        let program = state.memory.program_address(address);
        let ended = state.memory.ended(program).cloned();
        if let Some(ended) = ended.filter(|_| state.engine.region(program).is_none()) {
            kind = HazardKind::UseAfterFree;
            does = format!(
                "{does}; the address is in {}, which had been freed",
                ended.region
            );
            a = Some(Party::Call {
                call: ended.call,
                does: format!("ends the life of {}", ended.region),
                site: ended.site,
            });
            region = Some(ended.region);
        } else {
            does = format!("{does}; {}", nearest(state, program));
        }
    }
    let stale = launch.captured.iter().find(|captured| {
        let held = |region: &Arc<Region>| Arc::ptr_eq(region, captured);
        region.as_ref().is_some_and(held)
    });
    if stale.is_some() {
        kind = HazardKind::GraphStalePointer;
    }
    let mut hazard = Hazard::of_call(kind, info.call, does, info.site.clone());
    hazard.a = a;
    hazard.region = region;
    state.report(hazard);
}

/// Which allocation is nearest to an address that is in none.
fn nearest(state: &State, address: u64) -> String {
    let distance = |region: &Region| {
        if address < region.range.start {
            region.range.start - address
        } else {
            (address - region.range.end).saturating_add(1)
        }
    };
    let nearest = state
        .engine
        .regions()
        .all()
        .filter(|region| !region.range.contains(&address))
        .min_by_key(|region| distance(region));
    let Some(region) = nearest else {
        return "no memory is allocated".to_owned();
    };
    let where_ = if address < region.range.start {
        format!("starts {} bytes after it", region.range.start - address)
    } else {
        format!("ends {} bytes before it", address - region.range.end)
    };
    format!(
        "the nearest allocation is {region}, of {} bytes, which {where_} and was allocated at {}",
        region.range.end - region.range.start,
        crate::site::locate(&region.site)
    )
}

/// Reports that a captured kernel has used memory at an address where another allocation was at the capture (H24).
fn report_stale(
    state: &mut State,
    info: Arc<OpInfo>,
    launch: &Launch,
    reachable: &[Arc<Region>],
    touched: &[&[Range<u64>]; 2],
) {
    let stale = launch.captured.iter().find(|captured| {
        let alive = reachable.iter().any(|region| Arc::ptr_eq(region, captured));
        let uses = |range: &Range<u64>| {
            range.start < captured.range.end && captured.range.start < range.end
        };
        !alive && touched.iter().any(|list| list.iter().any(uses))
    });
    if let Some(region) = stale.cloned() {
        state.report(Hazard {
            kind: HazardKind::GraphStalePointer,
            a: None,
            b: Some(Party::Operation {
                info,
                touches: None,
            }),
            region: Some(region),
            useless: None,
        });
    }
}
