//! Jobs that go on without some of their ranks.

use coppice_protocol::control::Exit;
use coppice_protocol::ids::Rank;
use coppice_protocol::limits::{PMI_ASK_NS, PMI_SILENCE_NS};
use coppice_protocol::pmi::{Conversation, Event, Failure};
use coppice_protocol::pmix::{Dialect, Status, Value};

use crate::nodes::{Nodes, SECOND_NS};

/// What a rank is told unasked has this tag.
const UNASKED: u32 = 0;

/// The statuses that a rank hears, in order, and how much it is told unasked.
fn hears(nodes: &mut Nodes, rank: u32) -> (Vec<Status>, usize) {
    let (told, answers): (Vec<_>, Vec<_>) = nodes.hear(rank).into_iter().partition(|(tag, _)| *tag == UNASKED);
    (answers.iter().map(|(_, answer)| nodes.status(answer)).collect(), told.len())
}

fn statuses(nodes: &mut Nodes, rank: u32) -> Vec<Status> {
    let (statuses, told) = hears(nodes, rank);
    assert_eq!(told, 0, "{rank}");
    statuses
}

fn outliving(counts: &[u32]) -> Nodes {
    let mut nodes = Nodes::new(counts, Dialect::Short);
    nodes.servers.iter_mut().for_each(|server| server.set_outlives_ranks());
    nodes
}

/// A rank says that it is there.
fn begin(nodes: &mut Nodes, rank: u32) {
    nodes.say(rank, &crate::nodes::greeting(crate::nodes::SPACE, rank, "v41"));
    nodes.hear_bytes(rank);
}

fn end(nodes: &mut Nodes, rank: u32, exit: Exit) {
    let node = nodes.clients[&rank].0;
    nodes.servers[node].rank_ended(Rank(rank), exit, nodes.now_ns);
    nodes.pass(0);
    nodes.settle();
}

/// Wherever the rank was, and whether the others wait already or will.
#[test]
fn others_are_told_in_a_fence_of_all_and_meet_without_the_rank() {
    for counts in [&[4][..], &[2, 2], &[1; 4], &[1, 3]] {
        for lost in 0..4 {
            let mut nodes = outliving(counts);
            let (all, collecting) = (nodes.fence(&[]), nodes.fence(&[("pmix.collect", Value::Truth(true))]));
            let others: Vec<u32> = (0..4).filter(|rank| *rank != lost).collect();
            let asked = nodes.register(&[Status::PROC_ABORTED.0]);
            for rank in &others {
                assert_eq!(nodes.ask_status(*rank, &asked), Status::SUCCESS);
            }
            // One fence that all have come to, and one that some wait in.
            for rank in 0..4 {
                nodes.call(rank, &all);
            }
            nodes.settle();
            for rank in 0..4 {
                assert_eq!(statuses(&mut nodes, rank), [Status::SUCCESS]);
            }
            for rank in &others[1..] {
                nodes.call(*rank, &collecting);
                nodes.settle();
            }
            end(&mut nodes, lost, Exit::Signal(11));
            for rank in &others {
                let wanted = if *rank == others[0] { vec![] } else { vec![Status::UNREACHABLE] };
                assert_eq!(hears(&mut nodes, *rank), (wanted, 1), "{counts:?} {lost} {rank}");
                assert_eq!(nodes.ask_status(*rank, &all), Status::UNREACHABLE, "the next one");
            }
            let rest = nodes.fence_of(&others, &[]);
            for rank in &others {
                nodes.call(*rank, &rest);
            }
            nodes.settle();
            for rank in &others {
                assert_eq!(statuses(&mut nodes, *rank), [Status::SUCCESS], "{counts:?} {lost} {rank}");
            }
            // It says nothing any more, and nobody ends the job for that.
            for _ in 0..3 {
                nodes.pass(PMI_SILENCE_NS);
                nodes.settle();
            }
            let finalize = nodes.command(5);
            for rank in &others {
                assert_eq!(nodes.ask_status(*rank, &finalize), Status::SUCCESS);
                end(&mut nodes, *rank, Exit::Status(0));
            }
            assert!(nodes.events.is_empty(), "{:?}", nodes.events);
            assert!(nodes.servers.iter().all(|server| server.poll_timeout().is_none()), "nothing is left behind");
        }
    }
}

/// One that has not begun is lost if it fails; if it does not it is no rank of this kind, and waiting for it is wrong.
#[test]
fn a_rank_that_never_spoke_is_lost_if_it_fails() {
    for (exit, fails) in [(Exit::Status(3), false), (Exit::Signal(6), false), (Exit::Status(0), true)] {
        let mut nodes = Nodes::silent(&[1, 1], Dialect::Short);
        nodes.servers.iter_mut().for_each(|server| server.set_outlives_ranks());
        nodes.say(0, &crate::nodes::greeting(crate::nodes::SPACE, 0, "v41"));
        nodes.hear_bytes(0);
        let fence = nodes.fence(&[]);
        nodes.call(0, &fence);
        nodes.settle();
        end(&mut nodes, 1, exit);
        if fails {
            assert!(matches!(nodes.events[..], [Event::Failed(Failure::Missing { rank: Rank(1), .. })]));
        } else {
            assert_eq!((statuses(&mut nodes, 0), &nodes.events[..]), (vec![Status::UNREACHABLE], &[][..]), "{exit:?}");
        }
    }
}

