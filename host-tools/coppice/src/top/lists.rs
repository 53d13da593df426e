//! The lists of `top`: jobs, nodes, and the ranks of a job.

use std::collections::BTreeMap;

use coppice_api::job::{JobDetail, JobView, RankOutcome, RankView};
use coppice_api::node::NodeView;

use super::fetch::Seen;
use super::ranks::{Now, Ranks, in_words, shares};
use super::table::{Key, Listing};
use crate::show::{harmless, or_dash};
use crate::units::{show_bytes, show_ns, show_ranges};

/// Things that time goes to that are named in a list.
const SHARES: usize = 2;

/// What a program is called, with its arguments: without where it is, so that in a list there is room for what tells it
/// from others.
fn short_command_line(job: &JobView) -> String {
    let name = job.name.to_string();
    let file = name.rsplit('/').find(|part| !part.is_empty()).unwrap_or(&name).to_owned();
    let words = std::iter::once(file).chain(job.arguments.iter().map(ToString::to_string));
    harmless(&words.collect::<Vec<_>>().join(" ")).into_owned()
}

/// How long it has run, or ran, until then.
pub(super) fn lasted_ns(job: &JobView, now_ns: u64) -> Option<u64> {
    job.started_at_ns.map(|start| job.ended_at_ns.unwrap_or(now_ns).saturating_sub(start))
}

/// All jobs.
pub(super) struct Jobs<'a>(pub(super) &'a Seen);

impl Jobs<'_> {
    fn does(&self, job: &JobView) -> String {
        let last = self.0.overlays.get(&job.job).and_then(|overlay| overlay.last.as_ref());
        last.map_or_else(|| "-".to_owned(), |last| in_words(&shares(last), SHARES))
    }
}

impl Listing for Jobs<'_> {
    fn heading(&self) -> &'static [&'static str] {
        &["JOB", "STATE", "RANKS", "NODES", "TIME", "DOES", "PROGRAM"]
    }

    fn len(&self) -> usize {
        self.0.jobs.len()
    }

    fn id(&self, row: usize) -> u64 {
        self.0.jobs[row].job
    }

    fn key(&self, row: usize, column: usize) -> Key {
        let job = &self.0.jobs[row];
        match column {
            0 => Key::Number(job.job as f64),
            1 => Key::Number(f64::from(job.state as u8)),
            2 => Key::Number(f64::from(job.ranks)),
            3 => Key::Number(job.nodes.len() as f64),
            4 => Key::Number(lasted_ns(job, self.0.at_ns).unwrap_or_default() as f64),
            5 => Key::Text(self.does(job)),
            _ => Key::Text(short_command_line(job)),
        }
    }

    fn cells(&self, row: usize) -> Vec<String> {
        let job = &self.0.jobs[row];
        let state = match job.exit_status {
            Some(status) => format!("{} {status}", job.state.as_str()),
            None => job.state.as_str().to_owned(),
        };
        let nodes = if job.nodes.is_empty() { "-".to_owned() } else { show_ranges(&job.nodes) };
        vec![
            job.job.to_string(),
            state,
            job.ranks.to_string(),
            nodes,
            or_dash(lasted_ns(job, self.0.at_ns).map(show_ns)),
            self.does(job),
            short_command_line(job),
        ]
    }
}

/// All nodes.
pub(super) struct Nodes<'a>(pub(super) &'a Seen);

impl Nodes<'_> {
    fn held(node: &NodeView) -> u64 {
        node.retained.iter().map(|held| held.bytes).sum()
    }
}

impl Listing for Nodes<'_> {
    fn heading(&self) -> &'static [&'static str] {
        &["NODE", "STATE", "JOB", "PSET", "CORES", "FREE", "HOLDS", "BOOTS", "LAST PROGRAM"]
    }

    fn len(&self) -> usize {
        self.0.nodes.len()
    }

    fn id(&self, row: usize) -> u64 {
        self.0.nodes[row].node.into()
    }

    fn key(&self, row: usize, column: usize) -> Key {
        let node = &self.0.nodes[row];
        match column {
            0 => Key::Number(node.node.into()),
            1 => Key::Text(node.state.as_str().to_owned()),
            2 => Key::Number(node.job.unwrap_or_default() as f64),
            3 => Key::Number(node.pset.into()),
            4 => Key::Number(node.cores.unwrap_or_default().into()),
            5 => Key::Number(node.memory.map_or(0, |memory| memory.free_bytes) as f64),
            6 => Key::Number(Self::held(node) as f64),
            7 => Key::Number(node.generation.into()),
            _ => Key::Text(node.last_program.as_ref().map(|last| last.path.to_string()).unwrap_or_default()),
        }
    }

    fn cells(&self, row: usize) -> Vec<String> {
        let node = &self.0.nodes[row];
        let last = node.last_program.as_ref().map(|last| harmless(&last.path.to_string()).into_owned());
        let held = Some(Self::held(node)).filter(|bytes| *bytes > 0).map(show_bytes);
        vec![
            node.node.to_string(),
            node.state.as_str().to_owned(),
            or_dash(node.job),
            node.pset.to_string(),
            or_dash(node.cores),
            or_dash(node.memory.map(|memory| show_bytes(memory.free_bytes))),
            or_dash(held),
            node.generation.to_string(),
            or_dash(last),
        ]
    }
}

