//! What can be done with a socket right now, readable without a lock, and who wants to know when that changes.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU16, Ordering};
use core::task::Waker;

use serde::{Deserialize, Serialize};
use spin::Mutex;

/// What can be done with a socket without waiting, as poll(2) says of Linux's sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Receiving, or accepting, does not wait: there is something, or the end, or an error.
    pub readable: bool,
    /// Sending does not wait: a third of the buffer is free, or it fails at once.
    pub writable: bool,
    /// An error waits to be taken.
    pub error: bool,
    /// Nothing can be sent or received any more, or could ever yet.
    pub hang_up: bool,
    /// The peer sends nothing more, or nobody wants to hear of it.
    pub read_hang_up: bool,
}

/// POLLIN and POLLRDNORM.
const READABLE: u16 = 0x041;
/// POLLOUT and POLLWRNORM.
const WRITABLE: u16 = 0x104;
/// POLLERR.
const ERROR: u16 = 0x008;
/// POLLHUP.
const HANG_UP: u16 = 0x010;
/// POLLRDHUP.
const READ_HANG_UP: u16 = 0x2000;

impl Readiness {
    /// Nothing yet.
    pub(crate) const NONE: Self =
        Self { readable: false, writable: false, error: false, hang_up: false, read_hang_up: false };

    /// A socket that was never connected.
    pub(crate) const FRESH: Self = Self { writable: true, hang_up: true, ..Self::NONE };

    fn bits(self) -> u16 {
        let Self { readable, writable, error, hang_up, read_hang_up } = self;
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        bit(readable, READABLE)
            | bit(writable, WRITABLE)
            | bit(error, ERROR)
            | bit(hang_up, HANG_UP)
            | bit(read_hang_up, READ_HANG_UP)
    }

    fn of(bits: u16) -> Self {
        Self {
            readable: bits & READABLE != 0,
            writable: bits & WRITABLE != 0,
            error: bits & ERROR != 0,
            hang_up: bits & HANG_UP != 0,
            read_hang_up: bits & READ_HANG_UP != 0,
        }
    }
}

/// A socket's readiness and its watcher.
pub(crate) struct Cell {
    /// The bits of poll(2), shared with those who look often.
    level: Arc<AtomicU16>,
    watched: Mutex<Watched>,
}

/// Who wants to know when a socket's readiness changes.
struct Watched {
    /// Stays until it is replaced.
    watcher: Option<Waker>,
    /// How often there was something to tell, whether anybody watched or not.
    changes: u64,
    /// What could be done with it before it was made again, and cannot yet: that is nothing to tell.
    known: u16,
}

/// What was told of a socket that becomes data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CellRecord {
    level: u16,
    changes: u64,
}

impl Cell {
    pub(crate) fn new(readiness: Readiness) -> Self {
        Self {
            level: Arc::new(AtomicU16::new(readiness.bits())),
            watched: Mutex::new(Watched { watcher: None, changes: 0, known: 0 }),
        }
    }

    pub(crate) fn get(&self) -> Readiness {
        Readiness::of(self.level.load(Ordering::Acquire))
    }

    /// The same as the bits of poll(2), and as it will be: always the same cell.
    pub(crate) fn level(&self) -> Arc<AtomicU16> {
        Arc::clone(&self.level)
    }

    /// Says what can be done now. The watcher is woken if that is more than before, or if there is `news` anyway: those
    /// who look at changes only (EPOLLET) want to hear of more of the same.
    pub(crate) fn set(&self, readiness: Readiness, news: bool) {
        let bits = readiness.bits();
        let old = self.level.swap(bits, Ordering::AcqRel);
        if news || bits & !old != 0 {
            self.tell(bits & !old, news);
        }
    }

    /// Wakes the watcher, if what is `more` than before was not known already.
    fn tell(&self, more: u16, news: bool) {
        let mut watched = self.watched.lock();
        let is_known = !news && more & !watched.known == 0;
        watched.known &= !more;
        if is_known {
            return;
        }
        watched.changes += 1;
        if let Some(watcher) = &watched.watcher {
            watcher.wake_by_ref();
        }
    }

    pub(crate) fn record(&self) -> CellRecord {
        let watched = self.watched.lock();
        CellRecord { level: self.level.load(Ordering::Acquire), changes: watched.changes }
    }

    /// Has it be that of a socket that was made again, as far as it is: nobody is told a second time.
    pub(crate) fn again(&self, record: CellRecord) {
        let mut watched = self.watched.lock();
        let CellRecord { level, changes } = record;
        watched.changes = changes;
        watched.known = Readiness::of(level).bits() & !self.level.load(Ordering::Acquire);
    }

    /// How often a watcher was, or would have been, woken. Whoever looks here meanwhile waits until it is.
    pub(crate) fn changes(&self) -> u64 {
        self.watched.lock().changes
    }

    /// Has `watcher`, and nobody else, woken from now on.
    pub(crate) fn watch(&self, watcher: &Waker) {
        let known = &mut self.watched.lock().watcher;
        if !known.as_ref().is_some_and(|known| known.will_wake(watcher)) {
            *known = Some(watcher.clone());
        }
    }

    /// Has nobody woken any more.
    pub(crate) fn forget_watcher(&self) {
        // It may be the last to hold something that has work to do when it goes.
        let watcher = self.watched.lock().watcher.take();
        drop(watcher);
    }
}
