//! What the controller decides, event by event.

mod support;

use std::time::Duration;

use coppice_api::cluster::ClusterState;
use coppice_api::job::{EXIT_COPPICE, JobDetail, JobState, RankOutcome};
use coppice_api::node::{NodeState, NodeView};
use coppice_api::ras::{RasQuery, RasView};
use coppice_api::stream::JobEvent;
use coppice_protocol::control::Exit;
use coppice_protocol::ids::{Generation, JobId, NodeId, PsetId, Rank};
use coppice_protocol::limits::OUTPUT_WINDOW_BYTES;
use coppice_protocol::pset::{FromPset, ToPset};
use coppice_protocol::ship::Stream;
use coppice_service_node::controller::{Event, Request};
use coppice_service_node::feed::{Piece, Taker};
use coppice_service_node::limits::{
    ATTACH_TIME_MAX, BOOT_ATTEMPTS_MAX, BOOT_RETRY_TIME_GIVEN_UP, BOOT_RETRY_TIME_MIN, BOOT_TIME_MAX, KILL_TIME_MAX,
};
use coppice_service_node::plant::{HelperEvent, LastWords};
use support::{Cluster, Order, job};

fn nodes(cluster: &mut Cluster) -> Vec<NodeView> {
    cluster.nodes()
}

fn detail(cluster: &mut Cluster, job: JobId) -> JobDetail {
    cluster.job(job)
}

fn events(cluster: &mut Cluster, kind: &str) -> Vec<RasView> {
    let all = cluster.ask(|answer| Request::Ras(RasQuery::default(), answer)).expect("events");
    all.into_iter().filter(|event| event.kind == kind).collect()
}

fn state(cluster: &mut Cluster) -> (ClusterState, Option<String>) {
    let view = cluster.ask(Request::Watch).expect("watch");
    let view = view.borrow();
    (view.state, view.failure.clone())
}

fn all_ready(cluster: &mut Cluster) -> bool {
    nodes(cluster).iter().all(|node| node.state == NodeState::Ready)
}

#[test]
fn comes_up_in_order() {
    let mut cluster = Cluster::up(5, 2);
    assert_eq!(state(&mut cluster), (ClusterState::Up, None));
    assert!(all_ready(&mut cluster));
    assert_eq!(nodes(&mut cluster).iter().map(|node| node.pset).collect::<Vec<_>>(), [0, 0, 1, 1, 2]);
    let position = |wanted: fn(&Order) -> bool| cluster.orders.iter().position(wanted).expect("ordered");
    let fabric = position(|order| matches!(order, Order::StartFabric(..)));
    let io_node = position(|order| matches!(order, Order::StartIoNode(..)));
    let key = position(|order| matches!(order, Order::Tell(_, message) if matches!(**message, ToPset::AddNode { .. })));
    let boot = position(|order| matches!(order, Order::Boot(..)));
    assert!(fabric < io_node && io_node < key && key < boot, "the I/O node knows the key before the node calls");
    assert_eq!(events(&mut cluster, "node-ready").len(), 5);
}

#[test]
fn boots_a_bounded_number_at_a_time() {
    let mut cluster = Cluster::new(64, 64);
    cluster.behaviour.boots = false;
    cluster.settle();
    let booting = cluster.orders.iter().filter(|order| matches!(order, Order::Boot(..))).count();
    assert!((1..64).contains(&booting), "{booting}");
    // As one gets ready the next one is booted.
    let ready = cluster.behaviour.ready(PsetId(0), NodeId(0), Generation(1));
    cluster.event(ready);
    assert_eq!(cluster.orders.iter().filter(|order| matches!(order, Order::Boot(..))).count(), booting + 1);
}

