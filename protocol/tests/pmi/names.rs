//! Names that ranks publish for all ranks of their job: each is kept by one node, and found from all.

use coppice_protocol::ids::JobId;
use coppice_protocol::limits::{
    PMI_ASK_NS, PMI_ASKS_MAX, PMI_NAME_BYTES_MAX, PMI_NAMES_MAX, PMI_PORT_NAME_BYTES_MAX, PMI_SILENCE_NS,
};
use coppice_protocol::pmi::{HEADER_BYTES, Server};

use crate::cluster::Cluster;

const PUBLISHED: &str = "cmd=publish_result info=ok rc=0 msg=success\n";
const UNPUBLISHED: &str = "cmd=unpublish_result info=ok rc=0 msg=success\n";
const NO_ANSWER: &str = "rc=-1 msg=no_answer_from_the_node_that_keeps_it\n";

fn publish(name: &str, port: &str) -> String {
    format!("cmd=publish_name service={name} port={port}\n")
}

fn unpublish(name: &str) -> String {
    format!("cmd=unpublish_name service={name}\n")
}

fn look_up(name: &str) -> String {
    format!("cmd=lookup_name service={name}\n")
}

fn found(port: &str) -> String {
    format!("cmd=lookup_result port={port} info=ok rc=0 msg=success\n")
}

/// A rank says a line, and hears the answer when everything has arrived.
fn ask(cluster: &mut Cluster, rank: u32, line: &str) -> String {
    assert_eq!(cluster.say(rank, line.as_bytes()), line.len());
    cluster.settle();
    cluster.hear(rank)
}

/// A name that this node keeps: its memory is what grows.
fn kept_by(cluster: &mut Cluster, node: usize) -> String {
    let port = "x".repeat(300);
    let is_kept_there = |name: &String| {
        let before = cluster.servers[node].memory_bytes();
        assert_eq!(ask(cluster, 0, &publish(name, &port)), PUBLISHED);
        let is_there = cluster.servers[node].memory_bytes() > before + port.len();
        assert_eq!(ask(cluster, 0, &unpublish(name)), UNPUBLISHED);
        is_there
    };
    (0..).map(|number| format!("name-{number}")).find(is_kept_there).expect("there is one")
}

#[test]
fn what_a_rank_publishes_all_find() {
    for nodes in [1, 2, 3, 5, 8, 17] {
        let mut cluster = Cluster::new(&vec![2; nodes]);
        let ranks = 2 * nodes as u32;
        for rank in 0..ranks {
            let said = ask(&mut cluster, rank, &publish(&format!("of {rank}"), &format!("port#{rank}$")));
            assert_eq!(said, PUBLISHED);
        }
        for rank in 0..ranks {
            for other in 0..ranks {
                let port = ask(&mut cluster, rank, &look_up(&format!("of {other}")));
                assert_eq!(port, found(&format!("port#{other}$")), "{nodes} nodes");
            }
            let other = (rank + 3) % ranks;
            let taken = ask(&mut cluster, rank, &publish(&format!("of {other}"), "mine"));
            assert_eq!(taken, "cmd=publish_result rc=-1 msg=name_is_published\n");
        }
        for rank in 0..ranks {
            // Whoever published it.
            let name = format!("of {}", (rank + 1) % ranks);
            assert_eq!(ask(&mut cluster, rank, &unpublish(&name)), UNPUBLISHED);
            let said = ask(&mut cluster, rank, &look_up(&name));
            assert_eq!(said, "cmd=lookup_result rc=-1 msg=name_is_not_published\n");
        }
        // The nodes are about evenly loaded.
        let most = cluster.servers.iter().map(Server::memory_bytes).max();
        assert!(most.is_some_and(|most| most < 64 * 96), "{most:?}");
        assert_eq!(cluster.events, []);
    }
}

