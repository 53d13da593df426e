//! What goes wrong, and when it is mended. How often each kind strikes is drawn anew for each seed, so that some runs
//! have a kind by the dozen and others never.

use coppice_protocol::ids::{NodeId, PsetId};
use coppice_protocol::psets::PsetTable;

use super::queue::{Event, MILLISECOND_NS, SECOND_NS};
use super::world::World;

/// Longest time between two faults, s: at least, and at most. In some runs they come in crowds, in others there is time
/// to see what one leaves behind.
const PAUSE_SECONDS_MAX: (u64, u64) = (1, 40);
/// How long something is stopped, cut off or slow: mostly short, and now and then so long that it is missed.
const SHORT_NS_MAX: u64 = 3 * SECOND_NS;
const LONG_NS_MAX: u64 = 40 * SECOND_NS;
/// How long a service node that was killed is away.
const AWAY_NS_MAX: u64 = 5 * SECOND_NS;

/// All kinds, with the names under which they are counted.
const KINDS: [(Kind, &str); 11] = [
    (Kind::KillMachine, "fault: machine killed"),
    (Kind::StopMachine, "fault: machine stopped"),
    (Kind::CutNode, "fault: node cut off"),
    (Kind::CutConnection, "fault: connection cut"),
    (Kind::KillIoNode, "fault: I/O node killed"),
    (Kind::StopIoNode, "fault: I/O node stopped"),
    (Kind::KillFabric, "fault: fabric killed"),
    (Kind::StopFabric, "fault: fabric stopped"),
    (Kind::StopHost, "fault: service node stopped"),
    (Kind::KillHost, "fault: service node killed"),
    (Kind::SlowDisk, "fault: disk that does not answer"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    KillMachine,
    StopMachine,
    CutNode,
    CutConnection,
    KillIoNode,
    StopIoNode,
    KillFabric,
    StopFabric,
    StopHost,
    KillHost,
    SlowDisk,
}

/// What mends a fault.
#[derive(Clone, Copy, Debug)]
pub(super) enum Undo {
    /// The node's link carries again.
    Connect(NodeId),
    /// The I/O node's disk answers.
    Answer(PsetId),
}

/// How often each kind strikes, and how often any.
#[derive(Debug)]
pub(super) struct Weights {
    of_kinds: [u64; KINDS.len()],
    pause_ns_max: u64,
}

impl Weights {
    pub(super) fn draw(random: &mut crate::random::Random) -> Self {
        let of_kinds = std::array::from_fn(|_| if random.chance(300) { 0 } else { random.between(1, 10) });
        let (least, most) = PAUSE_SECONDS_MAX;
        Self { of_kinds, pause_ns_max: random.between(least, most) * SECOND_NS }
    }
}

/// What lasts already is not ended by another one, and what waits for its end keeps its order.
fn longer(lasts_until_ns: &mut u64, until_ns: u64) {
    *lasts_until_ns = until_ns.max(*lasts_until_ns);
}

impl World {
    pub(super) fn plan_fault(&mut self) {
        let in_ns = self.random.delay(self.weights.pause_ns_max);
        self.plan(in_ns, Event::Fault);
    }

    /// When something that hangs goes on, ns: it may be never, if it is not replaced.
    fn hangs_until_ns(&mut self) -> u64 {
        if self.random.chance(100) { u64::MAX } else { self.now_ns + self.duration() }
    }

    fn duration(&mut self) -> u64 {
        let max_ns = if self.random.chance(100) { LONG_NS_MAX } else { SHORT_NS_MAX };
        self.random.delay(max_ns) + MILLISECOND_NS
    }

    /// The next fault.
    pub(super) fn fault(&mut self) {
        if !self.is_faulty() {
            return;
        }
        self.plan_fault();
        let total: u64 = self.weights.of_kinds.iter().sum();
        if total == 0 {
            return;
        }
        let mut at = self.random.between(0, total - 1);
        let (mut chosen, mut name) = KINDS[0];
        for (weight, (kind, called)) in self.weights.of_kinds.iter().zip(KINDS) {
            if at < *weight {
                (chosen, name) = (kind, called);
                break;
            }
            at -= weight;
        }
        let node = NodeId(self.random.between(0, u64::from(self.options.nodes) - 1) as u32);
        let psets = PsetTable::new(self.options.nodes, self.options.pset_size);
        let Some(pset) = psets.pset_of(node) else { return };
        let until_ns = match chosen {
            Kind::StopMachine | Kind::StopIoNode | Kind::StopFabric => self.hangs_until_ns(),
            _ => self.now_ns + self.duration(),
        };
        self.note(name, format_args!("node {node}, pset {pset}, until {:.3}", until_ns as f64 / 1e9));
        match chosen {
            Kind::KillMachine => self.machine_ends(node, "killed"),
            Kind::StopMachine => {
                if let Some(machine) = self.machines.get_mut(&node) {
                    longer(&mut machine.stopped_until_ns, until_ns);
                }
            }
            Kind::CutNode => {
                longer(self.cut_off.entry(node).or_default(), until_ns);
                self.queue.plan(until_ns, Event::Undo(Undo::Connect(node)));
            }
            Kind::CutConnection => self.cut_some_connection(node),
            Kind::KillIoNode => self.io_node_ends(pset, "killed"),
            Kind::StopIoNode => {
                if let Some(io_node) = self.io_nodes.get_mut(&pset) {
                    longer(&mut io_node.stopped_until_ns, until_ns);
                }
            }
            Kind::KillFabric => self.fabric_ends("killed"),
            Kind::StopFabric => longer(&mut self.host.fabric_stopped_until_ns, until_ns),
            Kind::StopHost => longer(&mut self.host.stopped_until_ns, until_ns),
            Kind::KillHost => {
                self.kill_host();
                let in_ns = self.random.delay(AWAY_NS_MAX);
                self.plan(in_ns, Event::HostStart);
            }
            Kind::SlowDisk => {
                longer(self.dead_disks.entry(pset).or_default(), until_ns);
                self.queue.plan(until_ns, Event::Undo(Undo::Answer(pset)));
            }
        }
    }

    pub(super) fn undo(&mut self, undo: Undo) {
        let is_over = |until_ns: Option<&u64>| until_ns.is_some_and(|until_ns| *until_ns <= self.now_ns);
        match undo {
            Undo::Connect(node) if is_over(self.cut_off.get(&node)) => drop(self.cut_off.remove(&node)),
            Undo::Answer(pset) if is_over(self.dead_disks.get(&pset)) => drop(self.dead_disks.remove(&pset)),
            _ => {}
        }
    }

    fn cut_some_connection(&mut self, node: NodeId) {
        let Some(life) = self.machines.get(&node).map(|machine| machine.life) else { return };
        let of_it = self.network.lock().of(|connection| connection.life == life);
        if let Some(id) = of_it.first() {
            let at = self.random.length(0, of_it.len() - 1);
            let id = *of_it.get(at).unwrap_or(id);
            for end in [super::network::End::Node, super::network::End::IoNode] {
                let in_ns = self.random.delay(2 * SECOND_NS);
                self.plan(in_ns, Event::Broke(id, end));
            }
        }
    }
}
