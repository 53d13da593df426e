//! What parties order and say, on its way to others: the service node's plant, and the I/O nodes' effects.

use std::collections::BTreeMap;

use coppice_io_node::machine::{Effect, Now};
use coppice_protocol::control::{Exit, RankReport};
use coppice_protocol::ids::{NodeId, PsetId};
use coppice_protocol::personality::Personality;
use coppice_protocol::pset::{FromPset, ToPset};
use coppice_qemu::machine::Accelerator;
use coppice_service_node::controller::{Event as HostEvent, Request};
use coppice_service_node::limits::BOOT_TIME_MAX;
use coppice_service_node::plant::{
    FromFabric, HelperEvent, Incarnation, LastWords, MachineEvent, PlantEvent, SpawnOrder,
};
use coppice_service_node::profiles::ProfileOrder;
use coppice_service_node::store::Found;

use super::checkers::{Checkers, Who};
use super::clock::Clock;
use super::disk::Disk;
use super::faults::{AWAY_NS_MAX, Faults};
use super::host::Order;
use super::io_node::{IoNode, PIPE_MESSAGES_MAX};
use super::machine::{LifeId, Machine};
use super::network::{Callee, ConnectionId, End};
use super::queue::{Event, MILLISECOND_NS, Party, SECOND_NS};
use super::world::World;
use crate::checkers::Violation;

/// How long pipes and processes of the host take, ns.
const HOST_NS_MAX: u64 = MILLISECOND_NS;
/// How long a helper takes to start, ns.
const START_NS_MAX: u64 = 500 * MILLISECOND_NS;
/// How long a machine takes to boot, ns.
const BOOT_NS_MAX: u64 = 4 * SECOND_NS;
/// How long one takes that boots slowly, ns: some come when nobody waits for them any more.
const SLOW_BOOT_NS: (u64, u64) = (4 * SECOND_NS, 80 * SECOND_NS);
/// How long a machine that does not boot, or slowly, is waited for at most, ns.
const BOOT_MISSED_NS: u64 = 120 * SECOND_NS;
/// How long one may take to boot that is not given up for it, ns: the service node waits so long, and what the machine
/// has to say takes a little.
const BOOT_WAITED_NS: u64 = BOOT_TIME_MAX.as_nanos() as u64 - 5 * SECOND_NS;
/// How soon an end learns at the latest that nobody is at the other, ns.
pub(super) const UNHEARD_NS_MAX: u64 = 15 * SECOND_NS;

impl World {
    /// The service node did something: carries out what it ordered.
    pub(super) fn settle_host(&mut self) {
        while let Some(order) = self.host.next_order() {
            self.carry_out(order);
        }
        if self.host.disk.is_dead() {
            self.note("service node", format_args!("dies at a step"));
            self.kill_host();
            let in_ns = self.random.delay(AWAY_NS_MAX);
            return self.plan_start(in_ns);
        }
        self.lead();
        self.look_at_streams();
        self.look_at_forgets();
        let due_ns = self.host.due_ns();
        if let Some(at_ns) = self.host.alarm.set(due_ns, self.now_ns) {
            self.queue.plan(at_ns, Event::HostDue);
        }
    }

    fn plant(&mut self, in_ns: u64, event: PlantEvent) {
        self.plan(in_ns, Event::Plant(Box::new(event)));
    }

