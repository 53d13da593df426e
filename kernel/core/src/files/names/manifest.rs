//! What the I/O node has seen the job's program look up before ([`coppice_protocol::manifest`]): asked for at once when
//! the job begins, and kept as if it had been asked for name by name. What nodes believe they believe for a moment, so
//! as long as a job is young, and looks at such a name again after that, all of it is asked for again: an answer of a
//! few bytes.
//!
//! The node keeps what it was told when the job has ended, for jobs that run the same: then it is told what is new.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use coppice_hal::heap::block_bytes;
use coppice_protocol::ids::ProgramId;
use coppice_protocol::manifest::limits::MANIFEST_BYTES_MAX;
use coppice_protocol::manifest::{Entries, Entry};
use coppice_protocol::ship::{Call, FileStatus, Keeping, Known, Reply};

use super::place::Place;
use super::table::{LISTED, Told, kept_bytes};
use super::{Asked, KnownNames, since_ns};
use crate::errno::Errno;
use crate::executor;
use crate::limits::{MANIFEST_TIME_NS, MANIFESTS_LEFT_MAX};
use crate::quota::{Charge, Quota};
use crate::ship::Client;
use crate::sync::{LockLevel, Mutex};

/// So many entries are kept in one go.
const KEPT_AT_ONCE: usize = 64;

/// Manifests that a node has been told, by the programs that were run: the root may be another, for which one the I/O
/// node looks.
pub(crate) struct ToldManifests(Mutex<BTreeMap<ProgramId, Arc<ToldManifest>>>);

/// One of them.
struct ToldManifest {
    made: u64,
    entries: Vec<Entry>,
    /// When it was told, as [`crate::memory::Retention::next_use`] counts.
    at: u64,
    charge: Charge,
}

impl Default for ToldManifests {
    fn default() -> Self {
        Self(Mutex::new(LockLevel::Fact, BTreeMap::new()))
    }
}

impl ToldManifests {
    fn find(&self, program: ProgramId) -> Option<Arc<ToldManifest>> {
        self.0.lock().get(&program).cloned()
    }

    fn put(&self, program: ProgramId, told: Arc<ToldManifest>) {
        let gone = {
            let mut all = self.0.lock();
            let oldest = all.iter().min_by_key(|(_, told)| told.at).map(|(program, _)| *program);
            let is_full = all.len() >= MANIFESTS_LEFT_MAX && !all.contains_key(&program);
            let oldest = oldest.filter(|_| is_full).and_then(|oldest| all.remove(&oldest));
            [all.insert(program, told), oldest]
        };
        drop(gone);
    }

    /// When one was told last, as [`crate::memory::Retention::next_use`] counts.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.0.lock().values().map(|told| told.at).max()
    }

    /// What they are charged with, bytes.
    pub(crate) fn charged(&self) -> usize {
        self.0.lock().values().map(|told| told.charge.bytes()).sum()
    }

    /// Forgets what was told of one program, or of all. Whether there was anything.
    pub(crate) fn forget(&self, program: Option<ProgramId>) -> bool {
        let gone = {
            let mut all = self.0.lock();
            match program {
                Some(program) => all.remove(&program).into_iter().collect::<Vec<_>>(),
                None => mem::take(&mut *all).into_values().collect(),
            }
        };
        !gone.is_empty()
    }
}

/// What a job knows of its manifest.
#[derive(Default)]
pub(super) struct Listed {
    /// Which.
    made: u64,
    /// When it was told first, ns.
    first_ns: u64,
    /// It is being asked for.
    is_asking: bool,
}

/// What an entry takes, bytes.
fn entry_bytes(entry: &Entry) -> usize {
    let path = match &entry.call {
        Call::Open { at, .. } | Call::Stat { at, .. } | Call::Access { at, .. } => at.path.len(),
        Call::ReadLink(at) | Call::Resolve(at) => at.path.len(),
        _ => 0,
    };
    // A list has room for twice as many while it grows.
    2 * size_of::<Entry>() + block_bytes(path) + block_bytes(size_of::<FileStatus>()) + block_bytes(entry.text.len())
}

/// The entries that came, behind those that were there, if there is memory for them.
fn entries(before: &[Entry], bytes: &[u8], quota: &Arc<Quota>) -> Option<(Vec<Entry>, Charge)> {
    let mut charge = quota.charge(0).ok()?;
    let mut all = Vec::new();
    for entry in before.iter().cloned().map(Ok).chain(Entries::of(bytes).ok()?) {
        let entry = entry.ok()?;
        charge.grow(entry_bytes(&entry)).ok()?;
        all.try_reserve(1).ok()?;
        all.push(entry);
    }
    Some((all, charge))
}

