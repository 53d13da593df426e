//! What must hold afterwards, in the storage, in regions and of the job that goes on.

use std::fs;

use coppice_api::checkpoint::CheckpointName;
use coppice_protocol::ids::{JobId, NodeId};
use coppice_protocol::region::{HEADER_BYTES, SLOTS, Slot, State, header_offset};
use coppice_service_node::checkpoints;
use coppice_service_node::controller::Request;
use coppice_storage::Storage;

use super::super::world::World;
use super::Victim;
use super::stages::{STATUS, lines_of};

/// Checkpoints that a job of this world has at most.
const MOST: u32 = 2;

impl World {
    /// The job has the first checkpoint, and the second or not: that is whole then, and what was said of it is so.
    pub(super) fn look_at_storage(&mut self, job: JobId, made: Option<bool>) {
        let Some(storage) = self.host.storage.clone() else { return };
        if let Err(what) = look_at(&storage, job, made) {
            self.is_wrong(format!("the checkpoints of job {job}: {what}"));
        }
    }

    /// Each region has that checkpoint, all of it, and nothing else.
    pub(super) fn look_at_regions(&mut self, checkpoint: CheckpointName) {
        if self.host.region_bytes() == 0 {
            return;
        }
        for node in 0..self.options.nodes {
            match self.slots_of(NodeId(node)) {
                Ok(slots) => match &slots[..] {
                    [Slot { state: State::Drained, job: JobId(job), .. }] if *job == checkpoint.job => {}
                    slots => self.is_wrong(format!("after {checkpoint} the region of node {node} has {slots:?}")),
                },
                Err(error) => self.trouble = Some(error),
            }
        }
    }

    /// If all I/O nodes have lived, no region has more of the job than its newest checkpoint.
    pub(super) fn look_at_the_newest(&mut self, job: JobId, made: Option<bool>) {
        let strike = self.options.trial.and_then(|trial| trial.strike);
        let they_lived = strike.is_none_or(|(_, victim)| matches!(victim, Victim::Node(_) | Victim::AllNodes));
        let (Some(made), Some(first), true) = (made, self.trials.first_key, they_lived) else { return };
        for node in 0..self.options.nodes {
            match self.slots_of(NodeId(node)) {
                // Leaders have numbers in order: either may have been tried more than once.
                Ok(slots) if matches!(&slots[..], [slot] if slot.job == job && made == (slot.key > first)) => {}
                Ok(slots) => self.is_wrong(format!("made: {made}, and the region of node {node} has {slots:?}")),
                Err(error) => self.trouble = Some(error),
            }
        }
    }

    /// The number of whoever led the checkpoint that regions have, if there is one and no other.
    pub(super) fn key_in_regions(&mut self) -> Option<u64> {
        if self.host.region_bytes() == 0 {
            return None;
        }
        match self.slots_of(NodeId(0)) {
            Ok(slots) => match &slots[..] {
                [slot] => return Some(slot.key),
                slots => self.is_wrong(format!("with one checkpoint the region of node 0 has {slots:?}")),
            },
            Err(error) => self.trouble = Some(error),
        }
        None
    }

    /// Slots of a region that have something. One that a node has given up is said to be filled until it is again.
    fn slots_of(&self, node: NodeId) -> anyhow::Result<Vec<Slot>> {
        let bytes = fs::read(self.host.region_path(node))?;
        let header = |slot| {
            let begin = usize::try_from(header_offset(slot)).unwrap_or(usize::MAX);
            bytes.get(begin..).and_then(|rest| rest.get(..HEADER_BYTES as usize)).unwrap_or_default()
        };
        let slots = (0..SLOTS).filter_map(|slot| Slot::read(header(slot), bytes.len() as u64));
        Ok(slots.filter(|slot| slot.state != State::Filling).collect())
    }

    /// The job that went on has ended as the first would have, its ranks have printed what was left from one line on,
    /// and nothing that is no checkpoint outlives the next service node.
    pub(super) fn look_at_the_end(&mut self, job: JobId) {
        let detail = self.host.ask(|answer| Request::Job(job, answer), self.now_ns);
        let ended = match detail {
            Some(Ok(detail)) => (detail.job.exit_status, detail.job.reason),
            other => return self.is_wrong(format!("job {job} is not known: {other:?}")),
        };
        if ended != (Some(STATUS), None) {
            self.is_wrong(format!("job {job} went on, and ended so: {ended:?}"));
        }
        let newest = self.host.storage.as_ref().and_then(|storage| storage.manifests(self.trials.first).ok()?.pop());
        let from = self.trials.outcome().from;
        let wanted = self.options.trial.and_then(|trial| trial.from).or(newest.map(|(number, _)| number));
        let is_automatic = self.options.trial.is_some_and(|trial| trial.is_automatic);
        if wanted != Some(from) && !is_automatic {
            self.is_wrong(format!("it went on from checkpoint {from}, and not from {wanted:?}"));
        }
        for ((_, rank), printed) in self.trials.lines.clone().into_iter().filter(|((of, _), _)| *of == job) {
            let first = printed.first().copied().unwrap_or(u64::MAX);
            if !printed.iter().copied().eq(first..lines_of(rank)) && !printed.is_empty() {
                self.is_wrong(format!("rank {rank} of job {job} went on and printed {printed:?}"));
            }
            self.trials.outcome().lines.insert(rank, first);
        }
        if let Err(error) = self.look_at_what_is_left() {
            self.is_wrong(format!("what is left: {error:#}"));
        }
    }

    fn look_at_what_is_left(&self) -> anyhow::Result<()> {
        let Some(path) = self.host.storage.as_ref().map(|storage| storage.path().to_owned()) else { return Ok(()) };
        let storage = checkpoints::open(path.clone())?;
        let collected = storage.collect()?.objects;
        anyhow::ensure!(collected == 0, "{collected} objects of no checkpoint when the service node has started");
        let temporary = fs::read_dir(path.join("temporary"))?.count();
        anyhow::ensure!(temporary == 0, "{temporary} files that are no objects");
        for job in storage.jobs()? {
            for (number, _) in storage.manifests(job)? {
                storage.delete(job, number)?;
            }
        }
        storage.collect()?;
        let mut objects = fs::read_dir(path.join("packs"))?.count();
        for directory in fs::read_dir(path.join("objects"))? {
            objects += fs::read_dir(directory?.path())?.count();
        }
        anyhow::ensure!(objects == 0, "{objects} objects of no checkpoint");
        Ok(())
    }
}

fn look_at(storage: &Storage, job: JobId, made: Option<bool>) -> Result<(), String> {
    let manifests = storage.manifests(job).map_err(|error| error.to_string())?;
    let numbers: Vec<u32> = manifests.iter().map(|(number, _)| *number).collect();
    if !(1..=MOST).any(|last| numbers.iter().copied().eq(1..=last)) {
        return Err(format!("there are {numbers:?}"));
    }
    if made.is_some_and(|made| made != numbers.contains(&MOST)) {
        return Err(format!("there are {numbers:?}, and of the second it was said: {made:?}"));
    }
    for (_, manifest) in manifests {
        let manifest = manifest.map_err(|error| error.to_string())?;
        storage.verify(&manifest).map_err(|error| error.to_string())?;
    }
    Ok(())
}
