//! Turns at an open file: whoever reads or writes on where it was left has it to itself meanwhile, so that what two
//! threads do comes one after the other, as on Linux. A turn may be held while its holder waits.

use crate::sync::atomic::{AtomicBool, Ordering};

use crate::executor::WaitQueue;

/// Whose turn it is.
pub(crate) struct Turns {
    taken: AtomicBool,
    over: WaitQueue,
}

/// A turn, until this is dropped.
pub(crate) struct Turn<'a>(&'a Turns);

impl Turns {
    /// Nobody's.
    pub(crate) const fn new() -> Self {
        Self { taken: AtomicBool::new(false), over: WaitQueue::new() }
    }

    /// Takes the turn, if nobody has it.
    pub(crate) fn try_take(&self) -> Option<Turn<'_>> {
        (!self.taken.swap(true, Ordering::Acquire)).then(|| Turn(self))
    }

    /// Waits until nobody has the turn, and takes it.
    pub(crate) async fn take(&self) -> Turn<'_> {
        self.over.wait_until(|| self.try_take()).await
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
        self.0.over.wake_all();
    }
}
