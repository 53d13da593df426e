//! `coppice-fabric`: the switch process. Commands on standard input, replies and events on standard output.
fn main() {}
