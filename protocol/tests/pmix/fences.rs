//! Fences of a whole job.

use coppice_protocol::control::Exit;
use coppice_protocol::ids::Rank;
use coppice_protocol::limits::PMIX_WAITS_MAX;
use coppice_protocol::pmi::{Event, Failure};
use coppice_protocol::pmix::{Dialect, Status, Value};

use crate::nodes::{Nodes, SECOND_NS};

const COLLECT: &[(&str, Value<'_>)] = &[("pmix.collect", Value::Truth(true))];

/// The statuses that a rank hears, in order.
fn statuses(nodes: &mut Nodes, rank: u32) -> Vec<Status> {
    nodes.hear(rank).into_iter().map(|(_, answer)| nodes.status(&answer)).collect()
}

#[test]
fn nobody_leaves_before_all_have_come() {
    for counts in [&[3][..], &[1, 1, 1], &[2, 1]] {
        let mut nodes = Nodes::new(counts, Dialect::Short);
        let fence = nodes.fence(&[]);
        for round in 0..3 {
            let mut tags = Vec::new();
            for rank in 0..3 {
                nodes.settle();
                assert_eq!(nodes.hear(rank), [], "{counts:?} {round}");
                tags.push(nodes.call(rank, &fence));
            }
            nodes.settle();
            for (rank, tag) in (0..).zip(tags) {
                let heard = nodes.hear(rank);
                assert_eq!(heard.len(), 1);
                assert_eq!((heard[0].0, nodes.status(&heard[0].1)), (tag, Status::SUCCESS));
            }
        }
    }
}

#[test]
fn all_ranks_by_name_are_the_whole_job() {
    let mut nodes = Nodes::new(&[2], Dialect::Short);
    let (all, other, nobody) =
        (nodes.fence_of(&[1, 0, 0], &[]), nodes.fence_of(&[1], &[]), nodes.fence_of(&[0, 7], &[]));
    assert_eq!(nodes.ask_status(0, &nobody), Status::BAD_PARAM);
    assert_eq!(nodes.ask_status(0, &other), Status::BAD_PARAM);
    let whole = nodes.fence(&[]);
    nodes.call(0, &all);
    nodes.call(1, &whole);
    assert_eq!((nodes.hear(0).len(), nodes.hear(1).len()), (1, 1));
}

#[test]
fn fences_follow_each_other_back_to_back() {
    let mut nodes = Nodes::new(&[1, 1], Dialect::Short);
    let fence = nodes.fence(COLLECT);
    let tags: Vec<_> = (0..5).map(|_| nodes.call(0, &fence)).collect();
    nodes.settle();
    assert_eq!(nodes.hear(0), []);
    for tag in tags {
        nodes.call(1, &fence);
        nodes.settle();
        assert_eq!(nodes.hear(1).len(), 1);
        let heard = nodes.hear(0);
        assert_eq!(heard.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [tag]);
        nodes.settle();
    }
    assert!(nodes.events.is_empty());
}

#[test]
fn a_fence_is_given_up_when_its_time_is_up() {
    let mut nodes = Nodes::new(&[2, 1], Dialect::Wide);
    let (hasty, patient) = (nodes.fence(&[("pmix.timeout", Value::Number(3))]), nodes.fence(&[]));
    let tag = nodes.call(0, &hasty);
    nodes.pass(3 * SECOND_NS - 1);
    assert_eq!(nodes.hear(0), []);
    nodes.pass(1);
    let heard = nodes.hear(0);
    assert_eq!((heard[0].0, nodes.status(&heard[0].1)), (tag, Status::TIMEOUT));
    // It was as if it had never been.
    for rank in 0..3 {
        nodes.call(rank, &patient);
    }
    nodes.settle();
    for rank in 0..3 {
        let heard = nodes.hear(rank);
        assert_eq!((heard.len(), nodes.status(&heard[0].1)), (1, Status::SUCCESS));
    }
}

#[test]
fn one_that_others_count_on_is_over_when_it_is_over() {
    let mut nodes = Nodes::new(&[1, 1], Dialect::Short);
    let (hasty, patient) = (nodes.fence(&[("pmix.timeout", Value::Number(1))]), nodes.fence(&[]));
    nodes.call(0, &hasty);
    nodes.settle();
    nodes.pass(SECOND_NS);
    assert_eq!(nodes.hear(0).len(), 1);
    // The next one of the rank comes behind it.
    let tag = nodes.call(0, &patient);
    nodes.call(1, &patient);
    nodes.settle();
    assert_eq!((nodes.hear(0), nodes.hear(1).len()), (Vec::new(), 1));
    nodes.settle();
    nodes.call(1, &patient);
    nodes.settle();
    assert_eq!(nodes.hear(0)[0].0, tag);
}

/// Nobody is stuck who gives up, so a rank that has ended before it is not missed; who waits behind that is.
#[test]
fn who_waits_with_a_deadline_is_not_said_to_wait() {
    for waits_behind in [false, true] {
        let mut nodes = Nodes::new(&[2, 1], Dialect::Short);
        let (hasty, patient) = (nodes.fence(&[("pmix.timeout", Value::Number(1))]), nodes.fence(&[]));
        for rank in [0, 1] {
            nodes.call(rank, &hasty);
        }
        nodes.settle();
        nodes.pass(SECOND_NS / 2);
        assert_eq!(nodes.waits, [0; 0]);
        if waits_behind {
            nodes.call(1, &patient);
            nodes.pass(SECOND_NS / 4);
            nodes.pass(SECOND_NS / 4);
            assert_eq!(nodes.waits, [0]);
        }
        nodes.pass(SECOND_NS);
        for rank in [0, 1] {
            let heard = nodes.hear(rank);
            assert_eq!((heard.len(), nodes.status(&heard[0].1)), (1, Status::TIMEOUT));
        }
        assert_eq!(nodes.waits.len(), usize::from(waits_behind));
        // It goes on counting: the other node's rank need not wait for these to come once more.
        nodes.call(2, &patient);
        nodes.settle();
        assert_eq!(nodes.hear(2).len(), 1);
        nodes.settle();
        nodes.call(0, &patient);
        nodes.settle();
        nodes.pass(SECOND_NS / 4);
        assert_eq!(nodes.waits.last(), Some(&1), "the next one has no deadline");
    }
}

#[test]
fn a_rank_waits_for_no_more_than_it_may() {
    let mut nodes = Nodes::new(&[2], Dialect::Short);
    let (fence, get) = (nodes.fence(&[]), nodes.get(1, Some("later"), &[]));
    for each in 0..PMIX_WAITS_MAX {
        nodes.call(0, if each % 2 == 0 { &fence } else { &get });
    }
    assert_eq!(nodes.ask_status(0, &fence), Status::OUT_OF_RESOURCE);
    assert_eq!(nodes.ask_status(0, &get), Status::OUT_OF_RESOURCE);
}

#[test]
fn a_fence_goes_on_from_what_was_written_down() {
    let mut nodes = Nodes::new(&[2], Dialect::Short);
    let fence = nodes.fence(COLLECT);
    let tag = nodes.call(0, &fence);
    let client = postcard::to_allocvec(&nodes.clients[&0].1).expect("plain data");
    let server = postcard::to_allocvec(&nodes.servers[0].record()).expect("plain data");
    let mut again = Nodes::silent(&[2], Dialect::Short);
    again.servers[0].restore(postcard::from_bytes(&server).expect("as written"), 0).expect("fits");
    for rank in [0, 1] {
        let written =
            if rank == 0 { client.clone() } else { postcard::to_allocvec(&nodes.clients[&1].1).expect("data") };
        again.clients.get_mut(&rank).expect("a rank").1 = postcard::from_bytes(&written).expect("as written");
    }
    again.call(1, &fence);
    assert_eq!(again.hear(0).first().map(|(tag, _)| *tag), Some(tag));
}

/// Whoever else has given it up, wherever they are: a fence that nobody waits in any more is no reason to end a job.
#[test]
fn nobody_is_missing_in_a_fence_that_was_given_up() {
    for counts in [&[2][..], &[1, 1], &[2, 2], &[1; 5], &[3, 1]] {
        let size = counts.iter().sum();
        for missing in 0..size {
            let mut nodes = Nodes::new(counts, Dialect::Short);
            let others: Vec<u32> = (0..size).filter(|rank| *rank != missing).collect();
            let timed = nodes.fence(&[("pmix.timeout", Value::Int(1))]);
            for rank in &others {
                nodes.call(*rank, &timed);
                nodes.settle();
            }
            nodes.pass(SECOND_NS);
            for rank in &others {
                assert_eq!(statuses(&mut nodes, *rank), [Status::TIMEOUT], "{counts:?}");
            }
            let finalize = nodes.command(5);
            assert_eq!(nodes.ask_status(missing, &finalize), Status::SUCCESS);
            let node = nodes.clients[&missing].0;
            let now_ns = nodes.now_ns;
            nodes.servers[node].rank_ended(Rank(missing), Exit::Status(0), now_ns);
            for _ in 0..20 {
                nodes.settle();
                nodes.pass(2 * SECOND_NS);
            }
            assert_eq!((&nodes.events[..], &nodes.waits[..]), (&[][..], &[][..]), "{counts:?} {missing}");
            // One who waits until the end is told at once that there is none, however far from there.
            let (stuck, endless) = (others[missing as usize % others.len()], nodes.fence(&[]));
            nodes.call(stuck, &endless);
            nodes.settle();
            let [Event::Failed(Failure::Missing { rank, .. })] = &nodes.events[..] else {
                panic!("{counts:?}: {stuck} waits for {missing}: {:?}", nodes.events)
            };
            assert_eq!(rank.0, missing);
        }
    }
}
