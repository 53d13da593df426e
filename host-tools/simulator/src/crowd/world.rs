//! The world: carries orders out, moves bytes between nodes and I/O nodes, and lets time pass.

mod fabric;
mod live;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use coppice_api::ClusterPaths;
use coppice_api::job::{JobDetail, JobState, Submission};
use coppice_api::link::{LinkShape, Station};
use coppice_io_node::machine::{Effect, LineId, Machine, Now as MachineNow};
use coppice_protocol::ids::{Generation, JobId, NodeId, ProgramId, PsetId};
use coppice_protocol::pset::{self, FromPset, ToPset};
use coppice_protocol::psets::PsetTable;
use coppice_protocol::retain::RetentionPolicy;
use coppice_protocol::session::{Channel, Identity, Session};
use coppice_qemu::machine::Accelerator;
use coppice_service_node::controller::{Config, Controller, Event, Now, Refused, Request};
use coppice_service_node::database::{Database, FileKey, ProgramRow};
use coppice_service_node::plant::{FromFabric, HelperEvent, Incarnation, LastWords, MachineEvent, PlantEvent};
use coppice_service_node::records::Records;
use coppice_service_node::store::{Found, ProgramStore};
use tokio::sync::oneshot;

use super::node::{Node, Wire};
use super::plant::{KEY, Noting, Order};
use super::time::Meter;
use super::{Costs, Ended, Options, Traffic};

/// Simulated time in which everything is to have happened, ns.
const PATIENCE_NS: u64 = 4 * 3600 * 1_000_000_000;

/// An I/O node.
#[derive(Debug, Default)]
struct Pset {
    machine: Machine,
    incarnation: Incarnation,
    lines: BTreeMap<LineId, (NodeId, Channel)>,
    /// Nodes that have something to read or to say.
    moving: BTreeSet<NodeId>,
}

/// See this module.
pub(super) struct World {
    options: Options,
    controller: Controller<Noting>,
    store: ProgramStore,
    plant: Noting,
    table: PsetTable,
    fabric: Incarnation,
    /// Whose links it has. Nothing passes on them: what nodes say goes another way.
    stations: Vec<Station>,
    psets: Vec<Pset>,
    nodes: BTreeMap<NodeId, Node>,
    generations: BTreeMap<NodeId, Generation>,
    /// Nodes that got ready, each time they did.
    ready: u32,
    /// Nodes whose ranks end, by when, ns.
    due: BTreeSet<(u64, NodeId)>,
    events: VecDeque<Event>,
    meter: Meter,
    of_psets: Traffic,
    of_nodes: Traffic,
    begin: Instant,
    /// When that was, ns since 1970.
    began_ns: u64,
    now_ns: u64,
    _home: Option<tempfile::TempDir>,
}

impl World {
    pub(super) fn new(options: &Options) -> Result<Self, String> {
        let home = tempfile::tempdir().map_err(|error| error.to_string())?;
        let name = "crowd".parse().map_err(|_| "no name".to_owned())?;
        let variable = |wanted: &str| (wanted == "COPPICE_HOME").then(|| home.path().as_os_str().to_owned());
        let paths = ClusterPaths::find_with(name, variable, 0).map_err(|error| error.to_string())?;
        paths.create().map_err(|error| error.to_string())?;
        let world = Self::at(options, paths, 1)?;
        Ok(Self { _home: Some(home), ..world })
    }

