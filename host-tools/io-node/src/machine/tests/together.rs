//! Ranks of a node that are launched with one order, and what is told of many at once.

use coppice_protocol::checkpoint::ObjectId;
use coppice_protocol::control::{Ends, Exit, Launch, NodeRestore, RankReport, ToIoNode, ToNode};
use coppice_protocol::ids::{NodeId, Rank};
use coppice_protocol::limits::ENDS_BYTES_MAX;
use coppice_protocol::personality::NodeKey;
use coppice_protocol::pset::{FromPset, Member, NodeEnds, StartJob};
use coppice_protocol::ranks::Ranks;
use coppice_protocol::retain::{HeldAs, RetainedProgram};
use coppice_protocol::session::Channel;
use coppice_protocol::world::{JobKey, World};

use super::{Effect, JOB, Machine, PlaceId, Wire, at, is_ready, job, node_ends, ready, start_this};
use crate::machine::Disconnected;

const PER_NODE: u32 = 4;

/// A job with four ranks on each of two nodes.
fn two_nodes() -> StartJob {
    let member = |node: u32| Member {
        node: NodeId(node),
        first: Rank(node * PER_NODE),
        count: PER_NODE,
        use_retained: false,
        restore: None,
    };
    let world = World::new(JobKey([7; 32]), PER_NODE, (0..2).map(NodeId));
    StartJob { size: 2 * PER_NODE, members: vec![member(0), member(1)], world, ..job() }
}

fn cluster(job: StartJob) -> (Machine, Vec<[Wire; 2]>, PlaceId) {
    let mut machine = Machine::default();
    let wires = (0..2).map(|number| ready(&mut machine, number)).collect();
    let place = start_this(&mut machine, job);
    (machine, wires, place)
}

fn launches(orders: Vec<ToNode>) -> Vec<Launch> {
    let launches = orders.into_iter().filter_map(|order| match order {
        ToNode::Launch(launch) => Some(launch),
        _ => None,
    });
    launches.collect()
}

fn reports(ranks: impl IntoIterator<Item = u32>) -> Vec<RankReport> {
    ranks.into_iter().map(|rank| RankReport::ended(JOB, Rank(rank), Exit::Status(0))).collect()
}

fn said(machine: &mut Machine) -> Vec<FromPset> {
    std::iter::from_fn(|| machine.next_message(at(9))).collect()
}

/// Their files are closed.
fn close(machine: &mut Machine) {
    let effects: Vec<Effect> = std::iter::from_fn(|| machine.next_effect()).collect();
    for effect in effects {
        if let Effect::Close { place, rank, .. } = effect {
            machine.closed(place, rank, at(9));
        }
    }
}

#[test]
fn a_node_is_told_once_of_all_its_ranks_and_over_the_next_connection_of_those_that_have_not_ended() {
    let (mut machine, mut wires, _) = cluster(two_nodes());
    for (node, [control, _]) in (0..).zip(&mut wires) {
        let launches = launches(control.orders(&mut machine, at(0)));
        let ranges: Vec<_> = launches.iter().map(|launch| (launch.first.0, launch.count)).collect();
        assert_eq!(ranges, [(node * PER_NODE, PER_NODE)]);
    }
    wires[1][0].say(&ToIoNode::Ended(Ends { held: Vec::new(), reports: reports([5]) }));
    wires[1][0].exchange(&mut machine, at(1));
    machine.disconnected(wires[1][0].line, Disconnected::Closed, at(2));
    let mut again = Wire::connect(&mut machine, Channel::Control, NodeId(1), &NodeKey([7; 32]));
    again.say(&is_ready());
    let launches = launches(again.orders(&mut machine, at(3)));
    assert_eq!(launches.iter().map(|launch| (launch.first.0, launch.count)).collect::<Vec<_>>(), [(4, 1), (6, 2)]);
}

#[test]
fn ranks_that_go_on_from_a_checkpoint_each_have_their_part_also_over_the_next_connection() {
    let object = |number: u8| ObjectId([number; 32]);
    let mut spec = two_nodes();
    spec.members[1].restore =
        Some(NodeRestore { node: object(9), ranks: (4..8).map(object).collect(), by: 3, keep_files: true });
    let (mut machine, mut wires, _) = cluster(spec);
    let parts = |launches: Vec<Launch>| -> Vec<ObjectId> {
        launches.into_iter().flat_map(|launch| launch.restore.expect("a part").ranks).collect()
    };
    assert!(launches(wires[0][0].orders(&mut machine, at(0))).iter().all(|launch| launch.restore.is_none()));
    assert_eq!(parts(launches(wires[1][0].orders(&mut machine, at(0)))), [4, 5, 6, 7].map(object));
    wires[1][0].say(&ToIoNode::Ended(Ends { held: Vec::new(), reports: reports([4, 6]) }));
    wires[1][0].exchange(&mut machine, at(1));
    machine.disconnected(wires[1][0].line, Disconnected::Closed, at(2));
    let mut again = Wire::connect(&mut machine, Channel::Control, NodeId(1), &NodeKey([7; 32]));
    again.say(&is_ready());
    assert_eq!(parts(launches(again.orders(&mut machine, at(3)))), [5, 7].map(object));
}

