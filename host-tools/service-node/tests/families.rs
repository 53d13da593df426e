//! Jobs that ranks of others want: who is told of their nodes, when they start, and who ends with them.

mod support;

use std::time::Duration;

use coppice_api::job::{JobState, OnRankFailure, SpawnedBy, Submission};
use coppice_protocol::control::{Exit, JobFailure};
use coppice_protocol::ids::{JobId, NodeId, PsetId, Rank};
use coppice_protocol::pset::{FromPset, StartJob, ToPset};
use coppice_protocol::spawn::{Joined, KeyValue, Spawn, Spawned, Wanted};
use coppice_protocol::world::NodeRange;
use coppice_service_node::controller::{Event, Refused, Request, SpawnRequest};
use coppice_service_node::limits::{WISHES_MAX, WISHES_PER_JOB_MAX};
use tokio::sync::oneshot;

use support::{Cluster, FILE, Order, PROGRAM, job};

fn wish(job: JobId, rank: u32, number: u64, ranks: u32) -> Spawn {
    let keys = vec![KeyValue { key: "PARENT".into(), value: "port".into() }];
    let (program, arguments) = ("worker".into(), vec!["a".into()]);
    Spawn { job, rank: Rank(rank), number, wanted: Wanted { program, arguments, directory: None, ranks, keys } }
}

type Answered = oneshot::Receiver<Result<JobId, Refused>>;

/// A node says what a rank wants, and whoever looks for its program has found it.
fn wants(cluster: &mut Cluster, node: u32, spawn: Spawn) -> Option<Answered> {
    let before = orders_to_spawn(cluster);
    cluster.said(node, FromPset::Spawns { node: NodeId(node), spawn });
    let order = cluster.orders.iter().filter_map(|order| match order {
        Order::Spawn(order) => Some(order.clone()),
        _ => None,
    });
    let order = order.skip(before).last()?;
    let program = cluster.store.hold(PROGRAM);
    let request = SpawnRequest { spawn: order.spawn, submission: *order.submission, program, file: FILE };
    Some(cluster.ask_and_wait(|answer| Request::Spawn(Box::new(request), answer)))
}

fn orders_to_spawn(cluster: &Cluster) -> usize {
    cluster.orders.iter().filter(|order| matches!(order, Order::Spawn(_))).count()
}

fn job_of(answered: Option<Answered>) -> JobId {
    answered.expect("looked for").try_recv().expect("answered").expect("taken")
}

fn range(first: u32, count: u32) -> NodeRange {
    NodeRange { first: NodeId(first), count }
}

fn joined(cluster: &Cluster) -> Vec<(u32, Joined)> {
    let told = cluster.told().filter_map(|(pset, told)| match told {
        ToPset::Joined(joined) => Some((pset.0, joined.clone())),
        _ => None,
    });
    told.collect()
}

fn spawned(cluster: &Cluster) -> Vec<(u32, Spawned)> {
    let told = cluster.told().filter_map(|(pset, told)| match told {
        ToPset::Spawned(spawned) => Some((pset.0, spawned.clone())),
        _ => None,
    });
    told.collect()
}

fn start_of(cluster: &Cluster, id: JobId) -> Option<StartJob> {
    cluster.told().find_map(|(_, told)| match told {
        ToPset::Start(start) if start.job == id => Some(start.clone()),
        _ => None,
    })
}

fn knows(cluster: &mut Cluster, node: u32, job: JobId, nodes: u32) {
    cluster.said(node, FromPset::Joined { node: NodeId(node), job, nodes });
}

fn end(cluster: &mut Cluster, job: JobId, rank: u32, node: u32) {
    let ended = cluster.behaviour.ended(PsetId(node / 2), job, Rank(rank), NodeId(node), Exit::Status(0));
    cluster.event(ended);
}

fn fails(cluster: &mut Cluster, node: u32, job: JobId) {
    let failure = JobFailure { job, rank: Rank(0), code: 7, reason: "abort".into() };
    cluster.said(node, FromPset::Failed { node: NodeId(node), failure });
}

