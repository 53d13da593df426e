//! What a compute node decides; runs in host tests too.
#![no_std]
