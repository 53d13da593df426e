//! Checkpoints on a node: what a job's ranks here are is kept by the I/O node while they go on, and ranks are made from
//! what was kept.
//!
//! A checkpoint begins with a cut ([`crate::process::cut`]): all ranks stand and are data. In its step *save* each adds
//! what it is to its job's [`OfJob`], with its pages as they are ([`crate::memory::Snapshot`]), and goes on. One task
//! for all of them ([`save`]) gives that to the node's region or to the I/O node, object by object ([`objects`]), in
//! turns with the programs. What was kept last ([`last`]) and is unchanged is not given again. What is written is
//! described in [`image`]; [`load`] reads it, from the region what is there.
//!
//! The whole is given up when a rank comes to its end before it is kept, and when a program needs the memory that its
//! pages take as they were: a checkpoint never ends a job.

mod image;
mod last;
mod load;
mod objects;
mod of_job;
mod save;

pub(crate) use self::load::{Loaded, NotLoaded, OfNode, Place, load, load_node, place_pages};
pub(crate) use self::of_job::OfJob;
pub(crate) use self::save::{Outer, RankPart, begin};
