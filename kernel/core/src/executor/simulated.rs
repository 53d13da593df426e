//! Cores of nodes that live together in one thread of the host, as a simulated world has them. Each has tasks, timers
//! and a clock of its own, and runs when it is told to.
//!
//! A thread that has none of these is one core, as tests know it ([`super::run_to_end`]).

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use super::core_state::CoreState;
use super::platform;
use super::task::{Task, TaskHandle};
use super::timer::Timers;

/// How often a core's tasks have their turns in one call: more mean that they go round in circles, and the call would
/// never end.
const TURNS_MAX: u32 = 1_000_000;

/// The tasks of a core that may still be there.
type Tasks = Rc<RefCell<Vec<Weak<Task>>>>;

std::thread_local! {
    static CURRENT: Cell<&'static CoreState> = Cell::new(new_state());
    static TASKS: RefCell<Option<Tasks>> = const { RefCell::new(None) };
    /// Those whose nodes are gone, for others: what a task refers to is never freed.
    static IDLE: RefCell<Vec<&'static CoreState>> = const { RefCell::new(Vec::new()) };
}

fn new_state() -> &'static CoreState {
    Box::leak(Box::new(CoreState::new(0)))
}

/// The core that runs in this thread.
pub(super) fn current() -> &'static CoreState {
    CURRENT.get()
}

/// A task was made.
pub(super) fn note(task: &Arc<Task>) {
    TASKS.with_borrow(|tasks| {
        let Some(tasks) = tasks else { return };
        let mut tasks = tasks.borrow_mut();
        // Room is made by those that are gone before there is more of it.
        if tasks.len() == tasks.capacity() {
            tasks.retain(|task| task.strong_count() > 0);
        }
        tasks.push(Arc::downgrade(task));
    });
}

/// One core of one node. When it is dropped all of its tasks are, wherever they wait.
pub struct SimulatedCore {
    state: &'static CoreState,
    tasks: Tasks,
    now_ns: u64,
}

impl Default for SimulatedCore {
    fn default() -> Self {
        Self::new()
    }
}

impl SimulatedCore {
    /// One with nothing to do.
    #[must_use]
    pub fn new() -> Self {
        let state = IDLE.with_borrow_mut(Vec::pop).unwrap_or_else(new_state);
        Self { state, tasks: Tasks::default(), now_ns: 0 }
    }

    /// Does something on this core when its clock shows `now_ns`, and then runs its tasks until none is ready.
    ///
    /// # Panics
    /// The tasks wake each other, or themselves, for ever.
    pub fn run<R>(&mut self, now_ns: u64, f: impl FnOnce() -> R) -> R {
        self.now_ns = now_ns;
        self.enter(|state| {
            let result = f();
            let rests = (0..TURNS_MAX).any(|_| !state.turn());
            assert!(rests, "tasks of a node have had {TURNS_MAX} turns at once, and go on");
            result
        })
    }

    /// The engine of the node's region has done something, which it finds out when it runs next.
    pub fn interrupt_by_region(&self) {
        self.state.region_came();
    }

    /// When a task of this core wants to go on by itself, on its clock, ns.
    #[must_use]
    pub fn deadline_ns(&self) -> Option<u64> {
        let next_ns = self.state.timers.next_ns();
        (next_ns != Timers::NEVER).then_some(next_ns)
    }

    fn enter<R>(&self, f: impl FnOnce(&'static CoreState) -> R) -> R {
        let earlier = (CURRENT.replace(self.state), platform::now_ns());
        let tasks = TASKS.replace(Some(Rc::clone(&self.tasks)));
        platform::set_now(self.now_ns);
        let result = f(self.state);
        TASKS.set(tasks);
        CURRENT.set(earlier.0);
        platform::set_now(earlier.1);
        result
    }
}

impl Drop for SimulatedCore {
    fn drop(&mut self) {
        let is_clean = self.enter(|state| {
            // What is dropped may start tasks.
            loop {
                let tasks = core::mem::take(&mut *self.tasks.borrow_mut());
                if tasks.is_empty() {
                    break;
                }
                tasks.iter().filter_map(Weak::upgrade).for_each(|task| TaskHandle::from(task).abort());
            }
            while state.turn() {}
            state.renew()
        });
        if is_clean {
            IDLE.with_borrow_mut(|idle| idle.push(self.state));
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;

    use spin::Mutex;

    use super::SimulatedCore;
    use crate::executor::{WaitQueue, now_ns, sleep, spawn, yield_now};

    #[test]
    fn cores_of_a_thread_have_their_own_clocks_and_tasks() {
        let said = Arc::new(Mutex::new(alloc::vec::Vec::new()));
        let mut cores = [SimulatedCore::new(), SimulatedCore::new()];
        for (number, core) in cores.iter_mut().enumerate() {
            let said = Arc::clone(&said);
            core.run(100 * number as u64, || {
                let spawned = spawn(async move {
                    sleep(10).await;
                    said.lock().push((number, now_ns()));
                });
                assert!(spawned.is_ok());
            });
        }
        assert_eq!(cores.each_ref().map(SimulatedCore::deadline_ns), [Some(10), Some(110)]);
        cores[1].run(200, || ());
        cores[0].run(12, || ());
        assert_eq!(*said.lock(), [(1, 200), (0, 12)]);
        assert_eq!(cores.each_ref().map(SimulatedCore::deadline_ns), [None, None]);
    }

    #[test]
    #[should_panic(expected = "and go on")]
    fn tasks_that_never_rest_are_noticed() {
        let mut core = SimulatedCore::new();
        core.run(0, || {
            let spawned = spawn(async {
                loop {
                    yield_now().await;
                }
            });
            assert!(spawned.is_ok());
        });
    }

    #[test]
    fn what_a_core_had_is_gone_with_it() {
        let (held, queue) = (Arc::new(()), Arc::new(WaitQueue::new()));
        let mut core = SimulatedCore::new();
        core.run(0, || {
            for _ in 0..3 {
                let (held, queue) = (Arc::clone(&held), Arc::clone(&queue));
                let spawned = spawn(async move {
                    queue.wait_until(|| None::<()>).await;
                    drop(held);
                });
                assert!(spawned.is_ok());
            }
        });
        assert_eq!(Arc::strong_count(&held), 4);
        let state = core.state;
        drop(core);
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(core::ptr::eq(SimulatedCore::new().state, state), "it is used again");
        queue.wake_all();
    }
}
