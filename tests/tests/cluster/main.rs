//! Real programs on clusters of real QEMU nodes, under TCG, driven through `coppice` as a user drives it.

mod bad_input;
mod boot;
mod busybox;
mod cluster_life;
mod datagrams;
mod demand;
mod faults;
mod guests;
mod hostile;
mod jobs;
mod mpi;
mod mpi_ends;
mod names;
mod pmi;
mod ranks;
mod retention;
mod retention_abuse;
mod retention_endurance;
mod retention_pages;
mod retention_secrets;
mod retention_worked;
mod scale;
mod shared_memory;
mod sockets;
mod streams;
