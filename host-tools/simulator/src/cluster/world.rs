//! The world: who is in it, and what each event does to whom.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use coppice_api::ras::{RasQuery, RasView};
use coppice_core::limits::PMI_CHARGE_BYTES;
use coppice_hal::user::simulated::play_with;
use coppice_protocol::ids::{NodeId, PsetId};
use coppice_protocol::pset::ToPset;
use coppice_protocol::psets::PsetTable;
use coppice_service_node::controller::{Event as HostEvent, Request};
use coppice_service_node::output::OutputEvent;
use coppice_service_node::plant::{HelperEvent, PlantEvent};

use super::Options;
use super::actor;
use super::checkers::Checkers;
use super::faults::{Cut, Faults};
use super::forgets::Forgetting;
use super::host::Host;
use super::io_node::IoNode;
use super::kept::Kept;
use super::last_job::LastJob;
use super::link_orders::LinkOrders;
use super::links::Links;
use super::machine::{LifeId, Machine};
use super::network::{ConnectionId, End, Network};
use super::process::Observed;
use super::queue::{Event, Party, Queue, SECOND_NS};
use super::regions::Attached;
use super::shared_files::SharedFiles;
use super::tracers::Tracers;
use super::trial::Trials;
use super::users::{self, User};
use super::whole::Stage;
use crate::checkers::{Violation, ensure};
use crate::random::Random;
use crate::trace::Trace;
use crate::{Failure, Report};

/// Events in a run; more mean that something goes round in circles.
const EVENTS_MAX: u64 = 20_000_000;
/// Events of the service node's that are shown of a run that fails.
const RAS_SHOWN_MAX: u32 = 12;
/// How often it is looked whether all has come right, ns.
pub(super) const LOOK_NS: u64 = SECOND_NS;

/// One run.
pub(super) struct World {
    seed: u64,
    pub options: Options,
    pub now_ns: u64,
    pub random: Random,
    pub queue: Queue,
    pub trace: Trace,
    pub checkers: Checkers,
    pub host: Host,
    pub kept: Kept,
    pub link_orders: LinkOrders,
    pub io_nodes: BTreeMap<PsetId, IoNode>,
    /// What ranks of jobs share on the host's disk.
    pub shared_files: SharedFiles,
    /// When the last order for each is there, ns.
    pub ordered_ns: BTreeMap<PsetId, u64>,
    pub machines: BTreeMap<NodeId, Machine>,
    pub network: Network,
    pub links: Links,
    pub observed: Observed,
    pub users: Vec<User>,
    /// Those who trace jobs.
    pub tracers: Tracers,
    /// They do much in little time.
    pub are_impatient: bool,
    pub faults: Faults,
    pub forgets: Vec<Forgetting>,
    /// Links that do not carry, and I/O nodes whose disk does not answer, until then, ns.
    pub cut_off: BTreeMap<Cut, u64>,
    pub dead_disks: BTreeMap<PsetId, u64>,
    pub lives: u64,
    /// Jobs that were to speak with PMI.
    pub talks: u64,
    /// What waits for those who are stopped.
    pub deferred: BTreeMap<Party, VecDeque<Event>>,
    /// How far the one job is, if there is to be only that.
    pub whole: Stage,
    /// How far the jobs are that have checkpoints, if there are to be only these.
    pub trials: Trials,
    /// How far the job is with which a run ends.
    pub last_job: LastJob,
    pub violations: Vec<Violation>,
    /// Something about the simulation itself did not work.
    pub trouble: Option<anyhow::Error>,
}

