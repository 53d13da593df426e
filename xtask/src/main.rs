//! Set-up, build, demo, test, bench, tidy.
fn main() {}