/// A job of two ranks, each on an I/O node of its own.
fn cluster() -> (Cluster, JobId) {
    let mut cluster = Cluster::up(8, 2);
    let id = cluster.submit(Submission { nodes: vec![0, 2], detached: true, ..job(2) }).expect("accepted");
    (cluster, id)
}

#[test]
fn a_job_starts_when_all_nodes_of_its_family_know_it_and_then_its_rank_hears_of_it() {
    let (mut cluster, parent) = cluster();
    let child = job_of(wants(&mut cluster, 2, wish(parent, 1, 1, 3)));
    let view = cluster.job(child).job;
    assert_eq!((view.spawned_by, view.ranks), (Some(SpawnedBy { job: parent.0, rank: 1 }), 3));
    assert_eq!((&view.nodes[..], view.arguments), (&[1, 3, 4][..], vec!["a".into()]));
    let nodes = vec![range(1, 1), range(3, 2)];
    let told = Joined { job: parent, first: 2, nodes };
    assert_eq!(joined(&cluster), [(0, told.clone()), (1, told)]);
    assert_eq!((start_of(&cluster, child).is_none(), spawned(&cluster)), (true, vec![]));
    knows(&mut cluster, 0, parent, 5);
    // Fewer than all; of a node that is none of the job's.
    knows(&mut cluster, 2, parent, 4);
    knows(&mut cluster, 5, parent, 5);
    assert!(start_of(&cluster, child).is_none());
    knows(&mut cluster, 2, parent, 5);
    let start = start_of(&cluster, child).expect("started");
    let kin = start.world.kin.clone().expect("a family");
    let own = start_of(&cluster, parent).expect("started").world;
    assert_eq!((kin.tag, kin.before), (own.network_tag(parent), vec![range(0, 1), range(2, 1)]));
    assert_eq!(start.universe, 8);
    let origin = start.origin.expect("an origin");
    assert_eq!((origin.job, origin.keys.len()), (parent, 1));
    let outcome = Ok(child);
    assert_eq!(spawned(&cluster), [(1, Spawned { job: parent, rank: Rank(1), number: 1, outcome })]);
    // Said again it is nothing new.
    assert!(wants(&mut cluster, 2, wish(parent, 1, 1, 3)).is_none());
    // Nor is it wanted by a rank that is elsewhere.
    assert!(wants(&mut cluster, 0, wish(parent, 1, 2, 3)).is_none());
}

/// Also of jobs that have ended, whose nodes keep their numbers.
#[test]
fn one_job_after_the_other_joins_a_family() {
    let (mut cluster, parent) = cluster();
    let first = job_of(wants(&mut cluster, 0, wish(parent, 0, 1, 1)));
    let mut second = wants(&mut cluster, 2, wish(parent, 1, 1, 1)).expect("looked for");
    assert!(second.try_recv().is_err(), "the first has not joined");
    knows(&mut cluster, 0, parent, 3);
    knows(&mut cluster, 2, parent, 3);
    let second = job_of(Some(second));
    // All that are there are told: the first one, too.
    let nodes = vec![range(3, 1)];
    let told = |job| Joined { job, first: 3, nodes: nodes.clone() };
    assert_eq!(joined(&cluster)[2..], [(0, told(parent)), (1, told(parent)), (0, told(first))]);
    knows(&mut cluster, 0, parent, 4);
    knows(&mut cluster, 2, parent, 4);
    assert!(start_of(&cluster, second).is_none());
    // Whose ranks have ended need not know.
    end(&mut cluster, first, 0, 1);
    let before = start_of(&cluster, second).expect("started").world.kin.expect("a family").before;
    assert_eq!(before, [range(0, 1), range(2, 1), range(1, 1)]);
    // A rank of the second.
    let third = job_of(wants(&mut cluster, 3, wish(second, 0, 1, 1)));
    let told = |job| Joined { job, first: 4, nodes: vec![range(1, 1)] };
    assert_eq!(joined(&cluster)[5..], [(0, told(parent)), (1, told(parent)), (1, told(second))]);
    assert_eq!(cluster.job(third).job.spawned_by, Some(SpawnedBy { job: second.0, rank: 0 }));
    for (node, job) in [(0, parent), (2, parent), (3, second)] {
        knows(&mut cluster, node, job, 5);
    }
    assert!(start_of(&cluster, third).is_some());
    for (job, rank, node) in [(parent, 0, 0), (parent, 1, 2), (second, 0, 3), (third, 0, 1)] {
        end(&mut cluster, job, rank, node);
    }
    for id in [parent, first, second, third] {
        let view = cluster.job(id).job;
        assert_eq!((view.state, view.exit_status, view.reason), (JobState::Ended, Some(0), None));
    }
}

