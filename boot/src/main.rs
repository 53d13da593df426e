//! PVH loader: from QEMU's -kernel to a bootloader_api entry point.
fn main() {}
