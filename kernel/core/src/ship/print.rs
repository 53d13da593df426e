//! Printing: the I/O node takes what the user takes, or has the rank wait for its turn.

use alloc::vec::Vec;

use coppice_protocol::ship::{Call, Reply, Stream};

use super::pending::{self, Bulk};
use super::{Answer, Client};
use crate::errno::Errno;
use crate::executor;

impl Client {
    /// Prints bytes, at most [`coppice_protocol::limits::BULK_BYTES_MAX`]; waits while the user does not take them.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn print(&self, stream: Stream, bytes: Vec<u8>) -> Answer {
        let mut printing = Printing::new(self, stream, bytes);
        loop {
            let bell = &self.bells().output;
            let count = bell.count();
            match printing.attempt().await {
                Some(answer) => return answer,
                None => bell.rung_since(count).await,
            }
        }
    }
}

/// A piece of output that is to be printed. Dropped before it is, nothing of it was, and the I/O node keeps no room for
/// it, unless it was dropped while a call was under way.
pub(crate) struct Printing<'a> {
    client: &'a Client,
    stream: Stream,
    bulk: Bulk,
    /// The I/O node may have the rank in its line.
    may_stand_in_line: bool,
}

impl<'a> Printing<'a> {
    /// Nothing of it is printed yet.
    pub(crate) fn new(client: &'a Client, stream: Stream, bytes: Vec<u8>) -> Self {
        client.shared.state.lock().printer_came(client.owner);
        Self { client, stream, bulk: pending::share(bytes), may_stand_in_line: false }
    }

    /// Tries to print it. `None`: not before the bell for output is rung.
    pub(crate) async fn attempt(&mut self) -> Option<Answer> {
        self.may_stand_in_line = true;
        let answer = self.client.queue(Call::Print(self.stream), self.bulk.clone()).await.unwrap_or(Err(Errno::EIO));
        match answer {
            Ok((Reply::Later, _)) => None,
            answer => {
                self.may_stand_in_line = false;
                Some(answer)
            }
        }
    }
}

impl Drop for Printing<'_> {
    fn drop(&mut self) {
        let mut state = self.client.shared.state.lock();
        state.printer_gone(self.client.owner, self.may_stand_in_line, executor::now_ns());
    }
}
