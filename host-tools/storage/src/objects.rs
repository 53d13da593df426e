//! Objects: a file each, by their names, so that what is there already is not written again.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

use coppice_protocol::checkpoint::{OBJECT_BYTES_MAX, ObjectId};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::directory::{errno, make_directory, read};
use crate::encoding::{decode, encode, may_hold};
use crate::limits::OBJECT_FILE_BYTES_MAX;
use crate::{Result, Storage, StorageError};

/// An object, and its name.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    id: ObjectId,
    bytes: &'a [u8],
}

impl<'a> Named<'a> {
    /// Names an object.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { id: ObjectId::of(bytes), bytes }
    }

    /// Its name.
    #[must_use]
    pub const fn id(&self) -> ObjectId {
        self.id
    }

    /// It.
    pub(crate) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// In which directory of `objects` an object lies, and where there.
pub(crate) fn place(id: ObjectId) -> (String, String) {
    let name = id.to_string();
    (name[..2].to_owned(), format!("{}/{name}", &name[..2]))
}

impl Storage {
    /// Keeps an object in a file of its own; [`Storage::packing`] is for many. It is there for everybody from now on,
    /// and on stable storage after [`Storage::settle`]. One that is there already is not written again.
    ///
    /// # Errors
    /// [`StorageError::TooLong`], or what the host says: nothing is left behind then.
    pub fn put(&self, bytes: &[u8]) -> Result<ObjectId> {
        if bytes.len() > OBJECT_BYTES_MAX {
            return Err(StorageError::TooLong(bytes.len()));
        }
        let id = ObjectId::of(bytes);
        let (directory, name) = place(id);
        if self.seems_there(id, bytes.len()) {
            return Ok(id);
        }
        let mut file = self.temporary()?;
        file.write(&encode(bytes))?;
        let mut named = file.name_in(&self.objects, &name);
        if named == Err(Errno::NOENT) {
            make_directory(&self.objects, &directory)
                .map_err(|error| self.failed("make", &format!("objects/{directory}"), error))?;
            named = file.name_in(&self.objects, &name);
        }
        named.map_err(|error| self.failed("write", &format!("objects/{name}"), error))?;
        Ok(id)
    }

    /// An object's bytes.
    ///
    /// # Errors
    /// [`StorageError::Missing`], [`StorageError::Damaged`], or what the host says.
    pub fn get(&self, id: ObjectId) -> Result<Vec<u8>> {
        let object = |file: &[u8]| decode(file).filter(|bytes| ObjectId::of(bytes) == id);
        let packed = self.packs.read(id);
        if let Some(bytes) = packed.as_deref().and_then(object) {
            return Ok(bytes);
        }
        match self.get_from_file(id) {
            // What is damaged there may be whole here, and the other way round.
            Err(StorageError::Missing(_)) if packed.is_some() => Err(StorageError::Damaged(id)),
            Err(StorageError::Missing(_)) if self.look_for_packs()? => {
                let file = self.packs.read(id).ok_or(StorageError::Missing(id))?;
                object(&file).ok_or(StorageError::Damaged(id))
            }
            got => got,
        }
    }

    /// The same if it has a file of its own.
    fn get_from_file(&self, id: ObjectId) -> Result<Vec<u8>> {
        let (_, name) = place(id);
        let file = match read(&self.objects, &name, OBJECT_FILE_BYTES_MAX) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Err(StorageError::Missing(id)),
            // Something that is no file, instead.
            Err(Errno::LOOP | Errno::ISDIR | Errno::NOTDIR | Errno::NXIO) => return Err(StorageError::Damaged(id)),
            Err(error) => return Err(self.failed("read", &format!("objects/{name}"), error)),
        };
        let bytes = Some(file).filter(|file| file.len() <= OBJECT_FILE_BYTES_MAX).and_then(|file| decode(&file));
        bytes.filter(|bytes| ObjectId::of(bytes) == id).ok_or(StorageError::Damaged(id))
    }

    /// Whether there is an object of that name: it was put whole, and is not read for this.
    ///
    /// # Errors
    /// What the host says.
    pub fn has(&self, id: ObjectId) -> Result<bool> {
        if self.packs.has(id, None) || self.has_file(id)? {
            return Ok(true);
        }
        Ok(self.look_for_packs()? && self.packs.has(id, None))
    }

    fn has_file(&self, id: ObjectId) -> Result<bool> {
        let (_, name) = place(id);
        match rustix::fs::statat(&self.objects, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => Ok(FileType::from_raw_mode(status.st_mode).is_file() && status.st_size > 0),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(error) => Err(self.failed("look at", &format!("objects/{name}"), error)),
        }
    }

    /// Whether there is an object of that name and so many bytes, as far as one look says. One that is there was put
    /// whole; if it could be read and has lost bytes since, it is written anew.
    pub(crate) fn seems_there(&self, id: ObjectId, bytes: usize) -> bool {
        if self.packs.has(id, Some(bytes)) {
            return true;
        }
        let (_, name) = place(id);
        let look = || -> rustix::io::Result<bool> {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = File::from(rustix::fs::openat(&self.objects, &name, flags, Mode::empty())?);
            let status = file.metadata().map_err(|error| errno(&error))?;
            let mut encoding = [0];
            file.read_exact_at(&mut encoding, 0).map_err(|error| errno(&error))?;
            Ok(status.is_file() && may_hold(encoding[0], status.size(), bytes))
        };
        look().unwrap_or(false)
    }
}
