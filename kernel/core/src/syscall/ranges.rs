//! The memory a read or write goes to or comes from: one range, or the several of an iovec.

use alloc::vec::Vec;
use core::ops::Range;

use coppice_hal::heap::block_bytes;
use coppice_hal::paging::Access;

use crate::abi::io::{IOVEC_BYTES, parse_iovec};
use crate::errno::Errno;
use crate::files::buffer;
use crate::limits::PART_CALL_BYTES;
use crate::memory::{AddressSpace, CopyError};
use crate::process::{Awaited, Caller, Failure, Immediate, Trouble};
use crate::quota::Charge;

/// Most ranges in one call, as on Linux: `EINVAL`.
const IOV_MAX: u64 = 1024;

/// Entries that take so many bytes at most are not charged.
const FEW_BYTES: usize = 8 * IOVEC_BYTES;

/// A part of a transfer for which there must be memory, bytes.
const PART_BYTES_MIN: usize = 4096;

/// Parts of so many bytes are always made, one at a time: it is among what each thread is charged with.
pub(crate) const SMALL_PART_BYTES: usize = 128;

/// Most bytes one call moves, as on Linux; longer ones are cut.
pub(super) const TRANSFER_BYTES_MAX: u64 = 0x7fff_f000;

/// Ranges of the program's memory, all in its half of the address space, and how far they have been used.
pub(super) struct Ranges {
    /// Address and length of each; together at most [`TRANSFER_BYTES_MAX`] bytes.
    list: Vec<(u64, u64)>,
    /// Index of the first that is not used up.
    current: usize,
    /// Bytes of that one that are used up.
    used: u64,
    /// Bytes that are left.
    left: u64,
    /// What the list was charged with, if it is long.
    _charge: Option<Charge>,
}

/// How far ranges have been used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    current: usize,
    used: u64,
    left: u64,
}

impl Ranges {
    /// One range.
    ///
    /// # Errors
    /// `EFAULT`: it is not the program's.
    pub(super) fn one(address: u64, length: u64) -> Result<Self, Errno> {
        Self::new([(address, length)].into_iter(), None)
    }

    /// The ranges of the iovec of `count` entries at `address`.
    pub(super) async fn read(caller: Caller<'_>, address: u64, count: u64) -> Awaited<Self> {
        if count > IOV_MAX {
            return Err(Errno::EINVAL.into());
        }
        let length = count as usize * IOVEC_BYTES;
        // While its entries are read they are there twice. Few ones are among what each thread is charged with.
        let quota = &caller.process.node.quota;
        let mut charge = if length > FEW_BYTES { Some(quota.charge(2 * block_bytes(length))?) } else { None };
        let mut bytes = buffer(length)?;
        caller.read(address, &mut bytes).await?;
        let is_wild = |bytes: &[u8]| i64::try_from(parse_iovec(bytes).1).is_err();
        if bytes.chunks_exact(IOVEC_BYTES).any(is_wild) {
            return Err(Errno::EINVAL.into());
        }
        let entries = bytes.chunks_exact(IOVEC_BYTES).map(parse_iovec);
        if let Some(charge) = &mut charge {
            charge.shrink(block_bytes(length));
        }
        Ok(Self::new(entries, charge)?)
    }

    /// # Errors
    /// `EINVAL`: a negative length. `EFAULT`: a range is not the program's.
    fn new(ranges: impl Iterator<Item = (u64, u64)> + Clone, charge: Option<Charge>) -> Result<Self, Errno> {
        let several = ranges.clone().nth(1).is_some();
        let mut list = Vec::new();
        list.try_reserve_exact(ranges.clone().count()).map_err(|_| Errno::ENOMEM)?;
        let mut left = 0;
        for (address, length) in ranges {
            if several && i64::try_from(length).is_err() {
                return Err(Errno::EINVAL);
            }
            if !AddressSpace::is_user_range(address, length) {
                return Err(Errno::EFAULT);
            }
            let length = length.min(TRANSFER_BYTES_MAX - left);
            left += length;
            if length > 0 {
                list.push((address, length));
            }
        }
        Ok(Self { list, current: 0, used: 0, left, _charge: charge })
    }

    /// Bytes that are left.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Uses the next bytes up, which were moved before. Gives how many.
    pub(super) fn skip(&mut self, bytes: u64) -> u64 {
        let bytes = bytes.min(self.left);
        let mut rest = bytes;
        while let Some((_, count)) = self.next(usize::try_from(rest).unwrap_or(usize::MAX)).filter(|(_, n)| *n > 0) {
            self.advance(count);
            rest -= count as u64;
        }
        bytes
    }