#[test]
fn a_job_runs_on_its_block_and_exits_as_the_worst_of_its_ranks() {
    let mut cluster = Cluster::up(4, 2);
    let id = cluster.submit(job(3)).expect("accepted");
    let member = |rank, node| support::cluster::Placed {
        rank: Rank(rank),
        node: NodeId(node),
        use_retained: false,
        restore: None,
    };
    assert_eq!(cluster.members(id), [member(0, 0), member(1, 1), member(2, 2)]);
    let told: Vec<PsetId> = cluster.told().filter(|(_, told)| matches!(told, ToPset::Start(_))).map(|t| t.0).collect();
    assert_eq!(told, [PsetId(0), PsetId(1)]);
    assert_eq!(detail(&mut cluster, id).job.state, JobState::Running);
    assert_eq!(nodes(&mut cluster)[2].job, Some(id.0));
    for (rank, exit) in [(2, Exit::Status(3)), (0, Exit::Signal(11)), (1, Exit::Status(0))] {
        assert_eq!(detail(&mut cluster, id).job.ended_at_ns, None);
        let ended = cluster.behaviour.ended(PsetId(rank / 2), id, Rank(rank), NodeId(rank), exit);
        cluster.event(ended);
    }
    let detail = detail(&mut cluster, id);
    assert_eq!((detail.job.state, detail.job.exit_status, detail.job.reason), (JobState::Ended, Some(139), None));
    assert_eq!(detail.rank_reports.iter().map(|rank| rank.signal).collect::<Vec<_>>(), [Some(11), None, None]);
    assert!(all_ready(&mut cluster), "the block is free again");
    assert_eq!(cluster.told().filter(|(_, message)| matches!(message, ToPset::Forget { .. })).count(), 2);
    let program = "03".repeat(32);
    let last: Vec<_> = nodes(&mut cluster).into_iter().map(|node| node.last_program.map(|last| last.program)).collect();
    assert_eq!(last, [Some(program.clone()), Some(program.clone()), Some(program), None]);
}

#[test]
fn a_lost_node_ends_its_job_and_comes_back() {
    let mut cluster = Cluster::up(3, 3);
    let id = cluster.submit(job(2)).expect("accepted");
    cluster.lose_machine(1);
    let detail = detail(&mut cluster, id);
    let reason = detail.job.reason.expect("a reason");
    assert!(reason.contains("node 1") && reason.contains("signal 9") && reason.contains("last words"), "{reason}");
    assert_eq!(detail.job.exit_status, Some(EXIT_COPPICE));
    assert_eq!(detail.rank_reports[0].outcome, RankOutcome::Signalled, "the other rank was killed");
    assert_eq!(detail.rank_reports[1].outcome, RankOutcome::Lost);
    let lost = events(&mut cluster, "node-lost");
    assert_eq!((lost.len(), lost[0].node, lost[0].job), (1, Some(1), Some(id.0)));
    assert!(all_ready(&mut cluster));
    assert_eq!(nodes(&mut cluster).iter().map(|node| node.generation).collect::<Vec<_>>(), [1, 2, 1]);
}

#[test]
fn a_panic_is_an_event_and_the_reason_of_the_jobs_end() {
    let mut cluster = Cluster::up(2, 2);
    let id = cluster.submit(job(2)).expect("accepted");
    let cause = LastWords::Panic("index out of bounds (src/x.rs:1:2)".into());
    cluster.end_machine(1, "the guest ended the machine with status 2", cause);
    let reason = detail(&mut cluster, id).job.reason.expect("a reason");
    assert!(reason.contains("status 2; kernel panic: index out of bounds (src/x.rs:1:2)"), "{reason}");
    let panics = events(&mut cluster, "kernel-panic");
    assert_eq!((panics.len(), panics[0].node, panics[0].job), (1, Some(1), Some(id.0)));
    assert_eq!((panics[0].text.as_str(), panics[0].severity.as_str()), ("index out of bounds (src/x.rs:1:2)", "fatal"));
    // Also of one without a job.
    assert!(all_ready(&mut cluster));
    cluster.end_machine(0, "the guest ended the machine with status 2", LastWords::Panic("again".into()));
    let panics = events(&mut cluster, "kernel-panic");
    assert_eq!((panics.len(), panics[1].node, panics[1].job), (2, Some(0), None));
}

