//! Who of a job's threads on a node sleeps at which word of memory, for futex(2).
//!
//! Whether a thread may fall asleep is looked at under the same lock under which others are woken, so no wake is
//! missed.

use alloc::sync::Arc;
use alloc::vec::Vec;

use spin::Mutex;

use crate::executor::{self, Elapsed, Notify};
use crate::memory::SharedMemory;

/// A word that threads sleep at.
#[derive(Clone)]
pub(crate) enum Word {
    /// Of one process.
    Own {
        /// The process's id.
        pid: u32,
        /// Where it has the word.
        address: u64,
    },
    /// Of memory that several may show.
    Shared {
        /// The memory.
        memory: Arc<SharedMemory>,
        /// Where in it the word is, bytes.
        offset: u64,
    },
}

impl PartialEq for Word {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Own { pid, address }, Self::Own { pid: other_pid, address: other_address }) => {
                pid == other_pid && address == other_address
            }
            (Self::Shared { memory, offset }, Self::Shared { memory: other_memory, offset: other_offset }) => {
                Arc::ptr_eq(memory, other_memory) && offset == other_offset
            }
            _ => false,
        }
    }
}

/// A thread that sleeps.
struct Sleeper {
    word: Word,
    bits: u32,
    woken: Arc<Notify>,
}

/// The sleeping threads of a job on a node, those that have slept longest first. There are as many as threads at most.
#[derive(Default)]
pub(crate) struct Futexes(Mutex<Vec<Sleeper>>);

/// Takes a sleeper out that stops waiting.
struct Asleep<'a> {
    futexes: &'a Futexes,
    woken: Arc<Notify>,
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.futexes.0.lock().retain(|sleeper| !Arc::ptr_eq(&sleeper.woken, &self.woken));
    }
}

impl Futexes {
    /// Sleeps at a word, if it `may`, until somebody wakes it with one of these bits, or the monotonic clock shows
    /// `deadline_ns`.
    ///
    /// # Errors
    /// What `may` says; [`Elapsed`] in the result.
    pub(crate) async fn sleep<E>(
        &self,
        word: Word,
        bits: u32,
        deadline_ns: u64,
        may: impl FnOnce() -> Result<(), E>,
    ) -> Result<Result<(), Elapsed>, E> {
        let woken = Arc::new(Notify::new());
        {
            let mut sleepers = self.0.lock();
            may()?;
            sleepers.push(Sleeper { word, bits, woken: Arc::clone(&woken) });
        }
        let asleep = Asleep { futexes: self, woken };
        Ok(executor::timeout_at(deadline_ns, asleep.woken.notified()).await)
    }

    /// Wakes up to `count` threads that sleep at a word for one of these bits. Returns how many.
    pub(crate) fn wake(&self, word: &Word, count: usize, bits: u32) -> usize {
        let woken: Vec<Sleeper> = {
            let mut sleepers = self.0.lock();
            let mut left = count;
            let wakes = |sleeper: &mut Sleeper| {
                let is_it = left > 0 && sleeper.word == *word && sleeper.bits & bits != 0;
                left -= usize::from(is_it);
                is_it
            };
            sleepers.extract_if(.., wakes).collect()
        };
        woken.iter().for_each(|sleeper| sleeper.woken.notify());
        woken.len()
    }

    /// Lets up to `count` threads that sleep at a word sleep at another. Returns how many.
    pub(crate) fn move_on(&self, from: &Word, to: &Word, count: usize) -> usize {
        let mut sleepers = self.0.lock();
        let moved = sleepers.iter_mut().filter(|sleeper| sleeper.word == *from).take(count);
        moved.map(|sleeper| sleeper.word = to.clone()).count()
    }
}
