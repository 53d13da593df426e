//! What the keeper makes of orders, and which logs stay.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use coppice_api::output::OutputCut;
use coppice_protocol::ids::{JobId, PsetId, Rank};
use coppice_protocol::ship::Stream;
use tokio::sync::mpsc;

use super::{Kept, KeptNow, Logs};
use crate::output::read::{Position, Wanted, read_all};
use crate::output::{OutputEvent, OutputOrder, OutputPiece, Summary, log_path};

fn piece(job: u64, bytes: &[u8]) -> OutputPiece {
    let bytes = bytes.to_vec().into();
    OutputPiece { job: JobId(job), pset: PsetId(0), rank: Rank(0), stream: Stream::Output, bytes }
}

fn open(job: u64) -> OutputOrder {
    OutputOrder::Open { job: JobId(job), limit: 1 << 20 }
}

/// What comes of orders that wait when the thread looks, without what was only taken.
fn work(home: &Path, logs_max: usize, bytes_max: u64, orders: Vec<OutputOrder>) -> Vec<(u64, OutputEvent)> {
    let events = RefCell::new(Vec::new());
    let report = |job: JobId, event| events.borrow_mut().push((job.0, event));
    let mut logs = Logs::new(home.to_owned(), logs_max, bytes_max, report);
    logs.take_over();
    let (sender, queue) = mpsc::unbounded_channel();
    orders.into_iter().for_each(|order| sender.send(order).expect("a queue"));
    drop(sender);
    let kept = KeptNow::default();
    logs.work(queue, &kept);
    drop(logs);
    assert_eq!(kept.get(), found(home), "what is said to be kept is there");
    let mut events = events.into_inner();
    events.retain(|(_, event)| !matches!(event, OutputEvent::Taken { .. }));
    events
}

/// The logs that lie in a directory.
fn found(home: &Path) -> Kept {
    let files = fs::read_dir(home).expect("a directory").map(|entry| entry.expect("an entry"));
    let lengths: Vec<u64> = files.map(|file| file.metadata().expect("a file").len()).collect();
    Kept { logs: lengths.len(), bytes: lengths.iter().sum() }
}

fn output(home: &Path, job: u64) -> Vec<u8> {
    read_all(&log_path(home, JobId(job)), Position::default(), Wanted::default()).expect("sound").0
}

fn closed(bytes: u64) -> OutputEvent {
    OutputEvent::Closed(Summary { bytes, ..Summary::default() })
}

#[test]
fn short_pieces_become_one_record_and_each_byte_is_taken_once() {
    let home = tempfile::tempdir().expect("directory");
    let taken = RefCell::new(0);
    let report = |_, event| {
        if let OutputEvent::Taken { bytes, .. } = event {
            *taken.borrow_mut() += bytes;
        }
    };
    let mut logs = Logs::new(home.path().to_owned(), 10, 1 << 20, report);
    let (sender, queue) = mpsc::unbounded_channel();
    sender.send(open(1)).expect("a queue");
    for number in 0..1000 {
        sender.send(OutputOrder::Append(piece(1, format!("{number}\n").as_bytes()))).expect("a queue");
    }
    let of_other = OutputPiece { stream: Stream::Error, ..piece(1, b"oh") };
    sender.send(OutputOrder::Append(of_other)).expect("a queue");
    sender.send(OutputOrder::Close(JobId(1))).expect("a queue");
    drop(sender);
    logs.work(queue, &KeptNow::default());
    drop(logs);
    let all: String = (0..1000).map(|number| format!("{number}\n")).collect();
    assert_eq!(output(home.path(), 1), format!("{all}oh").as_bytes());
    assert_eq!(taken.into_inner(), all.len() + 2);
    let length = fs::metadata(log_path(home.path(), JobId(1))).expect("a file").len();
    assert!(length < all.len() as u64 + 200, "{length}");
}

