//! What goes wrong, and when it is mended. How often each kind strikes is drawn anew for each seed, so that some runs
//! have a kind by the dozen, others never, and one in [`CALM_ONE_IN`] none at all.
//!
//! Faults are numbered, and what each is follows from the seed and its number alone. So some can be left out, and the
//! others stay the same: that is how a failing run is shrunk to the faults it needs.

mod kinds;

use std::collections::{BTreeMap, BTreeSet};

use coppice_protocol::ids::{NodeId, PsetId};

use self::kinds::{KINDS, Kind};
use super::checkers::Who;
use super::clock::SET_NS_MAX;
use super::links::SLOW_NS_PER_BYTE_MAX;
use super::network::{Connection, ConnectionId, End};
use super::queue::{Event, MILLISECOND_NS, SECOND_NS};
use super::storage::Health;
use super::world::World;
use crate::random::Random;

/// One run of so many has no faults.
const CALM_ONE_IN: u64 = 12;
/// Longest time between two faults, s: at least, and at most. In some runs they come in crowds, in others there is time
/// to see what one leaves behind.
const PAUSE_SECONDS_MAX: (u64, u64) = (1, 40);
/// How long something is stopped, cut off or slow: mostly short, and now and then so long that it is missed.
const SHORT_NS_MAX: u64 = 3 * SECOND_NS;
const LONG_NS: (u64, u64) = (5 * SECOND_NS, 60 * SECOND_NS);
/// How soon the node that made a connection learns that it is lost, and how much later than it who is at the other
/// end, ns.
const BROKEN_NS_MAX: u64 = SECOND_NS;
/// How often a node's words are lost that another one was to hear, at most, each time this strikes.
const LOST_MAX: u64 = 3;
/// How many of them are lost in a row at most, as this strikes again and again while nodes say little: they ask ten
/// times before they take each other for silent.
const LOST_IN_A_ROW_MAX: u64 = 6;
/// How often bytes are changed on their way at most, each time this strikes, and how often it is what goes next.
const CORRUPTED_MAX: u64 = 4;
const CORRUPTED_PER_MILLE: u64 = 200;
/// How many bits of it are.
const FLIPPED_MAX: u64 = 8;
/// How long a stream stalls at most, ns: nobody is given up who is silent for so short a time.
const STALL_NS_MAX: u64 = 5 * SECOND_NS;
/// How long a service node that was killed is away.
pub(super) const AWAY_NS_MAX: u64 = 5 * SECOND_NS;
/// Changes and orders that a service node still gets done at most before it dies.
const STEPS_MAX: u64 = 40;

/// What a link does not carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cut {
    /// What a node sends.
    From(NodeId),
    /// What is sent to it.
    To(NodeId),
    /// What the first one sends to the second.
    Between(NodeId, NodeId),
}

/// What mends a fault.
#[derive(Clone, Copy, Debug)]
pub(super) enum Undo {
    /// The link carries again.
    Connect(Cut),
    /// The I/O node's disk answers.
    Answer(PsetId),
    /// The service node's disk is well.
    Heal,
}

/// The faults of a run.
#[derive(Debug)]
pub(super) struct Faults {
    seed: u64,
    /// How often each kind strikes, beside the others.
    weights: [u64; KINDS.len()],
    pause_ns_max: u64,
    /// There are none.
    pub is_calm: bool,
    /// Those that are planned.
    planned: u64,
    /// The only ones that strike, if not all do.
    only: Option<BTreeSet<u64>>,
    /// Those that struck.
    pub struck: Vec<u64>,
    /// So many times what a node says to another one is lost, and the connection with it.
    pub loses: u64,
    /// So many times bytes are changed on their way.
    corrupts: u64,
    /// Machines that do not boot when they are switched on before then, ns; that take longer; that begin twice.
    pub boot_never: BTreeMap<NodeId, u64>,
    pub boot_slowly: BTreeMap<NodeId, u64>,
    pub boot_twice: BTreeMap<NodeId, u64>,
}

