//! Having nodes give retained pages back.

mod support;

use std::time::Duration;

use coppice_api::job::{JobState, Submission};
use coppice_api::retain::{ForgetOrder, Forgotten};
use coppice_protocol::ids::{NodeId, ProgramId, PsetId};
use coppice_protocol::pset::{FromPset, ToPset};
use coppice_protocol::retain::{Discarded, HeldAs, RetainedProgram};
use coppice_service_node::controller::{Event, Refused, Request};
use coppice_service_node::database::ProgramRow;
use coppice_service_node::limits::{FORGET_TIME_MAX, FORGETS_MAX};
use coppice_service_node::plant::HelperEvent;
use support::memory::{PAGES, bytes};
use support::{Cluster, PROGRAM, job, program};
use tokio::sync::oneshot::Receiver;

fn order(program: Option<&str>) -> ForgetOrder {
    ForgetOrder { program: program.map(Into::into) }
}

/// Forgets, which nodes must do at once.
fn forget(cluster: &mut Cluster, program: Option<&str>) -> Result<Forgotten, Refused> {
    cluster.ask(|answer| Request::Forget(order(program), answer))
}

/// Forgets, with nodes that take their time.
fn begin(cluster: &mut Cluster, program: Option<&str>) -> Receiver<Result<Forgotten, Refused>> {
    cluster.ask_and_wait(|answer| Request::Forget(order(program), answer))
}

/// A node answers the only order it was given.
fn answer(cluster: &mut Cluster, node: u32) {
    let (_, request) = *cluster.behaviour.owed.keys().find(|(of, _)| of.0 == node).expect("it owes an answer");
    let event = cluster.behaviour.discarded(PsetId(node / 2), NodeId(node), request).expect("an answer");
    cluster.event(event);
}

/// The first byte of the hashes of the programs each node holds.
fn held(cluster: &mut Cluster) -> Vec<Vec<u8>> {
    let first = |hash: &str| u8::from_str_radix(&hash[..2], 16).expect("a hash");
    let nodes = cluster.nodes();
    nodes.iter().map(|node| node.retained.iter().map(|retained| first(&retained.program)).collect()).collect()
}

/// Four nodes in two psets; two of them hold both programs, one holds one, one holds nothing.
fn filled() -> Cluster {
    let mut cluster = Cluster::up(4, 2);
    cluster.run_on(program(1), &[0, 1, 2]);
    cluster.run_on(program(2), &[1, 2]);
    assert_eq!(held(&mut cluster), [vec![1], vec![2, 1], vec![2, 1], vec![]]);
    cluster
}

#[test]
fn everything_or_one_program() {
    let mut cluster = filled();
    let one = forget(&mut cluster, Some("0101")).expect("forgotten");
    let expected = Forgotten { nodes: 3, pages: 3 * PAGES, bytes: 3 * bytes(PAGES), silent: vec![], round_trip_ns: 0 };
    assert_eq!(one, expected);
    assert_eq!(held(&mut cluster), [vec![], vec![2], vec![2], vec![]]);
    let all = forget(&mut cluster, None).expect("forgotten");
    assert_eq!((all.nodes, all.pages), (2, 2 * PAGES));
    assert_eq!(held(&mut cluster), [const { Vec::<u8>::new() }; 4]);
    assert_eq!(forget(&mut cluster, None).expect("nothing left"), Forgotten::default());
    let told = cluster.told().filter_map(|(pset, message)| match message {
        ToPset::Discard { request, program, nodes } => Some((pset.0, *request, *program, nodes.len())),
        _ => None,
    });
    let told: Vec<_> = told.collect();
    let one = Some(program(1).id);
    let expected = [(0, 1, one, 2), (1, 1, one, 2), (0, 2, None, 2), (1, 2, None, 2), (0, 3, None, 2), (1, 3, None, 2)];
    assert_eq!(told, expected);
    // It is loaded again, without a trace of what was.
    let id = cluster.submit_program(program(1), job(4)).expect("accepted");
    assert!(cluster.members(id).iter().all(|member| !member.use_retained));
    assert_eq!(cluster.job(id).job.placement.expect("placed").summary, "4 nodes clean");
}

