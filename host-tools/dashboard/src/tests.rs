//! Jobs that pages are made of in tests.

use coppice_api::checkpoint::{CheckpointName, CheckpointView};
use coppice_api::job::{JobDetail, JobState, JobView, RankCounters, RankOutcome, RankView, SyscallView};
use coppice_api::node::{NodeState, NodeView};
use coppice_api::overlay::{
    EpochView, MetricView, OverlayState, OverlayView, ProcessView, ProfileView, RankProfileView, SpanView,
};
use coppice_api::ras::RasView;
use coppice_explain::Evidence;

use crate::matter::{Function, Matter, Output};

const BEGUN_NS: u64 = 1_790_000_000_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// An epoch of a second in which ranks have so much of these, all together: seconds, or times.
pub(crate) fn epoch(number: u64, sums: &[(&str, u64)]) -> EpochView {
    let metric = |(name, sum): &(&str, u64)| MetricView {
        metric: (*name).to_owned(),
        unit: if *name == "calls" { "times" } else { "ns" }.to_owned(),
        count: 2,
        sum: *sum,
        least: sum / 4,
        least_rank: 0,
        mean: sum / 2,
        deviation: 0,
        p50: sum / 4,
        p90: sum / 2,
        p99: sum / 2,
        top: vec![],
        histogram: vec![],
    };
    EpochView {
        generation: 1,
        epoch: number,
        period_ns: SECOND_NS,
        end_ns: BEGUN_NS + (number + 1) * SECOND_NS,
        came_ns: 0,
        ranks: 2,
        of: 2,
        missing: String::new(),
        metrics: sums.iter().map(metric).collect(),
        alike: vec![],
        counters: vec![],
        counters_dropped: 0,
        node_count: 0,
        nodes: vec![],
        totals: vec![],
    }
}

/// A node in that state, of which nothing else is known.
pub(crate) fn node(node: u32, state: NodeState) -> NodeView {
    NodeView {
        node,
        pset: 0,
        state,
        job: None,
        generation: 1,
        address: std::net::Ipv4Addr::LOCALHOST,
        kernel: None,
        boot_ns: None,
        boot_idle_ns: None,
        cores: None,
        memory: None,
        region_bytes: 0,
        last_program: None,
        retained: vec![],
        pid: None,
        console: "/c".into(),
    }
}

fn job() -> JobView {
    let plain = coppice_api::job::Submission::plain("/p".into(), "./solve".into(), 2);
    JobView {
        job: 7,
        state: JobState::Ended,
        name: plain.name,
        arguments: vec!["--steps".into(), "100".into()],
        program: "0123abcd".into(),
        root: "/data".into(),
        directory: "/".into(),
        ranks: 2,
        ranks_per_node: 1,
        nodes: vec![4, 5],
        staged: vec![],
        transfers: vec![],
        submitted_at_ns: BEGUN_NS - SECOND_NS,
        started_at_ns: Some(BEGUN_NS - SECOND_NS / 2),
        running_at_ns: Some(BEGUN_NS),
        ended_at_ns: Some(BEGUN_NS + 3 * SECOND_NS),
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
    }
}

fn rank(rank: u32) -> RankView {
    let counters = RankCounters { run_ns: 3 * SECOND_NS, launch_ns: 2_000_000, ..RankCounters::default() };
    let syscalls = vec![SyscallView { number: 0, name: Some("read".into()), calls: 12, unknown: 0 }];
    RankView { exit: Some(0), counters, syscalls, ..RankView::ended(rank, rank + 4, RankOutcome::Exited, None) }
}

fn of_rank(rank: u32) -> RankProfileView {
    let span = |second: u64| SpanView {
        generation: 1,
        begin_ns: BEGUN_NS + second * SECOND_NS,
        end_ns: BEGUN_NS + (second + 1) * SECOND_NS,
        values: [
            ("user".to_owned(), SECOND_NS * (u64::from(rank) + 1) / 4),
            ("network".to_owned(), SECOND_NS / 2),
            (format!("sent-to:{}", 5 - rank), 1000 + second),
            ("sent-to:others".to_owned(), 5),
        ]
        .into(),
    };
    let units = [("user", "ns"), ("network", "ns"), ("sent-to:4", "bytes")];
    let units = units.map(|(name, unit)| (name.to_owned(), unit.to_owned())).into();
    RankProfileView { job: 7, rank, units, spans: vec![span(0), span(2)] }
}