/// Letters go between nodes that talk anyhow, and each takes the logarithm of their number of steps at most.
#[test]
fn a_letter_takes_few_steps() {
    for nodes in 2..=40_u32 {
        let mut cluster = Cluster::new(&vec![1; nodes as usize]);
        let steps = nodes.next_power_of_two().ilog2();
        for number in 0..10 {
            cluster.say(0, look_up(&number.to_string()).as_bytes());
            let mut frames = 0;
            while let Some((from, to)) = cluster.pairs_with_output().first().copied() {
                let frame = cluster.frame(from, to).expect("a letter");
                assert!(frame.len() < HEADER_BYTES + 64);
                cluster.deliver(to, &frame);
                frames += 1;
            }
            assert!(frames <= 2 * steps, "{frames} frames between {nodes} nodes");
            assert_ne!(cluster.hear(0), "");
        }
    }
}

/// A line behind one about a name is heard when that is answered, and not before.
#[test]
fn answers_come_in_order() {
    let mut cluster = Cluster::new(&[1, 1]);
    let name = kept_by(&mut cluster, 1);
    let lines = format!("{}cmd=get_appnum\n", look_up(&name));
    assert_eq!(cluster.say(0, lines.as_bytes()), look_up(&name).len());
    assert_eq!(cluster.say(0, b"cmd=get_appnum\n"), 0);
    cluster.settle();
    assert_eq!(cluster.hear(0), "cmd=lookup_result rc=-1 msg=name_is_not_published\n");
    assert_eq!(cluster.ask(0, "cmd=get_appnum"), "cmd=appnum appnum=0\n");
}

/// What is lost is asked for again, and a change is made once.
#[test]
fn a_change_is_made_once_whatever_is_lost() {
    let mut cluster = Cluster::new(&[1, 1]);
    let name = kept_by(&mut cluster, 1);
    cluster.say(0, publish(&name, "p").as_bytes());
    assert!(cluster.frame(0, 1).is_some(), "lost");
    assert_eq!(cluster.frame(0, 1), None);
    cluster.pass(PMI_ASK_NS);
    let question = cluster.frame(0, 1).expect("it is asked again");
    cluster.deliver(1, &question);
    assert!(cluster.frame(1, 0).is_some(), "lost");
    assert_eq!(cluster.hear(0), "");
    cluster.pass(PMI_ASK_NS);
    // By now it is published.
    assert_eq!(ask(&mut cluster, 1, &look_up(&name)), found("p"));
    cluster.settle();
    assert_eq!(cluster.hear(0), PUBLISHED);
    assert_eq!(ask(&mut cluster, 0, &unpublish(&name)), UNPUBLISHED);
    // What comes very late changes nothing.
    cluster.deliver(1, &question);
    cluster.settle();
    assert!(ask(&mut cluster, 1, &look_up(&name)).contains("name_is_not_published"));
    assert_eq!(cluster.servers[0].poll_timeout(), None, "nobody waits");
}

#[test]
fn a_keeper_that_is_silent_refuses() {
    let mut cluster = Cluster::new(&[2, 1, 1]);
    let (lost, other) = (kept_by(&mut cluster, 1), kept_by(&mut cluster, 2));
    cluster.say(0, publish(&lost, "p").as_bytes());
    cluster.say(1, look_up(&lost).as_bytes());
    let mut asked = 0;
    for _ in 0..PMI_SILENCE_NS / PMI_ASK_NS {
        assert_eq!((cluster.hear(0).as_str(), cluster.hear(1).as_str()), ("", ""));
        // To the keeper itself, or by the other node.
        asked += (1..3).map(|peer| std::iter::from_fn(|| cluster.frame(0, peer)).count() as u64).sum::<u64>();
        cluster.pass(PMI_ASK_NS);
    }
    assert_eq!(asked, PMI_SILENCE_NS / PMI_ASK_NS, "one question at a time");
    assert_eq!(cluster.hear(0), format!("cmd=publish_result {NO_ANSWER}"));
    assert_eq!(cluster.hear(1), format!("cmd=lookup_result {NO_ANSWER}"));
    // The job goes on, and what other nodes keep is there.
    assert_eq!(cluster.events, []);
    assert_eq!(ask(&mut cluster, 0, &publish(&other, "q")), PUBLISHED);
}

