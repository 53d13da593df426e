//! The I/O node's table of who has what open. See the [module](super).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::limits::{FILE_TIME_GRAIN_NS, FILE_VERSIONS_MAX};
use super::{FileId, Grant, Lease};
use crate::ship::{FileStatus, Timestamp};

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To be read.
    Read,
    /// To be written, and perhaps read.
    Write,
}

/// What tells a file from what it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    size: u64,
    modified: Timestamp,
    changed: Timestamp,
}

impl Stamp {
    /// Of a file that is this.
    #[must_use]
    pub const fn of(status: &FileStatus) -> Self {
        Self { size: status.size, modified: status.modified, changed: status.changed }
    }

    /// The file's length, bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Whether whoever changes the file from now on (ns since 1970) gives it another stamp.
    #[must_use]
    pub fn is_settled(&self, now_ns: u64) -> bool {
        let Timestamp { seconds, nanoseconds } = self.changed;
        // Some file systems count seconds.
        let grain_ns = if nanoseconds == 0 { 2_000_000_000 } else { FILE_TIME_GRAIN_NS };
        let changed_ns = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
        changed_ns + i128::from(grain_ns) <= i128::from(now_ns)
    }
}

/// A stamp that a file had.
#[derive(Clone, Copy, Debug)]
struct Seen {
    stamp: Stamp,
    /// Whoever changed the file later gave it another.
    is_settled: bool,
}

impl Seen {
    fn at(stamp: Stamp, now_ns: u64) -> Self {
        Self { stamp, is_settled: stamp.is_settled(now_ns) }
    }
}

/// A node is to give a lease back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recall<P> {
    /// Which node, for which job.
    pub party: P,
    /// Of which file.
    pub file: FileId,
    /// The lease's number.
    pub number: u64,
}

/// Who has which files open, and with which leases. `P` is whoever may have one: a job on a node.
#[derive(Debug)]
pub struct Leases<P> {
    files: BTreeMap<FileId, File<P>>,
    /// The files of each.
    of: BTreeMap<P, BTreeSet<FileId>>,
    /// Files that nobody has open any more and whose version is known, the one that was closed first in front.
    closed: BTreeMap<u64, FileId>,
    /// Numbers of leases, versions and times of closing, all from one count.
    numbers: u64,
}

#[derive(Debug)]
struct File<P> {
    /// The version of what is in it; 0: nobody knows.
    version: u64,
    /// Whoever has changed the file since it had that version gave it another stamp, or had a lease to write.
    is_firm: bool,
    /// What it was like when that was known.
    stamp: Option<Seen>,
    parties: BTreeMap<P, Party>,
    /// Where it is in [`Leases::closed`].
    closed: Option<u64>,
}

#[derive(Debug, Default)]
struct Party {
    readers: u32,
    writers: u32,
    lease: Option<Held>,
}

#[derive(Debug)]
struct Held {
    lease: Lease,
    number: u64,
    /// It was asked for.
    is_recalled: bool,
}

impl Party {
    /// Whether its lease keeps others from that.
    fn keeps_from(&self, access: Access) -> bool {
        let is_sole = |held: &Held| held.lease == Lease::Sole && self.writers > 0;
        self.lease.as_ref().is_some_and(|held| access == Access::Write || is_sole(held))
    }
}

impl<P> Default for Leases<P> {
    fn default() -> Self {
        Self { files: BTreeMap::new(), of: BTreeMap::new(), closed: BTreeMap::new(), numbers: 0 }
    }
}

impl<P: Ord + Copy> Leases<P> {
    /// Somebody opens a file, which counts from now on. Gives the leases that are to be given back first, as far as
    /// that was not said before: [`Leases::may_go_on`] says when they are.
    pub fn open(&mut self, party: P, file: FileId, access: Access) -> Vec<Recall<P>> {
        self.of.entry(party).or_default().insert(file);
        let new = || File { version: 0, is_firm: false, stamp: None, parties: BTreeMap::new(), closed: None };
        let known = self.files.entry(file).or_insert_with(new);
        if let Some(closed) = known.closed.take() {
            self.closed.remove(&closed);
        }
        let own = known.parties.entry(party).or_default();
        match access {
            Access::Read => own.readers += 1,
            Access::Write => own.writers += 1,
        }
        recall(known, file, |other, state| other != party && state.keeps_from(access))
    }

    /// Somebody wants to know what a file is of which another may have bytes that are not written yet. Gives the leases
    /// that are to be given back first, as with [`Leases::open`].
    pub fn look(&mut self, party: P, file: FileId) -> Vec<Recall<P>> {
        let Some(known) = self.files.get_mut(&file) else { return Vec::new() };
        recall(known, file, |other, state| other != party && state.keeps_from(Access::Read))
    }

