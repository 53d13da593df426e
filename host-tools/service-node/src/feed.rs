//! What a job writes on its way from the I/O nodes to everybody who takes it: whoever runs the job, readers that came
//! later, and its log.
//!
//! An I/O node sends at most its window ([`OUTPUT_WINDOW_BYTES`]) before it hears that something was taken, and the
//! feed checks that it keeps to it. Taken is what all have taken: whoever is slowest holds up the ranks that write, and
//! nobody misses anything. So the channels to readers have no limit of their own because they need none.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_api::stream::JobEvent;
use coppice_protocol::ids::{PsetId, Rank};
use coppice_protocol::limits::OUTPUT_WINDOW_BYTES;
use coppice_protocol::ship::Stream;
use hyper::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::limits::READERS_PER_JOB_MAX;

/// One piece of a job's stream.
#[derive(Debug)]
pub enum Piece {
    /// Output of a rank.
    Output {
        /// The I/O node to be told when it was taken.
        pset: PsetId,
        /// The rank.
        rank: Rank,
        /// Which stream.
        stream: Stream,
        /// The bytes.
        bytes: Bytes,
    },
    /// Something happened to the job.
    Event(JobEvent),
    /// How far something is that goes on.
    Progress {
        /// What is said of it.
        event: JobEvent,
        /// Until this is dropped no more is said.
        turn: OwnedSemaphorePermit,
    },
}

/// Where the pieces of a stream come.
pub type Pieces = mpsc::UnboundedReceiver<Piece>;

/// Somebody who takes what a job writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Taker {
    /// Whoever runs the job: it waits for him, and ends with him.
    Owner,
    /// Somebody else, who takes what comes from when he came.
    Reader(u64),
    /// Its log.
    Log,
}

/// An I/O node sent more than its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more output of a job than its window of {OUTPUT_WINDOW_BYTES} bytes")]
pub struct WindowExceeded;

/// What came from an I/O node so far, bytes.
#[derive(Debug, Default)]
struct Window {
    sent: u64,
    /// The I/O node was told that so much was taken.
    told: u64,
    /// What each of those took who take it.
    taken: BTreeMap<Taker, u64>,
}

/// Where pieces go.
#[derive(Debug)]
struct Sink {
    sender: mpsc::UnboundedSender<Piece>,
    /// A permit while nothing waits that is only said if somebody takes it.
    progress: Arc<Semaphore>,
}

impl Sink {
    fn new() -> (Self, Pieces) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { sender, progress: Arc::new(Semaphore::new(1)) }, receiver)
    }
}

/// The controller's end of a job's stream.
#[derive(Debug, Default)]
pub struct Feed {
    /// The owner's end, until he comes.
    awaited: Option<Pieces>,
    sinks: BTreeMap<Taker, Sink>,
    has_log: bool,
    readers: u64,
    windows: BTreeMap<PsetId, Window>,
}

impl Feed {
    /// The stream of a job that somebody runs: it waits for him.
    #[must_use]
    pub fn owned() -> Self {
        let (sink, pieces) = Sink::new();
        Self { awaited: Some(pieces), sinks: [(Taker::Owner, sink)].into(), ..Self::default() }
    }

    /// From now on the log takes what comes, too. It is given that by whoever has the feed.
    pub fn add_log(&mut self) {
        self.has_log = true;
        self.joined(Taker::Log);
    }

    /// Whether the log takes what comes.
    #[must_use]
    pub fn has_log(&self) -> bool {
        self.has_log
    }

    /// The owner's end, once.
    pub fn attach(&mut self) -> Option<Pieces> {
        self.awaited.take()
    }

    /// Whether its owner has not come yet.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.awaited.is_some()
    }

    /// One more reader of what comes from now on; nothing if there are [`READERS_PER_JOB_MAX`] already.
    pub fn join(&mut self) -> Option<(Taker, Pieces)> {
        self.sinks.retain(|taker, sink| *taker == Taker::Owner || !sink.sender.is_closed());
        if self.sinks.keys().filter(|taker| **taker != Taker::Owner).count() >= READERS_PER_JOB_MAX {
            return None;
        }
        self.readers += 1;
        let taker = Taker::Reader(self.readers);
        let (sink, pieces) = Sink::new();
        self.sinks.insert(taker, sink);
        self.joined(taker);
        Some((taker, pieces))
    }

    /// What came before somebody came is none of his.
    fn joined(&mut self, taker: Taker) {
        for window in self.windows.values_mut() {
            window.taken.insert(taker, window.sent);
        }
    }

    /// Somebody takes nothing any more. Gives what all others have taken by now.
    pub fn leave(&mut self, taker: Taker) -> Vec<(PsetId, usize)> {
        self.sinks.remove(&taker);
        self.has_log &= taker != Taker::Log;
        for window in self.windows.values_mut() {
            let _ = window.taken.remove(&taker);
        }
        let psets: Vec<PsetId> = self.windows.keys().copied().collect();
        let freed = psets.into_iter().map(|pset| (pset, self.freed(pset)));
        freed.filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// Passes an event on.
    pub fn event(&self, event: &JobEvent) {
        for sink in self.sinks.values() {
            // Nobody there any more: then nobody wants to know.
            let _ = sink.sender.send(Piece::Event(event.clone()));
        }
    }

    /// Says how far something is, to whoever has taken what was said before: nobody else wants to know.
    pub fn progress(&self, event: &JobEvent) {
        for sink in self.sinks.values() {
            if let Ok(turn) = Arc::clone(&sink.progress).try_acquire_owned() {
                let _ = sink.sender.send(Piece::Progress { event: event.clone(), turn });
            }
        }
    }

    /// Passes output on, to readers; whoever has the feed gives it to the log. Returns what all have taken by now,
    /// bytes: all of it if nobody takes it.
    ///
    /// # Errors
    /// [`WindowExceeded`]: the I/O node does not keep to the protocol.
    pub fn output(&mut self, pset: PsetId, rank: Rank, stream: Stream, bytes: &Bytes) -> Result<usize, WindowExceeded> {
        let window = self.windows.entry(pset).or_default();
        window.sent = window.sent.saturating_add(bytes.len() as u64);
        if window.sent - window.told > OUTPUT_WINDOW_BYTES as u64 {
            return Err(WindowExceeded);
        }
        self.sinks
            .retain(|_, sink| sink.sender.send(Piece::Output { pset, rank, stream, bytes: bytes.clone() }).is_ok());
        Ok(self.freed(pset))
    }

    /// Somebody took output. Returns what all have taken by now, bytes.
    pub fn taken(&mut self, taker: Taker, pset: PsetId, bytes: usize) -> usize {
        if let Some(window) = self.windows.get_mut(&pset) {
            let taken = window.taken.entry(taker).or_default();
            // Never more than was sent, whatever the other side counts.
            *taken = taken.saturating_add(bytes as u64).min(window.sent);
        }
        self.freed(pset)
    }

    /// What all have taken that the I/O node was not told, bytes. It is told now.
    fn freed(&mut self, pset: PsetId) -> usize {
        let Some(window) = self.windows.get_mut(&pset) else { return 0 };
        let takers = self.sinks.keys().copied().chain(self.has_log.then_some(Taker::Log));
        let by_all = takers.map(|taker| window.taken.get(&taker).copied().unwrap_or(0)).min();
        let by_all = by_all.unwrap_or(window.sent).max(window.told);
        let freed = by_all - window.told;
        window.told = by_all;
        // Never more than the window.
        usize::try_from(freed).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests;
