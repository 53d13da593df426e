//! The only kernel crate that may say unsafe: a safe API above the machine.
#![no_std]