    fn carry_out(&mut self, order: Order) {
        let soon_ns = self.random.delay(HOST_NS_MAX);
        self.see_order(&order);
        match order {
            Order::FindAccelerator => self.plant(soon_ns, PlantEvent::Accelerator(Ok(Accelerator::Tcg))),
            Order::StartFabric(incarnation, links) => {
                self.host.fabric = Some(incarnation);
                if let Some(link) = self.link_orders.begin(links) {
                    self.violate(format!("a fabric is started with link {link} as it is not to be"));
                }
                self.host.fabric_stopped_until_ns = 0;
                let event = |event| PlantEvent::Fabric { incarnation, event };
                self.plant(0, event(HelperEvent::Started { pid: 1 }));
                let in_ns = self.random.delay(START_NS_MAX);
                self.plant(in_ns, event(HelperEvent::Said(FromFabric::Alive)));
            }
            Order::StopFabric => self.fabric_ends("told to"),
            Order::AskFabric => self.fabric_says(soon_ns, FromFabric::Alive),
            Order::TellFabric(request, orders) => {
                for said in self.link_orders.told(request, &orders, self.now_ns) {
                    self.fabric_says(soon_ns, said);
                }
            }
            Order::StartIoNode(pset, incarnation) => {
                let clock = Clock::draw(&mut self.random, self.now_ns);
                let disk = Disk::new(self.host.storage.clone(), self.shared_files.clone());
                self.io_nodes.insert(pset, IoNode::new(incarnation, clock, disk));
                let started = HelperEvent::Started { pid: 100 + pset.0 };
                self.plant(0, PlantEvent::Pset { pset, incarnation, event: started });
                let in_ns = self.random.delay(START_NS_MAX);
                let configure = ToPset::Configure {
                    version: coppice_protocol::pset::VERSION,
                    pset,
                    mtu: coppice_service_node::plant::MTU,
                    socket: "socket".into(),
                    fabric: "fabric".into(),
                    storage: None,
                    regions: None,
                };
                self.plan(in_ns, Event::Ordered(pset, incarnation, Box::new(configure)));
                self.ordered_ns.insert(pset, self.now_ns + in_ns);
            }
            Order::KillIoNode(pset) => self.io_node_ends(pset, "killed"),
            Order::Tell(pset, message) => {
                let Some(incarnation) = self.io_nodes.get(&pset).map(|io_node| io_node.incarnation) else { return };
                // A pipe keeps the order.
                let at_ns = self.ordered_ns.get(&pset).copied().unwrap_or(0).max(self.now_ns + soon_ns);
                self.ordered_ns.insert(pset, at_ns);
                self.queue.plan(at_ns, Event::Ordered(pset, incarnation, message));
            }
            Order::CheckProgram(job, copy) => {
                let Some(found) = self.host.check_copy(job, &copy) else {
                    let what = format!("job {job} has its nodes, and its program, which was held for it, is gone");
                    return self.violations.push(Violation::new(what).by("programs"));
                };
                if found.as_ref().is_ok_and(|found| *found == Found::Absent) {
                    self.trace.count("programs that were recorded and not there", 1);
                }
                self.plant(soon_ns, PlantEvent::Program { job, found });
            }
            Order::Keep(order) => self.keep(order),
            Order::Checkpoint(order) => self.host.carry_out(order),
            Order::Profile(ProfileOrder::Stacks { .. } | ProfileOrder::Sampling { .. }) => {}
            Order::Profile(ProfileOrder::Epoch(job, epoch)) => {
                let is_whole = self.checkers.overlays.recorded(job, &epoch);
                self.trace.count(if is_whole { "epochs of overlays" } else { "epochs of overlays, not whole" }, 1);
            }
            Order::Spawn(SpawnOrder { spawn, .. }) => {
                let reason = "ranks of this world start no others".to_owned();
                let request = Request::NotSpawned(Box::new(spawn), reason);
                self.host.handle(HostEvent::Request(request), self.now_ns);
            }
            Order::Boot(personality) => self.switch_on(*personality),
            Order::KillMachine(node) => self.machine_ends(node, "killed"),
        }
    }

    /// The fabric, if it runs, says something as soon as it does.
    fn fabric_says(&mut self, soon_ns: u64, said: FromFabric) {
        if let Some(incarnation) = self.host.fabric {
            let in_ns = soon_ns.saturating_add(self.host.fabric_stopped_until_ns.saturating_sub(self.now_ns));
            self.plant(in_ns, PlantEvent::Fabric { incarnation, event: HelperEvent::Said(said) });
        }
    }

