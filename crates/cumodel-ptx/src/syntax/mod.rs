//! PTX text into a tree.
pub(crate) mod ast;
mod body;
mod lexer;
mod parser;

pub(crate) use parser::parse;
