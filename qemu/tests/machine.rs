//! Machines and tethers on the real system. The harness is ours, because children come through this program's `main`.
fn main() {
    coppice_qemu::tether::intercept();
}