impl Faults {
    pub(super) fn draw(seed: u64, only: Option<BTreeSet<u64>>) -> Self {
        let mut random = Random::new(seed ^ 0xfa17);
        // Some runs have few kinds, so that what one does is not hidden by what follows from others.
        let per_mille = 1000 / KINDS.len() as u64 * random.between(1, KINDS.len() as u64);
        let weights = std::array::from_fn(|_| if random.chance(per_mille) { random.between(1, 10) } else { 0 });
        let (least, most) = PAUSE_SECONDS_MAX;
        Self {
            seed: random.next(),
            weights,
            pause_ns_max: random.between(least, most) * SECOND_NS,
            is_calm: random.between(1, CALM_ONE_IN) == 1,
            planned: 0,
            only,
            struck: Vec::new(),
            loses: 0,
            corrupts: 0,
            boot_never: BTreeMap::new(),
            boot_slowly: BTreeMap::new(),
            boot_twice: BTreeMap::new(),
        }
    }

    /// What a fault's choices come from.
    fn random_of(&self, number: u64) -> Random {
        Random::new(Random::new(self.seed.wrapping_add(number.wrapping_mul(0xd134_2543_de82_ef95))).next())
    }

    /// A kind, and its name.
    fn choose(&self, random: &mut Random) -> Option<(Kind, &'static str)> {
        let total: u64 = self.weights.iter().sum();
        let mut at = random.between(0, total.checked_sub(1)?);
        for (weight, kind) in self.weights.iter().zip(KINDS) {
            if at < *weight {
                return Some(kind);
            }
            at -= weight;
        }
        None
    }
}

/// What lasts already is not ended by another one, and what waits for its end keeps its order.
fn longer(lasts_until_ns: &mut u64, until_ns: u64) {
    *lasts_until_ns = until_ns.max(*lasts_until_ns);
}

impl World {
    pub(super) fn plan_fault(&mut self) {
        let number = self.faults.planned;
        self.faults.planned += 1;
        let in_ns = self.faults.random_of(number).delay(self.faults.pause_ns_max);
        self.plan(in_ns, Event::Fault(number));
    }

