//! Output of jobs: passed on to who takes it, kept in logs, read from them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

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
use crate::limits::LOG_TIME_MAX;
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
    /// Bytes that the keeper was given and has not taken.
    under_way: usize,
    /// Since when it has taken none of them.
    since: Option<Instant>,
    /// The keeper is given nothing any more, and was not given so many bytes.
    left_out: Option<u64>,
}

/// Logs that are written, also those of jobs that have just ended, and those that an earlier service node left.
#[derive(Debug, Default)]
pub(super) struct Logs(BTreeMap<JobId, Open>);

impl Logs {
    fn open(&mut self, id: JobId, output: OutputView) {
        let state = watch::Sender::default();
        self.0.insert(id, Open { output, state, under_way: 0, since: None, left_out: None });
    }

    /// When the disk has not taken anything of a job for too long.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.0.values().filter_map(|open| open.since).min().map(|since| since + LOG_TIME_MAX)
    }

    /// The jobs of which that is so.
    fn overdue(&self, now: Instant) -> Vec<JobId> {
        let is_late = |open: &Open| open.since.is_some_and(|since| since + LOG_TIME_MAX <= now);
        self.0.iter().filter(|(_, open)| is_late(open)).map(|(id, _)| *id).collect()
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
        if let Some(open) = self.logs.0.get_mut(&id) {
            // Nobody waits for the disk any more but who reads the log.
            open.since = None;
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
                let open = self.logs.0.get_mut(&id);
                if job.feed.has_log() {
                    if let Some(open) = open {
                        open.under_way += bytes.len();
                        open.since.get_or_insert(now.instant);
                    }
                    self.plant.keep(OutputOrder::Append(OutputPiece { job: id, pset, rank, stream, bytes }));
                } else if let Some(left_out) = open.and_then(|open| open.left_out.as_mut()) {
                    *left_out += bytes.len() as u64;
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
                if let Some(Open { state, under_way, since, .. }) = self.logs.0.get_mut(&id) {
                    self.counts.output_bytes += length.saturating_sub(state.borrow().length);
                    state.send_modify(|state| state.length = state.length.max(length));
                    *under_way = under_way.saturating_sub(bytes);
                    *since = since.and((*under_way > 0).then_some(now.instant));
                }
                self.output_taken(id, Taker::Log, pset, bytes);
            }
            OutputEvent::Cut { cut, why } => {
                tracing::info!(job = id.0, ?cut, why, "output is not kept any further");
                if let Some(Open { state, .. }) = self.logs.0.get(&id) {
                    state.send_modify(|state| state.cut = state.cut.or(Some(cut)));
                }
                // That the disk was late is said when the job goes on.
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
        let Some(Open { output, state, left_out, .. }) = self.logs.0.remove(&id) else { return };
        let OutputView { limit, given_back, .. } = output;
        let summary = Summary { dropped: summary.dropped + left_out.unwrap_or(0), ..*summary };
        self.records.add(What::Output(id, OutputView { given_back, ..summary.view(limit) }), now);
        // Only now: who waits for that sees what is recorded.
        state.send_modify(|state| state.closed = true);
    }

    /// Jobs whose output the disk does not take go on without it.
    pub(super) fn give_up_logs(&mut self, now: Now) {
        for id in self.logs.overdue(now.instant) {
            if let Some(open) = self.logs.0.get_mut(&id) {
                (open.since, open.left_out) = (None, Some(0));
                // The keeper can say it only when the disk answers, and readers are to know before.
                open.state.send_modify(|state| state.cut = state.cut.or(Some(OutputCut::Late)));
            }
            self.plant.keep(OutputOrder::Cut(id));
            let freed = self.jobs.get_mut(&id).map(|job| job.feed.leave(Taker::Log)).unwrap_or_default();
            for (pset, bytes) in freed {
                self.tell_taken(pset, id, bytes);
            }
            let seconds = LOG_TIME_MAX.as_secs();
            let text = format!(
                "the output of job {id} is not kept any further, the disk has not taken any of it for {seconds} s"
            );
            self.record_ras(None, &ras(Severity::Warn, RasKind::OutputCut, Some(id), text), now);
        }
    }

    /// Where to read what is kept of a job's output.
    pub(super) fn kept_log(&self, id: JobId) -> Result<KeptLog, Refused> {
        let job = self.records.job_alone(id)?.ok_or_else(|| no_job(id))?;
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