#[test]
fn programs_are_meant_by_hash_or_path() {
    let mut cluster = Cluster::up(1, 1);
    let hash = |first: [u8; 3]| {
        let mut hash = [0xee; 32];
        hash[..3].copy_from_slice(&first);
        ProgramRow { id: ProgramId(hash), ..PROGRAM }
    };
    for (at, program) in
        [[0xab, 0xcd, 0x01], [0xab, 0xcd, 0x02], [0xbe, 0xef, 0x00]].map(hash).iter().zip(["a", "b", "a"])
    {
        cluster.pass(Duration::from_secs(1));
        let from = Submission { program: format!("/bin/{program}").into(), nodes: vec![0], ..job(1) };
        let id = cluster.submit_program(*at, from).expect("accepted");
        cluster.end(id);
    }
    assert_eq!(held(&mut cluster), [[0xbe, 0xab, 0xab]]);
    let ambiguous = forget(&mut cluster, Some("abcd")).expect_err("two");
    assert_eq!(ambiguous.status, 409);
    assert!(ambiguous.message.contains("'abcd'") && ambiguous.message.contains("several"), "{}", ambiguous.message);
    for unknown in ["abc", "", "abcd03", "/bin/c", "beef\n", &"0".repeat(65)] {
        let refused = forget(&mut cluster, Some(unknown)).expect_err(unknown);
        assert_eq!(refused.status, 404, "{unknown}");
        assert!(refused.message.contains("no program") && !refused.message.contains('\n'), "{}", refused.message);
    }
    assert_eq!(held(&mut cluster), [[0xbe, 0xab, 0xab]], "nothing was forgotten");
    // The path means what was last submitted from it.
    assert_eq!(forget(&mut cluster, Some("/bin/a")).expect("forgotten").nodes, 1);
    assert_eq!(held(&mut cluster), [[0xab, 0xab]]);
    assert_eq!(forget(&mut cluster, Some("ABCD01")).expect("forgotten").nodes, 1);
    let whole = hash([0xab, 0xcd, 0x02]).id.to_string();
    assert_eq!(forget(&mut cluster, Some(&whole)).expect("forgotten").nodes, 1);
    assert_eq!(held(&mut cluster), [Vec::<u8>::new()]);
    // Nodes are asked for one that nobody knows: an empty round trip.
    let before = cluster.told().count();
    assert_eq!(forget(&mut cluster, Some(&"0".repeat(64))).expect("asked"), Forgotten::default());
    assert_eq!(cluster.told().count(), before + 1);
}

#[test]
fn an_order_waits_for_its_nodes() {
    let mut cluster = filled();
    cluster.behaviour.discards = false;
    let mut waiting = begin(&mut cluster, None);
    for node in [2, 0, 3] {
        cluster.pass(Duration::from_millis(1));
        answer(&mut cluster, node);
        assert!(waiting.try_recv().is_err(), "node {node} is not the last one");
    }
    assert_eq!(held(&mut cluster), [vec![], vec![2, 1], vec![], vec![]], "known at once");
    cluster.pass(Duration::from_millis(1));
    answer(&mut cluster, 1);
    let forgotten = waiting.try_recv().expect("answered").expect("forgotten");
    let expected =
        Forgotten { nodes: 3, pages: 5 * PAGES, bytes: 5 * bytes(PAGES), silent: vec![], round_trip_ns: 4_000_000 };
    assert_eq!(forgotten, expected);
}

#[test]
fn lost_nodes_are_not_waited_for() {
    let mut cluster = filled();
    cluster.behaviour.discards = false;
    let mut waiting = begin(&mut cluster, None);
    answer(&mut cluster, 0);
    cluster.lose_machine(1);
    assert!(waiting.try_recv().is_err());
    let event = cluster.behaviour.pset(PsetId(1), HelperEvent::Ended("signal: 9 (SIGKILL)".into()));
    cluster.event(event);
    let forgotten = waiting.try_recv().expect("answered").expect("forgotten");
    assert_eq!((forgotten.nodes, forgotten.pages, forgotten.silent), (1, PAGES, vec![]));
}

#[test]
fn silent_nodes_are_not_waited_for_for_ever() {
    let mut cluster = filled();
    cluster.behaviour.discards = false;
    let mut waiting = begin(&mut cluster, Some("0101"));
    answer(&mut cluster, 0);
    answer(&mut cluster, 3);
    cluster.pass(FORGET_TIME_MAX - Duration::from_nanos(1));
    assert!(waiting.try_recv().is_err());
    cluster.pass(Duration::from_nanos(1));
    let forgotten = waiting.try_recv().expect("answered").expect("forgotten");
    let limit_ns = u64::try_from(FORGET_TIME_MAX.as_nanos()).expect("short");
    assert_eq!((forgotten.nodes, forgotten.silent, forgotten.round_trip_ns), (1, vec![1, 2], limit_ns));
    assert_eq!(held(&mut cluster), [vec![], vec![2, 1], vec![2, 1], vec![]], "not known to be gone");
    // What it says later is true all the same.
    answer(&mut cluster, 1);
    assert_eq!(held(&mut cluster), [vec![], vec![2], vec![2, 1], vec![]]);
    assert!(cluster.nodes().iter().all(|node| node.generation == 1), "nobody was rebooted for it");
}

