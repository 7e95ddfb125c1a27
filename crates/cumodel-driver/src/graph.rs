//! Stream capture and graphs: operations that are recorded now and run later, as often as wanted (R60 to R66).
//!
//! While a stream captures, its operations become nodes; what a stream would order its next operation after is its
//! *frontier*, a set of nodes.
//! A launch gives each chain of nodes a hidden stream of the engine, so that a graph needs no ordering rules of its own.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::thread::ThreadId;

use cumodel::{Access, EventId, Region, Site, Stamp, StreamId, Visibility, What};
use slab::Slab;

use crate::state::{index, Effect, HANDLE_STRIDE};
use crate::Code;

const FIRST_GRAPH: usize = 0x6A_0000;
const FIRST_EXEC: usize = 0x6E_0000;

/// Which calls a capture forbids, and to whom (CUstreamCaptureMode).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Unsafe calls are forbidden to every thread.
    Global,
    /// Unsafe calls are forbidden to the capturing thread.
    ThreadLocal,
    /// Nothing is forbidden.
    Relaxed,
}

/// One captured operation.
#[derive(Clone)]
pub struct Node {
    pub call: &'static str,
    pub what: What,
    pub accesses: Vec<Access>,
    pub effect: Effect,
    pub visibility: Visibility,
    pub site: Site,
    /// The allocations that it uses: still alive at a launch, or it must not run (H24).
    pub regions: Vec<Arc<Region>>,
    /// The nodes that it comes after.
    pub after: Vec<usize>,
}

/// Captured operations in an order in which each comes after what it depends on.
#[derive(Clone, Default)]
pub struct Graph {
    pub nodes: Vec<Node>,
}

/// A capture that has begun and not ended.
pub struct Capture {
    id: u64,
    /// The stream in which it began and must end.
    origin: StreamId,
    pub mode: Mode,
    pub thread: ThreadId,
    graph: Graph,
    /// The capturing streams and what each one's next operation comes after.
    frontiers: HashMap<StreamId, BTreeSet<usize>>,
    invalid: bool,
}

/// What the record of an event captured inside of a capture.
#[derive(Clone)]
struct CapturedEvent {
    capture: u64,
    frontier: BTreeSet<usize>,
}

/// An executable graph.
pub struct Exec {
    pub graph: Arc<Graph>,
    /// A hidden stream for each chain of nodes, made at the first launch.
    pub lanes: Vec<StreamId>,
    /// The end of the last launch, which the next one follows (R64).
    pub last: Option<Stamp>,
}

/// What an event has to do with captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventState {
    /// Nothing.
    Ordinary,
    /// It was last recorded in a capture that goes on.
    Capturing,
    /// It was last recorded in a capture that has ended (R66).
    Stale,
}

/// All captures and graphs.
#[derive(Default)]
pub struct Graphs {
    captures: Vec<Capture>,
    captures_begun: u64,
    events: HashMap<EventId, CapturedEvent>,
    graphs: Slab<Arc<Graph>>,
    execs: Slab<Exec>,
}

impl Graphs {
    // Captures

    /// Is any capture going on?
    pub fn capturing(&self) -> bool {
        !self.captures.is_empty()
    }

    /// The captures that go on.
    pub fn captures(&self) -> &[Capture] {
        &self.captures
    }

    fn capture_of(&mut self, stream: StreamId) -> Option<&mut Capture> {
        self.captures
            .iter_mut()
            .find(|capture| capture.includes(stream))
    }

    /// Does `stream` capture, and is the capture still valid?
    pub fn status(&self, stream: StreamId) -> Option<bool> {
        self.captures
            .iter()
            .find(|capture| capture.includes(stream))
            .map(|capture| !capture.invalid)
    }

    /// Begins a capture in a stream.
    pub fn begin(&mut self, stream: StreamId, mode: Mode, thread: ThreadId) -> Result<(), Code> {
        if self.capture_of(stream).is_some() {
            return Err(Code::InvalidValue);
        }
        self.captures_begun += 1;
        self.captures.push(Capture {
            id: self.captures_begun,
            origin: stream,
            mode,
            thread,
            graph: Graph::default(),
            frontiers: HashMap::from([(stream, BTreeSet::new())]),
            invalid: false,
        });
        Ok(())
    }

