//! Whole transfers in a small world, and what members do one by one.

mod psets;
mod world;

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use proptest::collection::btree_map;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};

pub(super) use self::world::plan;
use self::world::{Network, SECOND_NS, SOUND, Trouble, World, key};
use super::packet::{Content, Envelope, TransferKey, decode, encode};
use super::{AskVariant, Effect, HOME, Link, Machine, MemberRanges, Message, Outcome};
use super::{PacketSet, PieceSet, Plan, PlanError, Scheme};
use crate::limits::LOOK_NS_MIN;
use crate::trees::Topology;

const BRANCHES: Scheme = Scheme::Branches { branches: u32::MAX, layers: 2, ask: AskVariant::PieceFirst };

fn schemes() -> impl Strategy<Value = Scheme> {
    prop_oneof![
        3 => Just(Scheme::TwoTrees),
        1 => Just(BRANCHES),
        1 => Just(Scheme::Branches { branches: u32::MAX, layers: 3, ask: AskVariant::NodeFirst }),
        1 => (1..40_u32).prop_map(Scheme::published),
    ]
}

fn troubles() -> impl Strategy<Value = BTreeMap<u32, Trouble>> {
    let trouble = prop_oneof![
        3 => (0..400_000_u64).prop_map(Trouble::Dies),
        1 => (0..2_000_000_u64).prop_map(Trouble::Late),
        1 => Just(Trouble::Lies),
        1 => (1..4_u32).prop_map(Trouble::Holds),
    ];
    btree_map(1..24_u32, trouble, 0..5)
}

