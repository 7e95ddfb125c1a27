//! PTX text into a tree.
//!
//! The parser is our own, on top of `logos`. The kept parser of PTX, `ptx-syntax` 0.5.0, has a type for each form of each
//! instruction: 126,252 lines to compile. Here an instruction is a name, modifiers and operands, and the decoder refuses
//! what it does not know.
pub(crate) mod ast;
mod body;
mod lexer;
mod parser;

pub(crate) use parser::parse;
