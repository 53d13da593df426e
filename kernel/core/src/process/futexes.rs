//! Who of a job's threads on a node sleeps at which word of memory, for futex(2).
//!
//! A table of queues, each behind a lock of its own; a word's queue follows from where the word is. Whether a thread
//! may fall asleep is looked at under the lock under which others are woken, so no wake is missed. Who has slept
//! longest is woken first. Falling asleep allocates nothing once a queue has had as many sleepers, until most have
//! gone.

mod record;

use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::future::poll_fn;
use core::task::{Poll, Waker};

use coppice_hal::heap::block_bytes;
use serde::{Deserialize, Serialize};
use spin::Once;

pub(crate) use self::record::Place;

use crate::limits::FUTEX_QUEUES;
use crate::sync::{LockLevel, Mutex, MutexGuard};

/// A word that threads sleep at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
        /// Which memory ([`crate::memory::SharedMemory::id`]).
        memory: u64,
        /// Where in it the word is, bytes.
        offset: u64,
    },
}

impl Word {
    /// Where threads sleep that wait for the word as a lock which is handed on ([`Futexes::hand_on`]). Words are
    /// aligned, so no other is like that.
    pub(crate) fn as_lock(self) -> Self {
        match self {
            Self::Own { pid, address } => Self::Own { pid, address: address | 1 },
            Self::Shared { memory, offset } => Self::Shared { memory, offset: offset | 1 },
        }
    }

    /// Index of its queue.
    fn queue(self) -> usize {
        /// 2⁶⁴ divided by the golden ratio, which spreads what lies close together.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        const SHIFT: u32 = u64::BITS - FUTEX_QUEUES.trailing_zeros();
        let (one, other) = match self {
            Self::Own { pid, address } => (pid.into(), address),
            Self::Shared { memory, offset } => (!memory, offset),
        };
        ((one.wrapping_mul(SPREAD) ^ (other >> 2)).wrapping_mul(SPREAD) >> SHIFT) as usize
    }
}

/// A thread's place in the queues: it has one, because it sleeps at one word at a time.
pub(crate) struct Sleeper {
    /// Index of the queue it is in. Changed under the locks of both queues.
    queue: AtomicUsize,
    /// It was taken out of its queue to go on. Set under that queue's lock.
    woken: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Default for Sleeper {
    fn default() -> Self {
        let (queue, woken) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { queue, woken, waker: Mutex::new(LockLevel::Waiters, None) }
    }
}

impl Sleeper {
    /// Has it go on, wherever it lies no more.
    pub(super) fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        if let Some(waker) = &*self.waker.lock() {
            waker.wake_by_ref();
        }
    }

    /// Has `waker` woken by [`Self::wake`]. The one of the last time is mostly the right one.
    fn register(&self, waker: &Waker) {
        let mut known = self.waker.lock();
        if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *known = Some(waker.clone());
        }
    }
}

/// Places that a queue keeps in any case.
const PLACES_KEPT: usize = 16;

/// A sleeper in a queue.
struct Entry {
    word: Word,
    bits: u32,
    sleeper: Arc<Sleeper>,
}

/// Those that have slept longest come first.
#[derive(Default)]
struct Queue(VecDeque<Entry>);

impl Queue {
    /// Wakes up to `count` that sleep at a word for one of these bits. Returns how many.
    fn wake(&mut self, word: Word, count: usize, bits: u32) -> usize {
        let (mut woken, mut index) = (0, 0);
        while woken < count
            && let Some(entry) = self.0.get(index)
        {
            if entry.word != word || entry.bits & bits == 0 {
                index += 1;
            } else if let Some(entry) = self.0.remove(index) {
                entry.sleeper.wake();
                woken += 1;
            }
        }
        self.settle();
        woken
    }

    /// Gives most of the memory back if most have gone: all queues together are to have no more than a few places for
    /// each thread, which is charged with them.
    #[inline]
    fn settle(&mut self) {
        let (length, capacity) = (self.0.len(), self.0.capacity());
        if capacity > PLACES_KEPT && length < capacity / 8 {
            self.0.shrink_to((2 * length).max(PLACES_KEPT));
        }
    }

