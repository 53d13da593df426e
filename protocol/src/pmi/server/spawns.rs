//! What ranks of a node want to be started, until they know what came of it. A rank wants one thing at a time.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Event, Server};
use crate::ids::{JobId, Rank};
use crate::pmi::space::Put;
use crate::spawn::{Origin, Spawned, Wanted};

/// Wishes, and how this job has come to be.
#[derive(Debug, Default)]
pub(super) struct Spawns {
    /// The number of the last one.
    given: u64,
    pending: Vec<Pending>,
    /// It was started by a rank.
    origin: Option<Box<Origin>>,
    /// How many ranks there could be.
    universe: Option<u32>,
}

/// A wish of a rank that does not know yet what came of it.
#[derive(Debug)]
struct Pending {
    rank: Rank,
    number: u64,
    bytes: usize,
    outcome: Option<Result<JobId, String>>,
}

impl Spawns {
    /// What they take of the node's memory, about, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let of_wishes: usize = self.pending.iter().map(|pending| pending.bytes + size_of::<Pending>()).sum();
        let keys = self.origin.iter().flat_map(|origin| &origin.keys);
        of_wishes + keys.map(|put| put.key.len() + put.value.len() + size_of::<Put>()).sum::<usize>()
    }
}

impl Server {
    /// A rank wants others to be started. Returns the number of its wish, or a word that says why it has none.
    pub(crate) fn spawn(&mut self, rank: Rank, wanted: Wanted) -> Result<u64, &'static str> {
        if self.spawns.pending.iter().any(|pending| pending.rank == rank) {
            return Err("starts_others_already");
        }
        if self.has_failed || self.is_ending {
            return Err("the_job_ends");
        }
        if wanted.keys.iter().any(|put| Put::check(&put.key, &put.value).is_err()) {
            return Err("no_key_or_too_long");
        }
        self.spawns.given += 1;
        let number = self.spawns.given;
        // It is on its way to the I/O node, or is to be said to that again, until there is an answer.
        let bytes = wanted.text_bytes();
        self.spawns.pending.push(Pending { rank, number, bytes, outcome: None });
        self.events.push_back(Event::Spawn { rank, number, wanted });
        Ok(number)
    }

    /// A rank wanted others to be started by PMIx.
    pub(crate) fn refused_spawn(&mut self, rank: Rank) {
        if let Some(local) = self.local(rank) {
            local.was_refused_spawn = true;
        }
    }

    /// What came of a rank's wish, if it is known. Of one that was made before a checkpoint nobody knows.
    pub(crate) fn take_spawned(&mut self, rank: Rank, number: u64) -> Option<Result<JobId, String>> {
        let of_wish = |pending: &Pending| (pending.rank, pending.number) == (rank, number);
        let Some(at) = self.spawns.pending.iter().position(of_wish) else {
            return Some(Err("it went on from a checkpoint".to_string()));
        };
        let outcome = self.spawns.pending.get_mut(at)?.outcome.take()?;
        self.spawns.pending.remove(at);
        Some(outcome)
    }

    /// This came of what a rank wanted. May be said again.
    pub fn spawned(&mut self, Spawned { rank, number, outcome, .. }: Spawned) {
        let of_wish = |pending: &&mut Pending| (pending.rank, pending.number) == (rank, number);
        let Some(pending) = self.spawns.pending.iter_mut().find(of_wish) else { return };
        if pending.outcome.is_none() {
            pending.bytes = outcome.as_ref().err().map_or(0, String::len);
            pending.outcome = Some(outcome);
            self.events.push_back(Event::Released(rank));
        }
    }

    /// Of the rank nobody waits for an answer any more.
    pub(super) fn forget_spawns(&mut self, rank: Rank) {
        self.spawns.pending.retain(|pending| pending.rank != rank);
    }

    /// How the job has come to be, and how many ranks there could be.
    pub fn set_origin(&mut self, origin: Option<Box<Origin>>, universe: u32) {
        self.spawns.origin = origin;
        self.spawns.universe = Some(universe);
    }

    /// Whether a rank of another job has started this one.
    #[must_use]
    pub fn was_spawned(&self) -> bool {
        self.spawner().is_some()
    }

    /// The job whose rank has started this one.
    pub(crate) fn spawner(&self) -> Option<JobId> {
        self.spawns.origin.as_ref().map(|origin| origin.job)
    }

    /// How many ranks there could be, those of the job counted.
    pub(crate) fn universe(&self) -> u32 {
        self.spawns.universe.unwrap_or(0).max(self.size())
    }

    /// The value of a key of the job: one that a rank has put, or that was there before all.
    pub(crate) fn value(&self, key: &[u8]) -> Option<&[u8]> {
        let given = self.spawns.origin.iter().flat_map(|origin| &origin.keys);
        let given = || given.clone().find(|put| *put.key == *key).map(|put| &*put.value);
        self.space.get(key).or_else(given)
    }
}
