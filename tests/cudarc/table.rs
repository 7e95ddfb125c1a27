//! What is known of cudarc's tests: which cannot be judged here, and which have a hazard.

/// Why a test is not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It compiles a kernel, and nvrtc is not here.
    Compiler,
    /// cudarc leaves it out without its feature `f16`, and the kernel includes a header of the CUDA toolkit.
    Half,
    /// Its kernel executes 10,000,000,000 instructions, all threads together. That is nothing for a GPU and minutes for
    /// the model, which takes such a kernel for one that never ends.
    Long,
    /// It prints from a kernel, which the model refuses.
    Print,
    /// It asserts that two kernels run at the same time. The model runs one after the other.
    Overlap,
    /// It asserts that one thing takes less time than another. The model has no clock, so it would pass by chance.
    Duration,
    /// It needs a second device. The model has it when asked; a machine may not.
    SecondDevice,
}

impl Reason {
    /// The reason, as a sentence about the tests.
    pub fn text(self) -> &'static str {
        match self {
            Reason::Compiler => "compile a kernel, and nvrtc was not found",
            Reason::Half => "need the feature f16 and a header of the CUDA toolkit",
            Reason::Long => "run a kernel of 10,000,000,000 instructions",
            Reason::Print => "print from a kernel",
            Reason::Overlap => "assert that two kernels run at the same time",
            Reason::Duration => "assert that one thing is faster than another",
            Reason::SecondDevice => "need a second GPU",
        }
    }
}

/// Tests by the reason why they are not applicable.
pub type Table = [(Reason, &'static [&'static str])];

/// The tests that are not applicable anywhere.
pub const NOT_APPLICABLE: &Table = &[
    (
        Reason::Duration,
        &[
            "driver::safe::core::tests::test_default_pinned_host_reads_are_faster_than_write_combined",
            "driver::safe::core::tests::test_pinned_copy_is_faster",
        ],
    ),
    (
        Reason::Half,
        &["driver::safe::launch::tests::test_launch_with_half"],
    ),
    (
        Reason::Long,
        &[
            "driver::safe::launch::tests::test_multi_stream_writes_block",
            "driver::safe::launch::tests::test_peer_memcpy_waits_for_src_stream",
        ],
    ),
    (
        Reason::Overlap,
        &[
            "driver::safe::launch::tests::test_multi_stream_concurrent_reads",
            "driver::safe::launch::tests::test_par_launch",
        ],
    ),
];

/// The tests that compile a kernel.
pub const COMPILER: &[&str] = &[
    "driver::safe::launch::tests::test_device_side_assert",
    "driver::safe::launch::tests::test_large_launches",
    "driver::safe::launch::tests::test_launch_arrays",
    "driver::safe::launch::tests::test_launch_with_16bit",
    "driver::safe::launch::tests::test_launch_with_32bit",
    "driver::safe::launch::tests::test_launch_with_64bit",
    "driver::safe::launch::tests::test_launch_with_8bit",
    "driver::safe::launch::tests::test_launch_with_floats",
    "driver::safe::launch::tests::test_launch_with_mut_and_ref_cudarc",
    "driver::safe::launch::tests::test_launch_with_views",
    "driver::safe::unified_memory::tests::test_unified_memory_global",
    "driver::safe::unified_memory::tests::test_unified_memory_host",
    "driver::safe::unified_memory::tests::test_unified_memory_single_stream",
    "driver::safe::unified_memory::tests::test_unified_slice_copy_to_views",
    "driver::safe::unified_memory::tests::test_unified_slice_split_at",
    "driver::safe::unified_memory::tests::test_unified_slice_views_respect_stream_attachment",
];

/// cudarc's examples that launch a kernel, or compile one; a few load PTX that lies beside them.
pub const EXAMPLES: &[&str] = &[
    "03-launch-kernel",
    "04-streams",
    "05-device-repr",
    "06-threading",
    "09-constant-memory",
    "10-function-attributes",
    "matmul-kernel",
    "nvrtc-compile",
];

/// The examples that need no compiler.
pub const NO_COMPILER: &[&str] = &["03-launch-kernel", "04-streams", "10-function-attributes"];

/// The tests that ask for device 1.
pub const TWO_DEVICES: &[&str] = &[
    "driver::result::tests::peer_transfer_contexts",
    "driver::result::tests::re_associate_context_for_memory_op",
];

