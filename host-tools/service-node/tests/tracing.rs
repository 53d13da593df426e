//! Tracing jobs: who may, whom I/O nodes are told of, and that nobody's window stays with a tracer.

mod support;

use coppice_api::job::Submission;
use coppice_protocol::ids::{JobId, PsetId, Rank};
use coppice_protocol::limits::OUTPUT_WINDOW_BYTES;
use coppice_protocol::pset::{FromPset, ToPset};
use coppice_protocol::ship::Stream;
use coppice_protocol::trace::Traced;
use coppice_service_node::controller::{Event, Request};
use coppice_service_node::feed::{Pieces, Taker};
use support::{Cluster, job};

fn trace(cluster: &mut Cluster, id: JobId, rank: Option<u32>) -> Result<Pieces, String> {
    cluster.ask(|answer| Request::Trace(id, rank.map(Rank), answer)).map_err(|refused| refused.message)
}

/// What I/O nodes were told of whom to trace, in order.
fn told(cluster: &Cluster) -> Vec<(u32, Traced)> {
    let of = |(pset, message): (PsetId, &ToPset)| match message {
        ToPset::Trace { traced, .. } => Some((pset.0, *traced)),
        ToPset::Start(start) if start.traced != Traced::None => Some((pset.0, start.traced)),
        _ => None,
    };
    cluster.told().filter_map(of).collect()
}

/// How much I/O nodes were told that there is room for again.
fn freed(cluster: &Cluster) -> u32 {
    let of = |(_, message): (PsetId, &ToPset)| match message {
        ToPset::OutputTaken { bytes, .. } => Some(*bytes),
        _ => None,
    };
    cluster.told().filter_map(of).sum()
}

fn says(cluster: &mut Cluster, id: JobId, stream: Stream, bytes: usize) {
    cluster.said(0, FromPset::Output { job: id, rank: Rank(0), stream, bytes: vec![0; bytes] });
}

#[test]
fn one_at_a_time_traces_a_job_and_gives_back_what_he_has_not_taken() {
    let window = OUTPUT_WINDOW_BYTES as u32;
    let mut cluster = Cluster::up(1, 1);
    let id = cluster.submit(job(1)).expect("accepted");
    let _owner = cluster.ask(|answer| Request::Attach(id, answer)).expect("attached");
    // Nobody wants to know, so it counts as taken.
    says(&mut cluster, id, Stream::Trace, OUTPUT_WINDOW_BYTES);
    assert_eq!(freed(&cluster), window);

    let mut pieces = trace(&mut cluster, id, None).expect("a tracer");
    assert!(trace(&mut cluster, id, None).expect_err("a second one").contains("somebody traces job"));
    says(&mut cluster, id, Stream::Trace, OUTPUT_WINDOW_BYTES);
    assert!(pieces.try_recv().is_ok() && freed(&cluster) == window, "he has it and has not taken it");
    cluster.event(Event::Request(Request::TraceTaken(id, PsetId(0), 100)));
    assert_eq!(freed(&cluster), window + 100);
    cluster.event(Event::Request(Request::EndTrace(id)));
    assert_eq!(freed(&cluster), 2 * window, "it is nobody's any more");
    // What he says late changes nothing.
    cluster.event(Event::Request(Request::TraceTaken(id, PsetId(0), 100)));
    assert_eq!(freed(&cluster), 2 * window);

    // The next one; what whoever runs the job takes is no matter of his.
    let _pieces = trace(&mut cluster, id, Some(0)).expect("a tracer");
    assert_eq!(told(&cluster), [(0, Traced::All), (0, Traced::None), (0, Traced::Rank(Rank(0)))]);
    says(&mut cluster, id, Stream::Output, 10);
    cluster.event(Event::Request(Request::Taken(id, Taker::Owner, PsetId(0), 10)));
    assert_eq!(freed(&cluster), 2 * window + 10);
    // More than the window is too much for a tracer, too.
    says(&mut cluster, id, Stream::Trace, OUTPUT_WINDOW_BYTES + 1);
    let view = cluster.ask(|answer| Request::Job(id, answer)).expect("recorded");
    assert!(view.job.reason.is_some_and(|reason| reason.contains("window")));
}

#[test]
fn a_job_is_traced_from_its_beginning_if_that_was_asked_for_before() {
    let mut cluster = Cluster::up(1, 1);
    let first = cluster.submit(job(1)).expect("accepted");
    // By a tracer of a job that waits.
    let second = cluster.submit(job(1)).expect("accepted");
    let _tracer = trace(&mut cluster, second, Some(0)).expect("a tracer");
    assert_eq!(told(&cluster), []);
    cluster.ask(|answer| Request::Kill(first, 9, answer)).expect("killed");
    assert_eq!(told(&cluster), [(0, Traced::Rank(Rank(0)))]);
    // By whoever runs it: what it does waits for him.
    let third = cluster.submit(Submission { traced: true, ..job(1) }).expect("accepted");
    cluster.ask(|answer| Request::Kill(second, 9, answer)).expect("killed");
    let before = freed(&cluster);
    says(&mut cluster, third, Stream::Trace, 100);
    assert_eq!(freed(&cluster), before);
    let mut pieces = trace(&mut cluster, third, None).expect("the one it waited for");
    assert!(pieces.try_recv().is_ok() && trace(&mut cluster, third, None).is_err());
    // With the job ends what there is to say.
    cluster.ask(|answer| Request::Kill(third, 9, answer)).expect("killed");
    assert!(matches!(pieces.try_recv(), Err(tokio::sync::mpsc::error::TryRecvError::Disconnected)));
    assert!(trace(&mut cluster, third, None).expect_err("over").contains("has ended already"));
    assert!(trace(&mut cluster, JobId(99), None).expect_err("none").contains("there is no job 99"));
}

#[test]
fn what_a_job_did_that_is_over_waits_for_whoever_runs_it() {
    let mut cluster = Cluster::up(1, 1);
    let id = cluster.submit(Submission { traced: true, ..job(1) }).expect("accepted");
    says(&mut cluster, id, Stream::Trace, 100);
    cluster.ask(|answer| Request::Kill(id, 9, answer)).expect("killed");
    assert!(trace(&mut cluster, id, Some(0)).expect_err("is of all ranks").contains("has ended already"));
    let mut pieces = trace(&mut cluster, id, None).expect("what is left");
    assert!(pieces.try_recv().is_ok(), "what it did");
    assert!(matches!(pieces.try_recv(), Err(tokio::sync::mpsc::error::TryRecvError::Disconnected)));
    assert!(trace(&mut cluster, id, None).expect_err("taken").contains("has ended already"));
    // Nobody was to trace this one.
    let other = cluster.submit(job(1)).expect("accepted");
    cluster.ask(|answer| Request::Kill(other, 9, answer)).expect("killed");
    assert!(trace(&mut cluster, other, None).expect_err("over").contains("has ended already"));
}

#[test]
fn a_rank_that_is_none_is_not_traced() {
    let mut cluster = Cluster::up(2, 2);
    let id = cluster.submit(job(2)).expect("accepted");
    let message = trace(&mut cluster, id, Some(2)).expect_err("none");
    assert_eq!(message, format!("job {id} has no rank 2; it has 2, counted from 0"));
    assert_eq!(told(&cluster), []);
}