#[test]
fn the_logs_of_jobs_that_ended_first_go_first_and_those_under_way_never() {
    let home = tempfile::tempdir().expect("directory");
    let one = |job| vec![open(job), OutputOrder::Append(piece(job, &[b'x'; 1000])), OutputOrder::Close(JobId(job))];
    // The first is under way all the time, the third ends before the second.
    let mut orders = vec![open(1), OutputOrder::Append(piece(1, &[b'x'; 1000])), open(2)];
    orders.push(OutputOrder::Append(piece(2, &[b'x'; 1000])));
    orders.extend(one(3));
    orders.push(OutputOrder::Close(JobId(2)));
    orders.extend(one(4));
    orders.extend(one(5));
    let events = work(home.path(), 100, 3500, orders.clone());
    let given_back: Vec<u64> =
        events.iter().filter(|(_, event)| *event == OutputEvent::GivenBack).map(|(job, _)| *job).collect();
    assert_eq!(given_back, [3, 2]);
    assert!(!log_path(home.path(), JobId(3)).exists() && output(home.path(), 1).len() == 1000);
    // The same if there are too many; and what an earlier service node kept is found.
    let events = work(home.path(), 2, 1 << 20, one(6));
    assert_eq!(events.len(), 3, "{events:?}");
    assert_eq!(events[2], (6, closed(1000)));
    assert_eq!(fs::read_dir(home.path()).expect("a directory").count(), 2);
}

#[test]
fn what_an_earlier_keeper_left_is_found() {
    let home = tempfile::tempdir().expect("directory");
    let mut orders = vec![open(1), OutputOrder::Append(piece(1, b"abc")), OutputOrder::Close(JobId(1)), open(2)];
    orders.push(OutputOrder::Append(piece(2, b"abcdef")));
    drop(work(home.path(), 10, 1 << 20, orders));
    let look = |job| OutputOrder::Look(JobId(job));
    let left = |bytes| OutputEvent::Closed(Summary { bytes, dropped: 0, cut: Some(OutputCut::ServiceNode) });
    let events = work(home.path(), 10, 1 << 20, vec![look(1), look(2), look(3)]);
    assert_eq!(events, [(1, closed(3)), (2, left(6)), (3, left(0))]);
}

#[test]
fn a_log_for_which_there_is_no_room_is_cut() {
    let home = tempfile::tempdir().expect("directory");
    let mut orders = vec![open(1), open(2), OutputOrder::Append(piece(1, &[b'x'; 1000]))];
    orders.push(OutputOrder::Append(piece(2, &[b'y'; 3000])));
    orders.push(OutputOrder::Append(piece(2, b"z")));
    orders.push(OutputOrder::Append(piece(1, &[b'x'; 1000])));
    orders.extend([OutputOrder::Close(JobId(1)), OutputOrder::Close(JobId(2)), OutputOrder::Close(JobId(9))]);
    let events = work(home.path(), 100, 3000, orders);
    assert!(matches!(events[0], (2, OutputEvent::Cut { cut: OutputCut::Logs, .. })), "{events:?}");
    let of_second = Summary { bytes: 0, dropped: 3001, cut: Some(OutputCut::Logs) };
    assert_eq!(events[1..], [(1, closed(2000)), (2, OutputEvent::Closed(of_second))]);
}

#[test]
fn numbers_that_begin_anew_have_logs_of_their_own() {
    let home = tempfile::tempdir().expect("directory");
    let job = |bytes: &[u8]| vec![open(1), OutputOrder::Append(piece(1, bytes)), OutputOrder::Close(JobId(1))];
    drop(work(home.path(), 10, 1 << 20, job(b"the first")));
    assert_eq!(work(home.path(), 10, 1 << 20, job(b"2nd")), [(1, closed(3))]);
    assert_eq!(output(home.path(), 1), b"2nd");
    drop(work(home.path(), 10, 1 << 20, vec![open(1), OutputOrder::Close(JobId(1))]));
    assert!(!log_path(home.path(), JobId(1)).exists(), "this one wrote nothing");
}