    /// Takes up to `count` that sleep at a word out and gives them to `each`. Those that come meanwhile stay.
    fn take(&mut self, word: Word, count: usize, mut each: impl FnMut(&mut Self, Entry)) -> usize {
        let (mut taken, mut index) = (0, 0);
        for _ in 0..self.0.len() {
            if taken == count {
                break;
            }
            if self.0.get(index).is_none_or(|entry| entry.word != word) {
                index += 1;
            } else if let Some(entry) = self.0.remove(index) {
                each(self, entry);
                taken += 1;
            }
        }
        self.settle();
        taken
    }
}

/// The queues of a job on a node, which are made when somebody wants one: many programs never do. There are as many
/// sleepers as threads at most.
#[derive(Default)]
pub(crate) struct Futexes(Once<Box<[Mutex<Queue>]>>);

/// The locked queues of two words.
enum Two<'a> {
    One(MutexGuard<'a, Queue>),
    Both(MutexGuard<'a, Queue>, MutexGuard<'a, Queue>),
}

impl Two<'_> {
    fn first(&mut self) -> &mut Queue {
        match self {
            Self::One(queue) | Self::Both(queue, _) => queue,
        }
    }

    fn second(&mut self) -> &mut Queue {
        match self {
            Self::One(queue) | Self::Both(_, queue) => queue,
        }
    }
}

impl Futexes {
    /// A queue by its index.
    fn queue(&self, index: usize) -> &Mutex<Queue> {
        let make = || (0..FUTEX_QUEUES).map(|_| Mutex::new(LockLevel::Futexes, Queue::default())).collect();
        &self.0.call_once(make)[index]
    }

    /// What they take of the heap before anybody sleeps, bytes.
    pub(crate) const BYTES: usize = block_bytes(FUTEX_QUEUES * size_of::<Mutex<Queue>>());

    /// Has a thread lie down at a word, if it `may`: from then on it is woken by whoever wakes for one of these bits.
    /// It lies there until it is woken, or what [`Self::asleep`] gives is dropped.
    ///
    /// # Errors
    /// What `may` says.
    pub(crate) fn lie_down<E>(
        &self,
        sleeper: &Arc<Sleeper>,
        word: Word,
        bits: u32,
        may: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let index = word.queue();
        let mut queue = self.queue(index).lock();
        may()?;
        sleeper.queue.store(index, Ordering::Relaxed);
        sleeper.woken.store(false, Ordering::Relaxed);
        queue.0.push_back(Entry { word, bits, sleeper: Arc::clone(sleeper) });
        Ok(())
    }

    /// A thread that has lain down.
    pub(crate) fn asleep<'a>(&'a self, sleeper: &'a Arc<Sleeper>) -> Asleep<'a> {
        Asleep { futexes: self, sleeper }
    }

    /// Hands a lock on to the thread that has slept there longest, whose bits are its id: `hand` is told that id, or
    /// that there is none, and says whether the thread has the lock now.
    ///
    /// # Errors
    /// What `hand` says; then nobody is woken.
    pub(crate) fn hand_on<E>(&self, lock: Word, hand: impl FnOnce(Option<u32>) -> Result<bool, E>) -> Result<(), E> {
        let mut queue = self.queue(lock.queue()).lock();
        let at = queue.0.iter().position(|entry| entry.word == lock);
        let next = at.and_then(|at| queue.0.get(at)).map(|entry| entry.bits);
        if hand(next)?
            && let Some(entry) = at.and_then(|at| queue.0.remove(at))
        {
            entry.sleeper.wake();
        }
        Ok(())
    }

    /// Wakes up to `count` threads that sleep at a word for one of these bits. Returns how many.
    pub(crate) fn wake(&self, word: Word, count: usize, bits: u32) -> usize {
        // Where nobody ever wanted a queue nobody sleeps.
        self.0.get().map_or(0, |queues| queues[word.queue()].lock().wake(word, count, bits))
    }