impl World {
    pub(super) fn new(seed: u64, options: &Options, only: Option<BTreeSet<u64>>) -> Result<Self, Failure> {
        let mut random = Random::new(seed);
        let failure = |error: anyhow::Error| Failure {
            seed,
            at_ns: 0,
            violation: Violation::new(format!("the world cannot be made: {error:#}")),
            faults: Vec::new(),
            trace: Vec::new(),
        };
        // Nodes and sessions take their random numbers from there.
        coppice_core::random::seed(&random.bytes());
        let host = Host::new(options, Random::new(random.next())).map_err(failure)?;
        let psets = options.nodes.div_ceil(options.pset_size.max(1));
        let links = Links::draw(&mut random, options.nodes, psets);
        let observed = Observed::default();
        let seen = observed.clone();
        play_with(Rc::new(move |regs, table| actor::play(regs, table, &seen)));
        let mut world = Self {
            seed,
            options: *options,
            now_ns: 0,
            random,
            queue: Queue::default(),
            trace: Trace::new(),
            checkers: Checkers::default(),
            host,
            kept: Kept::default(),
            link_orders: LinkOrders::default(),
            io_nodes: BTreeMap::new(),
            shared_files: SharedFiles::default(),
            ordered_ns: BTreeMap::new(),
            machines: BTreeMap::new(),
            network: Network::default(),
            links,
            observed,
            users: (0..options.users).map(|_| User::default()).collect(),
            tracers: Tracers::default(),
            are_impatient: false,
            faults: Faults::draw(seed, only),
            forgets: Vec::new(),
            cut_off: BTreeMap::new(),
            dead_disks: BTreeMap::new(),
            lives: 0,
            talks: 0,
            deferred: BTreeMap::new(),
            whole: Stage::default(),
            trials: Trials::default(),
            last_job: LastJob::default(),
            violations: Vec::new(),
            trouble: None,
        };
        world.are_impatient = users::are_impatient(&mut world.random);
        world.checkers.pmi.is_calm = world.faults.is_calm || options.is_alone();
        world.checkers.pmix.is_calm = world.checkers.pmi.is_calm;
        world.checkers.jobs.is_calm = world.faults.is_calm && !options.is_alone();
        world.checkers.promises.is_calm = world.faults.is_calm && !options.is_alone();
        world.plan_start(0);
        world.plan(LOOK_NS, Event::Up);
        if !options.is_alone() {
            (0..options.users).for_each(|user| world.plan_user(user));
            world.plan_fault();
        }
        Ok(world)
    }

    /// Things still go wrong.
    pub(super) fn is_faulty(&self) -> bool {
        self.now_ns < self.options.faulty_ns
    }

    pub(super) fn pset_of(&self, node: NodeId) -> PsetId {
        let psets = PsetTable::new(self.options.nodes, self.options.pset_size);
        psets.pset_of(node).unwrap_or(PsetId(u32::MAX))
    }

    pub(super) fn plan(&mut self, in_ns: u64, event: Event) {
        self.queue.plan(self.now_ns.saturating_add(in_ns), event);
    }

    pub(super) fn note(&mut self, name: &'static str, what: fmt::Arguments<'_>) {
        self.trace.note(self.now_ns, name, what);
    }

    pub(super) fn violate(&mut self, what: String) {
        self.violations.push(Violation::new(what));
    }

    /// Runs to the end, or to the first thing that must not be.
    pub(super) fn run(mut self) -> Result<Report, Failure> {
        // A part that panics says so with its seed.
        let played = catch_unwind(AssertUnwindSafe(|| self.play()));
        let result = played.unwrap_or_else(|panic| Err(Violation::new(words_of(&*panic)).by("panic")));
        if result.is_err() {
            self.note_ras();
        }
        let Self { seed, now_ns, trace, faults, .. } = self;
        let (counts, digest) = (trace.counts(), trace.digest());
        match result {
            Ok(()) => Ok(Report { counts, trace: trace.lines(), digest }),
            Err(violation) => {
                Err(Failure { seed, at_ns: now_ns, violation, faults: faults.struck, trace: trace.lines() })
            }
        }
    }

    /// What the service node has recorded last, which mostly says why it did what it did.
    fn note_ras(&mut self) {
        let query = RasQuery { limit: Some(RAS_SHOWN_MAX), ..RasQuery::default() };
        if let Some(Ok(events)) = self.host.ask(|answer| Request::Ras(query, answer), self.now_ns) {
            for RasView { at_ns, severity, node, text, .. } in events {
                let node = node.map(|node| format!(" of node {node}")).unwrap_or_default();
                self.note("recorded", format_args!("{severity}{node} at {:.6}: {text}", at_ns as f64 / 1e9));
            }
        }
    }

    fn play(&mut self) -> Result<(), Violation> {
        let mut events = 0;
        let mut next_look_ns = self.options.faulty_ns;
        let mut end_ns = None;
        while let Some((at_ns, event)) = self.queue.take() {
            self.now_ns = at_ns.max(self.now_ns);
            events += 1;
            ensure(events < EVENTS_MAX, || format!("{EVENTS_MAX} events without an end"))?;
            self.happen(event);
            self.settle_network();
            if self.options.trial.is_some() {
                self.go_on_with_the_trial();
            }
            self.check()?;
            if self.now_ns >= next_look_ns {
                next_look_ns = self.now_ns + LOOK_NS;
                match self.what_is_not_right() {
                    None => {
                        end_ns = Some(self.now_ns);
                        break;
                    }
                    Some(what) if self.now_ns >= self.options.faulty_ns + self.options.quiet_ns => {
                        return Err(Violation::new(format!("long after the last fault: {what}")).by("progress"));
                    }
                    Some(_) => {}
                }
            }
        }
        ensure(end_ns.is_some(), || "nothing happens any more".to_owned())?;
        self.check_records()?;
        self.check_holdings()?;
        self.trace.count("events", events);
        self.trace.count("processes", self.observed.lock().launched);
        self.note("all right", format_args!("after {events} events"));
        Ok(())
    }

