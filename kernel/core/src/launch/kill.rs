//! Ending a process from outside, and stopping one that has not begun.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU8, Ordering};

use crate::executor::WaitQueue;

/// Ends a process as if by a signal, wherever it is: its future is dropped at the next point where it waits or an
/// interrupt takes the core from it. Clones end the same process.
#[derive(Clone)]
pub(crate) struct KillSwitch(Arc<Shared>);

struct Shared {
    /// The signal, 0 as long as nobody wants the process to end.
    signal: AtomicU8,
    /// The signal that the process is to be stopped by when it begins, 0 for none.
    stop: AtomicU8,
    changed: WaitQueue,
}

impl KillSwitch {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Shared { signal: AtomicU8::new(0), stop: AtomicU8::new(0), changed: WaitQueue::new() }))
    }

    /// Ends the process by this signal (0 is taken for `SIGKILL`). Only the first call counts.
    pub(crate) fn kill(&self, signal: u8) {
        let signal = if signal == 0 { crate::abi::signal_set::SIGKILL as u8 } else { signal };
        // The first one stays, whoever comes later.
        let _ = self.0.signal.compare_exchange(0, signal, Ordering::AcqRel, Ordering::Acquire);
        self.0.changed.wake_all();
    }

    /// The process, which has not begun, is to be stopped by this signal when it does; 0: it is not.
    pub(crate) fn stop(&self, signal: u8) {
        self.0.stop.store(signal, Ordering::Release);
    }

    /// The signal that the process is to be stopped by now that it begins.
    pub(crate) fn take_stop(&self) -> Option<u8> {
        Some(self.0.stop.swap(0, Ordering::AcqRel)).filter(|signal| *signal != 0)
    }

    /// The signal, if somebody wants the process to end.
    pub(crate) fn signal(&self) -> Option<u8> {
        Some(self.0.signal.load(Ordering::Acquire)).filter(|signal| *signal != 0)
    }

    /// Waits until somebody wants the process to end; the signal.
    pub(crate) async fn killed(&self) -> u8 {
        self.0.changed.wait_until(|| self.signal()).await
    }
}
