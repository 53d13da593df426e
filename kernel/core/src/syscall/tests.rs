//! System calls as programs make them, by number and registers, with an I/O node that the tests play.

mod asking;
mod charges;
mod descriptors;
mod edges;
mod frozen;
mod futex;
mod hostile;
mod interfaces;
mod kept;
mod likeness;
mod nested;
mod netlink;
mod offering;
mod output;
mod places;
mod polling;
mod process;
mod reading;
mod refusals;
mod served;
mod shared;
mod sockets;
mod streams;
mod threads;
mod waiting;
mod writing;