#[test]
fn an_unreachable_node_is_killed_before_it_is_booted_again() {
    let mut cluster = Cluster::up(1, 1);
    let id = cluster.submit(job(1)).expect("accepted");
    let lost = FromPset::NodeLost { node: NodeId(0), generation: Generation(1), reason: "silent".into() };
    let event = cluster.behaviour.said(PsetId(0), lost);
    cluster.event(event);
    let tail: Vec<_> = cluster
        .orders
        .iter()
        .filter_map(|order| match order {
            Order::KillMachine(_) => Some("kill"),
            Order::Boot(..) => Some("boot"),
            _ => None,
        })
        .collect();
    assert_eq!(tail, ["boot", "kill", "boot"]);
    assert!(detail(&mut cluster, id).job.reason.is_some_and(|reason| reason.contains("silent")));
    assert!(all_ready(&mut cluster));
}

#[test]
fn events_of_an_earlier_boot_are_ignored() {
    let mut cluster = Cluster::up(1, 1);
    cluster.lose_machine(0);
    assert_eq!(nodes(&mut cluster)[0].generation, 2);
    for stale in [
        FromPset::NodeLost { node: NodeId(0), generation: Generation(1), reason: "late".into() },
        FromPset::NodeLost { node: NodeId(7), generation: Generation(1), reason: "nobody".into() },
        support::behaviour::one_end(NodeId(0), support::behaviour::report(JobId(99), Rank(0), Exit::Status(0)), &[]),
        FromPset::Launched { job: JobId(99), ranks: Rank(5).into() },
        FromPset::Output { job: JobId(99), rank: Rank(0), stream: Stream::Output, bytes: vec![1] },
    ] {
        let event = cluster.behaviour.said(PsetId(0), stale);
        cluster.event(event);
    }
    assert!(all_ready(&mut cluster));
}

#[test]
fn a_lost_io_node_takes_its_nodes_along() {
    let mut cluster = Cluster::up(4, 2);
    let first = cluster.submit(job(2)).expect("accepted");
    let second = cluster.submit(job(2)).expect("accepted");
    let event = cluster.behaviour.pset(PsetId(0), HelperEvent::Ended("signal: 9 (SIGKILL)".into()));
    cluster.event(event);
    let ended = detail(&mut cluster, first).job;
    assert!(ended.reason.is_some_and(|reason| reason.contains("I/O node of pset 0")));
    assert_eq!(detail(&mut cluster, second).job.state, JobState::Running, "the other pset goes on");
    assert_eq!(events(&mut cluster, "io-node-lost").len(), 1);
    assert_eq!(nodes(&mut cluster).iter().map(|node| node.generation).collect::<Vec<_>>(), [2, 2, 1, 1]);
    assert_eq!(nodes(&mut cluster)[0].state, NodeState::Ready);
}

#[test]
fn a_lost_fabric_takes_everything_along() {
    let mut cluster = Cluster::up(4, 2);
    let id = cluster.submit(job(4)).expect("accepted");
    let event = cluster.behaviour.fabric(HelperEvent::Ended("signal: 9 (SIGKILL)".into()));
    cluster.event(event);
    assert!(detail(&mut cluster, id).job.reason.is_some_and(|reason| reason.contains("fabric")));
    assert!(all_ready(&mut cluster));
    assert!(nodes(&mut cluster).iter().all(|node| node.generation == 2));
    assert_eq!(cluster.orders.iter().filter(|order| matches!(order, Order::StartFabric(..))).count(), 2);
}

