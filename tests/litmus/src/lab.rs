//! What a program gets: memory, streams and events of one context, and gates to hold a stream.

use std::ffi::CString;
use std::thread;

use crate::cuda::{
    self, Code, Context, Device, Event, Exec, Graph, HostFunction, Kernel, Mode, Module, Stream,
};
use crate::gate::{Gate, HELPER_OPENS_AFTER};
use crate::host::Host;

/// Non-blocking: not ordered with the legacy default stream. Every stream that cudarc creates is like this.
const NON_BLOCKING: u32 = 1;
/// An event without timing, which is cudarc's default.
const DISABLE_TIMING: u32 = 2;
/// Managed memory that every stream may use.
const ATTACH_GLOBAL: u32 = 1;

/// The laboratory of one run of one program.
///
/// It makes its context at the first use, and cleans up behind the program: waits for everything, frees what it gave
/// out, and lets go of the context.
pub struct Lab {
    /// The size of every buffer.
    pub bytes: usize,
    gated: bool,
    context: Option<Context>,
    streams: Vec<Stream>,
    events: Vec<Event>,
    devices: Vec<(Device, Option<Stream>)>,
    pinned: Vec<Host>,
    registered: Vec<(Host, ::lab::Pageable<u32>)>,
    pageable: Vec<Box<[u32]>>,
    graphs: Vec<Graph>,
    execs: Vec<Exec>,
    functions: Vec<HostFunction>,
    modules: Vec<(&'static str, Module, Kernel)>,
    gates: Vec<Gate>,
    notes: Vec<String>,
    leaves_without_waiting: bool,
}

impl Lab {
    /// A lab whose buffers have this size; without `gated`, gates are open from the start.
    pub fn new(bytes: usize, gated: bool) -> Lab {
        Lab {
            bytes,
            gated,
            context: None,
            streams: Vec::new(),
            events: Vec::new(),
            devices: Vec::new(),
            pinned: Vec::new(),
            registered: Vec::new(),
            pageable: Vec::new(),
            graphs: Vec::new(),
            execs: Vec::new(),
            functions: Vec::new(),
            modules: Vec::new(),
            gates: Vec::new(),
            notes: Vec::new(),
            leaves_without_waiting: false,
        }
    }

    /// The number of 4-byte words of every buffer.
    pub fn words(&self) -> usize {
        self.bytes / 4
    }

    /// The context, current in this thread.
    pub fn context(&mut self) -> Context {
        *self.context.get_or_insert_with(|| {
            cuda::init(0).ok();
            let (code, device) = cuda::device(0);
            code.ok();
            let (code, context) = cuda::retain(device);
            code.ok();
            cuda::bind(context).ok();
            context
        })
    }

    /// A new stream, non-blocking.
    pub fn stream(&mut self) -> Stream {
        self.stream_with_flags(NON_BLOCKING)
    }

    /// A new stream that is ordered with the legacy default stream.
    pub fn blocking_stream(&mut self) -> Stream {
        self.stream_with_flags(0)
    }

    fn stream_with_flags(&mut self, flags: u32) -> Stream {
        self.context();
        let (code, stream) = cuda::stream(flags);
        code.ok();
        self.streams.push(stream);
        stream
    }

    /// A new event, without timing.
    pub fn event(&mut self) -> Event {
        self.event_with_flags(DISABLE_TIMING)
    }

    /// A new event that remembers its time.
    pub fn timed_event(&mut self) -> Event {
        self.event_with_flags(0)
    }

    fn event_with_flags(&mut self, flags: u32) -> Event {
        self.context();
        let (code, event) = cuda::event(flags);
        code.ok();
        self.events.push(event);
        event
    }

    /// Device memory that holds `value`; everything is ordered after that.
    pub fn device(&mut self, value: u32) -> Device {
        let device = self.unwritten_device();
        cuda::fill(device, value, Stream::NULL).ok();
        cuda::sync(Stream::NULL).ok();
        device
    }

    /// Device memory that nobody has written.
    pub fn unwritten_device(&mut self) -> Device {
        self.context();
        let (code, device) = cuda::allocate(self.bytes);
        code.ok();
        self.devices.push((device, None));
        device
    }

    /// Device memory that exists from here on in the order of `stream`; the lab frees it on the same stream.
    pub fn device_on(&mut self, stream: Stream) -> Device {
        let (code, device) = cuda::allocate_async(self.bytes, stream);
        code.ok();
        self.devices.push((device, Some(stream)));
        device
    }

