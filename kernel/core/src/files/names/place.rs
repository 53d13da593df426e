//! What was asked, as far as it can be asked again.

use alloc::vec::Vec;

use coppice_protocol::ship::{Call, Handle, Location};

use crate::files::flags;
use crate::files::path::{components, tidy};
use crate::limits::KEPT_PATH_BYTES_MAX;

/// The names in records of getdents64(2), but for those of the directory itself and the one above, which are empty.
pub(super) fn entries(mut records: &[u8]) -> impl Iterator<Item = &[u8]> {
    const LENGTH_AT: usize = 16;
    const NAME_AT: usize = 19;
    core::iter::from_fn(move || {
        let length = records.get(LENGTH_AT..LENGTH_AT + 2)?;
        let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
        let (record, rest) = records.split_at_checked(length)?;
        records = rest;
        let name = record.get(NAME_AT..)?.split(|byte| *byte == 0).next().unwrap_or_default();
        Some(if matches!(name, b"." | b"..") { &b""[..] } else { name })
    })
}

/// What somebody wants to know of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Question {
    /// What it is.
    Status {
        /// Links at the end are followed.
        follow: bool,
    },
    /// Whether it may be used.
    Access {
        /// As access(2) has it.
        mode: u32,
        flags: u32,
    },
    /// What the link says.
    Link,
    /// Which directory it is.
    Directory,
    /// Whether it is missing, before it is opened.
    Missing {
        /// Links at the end are followed.
        follow: bool,
    },
}

/// Flags of open(2) that make what is missing.
const MAKES: u32 = flags::O_CREAT | flags::O_TMPFILE;

/// See this module.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// From the job's root.
    path: Vec<u8>,
    /// It has names in it and nothing else: if no link is on the way, it is the only one that leads there.
    is_straight: bool,
    pub(super) question: Question,
}

impl Place {
    /// The directory that the path of a call begins at, if that is not the job's root.
    pub(crate) fn begins_at(call: &Call) -> Option<Handle> {
        match call {
            Call::Stat { at, .. }
            | Call::Access { at, .. }
            | Call::ReadLink(at)
            | Call::Resolve(at)
            | Call::Open { at, .. } => at.directory,
            _ => None,
        }
    }

    /// Of a call that looks something up. The directory that its path begins at is known to be at the plain path
    /// `below`, if that is given.
    pub(crate) fn of(call: &Call, below: Option<&[u8]>) -> Option<Self> {
        let (at, question) = match call {
            Call::Stat { at, follow } => (at, Question::Status { follow: *follow }),
            Call::Access { at, mode, flags } => (at, Question::Access { mode: *mode, flags: *flags }),
            Call::ReadLink(at) => (at, Question::Link),
            Call::Resolve(at) => (at, Question::Directory),
            Call::Open { at, flags, .. } if flags & MAKES == 0 => {
                (at, Question::Missing { follow: flags & flags::O_NOFOLLOW == 0 })
            }
            _ => return None,
        };
        Self::at(at, below, question)
    }

    /// Of what a call has opened.
    pub(crate) fn opened_by(call: &Call, below: Option<&[u8]>) -> Option<Self> {
        let Call::Open { at, flags, .. } = call else { return None };
        Self::at(at, below, Question::Status { follow: flags & flags::O_NOFOLLOW == 0 })
    }

    /// A directory that was opened at this path.
    pub(super) fn directory(path: &[u8]) -> Option<Self> {
        let at = Location { directory: None, path: path.into() };
        Self::at(&at, None, Question::Directory).filter(Self::is_straight)
    }

    /// The name that a call changes, if it is one.
    pub(super) fn changed_by(call: &Call) -> Option<Self> {
        match call {
            Call::Open { at, .. }
            | Call::MakeDirectory { at, .. }
            | Call::Remove { at, .. }
            | Call::SymbolicLink { at, .. } => Self::at(at, None, Question::Status { follow: false }),
            _ => None,
        }
    }

    fn at(at: &Location, below: Option<&[u8]>, question: Question) -> Option<Self> {
        let is_absolute = at.path.starts_with(b"/");
        let last = components(&at.path).next_back().unwrap_or_default();
        // What is behind the last slash says that a link is followed, and that it is a directory.
        let ends_with_name = !matches!(last, b"" | b"." | b"..");
        let is_straight = ends_with_name && components(&at.path).all(|name| name != b"..");
        let path = match (at.directory, below) {
            _ if at.path.len() > KEPT_PATH_BYTES_MAX => return None,
            (None, _) if is_absolute && is_straight => tidy(&at.path),
            (None, _) if is_absolute => at.path.as_bytes().to_vec(),
            (Some(_), Some(directory)) if !is_absolute && is_straight => tidy(&Self::entry(directory, &at.path)),
            _ => return None,
        };
        (path.len() <= KEPT_PATH_BYTES_MAX).then_some(Self { path, is_straight, question })
    }

    /// An entry of a directory that is at a straight path.
    pub(super) fn entry(directory: &[u8], name: &[u8]) -> Vec<u8> {
        [directory, b"/", name].concat()
    }

    /// The path.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// Whether there are names in it and nothing else.
    pub(super) fn is_straight(&self) -> bool {
        self.is_straight
    }
}
