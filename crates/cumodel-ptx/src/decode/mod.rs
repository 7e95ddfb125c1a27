//! The tree into code: names become registers, instructions become functions over the lanes of a warp.
mod arithmetic;
mod atomic;
mod bits;
mod carry;
mod compare;
mod control;
mod convert;
mod fields;
mod float;
mod form;
mod function;
mod half;
mod layout;
mod memory;
mod moves;
mod rounding;
mod scope;
mod special;
mod table;
mod warp;

pub(crate) use function::decode;
pub(crate) use layout::Layout;
pub use table::mnemonics;
