//! Execution: lanes of a warp, warps of a block.
pub(crate) mod block;
mod call;
pub(crate) mod lanes;
pub(crate) mod memory;
pub(crate) mod sync;
pub(crate) mod warp;
