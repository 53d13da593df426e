//! What jobs have of the host: their roots and programs, the open files of their ranks, and the threads on which these
//! are looked at, opened, changed and closed; the objects of their checkpoints, and nodes' regions. The machine
//! ([`crate::machine`]) says what is to be done; what came of it is said through a queue, from whatever thread it was
//! done on.

mod broadcasts;
mod data;
mod keeps;
mod manifest;
mod names;
mod objects;
mod opening;
mod place;
mod program;
mod region;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::{Arc, Weak};

use coppice_protocol::ids::{NodeId, Rank};
use coppice_protocol::pset::StartJob;
use coppice_protocol::ship::Call;
use rustix::io::Errno;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub(crate) use self::objects::Objects;
pub(crate) use self::opening::{Opened, Opener};
pub(crate) use self::place::JobPlace;
pub(crate) use self::program::{PagesStart, Program};

use self::broadcasts::{OfBroadcast, Taken};
use self::data::{Prepared, Tried};
use self::keeps::{Keeps, OpenedKeep};
use self::objects::{ObjectCall, ObjectWork};
use self::opening::Order;
use self::place::{Owed, OwedClose, OwedOpen, OwedRegion};
use self::region::{Progress, RegionTask};
use crate::descriptors::Descriptors;
use crate::distribution::{Held, Homes};
use crate::files::{Files, Porter, Result, Root};
use crate::machine::{Answer, CallId, PlaceId, RegionAnswer, RegionOrder, TakenFile, ToCheck};

/// Something that was done.
#[derive(Debug)]
pub(crate) enum Completion {
    /// As [`crate::machine::Machine::opened`].
    Opened(PlaceId, std::result::Result<Box<Opened>, String>),
    /// As [`crate::machine::Machine::left`].
    Left(PlaceId),
    /// As [`crate::machine::Machine::done`].
    Done(CallId, Answer),
    /// As [`crate::machine::Machine::closed`].
    Closed(PlaceId, Rank),
    /// A file that is to be sent, to be kept, was opened, or why not.
    KeepOpened(u64, std::result::Result<Box<OpenedKeep>, String>),
    /// As [`crate::machine::Machine::file_taken`], for the broadcast of that number.
    FileTaken((PlaceId, u8), std::result::Result<(Box<Taken>, TakenFile), String>),
    /// As [`crate::machine::Machine::region_done`].
    RegionDone(NodeId, RegionAnswer),
    /// As [`crate::machine::Machine::pulling`], which is not said again before the last is dropped.
    Pulling(NodeId, (u64, u64), Arc<()>),
}

/// Where completions go in. There are at most as many as the machine has calls, jobs and ranks, one for each transfer,
/// and two for each order about a region that is carried out.
pub(crate) type Completions = UnboundedSender<Completion>;

/// A job that is open.
#[derive(Debug)]
struct Job {
    place: JobPlace,
    root: Arc<Root>,
    program: Program,
    /// The homes of its staged files, if they are here.
    homes: Option<Held>,
    /// Files that its nodes read and that are broadcast from here.
    broadcasts: BTreeMap<u8, OfBroadcast>,
    /// The threads of its nodes.
    porters: BTreeMap<NodeId, Porter>,
    /// The files of its ranks, until they end.
    ranks: BTreeMap<Rank, (NodeId, Arc<Files>)>,
}

/// A call that may have to wait.
#[derive(Debug)]
enum Waiting {
    /// On files or the program.
    Data(Prepared),
    /// On objects, with the files of the rank, which go when it ends.
    Object(ObjectCall, Weak<Files>),
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Disk {
    opener: Opener,
    objects: Objects,
    homes: Rc<Homes>,
    /// The files that jobs may have open.
    descriptors: Arc<Descriptors>,
    jobs: HashMap<PlaceId, Job>,
    /// Files that are sent to be kept.
    keeps: Keeps,
    /// Calls that may have to wait, and whose they are.
    prepared: HashMap<CallId, (JobPlace, Waiting)>,
    completions: Completions,
}

impl Disk {
    /// No jobs yet. Also gives where completions come out.
    pub(crate) fn new(
        (opener, objects): (Opener, Objects),
        descriptors: Arc<Descriptors>,
        homes: Rc<Homes>,
    ) -> (Self, UnboundedReceiver<Completion>) {
        let (completions, queue) = unbounded_channel();
        let (jobs, prepared) = (HashMap::new(), HashMap::new());
        (Self { opener, objects, homes, descriptors, jobs, keeps: Keeps::default(), prepared, completions }, queue)
    }

    /// As [`crate::machine::Effect::Open`]. What is opened comes in [`Completion::Opened`], for [`Disk::take`].
    pub(crate) fn open(&mut self, place: PlaceId, spec: StartJob) {
        // Said by the last that goes of what is made here.
        let held = JobPlace::new(place, self.completions.clone());
        let owed = OwedOpen::new(place, self.completions.clone());
        let granted = self.homes.permit(&spec).and_then(|staging| {
            let descriptors = self.descriptors.for_job(ranks_of(&spec).count(), self.homes.files(&spec))?;
            Ok((staging, descriptors))
        });
        match granted {
            Ok((staging, descriptors)) => self.opener.open(Order { spec, descriptors, staging, place: held, owed }),
            Err(reason) => owed.pay(Err(reason)),
        }
    }

