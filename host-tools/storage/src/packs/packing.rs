//! A pack while it is made.

use std::collections::HashSet;
use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError};

use coppice_protocol::checkpoint::{OBJECT_BYTES_MAX, ObjectId};

use super::entry::{Contents, Entry, ending};
use super::path;
use crate::directory::Temporary;
use crate::encoding::encode;
use crate::limits::{PACK_BYTES_MAX, PACK_OBJECTS_MAX};
use crate::objects::Named;
use crate::{Result, Storage, StorageError};

/// How many bytes are put on stable storage together.
const SETTLED_BYTES: u64 = 8 << 20;

/// Objects that are put together, by any number of threads ([`Storage::packing`]). They are there for others when it is
/// finished, or some of them before; those of the last pack are not, if it is not.
#[derive(Debug)]
pub struct Packing<'a> {
    storage: &'a Storage,
    open: Mutex<Open<'a>>,
}

#[derive(Debug, Default)]
struct Open<'a> {
    /// There is one if there is an object.
    file: Option<Temporary<'a>>,
    bytes: u64,
    /// So many of them are on stable storage, or somebody waits until they are.
    settled: u64,
    entries: Vec<Entry>,
    /// The objects in it.
    ids: HashSet<ObjectId>,
}

impl Storage {
    /// Begins to put objects together.
    ///
    /// # Errors
    /// What the host says.
    pub fn packing(&self) -> Result<Packing<'_>> {
        // What others have put is not put again.
        self.look_for_packs()?;
        Ok(Packing { storage: self, open: Mutex::default() })
    }
}

impl<'a> Packing<'a> {
    /// Puts an object, unless it is there.
    ///
    /// # Errors
    /// [`StorageError::TooLong`], or what the host says; then those before may be lost, too.
    pub fn put(&self, named: &Named<'_>) -> Result<()> {
        let (id, bytes) = (named.id(), named.bytes());
        if bytes.len() > OBJECT_BYTES_MAX {
            return Err(StorageError::TooLong(bytes.len()));
        }
        let is_in_it = self.open().ids.contains(&id);
        if is_in_it || self.storage.seems_there(id, bytes.len()) {
            return Ok(());
        }
        let encoded = encode(bytes);
        let mut open = self.open();
        if open.bytes + encoded.len() as u64 > PACK_BYTES_MAX || open.entries.len() >= PACK_OBJECTS_MAX {
            std::mem::take(&mut *open).close(self.storage)?;
        }
        // Another thread may have been faster.
        if !open.ids.insert(id) {
            return Ok(());
        }
        let much = open.add(self.storage, id, &encoded);
        if much.is_err() {
            // Nobody knows how much of it is in the file, so what comes behind it would not be where it is said to be.
            *open = Open::default();
        }
        drop(open);
        // The disk is waited for while others put, and not only when all is there.
        much?.map_or(Ok(()), |file| self.storage.settle_file(&file))
    }

    /// Has all of them be there. They are on stable storage after [`Storage::settle`].
    ///
    /// # Errors
    /// What the host says.
    pub fn finish(self) -> Result<()> {
        let storage = self.storage;
        self.open.into_inner().unwrap_or_else(PoisonError::into_inner).close(storage)
    }

    /// Has writes to the file that is open fail from now on.
    #[cfg(test)]
    pub(super) fn lose_file(&self) {
        self.open().file.as_mut().expect("there is one").fail();
    }

    fn open(&self) -> MutexGuard<'_, Open<'a>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> Open<'a> {
    /// Adds one. Gives the file if there is much in it that is not on stable storage.
    fn add(&mut self, storage: &'a Storage, id: ObjectId, encoded: &[u8]) -> Result<Option<File>> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(storage.temporary()?),
        };
        file.write(encoded)?;
        // An encoded object is not so long.
        let length = u32::try_from(encoded.len()).unwrap_or(u32::MAX);
        self.entries.push(Entry { id, offset: self.bytes, length, is_going: false });
        self.bytes += u64::from(length);
        if self.bytes - self.settled < SETTLED_BYTES {
            return Ok(None);
        }
        self.settled = self.bytes;
        file.file().map(Some)
    }

    fn close(self, storage: &Storage) -> Result<()> {
        let Some(mut file) = self.file else { return Ok(()) };
        let ending = ending(&self.entries);
        file.write(&ending)?;
        let inode = file.inode()?;
        let name = ObjectId::of(&ending).to_string();
        file.name_in(&storage.packs.directory, &name).map_err(|error| storage.failed("write", &path(&name), error))?;
        let contents = Contents { entries_at: self.bytes, entries: (0..).zip(self.entries).collect() };
        storage.packs.known().add(&name, inode, &contents);
        Ok(())
    }
}
