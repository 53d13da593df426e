//! Fences of a part of a job.

use coppice_protocol::control::Exit;
use coppice_protocol::ids::Rank;
use coppice_protocol::limits::{PMI_ASK_NS, PMI_SILENCE_NS, PMIX_WAITS_MAX};
use coppice_protocol::pmix::{Dialect, Status, Value};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::{prop_assert_eq, proptest};

use crate::nodes::{Nodes, SECOND_NS};

const REMOTE: u8 = 2;
const COLLECT: &[(&str, Value<'_>)] = &[("pmix.collect", Value::Truth(true))];

/// The statuses that a rank hears, in order.
fn statuses(nodes: &mut Nodes, rank: u32) -> Vec<Status> {
    nodes.hear(rank).into_iter().map(|(_, answer)| nodes.status(&answer)).collect()
}

#[test]
fn only_its_members_are_waited_for() {
    for counts in [&[4][..], &[2, 2], &[1, 1, 1, 1], &[1, 2, 1]] {
        let mut nodes = Nodes::new(counts, Dialect::Short);
        let fence = nodes.fence_of(&[3, 1, 0], &[]);
        for _ in 0..3 {
            for rank in [1, 3] {
                nodes.call(rank, &fence);
                nodes.settle();
                assert_eq!(nodes.hear(rank), [], "{counts:?}");
            }
            nodes.call(0, &fence);
            nodes.settle();
            for rank in [0, 1, 3] {
                assert_eq!(statuses(&mut nodes, rank), [Status::SUCCESS], "{counts:?}");
            }
            nodes.settle();
        }
        assert!(nodes.events.is_empty());
        nodes.pass(10 * PMI_ASK_NS);
        assert!(nodes.servers.iter().all(|server| server.poll_timeout().is_none()), "nothing is left behind");
    }
}

#[test]
fn a_rank_alone_waits_for_nobody() {
    let mut nodes = Nodes::new(&[1, 1], Dialect::Wide);
    for rank in [0, 1] {
        let alone = nodes.fence_of(&[rank], &[]);
        assert_eq!(nodes.ask_status(rank, &alone), Status::SUCCESS);
    }
}

#[test]
fn overlapping_ones_are_apart_and_the_same_one_comes_in_order() {
    let mut nodes = Nodes::new(&[1, 1, 1], Dialect::Short);
    let (low, high, ends) = (nodes.fence_of(&[0, 1], &[]), nodes.fence_of(&[1, 2], &[]), nodes.fence_of(&[0, 2], &[]));
    let first = [nodes.call(1, &low), nodes.call(1, &high), nodes.call(1, &low)];
    nodes.call(2, &ends);
    nodes.settle();
    nodes.call(2, &high);
    nodes.settle();
    assert_eq!(nodes.hear(1).iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [first[1]]);
    nodes.call(0, &low);
    nodes.settle();
    assert_eq!(nodes.hear(1).iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [first[0]]);
    nodes.call(0, &low);
    nodes.call(0, &ends);
    nodes.settle();
    assert_eq!(nodes.hear(1).iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [first[2]]);
    assert_eq!((statuses(&mut nodes, 0).len(), statuses(&mut nodes, 2).len()), (3, 2));
}

#[test]
fn ranks_may_come_seconds_apart() {
    let mut nodes = Nodes::new(&[1, 1, 1], Dialect::Short);
    let fence = nodes.fence_of(&[0, 2], &[]);
    for (early, late) in [(0, 2), (2, 0)] {
        nodes.call(early, &fence);
        for _ in 0..20 {
            nodes.settle();
            nodes.pass(2 * SECOND_NS);
            assert_eq!(nodes.hear(early), []);
        }
        nodes.call(late, &fence);
        nodes.settle();
        assert_eq!((statuses(&mut nodes, 0), statuses(&mut nodes, 2)), (vec![Status::SUCCESS], vec![Status::SUCCESS]));
    }
}

#[test]
fn what_its_members_have_put_is_known_to_them_and_to_their_nodes() {
    let mut nodes = Nodes::new(&[1, 1, 1], Dialect::Short);
    for rank in 0..3 {
        let commit = nodes.commit(REMOTE, &[("card", Value::Number(rank + 7))]);
        assert_eq!(nodes.ask_status(rank, &commit), Status::SUCCESS);
    }
    let fence = nodes.fence_of(&[0, 2], COLLECT);
    nodes.call(0, &fence);
    nodes.call(2, &fence);
    nodes.settle();
    assert_eq!((statuses(&mut nodes, 0).len(), statuses(&mut nodes, 2).len()), (1, 1));
    let now = &[("pmix.immediate", Value::Truth(true))];
    for (by, of) in [(0, 2), (2, 0)] {
        let get = nodes.get(of, Some("card"), now);
        let answer = nodes.ask(by, &get);
        assert_eq!(nodes.card(&answer)["card"].last(), Some(&(of as u8 + 7)));
    }
    let get = nodes.get(1, Some("card"), now);
    assert_eq!(nodes.ask_status(0, &get), Status::NOT_FOUND);
}

#[test]
fn nobody_waits_for_a_member_that_has_left() {
    // Who leaves, and whether that is before others have come.
    for (leaves, is_first) in [(0, true), (0, false), (2, true), (2, false)] {
        let mut nodes = Nodes::new(&[1, 1, 1], Dialect::Short);
        let (fence, finalize) = (nodes.fence_of(&[0, 1, 2], &[]), nodes.command(5));
        let fence = if leaves == 9 { fence } else { nodes.fence_of(&[leaves, 1], &[]) };
        if !is_first {
            nodes.call(1, &fence);
            nodes.settle();
        }
        assert_eq!(nodes.ask_status(leaves, &finalize), Status::SUCCESS);
        nodes.servers[leaves as usize].rank_ended(Rank(leaves), Exit::Status(0), nodes.now_ns);
        if is_first {
            nodes.call(1, &fence);
        }
        let mut heard = Vec::new();
        for _ in 0..4 {
            nodes.settle();
            heard.extend(statuses(&mut nodes, 1));
            nodes.pass(PMI_ASK_NS);
        }
        assert_eq!(heard, [Status::UNREACHABLE], "{leaves} {is_first}");
        assert!(nodes.events.is_empty());
    }
}

#[test]
fn nobody_waits_for_a_node_that_is_silent() {
    for silent in [0, 2] {
        let mut nodes = Nodes::new(&[1, 1, 1], Dialect::Short);
        let fence = nodes.fence_of(&[silent, 1], &[]);
        nodes.call(1, &fence);
        let mut passed = 0;
        while passed < PMI_SILENCE_NS {
            assert_eq!(nodes.hear(1), [], "{silent} {passed}");
            passed += PMI_ASK_NS / 2;
            nodes.pass(PMI_ASK_NS / 2);
        }
        nodes.pass(PMI_ASK_NS);
        assert_eq!(statuses(&mut nodes, 1), [Status::UNREACHABLE], "{silent}");
    }
}

/// Nodes that do not hear each other for long do not take part in different calls afterwards.
#[test]
fn all_members_are_told_of_one_that_was_given_up() {
    for (early, late) in [(0, 1), (1, 0), (2, 0), (0, 2)] {
        let mut nodes = Nodes::new(&[1, 1, 1, 1], Dialect::Short);
        let fence = nodes.fence_of(&[0, 1, 2], &[]);
        let other = 3 - early - late;
        nodes.call(early, &fence);
        nodes.call(other, &fence);
        for _ in 0..12 {
            nodes.settle_but(|| true);
            nodes.pass(PMI_ASK_NS);
        }
        let mut heard = [statuses(&mut nodes, 0), statuses(&mut nodes, 1), statuses(&mut nodes, 2)];
        assert_eq!(heard[early as usize], [Status::UNREACHABLE], "{early} {late}");
        nodes.call(late, &fence);
        for _ in 0..3 {
            nodes.settle();
            nodes.pass(PMI_ASK_NS);
        }
        (0..3).for_each(|rank| heard[rank as usize].extend(statuses(&mut nodes, rank)));
        assert_eq!(heard, [[Status::UNREACHABLE]; 3], "{early} {late}");
        (0..3).for_each(|rank| _ = nodes.call(rank, &fence));
        nodes.settle();
        (0..3).for_each(|rank| assert_eq!(statuses(&mut nodes, rank), [Status::SUCCESS], "{early} {late}"));
        nodes.pass(PMI_ASK_NS);
        nodes.settle();
        assert!(nodes.servers.iter().all(|server| server.poll_timeout().is_none()), "nothing is left behind");
    }
}

#[test]
fn one_is_given_up_when_its_time_is_up() {
    let mut nodes = Nodes::new(&[2, 1], Dialect::Short);
    let hasty = nodes.fence_of(&[0, 1], &[("pmix.timeout", Value::Number(2))]);
    nodes.call(0, &hasty);
    nodes.pass(2 * SECOND_NS);
    assert_eq!(statuses(&mut nodes, 0), [Status::TIMEOUT]);
    // It was as if it had never been.
    nodes.call(1, &hasty);
    nodes.settle();
    assert_eq!(nodes.hear(1), []);
    nodes.call(0, &hasty);
    nodes.settle();
    assert_eq!((statuses(&mut nodes, 0), statuses(&mut nodes, 1)), (vec![Status::SUCCESS], vec![Status::SUCCESS]));
}

#[test]
fn there_is_a_limit_to_what_is_waited_for() {
    let mut nodes = Nodes::new(&[2], Dialect::Short);
    let fence = nodes.fence_of(&[0], &[]);
    for _ in 0..3 * PMIX_WAITS_MAX {
        assert_eq!(nodes.ask_status(0, &fence), Status::SUCCESS);
    }
    let mut nodes = Nodes::new(&[2, 1], Dialect::Short);
    let fence = nodes.fence_of(&[0, 1], &[]);
    for _ in 0..PMIX_WAITS_MAX {
        nodes.call(0, &fence);
    }
    assert_eq!(nodes.ask_status(0, &fence), Status::OUT_OF_RESOURCE);
}

proptest! {
    /// Whatever is lost, everybody leaves each fence once, in order, and none before all have come.
    #[test]
    fn whatever_is_lost_is_said_again(
        counts in vec(1_u32..3, 2..5),
        chosen in vec(any::<bool>(), 8),
        lost in vec(any::<bool>(), 0..9),
        rounds in 1_usize..4,
    ) {
        let mut nodes = Nodes::new(&counts, Dialect::Short);
        let size: u32 = counts.iter().sum();
        let members: Vec<u32> = (0..size).filter(|rank| chosen[*rank as usize]).collect();
        if members.is_empty() || members.len() == size as usize {
            return Ok(());
        }
        let fence = nodes.fence_of(&members, COLLECT);
        let mut lost = lost.into_iter();
        for _ in 0..rounds {
            for rank in &members {
                prop_assert_eq!(nodes.hear(*rank), []);
                nodes.call(*rank, &fence);
            }
            let mut waiting = members.clone();
            for _ in 0..24 {
                nodes.settle_but(|| lost.next().unwrap_or(false));
                waiting.retain(|rank| {
                    let heard = statuses(&mut nodes, *rank);
                    assert!(heard.iter().all(|status| *status == Status::SUCCESS));
                    heard.is_empty()
                });
                if waiting.is_empty() {
                    break;
                }
                nodes.pass(PMI_ASK_NS / 2);
            }
            prop_assert_eq!(&waiting, &[]);
        }
        for _ in 0..8 {
            nodes.settle();
            nodes.pass(PMI_ASK_NS);
        }
        prop_assert_eq!(nodes.servers.iter().filter_map(|server| server.poll_timeout()).count(), 0);
    }

    /// Wherever a checkpoint is made, and whatever is on its way then, everybody leaves each fence once.
    #[test]
    fn one_goes_on_from_what_was_written_down(
        counts in vec(1_u32..3, 2..5),
        chosen in vec(any::<bool>(), 8),
        come in vec(any::<bool>(), 8),
        before in 0_usize..12,
        meanwhile in vec(0_usize..6, 5),
    ) {
        let mut nodes = Nodes::new(&counts, Dialect::Short);
        let size: u32 = counts.iter().sum();
        let members: Vec<u32> = (0..size).filter(|rank| chosen[*rank as usize]).collect();
        if members.is_empty() || members.len() == size as usize {
            return Ok(());
        }
        let fence = nodes.fence_of(&members, COLLECT);
        let mut left = vec![0; size as usize];
        for rank in members.iter().filter(|rank| come[**rank as usize]) {
            nodes.call(*rank, &fence);
            nodes.deliver(1);
        }
        nodes.deliver(before);
        let mut nodes = nodes.again(&meanwhile);
        for rank in members.iter().filter(|rank| !come[**rank as usize]) {
            nodes.call(*rank, &fence);
        }
        for round in 1..4 {
            for _ in 0..12 {
                nodes.settle();
                for rank in &members {
                    left[*rank as usize] += statuses(&mut nodes, *rank).len();
                }
                nodes.pass(PMI_ASK_NS / 2);
            }
            for rank in &members {
                prop_assert_eq!(left[*rank as usize], round, "rank {}", rank);
                nodes.call(*rank, &fence);
            }
        }
    }
}
