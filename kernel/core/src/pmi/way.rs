//! A connection with another node, for one job: frames in, frames out.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};

use coppice_endpoint::NetError;
use coppice_protocol::pmi::{PeerError, PeerFrame, PeerFrames};

use super::job::Job;
use crate::executor::{self, Sleep};
use crate::limits::PMI_FRAME_NS_MAX;
use crate::net::Wire;

/// Why a connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Broken {
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Peer(#[from] PeerError),
    #[error("the other node closed the connection")]
    Closed,
    #[error("a frame of another node than the one that it was before")]
    Stranger,
    #[error("the rest of a frame does not come")]
    Stalled,
    #[error("no frame, or none for a job that this node has a part in")]
    Idle,
}

/// What is on its way through a connection.
#[derive(Default)]
pub(super) struct Talk {
    frames: PeerFrames,
    /// Until when the rest of a frame is waited for.
    patience: Option<Sleep>,
    /// Frames that came and are not handled.
    heard: VecDeque<PeerFrame>,
    /// The frame that is being sent, and how much of it has gone.
    said: Vec<u8>,
    sent: usize,
}

impl Talk {
    /// The next frame that came.
    pub(super) fn first(&self) -> Option<&PeerFrame> {
        self.heard.front()
    }

    /// Waits for a frame.
    pub(super) async fn hear(&mut self, wire: &dyn Wire) -> Result<(), Broken> {
        poll_fn(|context| {
            while self.heard.is_empty() {
                match self.poll_read(wire, context) {
                    Poll::Ready(Ok(())) => {}
                    other => return other,
                }
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// Reads what came: no more than fits into the connection's buffer.
    fn poll_read(&mut self, wire: &dyn Wire, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        match wire.poll_readable(context)? {
            Poll::Pending => return self.poll_stalled(context),
            Poll::Ready(false) => return Poll::Ready(Err(Broken::Closed)),
            Poll::Ready(true) => {}
        }
        let mut result = Ok(());
        wire.take(&mut |bytes| result = self.understand(bytes))?;
        Poll::Ready(Ok(result?))
    }

    fn understand(&mut self, mut bytes: &[u8]) -> Result<(), PeerError> {
        while !bytes.is_empty() {
            if let Some(frame) = self.frames.advance(&mut bytes)? {
                self.heard.push_back(frame);
                self.patience = None;
            }
        }
        Ok(())
    }

    /// Never ready, but with an error if a frame has begun and does not go on to its end.
    fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        if !self.frames.is_amid() {
            return Poll::Pending;
        }
        let patience = self.patience.get_or_insert_with(|| executor::sleep(PMI_FRAME_NS_MAX));
        Pin::new(patience).poll(context).map(|()| Err(Broken::Stalled))
    }
}

/// A connection with a node, or an attempt to make one. When it is dropped, what was sent on it counts as lost.
pub(super) struct Way {
    job: Arc<Job>,
    peer: u32,
    /// This node called.
    has_called: bool,
}

impl Way {
    /// With the node of this index, which called.
    pub(super) fn open(job: &Arc<Job>, peer: u32) -> Self {
        job.way_opened(peer);
        Self { job: Arc::clone(job), peer, has_called: false }
    }

    /// One that the job has counted already, with a node that is to be called.
    pub(super) fn reserved(job: &Arc<Job>, peer: u32) -> Self {
        Self { job: Arc::clone(job), peer, has_called: true }
    }

    pub(super) fn job(&self) -> &Arc<Job> {
        &self.job
    }

    pub(super) fn peer(&self) -> u32 {
        self.peer
    }

    /// Says and hears what there is, until the job is over.
    pub(super) async fn speak(&mut self, wire: &dyn Wire, mut talk: Talk) -> Result<(), Broken> {
        poll_fn(|context| self.poll_speak(wire, &mut talk, context)).await
    }

    fn poll_speak(&mut self, wire: &dyn Wire, talk: &mut Talk, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        loop {
            while let Some(frame) = talk.heard.pop_front() {
                // Who calls about a job knows it. What anybody could say counts only where its sender is known, which
                // is who has the port that was called.
                if frame.from() != self.peer || frame.is_absence() && !self.has_called {
                    return Poll::Ready(Err(Broken::Stranger));
                }
                if let Some(handled) = self.job.with(|server, now_ns| server.handle_frame(&frame, now_ns)) {
                    handled?;
                }
            }
            // First to be told of changes, then a look.
            self.job.watch_peer(self.peer, context.waker());
            if self.job.is_over() {
                return Poll::Ready(Ok(()));
            }
            self.write(wire, talk, context)?;
            match talk.poll_read(wire, context) {
                Poll::Ready(Ok(())) => {}
                other => return other,
            }
        }
    }

    /// Writes what there is to say, as far as there is room.
    fn write(&mut self, wire: &dyn Wire, talk: &mut Talk, context: &mut Context<'_>) -> Result<(), Broken> {
        loop {
            let rest = talk.said.get(talk.sent..).unwrap_or_default();
            if !rest.is_empty() {
                match wire.poll_write(context, rest)? {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(count) => talk.sent += count,
                }
            } else if let Some(frame) = self.job.next_frame(self.peer) {
                (talk.said, talk.sent) = (frame, 0);
            } else {
                (talk.said, talk.sent) = (Vec::new(), 0);
                return Ok(());
            }
        }
    }

    /// What was sent may be lost.
    pub(super) fn broke(&mut self) {
        let peer = self.peer;
        self.job.with(|server, _| server.disconnected(peer));
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.job.way_closed(self.peer);
    }
}
