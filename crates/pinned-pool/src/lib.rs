#![doc = include_str!("../README.md")]

mod buffer;
mod error;
mod lease;
mod pool;

pub use error::Error;
pub use lease::Lease;
pub use pool::Pool;