/// Nobody knows yet that it is gone, and letters that it was to hand on are lost with it.
#[test]
fn a_silent_node_on_the_way_is_gone_round() {
    for (nodes, silent) in [(5, 4), (8, 4), (8, 6), (16, 8), (16, 12)] {
        for keeper in (1..nodes).filter(|keeper| *keeper != silent) {
            let mut cluster = Cluster::new(&vec![1; nodes]);
            let name = kept_by(&mut cluster, keeper);
            cluster.say(0, publish(&name, "p").as_bytes());
            let mut heard = String::new();
            for _ in 0..4 {
                heard = settle_without(&mut cluster, silent);
                if !heard.is_empty() {
                    break;
                }
                cluster.pass(PMI_ASK_NS);
            }
            assert_eq!(heard, PUBLISHED, "node {keeper} of {nodes}");
        }
    }
}

/// What is said to that node or by it is lost. What the first rank hears then.
fn settle_without(cluster: &mut Cluster, silent: usize) -> String {
    loop {
        let pairs = cluster.pairs_with_output();
        if pairs.is_empty() {
            return cluster.hear(0);
        }
        for (from, to) in pairs {
            while let Some(frame) = cluster.frame(from, to) {
                if ![from, to].contains(&silent) {
                    cluster.deliver(to, &frame);
                }
            }
        }
    }
}

#[test]
fn limits_are_kept() {
    let mut cluster = Cluster::new(&[1]);
    let (name, port) = ("n".repeat(PMI_NAME_BYTES_MAX), "p".repeat(PMI_PORT_NAME_BYTES_MAX));
    assert_eq!(ask(&mut cluster, 0, &publish(&name, &port)), PUBLISHED);
    assert_eq!(ask(&mut cluster, 0, &look_up(&name)), found(&port));
    let refused = |why: &str| format!("cmd=publish_result rc=-1 msg={why}\n");
    assert_eq!(ask(&mut cluster, 0, &publish(&format!("{name}n"), "p")), refused("no_name_or_too_long"));
    assert_eq!(ask(&mut cluster, 0, &publish("a", &format!("{port}p"))), refused("port_too_long"));
    for number in 1..PMI_NAMES_MAX {
        assert_eq!(ask(&mut cluster, 0, &publish(&number.to_string(), "")), PUBLISHED);
    }
    assert_eq!(ask(&mut cluster, 0, &publish("more", "")), refused("no_room_for_names"));
    assert!(cluster.servers[0].memory_bytes() > PMI_NAMES_MAX * 190);
    assert_eq!(ask(&mut cluster, 0, &unpublish(&name)), UNPUBLISHED);
    assert_eq!(ask(&mut cluster, 0, &publish("more", "")), PUBLISHED);
    // There is no memory on the node, and then there is.
    assert_eq!(ask(&mut cluster, 0, &unpublish("more")), UNPUBLISHED);
    cluster.servers[0].set_room_for_names(false);
    assert_eq!(ask(&mut cluster, 0, &publish("more", "")), refused("no_room_for_names"));
    cluster.servers[0].set_room_for_names(true);
    assert_eq!(ask(&mut cluster, 0, &publish("more", "")), PUBLISHED);
    // Nor are letters handed on.
    let mut cluster = Cluster::new(&[1, 1]);
    let name = kept_by(&mut cluster, 1);
    cluster.servers[1].set_room_for_names(false);
    assert_eq!(ask(&mut cluster, 0, &look_up(&name)), "");
    cluster.servers[1].set_room_for_names(true);
    cluster.pass(PMI_ASK_NS);
    cluster.settle();
    assert!(cluster.hear(0).contains("name_is_not_published"));
}

