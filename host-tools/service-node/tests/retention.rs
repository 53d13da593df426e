//! What nodes retain: learnt, remembered, used, and never believed longer than it is true.

mod support;

use std::time::Duration;

use coppice_api::job::{JobState, RankOutcome, Submission};
use coppice_api::node::{NodeState, NodeView};
use coppice_api::retain::PlacementReason::{self, Clean, LeastRecentlyUsed, Retained as Warm};
use coppice_api::retain::{LastProgram, RetainAnswer, RetentionSummary};
use coppice_protocol::ids::{Generation, JobId, NodeId, Rank};
use coppice_protocol::pset::FromPset;
use coppice_protocol::retain::{RetainOutcome, Retained, RetainedProgram, WalkCounts};
use coppice_service_node::controller::Request;
use coppice_service_node::database::{Database, ProgramRow};
use support::behaviour::Answers;
use support::memory::{PAGES, bytes, table};
use support::{Cluster, PROGRAM, job, program};

/// Where a job was placed: node, reason, pages.
fn placed(cluster: &mut Cluster, job: JobId) -> Vec<(u32, PlacementReason, u64)> {
    let view = cluster.job(job).job;
    let placement = view.placement.expect("it has nodes");
    assert_eq!(view.nodes, placement.nodes.iter().map(|placed| placed.node).collect::<Vec<_>>());
    placement.nodes.iter().map(|placed| (placed.node, placed.reason, placed.pages)).collect()
}

fn summary(cluster: &mut Cluster, job: JobId) -> String {
    cluster.job(job).job.placement.expect("it has nodes").summary
}

/// Nodes on which a job was told to use what is retained.
fn used(cluster: &Cluster, job: JobId) -> Vec<u32> {
    cluster.members(job).iter().filter(|member| member.use_retained).map(|member| member.node.0).collect()
}

/// What a node is believed to hold: the first byte of each program's hash, and its pages.
fn held(node: &NodeView) -> Vec<(u8, u64)> {
    let first = |hash: &str| u8::from_str_radix(&hash[..2], 16).expect("a hash");
    node.retained.iter().map(|retained| (first(&retained.program), retained.pages)).collect()
}

fn start(cluster: &mut Cluster, program: ProgramRow, ranks: u32) -> JobId {
    cluster.submit_program(program, job(ranks)).expect("accepted")
}

/// What is in the database's file about a node.
fn recorded(cluster: &Cluster, node: u32) -> (Option<LastProgram>, Vec<RetainedProgram>) {
    let database = Database::open(&support::paths(cluster.home.path()).database()).expect("database");
    let row = database.node(NodeId(node)).expect("node");
    (row.last_program, row.retained)
}

#[test]
fn warm_nodes_come_first() {
    let mut cluster = Cluster::up(6, 2);
    cluster.run_on(program(1), &[3, 4]);
    let id = start(&mut cluster, program(1), 3);
    assert_eq!(placed(&mut cluster, id), [(0, Clean, 0), (3, Warm, PAGES), (4, Warm, PAGES)]);
    assert_eq!(summary(&mut cluster, id), "2 nodes hold 256 pages of the program, 1 clean");
    assert_eq!(used(&cluster, id), [3, 4]);
    cluster.end(id);
    let detail = cluster.job(id);
    let kept = RetainAnswer::Kept { kept: PAGES, dropped: 3, zeroed: 2, discarded: 0 };
    assert_eq!(detail.rank_reports.iter().map(|rank| rank.retain).collect::<Vec<_>>(), [None, Some(kept), Some(kept)]);
    let found: Vec<_> = detail.rank_reports.iter().map(|rank| (rank.pages_retained, rank.pages_kept)).collect();
    assert_eq!(found, [(0, PAGES), (PAGES, PAGES), (PAGES, PAGES)]);
    let saved = RetentionSummary { warm_ranks: 2, warm_nodes: 2, pages_kept: 2 * PAGES, pages_fetched: 10 };
    assert_eq!(detail.job.retention, Some(saved));
}

