//! Files that a job's nodes read from their start, and that are broadcast for that ([`coppice_protocol::broadcast`]):
//! who has begun to read which, and what follows. From then until the file was taken into memory, what nodes ask for
//! ahead waits here, for a moment: then it need not be answered.

use std::collections::{BTreeMap, BTreeSet};

use coppice_protocol::broadcast::limits::BROADCASTS_PER_JOB_MAX;
use coppice_protocol::broadcast::{Broadcast, BroadcastBegun, file_of_job, is_worth, number_of};
use coppice_protocol::control::ToNode;
use coppice_protocol::ids::NodeId;
use coppice_protocol::lease::{FileId, Stamp};
use coppice_protocol::pset::FromPset;
use coppice_protocol::session::Identity;
use coppice_protocol::ship::{Handle, Owner};
use coppice_protocol::staging::StagedFile;
use coppice_protocol::text::ByteString;
use coppice_protocol::transfer::FileOfJob;
use coppice_protocol::world::World;

use super::effect::{Effect, PlaceId};
use super::ship::Request;
use super::timers::Timer;
use super::{Machine, Now};
use crate::clock::ns;
use crate::limits::{FILES_WATCHED_MAX, HELD_MAX, HELD_TIME_MAX};

/// A file to be taken into memory as it is, to be broadcast.
#[derive(Debug)]
pub struct TakeFile {
    /// Whose it is.
    pub place: PlaceId,
    /// Where it is open, and by whom.
    pub file: (Owner, Handle),
    /// Its length, bytes: of another length it is not wanted.
    pub bytes: u64,
    /// The broadcast, which names no file yet.
    pub broadcast: Broadcast,
    /// The job's nodes.
    pub world: World,
}

/// What a file was that was taken, and is to be the one of its broadcast.
#[derive(Debug)]
pub struct TakenFile {
    /// What it is, and where the host has it.
    pub file: StagedFile,
    /// What it was like before and after.
    pub stamp: Stamp,
}

/// Requests that wait, and of which nodes' boots.
type Held = Vec<(Identity, Request)>;

/// A job's.
#[derive(Debug, Default)]
pub(super) struct Broadcasts {
    files: BTreeMap<FileId, Watched>,
    begun: u8,
}

/// A file that somebody reads from its start.
#[derive(Debug)]
struct Watched {
    /// The version that this is about.
    version: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// These nodes have begun.
    Read(BTreeSet<NodeId>),
    /// It is being taken into memory, after so many nodes had opened it. What waits for that does so for a while.
    Taken { broadcast: Broadcast, opened: u32, held: Option<Held> },
    /// It is broadcast, by that number.
    Sent(u8),
    /// It was broadcast, or is not to be.
    Done,
}

impl Broadcasts {
    /// A node begins to read a file of that version and length, which so many of all nodes have open. Whether it is to
    /// be broadcast now.
    fn begins(
        &mut self,
        node: NodeId,
        (file, version, bytes): (FileId, u64, u64),
        (opened, nodes): (u32, u32),
    ) -> bool {
        if self.begun >= BROADCASTS_PER_JOB_MAX {
            return false;
        }
        // Whatever is known of others is a guess less.
        if self.files.len() >= FILES_WATCHED_MAX && !self.files.contains_key(&file) {
            self.files.retain(|_, watched| !matches!(watched.state, State::Read(_)));
            if self.files.len() >= FILES_WATCHED_MAX {
                return false;
            }
        }
        let new = || Watched { version, state: State::Read(BTreeSet::new()) };
        let watched = self.files.entry(file).or_insert_with(new);
        if watched.version != version && !matches!(watched.state, State::Taken { .. } | State::Sent(_)) {
            *watched = new();
        }
        let State::Read(begun) = &mut watched.state else { return false };
        begun.insert(node);
        let begun = u32::try_from(begun.len()).unwrap_or(u32::MAX);
        is_worth(bytes, begun, opened, nodes)
    }

    /// What was taken of a file is there, or is not: the broadcast that it was for, of that number, after how many
    /// nodes had opened it, and what waits for it.
    fn taken(&mut self, number: u8) -> Option<(Broadcast, u32, Held)> {
        let number_of = |watched: &Watched| match &watched.state {
            State::Taken { broadcast, .. } => Some(broadcast.number),
            State::Read(_) | State::Sent(_) | State::Done => None,
        };
        let is_it = |watched: &&mut Watched| number_of(watched) == Some(number);
        let watched = self.files.values_mut().find(is_it)?;
        match std::mem::replace(&mut watched.state, State::Done) {
            State::Taken { broadcast, opened, held } => Some((broadcast, opened, held.unwrap_or_default())),
            State::Read(_) | State::Sent(_) | State::Done => None,
        }
    }

