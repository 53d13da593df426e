//! The descriptor table of a process.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::limits::HANDLES_PER_RANK_MAX;
use coppice_protocol::ship::Handle;

use super::input::Input;
use super::open_file::{Object, OpenFile, Shipped, Standard};
use super::readiness::Level;
use crate::errno::Errno;
use crate::limits::{DESCRIPTOR_BYTES, DESCRIPTORS_FREE};
use crate::quota::{Counted, Kind, Quota};

/// Descriptors a process may have (`RLIMIT_NOFILE`, soft and hard, when it starts): `EMFILE`. As many as it may have
/// handles.
pub(crate) const DESCRIPTORS_MAX: usize = HANDLES_PER_RANK_MAX;

/// What a descriptor refers to.
#[derive(Clone)]
pub(crate) struct Descriptor {
    pub(crate) file: Arc<OpenFile>,
    /// `FD_CLOEXEC`. There is no exec, so it is only told.
    pub(crate) close_on_exec: bool,
}

/// Descriptors by number.
pub(crate) struct Descriptors {
    slots: Vec<Option<Descriptor>>,
    /// What the open files are ready for, as many as there are slots: for poll(2), which looks at nothing else.
    levels: Vec<Level>,
    /// The level of a free slot.
    invalid: Level,
    /// What the slots are charged with.
    charged: Counted,
    /// Numbers from here on are not given.
    limit: usize,
}

impl Descriptors {
    /// Standard input, output and error. The room for more is charged to `quota`.
    pub(crate) fn standard(input: Input, quota: &Arc<Quota>) -> Self {
        let streams = [Standard::Input(Arc::new(input)), Standard::Output, Standard::Error];
        let open = |stream| Descriptor { file: Arc::new(OpenFile::standard(stream)), close_on_exec: false };
        let mut table = Self::empty(DESCRIPTORS_MAX as u32, quota);
        for (number, stream) in streams.into_iter().enumerate() {
            table.put(number, open(stream));
        }
        table
    }

    /// A table without descriptors, with this limit. The room for them is charged to `quota`.
    pub(super) fn empty(limit: u32, quota: &Arc<Quota>) -> Self {
        let mut charged = Counted::new(DESCRIPTOR_BYTES, DESCRIPTORS_FREE);
        charged.charge_to(quota, Kind::Object);
        let limit = (limit as usize).min(DESCRIPTORS_MAX);
        Self { slots: Vec::new(), levels: Vec::new(), invalid: Level::new(Level::INVALID), charged, limit }
    }

    /// Puts an open file at this number, where it was, whatever the limit is now.
    ///
    /// # Errors
    /// `EBADF`: no such number can be. `ENOMEM`.
    pub(super) fn put_again(&mut self, number: u32, descriptor: Descriptor) -> Result<(), Errno> {
        let index = number as usize;
        if index >= DESCRIPTORS_MAX {
            return Err(Errno::EBADF);
        }
        self.charged.cover(index + 1)?;
        self.put(index, descriptor);
        Ok(())
    }

    /// Numbers from here on are not given.
    pub(super) fn limit_now(&self) -> u32 {
        self.limit as u32
    }

    /// From now on no number from `limit` on is given. Those that are in use stay.
    pub(crate) fn limit(&mut self, limit: u64) {
        self.limit = usize::try_from(limit).map_or(DESCRIPTORS_MAX, |limit| limit.min(DESCRIPTORS_MAX));
    }

    /// The open file behind a number.
    ///
    /// # Errors
    /// `EBADF`: none.
    pub(crate) fn get(&self, number: i32) -> Result<Arc<OpenFile>, Errno> {
        self.descriptor(number).map(|descriptor| Arc::clone(&descriptor.file))
    }

    /// The open file behind a number, for a look.
    #[inline]
    pub(crate) fn peek(&self, number: i32) -> Option<&OpenFile> {
        // Negative numbers are beyond any table's end.
        self.slots.get(number as usize)?.as_ref().map(|descriptor| &*descriptor.file)
    }

    /// What the open files of all numbers from 0 on are ready for; [`Level::INVALID`] where there are none.
    #[inline]
    pub(crate) fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// The descriptor of a number.
    ///
    /// # Errors
    /// `EBADF`: none.
    pub(crate) fn descriptor(&self, number: i32) -> Result<&Descriptor, Errno> {
        let index = usize::try_from(number).map_err(|_| Errno::EBADF)?;
        self.slots.get(index).and_then(Option::as_ref).ok_or(Errno::EBADF)
    }

    /// Sets or clears `FD_CLOEXEC`.
    ///
    /// # Errors
    /// `EBADF`.
    pub(crate) fn set_close_on_exec(&mut self, number: i32, close_on_exec: bool) -> Result<(), Errno> {
        let index = usize::try_from(number).map_err(|_| Errno::EBADF)?;
        let descriptor = self.slots.get_mut(index).and_then(Option::as_mut).ok_or(Errno::EBADF)?;
        descriptor.close_on_exec = close_on_exec;
        Ok(())
    }

    /// Whether one more fits.
    ///
    /// # Errors
    /// `EMFILE`: no. `ENOMEM`.
    pub(crate) fn check_room(&mut self) -> Result<(), Errno> {
        self.lowest_free(0).map(|_| ())
    }

    /// Puts an open file at the lowest free number from `from` on.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`.
    pub(crate) fn insert(&mut self, descriptor: Descriptor, from: usize) -> Result<i32, Errno> {
        let index = self.lowest_free(from)?;
        self.put(index, descriptor);
        i32::try_from(index).map_err(|_| Errno::EMFILE)
    }

