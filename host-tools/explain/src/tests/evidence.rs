//! Evidence to begin with, and how it is changed.

use std::net::Ipv4Addr;

use coppice_api::job::{JobDetail, JobState, JobView, RankCounters, RankOutcome, RankView, SyscallView};
use coppice_api::node::{MemoryView, NodeState, NodeView};
use coppice_api::overlay::{EpochView, MetricView, ProfileView, TopView};
use coppice_api::ras::RasView;

use crate::times::PHASES;
use crate::{Cause, Evidence, Explanation, explain};

/// A second, ns.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// When it was submitted, ns since 1970.
pub(crate) const BEGIN: u64 = 1_790_000_000 * SECOND;

/// A rank that ended well after ten seconds.
pub(crate) fn rank(rank: u32) -> RankView {
    let counters = RankCounters { launch_ns: 400_000, run_ns: 10 * SECOND, ..RankCounters::default() };
    RankView { exit: Some(0), counters, ..RankView::ended(rank, rank, RankOutcome::Exited, None) }
}

/// Another job on some nodes.
pub(crate) fn job(job: u64, nodes: &[u32], started_at_ns: Option<u64>, ended_at_ns: Option<u64>) -> JobView {
    JobView { job, nodes: nodes.to_vec(), started_at_ns, ended_at_ns, ..quiet().job.job }
}

pub(crate) fn node(node: u32) -> NodeView {
    NodeView {
        node,
        pset: 0,
        state: NodeState::Ready,
        job: None,
        generation: 1,
        address: Ipv4Addr::LOCALHOST,
        kernel: None,
        boot_ns: None,
        boot_idle_ns: None,
        cores: Some(1),
        memory: Some(MemoryView { total_bytes: 63 << 20, kernel_bytes: 8 << 20, free_bytes: 50 << 20 }),
        region_bytes: 0,
        last_program: None,
        retained: vec![],
        pid: None,
        console: "/c".into(),
    }
}

/// A job of four ranks that ran for ten seconds and of which nothing stands out.
pub(crate) fn quiet() -> Evidence {
    let view = JobView {
        job: 7,
        state: JobState::Ended,
        name: "./solve".into(),
        arguments: vec![],
        program: "0123".into(),
        root: "/r".into(),
        directory: "/".into(),
        ranks: 4,
        ranks_per_node: 1,
        nodes: vec![0, 1, 2, 3],
        staged: vec![],
        transfers: vec![],
        submitted_at_ns: BEGIN,
        started_at_ns: Some(BEGIN),
        running_at_ns: Some(BEGIN + 10_000_000),
        ended_at_ns: Some(BEGIN + 10 * SECOND),
        estimate_ms: None,
        placement: None,
        ahead: None,
        retention: None,
        exit_status: Some(0),
        reason: None,
        detached: false,
        output: None,
        restarted_from: None,
        spawned_by: None,
        checkpoint_policy: None,
        checkpoints_made: None,
        continued_as: None,
    };
    Evidence {
        job: JobDetail { job: view, rank_reports: (0..4).map(rank).collect() },
        profile: ProfileView { job: 7, epochs: vec![] },
        ras: vec![],
        jobs: vec![],
        nodes: (0..4).map(node).collect(),
        links: None,
        now_ns: BEGIN + 20 * SECOND,
    }
}

/// What ranks have of something, rank by rank.
pub(crate) fn metric(name: &str, values: &[u64]) -> MetricView {
    let sum: u64 = values.iter().sum();
    let mut top: Vec<TopView> = (0..).zip(values).map(|(rank, value)| TopView { rank, value: *value }).collect();
    top.sort_by_key(|top| std::cmp::Reverse(top.value));
    let least = top.last().copied().unwrap_or(TopView { rank: 0, value: 0 });
    top.truncate(4);
    MetricView {
        metric: name.into(),
        unit: "ns".into(),
        count: values.len() as u64,
        sum,
        least: least.value,
        least_rank: least.rank,
        mean: sum / values.len().max(1) as u64,
        deviation: 0,
        p50: 0,
        p90: 0,
        p99: 0,
        top,
        histogram: vec![],
    }
}

/// The epoch of that second.
pub(crate) fn epoch(second: u64, metrics: &[(&str, [u64; 4])]) -> EpochView {
    EpochView {
        generation: 1,
        epoch: second,
        period_ns: SECOND,
        end_ns: BEGIN + (second + 1) * SECOND,
        came_ns: 0,
        ranks: 4,
        of: 4,
        missing: String::new(),
        metrics: metrics.iter().map(|(name, values)| metric(name, values)).collect(),
        alike: vec![],
        counters: vec![],
        counters_dropped: 0,
        node_count: 0,
        nodes: vec![],
        totals: vec![],
    }
}

/// The job with this in each of the ten seconds that it ran. Times are thousandths of a second.
pub(crate) fn gathered(metrics: &[(&'static str, [u64; 4])]) -> Evidence {
    let scaled = |(name, values): &(&'static str, [u64; 4])| {
        (*name, values.map(|value| if PHASES.contains(name) { value * 1_000_000 } else { value }))
    };
    let metrics: Vec<_> = metrics.iter().map(scaled).collect();
    let epochs = (0..10).map(|second| epoch(second, &metrics)).collect();
    Evidence { profile: ProfileView { job: 7, epochs }, ..quiet() }
}

/// How often all ranks together made a call.
pub(crate) fn calls(evidence: &mut Evidence, name: &str, calls: u64) {
    let call = SyscallView { number: 1, name: Some(name.into()), calls: calls / 4, unknown: 0 };
    for rank in &mut evidence.job.rank_reports {
        rank.syscalls.push(call.clone());
    }
}

pub(crate) fn event(event: u64, kind: &str, node: Option<u32>, rank: Option<u32>, text: &str) -> RasView {
    RasView {
        event,
        at_ns: BEGIN + event * SECOND,
        severity: "error".into(),
        kind: kind.into(),
        node,
        job: rank.map(|_| 7),
        rank,
        address: None,
        instruction: None,
        text: text.into(),
    }
}

/// The causes that are named, in order.
pub(crate) fn causes(evidence: &Evidence) -> Vec<Cause> {
    explain(evidence).findings.iter().map(|finding| finding.cause).collect()
}

/// The first cause.
pub(crate) fn first(evidence: &Evidence) -> Cause {
    causes(evidence)[0]
}

/// All that is said, as it is printed.
pub(crate) fn said(explanation: &Explanation) -> String {
    let line = |finding: &crate::Finding| {
        let advice = finding.advice.as_ref().map(|advice| format!("\n  {}: {}", advice.text, advice.command));
        format!("{}{}\n", finding.text, advice.unwrap_or_default())
    };
    explanation.findings.iter().map(line).collect()
}
