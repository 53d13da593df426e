//! Everything nodes and host say to each other, sans-IO: no sockets, no clocks, no randomness in here.
//!
//! | module | between | what |
//! | --- | --- | --- |
//! | [`personality`] | service node → node, at boot | who the node is, whom to call, with which key |
//! | [`session`] | node ↔ I/O node | framing, challenge handshake, authentication |
//! | [`control`] | node ↔ I/O node | launch, kill, heartbeat, job results, RAS events |
//! | [`world`] | service node → nodes, inside `control` and `pset` | where a job's ranks are |
//! | [`retain`] | node ↔ I/O node, inside `control` | which page tables a node keeps between jobs |
//! | [`keep`] | node ↔ I/O node, inside `control` and `pset` | which files a node keeps without a job |
//! | [`ship`] | node → I/O node | function-shipped system calls and program pages |
//! | [`pset`] | service node ↔ I/O node | the same decisions, for all nodes of a pset |
//! | [`pmi`] | rank ↔ node, node ↔ node | what MPI programs ask of whoever started them; barriers |
//! | [`pmix`] | rank ↔ node | the same of clients of OpenPMIx |
//! | [`distribution`] | node ↔ node, home → node | files that go to many nodes at once |
//! | [`overlay`] | service node ↔ node, node ↔ node | what ranks do, gathered while they do it |
//! | [`checkpoint`] | inside `control`, `pset`, `ship` and [`inspect`] | what a job was, kept |
//! | [`region`] | node → I/O node, in a file that both have | what a node has kept and the I/O node pulls |
//! | [`trace`] | node → service node, inside `ship` | what a traced rank did |
//! | [`spawn`] | inside `control` and `pset` | ranks that a rank starts |
//! | [`trees`] | – | shapes of trees over the members of a group |
//! | [`psets`] | – | which nodes make up which pset |
//! | [`program`] | – | what a static program is, and why a file is not one |
//! | [`ranks`] | – | sets of ranks |
//! | [`signal`] | – | names and numbers of signals |
//! | [`text`] | – | paths, arguments and variables, which are bytes
#![no_std]

extern crate alloc;

pub mod broadcast;
pub mod checkpoint;
pub mod control;
pub mod distribution;
pub mod frame;
pub mod ids;
pub mod inspect;
pub mod keep;
pub mod lease;
pub mod limits;
pub mod lock;
pub mod manifest;
pub mod overlay;
pub mod personality;
pub mod pmi;
pub mod pmix;
pub mod program;
pub mod pset;
pub mod psets;
pub mod ranks;
pub mod ras;
pub mod region;
pub mod retain;
pub mod session;
pub mod ship;
pub mod signal;
pub mod spawn;
pub mod staging;
pub mod syscalls;
pub mod text;
pub mod trace;
pub mod transfer;
pub mod trees;
pub mod world;
