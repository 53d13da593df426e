//! What jobs have of the host's disk: files that are appended to, on mounts that answer soon, late, or not for a while.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_io_node::machine::{Answer, CallId, PlaceId, ToCheck};
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::manifest::encode;
use coppice_protocol::ship::{Call, FileStatus, Handle, Keeping, Known, Location, Reply};
use coppice_storage::{Storage, StorageError};

use super::programs;
use super::shared_files::{SharedFiles, name_of, number_of};
use crate::random::Random;

const ENOENT: u16 = 2;
const EIO: u16 = 5;
const ENOSYS: u16 = 38;
const EBADF: u16 = 9;

/// Handles of shared files have numbers above this, those of ranks' own files their ranks'.
const HANDLES_FROM: u32 = 1 << 16;

/// What is said of a job whose program is not in the store. No job is ever to end for it.
pub(super) const NO_PROGRAM: &str = "its program is not in the store";

/// A job's files.
#[derive(Debug)]
struct Job {
    id: JobId,
    /// Its program was in the store when it was opened.
    has_program: bool,
    /// Lengths of the ranks' files, each open once, bytes.
    lengths: BTreeMap<Rank, u64>,
    /// The shared files that ranks have open, and the last handle that each has got.
    shared: BTreeMap<(Rank, Handle), u64>,
    handles: BTreeMap<Rank, u32>,
    /// Its root and program are not open yet.
    is_opening: bool,
    /// It is not wanted any more.
    is_dropped: bool,
    /// Calls and closes that go on.
    busy: usize,
    /// Its mount answers nothing before then, ns.
    hangs_until_ns: u64,
}

/// What an I/O node's disk has.
#[derive(Debug, Default)]
pub(super) struct Disk {
    jobs: BTreeMap<PlaceId, Job>,
    calls: BTreeMap<CallId, (PlaceId, Rank, Call, Vec<u8>)>,
    /// Manifests that are asked again.
    checks: BTreeMap<CallId, (PlaceId, Rank, ToCheck)>,
    /// Lengths of files whose ranks have ended, bytes, until that was said.
    ended: BTreeMap<(JobId, Rank), u64>,
    /// To whom program pages were sent, and how many bytes of them.
    sent: Vec<(JobId, Rank, u64)>,
    /// Where objects of checkpoints are put.
    storage: Option<Arc<Storage>>,
    shared: SharedFiles,
}

impl Disk {
    /// One with nothing of any job.
    pub(super) fn new(storage: Option<Arc<Storage>>, shared: SharedFiles) -> Self {
        Self { storage, shared, ..Self::default() }
    }

    /// A job's root is opened, and its program, if that is in the store.
    pub(super) fn open(&mut self, place: PlaceId, id: JobId, has_program: bool) {
        let (is_opening, is_dropped) = (true, false);
        let (lengths, shared, handles) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let job = Job { id, has_program, lengths, shared, handles, is_opening, is_dropped, busy: 1, hangs_until_ns: 0 };
        self.jobs.insert(place, job);
    }

    /// The root and the program of a job are open, or not: what became of that, and its place if nobody needs that.
    pub(super) fn opened(&mut self, place: PlaceId) -> (Result<(), String>, Option<PlaceId>) {
        let mut result = Ok(());
        if let Some(job) = self.jobs.get_mut(&place) {
            job.is_opening = false;
            if !job.has_program {
                job.is_dropped = true;
                result = Err(NO_PROGRAM.to_owned());
            }
        }
        (result, self.rest(place))
    }

    /// How many roots are being opened.
    pub(super) fn openings(&self) -> usize {
        self.jobs.values().filter(|job| job.is_opening).count()
    }

    /// A job whose root is still wanted.
    pub(super) fn first_wanted(&self) -> Option<JobId> {
        self.jobs.values().find(|job| !job.is_dropped).map(|job| job.id)
    }

    /// Some job's mount hangs: until when, to be set.
    pub(super) fn hang_some(&mut self, random: &mut Random) -> Option<&mut u64> {
        let last = self.jobs.len().checked_sub(1)?;
        self.jobs.values_mut().nth(random.length(0, last)).map(|job| &mut job.hangs_until_ns)
    }

    /// When a job's mount answers again, ns.
    pub(super) fn hangs_until_ns(&self, place: PlaceId) -> u64 {
        self.jobs.get(&place).map_or(0, |job| job.hangs_until_ns)
    }

