//! Stream capture and graphs.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_uint, c_ulonglong};
use std::sync::Arc;
use std::thread;

use cumodel::hazard::{Hazard, HazardKind, Party};
use cumodel::{OpInfo, Spec, Stamp, StreamId, StreamKind, What};

use super::{call, give, give_if_wanted, Call, Handle};
use crate::graph::{Graph, Mode};
use crate::site::capture;
use crate::state::Effect;
use crate::Code;

const STATUS_NONE: c_int = 0;
const STATUS_ACTIVE: c_int = 1;
const STATUS_INVALIDATED: c_int = 2;

/// Begins to record what is enqueued in a stream instead of running it (R60).
#[no_mangle]
pub unsafe extern "C" fn cuStreamBeginCapture_v2(stream: Handle, mode: c_int) -> u32 {
    call("cuStreamBeginCapture_v2", |call| {
        let id = call.stream(stream)?;
        let mode = match mode {
            0 => Mode::Global,
            1 => Mode::ThreadLocal,
            2 => Mode::Relaxed,
            _ => return Err(call.refuse(Code::InvalidValue, "the mode is not 0, 1 or 2")),
        };
        if call.state.engine.legacy_of(id) == id {
            let why = "the legacy default stream cannot capture";
            return Err(call.violate(Code::StreamCaptureUnsupported, why));
        }
        let thread = thread::current().id();
        call.state
            .graphs
            .begin(id, mode, thread)
            .map_err(|code| call.refuse(code, "the stream captures already"))
    })
}

/// Ends a capture; an error comes with a null graph, and the stream is ordinary again (R61, R62).
#[no_mangle]
pub unsafe extern "C" fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) -> u32 {
    call("cuStreamEndCapture", |call| {
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(graph, 0) }?;
        let id = call.stream(stream)?;
        let thread = thread::current().id();
        match call.state.graphs.end(id, thread) {
            Ok(handle) => {
                call.state.unbury(handle);
                // SAFETY: as above.
                unsafe { give(graph, handle) }
            }
            Err(code) => {
                let why = match code {
                    Code::StreamCaptureInvalidated => "an earlier call spoiled the capture",
                    Code::StreamCaptureUnjoined => {
                        "another stream of the capture was not joined to this one"
                    }
                    Code::StreamCaptureUnmatched => "the capture began in another stream",
                    Code::StreamCaptureWrongThread => "the capture began on another thread",
                    _ => "the stream does not capture",
                };
                Err(call.violate(code, why))
            }
        }
    })
}

/// Does a stream capture?
#[no_mangle]
pub unsafe extern "C" fn cuStreamIsCapturing(stream: Handle, status: *mut c_int) -> u32 {
    call("cuStreamIsCapturing", |call| {
        let id = call.stream(stream)?;
        call.legacy_is_free(id)?;
        let value = match call.state.graphs.status(id) {
            None => STATUS_NONE,
            Some(true) => STATUS_ACTIVE,
            Some(false) => STATUS_INVALIDATED,
        };
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(status, value) }
    })
}

/// Makes a graph ready to be launched; the flags are those of the manual, of which only the forbidden pair matters here.
#[no_mangle]
pub unsafe extern "C" fn cuGraphInstantiateWithFlags(
    exec: *mut Handle,
    graph: Handle,
    flags: c_ulonglong,
) -> u32 {
    const AUTO_FREE_ON_LAUNCH: c_ulonglong = 1;
    const DEVICE_LAUNCH: c_ulonglong = 4;
    const ALL: c_ulonglong = 15;
    call("cuGraphInstantiateWithFlags", |call| {
        let both = AUTO_FREE_ON_LAUNCH | DEVICE_LAUNCH;
        if flags & !ALL != 0 || flags & both == both || exec.is_null() {
            let why = "the flags are unknown or exclude each other, or the out-pointer is null";
            return Err(call.refuse(Code::InvalidValue, why));
        }
        let graph = match call.state.graphs.graph(graph) {
            Ok(graph) => graph,
            Err(code) => return Err(call.refuse_handle(code, graph, "graph")),
        };
        let handle = call.state.graphs.instantiate(graph);
        call.state.unbury(handle);
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(exec, handle) }
    })
}

/// Enqueues all operations of a graph; launches of one executable graph follow each other (R64).
#[no_mangle]
pub unsafe extern "C" fn cuGraphLaunch(exec: Handle, stream: Handle) -> u32 {
    call("cuGraphLaunch", |call| {
        let id = call.stream(stream)?;
        call.not_capturing(id)?;
        let graph = match call.state.graphs.exec(exec) {
            Ok(exec) => exec.graph.clone(),
            Err(code) => return Err(call.refuse_handle(code, exec, "executable graph")),
        };
        call.check_graph_memory(&graph);
        call.launch(exec, &graph, id)
    })
}

/// Prepares a launch, which needs no preparation here.
#[no_mangle]
pub unsafe extern "C" fn cuGraphUpload(exec: Handle, stream: Handle) -> u32 {
    call("cuGraphUpload", |call| {
        call.stream(stream)?;
        match call.state.graphs.exec(exec) {
            Ok(_) => Ok(()),
            Err(code) => Err(call.refuse_handle(code, exec, "executable graph")),
        }
    })
}

