//! Whatever happens in whatever order: no job and no node is ever forgotten.

mod support;

use std::time::Duration;

use coppice_api::job::{JobState, Submission};
use coppice_api::node::NodeState;
use coppice_protocol::control::Exit;
use coppice_protocol::ids::{Generation, JobId, NodeId, PsetId, Rank};
use coppice_protocol::pset::FromPset;
use coppice_service_node::controller::{Event, Request};
use coppice_service_node::limits::{BOOT_TIME_MAX, KILL_TIME_MAX};
use coppice_service_node::plant::{HelperEvent, MachineEvent};
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use support::Cluster;

const NODES: u32 = 5;
const PSET_SIZE: u32 = 2;
const PSETS: u32 = 3;

#[derive(Clone, Debug)]
enum Happening {
    Submit { ranks: u32, timeout_ms: Option<u64>, attached: bool },
    RankEnds { job: u64, rank: u32, node: u32, exit: u8 },
    RankRefused { job: u64, rank: u32, pset: u32 },
    MachineDies { node: u32 },
    NodeSilent { node: u32, generation: u32 },
    IoNodeDies { pset: u32 },
    FabricDies,
    Kill { job: u64, signal: u8 },
    Detach { job: u64 },
    Reboot { node: u32 },
    BootsFail(bool),
    ObeysKill(bool),
    Pass { ms: u64 },
}

fn happening() -> impl Strategy<Value = Happening> {
    let (node, pset, job) = (0..NODES + 1, 0..PSETS + 1, 0..12u64);
    prop_oneof![
        5 => (0..NODES + 2, proptest::option::of(1..20_000u64), any::<bool>())
            .prop_map(|(ranks, timeout_ms, attached)| Happening::Submit { ranks: ranks.max(1), timeout_ms, attached }),
        5 => (job.clone(), 0..NODES, node.clone(), any::<u8>())
            .prop_map(|(job, rank, node, exit)| Happening::RankEnds { job, rank, node, exit }),
        1 => (job.clone(), 0..NODES, pset.clone())
            .prop_map(|(job, rank, pset)| Happening::RankRefused { job, rank, pset }),
        2 => node.clone().prop_map(|node| Happening::MachineDies { node }),
        2 => (node.clone(), 0..6u32).prop_map(|(node, generation)| Happening::NodeSilent { node, generation }),
        1 => pset.prop_map(|pset| Happening::IoNodeDies { pset }),
        1 => proptest::strategy::Just(Happening::FabricDies),
        2 => (job.clone(), any::<u8>()).prop_map(|(job, signal)| Happening::Kill { job, signal }),
        1 => job.prop_map(|job| Happening::Detach { job }),
        1 => node.prop_map(|node| Happening::Reboot { node }),
        1 => any::<bool>().prop_map(Happening::BootsFail),
        1 => any::<bool>().prop_map(Happening::ObeysKill),
        3 => (0..40_000u64).prop_map(|ms| Happening::Pass { ms }),
    ]
}

fn happen(cluster: &mut Cluster, happening: &Happening, feeds: &mut Vec<Box<dyn std::any::Any>>) {
    match *happening {
        Happening::Submit { ranks, timeout_ms, attached } => {
            if let Ok(job) = cluster.submit(Submission { timeout_ms, ..support::job(ranks) })
                && attached
            {
                let feed = cluster.ask(|answer| Request::Attach(job, answer));
                feeds.push(Box::new(feed.expect("attached")));
            }
        }
        Happening::RankEnds { job, rank, node, exit } => {
            let (job, rank, node) = (JobId(job), Rank(rank), NodeId(node));
            let event = cluster.behaviour.ended(PsetId(node.0 / PSET_SIZE), job, rank, node, Exit::Status(exit));
            cluster.event(event);
        }
        Happening::RankRefused { job, rank, pset } => {
            let refused = FromPset::Refused { job: JobId(job), rank: Rank(rank), reason: "no".into() };
            let event = cluster.behaviour.said(PsetId(pset), refused);
            cluster.event(event);
        }
        Happening::MachineDies { node } => {
            let ended = MachineEvent::Ended { reason: "died".into(), console: String::new() };
            let event = cluster.behaviour.machine(NodeId(node), ended);
            cluster.event(event);
        }
        Happening::NodeSilent { node, generation } => {
            let (node, generation) = (NodeId(node), Generation(generation));
            let lost = FromPset::NodeLost { node, generation, reason: "silent".into() };
            let event = cluster.behaviour.said(PsetId(node.0 / PSET_SIZE), lost);
            cluster.event(event);
        }
        Happening::IoNodeDies { pset } => {
            let event = cluster.behaviour.pset(PsetId(pset), HelperEvent::Ended("died".into()));
            cluster.event(event);
        }
        Happening::FabricDies => {
            let event = cluster.behaviour.fabric(HelperEvent::Ended("died".into()));
            cluster.event(event);
        }
        Happening::Kill { job, signal } => {
            let _ = cluster.ask(|answer| Request::Kill(JobId(job), signal, answer));
        }
        Happening::Detach { job } => cluster.event(Event::Request(Request::Detached(JobId(job)))),
        Happening::Reboot { node } => {
            let _ = cluster.ask(|answer| Request::Reboot(NodeId(node), answer));
        }
        Happening::BootsFail(fail) => cluster.behaviour.boots = !fail,
        Happening::ObeysKill(obeys) => cluster.behaviour.obeys_kill = obeys,
        Happening::Pass { ms } => cluster.pass(Duration::from_millis(ms)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_forgotten(happenings in proptest::collection::vec(happening(), 1..80)) {
        let mut cluster = Cluster::up(NODES, PSET_SIZE);
        let mut feeds = Vec::new();
        for happening in &happenings {
            happen(&mut cluster, happening, &mut feeds);
            // A node that has a job has one that is under way, and one that is in its block.
            let nodes = cluster.ask(Request::Nodes).expect("nodes");
            for node in nodes {
                prop_assert_eq!(node.state == NodeState::Busy, node.job.is_some());
                if let Some(job) = node.job {
                    let job = cluster.ask(|answer| Request::Job(JobId(job), answer)).expect("job").job;
                    prop_assert!(job.state != JobState::Ended && job.nodes.contains(&node.node));
                }
            }
        }

        // From here on everything works: nodes come back, jobs can be ended, and all of it can be used again.
        cluster.behaviour.boots = true;
        cluster.behaviour.obeys_kill = true;
        for job in cluster.ask(|answer| Request::Jobs(1000, answer)).expect("jobs") {
            let _ = cluster.ask(|answer| Request::Kill(JobId(job.job), 9, answer));
        }
        cluster.pass(BOOT_TIME_MAX + KILL_TIME_MAX);
        for node in 0..NODES {
            cluster.ask(|answer| Request::Reboot(NodeId(node), answer)).expect("rebooted");
        }
        for job in cluster.ask(|answer| Request::Jobs(1000, answer)).expect("jobs") {
            prop_assert_eq!(job.state, JobState::Ended);
            prop_assert!(job.exit_status.is_some());
        }
        let states: Vec<NodeState> =
            cluster.ask(Request::Nodes).expect("nodes").iter().map(|node| node.state).collect();
        prop_assert_eq!(states, vec![NodeState::Ready; NODES as usize]);
        let job = cluster.submit(support::job(NODES)).expect("accepted");
        let detail = cluster.ask(|answer| Request::Job(job, answer)).expect("job").job;
        prop_assert_eq!(detail.state, JobState::Running);
        cluster.event(Event::Request(Request::Down));
        prop_assert!(cluster.controller.is_down());
    }
}