    /// Takes what was opened. The nodes get the staged files from now on.
    ///
    /// # Errors
    /// Why the job cannot start; it is forgotten then.
    pub(crate) fn take(&mut self, opened: Opened) -> std::result::Result<(), String> {
        let Opened { spec, root, program, staged, descriptors, porters, place } = opened;
        let (root, descriptors) = (Arc::new(root), Arc::new(descriptors));
        let files = |(rank, node): (Rank, NodeId)| {
            (rank, (node, Arc::new(Files::new(Arc::clone(&root), Arc::clone(&descriptors)))))
        };
        let ranks = ranks_of(&spec).map(files).collect();
        let id = place.id();
        let homes = staged.map(|(files, permit)| self.homes.add(&spec, files, permit, &place)).transpose();
        let (homes, result) = match homes {
            Ok(homes) => (homes, Ok(())),
            Err(reason) => (None, Err(reason)),
        };
        self.jobs.insert(id, Job { place, root, program, homes, broadcasts: BTreeMap::new(), porters, ranks });
        if result.is_err() {
            self.forget(id);
        }
        result
    }

    /// As [`crate::machine::Effect::Drop`].
    pub(crate) fn forget(&mut self, place: PlaceId) {
        let Some(Job { place, root, program, homes, broadcasts, porters, ranks }) = self.jobs.remove(&place) else {
            return;
        };
        drop((homes, broadcasts));
        // Closing the root may wait, too.
        if let Some(porter) = porters.values().next() {
            porter.leave(move || drop((root, ranks, place)));
        }
        drop(program);
    }

    /// As [`crate::machine::Effect::Try`]. `None`: it may have to wait, and is prepared.
    pub(crate) fn attempt(&mut self, id: CallId, whose: (PlaceId, Rank), call: Call, bulk: Vec<u8>) -> Option<Answer> {
        let (job, files) = match self.whose(whose) {
            Ok((job, files, _)) => (job, files),
            Err(error) => return Some(crate::machine::failed(error)),
        };
        let waiting = match ObjectCall::of(call, bulk) {
            Ok(call) => Waiting::Object(call, Arc::downgrade(files)),
            Err((call, bulk)) => match data::attempt(&job.program, files, call, bulk) {
                Ok(Tried::Waits(prepared)) => Waiting::Data(prepared),
                Ok(Tried::Done(answer)) => return Some(answer),
                Err(error) => return Some(crate::machine::failed(error)),
            },
        };
        let place = job.place.clone();
        self.prepared.insert(id, (place, waiting));
        None
    }

    /// As [`crate::machine::Effect::Run`].
    pub(crate) fn run(&mut self, id: CallId) {
        let Some((place, waiting)) = self.prepared.remove(&id) else { return };
        let owed = Owed::new(id, self.completions.clone());
        match waiting {
            Waiting::Object(call, rank) => self.objects.leave(ObjectWork { call, rank, place, owed }),
            Waiting::Data(prepared) => drop(tokio::task::spawn_blocking(move || {
                let result = prepared.run();
                drop(place);
                owed.pay(result);
            })),
        }
    }

    /// As [`crate::machine::Effect::Cancel`].
    pub(crate) fn cancel(&mut self, id: CallId) {
        self.prepared.remove(&id);
    }

    /// As [`crate::machine::Effect::Names`].
    pub(crate) fn names(&self, id: CallId, whose: (PlaceId, Rank), call: Call) {
        let owed = Owed::new(id, self.completions.clone());
        match self.whose(whose) {
            Ok((_, files, porter)) => {
                let files = Arc::clone(files);
                porter.leave(move || {
                    let answer = names::execute(&files, call);
                    drop(files);
                    owed.pay(Ok(answer));
                });
            }
            Err(error) => owed.pay(Err(error)),
        }
    }

    /// As [`crate::machine::Effect::Manifest`].
    pub(crate) fn manifest(&self, id: CallId, whose: (PlaceId, Rank), to_check: ToCheck) {
        let owed = Owed::new(id, self.completions.clone());
        match self.whose(whose) {
            Ok((_, files, porter)) => {
                let files = Arc::clone(files);
                porter.leave(move || {
                    let answer = manifest::check(&files, &to_check);
                    drop(files);
                    owed.pay(Ok(answer));
                });
            }
            Err(error) => owed.pay(Err(error)),
        }
    }

    /// As [`crate::machine::Effect::Close`].
    pub(crate) fn close(&mut self, place: PlaceId, rank: Rank) {
        let owed = OwedClose::new(place, rank, self.completions.clone());
        let Some(job) = self.jobs.get_mut(&place) else { return };
        let Some((node, files)) = job.ranks.remove(&rank) else { return };
        // Most have none open, and nobody looks at them any more: there is nothing to wait for.
        if files.is_idle() && Arc::strong_count(&files) == 1 {
            return;
        }
        if let Some(porter) = job.porters.get(&node) {
            porter.leave(move || {
                drop(files);
                drop(owed);
            });
        }
    }

    /// As [`crate::machine::Effect::Region`].
    pub(crate) fn region(&self, order: RegionOrder) {
        let owed = OwedRegion::new(order, self.completions.clone());
        let progress = Progress::new(order.node, self.completions.clone());
        self.objects.leave_region(RegionTask { order, owed, progress });
    }

    fn whose(&self, (place, rank): (PlaceId, Rank)) -> Result<(&Job, &Arc<Files>, &Porter)> {
        let job = self.jobs.get(&place).ok_or(Errno::SRCH)?;
        let (node, files) = job.ranks.get(&rank).ok_or(Errno::SRCH)?;
        Ok((job, files, job.porters.get(node).ok_or(Errno::IO)?))
    }
}

/// A job's ranks on this pset, and where each is.
fn ranks_of(spec: &StartJob) -> impl Iterator<Item = (Rank, NodeId)> {
    spec.members.iter().flat_map(|member| member.ranks().map(|rank| (rank, member.node)))
}
