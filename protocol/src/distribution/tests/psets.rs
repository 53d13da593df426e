//! Whole transfers to members of several psets.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any};
use proptest::proptest;

use super::troubles;
use super::world::{Network, SOUND, Trouble, World, plan_of_psets};
use crate::distribution::{Effect, HOME, Machine, Message, Plan};
use crate::limits::PIECES_UNDER_WAY_MAX;

/// Psets of several sizes, of one node and of none.
const PSETS: [&[u32]; 7] = [&[4, 4], &[1, 1, 1], &[2, 5, 1, 4], &[7, 7, 7, 7, 7], &[0, 3], &[3, 0, 2], &[5]];

/// Packets of the whole file.
fn packets(plan: &Plan) -> u64 {
    (0..plan.pieces()).map(|piece| u64::from(plan.packets(piece).count())).sum()
}

/// The I/O nodes have the file.
fn held(plan: &Plan) -> BTreeMap<u32, Trouble> {
    plan.topology.io_nodes().map(|member| (member, Trouble::Holds(1))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_order_loss_and_doubling_ends_in_the_right_bytes(
        (bytes, nodes, is_held) in (1..20_000_u64, vec(0..8_u32, 2..6), any::<bool>()),
        (lost, doubled, changed, late_ns) in (0..60_u64, 0..60_u64, 0..20_u64, 0..20_000_u64),
        troubles in troubles(),
        (seed, all_leave) in any::<(u64, bool)>(),
    ) {
        let plan = plan_of_psets(bytes, &nodes);
        let held = held(&plan).into_iter().filter(|_| is_held);
        let troubles = held.chain(troubles).filter(|(member, _)| *member <= plan.members).collect();
        let network = Network { lost, doubled, changed, late_ns };
        let mut world = World::new(&plan, network, troubles, seed);
        world.all_leave = all_leave;
        world.run().check()?;
    }
}

#[test]
fn bytes_enter_a_pset_once() {
    for nodes in PSETS {
        let plan = plan_of_psets(40_000, nodes);
        let world = World::new(&plan, SOUND, BTreeMap::new(), 1).run();
        world.check().expect("it is there");
        let all = packets(&plan);
        let expected: Vec<u64> = (0..nodes.len()).map(|pset| if pset == 0 { 0 } else { all }).collect();
        assert_eq!(world.entered, expected, "{nodes:?}");
        let home = world.machines[0].as_ref().expect("home");
        assert_eq!(home.progress(), (plan.pieces(), nodes.iter().sum()), "I/O nodes are not counted");
    }
}

#[test]
fn io_nodes_that_have_the_file_are_sent_nothing_and_serve_their_psets() {
    for nodes in PSETS {
        let plan = plan_of_psets(100_000, nodes);
        let world = World::new(&plan, SOUND, held(&plan), 1).run();
        world.check().expect("it is there");
        // What was on the way to them when they said so.
        let most = 2 * PIECES_UNDER_WAY_MAX as u64 * u64::from(plan.packets(0).count());
        assert!(world.entered.iter().all(|entered| *entered <= most), "{nodes:?}: {:?}", world.entered);
    }
}

#[test]
fn what_is_missing_is_asked_of_the_same_pset_until_somebody_there_lacks_it() {
    let plan = plan_of_psets(30_000, &[15; 3]);
    let me = plan.topology.member((1, 7));
    let mut machine = Machine::new(&plan, me, 1, 0).expect("memory");
    let asked = |machine: &mut Machine| -> Vec<(u32, u32)> {
        let asked = core::iter::from_fn(|| machine.take()).filter_map(|effect| match effect {
            Effect::Say { to, message: Message::Ask { piece, .. } } => Some((to, piece)),
            _ => None,
        });
        asked.collect()
    };
    // All should have it by then.
    let now_ns = 2_000_000;
    machine.heard(HOME, Message::Probe, now_ns, now_ns);
    machine.heard(plan.two_trees().parent(0, me), Message::Dropped { tree: 0 }, now_ns, now_ns);
    machine.advance(now_ns);
    let first = asked(&mut machine);
    assert!(!first.is_empty() && first.iter().all(|(of, _)| !plan.topology.is_across(me, *of)), "{first:?}");
    for (of, piece) in first {
        machine.heard(of, Message::NotHere { piece: Some(piece) }, now_ns, now_ns);
    }
    let across = (1..200).any(|turn| {
        machine.advance(now_ns + turn * 10_000);
        asked(&mut machine).iter().any(|(of, _)| *of != HOME && plan.topology.is_across(me, *of))
    });
    assert!(across, "perhaps all of the pset lack it");
}

#[test]
fn what_is_lost_hardly_enters_a_pset_again() {
    let plan = plan_of_psets(100_000, &[8; 4]);
    for seed in 1..4 {
        let network = Network { lost: 10, ..SOUND };
        let world = World::new(&plan, network, BTreeMap::new(), seed).run();
        world.check().expect("it is there");
        let most = packets(&plan) * 3 / 2;
        assert!(world.entered.iter().all(|entered| *entered <= most), "{:?} of {most}", world.entered);
    }
}

#[test]
fn an_io_node_that_dies_at_any_time_costs_its_pset_nothing_but_time() {
    for nodes in [&[4_u32, 4, 4][..], &[1, 1, 1, 1], &[5, 2, 9, 1]] {
        let plan = plan_of_psets(60_000, nodes);
        for dead in plan.topology.io_nodes() {
            for (step, is_held) in (0..3).flat_map(|step| [(step, false), (step, true)]) {
                let mut troubles = if is_held { held(&plan) } else { BTreeMap::new() };
                // Before anything came, and while pieces do.
                troubles.insert(dead, Trouble::Dies(step * 25_000));
                let world = World::new(&plan, SOUND, troubles, step + 1).run();
                world.check().expect("all others are whole");
                // Nothing starts again: somebody else sends the rest, and what is asked for meanwhile. What was sent to
                // the one that is dead before others found that out came to nothing.
                let most = packets(&plan) + 2 * (PIECES_UNDER_WAY_MAX as u64 + 10) * u64::from(plan.packets(0).count());
                let entered = world.entered[plan.topology.place(dead).0 as usize];
                assert!(entered <= most, "{dead} of {nodes:?} at {step}: {entered} of {most}");
            }
        }
    }
}
