//! Packs: files that hold many objects each, for those who put many at once. On most hosts a file costs far more than
//! what a small one holds.
//!
//! A pack is made whole, as any file here, and objects are only ever taken out of it: by those who collect what nothing
//! reaches. What each holds is kept in memory ([`known`]); who looks for an object there looks into the file, too, as
//! it may have been taken out by another process.

mod entry;
mod known;
mod packing;
mod taking;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use coppice_protocol::checkpoint::ObjectId;
use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;

use self::entry::Entry;
use self::known::{Known, Place};
use crate::directory::errno;
use crate::encoding::may_hold;
use crate::{Result, Storage};

pub use self::packing::Packing;

/// The directory of packs, and what is in them.
#[derive(Debug)]
pub(crate) struct Packs {
    pub(crate) directory: OwnedFd,
    known: Mutex<Known>,
}

impl Packs {
    /// Those in a directory. It is read when something is looked for.
    pub(crate) fn new(directory: OwnedFd) -> Self {
        Self { directory, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: something that is no file is there instead, which holds nothing and is nobody's here to remove.
    fn open(&self, name: &str, flags: OFlags) -> rustix::io::Result<Option<File>> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.directory, name, flags, Mode::empty()) {
            Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => Ok(None),
            opened => {
                let file = File::from(opened?);
                let is_file = file.metadata().map_err(|error| errno(&error))?.is_file();
                Ok(is_file.then_some(file))
            }
        }
    }

    /// An object's entry, if it is in that place, and the file.
    fn look(&self, id: ObjectId, Place { name, entries_at, number }: &Place) -> Option<(File, Entry)> {
        let file = self.open(name, OFlags::RDONLY).ok()??;
        let mut bytes = [0; Entry::BYTES];
        file.read_exact_at(&mut bytes, entries_at + u64::from(*number) * Entry::BYTES as u64).ok()?;
        let entry = Entry::read(&bytes).filter(|entry| entry.id == id && entry.end() <= Some(*entries_at))?;
        Some((file, entry))
    }

    /// What the file of an object would hold, if it is in a pack as far as is known. What cannot be read is damaged,
    /// and nothing.
    pub(crate) fn read(&self, id: ObjectId) -> Option<Vec<u8>> {
        let place = self.known().place(id)?;
        let (file, entry) = self.look(id, &place)?;
        let mut bytes = vec![0; entry.length as usize];
        Some(if file.read_exact_at(&mut bytes, entry.offset).is_ok() { bytes } else { Vec::new() })
    }

    /// Whether it is in a pack, as far as is known and one look says; and if so many bytes are given, as long.
    pub(crate) fn has(&self, id: ObjectId, bytes: Option<usize>) -> bool {
        let Some(place) = self.known().place(id) else { return false };
        let looked = self.look(id, &place).and_then(|(file, entry)| {
            let mut encoding = [0];
            file.read_exact_at(&mut encoding, entry.offset).ok()?;
            Some(bytes.is_none_or(|bytes| may_hold(encoding[0], entry.length.into(), bytes)))
        });
        looked.unwrap_or(false)
    }
}

impl Storage {
    /// Looks which packs there are, and what is in those that were not known. Damaged ones hold nothing. Says whether
    /// anything is known that was not.
    pub(crate) fn look_for_packs(&self) -> Result<bool> {
        let failed = |error| self.failed("read", "packs", error);
        let mut there = Vec::new();
        for entry in Dir::read_from(&self.packs.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if let Some(name) = entry.file_name().to_str().ok().filter(|name| is_name(name)) {
                there.push((name.to_owned(), entry.ino()));
            }
        }
        let unknown = self.packs.known().keep(&there);
        for (name, inode) in &unknown {
            let contents = match self.packs.open(name, OFlags::RDONLY) {
                Ok(Some(file)) => {
                    entry::read_all(&file).map_err(|error| self.failed("read", &path(name), errno(&error)))?
                }
                Ok(None) => None,
                // Its last object was taken out meanwhile.
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(self.failed("read", &path(name), error)),
            };
            self.packs.known().add(name, *inode, &contents.unwrap_or_default());
        }
        Ok(!unknown.is_empty())
    }
}

/// Whether a file in the directory is a pack.
fn is_name(name: &str) -> bool {
    name.parse::<ObjectId>().is_ok()
}

/// Where a pack is.
fn path(name: &str) -> String {
    format!("packs/{name}")
}
