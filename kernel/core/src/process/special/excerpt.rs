//! A part of a text that is made anew whenever it is read, however long it is: what lies outside of the part is counted
//! and not kept.

use alloc::vec::Vec;
use core::fmt;

use crate::errno::Errno;

/// See this module.
pub(crate) struct Excerpt {
    /// Bytes of the text that are still to come before the part.
    skip: u64,
    /// Most bytes that are wanted.
    limit: usize,
    bytes: Vec<u8>,
    /// How long the text is so far, bytes.
    length: u64,
    has_failed: bool,
}

/// So much room is made at least, bytes, if so much is wanted.
const ROOM_BYTES_MIN: usize = 512;

impl Excerpt {
    /// Up to `limit` bytes from `offset` on.
    pub(crate) const fn new(offset: u64, limit: usize) -> Self {
        Self { skip: offset, limit, bytes: Vec::new(), length: 0, has_failed: false }
    }

    /// The next bytes of the text.
    pub(crate) fn push(&mut self, text: &[u8]) {
        self.length = self.length.saturating_add(text.len() as u64);
        let skipped = usize::try_from(self.skip).map_or(text.len(), |skip| skip.min(text.len()));
        self.skip -= skipped as u64;
        let wanted = &text[skipped..];
        let wanted = &wanted[..wanted.len().min(self.limit - self.bytes.len())];
        if wanted.len() > self.bytes.capacity() - self.bytes.len() {
            // No more at a time than what is there already, so that little is there twice.
            let room = wanted.len().max(self.bytes.len()).max(ROOM_BYTES_MIN).min(self.limit - self.bytes.len());
            if self.bytes.try_reserve_exact(room).is_err() {
                self.has_failed = true;
                self.limit = self.bytes.len();
                return;
            }
        }
        self.bytes.extend_from_slice(wanted);
    }

    /// Bytes that follow, which are not made because they come before the part.
    pub(crate) fn pass(&mut self, bytes: u64) {
        self.length = self.length.saturating_add(bytes);
        self.skip = self.skip.saturating_sub(bytes);
    }

    /// How many bytes are to come before the part.
    pub(crate) const fn skip(&self) -> u64 {
        self.skip
    }

    /// Whether nothing more is wanted but to be counted.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() == self.limit
    }

    /// How long the text is so far, bytes.
    pub(crate) const fn length(&self) -> u64 {
        self.length
    }

    /// The part.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn finish(self) -> Result<Vec<u8>, Errno> {
        if self.has_failed { Err(Errno::ENOMEM) } else { Ok(self.bytes) }
    }
}

impl fmt::Write for Excerpt {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::fmt::Write;

    use super::Excerpt;

    #[test]
    fn parts_are_parts_of_the_whole() {
        let whole: Vec<u8> = (0..300).flat_map(|number| alloc::format!("{number} ").into_bytes()).collect();
        for offset in [0, 1, 7, 600, whole.len() - 1, whole.len(), 5000] {
            for limit in [0, 1, 100, 700, 10_000] {
                let mut part = Excerpt::new(offset as u64, limit);
                let _ = (0..300).try_for_each(|number| write!(part, "{number} "));
                assert_eq!(part.length(), whole.len() as u64);
                let from = offset.min(whole.len());
                let expected = &whole[from..whole.len().min(from + limit)];
                let bytes = part.finish().expect("memory");
                assert_eq!(bytes, expected, "{limit} from {offset}");
                assert!(bytes.capacity() <= limit);
            }
        }
    }
}
