//! The commands, except `run`.

pub(crate) mod attach;
pub(crate) mod checkpoints;
pub(crate) mod completions;
pub(crate) mod console;
pub(crate) mod core;
pub(crate) mod dashboard;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod explain;
pub(crate) mod forget;
pub(crate) mod gdb;
pub(crate) mod job;
pub(crate) mod link;
pub(crate) mod listings;
pub(crate) mod logs;
pub(crate) mod metrics;
pub(crate) mod objects;
pub(crate) mod orders;
pub(crate) mod overlay;
pub(crate) mod profile;
mod rank_profile;
pub(crate) mod report;
pub(crate) mod samples;
pub(crate) mod stage;
mod transfers;
pub(crate) mod up;