/// However late a node comes to the job, it hears which ranks have ended, whatever else is said, too, and then what is
/// said after that, in its order.
#[test]
fn a_node_that_comes_late_hears_of_a_rank_that_has_ended() {
    for said_before in [0, 1, 3] {
        for late in 0..4 {
            let mut nodes = Nodes::silent(&[1; 4], Dialect::Short);
            let (lost, speaker, third) = ((late + 1) % 4, (late + 2) % 4, (late + 3) % 4);
            for server in &mut nodes.servers {
                server.trust_nodes();
                server.set_outlives_ranks();
            }
            for rank in [lost, speaker, third] {
                begin(&mut nodes, rank);
            }
            let says = |nodes: &mut Nodes, by: u32, code: i32| {
                let call = nodes.notify(code, 5, &[]);
                assert_eq!(nodes.ask_status(by, &call), Status::SUCCESS);
                nodes.settle_without(late as usize);
            };
            (0..said_before).for_each(|code| says(&mut nodes, lost, -5000 - code));
            let lost_on = nodes.clients[&lost].0;
            nodes.servers[lost_on].rank_ended(Rank(lost), Exit::Signal(11), nodes.now_ns);
            says(&mut nodes, speaker, -6000);
            let mut passed = 0;
            while passed < 3 * PMI_SILENCE_NS {
                nodes.settle_without(late as usize);
                nodes.pass(PMI_ASK_NS);
                passed += PMI_ASK_NS;
            }
            says(&mut nodes, speaker, -6001);
            begin(&mut nodes, late);
            let asked = nodes.register(&[]);
            assert_eq!(nodes.ask_status(late, &asked), Status::SUCCESS);
            let all = nodes.fence(&[]);
            nodes.call(late, &all);
            for _ in 0..8 {
                nodes.settle();
                nodes.pass(PMI_ASK_NS);
            }
            let (answers, told) = hears(&mut nodes, late);
            assert_eq!((answers, told), (vec![Status::UNREACHABLE], said_before as usize + 3), "{said_before} {late}");
            for code in [-6002, -6003] {
                let call = nodes.notify(code, 5, &[]);
                assert_eq!(nodes.ask_status(speaker, &call), Status::SUCCESS);
                nodes.settle();
                let heard = nodes.hear(late);
                let codes: Vec<i32> = heard.iter().map(|(_, body)| nodes.understand(body).code).collect();
                assert_eq!(codes, [code], "{said_before} {late}");
            }
        }
    }
}

/// A client of PMI 1 has no word for it: its job ends, whether it waits when it happens or later.
#[test]
fn the_job_ends_if_somebody_waits_who_cannot_be_told() {
    for waits_before in [true, false] {
        let mut nodes = Nodes::silent(&[1, 1], Dialect::Short);
        nodes.servers.iter_mut().for_each(|server| server.set_outlives_ranks());
        let mut other = Conversation::on_descriptor(Rank(1));
        let say = |nodes: &mut Nodes, other: &mut Conversation, line: &[u8]| {
            let now_ns = nodes.now_ns;
            assert_eq!(other.handle_bytes(line, &mut nodes.servers[1], now_ns), line.len());
        };
        say(&mut nodes, &mut other, b"cmd=init pmi_version=1 pmi_subversion=1\n");
        if waits_before {
            say(&mut nodes, &mut other, b"cmd=barrier_in\n");
        }
        end(&mut nodes, 0, Exit::Signal(9));
        if !waits_before {
            assert_eq!(nodes.events, []);
            say(&mut nodes, &mut other, b"cmd=barrier_in\n");
        }
        nodes.pass(SECOND_NS);
        let [Event::Failed(failure @ Failure::Missing { .. })] = &nodes.events[..] else {
            panic!("{:?}", nodes.events)
        };
        let reason = "rank 0 on node 0 was ended by signal 9, and other ranks wait for it in a PMI barrier";
        assert_eq!((failure.to_string().as_str(), failure.code()), (reason, 137));
    }
}

#[test]
fn otherwise_it_ends_with_the_rank() {
    let mut nodes = Nodes::new(&[1, 1], Dialect::Short);
    end(&mut nodes, 1, Exit::Signal(9));
    assert!(matches!(nodes.events[..], [Event::Failed(Failure::NotFinalized { rank: Rank(1), .. })]));
}

/// A rank has ended, and others make a call with it one after the other, whoever comes first: each is told for each
/// call, and none waits for what another one does later.
#[test]
fn each_member_is_told_of_each_call_with_a_rank_that_is_lost() {
    for counts in [&[2, 2, 2][..], &[3, 3], &[2, 1, 2, 1], &[1; 6]] {
        for lost in 0..6 {
            for first in 0..5 {
                let mut nodes = outliving(counts);
                end(&mut nodes, lost, Exit::Status(3));
                let others: Vec<u32> = (0..6).filter(|rank| *rank != lost).collect();
                let (members, rest): (Vec<u32>, Vec<u32>) = (0..6).partition(|rank| *rank < 5 || lost == 5);
                assert!(rest.len() < 2);
                // One is no member where all would be a fence of the whole job.
                let members = if members.len() == 6 { vec![1, 2, 3, 4, 5] } else { members };
                let fence = nodes.fence_of(&members, &[]);
                let order = (0..5).map(|place| others[(place + first) % 5]).filter(|rank| members.contains(rank));
                let order: Vec<u32> = order.collect();
                for _ in 0..2 {
                    let mut waiting = Vec::new();
                    for rank in &order {
                        nodes.call(*rank, &fence);
                        nodes.settle();
                        waiting.push(*rank);
                        waiting.retain(|rank| {
                            let heard = statuses(&mut nodes, *rank);
                            assert!(heard.iter().all(|status| *status == Status::UNREACHABLE));
                            heard.is_empty()
                        });
                    }
                    for _ in 0..3 {
                        nodes.pass(PMI_ASK_NS);
                        nodes.settle();
                        waiting.retain(|rank| statuses(&mut nodes, *rank) != [Status::UNREACHABLE]);
                    }
                    assert_eq!(waiting, [], "{counts:?} {lost} {first}");
                }
            }
        }
    }
}
