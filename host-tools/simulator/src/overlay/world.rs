//! The front end, the nodes, what is on its way, and the time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use coppice_protocol::ids::{NodeId, Rank};
use coppice_protocol::overlay::placement::Host;
use coppice_protocol::overlay::topology::Topology;
use coppice_protocol::overlay::{Above, Down, Event, FrontEnd, Layout, Subject, Up};
use coppice_protocol::ranks::Ranks;

use super::checker::Checker;
use super::node::Node;
use super::{Job, Options, Placed};
use crate::checkers::{Violation, ensure};
use crate::random::Random;
use crate::trace::Trace;
use crate::{Failure, Report};

/// Until a tree is there in any case, ns: nodes that never come, and processes that never do.
const START_NS: u64 = 12_000_000_000;

/// From the end of ranks until the job is over, ns: what they have said has come by then.
const OVER_NS: u64 = 2_000_000_000;

/// What happens.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    /// A node hears what the front end says.
    Down(u32, Vec<u8>),
    /// A process on a node hears somebody below it, who is on this other one.
    Up {
        node: u32,
        index: u32,
        from: u32,
        bytes: Vec<u8>,
    },
    /// The front end hears a node.
    Home(u32, Vec<u8>),
    /// An epoch ends on a node.
    EpochEnds(u32, u64),
    /// All ranks of a node end, within the epoch after the last one.
    RanksEnd(u32),
    /// The job is over.
    Over,
    /// Something goes wrong in an epoch, or not.
    Faults(u64),
    /// The front end hears of a death.
    Death(u32),
    Clock,
}

pub(super) struct World {
    seed: u64,
    job: Job,
    options: Options,
    random: Random,
    front_end: FrontEnd,
    generation: u32,
    nodes: Vec<Node>,
    checker: Checker,
    queue: BinaryHeap<Reverse<(u64, u64, Happens)>>,
    number: u64,
    now_ns: u64,
    clock_ns: Option<u64>,
    /// When the last message from one to another comes, ns; the front end is behind the last node.
    arrivals_ns: BTreeMap<(u32, u32), u64>,
    /// The epoch in which somebody has died last, and how many have by now.
    last_death: Option<u64>,
    deaths: u64,
    has_started: bool,
    trace: Trace,
}

fn subject(job: &Job) -> Subject {
    let ranks = |node: u32| Ranks::range(Rank(node * job.ranks_per_node), job.ranks_per_node);
    let nodes: BTreeMap<NodeId, Ranks> = (0..job.nodes).map(|node| (NodeId(node), ranks(node))).collect();
    let layout = match job.placed {
        Placed::Average => Layout::Average,
        Placed::Comprehensive => {
            let host = |node: u32| Host {
                load: f64::from(node % 7) / 7.0,
                free_memory_bytes: u64::from(node * node % 31) << 20,
                bandwidth: 1 << (node % 5),
                distance: node % 3,
                back_ends: job.ranks_per_node,
                cores: 1 + node % 2,
            };
            Layout::Comprehensive((0..job.nodes).map(|node| (NodeId(node), host(node))).collect())
        }
        // Every third node, and one that is not there.
        Placed::File => {
            let placed: Vec<_> = (0..job.nodes + 1).map(|node| (NodeId(node), u32::from(node % 3 == 0))).collect();
            Layout::Given(Topology::over(&placed, 5))
        }
    };
    Subject { size: job.size(), nodes, layout, period_ns: job.period_ns, sample_period_ns: 1_000_000 }
}

impl World {
    pub(super) fn new(seed: u64, job: Job, options: Options, mut random: Random) -> Self {
        let subject = subject(&job);
        let mut nodes: Vec<Node> = subject.nodes.iter().map(|(id, ranks)| Node::new(*id, ranks.clone())).collect();
        for node in &mut nodes {
            if random.chance(100) {
                node.late_ns = random.delay(8_000_000_000);
            }
            node.lies = random.chance(20);
        }
        let mut world = Self {
            seed,
            job,
            options,
            random,
            front_end: FrontEnd::new(1, subject, 0),
            generation: 1,
            nodes,
            checker: Checker::default(),
            queue: BinaryHeap::new(),
            number: 0,
            now_ns: 0,
            clock_ns: None,
            arrivals_ns: BTreeMap::new(),
            last_death: None,
            deaths: 0,
            has_started: false,
            trace: Trace::new(),
        };
        let epochs = options.faulty_epochs + options.quiet_epochs;
        for epoch in 0..epochs {
            let ends_ns = START_NS + epoch * job.period_ns;
            for node in 0..job.nodes {
                // Clocks are not all the same.
                let ends_ns = ends_ns + world.random.between(0, job.period_ns / 50);
                world.at(ends_ns, Happens::EpochEnds(node, epoch));
            }
            if epoch < options.faulty_epochs {
                let at_ns = ends_ns + world.random.between(0, job.period_ns);
                world.at(at_ns, Happens::Faults(epoch));
            }
        }
        // Ranks end amid an epoch, and then so does the job.
        let over_ns = START_NS + epochs * job.period_ns;
        for node in 0..job.nodes {
            let ends_ns = over_ns + world.random.between(0, job.period_ns / 2);
            world.at(ends_ns, Happens::RanksEnd(node));
        }
        world.at(over_ns + job.period_ns + OVER_NS, Happens::Over);
        world.checker.last = epochs;
        world
    }