    /// One that lies in that place, which is there, and begins at that time, ns since 1970.
    pub(super) fn at(options: &Options, paths: ClusterPaths, began_ns: u64) -> Result<Self, String> {
        let said = |error: &dyn std::fmt::Display| error.to_string();
        let database = Database::open(&paths.database()).map_err(|error| said(&error))?;
        let records = Records::with_reserve(Box::new(database), &paths.reserve()).map_err(|error| said(&error))?;
        let store = ProgramStore::open(paths.programs()).map_err(|error| said(&error))?;
        let config = Config {
            paths,
            nodes: options.nodes,
            cores: 2,
            memory_bytes: 64 << 20,
            region_bytes: 0,
            pset_size: options.pset_size,
            retention: RetentionPolicy::Many,
            freeze_every_ns: 0,
            host_cores: 2,
            boots_max: 1024,
            link: LinkShape::default(),
        };
        let (plant, begin) = (Noting::default(), Instant::now());
        let now = Now { instant: begin, realtime_ns: began_ns };
        let controller =
            Controller::new(config, records, store.clone(), plant.clone(), now).map_err(|error| said(&error))?;
        let table = PsetTable::new(options.nodes, options.pset_size);
        let psets = table.psets().map(|_| Pset::default()).collect();
        Ok(Self {
            options: options.clone(),
            controller,
            store,
            plant,
            table,
            fabric: Incarnation::default(),
            stations: Vec::new(),
            psets,
            nodes: BTreeMap::new(),
            generations: BTreeMap::new(),
            ready: 0,
            due: BTreeSet::new(),
            events: VecDeque::new(),
            meter: Meter::default(),
            of_psets: Traffic::default(),
            of_nodes: Traffic::default(),
            begin,
            began_ns,
            now_ns: 0,
            _home: None,
        })
    }

    fn now(&self) -> Now {
        Now { instant: self.begin + Duration::from_nanos(self.now_ns), realtime_ns: self.began_ns + self.now_ns }
    }

    fn moment(&self) -> MachineNow {
        MachineNow { ns: self.now_ns, realtime_ns: self.began_ns + self.now_ns }
    }

    /// Brings all nodes up.
    pub(super) fn come_up(&mut self) -> Result<(), String> {
        self.controller.start(self.now());
        let nodes = self.options.nodes;
        self.go_on_until("all nodes are ready", |world| world.ready == nodes)
    }

    /// Has a job run on all nodes to its end.
    pub(super) fn run_job(&mut self) -> Result<(Ended, Costs), String> {
        self.meter.take();
        (self.of_psets, self.of_nodes) = (Traffic::default(), Traffic::default());
        let begun_ns = self.now_ns;
        let job = self.submit()?;
        let mut start = None;
        let mut looked_ns = None;
        self.go_on_until("the job is over", |world| {
            if looked_ns != Some(world.now_ns) {
                looked_ns = Some(world.now_ns);
                match world.state(job) {
                    Some(JobState::Running) if start.is_none() => start = Some(world.meter.take()),
                    Some(JobState::Ended) => return true,
                    _ => {}
                }
            }
            false
        })?;
        let end = self.meter.take();
        let lasted = Duration::from_nanos(self.now_ns - begun_ns);
        let detail = self.job(job)?;
        if detail.job.state != JobState::Ended {
            return Err(format!("the job is over and recorded as {:?}", detail.job.state));
        }
        let ended = Ended {
            exit_status: detail.job.exit_status.unwrap_or_default(),
            reason: detail.job.reason,
            reports: detail.rank_reports.len(),
            lasted,
        };
        let costs = Costs { start: start.unwrap_or_default(), end, psets: self.of_psets, nodes: self.of_nodes };
        self.nothing_is_left()?;
        Ok((ended, costs))
    }

    /// Nothing of the job is left where it could be in the way of another.
    fn nothing_is_left(&self) -> Result<(), String> {
        for (number, pset) in self.psets.iter().enumerate() {
            let remains = pset.machine.remains();
            if remains.jobs > 0 || remains.ends > 0 {
                return Err(format!("I/O node {number} has {remains:?}"));
            }
        }
        match self.nodes.iter().find(|(_, node)| node.ranks() > 0) {
            Some((id, node)) => Err(format!("node {id} has {} ranks", node.ranks())),
            None => Ok(()),
        }
    }

