//! The dynamic linker of a program that needs one (`PT_INTERP`): opened in the job's root as any file, mapped beside
//! the program, and started in its place. It finds the program and all libraries by itself.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal::heap::block_bytes;
use coppice_protocol::program::{self, HEADER_BYTES, ProgramImage};
use coppice_protocol::ship::{Call, Location, Reply};
use coppice_protocol::text::ByteString;

use crate::errno::Errno;
use crate::files::cache::WRITER_BYTES;
use crate::files::{Closer, OPEN_FILE_BYTES, Object, OpenFile, flags, special};
use crate::memory::{AddressSpace, CopyError};
use crate::process::{Fetched, Process};
use crate::quota::Quota;

/// A dynamic linker that was opened.
pub(super) struct Interpreter {
    path: ByteString,
    /// How it lies in memory.
    pub(super) image: ProgramImage,
    file: Arc<OpenFile>,
}

impl Interpreter {
    /// Opens it and reads its headers.
    ///
    /// # Errors
    /// One line for the user.
    pub(super) async fn open(path: &ByteString, closer: &Closer, quota: &Arc<Quota>) -> Result<Self, String> {
        let file = open(path, closer, quota).await.map_err(|errno| {
            let remedy = if errno == Errno::ENOENT {
                ": run it with a root that has it and its libraries (--root /), or link it statically"
            } else {
                ""
            };
            format!("its dynamic linker {path} cannot be opened in the job's root: {errno}{remedy}")
        })?;
        let Object::Shipped(shipped) = &file.object else { return Err(unreadable(path, Errno::EIO)) };
        let call = Call::Read { file: shipped.handle, offset: 0, length: HEADER_BYTES as u32 };
        let bytes = shipped.status.size;
        let (_, header) = closer.client().call(call, Vec::new()).await.map_err(|errno| unreadable(path, errno))?;
        let image = program::parse_interpreter(&header, bytes)
            .map_err(|error| format!("its dynamic linker {path}: {error}"))?;
        Ok(Self { path: path.clone(), image, file })
    }

    /// Maps it.
    ///
    /// # Errors
    /// One line for the user.
    pub(super) fn map(&self, space: &mut AddressSpace) -> Result<(), String> {
        let mapped = space.map_interpreter(&self.image, &(Arc::clone(&self.file) as _));
        mapped.map_err(|error| format!("its dynamic linker {}: {error}", self.path))
    }

    /// Makes what lies behind its bytes of the file zero, as far as that is in pages of the file.
    ///
    /// # Errors
    /// One line for the user.
    pub(super) async fn clear(&self, process: &Process) -> Result<(), String> {
        process.maps_files();
        for (address, length) in self.image.zeros() {
            let zeros = [0; HEADER_BYTES];
            let zeros = zeros.get(..length).unwrap_or_default();
            write(process, address, zeros).await.map_err(|errno| unreadable(&self.path, errno))?;
        }
        Ok(())
    }
}

fn unreadable(path: &ByteString, errno: Errno) -> String {
    format!("its dynamic linker {path} cannot be read: {errno}")
}

/// Opens a file for a process that is not there yet.
async fn open(path: &ByteString, closer: &Closer, quota: &Arc<Quota>) -> Result<Arc<OpenFile>, Errno> {
    let special::Place::Shipped(path) = special::locate(b"/", path, 0)? else { return Err(Errno::EACCES) };
    let charge = quota.charge(block_bytes(path.len()) + WRITER_BYTES)?;
    let known = closer.cache().opening()?;
    let of_file = quota.charge(OPEN_FILE_BYTES)?;
    let at = Location { directory: None, path: path.clone() };
    let call = Call::Open { at, flags: flags::O_RDONLY, mode: 0 };
    let (Reply::Opened { handle, status, grant }, bytes) = closer.client().call(call, Vec::new()).await? else {
        return Err(Errno::EIO);
    };
    let lease = grant.map(|grant| (grant, &*bytes));
    let file = OpenFile::shipped((handle, status, lease), (path, charge, known), flags::O_RDONLY, closer);
    file.charge(of_file);
    if !file.is_regular() {
        return Err(Errno::EACCES);
    }
    Ok(Arc::new(file))
}

/// Writes to the process's memory before any thread of it runs.
async fn write(process: &Process, mut address: u64, mut bytes: &[u8]) -> Result<(), Errno> {
    loop {
        let written = process.space.lock().write_bytes(address, bytes);
        let (done, fetch) = match written {
            Ok(()) => return Ok(()),
            Err(CopyError::Fetch { done, fetch }) => (done, fetch),
            Err(CopyError::Fault { .. }) => return Err(Errno::EFAULT),
            Err(CopyError::OutOfMemory) => return Err(Errno::ENOMEM),
        };
        (address, bytes) = (address + done as u64, bytes.get(done..).unwrap_or_default());
        match process.fetch(&fetch).await {
            Fetched::Ready => {}
            Fetched::Failed(_, errno) => return Err(errno.unwrap_or(Errno::EIO)),
            Fetched::OutOfMemory => return Err(Errno::ENOMEM),
        }
    }
}
