//! Every instruction that is supported, and who decodes it.
use super::form::{Form, Problem};
use super::function::Builder;
use super::{
    arithmetic, atomic, bits, carry, compare, control, convert, fields, float, memory, moves, warp,
};
use crate::code::Op;

/// Turns one instruction into what it does.
pub(crate) type Decoder =
    for<'l, 'a> fn(&mut Form<'_, 'a>, &mut Builder<'l, 'a>) -> Result<Op, Problem>;

/// In alphabetical order.
const TABLE: &[(&str, Decoder)] = &[
    ("abs", arithmetic::abs),
    ("activemask", warp::activemask),
    ("add", arithmetic::add),
    ("addc", carry::addc),
    ("and", bits::and),
    ("atom", atomic::atom),
    ("bar", control::barrier),
    ("barrier", control::barrier),
    ("bfe", fields::bfe),
    ("bfi", fields::bfi),
    ("bfind", bits::bfind),
    ("bmsk", fields::bmsk),
    ("bra", control::bra),
    ("brev", bits::brev),
    ("brx", control::brx),
    ("call", control::call),
    ("clz", bits::clz),
    ("cnot", bits::cnot),
    ("copysign", float::copysign),
    ("cos", float::cos),
    ("cvt", convert::cvt),
    ("cvta", moves::cvta),
    ("discard", control::hint),
    ("div", arithmetic::div),
    ("dp2a", fields::dp2a),
    ("dp4a", fields::dp4a),
    ("ex2", float::ex2),
    ("exit", control::exit),
    ("fence", control::fence),
    ("fma", float::fma),
    ("fns", fields::fns),
    ("isspacep", moves::isspacep),
    ("ld", memory::ld),
    ("ldu", memory::ld),
    ("lg2", float::lg2),
    ("lop3", fields::lop3),
    ("mad", arithmetic::mad),
    ("mad24", arithmetic::mad24),
    ("madc", carry::madc),
    ("match", warp::matching),
    ("max", arithmetic::max),
    ("membar", control::fence),
    ("min", arithmetic::min),
    ("mov", moves::mov),
    ("mul", arithmetic::mul),
    ("mul24", arithmetic::mul24),
    ("nanosleep", control::hint),
    ("neg", arithmetic::neg),
    ("not", bits::not),
    ("or", bits::or),
    ("popc", bits::popc),
    ("prefetch", control::hint),
    ("prefetchu", control::hint),
    ("prmt", fields::prmt),
    ("rcp", float::rcp),
    ("red", atomic::red),
    ("redux", warp::redux),
    ("rem", arithmetic::rem),
    ("ret", control::ret),
    ("rsqrt", float::rsqrt),
    ("sad", arithmetic::sad),
    ("selp", compare::selp),
    ("set", compare::set),
    ("setp", compare::setp),
    ("shf", bits::shf),
    ("shfl", warp::shfl),
    ("shl", bits::shl),
    ("shr", bits::shr),
    ("sin", float::sin),
    ("slct", compare::slct),
    ("sqrt", float::sqrt),
    ("st", memory::st),
    ("sub", arithmetic::sub),
    ("subc", carry::subc),
    ("szext", fields::szext),
    ("tanh", float::tanh),
    ("testp", float::testp),
    ("trap", control::trap),
    ("vote", warp::vote),
    ("xor", bits::xor),
];

/// The decoder of an instruction.
pub(crate) fn find(mnemonic: &str) -> Option<Decoder> {
    TABLE
        .binary_search_by_key(&mnemonic, |(name, _)| name)
        .ok()
        .map(|at| TABLE[at].1)
}

/// The first part of every instruction that is supported, in alphabetical order.
pub fn mnemonics() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|&(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_is_found() {
        assert!(TABLE.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(mnemonics().all(|name| find(name).is_some()));
        assert!(find("wmma").is_none());
    }
}
