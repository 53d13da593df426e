//! What comes to the port for other nodes and is none of their words.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use coppice_endpoint::BufferSizes;
use coppice_protocol::control::Exit;
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::limits::PMI_PEER_PORT;
use coppice_protocol::pmi::{Conversation, Server};

use super::{Cluster, MS_NS, Player, SECOND_NS, all, nonsense};
use crate::executor::{self, run_to_end};
use crate::limits::{PMI_CALLERS_MAX, PMI_FRAME_NS_MAX, PMI_STRANGER_NS_MAX};
use crate::net::testing::fabric::Faults;

const SIZES: BufferSizes = BufferSizes { receive: 4096, transmit: 4096 };

/// The first frame of the second of two nodes, made by somebody who knows the job's key.
fn word_of_the_second(cluster: &Cluster) -> (JobId, Vec<u8>) {
    let placement = cluster.launch_order(0, 2, 1).world.placement(2).expect("a placement");
    let job = crate::process::testing::order(2).job;
    let mut server = Server::new(job, &[9; 32], placement, cluster.nodes[1].id).expect("a part");
    let mut conversation = Conversation::on_descriptor(Rank(1));
    conversation.handle_bytes(b"cmd=init\ncmd=barrier_in\n", &mut server, executor::now_ns());
    (job, server.poll_transmit(0).expect("a frame"))
}

/// The first node's rank waits in a barrier for the second's. Also what that node would say.
async fn waits_for_the_second(cluster: &Arc<Cluster>) -> (Player, JobId, Vec<u8>) {
    let (job, frame) = word_of_the_second(cluster);
    let player = cluster.start(0, 2, 1);
    player.init().await;
    player.say("cmd=barrier_in").await;
    (player, job, frame)
}

/// The address of somebody who is no node of the job.
const STRANGER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

#[test]
fn nonsense_and_silence_are_closed() {
    let cluster = Arc::new(Cluster::new(2, Faults::default()));
    let stranger = cluster.fabric.stack(STRANGER);
    let done = run_to_end(async move {
        let node = cluster.nodes[0].id.address();
        let talks = stranger.connect(node, PMI_PEER_PORT, SIZES).await.expect("a connection");
        let silent = stranger.connect(node, PMI_PEER_PORT, SIZES).await.expect("a connection");
        let start_ns = executor::now_ns();
        talks.write_all(&nonsense()).await.expect("room");
        let mut buffer = [0; 16];
        assert!(!matches!(talks.read(&mut buffer).await, Ok(1..)));
        assert!(executor::now_ns() - start_ns < 10 * MS_NS);
        assert!(!matches!(silent.read(&mut buffer).await, Ok(1..)));
        let took_ns = executor::now_ns() - start_ns;
        assert!((PMI_STRANGER_NS_MAX..PMI_STRANGER_NS_MAX + SECOND_NS).contains(&took_ns), "{took_ns}");
    });
    assert_eq!(done, Ok(()));
}

/// However many there are who say nothing: the job's own nodes get through in the end.
#[test]
fn strangers_are_bounded_and_keep_nobody_out_for_good() {
    let cluster = Arc::new(Cluster::new(2, Faults::default()));
    let stranger = cluster.fabric.stack(STRANGER);
    let ran = Arc::clone(&cluster);
    let done = run_to_end(async move {
        let mut crowd = Vec::new();
        for _ in 0..3 * PMI_CALLERS_MAX {
            for node in &ran.nodes {
                crowd.extend(stranger.connect(node.id.address(), PMI_PEER_PORT, SIZES).await.ok());
            }
        }
        assert!(crowd.len() >= 2 * PMI_CALLERS_MAX);
        let lives = ran.start_all(0..2, 1).into_iter().map(|player| async move {
            player.init().await;
            player.exchange(0).await;
            player.finalize().await;
            player.end(Exit::Status(0)).await;
        });
        all(PMI_STRANGER_NS_MAX + 2 * SECOND_NS, lives).await;
        drop(crowd);
    });
    assert_eq!(done, Ok(()));
    assert_eq!(run_to_end(Arc::clone(&cluster).job_is_over()), Ok(()));
}

/// A frame of the job's that comes from somewhere else is no reason to speak with whoever sent it.
#[test]
fn a_repeated_frame_from_elsewhere_is_turned_away() {
    let cluster = Arc::new(Cluster::new(2, Faults::default()));
    let stranger = cluster.fabric.stack(STRANGER);
    let ran = Arc::clone(&cluster);
    let done = run_to_end(async move {
        let (player, job, frame) = waits_for_the_second(&ran).await;
        let stream = stranger.connect(ran.nodes[0].id.address(), PMI_PEER_PORT, SIZES).await.expect("a connection");
        stream.write_all(&frame).await.expect("room");
        assert!(!matches!(stream.read(&mut [0; 16]).await, Ok(1..)));
        // The right one is heard.
        let second = &ran.nodes[1].stack;
        let stream = second.connect(ran.nodes[0].id.address(), PMI_PEER_PORT, SIZES).await.expect("a connection");
        stream.write_all(&frame).await.expect("room");
        assert_eq!(player.hear().await, "cmd=barrier_out");
        ran.nodes[0].pmi.kill(job);
    });
    assert_eq!(done, Ok(()));
}

/// A length that was changed on its way makes a frame of whatever comes behind it: that is not waited for.
#[test]
fn a_frame_that_does_not_come_to_its_end_is_given_up() {
    let cluster = Arc::new(Cluster::new(2, Faults::default()));
    let ran = Arc::clone(&cluster);
    let done = run_to_end(async move {
        let (_player, job, frame) = waits_for_the_second(&ran).await;
        let second = &ran.nodes[1].stack;
        let stream = second.connect(ran.nodes[0].id.address(), PMI_PEER_PORT, SIZES).await.expect("a connection");
        // The first one says whose connection it is.
        stream.write_all(&frame).await.expect("room");
        stream.write_all(&frame[..frame.len() - 1]).await.expect("room");
        let began_ns = executor::now_ns();
        while matches!(stream.read(&mut [0; 64]).await, Ok(1..)) {}
        let took_ns = executor::now_ns() - began_ns;
        assert!((PMI_FRAME_NS_MAX..PMI_FRAME_NS_MAX + SECOND_NS).contains(&took_ns), "{took_ns}");
        ran.nodes[0].pmi.kill(job);
    });
    assert_eq!(done, Ok(()));
}
