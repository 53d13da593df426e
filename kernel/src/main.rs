//! The compute-node kernel: assembles hal and core.
fn main() {}
