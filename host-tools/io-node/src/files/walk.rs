//! Path resolution as in a chroot: in one call where the host's kernel can ([`super::resolve`]), else step by step with
//! cap-std as the guard of every one.
//!
//! A walk takes one component at a time over a stack of open directories, each opened below the one before it without
//! following links; `..` pops the stack and stops at the root, and a link's text goes back onto the list of components.
//! So a directory on the stack was always reached from the root, whatever is renamed meanwhile.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use coppice_protocol::limits::SHIPPED_PATH_BYTES_MAX;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::resolve::{Reach, resolve};
use super::root::{Identity, Root};
use super::{Result, errno, plain};
use crate::limits::{SYMLINKS_MAX, WALKS_MAX};

/// What to do with the last component of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// Follow it if it is a symbolic link.
    Follow,
    /// Do not follow it, unless a slash behind it says that it is a directory.
    Keep,
    /// It is a name to make, remove or change: never follow it.
    Entry,
}

/// Where a path led.
#[derive(Debug)]
pub(super) enum Destination {
    /// A name in a directory. Whether it exists has not been settled, but it was no link to follow.
    Entry(DirectoryEntry),
    /// A directory that was not reached by its own name in its parent.
    Directory { dir: Arc<Dir>, last: Last },
}

/// A name in a directory.
#[derive(Debug)]
pub(super) struct DirectoryEntry {
    pub(super) parent: Arc<Dir>,
    /// One component, never `.` or `..`. With [`Tail::Entry`], a slash behind it where the path had one.
    pub(super) name: Vec<u8>,
}

/// How a path ended that does not end with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// It is `/`.
    Root,
    /// `.`
    Dot,
    /// `..`
    DotDot,
}

/// Where a path starts.
#[derive(Clone, Debug)]
pub(super) struct Start<'a> {
    root: &'a Root,
    root_dir: Arc<Dir>,
    /// Directory of relative paths.
    base: Arc<Dir>,
}

/// A path taken apart.
struct Parts<'a> {
    absolute: bool,
    names: Vec<&'a [u8]>,
    slash: bool,
}

fn parts(path: &[u8]) -> Result<Parts<'_>> {
    if path.is_empty() || path.contains(&0) {
        return Err(Errno::NOENT);
    }
    if path.len() >= SHIPPED_PATH_BYTES_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
    Ok(Parts { absolute: path[0] == b'/', names, slash: path.ends_with(b"/") })
}

/// Opens something below a directory through cap-std.
fn open_below(dir: &Dir, path: &[u8], flags: OFlags) -> std::io::Result<OwnedFd> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    Ok(dir.open_with(OsStr::from_bytes(path), &options)?.into())
}

fn open_dir(dir: &Dir, path: &[u8], flags: OFlags) -> std::io::Result<Dir> {
    let descriptor = open_below(dir, path, OFlags::PATH | OFlags::DIRECTORY | flags)?;
    Ok(Dir::from_std_file(descriptor.into()))
}

/// The text of the link `name`, `None` if it is something else.
fn read_link(dir: &Dir, name: &[u8]) -> Result<Option<Vec<u8>>> {
    match rustix::fs::readlinkat(dir, name, Vec::new()) {
        Ok(text) => Ok(Some(text.into_bytes())),
        Err(Errno::INVAL) => Ok(None),
        Err(error) => Err(error),
    }
}

impl<'a> Start<'a> {
    /// Paths start at the root, relative ones at `base` if there is one.
    pub(super) fn new(root: &'a Root, base: Option<Arc<Dir>>) -> Result<Self> {
        let root_dir = Arc::clone(root.dir()?);
        let base = base.unwrap_or_else(|| Arc::clone(&root_dir));
        Ok(Self { root, root_dir, base })
    }

    fn origin(&self, absolute: bool) -> &Arc<Dir> {
        if absolute { &self.root_dir } else { &self.base }
    }

