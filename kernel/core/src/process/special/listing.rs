//! A part of the listing of a directory, as getdents64(2) gives it.

use alloc::vec::Vec;

use crate::abi::io::push_dirent;
use crate::errno::Errno;

/// See this module. Entries are added from the first one on, and are only kept as far as they are wanted.
pub(crate) struct Listing {
    bytes: Vec<u8>,
    /// Most bytes that are wanted.
    limit: usize,
    /// The entry that comes next, by its place in the directory, of those that are wanted.
    next: u64,
    /// Entries that were added.
    added: u64,
    /// There was one more, for which there is no room.
    is_full: bool,
}

impl Listing {
    /// Nothing yet of `limit` bytes, from the entry at `position` on. The memory for them is taken now.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new(position: u64, limit: usize) -> Result<Self, Errno> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(limit).map_err(|_| Errno::ENOMEM)?;
        Ok(Self { bytes, limit, next: position, added: 0, is_full: false })
    }

    /// The next entry.
    pub(crate) fn add(&mut self, name: impl AsRef<[u8]>, kind: u8, inode: u64) {
        if self.added == self.next && !self.is_full {
            self.is_full = !push_dirent(&mut self.bytes, self.limit, inode, self.next + 1, kind, name.as_ref());
            self.next += u64::from(!self.is_full);
        }
        self.added += 1;
    }

    /// The entries, and the position behind them.
    ///
    /// # Errors
    /// `EINVAL`: there is no room for the first one.
    pub(crate) fn finish(self) -> Result<(Vec<u8>, u64), Errno> {
        if self.bytes.is_empty() && self.is_full { Err(Errno::EINVAL) } else { Ok((self.bytes, self.next)) }
    }
}

#[cfg(test)]
mod tests {
    use super::Listing;
    use crate::errno::Errno;

    fn list(position: u64, limit: usize) -> Result<(usize, u64), Errno> {
        let mut listing = Listing::new(position, limit)?;
        ["a", "bb", "a name that is longer"].iter().for_each(|name| listing.add(name, 8, 1));
        listing.finish().map(|(bytes, next)| (bytes.len(), next))
    }

    #[test]
    fn a_listing_goes_on_where_it_ended() {
        assert_eq!(list(0, 1000), Ok((24 + 24 + 48, 3)));
        assert_eq!(list(0, 24), Ok((24, 1)));
        assert_eq!(list(1, 24 + 47), Ok((24, 2)));
        assert_eq!(list(2, 47), Err(Errno::EINVAL));
        assert_eq!((list(3, 47), list(9, 0)), (Ok((0, 3)), Ok((0, 9))));
    }
}
