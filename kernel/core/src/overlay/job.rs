//! A job's overlay as far as it is on this node: its end of epochs, and what is to be said to whom.

use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ops::Deref;
use core::sync::atomic::{AtomicUsize, Ordering};

use coppice_protocol::ids::{JobId, NodeId, Rank};
use coppice_protocol::overlay::frame::Keys;
use coppice_protocol::overlay::{Above, Down, Node, Up};
use coppice_protocol::ranks::Ranks;

use super::auxiliary::Auxiliary;
use super::sample::{Samples, Seen};
use super::waiting::Waiting;
use super::{Say, line};
use crate::clock;
use crate::executor::{self, Either, WaitQueue, race};
use crate::limits::OVERLAY_STACKS_BYTES;
use crate::net::Neighbours;
use crate::process::{JobOnNode, Process};
use crate::quota::Charge;
use crate::sync::{LockLevel, Mutex};

/// See this module.
pub(super) struct OfJob {
    id: JobId,
    /// This one.
    node: NodeId,
    /// The job is on no other.
    is_alone: bool,
    job: Weak<JobOnNode>,
    keys: Keys,
    neighbours: Arc<dyn Neighbours>,
    auxiliary: Arc<Auxiliary>,
    say: Say,
    state: Mutex<State>,
    /// Its tasks.
    tasks: AtomicUsize,
    /// Told of every change that somebody may wait for.
    changed: WaitQueue,
}

/// A task of an overlay, until it is dropped.
pub(super) struct Task(Arc<OfJob>);

impl Task {
    pub(super) fn of(of_job: &Arc<OfJob>) -> Self {
        of_job.tasks.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(of_job))
    }
}

impl Deref for Task {
    type Target = Arc<OfJob>;

    fn deref(&self) -> &Arc<OfJob> {
        &self.0
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.tasks.fetch_sub(1, Ordering::Release);
        self.0.changed.wake_all();
    }
}

struct State {
    node: Node,
    /// Number of the last order that was obeyed.
    obeyed: u32,
    samples: Samples,
    /// What waits to be said to each node. Who is in it has a task.
    lines: BTreeMap<NodeId, Waiting>,
    /// The first epoch of which nothing was said, when ranks are looked at.
    next: Option<u64>,
    is_over: bool,
    /// The job is being ended on purpose.
    is_killed: bool,
    /// Frames that nobody took in time.
    lost: u64,
    /// What all that is charged with, until it is over.
    charge: Option<Charge>,
    /// With how much of that without stacks.
    without_stacks_bytes: usize,
    /// There was no room for stacks: nobody's are gathered here.
    refuses_stacks: bool,
}

/// What has become of a change.
#[derive(Default)]
struct Outcome {
    to_front_end: Vec<Up>,
    /// Nodes that are to be called.
    called: Vec<NodeId>,
}

impl OfJob {
    pub(super) fn new(
        node: NodeId,
        job: &Arc<JobOnNode>,
        (neighbours, auxiliary): (Arc<dyn Neighbours>, Arc<Auxiliary>),
        say: Say,
        charge: Charge,
    ) -> Self {
        let state = State {
            node: Node::new(node),
            obeyed: 0,
            samples: Samples::default(),
            lines: BTreeMap::new(),
            next: None,
            is_over: false,
            is_killed: false,
            lost: 0,
            without_stacks_bytes: charge.bytes(),
            charge: Some(charge),
            refuses_stacks: false,
        };
        Self {
            id: job.id,
            node,
            is_alone: job.world.node_count() == 1,
            job: Arc::downgrade(job),
            keys: Keys::derive(&job.world.key, job.id),
            neighbours,
            auxiliary,
            say,
            state: Mutex::new(LockLevel::Interest, state),
            tasks: AtomicUsize::new(0),
            changed: WaitQueue::new(),
        }
    }

    pub(super) fn id(&self) -> JobId {
        self.id
    }

    pub(super) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(super) fn neighbours(&self) -> &dyn Neighbours {
        &*self.neighbours
    }

    /// The front end says something.
    pub(super) fn obey(self: &Arc<Self>, number: u32, order: Down, job: Option<&Arc<JobOnNode>>) {
        let processes = job.map(|job| job.processes()).unwrap_or_default();
        let ranks: Ranks = processes.iter().map(|process| process.identity.rank).collect();
        // From here on it is measured what they do, not from the end of an epoch on: they may have ended by then.
        let (is_start, mut first) = (matches!(order, Down::Announce { .. }), None);
        if is_start && order.generation() > self.state.lock().node.generation() {
            first = Some((look_at(&processes), self.auxiliary.look()));
        }
        self.change(|state, now_ns| {
            // It is said again over each new connection; what asks for an answer is answered again.
            let is_answered = matches!(order, Down::Announce { .. } | Down::Begin { .. });
            if number <= state.obeyed && !is_answered {
                return None;
            }
            state.obeyed = state.obeyed.max(number);
            let before = state.node.generation();
            let answer = state.node.handle_down(order, &ranks, now_ns);
            state.make_room_for_stacks();
            if state.node.generation() != before {
                (state.samples, state.next) = (Samples::default(), None);
                if let (Some((seen, node)), Some(period_ns)) = (first, state.node.period_ns()) {
                    state.samples.since_last(seen, node);
                    state.next = Some(clock::realtime_ns() / period_ns);
                }
            }
            answer
        });
        if is_start {
            let sample_period_ns = self.state.lock().sample_period_ns();
            processes.iter().for_each(|process| process.sample(sample_period_ns.unwrap_or_default()));
        }
        if is_start && self.is_over() {
            // Somebody has said so meanwhile, perhaps before they were looked at.
            Samples::end(&processes);
        }
    }