#[test]
fn a_node_that_does_not_boot_is_given_up() {
    let mut cluster = Cluster::new(2, 2);
    cluster.behaviour.boots = false;
    cluster.settle();
    let ready = cluster.behaviour.ready(PsetId(0), NodeId(0), Generation(1));
    cluster.event(ready);
    let id = cluster.submit(job(2)).expect("both may work yet");
    let _feed = cluster.ask(|answer| Request::Attach(id, answer)).expect("attached");
    for attempt in 0..BOOT_ATTEMPTS_MAX {
        cluster.pass(BOOT_TIME_MAX + BOOT_RETRY_TIME_MIN * 4u32.pow(attempt));
    }
    let (state, failure) = state(&mut cluster);
    assert_eq!(state, ClusterState::Failed);
    assert!(failure.is_some_and(|failure| failure.contains("node 1")));
    assert_eq!(nodes(&mut cluster)[1].state, NodeState::Failed);
    assert_eq!(nodes(&mut cluster)[1].generation, BOOT_ATTEMPTS_MAX);
    assert_eq!(events(&mut cluster, "node-lost").len(), BOOT_ATTEMPTS_MAX as usize);
    let ended = detail(&mut cluster, id).job;
    assert!(ended.reason.is_some_and(|reason| reason.contains("still work")), "it could never start");
    assert!(cluster.submit(job(2)).expect_err("too many").message.contains("1 nodes that work"));
    // Somebody mended it.
    cluster.behaviour.boots = true;
    cluster.ask(|answer| Request::Reboot(NodeId(1), answer)).expect("rebooted");
    assert!(all_ready(&mut cluster));
}

/// How often a node was booted.
fn boots(cluster: &Cluster) -> usize {
    cluster.orders.iter().filter(|order| matches!(order, Order::Boot(..))).count()
}

#[test]
fn boots_that_fail_at_once_are_tried_again_after_a_while() {
    let mut cluster = Cluster::up(1, 1);
    let at_first = boots(&cluster);
    // Machines end as soon as they are started, as on a host that is out of something.
    cluster.behaviour.boots = false;
    let fail = |cluster: &mut Cluster| cluster.end_machine(0, "no space left on device", LastWords::None);
    fail(&mut cluster);
    assert_eq!(boots(&cluster), at_first + 1, "a node that was up is booted at once");
    for attempt in 1..BOOT_ATTEMPTS_MAX {
        fail(&mut cluster);
        let wait = BOOT_RETRY_TIME_MIN * 4u32.pow(attempt - 1);
        cluster.pass(wait - Duration::from_millis(1));
        assert_eq!(boots(&cluster), at_first + attempt as usize, "too soon after attempt {attempt}");
        cluster.pass(Duration::from_millis(1));
        assert_eq!(boots(&cluster), at_first + attempt as usize + 1, "not tried again after attempt {attempt}");
    }
    fail(&mut cluster);
    assert_eq!(nodes(&mut cluster)[0].state, NodeState::Failed);
    assert_eq!(state(&mut cluster), (ClusterState::Up, None), "the cluster came up, and is");
    assert!(
        events(&mut cluster, "node-lost").last().is_some_and(|event| event.text.contains("tried again every 60 s"))
    );
    // From time to time it is tried again, and one day it works.
    cluster.pass(BOOT_RETRY_TIME_GIVEN_UP);
    assert_eq!(boots(&cluster), at_first + BOOT_ATTEMPTS_MAX as usize + 1);
    fail(&mut cluster);
    assert_eq!(nodes(&mut cluster)[0].state, NodeState::Failed, "one attempt each time");
    cluster.behaviour.boots = true;
    cluster.pass(BOOT_RETRY_TIME_GIVEN_UP);
    assert!(all_ready(&mut cluster));
    cluster.behaviour.boots = false;
    fail(&mut cluster);
    fail(&mut cluster);
    cluster.pass(BOOT_RETRY_TIME_MIN);
    assert_eq!(nodes(&mut cluster)[0].state, NodeState::Booting, "what failed before it worked counts no more");
}