#[test]
fn nodes_with_the_most_pages_come_first() {
    let mut cluster = Cluster::up(5, 5);
    for (node, pages) in [(1, 20), (2, 10), (4, 30)] {
        cluster.behaviour.memory.pages = pages;
        cluster.run_on(program(1), &[node]);
    }
    let id = start(&mut cluster, program(1), 2);
    assert_eq!(placed(&mut cluster, id), [(1, Warm, 20), (4, Warm, 30)]);
    assert_eq!(summary(&mut cluster, id), "2 nodes hold 50 pages of the program");
}

#[test]
fn clean_nodes_come_before_the_least_recently_used() {
    let mut cluster = Cluster::up(4, 4);
    for (hash, node) in [(1, 3), (2, 0), (3, 1), (2, 0)] {
        cluster.pass(Duration::from_secs(1));
        cluster.run_on(program(hash), &[node]);
    }
    let id = start(&mut cluster, program(1), 3);
    assert_eq!(placed(&mut cluster, id), [(1, LeastRecentlyUsed, 0), (2, Clean, 0), (3, Warm, PAGES)]);
    let line = "1 node holds 128 pages of the program, 1 clean, 1 least recently used";
    assert_eq!(summary(&mut cluster, id), line);
    let other = start(&mut cluster, program(9), 1);
    assert_eq!(placed(&mut cluster, other), [(0, LeastRecentlyUsed, 0)]);
}

#[test]
fn two_programs_settle_on_nodes_of_their_own() {
    let mut cluster = Cluster::up(2, 2);
    for round in 0..4 {
        for (hash, node) in [(1, 0), (2, 1)] {
            cluster.pass(Duration::from_secs(1));
            let id = start(&mut cluster, program(hash), 1);
            let reason = if round == 0 { (node, Clean, 0) } else { (node, Warm, PAGES) };
            assert_eq!(placed(&mut cluster, id), [reason], "program {hash} in round {round}");
            cluster.end(id);
        }
    }
}

#[test]
fn retaining_one_program_discards_the_others() {
    let mut cluster = Cluster::up(1, 1);
    cluster.run_on(program(1), &[0]);
    cluster.run_on(program(2), &[0]);
    assert_eq!(held(&cluster.nodes()[0]), [(2, PAGES), (1, PAGES)], "a launch that loads leaves others alone");
    let id = start(&mut cluster, program(1), 1);
    assert_eq!(held(&cluster.nodes()[0]), [(1, PAGES)], "known from the answer, before the end");
    assert_eq!(cluster.nodes()[0].retained[0].bytes, bytes(PAGES));
    cluster.end(id);
    let kept = RetainAnswer::Kept { kept: PAGES, dropped: 3, zeroed: 2, discarded: 1 };
    assert_eq!(cluster.job(id).rank_reports[0].retain, Some(kept));
    let cold = start(&mut cluster, program(2), 1);
    assert_eq!(placed(&mut cluster, cold), [(0, LeastRecentlyUsed, 0)]);
    assert_eq!(used(&cluster, cold), [] as [u32; 0]);
}

#[test]
fn programs_that_take_turns_stay_if_many_are_kept() {
    let mut cluster = Cluster::keeping_many(1, 1);
    cluster.run_on(program(1), &[0]);
    cluster.run_on(program(2), &[0]);
    for (hash, other) in [(1, 2), (2, 1), (1, 2)] {
        let id = start(&mut cluster, program(hash), 1);
        assert_eq!(held(&cluster.nodes()[0]), [(hash, PAGES), (other, PAGES)], "known from the answer, before the end");
        cluster.end(id);
        assert_eq!(placed(&mut cluster, id), [(0, Warm, PAGES)]);
        let kept = RetainAnswer::Kept { kept: PAGES, dropped: 3, zeroed: 2, discarded: 0 };
        assert_eq!(cluster.job(id).rank_reports[0].retain, Some(kept));
        assert_eq!(held(&cluster.nodes()[0]), [(hash, PAGES), (other, PAGES)]);
    }
}

