//! Ranks that go away, and nodes.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::control::{Exit, Launch};
use coppice_protocol::ids::{JobId, NodeId};
use coppice_protocol::limits::PMI_SILENCE_NS;

use super::{Cluster, MS_NS, Player, SECOND_NS};
use crate::agent::{Failures, Trouble};
use crate::executor::{self, run_to_end};
use crate::net::testing::fabric::Faults;

/// Two nodes with one rank each; what the first does while the second waits in a barrier. Gives why the job failed.
fn while_the_other_waits<F: Future<Output = ()> + Send + 'static>(
    what: impl FnOnce(Arc<Cluster>, Player) -> F,
) -> Vec<(u8, String)> {
    let cluster = Arc::new(Cluster::new(2, Faults::default()));
    let (one, other) = (cluster.start(0, 2, 1), cluster.start(1, 2, 1));
    let waits = executor::spawn(async move {
        other.init().await;
        other.barrier().await;
    });
    assert!(waits.is_ok());
    let does = what(Arc::clone(&cluster), one);
    assert_eq!(run_to_end(does), Ok(()));
    assert_eq!(run_to_end(executor::sleep(5 * SECOND_NS)), Ok(()));
    cluster.failures()
}

#[test]
fn a_rank_that_dies_in_a_barrier_ends_the_job() {
    let failures = while_the_other_waits(|_, player| async move {
        player.init().await;
        player.say("cmd=put kvsname=k7 key=a value=b").await;
        player.end(Exit::Signal(11)).await;
    });
    assert_eq!(failures, [(139, "rank 0 on node 0 was ended by signal 11 without finalizing MPI".to_string())]);
}

#[test]
fn a_rank_that_closes_its_descriptor_ends_the_job() {
    let failures = while_the_other_waits(|_, mut player| async move {
        player.init().await;
        executor::sleep(MS_NS).await;
        drop(player.endpoint.take());
        executor::sleep(SECOND_NS).await;
        core::mem::forget(player);
    });
    let reason = "rank 0 on node 0 closed its PMI descriptor, and other ranks wait for it in a PMI barrier";
    assert_eq!(failures, [(1, reason.to_string())]);
}

#[test]
fn a_rank_that_was_never_started_ends_the_job() {
    let failures = while_the_other_waits(|_, player| async move {
        executor::sleep(MS_NS).await;
        let Player { seat, endpoint, .. } = player;
        drop(seat);
        drop(endpoint);
    });
    let reason = "rank 0 on node 0 could not be started, and other ranks wait for it in a PMI barrier";
    assert_eq!(failures, [(1, reason.to_string())]);
}

#[test]
fn an_abort_says_its_code_and_message() {
    for (said, code, reason) in [
        ("cmd=abort exitcode=42 message=out of cheese", 42, "rank 0 aborted the job with code 42: out of cheese"),
        ("cmd=abort exitcode=256", 1, "rank 0 aborted the job with code 256"),
        ("cmd=abort exitcode=-1 message= ", 255, "rank 0 aborted the job with code -1"),
    ] {
        let failures = while_the_other_waits(|_, player| async move {
            player.init().await;
            player.say(said).await;
            player.end(Exit::Status(42)).await;
        });
        assert_eq!(failures, [(code, reason.to_string())]);
    }
}

/// A job that is ended on purpose has not failed, and waits for nobody.
#[test]
fn a_killed_job_goes_quietly_and_at_once() {
    let failures = while_the_other_waits(|cluster, player| async move {
        player.init().await;
        player.say("cmd=barrier_in").await;
        cluster.fabric.cut(cluster.nodes[1].id.address());
        executor::sleep(SECOND_NS).await;
        cluster.nodes[0].pmi.kill(crate::process::testing::order(1).job);
        let start_ns = executor::now_ns();
        player.end(Exit::Signal(9)).await;
        assert!(executor::now_ns() - start_ns < MS_NS);
        assert!(cluster.nodes[0].pmi.shared.jobs.lock().is_empty());
        // Nor is it on the other node, whose rank is ended next.
        cluster.nodes[1].pmi.kill(crate::process::testing::order(1).job);
    });
    assert_eq!(failures, []);
}