#[test]
fn time_is_up() {
    let mut cluster = Cluster::up(1, 1);
    let id = cluster.submit(coppice_api::job::Submission { timeout_ms: Some(2500), ..job(1) }).expect("accepted");
    let _feed = cluster.ask(|answer| Request::Attach(id, answer)).expect("attached");
    cluster.pass(Duration::from_millis(2400));
    assert_eq!(detail(&mut cluster, id).job.state, JobState::Running);
    cluster.pass(Duration::from_millis(200));
    let ended = detail(&mut cluster, id).job;
    assert_eq!((ended.state, ended.exit_status), (JobState::Ended, Some(137)));
    assert_eq!(ended.reason.as_deref(), Some("ended by --timeout after 2.5 s"));
    assert!(all_ready(&mut cluster));
    assert_eq!(nodes(&mut cluster)[0].generation, 1);
}

/// What ranks do because others were killed before them is no more than that they were, and what one did before that
/// stands.
#[test]
fn a_job_that_is_killed_exits_as_killed() {
    for (before, after, status) in [(None, 13, 137), (None, 9, 137), (Some(11), 9, 139)] {
        let mut cluster = Cluster::up(3, 3);
        let id = cluster.submit(job(3)).expect("accepted");
        cluster.behaviour.obeys_kill = false;
        if let Some(signal) = before {
            let ended = cluster.behaviour.ended(PsetId(0), id, Rank(2), NodeId(2), Exit::Signal(signal));
            cluster.event(ended);
        }
        cluster.ask(|answer| Request::Kill(id, 9, answer)).expect("killed");
        for (rank, exit) in [(0, Exit::Signal(9)), (1, Exit::Signal(after)), (2, Exit::Status(200))] {
            let ended = cluster.behaviour.ended(PsetId(0), id, Rank(rank), NodeId(rank), exit);
            cluster.event(ended);
        }
        let ended = detail(&mut cluster, id).job;
        assert_eq!((ended.state, ended.exit_status), (JobState::Ended, Some(status)), "{before:?}, then {after}");
        assert_eq!(ended.reason.as_deref(), Some("ended by SIGKILL on request"));
    }
}

#[test]
fn a_rank_that_cannot_be_killed_costs_its_node() {
    let mut cluster = Cluster::up(2, 2);
    let id = cluster.submit(job(1)).expect("accepted");
    cluster.behaviour.obeys_kill = false;
    cluster.ask(|answer| Request::Kill(id, 9, answer)).expect("killed");
    assert_eq!(detail(&mut cluster, id).job.state, JobState::Running);
    cluster.pass(KILL_TIME_MAX);
    let ended = detail(&mut cluster, id);
    assert_eq!(ended.job.reason.as_deref(), Some("ended by SIGKILL on request"));
    assert_eq!(ended.rank_reports[0].outcome, RankOutcome::Lost);
    assert!(all_ready(&mut cluster));
    assert_eq!(nodes(&mut cluster)[0].generation, 2);
}

#[test]
fn a_rank_that_cannot_be_started_ends_the_job() {
    let mut cluster = Cluster::up(2, 2);
    let id = cluster.submit(job(2)).expect("accepted");
    let refused = FromPset::Refused { job: id, ranks: Rank(1).into(), reason: "no such directory".into() };
    let event = cluster.behaviour.said(PsetId(0), refused);
    cluster.event(event);
    let ended = detail(&mut cluster, id);
    assert_eq!(ended.job.exit_status, Some(EXIT_COPPICE));
    assert!(ended.job.reason.is_some_and(|r| r.contains("rank 1 could not be started") && r.contains("no such dir")));
    assert_eq!(ended.rank_reports[0].signal, Some(9));
}

#[test]
fn jobs_nobody_listens_to_are_killed() {
    let mut cluster = Cluster::up(1, 1);
    let unattached = cluster.submit(job(1)).expect("accepted");
    cluster.pass(ATTACH_TIME_MAX);
    assert!(detail(&mut cluster, unattached).job.reason.is_some_and(|reason| reason.contains("nobody")));

    let abandoned = cluster.submit(job(1)).expect("accepted");
    let feed = cluster.ask(|answer| Request::Attach(abandoned, answer)).expect("attached");
    assert!(cluster.ask(|answer| Request::Attach(abandoned, answer)).is_err(), "only once");
    cluster.pass(ATTACH_TIME_MAX);
    assert_eq!(detail(&mut cluster, abandoned).job.state, JobState::Running);
    drop(feed);
    cluster.event(Event::Request(Request::Left(abandoned, Taker::Owner)));
    assert!(detail(&mut cluster, abandoned).job.reason.is_some_and(|reason| reason.contains("went away")));
    assert!(all_ready(&mut cluster));
}

