//! Somebody in the kernel who says everything back, for sockets that are connected with the kernel.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;

use crate::errno::Errno;
use crate::files::readiness::{Ready, Watchers};
use crate::files::stream::{Sink, Source, Stream, Taken};
use crate::files::{Servers, Service};
use crate::quota::Quota;
use crate::sync::{LockLevel, Mutex};

/// The port at which that is.
pub(crate) const ECHO_PORT: u16 = 7070;

/// What it says is not longer than that, bytes; nor does it hear more until that was read.
pub(crate) const ECHO_BYTES_MAX: usize = 64;

/// See this module.
pub(crate) struct Echoes(pub(crate) Arc<Quota>);

struct Echo {
    said: Mutex<Vec<u8>>,
    watchers: Watchers,
}

impl Servers for Echoes {
    fn has(&self, port: u16) -> bool {
        port == ECHO_PORT
    }

    fn connect(&self, port: u16) -> Result<Box<dyn Service>, Errno> {
        let echo = Echo { said: Mutex::new(LockLevel::OpenFile, Vec::new()), watchers: Watchers::new(&self.0) };
        if self.has(port) { Ok(Box::new(echo)) } else { Err(Errno::ECONNREFUSED) }
    }
}

impl Service for Echo {
    fn ready(&self) -> Ready {
        let bytes = self.said.lock().len();
        let mut ready = Ready::empty();
        ready.set(Ready::READ, bytes > 0);
        ready.set(Ready::WRITE, bytes < ECHO_BYTES_MAX);
        ready
    }

    fn watch(&self, waker: &Waker) -> Result<(), Errno> {
        self.watchers.watch(waker)
    }

    fn held(&self) -> usize {
        self.said.lock().len()
    }

    fn record(&self) -> Result<Vec<u8>, Errno> {
        Ok(self.said.lock().clone())
    }

    fn serial(&self) -> u64 {
        7
    }
}

impl Stream for Echo {
    fn take(&self, limit: usize, peek: bool, sink: &mut Sink<'_>) -> Result<Taken, Errno> {
        let taken = {
            let mut said = self.said.lock();
            if said.is_empty() {
                return Err(Errno::EAGAIN);
            }
            let length = said.len();
            let copied = sink(&said[..length.min(limit)]);
            if !peek {
                said.drain(..copied);
            }
            Taken { copied, length }
        };
        self.watchers.notify();
        Ok(taken)
    }

    fn put(&self, length: usize, source: &mut Source<'_>) -> Result<usize, Errno> {
        let count = {
            let mut said = self.said.lock();
            let room = length.min(ECHO_BYTES_MAX.saturating_sub(said.len()));
            if room == 0 {
                return Err(Errno::EAGAIN);
            }
            let before = said.len();
            said.resize(before + room, 0);
            let count = source(&mut said[before..]);
            said.truncate(before + count);
            count
        };
        self.watchers.notify();
        Ok(count)
    }
}
