//! What tests of this crate and of those above it run stacks on: a wire in memory ([`wire`]), and a whole world of two
//! stacks on a bad one ([`World`]).

mod wire;
mod world;

pub use self::wire::{End, Frame, wire};
pub use self::world::{CLEAN, Faults, JOB_LEFT, JOB_RIGHT, JOB_THIRD, LEFT, RIGHT, SIZES, World, job_network};
