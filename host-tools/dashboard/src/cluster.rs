//! Rows of lists: jobs, nodes, programs, events, links.

use coppice_api::checkpoint::{CheckpointState, CheckpointView};
use coppice_api::cluster::{ClusterState, ClusterView};
use coppice_api::counted;
use coppice_api::job::JobView;
use coppice_api::link::{DirectionView, LinkView};
use coppice_api::node::NodeView;
use coppice_api::program::ProgramView;
use coppice_api::ras::RasView;
use coppice_api::show::{harmless, show_bytes, show_command, show_loss, show_ns, show_ranges, show_rate, show_time};
use coppice_explain::waits_for;

/// Digits of a hash that are shown.
pub(crate) const HASH_DIGITS: usize = 12;

/// A cluster in some words.
pub(crate) struct Cluster {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) nodes: String,
    pub(crate) jobs: String,
}

impl Cluster {
    pub(crate) fn of(view: &ClusterView) -> Self {
        let state = match view.state {
            ClusterState::Starting => "is starting",
            ClusterState::Up => "is up",
            ClusterState::Failed => "cannot come up",
            ClusterState::Stopping => "is going down",
        };
        let failure = view.failure.as_ref().map(|why| format!(": {}", harmless(why))).unwrap_or_default();
        let failed = if view.nodes_failed > 0 { format!(", {} given up", view.nodes_failed) } else { String::new() };
        let cores = counted(view.cores, "core");
        let memory = show_bytes(view.memory_bytes);
        Self {
            name: view.name.clone(),
            state: format!("{state}{failure}"),
            nodes: format!("{} of {} ready{failed}; each has {cores} and {memory}", view.nodes_ready, view.nodes),
            jobs: format!("{} run, {} wait", view.jobs_running, view.jobs_queued),
        }
    }
}

/// A job.
pub(crate) struct JobRow {
    pub(crate) number: u64,
    pub(crate) state: String,
    pub(crate) ranks: u32,
    pub(crate) nodes: String,
    pub(crate) submitted: String,
    pub(crate) time: String,
    pub(crate) command: String,
    /// Why it ended, or why it has the nodes that it has.
    pub(crate) why: String,
}

impl JobRow {
    /// That job, one of these.
    pub(crate) fn of(job: &JobView, all: &[JobView], now_ns: u64) -> Self {
        let exit = job.exit_status.map(|status| format!(" {status}")).unwrap_or_default();
        let lasted = |start_ns: u64| show_ns(job.ended_at_ns.unwrap_or(now_ns).saturating_sub(start_ns));
        let placed = || job.placement.as_ref().map(|placement| harmless(&placement.summary).into_owned());
        let reason = job.reason.as_ref().map(|reason| harmless(reason).into_owned());
        Self {
            number: job.job,
            state: format!("{}{exit}", job.state.as_str()),
            ranks: job.ranks,
            nodes: if job.nodes.is_empty() { "-".to_owned() } else { show_ranges(&job.nodes) },
            submitted: show_time(job.submitted_at_ns),
            time: job.started_at_ns.map_or_else(|| "-".to_owned(), lasted),
            command: show_command(job),
            why: reason.or_else(|| waits_for(job, all, now_ns)).or_else(placed).unwrap_or_default(),
        }
    }
}

/// A node.
pub(crate) struct NodeRow {
    pub(crate) node: u32,
    pub(crate) state: &'static str,
    pub(crate) job: Option<u64>,
    pub(crate) pset: u32,
    pub(crate) free: String,
    pub(crate) holds: String,
    pub(crate) boots: u32,
    pub(crate) last: String,
}

impl NodeRow {
    pub(crate) fn of(view: &NodeView) -> Self {
        let held = view.retained.iter().fold(0_u64, |sum, held| sum.saturating_add(held.bytes));
        Self {
            node: view.node,
            state: view.state.as_str(),
            job: view.job,
            pset: view.pset,
            free: view.memory.map_or_else(|| "-".to_owned(), |memory| show_bytes(memory.free_bytes)),
            holds: format!("{} in {}", show_bytes(held), counted(view.retained.len(), "program")),
            boots: view.generation,
            last: view.last_program.as_ref().map(|last| last.path.to_string()).unwrap_or_default(),
        }
    }
}

/// A program, or a file that nodes keep.
pub(crate) struct ProgramRow {
    pub(crate) hash: String,
    pub(crate) path: String,
    pub(crate) bytes: String,
    pub(crate) used: String,
    pub(crate) nodes: String,
    pub(crate) held: String,
}

