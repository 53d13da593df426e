//! The only kernel crate that may say unsafe: a safe API above the machine.
#![no_std]

pub mod addr;
pub mod frames;
pub mod paging;