fn messages() -> impl Strategy<Value = Message> {
    let piece = || proptest::option::of(0..30_u32);
    let members = proptest::collection::vec((1..=9_u32, 1..=9_u32), 0..4).prop_map(|ranges| {
        let mut members = MemberRanges::none();
        ranges.into_iter().for_each(|(first, last)| {
            members.add(first, last);
        });
        members
    });
    prop_oneof![
        (0..30_u32, any::<u64>()).prop_map(|(piece, packets)| Message::Ask { piece, packets: PacketSet(packets) }),
        any::<u64>().prop_map(|word| {
            let has = PieceSet::of_words(30, [word].into_iter()).expect("memory");
            Message::AskAny { has }
        }),
        piece().prop_map(|piece| Message::NotHere { piece }),
        piece().prop_map(|piece| Message::Busy { piece }),
        (0..2_u8).prop_map(|tree| Message::Leave { tree }),
        (0..2_u8, 0..30_u32, any::<(u32, bool)>()).prop_map(|(tree, first, (instead_of, is_sure))| Message::Adopt {
            tree,
            instead_of,
            first,
            is_sure
        }),
        (0..2_u8, any::<u32>()).prop_map(|(tree, who)| Message::Failing { tree, who }),
        (0..2_u8).prop_map(|tree| Message::Adopted { tree }),
        members.prop_map(|members| Message::Whole { members }),
        any::<u32>().prop_map(|count| Message::Heard { count }),
        (0..30_u32, any::<u32>()).prop_map(|(piece, open)| Message::Arrived { piece, open }),
        (0..2_u8).prop_map(|tree| Message::Dropped { tree }),
        Just(Message::Probe),
        Just(Message::Over),
        any::<u32>().prop_map(|pieces| Message::Present { pieces }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_order_loss_and_doubling_ends_in_the_right_bytes(
        (bytes, members, scheme) in (1..20_000_u64, 1..24_u32, schemes()),
        (lost, doubled, changed, late_ns) in (0..60_u64, 0..60_u64, 0..20_u64, 0..20_000_u64),
        troubles in troubles(),
        (seed, all_leave) in any::<(u64, bool)>(),
    ) {
        let troubles = troubles.into_iter().filter(|(member, _)| *member <= members).collect();
        let network = Network { lost, doubled, changed, late_ns };
        let mut world = World::new(&plan(bytes, members, scheme), network, troubles, seed);
        world.all_leave = all_leave;
        world.run().check()?;
    }

    #[test]
    fn messages_come_as_they_were_sent(message in messages(), elapsed_ns: u64, flip: proptest::sample::Index) {
        let plan = plan(30_000, 9, Scheme::TwoTrees);
        let envelope = Envelope { from: 1, to: 3, elapsed_ns };
        let mut datagram = encode(plan.transfer, &key(), envelope, &Content::Message(message.clone())).expect("memory");
        prop_assert_eq!(decode(&plan, &key(), 3, &datagram), Ok((envelope, Content::Message(message))));
        prop_assert!(decode(&plan, &TransferKey::new([8; 32]), 3, &datagram).is_err(), "with another key");
        prop_assert!(decode(&plan, &key(), 4, &datagram).is_err(), "to somebody else");
        let at = flip.index(datagram.len());
        datagram[at] ^= 1;
        prop_assert!(decode(&plan, &key(), 3, &datagram).is_err(), "changed at {}", at);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0..17_u8) {
        let plan = plan(30_000, 9, Scheme::TwoTrees);
        prop_assert!(decode(&plan, &key(), 3, &bytes).is_err());
        // With a MAC that is right, whatever else it says.
        let envelope = Envelope { from: 1, to: 3, elapsed_ns: 5 };
        let content = Content::Packet { piece: 31, packet: kind.into(), bytes: &bytes };
        let datagram = encode(plan.transfer, &key(), envelope, &content).expect("memory");
        prop_assert!(decode(&plan, &key(), 3, &datagram).is_err(), "there is no piece 31");
    }
}

#[test]
fn without_faults_everything_is_sent_once() {
    let two_trees = [1, 2, 31].map(|members| (members, Scheme::TwoTrees));
    let published = [1, 2, 8, 30].map(|members| (members, Scheme::published(members)));
    for (members, scheme) in two_trees.into_iter().chain(published).chain([(30, BRANCHES)]) {
        let plan = plan(40_000, members, scheme);
        let world = World::new(&plan, SOUND, BTreeMap::new(), 1).run();
        world.check().expect("it is there");
        let packets: u64 = (0..plan.pieces()).map(|piece| u64::from(plan.packets(piece).count())).sum();
        let most = match scheme {
            // With a word for each piece, reports and what confirms them.
            Scheme::TwoTrees => (packets + u64::from(plan.pieces()) + 4) * u64::from(members),
            Scheme::Branches { .. } => packets * u64::from(members) * 2,
        };
        assert!(world.sent <= most, "{members} members: {} datagrams, of {most}", world.sent);
        let home = world.machines[0].as_ref().expect("home");
        assert_eq!(home.progress(), (plan.pieces(), members), "{members} members");
        assert!(scheme != Scheme::TwoTrees || home.answered() == 0, "nobody had to ask");
        assert_eq!(world.lost.map(|lost| lost.len()), Some(0));
    }
}

#[test]
fn who_sends_wrong_pieces_is_found_and_avoided() {
    for liar in 1..=15 {
        let world = World::new(&plan(30_000, 15, Scheme::TwoTrees), SOUND, [(liar, Trouble::Lies)].into(), 1).run();
        world.check().expect("all others are whole");
        // Half of the members pass on in one tree, the rest in the other, but for the last.
        assert_eq!(world.accused, if liar == 15 { [].into() } else { [liar].into() });
    }
}

#[test]
fn a_member_that_dies_at_any_time_costs_the_others_nothing_but_time() {
    for member in 1..=15 {
        for step in 0..4 {
            let troubles = [(member, Trouble::Dies(step * 10_000))].into();
            let world = World::new(&plan(20_000, 15, Scheme::TwoTrees), SOUND, troubles, step + 1).run();
            world.check().expect("all others are whole");
            // It may have been whole before.
            let lost = world.lost.expect("home knows");
            assert!(lost.iter().all(|lost| *lost == member), "{member} died at {step}: {lost:?}");
            assert!(step > 0 || !lost.is_empty(), "{member} died before it had anything");
        }
    }
}

#[test]
fn members_leave_when_all_is_over_and_who_comes_later_still_gets_all() {
    for (members, lost) in [(1, 0), (15, 0), (15, 30), (40, 30)] {
        let late = [(members, Trouble::Late(3 * SECOND_NS))];
        for troubles in [BTreeMap::new(), late.into()] {
            let network = Network { lost, ..SOUND };
            let is_late = !troubles.is_empty();
            let mut world = World::new(&plan(20_000, members, Scheme::TwoTrees), network, troubles, 1);
            world.all_leave = true;
            let world = world.run();
            world.check().expect("all are whole");
            assert_eq!(world.lost.map(|lost| lost.len()), Some(usize::from(is_late)));
            // They hear of it at once, but for those to whom the word was lost.
            let most_ns =
                u64::from(is_late) * 3 * SECOND_NS + if lost > 0 || is_late { 2 * SECOND_NS } else { 1_000_000 };
            assert!(world.ended_ns < most_ns, "{members} members, {lost} lost: until {} ns", world.ended_ns);
        }
    }
}

#[test]
fn who_wants_to_leave_a_transfer_without_a_home_does() {
    let plan = plan(1_000, 1, Scheme::TwoTrees);
    let mut machine = Machine::new(&plan, 1, 1, 0).expect("memory");
    machine.arrived(HOME, 0, plan.packets(0), 0, 0);
    machine.checked(0, true, 0);
    machine.withdraw(0);
    let (mut now_ns, mut asked) = (0, 0);
    while machine.is_needed() {
        now_ns = machine.due_ns().expect("it goes on by itself").max(now_ns);
        assert!(now_ns < 60 * SECOND_NS);
        machine.advance(now_ns);
        asked += core::iter::from_fn(|| machine.take()).count();
    }
    assert!((1_000_000_000..20 * SECOND_NS).contains(&now_ns) && asked > 4, "{asked} in {now_ns} ns");
    // A member that is not above has nothing to say about it.
    let mut machine = Machine::new(&plan_of_three(), 3, 1, 0).expect("memory");
    machine.heard(1, Message::Over, 0, 0);
    assert!(machine.is_needed());
    machine.heard(HOME, Message::Over, 0, 0);
    while machine.take().is_some() {}
    assert!(!machine.is_needed());
}

fn plan_of_three() -> Plan {
    plan(1_000, 3, Scheme::TwoTrees)
}

#[test]
fn a_member_with_a_fast_link_looks_no_more_often_than_it_can() {
    // One byte takes less than a microsecond.
    for scheme in [Scheme::TwoTrees, BRANCHES] {
        let mut plan = plan(1, 3, scheme);
        plan.link.bytes_per_second = 1_000_000_000;
        let mut member = Machine::new(&plan, 2, 1, 0).expect("memory");
        member.heard(HOME, Message::Probe, 0, 0);
        let (mut now_ns, mut turns) = (0, 0);
        while now_ns < 1_000_000_000 {
            member.advance(now_ns);
            let _ = said(&mut member);
            now_ns = member.due_ns().expect("it waits for the file");
            turns += 1;
            assert!(turns <= 1_000_000_000 / LOOK_NS_MIN * 2, "{scheme:?}: {turns} turns in {now_ns} ns");
        }
    }
}

#[test]
fn what_a_member_has_is_not_sent_to_it() {
    let plan = plan(60_000, 15, Scheme::TwoTrees);
    let all = (1..=15).map(|member| (member, Trouble::Holds(1))).collect();
    let world = World::new(&plan, SOUND, all, 1).run();
    world.check().expect("they have it");
    let all = 15 * u64::from(plan.pieces() * plan.packets(0).count());
    // What was sent before they could say so.
    assert!(world.sent < all / 8, "{} datagrams", world.sent);
}

#[test]
fn who_has_all_says_so_first_and_again_while_it_is_sent_pieces() {
    let plan = plan(60_000, 15, Scheme::TwoTrees);
    let mut machine = Machine::new(&plan, 8, 1, 0).expect("memory");
    let said = |machine: &mut Machine| {
        let effects: Vec<Effect> = core::iter::from_fn(|| machine.take()).collect();
        let left = effects.iter().filter_map(|effect| match effect {
            Effect::Say { to, message: Message::Leave { tree } } => Some((*to, *tree)),
            _ => None,
        });
        (left.collect::<Vec<_>>(), effects.contains(&Effect::End(Outcome::Whole)))
    };
    machine.holds_all(0);
    let parents = [0, 1].map(|tree| (plan.two_trees().parent(tree, 8), tree as u8));
    assert_eq!(said(&mut machine), (parents.to_vec(), true));
    // Each piece that comes all the same says that this was not heard; its packets are no more than one piece.
    for packet in 0..3 {
        assert!(machine.arrived(parents[0].0, 4, PacketSet::one(packet), 0, 1).is_empty());
    }
    assert!(machine.arrived(parents[0].0, 6, PacketSet::one(0), 0, 2).is_empty());
    assert_eq!(said(&mut machine).0, [parents[0], parents[0]]);
    // From elsewhere it means nothing.
    machine.arrived(13, 5, PacketSet::one(0), 0, 3);
    assert_eq!(said(&mut machine).0, []);
}

#[test]
fn those_who_have_all_help_the_others_whatever_is_lost() {
    let plan = plan(200_000, 15, Scheme::TwoTrees);
    let network = Network { lost: 200, ..SOUND };
    for kept in [1, 2, 5, 8, 14] {
        let held = (1..=kept).map(|member| (member, Trouble::Holds(1))).collect();
        let world = World::new(&plan, network, held, u64::from(kept)).run();
        world.check().expect("all have it");
        assert!(world.lost.as_ref().is_some_and(|lost| lost.is_empty()));
    }
    let all = (1..=15).map(|member| (member, Trouble::Holds(1))).collect();
    let world = World::new(&plan, network, all, 1).run();
    world.check().expect("they have it");
    let whole = 15 * u64::from(plan.pieces() * plan.packets(0).count());
    assert!(world.sent < whole / 8, "{} datagrams of {whole}", world.sent);
}

#[test]
fn plans_that_cannot_be_carried_out_are_refused() {
    let good = plan(30_000, 9, Scheme::TwoTrees);
    assert_eq!(good.check(), Ok(()));
    assert_eq!(Plan { bytes: 0, ..good.clone() }.check(), Err(PlanError::Empty));
    assert_eq!(Plan { bytes: 8_193_000, ..good.clone() }.check(), Err(PlanError::Pieces(8193)));
    // With the proof one more.
    assert_eq!(Plan { piece_bytes: 6301, ..good.clone() }.check(), Err(PlanError::Packets(65)));
    assert_eq!(Plan { packet_bytes: 65_526, ..good.clone() }.check(), Err(PlanError::Packet(65_536)));
    assert_eq!(Plan { members: 0, ..good.clone() }.check(), Err(PlanError::Members(0)));
    let topology = Topology::of_psets([4, 5]).expect("memory");
    assert_eq!(Plan { topology: topology.clone(), ..good.clone() }.check(), Err(PlanError::Psets(9, 10)));
    assert_eq!(Plan { topology, members: 10, ..good.clone() }.check(), Ok(()));
    let slow = Link { bytes_per_second: 1, latency_ns: 0, stall_ns: 0 };
    assert!(matches!(Plan { link: slow, ..good.clone() }.check(), Err(PlanError::Slow(_))));
    assert!(Machine::new(&Plan { link: slow, ..good.clone() }, 1, 1, 0).is_none());
}

#[test]
fn nobody_but_who_is_below_can_leave() {
    let plan = plan(30_000, 15, Scheme::TwoTrees);
    let mut machine = Machine::new(&plan, 8, 1, 0).expect("memory");
    let sent = |machine: &mut Machine| {
        machine.advance(1_000_000);
        core::iter::from_fn(|| machine.take()).filter(|effect| matches!(effect, Effect::Send { .. })).count()
    };
    for stranger in [1, 2, 3, 5, 15] {
        machine.heard(stranger, Message::Leave { tree: 0 }, 0, 0);
    }
    machine.arrived(0, 0, plan.packets(0), 0, 0);
    machine.checked(0, true, 0);
    assert_eq!(sent(&mut machine), 2, "both that are below it get it");
    machine.heard(4, Message::Leave { tree: 0 }, 0, 1_000_000);
    machine.arrived(0, 2, plan.packets(2), 0, 1_000_000);
    machine.checked(2, true, 1_000_000);
    assert_eq!(sent(&mut machine), 1);
}

/// What a member wants said to whom, other than how far it is.
fn said(machine: &mut Machine) -> Vec<(u32, Message)> {
    let said = core::iter::from_fn(|| machine.take()).filter_map(|effect| match effect {
        Effect::Say { message: Message::Arrived { .. }, .. } => None,
        Effect::Say { to, message } => Some((to, message)),
        _ => None,
    });
    said.collect()
}

/// Of seven members, 4 is the root of the first tree, with 2 and 6 below it, and gets the pieces of the second from 5,
/// which is below 6 in the first.
#[test]
fn both_that_send_to_a_slow_member_send_to_one_below_it_instead() {
    let plan = plan(30_000, 7, Scheme::TwoTrees);
    let trees = plan.two_trees();
    let (failing, tree) = (4, 0);
    assert_eq!((trees.parent(0, failing), trees.parent(1, failing)), (HOME, 5));
    assert_eq!((trees.stand_in(tree, 6), trees.stand_in(tree, 2)), (Some(HOME), Some(5)));
    let adopt = |first| Message::Adopt { tree: 0, instead_of: failing, first, is_sure: true };
    let mut home = Machine::new(&plan, HOME, 1, 0).expect("memory");
    let mut other = Machine::new(&plan, 5, 1, 0).expect("memory");
    home.begin(0);
    for piece in 0..plan.pieces() {
        other.arrived(trees.parent(piece as usize % 2, 5), piece, plan.packets(piece), 0, 0);
        other.checked(piece, true, 0);
    }
    for (machine, orphan, dropped, others) in [(&mut home, 6, 0, vec![2]), (&mut other, 2, 1, vec![6])] {
        said(machine);
        machine.heard(orphan, adopt(4), 0, 1000);
        let failing_of = |below: u32| (below, Message::Failing { tree: 0, who: failing });
        let mut expected = vec![(orphan, Message::Adopted { tree: 0 }), (failing, Message::Dropped { tree: dropped })];
        expected.extend(others.into_iter().map(failing_of));
        let mut sent = Vec::new();
        let mut heard = Vec::new();
        for turn in 0..200 {
            machine.advance(1000 + turn * 2000);
            while let Some(effect) = machine.take() {
                match effect {
                    Effect::Send { to, piece, .. } if to == orphan => {
                        sent.push(piece);
                        machine.heard(orphan, Message::Arrived { piece, open: 0 }, 0, 1000 + turn * 2000);
                    }
                    Effect::Send { to, .. } => assert_ne!(to, failing, "it is sent nothing more"),
                    Effect::Say { to, message } => heard.push((to, message)),
                    _ => {}
                }
            }
        }
        assert_eq!(heard.iter().filter(|said| expected.contains(said)).count(), expected.len(), "{heard:?}");
        assert!(sent.into_iter().eq((4..plan.pieces()).step_by(2)), "from the first that it lacks, and of one tree");
        // Again, as the answer may be lost; but nobody else instead of the same one.
        machine.heard(orphan, adopt(4), 0, SECOND_NS);
        machine.heard(if orphan == 2 { 6 } else { 2 }, adopt(4), 0, SECOND_NS);
        let again: Vec<_> =
            said(machine).into_iter().filter(|said| matches!(said.1, Message::Adopted { .. })).collect();
        assert_eq!(again, [(orphan, Message::Adopted { tree: 0 })]);
    }
}

#[test]
fn who_is_told_that_its_parent_fails_asks_whoever_stands_in_and_hears_it_of_those_above_alone() {
    let plan = plan(30_000, 7, Scheme::TwoTrees);
    let adopts = |machine: &mut Machine| {
        said(machine).into_iter().find_map(|(to, message)| matches!(message, Message::Adopt { .. }).then_some(to))
    };
    for (by, hears) in [(HOME, true), (5, true), (4, true), (6, false), (1, false)] {
        let mut machine = Machine::new(&plan, 2, 1, 0).expect("memory");
        machine.heard(by, Message::Failing { tree: 0, who: 4 }, 0, 0);
        assert_eq!(adopts(&mut machine), hears.then_some(5), "said by {by}");
        machine.heard(5, Message::Adopted { tree: 0 }, 0, 0);
        machine.heard(by, Message::Failing { tree: 0, who: 4 }, 0, 0);
        assert_eq!(adopts(&mut machine), None, "it has another parent now");
    }
    // Who is dropped itself says so to those to which it sends.
    let mut machine = Machine::new(&plan, 4, 1, 0).expect("memory");
    machine.heard(5, Message::Dropped { tree: 1 }, 0, 0);
    let failing = |below| (below, Message::Failing { tree: 0, who: 4 });
    assert_eq!(said(&mut machine).into_iter().filter(|said| [failing(2), failing(6)].contains(said)).count(), 2);
}
