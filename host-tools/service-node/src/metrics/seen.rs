//! What the controller tells whoever scrapes: plain data of one moment, and counts since the service node started.

use std::collections::BTreeMap;
use std::time::Duration;

use coppice_api::cluster::ClusterView;
use coppice_api::job::{EXIT_COPPICE, JobState};
use coppice_api::node::NodeState;
use coppice_api::overlay::{EpochView, MetricView};
use coppice_protocol::control::MemoryStatus;
use coppice_protocol::ras::RasEvent;
use coppice_protocol::text::ByteString;

use crate::database::{JobRow, ProgramRow, kind_name, severity_name};
use crate::store::stored_bytes;

/// What the controller knows at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// The cluster as a whole.
    pub cluster: ClusterView,
    /// How many nodes do what.
    pub node_states: BTreeMap<&'static str, usize>,
    /// The first of them, at most [`METRICS_NODES_MAX`](crate::limits::METRICS_NODES_MAX).
    pub nodes: Vec<NodeSeen>,
    /// How many jobs are how far.
    pub job_states: BTreeMap<&'static str, usize>,
    /// The oldest of them, at most [`METRICS_JOBS_MAX`](crate::limits::METRICS_JOBS_MAX).
    pub jobs: Vec<JobSeen>,
    /// Fabric and I/O nodes, at most [`METRICS_HELPERS_MAX`](crate::limits::METRICS_HELPERS_MAX).
    pub helpers: Vec<HelperSeen>,
    /// Fabric and I/O nodes that there are to be.
    pub helpers_all: usize,
    /// The database.
    pub records: RecordsSeen,
    /// Programs in the store.
    pub stored: StoredSeen,
    /// What has happened so far.
    pub counts: Counts,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSeen {
    /// Its number.
    pub node: u32,
    /// Its pset's.
    pub pset: u32,
    /// What it is doing.
    pub state: NodeState,
    /// Version of its kernel, once it was ready. The node says it.
    pub kernel: Option<String>,
    /// Kernel entry → ready at its last boot, ns.
    pub boot_ns: Option<u64>,
    /// Cores that run, once it was ready.
    pub cores: Option<u32>,
    /// Boots in the life of the cluster's database.
    pub boots: u32,
    /// Boots that failed since the service node started.
    pub boots_failed: u64,
    /// Its memory when it was last heard of.
    pub memory: Option<MemoryStatus>,
    /// What it holds of programs that ran on it, bytes.
    pub programs_bytes: u64,
    /// Staged files that it keeps, bytes.
    pub files_bytes: u64,
}

/// A job that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSeen {
    /// Its number.
    pub job: u64,
    /// The program's path as the user gave it.
    pub name: ByteString,
    /// Hash of the program, hexadecimal.
    pub program: String,
    /// How far it is.
    pub state: JobState,
    /// Ranks it has.
    pub ranks: u32,
    /// Nodes it has, or waits for.
    pub nodes: u32,
    /// Since it was submitted.
    pub age: Duration,
    /// Files that its nodes have in their memory before it starts, bytes.
    pub staged_bytes: u64,
    /// What its overlay has gathered last, if it has one.
    pub overlay: Option<OverlaySeen>,
}

/// The last epoch of a job's overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlaySeen {
    /// Ranks that are in it.
    pub ranks: u64,
    /// What is measured of them, and counters that they offer.
    pub metrics: Vec<MetricSeen>,
}

/// One thing that is measured of ranks, together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricSeen {
    /// What it is called.
    pub metric: String,
    /// What its values count, as in [`MetricView::unit`].
    pub unit: String,
    /// All values together.
    pub sum: u64,
    /// Their mean.
    pub mean: u64,
    /// The largest.
    pub most: u64,
}

impl OverlaySeen {
    /// Of this epoch.
    pub(crate) fn of(epoch: &EpochView) -> Self {
        let seen = |view: &MetricView| MetricSeen {
            metric: view.metric.clone(),
            unit: view.unit.clone(),
            sum: view.sum,
            mean: view.mean,
            most: view.top.first().map_or(0, |top| top.value),
        };
        Self { ranks: epoch.ranks, metrics: epoch.metrics.iter().chain(&epoch.counters).map(seen).collect() }
    }
}

/// The fabric or an I/O node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelperSeen {
    /// The pset, if it is an I/O node.
    pub pset: Option<u32>,
    /// It does its work.
    pub up: bool,
    /// How often it was started.
    pub starts: u32,
    /// Its process, while there is one.
    pub pid: Option<u32>,
}

/// The database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordsSeen {
    /// Records that wait to be written.
    pub waiting: usize,
    /// How long it could not be written.
    pub trouble: Duration,
}

/// Programs in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredSeen {
    /// How many.
    pub programs: usize,
    /// What they take with their trees, bytes.
    pub bytes: u64,
}

