//! Keys that barriers bring, and keys that are asked for: ranks hear the same.

use coppice_protocol::limits::{PMI_ASK_NS, PMI_FULL_MODEX_RANKS_MAX, PMI_KEYS_PER_HOME_MAX, PMI_SILENCE_NS};
use coppice_protocol::pmi::{HEADER_BYTES, Modex, Server};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::{prop_assert_eq, proptest};

use crate::cluster::Cluster;

const BOTH: [Modex; 2] = [Modex::Full, Modex::Direct];
const PUT: &str = "cmd=put_result rc=0 msg=success\n";
const OUT: &str = "cmd=barrier_out\n";

fn put(key: &str, value: &str) -> String {
    format!("cmd=put kvsname=k0 key={key} value={value}\n")
}

fn got(value: &str) -> String {
    format!("cmd=get_result rc=0 msg=success value={value}\n")
}

fn not_there(key: &str) -> String {
    format!("cmd=get_result rc=-1 msg=key_{key}_not_found value=unknown\n")
}

/// A rank says a line, and hears the answer when everything has arrived.
fn ask(cluster: &mut Cluster, rank: u32, line: &str) -> String {
    assert_eq!(cluster.say(rank, line.as_bytes()), line.len());
    cluster.settle();
    cluster.hear(rank)
}

fn get(cluster: &mut Cluster, rank: u32, key: &str) -> String {
    ask(cluster, rank, &format!("cmd=get kvsname=k0 key={key}\n"))
}

/// All ranks meet.
fn barrier(cluster: &mut Cluster, ranks: u32) {
    (0..ranks).for_each(|rank| assert_eq!(cluster.say(rank, b"cmd=barrier_in\n"), 15));
    cluster.settle();
    (0..ranks).for_each(|rank| assert_eq!(cluster.hear(rank), OUT));
}

/// What all nodes say to each other until there is nothing more: frames, and bytes behind their headers.
fn traffic(cluster: &mut Cluster) -> (usize, usize) {
    let (mut frames, mut bytes) = (0, 0);
    loop {
        let pairs = cluster.pairs_with_output();
        if pairs.is_empty() {
            return (frames, bytes);
        }
        for (from, to) in pairs {
            while let Some(frame) = cluster.frame(from, to) {
                (frames, bytes) = (frames + 1, bytes + frame.len() - HEADER_BYTES);
                cluster.deliver(to, &frame);
            }
        }
    }
}

#[test]
fn whatever_is_put_all_get() {
    for (modex, nodes) in BOTH.into_iter().flat_map(|modex| [1, 2, 3, 5, 8, 17].map(|nodes| (modex, nodes))) {
        let mut cluster = Cluster::with_modex(&vec![2; nodes], modex);
        let ranks = 2 * nodes as u32;
        let key = |rank: u32, barrier: u32| match rank % 2 {
            0 => format!("P{rank}-businesscard-of-{barrier}x"),
            // Nobody's: some node keeps it.
            _ => format!("shared[{}", "r".repeat(1 + rank as usize)) + &"b".repeat(barrier as usize),
        };
        for round in 0..3 {
            for rank in 0..ranks {
                let value = format!("node{rank}-{round}");
                assert_eq!(ask(&mut cluster, rank, &put(&key(rank, round), &value)), PUT, "{modex}");
                let again = ask(&mut cluster, rank, &put(&key(rank, round), "other"));
                assert_eq!(again, format!("cmd=put_result rc=-1 msg=duplicate_key_{}\n", key(rank, round)));
            }
            barrier(&mut cluster, ranks);
            for (rank, other) in (0..ranks).flat_map(|rank| (0..ranks).map(move |other| (rank, other))) {
                for past in 0..=round {
                    let value = get(&mut cluster, rank, &key(other, past));
                    assert_eq!(value, got(&format!("node{other}-{past}")), "{modex}, {nodes} nodes");
                }
                assert_eq!(get(&mut cluster, rank, &key(other, round + 1)), not_there(&key(other, round + 1)));
            }
        }
        assert_eq!(cluster.events, []);
    }
}

