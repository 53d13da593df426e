//! How long to wait before the next attempt.

use crate::executor;
use crate::limits::{RECONNECT_PAUSE_NS, RECONNECT_PAUSE_NS_MAX};
use crate::random;

/// Pauses that double from one failure to the next, up to a limit, each cut by a random part, so that nodes that lost
/// the same I/O node do not all come back at once.
pub(crate) struct Backoff {
    next_ns: u64,
}

impl Backoff {
    pub(crate) const fn new() -> Self {
        Self { next_ns: RECONNECT_PAUSE_NS }
    }

    /// An attempt succeeded.
    pub(crate) const fn reset(&mut self) {
        self.next_ns = RECONNECT_PAUSE_NS;
    }

    /// Waits for this failure's pause.
    pub(crate) async fn pause(&mut self) {
        executor::sleep(self.take()).await;
    }

    fn take(&mut self) -> u64 {
        let pause_ns = self.next_ns;
        self.next_ns = (pause_ns * 2).min(RECONNECT_PAUSE_NS_MAX);
        pause_ns - u64::from_le_bytes(random::bytes()) % (pause_ns / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;
    use crate::limits::{RECONNECT_PAUSE_NS, RECONNECT_PAUSE_NS_MAX};

    #[test]
    fn pauses_grow_to_the_limit_and_start_again() {
        let mut backoff = Backoff::new();
        assert!(backoff.take() <= RECONNECT_PAUSE_NS);
        let last = (0..20).map(|_| backoff.take()).last();
        assert!(last.is_some_and(|last| last > RECONNECT_PAUSE_NS_MAX / 2 && last <= RECONNECT_PAUSE_NS_MAX));
        backoff.reset();
        assert!(backoff.take() <= RECONNECT_PAUSE_NS);
    }
}
