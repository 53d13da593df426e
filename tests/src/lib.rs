//! Whole-cluster tests on real QEMU nodes.
