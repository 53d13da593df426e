//! Standard input of a job, for the one rank that reads it.

use std::collections::VecDeque;

use coppice_protocol::limits::INPUT_WINDOW_BYTES;
use rustix::io::Errno;

use crate::files::Result;

/// What came and was not read. Whoever finds nothing is told when there is something.
#[derive(Debug, Default)]
pub(super) struct Input {
    buffer: VecDeque<u8>,
    ended: bool,
    /// More came than the window allows: what was kept is not the whole.
    overrun: bool,
    /// Somebody found nothing.
    is_wanted: bool,
}

impl Input {
    /// More input; none is the end. Whether the rank is to be told.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        if bytes.is_empty() {
            self.ended = true;
        } else if self.ended || self.buffer.len() + bytes.len() > INPUT_WINDOW_BYTES {
            tracing::error!(bytes = bytes.len(), "input beyond its end or its window");
            self.overrun = true;
        } else {
            self.buffer.extend(bytes);
        }
        std::mem::take(&mut self.is_wanted)
    }

    /// Whether a read would give something, or the end.
    pub(super) fn is_ready(&mut self) -> bool {
        let is_ready = !self.buffer.is_empty() || self.ended || self.overrun;
        self.is_wanted |= !is_ready;
        is_ready
    }

    /// Takes at most `length` bytes; none at the end. `None`: there is nothing yet.
    ///
    /// # Errors
    /// `EIO` behind the point where input was lost.
    pub(super) fn read(&mut self, length: usize) -> Result<Option<Vec<u8>>> {
        if length == 0 {
            return Ok(Some(Vec::new()));
        }
        if !self.is_ready() {
            return Ok(None);
        }
        if self.buffer.is_empty() && self.overrun {
            return Err(Errno::IO);
        }
        let count = length.min(self.buffer.len());
        Ok(Some(self.buffer.drain(..count).collect()))
    }
}

#[cfg(test)]
mod tests {
    use coppice_protocol::limits::INPUT_WINDOW_BYTES;
    use rustix::io::Errno;

    use super::Input;

    #[test]
    fn who_finds_nothing_is_told_once() {
        let mut input = Input::default();
        assert!(!input.push(b"abc"), "nobody asked");
        assert_eq!(input.read(2), Ok(Some(b"ab".to_vec())));
        assert!(input.is_ready());
        assert_eq!(input.read(100), Ok(Some(b"c".to_vec())));
        assert_eq!(input.read(1), Ok(None));
        assert!(!input.is_ready());
        assert!(input.push(b"d"));
        assert!(!input.push(b"e"), "it knows");
        assert_eq!(input.read(9), Ok(Some(b"de".to_vec())));
        assert_eq!(input.read(9), Ok(None));
        assert!(input.push(b""));
        assert_eq!(input.read(9), Ok(Some(Vec::new())));
    }

    #[test]
    fn what_is_too_much_is_not_given_as_if_it_were_all() {
        let mut input = Input::default();
        assert!(!input.push(&vec![1; INPUT_WINDOW_BYTES]));
        assert!(!input.push(b"x"));
        assert_eq!(input.read(usize::MAX).map(|read| read.map(|bytes| bytes.len())), Ok(Some(INPUT_WINDOW_BYTES)));
        assert_eq!(input.read(1), Err(Errno::IO));
    }
}
