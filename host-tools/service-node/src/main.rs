//! coppiced: database, scheduler and machines of one cluster.
fn main() {}
