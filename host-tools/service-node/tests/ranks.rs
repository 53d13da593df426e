//! Jobs with several ranks on a node.

mod support;

use coppice_api::job::{EXIT_COPPICE, JobState, RankOutcome, Submission};
use coppice_api::node::NodeState;
use coppice_api::retain::{RetainAnswer, RetentionSummary};
use coppice_protocol::control::Exit;
use coppice_protocol::ids::{JobId, NodeId, PsetId, Rank};
use coppice_protocol::pset::{Member, StartJob, ToPset};
use coppice_protocol::world::NodeRange;
use coppice_service_node::controller::Request;
use coppice_service_node::database::{Database, ProgramRow};
use coppice_service_node::limits::KILL_TIME_MAX;
use support::memory::PAGES;
use support::{Cluster, Order, PROGRAM, job, program};

fn on_each(ranks: u32, ranks_per_node: u32) -> Submission {
    Submission { ranks_per_node, ..job(ranks) }
}

fn starts(cluster: &Cluster, job: JobId) -> Vec<(PsetId, StartJob)> {
    let start = |(pset, message): (PsetId, &ToPset)| match message {
        ToPset::Start(start) if start.job == job => Some((pset, start.clone())),
        _ => None,
    };
    cluster.told().filter_map(start).collect()
}

fn busy(cluster: &mut Cluster) -> Vec<u32> {
    let nodes = cluster.nodes();
    nodes.iter().filter(|node| node.state == NodeState::Busy).map(|node| node.node).collect()
}

fn outcomes(cluster: &mut Cluster, job: JobId) -> Vec<(u32, RankOutcome)> {
    cluster.job(job).rank_reports.iter().map(|rank| (rank.node, rank.outcome)).collect()
}

#[test]
fn each_node_has_the_ranks_that_follow() {
    let mut cluster = Cluster::up(4, 2);
    let id = cluster.submit(on_each(5, 2)).expect("accepted");
    let member = |rank, node| support::cluster::Placed {
        rank: Rank(rank),
        node: NodeId(node),
        use_retained: false,
        restore: None,
    };
    assert_eq!(cluster.members(id), [member(0, 0), member(1, 0), member(2, 1), member(3, 1), member(4, 2)]);
    let starts = starts(&cluster, id);
    // Each is told of a node once.
    let told = |(pset, start): &(PsetId, StartJob)| {
        let member = |member: &Member| (member.node.0, member.first.0, member.count);
        (pset.0, start.members.iter().map(member).collect())
    };
    let told: Vec<(u32, Vec<_>)> = starts.iter().map(told).collect();
    assert_eq!(told, [(0, vec![(0, 0, 2), (1, 2, 2)]), (1, vec![(2, 4, 1)])]);
    for (_, start) in &starts {
        assert_eq!((start.size, start.world.ranks_per_node), (5, 2));
        assert_eq!(start.world.nodes, [NodeRange { first: NodeId(0), count: 3 }]);
        assert!(start.world.placement(start.size).is_ok());
    }
    assert_eq!(busy(&mut cluster), [0, 1, 2]);
    let view = cluster.job(id).job;
    assert_eq!((view.state, view.ranks, view.ranks_per_node, &*view.nodes), (JobState::Running, 5, 2, &[0, 1, 2][..]));

    // Its nodes are its own until the last rank has ended, whichever that is.
    for rank in [0, 1, 4, 2] {
        let node = rank / 2;
        let ended = cluster.behaviour.ended(PsetId(node / 2), id, Rank(rank), NodeId(node), Exit::Status(0));
        cluster.event(ended);
        assert_eq!(busy(&mut cluster), [0, 1, 2]);
    }
    let ended = cluster.behaviour.ended(PsetId(0), id, Rank(3), NodeId(1), Exit::Status(7));
    cluster.event(ended);
    let detail = cluster.job(id);
    assert_eq!((detail.job.state, detail.job.exit_status), (JobState::Ended, Some(7)));
    assert_eq!(detail.rank_reports.iter().map(|rank| rank.node).collect::<Vec<_>>(), [0, 0, 1, 1, 2]);
    assert!(busy(&mut cluster).is_empty());
    let database = Database::open(&support::paths(cluster.home.path()).database()).expect("database");
    let recorded = database.job(id).expect("query").expect("recorded").job;
    assert_eq!((recorded.ranks, recorded.ranks_per_node, recorded.nodes), (5, 2, vec![0, 1, 2]));
}

#[test]
fn a_lost_node_takes_all_its_ranks_with_it() {
    let mut cluster = Cluster::up(3, 3);
    let id = cluster.submit(on_each(5, 2)).expect("accepted");
    cluster.lose_machine(1);
    let (signalled, lost) = (RankOutcome::Signalled, RankOutcome::Lost);
    assert_eq!(outcomes(&mut cluster, id), [(0, signalled), (0, signalled), (1, lost), (1, lost), (2, signalled)]);
    let detail = cluster.job(id);
    assert_eq!(detail.job.exit_status, Some(EXIT_COPPICE));
    assert!(detail.job.reason.is_some_and(|reason| reason.contains("node 1 was lost")));
    assert!(detail.rank_reports[3].reason.as_ref().is_some_and(|reason| reason.contains("node 1 was lost")));

    // A job that has no other node is over with it, and ranks that had ended before did so as they did.
    let id = cluster.submit(on_each(3, 3)).expect("accepted");
    let ended = cluster.behaviour.ended(PsetId(0), id, Rank(1), NodeId(0), Exit::Status(0));
    cluster.event(ended);
    cluster.lose_machine(0);
    assert_eq!(outcomes(&mut cluster, id), [(0, lost), (0, RankOutcome::Exited), (0, lost)]);
    assert_eq!(cluster.job(id).job.state, JobState::Ended);
}