    /// What checkers see of an order.
    fn see_order(&mut self, order: &Order) {
        let now_ns = self.now_ns;
        let pset = if let Order::KillMachine(node) = order { Some(self.pset_of(*node)) } else { None };
        let Checkers { given_up, numbers, rates, .. } = &mut self.checkers;
        match order {
            Order::StartFabric(..) => rates.started(Who::Fabric, None, now_ns),
            Order::StartIoNode(pset, _) => rates.started(Who::IoNode(*pset), None, now_ns),
            Order::Boot(personality) => {
                numbers.booted(personality.node, personality.generation);
                rates.started(Who::Machine(personality.node), Some(personality.pset), now_ns);
            }
            Order::StopFabric if self.host.fabric.is_some() => given_up.given_up(Who::Fabric, None, now_ns),
            Order::KillIoNode(pset) if self.io_nodes.contains_key(pset) => {
                given_up.given_up(Who::IoNode(*pset), None, now_ns);
            }
            Order::KillMachine(node) if self.machines.contains_key(node) => {
                given_up.given_up(Who::Machine(*node), pset, now_ns);
            }
            _ => {}
        }
    }

    fn switch_on(&mut self, personality: Personality) {
        let Personality { node, generation, .. } = personality;
        self.note("machine switched on", format_args!("node {node}, boot {generation}"));
        let life = self.begin(personality);
        let started = MachineEvent::Started { pid: 1000 + node.0 };
        self.plant(0, PlantEvent::Machine { node, generation, event: started });
        let strikes = |nodes: &BTreeMap<NodeId, u64>| nodes.get(&node).is_some_and(|until_ns| *until_ns > self.now_ns);
        let Faults { boot_never, boot_slowly, boot_twice, .. } = &self.faults;
        let (never, slowly, twice) = (strikes(boot_never), strikes(boot_slowly), strikes(boot_twice));
        if never {
            self.checkers.given_up.excuse(Who::Machine(node), self.now_ns + BOOT_MISSED_NS);
            // It ends at once, or after a while, or never gets there: in the same way each time.
            let until_ns = boot_never.get(&node).copied().unwrap_or(0);
            let in_ns = match until_ns % 3 {
                0 => self.random.delay(20 * MILLISECOND_NS),
                1 => self.random.delay(BOOT_NS_MAX),
                _ => return,
            };
            return self.plan(in_ns, Event::Kill(life));
        }
        let (least_ns, most_ns) = SLOW_BOOT_NS;
        let in_ns = if slowly { self.random.between(least_ns, most_ns) } else { self.random.delay(BOOT_NS_MAX) };
        if in_ns > BOOT_WAITED_NS {
            self.checkers.given_up.excuse(Who::Machine(node), self.now_ns + BOOT_MISSED_NS);
        }
        if twice {
            let again_ns = self.random.between(0, in_ns);
            self.plan(again_ns, Event::Reset(life));
        }
        self.plan(in_ns, Event::Booted(life));
    }

    /// A machine begins to boot.
    fn begin(&mut self, personality: Personality) -> LifeId {
        let node = personality.node;
        self.lives += 1;
        let life = LifeId { node, number: self.lives };
        let clock = Clock::draw(&mut self.random, self.now_ns);
        let region = self.attach_region(node);
        let machine = Machine::new(life, personality, &self.observed, self.host.memory_bytes(), (clock, region));
        self.machines.insert(node, machine);
        life
    }

    /// A machine that boots begins with that anew.
    pub(super) fn reset(&mut self, life: LifeId) {
        let Some(personality) = self.machine(life).map(|machine| machine.personality.clone()) else { return };
        self.note("machine that begins again", format_args!("node {}", life.node));
        self.forget_machine(life);
        let life = self.begin(personality);
        let in_ns = self.random.delay(BOOT_NS_MAX);
        self.plan(in_ns, Event::Booted(life));
    }

