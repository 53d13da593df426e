//! Writing to the service node.

use std::io;
use std::rc::Rc;

use coppice_protocol::pset::encode;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::Shell;
use crate::machine::Machine;

impl Shell {
    /// Writes messages to the service node, for as long as it takes them.
    pub(super) async fn write_messages(self: Rc<Self>, mut writer: impl AsyncWrite + Unpin) {
        if let Err(error) = self.write_all(&mut writer).await {
            tracing::warn!(%error, "write to the service node");
        }
    }

    async fn write_all(&self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        loop {
            let Some(message) = self.with(Machine::next_message) else {
                writer.flush().await?;
                self.messages.notified().await;
                continue;
            };
            match encode(&message) {
                Ok(bytes) => writer.write_all(&bytes).await?,
                // Reports and output are far below the limit by their own limits.
                Err(error) => tracing::error!(%error, "message to the service node was not sent"),
            }
        }
    }
}