    fn check(&mut self) -> Result<(), Violation> {
        self.look_at_processes();
        if let Some(error) = self.trouble.take() {
            return Err(Violation::new(format!("{error:#}")));
        }
        if let Some(what) = self.observed.lock().violations.pop() {
            return Err(Violation::new(what).by("processes"));
        }
        self.checkers.check()?;
        if self.violations.is_empty() { Ok(()) } else { Err(self.violations.remove(0)) }
    }

    fn run_node(&mut self, life: LifeId) {
        let now_ns = self.now_ns;
        self.look_for_memory(life);
        let Some(machine) = self.machine_mut(life) else { return };
        machine.run(now_ns);
        self.look_for_memory(life);
        let Some(machine) = self.machine_mut(life) else { return };
        if machine.is_off() {
            return self.machine_ends(life.node, "off");
        }
        self.plan_engine(life);
        self.plan_node(life);
    }

    /// Notes if a node has no memory for what its ranks say to each other.
    fn look_for_memory(&mut self, life: LifeId) {
        if self.machine_mut(life).is_some_and(|machine| machine.lacks(PMI_CHARGE_BYTES)) {
            self.checkers.troubles.is_short(life.node, self.now_ns);
        }
    }

    fn plan_node(&mut self, life: LifeId) {
        let now_ns = self.now_ns;
        let Some(machine) = self.machine_mut(life) else { return };
        let due_ns = machine.due_ns();
        if let Some(at_ns) = machine.alarm.set(due_ns, now_ns) {
            self.queue.plan(at_ns, Event::NodeDue(life));
        }
    }

    /// A boot's machine, if it is the one that is there.
    pub(super) fn machine(&self, life: LifeId) -> Option<&Machine> {
        self.machines.get(&life.node).filter(|machine| machine.life == life)
    }

    /// What the region of a boot is attached to.
    pub(super) fn region_mut(&mut self, life: LifeId) -> Option<&mut Attached> {
        self.machine_mut(life)?.region.as_mut()
    }

    fn machine_mut(&mut self, life: LifeId) -> Option<&mut Machine> {
        self.machines.get_mut(&life.node).filter(|machine| machine.life == life)
    }

