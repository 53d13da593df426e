//! Who makes checkpoints and has jobs go on from them, beside the controller: the service node's own code, whose time,
//! disk and questions to the controller are events of the world.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use coppice_api::checkpoint::CheckpointName;
use coppice_protocol::ids::JobId;
use coppice_service_node::checkpoints::{Around, Checkpoints, Resubmission, Runnable};
use coppice_service_node::controller::{Event as HostEvent, Refused, Request, Restart};
use coppice_service_node::plant::{CheckpointEvent, PlantEvent};
use coppice_storage::{Manifest, Storage, StorageError};
use tokio::sync::oneshot;

use super::queue::{Event, MILLISECOND_NS};
use super::world::World;

/// How long what is said to the controller waits for its turn, ns.
const TURN_NS_MAX: u64 = MILLISECOND_NS;
/// How long something takes that waits for the storage, ns.
const STORAGE_NS_MAX: u64 = 20 * MILLISECOND_NS;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;
type Work = Box<dyn FnOnce(&Storage) + Send>;

/// What they wait for.
enum Want {
    /// The controller hears something.
    Tell(Box<HostEvent>),
    /// Something is done with the storage.
    Work(Work),
    /// Time passes.
    Wake(Duration, oneshot::Sender<()>),
}

impl fmt::Debug for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tell(event) => write!(f, "{event:?}"),
            Self::Work(_) => f.write_str("Work"),
            Self::Wake(time, _) => write!(f, "{time:?}"),
        }
    }
}

/// What the world is around them.
#[derive(Clone)]
pub(super) struct Surroundings {
    checkpoints: Checkpoints,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    now: Instant,
    since_1970: Duration,
    /// Numbers that were given to leaders.
    leaders: u64,
    /// Tasks that begin.
    tasks: Vec<Task>,
    wants: Vec<Want>,
}

impl Surroundings {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn want(&self, want: Want) {
        self.lock().wants.push(want);
    }
}

impl Around for Surroundings {
    fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    async fn tell(&self, request: Request) -> Result<(), Refused> {
        self.want(Want::Tell(Box::new(HostEvent::Request(request))));
        Ok(())
    }

    async fn say(&self, job: JobId, event: CheckpointEvent) {
        self.want(Want::Tell(Box::new(HostEvent::Plant(PlantEvent::Checkpoint { job, event }))));
    }

    async fn stored<T: Send + 'static>(
        &self,
        _patience: Duration,
        work: impl FnOnce(&Storage) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, Refused> {
        let (answer, answered) = oneshot::channel();
        self.want(Want::Work(Box::new(move |storage| drop(answer.send(work(storage))))));
        let done = answered.await.map_err(|_| Refused::conflict("the service node is gone"))?;
        done.map_err(Refused::from)
    }

    async fn runnable(
        &self,
        manifest: &Manifest,
        _again: &Resubmission,
        checkpoint: CheckpointName,
    ) -> Result<Runnable, Refused> {
        let id = manifest.program;
        let stored = self.ask(|answer| Request::Stored(id, answer)).await?;
        let program = stored.ok_or_else(|| Refused::conflict(&format!("the program of {checkpoint} is not stored")))?;
        Ok(Runnable { program, file: None, staged: Vec::new() })
    }

    async fn restart(&self, restart: Box<Restart>) -> Result<JobId, Refused> {
        self.ask(|answer| Request::Restart(restart, answer)).await
    }

    fn new_leader(&self, _job: JobId) -> u64 {
        let mut shared = self.lock();
        shared.leaders += 1;
        shared.leaders
    }

    fn now(&self) -> Instant {
        self.lock().now
    }

    fn since_1970(&self) -> Duration {
        self.lock().since_1970
    }

    async fn sleep(&self, time: Duration) {
        let (wake, woken) = oneshot::channel();
        self.want(Want::Wake(time, wake));
        // Who is gone is not woken.
        let _ = woken.await;
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.lock().tasks.push(Box::pin(task));
    }
}

/// See this module. They go with their service node.
pub(super) struct Leaders {
    pub around: Surroundings,
    tasks: Vec<Task>,
    wants: BTreeMap<u64, Want>,
    wanted: u64,
    /// When the controller hears the last of what was said to it, ns: in the order in which it was.
    told_ns: u64,
}

impl Leaders {
    /// Those of a service node that starts. No two of a run have the same numbers: `leaders` were given before.
    pub(super) fn new(storage: Arc<Storage>, leaders: u64, now: Instant) -> Self {
        let (tasks, wants) = (Vec::new(), Vec::new());
        let shared = Shared { now, since_1970: Duration::ZERO, leaders, tasks, wants };
        let around = Surroundings { checkpoints: Checkpoints::new(storage), shared: Arc::new(Mutex::new(shared)) };
        Self { around, tasks: Vec::new(), wants: BTreeMap::new(), wanted: 0, told_ns: 0 }
    }

    /// Numbers that were given up to now.
    pub(super) fn numbers(&self) -> u64 {
        self.around.lock().leaders
    }

    /// Nobody does anything.
    pub(super) fn are_idle(&self) -> bool {
        self.tasks.is_empty() && self.around.lock().tasks.is_empty()
    }

    /// Has all go on as far as they can. Gives what they want then.
    fn go_on(&mut self, now: Instant, since_1970: Duration) -> Vec<Want> {
        {
            let mut shared = self.around.lock();
            (shared.now, shared.since_1970) = (now, since_1970);
        }
        let mut context = Context::from_waker(Waker::noop());
        loop {
            self.tasks.append(&mut self.around.lock().tasks);
            let before = self.tasks.len();
            self.tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
            // Others may wait for those that are over.
            if self.tasks.len() == before && self.around.lock().tasks.is_empty() {
                break;
            }
        }
        std::mem::take(&mut self.around.lock().wants)
    }
}

impl World {
    /// Those who lead go on, if there are any.
    pub(super) fn lead(&mut self) {
        let (now, since_1970) = self.host.times(self.now_ns);
        let Some(leaders) = &mut self.host.leaders else { return };
        let wants = leaders.go_on(now, since_1970);
        for want in wants {
            let in_ns = match &want {
                Want::Tell(_) => self.random.delay(TURN_NS_MAX),
                Want::Work(_) => self.random.delay(STORAGE_NS_MAX),
                Want::Wake(time, _) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
            };
            let mut at_ns = self.now_ns.saturating_add(in_ns);
            let Some(leaders) = &mut self.host.leaders else { return };
            if matches!(want, Want::Tell(_)) {
                at_ns = at_ns.max(leaders.told_ns);
                leaders.told_ns = at_ns;
            }
            leaders.wanted += 1;
            leaders.wants.insert(leaders.wanted, want);
            let event = Event::Led(leaders.wanted);
            self.queue.plan(at_ns, event);
        }
    }

    /// What one of them waits for happens.
    pub(super) fn led(&mut self, number: u64) {
        let Some(want) = self.host.leaders.as_mut().and_then(|leaders| leaders.wants.remove(&number)) else { return };
        match want {
            Want::Tell(event) => self.host.handle(*event, self.now_ns),
            Want::Work(work) => {
                if let Some(storage) = &self.host.storage {
                    work(storage);
                }
            }
            // Who waited may be gone.
            Want::Wake(_, wake) => drop(wake.send(())),
        }
        self.settle_host();
    }
}
