//! Serves one pset: files, program pages, standard streams, heartbeats.
fn main() {}
