//! Async TCP over smoltcp, the same for a node and for its I/O node.
#![no_std]