/// The ranks of a job.
pub(super) struct OfJob<'a> {
    pub(super) job: &'a JobView,
    pub(super) ranks: Option<&'a Ranks>,
    pub(super) ended: BTreeMap<u32, &'a RankView>,
}

impl<'a> OfJob<'a> {
    pub(super) fn new(detail: &'a JobDetail, ranks: Option<&'a Ranks>) -> Self {
        let ended = detail.rank_reports.iter().map(|report| (report.rank, report)).collect();
        Self { job: &detail.job, ranks, ended }
    }

    pub(super) fn now(&self, rank: u32) -> Option<&'a Now> {
        self.ranks.and_then(|ranks| ranks.get(rank)).filter(|_| !self.ended.contains_key(&rank))
    }

    pub(super) fn node(&self, rank: u32) -> Option<u32> {
        self.job.nodes.get((rank / self.job.ranks_per_node.max(1)) as usize).copied()
    }

    pub(super) fn state(&self, rank: u32) -> String {
        match self.ended.get(&rank) {
            None => self.job.state.as_str().to_owned(),
            Some(report) => match (report.outcome, report.exit, report.signal) {
                (RankOutcome::Exited, Some(status), _) => format!("exited {status}"),
                (RankOutcome::Signalled, _, Some(signal)) => format!("signal {signal}"),
                (RankOutcome::NotStarted, ..) => "not started".to_owned(),
                (RankOutcome::Lost, ..) => "lost".to_owned(),
                (RankOutcome::Exited | RankOutcome::Signalled, ..) => "ended".to_owned(),
            },
        }
    }

    /// What most of its time goes to.
    fn most(&self, rank: u32) -> (String, f64) {
        self.now(rank).and_then(|now| now.shares.first().cloned()).unwrap_or_default()
    }
}

impl Listing for OfJob<'_> {
    fn heading(&self) -> &'static [&'static str] {
        &["RANK", "NODE", "STATE", "DOES", "USER", "NETWORK", "MEMORY", "CALLS/S", "SENT/S"]
    }

    fn len(&self) -> usize {
        self.job.ranks as usize
    }

    fn id(&self, row: usize) -> u64 {
        row as u64
    }

    fn key(&self, row: usize, column: usize) -> Key {
        let rank = row as u32;
        let of = |value: &dyn Fn(&Now) -> f64| Key::Number(self.now(rank).map_or(-1.0, value));
        match column {
            0 => Key::Number(rank.into()),
            1 => Key::Number(self.node(rank).map_or(-1.0, f64::from)),
            2 => Key::Text(self.state(rank)),
            3 => {
                let (name, share) = self.most(rank);
                Key::Text(format!("{name} {:03}", (share * 100.0) as u32))
            }
            4 => of(&|now| now.share("user")),
            5 => of(&|now| now.share("network")),
            6 => of(&|now| now.pages as f64),
            7 => of(&|now| now.calls.unwrap_or_default()),
            _ => of(&|now| now.sent.unwrap_or_default()),
        }
    }

    fn cells(&self, row: usize) -> Vec<String> {
        let rank = row as u32;
        let now = self.now(rank);
        let percent = |metric: &str| or_dash(now.map(|now| format!("{:.0} %", now.share(metric) * 100.0)));
        let most = now.map(|now| in_words(&now.shares, 1)).filter(|words| !words.is_empty());
        vec![
            rank.to_string(),
            or_dash(self.node(rank)),
            self.state(rank),
            or_dash(most),
            percent("user"),
            percent("network"),
            or_dash(now.map(|now| show_bytes(now.pages.saturating_mul(4096)))),
            or_dash(now.and_then(|now| now.calls).map(|calls| format!("{calls:.0}"))),
            or_dash(now.and_then(|now| now.sent).map(|bytes| show_bytes(bytes as u64))),
        ]
    }
}
