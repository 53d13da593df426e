//! What is read and written without offsets, and may make whoever does wait: pipes, pairs, counters, sockets.
//!
//! Bytes go from the program's memory into the object's and back without a stop: the object calls whoever moves them
//! with pieces of its own memory.

use core::net::Ipv4Addr;

use crate::errno::Errno;

/// Takes bytes that lie together; returns how many it took, which are fewer only if it can take no more now.
pub(crate) type Sink<'a> = dyn FnMut(&[u8]) -> usize + 'a;

/// Fills memory with bytes; returns how many it did, which are fewer only if it has no more now.
pub(crate) type Source<'a> = dyn FnMut(&mut [u8]) -> usize + 'a;

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Bytes that the sink took.
    pub(crate) copied: usize,
    /// Bytes that were there, those of one message if there are messages.
    pub(crate) length: usize,
}

/// See this module. Nothing here waits: `EAGAIN` says that it would have to.
pub(crate) trait Stream: Sync {
    /// Gives up to `limit` bytes, those of one message if there are messages, to `sink`, and forgets those it took. A
    /// message is forgotten as a whole, unless `sink` did not take all it was given: then it stays. With `peek`,
    /// everything stays. At the end, there are none, and `sink` is not called.
    ///
    /// # Errors
    /// `EAGAIN`: there are none yet. Others: there will be none.
    fn take(&self, limit: usize, peek: bool, sink: &mut Sink<'_>) -> Result<Taken, Errno>;

    /// Has `source` put up to `length` bytes into it, as many as there is room for, or all if they are a message or
    /// belong together. Returns how many; if `source` could not give all that belong together, none.
    ///
    /// # Errors
    /// `EAGAIN`: there is no room now. `EPIPE`: nobody would read them. Others: they cannot be written.
    fn put(&self, length: usize, source: &mut Source<'_>) -> Result<usize, Errno>;

    /// Whom in the network what is put goes to, if it goes there.
    fn receiver(&self) -> Option<Ipv4Addr> {
        None
    }

    /// Who in the network sent what was taken last, if it came from there.
    fn sender(&self) -> Option<Ipv4Addr> {
        None
    }

    /// Whether what is written apart is kept apart.
    fn shape(&self) -> Shape {
        Shape::Bytes
    }
}

/// What goes through a [`Stream`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Bytes, which are not kept apart.
    Bytes,
    /// Messages.
    Messages,
    /// Numbers of 8 bytes; whatever is written behind one is not looked at.
    Numbers,
}

/// A source of these bytes, which are fewer with each call.
pub(crate) fn copy_from<'a>(mut bytes: &'a [u8]) -> impl FnMut(&mut [u8]) -> usize + 'a {
    move |slot| {
        let (now, later) = bytes.split_at(slot.len().min(bytes.len()));
        slot[..now.len()].copy_from_slice(now);
        bytes = later;
        now.len()
    }
}