#[test]
fn no_retain_leaves_retained_pages_alone() {
    let mut cluster = Cluster::up(3, 3);
    cluster.run_on(program(2), &[0]);
    cluster.run_on(program(1), &[2]);
    let unaware = Submission { retain: false, ..job(3) };
    let id = cluster.submit_program(program(1), unaware).expect("accepted");
    let expected = [(0, LeastRecentlyUsed, 0), (1, Clean, 0), (2, LeastRecentlyUsed, PAGES)];
    assert_eq!(placed(&mut cluster, id), expected, "by number");
    assert_eq!(summary(&mut cluster, id), "3 nodes by number, retained pages are not used");
    assert_eq!(used(&cluster, id), [] as [u32; 0]);
    // A launch that is not to use what is retained of the program discards it.
    let nodes: Vec<_> = cluster.nodes().iter().map(held).collect();
    assert_eq!(nodes, [vec![(2, PAGES)], vec![], vec![]]);
    cluster.end(id);
    let detail = cluster.job(id);
    assert!(detail.rank_reports.iter().all(|rank| rank.retain.is_none() && rank.pages_retained == 0));
    assert_eq!(detail.job.retention, Some(RetentionSummary::default()));
    assert_eq!(held(&cluster.nodes()[0]), [(1, PAGES), (2, PAGES)], "it is retained all the same");
    // By number even if that means a node that would have to be loaded.
    let one = cluster.submit_program(program(2), Submission { retain: false, ..job(1) }).expect("accepted");
    assert_eq!(placed(&mut cluster, one), [(0, LeastRecentlyUsed, PAGES)]);
}

#[test]
fn a_node_that_has_it_no_more_says_so() {
    let mut cluster = Cluster::up(1, 1);
    cluster.run_on(program(1), &[0]);
    cluster.run_on(program(2), &[0]);
    // Memory was wanted: the node gave a table back and nobody knows.
    let left = cluster.behaviour.memory.held(NodeId(0))[..1].to_vec();
    cluster.behaviour.memory.set(NodeId(0), left);
    let id = start(&mut cluster, program(1), 1);
    assert_eq!(placed(&mut cluster, id), [(0, Warm, PAGES)]);
    assert_eq!(held(&cluster.nodes()[0]), [(2, PAGES)], "the other one stays");
    assert_eq!(recorded(&cluster, 0).1.len(), 1);
    cluster.end(id);
    let detail = cluster.job(id);
    assert_eq!((detail.job.exit_status, detail.rank_reports[0].retain), (Some(0), Some(RetainAnswer::Absent)));
    assert_eq!(detail.job.retention, Some(RetentionSummary::default()));
    assert_eq!(held(&cluster.nodes()[0]), [(1, PAGES), (2, PAGES)]);
}

#[test]
fn what_a_node_ran_is_shown_and_recorded() {
    let mut cluster = Cluster::up(2, 2);
    cluster.pass(Duration::from_nanos(41));
    let id = start(&mut cluster, program(7), 1);
    let last = LastProgram { program: "07".repeat(32), path: "prog".into(), bytes: 100, job: id.0, at_ns: 42 };
    let nodes = cluster.nodes();
    assert_eq!((nodes[0].last_program.as_ref(), nodes[1].last_program.as_ref()), (Some(&last), None));
    assert_eq!(recorded(&cluster, 0), (Some(last.clone()), vec![]), "as soon as the job has its nodes");
    cluster.end(id);
    assert_eq!(recorded(&cluster, 0), (Some(last), vec![table(program(7).id, PAGES)]));
    assert_eq!(recorded(&cluster, 1), (None, vec![]));

    cluster.run_on(program(7), &[1]);
    cluster.run_on(PROGRAM, &[1]);
    let programs = cluster.ask(Request::Programs).expect("programs");
    let seven = programs.iter().find(|program| program.hash == "07".repeat(32)).expect("listed");
    let seen = (seven.nodes.as_slice(), seven.retained_pages, seven.retained_bytes);
    assert_eq!(seen, (&[0, 1][..], 2 * PAGES, 2 * bytes(PAGES)));
    cluster.lose_machine(0);
    let programs = cluster.ask(Request::Programs).expect("programs");
    let seven = programs.iter().find(|program| program.hash == "07".repeat(32)).expect("listed");
    assert_eq!((seven.nodes.as_slice(), seven.retained_pages), (&[1][..], PAGES));
}