    /// A call was begun, and goes on until it is done.
    pub(super) fn begin(&mut self, id: CallId, place: PlaceId, rank: Rank, call: Call, bulk: Vec<u8>) {
        if let Some(job) = self.jobs.get_mut(&place) {
            job.busy += 1;
        }
        self.calls.insert(id, (place, rank, call, bulk));
    }

    /// The same of a manifest that is asked again.
    pub(super) fn begin_check(&mut self, id: CallId, place: PlaceId, rank: Rank, to_check: ToCheck) {
        if let Some(job) = self.jobs.get_mut(&place) {
            job.busy += 1;
        }
        self.checks.insert(id, (place, rank, to_check));
    }

    /// Asks a manifest again, of which only what files are is known here.
    fn check(&mut self, place: PlaceId, rank: Rank, ToCheck { made, entries, from }: &ToCheck, now_ns: u64) -> Answer {
        let mut untrue = Vec::new();
        for (number, entry) in (0..).zip(entries.iter()) {
            let answer = match &entry.call {
                Call::Stat { .. } => self.share(place, rank, &entry.call, &[], now_ns),
                _ => None,
            };
            let is_so = match answer {
                Some((Reply::Known(keeping, known), text)) => entry.is_so(&known, &text, keeping.is_plain),
                _ => false,
            };
            if !is_so {
                untrue.push(number);
            }
        }
        let known = Known::Manifest { made: *made, untrue };
        (Reply::Known(Keeping::default(), known), encode(entries.get(*from..).unwrap_or_default()))
    }

    /// Whose call it is.
    pub(super) fn place_of(&self, id: CallId) -> Option<PlaceId> {
        self.calls.get(&id).map(|(place, ..)| *place)
    }

    /// A call that was begun is not wanted.
    pub(super) fn cancel(&mut self, id: CallId) -> Option<PlaceId> {
        let (place, ..) = self.calls.remove(&id)?;
        self.rest(place)
    }

    /// Does a call on a shared file.
    fn share(&mut self, place: PlaceId, rank: Rank, call: &Call, given: &[u8], now_ns: u64) -> Option<Answer> {
        let job = self.jobs.get_mut(&place)?;
        let name = |at: &Location| name_of(at.path.as_bytes());
        let file = match call {
            Call::Stat { at, .. } => return Some(of_plain(self.shared.look(job.id, name(at)?))),
            Call::Rename { from, to, .. } => {
                return Some(of_plain(self.shared.rename(job.id, name(from)?, name(to)?)));
            }
            Call::Open { at, .. } => {
                let number = number_of(at.path.as_bytes())?;
                let last = job.handles.entry(rank).or_insert(HANDLES_FROM);
                *last += 1;
                let handle = Handle(*last);
                job.shared.insert((rank, handle), number);
                let status = self.shared.open((job.id, number), now_ns);
                return Some((Reply::Opened { handle, status, grant: None }, Vec::new()));
            }
            Call::Read { file, .. }
            | Call::Write { file, .. }
            | Call::HandleTruncate { file, .. }
            | Call::Synchronise { file, .. } => *file,
            Call::HandleStat(file) | Call::Close(file) => *file,
            _ => return None,
        };
        let number = *job.shared.get(&(rank, file))?;
        if let Call::Close(_) = call {
            job.shared.remove(&(rank, file));
        }
        Some(self.shared.call((job.id, number), call, given, now_ns))
    }

