//! One core's tasks and timers, and the loop that runs them.

use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use alloc::sync::Arc;
use core::future::poll_fn;
use core::task::{Poll, Waker};

use super::platform;
use super::ready::{Next, Ready};
use super::sections::Sections;
use super::task::Task;
use super::timer::Timers;
use super::wait::Notify;
#[cfg(not(target_os = "none"))]
use super::wall::WallClock;
use crate::limits::TASKS_MAX;
use crate::sync::{LockLevel, Mutex};

/// What one core has to do.
pub(super) struct CoreState {
    /// Number of the core.
    index: usize,
    ready: Mutex<Ready>,
    /// Whether a task was woken since the last one was taken to be polled, for a look without the lock.
    wanted: AtomicBool,
    pub(super) timers: Timers,
    tasks_alive: AtomicUsize,
    /// When the alarm rings, ns; [`Timers::NEVER`]: it is not set.
    alarm_ns: AtomicU64,
    /// Time spent halted, ns.
    idle_ns: AtomicU64,
    /// Since when it is halted, ns; 0: it is not.
    halted_ns: AtomicU64,
    pub(super) sections: Sections,
    nic: Notify,
    region: Notify,
    /// That of the simulated node.
    #[cfg(not(target_os = "none"))]
    wall: WallClock,
}

impl CoreState {
    pub(super) const fn new(index: usize) -> Self {
        Self {
            index,
            ready: Mutex::new(LockLevel::Ready, Ready::new()),
            wanted: AtomicBool::new(false),
            timers: Timers::new(),
            tasks_alive: AtomicUsize::new(0),
            alarm_ns: AtomicU64::new(Timers::NEVER),
            idle_ns: AtomicU64::new(0),
            halted_ns: AtomicU64::new(0),
            sections: Sections::new(),
            nic: Notify::new(),
            region: Notify::new(),
            #[cfg(not(target_os = "none"))]
            wall: WallClock::new(),
        }
    }

    /// The region's engine has done something, of a simulated machine.
    #[cfg(not(target_os = "none"))]
    pub(super) fn region_came(&self) {
        self.region.notify();
    }

    /// Looks at interrupts and timers, then polls the task whose turn it is. False: none is ready.
    pub(super) fn turn(&self) -> bool {
        let now_ns = platform::now_ns();
        self.sections.look(now_ns);
        let came = platform::take_interrupts();
        if came.nic {
            self.nic.notify();
        }
        if came.region {
            self.region.notify();
        }
        if came.timer {
            self.alarm_ns.store(Timers::NEVER, Ordering::Relaxed);
        }
        if self.timers.next_ns() != Timers::NEVER {
            self.timers.fire(now_ns);
        }
        self.arm(self.timers.next_ns());
        self.wanted.store(false, Ordering::Relaxed);
        let next = self.ready.lock().next();
        match next {
            Some(Next::Kernel(task)) => task.poll(),
            Some(Next::Turn { task, left_ns, alarm_ns }) => {
                if let Some(alarm_ns) = alarm_ns {
                    self.arm(now_ns.saturating_add(alarm_ns));
                }
                task.begin_turn(now_ns);
                task.poll();
                let used_ns = platform::now_ns().saturating_sub(now_ns);
                let (waits, debtor) = {
                    let mut ready = self.ready.lock();
                    (ready.end_turn(used_ns, left_ns.saturating_sub(used_ns)), ready.pay(used_ns))
                };
                drop(waits);
                if let Some(debtor) = debtor {
                    debtor.wake();
                }
            }
            Some(Next::Debtor(debtor)) => debtor.wake(),
            None => return false,
        }
        true
    }

    /// Queues a task to be polled, and makes the core look at it if it is another one than this.
    pub(super) fn push(&self, task: Arc<Task>) {
        if self.ready.lock().push(task) {
            self.wanted.store(true, Ordering::Relaxed);
            if !self.is_current() {
                platform::interrupt(self.index);
            }
        }
    }