    /// Leaves no more than `length` bytes, the first ones.
    pub(super) fn cut(&mut self, length: u64) {
        if length >= self.left {
            return;
        }
        self.left = length;
        let mut rest = length + self.used;
        for (_, bytes) in self.list.iter_mut().skip(self.current) {
            *bytes = (*bytes).min(rest);
            rest -= *bytes;
        }
    }

    /// The next range that is left, at most `limit` bytes of it. `None` at the end.
    fn next(&self, limit: usize) -> Option<(u64, usize)> {
        let (address, length) = self.list.get(self.current)?;
        let rest = usize::try_from(length - self.used).unwrap_or(usize::MAX);
        Some((address + self.used, rest.min(limit)))
    }

    /// Uses bytes of the next range up.
    fn advance(&mut self, bytes: usize) {
        self.left -= bytes as u64;
        self.used += bytes as u64;
        while self.list.get(self.current).is_some_and(|(_, length)| self.used >= *length) {
            self.used = 0;
            self.current += 1;
        }
    }

    /// Puts bytes, not more than are left, into the ranges. Gives how many, and what stopped it.
    pub(super) async fn scatter(&mut self, caller: Caller<'_>, bytes: &[u8]) -> (u64, Awaited<()>) {
        let mut done = 0;
        while done < bytes.len() {
            let Some((address, count)) = self.next(bytes.len() - done) else { break };
            let copied = caller.write_part(address, &bytes[done..done + count]).await;
            self.advance(copied.bytes);
            done += copied.bytes;
            if copied.result.is_err() {
                return (done as u64, copied.result);
            }
        }
        (done as u64, Ok(()))
    }

    /// Where the ranges are, to come back to.
    pub(super) fn mark(&self) -> Mark {
        Mark { current: self.current, used: self.used, left: self.left }
    }

    /// Back to where they were.
    pub(super) fn reset(&mut self, mark: Mark) {
        (self.current, self.used, self.left) = (mark.current, mark.used, mark.left);
    }

    /// Puts bytes, not more than are left, into the ranges without waiting. Gives how many, and what stopped it.
    pub(super) fn put(&mut self, caller: Caller<'_>, bytes: &[u8]) -> (usize, Immediate<()>) {
        self.copy(bytes.len(), |address, range| {
            caller.process.space.lock().write_bytes(address, bytes.get(range).unwrap_or_default())
        })
    }

    /// Sees to it that the next `length` bytes, not more than are left, can be put into the ranges without waiting.
    pub(super) async fn make_ready(&mut self, caller: Caller<'_>, length: usize) -> Awaited<()> {
        loop {
            let mark = self.mark();
            let (_, result) = self
                .copy(length, |address, range| caller.process.space.lock().touch(address, range.len(), Access::WRITE));
            self.reset(mark);
            match result {
                Err(Trouble::Fetch(fetch)) => caller.fetch_for_copy(&fetch).await?,
                result => return Ok(result?),
            }
        }
    }

    /// Calls `part(memory, address, length)` for the next range, which says how many bytes of it are used then; none at
    /// the end.
    pub(super) fn use_next<T>(
        &mut self,
        caller: Caller<'_>,
        part: impl FnOnce(&mut AddressSpace, u64, usize) -> Result<(usize, T), CopyError>,
    ) -> Immediate<Option<T>> {
        let Some((address, count)) = self.next(usize::MAX).filter(|(_, count)| *count > 0) else { return Ok(None) };
        let (used, value) = part(&mut caller.process.space.lock(), address, count)?;
        self.advance(used);
        Ok(Some(value))
    }

    /// Takes bytes, not more than are left, from the ranges without waiting. Gives how many, and what stopped it.
    pub(super) fn get(&mut self, caller: Caller<'_>, out: &mut [u8]) -> (usize, Immediate<()>) {
        self.copy(out.len(), |address, range| {
            caller.process.space.lock().read_bytes(address, out.get_mut(range).unwrap_or_default())
        })
    }

    /// Calls `part(address, range of the bytes)` for each piece of `length` bytes.
    fn copy(
        &mut self,
        length: usize,
        mut part: impl FnMut(u64, Range<usize>) -> Result<(), CopyError>,
    ) -> (usize, Immediate<()>) {
        let mut done = 0;
        while let Some((address, count)) = self.next(length - done).filter(|(_, count)| *count > 0) {
            let (bytes, trouble) = match part(address, done..done + count) {
                Ok(()) => (count, None),
                Err(error @ (CopyError::Fetch { done, .. } | CopyError::Fault { done })) => (done, Some(error)),
                Err(error) => (0, Some(error)),
            };
            self.advance(bytes);
            done += bytes;
            if let Some(trouble) = trouble {
                return (done, Err(trouble.into()));
            }
        }
        (done, Ok(()))
    }

