//! epoll(7): a set of open files, and which of them have something to tell.
//!
//! Each file that is watched has an [`Interest`] here, which is the waker registered with it. Woken, it queues itself.
//! Whoever waits looks at the queue only: it takes an interest out, registers it again, and looks whether the file has
//! something to tell. If so the interest goes back to the end of the queue (level-triggered), or stays out until it is
//! woken again (edge-triggered), or until the program says so (one-shot). So a wait costs what is ready, not what is
//! watched.
//!
//! A file is held weakly: it leaves the set when its last descriptor is closed.
//!
//! A poller may watch others ([`nesting`]). What wakes an interest of the inner one wakes whoever watches that; whether
//! it has something to tell is found by looking at its queue, where what is found stays ([`Poller::ready`]).

mod nesting;
pub(crate) mod record;

use crate::sync::atomic::{AtomicBool, Ordering};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::{Arc, Weak};
use alloc::task::Wake;
use alloc::vec::Vec;
use core::task::Waker;

use coppice_protocol::inspect::WATCHED_TOLD;

use self::nesting::{Links, Nesting};
use super::open_file::{Object, OpenFile};
use super::readiness::{Ready, Watchers};
use crate::errno::Errno;
use crate::limits::{INTEREST_PLACE_BYTES, INTERESTS_MAX, POLLER_NODE_BYTES};
use crate::quota::{Charge, Quota, shared_bytes};
use crate::sync::{LockLevel, Mutex};

/// What epoll_ctl(2) asks for besides readiness.
pub(crate) mod ask {
    /// Tell each change once (`EPOLLET`).
    pub(crate) const EDGE: u32 = 1 << 31;
    /// Tell once, then nothing until asked again (`EPOLLONESHOT`).
    pub(crate) const ONCE: u32 = 1 << 30;
    /// Do not let the machine sleep (`EPOLLWAKEUP`), which changes nothing here.
    pub(crate) const WAKE_UP: u32 = 1 << 29;
    /// Wake one waiter of several (`EPOLLEXCLUSIVE`), which changes nothing here: all may be woken.
    pub(crate) const EXCLUSIVE: u32 = 1 << 28;
    /// All of them.
    pub(crate) const ALL: u32 = EDGE | ONCE | WAKE_UP | EXCLUSIVE;
}

/// See this module.
pub(crate) struct Poller {
    set: Arc<Set>,
    _charge: Charge,
}

struct Set {
    table: Mutex<Table>,
    /// Interests that may have something to tell, each once. Has room for all, so that waking allocates nothing.
    queue: Mutex<VecDeque<Arc<Interest>>>,
    watchers: Watchers,
    /// Other sets that it watches or that watch it.
    links: Mutex<Links>,
    /// An interest could not be registered with its file.
    refused: AtomicBool,
}

/// What is watched, by descriptor and open file: a descriptor may come to stand for another file.
struct Table {
    entries: BTreeMap<Key, Entry>,
    /// As soon as there are so many, those of files that are gone are looked for.
    look_at: usize,
}

type Key = (i32, usize);

struct Entry {
    interest: Arc<Interest>,
    _charge: Charge,
}

/// One watched file.
struct Interest {
    set: Weak<Set>,
    key: Key,
    file: Weak<OpenFile>,
    /// It is in the queue.
    queued: AtomicBool,
    asked: Mutex<Asked>,
}

/// What a program wants to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    /// `EPOLL*`. Nothing but what [`ask`] has if it was told once, which was all that was wanted.
    events: u32,
    /// What it gets back with it.
    data: u64,
}

impl Wake for Interest {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(set) = self.set.upgrade() {
            set.push(self);
            set.watchers.notify();
        }
    }
}

impl Interest {
    /// Whether its file is gone.
    fn is_gone(&self) -> bool {
        self.file.strong_count() == 0
    }
}

