//! User-space Ethernet switch for QEMU dgram netdevs.
fn main() {}