#[test]
fn who_waits_for_a_rank_that_is_gone_says_so_and_its_node_does() {
    let cluster = Arc::new(Cluster::new(2, Faults::default()));
    let (one, other) = (cluster.start(0, 2, 1), cluster.start(1, 2, 1));
    let ran = Arc::clone(&cluster);
    let done = run_to_end(async move {
        assert_eq!(other.seat.barriers(), 0);
        other.end(Exit::Status(4)).await;
        one.init().await;
        let _ = executor::timeout(SECOND_NS, one.barrier()).await;
        let reason = "rank 1 on node 1 exited with status 4, and other ranks wait for it in a PMI barrier";
        assert_eq!((&*ran.waits.lock(), ran.failures()), (&alloc::vec![0], alloc::vec![(4, reason.to_string())]));
        core::mem::forget(one);
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn a_node_that_is_cut_off_in_a_barrier_is_named() {
    let cluster = Arc::new(Cluster::new(2, Faults::default()));
    let (one, other) = (cluster.start(0, 2, 1), cluster.start(1, 2, 1));
    cluster.fabric.cut(cluster.nodes[1].id.address());
    let started = Arc::clone(&cluster);
    let waits = run_to_end(async move {
        one.init().await;
        let _ = executor::timeout(PMI_SILENCE_NS + SECOND_NS, one.barrier()).await;
        assert_eq!(started.failures(), [(1, "node 1 is dead: node 0 has heard nothing of it for 18 s".to_string())]);
        drop(other);
    });
    assert_eq!(waits, Ok(()));
}

/// A rank may go when it has all it waited for; what its node has yet to tell others is told then.
#[test]
fn a_node_goes_on_telling_others_when_its_last_rank_has_ended() {
    let cluster = Arc::new(Cluster::new(2, Faults::default()));
    let (one, other) = (cluster.start(0, 2, 1), cluster.start(1, 2, 1));
    let ran = Arc::clone(&cluster);
    let done = run_to_end(async move {
        one.init().await;
        other.init().await;
        other.say("cmd=barrier_in").await;
        executor::sleep(MS_NS).await;
        // What the first says does not arrive for a while.
        ran.fabric.cut(ran.nodes[0].id.address());
        one.barrier().await;
        one.finalize().await;
        let start_ns = executor::now_ns();
        one.end(Exit::Status(0)).await;
        assert!(executor::now_ns() - start_ns < MS_NS, "its end waits for nobody");
        executor::sleep(2 * SECOND_NS).await;
        ran.fabric.mend(NodeId(0).address());
        assert_eq!(other.hear().await, "cmd=barrier_out");
        other.finalize().await;
        other.end(Exit::Status(0)).await;
        assert!(!ran.is_empty());
        Arc::clone(&ran).job_is_over().await;
        assert_eq!(ran.failures(), []);
    });
    assert_eq!(done, Ok(()));
}

/// Each of three nodes keeps some of the names, and one goes through another: all are there for the last rank.
#[test]
fn names_are_there_when_the_ranks_of_their_nodes_have_ended() {
    let cluster = Arc::new(Cluster::new(3, Faults::default()));
    let [one, last, publisher] = [0, 1, 2].map(|rank| cluster.start(rank, 3, 1));
    let ran = Arc::clone(&cluster);
    let done = run_to_end(async move {
        for player in [&one, &last, &publisher] {
            player.init().await;
        }
        for name in 0..12 {
            let publish = format!("cmd=publish_name service=name{name} port=port{name}");
            assert_eq!(publisher.ask(&publish).await, "cmd=publish_result info=ok rc=0 msg=success");
        }
        for player in [one, publisher] {
            player.finalize().await;
            player.end(Exit::Status(0)).await;
        }
        for name in 0..12 {
            let found = last.ask(&format!("cmd=lookup_name service=name{name}")).await;
            assert_eq!(found, format!("cmd=lookup_result port=port{name} info=ok rc=0 msg=success"));
        }
        last.finalize().await;
        last.end(Exit::Status(0)).await;
        Arc::clone(&ran).job_is_over().await;
    });
    assert_eq!(done, Ok(()));
}

/// The word that a job is over may be lost; the ranks of the next do for it.
#[test]
fn the_next_job_takes_the_place_of_one_that_nobody_said_is_over() {
    let cluster = Arc::new(Cluster::new(2, Faults::default()));
    let ran = Arc::clone(&cluster);
    let done = run_to_end(async move {
        for player in ran.start_all(0..2, 1) {
            player.init().await;
            player.finalize().await;
            player.end(Exit::Status(0)).await;
        }
        let known = |node: &super::Node| node.pmi.shared.jobs.lock().values().cloned().collect::<Vec<_>>();
        let of_last: Vec<_> = ran.nodes.iter().flat_map(known).collect();
        assert_eq!(of_last.len(), 2);
        for node in &ran.nodes {
            let next = Launch { job: JobId(8), ..ran.launch_order(node.id.0, 2, 1) };
            let seat = node.pmi.join(&next.into(), Failures::new(|_| ())).expect("a place");
            assert_eq!(node.pmi.shared.jobs.lock().keys().collect::<Vec<_>>(), [&JobId(8)]);
            core::mem::forget(seat);
        }
        for job in of_last {
            assert!(job.is_over());
            executor::timeout(SECOND_NS, job.vacated()).await.expect("nothing of it goes on");
        }
    });
    assert_eq!(done, Ok(()));
}

/// The state of a job whose ranks did not all come is given up for the next job, or when it is killed.
#[test]
fn what_never_came_to_its_end_is_forgotten() {
    let cluster = Arc::new(Cluster::new(1, Faults::default()));
    let ran = Arc::clone(&cluster);
    let done = run_to_end(async move {
        let only_one_of_two = ran.start(0, 2, 2);
        only_one_of_two.end(Exit::Status(0)).await;
        assert!(!ran.is_empty());
        ran.nodes[0].pmi.kill(crate::process::testing::order(1).job);
        assert!(ran.is_empty());
    });
    assert_eq!(done, Ok(()));
}

/// A job that puts more than its node has memory for ends, and not the node.
#[test]
fn a_node_without_memory_says_so() {
    let quota = crate::quota::tests::quota();
    let id = coppice_protocol::ids::NodeId(0);
    let pmi = crate::pmi::Pmi::new(id, Arc::new(crate::net::testing::Nowhere), Arc::clone(&quota));
    let cluster = Cluster::new(1, Faults::default());
    let told = Arc::clone(&cluster.failures);
    let report = crate::agent::Failures::new(move |trouble| {
        if let Trouble::Failed(failure) = trouble {
            told.lock().push(failure);
        }
    });
    let seat = pmi.join(&cluster.launch_order(0, 1, 1).into(), report).expect("a place");
    let player = Player { rank: 0, size: 1, endpoint: Some(seat.endpoint().expect("memory")), seat };
    // All but a little is taken by others.
    let taken = quota.taken();
    let rest = quota.charge(crate::limits::QUOTA_BYTES_DEFAULT - taken - crate::limits::PMI_CHARGE_BYTES);
    assert!(rest.is_ok());
    let value = "v".repeat(1000);
    let puts = run_to_end(async move {
        player.init().await;
        for key in 0..200 {
            player.ask(&alloc::format!("cmd=put kvsname=k7 key={key} value={value}")).await;
        }
        player.end(Exit::Signal(9)).await;
    });
    assert_eq!(puts, Ok(()));
    let reason = "node 0 has no memory for what rank 0 has to know from a PMI barrier";
    assert_eq!(cluster.failures(), [(1, reason.to_string())]);
    drop(rest);
    assert_eq!(quota.taken(), 0);
}

#[test]
fn who_has_no_place_is_refused() {
    let cluster = Cluster::new(3, Faults::default());
    let join = |node: usize, rank: u32| {
        let told = crate::agent::Failures::new(|_| ());
        cluster.nodes[node]
            .pmi
            .join(&cluster.launch_order(rank, 2, 1).into(), told)
            .map(|seat| seat.environment(&[]).len())
    };
    assert_eq!(join(0, 0), Ok(18));
    assert_eq!(join(0, 1), Err("rank 1 has no place on node 0".to_string()));
    assert_eq!(join(2, 1), Err("node 2 has no part in the job".to_string()));
    let _first = cluster.start(0, 2, 1);
    assert_eq!(join(0, 0), Err("rank 0 has no place on node 0".to_string()));
}
