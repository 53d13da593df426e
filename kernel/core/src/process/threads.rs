//! The threads of a process, and how all of them come to their end.
//!
//! Each thread is a task of its own on its own core ([`crate::thread`]). A process ends when one of its threads
//! ends it (exit_group(2), a signal), when somebody else does, or with its last thread; [`Threads::end`] says so, and
//! the first to say it is heard. Then every thread's future is dropped on its own core, where nothing of it is left in
//! registers and no page table of its in use. Who waits for [`Threads::gone`] therefore knows that no core does
//! anything for the process any more.

pub(crate) mod record;

use crate::sync::atomic::{AtomicBool, Ordering};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal::heap::block_bytes;
use coppice_hal::user::extended;
use coppice_protocol::overlay::Values;

use super::activity::{self, Activity, Done};
use super::fetch::FETCH_BYTES;
use super::hold::{Hold, ThreadImage};
use super::placement;
use super::signals::Delivery;
use super::signals::frame::Frame;
use super::thread_state::STATE_BYTES;
use super::{End, ThreadState};
use crate::errno::Errno;
use crate::executor::WaitQueue;
use crate::limits::{THREAD_EXTRA_BYTES, THREAD_IDS, THREADS_MAX};
use crate::quota::Quota;
use crate::sync::{LockLevel, Mutex};

/// The threads of a process.
pub(crate) struct Threads {
    table: Mutex<Table>,
    /// Who holds them.
    pub(crate) hold: Hold,
    /// An end was said.
    ending: AtomicBool,
    /// That is no end: what is left of it goes on as another process.
    dissolved: AtomicBool,
    /// There was more than one at some time.
    several: AtomicBool,
    /// Told when the last one is gone.
    last: WaitQueue,
    /// Id of the first thread.
    first: u32,
    /// Id of the second; the others' follow.
    others: u32,
    /// What the future of one takes of the heap, bytes.
    life_bytes: usize,
}

struct Table {
    alive: BTreeMap<u32, Arc<ThreadState>>,
    /// How many ids after the second the next one is.
    next: u32,
    /// The core that got a thread last.
    last_core: usize,
    /// What threads that are gone used of the processor, ns.
    gone_cpu_ns: u64,
    /// The most that was ever said to have been used, ns.
    told_cpu_ns: u64,
    activity: Activity,
    end: Option<End>,
}

impl Threads {
    /// None yet. The first will have the id `first`; those of others are [`THREAD_IDS`] from `others` on. The future of
    /// one is a value of `life_bytes`.
    pub(crate) fn new(first: u32, others: u32, life_bytes: usize) -> Self {
        let table = Table {
            alive: BTreeMap::new(),
            next: 0,
            last_core: 0,
            gone_cpu_ns: 0,
            told_cpu_ns: 0,
            activity: Activity::none(),
            end: None,
        };
        Self {
            table: Mutex::new(LockLevel::Threads, table),
            hold: Hold::new(),
            ending: AtomicBool::new(false),
            dissolved: AtomicBool::new(false),
            several: AtomicBool::new(false),
            last: WaitQueue::new(),
            first,
            others,
            life_bytes: block_bytes(life_bytes),
        }
    }

    /// One more thread, with this name, which may run on the cores of `affinity`. All it takes is charged to `quota`
    /// now but for its task.
    ///
    /// # Errors
    /// `EAGAIN`: there are [`THREADS_MAX`], the process is at its end, or there is no memory for it. `EINVAL`: there is
    /// no core in `affinity`.
    pub(crate) fn add(&self, name: [u8; 16], affinity: u64, quota: &Arc<Quota>) -> Result<Arc<ThreadState>, Errno> {
        let charge = quota.charge(self.thread_bytes()).map_err(|_| Errno::EAGAIN)?;
        let mut table = self.table.lock();
        if table.end.is_some() || table.alive.len() >= THREADS_MAX {
            return Err(Errno::EAGAIN);
        }
        let core = if table.alive.is_empty() { affinity.trailing_zeros() as usize } else { table.choose(affinity)? };
        table.last_core = core;
        let tid = if table.alive.is_empty() && table.next == 0 { self.first } else { table.free_id(self.others) };
        let state = Arc::new(ThreadState::new(tid, name, core, affinity, charge));
        state.clock.measure(table.activity.is_measured);
        self.several.fetch_or(!table.alive.is_empty(), Ordering::Relaxed);
        table.alive.insert(tid, Arc::clone(&state));
        Ok(state)
    }

    /// A thread that may run on the cores of `affinity` from now on, and not on its own any more: which one it goes to.
    pub(crate) fn place_again(&self, affinity: u64) -> Option<usize> {
        let mut table = self.table.lock();
        let core = table.choose(affinity).ok()?;
        table.last_core = core;
        Some(core)
    }

