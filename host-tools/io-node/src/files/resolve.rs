//! Path resolution in one call of the host's kernel: openat2(2), which can take a directory for the root of everything,
//! with `..` and links as a chroot-ed process has them.
//!
//! It does not settle everything. A path that starts at a directory other than the root, and leaves it, needs both, and
//! the call knows one. `/proc` of the host has links that are none, which are never followed. And the call may be
//! missing, or give up because something was renamed meanwhile. The rest is for [`super::walk`].

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::root::Root;
use super::{Result, plain};
use crate::limits::RESOLUTIONS_MAX;
use cap_std::fs::Dir;

/// How far a path may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// It starts at the root, or is absolute.
    Root,
    /// It starts at another directory.
    Below,
}

/// Opens what `path` names, for looking (`O_PATH`), from the directory `from`: the root, or another one, as `reach`
/// says.
/// `None` if this does not tell what is there.
pub(super) fn resolve(root: &Root, from: &Dir, reach: Reach, path: &[u8], flags: OFlags) -> Option<Result<OwnedFd>> {
    if !root.resolves_at_once() {
        plain::resolved(false);
        return None;
    }
    if reach == Reach::Root {
        // Most paths have no link in them, which is good to know.
        let straight = rustix::fs::openat2(
            from,
            path,
            flags | OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS,
        );
        if let Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) = straight {
            plain::resolved(true);
            return Some(straight);
        }
    }
    plain::resolved(false);
    let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
    let limit = match reach {
        Reach::Root => ResolveFlags::IN_ROOT,
        Reach::Below => ResolveFlags::BENEATH,
    };
    for _ in 0..RESOLUTIONS_MAX {
        match rustix::fs::openat2(from, path, flags, Mode::empty(), limit | ResolveFlags::NO_MAGICLINKS) {
            Err(Errno::AGAIN) => {}
            Err(Errno::NOSYS) => {
                root.always_walk();
                return None;
            }
            // It leaves the directory, or has a link of the kernel's in it, or too many links; or a filter of calls
            // does not know this one.
            Err(Errno::XDEV | Errno::LOOP | Errno::PERM) => return None,
            result => return Some(result),
        }
    }
    None
}