    /// Ends the capture of a stream; the error is that of the first rule that it breaks (R61).
    pub fn end(&mut self, stream: StreamId, thread: ThreadId) -> Result<usize, Code> {
        let index = self
            .captures
            .iter()
            .position(|capture| capture.includes(stream))
            .ok_or(Code::InvalidValue)?;
        let capture = &self.captures[index];
        if capture.mode != Mode::Relaxed && capture.thread != thread {
            return Err(Code::StreamCaptureWrongThread);
        }
        if capture.origin != stream {
            self.captures[index].invalid = true;
            return Err(Code::StreamCaptureUnmatched);
        }
        let capture = self.captures.remove(index);
        if capture.invalid {
            return Err(Code::StreamCaptureInvalidated);
        }
        if !capture.is_joined() {
            return Err(Code::StreamCaptureUnjoined);
        }
        Ok(FIRST_GRAPH + HANDLE_STRIDE * self.graphs.insert(Arc::new(capture.graph)))
    }

    /// Makes the captures that satisfy `which` end in an error.
    pub fn invalidate(&mut self, which: impl Fn(&Capture) -> bool) {
        for capture in &mut self.captures {
            if which(capture) {
                capture.invalid = true;
            }
        }
    }

    /// A stream is gone: a capture that began in it can never end, and one that it joined is spoiled.
    pub fn forget_stream(&mut self, stream: StreamId) {
        self.captures.retain(|capture| capture.origin != stream);
        for capture in &mut self.captures {
            if capture.frontiers.remove(&stream).is_some() {
                capture.invalid = true;
            }
        }
    }

    /// Makes the capture of `stream` end in an error.
    pub fn invalidate_stream(&mut self, stream: StreamId) {
        self.invalidate(|capture| capture.includes(stream));
    }

    /// Makes the capture that `event` was recorded in end in an error.
    pub fn invalidate_event(&mut self, event: EventId) {
        if let Some(captured) = self.events.get(&event) {
            let id = captured.capture;
            self.invalidate(|capture| capture.id == id);
        }
    }

    /// Appends a node to the capture of `stream`.
    pub fn add(&mut self, stream: StreamId, mut node: Node) -> Result<(), Code> {
        let capture = self.capture_of(stream).ok_or(Code::InvalidValue)?;
        if capture.invalid {
            return Err(Code::StreamCaptureInvalidated);
        }
        let index = capture.graph.nodes.len();
        let frontier = capture.frontiers.entry(stream).or_default();
        node.after = frontier.iter().copied().collect();
        *frontier = BTreeSet::from([index]);
        capture.graph.nodes.push(node);
        Ok(())
    }

    // Events

    /// What `event` has to do with captures.
    pub fn event_state(&self, event: EventId) -> EventState {
        match self.events.get(&event) {
            None => EventState::Ordinary,
            Some(captured) => {
                if self
                    .captures
                    .iter()
                    .any(|capture| capture.id == captured.capture)
                {
                    EventState::Capturing
                } else {
                    EventState::Stale
                }
            }
        }
    }

    /// Records `event` in the capture of `stream`.
    pub fn record(&mut self, event: EventId, stream: StreamId) -> Result<(), Code> {
        let capture = self.capture_of(stream).ok_or(Code::InvalidValue)?;
        if capture.invalid {
            return Err(Code::StreamCaptureInvalidated);
        }
        let captured = CapturedEvent {
            capture: capture.id,
            frontier: capture.frontiers[&stream].clone(),
        };
        self.events.insert(event, captured);
        Ok(())
    }

    /// The event was recorded outside of captures, or is gone.
    pub fn forget_event(&mut self, event: EventId) {
        self.events.remove(&event);
    }

