//! Output of jobs: passed on to who takes it, kept in logs, read from them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use coppice_api::output::{OutputCut, OutputView, given_back};
use coppice_protocol::ids::{JobId, PsetId, Rank};
use coppice_protocol::pset::ToPset;
use coppice_protocol::ras::{RasKind, Severity};
use coppice_protocol::ship::Stream;
use hyper::body::Bytes;
use tokio::sync::watch;

use super::requests::no_job;
use super::{Controller, Now, Refused, ras};
use crate::feed::Taker;
use crate::output::{LogState, OutputEvent, OutputOrder, OutputPiece, Summary, log_path};
use crate::plant::Plant;
use crate::records::What;

/// A log that is written, or looked at.
#[derive(Debug)]
struct Open {
    /// What is recorded of it.
    output: OutputView,
    /// How far it is.
    state: watch::Sender<LogState>,
}

/// Logs that are written, also those of jobs that have just ended, and those that an earlier service node left.
#[derive(Debug, Default)]
pub(super) struct Logs(BTreeMap<JobId, Open>);

impl Logs {
    fn open(&mut self, id: JobId, output: OutputView) {
        self.0.insert(id, Open { output, state: watch::Sender::default() });
    }

    /// Whether all that was written is on the disk.
    pub(super) fn are_closed(&self) -> bool {
        self.0.is_empty()
    }
}

/// Where what is kept of a job's output is to be read.
#[derive(Debug)]
pub struct KeptLog {
    /// The file. There is none before there is output.
    pub path: PathBuf,
    /// What is recorded of it.
    pub output: OutputView,
    /// How far it is, if it is written.
    pub state: Option<watch::Receiver<LogState>>,
    /// The job has not ended.
    pub is_under_way: bool,
}

impl<P: Plant> Controller<P> {
    /// Begins the log of a job that was just taken, if it is to have one.
    pub(super) fn open_log(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(limit) = job.submission.keep_output else { return };
        job.feed.add_log();
        self.logs.open(id, OutputView::limited(limit));
        self.plant.keep(OutputOrder::Open { job: id, limit });
    }

    /// Has it looked what is in a log that an earlier service node left.
    pub(super) fn look_at_log(&mut self, id: JobId, output: OutputView) {
        self.logs.open(id, output);
        self.plant.keep(OutputOrder::Look(id));
    }

    /// A job has ended: nothing follows in its log.
    pub(super) fn close_log(&mut self, id: JobId) {
        if self.logs.0.contains_key(&id) {
            self.plant.keep(OutputOrder::Close(id));
        }
    }

    /// Output of a rank has come.
    pub(super) fn output(&mut self, pset: PsetId, id: JobId, rank: Rank, stream: Stream, bytes: Vec<u8>, now: Now) {
        let bytes = Bytes::from(bytes);
        if stream == Stream::Trace {
            return self.rank_traced(pset, id, rank, &bytes, now);
        }
        let Some(job) = self.jobs.get_mut(&id) else { return self.tell_taken(pset, id, bytes.len()) };
        match job.feed.output(pset, rank, stream, &bytes) {
            Ok(taken) => {
                if job.feed.has_log() {
                    self.plant.keep(OutputOrder::Append(OutputPiece { job: id, pset, rank, stream, bytes }));
                }
                self.tell_taken(pset, id, taken);
            }
            Err(error) => self.distrust_pset(pset, &format!("it sent {error}"), now),
        }
    }

    /// Somebody took output of an I/O node.
    pub(super) fn output_taken(&mut self, id: JobId, taker: Taker, pset: PsetId, bytes: usize) {
        if let Some(job) = self.jobs.get_mut(&id) {
            let taken = job.feed.taken(taker, pset, bytes);
            self.tell_taken(pset, id, taken);
        }
    }

    /// Somebody takes no more output. A job ends with whoever runs it.
    pub(super) fn taker_left(&mut self, id: JobId, taker: Taker, now: Now) {
        if taker == Taker::Owner {
            return self.kill_job(id, Some("whoever ran it went away".to_owned()), now);
        }
        let freed = self.jobs.get_mut(&id).map(|job| job.feed.leave(taker)).unwrap_or_default();
        for (pset, bytes) in freed {
            self.tell_taken(pset, id, bytes);
        }
    }

    /// Tells an I/O node that there is room for that much output again.
    pub(super) fn tell_taken(&mut self, pset: PsetId, job: JobId, bytes: usize) {
        if bytes > 0 {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.plant.tell(pset, &ToPset::OutputTaken { job, bytes });
        }
    }

    /// The keeper of logs has done something.
    pub(super) fn output_event(&mut self, id: JobId, event: OutputEvent, now: Now) {
        match event {
            OutputEvent::Taken { pset, bytes, length } => {
                if let Some(Open { state, .. }) = self.logs.0.get(&id) {
                    state.send_modify(|state| state.length = state.length.max(length));
                }
                self.output_taken(id, Taker::Log, pset, bytes);
            }
            OutputEvent::Cut { cut, why } => {
                tracing::info!(job = id.0, ?cut, why, "output is not kept any further");
                if cut == OutputCut::Disk {
                    let text =
                        format!("the output of job {id} is not kept any further, its log cannot be written: {why}");
                    self.record_ras(None, &ras(Severity::Warn, RasKind::OutputCut, Some(id), text), now);
                }
            }
            OutputEvent::Closed(summary) => self.log_closed(id, &summary, now),
            OutputEvent::GivenBack => {
                if let Some(Open { output, .. }) = self.logs.0.get_mut(&id) {
                    output.given_back = true;
                }
                self.records.add(What::OutputGivenBack(id), now);
            }
        }
    }

    fn log_closed(&mut self, id: JobId, summary: &Summary, now: Now) {
        // Of what it was nothing must be asked of the database, which may not answer now.
        let Some(Open { output: OutputView { limit, given_back, .. }, state }) = self.logs.0.remove(&id) else {
            return;
        };
        self.records.add(What::Output(id, OutputView { given_back, ..summary.view(limit) }), now);
        // Only now: who waits for that sees what is recorded.
        state.send_modify(|state| state.closed = true);
    }

    /// Where to read what is kept of a job's output.
    pub(super) fn kept_log(&self, id: JobId) -> Result<KeptLog, Refused> {
        let job = self.records.job(id)?.ok_or_else(|| no_job(id))?.job;
        let Some(output) = job.output else {
            return Err(Refused::conflict(&format!(
                "the output of job {id} was not kept; `coppice run` keeps it with --detach or --keep-output"
            )));
        };
        if output.given_back {
            return Err(Refused::missing(given_back(id.0)));
        }
        Ok(KeptLog {
            path: log_path(&self.config.paths.output(), id),
            output,
            state: self.logs.0.get(&id).map(|open| open.state.subscribe()),
            is_under_way: self.jobs.contains_key(&id),
        })
    }
}
