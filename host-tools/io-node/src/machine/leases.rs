//! Leases of files that nodes have open ([`coppice_protocol::lease`]): who gets one with a file that is opened, who is
//! asked for one, and opens that wait for it.
//!
//! An open that others' leases stand in the way of is done on the host first, which tells what file it is; then it
//! waits here, holding nothing but its node's slot, until these are back. What it found may not be so any more then: so
//! the file is cut (`O_TRUNC`) and looked at again behind the wait. After [`RECALL_TIME_MAX`] it fails with `EIO`.

use std::collections::{BTreeMap, BTreeSet};

use coppice_protocol::ids::{JobId, NodeId};
use coppice_protocol::lease::limits::{FILE_TIME_GRAIN_NS, FIRST_BYTES_MAX};
use coppice_protocol::lease::{Access, FileId, Grant, Leases, Recall, Stamp};
use coppice_protocol::pset::FromPset;
use coppice_protocol::ras::{RasEvent, RasKind, Severity};
use coppice_protocol::ship::{Call, FileStatus, Handle, Notice, Owner, Reply};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::calls::{CallId, failed};
use super::effect::{Answer, Effect, PlaceId};
use super::timers::Timer;
use super::{Machine, Now};
use crate::clock::ns;
use crate::limits::{LOOK_TIME, LOOKS_MAX, RECALL_TIME_MAX};

/// Who may have a lease: the ranks that a start of a job has on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Party {
    node: NodeId,
    place: PlaceId,
    job: JobId,
}

impl Party {
    /// Whether it is of that job.
    pub(super) fn is_of(self, job: JobId) -> bool {
        self.job == job
    }
}

/// Opens and leases.
#[derive(Debug, Default)]
pub(super) struct FileLeases {
    pub(super) table: Leases<Party>,
    /// The regular files that ranks have open, and for what.
    handles: BTreeMap<(PlaceId, Owner), BTreeMap<Handle, (FileId, Access)>>,
    /// Opens that wait for leases, in order.
    waiting: BTreeMap<FileId, Vec<CallId>>,
    /// Which file is looked at next, to see whether the host has changed it: that of the first of these behind this.
    looked_at: Option<(PlaceId, Owner, Handle)>,
    /// It is looked at them from time to time.
    is_looking: bool,
}

/// A file that is being opened, by a rank whose node may get a lease.
#[derive(Debug)]
pub(super) struct Opening {
    access: Access,
    /// It can be read.
    reads: bool,
    /// It is to be cut when nobody's lease is in the way.
    cuts: bool,
    stage: Stage,
    /// What the host has opened, once it has.
    opened: Option<(Handle, FileStatus)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The host opens it.
    Opening,
    /// The host cuts it.
    Cutting,
    /// The host looks at it again.
    Looking,
    /// The host reads it, as it is short and its node has this lease.
    Reading(Grant),
}

impl Opening {
    /// Of a file that is opened with these flags; which of them the host is to open it with. `None`: what is opened so
    /// is not read or written.
    pub(super) fn of(flags: u32) -> Option<(Self, u32)> {
        let opened_with = OFlags::from_bits_retain(flags);
        if opened_with.contains(OFlags::PATH) {
            return None;
        }
        // With both it is neither read nor written, though it is asked for as if it were.
        let writes = [OFlags::WRONLY, OFlags::RDWR].contains(&(opened_with & OFlags::RWMODE));
        let truncates = opened_with.contains(OFlags::TRUNC);
        let access = if writes || truncates { Access::Write } else { Access::Read };
        // What is open for reading cannot be cut later.
        let cuts = writes && truncates && !opened_with.contains(OFlags::TMPFILE);
        let opened_with = if cuts { opened_with.difference(OFlags::TRUNC) } else { opened_with };
        let reads = !opened_with.contains(OFlags::WRONLY);
        Some((Self { access, reads, cuts, stage: Stage::Opening, opened: None }, opened_with.bits()))
    }
}

impl Party {
    /// Where it is.
    pub(super) fn node(self) -> NodeId {
        self.node
    }

    /// What it has outside.
    pub(super) fn place(self) -> PlaceId {
        self.place
    }

    /// Which job.
    pub(super) fn job(self) -> JobId {
        self.job
    }
}

impl FileLeases {
    /// Ranks that have files open, and files that opens wait for.
    pub(super) fn count(&self) -> usize {
        self.handles.len() + self.waiting.len()
    }

    /// Whether anybody has a file open to write.
    pub(super) fn is_written(&self, file: FileId) -> bool {
        self.table.is_written(file)
    }
}