    /// The existing object that `path` names, as an `O_PATH` descriptor. Never follows a link at the end unless told
    /// to.
    pub(super) fn find(&self, path: &[u8], follow: bool) -> Result<OwnedFd> {
        let absolute = parts(path)?.absolute;
        let flags = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        self.at_once(path, absolute, flags).unwrap_or_else(|| self.find_slowly(path, follow))
    }

    /// What `path` names, if that can be told in one call.
    pub(super) fn at_once(&self, path: &[u8], absolute: bool, flags: OFlags) -> Option<Result<OwnedFd>> {
        let rooted = absolute || Arc::ptr_eq(&self.base, &self.root_dir);
        let reach = if rooted { Reach::Root } else { Reach::Below };
        resolve(self.root, self.origin(absolute), reach, path, flags)
    }

    /// As [`Self::find`], by walking.
    pub(super) fn find_slowly(&self, path: &[u8], follow: bool) -> Result<OwnedFd> {
        for _ in 0..WALKS_MAX {
            let place = self.walk(path, if follow { Tail::Follow } else { Tail::Keep })?;
            let found = match place {
                Destination::Directory { dir, .. } => open_below(&dir, b".", OFlags::PATH | OFlags::DIRECTORY),
                Destination::Entry(DirectoryEntry { parent, name }) => {
                    open_below(&parent, &name, OFlags::PATH | OFlags::NOFOLLOW)
                }
            };
            let found = found.map_err(|error| errno(&error))?;
            let mode = rustix::fs::fstat(&found)?.st_mode;
            if !follow || FileType::from_raw_mode(mode) != FileType::Symlink {
                return Ok(found);
            }
        }
        Err(Errno::LOOP)
    }

    /// The place of a name to make, remove or change.
    pub(super) fn entry(&self, path: &[u8]) -> Result<Destination> {
        let Parts { absolute, mut names, slash } = parts(path)?;
        let Some(name) = names.pop() else {
            return Ok(Destination::Directory { dir: Arc::clone(&self.root_dir), last: Last::Root });
        };
        if name == b"." || name == b".." {
            return self.walk(path, Tail::Entry);
        }
        let origin = self.origin(absolute);
        let parent = if names.is_empty() {
            plain::resolved(Arc::ptr_eq(origin, &self.root_dir));
            Arc::clone(origin)
        } else {
            if absolute {
                names.insert(0, b"");
            }
            match self.at_once(&names.join(&b'/'), absolute, OFlags::DIRECTORY) {
                Some(dir) => Arc::new(Dir::from_std_file(dir?.into())),
                None => return self.walk(path, Tail::Entry),
            }
        };
        Ok(Destination::Entry(DirectoryEntry { parent, name: name_to_change(name, slash) }))
    }

    /// Walks `path` one component at a time.
    pub(super) fn walk(&self, path: &[u8], tail: Tail) -> Result<Destination> {
        let Parts { absolute, names, slash } = parts(path)?;
        plain::resolved(false);
        let mut steps = Steps::new(self, absolute);
        // For a lookup, a slash at the end is a `.`: what is before it must be a directory.
        let dot = slash && tail != Tail::Entry;
        let mut pending: Vec<Vec<u8>> = dot.then(|| b".".to_vec()).into_iter().collect();
        pending.extend(names.iter().rev().map(|name| name.to_vec()));
        let mut last = Last::Root;
        let mut links = 0;
        while let Some(name) = pending.pop() {
            match name.as_slice() {
                b"." => {
                    steps.search()?;
                    last = Last::Dot;
                    continue;
                }
                b".." => {
                    steps.search()?;
                    steps.up()?;
                    last = Last::DotDot;
                    continue;
                }
                _ => {}
            }
            let is_last = pending.is_empty();
            if is_last && tail == Tail::Entry {
                return Ok(Destination::Entry(DirectoryEntry {
                    parent: steps.top(),
                    name: name_to_change(&name, slash),
                }));
            }
            let text = if is_last {
                match read_link(&steps.top(), &name) {
                    Ok(Some(text)) if tail == Tail::Follow => text,
                    Ok(_) | Err(Errno::NOENT) => {
                        return Ok(Destination::Entry(DirectoryEntry { parent: steps.top(), name }));
                    }
                    Err(error) => return Err(error),
                }
            } else {
                match steps.down(&name)? {
                    None => continue,
                    Some(text) => text,
                }
            };
            links += 1;
            if links > SYMLINKS_MAX {
                return Err(Errno::LOOP);
            }
            let Parts { absolute, names, slash } = parts(&text)?;
            if absolute {
                steps = Steps::new(self, true);
                last = Last::Root;
            }
            if slash {
                pending.push(b".".to_vec());
            }
            pending.extend(names.iter().rev().map(|name| name.to_vec()));
        }
        Ok(Destination::Directory { dir: steps.top(), last })
    }
}

