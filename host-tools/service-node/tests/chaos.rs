//! Whatever happens in whatever order: no job and no node is ever forgotten, and what nodes are believed to hold is
//! what they hold.

mod support;

use std::time::Duration;

use coppice_api::job::{JobState, Submission};
use coppice_api::node::NodeState;
use coppice_api::retain::{ForgetOrder, RetainedView};
use coppice_protocol::control::{Exit, JobFailure};
use coppice_protocol::ids::{Generation, JobId, NodeId, PsetId, Rank};
use coppice_protocol::pset::FromPset;
use coppice_protocol::retain::{Discarded, HeldAs, RetainOutcome, Retained, RetainedProgram, WalkCounts};
use coppice_service_node::controller::{Event, Request};
use coppice_service_node::database::Database;
use coppice_service_node::feed::Taker;
use coppice_service_node::limits::{BOOT_TIME_MAX, KILL_TIME_MAX};
use coppice_service_node::plant::{HelperEvent, LastWords, MachineEvent};
use proptest::prelude::{
    ProptestConfig, Strategy, TestCaseError, any, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use proptest::test_runner::FileFailurePersistence;
use support::Cluster;

const NODES: u32 = 5;
const PSET_SIZE: u32 = 2;
const PSETS: u32 = 3;

#[derive(Clone, Debug)]
enum Happening {
    Submit { program: u8, ranks: u32, per_node: u32, timeout_ms: Option<u64>, attached: bool },
    SubmitListed { program: u8, nodes: Vec<u32>, per_node: u32, retain: bool, estimate_ms: Option<u64> },
    RankEnds { job: u64, rank: u32, node: u32, exit: u8 },
    RankRefused { job: u64, rank: u32, pset: u32 },
    JobFails { job: u64, node: u32, pset: u32, code: u8 },
    MachineDies { node: u32 },
    NodeSilent { node: u32, generation: u32 },
    IoNodeDies { pset: u32 },
    FabricDies,
    Kill { job: u64, signal: u8 },
    Detach { job: u64 },
    Reboot { node: u32 },
    BootsFail(bool),
    ObeysKill(bool),
    Forget { program: Option<u8>, patient: bool },
    Discards(bool),
    AnswersLate { node: u32 },
    SaysRetained { job: u64, node: u32, pset: u32, program: u8, absent: bool },
    SaysDiscarded { request: u64, node: u32, pset: u32 },
    Restart,
    Pass { ms: u64 },
}

fn happening() -> impl Strategy<Value = Happening> {
    let (node, pset, job) = (0..NODES + 1, 0..PSETS + 1, 0..12u64);
    prop_oneof![
        5 => (1..4u8, 1..NODES * 2, 1..4u32, proptest::option::of(1..20_000u64), any::<bool>())
            .prop_map(|(program, ranks, per_node, timeout_ms, attached)| {
                Happening::Submit { program, ranks, per_node, timeout_ms, attached }
            }),
        3 => (
            1..4u8,
            proptest::collection::vec(node.clone(), 1..4),
            1..4u32,
            any::<bool>(),
            proptest::option::of(1..20_000u64)
        )
            .prop_map(|(program, nodes, per_node, retain, estimate_ms)| {
                Happening::SubmitListed { program, nodes, per_node, retain, estimate_ms }
            }),
        1 => (job.clone(), node.clone(), pset.clone(), any::<u8>())
            .prop_map(|(job, node, pset, code)| Happening::JobFails { job, node, pset, code }),
        8 => (job.clone(), 0..NODES * 2, node.clone(), any::<u8>())
            .prop_map(|(job, rank, node, exit)| Happening::RankEnds { job, rank, node, exit }),
        1 => (job.clone(), 0..NODES * 2, pset.clone())
            .prop_map(|(job, rank, pset)| Happening::RankRefused { job, rank, pset }),
        2 => node.clone().prop_map(|node| Happening::MachineDies { node }),
        2 => (node.clone(), 0..6u32).prop_map(|(node, generation)| Happening::NodeSilent { node, generation }),
        2 => (proptest::option::of(1..4u8), any::<bool>())
            .prop_map(|(program, patient)| Happening::Forget { program, patient }),
        1 => any::<bool>().prop_map(Happening::Discards),
        2 => node.clone().prop_map(|node| Happening::AnswersLate { node }),
        2 => (job.clone(), node.clone(), pset.clone(), 1..4u8, any::<bool>())
            .prop_map(|(job, node, pset, program, absent)| {
                Happening::SaysRetained { job, node, pset, program, absent }
            }),
        2 => (prop_oneof![0..9u64, any::<u64>()], node.clone(), pset.clone())
            .prop_map(|(request, node, pset)| Happening::SaysDiscarded { request, node, pset }),
        1 => proptest::strategy::Just(Happening::Restart),
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
        Happening::Submit { program, ranks, per_node, timeout_ms, attached } => {
            let job = Submission { timeout_ms, ranks_per_node: per_node, ..support::job(ranks) };
            if let Ok(job) = cluster.submit_program(support::program(program), job)
                && attached
            {
                let feed = cluster.ask(|answer| Request::Attach(job, answer));
                feeds.push(Box::new(feed.expect("attached")));
            }
        }
        Happening::SubmitListed { program, ref nodes, per_node, retain, estimate_ms } => {
            // The last node has one rank less, if that leaves it one.
            let ranks = u32::try_from(nodes.len()).expect("few") * per_node - u32::from(per_node > 1);
            let listed = Submission { retain, estimate_ms, nodes: nodes.clone(), ..support::job(ranks) };
            let job = Submission { ranks_per_node: per_node, ..listed };
            let _ = cluster.submit_program(support::program(program), job);
        }
        Happening::RankEnds { job, rank, node, exit } => {
            let (job, rank, node) = (JobId(job), Rank(rank), NodeId(node));
            let event = cluster.behaviour.ended(PsetId(node.0 / PSET_SIZE), job, rank, node, Exit::Status(exit));
            cluster.event(event);
        }
        Happening::RankRefused { job, rank, pset } => {
            let refused = FromPset::Refused { job: JobId(job), ranks: Rank(rank).into(), reason: "no".into() };
            cluster.behaviour.memory.refused(JobId(job), Rank(rank), |node| node.0 / PSET_SIZE == pset);
            let event = cluster.behaviour.said(PsetId(pset), refused);
            cluster.event(event);
        }
        Happening::JobFails { job, node, pset, code } => {
            let failure = JobFailure { job: JobId(job), rank: Rank(0), code, reason: "abort".into() };
            let failed = FromPset::Failed { node: NodeId(node), failure };
            let event = cluster.behaviour.said(PsetId(pset), failed);
            cluster.event(event);
        }
        Happening::MachineDies { node } => {
            let ended = MachineEvent::Ended { reason: "died".into(), last_words: LastWords::None };
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
        Happening::Detach { job } => cluster.event(Event::Request(Request::Left(JobId(job), Taker::Owner))),
        Happening::Reboot { node } => {
            let _ = cluster.ask(|answer| Request::Reboot(NodeId(node), answer));
        }
        Happening::BootsFail(fail) => cluster.behaviour.boots = !fail,
        Happening::ObeysKill(obeys) => cluster.behaviour.obeys_kill = obeys,
        Happening::Forget { program, patient } => {
            let program = program.map(|program| support::program(program).id.to_string());
            let waiting = cluster
                .ask_and_wait(|answer| Request::Forget(ForgetOrder { program: program.map(Into::into) }, answer));
            if patient {
                feeds.push(Box::new(waiting));
            }
        }
        Happening::Discards(discards) => cluster.behaviour.discards = discards,
        Happening::AnswersLate { node } => {
            let owed = cluster.behaviour.owed.keys().find(|(of, _)| of.0 == node).copied();
            let answer =
                owed.and_then(|(node, request)| cluster.behaviour.discarded(PsetId(node.0 / PSET_SIZE), node, request));
            if let Some(answer) = answer {
                cluster.event(answer);
            }
        }
        Happening::SaysRetained { job, node, pset, program, absent } => {
            let kept = RetainOutcome::Kept(WalkCounts { kept: u64::MAX, ..WalkCounts::default() });
            let outcome = if absent { RetainOutcome::Absent } else { kept };
            let answer = Retained { job: JobId(job), program: support::program(program).id, outcome };
            let event = cluster.behaviour.said(PsetId(pset), FromPset::Retained { node: NodeId(node), answer });
            cluster.event(event);
        }
        Happening::SaysDiscarded { request, node, pset } => {
            // What a node owes it may say in these words; anybody else's are nonsense.
            let is_owed = cluster.behaviour.owed.contains_key(&(NodeId(node), request));
            if !is_owed || pset != node / PSET_SIZE {
                let table = RetainedProgram {
                    program: support::program(9).id,
                    pages: u64::MAX,
                    bytes: u64::MAX,
                    held_as: HeldAs::Table,
                };
                let answer = Discarded { request, given_back: vec![table; 3], still_held: vec![table; 20] };
                let event = cluster.behaviour.said(PsetId(pset), FromPset::Discarded { node: NodeId(node), answer });
                cluster.event(event);
            }
        }
        Happening::Restart => {}
        Happening::Pass { ms } => cluster.pass(Duration::from_millis(ms)),
    }
}

/// Every node that is up is believed to hold what it holds; the others nothing.
fn check_holdings(cluster: &mut Cluster) -> Result<(), TestCaseError> {
    for node in cluster.nodes() {
        let is_up = matches!(node.state, NodeState::Ready | NodeState::Busy);
        let held = if is_up { cluster.behaviour.memory.held(NodeId(node.node)) } else { &[] };
        let held: Vec<RetainedView> = held.iter().map(view).collect();
        prop_assert_eq!(&node.retained, &held, "node {}", node.node);
    }
    Ok(())
}

/// The file says what is believed.
fn check_record(cluster: &mut Cluster) -> Result<(), TestCaseError> {
    let database = Database::open(&support::paths(cluster.home.path()).database()).expect("database");
    for node in cluster.nodes() {
        let recorded = database.node(NodeId(node.node)).expect("node");
        prop_assert_eq!(recorded.retained.iter().map(view).collect::<Vec<_>>(), node.retained, "node {}", node.node);
        prop_assert_eq!(recorded.last_program, node.last_program, "node {}", node.node);
    }
    Ok(())
}

fn view(held: &RetainedProgram) -> RetainedView {
    let is_file = held.held_as == HeldAs::File;
    RetainedView {
        program: held.program.to_string(),
        pages: held.pages,
        bytes: held.bytes,
        is_file,
        is_read: held.held_as == HeldAs::Read,
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        // Beside this file: there is no lib.rs here that the default looks for.
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_is_forgotten(happenings in proptest::collection::vec(happening(), 1..80)) {
        let mut cluster = Cluster::up(NODES, PSET_SIZE);
        let mut feeds = Vec::new();
        for happening in &happenings {
            if matches!(happening, Happening::Restart) {
                feeds.clear();
                cluster = cluster.restarted();
                cluster.settle();
            }
            happen(&mut cluster, happening, &mut feeds);
            check_holdings(&mut cluster)?;
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

        check_record(&mut cluster)?;

        // From here on everything works: nodes come back, jobs can be ended, and all of it can be used again.
        cluster.behaviour.boots = true;
        cluster.behaviour.obeys_kill = true;
        for job in cluster.ask(|answer| Request::Jobs(1000, None, answer)).expect("jobs") {
            let _ = cluster.ask(|answer| Request::Kill(JobId(job.job), 9, answer));
        }
        cluster.pass(BOOT_TIME_MAX + KILL_TIME_MAX);
        for node in 0..NODES {
            cluster.ask(|answer| Request::Reboot(NodeId(node), answer)).expect("rebooted");
        }
        for job in cluster.ask(|answer| Request::Jobs(1000, None, answer)).expect("jobs") {
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
