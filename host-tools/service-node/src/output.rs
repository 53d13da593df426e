//! Jobs' output that is kept: a log for each job, in the cluster's state directory.
//!
//! All logs are written by one thread, the [`keeper`]: the controller orders, and hears what was done. So the loop that
//! serves everybody waits for no disk, and what the disk does not take yet is not taken of the I/O nodes, whose windows
//! bound what waits here. A log only grows ([`format`]), has a limit ([`log`]), and is cut there, or where it cannot be
//! written, for good: the job goes on, and the log, the job's record and whoever reads it say so. Readers of a log
//! ([`read`]) take no part in any of that.

pub mod format;
pub mod keeper;
pub mod log;
pub mod read;

use std::path::{Path, PathBuf};

use coppice_api::output::{OutputCut, OutputView};
use coppice_protocol::ids::{JobId, PsetId, Rank};
use coppice_protocol::ship::Stream;
use hyper::body::Bytes;

/// What the keeper of logs can be told.
#[derive(Clone, Debug)]
pub enum OutputOrder {
    /// Keep what a job writes, in a log of so many bytes at most.
    Open {
        /// The job.
        job: JobId,
        /// Room on the disk, bytes.
        limit: u64,
    },
    /// A job wrote something → [`OutputEvent::Taken`].
    Append(OutputPiece),
    /// Nothing more is kept of what a job writes: the disk has not taken what there was for [`LOG_TIME_MAX`] →
    /// [`OutputEvent::Cut`].
    ///
    /// [`LOG_TIME_MAX`]: crate::limits::LOG_TIME_MAX
    Cut(JobId),
    /// A job has ended → [`OutputEvent::Closed`].
    Close(JobId),
    /// Look what is in the log of a job that an earlier service node had → [`OutputEvent::Closed`].
    Look(JobId),
}

/// Something that a job wrote.
#[derive(Clone, Debug)]
pub struct OutputPiece {
    /// The job.
    pub job: JobId,
    /// The I/O node it came from.
    pub pset: PsetId,
    /// Who wrote it.
    pub rank: Rank,
    /// To which stream.
    pub stream: Stream,
    /// What.
    pub bytes: Bytes,
}

/// What comes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputEvent {
    /// Output was taken, and kept unless the log is cut.
    Taken {
        /// The I/O node it came from.
        pset: PsetId,
        /// Bytes of output.
        bytes: usize,
        /// Length of the log by now, bytes.
        length: u64,
    },
    /// Nothing is kept from here on.
    Cut {
        /// Why.
        cut: OutputCut,
        /// In words.
        why: String,
    },
    /// Nothing more is written to the log.
    Closed(Summary),
    /// The log is removed to make room for others.
    GivenBack,
}

/// What became of a job's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Bytes that are kept.
    pub bytes: u64,
    /// Bytes behind them that are not.
    pub dropped: u64,
    /// Why the log ends before the output, if it does.
    pub cut: Option<OutputCut>,
}

impl Summary {
    /// As users see it.
    #[must_use]
    pub fn view(&self, limit: u64) -> OutputView {
        let Self { bytes, dropped, cut } = *self;
        OutputView { bytes: Some(bytes), dropped, cut, ..OutputView::limited(limit) }
    }
}

/// How far a log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    /// Bytes of it that are written.
    pub length: u64,
    /// Nothing follows.
    pub closed: bool,
    /// Why nothing more is kept than what was under way, if nothing is. Known before the log is closed.
    pub cut: Option<OutputCut>,
}

/// The log of a job.
#[must_use]
pub fn log_path(directory: &Path, job: JobId) -> PathBuf {
    directory.join(format!("{job}.log"))
}