    /// A machine is gone.
    pub(super) fn machine_ends(&mut self, node: NodeId, why: &str) {
        let Some(machine) = self.machines.get(&node) else { return };
        let (life, generation) = (machine.life, machine.personality.generation);
        self.forget_machine(life);
        self.checkers.troubles.strike(node, self.now_ns, self.now_ns);
        let event = MachineEvent::Ended { reason: why.to_owned(), last_words: LastWords::None };
        let in_ns = self.random.delay(HOST_NS_MAX);
        self.plant(in_ns, PlantEvent::Machine { node, generation, event });
    }

    /// Nothing is left of a boot of a node.
    fn forget_machine(&mut self, life: LifeId) {
        self.deferred.remove(&Party::Machine(life));
        // Nobody says anything on its connections any more.
        self.network.lock().leave_all(life);
        drop(self.machines.remove(&life.node));
        self.observed.over(life);
    }

    /// An I/O node's process is gone.
    pub(super) fn io_node_ends(&mut self, pset: PsetId, why: &str) {
        let Some(io_node) = self.io_nodes.remove(&pset) else { return };
        self.deferred.remove(&Party::IoNode(pset));
        for id in io_node.connections.into_keys() {
            self.network.lock().leave(id, End::Called);
            let in_ns = self.random.delay(UNHEARD_NS_MAX);
            self.plan(in_ns, Event::Broke(id, End::Caller));
        }
        let in_ns = io_node.said_ns.saturating_sub(self.now_ns) + self.random.delay(HOST_NS_MAX);
        let event = HelperEvent::Ended(why.to_owned());
        self.plant(in_ns, PlantEvent::Pset { pset, incarnation: io_node.incarnation, event });
    }

    pub(super) fn fabric_ends(&mut self, why: &str) {
        let Some(incarnation) = self.host.fabric.take() else { return };
        self.trouble_all(self.now_ns);
        let in_ns = self.random.delay(HOST_NS_MAX);
        self.plant(in_ns, PlantEvent::Fabric { incarnation, event: HelperEvent::Ended(why.to_owned()) });
    }

    /// Has something happen in an I/O node, and carries out what follows.
    pub(super) fn with_io_node<R>(&mut self, pset: PsetId, f: impl FnOnce(&mut IoNode, Now) -> R) -> Option<R> {
        let now = self.io_node_now(pset);
        let result = f(self.io_nodes.get_mut(&pset)?, now);
        self.settle_io_node(pset);
        Some(result)
    }

    pub(super) fn settle_io_node(&mut self, pset: PsetId) {
        let now = self.io_node_now(pset);
        loop {
            let Some(io_node) = self.io_nodes.get_mut(&pset) else { return };
            if let Some(effect) = io_node.machine.next_effect() {
                self.carry_out_effect(pset, effect, now);
                continue;
            }
            if !io_node.machine.is_full()
                && let Some(order) = io_node.orders.pop_front()
            {
                if let Err(error) = io_node.machine.order(order, now) {
                    self.violate(format!("I/O node {pset}: {error}"));
                }
                continue;
            }
            if io_node.in_pipe < PIPE_MESSAGES_MAX
                && let Some(message) = io_node.machine.next_message(now)
            {
                io_node.in_pipe += 1;
                self.say(pset, message);
                continue;
            }
            if io_node.machine.is_over() {
                return self.io_node_ends(pset, "told to");
            }
            break;
        }
        let Some(io_node) = self.io_nodes.get_mut(&pset) else { return };
        if let Some(at_ns) = io_node.alarm.set(io_node.due_ns(), self.now_ns) {
            self.queue.plan(at_ns, Event::IoNodeDue(pset, io_node.incarnation));
        }
    }

