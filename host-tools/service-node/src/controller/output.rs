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

/// Logs that are written, also those of jobs that have just ended, and how far they are.
#[derive(Debug, Default)]
pub(super) struct Logs(BTreeMap<JobId, watch::Sender<LogState>>);

impl Logs {
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
        self.logs.0.insert(id, watch::Sender::default());
        self.plant.keep(OutputOrder::Open { job: id, limit });
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
    fn tell_taken(&mut self, pset: PsetId, job: JobId, bytes: usize) {
        if bytes > 0 {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.plant.tell(pset, &ToPset::OutputTaken { job, bytes });
        }
    }

    /// The keeper of logs has done something.
    pub(super) fn output_event(&mut self, id: JobId, event: OutputEvent, now: Now) {
        match event {
            OutputEvent::Taken { pset, bytes, length } => {
                if let Some(state) = self.logs.0.get(&id) {
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
                if let Some(output) = self.recorded_output(id) {
                    self.records.add(What::Output(id, OutputView { given_back: true, ..output }), now);
                }
            }
        }
    }

    fn log_closed(&mut self, id: JobId, summary: &Summary, now: Now) {
        if let Some(OutputView { limit, given_back, .. }) = self.recorded_output(id) {
            let output = OutputView { given_back, ..summary.view(limit) };
            self.records.add(What::Output(id, output), now);
        }
        // Only now: who waits for that sees what is recorded.
        if let Some(state) = self.logs.0.remove(&id) {
            state.send_modify(|state| state.closed = true);
        }
    }

    fn recorded_output(&self, id: JobId) -> Option<OutputView> {
        let found = self.records.job(id);
        found.inspect_err(|error| tracing::error!(job = id.0, %error, "cannot look at a job")).ok()??.job.output
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
            state: self.logs.0.get(&id).map(watch::Sender::subscribe),
            is_under_way: self.jobs.contains_key(&id),
        })
    }
}
