//! Objects of checkpoints, which are put, got and settled on threads of their own: their directory lies in no job's
//! root, and the host's kernel keeps these threads in it, in the directory of nodes' regions, and nowhere else
//! ([`crate::wall`]).
//!
//! All jobs share them, as they share the disk. What a job has there waits its turn among the job's calls before, and
//! is not begun any more when its rank has ended. What is pulled from regions and wiped there takes longer; the machine
//! has so little of that done at once that others find threads.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::Builder;

use coppice_protocol::checkpoint::ObjectId;
use coppice_protocol::ship::{Call, Reply};
use coppice_storage::{Storage, StorageError};
use rustix::io::Errno;

use super::place::{JobPlace, Owed};
use super::region::RegionTask;
use crate::files::{Files, Result};
use crate::limits::{OBJECT_CALLS_MAX, OBJECT_THREADS};
use crate::machine::Answer;
use crate::regions::Regions;
use crate::wall::confine_to_objects;

/// A call on objects.
#[derive(Debug)]
pub(super) enum ObjectCall {
    /// Keeps one.
    Put(Vec<u8>),
    /// Gives one's bytes.
    Get(ObjectId),
    /// Has all on stable storage.
    Settle,
}

impl ObjectCall {
    /// Which one that is; gives it back if it is none.
    pub(super) fn of(call: Call, bulk: Vec<u8>) -> core::result::Result<Self, (Call, Vec<u8>)> {
        match call {
            Call::PutObject => Ok(Self::Put(bulk)),
            Call::GetObject(id) => Ok(Self::Get(id)),
            Call::SettleObjects => Ok(Self::Settle),
            call => Err((call, bulk)),
        }
    }

    fn make(self, storage: &Storage) -> Result<Answer> {
        let result = match self {
            Self::Put(bytes) => storage.put(&bytes).map(|id| (Reply::Object(id), Vec::new())),
            Self::Get(id) => storage.get(id).map(|bytes| (Reply::Data, bytes)),
            Self::Settle => storage.settle().map(|()| (Reply::Done, Vec::new())),
        };
        result.map_err(|error| {
            // Whoever gets one of these gives up, so they are few.
            tracing::warn!(%error, "an object of a checkpoint");
            errno(&error)
        })
    }
}

/// A call, and whose it is.
#[derive(Debug)]
pub(super) struct ObjectWork {
    pub(super) call: ObjectCall,
    /// The rank's: gone when it has ended.
    pub(super) rank: Weak<Files>,
    /// Its job's.
    pub(super) place: JobPlace,
    pub(super) owed: Owed,
}

/// Something for the threads to do.
#[derive(Debug)]
enum Work {
    /// A call, with the place that it has among those that wait.
    Call(ObjectWork, Arc<()>),
    /// Something with a region.
    Region(RegionTask),
}

/// The way to the threads; when it goes they end.
#[derive(Debug)]
pub(crate) struct Objects {
    /// At most [`OBJECT_CALLS_MAX`] calls are in there, and as much about regions as the machine has done at once.
    work: Option<Sender<Work>>,
    /// Each call that waits holds it.
    waits: Arc<()>,
}

impl Objects {
    /// Starts the first of them, which opens the directories of objects and of regions. Without one of objects, nothing
    /// is kept.
    ///
    /// # Errors
    /// If there can be no thread.
    pub(crate) fn start(directory: Option<&Path>, regions: Option<&Path>) -> std::io::Result<Self> {
        let waits = Arc::new(());
        let Some(directory) = directory.map(Path::to_owned) else { return Ok(Self { work: None, waits }) };
        let regions = regions.map(Path::to_owned);
        let (work, queue) = channel();
        let first = Builder::new().name("objects".to_owned());
        first.spawn(move || work_in(directory, regions, Arc::new(Mutex::new(queue))))?;
        Ok(Self { work: Some(work), waits })
    }

    /// Has a call made. `ENODEV` if nothing is kept, `EBUSY` if too many wait for the disk.
    pub(super) fn leave(&self, work: ObjectWork) {
        let Some(queue) = &self.work else { return work.owed.pay(Err(Errno::NODEV)) };
        if Arc::strong_count(&self.waits) > OBJECT_CALLS_MAX {
            return work.owed.pay(Err(Errno::BUSY));
        }
        if let Err(SendError(Work::Call(work, _))) = queue.send(Work::Call(work, Arc::clone(&self.waits))) {
            work.owed.pay(Err(Errno::NODEV));
        }
    }

    /// Has something done with a region. If nobody takes it, that is heard.
    pub(super) fn leave_region(&self, task: RegionTask) {
        match &self.work {
            Some(queue) => drop(queue.send(Work::Region(task))),
            None => task.owed.refuse("this I/O node keeps no checkpoints"),
        }
    }
}

type Queue = Arc<Mutex<Receiver<Work>>>;

/// The first thread: opens the directories, goes behind the wall with them, and starts the others there.
fn work_in(directory: PathBuf, regions: Option<PathBuf>, queue: Queue) {
    let storage = match Storage::open(directory) {
        Ok(storage) => Arc::new(storage),
        Err(error) => {
            // The queue goes, which is heard by whoever has something to keep.
            return tracing::error!(%error, "no checkpoints are kept");
        }
    };
    let regions = Arc::new(Regions::open(regions.as_deref()));
    if let Err(error) = confine_to_objects(storage.work_directories(), regions.directory()) {
        tracing::warn!(%error, "no second wall around the directory of checkpoints");
    }
    for number in 1..OBJECT_THREADS {
        let (storage, regions, queue) = (Arc::clone(&storage), Arc::clone(&regions), Arc::clone(&queue));
        let other = Builder::new().name(format!("objects {number}"));
        if let Err(error) = other.spawn(move || serve(&storage, &regions, &queue)) {
            tracing::warn!(%error, "cannot start a thread for objects");
        }
    }
    serve(&storage, &regions, &queue);
}

/// Does what there is to do until nobody is left who could have any.
fn serve(storage: &Storage, regions: &Regions, queue: &Queue) {
    loop {
        // One waits for work, and the others for this lock.
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(Work::Call(work, waits)) => {
                drop(waits);
                make(work, storage);
            }
            Ok(Work::Region(task)) => task.run(regions, storage),
            Err(_) => return,
        }
    }
}

fn make(ObjectWork { call, rank, place, owed }: ObjectWork, storage: &Storage) {
    // Nobody is owed anything for a rank that has ended.
    if rank.strong_count() > 0 {
        let result = call.make(storage);
        drop(place);
        owed.pay(result);
    }
}

/// What a rank's node is told of it.
fn errno(error: &StorageError) -> Errno {
    match error {
        StorageError::Missing(_) => Errno::NOENT,
        StorageError::Damaged(_) => Errno::BADMSG,
        error => error.host_error().unwrap_or(Errno::IO),
    }
}

#[cfg(test)]
mod tests {
    use coppice_protocol::checkpoint::ObjectId;
    use coppice_storage::StorageError;
    use rustix::io::Errno;

    use super::errno;

    #[test]
    fn what_the_disk_says_is_passed_on() {
        let host = |error| StorageError::Host { what: "write", path: "/x".into(), error };
        let id = ObjectId([1; 32]);
        for (error, number) in [
            (host(Errno::NOSPC), Errno::NOSPC),
            (StorageError::Missing(id), Errno::NOENT),
            (StorageError::Damaged(id), Errno::BADMSG),
            (StorageError::Failed("/x".into()), Errno::IO),
        ] {
            assert_eq!(errno(&error), number, "{error}");
        }
    }
}