    pub(super) fn submit(&mut self) -> Result<JobId, String> {
        let Options { nodes, ranks_per_node, .. } = self.options;
        let program = ProgramRow { id: ProgramId([3; 32]), bytes: 1 << 20, memory_bytes: 64 << 10 };
        let file = FileKey { device: 1, inode: 2, bytes: 1 << 20, modified_ns: 4, changed_ns: 5 };
        let job = Submission {
            arguments: vec!["--steps".into(), "100".into()],
            environment: (0..20).map(|number| format!("VARIABLE_{number}=value").into()).collect(),
            ranks_per_node,
            detached: true,
            ..Submission::plain("/bin/prog".into(), "prog".into(), nodes * ranks_per_node)
        };
        let held = self.store.hold(program);
        self.ask(|answer| Request::Submit(Box::new(job), held, file, Vec::new(), answer))
    }

    /// How far the job is. Asking takes time of the service node, which is not the job's.
    fn state(&mut self, job: JobId) -> Option<JobState> {
        let (answer, mut answered) = oneshot::channel();
        let now = self.now();
        self.controller.handle(Event::Request(Request::Jobs(1, None, answer)), now);
        let jobs = answered.try_recv().ok()?.ok()?;
        jobs.into_iter().find(|view| view.job == job.0).map(|view| view.state)
    }

    fn job(&mut self, job: JobId) -> Result<JobDetail, String> {
        self.ask(|answer| Request::Job(job, answer))
    }

    fn ask<T>(&mut self, request: impl FnOnce(oneshot::Sender<Result<T, Refused>>) -> Request) -> Result<T, String> {
        let (answer, mut answered) = oneshot::channel();
        self.handle(Event::Request(request(answer)));
        let answer = answered.try_recv().map_err(|_| "a request is not answered at once".to_owned())?;
        answer.map_err(|refused| format!("{refused:?}"))
    }

    /// Has the controller take something in, and counts the time.
    fn handle(&mut self, event: Event) {
        let now = self.now();
        self.meter.count(|| self.controller.handle(event, now));
    }