    fn at(&mut self, at_ns: u64, what: Happens) {
        self.number += 1;
        self.queue.push(Reverse((at_ns, self.number, what)));
    }

    pub(super) fn run(mut self) -> Result<Report, Failure> {
        match self.go() {
            Ok(()) => {
                let (counts, digest) = (self.trace.counts(), self.trace.digest());
                Ok(Report { counts, digest, trace: self.trace.lines() })
            }
            Err(violation) => {
                let mut trace = vec![format!("{:?}", self.job)];
                trace.extend(self.trace.lines());
                Err(Failure { seed: self.seed, at_ns: self.now_ns, violation, faults: Vec::new(), trace })
            }
        }
    }

    fn go(&mut self) -> Result<(), Violation> {
        self.settle()?;
        while let Some(Reverse((at_ns, _, what))) = self.queue.pop() {
            self.now_ns = at_ns;
            self.happen(what)?;
            self.settle()?;
        }
        self.check_end()
    }

    fn happen(&mut self, what: Happens) -> Result<(), Violation> {
        let now_ns = self.now_ns;
        let broken = |error: coppice_protocol::overlay::NoMessage| Violation::new(error.to_string());
        match what {
            Happens::Down(node, bytes) => {
                let here = &mut self.nodes[node as usize];
                if here.is_dead {
                    return Ok(());
                }
                let order = Down::decode(&bytes).map_err(broken)?;
                if let Some(answer) = here.handle_down(order, now_ns) {
                    let late_ns = if matches!(answer, Up::Here { .. }) { here.late_ns } else { 0 };
                    self.send(node, Above::FrontEnd, &answer, late_ns);
                }
                self.flush(node);
            }
            Happens::Up { node, index, from, bytes } => {
                let here = &mut self.nodes[node as usize];
                if !here.is_dead {
                    let message = Up::decode(&bytes).map_err(broken)?;
                    let is_heard = here.part.handle_up(NodeId(from), index, message, now_ns);
                    ensure(is_heard, || format!("node {node} does not hear node {from}"))?;
                    self.flush(node);
                }
            }
            Happens::Home(node, bytes) => {
                self.front_end.handle(NodeId(node), Up::decode(&bytes).map_err(broken)?, now_ns)
            }
            Happens::EpochEnds(node, epoch) => {
                let here = &mut self.nodes[node as usize];
                if !here.is_dead && here.end_epoch(epoch, self.job.size()) {
                    self.checker.said.entry(epoch).or_default().join(&here.ranks);
                    here.so_far.iter().for_each(|(rank, all)| self.checker.was_somewhere(*rank, epoch, all.clone()));
                    self.flush(node);
                }
            }
            Happens::RanksEnd(node) => {
                let (here, epoch) = (&mut self.nodes[node as usize], self.checker.last);
                let is_late = self.random.chance(200);
                if !here.is_dead
                    && let Some(last) = here.end(epoch, self.job.size(), is_late)
                {
                    self.checker.said.entry(epoch).or_default().join(&here.ranks);
                    here.so_far.iter().for_each(|(rank, all)| self.checker.was_somewhere(*rank, epoch, all.clone()));
                    self.send(node, Above::FrontEnd, &last, 0);
                    self.flush(node);
                }
            }
            Happens::Over => self.front_end.end(),
            Happens::Faults(epoch) => self.strike(epoch),
            Happens::Death(node) => self.front_end.node_lost(NodeId(node), now_ns),
            Happens::Clock => {
                self.clock_ns = None;
                self.front_end.handle_timeout(now_ns);
                for node in 0..self.job.nodes {
                    let here = &mut self.nodes[node as usize];
                    if !here.is_dead && here.part.poll_timeout().is_some_and(|at_ns| at_ns <= now_ns) {
                        here.part.handle_timeout(now_ns);
                        self.flush(node);
                    }
                }
            }
        }
        Ok(())
    }

    /// Nodes die, by themselves or two at a time; the front end is made anew.
    fn strike(&mut self, epoch: u64) {
        if self.random.chance(10 * self.job.deaths_percent) {
            for _ in 0..self.random.between(1, 2) {
                let node = self.random.between(0, u64::from(self.job.nodes) - 1) as u32;
                let is_last = self.nodes.iter().filter(|node| !node.is_dead).count() == 1;
                if !self.nodes[node as usize].is_dead && !is_last {
                    self.nodes[node as usize].is_dead = true;
                    self.deaths += 1;
                    self.last_death = self.last_death.max(Some(epoch));
                    self.trace.note(self.now_ns, "deaths", format_args!("node {node} in epoch {epoch}"));
                    let at_ns = self.now_ns + self.random.between(1, self.job.hears_ns.max(1));
                    self.at(at_ns, Happens::Death(node));
                }
            }
        }
        if self.job.has_new_front_end && epoch == self.options.faulty_epochs / 2 {
            self.generation += 1;
            self.front_end = FrontEnd::new(self.generation, subject(&self.job), self.now_ns);
            // It waits for nodes that are late.
            self.last_death = Some(epoch + START_NS.div_ceil(self.job.period_ns));
            self.trace.note(self.now_ns, "new front ends", format_args!("generation {}", self.generation));
            // Of those that have died it hears, too.
            let dead: Vec<u32> = (0..self.job.nodes).filter(|node| self.nodes[*node as usize].is_dead).collect();
            dead.into_iter().for_each(|node| self.front_end.node_lost(NodeId(node), self.now_ns));
        }
    }