    /// Puts an open file at this very number, and gives back what was there.
    ///
    /// # Errors
    /// `EBADF`: no such number can be. `ENOMEM`.
    pub(crate) fn replace(&mut self, number: i32, descriptor: Descriptor) -> Result<Option<Descriptor>, Errno> {
        let index = usize::try_from(number).ok().filter(|index| *index < self.limit).ok_or(Errno::EBADF)?;
        self.charged.cover(index + 1)?;
        Ok(self.put(index, descriptor))
    }

    /// Frees a number and gives back what was there.
    ///
    /// # Errors
    /// `EBADF`.
    pub(crate) fn remove(&mut self, number: i32) -> Result<Descriptor, Errno> {
        let index = usize::try_from(number).map_err(|_| Errno::EBADF)?;
        let removed = self.slots.get_mut(index).and_then(Option::take).ok_or(Errno::EBADF)?;
        self.levels[index] = self.invalid.clone();
        Ok(removed)
    }

    /// Has connections broken off when they are closed, whatever they still have to tell their peers.
    pub(crate) fn break_connections(&self) {
        for descriptor in self.slots.iter().flatten() {
            if let Object::Socket(socket) = &descriptor.file.object {
                socket.break_off_when_closed();
            }
        }
    }

    /// The file or directory with this handle.
    pub(crate) fn shipped(&self, handle: Handle) -> Option<&Shipped> {
        let mut files = self.slots.iter().flatten().filter_map(|descriptor| descriptor.file.as_shipped());
        files.find(|shipped| shipped.handle == handle)
    }

    /// Numbers in use, in order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = usize> {
        self.slots.iter().enumerate().filter(|(_, slot)| slot.is_some()).map(|(index, _)| index)
    }

    fn lowest_free(&mut self, from: usize) -> Result<usize, Errno> {
        let free = (from..self.slots.len()).find(|index| self.slots[*index].is_none());
        let index = free.unwrap_or(self.slots.len().max(from));
        if index >= self.limit {
            return Err(Errno::EMFILE);
        }
        self.charged.cover(index + 1)?;
        Ok(index)
    }

    fn put(&mut self, index: usize, descriptor: Descriptor) -> Option<Descriptor> {
        if index >= self.slots.len() {
            self.slots.resize(index + 1, None);
            self.levels.resize(index + 1, self.invalid.clone());
        }
        self.levels[index] = descriptor.file.level().clone();
        self.slots[index].replace(descriptor)
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::vec::Vec;

    use coppice_protocol::ids::{JobId, Rank};
    use proptest::prelude::{any, proptest};

    use super::{DESCRIPTORS_MAX, Descriptor, Descriptors, Input, Level};
    use crate::errno::Errno;
    use crate::quota::tests::quota;
    use crate::ship::Ship;

    fn table() -> Descriptors {
        Descriptors::standard(Input::new(Ship::new().client(JobId(1), Rank(0)), &quota()), &quota())
    }

    #[test]
    fn the_lowest_free_number_is_taken() {
        let mut table = table();
        let one = table.descriptor(1).expect("standard output").clone();
        assert_eq!(table.insert(one.clone(), 0), Ok(3));
        assert!(table.remove(1).is_ok());
        assert_eq!(table.insert(one.clone(), 0), Ok(1));
        assert_eq!(table.insert(one.clone(), 10), Ok(10));
        assert_eq!(table.insert(one, 0), Ok(4));
        assert_eq!(table.numbers().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 10]);
    }

    #[test]
    fn copies_share_the_open_file_and_replacing_gives_the_old_one_back() {
        let mut table = table();
        let one = table.descriptor(1).expect("standard output").clone();
        let old = table.replace(2, one.clone()).expect("a possible number").expect("standard error");
        assert!(!Arc::ptr_eq(&old.file, &one.file));
        assert!(table.get(2).is_ok_and(|file| Arc::ptr_eq(&file, &one.file)));
    }

    #[test]
    fn the_table_is_bounded() {
        let mut table = table();
        let one = table.descriptor(1).expect("standard output").clone();
        for number in 3..DESCRIPTORS_MAX {
            assert_eq!(table.insert(one.clone(), 0), Ok(number as i32));
        }
        assert_eq!(table.insert(one.clone(), 0), Err(Errno::EMFILE));
        assert_eq!(table.insert(one.clone(), usize::MAX), Err(Errno::EMFILE));
        assert!(table.replace(DESCRIPTORS_MAX as i32, one).is_err());
    }

    proptest! {
        #[test]
        fn wild_numbers_are_bad_descriptors(number in any::<i32>(), close_on_exec in any::<bool>()) {
            let mut table = table();
            let known = (0..3).contains(&number);
            assert_eq!(table.set_close_on_exec(number, close_on_exec).is_ok(), known);
            assert_eq!(table.get(number).is_ok(), known);
            let level = |table: &Descriptors| table.levels().get(number as usize).map(Level::bits);
            let valid = |bits: Option<u16>| bits.is_some_and(|bits| bits != Level::INVALID);
            assert_eq!(valid(level(&table)), known);
            let file = table.get(0).expect("standard input");
            let possible = (0..DESCRIPTORS_MAX as i32).contains(&number);
            assert_eq!(table.replace(number, Descriptor { file, close_on_exec }).is_ok(), possible);
            assert_eq!(valid(level(&table)), possible);
            assert_eq!(table.remove(number).is_ok(), possible);
            assert!(!valid(level(&table)));
            assert!(table.remove(number).is_err());
        }
    }
}
