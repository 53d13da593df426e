//! What is kept of jobs' output, and jobs that belong to nobody.

mod support;

use std::time::Duration;

use coppice_api::job::{EXIT_COPPICE, JobState, Submission};
use coppice_api::output::{OutputCut, OutputView};
use coppice_protocol::ids::{JobId, PsetId, Rank};
use coppice_protocol::limits::OUTPUT_WINDOW_BYTES;
use coppice_protocol::pset::{FromPset, ToPset};
use coppice_protocol::ship::Stream;
use coppice_service_node::controller::{Event, Request};
use coppice_service_node::feed::{Piece, Taker};
use coppice_service_node::limits::{ATTACH_TIME_MAX, LOG_TIME_MAX, READERS_PER_JOB_MAX};
use coppice_service_node::output::{OutputEvent, OutputOrder, Summary};
use coppice_service_node::plant::PlantEvent;
use support::{Cluster, Order, job};

const LIMIT: u64 = 1 << 20;

fn detached() -> Submission {
    Submission { detached: true, keep_output: Some(LIMIT), ..job(1) }
}

fn write(cluster: &mut Cluster, id: JobId, bytes: usize) {
    let bytes = vec![b'x'; bytes];
    cluster.said(0, FromPset::Output { job: id, rank: Rank(0), stream: Stream::Output, bytes });
}

/// Bytes that the I/O node was told are taken.
fn taken(cluster: &Cluster) -> usize {
    let told = cluster.told().filter_map(|(_, message)| match message {
        ToPset::OutputTaken { bytes, .. } => Some(*bytes as usize),
        _ => None,
    });
    told.sum()
}

fn output(cluster: &mut Cluster, id: JobId) -> OutputView {
    cluster.job(id).job.output.expect("kept")
}

#[test]
fn a_detached_job_waits_for_nobody_and_is_recorded_as_such() {
    let mut cluster = Cluster::up(1, 1);
    let id = cluster.submit(detached()).expect("accepted");
    cluster.pass(ATTACH_TIME_MAX * 10);
    assert_eq!(cluster.job(id).job.state, JobState::Running);
    assert!(cluster.job(id).job.detached);
    assert_eq!(output(&mut cluster, id), OutputView::limited(LIMIT));
    let refused = cluster.ask(|answer| Request::Attach(id, answer)).expect_err("nobody's");
    assert!(refused.message.contains("coppice attach 1"), "{}", refused.message);
    write(&mut cluster, id, OUTPUT_WINDOW_BYTES);
    write(&mut cluster, id, 7);
    assert_eq!(taken(&cluster), OUTPUT_WINDOW_BYTES + 7, "as soon as it is kept");
    cluster.end(id);
    let kept = OutputView { bytes: Some(OUTPUT_WINDOW_BYTES as u64 + 7), ..OutputView::limited(LIMIT) };
    assert_eq!(output(&mut cluster, id), kept);
}

/// What is not written yet is not taken: the disk holds up who writes, and nobody waits for it.
#[test]
fn a_disk_that_does_not_answer_holds_up_the_ranks_and_not_the_end() {
    let mut cluster = Cluster::up(1, 1);
    cluster.behaviour.keeps_output = false;
    let id = cluster.submit(detached()).expect("accepted");
    write(&mut cluster, id, OUTPUT_WINDOW_BYTES);
    assert_eq!(taken(&cluster), 0);
    cluster.end(id);
    assert_eq!(cluster.job(id).job.state, JobState::Ended);
    assert_eq!(output(&mut cluster, id).bytes, None);
    let log = cluster.ask(|answer| Request::Log(id, answer)).expect("there");
    assert!(!log.is_under_way && log.state.as_ref().is_some_and(|state| !state.borrow().closed));
    // Then it does after all.
    let orders: Vec<OutputOrder> = cluster
        .orders
        .iter()
        .filter_map(|order| if let Order::Keep(order) = order { Some(order.clone()) } else { None })
        .collect();
    for event in orders.iter().flat_map(|order| cluster.behaviour.keep(order)).collect::<Vec<_>>() {
        cluster.event(event);
    }
    assert_eq!(output(&mut cluster, id).bytes, Some(OUTPUT_WINDOW_BYTES as u64));
    assert!(log.state.is_some_and(|state| state.borrow().closed));
    assert!(cluster.ask(|answer| Request::Log(id, answer)).is_ok_and(|log| log.state.is_none()));
}