impl StoredSeen {
    /// Of these programs.
    pub(crate) fn of(programs: &[ProgramRow]) -> Self {
        let bytes = programs.iter().map(|program| stored_bytes(program.bytes)).fold(0, u64::saturating_add);
        Self { programs: programs.len(), bytes }
    }
}

/// What has happened since the service node started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Jobs that have ended, by how.
    pub jobs: BTreeMap<JobEnd, u64>,
    /// How long those that ever had nodes had waited for them.
    pub waits: Distribution,
    /// How long they had them.
    pub runs: Distribution,
    /// RAS events, by severity and kind.
    pub ras: BTreeMap<(&'static str, &'static str), u64>,
    /// Bytes written to logs of jobs' output.
    pub output_bytes: u64,
}

impl Counts {
    /// A job has ended, which was submitted, got nodes and gave them up at these times, ns since 1970.
    pub(crate) fn job_ended(&mut self, end: &JobRow, submitted_ns: u64, started_ns: Option<u64>, ended_ns: u64) {
        *self.jobs.entry(JobEnd::of(end)).or_default() += 1;
        if let Some(started_ns) = started_ns {
            self.waits.add(Duration::from_nanos(started_ns.saturating_sub(submitted_ns)));
            self.runs.add(Duration::from_nanos(ended_ns.saturating_sub(started_ns)));
        }
    }

    /// A RAS event was recorded.
    pub(crate) fn ras_event(&mut self, event: &RasEvent) {
        *self.ras.entry((severity_name(event.severity), kind_name(event.kind))).or_default() += 1;
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobEnd {
    /// All of its ranks exited with 0.
    Succeeded,
    /// A rank exited with another status.
    Failed,
    /// A signal ended a rank.
    Signalled,
    /// Somebody or a limit ended it, or one of its nodes found that it cannot go on.
    Ended,
    /// It could not be run, or has lost a node.
    Lost,
    /// The same, and another job goes on from a checkpoint of it.
    Continued,
}

impl JobEnd {
    /// All there are.
    pub const ALL: [Self; 6] =
        [Self::Succeeded, Self::Failed, Self::Signalled, Self::Ended, Self::Lost, Self::Continued];

    /// As its record says.
    #[must_use]
    pub fn of(end: &JobRow) -> Self {
        match (end.exit_status, &end.reason) {
            _ if end.continued_as.is_some() => Self::Continued,
            (EXIT_COPPICE, Some(_)) => Self::Lost,
            (_, Some(_)) => Self::Ended,
            (0, None) => Self::Succeeded,
            (129.., None) => Self::Signalled,
            (_, None) => Self::Failed,
        }
    }

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Signalled => "signalled",
            Self::Ended => "ended",
            Self::Lost => "lost",
            Self::Continued => "continued",
        }
    }
}

/// Upper bounds of what is counted together in a [`Distribution`], seconds.
pub const BOUNDS_S: [f64; 12] = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 60.0, 600.0, 3600.0, 21_600.0, 86_400.0];

/// Times that were counted by how long they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// How many are within each bound of [`BOUNDS_S`] and none below; behind them, those above all.
    pub counts: [u64; BOUNDS_S.len() + 1],
    /// All of them together, seconds.
    pub sum_s: f64,
}

impl Distribution {
    fn add(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        let within = BOUNDS_S.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get_mut(within) {
            *count += 1;
        }
        self.sum_s += seconds;
    }

    /// How many they are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Names of what nodes do, in order.
pub const NODE_STATES: [NodeState; 6] =
    [NodeState::Waiting, NodeState::Booting, NodeState::Ready, NodeState::Busy, NodeState::Stopping, NodeState::Failed];

/// How far jobs are that have not ended, in order.
pub const JOB_STATES: [JobState; 3] = [JobState::Queued, JobState::Starting, JobState::Running];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BOUNDS_S, Distribution, JobEnd};
    use crate::database::JobRow;

    #[test]
    fn times_are_counted_within_the_next_bound() {
        let mut times = Distribution::default();
        for ms in [0, 10, 11, 1000, 100_000_000] {
            times.add(Duration::from_millis(ms));
        }
        assert_eq!((times.counts[0], times.counts[1], times.counts[4]), (2, 1, 1));
        assert_eq!((times.counts[BOUNDS_S.len()], times.count()), (1, 5));
        assert!((times.sum_s - 100_001.021).abs() < 1e-9, "{}", times.sum_s);
    }

    #[test]
    fn jobs_end_in_one_way_each() {
        let end = |exit_status, reason: Option<&str>| JobRow {
            exit_status,
            reason: reason.map(str::to_owned),
            retention: None,
            pages_touched: None,
            continued_as: None,
        };
        let ways = [(0, None), (125, None), (139, None), (137, Some("x")), (125, Some("x")), (0, Some("x"))];
        let ended = ways.map(|(status, reason)| JobEnd::of(&end(status, reason)).as_str());
        assert_eq!(ended, ["succeeded", "failed", "signalled", "ended", "lost", "ended"]);
    }
}
