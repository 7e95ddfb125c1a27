//! Shared by the proofs.
