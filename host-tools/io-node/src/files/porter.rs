//! Where a job's files are opened and its names changed: on a thread that the host's kernel keeps in the job's root.
//!
//! Whoever has something to be done there waits for it, as it would for the host's kernel.

use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};

use rustix::io::Errno;

use super::Result;

type Work = Box<dyn FnOnce() + Send>;

/// The way to a job's thread; when it goes, the thread ends.
#[derive(Debug)]
pub(super) struct Porter {
    work: Sender<Work>,
}

/// The other end, for the thread.
#[derive(Debug)]
pub(crate) struct Duty {
    work: Receiver<Work>,
}

impl Porter {
    /// Both ends.
    pub(super) fn new() -> (Self, Duty) {
        // At most one thing waits in it: there is one event loop, and it waits for the answer.
        let (sender, receiver) = channel();
        (Self { work: sender }, Duty { work: receiver })
    }

    /// Has something done on the job's thread. `EIO` if that is gone.
    pub(super) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let (answer, answered) = sync_channel(1);
        let work = Box::new(move || drop(answer.send(work())));
        self.work.send(work).map_err(|_| Errno::IO)?;
        answered.recv().unwrap_or(Err(Errno::IO))
    }
}

impl Duty {
    /// Does what there is to do until the job's root is no longer used.
    pub(crate) fn serve(self) {
        self.work.into_iter().for_each(|work| work());
    }
}
