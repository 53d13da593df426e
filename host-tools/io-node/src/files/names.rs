//! Making, removing and renaming names: mkdir(2), unlink(2), rmdir(2), rename(2), link(2), symlink(2), readlink(2).

use std::sync::Arc;

use coppice_protocol::limits::PATH_BYTES_MAX;
use coppice_protocol::ship::Location;
use rustix::fd::{AsFd, AsRawFd};
use rustix::fs::{AtFlags, CWD, RenameFlags};
use rustix::io::Errno;

use super::modes::new_mode;
use super::walk::{Destination, DirectoryEntry, Last, Tail};
use super::{Files, Result, descriptor_path};

impl Files {
    /// A name to change, or how the path ends if not with a name. What the host's kernel keeps is not changed.
    fn entry(&self, at: &Location) -> Result<core::result::Result<DirectoryEntry, Last>> {
        match self.start(at)?.entry(at.path.as_bytes())? {
            Destination::Entry(entry) => {
                self.root.admit_unknown(&*entry.parent)?;
                Ok(Ok(entry))
            }
            Destination::Directory { last, .. } => Ok(Err(last)),
        }
    }

    /// As [`Self::entry`], for names that must not exist: those that are no names do.
    fn new_entry(&self, at: &Location) -> Result<DirectoryEntry> {
        self.entry(at)?.map_err(|_| Errno::EXIST)
    }

    /// readlink(2).
    pub(crate) fn read_link(&self, at: &Location) -> Result<Vec<u8>> {
        // An empty path means the link itself that was opened with O_PATH and O_NOFOLLOW.
        if let (Some(handle), true) = (at.directory, at.path.is_empty()) {
            return read_link_of(&self.handles.get(handle)?.object);
        }
        let found = self.find(at, false)?;
        match read_link_of(&found) {
            // An empty path below a descriptor that is no link is "missing", but a name that is no link is "invalid".
            Err(Errno::NOENT) => Err(Errno::INVAL),
            result => result,
        }
    }

    /// mkdir(2).
    pub(crate) fn make_directory(&self, at: &Location, mode: u32) -> Result<()> {
        let DirectoryEntry { parent, name } = self.new_entry(at)?;
        self.root.inside(move || rustix::fs::mkdirat(&*parent, name, new_mode(mode)))
    }

    /// unlink(2), or rmdir(2).
    pub(crate) fn remove(&self, at: &Location, directory: bool) -> Result<()> {
        let DirectoryEntry { parent, name } = match self.entry(at)? {
            Ok(entry) => entry,
            Err(_) if !directory => return Err(Errno::ISDIR),
            Err(Last::Dot) => return Err(Errno::INVAL),
            Err(Last::DotDot) => return Err(Errno::NOTEMPTY),
            Err(Last::Root) => return Err(Errno::BUSY),
        };
        let flags = if directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        self.root.inside(move || rustix::fs::unlinkat(&*parent, name, flags))
    }

    /// renameat2(2). `RENAME_WHITEOUT` makes a device: `EINVAL`.
    pub(crate) fn rename(&self, from: &Location, to: &Location, flags: u32) -> Result<()> {
        let flags = RenameFlags::from_bits_retain(flags);
        let both = RenameFlags::NOREPLACE | RenameFlags::EXCHANGE;
        if !flags.difference(both).is_empty() || flags.contains(both) {
            return Err(Errno::INVAL);
        }
        let (from, to) = (self.entry(from)?, self.entry(to)?);
        let from = from.map_err(|_| Errno::BUSY)?;
        let taken = if flags.contains(RenameFlags::NOREPLACE) { Errno::EXIST } else { Errno::BUSY };
        let to = to.map_err(|_| taken)?;
        self.root.inside(move || rustix::fs::renameat_with(&*from.parent, from.name, &*to.parent, to.name, flags))
    }

    /// linkat(2). An empty path with a handle means the handle's own file (`AT_EMPTY_PATH`), such as an unnamed one.
    pub(crate) fn link(&self, from: &Location, to: &Location, follow: bool) -> Result<()> {
        if let (Some(handle), true) = (from.directory, from.path.is_empty()) {
            let object = Arc::clone(&self.handles.get(handle)?.object);
            return self.link_descriptor(&*object, to);
        }
        let start = self.start(from)?;
        let place = start.walk(from.path.as_bytes(), if follow { Tail::Follow } else { Tail::Keep })?;
        let old = match place {
            Destination::Entry(entry) => entry,
            // Never allowed, but there is an order in which the host's kernel finds out what is wrong.
            Destination::Directory { dir, .. } => return self.link_descriptor(&*dir, to),
        };
        // The old name is looked up before the new one's existence matters.
        rustix::fs::statat(&*old.parent, &*old.name, AtFlags::SYMLINK_NOFOLLOW)?;
        let new = self.new_entry(to)?;
        self.root.inside(move || rustix::fs::linkat(&*old.parent, old.name, &*new.parent, new.name, AtFlags::empty()))
    }

    fn link_descriptor(&self, file: &(impl AsFd + AsRawFd), to: &Location) -> Result<()> {
        let new = self.new_entry(to)?;
        // The file is open as long as this waits.
        let path = descriptor_path(file);
        let linked =
            self.root.inside(move || rustix::fs::linkat(CWD, path, &*new.parent, new.name, AtFlags::SYMLINK_FOLLOW));
        match linked {
            // Landlock sees first that the root's own name is outside; without it, this is what directories get.
            Err(Errno::XDEV) if self.root.is(file)? => Err(Errno::PERM),
            result => result,
        }
    }

    /// symlink(2). What the link says is not looked at before it is followed.
    pub(crate) fn symbolic_link(&self, target: &[u8], at: &Location) -> Result<()> {
        if target.is_empty() || target.contains(&0) {
            return Err(Errno::NOENT);
        }
        if target.len() >= PATH_BYTES_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        let DirectoryEntry { parent, name } = self.new_entry(at)?;
        let target = target.to_owned();
        self.root.inside(move || rustix::fs::symlinkat(target, &*parent, name))
    }
}

fn read_link_of(file: &impl AsFd) -> Result<Vec<u8>> {
    Ok(rustix::fs::readlinkat(file, c"", Vec::new())?.into_bytes())
}