/// The tests that pass and have a hazard all the same, each with the ids under `last`. Every other test has none.
pub const HAZARDS: &[(&str, &[&str])] = &[
    // `clone_dtod` issues the copy on the default stream of the source's context, which nothing orders before the later
    // work of the destination's. Then a slice is freed while the context of another, already gone, is current.
    (
        "driver::result::tests::peer_transfer_contexts",
        &["H05", "H07", "H08", "H28"],
    ),
    // A slice is freed while a context that is already gone is current.
    (
        "driver::result::tests::re_associate_context_for_memory_op",
        &["H28"],
    ),
    // The test asks for it: it queries an event that was recorded in a capture.
    (
        "driver::safe::core::tests::test_event_try_is_complete_preserves_capture_error",
        &["H23"],
    ),
    // The test asks for it: its kernel asserts what is false.
    (
        "driver::safe::launch::tests::test_device_side_assert",
        &["H34"],
    ),
    // Managed memory is dropped after a download from it, and the copy to pageable memory was never waited for.
    (
        "driver::safe::unified_memory::tests::test_unified_slice_copy_to_views",
        &["H04"],
    ),
    (
        "driver::safe::unified_memory::tests::test_unified_slice_split_at",
        &["H04"],
    ),
    // The same; and an upload on another stream follows that download, ordered after an event of that stream alone.
    (
        "driver::safe::unified_memory::tests::test_unified_slice_views_respect_stream_attachment",
        &["H04", "H18"],
    ),
    // A pinned buffer is dropped after an upload from it, and only a copy to pageable memory came in between.
    ("driver::safe::core::tests::test_htod_copy_pinned", &["H03"]),
    (
        "driver::safe::core::tests::test_htod_copy_pinned_with_default_flags",
        &["H03"],
    ),
];

/// The reason why `test` is not applicable on a machine with so many devices, with nvrtc or without.
pub fn not_applicable(test: &str, devices: usize, compiler: bool) -> Option<Reason> {
    let second = TWO_DEVICES.contains(&test) && devices < 2;
    let uncompiled = COMPILER.contains(&test) && !compiler;
    listed(NOT_APPLICABLE)
        .find(|(_, name)| *name == test)
        .map(|(reason, _)| reason)
        .or(second.then_some(Reason::SecondDevice))
        .or(uncompiled.then_some(Reason::Compiler))
}

/// The reason why the example `name` is not applicable, with nvrtc or without.
pub fn not_applicable_example(name: &str, compiler: bool) -> Option<Reason> {
    if name == "06-threading" {
        return Some(Reason::Print);
    }
    (!compiler && !NO_COMPILER.contains(&name)).then_some(Reason::Compiler)
}

/// The hazards that `test` is known to have, in order.
pub fn hazards(test: &str) -> &'static [&'static str] {
    let listed = HAZARDS.iter().find(|(name, _)| *name == test);
    listed.map_or(&[], |(_, hazards)| hazards)
}

fn listed(table: &'static Table) -> impl Iterator<Item = (Reason, &'static str)> {
    let names = |&(reason, names): &'static (Reason, &'static [&'static str])| {
        names.iter().map(move |&name| (reason, name))
    };
    table.iter().flat_map(names)
}

/// What does not fit between the tests in cudarc's source, those in its build, and the table of those that are not
/// applicable, which is `table`.
pub fn misfits(source: &[String], built: &[String], table: &'static Table) -> Vec<String> {
    let is_listed = |test: &String| listed(table).any(|(_, name)| name == test);
    let has = |tests: &[String], name: &str| tests.iter().any(|test| test == name);
    let mut misfits = Vec::new();
    for test in source {
        if !built.contains(test) && !is_listed(test) {
            misfits.push(format!("{test} is not built: list it, with the reason"));
        }
    }
    for test in built {
        if !source.contains(test) {
            misfits.push(format!("{test} was not found in cudarc's source"));
        }
    }
    for (reason, name) in listed(table) {
        if !has(source, name) {
            misfits.push(format!("{name} is not among cudarc's tests: strike it off"));
        } else if reason == Reason::Half && has(built, name) {
            misfits.push(format!("{name} is built without f16: strike it off"));
        }
    }
    misfits
}