#[test]
fn what_cannot_be_had_is_refused_and_the_rank_told() {
    let (mut cluster, parent) = cluster();
    let mut refused = |spawn: Spawn| {
        let mut answered = wants(&mut cluster, 0, spawn.clone()).expect("looked for");
        let why = answered.try_recv().expect("answered").expect_err("refused").message;
        cluster.event(Event::Request(Request::NotSpawned(Box::new(spawn), why.clone())));
        let (pset, told) = spawned(&cluster).pop().expect("told");
        assert_eq!((pset, told.outcome), (0, Err(why.clone())));
        why
    };
    assert_eq!(refused(wish(parent, 0, 1, 7)), "7 ranks need 7 nodes, and only 6 are free");
    assert!(refused(wish(parent, 0, 2, 9)).contains("more than cluster 'test' has"));
    let other = cluster.submit(job(6)).expect("accepted");
    let mut answered = wants(&mut cluster, 0, wish(parent, 0, 3, 1)).expect("looked for");
    let why = answered.try_recv().expect("answered").expect_err("refused").message;
    assert_eq!(why, "1 rank needs 1 node, and none is free");
    cluster.end(other);
    // Nodes that are silent: it is given up, and nothing of it is left.
    let child = job_of(wants(&mut cluster, 0, wish(parent, 0, 4, 2)));
    knows(&mut cluster, 0, parent, 4);
    cluster.pass(Duration::from_secs(19));
    assert_eq!(cluster.job(child).job.state, JobState::Starting);
    cluster.pass(Duration::from_secs(2));
    assert_eq!(cluster.job(child).job.state, JobState::Ended);
    let told = spawned(&cluster).pop().expect("told").1;
    assert!(told.outcome.expect_err("refused").contains("did not come to know its nodes within 20 s"));
    assert!(start_of(&cluster, child).is_none());
    // What comes of a wish whose rank has ended meanwhile is nobody's business.
    end(&mut cluster, parent, 0, 0);
    assert!(wants(&mut cluster, 0, wish(parent, 0, 5, 1)).is_some());
}

/// Those of the family may be about to end; if none is there, nobody is waited for.
#[test]
fn a_job_waits_a_while_for_nodes_that_others_of_its_family_give_up() {
    let (mut cluster, parent) = cluster();
    let first = job_of(wants(&mut cluster, 0, wish(parent, 0, 1, 4)));
    for node in [0, 2] {
        knows(&mut cluster, node, parent, 6);
    }
    let nodes = cluster.job(first).job.nodes;
    let mut late = wants(&mut cluster, 0, wish(parent, 0, 2, 3)).expect("looked for");
    cluster.pass(Duration::from_secs(4));
    assert!(late.try_recv().is_err());
    end(&mut cluster, first, 0, nodes[0]);
    assert!(late.try_recv().is_err(), "its nodes are given up together");
    for (rank, node) in (0..).zip(&nodes).skip(1) {
        end(&mut cluster, first, rank, *node);
    }
    let second = job_of(Some(late));
    for node in [0, 2] {
        knows(&mut cluster, node, parent, 9);
    }
    assert!(start_of(&cluster, second).is_some());
    let mut never = wants(&mut cluster, 2, wish(parent, 1, 1, 4)).expect("looked for");
    cluster.pass(Duration::from_secs(4));
    assert!(never.try_recv().is_err());
    cluster.pass(Duration::from_secs(1));
    let why = never.try_recv().expect("answered").expect_err("refused").message;
    assert_eq!(why, "4 ranks need 4 nodes, and only 3 are free");
}

