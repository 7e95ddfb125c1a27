//! Builds, checks and serves the book.
//!
//! mdBook exits 0 on a missing include, a misspelt anchor, a broken link or a missing image. This
//! crate runs mdBook in-process and adds the checks that turn each of these into a [`Problem`]
//! with a file and a line.
//!
//! * [`check::check`] returns every problem of a book;
//! * [`build::build`] writes the site, and only if there is no problem;
//! * [`serve::Server`] keeps the last good site in the browser while its sources change.

#[cfg(feature = "book")]
pub mod book;
#[cfg(feature = "book")]
pub mod build;
#[cfg(feature = "book")]
pub mod check;
#[cfg(feature = "book")]
mod html;
#[cfg(feature = "book")]
mod render;
#[cfg(feature = "book")]
pub mod serve;

#[cfg(feature = "book")]
pub use book::Book;
#[cfg(feature = "book")]
pub use check::Problem;
