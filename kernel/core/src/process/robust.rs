//! What a thread leaves to those that wait for it when it ends: locks it holds, and word that it is gone.
//!
//! A *robust list* (set_robust_list(2)) is a list in the program's memory of the locks a thread holds. They are marked
//! as a dead thread's, and for each one who waits is woken, who then puts right what the lock guards. The list is the
//! program's: wild pointers end the walk, and it is no longer than [`ROBUST_ENTRIES_MAX`].

use crate::abi::futex::owner;
use crate::limits::ROBUST_ENTRIES_MAX;
use crate::memory::CopyError;
use crate::process::futexes::Word;
use crate::process::{Process, ThreadState};
use core::sync::atomic::Ordering;

/// Where in the head of a list the distance of a lock from its entry is.
const OFFSET_AT: u64 = 8;
/// Where the entry is that the thread is about to put in or take out.
const PENDING_AT: u64 = 16;
/// The bit of an entry's address that says that its lock is handed on.
const PRIORITY: u64 = 1;

/// An entry could not be followed.
struct Wild;

impl From<CopyError> for Wild {
    fn from(_: CopyError) -> Self {
        Self
    }
}

impl Process {
    /// The word at an address, by the memory that shows there if several may show it.
    pub(crate) fn word(&self, address: u64) -> Word {
        match self.space.lock().shared_at(address) {
            Some((memory, offset)) => Word::Shared { memory, offset },
            None => Word::Own { pid: self.identity.pid, address },
        }
    }

    /// A thread has made its last step: gives up its locks, and announces its end where that was asked for.
    pub(crate) fn let_go(&self, thread: &ThreadState) {
        let head = thread.robust_list.load(Ordering::Relaxed);
        if head != 0 {
            // What comes behind a wild pointer is nobody's loss but the program's.
            let _ = self.give_up_locks(thread.tid, head);
        }
        let announced = thread.clear_tid.load(Ordering::Relaxed);
        if announced != 0 && self.space.lock().write_bytes(announced, &[0; 4]).is_ok() {
            self.wake_one(announced);
        }
    }

    fn wake_one(&self, address: u64) {
        self.job.futexes.wake(self.word(address), 1, u32::MAX);
    }

    /// Hands a lock that its dead thread had on, as that. If it cannot be, nobody is harmed but its program.
    fn hand_on_dead(&self, lock: u64) {
        let place = self.word(lock).as_lock();
        let _ = self.job.futexes.hand_on(place, |next| {
            let Some(next) = next else { return Ok(false) };
            let is_free = |word: u32| word & owner::THREAD == 0;
            let new = next | owner::WAITERS | owner::DIED;
            let before = self.space.lock().update_word(lock, |word| is_free(word).then_some(new))?;
            Ok::<_, CopyError>(is_free(before))
        });
    }

    fn give_up_locks(&self, tid: u32, head: u64) -> Result<(), Wild> {
        let read = |address: u64| self.space.lock().read_u64(address);
        let (mut entry, offset) = (read(head)?, read(at(head, OFFSET_AT))?);
        let pending = read(at(head, PENDING_AT))?;
        for _ in 0..ROBUST_ENTRIES_MAX {
            if entry & !PRIORITY == head {
                break;
            }
            // Read before the lock is given up: who gets it may free it.
            let next = read(entry & !PRIORITY);
            if entry & !PRIORITY != pending & !PRIORITY {
                self.give_up_lock(tid, at(entry & !PRIORITY, offset), entry & PRIORITY != 0, false)?;
            }
            entry = next?;
        }
        if pending & !PRIORITY != 0 {
            self.give_up_lock(tid, at(pending & !PRIORITY, offset), pending & PRIORITY != 0, true)?;
        }
        Ok(())
    }

    /// Marks a lock as a dead thread's, if this thread has it. One that is `pending` may have been released, and who
    /// waits for it not woken.
    fn give_up_lock(&self, tid: u32, lock: u64, has_priorities: bool, pending: bool) -> Result<(), Wild> {
        if !lock.is_multiple_of(4) {
            return Err(Wild);
        }
        let is_own = |word: u32| word & owner::THREAD == tid;
        let died = |word: u32| is_own(word).then_some(word & owner::WAITERS | owner::DIED);
        let mut space = self.space.lock();
        let word = space.load_word(lock)?;
        // Only what is to be changed needs to be writable.
        let word = if is_own(word) { space.update_word(lock, died)? } else { word };
        drop(space);
        let is_free = word & owner::THREAD == 0;
        if has_priorities && is_own(word) && word & owner::WAITERS != 0 {
            self.hand_on_dead(lock);
        }
        if !has_priorities && (pending && is_free || is_own(word) && word & owner::WAITERS != 0) {
            self.wake_one(lock);
        }
        Ok(())
    }
}

/// Addresses wrap, and are wild then.
fn at(address: u64, offset: u64) -> u64 {
    address.wrapping_add(offset)
}