pub(super) fn file_of(status: &FileStatus) -> FileId {
    FileId { device: status.device, inode: status.inode }
}

impl FileLeases {
    /// What a rank has open to read, if nodes have leases of it: the file, the version of what is in it, and what it
    /// was like then.
    pub(super) fn shared(&self, place: PlaceId, owner: Owner, handle: Handle) -> Option<(FileId, u64, Stamp)> {
        let (file, _) = *self.handles.get(&(place, owner))?.get(&handle)?;
        let (version, stamp) = self.table.shared(file)?;
        Some((file, version, stamp))
    }
}

impl Machine {
    /// A step of opening a file is done. Gives the answer if that was the last.
    pub(super) fn open_goes_on(&mut self, id: CallId, answer: Answer, now: Now) -> Option<Answer> {
        let (party, owner, opening) = self.opening(id)?;
        match (opening.stage, answer) {
            (Stage::Opening, (Reply::Opened { handle, status, .. }, _)) if is_regular(&status) => {
                opening.opened = Some((handle, status));
                let (access, file) = (opening.access, file_of(&status));
                let handles = self.leases.handles.entry((party.place, owner)).or_default();
                handles.insert(handle, (file, access));
                let recalls = self.leases.table.open(party, file, access);
                self.recall(recalls);
                if !std::mem::replace(&mut self.leases.is_looking, true) {
                    self.timers.set(now.ns + ns(LOOK_TIME), Timer::Look);
                }
                if self.leases.table.may_go_on(party, file, access) {
                    return self.is_opened(id, false, now);
                }
                self.wait_for_leases(id, file, now);
                None
            }
            (Stage::Cutting, (Reply::Done, _)) => {
                opening.stage = Stage::Looking;
                let (handle, _) = opening.opened?;
                self.look(id, Call::HandleStat(handle));
                None
            }
            (Stage::Looking, (Reply::Status(status), _)) => {
                let (handle, _) = opening.opened?;
                opening.opened = Some((handle, status));
                self.granted(id, now)
            }
            (Stage::Reading(grant), (reply, bytes)) => {
                let (handle, status) = opening.opened?;
                let bytes = if reply == Reply::Data { bytes } else { Vec::new() };
                Some((Reply::Opened { handle, status, grant: Some(grant) }, bytes))
            }
            // Nothing of which there are leases, or it failed.
            (Stage::Opening, answer) => Some(answer),
            (_, answer) => {
                let answer = if let (Reply::Failed(_), _) = answer { answer } else { failed(Errno::IO) };
                self.close_again(id, now);
                Some(answer)
            }
        }
    }

    /// A call waits until leases of a file that are in its way are back.
    fn wait_for_leases(&mut self, id: CallId, file: FileId, now: Now) {
        self.calls.waits_for_lease(id);
        self.leases.waiting.entry(file).or_default().push(id);
        self.timers.set(now.ns + ns(RECALL_TIME_MAX), Timer::Recall(id, file));
    }

    /// A file was looked at that is not open. Gives the answer if that is what the file is.
    pub(super) fn look_goes_on(&mut self, id: CallId, answer: Answer, now: Now) -> Option<Answer> {
        let (Some((node, place, owner)), (Reply::Status(status), _)) = (self.calls.looking(id), &answer) else {
            return Some(answer);
        };
        let (party, file) = (Self::party(node, place, owner.job), file_of(status));
        let recalls = self.leases.table.look(party, file);
        if self.leases.table.may_go_on(party, file, Access::Read) {
            return Some(answer);
        }
        self.recall(recalls);
        self.wait_for_leases(id, file, now);
        None
    }

    /// No lease is in the way of a file that is opened.
    fn is_opened(&mut self, id: CallId, waited: bool, now: Now) -> Option<Answer> {
        self.calls.goes_out(id);
        let (.., opening) = self.opening(id)?;
        let (handle, status) = opening.opened?;
        if opening.cuts && (waited || status.size > 0 || !is_new(&status, now)) {
            opening.stage = Stage::Cutting;
            self.look(id, Call::HandleTruncate { file: handle, length: 0 });
        } else if waited {
            opening.stage = Stage::Looking;
            self.look(id, Call::HandleStat(handle));
        } else {
            return self.granted(id, now);
        }
        None
    }

