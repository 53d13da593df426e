//! Nodes of a job find out among themselves that one of them is dead, and nobody who lives is taken for it.

use coppice_protocol::ids::{NodeId, Rank};
use coppice_protocol::limits::{PMI_SILENCE_NS, PMI_WATCH_NS, PMI_WATCHED_PER_CORE_MAX};
use coppice_protocol::pmi::{Conditions, Event, Failure, Modex, PeerError, PeerFrames, Startup};

use crate::cluster::Cluster;
use crate::watching::{HOP_NS, Watching};

const SECOND_NS: u64 = 1_000_000_000;

/// What news may take to all nodes, from the first that knows.
fn spreads_ns(nodes: usize) -> u64 {
    HOP_NS * u64::from(nodes.next_power_of_two().ilog2() + 2)
}

#[test]
fn nobody_says_much_and_nobody_is_taken_for_dead() {
    const MINUTES: u64 = 10;
    for nodes in 1..=33 {
        let mut watching = Watching::new(nodes);
        watching.pass(MINUTES * 60 * SECOND_NS);
        assert!(watching.is_calm() && watching.cluster.events.is_empty(), "{nodes} nodes");
        let intervals = MINUTES * 60 * SECOND_NS / PMI_WATCH_NS;
        let wanted = if nodes == 1 { 0 } else { intervals };
        assert!(watching.sent.iter().all(|sent| *sent == wanted), "{nodes} nodes: {:?}", watching.sent);
    }
}

#[test]
fn all_know_of_one_that_dies() {
    for nodes in 2..=33 {
        for dead in [0, nodes / 2, nodes - 1] {
            let mut watching = Watching::outliving(nodes);
            watching.pass(20 * SECOND_NS);
            watching.kill(dead);
            let took_ns = watching.until_known(2 * PMI_WATCH_NS + spreads_ns(nodes));
            assert!(took_ns.is_some(), "{dead} of {nodes}");
            let of_first_ns = watching.known[0].2;
            assert!(watching.known.iter().all(|known| known.2 <= of_first_ns + spreads_ns(nodes)), "{dead} of {nodes}");
            watching.pass(60 * SECOND_NS);
            assert!(watching.is_calm(), "{dead} of {nodes}");
        }
    }
}

/// However many die at once, and wherever: two intervals later one is known, and two later all.
#[test]
fn all_know_of_several_that_die_at_once() {
    for nodes in [3, 4, 5, 6, 8, 13, 16, 33] {
        let opposite = vec![1, 1 + nodes / 2];
        let torn = vec![0, 1, nodes / 2, (nodes / 2 + 1).min(nodes - 1)];
        let neighbours: Vec<usize> = (1..(nodes / 2 + 1)).collect();
        let all_but_one: Vec<usize> = (0..nodes).filter(|node| *node != 2).collect();
        for dead in [vec![1, 2], vec![nodes - 1, 0], opposite, torn, neighbours, all_but_one] {
            let mut watching = Watching::outliving(nodes);
            watching.pass(20 * SECOND_NS);
            dead.iter().for_each(|dead| watching.kill(*dead));
            let took_ns = watching.until_known(4 * PMI_WATCH_NS + 2 * spreads_ns(nodes));
            assert!(took_ns.is_some(), "{dead:?} of {nodes}");
            watching.pass(60 * SECOND_NS);
            assert!(watching.is_calm(), "{dead:?} of {nodes}");
        }
    }
}

/// The ring is mended each time.
#[test]
fn all_know_of_those_that_die_one_after_the_other() {
    for nodes in [4, 7, 16] {
        for step in [1, 3, 5] {
            let mut watching = Watching::outliving(nodes);
            let order: Vec<usize> = (0..nodes).map(|count| count * step % nodes).take(nodes - 1).collect();
            for (count, dead) in order.iter().enumerate() {
                watching.pass(40 * SECOND_NS);
                watching.kill(*dead);
                if !watching.is_in_one_piece() {
                    assert!(count >= nodes / 2, "it takes that many");
                    break;
                }
                let took_ns = watching.until_known(2 * PMI_WATCH_NS + spreads_ns(nodes));
                assert!(took_ns.is_some(), "{dead} of {nodes}, the {count}th");
                assert!(watching.is_calm());
            }
        }
    }
}

/// Nothing more is said around a gap than by those that watch who comes behind it.
#[test]
fn a_mended_ring_is_quiet() {
    let mut watching = Watching::outliving(16);
    watching.pass(20 * SECOND_NS);
    watching.kill(5);
    watching.pass(60 * SECOND_NS);
    let before = watching.sent.clone();
    watching.pass(20 * PMI_WATCH_NS);
    let said: Vec<u64> = watching.sent.iter().zip(before).map(|(sent, before)| sent - before).collect();
    // Node 6 has seven peers, of which one is dead; nobody watches node 4, whose next is 6.
    let wanted = |node: usize| match node {
        5 => 0,
        6 => 6 * 20,
        _ => 20,
    };
    assert!(said.iter().enumerate().all(|(node, said)| *said == wanted(node)), "{said:?}");
}

