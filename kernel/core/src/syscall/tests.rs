//! System calls as programs make them, by number and registers, with an I/O node that the tests play.

mod descriptors;
mod hostile;
mod output;
mod places;
mod process;
mod reading;
mod waiting;
mod writing;