    /// Takes up to `limit` bytes from the ranges, fewer at their end, or if there is little memory for them. Gives what
    /// they are charged with, too.
    ///
    /// # Errors
    /// The failure if there was not a single one; otherwise it comes at the next call.
    pub(super) async fn gather(&mut self, caller: Caller<'_>, limit: usize) -> Awaited<(Vec<u8>, Option<Charge>)> {
        let room = self.room(caller, limit);
        self.gather_into(caller, room).await
    }

    /// As [`part`], for at most `limit` bytes of what is left.
    pub(super) fn room(&self, caller: Caller<'_>, limit: usize) -> (usize, Option<Charge>) {
        part(caller, usize::try_from(self.left).map_or(limit, |left| left.min(limit)))
    }

    /// As [`Self::gather`], with memory that is there.
    pub(super) async fn gather_into(
        &mut self,
        caller: Caller<'_>,
        (length, charge): (usize, Option<Charge>),
    ) -> Awaited<(Vec<u8>, Option<Charge>)> {
        let mut bytes = buffer(length)?;
        let mut done = 0;
        while let Some((address, count)) = self.next(length - done).filter(|(_, count)| *count > 0) {
            let copied = caller.read_part(address, &mut bytes[done..done + count]).await;
            self.advance(copied.bytes);
            done += copied.bytes;
            match copied.result {
                Ok(()) => {}
                Err(Failure::Errno(_)) if done > 0 => break,
                Err(failure) => return Err(failure),
            }
        }
        bytes.truncate(done);
        Ok((bytes, charge))
    }
}

/// A part of `wanted` bytes of a transfer: how many there is memory for now, and what they are charged with. With
/// little memory a transfer is made in small parts rather than not at all, so that a program can always say what is
/// wrong. One that is not charged is only to be made when no other is under way.
pub(super) fn part(caller: Caller<'_>, wanted: usize) -> (usize, Option<Charge>) {
    let mut length = wanted;
    loop {
        match caller.process.node.quota.charge(block_bytes(length) + PART_CALL_BYTES) {
            Ok(charge) => return (length, Some(charge)),
            Err(_) if length > PART_BYTES_MIN => length = (length / 2).max(PART_BYTES_MIN),
            Err(_) => return (length.min(SMALL_PART_BYTES), None),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{Ranges, TRANSFER_BYTES_MAX};
    use crate::errno::Errno;

    const END: u64 = coppice_hal::addr::USER_END;

    #[test]
    fn wild_ranges_are_refused() {
        assert_eq!(Ranges::one(END, 1).err(), Some(Errno::EFAULT));
        assert_eq!(Ranges::one(0xffff_8000_0000_0000, 1).err(), Some(Errno::EFAULT));
        assert_eq!(Ranges::one(0x1000, u64::MAX).err(), Some(Errno::EFAULT));
        assert_eq!(Ranges::one(u64::MAX, u64::MAX).err(), Some(Errno::EFAULT));
        let several = [(0x1000, 1), (0x1000, 1 << 63)];
        assert_eq!(Ranges::new(several.into_iter(), None).err(), Some(Errno::EINVAL));
    }

    #[test]
    fn long_transfers_are_cut_as_on_linux() {
        let ranges = Ranges::one(0x1000, 1 << 40).expect("in the user half");
        assert_eq!(ranges.left(), TRANSFER_BYTES_MAX);
        let several = [(0x1000, 0x7fff_0000), (0x1000, 0x7fff_0000), (0x1000, 5)];
        let ranges = Ranges::new(several.into_iter(), None).expect("in the user half");
        assert_eq!(ranges.left(), TRANSFER_BYTES_MAX);
        assert_eq!(ranges.list, [(0x1000, 0x7fff_0000), (0x1000, 0xf000)]);
    }

    proptest! {
        #[test]
        fn every_byte_is_used_once_and_in_order(
            lengths in proptest::collection::vec(0_u64..50, 0..8),
            steps in proptest::collection::vec(1_usize..40, 200),
        ) {
            let list: Vec<(u64, u64)> =
                lengths.iter().enumerate().map(|(index, length)| (0x1000 * (index as u64 + 1), *length)).collect();
            let expected: Vec<u64> = list.iter().flat_map(|(address, length)| *address..address + length).collect();
            let mut ranges = Ranges::new(list.into_iter(), None).expect("in the user half");
            let mut seen = Vec::new();
            for step in steps {
                let Some((address, count)) = ranges.next(step) else { break };
                prop_assert!((1..=step).contains(&count));
                seen.extend(address..address + count as u64);
                ranges.advance(count);
            }
            prop_assert_eq!(ranges.left(), 0);
            prop_assert_eq!(seen, expected);
        }

        #[test]
        fn no_iovec_panics(list in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..10)) {
            if let Ok(ranges) = Ranges::new(list.into_iter(), None) {
                prop_assert!(ranges.left() <= TRANSFER_BYTES_MAX);
            }
        }
    }
}
