//! The checkers.
//!
//! Each is a function of a repository, so that it can also be shown one with a planted fault. What they find wrong
//! starts with the file to look at.

pub mod book;
pub mod driver;
pub mod hidden;
pub mod listing;
pub mod page;
pub mod tidy;
