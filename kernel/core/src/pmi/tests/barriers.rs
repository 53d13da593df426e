//! Ranks that find each other's cards.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_endpoint::BufferSizes;
use coppice_protocol::control::{Exit, Launch};
use coppice_protocol::ids::Rank;
use coppice_protocol::limits::{PMI_ANSWER_BYTES_MAX, PMI_PEER_PORT, PMI_SILENCE_NS, PMI_WATCH_NS};
use coppice_protocol::pmi::{Conversation, Fence, PeerFrames, Server};
use coppice_protocol::text::ByteString;
use coppice_protocol::world::{Passage, World};
use spin::Mutex;

use super::{Cluster, MS_NS, Player, SECOND_NS, all};
use crate::agent::Failures;
use crate::errno::Errno;
use crate::executor::{self, run_to_end};
use crate::files::Ready;
use crate::files::Service;
use crate::files::stream::{Stream, copy_from};
use crate::limits::TASKS_MAX;
use crate::net::testing::fabric::Faults;

/// A whole life of a rank that is late now and then.
async fn live(player: Player, rounds: u32) {
    player.init().await;
    for round in 0..rounds {
        if (player.rank + round).is_multiple_of(3) {
            executor::sleep(u64::from(round % 4) * 7 * MS_NS).await;
        }
        player.exchange(round).await;
    }
    player.finalize().await;
    assert_eq!(player.read(1).await, b"");
    player.end(Exit::Status(0)).await;
}

fn exchange(size: u32, per_node: u32, rounds: u32, faults: Faults, limit_ns: u64) {
    let cluster = Arc::new(Cluster::new(size.div_ceil(per_node), faults));
    let players = cluster.start_all(0..size, per_node);
    let done = run_to_end(all(limit_ns, players.into_iter().map(move |player| live(player, rounds))));
    assert_eq!(done, Ok(()), "{size} ranks, {per_node} on each node");
    assert_eq!(run_to_end(Arc::clone(&cluster).job_is_over()), Ok(()));
    assert_eq!(cluster.failures(), []);
}

#[test]
fn cards_come_to_all_nodes() {
    for (size, per_node) in [(1, 1), (2, 1), (3, 1), (5, 1), (8, 1), (2, 2), (4, 2), (7, 2), (9, 3)] {
        exchange(size, per_node, 6, Faults::default(), SECOND_NS);
    }
}

#[test]
fn bad_links_change_nothing() {
    let faults = Faults { lost_per_mille: 10, latency_ns: 5 * MS_NS };
    exchange(4, 1, 10, faults, 20 * SECOND_NS);
    let faults = Faults { lost_per_mille: 150, latency_ns: MS_NS };
    exchange(5, 2, 10, faults, 60 * SECOND_NS);
}

/// What comes for a job that is not there yet is kept, and nobody has to ask for it again.
#[test]
fn a_late_launch_holds_nobody_up_for_longer_than_it_is_late() {
    const LATE_NS: u64 = 3 * SECOND_NS;
    let cluster = Arc::new(Cluster::new(3, Faults { latency_ns: MS_NS, ..Faults::default() }));
    let started = Arc::clone(&cluster);
    let done = run_to_end(async move {
        let start_ns = executor::now_ns();
        let lives = [(0, 0), (1, 0), (2, LATE_NS)].map(|(rank, late_ns)| {
            let started = Arc::clone(&started);
            async move {
                executor::sleep(late_ns).await;
                let player = started.start(rank, 3, 1);
                player.init().await;
                player.exchange(0).await;
                let took_ns = executor::now_ns() - start_ns;
                assert!((LATE_NS..LATE_NS + 20 * MS_NS).contains(&took_ns), "{took_ns}");
            }
        });
        all(10 * SECOND_NS, lives).await;
    });
    assert_eq!(done, Ok(()));
}

