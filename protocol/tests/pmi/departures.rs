//! Ranks and nodes that go away: the job ends with a reason, whoever waits.

use coppice_protocol::control::Exit;
use coppice_protocol::ids::{NodeId, Rank};
use coppice_protocol::limits::{PMI_ASK_NS, PMI_SILENCE_NS};
use coppice_protocol::pmi::{Departure, Event, Failure};

use crate::cluster::Cluster;

/// A rank's process ends.
fn end(cluster: &mut Cluster, rank: u32, exit: Exit) {
    let node = cluster.node_of(rank);
    cluster.servers[node].rank_ended(Rank(rank), exit, cluster.now_ns);
    cluster.pass(0);
}

/// Time passes and what is said about it arrives.
fn wait(cluster: &mut Cluster, ns: u64) {
    let end_ns = cluster.now_ns + ns;
    while cluster.now_ns < end_ns {
        cluster.pass(PMI_ASK_NS / 2);
        cluster.settle();
    }
}

fn why(cluster: &Cluster) -> Vec<String> {
    let text = |event: &Event| match event {
        Event::Failed(failure) => format!("{failure}; {}", failure.code()),
        other => format!("{other:?}"),
    };
    cluster.events.iter().map(text).collect()
}

#[test]
fn a_rank_that_is_gone_before_others_wait() {
    let mut cluster = Cluster::new(&[1, 2, 1]);
    end(&mut cluster, 2, Exit::Signal(11));
    assert_eq!(why(&cluster), [""; 0], "it never spoke: maybe this is no MPI program");
    // Its neighbour on the node is the first to wait.
    cluster.ask(1, "cmd=barrier_in");
    assert_eq!(
        why(&cluster),
        ["rank 2 on node 101 was ended by signal 11, and other ranks wait for it in a PMI barrier; 139"]
    );
}

#[test]
fn a_rank_that_is_gone_while_another_node_waits() {
    for waits in [0, 2, 3] {
        let mut cluster = Cluster::new(&[1; 4]);
        cluster.ask(waits, "cmd=barrier_in");
        cluster.settle();
        end(&mut cluster, 1, Exit::Status(0));
        for rank in (0..4).filter(|rank| ![1, waits].contains(rank)) {
            cluster.ask(rank, "cmd=barrier_in");
            cluster.settle();
        }
        assert_eq!(
            why(&cluster),
            ["rank 1 on node 101 exited with status 0, and other ranks wait for it in a PMI barrier; 1"]
        );
    }
}

/// Nobody sends to the node of the missing rank of its own accord: whoever waits for it asks.
#[test]
fn a_rank_that_is_gone_is_asked_for() {
    let mut cluster = Cluster::new(&[1, 1, 1]);
    end(&mut cluster, 0, Exit::Status(4));
    cluster.ask(1, "cmd=barrier_in");
    cluster.settle();
    assert_eq!(why(&cluster), [""; 0]);
    wait(&mut cluster, PMI_ASK_NS);
    assert_eq!(
        why(&cluster),
        ["rank 0 on node 100 exited with status 4, and other ranks wait for it in a PMI barrier; 4"]
    );
}

#[test]
fn a_rank_that_ends_in_a_barrier() {
    let mut cluster = Cluster::new(&[1, 1]);
    cluster.ask(0, "cmd=barrier_in");
    end(&mut cluster, 0, Exit::Signal(6));
    assert_eq!(why(&cluster), ["rank 0 on node 100 was ended by signal 6 in a PMI barrier; 134"]);
    assert_eq!(cluster.ask(1, "cmd=barrier_in"), "");
}

#[test]
fn a_rank_that_ends_without_finalizing() {
    let mut cluster = Cluster::new(&[1, 1]);
    cluster.ask(1, "cmd=init pmi_version=1 pmi_subversion=1");
    end(&mut cluster, 1, Exit::Status(7));
    assert_eq!(why(&cluster), ["rank 1 on node 101 exited with status 7 without finalizing MPI; 7"]);
}

#[test]
fn a_rank_that_finalizes_may_end() {
    let mut cluster = Cluster::new(&[1, 1]);
    for rank in [0, 1] {
        cluster.ask(rank, "cmd=init pmi_version=1 pmi_subversion=1");
        cluster.ask(rank, "cmd=finalize");
        end(&mut cluster, rank, Exit::Status(0));
    }
    wait(&mut cluster, 2 * PMI_SILENCE_NS);
    assert_eq!(why(&cluster), [""; 0]);
}

