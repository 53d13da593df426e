//! Questions about ranks: who is asked, and what those hear whose node does not answer.

mod support;

use std::time::Duration;

use coppice_protocol::ids::{JobId, NodeId, PsetId, Rank};
use coppice_protocol::inspect::held::{MemoryPart, NotTold};
use coppice_protocol::inspect::{Answer, Inspect, Inspected, Query, Question};
use coppice_protocol::pset::{FromPset, ToPset};
use coppice_service_node::controller::{Event, Refused, Request};
use coppice_service_node::limits::{INSPECT_TIME_MAX, INSPECTIONS_MAX};
use support::{Cluster, job};
use tokio::sync::oneshot;

type Asked = oneshot::Receiver<Result<Answer, Refused>>;

const OBJECTS: Query = Query { by: 0, question: Question::Objects { from: 7 } };

fn ask(cluster: &mut Cluster, job: JobId, rank: u32) -> Asked {
    let (answer, answered) = oneshot::channel();
    cluster.event(Event::Request(Request::Inspect(job, Rank(rank), OBJECTS, answer)));
    answered
}

fn refusal(asked: &mut Asked) -> String {
    asked.try_recv().expect("an answer").expect_err("a refusal").message
}

/// The questions that nodes were asked.
fn questions(cluster: &Cluster) -> Vec<(PsetId, NodeId, Inspect)> {
    let of = |(pset, message): (PsetId, &ToPset)| match message {
        ToPset::Inspect { node, inspect } => Some((pset, *node, inspect.clone())),
        _ => None,
    };
    cluster.told().filter_map(of).collect()
}

fn says(cluster: &mut Cluster, node: u32, request: u64, answer: Answer) {
    let inspected = Inspected { request, answer };
    cluster.said(node, FromPset::Inspected { node: NodeId(node), answer: inspected });
}

fn objects() -> Answer {
    Answer::Objects { objects: Vec::new(), next: Some(9) }
}

#[test]
fn the_node_of_the_rank_is_asked_and_nobody_else_answers() {
    let mut cluster = Cluster::up(2, 1);
    let id = cluster.submit(job(2)).expect("accepted");
    let node = cluster.members(id).iter().find(|member| member.rank == Rank(1)).expect("a member").node;
    let mut asked = ask(&mut cluster, id, 1);
    let asked_of = questions(&cluster);
    let [(pset, told, inspect)] = &asked_of[..] else { panic!("one question") };
    assert_eq!((pset.0, *told, inspect.rank, &inspect.query), (node.0, node, Rank(1), &OBJECTS));
    // Another node, another number: nobody asked them.
    says(&mut cluster, 1 - node.0, inspect.request, objects());
    says(&mut cluster, node.0, inspect.request + 1, objects());
    assert!(asked.try_recv().is_err());
    says(&mut cluster, node.0, inspect.request, objects());
    assert_eq!(asked.try_recv().expect("an answer"), Ok(objects()));
    // Said twice, it is to nobody.
    says(&mut cluster, node.0, inspect.request, objects());
    let mut asked = ask(&mut cluster, id, 1);
    says(&mut cluster, node.0, inspect.request + 1, Answer::NotHere);
    assert!(refusal(&mut asked).contains("does not run on node"));
}

#[test]
fn what_cannot_be_asked_is_refused_at_once() {
    let mut cluster = Cluster::up(1, 1);
    assert!(refusal(&mut ask(&mut cluster, JobId(77), 0)).contains("there is no job 77"));
    let id = cluster.submit(job(1)).expect("accepted");
    assert!(refusal(&mut ask(&mut cluster, id, 1)).contains("has no rank 1; it has 1"));
    let waiting = cluster.submit(job(1)).expect("accepted");
    assert!(refusal(&mut ask(&mut cluster, waiting, 0)).contains("waits for nodes"));
    cluster.end(id);
    assert!(refusal(&mut ask(&mut cluster, id, 0)).contains("has ended already"));
    assert_eq!(questions(&cluster), []);
}

#[test]
fn a_node_that_does_not_answer_keeps_nobody_waiting() {
    let mut cluster = Cluster::up(1, 1);
    let id = cluster.submit(job(1)).expect("accepted");
    let mut all: Vec<Asked> = (0..INSPECTIONS_MAX).map(|_| ask(&mut cluster, id, 0)).collect();
    assert!(refusal(&mut ask(&mut cluster, id, 0)).contains("wait for nodes already"));
    // Who goes away leaves no place for more: his question is under way.
    drop(all.pop());
    assert!(refusal(&mut ask(&mut cluster, id, 0)).contains("wait for nodes already"));
    cluster.pass(INSPECT_TIME_MAX - Duration::from_millis(1));
    assert!(all.iter_mut().all(|asked| asked.try_recv().is_err()));
    cluster.pass(Duration::from_millis(1));
    assert!(all.iter_mut().all(|asked| refusal(asked).contains("node 0 did not answer within 5 s")));
    // One whose node is lost hears that.
    let mut asked = ask(&mut cluster, id, 0);
    cluster.lose_machine(0);
    assert!(refusal(&mut asked).contains("is lost"));
    // And one whose cluster goes down.
    let mut cluster = Cluster::up(1, 1);
    let id = cluster.submit(job(1)).expect("accepted");
    let mut asked = ask(&mut cluster, id, 0);
    cluster.event(Event::Request(Request::Down));
    assert!(refusal(&mut asked).contains("is going down"));
}

#[test]
fn what_a_node_does_not_tell_is_said_in_a_line() {
    let mut cluster = Cluster::up(1, 1);
    let id = cluster.submit(job(1)).expect("accepted");
    let reasons = [
        (NotTold::Busy, "node 0 answers as many questions"),
        (NotTold::NotHeld, "rank 0 of job 1 was not looked at for too long"),
        (NotTold::Ending, "rank 0 of job 1 has come to its end"),
        (NotTold::Late("thread 7 waits for the I/O node".into()), "cannot be looked at now: thread 7 waits"),
        (NotTold::NoMemory, "node 0 has no memory left"),
        (NotTold::Refused, "rank 0 of job 1 cannot be changed like that"),
    ];
    for (number, (reason, said)) in reasons.into_iter().enumerate() {
        let mut asked = ask(&mut cluster, id, 0);
        says(&mut cluster, 0, number as u64 + 1, Answer::NotTold(reason));
        let refusal = refusal(&mut asked);
        assert!(refusal.contains(said) && !refusal.contains('\n'), "{refusal}");
    }
    // What is told is passed on as it is, and that somebody else has the rank held: it may be asked again.
    let memory = Answer::Memory(MemoryPart { zeros: 3, bytes: "ab".into() });
    for (number, told) in [(7, memory), (8, Answer::NotTold(NotTold::Taken))] {
        let mut asked = ask(&mut cluster, id, 0);
        says(&mut cluster, 0, number, told.clone());
        assert_eq!(asked.try_recv().expect("an answer"), Ok(told));
    }
}
