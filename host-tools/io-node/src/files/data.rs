//! The data of files: pread(2), pwrite(2), truncate(2), fallocate(2), lseek(2), fsync(2).
//!
//! What may take long is prepared here and run by the caller where it likes: each preparation owns what it needs.

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coppice_protocol::limits::BULK_BYTES_MAX;
use coppice_protocol::ship::{FileStatus, Handle, Location};
use coppice_protocol::text::ByteString;
use rustix::fs::{FallocateFlags, FileType, OFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};

use super::handles::Object;
use super::status::status_of;
use super::{Files, Result, descriptor_path};

/// Magic numbers of file systems that have all their data in memory: tmpfs, ramfs.
const MEMORY_FILE_SYSTEMS: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// A read that is under way: what is there already, and the rest that may have to wait for the disk.
#[derive(Debug)]
pub(crate) struct Read {
    object: Arc<Object>,
    offset: u64,
    length: usize,
    /// What has been read so far.
    pub bytes: Vec<u8>,
}

impl Read {
    /// Reads what is missing; at the end of the file, less.
    ///
    /// # Errors
    /// As pread(2), if nothing at all was read.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>> {
        let start = self.bytes.len();
        self.bytes.resize(self.length, 0);
        let mut filled = start;
        while filled < self.length {
            match rustix::io::pread(&self.object, &mut self.bytes[filled..], self.offset + filled as u64) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(Errno::INTR) => {}
                Err(error) if filled == 0 => return Err(error),
                Err(_) => break,
            }
        }
        self.bytes.truncate(filled);
        Ok(self.bytes)
    }
}

/// A whole file, to be read by somebody who may wait for the disk.
#[derive(Debug)]
pub(crate) struct Whole(Arc<Object>);

impl Whole {
    /// What it is like now.
    ///
    /// # Errors
    /// As fstat(2).
    pub(crate) fn status(&self) -> Result<FileStatus> {
        status_of(&*self.0)
    }

    /// So many bytes of it; fewer at its end.
    ///
    /// # Errors
    /// As pread(2); `ENOMEM`.
    pub(crate) fn read(&self, offset: u64, length: u32) -> Result<Vec<u8>> {
        let length = usize::try_from(length).map_err(|_| Errno::NOMEM)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| Errno::NOMEM)?;
        Read { object: Arc::clone(&self.0), offset, length, bytes }.finish()
    }

    /// Where the host has it, if it has a name there.
    pub(crate) fn path(&self) -> Option<ByteString> {
        let path = rustix::fs::readlink(descriptor_path(&*self.0), Vec::new()).ok()?;
        Some(ByteString::from(path.into_bytes()))
    }
}

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteAt {
    /// At this offset, bytes.
    Offset(u64),
    /// At the end, wherever that is then.
    End,
}

/// A write to be made.
#[derive(Debug)]
pub(crate) struct Write {
    object: Arc<Object>,
    at: WriteAt,
    /// It may wait for the disk, and is for another thread.
    pub may_wait: bool,
}

impl Write {
    /// Writes all of `bytes`, or as much as there is room for. Gives how many, and the offset behind the last.
    ///
    /// # Errors
    /// As pwrite(2), if nothing at all was written.
    pub(crate) fn run(&self, bytes: &[u8]) -> Result<(usize, u64)> {
        let mut written = 0;
        let mut end = match self.at {
            WriteAt::Offset(offset) => offset,
            WriteAt::End => 0,
        };
        loop {
            let rest = &bytes[written..];
            let result = match self.at {
                WriteAt::Offset(_) => rustix::io::pwrite(&self.object, rest, end),
                WriteAt::End => append(&self.object, rest),
            };
            match result {
                Ok(0) => break,
                Ok(count) => {
                    written += count;
                    end += count as u64;
                }
                Err(Errno::INTR) => continue,
                Err(error) if written == 0 => return Err(error),
                Err(_) => break,
            }
            if written == bytes.len() {
                break;
            }
        }
        if self.at == WriteAt::End {
            end = rustix::fs::tell(&self.object)?;
        }
        Ok((written, end))
    }
}

