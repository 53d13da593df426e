//! Files on the host that the ranks of a job share: bytes, lengths and times, for the I/O nodes of all psets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coppice_protocol::ids::JobId;
use coppice_protocol::ship::{Call, FileStatus, Reply, Timestamp};

use super::sharing::{NAMES, SharedFile};

/// The directory of such files.
const DIRECTORY: &str = "/shared/";
/// They are on a device of their own.
const DEVICE: u64 = 0xf17e;
/// Linux takes a file's times from its tick, ns.
const TICK_NS: u64 = 4_000_000;

const ENOENT: u16 = 2;
const EINVAL: u16 = 22;
const ENOSYS: u16 = 38;

#[derive(Debug, Default)]
struct File {
    bytes: Vec<u8>,
    created_ns: u64,
    changed_ns: u64,
}

/// What is on the host.
#[derive(Debug, Default)]
struct Files {
    open: BTreeMap<(JobId, u64), File>,
    /// Which name a job's named file has, if not the first.
    names: BTreeMap<JobId, u64>,
}

/// See this module.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedFiles(Arc<Mutex<Files>>);

/// Which of the names that the named file goes through a path is.
pub(super) fn name_of(path: &[u8]) -> Option<u64> {
    let name = std::str::from_utf8(path).ok()?.strip_prefix(DIRECTORY)?.strip_prefix('n')?.parse().ok()?;
    (name < NAMES).then_some(name)
}

/// The path of such a name.
pub(super) fn path_of(name: u64) -> String {
    format!("{DIRECTORY}n{}", name % NAMES)
}

/// Which of them a path names.
pub(super) fn number_of(path: &[u8]) -> Option<u64> {
    std::str::from_utf8(path).ok()?.strip_prefix(DIRECTORY)?.parse().ok()
}

fn tick(now_ns: u64) -> u64 {
    now_ns - now_ns % TICK_NS
}

fn timestamp(ns: u64) -> Timestamp {
    Timestamp { seconds: (ns / 1_000_000_000).cast_signed(), nanoseconds: (ns % 1_000_000_000) as u32 }
}

impl File {
    fn status(&self, (job, number): (JobId, u64)) -> FileStatus {
        FileStatus {
            device: DEVICE,
            inode: job.0 << 8 | number,
            mode: 0o100_600,
            links: 1,
            user: 0,
            group: 0,
            special_device: 0,
            size: self.bytes.len() as u64,
            block_size: 4096,
            blocks: 0,
            accessed: timestamp(self.created_ns),
            modified: timestamp(self.changed_ns),
            changed: timestamp(self.changed_ns),
            created: Some(timestamp(self.created_ns)),
        }
    }

    fn write(&mut self, offset: Option<u64>, given: &[u8]) -> Option<Reply> {
        let start = offset.map_or(Some(self.bytes.len()), |offset| usize::try_from(offset).ok())?;
        let end = start.checked_add(given.len())?;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(given);
        Some(Reply::Written { bytes: u32::try_from(given.len()).ok()?, end: end as u64 })
    }
}

impl SharedFiles {
    fn lock(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens one, which is made if it is not there.
    pub(super) fn open(&self, which: (JobId, u64), now_ns: u64) -> FileStatus {
        let (created_ns, changed_ns) = (tick(now_ns), tick(now_ns));
        let new = || File { bytes: Vec::new(), created_ns, changed_ns };
        self.lock().open.entry(which).or_insert_with(new).status(which)
    }

    /// Does something with an open one.
    pub(super) fn call(&self, which: (JobId, u64), call: &Call, given: &[u8], now_ns: u64) -> (Reply, Vec<u8>) {
        let mut files = self.lock();
        let file = files.open.entry(which).or_default();
        let mut bulk = Vec::new();
        let before = file.bytes.len();
        let reply = match call {
            Call::HandleStat(_) | Call::Close(_) => return (Reply::Status(file.status(which)), bulk),
            Call::Synchronise { .. } => return (Reply::Done, bulk),
            Call::Read { offset, length, .. } => {
                let start = usize::try_from(*offset).map_or(before, |start| start.min(before));
                bulk = file.bytes[start..before.min(start.saturating_add(*length as usize))].to_vec();
                return (Reply::Data, bulk);
            }
            Call::Write { offset, .. } => file.write(*offset, given),
            Call::HandleTruncate { length, .. } => usize::try_from(*length).ok().map(|length| {
                file.bytes.resize(length, 0);
                Reply::Done
            }),
            _ => return (Reply::Failed(ENOSYS), bulk),
        };
        file.changed_ns = tick(now_ns);
        (reply.unwrap_or(Reply::Failed(EINVAL)), bulk)
    }

    /// What is in one.
    pub(super) fn bytes(&self, job: JobId, file: SharedFile) -> Vec<u8> {
        self.lock().open.get(&(job, file as u64)).map(|file| file.bytes.clone()).unwrap_or_default()
    }

    /// Which name the named file has.
    pub(super) fn name(&self, job: JobId) -> u64 {
        self.lock().names.get(&job).copied().unwrap_or(0)
    }

    /// What is at one of the names.
    pub(super) fn look(&self, job: JobId, name: u64) -> Reply {
        if self.name(job) != name {
            return Reply::Failed(ENOENT);
        }
        Reply::Status(File::default().status((job, SharedFile::Named as u64)))
    }

    /// Gives the named file another name.
    pub(super) fn rename(&self, job: JobId, from: u64, to: u64) -> Reply {
        let mut files = self.lock();
        let name = files.names.entry(job).or_default();
        if *name != from {
            return Reply::Failed(ENOENT);
        }
        *name = to;
        Reply::Done
    }
}
