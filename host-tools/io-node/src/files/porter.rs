//! Where a job's files are looked at, opened and closed, and its names changed: on threads of its own, one for each of
//! its nodes, which the host's kernel keeps in the job's root.
//!
//! A mount that does not answer keeps such a thread waiting, and with it the calls of that node's ranks of that job,
//! and nobody else. Whoever has something to be done there waits for the answer without holding anybody up.

use std::cell::Cell;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::Builder;

use rustix::io::Errno;

use super::Result;
use crate::disk::JobPlace;

type Work = Box<dyn FnOnce() + Send>;

thread_local! {
    /// This thread is a job's.
    static ON_DUTY: Cell<bool> = const { Cell::new(false) };
}

/// The way to a job's thread; when the last of them goes, the thread ends.
#[derive(Clone, Debug)]
pub(crate) struct Porter {
    work: Sender<Work>,
}

/// The other end, for the thread.
#[derive(Debug)]
pub(crate) struct Duty {
    work: Receiver<Work>,
    /// The job's place is not another's as long as the thread is there.
    _place: Option<JobPlace>,
}

impl Porter {
    /// Both ends.
    pub(super) fn new(place: Option<JobPlace>) -> (Self, Duty) {
        // As much waits in it as the nodes have calls under way, and what ended ranks leave, once each.
        let (sender, receiver) = channel();
        (Self { work: sender }, Duty { work: receiver, _place: place })
    }

    /// Another thread of the job, started by this one, so that it is kept in the root, too. Without one, whatever is
    /// to be done there is `EIO`.
    pub(crate) fn another(&self, name: String, place: Option<JobPlace>) -> Self {
        let (porter, duty) = Self::new(place);
        self.leave(move || {
            if let Err(error) = Builder::new().name(name).spawn(move || duty.serve()) {
                tracing::warn!(%error, "cannot start a thread for a job's files");
            }
        });
        porter
    }

    /// Has something done on the job's thread, by one who may wait. `EIO` if that is gone.
    pub(super) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let (answer, answered) = sync_channel(1);
        self.leave(move || drop(answer.send(work())));
        answered.recv().unwrap_or(Err(Errno::IO))
    }

    /// Leaves something to be done there some time. If the thread is gone, it is dropped.
    pub(crate) fn leave(&self, work: impl FnOnce() + Send + 'static) {
        drop(self.work.send(Box::new(work)));
    }
}

impl Duty {
    /// Does what there is to do until nobody is left who could have any.
    pub(crate) fn serve(self) {
        ON_DUTY.set(true);
        self.work.into_iter().for_each(|work| work());
    }
}

/// Whether this is a job's thread.
pub(super) fn is_on_duty() -> bool {
    ON_DUTY.get()
}
