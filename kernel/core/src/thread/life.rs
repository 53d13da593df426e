//! A thread's task: it is started on a core, runs the thread there, and ends with it or hands it to another core.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::Poll;

use coppice_hal as hal;
use coppice_hal::user::UserThread;

use super::{Over, Thread};
use crate::errno::Errno;
use crate::executor::{self, TASK_BYTES, TooManyTasks};
use crate::process::hold::Position;
use crate::process::{Process, ThreadState};

/// Starts a thread: gives it a task on its core.
///
/// # Errors
/// `EAGAIN`: there are too many tasks, or there is no memory for one more. The thread is none of the process's any
/// more.
pub(crate) fn start(process: Arc<Process>, state: Arc<ThreadState>, user: UserThread) -> Result<(), Errno> {
    start_at(process, state, user, Position::Program)
}

/// The same of a thread that goes on from there.
///
/// # Errors
/// As there.
pub(crate) fn start_at(
    process: Arc<Process>,
    state: Arc<ThreadState>,
    user: UserThread,
    position: Position,
) -> Result<(), Errno> {
    let (threads, core) = (Arc::clone(&process.threads), state.core());
    let (added, clock) = (Arc::clone(&state), Arc::clone(&state.clock));
    let spawned = state.charge(TASK_BYTES).and_then(|charge| {
        let life = live(core, process, state, user, position);
        executor::spawn_program_on(core, clock, charge, life).map_err(|_| Errno::EAGAIN)
    });
    if spawned.is_err() {
        threads.remove(&added, None);
    }
    spawned.map(drop).map_err(|_| Errno::EAGAIN)
}

/// A thread's life on a core, whose type nobody has to know.
fn live(
    core: usize,
    process: Arc<Process>,
    state: Arc<ThreadState>,
    user: UserThread,
    position: Position,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let mut thread = Thread::new(core, process, state, user);
    if position != Position::Program {
        thread.held_at = Some(thread.on_node_clock(position));
    }
    Box::pin(life(thread))
}

/// Size of a thread's future, bytes.
pub(crate) const LIFE_BYTES: usize = size_of_output(life);

const fn size_of_output<T, F>(_: fn(T) -> F) -> usize {
    size_of::<F>()
}

/// A thread's life on one core. Dropped before its end, it leaves nothing.
#[expect(clippy::manual_async_fn, reason = "the future of an `async fn` has room for each argument twice")]
fn life(mut thread: Thread) -> impl Future<Output = ()> + Send {
    async move {
        let whose = Arc::clone(&thread.process);
        let known = Arc::clone(&thread.state);
        thread.follow_tracing();
        thread.notice_debugger();
        let over = thread.run_unless_ending().await;
        thread.leave_core();
        let status = match over {
            Some(Over::Move(core)) => match thread.go_to(core) {
                Ok(()) => return,
                // Never so: who has several cores has them alone, and has fewer threads than a core has room for.
                Err(TooManyTasks) => None,
            },
            Some(Over::Process(end)) => {
                thread.process.end(end);
                drop(thread);
                None
            }
            Some(Over::Thread(status)) => {
                let called = thread.process.signals.lock().leave(known.tid);
                thread.process.call_threads(called);
                drop(thread);
                Some(status)
            }
            None => {
                drop(thread);
                None
            }
        };
        if !whose.threads.is_dissolved() {
            known.end_call();
            whose.let_go(&known);
        }
        let threads = Arc::clone(&whose.threads);
        drop(whose);
        // Last of all: when all threads are gone, so is all they had.
        threads.remove(&known, status);
    }
}

impl Thread {
    /// Runs the thread to its end on this core; `None`: the process ended meanwhile.
    async fn run_unless_ending(&mut self) -> Option<Over> {
        let (process, state) = (Arc::clone(&self.process), Arc::clone(&self.state));
        poll_fn(|context| {
            state.runs_as(context.waker(), hal::cpu::index());
            Poll::Ready(())
        })
        .await;
        let mut run = pin!(self.run());
        poll_fn(|context| {
            if process.threads.is_ending() {
                return Poll::Ready(None);
            }
            run.as_mut().poll(context).map(Some)
        })
        .await
    }

    /// Leaves nothing of the thread in the core, which may go on to anything.
    fn leave_core(&mut self) {
        self.state.stops();
        self.user.save_fpu();
        self.table.leave();
    }

    /// Goes on on another core.
    fn go_to(self, core: usize) -> Result<(), TooManyTasks> {
        let Self { process, state, user, moves, .. } = self;
        let clock = Arc::clone(&state.clock);
        let charge = moves.ok_or(TooManyTasks)?;
        let life = live(core, process, state, user, Position::Program);
        executor::spawn_program_on(core, clock, charge, life).map(drop)
    }
}