#[test]
fn a_reboot_voids_what_is_known() {
    let mut cluster = Cluster::up(3, 3);
    cluster.run_on(program(1), &[0, 1, 2]);
    cluster.lose_machine(0);
    cluster.ask(|answer| Request::Reboot(NodeId(1), answer)).expect("rebooted");
    let nodes = cluster.nodes();
    assert!(nodes.iter().all(|node| node.state == NodeState::Ready));
    for node in &nodes[..2] {
        assert_eq!((node.generation, node.last_program.as_ref(), held(node)), (2, None, vec![]));
        assert_eq!(recorded(&cluster, node.node), (None, vec![]));
    }
    let id = start(&mut cluster, program(1), 3);
    assert_eq!(placed(&mut cluster, id), [(0, Clean, 0), (1, Clean, 0), (2, Warm, PAGES)]);
    assert_eq!(used(&cluster, id), [2]);
}

#[test]
fn a_lost_node_holds_nothing_before_it_is_back() {
    let mut cluster = Cluster::up(1, 1);
    cluster.run_on(program(1), &[0]);
    cluster.behaviour.machines_end = false;
    let lost = FromPset::NodeLost { node: NodeId(0), generation: Generation(1), reason: "silent".into() };
    cluster.said(0, lost);
    let node = cluster.nodes().remove(0);
    assert_eq!((node.state, node.last_program.as_ref(), held(&node)), (NodeState::Stopping, None, vec![]));
    assert_eq!((node.generation, recorded(&cluster, 0)), (1, (None, vec![])));
}

#[test]
fn the_table_survives_the_service_node_but_not_the_boot() {
    let mut cluster = Cluster::up(2, 2);
    let id = cluster.run_on(program(1), &[1]);
    let mut cluster = cluster.restarted();
    // Nothing has been booted yet.
    let node = cluster.ask_only(Request::Nodes).expect("nodes").remove(1);
    assert_eq!((node.generation, node.last_program.map(|last| last.job)), (1, Some(id.0)));
    assert_eq!(node.retained, [], "its machine is gone");
    assert_eq!(cluster.ask_only(Request::Programs).expect("programs")[0].nodes, [] as [u32; 0]);
    assert_eq!(recorded(&cluster, 1).1.len(), 1, "what it held is on record");
    cluster.settle();
    let node = cluster.nodes().remove(1);
    assert_eq!((node.generation, node.last_program, node.retained), (2, None, vec![]));
    assert_eq!(recorded(&cluster, 1), (None, vec![]));
    let id = start(&mut cluster, program(1), 2);
    assert_eq!(placed(&mut cluster, id), [(0, Clean, 0), (1, Clean, 0)]);
    assert_eq!(cluster.members(id).iter().filter(|member| member.use_retained).count(), 0);
}

#[test]
fn the_same_bytes_are_the_same_program_wherever_they_lie() {
    let mut cluster = Cluster::up(2, 2);
    cluster.run_on(program(1), &[1]);
    let copy = Submission { program: "/elsewhere/copy".into(), name: "./copy".into(), ..job(1) };
    let id = cluster.submit_program(program(1), copy).expect("accepted");
    assert_eq!(placed(&mut cluster, id), [(1, Warm, PAGES)]);
    assert_eq!(cluster.nodes()[1].last_program.as_ref().map(|last| &*last.path), Some(&b"./copy"[..]));
    let rebuilt = start(&mut cluster, program(2), 1);
    assert_eq!(placed(&mut cluster, rebuilt), [(0, Clean, 0)], "the same path is not");
}

#[test]
fn running_is_when_all_ranks_run() {
    let mut cluster = Cluster::up(2, 1);
    cluster.behaviour.launches = false;
    cluster.pass(Duration::from_nanos(9));
    let id = start(&mut cluster, program(1), 2);
    for (node, at_ns, running) in [(0u32, 15, None), (1, 20, Some(20))] {
        let now = cluster.now().realtime_ns;
        cluster.pass(Duration::from_nanos(at_ns - now));
        cluster.said(node, FromPset::Launched { job: id, ranks: Rank(node).into() });
        // Said twice: what counts is the first time.
        cluster.pass(Duration::from_nanos(1));
        cluster.said(node, FromPset::Launched { job: id, ranks: Rank(node).into() });
        let view = cluster.job(id).job;
        assert_eq!(view.running_at_ns, running);
        assert_eq!(view.state == JobState::Running, running.is_some());
        assert_eq!(view.started_at_ns, Some(10));
    }
}

