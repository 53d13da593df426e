//! What is found of jobs that go on without somebody, and what is not.

use coppice_protocol::ids::{JobId, NodeId};
use coppice_protocol::limits::PMI_WATCH_NS;

use super::job::Job;
use super::{Note, Troubles};
use crate::cluster::pmix::{Ask, Course, Fence, Source, Told};
use crate::cluster::queue::SECOND_NS;
use crate::cluster::script::Script;

/// Eight ranks, three on a node, that go on without one of them.
fn job() -> Job {
    let course =
        Course { rounds: 2, mark: 1, per_node: 3, loser: 3, loses_at: 12, outlives: true, ..Course::default() };
    let mut job = Job::new(JobId(1), 8, &Script { course, ..Script::default() }, false, 0);
    (0..8).for_each(|rank| job.is_on(rank, NodeId(rank / 3), 0));
    job
}

#[test]
fn a_fence_without_somebody_is_left_when_its_neighbours_and_who_leads_have_come() {
    let mut job = job();
    let troubles = Troubles::default();
    let enter = |job: &mut Job, rank| {
        let entered = job.note(rank, Note::Asks(Ask::Fence(Fence::Low(1))), (true, &troubles), 0);
        assert_eq!(entered, Ok(()));
        job.worked(SECOND_NS)
    };
    // Its members are those up to 4.
    assert_eq!(enter(&mut job, 4), 0);
    job.is_gone(2, 0);
    assert_eq!(job.worked(SECOND_NS), 0, "3 is about to come");
    assert_eq!([3, 0].map(|rank| enter(&mut job, rank)), [0, 0], "1 is");
    assert_eq!(enter(&mut job, 1), SECOND_NS, "nobody is waited for");
    assert_eq!(job.worked(SECOND_NS), 2 * SECOND_NS);
}

#[test]
fn a_fence_of_all_without_somebody_is_left_at_once() {
    let mut job = job();
    let entered = job.note(4, Note::Asks(Ask::Fence(Fence::Whole(0))), (true, &Troubles::default()), 0);
    assert_eq!((entered, job.worked(SECOND_NS)), (Ok(()), 0));
    job.is_gone(2, 0);
    assert_eq!(job.worked(SECOND_NS), SECOND_NS);
}

/// Rank 0 is told that 7 has ended, which runs, after its node was in trouble for so long; whether that is found.
fn is_found(source: Source, trouble_ns: u64) -> bool {
    let mut job = job();
    let (mut troubles, now_ns) = (Troubles::default(), 3 * PMI_WATCH_NS);
    troubles.strike(NodeId(2), PMI_WATCH_NS, PMI_WATCH_NS + trouble_ns);
    let told = job.note(0, Note::Told(Told::End(7, source)), (false, &troubles), now_ns);
    assert_eq!(told, Ok(()));
    job.unexplained(now_ns + 2 * SECOND_NS).is_some()
}

#[test]
fn who_was_missed_for_long_may_be_taken_for_dead_by_others_and_not_by_its_own_node() {
    assert!(!is_found(Source::Others, PMI_WATCH_NS));
    assert!(is_found(Source::Others, SECOND_NS));
    assert!(is_found(Source::Own, PMI_WATCH_NS));
}

#[test]
fn troubles_that_follow_each_other_are_one() {
    let mut troubles = Troubles::default();
    let node = NodeId(1);
    (0..5).for_each(|place| troubles.strike(node, place * 2 * SECOND_NS, (place * 2 + 1) * SECOND_NS));
    assert!(!troubles.was_missed(node, 0, 3 * SECOND_NS));
    assert!(troubles.was_missed(node, 0, 8 * SECOND_NS));
    assert!(!troubles.was_missed(node, 10 * SECOND_NS, 20 * SECOND_NS), "it was over before");
    assert!(!troubles.was_missed(NodeId(2), 0, 20 * SECOND_NS));
}