    /// A thread is at its end, by itself (with this status) or because the process is. To be called when nothing of it
    /// is left.
    pub(crate) fn remove(&self, thread: &ThreadState, status: Option<u64>) {
        let was_last = {
            let mut table = self.table.lock();
            if table.alive.remove(&thread.tid).is_some() {
                table.gone_cpu_ns += thread.clock.ns();
                table.activity.gone.add(thread, activity::now_ns());
            }
            let was_last = table.alive.is_empty();
            if was_last {
                // As on Linux, what the last thread said counts if none ended the process.
                table.end.get_or_insert_with(|| End::status(status.unwrap_or(0)));
                self.ending.store(true, Ordering::Release);
            }
            was_last
        };
        if was_last {
            self.last.wake_all();
        }
        self.hold.tell();
    }

    /// Ends the process. The first end that is said is heard.
    pub(crate) fn end(&self, end: End) {
        self.take_down(end, false);
    }

    fn take_down(&self, end: End, dissolves: bool) {
        let threads = {
            let mut table = self.table.lock();
            if table.end.is_some() {
                return;
            }
            table.end = Some(end);
            self.dissolved.store(dissolves, Ordering::Release);
            self.ending.store(true, Ordering::Release);
            table.all()
        };
        threads.iter().for_each(|thread| thread.rouse());
        self.hold.tell();
        if threads.is_empty() {
            self.last.wake_all();
        }
    }

    /// Takes all threads down, of a process that is held, as at its end, but that nobody is told of an end. Not if an
    /// end was said before.
    pub(crate) fn dissolve(&self) {
        self.take_down(End::status(0), true);
    }

    /// Whether its threads were taken down without an end.
    pub(crate) fn is_dissolved(&self) -> bool {
        self.dissolved.load(Ordering::Acquire)
    }

    /// Whether the process is at its end.
    #[inline]
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// Waits until the process is at its end and no thread is left; how it ended.
    pub(crate) async fn gone(&self) -> End {
        self.last
            .wait_until(|| {
                let table = self.table.lock();
                if table.alive.is_empty() { table.end.clone() } else { None }
            })
            .await
    }

    /// As [`Self::gone`], of a process that was not taken down ([`Self::dissolve`]): of one that was, never.
    pub(crate) async fn ended(&self) {
        self.gone().await;
        if self.is_dissolved() {
            core::future::pending().await
        }
    }

    /// Those there are now.
    pub(crate) fn all(&self) -> Vec<Arc<ThreadState>> {
        self.table.lock().all()
    }

    /// The thread with this id.
    pub(crate) fn find(&self, tid: u32) -> Option<Arc<ThreadState>> {
        self.table.lock().alive.get(&tid).cloned()
    }

    /// Whether there was more than one at some time. Each thread knows of itself and of those that it began.
    #[inline]
    pub(crate) fn were_several(&self) -> bool {
        self.several.load(Ordering::Relaxed)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.table.lock().alive.len()
    }

    /// What all of them, gone ones included, used of the processor so far, ns. Never less than before, although a turn
    /// that ends on another core is not seen for a moment.
    pub(crate) fn cpu_ns(&self) -> u64 {
        let mut table = self.table.lock();
        let used_ns = table.gone_cpu_ns + table.alive.values().map(|thread| thread.clock.ns()).sum::<u64>();
        table.told_cpu_ns = table.told_cpu_ns.max(used_ns);
        table.told_cpu_ns
    }

    /// Whether it is measured where their time goes: of each from when it next begins or ceases to run. Says whether
    /// that is news.
    pub(super) fn measure(&self, on: bool) -> bool {
        let mut table = self.table.lock();
        if table.activity.is_measured == on {
            return false;
        }
        table.activity.is_measured = on;
        table.alive.values().for_each(|thread| thread.clock.measure(on));
        true
    }

    /// Tells what becomes of what all of them, gone ones included, have done so far.
    pub(super) fn tell(&self, values: impl FnOnce(&Done) -> Values) -> Values {
        let mut table = self.table.lock();
        // The clock first: what a thread says it does now it has done since before then.
        let now_ns = activity::now_ns();
        let mut done = table.activity.gone;
        table.alive.values().for_each(|thread| done.add(thread, now_ns));
        table.activity.tell(&values(&done))
    }

    /// What there is of that besides the threads themselves.
    pub(super) fn activity(&self) -> Activity {
        self.table.lock().activity
    }

    /// Goes on from that, before there is any thread.
    pub(super) fn go_on_from(&self, activity: Activity) {
        self.table.lock().activity = activity;
    }

    /// What a thread takes of the heap beside its task, bytes: its future, a fetch of pages, its state, its vector
    /// registers, and once more as much as these while a handler's frame is made, with the rest of that, or with the
    /// rest of its image while it is held.
    fn thread_bytes(&self) -> usize {
        let image_bytes = block_bytes(size_of::<ThreadImage>());
        let handler_bytes = block_bytes(size_of::<Frame>()) + block_bytes(size_of::<Delivery>());
        let own_bytes = self.life_bytes + FETCH_BYTES + STATE_BYTES + 2 * extended::heap_bytes();
        own_bytes + image_bytes + handler_bytes + THREAD_EXTRA_BYTES
    }
}

