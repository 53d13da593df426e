//! Control tool of Coppice clusters.
fn main() {}