/// Appends, and leaves the descriptor's own offset behind what was written.
fn append(object: &Object, bytes: &[u8]) -> Result<usize> {
    // Offset −1 is "the descriptor's own", which an append sets to where it ended.
    rustix::io::pwritev2(object, &[IoSlice::new(bytes)], u64::MAX, ReadWriteFlags::APPEND)
}

/// A call that waits for the disk.
#[derive(Debug)]
pub(crate) enum DiskCall {
    /// fsync(2), or fdatasync(2).
    Flush {
        /// The file.
        object: FileObject,
        /// The data alone.
        data_only: bool,
    },
    /// fallocate(2).
    Allocate {
        /// The file.
        object: FileObject,
        /// `FALLOC_FL_*`.
        mode: FallocateFlags,
        /// Start, bytes.
        offset: u64,
        /// Length, bytes.
        length: u64,
    },
}

/// An open file of a rank, kept open until the work on it is done.
#[derive(Clone, Debug)]
pub(crate) struct FileObject(Arc<Object>);

impl DiskCall {
    /// Does it.
    ///
    /// # Errors
    /// As the call does.
    pub(crate) fn run(&self) -> Result<()> {
        match self {
            Self::Flush { object, data_only: false } => rustix::fs::fsync(&object.0),
            Self::Flush { object, data_only: true } => rustix::fs::fdatasync(&object.0),
            Self::Allocate { object, mode, offset, length } => {
                rustix::fs::fallocate(&object.0, *mode, *offset, *length)
            }
        }
    }
}

/// Reads as much as the page cache holds; `None` if the file system cannot say.
fn read_cached(object: &Object, buffer: &mut [u8], offset: u64) -> Result<Option<usize>> {
    match rustix::io::preadv2(object, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(Some(0)),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A read: done, or begun.
#[derive(Debug)]
pub(crate) enum ReadStart {
    /// These are the bytes.
    Done(Vec<u8>),
    /// The rest has to wait for the disk, and is for another thread.
    Waits(Read),
}

impl ReadStart {
    /// The bytes, however long that takes.
    ///
    /// # Errors
    /// As [`Read::finish`].
    pub(crate) fn finish(self) -> Result<Vec<u8>> {
        match self {
            Self::Done(bytes) => Ok(bytes),
            Self::Waits(read) => read.finish(),
        }
    }
}

/// A file to read from.
#[derive(Debug)]
pub(crate) struct Source {
    object: Arc<Object>,
    /// Reads may be tried without waiting (`RWF_NOWAIT`); cleared where the file system does not know that.
    nowait: AtomicBool,
    /// All of it is in memory, so that nothing ever waits.
    in_memory: bool,
}

impl Source {
    /// Looks at the file system, which may wait for it.
    pub(super) fn new(object: Arc<Object>) -> Self {
        let in_memory = rustix::fs::fstatfs(&object)
            .is_ok_and(|status| MEMORY_FILE_SYSTEMS.contains(&u64::from_ne_bytes(status.f_type.to_ne_bytes())));
        Self { object, nowait: AtomicBool::new(true), in_memory }
    }

    /// Opens a regular file of the host for reading, and gives its length, bytes.
    ///
    /// # Errors
    /// The errno of opening it; `EINVAL` if it is something else.
    pub(crate) fn open(path: &[u8]) -> Result<(Self, u64)> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
        let status = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(Errno::INVAL);
        }
        let length = u64::try_from(status.st_size).map_err(|_| Errno::INVAL)?;
        Ok((Self::new(Arc::new(Object::File(file))), length))
    }

    /// Reads as far as it goes without waiting.
    ///
    /// # Errors
    /// As pread(2).
    pub(crate) fn read(&self, offset: u64, length: usize) -> Result<ReadStart> {
        i64::try_from(offset).map_err(|_| Errno::INVAL)?;
        let mut read = Read { object: Arc::clone(&self.object), offset, length, bytes: Vec::new() };
        if self.in_memory {
            return read.finish().map(ReadStart::Done);
        }
        if !self.nowait.load(Ordering::Relaxed) {
            return Ok(ReadStart::Waits(read));
        }
        let mut buffer = vec![0; length];
        let Some(bytes) = read_cached(&self.object, &mut buffer, offset)? else {
            self.nowait.store(false, Ordering::Relaxed);
            return Ok(ReadStart::Waits(read));
        };
        buffer.truncate(bytes);
        let size = || rustix::fs::fstat(&self.object).map(|status| u64::try_from(status.st_size).unwrap_or(0));
        if bytes == length || offset + bytes as u64 >= size()? {
            return Ok(ReadStart::Done(buffer));
        }
        read.bytes = buffer;
        Ok(ReadStart::Waits(read))
    }
}

