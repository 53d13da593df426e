//! A task: a future, whether it is queued, and the core it belongs to.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use coppice_hal::heap::block_bytes;

use super::core_state::{CoreState, current, least_busy, numbered};
use super::queued::Queued;
use super::run_time::RunTime;
use crate::limits::TURN_NS;
use crate::quota::Charge;
use crate::sync::{LockLevel, Mutex};

type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One task.
pub(super) struct Task {
    core: &'static CoreState,
    /// It is in the ready queue.
    queued: Queued,
    /// It is to be noted when it is woken ([`RunTime::woken`]). Beside the flag that whoever wakes it changes anyway.
    notes_wakes: AtomicBool,
    /// What a program has left of its turn, ns. Tasks of the kernel take none.
    turn_left_ns: Option<AtomicU64>,
    /// Where it is noted how long the program had the processor, if somebody wants to know.
    run_time: Option<Arc<RunTime>>,
    /// What it was charged with if it is a program's ([`TASK_BYTES`]): it stays as long as any waker of it.
    _charge: Option<Charge>,
    slot: Mutex<Slot>,
}

/// What a task takes of the heap beside its future, bytes.
pub(crate) const TASK_BYTES: usize = block_bytes(ARC_BYTES + size_of::<Task>()) + block_bytes(size_of::<TaskFuture>());

/// The counts in front of what an `Arc` holds, bytes.
const ARC_BYTES: usize = 2 * size_of::<usize>();

/// Where a task's future is.
enum Slot {
    Waiting(TaskFuture),
    /// Taken out to be polled, right now.
    Polled,
    /// Aborted by another core, and to be dropped on its own.
    Aborted(TaskFuture),
    /// Done or aborted.
    Gone,
}

impl Task {
    /// What is left of its turn, ns, if it takes turns.
    pub(super) fn turn_left_ns(&self) -> Option<u64> {
        self.turn_left_ns.as_ref().map(|left_ns| left_ns.load(Ordering::Relaxed))
    }

    /// Its turn begins, or goes on.
    #[inline]
    pub(super) fn begin_turn(&self, now_ns: u64) {
        if let Some(run_time) = &self.run_time {
            let is_measured = run_time.begin(now_ns);
            self.notes_wakes.store(is_measured, Ordering::Relaxed);
        }
    }

    /// Its turn ends, or is interrupted, after so long, with so much left of it.
    #[inline]
    pub(super) fn end_turn(&self, used_ns: u64, left_ns: u64) {
        if let Some(turn) = &self.turn_left_ns {
            turn.store(left_ns, Ordering::Relaxed);
        }
        if let Some(run_time) = &self.run_time {
            run_time.end(used_ns);
        }
    }

    #[inline]
    fn note_wake(&self) {
        if self.notes_wakes.load(Ordering::Relaxed)
            && let Some(run_time) = &self.run_time
        {
            run_time.woken();
        }
    }

    /// Polls the future, outside the lock, so that it may do anything, even abort itself.
    pub(super) fn poll(self: Arc<Self>) {
        self.queued.taken();
        let taken = {
            let mut slot = self.slot.lock();
            match core::mem::replace(&mut *slot, Slot::Polled) {
                Slot::Waiting(future) => Some(future),
                Slot::Aborted(future) => {
                    *slot = Slot::Gone;
                    drop(slot);
                    drop(future);
                    self.core.dismiss();
                    return;
                }
                other => {
                    *slot = other;
                    None
                }
            }
        };
        let Some(mut future) = taken else { return };
        let waker = Waker::from(Arc::clone(&self));
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut slot = self.slot.lock();
        match (polled, &*slot) {
            (Poll::Pending, Slot::Polled) => {
                *slot = Slot::Waiting(future);
                drop(slot);
                if let Some(run_time) = &self.run_time {
                    run_time.pause();
                }
            }
            _ => {
                *slot = Slot::Gone;
                drop(slot);
                // The program may go on as another task already.
                self.notes_wakes.store(false, Ordering::Relaxed);
                drop(future);
                self.core.dismiss();
            }
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if self.queued.wake() {
            self.note_wake();
            let core = self.core;
            core.push(self);
        }
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.queued.wake() {
            self.note_wake();
            self.core.push(Arc::clone(self));
        }
    }
}

#[cfg(not(any(target_os = "none", all(test, feature = "model"))))]
impl From<Arc<Task>> for TaskHandle {
    fn from(task: Arc<Task>) -> Self {
        Self(task)
    }
}

/// A spawned task. Dropping the handle leaves the task alone.
pub struct TaskHandle(Arc<Task>);

impl TaskHandle {
    /// Drops the task's future where it waits, or, if it runs, as soon as it awaits. That happens on the task's own
    /// core, so if that is another one, it has not happened yet when this returns.
    pub fn abort(&self) {
        let mut slot = self.0.slot.lock();
        match core::mem::replace(&mut *slot, Slot::Gone) {
            Slot::Waiting(future) if self.0.core.is_current() => {
                drop(slot);
                drop(future);
                self.0.core.dismiss();
            }
            Slot::Waiting(future) | Slot::Aborted(future) => {
                *slot = Slot::Aborted(future);
                drop(slot);
                self.0.wake_by_ref();
            }
            Slot::Polled | Slot::Gone => {}
        }
    }