#[test]
fn a_rank_that_finalizes_while_others_wait() {
    let mut cluster = Cluster::new(&[1, 1]);
    cluster.ask(0, "cmd=barrier_in");
    cluster.settle();
    cluster.ask(1, "cmd=finalize");
    assert_eq!(why(&cluster), ["rank 1 on node 101 has finalized, and other ranks wait for it in a PMI barrier; 1"]);
}

/// How it ended is known a moment later and says more; if it does not end, others do not wait for ever all the same.
#[test]
fn a_rank_that_closes_its_descriptor() {
    let mut cluster = Cluster::new(&[2]);
    cluster.ask(1, "cmd=get_appnum");
    cluster.servers[0].rank_closed(Rank(1), 0);
    cluster.pass(0);
    assert_eq!(why(&cluster), [""; 0]);
    cluster.ask(0, "cmd=barrier_in");
    let closed = "rank 1 on node 100 closed its PMI descriptor, and other ranks wait for it in a PMI barrier; 1";
    assert_eq!(why(&cluster), [closed]);

    let mut cluster = Cluster::new(&[2]);
    cluster.ask(1, "cmd=get_appnum");
    cluster.servers[0].rank_closed(Rank(1), 0);
    end(&mut cluster, 1, Exit::Signal(9));
    assert_eq!(why(&cluster), ["rank 1 on node 100 was ended by signal 9 without finalizing MPI; 137"]);
}

#[test]
fn a_node_that_does_not_answer() {
    let mut cluster = Cluster::new(&[2, 2]);
    cluster.ask(2, "cmd=barrier_in");
    cluster.ask(3, "cmd=barrier_in");
    while cluster.now_ns < PMI_SILENCE_NS - PMI_ASK_NS {
        cluster.pass(PMI_ASK_NS);
        assert!(cluster.frame(1, 0).is_some(), "it asks, and nothing arrives");
    }
    assert_eq!(why(&cluster), [""; 0]);
    cluster.pass(PMI_ASK_NS);
    assert_eq!(why(&cluster), ["node 100 did not answer node 101 for 20 s in a PMI barrier; 1"]);
    let Event::Failed(failure) = &cluster.events[0] else { panic!("a failure") };
    assert_eq!(failure.rank(), Rank(2));
}

/// Whoever knows of ranks that ended elsewhere hears of those who wait, once for a barrier, wherever they wait.
#[test]
fn a_long_wait_is_told_once() {
    let mut cluster = Cluster::new(&[2, 1]);
    for barrier in 0..2 {
        cluster.ask(1, "cmd=barrier_in");
        wait(&mut cluster, PMI_ASK_NS);
        assert_eq!(cluster.waits, (0..=barrier).collect::<Vec<u64>>(), "one of two ranks waits on its node");
        for rank in [0, 2] {
            cluster.ask(rank, "cmd=barrier_in");
        }
        cluster.settle();
        for rank in 0..3 {
            assert_eq!(cluster.hear(rank), "cmd=barrier_out\n");
        }
    }
    assert!(cluster.servers.iter().all(|server| server.barriers() == 2 && server.poll_timeout().is_none()));
}

/// Ranks that compute for long are no failure.
#[test]
fn a_rank_that_takes_its_time() {
    let mut cluster = Cluster::new(&[1, 1, 1]);
    cluster.ask(0, "cmd=barrier_in");
    cluster.ask(2, "cmd=barrier_in");
    wait(&mut cluster, 10 * PMI_SILENCE_NS);
    assert_eq!(why(&cluster), [""; 0]);
    cluster.ask(1, "cmd=barrier_in");
    cluster.settle();
    for rank in 0..3 {
        assert_eq!(cluster.hear(rank), "cmd=barrier_out\n");
    }
}

#[test]
fn exit_codes_are_those_of_a_shell() {
    let code = |how| Failure::NotFinalized { rank: Rank(0), node: NodeId(0), how }.code();
    assert_eq!(code(Departure::Ended(Exit::Status(0))), 1);
    assert_eq!(code(Departure::Ended(Exit::Status(255))), 255);
    assert_eq!(code(Departure::Ended(Exit::Signal(64))), 192);
    assert_eq!(code(Departure::Ended(Exit::NotStarted)), 1);
}