    /// A fault strikes.
    pub(super) fn fault(&mut self, number: u64) {
        if !self.is_faulty() || self.faults.is_calm {
            return;
        }
        self.plan_fault();
        let mut random = self.faults.random_of(number);
        let _pause = random.delay(self.faults.pause_ns_max);
        let Some((chosen, name)) = self.faults.choose(&mut random) else { return };
        let node = NodeId(random.between(0, u64::from(self.options.nodes) - 1) as u32);
        let (least_ns, most_ns) = LONG_NS;
        let is_long = random.chance(250);
        let lasts_ns = if is_long { random.between(least_ns, most_ns) } else { random.delay(SHORT_NS_MAX) };
        let mut until_ns = self.now_ns + lasts_ns + MILLISECOND_NS;
        // What hangs may do so for ever, if it is not replaced.
        let is_for_ever = random.chance(100);
        if is_for_ever && matches!(chosen, Kind::StopMachine | Kind::StopIoNode | Kind::StopFabric) {
            until_ns = u64::MAX;
        }
        if self.faults.only.as_ref().is_some_and(|only| !only.contains(&number)) {
            return;
        }
        self.faults.struck.push(number);
        let pset = self.pset_of(node);
        self.note(name, format_args!("#{number}: node {node}, pset {pset}, until {:.3}", until_ns as f64 / 1e9));
        if chosen == Kind::StopMachine {
            self.checkers.troubles.strike(node, self.now_ns, until_ns);
        }
        if let Some(who) = chosen.touches(node, pset, until_ns - self.now_ns) {
            self.checkers.given_up.excuse(who, until_ns);
            self.checkers.rates.struck(who, self.now_ns);
        }
        match chosen {
            Kind::KillMachine => self.machine_ends(node, "killed"),
            Kind::StopMachine => {
                if let Some(machine) = self.machines.get_mut(&node) {
                    longer(&mut machine.stopped_until_ns, until_ns);
                }
            }
            Kind::CutNode => self.cut(&[Cut::From(node), Cut::To(node)], until_ns),
            Kind::CutOneWay => {
                let cut = if random.chance(500) { Cut::From(node) } else { Cut::To(node) };
                self.cut(&[cut], until_ns);
            }
            Kind::CutNodes => {
                let other = NodeId(random.between(0, u64::from(self.options.nodes) - 1) as u32);
                let cuts = [Cut::Between(node, other), Cut::Between(other, node)];
                let ways = random.length(1, cuts.len());
                self.cut(&cuts[..ways], until_ns);
            }
            Kind::BootNever => longer(self.faults.boot_never.entry(node).or_default(), until_ns),
            Kind::BootSlowly => longer(self.faults.boot_slowly.entry(node).or_default(), until_ns),
            Kind::BootTwice => longer(self.faults.boot_twice.entry(node).or_default(), until_ns),
            Kind::CutConnection | Kind::CutBusy => self.cut_connection(node, chosen == Kind::CutBusy, &mut random),
            Kind::LoseFrames => {
                let loses = self.faults.loses + random.between(1, LOST_MAX);
                self.faults.loses = loses.min(LOST_IN_A_ROW_MAX);
            }
            Kind::CorruptBytes => self.faults.corrupts += random.between(1, CORRUPTED_MAX),
            Kind::StallStream => self.stall_stream(node, &mut random),
            Kind::SlowLink => {
                let ns_per_byte = random.delay(SLOW_NS_PER_BYTE_MAX);
                self.links.slow(node, until_ns, ns_per_byte);
            }
            Kind::LossyLink => self.links.lose(node, until_ns),
            Kind::SetClock => {
                let by_ns = random.delay(SET_NS_MAX);
                self.host.set_clock(by_ns, random.chance(500));
            }
            Kind::KillIoNode => self.io_node_ends(pset, "killed"),
            Kind::StopIoNode => {
                if let Some(io_node) = self.io_nodes.get_mut(&pset) {
                    longer(&mut io_node.stopped_until_ns, until_ns);
                }
            }
            Kind::KillFabric => self.fabric_ends("killed"),
            Kind::StopFabric => {
                longer(&mut self.host.fabric_stopped_until_ns, until_ns);
                self.trouble_all(until_ns);
            }
            Kind::StopHost if self.host.is_up() => {
                longer(&mut self.host.stopped_until_ns, until_ns);
                self.checkers.given_up.host_stops(self.now_ns, until_ns);
            }
            Kind::StopHost => {}
            Kind::KillHost => {
                self.kill_host();
                self.plan_start(random.delay(AWAY_NS_MAX));
            }
            Kind::KillHostAtStep => self.host.disk.die_after(random.between(0, STEPS_MAX)),
            Kind::HungMount => {
                let io_node = self.io_nodes.get_mut(&pset);
                if let Some(lasts_until_ns) = io_node.and_then(|io_node| io_node.disk.hang_some(&mut random)) {
                    longer(lasts_until_ns, until_ns);
                }
            }
            Kind::FullDisk => self.strike_disk(Health::Full, until_ns),
            Kind::FailingDisk => self.strike_disk(Health::Failing, until_ns),
            Kind::LockedDatabase => self.strike_disk(Health::Locked, until_ns),
            Kind::SlowDisk => {
                longer(self.dead_disks.entry(pset).or_default(), until_ns);
                self.queue.plan(until_ns, Event::Undo(Undo::Answer(pset)));
            }
        }
    }

    /// Nodes may not hear of each other until then.
    pub(super) fn trouble_all(&mut self, until_ns: u64) {
        (0..self.options.nodes).for_each(|node| self.checkers.troubles.strike(NodeId(node), self.now_ns, until_ns));
    }

    pub(super) fn cut(&mut self, cuts: &[Cut], until_ns: u64) {
        for cut in cuts.iter().copied() {
            match cut {
                Cut::From(node) | Cut::To(node) | Cut::Between(node, _) => {
                    self.checkers.troubles.strike(node, self.now_ns, until_ns);
                }
            }
            longer(self.cut_off.entry(cut).or_default(), until_ns);
            self.queue.plan(until_ns, Event::Undo(Undo::Connect(cut)));
        }
    }

    /// The disk is so for a while. Of two troubles the last one is had, for as long as the longer one lasts.
    fn strike_disk(&mut self, health: Health, until_ns: u64) {
        longer(&mut self.host.disk_until_ns, until_ns);
        self.host.disk.set_health(health);
        self.queue.plan(until_ns, Event::Undo(Undo::Heal));
    }