    /// Counts a task more, and makes room for all there are in the queues, so that waking them does not allocate.
    /// Returns whether there may be one more.
    pub(super) fn admit(&self) -> bool {
        let more = |alive| (alive < TASKS_MAX).then_some(alive + 1);
        let Ok(before) = self.tasks_alive.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) else {
            return false;
        };
        self.ready.lock().reserve(before + 1);
        true
    }

    /// A task is gone.
    pub(super) fn dismiss(&self) {
        self.tasks_alive.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether this is the core that runs.
    pub(super) fn is_current(&self) -> bool {
        self.index == platform::index()
    }

    /// As new, but for its numbers: nobody has a task or a timer here. False: somebody has.
    #[cfg(not(target_os = "none"))]
    pub(super) fn renew(&self) -> bool {
        self.alarm_ns.store(Timers::NEVER, Ordering::Relaxed);
        self.wanted.store(false, Ordering::Relaxed);
        self.wall.reset();
        self.tasks_alive.load(Ordering::Relaxed) == 0 && self.timers.next_ns() == Timers::NEVER
    }

    /// Sets the alarm, if it would ring too late: a task may stay in user mode until an interrupt. One that rings too
    /// early does no harm and is cheaper than to be set again: most timers are put off over and over and never ring.
    pub(super) fn arm(&self, next_ns: u64) {
        if next_ns < self.alarm_ns.load(Ordering::Relaxed) {
            self.alarm_ns.store(next_ns, Ordering::Relaxed);
            platform::set_alarm(next_ns);
        }
    }
}

#[cfg(target_os = "none")]
static CORES: [CoreState; crate::limits::CORES_MAX] = {
    let mut index = 0;
    let mut cores = [const { CoreState::new(0) }; crate::limits::CORES_MAX];
    while index < cores.len() {
        cores[index].index = index;
        index += 1;
    }
    cores
};

/// The core this runs on.
#[cfg(target_os = "none")]
#[inline]
pub(super) fn current() -> &'static CoreState {
    &CORES[platform::index()]
}

/// A core by its number. There is no task on one that does not run.
#[cfg(target_os = "none")]
pub(super) fn numbered(core: usize) -> &'static CoreState {
    assert!(core < cores(), "core {core} does not run");
    &CORES[core]
}

/// The core this runs on.
#[cfg(not(any(target_os = "none", all(test, feature = "model"))))]
pub(super) fn current() -> &'static CoreState {
    super::simulated::current()
}

/// The core this runs on, in a model.
#[cfg(all(test, feature = "model"))]
pub(super) fn current() -> &'static CoreState {
    platform::core().expect("a core of the model")
}

/// A core by its number; all of them are the thread's one.
#[cfg(not(target_os = "none"))]
pub(super) fn numbered(_core: usize) -> &'static CoreState {
    current()
}

/// Number of cores that run programs. Core 0 also runs the kernel's own tasks.
#[must_use]
pub fn cores() -> usize {
    platform::cores()
}

/// Number of tasks on all cores, the kernel's and the programs' threads.
#[must_use]
pub fn tasks() -> usize {
    (0..cores()).map(|core| numbered(core).tasks_alive.load(Ordering::Relaxed)).sum()
}

/// The core with the fewest tasks, on which a further one disturbs others least.
pub(super) fn least_busy() -> usize {
    last_with_fewest(cores(), |core| numbered(core).tasks_alive.load(Ordering::Relaxed))
}

/// Of several the last, as core 0 has the kernel's.
pub(super) fn last_with_fewest(cores: usize, tasks: impl Fn(usize) -> usize) -> usize {
    (0..cores).rev().min_by_key(|core| tasks(*core)).unwrap_or_default()
}

/// Has a core come back from the program it runs, or look once more at what there is to do before it goes into one or
/// halts.
pub fn interrupt(core: usize) {
    platform::interrupt(core);
}

/// Has this core come back from the program it is about to run when the monotonic clock shows `at_ns`, or earlier.
#[inline]
pub fn come_back_at(at_ns: u64) {
    current().arm(at_ns);
}

/// Has the core for a while, as a program does: until the alarm rings at most. Gives how long it still wants it, ns.
#[cfg(test)]
pub(crate) fn compute_until_alarm(duration_ns: u64) -> u64 {
    let (core, now_ns) = (current(), platform::now_ns());
    let alarm_ns = core.alarm_ns.load(Ordering::Relaxed).max(now_ns);
    let end_ns = now_ns.saturating_add(duration_ns);
    platform::advance_to(end_ns.min(alarm_ns));
    if alarm_ns >= end_ns {
        return 0;
    }
    core.alarm_ns.store(Timers::NEVER, Ordering::Relaxed);
    end_ns - alarm_ns
}