#[test]
fn a_job_goes_on_without_its_log_if_the_disk_does_not_answer() {
    let mut cluster = Cluster::up(1, 1);
    cluster.behaviour.keeps_output = false;
    let id = cluster.submit(detached()).expect("accepted");
    write(&mut cluster, id, 1000);
    cluster.pass(LOG_TIME_MAX - Duration::from_millis(1));
    assert_eq!(taken(&cluster), 0);
    // As long as it takes some of it now and then, it is waited for.
    let event = OutputEvent::Taken { pset: PsetId(0), bytes: 400, length: 456 };
    cluster.event(Event::Plant(PlantEvent::Output { job: id, event }));
    cluster.pass(LOG_TIME_MAX - Duration::from_millis(1));
    assert_eq!((taken(&cluster), cluster.job(id).job.state), (400, JobState::Running));
    cluster.pass(Duration::from_millis(1));
    assert_eq!(taken(&cluster), 1000);
    // Whoever reads the log hears it at once, though the disk still does not answer.
    let log = cluster.ask(|answer| Request::Log(id, answer)).expect("a log");
    assert_eq!(log.state.map(|state| state.borrow().cut), Some(Some(OutputCut::Late)));
    // What follows waits for nobody, also when the disk comes back.
    write(&mut cluster, id, OUTPUT_WINDOW_BYTES);
    assert_eq!(taken(&cluster), 1000 + OUTPUT_WINDOW_BYTES);
    cluster.behaviour.keeps_output = true;
    let orders: Vec<OutputOrder> = cluster
        .orders
        .iter()
        .filter_map(|order| if let Order::Keep(order) = order { Some(order.clone()) } else { None })
        .collect();
    for event in orders.iter().flat_map(|order| cluster.behaviour.keep(order)).collect::<Vec<_>>() {
        cluster.event(event);
    }
    cluster.end(id);
    let kept = output(&mut cluster, id);
    assert_eq!((kept.bytes, kept.dropped, kept.cut), (Some(1000), OUTPUT_WINDOW_BYTES as u64, Some(OutputCut::Late)));
    let events = cluster.ask(|answer| Request::Ras(Default::default(), answer)).expect("events");
    let cuts: Vec<_> = events.iter().filter(|event| event.kind == "output-cut").collect();
    assert!(cuts.len() == 1 && cuts[0].text.contains("has not taken any of it for 30 s"), "{cuts:?}");
    // One that has ended holds nobody up: its log may be written late.
    cluster.behaviour.keeps_output = false;
    let id = cluster.submit(detached()).expect("accepted");
    write(&mut cluster, id, 1000);
    cluster.end(id);
    cluster.pass(2 * LOG_TIME_MAX);
    let events = cluster.ask(|answer| Request::Ras(Default::default(), answer)).expect("events");
    assert_eq!(events.iter().filter(|event| event.kind == "output-cut").count(), 1);
}

#[test]
fn all_who_take_it_hold_it_up_and_who_leaves_does_not() {
    let mut cluster = Cluster::up(1, 1);
    let id = cluster.submit(Submission { keep_output: Some(LIMIT), ..job(1) }).expect("accepted");
    let _owner = cluster.ask(|answer| Request::Attach(id, answer)).expect("attached");
    write(&mut cluster, id, 100);
    let (reader, mut pieces) = cluster.ask(|answer| Request::Join(id, answer)).expect("room");
    write(&mut cluster, id, 50);
    assert!(matches!(pieces.try_recv(), Ok(Piece::Output { bytes, .. }) if bytes.len() == 50));
    cluster.event(Event::Request(Request::Taken(id, Taker::Owner, PsetId(0), 150)));
    assert_eq!(taken(&cluster), 100, "what came before is none of the reader's");
    cluster.event(Event::Request(Request::Left(id, reader)));
    assert_eq!(taken(&cluster), 150);
    assert_eq!(cluster.job(id).job.state, JobState::Running, "he is not who runs it");
    let others: Vec<_> =
        (0..READERS_PER_JOB_MAX).map(|_| cluster.ask(|answer| Request::Join(id, answer)).expect("room")).collect();
    let refused = cluster.ask(|answer| Request::Join(id, answer)).expect_err("too many");
    assert!(refused.status == 409 && refused.message.contains("logs -f"), "{}", refused.message);
    drop(others);
    cluster.event(Event::Request(Request::Left(id, Taker::Owner)));
    assert_eq!(cluster.job(id).job.reason.as_deref(), Some("whoever ran it went away"));
    for (of, words) in [(id, "has ended already"), (JobId(9), "there is no job 9")] {
        let refused = cluster.ask(|answer| Request::Join(of, answer)).expect_err("not under way");
        assert!(refused.message.contains(words), "{}", refused.message);
    }
}

