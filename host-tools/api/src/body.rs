//! Bodies of HTTP messages: what they are called, and one that is fed from a channel, whose capacity is the
//! back-pressure.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::mpsc;

/// What JSON is called.
pub const JSON_TYPE: &str = "application/json";

/// What lines are called each of which is JSON.
pub const LINES_TYPE: &str = "application/jsonl";

/// What frames are called ([`crate::stream`]), and standard input.
pub const BYTES_TYPE: &str = "application/octet-stream";

/// Ends when every sender is gone. Dropping it closes the channel, which tells the senders that the peer is gone.
#[derive(Debug)]
pub struct ChannelBody(mpsc::Receiver<Bytes>);

impl ChannelBody {
    /// A body and the sender of its pieces; at most `pieces` wait unsent.
    #[must_use]
    pub fn new(pieces: usize) -> (mpsc::Sender<Bytes>, Self) {
        let (sender, receiver) = mpsc::channel(pieces);
        (sender, Self(receiver))
    }
}

impl Body for ChannelBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }
}