#[test]
fn a_node_that_does_not_end_its_ranks_is_lost_once() {
    let mut cluster = Cluster::up(2, 2);
    let id = cluster.submit(on_each(8, 4)).expect("accepted");
    cluster.behaviour.obeys_kill = false;
    cluster.ask(|answer| Request::Kill(id, 9, answer)).expect("killed");
    let killed =
        |cluster: &Cluster| cluster.orders.iter().filter(|order| matches!(order, Order::KillMachine(_))).count();
    assert_eq!(killed(&cluster), 0);
    cluster.pass(KILL_TIME_MAX);
    assert_eq!(killed(&cluster), 2);
    assert!(outcomes(&mut cluster, id).iter().all(|(_, outcome)| *outcome == RankOutcome::Lost));
}

#[test]
fn pages_that_ranks_share_are_counted_once() {
    let mut cluster = Cluster::up(3, 3);
    let first = cluster.submit_program(program(1), on_each(4, 2)).expect("accepted");
    cluster.end(first);
    let nothing = RetentionSummary::default();
    assert_eq!(cluster.job(first).job.retention, Some(nothing));

    let id = cluster.submit_program(program(1), on_each(5, 2)).expect("accepted");
    cluster.end(id);
    let detail = cluster.job(id);
    let kept = Some(RetainAnswer::Kept { kept: PAGES, dropped: 3, zeroed: 2, discarded: 0 });
    assert_eq!(detail.rank_reports.iter().map(|rank| rank.retain).collect::<Vec<_>>(), [kept, None, kept, None, None]);
    let saved = RetentionSummary { warm_ranks: 4, warm_nodes: 2, pages_kept: 2 * PAGES, pages_fetched: 20 };
    assert_eq!(detail.job.retention, Some(saved));
    assert_eq!(detail.job.placement.map(|placement| placement.nodes.len()), Some(3));

    // The node had given it back: what its ranks find is each other's.
    cluster.behaviour.memory.set(NodeId(0), Vec::new());
    let only = Submission { nodes: vec![0], ..on_each(2, 2) };
    let id = cluster.submit_program(program(1), only).expect("accepted");
    cluster.end(id);
    let detail = cluster.job(id);
    assert_eq!(detail.rank_reports[0].retain, Some(RetainAnswer::Absent));
    assert_eq!(detail.job.retention, Some(nothing));
}

#[test]
fn jobs_wait_for_nodes_and_not_for_ranks() {
    let mut cluster = Cluster::up(4, 4);
    let half = cluster.submit(Submission { estimate_ms: Some(100_000), ..on_each(8, 4) }).expect("accepted");
    let all = cluster.submit(on_each(13, 4)).expect("accepted");
    assert_eq!(busy(&mut cluster), [0, 1]);
    // Many ranks on few nodes fit in; few ranks on many do not.
    let fits = cluster.submit(Submission { estimate_ms: Some(50_000), ..on_each(64, 32) }).expect("accepted");
    assert_eq!(busy(&mut cluster), [0, 1, 2, 3]);
    cluster.end(fits);
    let waits = cluster.submit(Submission { estimate_ms: Some(50_000), ..on_each(3, 1) }).expect("accepted");
    assert_eq!(busy(&mut cluster), [0, 1]);
    cluster.end(half);
    assert_eq!(cluster.job(all).job.nodes, [0, 1, 2, 3]);
    assert_eq!(cluster.job(waits).job.state, JobState::Queued);
}

#[test]
fn jobs_that_do_not_fit_are_refused_in_one_line() {
    let mut cluster = Cluster::up(3, 3);
    let large = ProgramRow { memory_bytes: 20 << 20, ..PROGRAM };
    let listed = |nodes: &[u32], ranks| Submission { nodes: nodes.to_vec(), ..on_each(ranks, 4) };
    let cases = [
        (PROGRAM, on_each(13, 4), "-n 13 --ranks-per-node 4 is 4 nodes, more than cluster 'test' has: 3 nodes;"),
        (PROGRAM, on_each(4, 1), "-n 4 is more than cluster 'test' has: 3 nodes; use fewer, more --ranks-per-node,"),
        (large, on_each(4, 4), "4 ranks on a node need 20 MiB each of memory and a node has 60 MiB free; use fewer"),
        (PROGRAM, listed(&[1, 2], 9), "names 2 nodes and -n 9 --ranks-per-node 4 needs 3;"),
        (PROGRAM, listed(&[1, 2], 4), "names 2 nodes and -n 4 --ranks-per-node 4 needs 1;"),
        (PROGRAM, listed(&[1, 1], 8), "names node 1 twice;"),
    ];
    for (program, job, words) in cases {
        let refused = cluster.submit_program(program, job).expect_err(words);
        assert!(refused.message.contains(words) && !refused.message.contains('\n'), "{}", refused.message);
    }
    let fits = cluster.submit_program(large, on_each(3, 3)).expect("accepted");
    cluster.end(fits);
    assert!(busy(&mut cluster).is_empty());
    let id = cluster.submit(listed(&[2, 0], 7)).expect("accepted");
    assert_eq!(cluster.members(id).iter().map(|member| member.node.0).collect::<Vec<_>>(), [2, 2, 2, 2, 0, 0, 0]);
}