    /// Everything that waits: nothing is taken for it any more.
    pub(super) fn take_held(&mut self) -> Held {
        let held = self.files.values_mut().filter_map(|watched| match &mut watched.state {
            State::Taken { held, .. } => held.take(),
            State::Read(_) | State::Sent(_) | State::Done => None,
        });
        held.flatten().collect()
    }

    /// The broadcast of that number is over.
    fn is_over(&mut self, number: u8) {
        let is_it = |watched: &&mut Watched| matches!(watched.state, State::Sent(sent) if sent == number);
        if let Some(watched) = self.files.values_mut().find(is_it) {
            watched.state = State::Done;
        }
    }
}

impl Machine {
    /// A rank's node reads a file from its start.
    pub(super) fn reads_from_start(&mut self, (node, owner): (NodeId, Owner), handle: Handle, now: Now) {
        let Some((job, _)) = self.jobs.rank_on(node, owner).filter(|(job, _)| job.broadcasts_over().is_some()) else {
            return;
        };
        let place = job.place;
        let (nodes, live) = (job.ranks.nodes().count(), job.ranks.live_nodes().len());
        if nodes < 2 || live < nodes {
            return;
        }
        let shared = self.leases.shared(place, owner, handle);
        // Whoever changes it while it is read gives it another stamp, unless it was changed a moment ago.
        let Some((file, version, stamp)) = shared.filter(|(.., stamp)| stamp.is_settled(now.realtime_ns)) else {
            return;
        };
        let bytes = stamp.size();
        let opened = self.leases.table.holders(file).filter(|party| party.is_of(owner.job)).count();
        let count = |nodes| u32::try_from(nodes).unwrap_or(u32::MAX);
        if !job.broadcasts.begins(node, (file, version, bytes), (count(opened), count(nodes))) {
            return;
        }
        let Some(staging) = job.broadcasts_over().cloned() else { return };
        let number = job.broadcasts.begun;
        job.broadcasts.begun += 1;
        let broadcast = Broadcast { job: owner.job, number, file, version, staging };
        let world = job.world().clone();
        if let Some(watched) = job.broadcasts.files.get_mut(&file) {
            let (broadcast, opened, held) = (broadcast.clone(), count(opened), Some(Vec::new()));
            watched.state = State::Taken { broadcast, opened, held };
        }
        self.timers.set(now.ns + ns(HELD_TIME_MAX), Timer::Held(place, file));
        let file = (owner, handle);
        self.effects.push(Effect::Take(Box::new(TakeFile { place, file, bytes, broadcast, world })));
    }

    /// A node asks for pages of a file that may come to it by themselves: on the link they would stand in the way of
    /// that. If the file is being taken for that it waits; if it is sent, the node is told so. Gives it back if it is
    /// to be done.
    pub(super) fn unless_it_comes(&mut self, identity: Identity, request: Request, now: Now) -> Option<Request> {
        let owner = request.owner();
        let job = self.jobs.rank_on(identity.node, owner).map(|(job, _)| job);
        let Some(job) = job.filter(|job| job.broadcasts_over().is_some()) else { return Some(request) };
        let shared = request.reads().and_then(|handle| self.leases.shared(job.place, owner, handle));
        let Some((file, version, _)) = shared else { return Some(request) };
        let watched = job.broadcasts.files.get_mut(&file).filter(|watched| watched.version == version);
        match watched {
            Some(Watched { state: State::Taken { held: Some(held), .. }, .. }) if held.len() < HELD_MAX => {
                held.push((identity, request));
                None
            }
            Some(Watched { state: State::Sent(_), .. }) => {
                self.need_not(identity, &request, now);
                None
            }
            _ => Some(request),
        }
    }

    /// What was to wait has waited long enough: whoever takes the file has yet to get it from its disk.
    pub(super) fn held_is_late(&mut self, place: PlaceId, file: FileId, now: Now) {
        let job = self.places.taken.get(&place).copied();
        let Some(job) = job.and_then(|job| self.jobs.at(job, place)) else { return };
        let Some(watched) = job.broadcasts.files.get_mut(&file) else { return };
        let State::Taken { held, .. } = &mut watched.state else { return };
        let held = held.take().unwrap_or_default();
        held.into_iter().for_each(|(identity, request)| self.go_on_with(identity, request, now));
    }

