//! Messages to the service node, in order, through a queue with a limit.

use coppice_protocol::pset::{FromPset, encode};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::limits::OUTBOX_MESSAGES_MAX;

/// Where messages to the service node go in.
#[derive(Clone, Debug)]
pub(crate) struct Outbox(mpsc::Sender<FromPset>);

/// Where they come out.
pub(crate) type Queue = mpsc::Receiver<FromPset>;

impl Outbox {
    /// An empty queue.
    #[must_use]
    pub(crate) fn new() -> (Self, Queue) {
        let (sender, queue) = mpsc::channel(OUTBOX_MESSAGES_MAX);
        (Self(sender), queue)
    }

    /// Queues a message; waits while the queue is full.
    pub(crate) async fn send(&self, message: FromPset) {
        // Without a service node there is nobody to tell, and this process is about to end.
        let _ = self.0.send(message).await;
    }
}

/// Writes queued messages to the service node, for as long as it takes them.
///
/// # Errors
/// If it does not.
pub(crate) async fn write_messages(mut queue: Queue, mut writer: impl AsyncWrite + Unpin) -> std::io::Result<()> {
    while let Some(message) = queue.recv().await {
        match encode(&message) {
            Ok(bytes) => writer.write_all(&bytes).await?,
            // Reports and output are far below the limit by their own limits.
            Err(error) => tracing::error!(%error, "message to the service node was not sent"),
        }
        if queue.is_empty() {
            writer.flush().await?;
        }
    }
    Ok(())
}