proptest! {
    /// Whoever puts what, and whoever else puts the same.
    #[test]
    fn both_say_the_same(
        puts in vec((0_u32..9, 0_u32..12, any::<bool>()), 0..40),
    ) {
        let key = |number: u32| match number {
            0..9 => format!("P{number}-card"),
            _ => format!("k{}", "e".repeat(number as usize)),
        };
        let mut heard = BOTH.map(|modex| {
            let mut cluster = Cluster::with_modex(&[2, 2, 2, 3], modex);
            let mut heard = Vec::new();
            for (place, (rank, number, then_meet)) in puts.iter().enumerate() {
                // Whether a put of what somebody else has put before the same barrier is done, and what is got before
                // it, one does not know.
                cluster.say(*rank, put(&key(*number), &format!("v{place}")).as_bytes());
                cluster.settle();
                cluster.hear(*rank);
                if *then_meet {
                    barrier(&mut cluster, 9);
                    for (rank, number) in (0..9).flat_map(|rank| (0..12).map(move |number| (rank, number))) {
                        heard.push(get(&mut cluster, rank, &key(number)));
                    }
                }
            }
            heard
        });
        let [full, direct] = &mut heard;
        prop_assert_eq!(full, direct);
    }
}

#[test]
fn of_two_nodes_that_put_a_key_at_once_the_first_wins_in_both() {
    for (modex, order) in
        BOTH.into_iter().flat_map(|modex| [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]].map(|o| (modex, o)))
    {
        let mut cluster = Cluster::with_modex(&[1; 4], modex);
        for rank in order {
            assert_eq!(ask(&mut cluster, rank, &put("same", &format!("of-{rank}"))), PUT, "{modex}, {order:?}");
        }
        barrier(&mut cluster, 4);
        for rank in 0..4 {
            assert_eq!(get(&mut cluster, rank, "same"), got("of-0"), "{modex}, {order:?}");
            // And it stays so.
            let late = ask(&mut cluster, rank, &put("same", "late"));
            assert_eq!(late, "cmd=put_result rc=-1 msg=duplicate_key_same\n");
        }
    }
}

#[test]
fn a_direct_exchange_brings_nothing_but_what_is_asked_for() {
    const NODES: usize = 16;
    let ranks = 4 * NODES as u32;
    let card = |rank: u32| format!("description#node{}$port#40000$ifname#10.128.0.{}$", rank / 4, 1 + rank / 4);
    let [full, direct] = BOTH.map(|modex| {
        let mut cluster = Cluster::with_modex(&[4; NODES], modex);
        for rank in 0..ranks {
            // A rank's key is kept where it is put: nobody is told.
            assert_eq!(cluster.ask(rank, put(&format!("P{rank}-card"), &card(rank)).trim_end()), PUT);
        }
        (0..ranks).for_each(|rank| assert_eq!(cluster.say(rank, b"cmd=barrier_in\n"), 15));
        let (_, bytes) = traffic(&mut cluster);
        (0..ranks).for_each(|rank| assert_eq!(cluster.hear(rank), OUT));
        // Each rank talks to its neighbour.
        for rank in 0..ranks {
            let other = (rank + 1) % ranks;
            assert_eq!(get(&mut cluster, rank, &format!("P{other}-card")), got(&card(other)));
        }
        (bytes, cluster.servers.iter().map(Server::memory_bytes).max().expect("nodes"))
    });
    // The body of a step in which nothing was put is a byte or two.
    assert!(direct.0 <= 2 * 4 * NODES, "{} bytes", direct.0);
    assert!(direct.0 * 20 < full.0, "{} and {} bytes", direct.0, full.0);
    assert!(direct.1 * 4 < full.1, "{} and {} bytes of memory", direct.1, full.1);
}

#[test]
fn what_one_rank_was_told_its_neighbours_need_not_ask_for() {
    let mut cluster = Cluster::with_modex(&[3, 3], Modex::Direct);
    assert_eq!(ask(&mut cluster, 4, &put("P4-card", "here")), PUT);
    // Before the barrier it may yet be somebody else's.
    assert_eq!(get(&mut cluster, 0, "P4-card"), got("here"));
    cluster.say(1, b"cmd=get kvsname=k0 key=P4-card\n");
    assert_eq!(traffic(&mut cluster).0, 2);
    cluster.hear(1);
    barrier(&mut cluster, 6);
    assert_eq!(get(&mut cluster, 0, "P4-card"), got("here"));
    for rank in 0..3 {
        assert_eq!(cluster.ask(rank, "cmd=get kvsname=k0 key=P4-card"), got("here"), "no node is asked");
    }
    // What is not there may come.
    assert_eq!(get(&mut cluster, 0, "P5-card"), not_there("P5-card"));
    assert_eq!(ask(&mut cluster, 5, &put("P5-card", "late")), PUT);
    barrier(&mut cluster, 6);
    assert_eq!(get(&mut cluster, 0, "P5-card"), got("late"));
}