    fn say(&mut self, pset: PsetId, message: FromPset) {
        if let FromPset::Refused { reason, .. } = &message {
            self.checkers.refusals.refused(pset, reason, self.now_ns);
        }
        if let FromPset::Ended(ends) = &message {
            for report in ends.iter().flat_map(|ends| &ends.ends.reports) {
                self.check_written(pset, report);
            }
        }
        let soon_ns = self.now_ns + self.random.delay(HOST_NS_MAX);
        let Some(io_node) = self.io_nodes.get_mut(&pset) else { return };
        io_node.said_ns = io_node.said_ns.max(soon_ns);
        let event = PlantEvent::Pset { pset, incarnation: io_node.incarnation, event: HelperEvent::Said(message) };
        let at_ns = io_node.said_ns;
        self.queue.plan(at_ns, Event::Plant(Box::new(event)));
    }

    /// Of a rank that came to its end by itself, all that it wrote is on the host when that is said.
    fn check_written(&mut self, pset: PsetId, report: &RankReport) {
        let (job, rank) = (report.job, report.rank);
        let wrote = self.observed.lock().wrote.remove(&(job, rank));
        let is = self.io_nodes.get_mut(&pset).and_then(|io_node| io_node.disk.take_ended(job, rank));
        if let (Exit::Status(_), None) = (report.exit, &report.reason) {
            self.checkers.shares.ended(job, rank.0, &self.shared_files);
        }
        if let (Some(wrote), Some(is), Exit::Status(_), None) = (wrote, is, report.exit, &report.reason)
            && wrote != is
        {
            self.violate(format!(
                "rank {rank} of job {job} has written {wrote} bytes and ended, and its file has {is}"
            ));
        }
    }

    fn carry_out_effect(&mut self, pset: PsetId, effect: Effect, now: Now) {
        let disk_ns = self.disk_ns(pset, &effect);
        let Some(io_node) = self.io_nodes.get_mut(&pset) else { return };
        let incarnation = io_node.incarnation;
        let mut left = None;
        match effect {
            Effect::Move(line) => {
                if let Some(id) = io_node.lines.get(&line).copied() {
                    self.move_from_io_node(pset, id);
                    self.move_to_io_node(pset, id);
                }
            }
            Effect::Listen(line) => io_node.machine.listen(line, now),
            Effect::Flush(line) => {
                // What it has taken by now is on its way, whether it comes or not.
                if let Some(id) = io_node.lines.get(&line).copied() {
                    self.move_from_io_node(pset, id);
                }
                if let Some(io_node) = self.io_nodes.get_mut(&pset) {
                    io_node.machine.flushed(line);
                }
            }
            Effect::End { line, last } => {
                let Some(id) = io_node.lines.remove(&line) else { return };
                io_node.connections.remove(&id);
                self.end_from_io_node(id, last);
            }
            Effect::Open { place, spec } => {
                let is_there = self.host.has_copy(spec.program);
                io_node.disk.open(place, spec.job, is_there);
                self.checkers.refusals.opening(pset, io_node.disk.openings(), self.now_ns);
                self.plan(disk_ns, Event::Opened(pset, incarnation, place));
            }
            // Nobody orders it in this world.
            Effect::Keep(_) | Effect::EndKeep(_) => {}
            // Nor does anybody say there how fast links are.
            Effect::Take(_) | Effect::Broadcast { .. } | Effect::EndBroadcast { .. } => {}
            Effect::Region(order) => self.begin_region(pset, incarnation, order),
            Effect::Drop(place) => left = io_node.disk.forget(place),
            Effect::Try { id, place, rank, call, bulk } => {
                io_node.disk.begin(id, place, rank, call, bulk);
                io_node.machine.waits(id, now);
            }
            Effect::Run(id) => self.plan(disk_ns, Event::Done(pset, incarnation, id)),
            Effect::Cancel(id) => left = io_node.disk.cancel(id),
            Effect::Names { id, place, rank, call } => {
                io_node.disk.begin(id, place, rank, call, Vec::new());
                self.plan(disk_ns, Event::Done(pset, incarnation, id));
            }
            Effect::Manifest { id, place, rank, to_check } => {
                io_node.disk.begin_check(id, place, rank, to_check);
                self.plan(disk_ns, Event::Done(pset, incarnation, id));
            }
            Effect::Close { place, rank, .. } => {
                io_node.disk.close(place, rank);
                self.plan(disk_ns, Event::Closed(pset, incarnation, place, rank));
            }
        }
        if let (Some(place), Some(io_node)) = (left, self.io_nodes.get_mut(&pset)) {
            io_node.machine.left(place);
        }
    }

