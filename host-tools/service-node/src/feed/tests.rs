//! What the feed gives to whom, and what I/O nodes are told of it.

use coppice_api::stream::JobEvent;
use coppice_protocol::ids::{PsetId, Rank};
use coppice_protocol::limits::OUTPUT_WINDOW_BYTES;
use coppice_protocol::ship::Stream;
use hyper::body::Bytes;
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::{Feed, Piece, Pieces, Taker, WindowExceeded};
use crate::limits::READERS_PER_JOB_MAX;

const ALL: usize = OUTPUT_WINDOW_BYTES;

fn send(feed: &mut Feed, pset: u32, bytes: usize) -> Result<usize, WindowExceeded> {
    feed.output(PsetId(pset), Rank(0), Stream::Output, &Bytes::from(vec![0; bytes]))
}

fn lengths(pieces: &mut Pieces) -> Vec<usize> {
    let all = std::iter::from_fn(|| pieces.try_recv().ok());
    all.filter_map(|piece| if let Piece::Output { bytes, .. } = piece { Some(bytes.len()) } else { None }).collect()
}

#[test]
fn each_io_node_has_its_own_window() {
    let mut feed = Feed::owned();
    assert!(feed.is_awaited());
    let _pieces = feed.attach().expect("first");
    assert!(feed.attach().is_none() && !feed.is_awaited());
    assert_eq!((send(&mut feed, 0, ALL), send(&mut feed, 1, ALL)), (Ok(0), Ok(0)));
    assert_eq!(feed.taken(Taker::Owner, PsetId(0), 10), 10);
    assert_eq!(send(&mut feed, 0, 10), Ok(0));
    assert_eq!(send(&mut feed, 0, 1), Err(WindowExceeded));
}

#[test]
fn the_slowest_of_all_who_take_it_holds_it_up() {
    let mut feed = Feed::owned();
    feed.add_log();
    let mut owner = feed.attach().expect("first");
    assert_eq!(send(&mut feed, 0, 30), Ok(0));
    let (reader, mut pieces) = feed.join().expect("room");
    assert_eq!(send(&mut feed, 0, 20), Ok(0));
    assert_eq!((lengths(&mut owner), lengths(&mut pieces)), (vec![30, 20], vec![20]));
    assert_eq!(feed.taken(Taker::Owner, PsetId(0), 50), 0);
    assert_eq!(feed.taken(Taker::Log, PsetId(0), 40), 30, "what came before the reader is none of his");
    assert_eq!(feed.taken(reader, PsetId(0), 5), 5);
    assert_eq!(feed.leave(reader), [(PsetId(0), 5)], "as far as the log has it");
    assert_eq!(feed.leave(Taker::Log), [(PsetId(0), 10)]);
    assert_eq!(feed.taken(Taker::Log, PsetId(0), 100), 0, "nobody counts twice");
}

#[test]
fn readers_have_a_limit_and_those_who_left_do_not_count() {
    let mut feed = Feed::default();
    let mut readers: Vec<_> = (0..READERS_PER_JOB_MAX).map(|_| feed.join().expect("room")).collect();
    assert!(feed.join().is_none());
    readers.pop();
    assert!(feed.join().is_some());
}

#[test]
fn progress_that_nobody_takes_is_said_once() {
    let mut feed = Feed::owned();
    let mut pieces = feed.attach().expect("first");
    let mut said = || {
        (0..5).for_each(|ahead| feed.progress(&JobEvent::Queued { ahead }));
        let pieces: Vec<Piece> = std::iter::from_fn(|| pieces.try_recv().ok()).collect();
        pieces.into_iter().map(|piece| matches!(piece, Piece::Progress { event: JobEvent::Queued { ahead: 0 }, .. }))
    };
    assert!(said().eq([true]));
    assert!(said().eq([true]), "the first was taken");
}

#[test]
fn output_nobody_reads_counts_as_taken() {
    let mut feed = Feed::owned();
    drop(feed.attach());
    for _ in 0..3 {
        assert_eq!(send(&mut feed, 0, ALL), Ok(ALL));
    }
    assert_eq!(send(&mut Feed::default(), 0, ALL), Ok(ALL));
}

#[derive(Clone, Debug)]
enum Step {
    Send(usize),
    Taken(usize, usize),
    Join,
    Leave(usize),
    Vanish(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..=ALL / 3).prop_map(Step::Send),
        4 => (0..6_usize, 0..=ALL).prop_map(|(who, bytes)| Step::Taken(who, bytes)),
        1 => proptest::strategy::Just(Step::Join),
        1 => (0..6_usize).prop_map(Step::Leave),
        1 => (0..6_usize).prop_map(Step::Vanish),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Whoever comes and goes: the I/O node is told of each byte once, not before all have taken it, and of all in the
    /// end.
    #[test]
    fn bytes_are_told_once_and_when_all_have_them(steps in vec(step(), 0..60)) {
        let mut feed = Feed::owned();
        feed.add_log();
        // What each has had and taken.
        let owner = feed.attach().expect("first");
        let mut takers = vec![(Taker::Owner, Some(owner), 0, 0), (Taker::Log, None, 0, 0)];
        let (mut sent, mut told) = (0, 0);
        for step in steps {
            match step {
                Step::Send(bytes) if sent - told + bytes <= ALL => {
                    told += send(&mut feed, 0, bytes).expect("within the window");
                    sent += bytes;
                    // Who has vanished was found to be gone.
                    takers.retain(|(taker, pieces, ..)| *taker == Taker::Log || pieces.is_some());
                    takers.iter_mut().for_each(|(_, _, had, _)| *had += bytes);
                }
                Step::Taken(who, bytes) => {
                    if let Some((taker, _, had, taken)) = takers.get_mut(who) {
                        let bytes = bytes.min(*had - *taken);
                        *taken += bytes;
                        told += feed.taken(*taker, PsetId(0), bytes);
                    }
                }
                Step::Join => {
                    if let Some((taker, pieces)) = feed.join() {
                        takers.push((taker, Some(pieces), 0, 0));
                    }
                }
                Step::Leave(who) if who < takers.len() => {
                    let (taker, ..) = takers.remove(who);
                    told += feed.leave(taker).iter().map(|(_, bytes)| bytes).sum::<usize>();
                }
                Step::Vanish(who) => {
                    if let Some((_, pieces, ..)) = takers.get_mut(who) {
                        *pieces = None;
                    }
                }
                Step::Send(_) | Step::Leave(_) => {}
            }
            let owed = takers.iter().map(|(_, _, had, taken)| had - taken).max().unwrap_or(0);
            prop_assert!(told <= sent && sent - told <= ALL);
            let is_there = |(taker, pieces, ..): &&(Taker, Option<Pieces>, usize, usize)| {
                *taker == Taker::Log || pieces.is_some()
            };
            let owed_there = takers.iter().filter(is_there).map(|(_, _, had, taken)| had - taken).max().unwrap_or(0);
            prop_assert!(sent - told >= owed_there, "{sent} {told} {owed} {owed_there}");
        }
        for (taker, ..) in takers {
            told += feed.leave(taker).iter().map(|(_, bytes)| bytes).sum::<usize>();
        }
        prop_assert_eq!(told, sent);
    }
}
