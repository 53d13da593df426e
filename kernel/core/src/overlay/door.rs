//! Connections of nodes that have something to say to processes here.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::future::Future;
use core::future::poll_fn;
use core::net::Ipv4Addr;
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll};

use coppice_endpoint::NetError;
use coppice_protocol::ids::NodeId;
use coppice_protocol::limits::{OVERLAY_CALLERS_MAX, OVERLAY_PORT};
use coppice_protocol::overlay::frame::{Frame, FrameError, Frames};

use super::Overlays;
use super::job::{OfJob, Task, unless_over};
use crate::executor::{self, Sleep};
use crate::limits::{OVERLAY_BACKLOG_MAX, OVERLAY_BUFFER_BYTES, OVERLAY_STRANGER_NS_MAX, OVERLAY_WRITE_NS_MAX};
use crate::net::Wire;

/// Why a connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("the other node closed the connection")]
    Closed,
    #[error("the rest of a frame does not come")]
    Stalled,
    #[error("it says what it cannot say")]
    Lie,
    #[error("no frame for a job with an overlay here")]
    Stranger,
}

/// One of the [`OVERLAY_CALLERS_MAX`] who may have called.
struct Ticket(Arc<AtomicUsize>);

impl Ticket {
    fn take(callers: &Arc<AtomicUsize>) -> Option<Self> {
        let more = |count: usize| (count < OVERLAY_CALLERS_MAX).then_some(count + 1);
        let taken = callers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.ok().map(|_| Self(Arc::clone(callers)))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What has come on a connection.
#[derive(Default)]
struct Heard {
    frames: Frames,
    whole: VecDeque<Frame>,
    /// Until when the rest of a frame is waited for.
    patience: Option<Sleep>,
}

impl Heard {
    /// Waits for the next frame.
    async fn next(&mut self, wire: &dyn Wire) -> Result<Frame, Broken> {
        poll_fn(|context| self.poll_next(wire, context)).await
    }

    fn poll_next(&mut self, wire: &dyn Wire, context: &mut Context<'_>) -> Poll<Result<Frame, Broken>> {
        loop {
            if let Some(frame) = self.whole.pop_front() {
                return Poll::Ready(Ok(frame));
            }
            match wire.poll_readable(context)? {
                Poll::Pending => return self.poll_stalled(context),
                Poll::Ready(false) => return Poll::Ready(Err(Broken::Closed)),
                Poll::Ready(true) => {}
            }
            let mut result = Ok(());
            let Self { frames, whole, patience } = self;
            wire.take(&mut |mut bytes| {
                while !bytes.is_empty() && result.is_ok() {
                    match frames.advance(&mut bytes) {
                        Ok(Some(frame)) => {
                            whole.push_back(frame);
                            *patience = None;
                        }
                        Ok(None) => {}
                        Err(error) => result = Err(error),
                    }
                }
            })?;
            result?;
        }
    }

    /// Never ready, but with an error if a frame has begun and does not go on to its end.
    fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<Result<Frame, Broken>> {
        if !self.frames.is_amid() {
            return Poll::Pending;
        }
        let patience = self.patience.get_or_insert_with(|| executor::sleep(OVERLAY_WRITE_NS_MAX));
        Pin::new(patience).poll(context).map(|()| Err(Broken::Stalled))
    }
}

impl Overlays {
    /// Hears what other nodes say. Never done, unless the port is in use.
    pub async fn listen(self) {
        let door = self.shared.neighbours.listen(OVERLAY_PORT, OVERLAY_BACKLOG_MAX, OVERLAY_BUFFER_BYTES);
        let door = match door {
            Ok(door) => door,
            Err(error) => return log::error!("overlay: cannot listen: {error}"),
        };
        let callers = Arc::<AtomicUsize>::default();
        loop {
            match door.accept().await {
                Ok((wire, address)) => {
                    let Some(ticket) = Ticket::take(&callers) else {
                        wire.abort();
                        continue;
                    };
                    let this = self.clone();
                    let spawned = executor::spawn_aside(async move {
                        if let Err(error) = this.hear(&*wire, address).await {
                            log::debug!("overlay: connection with {address}: {error}");
                            wire.abort();
                        }
                        drop(ticket);
                    });
                    if spawned.is_err() {
                        log::warn!("overlay: no room for a connection with {address}");
                    }
                }
                Err(error) => log::warn!("overlay: cannot accept a connection: {error}"),
            }
        }
    }

    /// Hears a node, all of whose frames are about the job of its first.
    async fn hear(&self, wire: &dyn Wire, address: Ipv4Addr) -> Result<(), Broken> {
        let mut heard = Heard::default();
        let greeted = executor::timeout(OVERLAY_STRANGER_NS_MAX, heard.next(wire)).await;
        let first = greeted.unwrap_or(Err(Broken::Stranger))?;
        let of_job = Task::of(&self.find_signed(first.signature()).ok_or(Broken::Stranger)?);
        let from = NodeId::of(address).ok_or(Broken::Stranger)?;
        let mut next = Some(first);
        while let Some(frame) = next {
            let (process, message) = of_job.keys().open(&frame)?;
            if !of_job.hear(from, process, message) {
                return Err(Broken::Lie);
            }
            next = next_of(&of_job, &mut heard, wire).await?;
        }
        Ok(())
    }
}

/// The next frame; nothing when the overlay is over.
async fn next_of(of_job: &OfJob, heard: &mut Heard, wire: &dyn Wire) -> Result<Option<Frame>, Broken> {
    unless_over(of_job, heard.next(wire)).await.transpose()
}