#[test]
fn what_is_lost_on_the_way_is_asked_for_again() {
    let mut cluster = Cluster::with_modex(&[1; 5], Modex::Direct);
    assert_eq!(cluster.ask(3, put("P3-card", "here").trim_end()), PUT);
    assert_eq!(cluster.say(0, b"cmd=get kvsname=k0 key=P3-card\n"), 31);
    // A rank that waits is not heard.
    assert_eq!(cluster.say(0, b"cmd=barrier_in\n"), 0);
    for (from, to) in cluster.pairs_with_output() {
        while cluster.frame(from, to).is_some() {}
    }
    assert_eq!(cluster.hear(0), "");
    cluster.pass(PMI_ASK_NS);
    cluster.settle();
    assert_eq!(cluster.hear(0), got("here"));
    // A put is made once, however often it is asked for.
    assert_eq!(cluster.say(0, put("P2-card", "of-0").as_bytes()), put("P2-card", "of-0").len());
    let mut lost = 0;
    while cluster.hear(0).is_empty() {
        for (from, to) in cluster.pairs_with_output() {
            while let Some(frame) = cluster.frame(from, to) {
                lost += usize::from(from == 2);
                if from != 2 || lost > 3 {
                    cluster.deliver(to, &frame);
                }
            }
        }
        if cluster.pairs_with_output().is_empty() {
            cluster.pass(PMI_ASK_NS);
        }
    }
    assert_eq!(get(&mut cluster, 4, "P2-card"), got("of-0"));
}

#[test]
fn nobody_waits_for_a_node_that_does_not_answer() {
    let no_answer = "msg=no_answer_from_the_node_that_keeps_it";
    let mut cluster = Cluster::with_modex(&[1; 5], Modex::Direct);
    let (get, put) = ("cmd=get kvsname=k0 key=P3-card\n", put("P3-other", "x"));
    cluster.say(0, get.as_bytes());
    cluster.say(1, put.as_bytes());
    cluster.pass(PMI_SILENCE_NS - 1);
    assert_eq!([cluster.hear(0), cluster.hear(1)], ["", ""]);
    cluster.pass(1);
    assert_eq!(cluster.hear(0), format!("cmd=get_result rc=-1 {no_answer} value=unknown\n"));
    assert_eq!(cluster.hear(1), format!("cmd=put_result rc=-1 {no_answer}\n"));
    // One that is known to be gone is not waited for at all.
    let mut cluster = Cluster::with_modex(&[1; 5], Modex::Direct);
    for server in &mut cluster.servers {
        server.set_outlives_ranks();
    }
    cluster.say(0, get.as_bytes());
    let gone = cluster.servers[3].placement().place(3).expect("a place");
    cluster.servers[0].node_lost(gone.node, &[gone.first], 0);
    assert_eq!(cluster.hear(0), format!("cmd=get_result rc=-1 {no_answer} value=unknown\n"));
    assert_eq!(cluster.ask(0, put.trim_end()), format!("cmd=put_result rc=-1 {no_answer}\n"));
}

#[test]
fn a_home_has_room_for_so_many() {
    let mut cluster = Cluster::with_modex(&[1, 1], Modex::Direct);
    for number in 0..PMI_KEYS_PER_HOME_MAX {
        let key = format!("P0-{}", "x".repeat(number % 50) + &format!("y{}z0", number / 50 + 2));
        assert_eq!(cluster.ask(0, put(&key, "v").trim_end()), PUT, "{key}");
    }
    assert_eq!(cluster.ask(0, put("P0-more", "v").trim_end()), "cmd=put_result rc=-1 msg=no_room_in_kvs_k0\n");
    assert_eq!(ask(&mut cluster, 1, &put("P0-more", "v")), "cmd=put_result rc=-1 msg=no_room_in_kvs_k0\n");
    let long = "v".repeat(1025);
    assert_eq!(cluster.ask(1, put("P1-long", &long).trim_end()), "cmd=put_result rc=-1 msg=value_too_long\n");
    // And the longest there may be goes between nodes.
    let (key, value) = (format!("P1{}", "k".repeat(62)), "v".repeat(1024));
    assert_eq!(ask(&mut cluster, 0, &put(&key, &value)), PUT);
    barrier(&mut cluster, 2);
    assert_eq!(get(&mut cluster, 0, &key), got(&value));
}

#[test]
fn keys_are_there_again_after_a_checkpoint() {
    let mut cluster = Cluster::with_modex(&[1; 4], Modex::Direct);
    for rank in 0..4 {
        assert_eq!(ask(&mut cluster, rank, &put(&format!("P{rank}-card"), &format!("of-{rank}"))), PUT);
    }
    barrier(&mut cluster, 4);
    assert_eq!(get(&mut cluster, 0, "P1-card"), got("of-1"));
    // Some wait for an answer then, and some for what is not done before all go on.
    cluster.say(0, b"cmd=get kvsname=k0 key=P3-card\n");
    cluster.say(1, put("P2-late", "of-1").as_bytes());
    let mut other = cluster.again();
    other.go_on();
    other.settle();
    assert_eq!([other.hear(0), other.hear(1)], [got("of-3"), PUT.to_owned()]);
    barrier(&mut other, 4);
    for rank in 0..4 {
        assert_eq!(get(&mut other, rank, "P2-late"), got("of-1"));
        assert_eq!(get(&mut other, rank, "P0-card"), got("of-0"));
    }
    assert_eq!(other.events, []);
}

