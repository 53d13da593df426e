//! What a compute node decides; runs in host tests too.
#![no_std]

extern crate alloc;

pub mod errno;
