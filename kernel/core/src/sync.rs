//! Locks, and the order in which they may be taken.
//!
//! Several cores take locks at once, so two that each hold what the other wants would wait for ever. Therefore every
//! lock of the kernel's has a [`LockLevel`], and a lock is taken only while those held are of *lower* levels. Locks are
//! spin locks, never held across an await; interrupts are off in the kernel, so nobody who holds one is kept from the
//! core. Wakers may be called under any lock: what they take comes last.
//!
//! On a node the level is nothing but this rule. In tests each thread knows what it holds, and a lock that is taken out
//! of order panics, whether or not anybody is waiting for it.
//!
//! With the feature `model`, tests get the locks and atomics of a model checker, which tries the ways in which cores
//! may come between each other. What is modelled takes its atomics from here.

use core::ops::{Deref, DerefMut};

#[cfg(not(all(test, feature = "model")))]
pub(crate) use core::sync::atomic;

#[cfg(all(test, feature = "model"))]
pub(crate) use shuttle::sync::atomic;

#[cfg(not(all(test, feature = "model")))]
pub(crate) use core::hint::spin_loop;

#[cfg(all(test, feature = "model"))]
pub(crate) use shuttle::thread::yield_now as spin_loop;

/// What a lock guards, in the order in which locks are taken: those further down while those above are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LockLevel {
    /// The agent's orders.
    Agent,
    /// Which jobs and processes a node has.
    Jobs,
    /// What the processes of a job have in common.
    Job,
    /// Who sleeps at which word. Two queues: the one that comes first in the table first.
    Futexes,
    /// The timers of a process.
    ProcessTimers,
    /// The threads of a process.
    Threads,
    /// What a process does about signals, and which ones wait.
    Signals,
    /// The descriptors of a process.
    Descriptors,
    /// Which epolls watch which, while there come to be more.
    Nesting,
    /// Where an open file reads and writes on, what it watches, and what it stands for: a channel, a counter.
    OpenFile,
    /// What programs want to be told of a file, and PMI's own.
    Interest,
    /// Calls to the I/O node that are under way.
    Ship,
    /// A session with the I/O node.
    Session,
    /// The network stack, whose locks are the endpoint crate's.
    Network,
    /// A process's memory. One at a time.
    Space,
    /// Memory that several processes show.
    Shared,
    /// Which files of the I/O node a job knows.
    KnownFiles,
    /// What is known of one.
    KnownFile,
    /// What is known of names.
    KnownNames,
    /// What is kept of programs that have ended.
    Retention,
    /// Tables that are taken apart.
    Reaper,
    /// Facts that are looked up or changed and nothing else: names, times, options. Nothing is done under them.
    Fact,
    /// What is queued to be said to the I/O node, and handles that are to be closed.
    Outbox,
    /// Files that may have something to tell an epoll.
    Queue,
    /// Who watches files.
    Watchers,
    /// A task's future, where it waits.
    Task,
    /// Who waits for a condition or a value.
    Waiters,
    /// Who wants to be woken when.
    Timers,
    /// Tasks that are ready.
    Ready,
    /// Memory that was charged: what is dropped under any lock gives its charge back.
    Quota,
}

/// A lock. See this module.
pub(crate) struct Mutex<T: ?Sized> {
    order: order::Of,
    lock: raw::Mutex<T>,
}

/// Holds a lock until it is dropped.
pub(crate) struct MutexGuard<'a, T: ?Sized> {
    // Given up before the next field says so: the other way round would do no harm either.
    guard: raw::MutexGuard<'a, T>,
    _held: order::Held,
}

impl<T> Mutex<T> {
    /// A lock of this level around a value.
    pub(crate) const fn new(level: LockLevel, value: T) -> Self {
        Self { order: order::Of::new(level), lock: raw::Mutex::new(value) }
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until nobody holds the lock, and takes it.
    #[cfg_attr(not(target_os = "none"), track_caller)]
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let held = self.order.take();
        MutexGuard { guard: raw::lock(&self.lock), _held: held }
    }

    /// Takes the lock although another of its level is held, which comes first where they lie.
    #[cfg_attr(not(target_os = "none"), track_caller)]
    #[inline]
    pub(crate) fn lock_second(&self) -> MutexGuard<'_, T> {
        let held = self.order.take_second();
        MutexGuard { guard: raw::lock(&self.lock), _held: held }
    }

    /// The value, when nobody needs the lock any more.
    pub(crate) fn into_inner(self) -> T
    where
        T: Sized,
    {
        raw::into_inner(self.lock)
    }

    /// The value, which nobody else can reach.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        raw::get_mut(&mut self.lock)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// Notes that locks of another crate, whose outermost has this level, are taken and given up until this is dropped.