impl Asked {
    /// With what is told whether it was asked for or not.
    fn new(events: u32, data: u64) -> Self {
        Self { events: events | u32::from(Ready::ALWAYS_TOLD.bits()), data }
    }

    fn ready(self) -> Ready {
        Ready::from_bits_truncate(self.events as u16)
    }
}

impl Table {
    /// Makes room for one more.
    ///
    /// # Errors
    /// `ENOSPC`.
    fn make_room(&mut self) -> Result<(), Errno> {
        if self.entries.len() >= self.look_at {
            self.entries.retain(|_, entry| !entry.interest.is_gone());
            self.look_at = (self.entries.len() * 2).clamp(LOOK_AT_MIN, INTERESTS_MAX);
        }
        if self.entries.len() < INTERESTS_MAX { Ok(()) } else { Err(Errno::ENOSPC) }
    }
}

/// With fewer files it is not looked for those that are gone.
const LOOK_AT_MIN: usize = 64;

impl Set {
    /// Registers an interest with its file again and looks what there is to tell.
    fn look(&self, interest: &Arc<Interest>) -> Option<(Ready, Asked)> {
        let Some(file) = interest.file.upgrade() else {
            let gone = {
                let mut table = self.table.lock();
                let is_it = |entry: &Entry| Arc::ptr_eq(&entry.interest, interest);
                let known = table.entries.get(&interest.key).is_some_and(is_it);
                if known { table.entries.remove(&interest.key) } else { None }
            };
            drop(gone);
            return None;
        };
        let asked = *interest.asked.lock();
        if asked.ready().is_empty() {
            return None;
        }
        // If there is no memory for that, it is woken at once, which queues it to be looked at again.
        if file.watch(&Waker::from(Arc::clone(interest))).is_err() {
            self.refused.store(true, Ordering::Release);
        }
        let told = file.ready() & asked.ready();
        // What is watched there has to be looked at now and then, so this has to be, too.
        if inner(&file).is_some_and(|inner| inner.refused.swap(false, Ordering::AcqRel)) {
            self.refused.store(true, Ordering::Release);
        }
        // That it came true while it was looked at queues it again. Told now, it would be told twice.
        (!told.is_empty() && !file.settle()).then_some((told, asked))
    }

    /// Queues an interest, if it is not queued.
    fn push(&self, interest: &Arc<Interest>) {
        if !interest.queued.swap(true, Ordering::AcqRel) {
            self.queue.lock().push_back(Arc::clone(interest));
        }
    }

    fn pop(&self) -> Option<Arc<Interest>> {
        let interest = self.queue.lock().pop_front()?;
        self.was_taken(&interest);
        Some(interest)
    }

    /// The first that is queued, which stays there.
    fn first(&self) -> Option<Arc<Interest>> {
        self.queue.lock().front().cloned()
    }

    /// Takes one out of the queue; false if another thread has.
    fn take(&self, interest: &Arc<Interest>) -> bool {
        {
            let mut queue = self.queue.lock();
            let Some(place) = queue.iter().position(|queued| Arc::ptr_eq(queued, interest)) else { return false };
            queue.remove(place);
        }
        self.was_taken(interest);
        true
    }

    /// One is not in the queue any more.
    fn was_taken(&self, interest: &Arc<Interest>) {
        // What has come true and is yet to be announced is so now, as long as that does not queue this one again: it
        // is about to be looked at, and what that finds is not to be told another time when it is announced.
        if let Some(file) = interest.file.upgrade() {
            file.settle();
        }
        // From here on a change queues it again.
        interest.queued.store(false, Ordering::Release);
    }
}

/// The set of a file that is a poller.
fn inner(file: &OpenFile) -> Option<&Arc<Set>> {
    match &file.object {
        Object::Poller(poller) => Some(&poller.set),
        _ => None,
    }
}

fn key(number: i32, file: &Arc<OpenFile>) -> Key {
    (number, Arc::as_ptr(file) as usize)
}