    /// Managed memory that holds `value`: its host's side and its device's side.
    pub fn managed(&mut self, value: u32) -> (Host, Device) {
        self.context();
        let (code, device) = cuda::allocate_managed(self.bytes, ATTACH_GLOBAL);
        code.ok();
        self.devices.push((device, None));
        let host = Host {
            address: device.address as usize,
            bytes: device.bytes,
        };
        host.set(value);
        (host, device)
    }

    /// Pinned memory that holds `value`.
    pub fn pinned(&mut self, value: u32) -> Host {
        self.pinned_with_flags(value, 0)
    }

    /// Pinned memory, with the flags of cuMemHostAlloc, that holds `value`.
    pub fn pinned_with_flags(&mut self, value: u32, flags: u32) -> Host {
        self.context();
        let (code, host) = cuda::allocate_host(self.bytes, flags);
        code.ok();
        self.pinned.push(host);
        host.set(value);
        host
    }

    /// Ordinary memory, whole pages of it, that holds `value` and is registered.
    pub fn registered(&mut self, value: u32) -> Host {
        self.context();
        let memory = ::lab::Pageable::zeroed(self.words()).expect("memory to register");
        let host = Host {
            address: memory.as_ptr() as usize,
            bytes: self.bytes,
        };
        host.set(value);
        cuda::register(host, 0).ok();
        self.registered.push((host, memory));
        host
    }

    /// Pageable memory that holds `value`.
    pub fn pageable(&mut self, value: u32) -> Host {
        let words = self.words();
        self.pageable_of(words, value)
    }

    /// Pageable memory of this many words.
    pub fn pageable_of(&mut self, words: usize, value: u32) -> Host {
        let mut words = vec![value; words].into_boxed_slice();
        let host = Host {
            address: words.as_mut_ptr() as usize,
            bytes: 4 * words.len(),
        };
        self.pageable.push(words);
        host
    }

    /// A kernel of [`::lab::kernels`].
    pub fn kernel(&mut self, name: &'static str) -> Kernel {
        self.context();
        if let Some((_, _, kernel)) = self.modules.iter().find(|(known, ..)| *known == name) {
            return *kernel;
        }
        let ptx = ::lab::kernels::ptx(name).expect("the lab has the kernel");
        let text = |text: &str| CString::new(text).expect("no NUL is inside");
        let (code, module) = cuda::load(&text(ptx));
        code.ok();
        let (code, kernel) = cuda::kernel(module, &text(name));
        code.ok();
        self.modules.push((name, module, kernel));
        kernel
    }

    /// Queues a kernel that fills memory with a value.
    pub fn fill_by_kernel(&mut self, to: Device, value: u32, stream: Stream) {
        let kernel = self.kernel("fill_pattern");
        let words = to.bytes / 4;
        let mut arguments = [to.address, words as u64, u64::from(value), 0];
        cuda::launch_kernel(kernel, words, &mut arguments, stream).ok();
    }

    /// Queues a kernel that adds all values of `from` and writes the sum to the first word of `to`.
    pub fn sum_by_kernel(&mut self, to: Device, from: Device, stream: Stream) {
        let kernel = self.kernel("checksum");
        let mut arguments = [from.address, (from.bytes / 4) as u64, to.address];
        cuda::launch_kernel(kernel, 0, &mut arguments, stream).ok();
    }

    /// The device's side of pinned memory.
    pub fn mapped(&mut self, host: Host) -> Device {
        let (code, device) = cuda::device_pointer(host);
        code.ok();
        device
    }

    /// Unloads the module of a kernel.
    pub fn unload(&mut self, kernel: Kernel) {
        let unload = |(_, module, known): &(&str, Module, Kernel)| {
            if *known == kernel {
                cuda::unload(*module).ok();
            }
            *known != kernel
        };
        self.modules.retain(unload);
    }

    /// Queues a host function; it may run more than once, as part of a graph.
    pub fn host_function(&mut self, stream: Stream, function: impl Fn() + Send + Sync + 'static) {
        let function: HostFunction = Box::new(Box::new(function));
        cuda::host_function(stream, &function).ok();
        self.functions.push(function);
    }

    /// Shuts a gate on a stream.
    pub fn gate(&mut self, stream: Stream) -> Gate {
        let gate = self.unqueued_gate();
        self.functions.extend(gate.queue(stream));
        gate
    }

    /// A gate for another thread to queue.
    pub fn unqueued_gate(&mut self) -> Gate {
        let gate = Gate::new(self.gated);
        self.gates.push(gate.clone());
        gate
    }

    /// Shuts a gate that opens by itself after 50 ms: for calls that may wait for the stream.
    pub fn helper_gate(&mut self, stream: Stream) -> Gate {
        let gate = self.gate(stream);
        if self.gated {
            let helper = gate.clone();
            thread::spawn(move || {
                thread::sleep(HELPER_OPENS_AFTER);
                helper.open();
            });
        }
        gate
    }

