//! What the whole-cluster tests share: a cluster that takes itself down ([`Cluster`]), the programs that run on it
//! ([`guests`]), and the same programs run on the host to compare with ([`host`]).
//!
//! The tests drive `coppice` as a user does. `cargo xtask test` builds it before; nothing here is built by cargo.

pub mod cluster;
pub mod guests;
pub mod host;

pub use cluster::{Cluster, Ran};