/// However late a launch is: who was not told of the job is there, and says so.
#[test]
fn a_node_that_was_not_told_of_the_job_is_not_silent() {
    const LATE_NS: u64 = 3 * PMI_SILENCE_NS;
    let cluster = Arc::new(Cluster::new(2, Faults { latency_ns: MS_NS, ..Faults::default() }));
    let started = Arc::clone(&cluster);
    let done = run_to_end(async move {
        let lives = [(0, 0), (1, LATE_NS)].map(|(rank, late_ns)| {
            let started = Arc::clone(&started);
            async move {
                executor::sleep(late_ns).await;
                live(started.start(rank, 2, 1), 1).await;
            }
        });
        all(LATE_NS + SECOND_NS, lives).await;
    });
    assert_eq!(done, Ok(()));
    assert_eq!(cluster.failures(), []);
}

/// That the other node knows of no such job is believed only of who was called: others may be anybody.
#[test]
fn who_calls_to_say_that_it_knows_nothing_is_turned_away() {
    let cluster = Arc::new(Cluster::new(2, Faults::default()));
    let ran = Arc::clone(&cluster);
    let done = run_to_end(async move {
        let player = ran.start(0, 2, 1);
        player.init().await;
        player.say("cmd=barrier_in").await;
        // A frame of the job's, of which the answer is made.
        let placement = ran.launch_order(0, 2, 1).world.placement(2).expect("a placement");
        let job = crate::process::testing::order(2).job;
        let mut server = Server::new(job, &[9; 32], placement, ran.nodes[0].id).expect("a part");
        let mut conversation = Conversation::on_descriptor(Rank(0));
        conversation.handle_bytes(b"cmd=init\ncmd=barrier_in\n", &mut server, executor::now_ns());
        let bytes = server.poll_transmit(1).expect("a frame");
        let frame = PeerFrames::default().advance(&mut &bytes[..]).expect("a frame").expect("a whole one");
        let sizes = BufferSizes { receive: 4096, transmit: 4096 };
        let node = ran.nodes[0].id.address();
        let stream = ran.nodes[1].stack.connect(node, PMI_PEER_PORT, sizes).await.expect("a connection");
        stream.write_all(&frame.absence()).await.expect("room");
        assert!(!matches!(stream.read(&mut [0; 16]).await, Ok(1..)));
        ran.nodes[0].pmi.kill(job);
    });
    assert_eq!(done, Ok(()));
}