    /// What a device buffer holds, after everything so far.
    pub fn read(&mut self, device: Device) -> String {
        cuda::context_sync().ok();
        let host = self.pageable_of(device.bytes / 4, crate::host::POISON);
        cuda::dtoh_sync(host, device).ok();
        host.read()
    }

    /// Ends a capture that must succeed and makes its graph executable.
    pub fn finish_capture(&mut self, stream: Stream) -> Exec {
        let (code, graph) = cuda::end_capture(stream);
        code.ok();
        self.graphs.push(graph);
        let (code, exec) = cuda::instantiate(graph);
        code.ok();
        self.execs.push(exec);
        exec
    }

    /// Ends a capture, whatever comes of it: the code, and "null" or "graph".
    pub fn abandon_capture(&mut self, stream: Stream) -> (Code, &'static str) {
        let (code, graph) = cuda::end_capture(stream);
        if graph.0 == 0 {
            return (code, "null");
        }
        self.graphs.push(graph);
        (code, "graph")
    }

    /// Captures what `queue` queues, in the mode that refuses least of what this thread does elsewhere.
    pub fn capture(&mut self, stream: Stream, queue: impl FnOnce(&mut Lab)) -> Exec {
        cuda::begin_capture(stream, Mode::ThreadLocal).ok();
        queue(self);
        self.finish_capture(stream)
    }

    /// Something to report about this run that does not decide whether the test passes.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Notes whether a call returned before the gate opened; says nothing without gates.
    pub fn note_wait(&mut self, call: &str, gate: &Gate) {
        if let Some(waited) = gate.has_opened() {
            let did = if waited { "waited" } else { "did not wait" };
            self.note(format!("{call} {did}"));
        }
    }

    // The program frees these itself.

    /// The program has destroyed the stream.
    pub fn forget_stream(&mut self, stream: Stream) {
        self.streams.retain(|&it| it != stream);
    }

    /// The program has destroyed the event.
    pub fn forget_event(&mut self, event: Event) {
        self.events.retain(|&it| it != event);
    }

    /// The program has freed the device memory, or wants it to leak.
    pub fn forget_device(&mut self, device: Device) {
        self.devices.retain(|&(it, _)| it != device);
    }

    /// The program has freed the pinned memory, or wants it to leak.
    pub fn forget_pinned(&mut self, host: Host) {
        self.pinned.retain(|&it| it != host);
    }

    /// The program has destroyed the executable graph.
    pub fn forget_exec(&mut self, exec: Exec) {
        self.execs.retain(|&it| it != exec);
    }

    /// Nothing waits for the program's work before its context ends: that is what the program is about.
    pub fn leave_without_waiting(&mut self) {
        self.leaves_without_waiting = true;
    }

    /// Cleans up; returns the notes of the run.
    pub fn end(mut self) -> Vec<String> {
        for code in self.clean_up() {
            code.ok();
        }
        std::mem::take(&mut self.notes)
    }

    fn clean_up(&mut self) -> Vec<Code> {
        for gate in self.gates.drain(..) {
            gate.open();
        }
        if self.context.take().is_none() {
            return Vec::new();
        }
        let mut codes = Vec::new();
        if !self.leaves_without_waiting {
            codes.push(cuda::context_sync());
        }
        codes.extend(self.execs.drain(..).map(cuda::destroy_exec));
        codes.extend(self.graphs.drain(..).map(cuda::destroy_graph));
        codes.extend(
            self.modules
                .drain(..)
                .map(|(_, module, _)| cuda::unload(module)),
        );
        codes.extend(self.devices.drain(..).map(|(device, stream)| match stream {
            Some(stream) => cuda::free_async(device, stream),
            None => cuda::free(device),
        }));
        codes.extend(self.pinned.drain(..).map(cuda::free_host));
        codes.extend(
            self.registered
                .iter()
                .map(|(host, _)| cuda::unregister(*host)),
        );
        codes.extend(self.events.drain(..).map(cuda::destroy_event));
        if !self.leaves_without_waiting {
            // The frees in stream order.
            codes.push(cuda::context_sync());
        }
        codes.extend(self.streams.drain(..).map(cuda::destroy_stream));
        codes.push(cuda::release(0));
        if self.leaves_without_waiting {
            // What nothing waited for may still run: it must find its memory.
            self.functions.drain(..).for_each(std::mem::forget);
            self.pageable.drain(..).for_each(std::mem::forget);
        }
        codes
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // After a panic the codes do not matter any more; the next program needs the context gone.
        let _ = self.clean_up();
    }
}
