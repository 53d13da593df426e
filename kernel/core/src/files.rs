//! Open files: descriptors, what they stand for, and where paths lead.
//!
//! A *descriptor* is a number that refers to an *open file* (Linux's "open file description"), which several
//! descriptors may share (dup(2)) and which holds the offset. What an open file stands for ([`OpenFile`]'s object) is a
//! file at the I/O node, a standard stream of the job, or something the kernel makes itself ([`special`]).

mod buffer;
mod closer;
mod descriptors;
mod device;
mod open_file;
mod path;
pub(crate) mod pipeline;
mod proc_text;
pub(crate) mod special;

pub(crate) use buffer::buffer;
pub(crate) use closer::Closer;
pub(crate) use descriptors::{DESCRIPTORS_MAX, Descriptor, Descriptors};
pub(crate) use device::Device;
pub(crate) use open_file::{Object, OpenFile, Standard, flags};
pub(crate) use path::absolute;