    pub(super) fn undo(&mut self, undo: Undo) {
        let is_over = |until_ns: Option<&u64>| until_ns.is_some_and(|until_ns| *until_ns <= self.now_ns);
        match undo {
            Undo::Connect(cut) if is_over(self.cut_off.get(&cut)) => drop(self.cut_off.remove(&cut)),
            Undo::Heal if self.host.disk_until_ns <= self.now_ns => self.host.disk.set_health(Health::Sound),
            Undo::Answer(pset) if is_over(self.dead_disks.get(&pset)) => drop(self.dead_disks.remove(&pset)),
            _ => {}
        }
    }

    /// What is said on a connection of the node from now on comes later, in one direction or both.
    fn stall_stream(&mut self, node: NodeId, random: &mut Random) {
        let mut connections = self.network.lock();
        let of_it = connections.of(|connection| End::BOTH.iter().any(|end| connection.node(*end) == Some(node)));
        let Some(last) = of_it.len().checked_sub(1) else { return };
        let Some(id) = of_it.get(random.length(0, last)).copied() else { return };
        let Some(connection) = connections.get(id) else { return };
        let ways = random.between(1, 3);
        for (way, end) in [(1, End::Caller), (2, End::Called)] {
            if ways & way > 0 {
                let until_ns = self.now_ns + random.delay(STALL_NS_MAX);
                longer(&mut connection.towards(end).last_ns, until_ns);
            }
        }
    }

    /// Bytes are sent on a connection: maybe they are changed on their way. Where that hits the length of a frame,
    /// whoever has it waits for what never comes, and its sender is silent.
    pub(super) fn corrupt(&mut self, id: ConnectionId, bytes: &mut [u8]) {
        let Some(last) = bytes.len().checked_sub(1) else { return };
        if self.faults.corrupts == 0 || !self.random.chance(CORRUPTED_PER_MILLE) {
            return;
        }
        self.faults.corrupts -= 1;
        self.trace.count("pieces of streams that were changed", 1);
        for _ in 0..self.random.between(1, FLIPPED_MAX) {
            let place = self.random.length(0, last);
            bytes[place] ^= 1 << self.random.between(0, 7);
        }
        let caller = self.network.lock().get(id).map(|connection| (connection.caller.node, connection.io_node()));
        if let Some((node, Some(_))) = caller {
            self.checkers.given_up.excuse(Who::Machine(node), self.now_ns);
        }
    }

    /// A connection of the node breaks: any, or one on which something is under way, which is then lost. Its ends learn
    /// of it sooner or later.
    fn cut_connection(&mut self, node: NodeId, is_busy: bool, random: &mut Random) {
        let mut connections = self.network.lock();
        let of_it = if is_busy {
            connections.of(Connection::is_busy)
        } else {
            connections.of(|connection| End::BOTH.iter().any(|end| connection.node(*end) == Some(node)))
        };
        let Some(last) = of_it.len().checked_sub(1) else { return };
        let Some(id) = of_it.get(random.length(0, last)).copied() else { return };
        let Some(connection) = connections.get(id) else { return };
        connection.is_cut = is_busy;
        let (node, has_io_node) = (connection.caller.node, connection.io_node().is_some());
        drop(connections);
        let node_ns = random.delay(BROKEN_NS_MAX);
        let mut other_ns = node_ns + random.delay(BROKEN_NS_MAX);
        if random.chance(300) {
            other_ns = random.delay(BROKEN_NS_MAX);
            if has_io_node {
                // The node may learn it too late to be back in time.
                self.checkers.given_up.excuse(Who::Machine(node), self.now_ns + node_ns);
            }
        }
        self.plan(node_ns, Event::Broke(id, End::Caller));
        self.plan(other_ns, Event::Broke(id, End::Called));
    }

    /// What a node says to another one goes: maybe it is lost, and the connection with it.
    pub(super) fn lose(&mut self, id: ConnectionId) {
        if self.faults.loses == 0 {
            return;
        }
        self.faults.loses -= 1;
        if let Some(connection) = self.network.lock().get(id) {
            connection.is_cut = true;
        }
        self.trace.count("words of nodes to each other lost", 1);
        for end in End::BOTH {
            let in_ns = self.random.delay(BROKEN_NS_MAX);
            self.plan(in_ns, Event::Broke(id, end));
        }
    }
}
