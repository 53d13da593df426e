//! What a job writes on its way from the I/O nodes to whoever runs it.
//!
//! The channel has no limit of its own because it needs none: an I/O node sends at most its window
//! ([`OUTPUT_WINDOW_BYTES`]) before it hears that something was taken, and the feed checks that it keeps to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_api::stream::JobEvent;
use coppice_protocol::ids::{PsetId, Rank};
use coppice_protocol::limits::OUTPUT_WINDOW_BYTES;
use coppice_protocol::ship::Stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

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
        bytes: Vec<u8>,
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

/// An I/O node sent more than its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more output of a job than its window of {OUTPUT_WINDOW_BYTES} bytes")]
pub struct WindowExceeded;

/// The controller's end of a job's stream.
#[derive(Debug)]
pub struct Feed {
    sender: mpsc::UnboundedSender<Piece>,
    receiver: Option<mpsc::UnboundedReceiver<Piece>>,
    under_way: BTreeMap<PsetId, usize>,
    /// A permit while nothing waits that is only said if somebody takes it.
    progress: Arc<Semaphore>,
}

impl Default for Feed {
    fn default() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self { sender, receiver: Some(receiver), under_way: BTreeMap::new(), progress: Arc::new(Semaphore::new(1)) }
    }
}

impl Feed {
    /// The other end, once.
    pub fn attach(&mut self) -> Option<mpsc::UnboundedReceiver<Piece>> {
        self.receiver.take()
    }

    /// Whether somebody has the other end.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.receiver.is_none()
    }

    /// Passes an event on.
    pub fn event(&self, event: JobEvent) {
        // Nobody there any more: then nobody wants to know.
        let _ = self.sender.send(Piece::Event(event));
    }

    /// Says how far something is, unless what was said before has not been taken: then nobody wants to know.
    pub fn progress(&self, event: JobEvent) {
        if let Ok(turn) = Arc::clone(&self.progress).try_acquire_owned() {
            let _ = self.sender.send(Piece::Progress { event, turn });
        }
    }

    /// Passes output on. Returns whether somebody will take it; if not, it is dropped here and counts as taken.
    ///
    /// # Errors
    /// [`WindowExceeded`]: the I/O node does not keep to the protocol.
    pub fn output(&mut self, pset: PsetId, rank: Rank, stream: Stream, bytes: Vec<u8>) -> Result<bool, WindowExceeded> {
        let under_way = self.under_way.entry(pset).or_default();
        *under_way += bytes.len();
        if *under_way > OUTPUT_WINDOW_BYTES {
            return Err(WindowExceeded);
        }
        let length = bytes.len();
        if self.sender.send(Piece::Output { pset, rank, stream, bytes }).is_ok() {
            return Ok(true);
        }
        *under_way -= length;
        Ok(false)
    }

    /// What was passed on and not taken, by I/O node, bytes.
    pub fn under_way(&self) -> impl Iterator<Item = (PsetId, usize)> {
        self.under_way.iter().map(|(pset, bytes)| (*pset, *bytes)).filter(|(_, bytes)| *bytes > 0)
    }

    /// Output was taken.
    pub fn taken(&mut self, pset: PsetId, bytes: usize) {
        if let Some(under_way) = self.under_way.get_mut(&pset) {
            *under_way = under_way.saturating_sub(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use coppice_protocol::ids::{PsetId, Rank};
    use coppice_protocol::limits::OUTPUT_WINDOW_BYTES;
    use coppice_protocol::ship::Stream;

    use super::{Feed, JobEvent, Piece, WindowExceeded};

    #[test]
    fn each_io_node_has_its_own_window() {
        let mut feed = Feed::default();
        let _receiver = feed.attach().expect("first");
        assert!(feed.attach().is_none() && feed.is_attached());
        let whole = vec![0; OUTPUT_WINDOW_BYTES];
        assert_eq!(feed.output(PsetId(0), Rank(0), Stream::Output, whole.clone()), Ok(true));
        assert_eq!(feed.output(PsetId(1), Rank(1), Stream::Error, whole.clone()), Ok(true));
        feed.taken(PsetId(0), 10);
        assert_eq!(feed.output(PsetId(0), Rank(0), Stream::Output, vec![0; 10]), Ok(true));
        assert_eq!(feed.output(PsetId(0), Rank(0), Stream::Output, vec![0; 1]), Err(WindowExceeded));
    }

    #[test]
    fn progress_that_nobody_takes_is_said_once() {
        let mut feed = Feed::default();
        let mut receiver = feed.attach().expect("first");
        let mut said = || {
            (0..5).for_each(|ahead| feed.progress(JobEvent::Queued { ahead }));
            let pieces: Vec<Piece> = std::iter::from_fn(|| receiver.try_recv().ok()).collect();
            pieces
                .into_iter()
                .map(|piece| matches!(piece, Piece::Progress { event: JobEvent::Queued { ahead: 0 }, .. }))
        };
        assert!(said().eq([true]));
        assert!(said().eq([true]), "the first was taken");
    }

    #[test]
    fn output_nobody_reads_counts_as_taken() {
        let mut feed = Feed::default();
        drop(feed.attach());
        for _ in 0..3 {
            let whole = vec![0; OUTPUT_WINDOW_BYTES];
            assert_eq!(feed.output(PsetId(0), Rank(0), Stream::Output, whole), Ok(false));
        }
    }
}