    /// Whether nobody has a lease any more that keeps this one from a file that it opens.
    #[must_use]
    pub fn may_go_on(&self, party: P, file: FileId, access: Access) -> bool {
        let Some(known) = self.files.get(&file) else { return true };
        !known.parties.iter().any(|(other, state)| *other != party && state.keeps_from(access))
    }

    /// Who has opened a file that is this now, at that time (ns since 1970), and is kept by nobody from going on, gets
    /// the lease that it can have: none while one is wanted back that it has. Gives also leases that are worth nothing
    /// any more: the file was changed on the host.
    pub fn grant(&mut self, party: P, file: FileId, stamp: Stamp, now_ns: u64) -> (Option<Grant>, Vec<Recall<P>>) {
        let Some(known) = self.files.get_mut(&file) else { return (None, Vec::new()) };
        let others = || known.parties.iter().filter(|(other, _)| **other != party).map(|(_, state)| state);
        let is_written_by_others = others().any(|state| state.writers > 0);
        let has_others = others().next().is_some();
        let is_leased = known.parties.values().any(|state| state.lease.is_some());
        let Some(own) = known.parties.get_mut(&party) else { return (None, Vec::new()) };
        let is_written = is_written_by_others || own.writers > 0;
        // Who waits for it would wait for the next one, which nobody has asked for.
        let is_wanted_back = own.lease.as_ref().is_some_and(|held| held.is_recalled);
        let may = match own.writers {
            _ if is_written_by_others || is_wanted_back => None,
            0 => Some(Lease::Shared),
            _ if has_others => None,
            _ => Some(Lease::Sole),
        };
        let was_sole = own.lease.as_ref().is_some_and(|held| held.lease == Lease::Sole);
        let Some(lease) = may else {
            // Who writes does so behind everybody's back. What it has was asked for, if it keeps others from that.
            if is_written {
                (known.version, known.stamp) = (0, None);
            }
            return (None, Vec::new());
        };
        self.numbers += 1;
        let number = self.numbers;
        // What the only one who writes does with it is no news to that.
        let is_alike = was_sole || known.stamp.is_some_and(|seen| seen.stamp == stamp);
        let is_settled = is_leased || known.stamp.is_some_and(|seen| seen.is_settled);
        let mut worthless = Vec::new();
        if !is_alike || !is_settled {
            known.version = 0;
            worthless = recall(known, file, |other, _| other != party);
        }
        let before = known.version;
        if lease == Lease::Sole || before == 0 {
            known.version = number;
            known.is_firm = lease == Lease::Sole || stamp.is_settled(now_ns);
        }
        known.stamp = Some(Seen::at(stamp, now_ns));
        let known_version = if before == 0 { known.version } else { before };
        if let Some(own) = known.parties.get_mut(&party) {
            own.lease = Some(Held { lease, number, is_recalled: false });
        }
        (Some(Grant { lease, number, known: known_version, version: known.version }), worthless)
    }

    /// A file that was looked at is this now, at that time (ns since 1970). Gives the leases that are worth nothing any
    /// more, as it was changed on the host.
    pub fn looked(&mut self, file: FileId, stamp: Stamp, now_ns: u64) -> Vec<Recall<P>> {
        let Some(known) = self.files.get_mut(&file) else { return Vec::new() };
        // Who writes changes it.
        let is_written = known.parties.values().any(|state| state.writers > 0);
        if is_written || known.stamp.is_none_or(|seen| seen.stamp == stamp) {
            return Vec::new();
        }
        (known.version, known.stamp) = (0, Some(Seen::at(stamp, now_ns)));
        recall(known, file, |_, _| true)
    }

    /// Whether somebody has a lease of a file that nobody writes.
    #[must_use]
    pub fn is_shared(&self, file: FileId) -> bool {
        self.files.get(&file).is_some_and(|known| {
            known.parties.values().all(|state| state.writers == 0)
                && known.parties.values().any(|state| state.lease.is_some())
        })
    }

    /// The version of what is in such a file, and what it was like when that was known; `None` if nobody knows.
    #[must_use]
    pub fn shared(&self, file: FileId) -> Option<(u64, Stamp)> {
        let known = self.files.get(&file).filter(|known| known.version != 0 && self.is_shared(file))?;
        Some((known.version, known.stamp?.stamp))
    }

    /// Who has a file open.
    pub fn holders(&self, file: FileId) -> impl Iterator<Item = P> {
        self.files.get(&file).into_iter().flat_map(|known| known.parties.keys().copied())
    }