/// Ends an executable graph; a launch in flight goes on (R64).
#[no_mangle]
pub unsafe extern "C" fn cuGraphExecDestroy(exec: Handle) -> u32 {
    call("cuGraphExecDestroy", |call| {
        match call.state.graphs.destroy_exec(exec) {
            Ok(ended) => {
                for lane in ended.lanes {
                    call.state.engine.destroy_stream(lane);
                }
                call.state.bury(exec, "executable graph", capture());
                Ok(())
            }
            Err(code) => Err(call.refuse_handle(code, exec, "executable graph")),
        }
    })
}

/// Ends a graph.
#[no_mangle]
pub unsafe extern "C" fn cuGraphDestroy(graph: Handle) -> u32 {
    call("cuGraphDestroy", |call| {
        match call.state.graphs.destroy_graph(graph) {
            Ok(()) => {
                call.state.bury(graph, "graph", capture());
                Ok(())
            }
            Err(code) => Err(call.refuse_handle(code, graph, "graph")),
        }
    })
}

/// How many nodes a graph has; the nodes themselves are not modelled.
#[no_mangle]
pub unsafe extern "C" fn cuGraphGetNodes(
    graph: Handle,
    nodes: *mut Handle,
    count: *mut usize,
) -> u32 {
    call("cuGraphGetNodes", |call| {
        let graph = call.state.graphs.graph(graph)?;
        if !nodes.is_null() {
            let why = "the nodes of a graph are not modelled, only their number";
            return Err(call.refuse(Code::NotSupported, why));
        }
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(count, graph.nodes.len()) }
    })
}

/// The capture mode of calls on this thread is that of the captures themselves: an exchange changes nothing.
#[no_mangle]
pub unsafe extern "C" fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) -> u32 {
    call("cuThreadExchangeStreamCaptureMode", |_| {
        // SAFETY: the manual requires a valid pointer; global is the mode that every thread starts with.
        unsafe { give_if_wanted(mode, 0) };
        Ok(())
    })
}

impl Call {
    /// Reports the nodes whose memory has gone since the capture (H24).
    fn check_graph_memory(&mut self, graph: &Graph) {
        for node in &graph.nodes {
            let stale = node.regions.iter().find(|region| {
                let now = self.state.engine.region(region.range.start);
                !now.is_some_and(|now| Arc::ptr_eq(now, region))
            });
            let Some(region) = stale.cloned() else {
                continue;
            };
            let mut hazard = Hazard::of_call(
                HazardKind::GraphStalePointer,
                self.name,
                format!("{} is gone", region),
                capture(),
            );
            hazard.a = Some(Party::Operation {
                info: Arc::new(OpInfo {
                    op: 0,
                    call: node.call,
                    stream: "a capture".into(),
                    what: node.what.clone(),
                    site: node.site.clone(),
                }),
                touches: None,
            });
            hazard.region = Some(region);
            self.state.report(hazard);
        }
    }

    fn launch(&mut self, exec: Handle, graph: &Graph, stream: StreamId) -> Result<(), Code> {
        let chains = graph.chains();
        let count = chains.iter().max().map_or(0, |last| last + 1);
        let mut lanes = self.state.graphs.exec(exec)?.lanes.clone();
        let legacy = self.state.engine.legacy_of(stream);
        while lanes.len() < count {
            let name: Arc<str> = format!("graph chain {}", lanes.len() + 1).into();
            self.state.trace.stream(&name);
            let kind = StreamKind::NonBlocking;
            lanes.push(self.state.engine.create_stream(name, kind, legacy));
        }
        let last = self.state.graphs.exec(exec)?.last.clone();
        let site = capture();
        let bare = |what| {
            Spec::bare(
                "cuGraphLaunch",
                What::Graph(what),
                site.clone(),
                Effect::Nothing,
            )
        };
        self.state.enqueue(stream, bare("starts"), last.as_slice());
        let start = self.state.engine.tail(stream);
        let mut stamps: Vec<Stamp> = Vec::with_capacity(graph.nodes.len());
        for (node, &chain) in graph.nodes.iter().zip(&chains) {
            let mut after = vec![start.clone()];
            after.extend(node.after.iter().map(|&before| stamps[before].clone()));
            let spec = Spec {
                call: node.call,
                what: node.what.clone(),
                accesses: node.accesses.clone(),
                late: self.expected(&node.effect),
                effect: node.effect.clone(),
                site: node.site.clone(),
                visibility: node.visibility,
            };
            self.state.enqueue(lanes[chain], spec, &after);
            stamps.push(self.state.engine.tail(lanes[chain]));
        }
        let used: BTreeSet<usize> = chains.iter().copied().collect();
        let ends: Vec<Stamp> = used
            .iter()
            .map(|&chain| self.state.engine.tail(lanes[chain]))
            .collect();
        self.state.enqueue(stream, bare("ends"), &ends);
        let end = self.state.engine.tail(stream);
        let exec = self.state.graphs.exec(exec)?;
        exec.lanes = lanes;
        exec.last = Some(end);
        Ok(())
    }
}