#[test]
fn without_nodes_there_is_nothing_to_wait_for() {
    let mut cluster = Cluster::new(2, 2);
    cluster.behaviour.boots = false;
    cluster.settle();
    assert_eq!(forget(&mut cluster, None).expect("at once"), Forgotten::default());
    assert!(!cluster.told().any(|(_, message)| matches!(message, ToPset::Discard { .. })));
    cluster.event(Event::Request(Request::Down));
    assert_eq!(forget(&mut cluster, None).expect_err("too late").status, 409);
}

#[test]
fn running_jobs_go_on() {
    let mut cluster = filled();
    let id = cluster.submit_program(program(1), Submission { nodes: vec![0, 1], ..job(2) }).expect("accepted");
    let forgotten = forget(&mut cluster, None).expect("forgotten");
    assert_eq!(forgotten.silent, [] as [u32; 0]);
    assert_eq!(cluster.job(id).job.state, JobState::Running);
    cluster.end(id);
    assert_eq!(held(&mut cluster), [vec![1], vec![1], vec![], vec![]]);
}

#[test]
fn orders_at_a_time_are_bounded() {
    let mut cluster = filled();
    cluster.behaviour.discards = false;
    let mut waiting: Vec<_> = (0..FORGETS_MAX).map(|_| begin(&mut cluster, None)).collect();
    let refused = forget(&mut cluster, None).expect_err("one too many");
    assert_eq!(refused.status, 409);
    assert!(refused.message.contains("try again"), "{}", refused.message);
    // Somebody went away.
    drop(waiting.pop());
    let last = begin(&mut cluster, Some("0202"));
    assert!(forget(&mut cluster, None).is_err());
    for node in 0..4 {
        for request in 1..=FORGETS_MAX as u64 + 1 {
            let event = cluster.behaviour.discarded(PsetId(node / 2), NodeId(node), request).expect("owed");
            cluster.event(event);
        }
    }
    let answers: Vec<_> =
        waiting.into_iter().chain([last]).map(|mut one| one.try_recv().expect("answered").expect("done")).collect();
    assert_eq!(answers.len(), FORGETS_MAX);
    assert_eq!(answers.iter().map(|forgotten| forgotten.nodes).collect::<Vec<_>>()[..2], [3, 0]);
    cluster.behaviour.discards = true;
    forget(&mut cluster, None).expect("there is room again");
}

#[test]
fn a_cluster_that_goes_down_says_so() {
    let mut cluster = filled();
    cluster.behaviour.discards = false;
    let mut waiting = begin(&mut cluster, None);
    cluster.event(Event::Request(Request::Down));
    assert_eq!(waiting.try_recv().expect("answered").expect_err("going down").status, 409);
}

#[test]
fn answers_nobody_waits_for_change_nothing() {
    let mut cluster = filled();
    forget(&mut cluster, Some("0202")).expect("forgotten");
    cluster.behaviour.discards = false;
    let mut waiting = begin(&mut cluster, Some("0101"));
    let before = cluster.nodes();
    let table = RetainedProgram { program: program(9).id, pages: u64::MAX, bytes: u64::MAX, held_as: HeldAs::Table };
    let said = |request| Discarded { request, given_back: vec![table; 3], still_held: vec![table; 99] };
    for (by, node, request) in [(0, 0, 1), (0, 0, 0), (0, 0, 3), (0, 0, u64::MAX), (2, 0, 2), (0, 3, 2), (0, 77, 2)] {
        cluster.said(by, FromPset::Discarded { node: NodeId(node), answer: said(request) });
        assert_eq!(cluster.nodes(), before, "node {node} of pset {}, request {request}", by / 2);
        assert!(waiting.try_recv().is_err());
    }
    // Numbers that make no sense do no harm.
    for node in 0..4 {
        cluster.said(node, FromPset::Discarded { node: NodeId(node), answer: said(2) });
    }
    let forgotten = waiting.try_recv().expect("answered").expect("forgotten");
    assert_eq!((forgotten.nodes, forgotten.pages, forgotten.bytes), (4, u64::MAX, u64::MAX));
    assert!(cluster.nodes().iter().all(|node| node.retained.len() == 1));
    let programs = cluster.ask(Request::Programs).expect("programs");
    assert!(programs.iter().all(|program| program.retained_pages == 0), "of a program nobody ran");
    let id = cluster.submit_program(program(9), job(4)).expect("accepted");
    let placement = cluster.job(id).job.placement.expect("placed");
    assert!(placement.summary.contains(&u64::MAX.to_string()), "{}", placement.summary);
    let listed = cluster.ask(Request::Programs).expect("programs");
    let nine = listed.iter().find(|program| program.hash == "09".repeat(32)).expect("known now");
    assert_eq!(nine.retained_pages, 0, "the launch found nothing of it");
}
