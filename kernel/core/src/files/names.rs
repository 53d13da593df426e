//! What a job's ranks on a node were told of names and attributes, as long as the node has the lease of names
//! ([`coppice_protocol::lease`]): who looks again is answered here.
//!
//! Whatever others change, the I/O node says so before. What the job's own ranks here change is forgotten here
//! ([`Changing`]): while such a call is under way nothing is answered from here, and no answer is kept that was asked
//! for before or meanwhile; when it is done, what it may have changed goes. The host's own processes say nothing, so
//! what is kept is believed for a second only ([`NAMES_BELIEVED_NS`]). Last accesses may be older than they are, as on
//! a Linux that writes them seldom.

mod manifest;
mod place;
mod table;
#[cfg(test)]
mod tests;

use alloc::sync::Arc;
use core::mem;

use coppice_protocol::lease::limits::NAMES_BELIEVED_NS;
use coppice_protocol::ship::{Call, FileStatus, Keeping, Known};

pub(crate) use self::manifest::ToldManifests;
pub(crate) use self::place::Place;
pub(crate) use self::table::{Told, kept_bytes};

use self::manifest::Listed;
use self::place::entries;
use self::table::Table;
use crate::errno::Errno;
use crate::executor;
use crate::limits::KEPT_PATH_BYTES_MAX;
use crate::memory::{FileIdentity, Retention};
use crate::quota::Quota;
use crate::ship::Client;
use crate::sync::{LockLevel, Mutex};

/// See the [module](self).
pub(crate) struct KnownNames {
    quota: Arc<Quota>,
    retention: Arc<Retention>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    table: Table,
    /// The lease that what is in there was told with.
    number: u64,
    /// Leases up to this number are none any more.
    void: u64,
    /// Changes that own calls make now.
    changing: u32,
    /// Counts what makes answers that are under way worthless.
    epoch: u64,
    /// When something was kept last, as spare memory counts.
    used: u64,
    /// What was told at once.
    listed: Listed,
}

/// A call that was made when nothing was being changed here: its answer may be kept if that is so still when it comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    epoch: u64,
    /// When it was made, ns.
    at_ns: u64,
}

impl KnownNames {
    /// Nothing known.
    pub(crate) fn new(quota: &Arc<Quota>, retention: &Arc<Retention>) -> Self {
        let state = Mutex::new(LockLevel::KnownNames, State::default());
        Self { quota: Arc::clone(quota), retention: Arc::clone(retention), state }
    }

    /// What is known of a place.
    pub(crate) fn find(&self, place: &Place) -> Option<Result<Told, Errno>> {
        let used = self.retention.next_use();
        let mut state = self.state.lock();
        let found = if state.changing > 0 { None } else { state.table.find(place, since_ns()) };
        if found.is_some() {
            state.used = used;
        }
        found
    }

    /// Whether a path is known to lead to that directory through no link.
    pub(crate) fn lead_to(&self, path: &[u8], directory: FileIdentity) -> bool {
        let state = self.state.lock();
        state.changing == 0 && state.table.leads_to(path, directory, since_ns())
    }

    /// What an open file is, if that is known.
    pub(crate) fn status(&self, file: FileIdentity) -> Option<FileStatus> {
        let state = self.state.lock();
        if state.changing > 0 { None } else { state.table.status(file, since_ns()) }
    }

    /// Something is about to be asked for. `None`: it is not to be kept.
    pub(crate) fn ask(&self) -> Option<Asked> {
        let state = self.state.lock();
        (state.changing == 0).then(|| Asked { epoch: state.epoch, at_ns: executor::now_ns() })
    }

    /// Keeps something with what the I/O node said of how long, if that is so still; with less memory nothing is kept.
    fn keep(&self, asked: Option<Asked>, keeping: Keeping, bytes: usize, keep: impl FnOnce(&mut Table, u64, Kept)) {
        let Some(Asked { epoch, at_ns }) = asked else { return };
        // Before the lock: who has no memory asks for what is kept here.
        let Ok(charge) = self.quota.charge(bytes) else { return };
        let used = self.retention.next_use();
        let mut state = self.state.lock();
        if state.epoch != epoch || keeping.number <= state.void || keeping.number < state.number {
            return;
        }
        state.used = used;
        let mut gone = Table::default();
        if keeping.number > state.number {
            state.number = keeping.number;
            gone = mem::take(&mut state.table);
        }
        keep(&mut state.table, at_ns, charge);
        drop(state);
        drop(gone);
    }