/// Monotonic time of this core, ns since boot; simulated on the host.
#[must_use]
pub fn now_ns() -> u64 {
    platform::now_ns()
}

/// That of the simulated node that runs.
#[cfg(not(target_os = "none"))]
pub(crate) fn wall_clock() -> &'static WallClock {
    &current().wall
}

/// How long this core was halted since boot because it had nothing to do, ns.
#[must_use]
pub fn idle_ns() -> u64 {
    current().idle_ns.load(Ordering::Relaxed)
}

/// The same of any core, with the halt that it may be in, until what the clock shows.
#[must_use]
pub(crate) fn idle_ns_until(core: usize, now_ns: u64) -> u64 {
    let core = numbered(core);
    let before_ns = core.idle_ns.load(Ordering::Relaxed);
    match core.halted_ns.load(Ordering::Relaxed) {
        0 => before_ns,
        since_ns => before_ns + now_ns.saturating_sub(since_ns),
    }
}

/// Whether another task came to want this core while the present one is polled. A task that runs for long without
/// awaiting should look now and then, and [`super::yield_now`] if so.
#[must_use]
pub fn others_are_ready() -> bool {
    current().wanted.load(Ordering::Relaxed)
}

/// Lets all others go first that are ready.
pub async fn give_way() {
    current().ready.lock().give_up_turn();
    super::yield_now().await;
}

/// Lets programs have this core for so long, ns, before the task goes on, as far as they want it. One task of a core
/// may wait so at a time; another one ends its wait.
pub async fn programs_first(duration_ns: u64) {
    let core = current();
    let mut debt = None;
    poll_fn(|context| {
        let mut ready = core.ready.lock();
        if let Some(number) = debt {
            // Whatever else wakes the task, it waits on.
            return if ready.owes(number) { Poll::Pending } else { Poll::Ready(()) };
        }
        let (number, other) = ready.owe(duration_ns, context.waker());
        debt = Some(number);
        drop(ready);
        other.into_iter().for_each(Waker::wake);
        Poll::Pending
    })
    .await;
}

/// Waits for the network card's next interrupt; one that came since the last call counts.
pub async fn nic_interrupt() {
    current().nic.notified().await;
}

/// Waits until the region's engine has done something; what it did since the last call counts.
pub async fn region_interrupt() {
    current().region.notified().await;
}

/// Runs this core's tasks for ever.
pub fn run() -> ! {
    let core = current();
    loop {
        if !core.turn() {
            // Interrupts are off from the look at them above to the halt, so none is missed.
            core.sections.leave();
            let since_ns = platform::now_ns();
            core.halted_ns.store(since_ns, Ordering::Relaxed);
            platform::wait_for_interrupt();
            // First this: who looks in between sees it once or not at all, and never twice.
            core.halted_ns.store(0, Ordering::Relaxed);
            core.idle_ns.fetch_add(platform::now_ns().saturating_sub(since_ns), Ordering::Relaxed);
        }
    }
}

/// Nothing is ready, nobody sleeps, and the future is not done.
#[cfg(not(target_os = "none"))]
#[derive(Debug, PartialEq, Eq)]
pub struct Stalled;

/// Runs this thread's tasks until `future` is done; simulated time jumps whenever nothing is ready.
///
/// # Errors
/// [`Stalled`] if nothing can ever happen again.
#[cfg(not(target_os = "none"))]
pub fn run_to_end<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Result<T, Stalled> {
    let core = current();
    let (sender, mut receiver) = super::oneshot::channel();
    let root = super::task::spawn(async move {
        // The receiver is below and lives on.
        let _ = sender.send(future.await);
    });
    root.map_err(|_| Stalled)?;
    loop {
        if let Some(output) = receiver.take() {
            return Ok(output);
        }
        if !core.turn() {
            match core.timers.next_ns() {
                Timers::NEVER => return Err(Stalled),
                next_ns => platform::advance_to(next_ns),
            }
        }
    }
}

#[cfg(all(test, feature = "model"))]
mod models;
#[cfg(all(test, feature = "model"))]
pub(crate) use models::check;