/// Nodes say that they are there, each to one other, and nothing else.
#[test]
fn next_to_nothing_happens_between_barriers() {
    let cluster = Cluster::new(4, Faults::default());
    let players = cluster.start_all(0..4, 1);
    let kept = Arc::new(spin::Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let done = run_to_end(all(
        SECOND_NS,
        players.into_iter().map(move |player| {
            let keep = Arc::clone(&keep);
            async move {
                player.init().await;
                player.exchange(0).await;
                keep.lock().push(player);
            }
        }),
    ));
    assert_eq!(done, Ok(()));
    // Acknowledgements that were put off still go out.
    assert_eq!(run_to_end(executor::sleep(50 * MS_NS)), Ok(()));
    let before = cluster.fabric.frames();
    const INTERVALS: u64 = 8;
    assert_eq!(run_to_end(executor::sleep(INTERVALS * PMI_WATCH_NS)), Ok(()));
    let frames = cluster.fabric.frames() - before;
    // A word of each, and an acknowledgement; where no connection was before, there is one then.
    assert!((4 * (INTERVALS - 1)..=4 * (2 * INTERVALS + 4)).contains(&frames), "{frames}");
}

#[test]
fn the_descriptor_says_when_it_is_ready() {
    let cluster = Cluster::new(1, Faults::default());
    let player = Arc::new(cluster.start(0, 2, 2));
    let other = cluster.start(1, 2, 2);
    let endpoint = player.endpoint();
    assert_eq!(endpoint.ready(), Ready::WRITE);
    assert_eq!(endpoint.take(9, false, &mut |_| 0), Err(Errno::EAGAIN));
    let line = b"cmd=get_appnum\n";
    assert_eq!(endpoint.put(line.len(), &mut copy_from(line)), Ok(line.len()));
    assert_eq!(endpoint.ready(), Ready::READ | Ready::WRITE);
    let told = b"cmd=appnum appnum=0\n";
    assert_eq!(endpoint.held(), told.len());
    let peeked = endpoint.take(4, true, &mut |part| part.len()).expect("an answer");
    assert_eq!((peeked.copied, peeked.length), (4, told.len()));
    // A rank that does not read is not heard for ever, and loses nothing.
    let mut said = 1;
    while endpoint.put(line.len(), &mut copy_from(line)) == Ok(line.len()) {
        said += 1;
    }
    assert!(said * told.len() >= PMI_ANSWER_BYTES_MAX);
    assert_eq!(endpoint.ready(), Ready::READ);
    assert_eq!(endpoint.put(1, &mut copy_from(b"x")), Err(Errno::EAGAIN));
    let reader = Arc::clone(&player);
    let heard = run_to_end(async move {
        for _ in 0..said {
            assert_eq!(reader.hear().await, "cmd=appnum appnum=0");
        }
        reader.init().await;
        // In a barrier there is nothing to read until the other one comes.
        reader.say("cmd=barrier_in").await;
        assert_eq!(reader.endpoint().ready(), Ready::WRITE);
        other.init().await;
        other.say("cmd=barrier_in").await;
        assert_eq!(reader.endpoint().ready(), Ready::READ | Ready::WRITE);
        assert_eq!((reader.hear().await, other.hear().await), ("cmd=barrier_out".into(), "cmd=barrier_out".into()));
        reader.finalize().await;
        assert_eq!(reader.endpoint().ready(), Ready::READ | Ready::WRITE | Ready::READ_HANG_UP);
        other.finalize().await;
        assert_eq!(reader.endpoint().put(1, &mut copy_from(b"x")), Err(Errno::EPIPE));
    });
    assert_eq!(heard, Ok(()));
}

#[test]
fn a_rank_is_told_how_to_find_pmi() {
    let cluster = Cluster::new(2, Faults::default());
    let player = cluster.start(3, 4, 2);
    let own: [&[u8]; 4] = [b"A=\xff", b"PMI_RANK\xff=1", b"PMI_RANK=\xff", b"MPICH_INTERFACE_HOSTNAME=mine"];
    let wanted = own.map(ByteString::from);
    let expected = [
        &b"A=\xff"[..],
        b"PMI_RANK\xff=1",
        b"MPICH_INTERFACE_HOSTNAME=mine",
        b"MPIR_CVAR_CH3_INTERFACE_HOSTNAME=10.128.0.2",
        b"PMI_FD=255",
        b"PMI_RANK=3",
        b"PMI_SIZE=4",
        b"PMI_PORT=10.128.0.2:7004",
        b"PMI_ID=3",
        b"PMIX_NAMESPACE=k7",
        b"PMIX_RANK=3",
        b"PMIX_SERVER_URI41=coppice.1;tcp4://127.0.0.1:7006",
        b"PMIX_SERVER_URI4=coppice.1;tcp4://127.0.0.1:7006",
        b"PMIX_SERVER_URI3=coppice.1;tcp4://127.0.0.1:7006",
        b"PMIX_SERVER_URI21=coppice.1;tcp4://127.0.0.1:7006",
        b"PMIX_SECURITY_MODE=native,none",
        b"PMIX_BFROP_BUFFER_TYPE=PMIX_BFROP_BUFFER_NON_DESC",
        b"PMIX_GDS_MODULE=hash",
        b"PMIX_HOSTNAME=node1",
        b"JSM_JSRUN_PORT=7006",
    ];
    assert_eq!(player.seat.environment(&wanted), expected.map(ByteString::from));
}

/// As many ranks as there may be on a node do not use its tasks up.
#[test]
fn a_full_node_works() {
    const PER_NODE: u32 = 64;
    let cluster = Arc::new(Cluster::new(2, Faults::default()));
    let players = cluster.start_all(0..2 * PER_NODE, PER_NODE);
    const { assert!(TASKS_MAX > 3 * PER_NODE as usize) };
    let done = run_to_end(all(
        SECOND_NS,
        players.into_iter().map(|player| async move {
            player.init().await;
            let put = format!("cmd=put kvsname=k7 key=P{} value=x", player.rank);
            assert_eq!(player.ask(&put).await, "cmd=put_result rc=0 msg=success");
            player.barrier().await;
            let get = format!("cmd=get kvsname=k7 key=P{}", (player.rank + PER_NODE) % (2 * PER_NODE));
            assert_eq!(player.ask(&get).await, "cmd=get_result rc=0 msg=success value=x");
            player.finalize().await;
            player.end(Exit::Status(0)).await;
        }),
    ));
    assert_eq!(done, Ok(()));
    assert_eq!(run_to_end(Arc::clone(&cluster).job_is_over()), Ok(()));
}

/// From a rank's first word on its node has the connections that the first barrier needs: that takes no longer than one
/// for which all of them are there.
#[test]
fn connections_are_there_before_the_first_barrier() {
    const LATENCY_NS: u64 = 40 * MS_NS;
    let took_ns = |ahead_ns: u64| {
        let cluster = Arc::new(Cluster::new(4, Faults { latency_ns: LATENCY_NS, ..Faults::default() }));
        let players = cluster.start_all(0..4, 1);
        let took = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&took);
        let lives = players.into_iter().map(move |player| {
            let took = Arc::clone(&noted);
            async move {
                player.init().await;
                executor::sleep(ahead_ns).await;
                for barrier in 0..2 {
                    let start_ns = executor::now_ns();
                    player.barrier().await;
                    took.lock().push((barrier, executor::now_ns() - start_ns));
                }
                player.finalize().await;
                player.end(Exit::Status(0)).await;
            }
        });
        let done = run_to_end(all(70 * SECOND_NS, lives));
        assert_eq!(done, Ok(()));
        assert_eq!(run_to_end(cluster.job_is_over()), Ok(()));
        let took = took.lock();
        [0, 1].map(|barrier| took.iter().filter(|(of, _)| *of == barrier).map(|(_, ns)| *ns).max().expect("one"))
    };
    // Two steps, each of which waits for nothing but the way of its frame; it is not more than the ways that there are.
    let [first, second] = took_ns(SECOND_NS);
    assert!(first.abs_diff(second) < LATENCY_NS / 2, "{first} {second}");
    // Those that were of no use for long are given up, and made again when there is something to say.
    let [first, second] = took_ns(60 * SECOND_NS);
    assert!(first < second + 6 * LATENCY_NS, "{first} {second}");
    // Who meets at once waits for connections, but for all of them at once.
    let [first, second] = took_ns(0);
    assert!(first >= second + LATENCY_NS && first < second + 3 * LATENCY_NS, "{first} {second}");
}