    /// Keeps what was told of a place.
    pub(crate) fn told(&self, asked: Option<Asked>, place: &Place, keeping: Keeping, told: Result<&Told, Errno>) {
        let told_bytes = told.map_or(0, Told::bytes);
        if told_bytes > KEPT_PATH_BYTES_MAX {
            return;
        }
        self.keep(asked, keeping, kept_bytes(place.path().len()) + told_bytes, |table, at_ns, charge| {
            table.keep(place, keeping, told, (at_ns, charge));
        });
    }

    /// Keeps what an open file was said to be.
    pub(crate) fn told_status(&self, asked: Option<Asked>, keeping: Keeping, status: &FileStatus) {
        if keeping.attributes {
            self.keep(asked, keeping, kept_bytes(0), |table, at_ns, charge| {
                table.keep_status(status, (at_ns, charge));
            });
        }
    }

    /// Keeps what entries of a directory are: those that these records are of, and as many of them as were told.
    pub(crate) fn told_entries(
        &self,
        asked: Option<Asked>,
        (path, directory): (&[u8], FileIdentity),
        keeping: Keeping,
        (records, attributes): (&[u8], &[Option<FileStatus>]),
    ) {
        let Some(at) = Place::directory(path) else { return };
        for (name, status) in entries(records).zip(attributes) {
            let Some(status) = status.as_ref().filter(|_| !name.is_empty()) else { continue };
            let path = Place::entry(at.path(), name);
            if path.len() > KEPT_PATH_BYTES_MAX {
                continue;
            }
            self.keep(asked, keeping, kept_bytes(path.len()), |table, at_ns, charge| {
                // Its own path may be another's by now, or lead through a link.
                if table.leads_to(at.path(), directory, since_ns()) {
                    table.keep_entry(path, status, (at_ns, charge));
                }
            });
        }
    }

    /// A call that changes names or attributes is about to be made here.
    pub(crate) fn change(&self) -> Changing<'_> {
        let mut state = self.state.lock();
        state.changing += 1;
        state.epoch += 1;
        let (epoch, is_alone) = (state.epoch, state.changing == 1);
        Changing { names: self, asked: Asked { epoch, at_ns: executor::now_ns() }, is_alone, is_said: false }
    }

    /// The lease is wanted back: nothing is known any more.
    pub(crate) fn recall(&self, client: &Client, number: u64) {
        let gone = {
            let mut state = self.state.lock();
            state.void = state.void.max(number);
            state.epoch += 1;
            if state.number <= number { mem::take(&mut state.table) } else { Table::default() }
        };
        drop(gone);
        client.give_names_back(number);
    }

    /// Forgets everything, for want of memory or since nobody is there any more. Whether there was something.
    pub(crate) fn forget(&self) -> bool {
        let gone = mem::take(&mut self.state.lock().table);
        !gone.is_empty()
    }

    /// As [`crate::memory::Spare::oldest`].
    pub(crate) fn oldest(&self) -> Option<u64> {
        let state = self.state.lock();
        (!state.table.is_empty()).then_some(state.used)
    }
}

/// A call that fails so has changed nothing.
const CHANGES_NOTHING: [Errno; 3] = [Errno::ENOENT, Errno::EEXIST, Errno::ENOTDIR];

/// What was told before this is not believed any more, ns.
fn since_ns() -> u64 {
    executor::now_ns().saturating_sub(NAMES_BELIEVED_NS)
}

/// What is kept is charged with this.
type Kept = crate::quota::Charge;

/// An own call that changes something, while it is under way. Unless it is said what became of it, nothing that was
/// known is believed any more.
pub(crate) struct Changing<'a> {
    names: &'a KnownNames,
    asked: Asked,
    /// Nothing else was being changed when it began.
    is_alone: bool,
    is_said: bool,
}

impl Changing<'_> {
    /// It was made, with this answer if the I/O node says that it may be kept.
    pub(crate) fn made(mut self, call: &Call, keeping: Keeping, known: &Known) {
        self.is_said = true;
        if let Known::Failed(errno) = known
            && CHANGES_NOTHING.contains(&Errno::from_wire(*errno))
        {
            return;
        }
        let Some(place) = Place::changed_by(call).filter(|place| keeping.is_plain && place.is_straight()) else {
            self.names.forget();
            return;
        };
        self.names.state.lock().table.changed(call, &place, known);
        if let Known::Opened { status, .. } = known {
            // Its own end is not one that others began.
            let asked = self.is_alone.then_some(self.asked);
            self.names.told(asked, &place, keeping, Ok(&Told::Status(**status)));
        }
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if !self.is_said {
            self.names.forget();
        }
        self.names.state.lock().changing -= 1;
    }
}