    fn happen(&mut self, event: Event) {
        let Some(event) = self.carried(event) else { return };
        if let Some(party) = self.whose(&event) {
            let until_ns = self.stopped_until_ns(party);
            let waits = self.deferred.get_mut(&party);
            if until_ns > self.now_ns || waits.is_some() {
                // Who is stopped does it later, in the same order.
                if let Some(waits) = waits {
                    waits.push_back(event);
                } else {
                    self.deferred.insert(party, VecDeque::from([event]));
                    self.queue.plan(until_ns, Event::Resume(party));
                }
                return;
            }
        }
        let mut woken = None;
        match event {
            Event::HostDue => {
                let due_ns = self.host.due_ns();
                if self.host.alarm.rings(due_ns, self.now_ns) {
                    self.checkers.rates.host_due(self.host.disk.refused(), self.now_ns);
                    self.host.advance(self.now_ns);
                }
                self.settle_host();
            }
            Event::HostStart => self.start_host(),
            Event::Up => self.look_whether_up(),
            Event::Plant(event) => self.plant_says(*event),
            Event::Ordered(pset, incarnation, order) if self.is_now(pset, incarnation) => {
                self.with_io_node(pset, |io_node, _| match *order {
                    ToPset::Configure { .. } => {
                        io_node.is_configured = true;
                        io_node.machine.begin();
                    }
                    order => io_node.orders.push_back(order),
                });
            }
            Event::IoNodeDue(pset, incarnation) if self.is_now(pset, incarnation) => {
                let now_ns = self.now_ns;
                self.with_io_node(pset, |io_node, now| {
                    if io_node.alarm.rings(io_node.due_ns(), now_ns) {
                        io_node.machine.advance(now);
                    }
                });
            }
            Event::Opened(pset, incarnation, place) if self.is_now(pset, incarnation) => {
                self.with_io_node(pset, |io_node, now| {
                    let (opened, left) = io_node.disk.opened(place);
                    io_node.machine.opened(place, opened, now);
                    if let Some(place) = left {
                        io_node.machine.left(place);
                    }
                });
            }
            Event::Done(pset, incarnation, id) if self.is_now(pset, incarnation) => {
                let sent = self.with_io_node(pset, |io_node, now| {
                    if let Some((answer, left)) = io_node.disk.finish(id, now.realtime_ns) {
                        io_node.machine.done(id, answer, now);
                        left.into_iter().for_each(|place| io_node.machine.left(place));
                    }
                    io_node.disk.take_sent()
                });
                sent.into_iter().flatten().for_each(|sent| self.checkers.retention.sent(sent));
            }
            Event::Closed(pset, incarnation, place, rank) if self.is_now(pset, incarnation) => {
                self.with_io_node(pset, |io_node, now| {
                    io_node.machine.closed(place, rank, now);
                    if let Some(place) = io_node.disk.rest(place) {
                        io_node.machine.left(place);
                    }
                });
            }
            Event::Region(pset, incarnation, node) if self.is_now(pset, incarnation) => {
                self.region_goes_on(pset, incarnation, node);
            }
            Event::Ordered(..)
            | Event::IoNodeDue(..)
            | Event::Opened(..)
            | Event::Done(..)
            | Event::Closed(..)
            | Event::Region(..) => {}
            Event::Led(number) => self.led(number),
            Event::Engine(life) => {
                if self.engine_steps(life)
                    && let Some(machine) = self.machine(life)
                {
                    machine.engine_has_done_something();
                    woken = Some(life);
                }
            }
            Event::Booted(life) => {
                let (network, observed) = (self.network.clone(), self.observed.clone());
                let now_ns = self.now_ns;
                if let Some(machine) = self.machine_mut(life) {
                    machine.boot(&network, &observed, now_ns);
                }
                woken = Some(life);
            }
            Event::Reset(life) => self.reset(life),
            Event::NodeDue(life) => {
                let now_ns = self.now_ns;
                if self.machine_mut(life).is_some_and(|machine| machine.rings(now_ns)) {
                    woken = Some(life);
                } else {
                    self.plan_node(life);
                }
            }
            Event::Dialled(id) => {
                self.dialled(id);
                woken = self.life_at(id, End::Called);
            }
            Event::Answered(id, is_open) => {
                self.answered(id, is_open);
                woken = self.life_at(id, End::Caller);
            }
            Event::Arrive(id, end) => {
                self.arrive(id, end);
                // What has reached an I/O node is acknowledged.
                woken = self.life_at(id, end).or_else(|| self.life_at(id, End::Caller));
            }
            Event::Acknowledged(id, end, reached) => {
                self.acknowledged(id, end, reached);
                woken = self.life_at(id, end);
            }
            Event::Broke(id, end) => {
                self.broke(id, end);
                woken = self.life_at(id, end);
            }
            Event::User(user) => self.user_acts(user),
            Event::Taken(job, pset, bytes) => self.taken(job, pset, bytes),
            Event::TraceTaken(tracer, pset, bytes) => self.trace_taken(tracer, pset, bytes),
            Event::Kill(life) => {
                if self.machine(life).is_some() {
                    self.machine_ends(life.node, "it did not boot");
                }
            }
            Event::Fault(number) => self.fault(number),
            Event::Undo(undo) => self.undo(undo),
            Event::Resume(party) => self.resume(party),
        }
        if let Some(life) = woken {
            self.run_node(life);
        }
    }

    fn resume(&mut self, party: Party) {
        let until_ns = self.stopped_until_ns(party);
        if until_ns > self.now_ns {
            return self.queue.plan(until_ns, Event::Resume(party));
        }
        let waits = self.deferred.remove(&party).unwrap_or_default();
        // A service node that goes on sees first, as chance has it, what was said to it or that something is due.
        if party == Party::Host && self.random.chance(500) {
            self.happen(Event::HostDue);
        }
        for event in waits {
            self.happen(event);
            self.settle_network();
        }
    }

    fn life_at(&self, id: ConnectionId, end: End) -> Option<LifeId> {
        self.network.lock().get(id).and_then(|connection| connection.life(end))
    }

    fn plant_says(&mut self, event: PlantEvent) {
        if let PlantEvent::Output { job, event: OutputEvent::Taken { pset, bytes, .. } } = &event {
            self.kept_taken(*job, *pset, *bytes);
        }
        if let PlantEvent::Pset { pset, incarnation, event: HelperEvent::Said(_) } = &event
            && self.is_now(*pset, *incarnation)
        {
            let pset = *pset;
            self.host.handle(HostEvent::Plant(event), self.now_ns);
            self.with_io_node(pset, |io_node, _| io_node.in_pipe = io_node.in_pipe.saturating_sub(1));
        } else {
            self.host.handle(HostEvent::Plant(event), self.now_ns);
        }
        self.settle_host();
    }
}

/// What somebody said who panicked.
fn words_of(panic: &(dyn Any + Send)) -> String {
    let formatted = panic.downcast_ref::<String>().map(String::as_str);
    formatted.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a part panicked").to_owned()
}
