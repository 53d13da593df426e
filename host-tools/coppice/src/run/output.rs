//! The job's output on its way to our standard output and error.
//!
//! Each is written by a thread of its own: a reader that takes its time must hold up neither Ctrl-C nor the other
//! stream's thread. The few pieces that may wait for a thread are the end of the chain of back-pressure: while they are
//! full nothing is read from the service node.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::stdio::{stderr, stdout};
use tokio::sync::{mpsc, oneshot};

use super::labels::Labels;

/// Pieces that wait for a thread.
const PIECES_MAX: usize = 4;

/// Why output cannot be written.
#[derive(Debug)]
pub(crate) enum OutputError {
    /// Nobody reads it any more.
    ReaderGone,
    /// The system says no.
    Failed(io::Error),
}

/// Both streams.
#[derive(Debug)]
pub(crate) struct Output {
    labels: Option<Labels>,
    output: Writer,
    error: Writer,
}

impl Output {
    /// With labels, or as raw bytes; all of it to standard error, or each stream to its own.
    pub(crate) fn new(label: bool, all_to_error: bool) -> Self {
        Self {
            labels: label.then(Labels::default),
            output: if all_to_error { Writer::new(stderr) } else { Writer::new(stdout) },
            error: Writer::new(stderr),
        }
    }

    /// The same of a job that another one has started, whose output is beside it.
    pub(super) fn of(job: u64, label: bool, all_to_error: bool) -> Self {
        Self { labels: label.then(|| Labels::of(job)), ..Self::new(false, all_to_error) }
    }

    /// Writes what a rank wrote.
    pub(crate) async fn write(&mut self, rank: u32, is_error: bool, bytes: Vec<u8>) -> Result<(), OutputError> {
        let bytes = match &mut self.labels {
            Some(labels) => labels.add(rank, is_error, &bytes),
            None => bytes,
        };
        self.put(is_error, bytes).await
    }

    /// Writes a text of our own, as it is.
    pub(super) async fn add(&mut self, is_error: bool, text: String) -> Result<(), OutputError> {
        self.put(is_error, text.into_bytes()).await
    }

    async fn put(&mut self, is_error: bool, bytes: Vec<u8>) -> Result<(), OutputError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let writer = if is_error { &mut self.error } else { &mut self.output };
        writer.write(bytes).await
    }

    /// Writes what is left and waits until all is written.
    pub(crate) async fn finish(mut self) -> Result<(), OutputError> {
        for is_error in [false, true] {
            if let Some(rest) = self.labels.as_mut().map(|labels| labels.finish(is_error)) {
                self.put(is_error, rest).await?;
            }
        }
        self.output.finish().await?;
        self.error.finish().await
    }
}

/// A thread that writes to one descriptor.
#[derive(Debug)]
struct Writer {
    pieces: mpsc::Sender<Vec<u8>>,
    done: oneshot::Receiver<Result<(), OutputError>>,
}

impl Writer {
    fn new(descriptor: fn() -> BorrowedFd<'static>) -> Self {
        let (pieces, queue) = mpsc::channel(PIECES_MAX);
        let (report, done) = oneshot::channel();
        // If nobody waits for the report any more nobody wants to know.
        std::thread::spawn(move || report.send(write_pieces(descriptor(), queue)));
        Self { pieces, done }
    }

    async fn write(&mut self, bytes: Vec<u8>) -> Result<(), OutputError> {
        if self.pieces.send(bytes).await.is_ok() {
            return Ok(());
        }
        // The thread takes no more, so it has something to report.
        ended((&mut self.done).await).and(Err(OutputError::ReaderGone))
    }

    /// Waits until everything is written.
    async fn finish(self) -> Result<(), OutputError> {
        drop(self.pieces);
        ended(self.done.await)
    }
}

fn ended(report: Result<Result<(), OutputError>, oneshot::error::RecvError>) -> Result<(), OutputError> {
    report.unwrap_or_else(|_| Err(OutputError::Failed(io::Error::other("the writing thread panicked"))))
}

fn write_pieces(descriptor: BorrowedFd<'_>, mut queue: mpsc::Receiver<Vec<u8>>) -> Result<(), OutputError> {
    while let Some(piece) = queue.blocking_recv() {
        write_all(descriptor, &piece)?;
    }
    Ok(())
}

/// Writes straight to the descriptor: what a program wrote without a newline must be seen at once, too.
fn write_all(descriptor: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), OutputError> {
    while !bytes.is_empty() {
        match rustix::io::write(descriptor, bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            // Somebody we share it with has made it non-blocking.
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&descriptor, PollFlags::OUT)], None);
            }
            Err(Errno::PIPE) => return Err(OutputError::ReaderGone),
            Err(errno) => return Err(OutputError::Failed(errno.into())),
        }
    }
    Ok(())
}