    /// What a node has to say is on its way.
    fn flush(&mut self, node: u32) {
        while let Some((above, message)) = self.nodes[node as usize].part.poll_transmit(self.now_ns) {
            self.send(node, above, &message, 0);
        }
    }

    fn send(&mut self, from: u32, to: Above, message: &Up, late_ns: u64) {
        let bytes = message.encode();
        self.trace.count("bytes", bytes.len() as u64);
        match to {
            Above::FrontEnd => {
                self.trace.count("messages to the front end", 1);
                let at_ns = self.arrival_ns(from, self.job.nodes) + late_ns;
                self.at(at_ns, Happens::Home(from, bytes));
            }
            Above::Process { index, node } => {
                let at_ns = self.arrival_ns(from, node.0);
                self.at(at_ns, Happens::Up { node: node.0, index, from, bytes });
            }
        }
    }

    /// When what one sends to another now comes there: in order.
    fn arrival_ns(&mut self, from: u32, to: u32) -> u64 {
        let latency_ns = self.random.between(1_000, self.job.latency_ns);
        let last_ns = self.arrivals_ns.entry((from, to)).or_default();
        *last_ns = (self.now_ns + latency_ns).max(*last_ns + 1);
        *last_ns
    }

    /// Says what the front end has to say, hears what has come of it, and sets the clock.
    fn settle(&mut self) -> Result<(), Violation> {
        while let Some((NodeId(node), order)) = self.front_end.poll_transmit() {
            let at_ns = self.arrival_ns(self.job.nodes, node);
            self.at(at_ns, Happens::Down(node, order.encode()));
        }
        while let Some(event) = self.front_end.poll_event() {
            match event {
                Event::Started { processes, depth } => {
                    self.has_started = true;
                    self.trace.note(self.now_ns, "starts", format_args!("{processes} processes, depth {depth}"));
                }
                // Files are narrow.
                Event::TooWide => return Err(Violation::new("the tree is said to be too wide".to_owned())),
                Event::Epoch(part) => {
                    let k = part.ranks().count();
                    self.trace.note(self.now_ns, "epochs", format_args!("{}: {k} ranks", part.epoch()));
                    self.checker.hear(&part, &self.job)?;
                }
                Event::Late(part) => {
                    let k = part.ranks().count();
                    self.trace.note(self.now_ns, "late parts", format_args!("{}: {k} ranks", part.epoch()));
                    self.checker.hear(&part, &self.job)?;
                }
                Event::Stacks(stacks) => {
                    self.trace.note(self.now_ns, "stacks", format_args!("{} samples", stacks.samples()));
                    self.checker.hear_stacks(&stacks)?;
                }
                Event::Lie(NodeId(node)) => {
                    self.trace.note(self.now_ns, "lies", format_args!("node {node}"));
                    ensure(self.nodes[node as usize].lies, || format!("node {node} is said to lie"))?;
                }
            }
        }
        let timeouts = self.nodes.iter().filter(|node| !node.is_dead).filter_map(|node| node.part.poll_timeout());
        let next_ns = timeouts.chain(self.front_end.poll_timeout()).min();
        if let Some(at_ns) = next_ns.filter(|at_ns| self.clock_ns.is_none_or(|clock_ns| *at_ns < clock_ns)) {
            // Nobody listens to whoever never comes any more.
            let is_over = self.queue.iter().all(|Reverse((_, _, what))| *what == Happens::Clock);
            if !is_over || self.now_ns < START_NS {
                self.clock_ns = Some(at_ns);
                self.at(at_ns.max(self.now_ns), Happens::Clock);
            }
        }
        Ok(())
    }

    /// All that live were in all epochs after the last fault, and in those before the first; with one death in all, in
    /// all of them.
    fn check_end(&mut self) -> Result<(), Violation> {
        let mut living = Ranks::default();
        for node in self.nodes.iter().filter(|node| !node.is_dead && !node.lies) {
            living.join(&node.ranks);
        }
        let is_calm = |epoch: u64| {
            let after = self.last_death.is_none_or(|death| epoch > death + 5);
            after || self.deaths == 1 && !self.job.has_new_front_end
        };
        let nobody = living.count() == 0;
        ensure(self.has_started || nobody, || "there was no tree".into())?;
        let last = self.options.faulty_epochs + self.options.quiet_epochs;
        for epoch in (0..last).filter(|epoch| is_calm(*epoch)) {
            self.checker.has_all(epoch, &living)?;
        }
        // Whoever was to be on the way.
        self.checker.has_all(last, &living)
    }
}
