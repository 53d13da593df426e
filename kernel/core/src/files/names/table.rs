//! What is kept, and what becomes untrue by what. Nothing here knows of leases, time or memory.
//!
//! Of a *plain* path – names alone, none of them a link – it is kept which file it leads to, or that there is none, and
//! of a file what it is: so whatever path it is found by, there is one place where that is forgotten. What was told of
//! other paths goes as soon as anything is changed.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Unbounded};

use coppice_hal::heap::block_bytes;
use coppice_protocol::ship::{Call, FileStatus, Keeping, Known};
use coppice_protocol::text::ByteString;

use super::place::{Place, Question};
use crate::errno::Errno;
use crate::limits::NAMES_KEPT_MAX;
use crate::memory::FileIdentity;
use crate::quota::Charge;

const S_IFMT: u32 = 0o170_000;
const S_IFDIR: u32 = 0o040_000;
const S_IFLNK: u32 = 0o120_000;
/// Of faccessat2(2): a link at the end is not followed.
const AT_SYMLINK_NOFOLLOW: u32 = 0x100;

/// What is charged for something that is kept, with a path so long, bytes: it is there twice at most.
pub(crate) fn kept_bytes(path: usize) -> usize {
    let of_path = size_of::<(Vec<u8>, Name)>().max(size_of::<((Vec<u8>, Question), Other)>());
    2 * (of_path + size_of::<(FileIdentity, Attributes)>()) + block_bytes(path)
}

/// What was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// That it may be used.
    Granted,
    /// What it is.
    Status(FileStatus),
    /// What a link says.
    Link(Vec<u8>),
    /// Which directory it is.
    Directory(ByteString),
}

impl Told {
    /// What it takes beside itself, bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Granted | Self::Status(_) => 0,
            Self::Link(link) => block_bytes(link.len()),
            Self::Directory(path) => block_bytes(path.len()),
        }
    }
}

/// When that was told which is told at once again and again: when it was last ([`Table::is_confirmed`]).
pub(super) const LISTED: u64 = u64::MAX;

/// When something was told, ns, or [`LISTED`], and what it is charged with.
type Since = (u64, Charge);

struct Name {
    leads_to: Result<FileIdentity, Errno>,
    since: Since,
}

struct Other {
    told: Result<Told, Errno>,
    since: Since,
}

struct Attributes {
    status: FileStatus,
    since_ns: u64,
    _charge: Option<Charge>,
}

/// See this module.
#[derive(Default)]
pub(super) struct Table {
    names: BTreeMap<Vec<u8>, Name>,
    others: BTreeMap<(Vec<u8>, Question), Other>,
    files: BTreeMap<FileIdentity, Attributes>,
    directories: BTreeMap<FileIdentity, Attributes>,
    /// When what is told at once was told last, ns.
    confirmed_ns: u64,
}

fn identity(status: &FileStatus) -> FileIdentity {
    FileIdentity { device: status.device, inode: status.inode }
}

/// Whether a file is what it was, but for when it was read last.
fn is_alike(was: &FileStatus, is: &FileStatus) -> bool {
    FileStatus { accessed: is.accessed, ..*was } == *is
}

fn is_missing(errno: Errno) -> bool {
    errno == Errno::ENOENT || errno == Errno::ENOTDIR
}

impl Table {
    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    fn count(&self) -> usize {
        self.names.len() + self.others.len() + self.files.len() + self.directories.len()
    }

    /// All that was told at once is so at this time, ns.
    pub(super) fn is_confirmed(&mut self, at_ns: u64) {
        self.confirmed_ns = at_ns;
    }

    /// Whether what was told at that time is believed.
    fn is_believed(&self, told_ns: u64, since_ns: u64) -> bool {
        since_ns <= if told_ns == LISTED { self.confirmed_ns } else { told_ns }
    }

    /// Whether something is known of a place that was told at once, before that time, ns.
    pub(super) fn is_listed_before(&self, place: &Place, since_ns: u64) -> bool {
        if self.confirmed_ns >= since_ns {
            return false;
        }
        let name = self.names.get(place.path()).is_some_and(|name| name.since.0 == LISTED);
        name || self.others.get(&(place.path().to_vec(), place.question)).is_some_and(|other| other.since.0 == LISTED)
    }

    /// What is known of a place, told at that time or later.
    pub(super) fn find(&self, place: &Place, since_ns: u64) -> Option<Result<Told, Errno>> {
        if place.is_straight()
            && let Some(name) = self.names.get(place.path()).filter(|name| self.is_believed(name.since.0, since_ns))
        {
            match name.leads_to {
                Err(errno) => return Some(Err(errno)),
                Ok(file) => {
                    let status = self.status(file, since_ns);
                    if let Some(told) = status.and_then(|status| answer(&status, place.question)) {
                        return Some(Ok(told));
                    }
                }
            }
        }
        // No copy of the path for the table's sake, of which most are not in there.
        if self.others.is_empty() {
            return None;
        }
        let other = self.others.get(&(place.path().to_vec(), place.question))?;
        self.is_believed(other.since.0, since_ns).then(|| other.told.clone())
    }

    /// What a file is, told at that time or later.
    pub(super) fn status(&self, file: FileIdentity, since_ns: u64) -> Option<FileStatus> {
        let known = self.files.get(&file).or_else(|| self.directories.get(&file))?;
        self.is_believed(known.since_ns, since_ns).then_some(known.status)
    }

