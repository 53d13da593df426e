//! Whole transfers in a small world: real bytes in datagrams that are late, lost, doubled and changed, among members
//! that die, lie, come late or have some of it already.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use proptest::collection::btree_map;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::packet::{Content, Envelope, TransferKey, decode, encode};
use super::{AskVariant, Effect, HOME, Link, Machine, MemberRanges, Message, Outcome};
use super::{PacketSet, PieceSet, Plan, PlanError, Scheme, TransferId};
use crate::ids::Generation;

/// A plan of 1,000-byte pieces of up to 10 packets.
pub(super) fn plan(bytes: u64, members: u32, scheme: Scheme) -> Plan {
    Plan {
        transfer: TransferId { number: 1, generation: Generation(1) },
        bytes,
        piece_bytes: 1000,
        packet_bytes: 100,
        overhead_bytes: 10,
        members,
        scheme,
        link: Link { bytes_per_second: 1_000_000_000, latency_ns: 5_000, stall_ns: 0 },
    }
}

fn key() -> TransferKey {
    TransferKey::new([7; 32])
}
const SECOND_NS: u64 = 1_000_000_000;

/// What is wrong with a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// It dies then, ns.
    Dies(u64),
    /// It is made then, ns.
    Late(u64),
    /// Every piece that it sends is wrong.
    Lies,
    /// It has every so-manieth piece from the start.
    Holds(u32),
}

/// What the network does, per mille.
#[derive(Clone, Copy, Debug)]
struct Network {
    lost: u64,
    doubled: u64,
    changed: u64,
    /// Datagrams take up to so much longer than the latency, so that they overtake each other, ns.
    late_ns: u64,
}

const SOUND: Network = Network { lost: 0, doubled: 0, changed: 0, late_ns: 0 };

enum Event {
    Datagram(u32, Vec<u8>),
    Due(u32),
    Made(u32),
    Dies(u32),
}

struct World {
    plan: Plan,
    file: Vec<u8>,
    network: Network,
    troubles: BTreeMap<u32, Trouble>,
    machines: Vec<Option<Machine>>,
    stores: Vec<Vec<u8>>,
    /// When a member is next due, as far as is planned, ns.
    planned_ns: Vec<u64>,
    queue: BTreeMap<(u64, u64), Event>,
    planned: u64,
    random: u64,
    whole: BTreeSet<u32>,
    lost: Option<BTreeSet<u32>>,
    accused: BTreeSet<u32>,
    sent: u64,
    /// Members leave as soon as they may, and all is to go on until they have.
    all_leave: bool,
    ended_ns: u64,
}

