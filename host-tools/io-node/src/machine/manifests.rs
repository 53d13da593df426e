//! What programs look up from the roots that they are run from ([`coppice_protocol::manifest`]): taken up from what
//! their ranks ask, and told to nodes that start them again. Each entry is asked again on the host when a node wants
//! them, as one look-up, under the node's lease of names.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_protocol::ids::{JobId, ProgramId};
use coppice_protocol::manifest::{Entry, Manifest};
use coppice_protocol::ship::{Call, Reply};
use coppice_protocol::text::ByteString;

use super::Machine;
use super::effect::Answer;
use super::jobs::Job;
use super::leases::{file_of, is_regular};
use crate::limits::MANIFESTS_MAX;

/// All of them, by root and program.
#[derive(Debug, Default)]
pub(super) struct Manifests {
    table: BTreeMap<Key, Used>,
    /// Numbers that were given to manifests, and times at which they were used.
    numbers: u64,
}

type Key = (ByteString, ProgramId);

#[derive(Debug)]
struct Used {
    manifest: Manifest,
    at: u64,
}

/// What a node is told, and what of it is to be asked on the host first.
#[derive(Clone, Debug)]
pub struct ToCheck {
    /// Which manifest.
    pub made: u64,
    /// All of it.
    pub entries: Arc<Vec<Entry>>,
    /// Where what the node does not have begins.
    pub from: usize,
}

impl Manifests {
    fn next(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Whether there is anything of a program that is run from a root.
    pub(super) fn has(&self, root: &ByteString, program: ProgramId) -> bool {
        self.table.get(&(root.clone(), program)).is_some_and(|used| !used.manifest.entries().is_empty())
    }

    /// Forgets what one program looks up, or all do.
    pub(super) fn forget(&mut self, program: Option<ProgramId>) {
        self.table.retain(|(_, of), _| program.is_some_and(|program| *of != program));
    }

    fn add(&mut self, key: Key, entry: Entry) {
        let (number, next) = (self.next(), self.next());
        if !self.table.contains_key(&key) && self.table.len() >= MANIFESTS_MAX {
            let oldest = self.table.iter().min_by_key(|(_, used)| used.at).map(|(key, _)| key.clone());
            oldest.map(|oldest| self.table.remove(&oldest));
        }
        let new = || Used { manifest: Manifest::new(number), at: number };
        self.table.entry(key).or_insert_with(new).manifest.add(entry, next);
    }

    fn find(&mut self, key: &Key) -> Option<&mut Manifest> {
        let now = self.next();
        let used = self.table.get_mut(key)?;
        used.at = now;
        Some(&mut used.manifest)
    }
}

fn key(job: &Job) -> Key {
    (job.root().clone(), job.program_id())
}

impl Machine {
    /// What a node is to be told that has so many entries of the manifest of that number.
    pub(super) fn manifest_to_check(&mut self, job: JobId, (made, entries): (u64, u32)) -> ToCheck {
        let found = self.jobs.get(job).map(key).and_then(|key| self.manifests.find(&key));
        let Some(manifest) = found else { return ToCheck { made: 0, entries: Arc::default(), from: 0 } };
        let from = if manifest.made() == made { (entries as usize).min(manifest.entries().len()) } else { 0 };
        ToCheck { made: manifest.made(), entries: Arc::clone(manifest.entries()), from }
    }

    /// A look-up of a rank was answered.
    pub(super) fn take_up(&mut self, job: JobId, call: &Call, (reply, bytes): &Answer, is_plain: bool) {
        let Some(job) = self.jobs.get(job).filter(|job| job.keeps_files()) else { return };
        let Ok(known) = reply.clone().into_known() else { return };
        if let Some(entry) = Entry::of(call, known, bytes, is_plain) {
            let key = key(job);
            self.manifests.add(key, entry);
        }
    }

    /// A manifest was checked, and is about to be told: adds what is being written by somebody to what is not to be
    /// believed of it, and leaves out of it what is not so.
    pub(super) fn manifest_checked(&mut self, job: JobId, checked: &ToCheck, reply: &mut Reply) {
        let Reply::Manifest { untrue, .. } = reply else { return };
        let places: Vec<usize> = untrue.iter().map(|place| *place as usize).collect();
        let is_written = |entry: &Entry| {
            entry.status().is_some_and(|status| is_regular(status) && self.leases.is_written(file_of(status)))
        };
        untrue.extend((0..).zip(checked.entries.iter()).filter(|(_, entry)| is_written(entry)).map(|(place, _)| place));
        untrue.sort_unstable();
        untrue.dedup();
        let next = self.manifests.next();
        let found = self.jobs.get(job).map(key).and_then(|key| self.manifests.find(&key));
        if let Some(manifest) = found.filter(|manifest| manifest.made() == checked.made) {
            manifest.are_untrue(&places, next);
        }
    }
}
