//! c2c
fn main() {}
