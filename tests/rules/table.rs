//! The ordering rules that the model keeps, in our words; the manual that each follows is named with it.

/// A rule: its number, what holds, and the manual's section.
pub type Rule = (&'static str, &'static str, &'static str);

/// A group of rules and its heading.
pub type Group = (&'static str, &'static [Rule]);

const STREAMS: &str = "Programming Guide, Asynchronous Execution";
const DEFAULT: &str = "Stream synchronization behavior";
const COPIES: &str = "API synchronization behavior";
const STREAM: &str = "Driver API, Stream Management";
const EVENT: &str = "Driver API, Event Management";
const MEMORY: &str = "Driver API, Memory Management";
const ALLOCATOR: &str = "Driver API, Stream Ordered Memory Allocator";
const EXECUTION: &str = "Driver API, Execution Control";
const CAPTURE: &str = "Programming Guide, Stream Capture";
const CONTEXT: &str = "Driver API, Primary Context and Context Management";
const TYPES: &str = "Driver API, Data Types";
const PRACTICE: &str = "practice; no manual promises it";

/// Every rule, in order.
pub const GROUPS: [Group; 8] = [
    ("Streams {#rules-streams}", &[
        ("R1", "Operations of one stream run one after the other, in the order of the calls.", STREAMS),
        ("R2", "Operations of different streams have no order, unless an event, the legacy default stream or a wait of the host gives them one.", STREAMS),
        ("R3", "An operation in the legacy default stream follows everything earlier in the blocking streams of its context, and everything later there follows it.", DEFAULT),
        ("R4", "A non-blocking stream, such as every stream that cudarc creates, has no order with the legacy default stream.", STREAM),
        ("R5", "The per-thread default stream is one blocking stream for each thread and context.", DEFAULT),
        ("R6", "Destroying a stream does not wait; what is queued still runs.", STREAM),
        ("R7", "Synchronizing a stream waits for everything queued in it before; a query says whether that is complete.", STREAM),
        ("R8", "Synchronizing the context waits for all of its streams, the non-blocking ones included.", CONTEXT),
        ("R9", "Queued work completes even if the host calls nothing more.", STREAMS),
    ]),
    ("Events {#rules-events}", &[
        ("R10", "Recording an event captures what is in the stream at that call, and nothing later.", EVENT),
        ("R11", "Recording it again replaces the capture; waits that were issued before keep the older one.", EVENT),
        ("R12", "An event that was never recorded stands for no work: waiting for it returns at once.", EVENT),
        ("R13", "A stream's wait for an event holds back the later operations of that stream, and not the host.", STREAM),
        ("R14", "Synchronizing an event waits for the work that it captured.", EVENT),
        ("R15", "Destroying an event neither waits nor takes back waits that were issued.", EVENT),
        ("R16", "The time between two events exists only if both are timed, recorded and complete.", EVENT),
        ("R17", "A query that answers \"complete\" is as good as a wait.", EVENT),
    ]),
    ("Copies {#rules-copies}", &[
        ("R20", "A copy from the device to pinned memory is asynchronous: until it is waited for, the destination holds old bytes, new bytes or a mixture.", COPIES),
        ("R21", "A copy from the device to pageable memory might be synchronous; no manual since 12.2 promises it.", COPIES),
        ("R22", "A copy from pinned memory reads its source in stream order, so the source must not change before the copy is complete.", COPIES),
        ("R23", "A copy from pageable memory might be staged: the source is then read at the call, the destination written in stream order.", COPIES),
        ("R24", "A copy between two places of the host is complete when the call returns.", COPIES),
        ("R25", "A copy between two places of the device does not wait for the host, in the synchronous form either.", COPIES),
        ("R26", "The synchronous forms go through the legacy default stream, so they have no order with a non-blocking stream.", COPIES),
        ("R27", "Registered memory counts as pinned; registering it twice is 712, unregistering what is not registered 713.", MEMORY),
        ("R28", "Copies of managed memory are asynchronous like those of pinned memory.", COPIES),
        ("R29", "Write-combined memory is ordered like other pinned memory, and is slow for the host to read.", MEMORY),
        ("R30", "Where the GPU uses the page tables of the CPU, attribute 100 says so, and the driver might not lock pinned pages at all.", MEMORY),
        ("R31", "A copy whose source and destination overlap is undefined.", MEMORY),
        ("R32", "A copy of zero bytes is a success and touches nothing.", PRACTICE),
        ("R33", "No copy is atomic: a racing reader may see any mixture.", COPIES),
    ]),
    ("Memsets {#rules-memsets}", &[
        ("R35", "A memset does not wait for the host, except the synchronous form on pinned memory.", COPIES),
        ("R36", "A memset of 2 or 4 bytes needs an address that is a multiple of that.", MEMORY),
    ]),
    ("Allocation {#rules-allocation}", &[
        ("R40", "New device memory is usable from every stream and holds anything.", MEMORY),
        ("R41", "Freeing device memory might wait for the device; no program may rely on it.", MEMORY),
        ("R42", "Freeing stream-ordered memory with the ordinary call waits for nothing.", MEMORY),
        ("R43", "Stream-ordered memory may be used only after its allocation in stream order.", ALLOCATOR),
        ("R44", "A freed block may be given out again as soon as the order allows.", ALLOCATOR),
        ("R45", "A stream-ordered free comes after every earlier use only if an order says so, and no later use is legal.", ALLOCATOR),
        ("R46", "Allocating and freeing pinned memory might wait for the device; no program may rely on it.", PRACTICE),
        ("R47", "A size of zero is refused by cuMemAlloc and cuMemAllocManaged.", MEMORY),
        ("R48", "Freeing needs the start of a live allocation.", MEMORY),
        ("R49", "Freed pool memory counts as free once the host has waited for the free.", ALLOCATOR),
    ]),
    ("Host functions {#rules-host-functions}", &[
        ("R55", "A host function runs after everything earlier in its stream and before everything later, on a thread of the driver, and must not call CUDA.", EXECUTION),
        ("R56", "The start of a host function is a wait for what comes before it.", EXECUTION),
    ]),
    ("Capture and graphs {#rules-graphs}", &[
        ("R60", "During a capture, operations are recorded and do not run; the legacy default stream cannot capture.", CAPTURE),
        ("R61", "Waiting for a captured event draws a stream into the capture, and it must join again before the end.", CAPTURE),
        ("R62", "A capture must not wait for work outside of it, nor may the host wait for what is captured: 900 to 907, and then 901.", CAPTURE),
        ("R63", "What cannot be captured is refused, and spoils the capture.", CAPTURE),
        ("R64", "Launches of one executable graph run one after the other, with the addresses of the time of capture.", "Driver API, Graph Management"),
        ("R65", "Memory from outside cannot be freed in a capture.", ALLOCATOR),
        ("R66", "An event that was last recorded in a capture which is gone cannot be waited for.", PRACTICE),
    ]),
    ("Contexts and errors {#rules-contexts}", &[
        ("R70", "The primary context counts its users; when the last one is gone, so is everything in it.", CONTEXT),
        ("R71", "The current context belongs to the thread.", CONTEXT),
        ("R72", "A default stream needs a current context; a created stream carries its own.", CONTEXT),
        ("R73", "A current context that was destroyed gives 709.", CONTEXT),
        ("R74", "An asynchronous failure shows at a later call, and at every call after that.", TYPES),
    ]),
];
