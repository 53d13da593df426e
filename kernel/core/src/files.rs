//! Open files: descriptors, what they stand for, and where paths lead.
//!
//! A *descriptor* is a number that refers to an *open file* (Linux's "open file description"), which several
//! descriptors may share (dup(2)) and which holds the offset. What an open file stands for ([`OpenFile`]'s object) is a
//! file at the I/O node, a standard stream of the job, something the kernel makes itself ([`special`]), or something
//! that programs make to talk through it or to wait at ([`stream`], [`poller`]).
//!
//! What makes those who use it wait says when it is ready, and tells those who watch it ([`readiness`]).

pub(crate) mod asks;
mod buffer;
pub(crate) mod cache;
mod channel;
mod closer;
pub(crate) mod counters;
mod descriptors;
mod device;
mod event;
pub(crate) mod flags;
mod input;
pub(crate) mod interfaces;
mod link;
pub(crate) mod locks;
pub(crate) mod names;
pub(crate) mod netlink;
mod open_file;
pub(crate) mod pair;
mod path;
pub(crate) mod pipe;
pub(crate) mod pipeline;
pub(crate) mod poller;
pub(crate) mod readiness;
pub(crate) mod record;
mod ring;
mod service;
pub(crate) mod shared;
mod signal_board;
mod signal_file;
pub(crate) mod socket;
pub(crate) mod socket_options;
mod source;
pub(crate) mod special;
pub(crate) mod stream;
mod timer;
mod told;
mod turns;

use core::sync::atomic::{AtomicU64, Ordering};

pub(crate) use buffer::buffer;
pub(crate) use closer::Closer;
pub(crate) use descriptors::{DESCRIPTORS_MAX, Descriptor, Descriptors};
pub(crate) use device::Device;
pub(crate) use event::Event;
pub(crate) use input::Input;
pub(crate) use open_file::{OPEN_FILE_BYTES, Object, OpenFile, S_IFREG, Shipped, Standard};
pub(crate) use path::{absolute, components, executable};
pub(crate) use readiness::Ready;
pub(crate) use service::{NoServers, Servers, Service};
pub(crate) use signal_board::SignalBoard;
pub(crate) use signal_file::SignalFile;
pub(crate) use timer::TimerFile;
pub(crate) use turns::{Turn, Turns};

/// A number that no other object has: what tells pipes, sockets and the like apart where files have inodes.
pub(crate) fn serial() -> u64 {
    NEXT_SERIAL.fetch_add(1, Ordering::Relaxed)
}

static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1000);

/// No number up to this one is given from now on: something has it that was made on another node.
pub(crate) fn serials_from(taken: u64) {
    NEXT_SERIAL.fetch_max(taken.saturating_add(1), Ordering::Relaxed);
}
