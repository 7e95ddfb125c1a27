//! Every instruction, compared with a value that is computed here in another way.
//!
//! Integers are computed in 128 bits or bit by bit as the pseudo code of the PTX ISA says, floats as exact fractions that
//! are then rounded.
#[path = "../support/mod.rs"]
mod support;

mod bits;
mod compare;
mod control;
mod convert;
mod exact;
mod float;
mod half;
mod harness;
mod integer;
mod memory;
mod moves;
mod warp;

/// For each instruction the test of its forms.
const TESTS: &[(&str, fn())] = &[
    ("abs", integer::signs),
    ("activemask", warp::active_lanes),
    ("add", integer::sums),
    ("addc", integer::carries),
    ("and", bits::logic),
    ("atom", memory::atomics),
    ("bar", control::barriers_count_threads),
    ("barrier", control::barriers_count_threads),
    ("bfe", bits::fields_are_read),
    ("bfi", bits::fields_are_written),
    ("bfind", bits::highest_bits),
    ("bmsk", bits::masks),
    ("bra", control::branches_part_and_meet),
    ("brev", bits::counts_and_reversals),
    ("brx", control::jump_tables),
    ("call", control::calls),
    ("clz", bits::counts_and_reversals),
    ("cnot", bits::logic),
    ("copysign", float::signs_are_copied),
    ("cos", float::approximations),
    ("cvt", convert::integers),
    ("cvta", moves::windows),
    ("discard", control::hints_change_nothing),
    ("div", integer::quotients),
    ("dp2a", bits::dot_products),
    ("dp4a", bits::dot_products),
    ("ex2", float::approximations),
    ("exit", control::exits),
    ("fence", control::hints_change_nothing),
    ("fma", float::fused),
    ("fns", bits::nth_set),
    ("isspacep", moves::windows),
    ("ld", memory::loads_extend),
    ("ldu", memory::loads_extend),
    ("lg2", float::approximations),
    ("lop3", bits::tables_of_three),
    ("mad", integer::products),
    ("mad24", integer::products_of_24_bits),
    ("madc", integer::carries),
    ("match", warp::matches),
    ("max", integer::extremes),
    ("membar", control::hints_change_nothing),
    ("min", integer::extremes),
    ("mov", moves::moves),
    ("mul", integer::products),
    ("mul24", integer::products_of_24_bits),
    ("nanosleep", control::hints_change_nothing),
    ("neg", integer::signs),
    ("not", bits::logic),
    ("or", bits::logic),
    ("popc", bits::counts_and_reversals),
    ("prefetch", control::hints_change_nothing),
    ("prefetchu", control::hints_change_nothing),
    ("prmt", bits::permutations),
    ("rcp", float::reciprocals_and_roots),
    ("red", memory::atomics),
    ("redux", warp::reductions),
    ("rem", integer::quotients),
    ("ret", control::calls),
    ("rsqrt", float::approximations),
    ("sad", integer::differences),
    ("selp", compare::selections),
    ("set", compare::sets),
    ("setp", compare::integers),
    ("shf", bits::funnels),
    ("shfl", warp::shuffles),
    ("shl", bits::shifts),
    ("shr", bits::shifts),
    ("sin", float::approximations),
    ("slct", compare::selections),
    ("sqrt", float::reciprocals_and_roots),
    ("st", memory::stores_truncate),
    ("sub", integer::sums),
    ("subc", integer::carries),
    ("szext", bits::extensions),
    ("tanh", float::approximations),
    ("testp", float::properties),
    ("trap", control::traps),
    ("vote", warp::votes),
    ("xor", bits::logic),
];

#[test]
fn no_instruction_is_without_a_test() {
    let tested: Vec<&str> = TESTS.iter().map(|(name, _)| *name).collect();
    let supported: Vec<&str> = cumodel_ptx::mnemonics().collect();
    assert_eq!(tested, supported);
}