/// However many are before it: nobody waits longer than the first of them may take.
#[test]
fn all_that_wait_are_told_in_time_when_nodes_are_silent() {
    let (mut cluster, parent) = cluster();
    let first = job_of(wants(&mut cluster, 0, wish(parent, 0, 1, 1)));
    let mut second = wants(&mut cluster, 2, wish(parent, 1, 1, 1)).expect("looked for");
    cluster.pass(Duration::from_secs(19));
    assert!(second.try_recv().is_err());
    cluster.pass(Duration::from_secs(1));
    assert_eq!(cluster.job(first).job.state, JobState::Ended);
    let why = second.try_recv().expect("answered").expect_err("refused").message;
    assert_eq!(why, "others that the job and its family want have been started for 20 s");
    // One whose rank has ended meanwhile is not started.
    let order = wish(parent, 1, 2, 1);
    end(&mut cluster, parent, 1, 2);
    let mut late = wants(&mut cluster, 2, order).expect("looked for");
    let why = late.try_recv().expect("answered").expect_err("refused").message;
    assert_eq!(why, "the rank that wants them has ended");
}

/// Nobody keeps as many as there are ranks.
#[test]
fn so_many_ranks_may_wait_for_others_and_no_more() {
    let mut cluster = Cluster::up(8, 8);
    // Each has nodes of its own.
    let submission = |first: u32| Submission {
        ranks_per_node: 64,
        nodes: vec![first, first + 1, first + 2],
        detached: true,
        ..job(3 * 64)
    };
    let parents: Vec<(JobId, u32)> =
        [0, 3].map(|first| (cluster.submit(submission(first)).expect("accepted"), first)).into();
    let third = cluster.submit(Submission { detached: true, ..job(1) }).expect("accepted");
    let wants = |cluster: &mut Cluster, (job, first): (JobId, u32), rank: u32, number| {
        let node = NodeId(first + rank / 64);
        cluster.said(node.0, FromPset::Spawns { node, spawn: wish(job, rank, number, 1) });
    };
    let refused = |cluster: &Cluster| spawned(cluster).pop().map(|(_, told)| (told.job, told.rank));
    for (parent, orders) in parents.iter().zip([WISHES_PER_JOB_MAX, WISHES_MAX]) {
        (0..WISHES_PER_JOB_MAX as u32).for_each(|rank| wants(&mut cluster, *parent, rank, 1));
        assert_eq!(orders_to_spawn(&cluster), orders);
        // One of a job that has as many, whatever others have.
        wants(&mut cluster, *parent, 150, 1);
        assert_eq!((refused(&cluster), orders_to_spawn(&cluster)), (Some((parent.0, Rank(150))), orders));
    }
    // One of a job that has none, when the cluster has as many.
    wants(&mut cluster, (third, 6), 0, 1);
    assert_eq!((refused(&cluster), orders_to_spawn(&cluster)), (Some((third, Rank(0))), WISHES_MAX));
    // When it is known of one that nothing comes of it, there is room again.
    let request = Request::NotSpawned(Box::new(wish(parents[0].0, 7, 1, 1)), "no".to_owned());
    cluster.event(Event::Request(request));
    wants(&mut cluster, (third, 6), 0, 2);
    assert_eq!(orders_to_spawn(&cluster), WISHES_MAX + 1);
}

