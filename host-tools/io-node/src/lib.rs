//! Serves one pset: files, program pages, standard streams, heartbeats.
//!
//! One process, one thread, one task per connection (`accept`) and a few besides: `link` drives the network stack,
//! `pset` reads the service node's messages, `outbox` writes the answers. A node has two connections (`line`):
//! `control` for launches, results and heartbeats, `ship` for the system calls of its ranks, which `files`
//! executes in the job's root. Only calls that wait for the disk leave the thread, and those that open files or change
//! names, which are done on a thread of the job's that the host's kernel keeps in its root (`wall`).
//!
//! What is known of nodes is in `nodes`, of jobs in `jobs`; what happens to them is in `server`.

mod accept;
pub mod clock;
mod control;
mod descriptors;
mod dispatch;
mod files;
mod input;
mod jobs;
pub mod limits;
mod line;
pub mod link;
mod nodes;
mod opening;
mod outbox;
mod output;
mod peers;
pub mod privileges;
mod program;
mod pset;
mod server;
mod ship;
pub mod wall;

pub use pset::run;