    /// Whether anybody has it open to write.
    #[must_use]
    pub fn is_written(&self, file: FileId) -> bool {
        self.files.get(&file).is_some_and(|known| known.parties.values().any(|state| state.writers > 0))
    }

    /// Somebody has closed a file that was opened so. `stamp`: what it was then, at that time (ns since 1970), if that
    /// is known.
    pub fn close(&mut self, party: P, file: FileId, access: Access, stamp: Option<Stamp>, now_ns: u64) {
        let Some(known) = self.files.get_mut(&file) else { return };
        let Some(own) = known.parties.get_mut(&party) else { return };
        let count = match access {
            Access::Read => &mut own.readers,
            Access::Write => &mut own.writers,
        };
        *count = count.saturating_sub(1);
        let wrote = own.lease.as_ref().is_some_and(|held| held.lease == Lease::Sole);
        if wrote && own.writers == 0 {
            known.stamp = stamp.map(|stamp| Seen::at(stamp, now_ns));
            if let Some(held) = &mut own.lease {
                held.lease = Lease::Shared;
            }
        }
        if own.readers == 0 && own.writers == 0 {
            self.leave(party, file, stamp, now_ns);
        }
    }

    /// The last of a party's handles of a file is gone.
    fn leave(&mut self, party: P, file: FileId, stamp: Option<Stamp>, now_ns: u64) {
        if let Some(of) = self.of.get_mut(&party) {
            of.remove(&file);
            if of.is_empty() {
                self.of.remove(&party);
            }
        }
        let Some(known) = self.files.get_mut(&file) else { return };
        let own = known.parties.remove(&party).unwrap_or_default();
        if !known.parties.is_empty() {
            return;
        }
        // Whoever changes it from now on is not seen to do so, but by its stamp. What it is now need not be known if it
        // was only read: if it was changed meanwhile, it has another at its next open.
        let was_read = own.writers == 0 && own.lease.is_none_or(|held| held.lease == Lease::Shared);
        let is_alike = |seen: &Seen| match stamp {
            Some(stamp) => seen.stamp == stamp && seen.stamp.is_settled(now_ns),
            None => seen.is_settled && was_read,
        };
        known.stamp = known.stamp.filter(is_alike).filter(|_| known.is_firm);
        if let Some(seen) = &mut known.stamp {
            seen.is_settled = true;
        }
        if known.stamp.is_none() || known.version == 0 {
            self.files.remove(&file);
            return;
        }
        self.numbers += 1;
        known.closed = Some(self.numbers);
        self.closed.insert(self.numbers, file);
        if self.closed.len() > FILE_VERSIONS_MAX
            && let Some((_, oldest)) = self.closed.pop_first()
        {
            self.files.remove(&oldest);
        }
    }

    /// A node has given a lease back. Whether it had it.
    pub fn returned(&mut self, party: P, file: FileId, number: u64) -> bool {
        let own = self.files.get_mut(&file).and_then(|known| known.parties.get_mut(&party));
        let Some(own) = own.filter(|own| own.lease.as_ref().is_some_and(|held| held.number == number)) else {
            return false;
        };
        own.lease = None;
        true
    }

    /// Somebody is no more. Gives the files that it had open.
    pub fn gone(&mut self, party: P) -> Vec<FileId> {
        let files: Vec<FileId> = self.of.remove(&party).into_iter().flatten().collect();
        for file in &files {
            self.leave(party, *file, None, 0);
        }
        files
    }

    /// Files that are known.
    #[must_use]
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// All who have files open.
    pub fn parties(&self) -> impl Iterator<Item = P> {
        self.of.keys().copied()
    }

    /// Leases of a party that were asked for and not given back: to be asked for again on a new connection.
    pub fn recalled(&self, party: P) -> impl Iterator<Item = Recall<P>> {
        let files = self.of.get(&party).into_iter().flatten();
        files.filter_map(move |file| {
            let held = self.files.get(file)?.parties.get(&party)?.lease.as_ref()?;
            held.is_recalled.then_some(Recall { party, file: *file, number: held.number })
        })
    }
}

/// Asks for the leases of some, as far as they have any that was not asked for before.
fn recall<P: Ord + Copy>(known: &mut File<P>, file: FileId, of: impl Fn(P, &Party) -> bool) -> Vec<Recall<P>> {
    let mut recalls = Vec::new();
    for (party, state) in &mut known.parties {
        if of(*party, state)
            && let Some(held) = &mut state.lease
            && !core::mem::replace(&mut held.is_recalled, true)
        {
            recalls.push(Recall { party: *party, file, number: held.number });
        }
    }
    recalls
}