    /// A file was taken into memory for the broadcast of that number of a job, or why not. It is broadcast if its
    /// readers' leases are still of what was taken.
    pub fn file_taken(&mut self, place: PlaceId, number: u8, taken: Result<TakenFile, String>, now: Now) {
        let job = self.places.taken.get(&place).copied();
        let Some(job) = job.and_then(|job| self.jobs.at(job, place)) else { return };
        let Some((mut broadcast, opened, held)) = job.broadcasts.taken(number) else {
            if taken.is_err() {
                // It could not be sent after all.
                job.broadcasts.is_over(number);
            }
            return;
        };
        let (id, file, version) = (job.id(), broadcast.file, broadcast.version);
        let is_same = |stamp: Stamp| self.leases.table.shared(file) == Some((version, stamp));
        let taken = taken.and_then(|taken| {
            if is_same(taken.stamp) { Ok(taken) } else { Err("it is not what it was when it was opened".to_owned()) }
        });
        let taken = match taken {
            Ok(taken) => taken,
            Err(reason) => {
                tracing::info!(job = id.0, ?file, reason, "a file that nodes read is not broadcast");
                self.effects.push(Effect::EndBroadcast { place, number });
                return held.into_iter().for_each(|(identity, request)| self.go_on_with(identity, request, now));
            }
        };
        let of = file_of_job(id, number);
        let path =
            self.jobs.at(id, place).and_then(|job| taken.file.path.as_ref().map(|path| inside(job.root(), path)));
        let path = path.unwrap_or_default();
        let bytes = taken.file.bytes;
        tracing::info!(job = id.0, %path, bytes, opened, "a file that nodes read is broadcast");
        self.outbox.push(FromPset::BroadcastBegun(BroadcastBegun { of, path, bytes, opened }));
        // Where the host has it is none of the nodes' business.
        broadcast.staging.files = vec![StagedFile { path: None, ..taken.file }];
        self.effects.push(Effect::Broadcast { place, number });
        if let Some(watched) = self.jobs.at(id, place).and_then(|job| job.broadcasts.files.get_mut(&file)) {
            watched.state = State::Sent(number);
        }
        let nodes = self.jobs.at(id, place).map(|job| job.ranks.live_nodes()).unwrap_or_default();
        let order = ToNode::Broadcast(Box::new(broadcast));
        // A node without a connection reads it by itself.
        nodes.into_iter().for_each(|node| self.send_control(node, &order));
        held.into_iter().for_each(|(identity, request)| self.need_not(identity, &request, now));
    }

    /// A transfer is over: if it was a broadcast, nothing of it is needed any more.
    pub(super) fn broadcast_is_over(&mut self, of: FileOfJob) {
        if let (Some(job), Some(number)) = (self.jobs.get_mut(of.job), number_of(of)) {
            job.broadcasts.is_over(number);
            self.effects.push(Effect::EndBroadcast { place: job.place, number });
        }
    }
}

/// What a file of the host is called by those who see `root` as `/`.
fn inside(root: &ByteString, path: &ByteString) -> ByteString {
    let root = root.strip_suffix(b"/").unwrap_or(root);
    path.strip_prefix(root).filter(|rest| rest.starts_with(b"/")).map_or_else(|| path.clone(), ByteString::from)
}

#[cfg(test)]
mod tests {
    use coppice_protocol::broadcast::limits::BROADCAST_BYTES_MIN;
    use coppice_protocol::ids::NodeId;
    use coppice_protocol::lease::FileId;

    use super::{Broadcasts, inside};
    use crate::limits::FILES_WATCHED_MAX;

    fn file(inode: u64) -> FileId {
        FileId { device: 1, inode }
    }

    #[test]
    fn nodes_are_counted_once_for_each_version() {
        let mut broadcasts = Broadcasts::default();
        let mut begins =
            |node, version| broadcasts.begins(NodeId(node), (file(1), version, BROADCAST_BYTES_MIN), (6, 6));
        assert!(!begins(0, 1) && !begins(0, 1));
        assert!(!begins(1, 2), "the other has read something else");
        assert!(begins(2, 2));
    }

    #[test]
    fn of_many_files_some_are_forgotten() {
        let mut broadcasts = Broadcasts::default();
        for inode in 0..3 * FILES_WATCHED_MAX as u64 {
            assert!(!broadcasts.begins(NodeId(0), (file(inode), 1, BROADCAST_BYTES_MIN), (2, 2)));
            assert!(broadcasts.files.len() <= FILES_WATCHED_MAX);
        }
        let last = file(3 * FILES_WATCHED_MAX as u64 - 1);
        assert!(broadcasts.begins(NodeId(1), (last, 1, BROADCAST_BYTES_MIN), (2, 2)));
    }

    #[test]
    fn paths_are_as_ranks_see_them() {
        let inside = |root: &str, path: &str| inside(&root.into(), &path.into()).to_string();
        assert_eq!(inside("/srv/job", "/srv/job/in/a"), "/in/a");
        assert_eq!(inside("/", "/in/a"), "/in/a");
        assert_eq!(inside("/srv/job", "/srv/job2/a"), "/srv/job2/a", "it was moved out");
    }
}