#[test]
fn a_job_that_ends_with_its_nodes_fails_with_a_reason() {
    let mut watching = Watching::new(5);
    watching.pass(20 * SECOND_NS);
    watching.kill(3);
    watching.pass(2 * PMI_WATCH_NS + spreads_ns(5));
    let reason = "node 103 is dead: node 102 has heard nothing of it for 18 s";
    let events = &watching.cluster.events;
    assert_eq!(events.len(), 4, "{events:?}");
    for event in events {
        let Event::Failed(failure @ Failure::Dead { .. }) = event else { panic!("{event:?}") };
        assert_eq!((failure.to_string().as_str(), failure.code()), (reason, 1));
    }
    watching.pass(60 * SECOND_NS);
    assert_eq!(watching.cluster.events.len(), 4, "said once");
    let of_living = watching.living().into_iter().map(|node| watching.cluster.servers[node].poll_timeout());
    assert!(of_living.into_iter().all(|timeout| timeout.is_none()), "it is over");
}

/// Whoever waits for a node that is dead has the job end as soon as that is known, and not when it is given up.
#[test]
fn who_waits_for_the_dead_waits_no_longer_than_that_takes() {
    for line in ["cmd=get kvsname=k0 key=nobody-puts-it", "cmd=barrier_in"] {
        for waits in [0, 1, 3] {
            let mut watching = Watching::new(4);
            let startup = Startup { modex: Some(Modex::Direct), ..Startup::default() };
            watching.cluster.servers.iter_mut().for_each(|server| server.set_startup(startup));
            watching.pass(20 * SECOND_NS);
            watching.kill(2);
            assert_eq!(watching.cluster.ask(waits, line), "");
            watching.pass(2 * PMI_WATCH_NS + spreads_ns(4));
            const { assert!(2 * PMI_WATCH_NS + SECOND_NS < PMI_SILENCE_NS) }
            let is_dead = |event: &Event| matches!(event, Event::Failed(Failure::Dead { dead: NodeId(102), .. }));
            assert!(watching.cluster.events.iter().filter(|event| is_dead(event)).count() == 3, "{waits}: {line}");
        }
    }
}

/// Who was not told of the job is there, however late that comes; so is who has forgotten it.
#[test]
fn a_late_launch_is_no_death() {
    for late in [0, 1, 4] {
        let mut watching = Watching::outliving(5);
        watching.hold_up(late);
        watching.pass(60 * SECOND_NS);
        watching.launch(late);
        watching.pass(60 * SECOND_NS);
        watching.hold_up(late);
        watching.pass(60 * SECOND_NS);
        assert!(watching.is_calm(), "{late}");
    }
}

/// News wait for who is told of the job later.
#[test]
fn who_is_late_hears_of_a_death() {
    let mut watching = Watching::outliving(5);
    watching.hold_up(1);
    watching.pass(20 * SECOND_NS);
    watching.kill(3);
    watching.pass(60 * SECOND_NS);
    assert!([0, 2, 4].iter().all(|node| watching.knows(*node, 3)) && watching.is_calm());
    watching.launch(1);
    assert!(watching.until_known(PMI_WATCH_NS + HOP_NS).is_some());
}

/// Who could not look for long has to ask first.
#[test]
fn an_observer_that_was_held_up_takes_nobody_for_dead() {
    let mut watching = Watching::outliving(6);
    watching.pass(20 * SECOND_NS);
    watching.stall(60 * SECOND_NS);
    watching.pass(60 * SECOND_NS);
    assert!(watching.is_calm());
}

/// Who is taken for dead and lives says nothing against that; it is answered, and what it says of others is not
/// believed.
#[test]
fn who_is_wrongly_taken_for_dead_harms_nobody() {
    let mut watching = Watching::outliving(8);
    watching.pass(20 * SECOND_NS);
    watching.dead.insert(3);
    watching.pass(8 * PMI_WATCH_NS);
    assert!(watching.all_know(), "it was cut off");
    let of_it = (0..8).filter(|other| watching.knows(3, *other)).count();
    assert_eq!(of_it, 7, "it cannot know better");
    watching.dead.clear();
    watching.pass(120 * SECOND_NS);
    for (node, other) in (0..8).flat_map(|node| (0..8).map(move |other| (node, other))).filter(|(node, _)| *node != 3) {
        assert_eq!(watching.knows(node, other), other == 3, "{node} of {other}");
    }
    assert_eq!(watching.cluster.events, []);
}