impl Files {
    /// pread(2), as far as it goes without waiting.
    pub(crate) fn read(&self, file: Handle, offset: u64, length: u32) -> Result<ReadStart> {
        let length = usize::try_from(length).map_or(BULK_BYTES_MAX, |length| length.min(BULK_BYTES_MAX));
        self.handles.get(file)?.source.read(offset, length)
    }

    /// Prepares pwrite(2), or an appending write(2).
    pub(crate) fn write(&self, file: Handle, at: WriteAt) -> Result<Write> {
        let open = self.handles.get(file)?;
        let may_wait = open.synchronous || !open.source.in_memory;
        Ok(Write { object: Arc::clone(&open.object), at, may_wait })
    }

    /// truncate(2).
    pub(crate) fn truncate(&self, at: &Location, length: u64) -> Result<()> {
        i64::try_from(length).map_err(|_| Errno::INVAL)?;
        let found = self.find(at, true)?;
        let status = rustix::fs::fstat(&found)?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR),
            _ => return Err(Errno::INVAL),
        }
        self.root.admit(&found, status.st_dev)?;
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        self.root.inside(move || {
            let file = rustix::fs::open(descriptor_path(&found), flags, rustix::fs::Mode::empty())?;
            rustix::fs::ftruncate(file, length)
        })
    }

    /// ftruncate(2).
    pub(crate) fn handle_truncate(&self, file: Handle, length: u64) -> Result<()> {
        i64::try_from(length).map_err(|_| Errno::INVAL)?;
        rustix::fs::ftruncate(&self.handles.get(file)?.object, length)
    }

    /// Prepares fallocate(2).
    pub(crate) fn allocate(&self, file: Handle, mode: u32, offset: u64, length: u64) -> Result<DiskCall> {
        let mode = FallocateFlags::from_bits_retain(mode);
        i64::try_from(offset).and(i64::try_from(length)).map_err(|_| Errno::INVAL)?;
        Ok(DiskCall::Allocate { object: self.object(file)?, mode, offset, length })
    }

    /// Prepares fsync(2) or fdatasync(2).
    pub(crate) fn synchronise(&self, file: Handle, data_only: bool) -> Result<DiskCall> {
        Ok(DiskCall::Flush { object: self.object(file)?, data_only })
    }

    /// Prepares to read all of a file.
    pub(crate) fn whole(&self, file: Handle) -> Result<Whole> {
        Ok(Whole(Arc::clone(&self.handles.get(file)?.object)))
    }

    /// lseek(2) with `SEEK_DATA` or `SEEK_HOLE`.
    pub(crate) fn seek_data(&self, file: Handle, offset: u64, hole: bool) -> Result<u64> {
        let open = self.handles.get(file)?;
        i64::try_from(offset).map_err(|_| Errno::NXIO)?;
        rustix::fs::seek(&open.object, if hole { SeekFrom::Hole(offset) } else { SeekFrom::Data(offset) })
    }

    fn object(&self, file: Handle) -> Result<FileObject> {
        Ok(FileObject(Arc::clone(&self.handles.get(file)?.object)))
    }
}
