//! Answers that a node may keep, and which calls are about names.

use alloc::boxed::Box;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Call, FileStatus, Handle, Reply};
use crate::lease::Grant;
use crate::text::ByteString;

/// Flags of open(2) by which names or attributes become others: writing, making, cutting.
const CHANGING_FLAGS: u32 = 0o3 | 0o100 | 0o1000 | 0o20_000_000;
/// Opens a place only, whatever the other flags are.
const O_PATH: u32 = 0o10_000_000;

/// As long as what an answer may be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keeping {
    /// The number of the lease of names.
    pub number: u64,
    /// The path, absolute, led through no symbolic link: what it names has no other name but hard links.
    pub is_plain: bool,
    /// Attributes that are told may be kept, too: nobody has the file open to write.
    pub attributes: bool,
}

/// What may be kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Known {
    /// As [`Reply::Done`].
    Done,
    /// As [`Reply::Data`].
    Data,
    /// As [`Reply::Opened`].
    Opened {
        /// Its handle.
        handle: Handle,
        /// What it is.
        status: Box<FileStatus>,
        /// The lease of the file.
        grant: Option<Grant>,
    },
    /// As [`Reply::Status`].
    Status(Box<FileStatus>),
    /// As [`Reply::Entries`].
    Entries {
        /// Position to go on from.
        next: u64,
        /// What the first entries are, links not followed, as far as that may be kept.
        attributes: Vec<Option<FileStatus>>,
    },
    /// As [`Reply::Path`].
    Path(ByteString),
    /// As [`Reply::Manifest`].
    Manifest {
        /// Which it is.
        made: u64,
        /// Entries that are not to be believed.
        untrue: Vec<u32>,
    },
    /// As [`Reply::Failed`].
    Failed(u16),
}

impl From<Known> for Reply {
    fn from(known: Known) -> Self {
        match known {
            Known::Done => Self::Done,
            Known::Data => Self::Data,
            Known::Opened { handle, status, grant } => Self::Opened { handle, status: *status, grant },
            Known::Status(status) => Self::Status(*status),
            Known::Entries { next, .. } => Self::Entries { next },
            Known::Path(path) => Self::Path(path),
            Known::Manifest { made, untrue } => Self::Manifest { made, untrue },
            Known::Failed(errno) => Self::Failed(errno),
        }
    }
}

impl Reply {
    /// The same as something that may be kept, if it is of a kind that may.
    ///
    /// # Errors
    /// Itself, if not.
    pub fn into_known(self) -> Result<Known, Box<Self>> {
        Ok(match self {
            Self::Done => Known::Done,
            Self::Data => Known::Data,
            Self::Opened { handle, status, grant } => Known::Opened { handle, status: Box::new(status), grant },
            Self::Status(status) => Known::Status(Box::new(status)),
            Self::Entries { next } => Known::Entries { next, attributes: Vec::new() },
            Self::Path(path) => Known::Path(path),
            Self::Manifest { made, untrue } => Known::Manifest { made, untrue },
            Self::Failed(errno) => Known::Failed(errno),
            Self::Known(_, known) => known,
            other => return Err(Box::new(other)),
        })
    }

    /// The same as something that is not kept.
    #[must_use]
    pub fn plain(self) -> Self {
        if let Self::Known(_, known) = self { known.into() } else { self }
    }
}

impl Call {
    /// Whether it makes names or attributes others for everybody: all that nodes know of them is asked back first. What
    /// is done to a file that is open to be written is not among them: its attributes are nowhere known.
    #[must_use]
    pub const fn changes_names(&self) -> bool {
        match self {
            Self::Open { flags, .. } => *flags & O_PATH == 0 && *flags & CHANGING_FLAGS != 0,
            Self::MakeDirectory { .. }
            | Self::Remove { .. }
            | Self::Rename { .. }
            | Self::Link { .. }
            | Self::SymbolicLink { .. }
            | Self::Truncate { .. }
            | Self::ChangeMode { .. }
            | Self::HandleChangeMode { .. }
            | Self::ChangeTimes { .. }
            | Self::HandleChangeTimes { .. } => true,
            _ => false,
        }
    }

    /// The open file whose bytes or length it changes.
    #[must_use]
    pub const fn changes_file(&self) -> Option<Handle> {
        match self {
            Self::Write { file, .. } | Self::Allocate { file, .. } | Self::HandleTruncate { file, .. } => Some(*file),
            _ => None,
        }
    }

    /// Whether it tells of names or attributes and changes none.
    #[must_use]
    pub const fn looks_at_names(&self) -> bool {
        match self {
            Self::Open { .. } => !self.changes_names(),
            Self::Stat { .. }
            | Self::HandleStat(_)
            | Self::Access { .. }
            | Self::List { .. }
            | Self::ReadLink(_)
            | Self::Manifest { .. }
            | Self::Resolve(_) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;

    use super::{Call, Keeping, Reply};
    use crate::ship::Location;

    #[test]
    fn an_open_changes_names_if_it_writes_makes_or_cuts() {
        let open = |flags| Call::Open { at: Location { directory: None, path: "/a".into() }, flags, mode: 0 };
        for (flags, changes) in [(0, false), (1, true), (2, true), (0o100, true), (0o1000, true), (O_PATH_RDWR, false)]
        {
            assert_eq!((open(flags).changes_names(), open(flags).looks_at_names()), (changes, !changes), "{flags:o}");
        }
    }

    const O_PATH_RDWR: u32 = 0o10_000_002;

    #[test]
    fn what_is_known_is_what_was_said() {
        for reply in [Reply::Done, Reply::Data, Reply::Failed(2), Reply::Entries { next: 3 }, Reply::Path("/a".into())]
        {
            let known = reply.clone().into_known().expect("it may be kept");
            assert_eq!(Reply::Known(Keeping::default(), known.clone()).plain(), reply);
            assert_eq!(Reply::from(known), reply);
        }
        assert_eq!(Reply::Later.into_known(), Err(Box::new(Reply::Later)));
    }
}
