//! Serves one pset: files, program pages, standard streams, heartbeats.
//!
//! One process, one event loop. What is decided, [`machine`] decides: a state machine without a disk, a clock or a
//! task. Around it are the `shell`, which moves bytes between the network (`link`), the service node (`pset`) and the
//! machine, and the `disk`, which has the roots, programs and open files of the jobs. A node has two connections: one
//! for launches, results and heartbeats, one for the system calls of its ranks, which `files` executes in the job's
//! root. Only calls that wait for the disk leave the event loop's thread, and those that open files or change names,
//! which are done on a thread of the job's that the host's kernel keeps in its root (`wall`). Objects of checkpoints
//! are kept by threads that reach nothing else but nodes' regions, from which they pull some. Files that a job stages
//! go from here to its nodes in datagrams (`distribution`).

pub mod clock;
mod descriptors;
mod disk;
mod distribution;
mod files;
pub mod limits;
pub mod link;
pub mod machine;
pub mod privileges;
mod pset;
pub mod regions;
mod shell;
pub mod wall;

pub use pset::run;
