//! A connection's bytes, on their way between the network and the machine.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use coppice_endpoint::{NetError, TcpStream};
use tokio::sync::Notify;

use super::Shell;
use crate::limits::BYTES_PER_READ_MAX;
use crate::link::Device;
use crate::machine::{Disconnected, LineId};

/// See this module.
pub(super) struct Wire {
    stream: TcpStream<Device>,
    /// The machine may have something to be written.
    to_write: Notify,
    /// The machine may want to read.
    to_read: Notify,
    /// The machine wants to know when all is written and taken.
    is_to_be_flushed: Cell<bool>,
    /// The machine has ended the connection.
    ended: Notify,
}

impl Wire {
    pub(super) fn new(stream: TcpStream<Device>) -> Self {
        let [to_write, to_read, ended] = [(); 3].map(|()| Notify::new());
        Self { stream, to_write, to_read, is_to_be_flushed: Cell::new(false), ended }
    }

    /// As [`crate::machine::Effect::Move`].
    pub(super) fn go_on(&self) {
        self.to_write.notify_one();
        self.to_read.notify_one();
    }

    /// As [`crate::machine::Effect::Flush`].
    pub(super) fn flush(&self) {
        self.is_to_be_flushed.set(true);
        self.to_write.notify_one();
    }

    /// As [`crate::machine::Effect::End`].
    pub(super) fn end(&self, last: Option<&[u8]>) {
        match last {
            // What does not fit at once is lost.
            Some(bytes) => {
                let _written = self.stream.try_write(bytes);
                self.stream.close();
            }
            None => self.stream.abort(),
        }
        self.ended.notify_one();
    }
}

impl Shell {
    /// Moves a connection's bytes until it ends.
    pub(super) async fn serve(self: Rc<Self>, line: LineId, wire: Rc<Wire>) {
        let why = tokio::select! {
            () = wire.ended.notified() => return,
            why = self.read(line, &wire) => why,
            why = self.write(line, &wire) => why,
        };
        self.with(|machine, now| machine.disconnected(line, why, now));
    }

    async fn read(&self, line: LineId, wire: &Wire) -> Disconnected {
        loop {
            while !self.machine.borrow().is_read(line) {
                wire.to_read.notified().await;
            }
            let read = wire.stream.read_with(|bytes| {
                let taken = &bytes[..bytes.len().min(BYTES_PER_READ_MAX)];
                self.machine.borrow_mut().receive(line, taken);
                (taken.len(), ())
            });
            match read.await {
                Ok(Some(())) => self.with(|machine, now| machine.listen(line, now)),
                Ok(None) => return Disconnected::Closed,
                Err(error) => return Disconnected::Broken(error),
            }
        }
    }

    async fn write(&self, line: LineId, wire: &Wire) -> Disconnected {
        loop {
            match self.write_some(line, wire).await {
                Ok(0) => {
                    if wire.is_to_be_flushed.take() {
                        // A connection that broke has nothing on its way, either.
                        let _broken = wire.stream.flush().await;
                        self.with(|machine, _| machine.flushed(line));
                    }
                    wire.to_write.notified().await;
                }
                Ok(count) => self.with(|machine, now| machine.consume(line, count, now)),
                Err(error) => return Disconnected::Broken(error),
            }
        }
    }

    /// Writes what fits. 0: there is nothing.
    async fn write_some(&self, line: LineId, wire: &Wire) -> Result<usize, NetError> {
        poll_fn(|context| match self.machine.borrow().transmit(line) {
            [] => Poll::Ready(Ok(0)),
            bytes => wire.stream.poll_write(context, bytes),
        })
        .await
    }
}
