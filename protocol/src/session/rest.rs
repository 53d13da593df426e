//! Notices a frame whose rest does not come.
//!
//! Nothing guards the lengths in a frame's header before all of the frame is there. Where they were changed on the way,
//! the receiver takes what follows for the rest, and may wait for ever: on the shipping channel nothing follows, and on
//! the control channel little.

use super::Session;
use crate::limits::FRAME_REST_BYTES_MIN;

/// What a session had received when it was last looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct RestWatch {
    frames: u64,
    buffered: usize,
    looks: u64,
}

impl RestWatch {
    /// Looks at a session. Gives how many looks in a row have found the same frame half there, each with hardly more of
    /// it than the one before: fewer than [`FRAME_REST_BYTES_MIN`] bytes.
    pub fn look(&mut self, session: &Session) -> u64 {
        let (frames, buffered) = (session.frames_received(), session.buffered_bytes());
        let is_same = self.buffered > 0 && frames == self.frames;
        let is_waiting = is_same && buffered < self.buffered.saturating_add(FRAME_REST_BYTES_MIN);
        let looks = if is_waiting { self.looks.saturating_add(1) } else { 0 };
        *self = Self { frames, buffered, looks };
        looks
    }
}
