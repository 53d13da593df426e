//! open(2) and close(2).
//!
//! An existing file is found first, with `O_PATH`, which acts on nothing; only a regular file or a directory is then
//! opened for real, through its descriptor. A new file is made with `O_CREAT|O_EXCL|O_NOFOLLOW`, so it is ours.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use cap_std::fs::{OpenOptions, OpenOptionsExt};
use coppice_protocol::ship::{FileStatus, Handle, Location};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::handles::OpenFile;
use super::modes::new_mode;
use super::status::status_of;
use super::walk::{Destination, DirectoryEntry, Start, Tail};
use super::{Files, Result, descriptor_path, errno};
use crate::limits::OPENS_MAX;

/// Flags that reach the host's open. The node keeps `O_APPEND` to itself (appending writes say so), `O_DIRECT` asks for
/// an alignment that a copy over the network cannot have, and everything is non-blocking here.
const PASSED_ON: OFlags =
    OFlags::RWMODE.union(OFlags::TRUNC).union(OFlags::NOATIME).union(OFlags::SYNC).union(OFlags::DSYNC);

/// Flags of every descriptor.
const ALWAYS: OFlags = OFlags::CLOEXEC.union(OFlags::NOCTTY).union(OFlags::NONBLOCK);

impl Files {
    /// open(2).
    pub(crate) fn open(&self, at: &Location, flags: u32, mode: u32) -> Result<(Handle, FileStatus)> {
        let room = self.handles.room()?;
        let flags = OFlags::from_bits_retain(flags);
        let mode = new_mode(mode);
        let descriptor = self.open_descriptor(at, flags, mode)?;
        let status = status_of(&descriptor)?;
        let mut file = OpenFile::new(descriptor, &status, flags, room);
        if FileType::from_raw_mode(status.mode) == FileType::Directory && self.root.is(&file.object)? {
            file.root_inode = Some(status.inode);
        }
        Ok((self.handles.insert(file)?, status))
    }

    /// close(2).
    pub(crate) fn close(&self, handle: Handle) -> Result<()> {
        self.handles.remove(handle)
    }

    fn open_descriptor(&self, at: &Location, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let start = self.start(at)?;
        let path = at.path.as_bytes();
        if flags.contains(OFlags::PATH) {
            let found = start.find(path, !flags.contains(OFlags::NOFOLLOW))?;
            let kind = FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode);
            let wrong = flags.contains(OFlags::DIRECTORY) && kind != FileType::Directory;
            return if wrong { Err(Errno::NOTDIR) } else { Ok(found) };
        }
        if flags.contains(OFlags::TMPFILE) {
            return self.open_nameless(&start, path, flags, mode);
        }
        if !flags.contains(OFlags::CREATE) {
            return self.open_existing(start.find(path, !flags.contains(OFlags::NOFOLLOW))?, flags);
        }
        if flags.contains(OFlags::DIRECTORY) {
            return Err(Errno::INVAL);
        }
        self.open_or_create(&start, path, flags, mode)
    }

    /// Opens what was found, if it is a file or directory whose opening does nothing but open it.
    fn open_existing(&self, found: OwnedFd, flags: OFlags) -> Result<OwnedFd> {
        let status = rustix::fs::fstat(&found)?;
        let kind = FileType::from_raw_mode(status.st_mode);
        if flags.contains(OFlags::DIRECTORY) && kind != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        match kind {
            FileType::Directory if flags.contains(OFlags::CREATE) => return Err(Errno::ISDIR),
            FileType::Directory => {}
            FileType::RegularFile => self.root.admit(&found, status.st_dev)?,
            FileType::Symlink => return Err(Errno::LOOP),
            // What Linux says of a FIFO without a reader, of a socket, and of a device without a driver.
            FileType::Fifo | FileType::Socket | FileType::Unknown => return Err(Errno::NXIO),
            // What it says of devices on a file system mounted without them.
            FileType::CharacterDevice | FileType::BlockDevice => return Err(Errno::ACCESS),
        }
        let flags = flags.intersection(PASSED_ON) | ALWAYS;
        self.root.inside(move || rustix::fs::open(descriptor_path(&found), flags, Mode::empty()))
    }

    fn open_or_create(&self, start: &Start<'_>, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let exclusive = flags.contains(OFlags::EXCL);
        let follow = !exclusive && !flags.contains(OFlags::NOFOLLOW);
        if !exclusive && path.ends_with(b"/") {
            // A slash behind the name of a file that is to be made is wrong whatever is there.
            return start.entry(path).and(Err(Errno::ISDIR));
        }
        // Something without a file behind it is in the name's place: perhaps a link to where a file is to be made.
        let mut is_taken = false;
        for _ in 0..OPENS_MAX {
            if !exclusive {
                match start.find(path, follow) {
                    Ok(found) => return self.open_existing(found, flags),
                    Err(Errno::NOENT) => {}
                    Err(error) => return Err(error),
                }
            }
            let place = if follow && is_taken { start.walk(path, Tail::Follow)? } else { start.entry(path)? };
            let DirectoryEntry { parent, name } = match place {
                Destination::Entry(entry) => entry,
                Destination::Directory { .. } if exclusive => return Err(Errno::EXIST),
                Destination::Directory { .. } => return Err(Errno::ISDIR),
            };
            if name.ends_with(b"/") {
                return Err(Errno::ISDIR);
            }
            self.root.admit_unknown(&*parent)?;
            match self.root.inside(move || create(&parent, &name, flags, mode)) {
                // Somebody made it between the look and the making, and it exists after all; or it is such a link.
                Err(Errno::EXIST) if !exclusive => is_taken = true,
                result => return result,
            }
        }
        Err(Errno::AGAIN)
    }

    /// `O_TMPFILE`: a file without a name in a directory.
    fn open_nameless(&self, start: &Start<'_>, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        if !flags.intersects(OFlags::WRONLY | OFlags::RDWR) || flags.contains(OFlags::CREATE) {
            return Err(Errno::INVAL);
        }
        let directory = start.find(path, !flags.contains(OFlags::NOFOLLOW))?;
        let status = rustix::fs::fstat(&directory)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        self.root.admit(&directory, status.st_dev)?;
        let kept = PASSED_ON.difference(OFlags::TRUNC).union(OFlags::EXCL);
        let flags = flags.intersection(kept) | OFlags::TMPFILE | ALWAYS;
        self.root.inside(move || rustix::fs::open(descriptor_path(&directory), flags, mode))
    }
}

/// Makes a new file, which must not exist yet.
fn create(parent: &cap_std::fs::Dir, name: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    // The options know nothing of making a file for reading alone; the flags do.
    let access = flags.intersection(OFlags::RWMODE);
    let rest = flags.intersection(PASSED_ON).difference(OFlags::RWMODE | OFlags::TRUNC | OFlags::NOATIME);
    let custom = rest | ALWAYS | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let mut options = OpenOptions::new();
    options
        .read(access != OFlags::WRONLY)
        .write(access != OFlags::RDONLY)
        .mode(mode.as_raw_mode())
        .custom_flags(custom.bits().cast_signed());
    Ok(parent.open_with(OsStr::from_bytes(name), &options).map_err(|error| errno(&error))?.into())
}