#[cfg_attr(not(target_os = "none"), track_caller)]
#[inline]
pub(crate) fn passing(level: LockLevel) -> order::Held {
    order::Of::new(level).take()
}

/// The locks themselves.
#[cfg(not(all(test, feature = "model")))]
mod raw {
    pub(super) use spin::{Mutex, MutexGuard};

    #[inline]
    pub(super) fn lock<T: ?Sized>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
        lock.lock()
    }

    pub(super) fn get_mut<T: ?Sized>(lock: &mut Mutex<T>) -> &mut T {
        lock.get_mut()
    }

    pub(super) fn into_inner<T>(lock: Mutex<T>) -> T {
        lock.into_inner()
    }
}

/// Those of the model checker.
#[cfg(all(test, feature = "model"))]
mod raw {
    use std::sync::PoisonError;

    pub(super) use shuttle::sync::{Mutex, MutexGuard};

    pub(super) fn lock<T: ?Sized>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
        lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get_mut<T: ?Sized>(lock: &mut Mutex<T>) -> &mut T {
        lock.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn into_inner<T>(lock: Mutex<T>) -> T {
        lock.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// On a node: nothing.
#[cfg(not(all(test, not(feature = "model"))))]
mod order {
    use super::LockLevel;

    pub(super) struct Of;

    /// A lock that is held.
    #[must_use]
    pub(crate) struct Held;

    impl Of {
        pub(super) const fn new(_level: LockLevel) -> Self {
            Self
        }

        #[inline]
        pub(super) fn take(&self) -> Held {
            Held
        }

        #[inline]
        pub(super) fn take_second(&self) -> Held {
            Held
        }
    }
}

/// In tests: what each thread holds.
#[cfg(all(test, not(feature = "model")))]
mod order {
    use alloc::vec::Vec;
    use core::cell::RefCell;
    use core::panic::Location;

    use super::LockLevel;

    type Taken = (LockLevel, &'static Location<'static>);

    std::thread_local! {
        static HELD: RefCell<Vec<Taken>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) struct Of(LockLevel);

    /// A lock that is held.
    #[must_use]
    pub(crate) struct Held(Taken);

    impl Of {
        pub(super) const fn new(level: LockLevel) -> Self {
            Self(level)
        }

        #[track_caller]
        pub(super) fn take(&self) -> Held {
            self.check(|held| held < self.0);
            self.have()
        }

        #[track_caller]
        pub(super) fn take_second(&self) -> Held {
            self.check(|held| held <= self.0);
            self.have()
        }

        #[track_caller]
        fn have(&self) -> Held {
            let taken = (self.0, Location::caller());
            HELD.with_borrow_mut(|held| held.push(taken));
            Held(taken)
        }

        #[track_caller]
        fn check(&self, may: impl Fn(LockLevel) -> bool) {
            let wrong = HELD.with_borrow(|held| held.iter().rfind(|(level, _)| !may(*level)).copied());
            if let Some((level, at)) = wrong {
                panic!("a lock of {:?} is wanted while one of {level:?} is held, taken at {at}", self.0);
            }
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            HELD.with_borrow_mut(|held| {
                if let Some(at) = held.iter().rposition(|taken| *taken == self.0) {
                    held.remove(at);
                }
            });
        }
    }
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    use super::{LockLevel, Mutex, passing};

    #[test]
    fn locks_are_taken_in_order() {
        let (files, space) = (Mutex::new(LockLevel::Descriptors, 1), Mutex::new(LockLevel::Space, 2));
        let one = files.lock();
        assert_eq!(*space.lock() + *one, 3);
        drop(one);
        let _passing = passing(LockLevel::Descriptors);
        assert_eq!(*space.lock(), 2);
    }

    #[test]
    #[should_panic(expected = "a lock of Descriptors is wanted while one of Space is held, taken at")]
    fn the_other_way_round_they_are_not() {
        let (files, space) = (Mutex::new(LockLevel::Descriptors, 1), Mutex::new(LockLevel::Space, 2));
        let _held = space.lock();
        let _ = files.lock();
    }

    #[test]
    #[should_panic(expected = "a lock of Space is wanted while one of Space is held")]
    fn nor_two_of_a_level() {
        let (one, other) = (Mutex::new(LockLevel::Space, 1), Mutex::new(LockLevel::Space, 2));
        let _held = one.lock();
        let _ = other.lock();
    }

    #[test]
    fn a_second_one_may_be() {
        let (one, other) = (Mutex::new(LockLevel::Futexes, 1), Mutex::new(LockLevel::Futexes, 2));
        let _held = one.lock();
        assert_eq!(*other.lock_second(), 2);
    }
}