impl Poller {
    /// One that watches nothing.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new(quota: &Arc<Quota>) -> Result<Self, Errno> {
        let charge =
            quota.charge(shared_bytes::<Set>() + Watchers::BYTES_FREE + POLLER_NODE_BYTES + nesting::LINKS_BYTES)?;
        let table = Mutex::new(LockLevel::OpenFile, Table { entries: BTreeMap::new(), look_at: LOOK_AT_MIN });
        let queue = Mutex::new(LockLevel::Queue, VecDeque::new());
        let links = Mutex::new(LockLevel::Fact, Links::default());
        let (watchers, refused) = (Watchers::new(quota), AtomicBool::new(false));
        Ok(Self { set: Arc::new(Set { table, queue, watchers, links, refused }), _charge: charge })
    }

    /// Watches a file under a descriptor's number.
    ///
    /// # Errors
    /// `EEXIST`: it is watched already. `EPERM`: it never makes anybody wait. `ELOOP`: it is a poller that watches this
    /// one, or too many that watch each other. `ENOSPC`: too many are watched. `ENOMEM`.
    pub(crate) fn add(
        &self,
        number: i32,
        file: &Arc<OpenFile>,
        (events, data): (u32, u64),
        quota: &Arc<Quota>,
    ) -> Result<(), Errno> {
        if !file.makes_wait() {
            return Err(Errno::EPERM);
        }
        let inner = inner(file);
        let charge = quota.charge(shared_bytes::<Interest>() + INTEREST_PLACE_BYTES)?;
        let interest = Arc::new(Interest {
            set: Arc::downgrade(&self.set),
            key: key(number, file),
            file: Arc::downgrade(file),
            queued: AtomicBool::new(false),
            asked: Mutex::new(LockLevel::Interest, Asked::new(events, data)),
        });
        {
            let nesting = inner.map(|inner| Nesting::between(&self.set, inner)).transpose();
            let mut table = self.set.table.lock();
            if table.entries.contains_key(&interest.key) {
                return Err(Errno::EEXIST);
            }
            let nesting = nesting?;
            table.make_room()?;
            let mut queue = self.set.queue.lock();
            // Those of files that are gone may have left the table and still be queued.
            let more = table.entries.len() + 1;
            if queue.capacity() <= more {
                queue.retain(|queued| !queued.is_gone());
                queue.try_reserve(more).map_err(|_| Errno::ENOMEM)?;
            }
            table.entries.insert(interest.key, Entry { interest: Arc::clone(&interest), _charge: charge });
            drop((queue, table));
            if let Some((nesting, inner)) = nesting.zip(inner) {
                nesting.link(&self.set, inner);
            }
        }
        // The first look registers it.
        interest.wake();
        Ok(())
    }

    /// Changes what is to be told of a file.
    ///
    /// # Errors
    /// `ENOENT`: it is not watched under this number. `EINVAL`: it was, or would be, watched exclusively.
    pub(crate) fn change(&self, number: i32, file: &Arc<OpenFile>, (events, data): (u32, u64)) -> Result<(), Errno> {
        let interest = {
            let table = self.set.table.lock();
            let entry = table.entries.get(&key(number, file)).ok_or(Errno::ENOENT)?;
            let mut current = entry.interest.asked.lock();
            if (current.events | events) & ask::EXCLUSIVE != 0 {
                return Err(Errno::EINVAL);
            }
            *current = Asked::new(events, data);
            Arc::clone(&entry.interest)
        };
        interest.wake();
        Ok(())
    }

    /// Does not watch a file any more.
    ///
    /// # Errors
    /// `ENOENT`: it is not watched under this number.
    pub(crate) fn remove(&self, number: i32, file: &Arc<OpenFile>) -> Result<(), Errno> {
        let removed = {
            let mut table = self.set.table.lock();
            let entry = table.entries.remove(&key(number, file)).ok_or(Errno::ENOENT)?;
            self.set.queue.lock().retain(|queued| !Arc::ptr_eq(queued, &entry.interest));
            // A change that comes now, from a file that still has the waker, is not to queue it again; and a thread
            // that took it out of the queue to look at it finds that nothing is to be told.
            entry.interest.queued.store(true, Ordering::Release);
            *entry.interest.asked.lock() = Asked { events: 0, data: 0 };
            entry
        };
        drop(removed);
        if let Some(inner) = inner(file) {
            nesting::unlink(&self.set, inner);
        }
        Ok(())
    }

    /// The first files that are watched, as [`coppice_protocol::inspect`] tells them, and how many there are.
    pub(crate) fn watched(&self) -> (Vec<(i32, u64, u32)>, u32) {
        let table = self.set.table.lock();
        let told = |entry: &Entry| {
            let interest = &entry.interest;
            Some((interest.key.0, interest.file.upgrade()?.id, interest.asked.lock().events))
        };
        let there = table.entries.values().filter(|entry| !entry.interest.is_gone());
        (there.clone().take(WATCHED_TOLD).filter_map(told).collect(), there.count() as u32)
    }

    /// How many interests are worth a look. 0: waiting would be in order.
    pub(crate) fn queued(&self) -> usize {
        self.set.queue.lock().len()
    }

    /// Whether one was queued again since this was asked last because it could not be registered: waiting for it has to
    /// be looking at it now and then.
    pub(crate) fn was_refused(&self) -> bool {
        self.set.refused.swap(false, Ordering::AcqRel)
    }

    /// Looks at what is queued and gives what there is to tell to `tell`, at most `limit` times, or until that says
    /// that it cannot take it. Returns how often it could.
    pub(crate) fn collect(&self, limit: usize, mut tell: impl FnMut(Ready, u64) -> bool) -> usize {
        let mut told = 0;
        for _ in 0..self.queued() {
            if told == limit {
                break;
            }
            let Some(interest) = self.set.pop() else { break };
            let Some((ready, asked)) = self.set.look(&interest) else { continue };
            if asked.events & ask::ONCE != 0 {
                let mut current = interest.asked.lock();
                // Another thread was told, or asked for something else, in which case it is queued again.
                if *current != asked {
                    continue;
                }
                current.events &= ask::ALL;
            }
            if !tell(ready, asked.data) {
                let mut current = interest.asked.lock();
                if current.events == asked.events & ask::ALL {
                    current.events = asked.events;
                }
                drop(current);
                self.put_back(interest);
                break;
            }
            if asked.events & (ask::ONCE | ask::EDGE) == 0 {
                self.set.push(&interest);
                // For a moment it was not there for others to see.
                self.set.watchers.notify();
            }
            told += 1;
        }
        told
    }

    /// Puts an interest back to where it was taken from.
    fn put_back(&self, interest: Arc<Interest>) {
        if !interest.queued.swap(true, Ordering::AcqRel) {
            self.set.queue.lock().push_front(interest);
        }
        self.set.watchers.notify();
    }

    /// See [`OpenFile::ready`]: whether there is something to tell. What is not is looked at once only.
    pub(crate) fn ready(&self) -> Ready {
        for _ in 0..self.queued() {
            let Some(interest) = self.set.first() else { break };
            // In its place, where others see it meanwhile: so nobody need be told that it is still there, who would
            // look here and have himself told again.
            if self.set.look(&interest).is_some() {
                return Ready::READ;
            }
            // A change that came before it is out of the queue is found by looking again.
            if self.set.take(&interest) && self.set.look(&interest).is_some() {
                self.put_back(interest);
                return Ready::READ;
            }
        }
        Ready::empty()
    }

    /// See [`OpenFile::watch`].
    pub(crate) fn watch(&self, waker: &Waker) -> Result<(), Errno> {
        self.set.watchers.watch(waker)
    }
}

#[cfg(all(test, feature = "model"))]
mod models;
#[cfg(test)]
mod tests;