/// What a launch says of nodes and links is what its job's barriers are chosen by.
#[test]
fn a_launch_says_what_barriers_are_walked_under() {
    let fence = |latency_ns| {
        let cluster = Cluster::new(4, Faults::default());
        let launch = cluster.launch_order(0, 4, 1);
        let passage = Passage { latency_ns, byte_ns: 0 };
        let world = World { nodes_per_core: 4, passage, ..launch.world.clone() };
        let pmi = &cluster.nodes[0].pmi;
        let _seat = pmi.join(&Launch { world, ..launch }.into(), Failures::new(|_| ())).expect("a place");
        let job = pmi.shared.jobs.lock().values().next().cloned().expect("a job");
        job.with(|server, _| server.fence()).expect("it goes on")
    };
    assert_eq!((fence(0), fence(20_000_000)), (Fence::Tree, Fence::Dissemination));
}

/// Connections that nothing comes of are given up, and not made again for nothing.
#[test]
fn nobody_is_called_ahead_again() {
    const QUIET_NS: u64 = 100 * SECOND_NS;
    let cluster = Arc::new(Cluster::new(4, Faults::default()));
    let players = cluster.start_all(0..4, 1);
    let frames = run_to_end(async move {
        for player in &players {
            player.init().await;
        }
        executor::sleep(15 * SECOND_NS).await;
        let before = cluster.fabric.frames();
        executor::sleep(QUIET_NS).await;
        cluster.fabric.frames() - before
    });
    // Each tells one other again and again that it is there, who confirms that; and that is all.
    let words = QUIET_NS.div_ceil(PMI_WATCH_NS);
    let frames = frames.expect("they go on");
    assert!(frames <= 4 * 2 * words, "{frames}");
}