/// A parent that has started two jobs, of which one has started another.
fn family(on_rank_failure: OnRankFailure) -> (Cluster, [JobId; 4]) {
    let mut cluster = Cluster::up(8, 2);
    let parent = cluster.submit(Submission { on_rank_failure, ..job(1) }).expect("accepted");
    let one = job_of(wants(&mut cluster, 0, wish(parent, 0, 1, 1)));
    knows(&mut cluster, 0, parent, 2);
    let two = job_of(wants(&mut cluster, 0, wish(parent, 0, 2, 1)));
    knows(&mut cluster, 0, parent, 3);
    knows(&mut cluster, 1, one, 3);
    let three = job_of(wants(&mut cluster, 1, wish(one, 0, 1, 1)));
    for (node, job) in [(0, parent), (1, one), (2, two)] {
        knows(&mut cluster, node, job, 4);
    }
    assert!(start_of(&cluster, three).is_some());
    (cluster, [parent, one, two, three])
}

fn ends(cluster: &mut Cluster, ids: [JobId; 4]) -> [Option<String>; 4] {
    ids.map(|id| {
        let view = cluster.job(id).job;
        (view.state == JobState::Ended).then(|| view.reason.unwrap_or_default())
    })
}

#[test]
fn a_job_that_fails_ends_those_it_comes_from_and_those_that_come_from_it() {
    let (mut cluster, ids) = family(OnRankFailure::End);
    fails(&mut cluster, 1, ids[1]);
    assert!(ids.iter().all(|id| cluster.job(*id).job.exit_status == Some(7)));
    let [parent, one, two, three] = ends(&mut cluster, ids).map(|end| end.expect("ended"));
    assert_eq!(one, "abort");
    assert_eq!(parent, "job 2, which it has started, ended: abort");
    assert_eq!(two, "job 1, which has started it, ended: job 2, which it has started, ended: abort");
    assert_eq!(three, "job 2, which has started it, ended: abort");
    assert!(cluster.nodes().iter().all(|node| node.job.is_none()));
}

#[test]
fn a_job_that_outlives_ranks_outlives_those_that_it_has_started() {
    let (mut cluster, ids) = family(OnRankFailure::Continue);
    fails(&mut cluster, 2, ids[2]);
    assert_eq!(ends(&mut cluster, ids).map(|end| end.is_some()), [false, false, true, false]);
    // Who ends the first of all ends all.
    cluster.ask(|answer| Request::Kill(ids[0], 9, answer)).expect("killed");
    assert!(ends(&mut cluster, ids).iter().all(Option::is_some));
}

#[test]
fn a_job_that_ends_in_good_order_leaves_the_others_alone() {
    let (mut cluster, ids) = family(OnRankFailure::End);
    end(&mut cluster, ids[1], 0, 1);
    end(&mut cluster, ids[0], 0, 0);
    assert_eq!(ends(&mut cluster, ids).map(|end| end.is_some()), [true, true, false, false]);
    // Those that are left may start more, on nodes that are free again.
    let four = job_of(wants(&mut cluster, 2, wish(ids[2], 0, 1, 2)));
    assert_eq!(cluster.job(four).job.nodes, [0, 1]);
    for (node, job) in [(2, ids[2]), (3, ids[3])] {
        knows(&mut cluster, node, job, 6);
    }
    let before = start_of(&cluster, four).expect("started").world.kin.expect("a family").before;
    assert_eq!(before, [range(0, 1), range(1, 1), range(2, 1), range(3, 1)]);
}

/// Of jobs in one network none is written down alone.
#[test]
fn nobody_is_to_make_a_checkpoint_of_one_of_a_family() {
    let (mut cluster, ids) = family(OnRankFailure::End);
    for id in ids {
        assert!(cluster.ask(|answer| Request::Submitted(id, answer)).expect("runs").has_family);
    }
    // When all others are gone, the first one has its network to itself.
    for (id, node) in ids.into_iter().zip(0..).skip(1) {
        end(&mut cluster, id, 0, node);
    }
    let alone = cluster.submit(job(1)).expect("accepted");
    assert!(!cluster.ask(|answer| Request::Submitted(ids[0], answer)).expect("runs").has_family);
    assert!(!cluster.ask(|answer| Request::Submitted(alone, answer)).expect("runs").has_family);
}