/// What an entry says.
fn told(entry: &Entry) -> Option<Result<Told, Errno>> {
    Some(match &entry.known {
        Known::Done => Ok(Told::Granted),
        Known::Data => Ok(Told::Link(entry.text.as_bytes().to_vec())),
        Known::Status(status) => Ok(Told::Status(**status)),
        Known::Path(path) => Ok(Told::Directory(path.clone())),
        Known::Failed(errno) => Err(Errno::from_wire(*errno)),
        _ => return None,
    })
}

impl KnownNames {
    /// Asks for all that the program is going to look up, as it seems.
    pub(crate) async fn load(&self, client: &Client, manifests: &ToldManifests, program: ProgramId) {
        let is_asking = mem::replace(&mut self.state.lock().listed.is_asking, true);
        if !is_asking {
            let _done = Asking(self);
            self.ask_for_all(client, manifests, program).await;
        }
    }

    /// The same, if a place was told so and that is too old to be believed, and the job is young. Whether that was
    /// done.
    pub(crate) async fn load_again(
        &self,
        place: &Place,
        client: &Client,
        (manifests, program): (&ToldManifests, ProgramId),
    ) -> bool {
        let is_worth_it = {
            let state = self.state.lock();
            let is_young = executor::now_ns().saturating_sub(state.listed.first_ns) < MANIFEST_TIME_NS;
            state.listed.made != 0
                && is_young
                && !state.listed.is_asking
                && state.table.is_listed_before(place, since_ns())
        };
        if is_worth_it {
            self.load(client, manifests, program).await;
        }
        is_worth_it
    }

    async fn ask_for_all(&self, client: &Client, manifests: &ToldManifests, program: ProgramId) {
        let Some(asked) = self.ask() else { return };
        let before = manifests.find(program);
        let (made, count) = before.as_ref().map_or((0, 0), |told| (told.made, told.entries.len()));
        let call = Call::Manifest { made, entries: count as u32 };
        // All of it may come.
        let Ok(_answer) = self.quota.charge(block_bytes(MANIFEST_BYTES_MAX)) else { return };
        let Ok((Reply::Known(keeping, Known::Manifest { made, untrue }), bytes)) = client.look(call).await else {
            return;
        };
        if made == 0 {
            return;
        }
        let all = match before {
            Some(told) if told.made == made && Entries::of(&bytes).is_ok_and(|new| new.is_empty()) => {
                if untrue.is_empty() && self.is_so_still(asked, keeping, made) {
                    return;
                }
                told
            }
            before => {
                let before = before.as_ref().filter(|told| told.made == made);
                let before = before.map_or(&[][..], |told| &told.entries);
                let Some((entries, charge)) = entries(before, &bytes, &self.quota) else { return };
                let told = Arc::new(ToldManifest { made, entries, at: self.retention.next_use(), charge });
                manifests.put(program, Arc::clone(&told));
                told
            }
        };
        self.is_told(asked, keeping, made);
        let mut untrue = untrue.into_iter().peekable();
        for (number, entry) in (0..).zip(&all.entries) {
            if untrue.next_if_eq(&number).is_none() {
                self.list(asked, keeping, entry);
            }
            if (number as usize + 1).is_multiple_of(KEPT_AT_ONCE) {
                executor::yield_now().await;
            }
        }
    }

    /// Keeps an entry.
    fn list(&self, asked: Asked, keeping: Keeping, entry: &Entry) {
        let (Some(place), Some(told)) = (Place::of(&entry.call, None), told(entry)) else { return };
        let bytes = kept_bytes(place.path().len()) + told.as_ref().map_or(0, Told::bytes);
        let keeping = Keeping { is_plain: entry.is_plain, attributes: true, ..keeping };
        self.keep(Some(asked), keeping, bytes, |table, _, charge| {
            table.keep(&place, keeping, told.as_ref().map_err(|errno| *errno), (LISTED, charge));
        });
    }

    /// All that was told so is so still. False if it has to be told again.
    fn is_so_still(&self, asked: Asked, keeping: Keeping, made: u64) -> bool {
        let mut state = self.state.lock();
        let is_so = state.epoch == asked.epoch && state.number == keeping.number && state.listed.made == made;
        if is_so {
            state.table.is_confirmed(asked.at_ns);
        }
        is_so
    }

    /// A manifest is about to be kept: what was told before so is not believed any more.
    fn is_told(&self, asked: Asked, keeping: Keeping, made: u64) {
        let gone = {
            let mut state = self.state.lock();
            if state.epoch != asked.epoch || keeping.number <= state.void || keeping.number < state.number {
                return;
            }
            state.number = keeping.number;
            if state.listed.made == 0 {
                state.listed.first_ns = asked.at_ns;
            }
            state.listed.made = made;
            let gone = mem::take(&mut state.table);
            state.table.is_confirmed(asked.at_ns);
            gone
        };
        drop(gone);
    }
}

/// The manifest is being asked for, until this is dropped.
struct Asking<'a>(&'a KnownNames);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.state.lock().listed.is_asking = false;
    }
}