/// A short job may be over before whoever submitted it asks for its stream.
#[test]
fn the_stream_of_a_job_that_is_over_waits_for_its_reader() {
    let mut cluster = Cluster::up(1, 1);
    let run = |cluster: &mut Cluster| {
        let id = cluster.submit(job(1)).expect("accepted");
        let ended = cluster.behaviour.ended(PsetId(0), id, Rank(0), NodeId(0), Exit::Status(7));
        cluster.event(ended);
        id
    };
    let id = run(&mut cluster);
    let mut feed = cluster.ask(|answer| Request::Attach(id, answer)).expect("kept");
    let pieces: Vec<Piece> = std::iter::from_fn(|| feed.try_recv().ok()).collect();
    let last = pieces.last().expect("something happened");
    assert!(matches!(last, Piece::Event(JobEvent::Ended(job)) if job.exit_status == Some(7)), "{pieces:?}");
    assert!(cluster.ask(|answer| Request::Attach(id, answer)).is_err_and(|e| e.status == 404), "only once");

    let late = run(&mut cluster);
    cluster.pass(ATTACH_TIME_MAX);
    assert!(cluster.ask(|answer| Request::Attach(late, answer)).is_err_and(|e| e.status == 404), "not for ever");
}

#[test]
fn jobs_wait_their_turn() {
    let mut cluster = Cluster::up(2, 2);
    let ids: Vec<JobId> = [2, 2, 1].map(|ranks| cluster.submit(job(ranks)).expect("accepted")).into();
    assert_eq!(detail(&mut cluster, ids[1]).job.state, JobState::Queued);
    cluster.ask(|answer| Request::Kill(ids[1], 2, answer)).expect("killed in the queue");
    let killed = detail(&mut cluster, ids[1]).job;
    assert_eq!((killed.state, killed.exit_status, killed.nodes), (JobState::Ended, Some(130), vec![]));
    assert_eq!(detail(&mut cluster, ids[2]).job.state, JobState::Queued);
    cluster.ask(|answer| Request::Kill(ids[0], 9, answer)).expect("killed");
    assert_eq!(detail(&mut cluster, ids[2]).job.state, JobState::Running);
    assert!(cluster.ask(|answer| Request::Kill(ids[0], 9, answer)).is_err_and(|e| e.message.contains("has ended")));
    assert!(cluster.ask(|answer| Request::Kill(JobId(99), 9, answer)).is_err_and(|e| e.status == 404));
    assert!(cluster.ask(|answer| Request::Kill(ids[2], 0, answer)).is_err_and(|e| e.status == 400));
}

#[test]
fn too_much_is_refused_at_once() {
    let mut cluster = Cluster::up(2, 2);
    let refused = cluster.submit(job(3)).expect_err("too many ranks");
    assert!(refused.message.contains("-n 3") && refused.message.contains("2 nodes"), "{}", refused.message);
    let large = coppice_service_node::database::ProgramRow { memory_bytes: 1 << 30, ..support::PROGRAM };
    let refused = cluster.submit_program(large, job(1)).expect_err("too large");
    assert!(refused.message.contains("1024 MiB of memory"), "{}", refused.message);
}

