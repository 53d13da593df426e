//! Manifests: what programs looked up when they ran from a root, so that whoever runs one again need not ask for each
//! name.
//!
//! An [`Entry`] is a call that looked something up, with its answer. The I/O node keeps those of a program that is run
//! from a root in a [`Manifest`], in the order in which they came. A node that starts the program there asks for all of
//! them in one call ([`Call::Manifest`]): each is made again on the host then, and what is so still may be kept as if
//! the node had asked for it. A manifest grows at its end only, and is another one when anything else becomes of it: so
//! a node that has some of it from an earlier job is sent the rest.

pub mod limits;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use self::limits::{MANIFEST_BYTES_MAX, MANIFEST_PATH_BYTES_MAX, MANIFEST_SHUNNED_MAX};
use crate::ship::{Call, FileStatus, Known, Timestamp};
use crate::text::ByteString;

const O_NOFOLLOW: u32 = 0o400_000;
const S_IFMT: u32 = 0o170_000;
const S_IFDIR: u32 = 0o040_000;

/// So often an answer may have become another until the question is not kept any more.
const CHANGES_MAX: u8 = 2;

/// A look-up that can be made again, and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What was asked, of an absolute path.
    pub call: Call,
    /// What was answered.
    pub known: Known,
    /// The text that came with it.
    pub text: ByteString,
    /// As [`crate::ship::Keeping::is_plain`].
    pub is_plain: bool,
}

impl Entry {
    /// A call and its answer, if it looked up something that can be asked again. Of what was opened stays what it is.
    #[must_use]
    pub fn of(call: &Call, known: Known, text: &[u8], is_plain: bool) -> Option<Self> {
        let (Call::Open { at, .. }
        | Call::Stat { at, .. }
        | Call::Access { at, .. }
        | Call::ReadLink(at)
        | Call::Resolve(at)) = call
        else {
            return None;
        };
        // What else comes with an answer is in a file that was opened.
        let text = if let Known::Data = known { text } else { b"" };
        let is_absolute = at.directory.is_none() && at.path.starts_with(b"/");
        if !is_absolute || at.path.len() > MANIFEST_PATH_BYTES_MAX || text.len() > MANIFEST_PATH_BYTES_MAX {
            return None;
        }
        let (call, known) = match (call, known) {
            (Call::Open { at, flags, .. }, Known::Opened { status, .. }) => {
                (Call::Stat { at: at.clone(), follow: flags & O_NOFOLLOW == 0 }, Known::Status(status))
            }
            (Call::Open { .. }, Known::Failed(errno)) => (call.clone(), Known::Failed(errno)),
            (Call::Open { .. }, _) => return None,
            (call, known) => (call.clone(), known),
        };
        let is_kept = matches!(known, Known::Done | Known::Data | Known::Status(_) | Known::Path(_) | Known::Failed(_));
        is_kept.then(|| Self { call, known, text: text.into(), is_plain })
    }

    /// Whether the call is answered so now, but for when the file was read last.
    #[must_use]
    pub fn is_so(&self, known: &Known, text: &[u8], is_plain: bool) -> bool {
        let is_alike = match (&self.known, known) {
            (Known::Status(was), Known::Status(is)) => unread(was) == unread(is),
            (was, is) => was == is,
        };
        is_alike && self.text.as_bytes() == text && self.is_plain == is_plain
    }

    /// The file that it says something of.
    #[must_use]
    pub fn status(&self) -> Option<&FileStatus> {
        if let Known::Status(status) = &self.known { Some(status) } else { None }
    }

    /// Whether that changes whenever anything is made there.
    fn is_directory(&self) -> bool {
        self.status().is_some_and(|status| status.mode & S_IFMT == S_IFDIR)
    }

    fn key(&self) -> Vec<u8> {
        // Numbers and texts: that cannot fail.
        postcard::to_allocvec(&self.call).unwrap_or_default()
    }

    /// How long it is when it is sent, bytes.
    fn bytes(&self) -> usize {
        postcard::experimental::serialized_size(self).unwrap_or(MANIFEST_BYTES_MAX)
    }
}

