//! The thread that writes all logs, and makes room for them.
//!
//! All lie on one disk, so there is no sense in more threads. Together they have limits; the logs of jobs that ended
//! first go first, those of jobs under way never. That of a job which needs room when there are no others is cut.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use coppice_api::limits::{OUTPUT_LOGS_BYTES_MAX, OUTPUT_LOGS_MAX};
use coppice_api::output::OutputCut;
use coppice_protocol::ids::JobId;
use hyper::body::Bytes;
use tokio::sync::mpsc;

use super::log::{Log, finish};
use super::{OutputEvent, OutputOrder, OutputPiece, Summary, log_path};
use crate::controller::Event;
use crate::limits::LOG_MERGED_BYTES_MAX;
use crate::plant::PlantEvent;

/// What all logs take on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// How many there are.
    pub logs: usize,
    /// Their lengths together, bytes.
    pub bytes: u64,
}

/// The same as it changes.
#[derive(Clone, Debug, Default)]
pub struct KeptNow(Arc<Mutex<Kept>>);

impl KeptNow {
    /// What it is now.
    #[must_use]
    pub fn get(&self) -> Kept {
        // Whole at every moment, also after a panic.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, kept: Kept) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }
}

/// The keeper as others have it. Its thread ends when this is dropped and all is written.
#[derive(Clone, Debug)]
pub struct Keeper {
    orders: mpsc::UnboundedSender<OutputOrder>,
    kept: KeptNow,
}

impl Keeper {
    /// Starts the thread, for the logs in a directory.
    #[must_use]
    pub fn start(directory: PathBuf, events: mpsc::Sender<Event>) -> Self {
        let (orders, queue) = mpsc::unbounded_channel();
        let kept = KeptNow::default();
        let told = kept.clone();
        std::thread::spawn(move || {
            // If nobody hears of it any more, the service node is about to end.
            let report = move |job, event| drop(events.blocking_send(Event::Plant(PlantEvent::Output { job, event })));
            let mut logs = Logs::new(directory, OUTPUT_LOGS_MAX, OUTPUT_LOGS_BYTES_MAX, report);
            logs.take_over();
            logs.work(queue, &told);
        });
        Self { orders, kept }
    }

    /// What all logs take.
    #[must_use]
    pub fn kept(&self) -> KeptNow {
        self.kept.clone()
    }

    /// Gives an order. As many wait as I/O nodes may send before they hear that something was taken.
    pub fn order(&self, order: OutputOrder) {
        if self.orders.send(order).is_err() {
            // It ends only with us, or in a panic.
            tracing::error!("nobody keeps output any more");
        }
    }
}

/// All logs.
#[derive(Debug)]
struct Logs<R> {
    directory: PathBuf,
    logs_max: usize,
    bytes_max: u64,
    report: R,
    open: BTreeMap<JobId, Log>,
    /// Of jobs that have ended, in that order, with their lengths.
    closed: VecDeque<(JobId, u64)>,
}

impl<R: FnMut(JobId, OutputEvent)> Logs<R> {
    fn new(directory: PathBuf, logs_max: usize, bytes_max: u64, report: R) -> Self {
        let (open, closed) = (BTreeMap::new(), VecDeque::new());
        Self { directory, logs_max, bytes_max, report, open, closed }
    }

    /// Finds what earlier service nodes have left.
    fn take_over(&mut self) {
        let mut found: Vec<(SystemTime, JobId)> = Vec::new();
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let Some(job) = job_of(&entry.path()) else { continue };
            let changed = entry.metadata().and_then(|metadata| metadata.modified());
            found.push((changed.unwrap_or(SystemTime::UNIX_EPOCH), job));
        }
        found.sort_unstable();
        for (_, job) in found {
            match finish(&log_path(&self.directory, job)) {
                Ok((length, _)) => self.closed.push_back((job, length)),
                Err(error) => tracing::warn!(job = job.0, %error, "cannot look at a log of output"),
            }
        }
        self.make_room(0, 0);
    }

    fn work(&mut self, mut queue: mpsc::UnboundedReceiver<OutputOrder>, kept: &KeptNow) {
        kept.set(self.kept());
        let mut next = queue.blocking_recv();
        while let Some(order) = next {
            next = match order {
                OutputOrder::Append(mut piece) => {
                    let mut following = queue.try_recv().ok();
                    while let Some(OutputOrder::Append(more)) = &following
                        && merge(&mut piece, more)
                    {
                        following = queue.try_recv().ok();
                    }
                    self.append(&piece);
                    following
                }
                OutputOrder::Open { job, limit } => {
                    self.open(job, limit);
                    None
                }
                OutputOrder::Cut(job) => {
                    self.cut(job);
                    None
                }
                OutputOrder::Close(job) => {
                    self.close(job);
                    None
                }
                OutputOrder::Look(job) => {
                    self.look(job);
                    None
                }
            };
            kept.set(self.kept());
            if next.is_none() {
                next = queue.blocking_recv();
            }
        }
    }