    /// How long the disk of an I/O node's host takes for this, ns.
    fn disk_ns(&mut self, pset: PsetId, effect: &Effect) -> u64 {
        let disk = self.io_nodes.get(&pset).map(|io_node| &io_node.disk);
        let mount_ns = disk.map_or(0, |disk| match effect {
            Effect::Names { place, .. } | Effect::Manifest { place, .. } | Effect::Close { place, .. } => {
                disk.hangs_until_ns(*place)
            }
            Effect::Run(call) => disk.place_of(*call).map_or(0, |place| disk.hangs_until_ns(place)),
            _ => 0,
        });
        let until_ns = self.dead_disks.get(&pset).copied().unwrap_or(0).max(mount_ns);
        until_ns.saturating_sub(self.now_ns) + self.random.delay(20 * MILLISECOND_NS)
    }

    /// What the clocks of an I/O node show.
    pub(super) fn io_node_now(&self, pset: PsetId) -> Now {
        let ns = self.io_nodes.get(&pset).map_or(0, |io_node| io_node.clock.shows_ns(self.now_ns));
        Now { ns, realtime_ns: self.host.wall_ns(self.now_ns) }
    }

    /// Whose an event is: it waits if that is stopped.
    pub(super) fn whose(&self, event: &Event) -> Option<Party> {
        match event {
            Event::HostDue
            | Event::Plant(_)
            | Event::User(_)
            | Event::Taken(..)
            | Event::TraceTaken(..)
            | Event::Led(_) => Some(Party::Host),
            Event::Ordered(pset, ..)
            | Event::IoNodeDue(pset, _)
            | Event::Opened(pset, ..)
            | Event::Done(pset, ..)
            | Event::Closed(pset, ..)
            | Event::Region(pset, ..) => Some(Party::IoNode(*pset)),
            Event::Booted(life) | Event::Reset(life) | Event::NodeDue(life) | Event::Engine(life) => {
                Some(Party::Machine(*life))
            }
            Event::Dialled(id) => match self.network.lock().get(*id)?.callee {
                Callee::IoNode(pset, _) => Some(Party::IoNode(pset)),
                Callee::Node(node, _) => self.machines.get(&node).map(|machine| Party::Machine(machine.life)),
            },
            Event::Answered(id, _) => self.party_at(*id, End::Caller),
            Event::Arrive(id, end) | Event::Acknowledged(id, end, _) | Event::Broke(id, end) => {
                self.party_at(*id, *end)
            }
            Event::HostStart | Event::Up | Event::Kill(_) | Event::Fault(_) | Event::Undo(_) | Event::Resume(_) => None,
        }
    }

    fn party_at(&self, id: ConnectionId, end: End) -> Option<Party> {
        let mut connections = self.network.lock();
        let connection = connections.get(id)?;
        let io_node = connection.io_node().filter(|_| end == End::Called);
        io_node.map(Party::IoNode).or_else(|| connection.life(end).map(Party::Machine))
    }

    /// Until when a party is stopped, ns.
    pub(super) fn stopped_until_ns(&self, party: Party) -> u64 {
        match party {
            Party::Host => self.host.stopped_until_ns,
            Party::IoNode(pset) => self.io_nodes.get(&pset).map_or(0, |io_node| io_node.stopped_until_ns),
            Party::Machine(life) => self.machine(life).map_or(0, |machine| machine.stopped_until_ns),
        }
    }

    /// Whether a helper's event is of this start.
    pub(super) fn is_now(&self, pset: PsetId, incarnation: Incarnation) -> bool {
        self.io_nodes.get(&pset).is_some_and(|io_node| io_node.incarnation == incarnation)
    }
}