    /// A file is open: the answer, with the lease that comes with it, unless what is in it is to come, too.
    fn granted(&mut self, id: CallId, now: Now) -> Option<Answer> {
        let Some((party, owner, opening)) = self.opening(id) else { return Some(failed(Errno::IO)) };
        let Opening { opened: Some((handle, status)), reads, access, .. } = opening else {
            return Some(failed(Errno::IO));
        };
        let is_to_be_read = *access == Access::Read;
        let (handle, status, is_short) = (*handle, *status, *reads && (1..=FIRST_BYTES_MAX).contains(&status.size));
        if !may_be_known(&status, is_to_be_read) {
            return Some((Reply::Opened { handle, status, grant: None }, Vec::new()));
        }
        let stamp = Stamp::of(&status);
        let (grant, worthless) = self.leases.table.grant(party, file_of(&status), stamp, now.realtime_ns);
        self.recall(worthless);
        if let Some(grant) = grant.filter(|_| is_short)
            && let Some((.., opening)) = self.opening(id)
        {
            opening.stage = Stage::Reading(grant);
            let call = Call::Read { file: handle, offset: 0, length: u32::try_from(status.size).unwrap_or(0) };
            self.effects.push(Effect::Try { id, place: party.place, rank: owner.rank, call, bulk: Vec::new() });
            return None;
        }
        Some((Reply::Opened { handle, status, grant }, Vec::new()))
    }

    /// It is time to look at files of which nodes have leases and which nobody writes.
    pub(super) fn look_at_leased(&mut self, now: Now) {
        self.leases.is_looking = !self.leases.handles.is_empty();
        if self.leases.is_looking {
            self.timers.set(now.ns + ns(LOOK_TIME), Timer::Look);
        }
        // A mount that does not answer is asked once.
        if self.calls.are_looking_for_host() {
            return;
        }
        let mut seen = BTreeSet::new();
        let mut looks = Vec::new();
        let all = || {
            self.leases.handles.iter().flat_map(|((place, owner), handles)| {
                handles.iter().map(|(handle, (file, _))| ((*place, *owner, *handle), *file))
            })
        };
        let from = self.leases.looked_at;
        let behind = all().filter(|(at, _)| Some(*at) > from);
        let before = all().filter(|(at, _)| Some(*at) <= from);
        for (at, file) in behind.chain(before) {
            if looks.len() >= LOOKS_MAX {
                break;
            }
            if self.leases.table.is_shared(file) && seen.insert(file) {
                looks.push((at, file));
            }
        }
        self.leases.looked_at = looks.last().map(|(at, _)| *at);
        for ((place, owner, handle), file) in looks {
            self.look_for_host((place, owner), handle, file);
        }
    }

    /// A file that nodes have leases of is this.
    pub(super) fn host_has(&mut self, file: FileId, status: &FileStatus, now: Now) {
        let worthless = self.leases.table.looked(file, Stamp::of(status), now.realtime_ns);
        self.recall(worthless);
    }

    /// Has the next step of an open done.
    fn look(&mut self, id: CallId, call: Call) {
        if let Some((party, owner, _)) = self.opening(id) {
            self.effects.push(Effect::Names { id, place: party.place, rank: owner.rank, call });
        }
    }

    /// A file was opened and is not to be after all.
    fn close_again(&mut self, id: CallId, now: Now) {
        let Some((party, owner, Opening { opened: Some((handle, _)), .. })) = self.opening(id) else { return };
        let handle = *handle;
        self.closed_handle((party, owner), handle, None, now);
        self.close_unknown((party.place, owner), handle);
    }

    /// A rank has closed a file, which was this then if that is known.
    pub(super) fn closed_handle(
        &mut self,
        (party, owner): (Party, Owner),
        handle: Handle,
        status: Option<&FileStatus>,
        now: Now,
    ) {
        let Some(handles) = self.leases.handles.get_mut(&(party.place, owner)) else { return };
        let Some((file, access)) = handles.remove(&handle) else { return };
        if handles.is_empty() {
            self.leases.handles.remove(&(party.place, owner));
        }
        self.leases.table.close(party, file, access, status.map(Stamp::of), now.realtime_ns);
        if access == Access::Write {
            self.wrote();
        }
        self.opens_go_on(file, now);
    }

    /// A rank has ended: it has no file open any more but those that calls of it are still changing, which nobody can
    /// call off: others get leases of these when that is over.
    pub(super) fn closed_all(&mut self, node: NodeId, place: PlaceId, owner: Owner, now: Now) {
        let party = Party { node, place, job: owner.job };
        let handles: Vec<Handle> =
            self.leases.handles.get(&(place, owner)).into_iter().flat_map(BTreeMap::keys).copied().collect();
        for handle in handles {
            if !self.calls.are_changing((place, owner), handle) {
                self.closed_handle((party, owner), handle, None, now);
            }
        }
        if !self.jobs.get(owner.job).is_some_and(|job| job.ranks.are_live_on(node)) {
            self.names_gone(party, now);
        }
    }