    fn open(&mut self, job: JobId, limit: u64) {
        // Numbers begin anew if somebody has moved the records away.
        if self.closed.iter().any(|(of, _)| *of == job) {
            self.closed.retain(|(of, _)| *of != job);
            let _ = fs::remove_file(log_path(&self.directory, job));
        }
        self.open.insert(job, Log::new(job, log_path(&self.directory, job), limit));
    }

    fn append(&mut self, piece: &OutputPiece) {
        let OutputPiece { job, pset, rank, stream, bytes } = piece;
        let (taken, growth, files) = match self.open.get(job) {
            Some(log) => {
                let (taken, growth) = log.takes(bytes.len());
                (taken, growth, usize::from(!log.has_file()))
            }
            None => (0, 0, 0),
        };
        let has_room = taken == 0 || self.make_room(growth, files);
        let mut length = 0;
        if let Some(log) = self.open.get_mut(job) {
            let refused = (!has_room).then(|| log.cut(OutputCut::Logs, OutputCut::Logs.to_string()));
            let cut = log.append(rank.0, *stream, bytes);
            length = log.length();
            if let Some((cut, why)) = refused.or(cut) {
                (self.report)(*job, OutputEvent::Cut { cut, why });
            }
        }
        (self.report)(*job, OutputEvent::Taken { pset: *pset, bytes: bytes.len(), length });
    }

    fn cut(&mut self, job: JobId) {
        let Some(log) = self.open.get_mut(&job).filter(|log| log.summary().cut.is_none()) else { return };
        let (cut, why) = log.cut(OutputCut::Late, OutputCut::Late.to_string());
        (self.report)(job, OutputEvent::Cut { cut, why });
    }

    fn close(&mut self, job: JobId) {
        let Some(log) = self.open.remove(&job) else { return };
        let has_file = log.has_file();
        let (summary, length) = log.close();
        if has_file {
            self.closed.push_back((job, length));
        }
        (self.report)(job, OutputEvent::Closed(summary));
    }

    fn look(&mut self, job: JobId) {
        let nothing = Summary { cut: Some(OutputCut::ServiceNode), ..Summary::default() };
        let found = match finish(&log_path(&self.directory, job)) {
            Ok((_, summary)) => summary,
            // Nothing was written, or what there was made room for others and there was no time to say so.
            Err(error) if error.kind() == ErrorKind::NotFound => nothing,
            // It may be readable later.
            Err(error) => return tracing::warn!(job = job.0, %error, "cannot look at a log of output"),
        };
        (self.report)(job, OutputEvent::Closed(found));
    }

    /// What all of them take.
    fn kept(&self) -> Kept {
        let (open, closed) = (self.open.values(), &self.closed);
        let bytes = open.clone().map(Log::length).chain(closed.iter().map(|(_, length)| *length)).sum::<u64>();
        Kept { logs: open.filter(|log| log.has_file()).count() + closed.len(), bytes }
    }

    /// Makes room for so many bytes more and so many files. False: there is none.
    fn make_room(&mut self, bytes: u64, files: usize) -> bool {
        loop {
            let Kept { logs, bytes: used } = self.kept();
            if used.saturating_add(bytes) <= self.bytes_max && logs + files <= self.logs_max {
                return true;
            }
            let Some((oldest, _)) = self.closed.pop_front() else { return false };
            // One that somebody has removed by hand is given back, too.
            if let Err(error) = fs::remove_file(log_path(&self.directory, oldest)) {
                tracing::warn!(job = oldest.0, %error, "cannot remove a log of output");
            }
            (self.report)(oldest, OutputEvent::GivenBack);
        }
    }
}

/// Puts two pieces together if they are one rank's, of one stream, and not too long.
fn merge(piece: &mut OutputPiece, more: &OutputPiece) -> bool {
    let is_same = piece.job == more.job && piece.rank == more.rank && piece.stream == more.stream;
    let fits = piece.bytes.len() + more.bytes.len() <= LOG_MERGED_BYTES_MAX;
    if !is_same || piece.pset != more.pset || !fits {
        return false;
    }
    let mut bytes = Vec::from(std::mem::take(&mut piece.bytes));
    bytes.extend_from_slice(&more.bytes);
    piece.bytes = Bytes::from(bytes);
    true
}

/// The job that a file is the log of.
fn job_of(path: &Path) -> Option<JobId> {
    let number = path.file_name()?.to_str()?.strip_suffix(".log")?;
    number.parse().ok().map(JobId)
}

#[cfg(test)]
mod tests;
