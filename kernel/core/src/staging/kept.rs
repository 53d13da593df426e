//! The files that the node keeps without a job, by their content.
//!
//! They take memory that nobody else wants just then: whoever finds no free frame has the one given back that was used
//! longest ago, as retained page tables are ([`crate::memory::Retention`]); also one that is still on its way. What a
//! job uses stays until it has ended, as the job's own memory does.

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

use coppice_hal::addr::PAGE_BYTES;
use coppice_protocol::distribution::Plan;
use coppice_protocol::ids::ProgramId;
use coppice_protocol::limits::KEPT_FILES_MAX;
use coppice_protocol::retain::{HeldAs, RetainedProgram};

use super::room::Room;
use crate::memory::Spare;
use crate::sync::{LockLevel, Mutex};

/// See this module.
pub(crate) struct KeptFiles {
    entries: Mutex<Vec<Entry>>,
}

struct Entry {
    room: Arc<Room>,
    /// When it was used last, as [`crate::memory::Retention::next_use`] counts.
    used: u64,
    /// Frames that it takes, page tables included, when all of it is there.
    frames: u64,
    is_whole: bool,
}

impl Entry {
    /// Whether nobody uses it but for a moment.
    fn is_spare(&self) -> bool {
        Arc::strong_count(&self.room) == 1 && Arc::strong_count(&self.room.bytes) == 1
    }

    fn held(&self) -> RetainedProgram {
        let (pages, bytes) = (self.room.bytes.pages(), self.frames * PAGE_BYTES as u64);
        RetainedProgram { program: self.room.content, pages, bytes, held_as: HeldAs::File }
    }
}

impl Default for KeptFiles {
    fn default() -> Self {
        Self { entries: Mutex::new(LockLevel::Retention, Vec::new()) }
    }
}

impl KeptFiles {
    /// A file is on its way, into this room, which goes when its memory is wanted. `None` if there is no memory to
    /// remember it.
    pub(super) fn begin(self: &Arc<Self>, room: Room, used: u64) -> Option<Coming> {
        let room = Arc::new(room);
        let coming = Coming { kept: Arc::clone(self), room: Arc::downgrade(&room) };
        let mut entries = self.entries.lock();
        entries.try_reserve(1).ok()?;
        entries.push(Entry { room, used, frames: 0, is_whole: false });
        Some(coming)
    }

    /// The room of a file that is kept, if its pieces are as the plan has them. It counts as used now.
    pub(super) fn find(&self, content: ProgramId, plan: &Plan, used: u64) -> Option<Arc<Room>> {
        let mut entries = self.entries.lock();
        let fits = |entry: &&mut Entry| entry.is_whole && entry.room.content == content && entry.room.fits(plan);
        let entry = entries.iter_mut().find(fits)?;
        entry.used = used;
        Some(Arc::clone(&entry.room))
    }

    /// What those take that nobody uses, bytes.
    pub(crate) fn spare_bytes(&self) -> u64 {
        let entries = self.entries.lock();
        let frames = entries.iter().filter(|entry| entry.is_spare()).map(|entry| entry.frames);
        frames.sum::<u64>() * PAGE_BYTES as u64
    }

    /// Gives one file back, or all, but what is used. Returns what that was.
    pub(crate) fn discard(&self, content: Option<ProgramId>) -> Vec<RetainedProgram> {
        let goes = |entry: &mut Entry| entry.is_spare() && content.is_none_or(|content| entry.room.content == content);
        let gone: Vec<Entry> = self.entries.lock().extract_if(.., goes).collect();
        gone.iter().filter(|entry| entry.is_whole).map(Entry::held).collect()
    }

    /// All of a file is there. It is the only one of its content then, and those beyond the limit go.
    fn finish(&self, room: &Arc<Room>) -> bool {
        let frames = room.frames();
        let gone: Vec<Entry> = {
            let mut entries = self.entries.lock();
            let Some(entry) = entries.iter_mut().find(|entry| Arc::ptr_eq(&entry.room, room)) else { return false };
            (entry.is_whole, entry.frames) = (true, frames);
            let again = |entry: &mut Entry| {
                let is_same = entry.is_whole && entry.room.content == room.content;
                is_same && entry.is_spare() && !Arc::ptr_eq(&entry.room, room)
            };
            let mut gone: Vec<Entry> = entries.extract_if(.., again).collect();
            while entries.iter().filter(|entry| entry.is_whole).count() > KEPT_FILES_MAX {
                let Some(oldest) = oldest(&entries, |entry| entry.is_whole) else { break };
                gone.push(entries.swap_remove(oldest));
            }
            gone
        };
        drop(gone);
        true
    }

    /// A file does not come any more.
    fn give_up(&self, room: &Weak<Room>) {
        let goes = |entry: &mut Entry| !entry.is_whole && core::ptr::eq(Arc::as_ptr(&entry.room), room.as_ptr());
        let gone: Vec<Entry> = self.entries.lock().extract_if(.., goes).collect();
        drop(gone);
    }
}

/// Where the one lies that was used longest ago of those that nobody uses.
fn oldest(entries: &[Entry], may_go: impl Fn(&Entry) -> bool) -> Option<usize> {
    let spare = entries.iter().enumerate().filter(|(_, entry)| entry.is_spare() && may_go(entry));
    spare.min_by_key(|(_, entry)| entry.used).map(|(index, _)| index)
}

impl Spare for KeptFiles {
    fn oldest(&self) -> Option<u64> {
        let entries = self.entries.lock();
        oldest(&entries, |_| true).map(|index| entries[index].used)
    }

    fn give_back(&self) -> bool {
        let gone = {
            let mut entries = self.entries.lock();
            oldest(&entries, |_| true).map(|index| entries.swap_remove(index))
        };
        gone.is_some()
    }

    fn held(&self) -> Vec<RetainedProgram> {
        let mut held: Vec<(u64, RetainedProgram)> = {
            let entries = self.entries.lock();
            entries.iter().filter(|entry| entry.is_whole).map(|entry| (entry.used, entry.held())).collect()
        };
        held.sort_by_key(|(used, _)| core::cmp::Reverse(*used));
        held.into_iter().map(|(_, held)| held).collect()
    }

    fn bytes(&self) -> u64 {
        self.spare_bytes()
    }
}

/// A file that is on its way; unless all of it comes, nothing of it stays.
pub(super) struct Coming {
    kept: Arc<KeptFiles>,
    room: Weak<Room>,
}

impl Coming {
    /// Where it goes, as long as nobody wants that memory.
    pub(super) fn room(&self) -> Weak<Room> {
        Weak::clone(&self.room)
    }

    /// All of it has come. False if its memory was wanted.
    pub(super) fn finish(&self) -> bool {
        self.room.upgrade().is_some_and(|room| self.kept.finish(&room))
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.kept.give_up(&self.room);
    }
}