    /// A rank has ended, and is not gone yet.
    pub(super) fn look_last(self: &Arc<Self>, process: &Process) {
        let is_measured = self.state.lock().next.is_some();
        if !is_measured {
            return;
        }
        let (seen, stacks) = (Samples::look_last(process), process.take_stacks());
        self.change(|state, _| {
            let did = state.samples.ended(process.identity.rank, seen);
            state.node.ended(process.identity.rank, did, &stacks);
            None
        });
    }

    /// The last rank here has ended: the front end is told what is not told yet, before it hears of that.
    pub(super) fn say_last(self: &Arc<Self>) {
        self.change(|state, _| {
            let period_ns = state.node.period_ns()?;
            state.node.last(clock::realtime_ns() / period_ns)
        });
    }

    /// Somebody on another node says something to a process here. False: it cannot be.
    pub(super) fn hear(self: &Arc<Self>, from: NodeId, process: u32, message: Up) -> bool {
        let mut is_sound = false;
        self.change(|state, now_ns| {
            let is_refused = state.refuses_stacks && matches!(message, Up::Stacks { .. });
            is_sound = is_refused || state.node.handle_up(from, process, message, now_ns);
            None
        });
        is_sound
    }

    /// Changes what is there, and passes on what comes of it.
    fn change(self: &Arc<Self>, change: impl FnOnce(&mut State, u64) -> Option<Up>) {
        let outcome = {
            let mut state = self.state.lock();
            if state.is_over {
                return;
            }
            let now_ns = executor::now_ns();
            let answer = change(&mut state, now_ns);
            state.outcome(answer, &self.keys, now_ns)
        };
        for message in outcome.to_front_end {
            (self.say)(message);
        }
        for node in outcome.called {
            let calls = Task::of(self);
            if executor::spawn_aside(async move { line::speak(&calls, node).await }).is_err() {
                // The next message tries again.
                self.give_up(node);
            }
        }
        self.changed.wake_all();
    }

    /// Looks at the ranks at the end of each epoch, and at the time for the processes here, until it is over.
    pub(super) async fn run(self: &Arc<Self>) {
        loop {
            let (at_ns, period_ns) = {
                let state = self.state.lock();
                if state.is_over {
                    return;
                }
                let period_ns = state.node.period_ns();
                let epoch_ns = period_ns.map(|period_ns| executor::now_ns().saturating_add(left_of_epoch(period_ns)));
                (epoch_ns.into_iter().chain(state.node.poll_timeout()).min(), period_ns)
            };
            let put_forward = self.changed.wait_until(|| self.is_due_before(at_ns, period_ns).then_some(()));
            match at_ns {
                Some(at_ns) => drop(race(put_forward, executor::sleep_until(at_ns)).await),
                None => put_forward.await,
            }
            self.end_epoch();
            self.change(|state, now_ns| {
                state.node.handle_timeout(now_ns);
                None
            });
        }
    }

    /// Whether something else is due earlier than that.
    fn is_due_before(&self, at_ns: Option<u64>, period_ns: Option<u64>) -> bool {
        let state = self.state.lock();
        let earlier = state.node.poll_timeout().is_some_and(|due_ns| at_ns.is_none_or(|at_ns| due_ns < at_ns));
        state.is_over || state.node.period_ns() != period_ns || earlier
    }

    /// Says what the ranks did in the epoch that has ended, if that was not said.
    fn end_epoch(self: &Arc<Self>) {
        let (period_ns, sample_period_ns, next) = {
            let state = self.state.lock();
            // What is done before anybody hears it is told then.
            if !state.node.are_heard() {
                return;
            }
            (state.node.period_ns(), state.sample_period_ns(), state.next)
        };
        let (Some(period_ns), Some(next)) = (period_ns, next) else { return };
        let Some(epoch) = (clock::realtime_ns() / period_ns).checked_sub(1).filter(|epoch| *epoch >= next) else {
            return;
        };
        // Of a job that has no rank here any more there is nothing to be said, and that is said.
        let processes = self.job.upgrade().map(|job| job.processes()).unwrap_or_default();
        let seen = look_at(&processes);
        let places =
            processes.iter().map(|process| (process.identity.rank, Samples::places(process, sample_period_ns)));
        let places: BTreeMap<Rank, _> = places.collect();
        if self.is_over() {
            // Somebody has said so meanwhile, perhaps before they were looked at.
            Samples::end(&processes);
        }
        drop(processes);
        let node = self.auxiliary.look();
        self.change(|state, _| {
            let gathered = state.samples.since_last(seen, node);
            state.next = Some(epoch.saturating_add(1));
            state.node.submit_stacks(&places);
            state.node.submit(epoch, &gathered);
            None
        });
    }