impl Table {
    fn all(&self) -> Vec<Arc<ThreadState>> {
        self.alive.values().cloned().collect()
    }

    fn choose(&self, affinity: u64) -> Result<usize, Errno> {
        let on = |core| self.alive.values().filter(|thread| thread.core() == core).count();
        placement::choose(affinity, self.last_core, on).ok_or(Errno::EINVAL)
    }

    /// An id that no thread has, and none had for as long as possible.
    fn free_id(&mut self, others: u32) -> u32 {
        loop {
            let tid = others + self.next % THREAD_IDS;
            self.next = (self.next + 1) % THREAD_IDS;
            // There are more ids than threads.
            if !self.alive.contains_key(&tid) {
                return tid;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::Threads;
    use crate::errno::Errno;
    use crate::limits::{THREAD_IDS, THREADS_MAX};
    use crate::process::End;
    use crate::quota::tests::quota;

    const NAME: [u8; 16] = [0; 16];

    #[test]
    fn ids_come_round_late_and_the_limit_holds() {
        let (threads, quota) = (Threads::new(7, 100, 1000), quota());
        let all: Vec<_> = (0..THREADS_MAX).map(|_| threads.add(NAME, 1, &quota).expect("room")).collect();
        assert_eq!((all[0].tid, all[1].tid, all[2].tid), (7, 100, 101));
        assert_eq!(threads.add(NAME, 1, &quota).err(), Some(Errno::EAGAIN));
        threads.remove(&all[1], None);
        // The place of the one that is gone is taken many times before its id comes round.
        for expected in THREADS_MAX as u32 - 1..THREAD_IDS {
            let thread = threads.add(NAME, 1, &quota).expect("room");
            assert_eq!(thread.tid, 100 + expected);
            threads.remove(&thread, None);
        }
        assert_eq!(threads.add(NAME, 1, &quota).expect("room").tid, 100);
    }

    #[test]
    fn a_thread_that_cannot_be_charged_is_not_made() {
        let (threads, quota) = (Threads::new(7, 100, 1000), quota());
        let mut rest = quota.charge(0).expect("nothing");
        while rest.grow(threads.thread_bytes() / 2).is_ok() {}
        assert_eq!(threads.add(NAME, 1, &quota).err(), Some(Errno::EAGAIN));
        assert_eq!((threads.count(), quota.taken()), (0, rest.bytes()));
        drop(rest);
        let thread = threads.add(NAME, 1, &quota).expect("room");
        thread.keep(100).expect("room");
        assert_eq!(quota.taken(), threads.thread_bytes() + 128);
        thread.end_call();
        assert_eq!(quota.taken(), threads.thread_bytes());
        thread.keep(5000).expect("room");
        threads.remove(&thread, None);
        drop(thread);
        assert_eq!(quota.taken(), 0);
    }

    #[test]
    fn the_first_end_is_heard() {
        let (threads, quota) = (Threads::new(7, 100, 1000), quota());
        let (first, second) =
            (threads.add(NAME, 1, &quota).expect("room"), threads.add(NAME, 1, &quota).expect("room"));
        threads.end(End::status(3));
        threads.end(End::status(4));
        assert!(threads.is_ending());
        assert_eq!(threads.add(NAME, 1, &quota).err(), Some(Errno::EAGAIN));
        threads.remove(&first, None);
        threads.remove(&second, Some(9));
        assert_eq!(crate::executor::run_to_end(async move { threads.gone().await }), Ok(End::status(3)));
    }

    #[test]
    fn without_an_end_the_last_thread_says_how_it_was() {
        let (threads, quota) = (Threads::new(7, 100, 1000), quota());
        let (first, second) =
            (threads.add(NAME, 1, &quota).expect("room"), threads.add(NAME, 1, &quota).expect("room"));
        threads.remove(&first, Some(5));
        assert!(!threads.is_ending());
        threads.remove(&second, Some(6));
        assert_eq!(crate::executor::run_to_end(async move { threads.gone().await }), Ok(End::status(6)));
    }

    #[test]
    fn who_was_taken_down_does_not_end() {
        let (threads, quota) = (Threads::new(7, 100, 1000), quota());
        let first = threads.add(NAME, 1, &quota).expect("room");
        threads.dissolve();
        threads.remove(&first, None);
        let end = async move {
            threads.gone().await;
            threads.ended().await;
        };
        assert!(crate::executor::run_to_end(end).is_err());
    }

    #[test]
    fn threads_are_spread_over_the_allowed_cores() {
        let (threads, quota) = (Threads::new(7, 100, 1000), quota());
        let cores: Vec<_> = (0..6).map(|_| threads.add(NAME, 0b1110, &quota).expect("room").core()).collect();
        assert_eq!(cores, [1, 2, 3, 1, 2, 3]);
        assert_eq!(threads.add(NAME, 0, &quota).err(), Some(Errno::EINVAL));
    }
}

#[cfg(all(test, feature = "model"))]
mod models;
