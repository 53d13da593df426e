//! signalfd(2): signals that are read instead of handled.
//!
//! What is read is what is pending for the thread that reads, or for its process. Whether there is anything is told of
//! all threads together: who polls for another thread's signal finds nothing to read.

use alloc::sync::Arc;
use core::task::Waker;

use super::readiness::Ready;
use super::signal_board::SignalBoard;
use crate::abi::signal_set::SignalSet;
use crate::errno::Errno;
use crate::sync::atomic::{AtomicU64, Ordering};

/// See this module.
pub(crate) struct SignalFile {
    wanted: AtomicU64,
    board: Arc<SignalBoard>,
}

impl SignalFile {
    /// One that gives these signals of the process with this board. It takes no more than its open file.
    pub(crate) fn new(wanted: SignalSet, board: Arc<SignalBoard>) -> Self {
        Self { wanted: AtomicU64::new(wanted.0), board }
    }

    /// Which signals it gives.
    pub(crate) fn wanted(&self) -> SignalSet {
        SignalSet(self.wanted.load(Ordering::Acquire))
    }

    /// Has it give other signals.
    pub(crate) fn set_wanted(&self, wanted: SignalSet) {
        self.wanted.store(wanted.0, Ordering::Release);
        self.board.watchers.notify();
    }

    /// See [`super::OpenFile::ready`].
    pub(crate) fn ready(&self) -> Ready {
        if self.board.pending().and(self.wanted()).is_empty() { Ready::empty() } else { Ready::INPUT }
    }

    /// See [`super::OpenFile::watch`].
    pub(crate) fn watch(&self, waker: &Waker) -> Result<(), Errno> {
        self.board.watchers.watch(waker)
    }
}
