//! What a user hears of a job. If the service node dies in the middle of something, what it had said before is heard,
//! and nothing of what it would have said after.

use std::sync::{Mutex, PoisonError};

use coppice_service_node::feed::Piece;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::mpsc::error::TryRecvError;

/// See this module.
#[derive(Debug)]
pub(super) struct Listener(Mutex<Heard>);

#[derive(Debug)]
struct Heard {
    receiver: UnboundedReceiver<Piece>,
    /// Pieces that are still heard, if the service node is dead.
    left: Option<usize>,
}

impl Listener {
    pub(super) fn new(receiver: UnboundedReceiver<Piece>) -> Self {
        Self(Mutex::new(Heard { receiver, left: None }))
    }

    /// The service node is dead.
    pub(super) fn dead(&self) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.left = Some(heard.receiver.len());
    }

    /// The next piece.
    pub(super) fn hear(&self) -> Result<Piece, TryRecvError> {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = &mut heard.left {
            *left = left.checked_sub(1).ok_or(TryRecvError::Disconnected)?;
        }
        heard.receiver.try_recv()
    }
}