    /// A node gives a lease back.
    pub(super) fn returned(&mut self, node: NodeId, (place, job): (PlaceId, JobId), lease: (FileId, u64), now: Now) {
        let (file, number) = lease;
        if self.leases.table.returned(Party { node, place, job }, file, number) {
            self.opens_go_on(file, now);
        }
    }

    /// Some lease of a file is no more: opens that nothing else is in the way of go on.
    fn opens_go_on(&mut self, file: FileId, now: Now) {
        let Some(waiting) = self.leases.waiting.remove(&file) else { return };
        let mut still = Vec::new();
        for id in waiting {
            if !self.calls.is_waiting_for_lease(id) {
                continue;
            }
            let looking = self.calls.looking(id);
            let (party, access) = match (self.opening(id), looking) {
                (Some((party, _, opening)), _) => (party, Some(opening.access)),
                (None, Some((node, place, owner))) => (Self::party(node, place, owner.job), None),
                (None, None) => continue,
            };
            if !self.leases.table.may_go_on(party, file, access.unwrap_or(Access::Read)) {
                still.push(id);
            } else if access.is_none() {
                self.look_again(id);
            } else if let Some(answer) = self.is_opened(id, true, now) {
                self.finish(id, answer, now);
            }
        }
        if !still.is_empty() {
            self.leases.waiting.entry(file).or_default().splice(0..0, still);
        }
    }

    /// A call has waited long enough for leases of a file.
    pub(super) fn recall_is_late(&mut self, id: CallId, file: FileId, now: Now) {
        if !self.calls.is_waiting_for_lease(id) {
            return;
        }
        let looking = self.calls.looking(id).map(|(.., owner)| owner);
        let owner = self.opening(id).map(|(_, owner, _)| owner).or(looking);
        let Some(owner) = owner else { return };
        self.tell_of_kept_lease(owner);
        self.close_again(id, now);
        if let Some(waiting) = self.leases.waiting.get_mut(&file) {
            waiting.retain(|other| *other != id);
        }
        self.finish(id, failed(Errno::IO), now);
    }

    /// Tells of a call that has waited too long for a lease.
    pub(super) fn tell_of_kept_lease(&mut self, owner: Owner) {
        let text = format!(
            "a call on a file failed, as a node has not given its lease back for {} s",
            RECALL_TIME_MAX.as_secs()
        );
        self.outbox.push(FromPset::Ras {
            node: None,
            event: RasEvent {
                severity: Severity::Error,
                kind: RasKind::LeaseKept,
                job: Some(owner.job),
                rank: Some(owner.rank),
                address: None,
                instruction: None,
                text,
            },
        });
    }

    /// Asks nodes for leases; who has no connection is asked on the next.
    fn recall(&mut self, recalls: Vec<Recall<Party>>) {
        for Recall { party, file, number } in recalls {
            self.notify_node(party.node, &Notice::Recall { job: party.job, file, number });
        }
    }

    /// A node has a new connection: it is asked again for what it was asked for.
    pub(super) fn recall_again(&mut self, node: NodeId) {
        let parties: Vec<Party> = self.leases.table.parties().filter(|party| party.node == node).collect();
        for party in parties {
            let recalls = self.leases.table.recalled(party).collect();
            self.recall(recalls);
        }
    }

    /// A call that opens a file, and whose it is.
    fn opening(&mut self, id: CallId) -> Option<(Party, Owner, &mut Opening)> {
        let (node, place, owner, opening) = self.calls.opening(id)?;
        Some((Party { node, place, job: owner.job }, owner, opening))
    }

    /// Who a rank's node is to the table.
    pub(super) fn party(node: NodeId, place: PlaceId, job: JobId) -> Party {
        Party { node, place, job }
    }
}

/// Whether a file is what its length says. Files that a kernel makes when they are read have none, and were never made;
/// of an empty one that is to be read there is nothing to be known.
fn may_be_known(status: &FileStatus, is_to_be_read: bool) -> bool {
    status.size > 0 || !is_to_be_read && status.created.is_some()
}

/// Whether a file was just made: it need not be cut, and has its times.
fn is_new(status: &FileStatus, now: Now) -> bool {
    let changed_ns =
        status.changed.seconds.saturating_mul(1_000_000_000).saturating_add(status.changed.nanoseconds.into());
    let age_ns = i128::from(now.realtime_ns) - i128::from(changed_ns);
    status.created == Some(status.changed) && age_ns < i128::from(FILE_TIME_GRAIN_NS)
}

pub(super) fn is_regular(status: &FileStatus) -> bool {
    FileType::from_raw_mode(status.mode) == FileType::RegularFile
}