    /// Keeps what was told of a place.
    pub(super) fn keep(&mut self, place: &Place, keeping: Keeping, told: Result<&Told, Errno>, since: Since) {
        self.make_room();
        let is_plain = keeping.is_plain && place.is_straight();
        let is_of_name = !matches!(place.question, Question::Link | Question::Directory);
        // What is missing may be what a link at the end leads to.
        let is_open = matches!(place.question, Question::Missing { .. });
        match told {
            Ok(Told::Status(status)) if is_plain => {
                let (at_ns, charge) = since;
                if keeping.attributes {
                    self.keep_attributes(status, at_ns, None);
                }
                self.keep_name(place.path().to_vec(), Ok(identity(status)), (at_ns, charge));
            }
            Err(Errno::ENOENT) if is_plain && !is_open => self.is_missing(place, Errno::ENOENT, since),
            Err(errno) if is_plain && is_missing(errno) && is_of_name && !is_open => {
                self.is_missing(place, errno, since);
            }
            Ok(Told::Status(_)) if !keeping.attributes => {}
            Err(errno) if !is_missing(errno) && errno != Errno::EACCES && errno != Errno::EINVAL => {}
            // What is asked before an open is whether it is worth it.
            _ if is_open && told != Err(Errno::ENOENT) => {}
            _ => {
                let at = (place.path().to_vec(), place.question);
                let is_same = |other: &Other| match (&other.told, told) {
                    (Ok(Told::Status(was)), Ok(Told::Status(is))) => is_alike(was, is),
                    (was, is) => was.as_ref().map_err(|errno| *errno) == is,
                };
                if !self.others.get(&at).is_some_and(|other| other.since.0 == LISTED && is_same(other)) {
                    self.others.insert(at, Other { told: told.cloned(), since });
                }
            }
        }
    }

    fn is_missing(&mut self, place: &Place, errno: Errno, since: Since) {
        self.keep_name(place.path().to_vec(), Err(errno), since);
    }

    /// Keeps what a name leads to. What is told at once, and again and again, stays what it is if it is the same.
    fn keep_name(&mut self, path: Vec<u8>, leads_to: Result<FileIdentity, Errno>, since: Since) {
        let is_it = |name: &Name| name.since.0 == LISTED && name.leads_to == leads_to;
        if !self.names.get(&path).is_some_and(is_it) {
            self.names.insert(path, Name { leads_to, since });
        }
    }

    /// Keeps what an entry of a directory is, at its plain path.
    pub(super) fn keep_entry(&mut self, path: Vec<u8>, status: &FileStatus, since: Since) {
        self.make_room();
        self.keep_attributes(status, since.0, None);
        self.keep_name(path, Ok(identity(status)), since);
    }

    /// Keeps what a file is.
    pub(super) fn keep_status(&mut self, status: &FileStatus, (at_ns, charge): Since) {
        self.make_room();
        self.keep_attributes(status, at_ns, Some(charge));
    }

    fn keep_attributes(&mut self, status: &FileStatus, since_ns: u64, charge: Option<Charge>) {
        let attributes = Attributes { status: *status, since_ns, _charge: charge };
        let is_directory = status.mode & S_IFMT == S_IFDIR;
        let (files, directories) = (&mut self.files, &mut self.directories);
        let (kept, others) = if is_directory { (directories, files) } else { (files, directories) };
        // What had that number before is gone.
        others.remove(&identity(status));
        if status.links == 0 {
            // It is gone with its last handle, and something else may have its number at once.
            kept.remove(&identity(status));
        } else if !kept
            .get(&identity(status))
            .is_some_and(|was| was.since_ns == LISTED && is_alike(&was.status, status))
        {
            kept.insert(identity(status), attributes);
        }
    }

    /// Whether a plain path is known to lead to that directory, so that its entries are at plain paths, too.
    pub(super) fn leads_to(&self, path: &[u8], directory: FileIdentity, since_ns: u64) -> bool {
        self.names
            .get(path)
            .is_some_and(|name| name.leads_to == Ok(directory) && self.is_believed(name.since.0, since_ns))
    }

    /// When it is full, nothing is kept of what was.
    fn make_room(&mut self) {
        if self.count() >= NAMES_KEPT_MAX {
            *self = Self::default();
        }
    }

    /// A call of this kind has changed a plain path.
    pub(super) fn changed(&mut self, call: &Call, place: &Place, known: &Known) {
        let path = place.path();
        let before = self.names.get(path).and_then(|name| name.leads_to.ok());
        match (call, known) {
            // Perhaps it was made, perhaps cut.
            (Call::Open { .. }, Known::Opened { status, .. }) => {
                self.files.remove(&identity(status));
                if before == Some(identity(status)) {
                    self.others.clear();
                    return;
                }
            }
            (Call::MakeDirectory { .. } | Call::SymbolicLink { .. }, Known::Done) => {}
            (Call::Remove { .. }, Known::Done) => match before {
                Some(file) => {
                    self.files.remove(&file);
                }
                // It may be known by another name.
                None => self.files.clear(),
            },
            _ => {
                *self = Self::default();
                return;
            }
        }
        self.others.clear();
        // Its own directory, and whatever it was.
        self.directories.clear();
        self.names.remove(path);
        let below = Place::entry(path, b"");
        while let Some((under, _)) = self.names.range::<[u8], _>((Excluded(&below[..]), Unbounded)).next()
            && under.starts_with(&below)
        {
            let under = under.clone();
            self.names.remove(&under);
        }
    }
}

/// What a question is answered with of which it is known what is there.
fn answer(status: &FileStatus, question: Question) -> Option<Told> {
    let is_link = status.mode & S_IFMT == S_IFLNK;
    match question {
        Question::Status { follow } if !is_link || !follow => Some(Told::Status(*status)),
        Question::Access { mode: 0, flags } if !is_link || flags & AT_SYMLINK_NOFOLLOW != 0 => Some(Told::Granted),
        _ => None,
    }
}