    fn go_on_until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) -> Result<(), String> {
        let end_ns = self.now_ns + PATIENCE_NS;
        loop {
            while self.step()? {}
            if is_so(self) {
                return Ok(());
            }
            let Some(next_ns) = self.due_ns() else {
                return Err(format!("nothing is due, and not yet so: {what}"));
            };
            self.now_ns = self.now_ns.max(next_ns);
            if self.now_ns > end_ns {
                return Err(format!("not in {} s: {what}", PATIENCE_NS / 1_000_000_000));
            }
            self.advance();
        }
    }

    /// When something is due, ns since it began.
    pub(super) fn due_ns(&self) -> Option<u64> {
        let machines = self.psets.iter().filter_map(|pset| pset.machine.deadline()).min();
        let controller = self.controller.deadline();
        let controller = controller.map(|at| at.saturating_duration_since(self.begin).as_nanos() as u64);
        let node = self.due.first().map(|(due_ns, _)| *due_ns);
        [machines, controller, node].into_iter().flatten().min()
    }

    /// Does what is due.
    fn advance(&mut self) {
        let (now, at) = (self.now(), self.moment());
        if self.controller.deadline().is_some_and(|deadline| deadline <= now.instant) {
            self.meter.count(|| self.controller.advance(now));
        }
        for pset in &mut self.psets {
            if pset.machine.deadline().is_some_and(|deadline_ns| deadline_ns <= at.ns) {
                pset.machine.advance(at);
            }
        }
        while let Some((due_ns, id)) = self.due.first().copied().filter(|(due_ns, _)| *due_ns <= at.ns) {
            self.due.remove(&(due_ns, id));
            if let Some(node) = self.nodes.get_mut(&id) {
                node.advance(at.ns, &mut self.of_nodes);
                self.move_again(id);
            }
        }
    }

    fn move_again(&mut self, node: NodeId) {
        let pset = self.table.pset_of(node);
        if let Some(pset) = pset.and_then(|pset| self.psets.get_mut(pset.0 as usize)) {
            pset.moving.insert(node);
        }
    }

    /// One turn of everybody: the service node carries its orders out, some nodes of each pset are heard, and the
    /// service node takes one message of each I/O node. Whether there was anything to do.
    fn step(&mut self) -> Result<bool, String> {
        let mut is_busy = false;
        while let Some(order) = self.plant.next() {
            is_busy = true;
            self.carry_out(order)?;
        }
        while let Some(event) = self.events.pop_front() {
            is_busy = true;
            self.handle(event);
        }
        for number in 0..self.psets.len() {
            is_busy |= self.turn_of(number)?;
        }
        Ok(is_busy)
    }

    fn carry_out(&mut self, order: Order) -> Result<(), String> {
        match order {
            Order::FindAccelerator => {
                self.events.push_back(Event::Plant(PlantEvent::Accelerator(Ok(Accelerator::Tcg))));
            }
            Order::StartFabric(incarnation, stations) => {
                (self.fabric, self.stations) = (incarnation, stations);
                self.of_fabric(HelperEvent::Started { pid: 10 });
                self.of_fabric(HelperEvent::Said(FromFabric::Alive));
            }
            Order::TellFabric(request, orders) => self.tell_fabric(request, &orders),
            Order::AskFabric => self.of_fabric(HelperEvent::Said(FromFabric::Alive)),
            Order::StartIoNode(pset, incarnation) => {
                if let Some(of) = self.psets.get_mut(pset.0 as usize) {
                    of.incarnation = incarnation;
                    of.machine.begin();
                }
                self.of_pset(pset, HelperEvent::Started { pid: 100 + pset.0 });
            }
            Order::Tell(pset, bytes) => {
                self.of_psets.messages_down += 1;
                self.of_psets.bytes_down += bytes.len() as u64;
                let at = self.moment();
                let decoded = pset::decode::<ToPset>(&bytes).map_err(|error| error.to_string())?;
                let (Some((order, _)), Some(of)) = (decoded, self.psets.get_mut(pset.0 as usize)) else {
                    return Err("an order makes no sense".to_owned());
                };
                if !matches!(order, ToPset::Configure { .. }) {
                    of.machine.order(order, at).map_err(|error| error.to_string())?;
                }
            }
            Order::CheckProgram(job) => {
                self.events.push_back(Event::Plant(PlantEvent::Program { job, found: Ok(Found::Sound) }));
            }
            Order::Boot(node, generation) => self.boot(node, generation)?,
            Order::KillMachine(node) => {
                self.nodes.remove(&node);
                let ended = MachineEvent::Ended { reason: "killed".into(), last_words: LastWords::None };
                let generation = self.generations.get(&node).copied().unwrap_or(Generation(0));
                self.events.push_back(Event::Plant(PlantEvent::Machine { node, generation, event: ended }));
            }
        }
        Ok(())
    }

    fn of_pset(&mut self, pset: PsetId, event: HelperEvent<FromPset>) {
        let incarnation = self.psets.get(pset.0 as usize).map(|of| of.incarnation).unwrap_or_default();
        self.events.push_back(Event::Plant(PlantEvent::Pset { pset, incarnation, event }));
    }

    /// A machine boots, and its node calls at once.
    fn boot(&mut self, id: NodeId, generation: Generation) -> Result<(), String> {
        self.generations.insert(id, generation);
        let started = MachineEvent::Started { pid: 1000 + id.0 };
        self.events.push_back(Event::Plant(PlantEvent::Machine { node: id, generation, event: started }));
        let (at, identity) = (self.moment(), Identity { node: id, generation });
        let pset = self.table.pset_of(id).ok_or("a node of no pset")?;
        let of = self.psets.get_mut(pset.0 as usize).ok_or("no such pset")?;
        let mut connect = |channel| {
            let line = of.machine.accept(channel, (id.address(), 1), [1; 16], at)?;
            of.lines.insert(line, (id, channel));
            Some(Wire { line, session: Session::connect(channel, identity, &KEY, [2; 16], at.ns) })
        };
        let (control, ship) = (connect(Channel::Control), connect(Channel::Ship));
        let fault = self.options.fault.filter(|(node, _)| *node == id).map(|(_, fault)| fault);
        let node = Node::new(control.ok_or("not accepted")?, ship.ok_or("not accepted")?, self.options.lasts_ns, fault);
        of.moving.insert(id);
        self.nodes.insert(id, node);
        // So that there are never more handshakes under way than there may be.
        while self.turn_of(pset.0 as usize)? {}
        Ok(())
    }

    fn turn_of(&mut self, number: usize) -> Result<bool, String> {
        let at = self.moment();
        let mut is_busy = false;
        for _ in 0..self.options.turn {
            let Some(id) = self.psets.get_mut(number).and_then(|pset| pset.moving.pop_first()) else { break };
            is_busy = true;
            self.exchange(number, id);
        }
        let Some(pset) = self.psets.get_mut(number) else { return Ok(false) };
        while let Some(effect) = pset.machine.next_effect() {
            is_busy = true;
            match effect {
                Effect::Move(line) => {
                    if let Some((node, _)) = pset.lines.get(&line) {
                        pset.moving.insert(*node);
                    }
                }
                Effect::Listen(line) => pset.machine.listen(line, at),
                Effect::Flush(line) => pset.machine.flushed(line),
                Effect::End { line, .. } => drop(pset.lines.remove(&line)),
                Effect::Open { place, .. } => pset.machine.opened(place, Ok(()), at),
                Effect::Close { place, rank, .. } => pset.machine.closed(place, rank, at),
                Effect::Drop(place) => pset.machine.left(place),
                other => return Err(format!("nobody has asked for that: {other:?}")),
            }
        }
        if let Some(message) = pset.machine.next_message(at) {
            is_busy = true;
            self.ready += u32::from(matches!(message, FromPset::NodeReady { .. }));
            let bytes = pset::encode(&message).map_err(|error| error.to_string())?;
            self.of_psets.messages_up += 1;
            self.of_psets.bytes_up += bytes.len() as u64;
            let (pset, incarnation, now) = (PsetId(number as u32), pset.incarnation, self.now());
            let controller = &mut self.controller;
            self.meter.count(|| {
                let decoded = pset::decode::<FromPset>(&bytes).map_err(|error| error.to_string())?;
                let (message, _) = decoded.ok_or("half a message")?;
                let event = HelperEvent::Said(message);
                controller.handle(Event::Plant(PlantEvent::Pset { pset, incarnation, event }), now);
                Ok::<(), String>(())
            })?;
        }
        Ok(is_busy)
    }

    /// Moves bytes between a node and its I/O node, both ways.
    fn exchange(&mut self, number: usize, id: NodeId) {
        let at = self.moment();
        let (Some(pset), Some(node)) = (self.psets.get_mut(number), self.nodes.get_mut(&id)) else { return };
        let machine = &mut pset.machine;
        for wire in [&mut node.control, &mut node.ship] {
            let bytes: Arc<[u8]> = machine.transmit(wire.line).into();
            machine.consume(wire.line, bytes.len(), at);
            // A session that has failed says nothing more, and its node is lost.
            let _ = wire.session.handle_bytes(&bytes);
        }
        let before = node.due_ns();
        node.listen(at.ns, &mut self.of_nodes);
        if let Some(due_ns) = before.filter(|_| node.due_ns() != before) {
            self.due.remove(&(due_ns, id));
        }
        if let Some(due_ns) = node.due_ns() {
            self.due.insert((due_ns, id));
        }
        if node.is_silent() {
            return;
        }
        for wire in [&mut node.control, &mut node.ship] {
            if !machine.is_read(wire.line) {
                continue;
            }
            let bytes: Arc<[u8]> = wire.session.transmit().into();
            if !bytes.is_empty() {
                wire.session.consume(bytes.len());
                machine.receive(wire.line, &bytes);
                machine.listen(wire.line, at);
                pset.moving.insert(id);
            }
        }
    }
}