#[test]
fn output_flows_as_far_as_it_is_taken() {
    let mut cluster = Cluster::up(1, 1);
    let id = cluster.submit(job(1)).expect("accepted");
    let mut feed = cluster.ask(|answer| Request::Attach(id, answer)).expect("attached");
    let output = |bytes: Vec<u8>| FromPset::Output { job: id, rank: Rank(0), stream: Stream::Error, bytes };
    let event = cluster.behaviour.said(PsetId(0), output(vec![b'x'; OUTPUT_WINDOW_BYTES]));
    cluster.event(event);
    let mut got = Vec::new();
    while let Ok(piece) = feed.try_recv() {
        got.push(piece);
    }
    assert!(matches!(got[0], Piece::Event(JobEvent::Queued { ahead: 0 })));
    assert!(matches!(&got[1], Piece::Event(JobEvent::Started { nodes }) if *nodes == [0]));
    assert!(matches!(&got[2], Piece::Output { bytes, .. } if bytes.len() == OUTPUT_WINDOW_BYTES));
    cluster.event(Event::Request(Request::Taken(id, Taker::Owner, PsetId(0), 10)));
    assert!(cluster.told().any(|(_, message)| matches!(message, ToPset::OutputTaken { bytes: 10, .. })));
    // An I/O node that sends more than its window is not trusted any more.
    let event = cluster.behaviour.said(PsetId(0), output(vec![b'x'; 11]));
    cluster.event(event);
    assert!(detail(&mut cluster, id).job.reason.is_some_and(|reason| reason.contains("window")));
    assert!(all_ready(&mut cluster));
}

#[test]
fn input_waits_for_its_rank() {
    let mut cluster = Cluster::up(1, 1);
    let first = cluster.submit(job(1)).expect("accepted");
    assert!(cluster.ask(|answer| Request::OpenInput(first, answer)).is_err(), "it reads none");
    let second = cluster.submit(coppice_api::job::Submission { input_rank: Some(0), ..job(1) }).expect("accepted");
    let room = cluster.ask(|answer| Request::OpenInput(second, answer)).expect("opened");
    assert!(cluster.ask(|answer| Request::OpenInput(second, answer)).is_err(), "only once");
    cluster.event(Event::Request(Request::Input(second, b"early".to_vec())));
    let sent = |cluster: &Cluster| cluster.told().filter(|(_, told)| matches!(told, ToPset::Input { .. })).count();
    assert_eq!(sent(&cluster), 0, "there is nobody to send it to yet");
    cluster.ask(|answer| Request::Kill(first, 9, answer)).expect("killed");
    assert_eq!(sent(&cluster), 1);
    let before = room.available_permits();
    let event = cluster.behaviour.said(PsetId(0), FromPset::InputTaken { job: second, bytes: 1000 });
    cluster.event(event);
    assert_eq!(room.available_permits(), before + 5, "no more room than what was sent");
    cluster.ask(|answer| Request::Kill(second, 9, answer)).expect("killed");
    assert!(room.is_closed());
}

#[test]
fn what_an_earlier_life_left_behind_is_ended() {
    let mut cluster = Cluster::up(1, 1);
    let id = cluster.submit(job(1)).expect("accepted");
    // Killed: nothing of it is told to end.
    let mut cluster = cluster.restarted();
    cluster.settle();
    let ended = detail(&mut cluster, id).job;
    assert_eq!((ended.state, ended.exit_status), (JobState::Ended, Some(EXIT_COPPICE)));
    assert!(ended.reason.is_some_and(|reason| reason.contains("service node")));
    assert_eq!(events(&mut cluster, "recovery").len(), 1);
    assert_eq!(nodes(&mut cluster)[0].generation, 2, "boots are counted through lives");
    assert!(cluster.submit(job(1)).expect("accepted") > id);
}

#[test]
fn goes_down_in_order() {
    let mut cluster = Cluster::up(4, 4);
    let id = cluster.submit(job(2)).expect("accepted");
    assert!(!cluster.controller.is_down());
    cluster.event(Event::Request(Request::Down));
    assert!(cluster.controller.is_down());
    let ended = detail(&mut cluster, id).job;
    assert_eq!(ended.reason.as_deref(), Some("the cluster went down"));
    assert!(cluster.submit(job(1)).is_err());
    assert!(!cluster.orders.iter().any(|order| matches!(order, Order::KillMachine(_))), "all went by themselves");
    assert!(matches!(cluster.orders.last(), Some(Order::StopFabric(_))), "the fabric goes last");
}