/// A job of two ranks of which everything is known.
pub(crate) fn matter() -> Matter {
    let event = RasView {
        event: 3,
        at_ns: BEGUN_NS,
        severity: "warn".into(),
        kind: "unknown-syscall".into(),
        node: Some(4),
        job: Some(7),
        rank: Some(0),
        address: None,
        instruction: None,
        text: "fork".into(),
    };
    let other = RasView { job: Some(6), ..event.clone() };
    let seconds = |some: &[(&'static str, u64)]| {
        some.iter().map(|(name, tenths)| (*name, tenths * SECOND_NS / 10)).collect::<Vec<_>>()
    };
    let epochs = vec![epoch(0, &seconds(&[("user", 5), ("network", 15)])), epoch(1, &seconds(&[("user", 20)]))];
    let overlay = OverlayView {
        job: 7,
        state: OverlayState::Running,
        generation: 1,
        wish: None,
        period_ms: Some(1000),
        ranks: 2,
        nodes_here: 2,
        nodes: 2,
        processes: vec![ProcessView {
            process: 0,
            node: 4,
            above: None,
            processes: vec![],
            nodes: vec![4, 5],
            ranks: 2,
        }],
        epochs: 2,
        late: 0,
        dropped: 0,
        lies: 0,
        not_recorded: 0,
        missing: vec![],
        last: None,
    };
    let checkpoint = CheckpointView {
        at_ns: BEGUN_NS,
        pause_us: 12_000,
        pages: 900,
        bytes: 3 << 20,
        ..CheckpointView::unknown(CheckpointName { job: 7, number: 1 })
    };
    Matter {
        evidence: Evidence {
            job: JobDetail { job: job(), rank_reports: vec![rank(0), rank(1)] },
            profile: ProfileView { job: 7, epochs },
            ras: vec![event, other],
            jobs: vec![job()],
            nodes: vec![],
            links: None,
            now_ns: BEGUN_NS + 10 * SECOND_NS,
        },
        overlay: Some(overlay),
        ranks: vec![of_rank(0), of_rank(1)],
        checkpoints: vec![checkpoint],
        functions: vec![Function { name: "relax<f64>".into(), itself: 61.25, with_callees: 70.0 }],
        flame_graph: Some(b"<svg/>".to_vec()),
        output: Some(Output { bytes: b"step 1\nstep 2 & <done>\n".to_vec(), before: 2048 }),
    }
}

/// The same, with all that a program or a user may name made to break a page.
pub(crate) fn hostile() -> Matter {
    let bad = "\"'></pre><script>alert(1)</script><img src=x onerror=\"alert(1)\">\u{1b}[2J\0\u{202e}";
    let mut matter = matter();
    let job = &mut matter.evidence.job.job;
    (job.name, job.arguments, job.directory) = (bad.into(), vec![bad.into(), b"\xff<script>"[..].into()], bad.into());
    (job.root, job.reason) = (bad.into(), Some(bad.into()));
    (job.state, job.exit_status) = (JobState::Ended, Some(1));
    for rank in &mut matter.evidence.job.rank_reports {
        (rank.outcome, rank.signal, rank.reason) = (RankOutcome::Signalled, Some(11), Some(bad.into()));
    }
    for event in &mut matter.evidence.ras {
        (event.text, event.kind, event.severity) = (bad.into(), bad.into(), bad.into());
    }
    for view in &mut matter.ranks {
        view.spans[0].values.insert(format!("sent-to:{bad}"), 7);
    }
    for epoch in &mut matter.evidence.profile.epochs {
        epoch.metrics[0].metric = bad.into();
    }
    matter.checkpoints[0].damaged = Some(bad.into());
    matter.functions[0].name = bad.into();
    matter.flame_graph = Some(bad.as_bytes().to_vec());
    matter.output = Some(Output { bytes: bad.as_bytes().to_vec(), before: 0 });
    matter
}