#[test]
fn an_answer_is_kept_whatever_becomes_of_the_rank() {
    let mut cluster = Cluster::up(2, 2);
    cluster.run_on(program(1), &[0, 1]);
    cluster.behaviour.launches = false;
    let id = start(&mut cluster, program(1), 2);
    cluster.lose_machine(0);
    let detail = cluster.job(id);
    let outcomes: Vec<_> = detail.rank_reports.iter().map(|rank| rank.outcome).collect();
    assert_eq!(outcomes, [RankOutcome::Lost, RankOutcome::Signalled]);
    assert!(detail.rank_reports.iter().all(|rank| matches!(rank.retain, Some(RetainAnswer::Kept { .. }))));
    assert_eq!(detail.job.running_at_ns, None);
    // One that was refused by the I/O node left its node as it was.
    cluster.run_on(program(1), &[0, 1]);
    let id = start(&mut cluster, program(1), 2);
    cluster.said(0, FromPset::Refused { job: id, ranks: Rank(0).into(), reason: "no such directory".into() });
    assert_eq!(cluster.job(id).job.state, JobState::Ended);
    assert_eq!(held(&cluster.nodes()[0]), [(1, PAGES)]);
}

#[test]
fn answers_nobody_waits_for_change_nothing() {
    let mut cluster = Cluster::up(4, 2);
    cluster.run_on(program(1), &[0]);
    cluster.run_on(program(2), &[3]);
    cluster.behaviour.answers = Answers::Never;
    cluster.behaviour.launches = false;
    let id = start(&mut cluster, program(1), 2);
    let before = (cluster.nodes(), cluster.job(id));
    assert_eq!(before.1.job.nodes, [0, 1]);
    let counts = WalkCounts { kept: 77, ..WalkCounts::default() };
    let answer = |job, hash| Retained { job, program: program(hash).id, outcome: RetainOutcome::Kept(counts) };
    let nonsense = [
        (0, 0, answer(id, 2)),        // of another program
        (0, 1, answer(id, 1)),        // of a rank that was not asked
        (0, 2, answer(id, 1)),        // of a node that is not the job's
        (2, 0, answer(id, 1)),        // by the I/O node of another pset
        (2, 3, answer(JobId(99), 2)), // of no job
        (0, 77, answer(id, 1)),       // of no node
    ];
    for (by, node, answer) in nonsense {
        cluster.said(by, FromPset::Retained { node: NodeId(node), answer });
        assert_eq!((cluster.nodes(), cluster.job(id)), before, "{answer:?} of node {node}");
    }
    cluster.said(0, FromPset::Retained { node: NodeId(0), answer: answer(id, 1) });
    assert_eq!(held(&cluster.nodes()[0]), [(1, 77)], "the one that is waited for");
    let second = Retained { outcome: RetainOutcome::Absent, ..answer(id, 1) };
    cluster.said(0, FromPset::Retained { node: NodeId(0), answer: second });
    assert_eq!(held(&cluster.nodes()[0]), [(1, 77)], "the first one counts");
    cluster.end(id);
    let kept = RetainAnswer::Kept { kept: 77, dropped: 0, zeroed: 0, discarded: 0 };
    assert_eq!(cluster.job(id).rank_reports.iter().map(|rank| rank.retain).collect::<Vec<_>>(), [Some(kept), None]);
    cluster.said(0, FromPset::Retained { node: NodeId(0), answer: second });
    assert_eq!(held(&cluster.nodes()[0]), [(1, PAGES)], "the job is over");
}

#[test]
fn answers_that_say_nothing_change_nothing() {
    let mut cluster = Cluster::up(1, 1);
    cluster.run_on(program(1), &[0]);
    for (outcome, seen) in [
        (RetainOutcome::Busy(JobId(7)), RetainAnswer::Busy { job: 7 }),
        (RetainOutcome::OtherBoot(Generation(5)), RetainAnswer::OtherBoot { generation: 5 }),
    ] {
        cluster.behaviour.answers = Answers::With(outcome);
        let id = start(&mut cluster, program(1), 1);
        assert_eq!(held(&cluster.nodes()[0]), [(1, PAGES)]);
        cluster.end(id);
        assert_eq!(cluster.job(id).rank_reports[0].retain, Some(seen));
    }
}