/// Cut off for just as long as it takes one side to say so.
#[test]
fn who_hears_that_it_is_dead_does_nothing() {
    let mut watching = Watching::outliving(4);
    watching.pass(20 * SECOND_NS);
    let mut other = Watching::outliving(4);
    other.pass(20 * SECOND_NS);
    other.kill(1);
    assert!(other.until_known(3 * PMI_WATCH_NS).is_some());
    // Node 0 has found that of node 1, which lives here: it is told over.
    let now_ns = watching.now_ns();
    watching.cluster.servers[0].node_lost(NodeId(101), &[Rank(1)], now_ns);
    watching.pass(60 * SECOND_NS);
    assert!(!(0..4).any(|node| watching.knows(1, node)) && watching.cluster.events.is_empty());
}

/// Whoever else says so, before or after.
#[test]
fn what_others_say_of_a_death_is_the_same() {
    for is_before in [true, false] {
        let mut watching = Watching::outliving(6);
        watching.pass(20 * SECOND_NS);
        watching.kill(2);
        if !is_before {
            assert!(watching.until_known(3 * PMI_WATCH_NS).is_some());
        }
        for node in watching.living() {
            for _ in 0..2 {
                let now_ns = watching.now_ns();
                watching.cluster.servers[node].node_lost(NodeId(102), &[Rank(2)], now_ns);
            }
        }
        assert!(watching.all_know());
        let sent: u64 = watching.sent.iter().sum();
        watching.pass(PMI_WATCH_NS);
        let said = watching.sent.iter().sum::<u64>() - sent;
        // Each says that it is there, to one or, behind the gap, to three.
        assert!(!is_before || said == 4 + 3, "nobody has to be told: {said}");
        watching.pass(60 * SECOND_NS);
        assert!(watching.is_calm() && watching.cluster.events.is_empty());
        // And the ring is mended.
        watching.kill(3);
        assert!(watching.until_known(2 * PMI_WATCH_NS + spreads_ns(6)).is_some(), "{is_before}");
    }
}

/// A job that has failed, or whose ranks are being ended, watches nobody, and still answers.
#[test]
fn who_is_being_ended_says_nothing_unasked() {
    for is_failure in [true, false] {
        let mut watching = Watching::outliving(4);
        watching.pass(20 * SECOND_NS);
        let server = &mut watching.cluster.servers[1];
        if is_failure {
            server.out_of_memory();
        } else {
            server.set_ending();
        }
        assert_eq!(server.poll_timeout(), None);
        let before = watching.sent[1];
        watching.pass(6 * SECOND_NS);
        assert_eq!(watching.sent[1], before);
        watching.pass(60 * SECOND_NS);
        assert!(watching.is_calm(), "it is asked, and answers");
    }
}

#[test]
fn words_that_make_no_sense_are_refused() {
    let mut cluster = Cluster::watching(&[1; 8]);
    cluster.pass(0);
    cluster.pass(PMI_WATCH_NS);
    let here = cluster.frame(1, 0).expect("it is there");
    assert_eq!(cluster.frame(1, 2), None, "nobody else wants to know");
    let mut refused = |node: usize, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = here.clone();
        change(&mut bytes);
        let frame = PeerFrames::default().advance(&mut &bytes[..]);
        frame.and_then(|frame| cluster.servers[node].handle_frame(&frame.expect("whole"), 0)).expect_err("refused")
    };
    assert_eq!(refused(2, &|_| ()), PeerError::Nonsense("not for this node"));
    for place in [6, 16, 24] {
        assert_eq!(refused(0, &|bytes| bytes[place] ^= 2), PeerError::Authentication, "{place}");
    }
    assert_eq!(refused(0, &|bytes| bytes[40] = 1), PeerError::Header, "it walks no barrier");
    assert_eq!(refused(0, &|bytes| bytes[44] = 1), PeerError::BodyTooLong(1));
}

/// A node that gets a small part of a core may be silent for long.
#[test]
fn nodes_that_share_a_core_with_many_do_not_watch_each_other() {
    for (per_core, is_watched) in [(PMI_WATCHED_PER_CORE_MAX, true), (PMI_WATCHED_PER_CORE_MAX + 1, false)] {
        let mut watching = Watching::new(5);
        let conditions = Conditions { nodes_per_core: per_core, ..Conditions::default() };
        watching.cluster.servers.iter_mut().for_each(|server| server.walk_under(conditions));
        watching.pass(20 * SECOND_NS);
        watching.kill(3);
        watching.pass(2 * PMI_WATCH_NS + spreads_ns(5));
        assert_eq!(watching.knows(2, 3), is_watched, "{per_core}");
        assert_eq!(watching.cluster.events.is_empty(), !is_watched, "{per_core}");
    }
}