    /// The next frame for a node, when there is one; nothing when it is over.
    pub(super) async fn next_frame(&self, node: NodeId) -> Option<Vec<u8>> {
        self.changed
            .wait_until(|| {
                let mut state = self.state.lock();
                if state.is_over {
                    return Some(None);
                }
                state.lines.get_mut(&node).and_then(Waiting::pop).map(Some)
            })
            .await
    }

    /// Nobody can be reached on that node: what waits for it is lost, and who comes next calls again.
    pub(super) fn give_up(&self, node: NodeId) {
        let line = {
            let mut state = self.state.lock();
            let line = state.lines.remove(&node);
            state.lost += line.as_ref().map_or(0, Waiting::len);
            line
        };
        drop(line);
    }

    /// Waits until it is over.
    pub(super) async fn over(&self) {
        self.changed.wait_until(|| self.is_over().then_some(())).await;
    }

    pub(super) fn is_over(&self) -> bool {
        self.state.lock().is_over
    }

    /// The job's ranks are being ended on purpose: nobody will want to know what comes of them here.
    pub(super) fn kill(&self) {
        self.state.lock().is_killed = true;
    }

    /// Whether ranks of other nodes may still be heard here, when none runs here any more.
    pub(super) fn is_wanted(&self) -> bool {
        !self.is_alone && !self.state.lock().is_killed
    }

    /// Waits until none of its tasks is left.
    pub(super) async fn vacated(&self) {
        self.changed.wait_until(|| (self.tasks.load(Ordering::Acquire) == 0).then_some(())).await;
    }

    /// Ends it, with its tasks.
    pub(super) fn end(&self) {
        let gone = {
            let mut state = self.state.lock();
            state.is_over = true;
            let node = core::mem::replace(&mut state.node, Node::new(self.node));
            (core::mem::take(&mut state.lines), node, core::mem::take(&mut state.samples), state.charge.take())
        };
        drop(gone);
        if let Some(job) = self.job.upgrade() {
            job.look_last(None);
            Samples::end(&job.processes());
        }
        self.changed.wake_all();
    }
}

impl State {
    /// How often it is looked where ranks are in their programs, ns.
    fn sample_period_ns(&self) -> Option<u64> {
        self.node.sample_period_ns().filter(|_| !self.refuses_stacks)
    }

    /// Charges for the stacks of the ranks here, and for those that the processes here gather, or does without them.
    fn make_room_for_stacks(&mut self) {
        let is_wanted = self.node.sample_period_ns().is_some();
        // Once for those of ranks that have ended.
        let wanted = if is_wanted { (2 + self.node.processes()) * OVERLAY_STACKS_BYTES } else { 0 };
        let Some(charge) = &mut self.charge else { return };
        let has = charge.bytes().saturating_sub(self.without_stacks_bytes);
        charge.shrink(has.saturating_sub(wanted));
        let is_refused = charge.grow(wanted.saturating_sub(has)).is_err();
        if is_refused && !self.refuses_stacks {
            log::warn!("no memory to gather where programs are: ranks here are not sampled");
        }
        self.refuses_stacks = is_refused;
    }

    fn outcome(&mut self, answer: Option<Up>, keys: &Keys, now_ns: u64) -> Outcome {
        let mut outcome = Outcome::default();
        outcome.to_front_end.extend(answer);
        while let Some((above, message)) = self.node.poll_transmit(now_ns) {
            let Above::Process { index, node } = above else {
                outcome.to_front_end.push(message);
                continue;
            };
            let Some(frame) = keys.seal(index, &message) else {
                self.lost += 1;
                continue;
            };
            if !self.lines.contains_key(&node) {
                outcome.called.push(node);
            }
            self.lost += self.lines.entry(node).or_default().push(frame);
        }
        outcome
    }
}

/// What these ranks have done by now.
fn look_at(processes: &[Arc<Process>]) -> Vec<(Rank, Seen)> {
    processes.iter().map(|process| (process.identity.rank, Samples::look(process))).collect()
}

/// How long it is until the epoch ends in which we are, ns: they begin where the time since 1970 is a multiple of their
/// length, so that they are the same on all nodes.
fn left_of_epoch(period_ns: u64) -> u64 {
    period_ns - clock::realtime_ns() % period_ns
}

/// Whichever comes first.
pub(super) async fn unless_over<T>(of_job: &OfJob, what: impl Future<Output = T>) -> Option<T> {
    match race(of_job.over(), what).await {
        Either::First(()) => None,
        Either::Second(result) => Some(result),
    }
}