    /// Whether the task is done or aborted.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        matches!(*self.0.slot.lock(), Slot::Gone | Slot::Aborted(_))
    }
}

/// [`crate::limits::TASKS_MAX`] is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many tasks")]
pub struct TooManyTasks;

/// Starts a task of the kernel on this core. It is polled for the first time when the others of the kernel that are
/// ready have been.
///
/// # Errors
/// [`TooManyTasks`] at the limit; the future is dropped.
pub fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Result<TaskHandle, TooManyTasks> {
    start(current(), None, None, None, future)
}

/// As [`spawn`], on another core.
///
/// # Errors
/// As [`spawn`].
///
/// # Panics
/// If there is no such core: see [`super::cores`].
pub fn spawn_on(core: usize, future: impl Future<Output = ()> + Send + 'static) -> Result<TaskHandle, TooManyTasks> {
    start(numbered(core), None, None, None, future)
}

/// Starts a task that runs a program, which takes turns with others: see [`super::ready`].
///
/// # Errors
/// As [`spawn`].
pub fn spawn_program(future: impl Future<Output = ()> + Send + 'static) -> Result<TaskHandle, TooManyTasks> {
    start(current(), Some(AtomicU64::new(TURN_NS)), None, None, future)
}

/// As [`spawn_program`], for what is to disturb programs as little as it can: on a core that has nothing else to do, if
/// there is one.
///
/// # Errors
/// As [`spawn`].
pub(crate) fn spawn_aside(future: impl Future<Output = ()> + Send + 'static) -> Result<TaskHandle, TooManyTasks> {
    start(numbered(least_busy()), Some(AtomicU64::new(TURN_NS)), None, None, future)
}

/// As [`spawn_program`], on another core, noting in `run_time` how long the program has it. [`TASK_BYTES`] were charged
/// for it, and what the future takes.
///
/// # Errors
/// As [`spawn`].
///
/// # Panics
/// If there is no such core: see [`super::cores`].
pub(crate) fn spawn_program_on(
    core: usize,
    run_time: Arc<RunTime>,
    charge: Charge,
    future: impl Future<Output = ()> + Send + 'static,
) -> Result<TaskHandle, TooManyTasks> {
    start(numbered(core), Some(AtomicU64::new(TURN_NS)), Some(run_time), Some(charge), future)
}

/// Does work that takes long, in turns with the core's programs: between its steps it should [`super::yield_now`].
///
/// # Errors
/// [`TooManyTasks`] at the limit; nothing of it is done.
pub async fn in_turns<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T, TooManyTasks> {
    let (sender, receiver) = super::oneshot::channel();
    spawn_program(async move {
        // If nobody waits for it any more, it was done all the same.
        let _ = sender.send(work.await);
    })?;
    receiver.await.map_err(|_| TooManyTasks)
}

fn start(
    core: &'static CoreState,
    turn_left_ns: Option<AtomicU64>,
    run_time: Option<Arc<RunTime>>,
    charge: Option<Charge>,
    future: impl Future<Output = ()> + Send + 'static,
) -> Result<TaskHandle, TooManyTasks> {
    // Waking never allocates, so that it works whatever state the kernel is in.
    if !core.admit() {
        return Err(TooManyTasks);
    }
    let slot = Mutex::new(LockLevel::Task, Slot::Waiting(Box::pin(future)));
    let queued = Queued::of(AtomicBool::new(false));
    // What goes on on another core is ready from now on.
    let notes_wakes = AtomicBool::new(run_time.as_ref().is_some_and(|run_time| run_time.is_measured()));
    let task = Arc::new(Task { core, queued, notes_wakes, turn_left_ns, run_time, _charge: charge, slot });
    #[cfg(not(any(target_os = "none", all(test, feature = "model"))))]
    super::simulated::note(&task);
    task.wake_by_ref();
    Ok(TaskHandle(task))
}