/// A last component as the host's call shall see it. The slash is harmless there: none of the calls that make, remove
/// or rename a name follows a link because of it, and each has its own errno for it. How long a name may be is said
/// there, too, when it is its turn.
fn name_to_change(name: &[u8], slash: bool) -> Vec<u8> {
    let mut name = name.to_vec();
    if slash {
        name.push(b'/');
    }
    name
}

/// The directories from the start of a walk to where it is.
struct Steps<'a> {
    start: &'a Start<'a>,
    /// Never empty; the first is the root, or the base of the path as long as nothing climbed out of it.
    stack: Vec<Arc<Dir>>,
    rooted: bool,
}

impl<'a> Steps<'a> {
    fn new(start: &'a Start<'a>, absolute: bool) -> Self {
        let rooted = absolute || Arc::ptr_eq(&start.base, &start.root_dir);
        Self { start, stack: vec![Arc::clone(start.origin(absolute))], rooted }
    }

    fn top(&self) -> Arc<Dir> {
        self.stack.last().map_or_else(|| Arc::clone(&self.start.root_dir), Arc::clone)
    }

    /// May one search the directory at all?
    fn search(&self) -> Result<()> {
        open_dir(&self.top(), b".", OFlags::empty()).map(drop).map_err(|error| errno(&error))
    }

    /// Into the directory `name`; gives the text instead if it is a link.
    fn down(&mut self, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let top = self.top();
        match open_dir(&top, name, OFlags::NOFOLLOW) {
            Ok(dir) => {
                self.stack.push(Arc::new(dir));
                Ok(None)
            }
            Err(error) => match errno(&error) {
                Errno::NOTDIR | Errno::LOOP => read_link(&top, name)?.ok_or(Errno::NOTDIR).map(Some),
                other => Err(other),
            },
        }
    }

    /// To the parent; the root is its own.
    fn up(&mut self) -> Result<()> {
        if self.stack.len() == 1 && !self.rooted {
            self.reach_from_root()?;
        }
        if self.stack.len() > 1 {
            self.stack.pop();
        }
        Ok(())
    }

    /// Replaces a stack that starts at a handle's directory by one from the root to it, so that its parents are known.
    fn reach_from_root(&mut self) -> Result<()> {
        let Start { root, root_dir, base } = self.start;
        self.rooted = true;
        let path = root.path_of(&**base)?;
        let mut stack = vec![Arc::clone(root_dir)];
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            let parent = stack.last().unwrap_or(root_dir);
            let dir = open_dir(parent, name, OFlags::NOFOLLOW).map_err(|error| errno(&error))?;
            stack.push(Arc::new(dir));
        }
        let reached = stack.last().unwrap_or(root_dir);
        if Identity::of(&**reached)? != Identity::of(&**base)? {
            return Err(Errno::NOENT);
        }
        self.stack = stack;
        Ok(())
    }
}
