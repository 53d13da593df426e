//! A body of an HTTP message that is fed from a channel: the channel's capacity is the back-pressure.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::mpsc;

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