    /// Lets `stream` wait for an event that was recorded in a capture: it joins that capture (R61).
    pub fn wait(&mut self, stream: StreamId, event: EventId) -> Result<(), Code> {
        let captured = self.events.get(&event).cloned().ok_or(Code::InvalidValue)?;
        let own = self.capture_of(stream).map(|capture| capture.id);
        if own.is_some_and(|id| id != captured.capture) {
            self.invalidate(|capture| Some(capture.id) == own || capture.id == captured.capture);
            return Err(Code::StreamCaptureMerge);
        }
        let capture = self
            .captures
            .iter_mut()
            .find(|capture| capture.id == captured.capture)
            .ok_or(Code::InvalidValue)?;
        if capture.invalid {
            return Err(Code::StreamCaptureInvalidated);
        }
        capture
            .frontiers
            .entry(stream)
            .or_default()
            .extend(captured.frontier);
        Ok(())
    }

    // Graphs

    /// The graph of a handle.
    pub fn graph(&self, handle: usize) -> Result<Arc<Graph>, Code> {
        index(handle, FIRST_GRAPH)
            .and_then(|index| self.graphs.get(index))
            .cloned()
            .ok_or(Code::InvalidValue)
    }

    /// Ends a graph; executable graphs made from it stay.
    pub fn destroy_graph(&mut self, handle: usize) -> Result<(), Code> {
        index(handle, FIRST_GRAPH)
            .and_then(|index| self.graphs.try_remove(index))
            .map(drop)
            .ok_or(Code::InvalidValue)
    }

    /// Makes an executable graph.
    pub fn instantiate(&mut self, graph: Arc<Graph>) -> usize {
        let exec = Exec {
            graph,
            lanes: Vec::new(),
            last: None,
        };
        FIRST_EXEC + HANDLE_STRIDE * self.execs.insert(exec)
    }

    /// The executable graph of a handle.
    pub fn exec(&mut self, handle: usize) -> Result<&mut Exec, Code> {
        index(handle, FIRST_EXEC)
            .and_then(|index| self.execs.get_mut(index))
            .ok_or(Code::InvalidValue)
    }

    /// Ends an executable graph; a launch in flight goes on (R64).
    pub fn destroy_exec(&mut self, handle: usize) -> Result<Exec, Code> {
        index(handle, FIRST_EXEC)
            .and_then(|index| self.execs.try_remove(index))
            .ok_or(Code::InvalidValue)
    }
}

impl Capture {
    /// Does every captured operation come before the end of the origin's work?
    fn is_joined(&self) -> bool {
        let mut joined = BTreeSet::new();
        let mut stack: Vec<usize> = self.frontiers[&self.origin].iter().copied().collect();
        while let Some(node) = stack.pop() {
            if joined.insert(node) {
                stack.extend(&self.graph.nodes[node].after);
            }
        }
        joined.len() == self.graph.nodes.len()
    }

    /// Does `stream` take part?
    fn includes(&self, stream: StreamId) -> bool {
        self.frontiers.contains_key(&stream)
    }

    /// The streams that take part.
    pub fn streams(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.frontiers.keys().copied()
    }
}

impl Graph {
    /// For each node, the number of its chain: a node continues the chain of one that it comes after, if no other node
    /// has continued it before.
    pub fn chains(&self) -> Vec<usize> {
        let mut chain_of: Vec<usize> = Vec::with_capacity(self.nodes.len());
        let mut last_of_chain: Vec<usize> = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let continued = node
                .after
                .iter()
                .map(|&before| chain_of[before])
                .find(|&chain| node.after.contains(&last_of_chain[chain]));
            let chain = continued.unwrap_or_else(|| {
                last_of_chain.push(index);
                last_of_chain.len() - 1
            });
            last_of_chain[chain] = index;
            chain_of.push(chain);
        }
        chain_of
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(after: &[usize]) -> Node {
        Node {
            call: "test",
            what: What::HostFunction,
            accesses: Vec::new(),
            effect: Effect::Nothing,
            visibility: Visibility::ByRace,
            site: Site::default(),
            regions: Vec::new(),
            after: after.to_vec(),
        }
    }

    #[test]
    fn a_fork_gets_a_chain_of_its_own_and_a_join_does_not() {
        // 0 → 1 → 3, 0 → 2 → 3
        let graph = Graph {
            nodes: vec![node(&[]), node(&[0]), node(&[0]), node(&[1, 2])],
        };
        assert_eq!(graph.chains(), [0, 0, 1, 0]);
    }
}