    /// Does a call that was begun, when the host's clock shows this. Also gives a place that nobody needs any more.
    pub(super) fn finish(&mut self, id: CallId, now_ns: u64) -> Option<(Answer, Option<PlaceId>)> {
        if let Some((place, rank, to_check)) = self.checks.remove(&id) {
            let answer = self.check(place, rank, &to_check, now_ns);
            return Some((answer, self.rest(place)));
        }
        let (place, rank, call, given) = self.calls.remove(&id)?;
        if let Some(answer) = self.share(place, rank, &call, &given, now_ns) {
            return Some((answer, self.rest(place)));
        }
        let (bytes, mut bulk) = (given.len(), Vec::new());
        let reply = match (call, self.jobs.get_mut(&place)) {
            (Call::Open { .. }, Some(job)) => {
                job.lengths.insert(rank, 0);
                Reply::Opened { handle: Handle(rank.0), status: status(place, rank, 0), grant: None }
            }
            (Call::Write { file, offset }, Some(job)) => match job.lengths.get_mut(&rank) {
                Some(length) if file == Handle(rank.0) => {
                    let end = offset.unwrap_or(*length) + bytes as u64;
                    *length = end.max(*length);
                    Reply::Written { bytes: u32::try_from(bytes).unwrap_or(u32::MAX), end }
                }
                _ => Reply::Failed(EBADF),
            },
            (Call::HandleStat(file) | Call::Close(file), Some(job)) => match job.lengths.get(&rank) {
                Some(length) if file == Handle(rank.0) => Reply::Status(status(place, rank, *length)),
                _ => Reply::Failed(EBADF),
            },
            (Call::Pages { program, first, count }, Some(job)) => match programs::find(program) {
                Some(program) => {
                    let beside;
                    (bulk, beside) = program.read(first, count);
                    self.sent.push((job.id, rank, bulk.len() as u64));
                    Reply::Pages { beside }
                }
                None => Reply::Failed(ENOENT),
            },
            (call @ (Call::PutObject | Call::GetObject(_) | Call::SettleObjects), Some(_)) => {
                let made = self.storage.as_deref().map(|storage| make(storage, &call, &given, &mut bulk));
                made.map_or(Reply::Failed(ENOSYS), |made| made.unwrap_or(Reply::Failed(EIO)))
            }
            _ => Reply::Failed(ENOSYS),
        };
        Some(((reply, bulk), self.rest(place)))
    }

    /// The program pages that were sent since this was last asked.
    pub(super) fn take_sent(&mut self) -> Vec<(JobId, Rank, u64)> {
        std::mem::take(&mut self.sent)
    }

    /// The files of a rank are to be closed, which goes on until [`Disk::rest`].
    pub(super) fn close(&mut self, place: PlaceId, rank: Rank) {
        if let Some(job) = self.jobs.get_mut(&place) {
            job.busy += 1;
            job.shared.retain(|(of, _), _| *of != rank);
            if let Some(length) = job.lengths.remove(&rank) {
                self.ended.insert((job.id, rank), length);
            }
        }
    }

    /// Length of the file of a rank that has ended, bytes, once.
    pub(super) fn take_ended(&mut self, job: JobId, rank: Rank) -> Option<u64> {
        self.ended.remove(&(job, rank))
    }

    /// Something of a job does not go on any more. Gives its place if nobody needs that.
    pub(super) fn rest(&mut self, place: PlaceId) -> Option<PlaceId> {
        let job = self.jobs.get_mut(&place)?;
        job.busy = job.busy.saturating_sub(1);
        self.leave(place)
    }

    /// Nobody wants what was opened. As above.
    pub(super) fn forget(&mut self, place: PlaceId) -> Option<PlaceId> {
        self.jobs.get_mut(&place)?.is_dropped = true;
        self.leave(place)
    }

    fn leave(&mut self, place: PlaceId) -> Option<PlaceId> {
        let is_over = self.jobs.get(&place).is_some_and(|job| job.is_dropped && job.busy == 0);
        is_over.then(|| self.jobs.remove(&place)).map(|_| place)
    }
}

/// An answer to a call on a plain path, which is kept if it may be.
fn of_plain(reply: Reply) -> Answer {
    let keeping = Keeping { number: 0, is_plain: true, attributes: true };
    let reply = reply.into_known().map_or_else(|reply| *reply, |known| Reply::Known(keeping, known));
    (reply, Vec::new())
}

/// Does something with objects.
fn make(storage: &Storage, call: &Call, given: &[u8], bulk: &mut Vec<u8>) -> Result<Reply, StorageError> {
    Ok(match call {
        Call::PutObject => Reply::Object(storage.put(given)?),
        Call::GetObject(id) => {
            *bulk = storage.get(*id)?;
            Reply::Data
        }
        _ => {
            storage.settle()?;
            Reply::Done
        }
    })
}

/// What a rank's file is, which no other rank has.
fn status(place: PlaceId, rank: Rank, size: u64) -> FileStatus {
    FileStatus {
        device: place.0,
        inode: u64::from(rank.0),
        mode: 0o100_600,
        links: 1,
        user: 0,
        group: 0,
        special_device: 0,
        size,
        block_size: 4096,
        blocks: 0,
        accessed: coppice_protocol::ship::Timestamp::default(),
        modified: coppice_protocol::ship::Timestamp::default(),
        changed: coppice_protocol::ship::Timestamp::default(),
        created: None,
    }
}