/// Threads of a rank of version 2 may want something at once.
#[test]
fn a_rank_has_so_many_wishes() {
    let mut cluster = Cluster::new(&[1, 1]);
    let name = kept_by(&mut cluster, 1);
    cluster.ask(0, "cmd=init pmi_version=2 pmi_subversion=0");
    let wish = |thread: usize| {
        let text = format!("cmd=name-lookup;thrid={thread};name={name};");
        format!("{:6}{text}", text.len())
    };
    for thread in 0..PMI_ASKS_MAX {
        cluster.say(0, wish(thread).as_bytes());
    }
    assert_eq!(cluster.hear(0), "");
    cluster.say(0, wish(99).as_bytes());
    assert!(cluster.hear(0).ends_with("cmd=name-lookup-response;thrid=99;rc=-1;errmsg=too_many_wait;"));
    cluster.settle();
    let heard = cluster.hear(0);
    for thread in 0..PMI_ASKS_MAX {
        assert!(heard.contains(&format!("name-lookup-response;thrid={thread};found=FALSE;rc=-1;")), "{heard}");
    }
    cluster.say(0, wish(99).as_bytes());
    cluster.settle();
    assert!(cluster.hear(0).contains("thrid=99;found=FALSE"));
}

/// Whatever is on its way when a job is written down, it goes on as if nothing had been.
#[test]
fn names_and_questions_are_there_again() {
    for frames in 0..5 {
        let mut cluster = Cluster::new(&[1, 1, 1, 1]);
        let (mine, kept) = (kept_by(&mut cluster, 3), kept_by(&mut cluster, 2));
        assert_eq!(ask(&mut cluster, 2, &publish(&kept, "old")), PUBLISHED);
        cluster.say(0, publish(&mine, "new").as_bytes());
        for _ in 0..frames {
            let Some((from, to)) = cluster.pairs_with_output().first().copied() else { break };
            let frame = cluster.frame(from, to).expect("a letter");
            cluster.deliver(to, &frame);
        }
        let mut cluster = cluster.again();
        cluster.settle();
        assert_eq!(cluster.hear(0), PUBLISHED, "after {frames} frames");
        for rank in 0..4 {
            assert_eq!(ask(&mut cluster, rank, &look_up(&mine)), found("new"));
            assert_eq!(ask(&mut cluster, rank, &look_up(&kept)), found("old"));
        }
    }
}

/// Nodes are written down one after the other. What one does after that must not be known to another that is written
/// down later.
#[test]
fn who_is_written_down_does_nothing_for_others() {
    let mut cluster = Cluster::new(&[1, 1]);
    let name = kept_by(&mut cluster, 1);
    cluster.say(0, publish(&name, "p").as_bytes());
    let keeper = cluster.write_down(1);
    cluster.settle();
    cluster.pass(PMI_ASK_NS);
    cluster.settle();
    let asker = cluster.write_down(0);
    let mut again = cluster.again_from(&[asker, keeper]);
    again.settle();
    assert_eq!(again.hear(0), PUBLISHED);
    assert_eq!(ask(&mut again, 1, &look_up(&name)), found("p"));
    // And where it has happened, too, the ranks go on.
    assert_eq!(cluster.hear(0), "");
    cluster.go_on();
    cluster.pass(PMI_ASK_NS);
    cluster.settle();
    assert_eq!(cluster.hear(0), PUBLISHED);
}

/// Nodes are made again one after the other. One that is not yet has nothing to say about what it kept.
#[test]
fn who_is_not_made_again_yet_is_waited_for() {
    let mut cluster = Cluster::new(&[1, 1]);
    let name = kept_by(&mut cluster, 1);
    assert_eq!(ask(&mut cluster, 0, &publish(&name, "old")), PUBLISHED);
    cluster.say(0, look_up(&name).as_bytes());
    let written = [cluster.write_down(0), cluster.write_down(1)];
    let mut again = cluster.again_from(&written);
    let placement = again.servers[0].placement().clone();
    let node = placement.place(1).expect("the second").node;
    let mut late = Server::new(JobId(1), &[43; 32], placement, node).expect("a place");
    late.await_record();
    again.servers[1] = late;
    again.settle();
    assert_eq!(again.hear(0), "");
    let record = postcard::from_bytes(&written[1]).expect("as written");
    again.servers[1].restore(record, again.now_ns).expect("fits");
    again.pass(PMI_ASK_NS);
    again.settle();
    assert_eq!(again.hear(0), found("old"));
    assert_eq!(ask(&mut again, 0, &publish(&name, "new")), "cmd=publish_result rc=-1 msg=name_is_published\n");
}