#[test]
fn large_jobs_ask_without_being_told_to() {
    let per_node = 64;
    for (nodes, frames) in [(PMI_FULL_MODEX_RANKS_MAX / per_node, 0), (PMI_FULL_MODEX_RANKS_MAX / per_node + 1, 1)] {
        let mut cluster = Cluster::new(&vec![per_node; nodes as usize]);
        cluster.say(0, b"cmd=get kvsname=k0 key=P64-card\n");
        assert_eq!(cluster.pairs_with_output().len(), frames, "{nodes} nodes");
    }
}

#[test]
fn keys_are_not_counted_up_where_nobody_has_all() {
    let mut cluster = Cluster::with_modex(&[1, 1], Modex::Direct);
    let said = cluster.ask(0, "cmd=getbyidx kvsname=k0 idx=0");
    assert_eq!(said, "cmd=getbyidx_results rc=-1 reason=keys_are_not_brought_by_barriers\n");
}

#[test]
fn version_2_asks_and_is_told_the_same() {
    let message = |text: &str| format!("{:6}{text}", text.len()).into_bytes();
    for modex in BOTH {
        let mut cluster = Cluster::with_modex(&[1, 1, 1], modex);
        for rank in 0..3 {
            cluster.ask(rank, "cmd=init pmi_version=2 pmi_subversion=0");
            cluster.say(rank, &message(&format!("cmd=fullinit;pmirank={rank};threaded=FALSE;")));
            cluster.hear(rank);
        }
        let mut ask = |rank: u32, text: &str| {
            cluster.say(rank, &message(text));
            cluster.settle();
            let heard = cluster.hear(rank);
            heard.get(6..).unwrap_or_default().to_owned()
        };
        assert_eq!(ask(0, "cmd=kvs-put;key=P2-card;value=a b;thrid=7;"), "cmd=kvs-put-response;thrid=7;rc=0;");
        let twice = "cmd=kvs-put-response;rc=-1;errmsg=duplicate_key;";
        assert_eq!(ask(0, "cmd=kvs-put;key=P2-card;value=c;"), twice);
        assert_eq!([0, 1].map(|rank| ask(rank, "cmd=kvs-fence;")), [""; 2]);
        ask(2, "cmd=kvs-fence;");
        assert_eq!([0, 1].map(|rank| ask(rank, "")).map(|heard| heard.contains("kvs-fence-response;rc=0")), [true; 2]);
        for rank in 0..3 {
            let found = "cmd=kvs-get-response;thrid=1;found=TRUE;value=a b;rc=0;";
            assert_eq!(ask(rank, "cmd=kvs-get;jobid=k0;srcid=-1;key=P2-card;thrid=1;"), found, "{modex}");
            assert_eq!(ask(rank, "cmd=kvs-get;jobid=;key=P1-card;"), "cmd=kvs-get-response;found=FALSE;rc=0;");
        }
    }
}

/// What several ranks of a node wait for comes once.
#[test]
fn who_waits_for_the_same_has_it_when_the_first_does() {
    let mut cluster = Cluster::with_modex(&[4, 1], Modex::Direct);
    assert_eq!(cluster.ask(4, put("P4-card", "here").trim_end()), PUT);
    barrier(&mut cluster, 5);
    let get = b"cmd=get kvsname=k0 key=P4-card\n";
    (0..4).for_each(|rank| assert_eq!(cluster.say(rank, get), get.len()));
    assert_eq!(traffic(&mut cluster).0, 2, "a question and its answer");
    assert_eq!(cluster.hear(0), got("here"));
    assert_eq!([1, 2, 3].map(|rank| cluster.hear(rank)), [got("here"), got("here"), got("here")]);
    assert!(cluster.pairs_with_output().is_empty(), "nobody is asked once more");
    // Before a barrier somebody else's may yet be the right one.
    assert_eq!(cluster.ask(4, put("P4-late", "late").trim_end()), PUT);
    let get = b"cmd=get kvsname=k0 key=P4-late\n";
    (0..2).for_each(|rank| assert_eq!(cluster.say(rank, get), get.len()));
    assert_eq!(traffic(&mut cluster).0, 4);
}
