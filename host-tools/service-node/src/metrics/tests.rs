//! The text of a cluster that is made up, with names that nobody should give.

use std::collections::BTreeMap;
use std::time::Duration;

use coppice_api::cluster::{ClusterState, ClusterView};
use coppice_api::job::JobState;
use coppice_api::node::NodeState;
use coppice_protocol::control::MemoryStatus;
use coppice_protocol::text::ByteString;

use super::host::{ProcessSeen, Usage};
use super::seen::{
    Counts, Distribution, JobEnd, JobSeen, MetricSeen, NodeSeen, OverlaySeen, RecordsSeen, Seen, StoredSeen,
};
use super::{Format, Slots, Snapshot, text};
use crate::output::keeper::Kept;

fn view() -> ClusterView {
    ClusterView {
        name: "made-up".into(),
        state: ClusterState::Up,
        failure: None,
        version: "1.2.3".into(),
        pid: 7,
        started_at_ns: 1_500_000_000,
        nodes: 3,
        nodes_ready: 1,
        nodes_failed: 0,
        pset_size: 2,
        cores: 2,
        memory_bytes: 64 << 20,
        region_bytes: 0,
        accelerator: Some("tcg".into()),
        jobs_queued: 1,
        jobs_running: 1,
        metrics_port: None,
        state_directory: "/state".into(),
        runtime_directory: "/run".into(),
        processes: Vec::new(),
    }
}

fn node(node: u32, state: NodeState) -> NodeSeen {
    NodeSeen {
        node,
        pset: node / 2,
        state,
        kernel: None,
        boot_ns: None,
        cores: None,
        boots: 2,
        boots_failed: 1,
        memory: None,
        programs_bytes: 0,
        files_bytes: 0,
    }
}

fn job(job: u64, name: impl Into<ByteString>, state: JobState) -> JobSeen {
    JobSeen {
        job,
        name: name.into(),
        program: "03".repeat(32),
        state,
        ranks: 5,
        nodes: 2,
        age: Duration::from_millis(2500),
        staged_bytes: 77,
        overlay: None,
    }
}

fn overlay() -> OverlaySeen {
    let metric = |metric: &str, unit: &str, mean: u64| MetricSeen {
        metric: metric.into(),
        unit: unit.into(),
        sum: 4 * mean,
        mean,
        most: 2 * mean,
    };
    let metrics = vec![
        metric("user", "ns", 250_000_000),
        metric("pages-resident", "pages", 3),
        metric("calls", "times", 40),
        metric("counter:steps", "count", 7),
    ];
    OverlaySeen { ranks: 4, metrics }
}

fn snapshot() -> Snapshot {
    let ready = NodeSeen {
        kernel: Some("0.1\n\"x\"".into()),
        boot_ns: Some(75_000_000),
        cores: Some(2),
        memory: Some(MemoryStatus { total: 66_000_000, kernel: 6_000_000, free: 50_000_000, retained: 4096 }),
        programs_bytes: 4096,
        files_bytes: 8192,
        ..node(0, NodeState::Busy)
    };
    let mut waits = Distribution::default();
    (waits.counts[0], waits.counts[12], waits.sum_s) = (2, 1, 100_000.5);
    let counts = Counts {
        jobs: BTreeMap::from([(JobEnd::Succeeded, 2), (JobEnd::Lost, 1)]),
        runs: Distribution::default(),
        waits,
        ras: BTreeMap::from([(("info", "node-ready"), 3), (("fatal", "node-lost"), 1)]),
        output_bytes: 12_345,
    };
    let usage = Usage { resident_bytes: 1 << 20, cpu_s: 0.25 };
    let process =
        |role, pset, restarts, usage: Option<Usage>| ProcessSeen { role, pset, up: usage.is_some(), restarts, usage };
    Snapshot {
        seen: Seen {
            cluster: view(),
            node_states: BTreeMap::from([("busy", 1), ("waiting", 2)]),
            nodes: vec![ready, node(1, NodeState::Waiting)],
            job_states: BTreeMap::from([("queued", 1), ("running", 2), ("starting", 0)]),
            jobs: vec![
                JobSeen {
                    overlay: Some(overlay()),
                    ..job(4, &b"./a \"b\"\\\nc\x1b\xff\xc3\xa9{x=\"y\"} 1"[..], JobState::Running)
                },
                job(5, "\u{fc}".repeat(1000), JobState::Queued),
            ],
            helpers: Vec::new(),
            helpers_all: 3,
            records: RecordsSeen { waiting: 9, trouble: Duration::from_millis(1500) },
            stored: StoredSeen { programs: 1, bytes: 2000 },
            counts,
        },
        processes: vec![
            process("coppiced", None, None, Some(usage)),
            process("fabric", None, Some(0), Some(usage)),
            process("io-node", Some(1), Some(3), None),
        ],
        kept: Kept { logs: 2, bytes: 6000 },
        api: Slots { open: 3, most: 100 },
        scrapers: Slots { open: 1, most: 8 },
    }
}

#[test]
fn a_cluster_in_open_metrics() {
    insta::assert_snapshot!(text(snapshot(), Format::OpenMetrics).expect("text"));
}

#[test]
fn a_cluster_in_the_older_format() {
    insta::assert_snapshot!(text(snapshot(), Format::Classic).expect("text"));
}

#[test]
fn every_line_is_of_the_family_before_it_and_no_metric_is_there_twice() {
    for format in [Format::OpenMetrics, Format::Classic] {
        let text = text(snapshot(), format).expect("text");
        let (body, is_open) = match text.strip_suffix("# EOF\n") {
            Some(body) => (body, true),
            None => (&*text, false),
        };
        assert_eq!(is_open, format == Format::OpenMetrics);
        let (mut family, mut families, mut metrics) = (String::new(), Vec::new(), Vec::new());
        for line in body.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                family = help.split(' ').next().expect("a name").to_owned();
                families.push(family.clone());
            } else if let Some(comment) = line.strip_prefix("# ") {
                assert_eq!(comment.split(' ').nth(1), Some(&*family), "{line}");
            } else {
                assert!(line.starts_with(&family) && line.starts_with("coppice_"), "{line} of {family}");
                metrics.push(line.rsplit_once(' ').expect("a value").0.to_owned());
            }
        }
        for names in [families, metrics] {
            let mut sorted = names.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), names.len(), "{names:?}");
        }
    }
}
