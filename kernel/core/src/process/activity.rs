//! What a rank does, as whoever looks at a job from outside wants to know of each rank, again and again
//! ([`coppice_protocol::overlay`]).
//!
//! How often something happened is counted in any case, by each thread for itself. Where the time goes is measured only
//! while somebody wants to know ([`Process::measure`]): it begins to count then, also of a thread that has waited for
//! long by then, and a thread that is under way says how far it is. A process that is stopped or held does nothing, and
//! its time counts for nothing.
//!
//! A process that is made data and made again on its node goes on counting where it was. On another node, from a
//! checkpoint, it begins anew, but for what its memory and files have counted.

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use coppice_protocol::control::SyscallCount;
use coppice_protocol::overlay::{Metric, Values};

use crate::executor::{self, Phase, PhaseTimes};
use crate::process::{Process, ThreadState};
use crate::sync::atomic::{AtomicU64, Ordering};

/// What a thread counts itself. Only its core writes here.
#[derive(Debug, Default)]
pub(crate) struct Deeds {
    sent: AtomicU64,
    received: AtomicU64,
    signals: AtomicU64,
}

impl Deeds {
    /// Bytes went to another node.
    pub(crate) fn sent(&self, bytes: u64) {
        add(&self.sent, bytes);
    }

    /// Bytes came from another node.
    pub(crate) fn received(&self, bytes: u64) {
        add(&self.received, bytes);
    }

    /// A signal runs its handler, or was taken by a call.
    pub(crate) fn signal(&self) {
        add(&self.signals, 1);
    }
}

fn add(to: &AtomicU64, count: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

/// What threads have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    times: PhaseTimes,
    turns: u64,
    sent: u64,
    received: u64,
    signals: u64,
}

impl Done {
    /// And what a thread has done until `now_ns`, which is to be what the clock showed just now.
    pub(super) fn add(&mut self, thread: &ThreadState, now_ns: u64) {
        for (sum, time_ns) in self.times.iter_mut().zip(thread.clock.phase_times(now_ns)) {
            *sum = sum.saturating_add(time_ns);
        }
        self.turns += thread.clock.turns();
        self.sent += thread.deeds.sent.load(Ordering::Relaxed);
        self.received += thread.deeds.received.load(Ordering::Relaxed);
        self.signals += thread.deeds.signals.load(Ordering::Relaxed);
    }
}

/// What a process has besides its threads of what they do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Activity {
    /// Somebody wants to know where their time goes.
    pub(super) is_measured: bool,
    /// What those have done that are gone.
    pub(super) gone: Done,
    /// The most that was ever told of each.
    told: Values,
}

impl Activity {
    /// Nothing yet.
    pub(crate) const fn none() -> Self {
        let gone = Done { times: [0; Phase::COUNT], turns: 0, sent: 0, received: 0, signals: 0 };
        Self { is_measured: false, gone, told: [0; Metric::ALL.len()] }
    }

    /// What is to be told if it is this now: no less than before. What a core does is seen a moment later elsewhere,
    /// and a call that will be made again is not counted for a while.
    pub(super) fn tell(&mut self, values: &Values) -> Values {
        for metric in Metric::ALL {
            let (told, value) = (&mut self.told[metric as usize], values[metric as usize]);
            *told = if metric == Metric::PagesResident { value } else { value.max(*told) };
        }
        self.told
    }
}

impl ThreadState {
    /// What the thread waits for when it next waits, until it says something else. To be said by itself.
    #[inline]
    pub(crate) fn waits_for(&self, phase: Phase) {
        self.clock.waits_for(phase);
    }
}

impl Process {
    /// Measures from now on where its threads' time goes, or no longer. To be called on any core.
    pub(crate) fn measure(&self, on: bool) {
        self.sent_to.measure(on);
        if self.threads.measure(on) {
            // They begin, or end, as soon as they have run.
            self.call_all();
        }
    }

    /// What it has done in its life, and is doing now: see [`Metric`]. All but its pages only grow. And its calls, one
    /// by one, which add up to what is in there of calls.
    pub(crate) fn deeds(&self) -> (Values, Vec<SyscallCount>) {
        let memory = self.space.lock().stats();
        let [_, read, written] = self.account.used();
        let by_number = self.counts.report();
        let calls = by_number.iter().fold(0_u64, |sum, count| sum.wrapping_add(count.calls));
        let values = self.threads.tell(|done| {
            Metric::ALL.map(|metric| match metric {
                Metric::User => done.times[Phase::User as usize],
                Metric::Kernel => done.times[Phase::Kernel as usize],
                Metric::Futex => done.times[Phase::Futex as usize],
                Metric::Network => done.times[Phase::Network as usize],
                Metric::File => done.times[Phase::File as usize],
                Metric::Input => done.times[Phase::Input as usize],
                Metric::Sleep => done.times[Phase::Sleep as usize],
                Metric::Page => done.times[Phase::Page as usize],
                Metric::Ready => done.times[Phase::Ready as usize],
                Metric::Faults => memory.faults,
                Metric::PagesFetched => memory.pages_fetched,
                Metric::PagesResident => memory.pages,
                Metric::Calls => calls,
                Metric::BytesShipped => read.saturating_add(written),
                Metric::BytesSent => done.sent,
                Metric::BytesReceived => done.received,
                Metric::Turns => done.turns,
                Metric::Signals => done.signals,
            })
        });
        (values, by_number)
    }

    /// Whether this address of the job's network is another node's.
    pub(crate) fn is_elsewhere(&self, address: Ipv4Addr) -> bool {
        !address.is_loopback() && !address.is_unspecified() && self.own_address() != Some(address)
    }

    /// Its node's address, which stays the same as long as it is there, and is asked for once.
    fn own_address(&self) -> Option<Ipv4Addr> {
        if let Some(known) = self.own_address.get() {
            return Some(*known);
        }
        let address = self.node.network.address()?;
        Some(*self.own_address.call_once(|| address))
    }
}

/// The time for [`Done::add`].
pub(super) fn now_ns() -> u64 {
    executor::now_ns()
}

#[cfg(test)]
mod tests;
