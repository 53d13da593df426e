//! A timer that is as exact as the host's: the runtime's own counts milliseconds, in which several pieces go over a
//! link.

use std::fs::File;
use std::io::{ErrorKind, Result};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::net::unix::pipe::Receiver;

/// See this module.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// What the runtime watches as a pipe may be anything that can be polled and read.
    timer: Receiver,
}

/// Time between two looks at what is to be done if the host's timer does not work.
const WITHOUT_TIMER: Duration = Duration::from_millis(10);

const NEVER: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

impl Alarm {
    /// One that is not set. Must be called in a runtime.
    ///
    /// # Errors
    /// If the host has no timer.
    pub(crate) fn new() -> Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        Ok(Self { timer: Receiver::from_file_unchecked(File::from(timer))? })
    }

    /// Waits so long; for ever if no time is given.
    pub(super) async fn after(&self, wait_ns: Option<u64>) {
        if let Err(error) = self.try_after(wait_ns).await {
            tracing::warn!(%error, "the host's timer does not work");
            tokio::time::sleep(WITHOUT_TIMER).await;
        }
    }

    async fn try_after(&self, wait_ns: Option<u64>) -> Result<()> {
        // A time of 0 is none.
        let at = wait_ns.map_or(NEVER, |wait_ns| {
            let (seconds, ns) = (wait_ns.max(1) / 1_000_000_000, wait_ns.max(1) % 1_000_000_000);
            // The first is far below the limit, as is the second.
            Timespec { tv_sec: seconds.cast_signed(), tv_nsec: ns.cast_signed() }
        });
        let once = Itimerspec { it_interval: NEVER, it_value: at };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        loop {
            self.timer.readable().await?;
            match self.timer.try_read(&mut [0; 8]) {
                // What it was set to before may have been over.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read.map(drop),
            }
        }
    }
}