#[test]
fn launches_and_ends_of_several_nodes_are_told_in_one_message_each() {
    let (mut machine, mut wires, _) = cluster(two_nodes());
    let held = RetainedProgram { program: job().program, pages: 3, bytes: 4096, held_as: HeldAs::Table };
    for (node, [control, _]) in (0..2_u32).zip(&mut wires) {
        let own = node * PER_NODE..(node + 1) * PER_NODE;
        control.say(&ToIoNode::Launched { job: JOB, ranks: Ranks::range(Rank(own.start), PER_NODE) });
        control.exchange(&mut machine, at(1));
        control.say(&ToIoNode::Ended(Ends { held: vec![held], reports: reports(own) }));
        control.exchange(&mut machine, at(2));
        close(&mut machine);
    }
    let told = said(&mut machine);
    let [FromPset::Launched { job: JOB, ranks }, FromPset::Ended(ends)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(*ranks, Ranks::range(Rank(0), 2 * PER_NODE));
    let of =
        |node: u32, ranks| NodeEnds { node: NodeId(node), ends: Ends { held: vec![held], reports: reports(ranks) } };
    assert_eq!(*ends, [of(0, 0..4), of(1, 4..8)]);
    // What was taken is told, and what comes then is another message.
    wires[0][0].say(&ToIoNode::Launched { job: JOB, ranks: Ranks::range(Rank(0), PER_NODE) });
    wires[0][0].exchange(&mut machine, at(3));
    assert!(!machine.has_messages(), "it was told, and they have ended");
}

/// What it says of the others, or of the same twice, is not passed on.
#[test]
fn a_node_speaks_for_its_own_ranks_only() {
    let (mut machine, mut wires, _) = cluster(two_nodes());
    let control = &mut wires[0][0];
    control.say(&ToIoNode::Launched { job: JOB, ranks: Ranks::range(Rank(2), u32::MAX - 2) });
    control.say(&ToIoNode::Launched { job: JOB, ranks: Ranks::range(Rank(1), 2) });
    control.exchange(&mut machine, at(1));
    let told = said(&mut machine);
    let [FromPset::Launched { job: JOB, ranks }] = &told[..] else { panic!("{told:?}") };
    assert_eq!(*ranks, Ranks::range(Rank(1), 3));
    control.say(&ToIoNode::Ended(Ends { held: Vec::new(), reports: reports([3, 4, 3, 9]) }));
    control.exchange(&mut machine, at(2));
    close(&mut machine);
    let told = said(&mut machine);
    let [FromPset::Ended(ends)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(*ends, [node_ends(0, reports([3]))]);
}

#[test]
fn what_is_told_together_has_a_limit() {
    let (mut machine, mut wires, _) = cluster(two_nodes());
    let reason = "x".repeat(ENDS_BYTES_MAX / 3);
    for (node, [control, _]) in (0..2_u32).zip(&mut wires) {
        for rank in node * PER_NODE..(node + 1) * PER_NODE {
            let report =
                RankReport { reason: Some(reason.clone()), ..RankReport::ended(JOB, Rank(rank), Exit::Status(1)) };
            control.say(&ToIoNode::Ended(Ends { held: Vec::new(), reports: vec![report] }));
            control.exchange(&mut machine, at(1));
            close(&mut machine);
            control.exchange(&mut machine, at(1));
        }
    }
    let mut ranks = Vec::new();
    for message in said(&mut machine) {
        let FromPset::Ended(ends) = message else { panic!("{message:?}") };
        let bytes: usize = ends.iter().map(|of| of.ends.bytes()).sum();
        assert!(bytes <= ENDS_BYTES_MAX, "{bytes}");
        ranks.extend(ends.iter().flat_map(|of| &of.ends.reports).map(|report| report.rank.0));
    }
    assert!(ranks.into_iter().eq(0..2 * PER_NODE));
}
