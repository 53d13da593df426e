//! A small world for whole transfers: real bytes in datagrams that are late, lost, doubled and changed, among members
//! that die, lie, come late or have some of it already.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use proptest::prop_assert;

use crate::distribution::packet::{Content, Envelope, TransferKey, decode, encode};
use crate::distribution::{Effect, HOME, Link, Machine, Outcome, PacketSet, PieceSet, Plan, Scheme, TransferId};
use crate::ids::Generation;
use crate::trees::Topology;

/// A plan of 1,000-byte pieces of up to 10 packets.
pub(in super::super) fn plan(bytes: u64, members: u32, scheme: Scheme) -> Plan {
    Plan {
        transfer: TransferId { number: 1, generation: Generation(1) },
        bytes,
        piece_bytes: 1000,
        packet_bytes: 100,
        overhead_bytes: 10,
        members,
        topology: Topology::one_pset(),
        scheme,
        link: Link { bytes_per_second: 1_000_000_000, latency_ns: 5_000, stall_ns: 0 },
    }
}

/// The same to psets with so many nodes each, home being the I/O node of the first.
pub(super) fn plan_of_psets(bytes: u64, nodes: &[u32]) -> Plan {
    let topology = Topology::of_psets(nodes.iter().copied()).expect("memory");
    let members = topology.members().unwrap_or(nodes[0]);
    Plan { topology, ..plan(bytes, members, Scheme::TwoTrees) }
}

pub(super) fn key() -> TransferKey {
    TransferKey::new([7; 32])
}
pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// Datagrams of a run: whoever sends more talks to nobody's use. A file without faults takes 5,000.
const SENT_MAX: u64 = 1_000_000;

/// What is wrong with a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
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
pub(super) struct Network {
    pub(super) lost: u64,
    pub(super) doubled: u64,
    pub(super) changed: u64,
    /// Datagrams take up to so much longer than the latency, so that they overtake each other, ns.
    pub(super) late_ns: u64,
}

pub(super) const SOUND: Network = Network { lost: 0, doubled: 0, changed: 0, late_ns: 0 };

enum Event {
    Datagram(u32, Vec<u8>),
    Due(u32),
    Made(u32),
    Dies(u32),
}

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) file: Vec<u8>,
    network: Network,
    pub(super) troubles: BTreeMap<u32, Trouble>,
    pub(super) machines: Vec<Option<Machine>>,
    pub(super) stores: Vec<Vec<u8>>,
    /// When a member is next due, as far as is planned, ns.
    planned_ns: Vec<u64>,
    queue: BTreeMap<(u64, u64), Event>,
    planned: u64,
    random: u64,
    pub(super) whole: BTreeSet<u32>,
    pub(super) lost: Option<BTreeSet<u32>>,
    pub(super) accused: BTreeSet<u32>,
    pub(super) sent: u64,
    /// Packets of pieces that each pset was sent by others.
    pub(super) entered: Vec<u64>,
    /// Members leave as soon as they may, and all is to go on until they have.
    pub(super) all_leave: bool,
    pub(super) ended_ns: u64,
}

impl World {
    pub(super) fn new(plan: &Plan, network: Network, troubles: BTreeMap<u32, Trouble>, seed: u64) -> Self {
        let length = plan.bytes as usize;
        let file: Vec<u8> = (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        let count = plan.members as usize + 1;
        let mut stores = vec![vec![0; length]; count];
        stores[0].clone_from(&file);
        let mut world = Self {
            plan: plan.clone(),
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
            entered: vec![0; plan.topology.psets() as usize],
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
    pub(super) fn run(mut self) -> Self {
        while let Some(((now_ns, _), event)) = self.queue.pop_first() {
            let is_done = |member| !self.is_able(member) || self.whole.contains(&member);
            let have_left = !self.all_leave || self.machines.iter().skip(1).all(Option::is_none);
            let is_over = self.lost.is_some() && have_left;
            if self.sent > SENT_MAX {
                break;
            }
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
                    if self.plan.topology.is_across(member, to) {
                        self.entered[self.plan.topology.place(to).0 as usize] += u64::from(packets.count());
                    }
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
    pub(super) fn check(&self) -> Result<(), proptest::test_runner::TestCaseError> {
        prop_assert!(self.sent <= SENT_MAX, "they talk without end");
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