impl ProgramRow {
    pub(crate) fn of(view: &ProgramView) -> Self {
        let nodes: Vec<u32> = view.nodes.iter().chain(&view.kept_nodes).copied().collect();
        Self {
            hash: view.hash.chars().take(HASH_DIGITS).collect(),
            path: view.path.to_string(),
            bytes: show_bytes(view.bytes),
            used: show_time(view.used_at_ns),
            nodes: if nodes.is_empty() { "-".to_owned() } else { show_ranges(&nodes) },
            held: show_bytes(view.retained_bytes.saturating_add(view.kept_bytes).saturating_add(view.read_bytes)),
        }
    }
}

/// A checkpoint.
pub(crate) struct CheckpointRow {
    pub(crate) name: String,
    pub(crate) job: u64,
    pub(crate) state: String,
    pub(crate) at: String,
    pub(crate) command: String,
    pub(crate) ranks: u32,
    pub(crate) pause: String,
    pub(crate) bytes: String,
}

impl CheckpointRow {
    pub(crate) fn of(view: &CheckpointView) -> Self {
        let state = match (&view.damaged, view.state, view.drained) {
            (Some(why), ..) => format!("of no use: {}", harmless(why)),
            (None, CheckpointState::Local, Some(drained)) => {
                format!("on its way: {} of {} objects", drained.objects, drained.of)
            }
            (None, CheckpointState::Local, None) => "on its way".to_owned(),
            (None, CheckpointState::Drained, _) => "on the disk".to_owned(),
            (None, CheckpointState::Verified, _) => "on the disk, and read again".to_owned(),
        };
        let words = [&view.name].into_iter().chain(&view.arguments).map(ToString::to_string);
        Self {
            name: view.checkpoint.to_string(),
            job: view.checkpoint.job,
            state,
            at: show_time(view.at_ns),
            command: words.collect::<Vec<_>>().join(" "),
            ranks: view.ranks,
            pause: show_ns(view.pause_us.saturating_mul(1000)),
            bytes: show_bytes(view.bytes),
        }
    }
}

/// An event.
pub(crate) struct EventRow {
    pub(crate) at: String,
    pub(crate) severity: String,
    pub(crate) kind: String,
    pub(crate) node: Option<u32>,
    pub(crate) job: Option<u64>,
    pub(crate) rank: Option<u32>,
    pub(crate) text: String,
}

impl EventRow {
    pub(crate) fn of(view: &RasView) -> Self {
        Self {
            at: show_time(view.at_ns),
            severity: harmless(&view.severity).into_owned(),
            kind: harmless(&view.kind).into_owned(),
            node: view.node,
            job: view.job,
            rank: view.rank,
            text: harmless(&view.text).into_owned(),
        }
    }
}

/// A link, in both directions.
pub(crate) struct LinkRow {
    pub(crate) link: String,
    pub(crate) state: &'static str,
    pub(crate) to: Direction,
    pub(crate) from: Direction,
}

/// One direction of a link.
pub(crate) struct Direction {
    pub(crate) shape: String,
    pub(crate) bytes: String,
    pub(crate) dropped: String,
}

impl Direction {
    fn of(view: &DirectionView) -> Self {
        let shape = &view.shape;
        let parts = [
            shape.bandwidth_bits_per_s.map(show_rate),
            (shape.latency_ns > 0).then(|| format!("+ {}", show_ns(shape.latency_ns))),
            (shape.loss_ppm > 0).then(|| format!("loses {}", show_loss(shape.loss_ppm))),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let dropped: Vec<String> =
            view.counters.dropped.causes().map(|(cause, frames)| format!("{frames} {cause}")).collect();
        Self {
            shape: if parts.is_empty() { "as fast as it can be".to_owned() } else { parts.join(", ") },
            bytes: show_bytes(view.counters.bytes),
            dropped: if dropped.is_empty() { "-".to_owned() } else { dropped.join(", ") },
        }
    }
}

impl LinkRow {
    pub(crate) fn of(view: &LinkView) -> Self {
        let is_cut = view.to.shape.cut || view.from.shape.cut;
        Self {
            link: view.link.to_string(),
            state: if is_cut {
                "cut"
            } else if view.up {
                "up"
            } else {
                "down"
            },
            to: Direction::of(&view.to),
            from: Direction::of(&view.from),
        }
    }
}
