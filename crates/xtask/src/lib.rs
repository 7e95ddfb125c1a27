//! Runs listings and records what they print and do.
//!
//! `cargo xtask bless` writes the recorded files with this library, and the tests compare them with it.
//! Both therefore mean the same by "what the listing prints".
//!
//! | module | its one job |
//! |---|---|
//! | [`examples`] | which listings there are, and what each declares |
//! | [`build`] | the programs that cargo makes of them |
//! | [`record`] | one run of one listing |
//! | [`timeline`] | the diagram of a run |
//! | [`files`] | the recorded files beside a listing |
//! | [`figures`] | the figures of the book |

pub mod build;
pub mod examples;
pub mod figures;
pub mod files;
pub mod record;
pub mod timeline;
