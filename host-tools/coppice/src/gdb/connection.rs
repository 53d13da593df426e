//! The way to gdb: standard input and output.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, Stdin, Stdout};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// Bytes that are read at once.
const READ_BYTES: usize = 4096;

/// What came from gdb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// A byte.
    Byte(u8),
    /// Gdb is gone.
    End,
}

/// What gdb sends and is sent.
pub(super) struct Connection {
    runtime: Handle,
    input: Stdin,
    output: Stdout,
    /// What came and was not taken.
    came: VecDeque<u8>,
    /// What was not sent yet.
    kept: Vec<u8>,
}

impl Connection {
    /// Standard input and output.
    pub(super) fn standard(runtime: Handle) -> Self {
        let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
        Self { runtime, input, output, came: VecDeque::new(), kept: Vec::new() }
    }

    /// What comes next. It may be dropped: nothing is lost.
    ///
    /// # Errors
    /// If gdb cannot be heard.
    pub(super) async fn next(&mut self) -> io::Result<Came> {
        if self.came.is_empty() {
            let mut bytes = [0; READ_BYTES];
            let count = self.input.read(&mut bytes).await?;
            self.came.extend(&bytes[..count]);
        }
        Ok(self.came.pop_front().map_or(Came::End, Came::Byte))
    }

    /// What comes next, if it does within that time.
    ///
    /// # Errors
    /// As for [`Self::next`].
    pub(super) fn next_within(&mut self, time: Duration) -> io::Result<Option<Came>> {
        let runtime = self.runtime.clone();
        runtime.block_on(async { timeout(time, self.next()).await.ok().transpose() })
    }
}

impl gdbstub::conn::Connection for Connection {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.kept.push(byte);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.kept);
        self.runtime.block_on(async {
            self.output.write_all(&bytes).await?;
            self.output.flush().await
        })
    }
}
