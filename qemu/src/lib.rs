//! What a machine consists of, as types; launching, QMP, accelerator probe.
//!
//! | module | what |
//! | --- | --- |
//! | [`machine`] | a machine as a value, and the QEMU command line it means |
//! | [`processor`] | which processor it has |
//! | [`region`] | a file that it sees as memory |
//! | [`locate`] | which QEMU there is |
//! | [`tether`] | children that cannot outlive whoever started them |
//! | [`launch`] | a machine running, and how it ended |
//! | [`qmp`] | talking to a running QEMU |
//! | [`probe`] | whether KVM really works here |
//! | [`cpu_time`] | what a process has cost so far |
mod arguments;
pub mod cpu_time;
pub mod launch;
pub mod locate;
pub mod machine;
pub mod probe;
pub mod processor;
pub mod qmp;
pub mod region;
pub mod tether;