fn unread(status: &FileStatus) -> FileStatus {
    FileStatus { accessed: Timestamp::default(), ..*status }
}

/// Entries as they are sent.
#[must_use]
pub fn encode(entries: &[Entry]) -> Vec<u8> {
    // Numbers and texts: that cannot fail.
    postcard::to_allocvec(entries).unwrap_or_default()
}

/// Entries that were sent, one after the other, as each takes memory.
#[derive(Debug)]
pub struct Entries<'a> {
    left: u32,
    rest: &'a [u8],
}

impl<'a> Entries<'a> {
    /// Those that are in some bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn of(bytes: &'a [u8]) -> Result<Self, postcard::Error> {
        let (left, rest) = postcard::take_from_bytes(bytes)?;
        Ok(Self { left, rest })
    }

    /// Whether there are no more.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry, postcard::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let taken = postcard::take_from_bytes(self.rest);
        Some(match taken {
            Ok((entry, rest)) => {
                self.rest = rest;
                Ok(entry)
            }
            Err(error) => {
                self.left = 0;
                Err(error)
            }
        })
    }
}

/// The entries of a program that is run from a root: so many that all of them can be sent in one message.
#[derive(Debug, Default)]
pub struct Manifest {
    made: u64,
    entries: Arc<Vec<Entry>>,
    bytes: usize,
    /// Where each lies.
    places: BTreeMap<Vec<u8>, usize>,
    /// How often answers became others.
    changes: BTreeMap<Vec<u8>, u8>,
    /// What was not taken up for want of room.
    refused: usize,
}

impl Manifest {
    /// Nothing yet. `made` is no other's.
    #[must_use]
    pub fn new(made: u64) -> Self {
        Self { made, ..Self::default() }
    }

    /// Which it is.
    #[must_use]
    pub const fn made(&self) -> u64 {
        self.made
    }

    /// What is in it.
    #[must_use]
    pub const fn entries(&self) -> &Arc<Vec<Entry>> {
        &self.entries
    }

    /// Takes up an entry. `next` is the number that the manifest has if anything was in it that is so no more.
    pub fn add(&mut self, entry: Entry, next: u64) {
        let key = entry.key();
        if self.changes.get(&key).is_some_and(|changes| *changes >= CHANGES_MAX) {
            return;
        }
        if let Some(place) = self.places.get(&key).copied() {
            let before = &self.entries[place];
            if !before.is_so(&entry.known, entry.text.as_bytes(), entry.is_plain) {
                self.are_untrue(&[place], next);
            }
            return;
        }
        let bytes = entry.bytes();
        if self.bytes + bytes > MANIFEST_BYTES_MAX {
            self.refused += 1;
            if self.refused > self.entries.len() {
                // Most of it is of what nobody asks any more.
                let changes = core::mem::take(&mut self.changes);
                *self = Self { made: next, changes, ..Self::default() };
            }
            return;
        }
        self.bytes += bytes;
        self.places.insert(key, self.entries.len());
        Arc::make_mut(&mut self.entries).push(entry);
    }

    /// Some entries of it are so no more: it is another one without them, with that number.
    pub fn are_untrue(&mut self, places: &[usize], next: u64) {
        let gone: BTreeSet<usize> = places.iter().copied().filter(|place| *place < self.entries.len()).collect();
        if gone.is_empty() {
            return;
        }
        self.made = next;
        let entries = Arc::make_mut(&mut self.entries);
        // From the last on, so that what takes a place stays. As it is another manifest, the order is, too.
        for place in gone.into_iter().rev() {
            let entry = entries.swap_remove(place);
            let key = entry.key();
            self.bytes -= entry.bytes();
            self.places.remove(&key);
            if let Some(moved) = entries.get(place) {
                self.places.insert(moved.key(), place);
            }
            if self.changes.len() >= MANIFEST_SHUNNED_MAX {
                self.changes.clear();
            }
            let changes = self.changes.entry(key).or_default();
            *changes = if entry.is_directory() { CHANGES_MAX } else { changes.saturating_add(1) };
        }
    }
}

#[cfg(test)]
mod tests;
