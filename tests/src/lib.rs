//! What the whole-cluster tests share: a cluster that takes itself down ([`Cluster`]), the programs that run on it
//! ([`guests`]), the same programs run on the host to compare with ([`host`]), a look at all memory of a node
//! ([`physical`]) and a hand in it ([`debugger`]), a cluster's links ([`links`]), recordings of them ([`recording`]),
//! jobs that wait at a known point meanwhile ([`Waiting`]), a Prometheus that looks at it ([`monitoring`]), a dashboard
//! of it ([`dashboard`]), a browser ([`browser`]), mounts of a test's own ([`namespace`]), random numbers ([`random`]),
//! jobs that write much ([`talk`]), terminals ([`terminal`]), and random calls to compare ([`likeness`]).
//!
//! The tests drive `coppice` as a user does. `cargo xtask test` builds it before; nothing here is built by cargo. Only
//! [`rig`] knows what goes over the wire: a machine without a cluster, whose I/O node is the test.

pub mod browser;
pub mod cluster;
mod commands;
pub mod dashboard;
pub mod debugger;
pub mod guests;
pub mod host;
pub mod likeness;
pub mod links;
pub mod monitoring;
pub mod namespace;
pub mod physical;
pub mod random;
pub mod recording;
pub mod rig;
pub mod talk;
pub mod terminal;
pub mod waiting;

pub use cluster::{Cluster, Ran};
pub use waiting::Waiting;