    /// If it `may`, wakes up to `wakes` threads that sleep at a word and lets up to `moves` others sleep at another,
    /// behind those that are there. Returns how many it woke or moved.
    ///
    /// # Errors
    /// What `may` says.
    pub(crate) fn requeue<E>(
        &self,
        (from, wakes): (Word, usize),
        (to, moves): (Word, usize),
        may: impl FnOnce() -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut queues = self.lock_two(from, to);
        may()?;
        let woken = queues.first().wake(from, wakes, u32::MAX);
        let moved = match &mut queues {
            Two::One(queue) => queue.take(from, moves, |queue, entry| queue.0.push_back(Entry { word: to, ..entry })),
            Two::Both(first, second) => first.take(from, moves, |_, entry| {
                entry.sleeper.queue.store(to.queue(), Ordering::Relaxed);
                second.0.push_back(Entry { word: to, ..entry });
            }),
        };
        Ok(woken + moved)
    }

    /// Wakes up to so many threads that sleep at one word and, if `also` says so, up to so many that sleep at another.
    /// Returns how many.
    ///
    /// # Errors
    /// What `also` says.
    pub(crate) fn wake_two<E>(
        &self,
        (one, count): (Word, usize),
        (other, other_count): (Word, usize),
        also: impl FnOnce() -> Result<bool, E>,
    ) -> Result<usize, E> {
        let mut queues = self.lock_two(one, other);
        let also = also()?;
        let woken = queues.first().wake(one, count, u32::MAX);
        Ok(woken + if also { queues.second().wake(other, other_count, u32::MAX) } else { 0 })
    }

    /// Locks the queues of two words, the one that comes first in the table first.
    fn lock_two(&self, first: Word, second: Word) -> Two<'_> {
        let (first, second) = (first.queue(), second.queue());
        if first == second {
            return Two::One(self.queue(first).lock());
        }
        let lower = self.queue(first.min(second)).lock();
        let upper = self.queue(first.max(second)).lock_second();
        if first < second { Two::Both(lower, upper) } else { Two::Both(upper, lower) }
    }
}

/// A thread that lies at a word. It gets up when this is dropped.
pub(crate) struct Asleep<'a> {
    futexes: &'a Futexes,
    sleeper: &'a Arc<Sleeper>,
}

impl Asleep<'_> {
    /// Waits until somebody has woken it.
    pub(crate) async fn woken(&self) {
        poll_fn(|context| {
            if self.was_woken() {
                return Poll::Ready(());
            }
            self.sleeper.register(context.waker());
            // It may have happened on another core between the look and the registration.
            if self.was_woken() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn was_woken(&self) -> bool {
        self.sleeper.woken.load(Ordering::Acquire)
    }

    /// Gets up for another reason. Returns whether somebody had woken it before: then that is why it gets up, for the
    /// wake was counted and is lost otherwise.
    pub(crate) fn get_up(self) -> bool {
        self.leave()
    }

    /// Stays where it lies: whoever has it go on says [`Futexes::asleep`] again, or it lies there for ever.
    pub(crate) fn stay(self) {
        core::mem::forget(self);
    }

    fn leave(&self) -> bool {
        loop {
            if self.was_woken() {
                return true;
            }
            let mut queue = self.futexes.queue(self.sleeper.queue.load(Ordering::Relaxed)).lock();
            let at = queue.0.iter().position(|entry| Arc::ptr_eq(&entry.sleeper, self.sleeper));
            // If it is not there, it was woken or moved a moment ago.
            if let Some(entry) = at.and_then(|at| queue.0.remove(at)) {
                queue.settle();
                drop(queue);
                drop(entry);
                // Whoever drops this after it got up finds that nothing is to be done.
                self.sleeper.woken.store(true, Ordering::Relaxed);
                return false;
            }
        }
    }
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(all(test, feature = "model"))]
mod models;
#[cfg(test)]
mod tests;