impl World {
    fn new(plan: Plan, network: Network, troubles: BTreeMap<u32, Trouble>, seed: u64) -> Self {
        let length = plan.bytes as usize;
        let file: Vec<u8> = (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        let count = plan.members as usize + 1;
        let mut stores = vec![vec![0; length]; count];
        stores[0].clone_from(&file);
        let mut world = Self {
            plan,
            file,
            network,
            troubles,
            machines: (0..count).map(|_| None).collect(),
            stores,
            planned_ns: vec![u64::MAX; count],
            queue: BTreeMap::new(),
            planned: 0,
            random: seed | 1,
            whole: BTreeSet::new(),
            lost: None,
            accused: BTreeSet::new(),
            sent: 0,
            all_leave: false,
            ended_ns: 0,
        };
        for member in 0..=plan.members {
            let trouble = world.troubles.get(&member).copied();
            let at_ns = if let Some(Trouble::Late(at_ns)) = trouble { at_ns } else { 0 };
            world.plan_event(at_ns, Event::Made(member));
            if let Some(Trouble::Dies(at_ns)) = trouble {
                world.plan_event(at_ns, Event::Dies(member));
            }
        }
        world
    }

    fn choose(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below.max(1)
    }

    fn plan_event(&mut self, at_ns: u64, event: Event) {
        self.planned += 1;
        self.queue.insert((at_ns, self.planned), event);
    }

    /// Runs until home knows and everybody who can be is whole, or for a minute.
    fn run(mut self) -> Self {
        while let Some(((now_ns, _), event)) = self.queue.pop_first() {
            let is_done = |member| !self.is_able(member) || self.whole.contains(&member);
            let have_left = !self.all_leave || self.machines.iter().skip(1).all(Option::is_none);
            let is_over = self.lost.is_some() && have_left;
            if now_ns > 60 * SECOND_NS || is_over && (1..=self.plan.members).all(is_done) {
                self.ended_ns = now_ns;
                break;
            }
            let member = match event {
                Event::Made(member) => {
                    let machine = Machine::new(&self.plan, member, self.random, now_ns).expect("memory");
                    self.machines[member as usize] = Some(machine);
                    self.begin(member, now_ns);
                    member
                }
                Event::Dies(member) => {
                    self.machines[member as usize] = None;
                    continue;
                }
                Event::Due(member) => {
                    self.planned_ns[member as usize] = u64::MAX;
                    member
                }
                Event::Datagram(member, datagram) => {
                    self.arrived(member, &datagram, now_ns);
                    member
                }
            };
            self.settle(member, now_ns);
            if self.all_leave && self.whole.contains(&member) {
                self.withdraw(member, now_ns);
            }
        }
        self
    }

    /// A member that is whole leaves, if it may.
    fn withdraw(&mut self, member: u32, now_ns: u64) {
        let place = &mut self.machines[member as usize];
        if let Some(machine) = place {
            machine.withdraw(now_ns);
            if !machine.is_needed() {
                *place = None;
            }
        }
        self.settle(member, now_ns);
    }

    /// Whether a member can come to have all.
    fn is_able(&self, member: u32) -> bool {
        !matches!(self.troubles.get(&member), Some(Trouble::Dies(_)))
    }

    fn begin(&mut self, member: u32, now_ns: u64) {
        let Some(machine) = &mut self.machines[member as usize] else { return };
        if member == HOME {
            machine.begin(now_ns);
        }
        if let Some(Trouble::Holds(every)) = self.troubles.get(&member) {
            let mut pieces = PieceSet::none_of(self.plan.pieces()).expect("memory");
            for piece in (0..self.plan.pieces()).step_by(*every as usize) {
                pieces.insert(piece);
                let at = piece as usize * self.plan.piece_bytes as usize;
                let end = at + self.plan.piece_length(piece) as usize;
                self.stores[member as usize][at..end].copy_from_slice(&self.file[at..end]);
            }
            machine.holds(&pieces, now_ns);
        }
    }

    fn arrived(&mut self, member: u32, datagram: &[u8], now_ns: u64) {
        let Some(machine) = &mut self.machines[member as usize] else { return };
        let Ok((envelope, content)) = decode(&self.plan, &key(), member, datagram) else { return };
        match content {
            Content::Packet { piece, packet, bytes } => {
                let at = (piece * self.plan.piece_bytes + packet * self.plan.packet_bytes) as usize;
                let packets = PacketSet::one(packet);
                let kept = machine.arrived(envelope.from, piece, packets, envelope.elapsed_ns, now_ns);
                if !self.plan.is_proof(piece, packet) && !kept.is_empty() {
                    self.stores[member as usize][at..at + bytes.len()].copy_from_slice(bytes);
                }
            }
            Content::Message(message) => machine.heard(envelope.from, message, envelope.elapsed_ns, now_ns),
        }
    }

    fn settle(&mut self, member: u32, now_ns: u64) {
        let index = member as usize;
        for turn in 0.. {
            // It always gets further.
            assert!(turn < 100_000, "{now_ns}: {:?}", self.machines[index]);
            let Some(machine) = &mut self.machines[index] else { return };
            let Some(effect) = machine.take() else {
                match machine.due_ns() {
                    None => return,
                    Some(due_ns) if due_ns > now_ns => {
                        // Events before that find nothing to do.
                        if due_ns < self.planned_ns[index] {
                            self.planned_ns[index] = due_ns;
                            self.plan_event(due_ns, Event::Due(member));
                        }
                        return;
                    }
                    Some(_) => machine.advance(now_ns),
                }
                continue;
            };
            let elapsed_ns = machine.elapsed_ns(now_ns);
            match effect {
                Effect::Send { to, piece, packets } => {
                    for packet in packets.numbers() {
                        let at = (piece * self.plan.piece_bytes + packet * self.plan.packet_bytes) as usize;
                        let length = self.plan.packet_length(piece, packet).expect("a packet") as usize;
                        let bytes = match self.plan.is_proof(piece, packet) {
                            true => vec![0; length],
                            false => self.stores[index][at..at + length].to_vec(),
                        };
                        let lie = self.troubles.get(&member) == Some(&Trouble::Lies);
                        let bytes: Vec<u8> = bytes.iter().map(|byte| if lie { !byte } else { *byte }).collect();
                        self.send(member, to, elapsed_ns, &Content::Packet { piece, packet, bytes: &bytes }, now_ns);
                    }
                }
                Effect::Say { to, message } => self.send(member, to, elapsed_ns, &Content::Message(message), now_ns),
                Effect::Check { piece } => {
                    let at = piece as usize * self.plan.piece_bytes as usize;
                    let end = at + self.plan.piece_length(piece) as usize;
                    let is_right = self.stores[index][at..end] == self.file[at..end];
                    machine.checked(piece, is_right, now_ns);
                }
                Effect::Wrong { from, .. } => self.accused.extend(from),
                Effect::End(Outcome::Whole) => drop(self.whole.insert(member)),
                Effect::End(Outcome::All { lost }) => self.lost = Some(lost.into_iter().collect()),
                Effect::End(Outcome::Silence) => {}
            }
        }
    }

    fn send(&mut self, from: u32, to: u32, elapsed_ns: u64, content: &Content<'_>, now_ns: u64) {
        let envelope = Envelope { from, to, elapsed_ns };
        let mut datagram = encode(self.plan.transfer, &key(), envelope, content).expect("memory");
        self.sent += 1;
        let Network { lost, doubled, changed, late_ns } = self.network;
        if self.choose(1000) < lost {
            return;
        }
        if self.choose(1000) < changed {
            let at = self.choose(datagram.len() as u64) as usize;
            datagram[at] ^= 1 << self.choose(8);
        }
        let copies = if self.choose(1000) < doubled { 2 } else { 1 };
        for _ in 0..copies {
            let at_ns = now_ns + u64::from(self.plan.link.latency_ns) + self.choose(late_ns + 1);
            self.plan_event(at_ns, Event::Datagram(to, datagram.clone()));
        }
    }

    /// Everybody who can has the right bytes, and home knows who cannot.
    fn check(&self) -> Result<(), proptest::test_runner::TestCaseError> {
        for member in (1..=self.plan.members).filter(|member| self.is_able(*member)) {
            prop_assert!(self.whole.contains(&member), "member {} is not whole", member);
            prop_assert!(self.stores[member as usize] == self.file, "member {} has other bytes", member);
        }
        let Some(lost) = &self.lost else { return Err(proptest::test_runner::TestCaseError::fail("home never knew")) };
        // Who died may have been whole before; who comes late may come when home has given it up.
        let may_be_lost = |member| matches!(self.troubles.get(member), Some(Trouble::Dies(_) | Trouble::Late(_)));
        prop_assert!(lost.iter().all(may_be_lost), "{:?} are said to be lost", lost);
        prop_assert!(self.accused.iter().all(|member| self.troubles.get(member) == Some(&Trouble::Lies)));
        Ok(())
    }
}

const BRANCHES: Scheme = Scheme::Branches { layers: 2, ask: AskVariant::PieceFirst };

fn schemes() -> impl Strategy<Value = Scheme> {
    prop_oneof![
        3 => Just(Scheme::TwoTrees),
        1 => Just(BRANCHES),
        1 => Just(Scheme::Branches { layers: 3, ask: AskVariant::NodeFirst }),
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
        (0..2_u8, any::<(u32, bool)>()).prop_map(|(tree, (instead_of, is_slow))| Message::Adopt {
            tree,
            instead_of,
            is_slow
        }),
        (0..2_u8).prop_map(|tree| Message::Adopted { tree }),
        members.prop_map(|members| Message::Whole { members }),
        any::<u32>().prop_map(|count| Message::Heard { count }),
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
        let mut world = World::new(plan(bytes, members, scheme), network, troubles, seed);
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
    fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0..15_u8) {
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
    for (members, scheme) in [(1, Scheme::TwoTrees), (2, Scheme::TwoTrees), (31, Scheme::TwoTrees), (30, BRANCHES)] {
        let plan = plan(40_000, members, scheme);
        let world = World::new(plan, SOUND, BTreeMap::new(), 1).run();
        world.check().expect("it is there");
        let packets: u64 = (0..plan.pieces()).map(|piece| u64::from(plan.packets(piece).count())).sum();
        let most = match scheme {
            // Reports and what confirms them.
            Scheme::TwoTrees => packets * u64::from(members) + 4 * u64::from(members),
            Scheme::Branches { .. } => packets * u64::from(members) * 2,
        };
        assert!(world.sent <= most, "{members} members: {} datagrams, of {most}", world.sent);
        assert_eq!(world.lost.map(|lost| lost.len()), Some(0));
    }
}

#[test]
fn who_sends_wrong_pieces_is_found_and_avoided() {
    for liar in 1..=15 {
        let world = World::new(plan(30_000, 15, Scheme::TwoTrees), SOUND, [(liar, Trouble::Lies)].into(), 1).run();
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
            let world = World::new(plan(20_000, 15, Scheme::TwoTrees), SOUND, troubles, step + 1).run();
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
            let mut world = World::new(plan(20_000, members, Scheme::TwoTrees), network, troubles, 1);
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
fn what_a_member_has_is_not_sent_to_it() {
    let plan = plan(60_000, 15, Scheme::TwoTrees);
    let all = (1..=15).map(|member| (member, Trouble::Holds(1))).collect();
    let world = World::new(plan, SOUND, all, 1).run();
    world.check().expect("they have it");
    let all = 15 * u64::from(plan.pieces() * plan.packets(0).count());
    // What was sent before they could say so.
    assert!(world.sent < all / 8, "{} datagrams", world.sent);
}

#[test]
fn plans_that_cannot_be_carried_out_are_refused() {
    let good = plan(30_000, 9, Scheme::TwoTrees);
    assert_eq!(good.check(), Ok(()));
    assert_eq!(Plan { bytes: 0, ..good }.check(), Err(PlanError::Empty));
    assert_eq!(Plan { bytes: 8_193_000, ..good }.check(), Err(PlanError::Pieces(8193)));
    // With the proof one more.
    assert_eq!(Plan { piece_bytes: 6301, ..good }.check(), Err(PlanError::Packets(65)));
    assert_eq!(Plan { packet_bytes: 65_526, ..good }.check(), Err(PlanError::Packet(65_536)));
    assert_eq!(Plan { members: 0, ..good }.check(), Err(PlanError::Members(0)));
    let slow = Link { bytes_per_second: 1, latency_ns: 0, stall_ns: 0 };
    assert!(matches!(Plan { link: slow, ..good }.check(), Err(PlanError::Slow(_))));
    assert!(Machine::new(&Plan { link: slow, ..good }, 1, 1, 0).is_none());
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
