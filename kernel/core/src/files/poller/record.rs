//! A set of watched files as data.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;

use serde::{Deserialize, Serialize};

use super::{Asked, Poller, ask};
use crate::errno::Errno;
use crate::files::open_file::{Object, OpenFile};
use crate::files::record::{BadFiles, Catalogue, NotMade, Number};
use crate::quota::Quota;
use crate::sync::atomic::Ordering;

/// See this module.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PollerRecord(Vec<InterestRecord>);

/// A watched file.
#[derive(Debug, Serialize, Deserialize)]
struct InterestRecord {
    /// The descriptor it was watched under.
    descriptor: i32,
    file: Number,
    events: u32,
    data: u64,
    /// It is to be looked at.
    queued: bool,
    /// See [`changes`].
    changes: Option<u64>,
}

/// How often a file that changes from outside, while its process is data, has changed; `None`: nobody counts that.
fn changes(file: &OpenFile) -> Option<u64> {
    match &file.object {
        Object::Socket(socket) => socket.changes(),
        Object::Service(_) | Object::Standard(_) => None,
        _ => Some(0),
    }
}

impl Poller {
    /// Writes it down. Files that are gone are none.
    pub(crate) fn record(&self, catalogue: &Catalogue) -> PollerRecord {
        let table = self.set.table.lock();
        let interest = |entry: &super::Entry| {
            let interest = &entry.interest;
            let asked = *interest.asked.lock();
            // Before it is looked whether it is queued: a change that comes between is seen twice, not never.
            let changes = changes(&*interest.file.upgrade()?);
            Some(InterestRecord {
                descriptor: interest.key.0,
                file: catalogue.number_at(interest.key.1).filter(|_| !interest.is_gone())?,
                events: asked.events,
                data: asked.data,
                queued: interest.queued.load(Ordering::Acquire),
                changes,
            })
        };
        PollerRecord(table.entries.values().filter_map(interest).collect())
    }

    /// Watches again what a record says. Then see [`Self::as_before`].
    ///
    /// # Errors
    /// [`NotMade`].
    pub(in crate::files) fn watch_again(
        &self,
        record: &PollerRecord,
        files: &[Arc<OpenFile>],
        quota: &Arc<Quota>,
    ) -> Result<(), NotMade> {
        for InterestRecord { descriptor, file, events, data, .. } in &record.0 {
            let file = files.get(*file as usize).ok_or(BadFiles)?;
            self.add(*descriptor, file, (*events, *data), quota)?;
        }
        Ok(())
    }

    /// When all pollers watch again, one of which may watch this one: what was told at an edge is not told again,
    /// unless more may have come from outside meanwhile. Gives what is to be woken for that, when all are as before.
    ///
    /// # Errors
    /// [`NotMade`].
    pub(in crate::files) fn as_before(
        &self,
        record: PollerRecord,
        files: &[Arc<OpenFile>],
    ) -> Result<Vec<Waker>, NotMade> {
        let mut changed = Vec::new();
        for InterestRecord { descriptor, file, events, data, queued, changes: before } in record.0 {
            let file = files.get(file as usize).ok_or(BadFiles)?;
            let Some(interest) = self
                .set
                .table
                .lock()
                .entries
                .get(&super::key(descriptor, file))
                .map(|entry| Arc::clone(&entry.interest))
            else {
                continue;
            };
            // Adding it made it say more than it did if it was told once.
            *interest.asked.lock() = Asked { events, data };
            if queued {
                continue;
            }
            self.set.queue.lock().retain(|queued| !Arc::ptr_eq(queued, &interest));
            interest.queued.store(false, Ordering::Release);
            let waker = Waker::from(Arc::clone(&interest));
            if file.watch(&waker).is_err() {
                return Err(Errno::ENOMEM.into());
            }
            let now = changes(file);
            if events & ask::ALL != events && (now.is_none() || now != before) {
                changed.push(waker);
            }
        }
        Ok(changed)
    }
}