#[test]
fn a_log_that_cannot_be_written_is_an_event_and_the_job_goes_on() {
    let mut cluster = Cluster::up(1, 1);
    cluster.behaviour.kept_max = 10;
    let id = cluster.submit(detached()).expect("accepted");
    for _ in 0..3 {
        write(&mut cluster, id, 8);
    }
    assert_eq!((taken(&cluster), cluster.job(id).job.state), (24, JobState::Running));
    cluster.end(id);
    let kept = output(&mut cluster, id);
    assert_eq!((kept.bytes, kept.dropped, kept.cut), (Some(10), 14, Some(OutputCut::Disk)));
    let events = cluster.ask(|answer| Request::Ras(Default::default(), answer)).expect("events");
    let cuts: Vec<_> = events.iter().filter(|event| event.kind == "output-cut").collect();
    assert!(cuts.len() == 1 && cuts[0].text.contains("No space left"), "{cuts:?}");
}

#[test]
fn whoever_waits_for_a_job_hears_of_its_end() {
    let mut cluster = Cluster::up(1, 1);
    let id = cluster.submit(detached()).expect("accepted");
    let mut early = cluster.ask_and_wait(|answer| Request::Wait(id, answer));
    drop(cluster.ask_and_wait(|answer| Request::Wait(id, answer)));
    assert!(early.try_recv().is_err(), "not yet");
    cluster.end(id);
    assert_eq!(early.try_recv().expect("answered").expect("ended").exit_status, Some(0));
    assert_eq!(cluster.ask(|answer| Request::Wait(id, answer)).expect("ended").exit_status, Some(0));
    assert!(cluster.ask(|answer| Request::Wait(JobId(9), answer)).is_err_and(|refused| refused.status == 404));
    let id = cluster.submit(detached()).expect("accepted");
    let mut waiting = cluster.ask_and_wait(|answer| Request::Wait(id, answer));
    cluster.event(Event::Request(Request::Down));
    let view = waiting.try_recv().expect("answered").expect("ended");
    assert_eq!((view.exit_status, view.reason.as_deref()), (Some(EXIT_COPPICE), Some("the cluster went down")));
    assert!(cluster.controller.is_down());
}

#[test]
fn a_cluster_goes_down_when_all_is_kept_or_that_takes_too_long() {
    let mut cluster = Cluster::up(1, 1);
    cluster.behaviour.keeps_output = false;
    cluster.submit(detached()).expect("accepted");
    cluster.event(Event::Request(Request::Down));
    assert!(!cluster.controller.is_down());
    cluster.pass(Duration::from_secs(10));
    assert!(cluster.controller.is_down());
}

#[test]
fn what_an_earlier_service_node_left_is_looked_at_and_recorded() {
    let mut cluster = Cluster::up(1, 1);
    let closed = cluster.submit(detached()).expect("accepted");
    write(&mut cluster, closed, 9);
    cluster.end(closed);
    let whole = output(&mut cluster, closed);
    cluster.behaviour.keeps_output = false;
    let ended = cluster.submit(detached()).expect("accepted");
    cluster.end(ended);
    let running = cluster.submit(detached()).expect("accepted");
    let mut cluster = cluster.restarted();
    let bytes = [ended, running].map(|id| cluster.ask_only(|answer| Request::Job(id, answer)).expect("job").job.output);
    assert!(bytes.iter().all(|output| output.is_some_and(|output| output.bytes.is_none())), "not known yet: {bytes:?}");
    let found = Summary { bytes: 7, ..Summary::default() };
    cluster.behaviour.left.insert(ended, found);
    cluster.settle();
    assert_eq!((output(&mut cluster, closed), output(&mut cluster, ended)), (whole, found.view(LIMIT)));
    let nothing = OutputView { bytes: Some(0), cut: Some(OutputCut::ServiceNode), ..OutputView::limited(LIMIT) };
    assert_eq!(output(&mut cluster, running), nothing);
    let of = |job, event| Event::Plant(PlantEvent::Output { job, event });
    cluster.event(of(JobId(77), OutputEvent::Closed(found)));
    cluster.event(of(closed, OutputEvent::GivenBack));
    assert!(output(&mut cluster, closed).given_back);
    let refused = cluster.ask(|answer| Request::Log(closed, answer)).expect_err("given back");
    assert!(refused.status == 404 && refused.message.contains("removed to make room"), "{}", refused.message);
    let unkept = cluster.submit(job(1)).expect("accepted");
    let refused = cluster.ask(|answer| Request::Log(unkept, answer)).expect_err("not kept");
    assert!(refused.message.contains("--keep-output"), "{}", refused.message);
}
