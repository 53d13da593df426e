//! The nodes, what is on its way between them, and the time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use coppice_protocol::control::Exit;
use coppice_protocol::ids::Rank;
use coppice_protocol::limits::PMI_ASK_NS;
use coppice_protocol::pmi::{Event, Failure as Why, Fence, PeerFrame, PeerFrames, Placement};
use coppice_protocol::world::{JobKey, World as Ranks};

use super::node::{KEY, Node};
use super::script::{Heard, SCRIPT};
use super::{Deaths, Job, bound_ns};
use crate::checkers::{Violation, ensure};
use crate::random::Random;
use crate::trace::Trace;
use crate::{Failure, Report};

/// Longest a run without deaths may take, ns: nothing in it waits for a clock.
const QUIET_NS: u64 = 10_000_000_000;

/// What happens.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    /// A node is told of the job.
    Launch(u32),
    /// A rank goes on, if there is something for it.
    Rank(u32),
    /// A frame comes to a node from another one.
    Frame { to: u32, from: u32, bytes: Vec<u8> },
    /// A server wants to know the time.
    Clock(u32),
    /// A frame waits for a node to be told of the job.
    Waits { to: u32, from: u32, absence: Vec<u8> },
}

/// See this module.
pub(super) struct World {
    seed: u64,
    job: Job,
    placement: Placement,
    random: Random,
    nodes: Vec<Node>,
    deaths: Deaths,
    /// How many have died, and when the last one did, ns.
    died: usize,
    died_ns: u64,
    queue: BinaryHeap<Reverse<(u64, u64, Happens)>>,
    number: u64,
    now_ns: u64,
    events: u64,
    /// When the last frame from one to another comes, ns: connections keep order.
    arrivals_ns: Vec<u64>,
    /// The service node ends the job.
    is_ended: bool,
    /// How many ranks have come to each barrier.
    came: [u32; 3],
    trace: Trace,
}

impl World {
    pub(super) fn new(seed: u64, job: Job, deaths: Deaths) -> Self {
        let nodes = (0..job.nodes).map(|index| Node::new(&job, index)).collect();
        let ranks = Ranks::new(JobKey(KEY), job.ranks_per_node, (0..job.nodes).map(coppice_protocol::ids::NodeId));
        let placement = ranks.placement(job.ranks()).unwrap_or_else(|error| unreachable!("blocks of ranks: {error}"));
        let mut world = Self {
            seed,
            job,
            placement,
            random: Random::new(seed ^ 0x005e_ed0f_7a7e),
            nodes,
            deaths,
            died: 0,
            died_ns: 0,
            queue: BinaryHeap::new(),
            number: 0,
            now_ns: 0,
            events: 0,
            arrivals_ns: vec![0; (job.nodes * job.nodes) as usize],
            is_ended: false,
            came: [0; 3],
            trace: Trace::new(),
        };
        for node in 0..job.nodes {
            let at_ns = world.random.between(0, job.launches_ns);
            world.at(at_ns, Happens::Launch(node));
        }
        world
    }

    fn at(&mut self, at_ns: u64, what: Happens) {
        self.number += 1;
        self.queue.push(Reverse((at_ns, self.number, what)));
    }

    /// Until all that live are through; then what was, and how much happened.
    pub(super) fn run(mut self) -> Result<(Report, u64), Failure> {
        match self.go() {
            Ok(()) => {
                let events = self.events;
                Ok((self.report(), events))
            }
            Err(violation) => Err(self.fail(violation)),
        }
    }

    fn go(&mut self) -> Result<(), Violation> {
        while !self.is_over() {
            self.strike();
            let Some(Reverse((at_ns, _, what))) = self.queue.pop() else { break };
            let all_died = self.died == self.deaths.at.len();
            let end_ns = if all_died { self.died_ns.max(self.job.launches_ns) + self.patience_ns() } else { u64::MAX };
            if at_ns > end_ns {
                break;
            }
            self.now_ns = at_ns;
            self.events += 1;
            match what {
                Happens::Launch(node) => self.launch(node)?,
                Happens::Rank(rank) => self.go_on(rank)?,
                Happens::Frame { to, from, bytes } => self.deliver(to, from, &bytes)?,
                Happens::Clock(node) => self.tick(node)?,
                Happens::Waits { to, from, absence } => self.wait(to, from, absence),
            }
        }
        let stuck = self.nodes.iter().find(|node| !node.is_dead && !node.is_through());
        let Some(node) = stuck.filter(|_| !self.is_over()) else { return Ok(()) };
        let waiting = node.members.iter().find(|member| !member.is_over());
        let what = waiting.map_or_else(String::new, |member| format!("rank {} in {:?}", member.rank, member.step()));
        Err(Violation::new(format!("{what} has waited since {:.6} s", self.died_ns as f64 / 1e9)).by("progress"))
    }

    fn patience_ns(&self) -> u64 {
        if self.deaths.at.is_empty() { QUIET_NS } else { bound_ns(self.deaths.at.len()) }
    }

    /// All that live are through, or one has said what the others need not find out: the service node ends the job on
    /// all of them then. Of deaths each hears from others.
    fn is_over(&self) -> bool {
        let all_died = self.died == self.deaths.at.len();
        let mut living = self.nodes.iter().filter(|node| !node.is_dead);
        self.is_ended || all_died && living.all(Node::is_through)
    }

    /// Those die whose time has come. A run that has nothing more to happen has them die at its end.
    fn strike(&mut self) {
        while let Some((at, node)) = self.deaths.at.get(self.died).copied()
            && (at <= self.events || self.queue.is_empty())
        {
            let dead = &mut self.nodes[node as usize];
            dead.is_dead = true;
            (self.died, self.died_ns) = (self.died + 1, self.now_ns);
            let furthest = dead.members.iter().map(|member| member.step()).max();
            let phase = match furthest {
                _ if dead.server.is_none() => "deaths before the launch",
                Some(step) => step.phase(),
                None => "deaths of nodes without ranks",
            };
            self.trace.note(self.now_ns, phase, format_args!("node {node}"));
            let fence = dead.server.as_ref().map(|server| server.fence());
            self.trace.count(
                match fence {
                    Some(Fence::Dissemination) => "deaths among dissemination",
                    Some(Fence::Tree) => "deaths in a tree",
                    Some(Fence::Ring) => "deaths in a ring",
                    None => "deaths before any algorithm",
                },
                1,
            );
        }
    }

    fn launch(&mut self, node: u32) -> Result<(), Violation> {
        let here = &mut self.nodes[node as usize];
        if here.is_dead {
            return Ok(());
        }
        here.server = Node::launch(&self.job, &self.placement, node);
        here.peers = here.server.as_ref().map_or_else(Vec::new, |server| server.peers());
        let early = std::mem::take(&mut here.early);
        let ranks: Vec<u32> = here.members.iter().map(|member| member.rank).collect();
        for rank in ranks {
            let at_ns = self.now_ns + self.random.delay(2_000_000);
            self.at(at_ns, Happens::Rank(rank));
        }
        self.trace.note(self.now_ns, "launch", format_args!("node {node}"));
        self.settle(node)?;
        early.iter().try_for_each(|(from, bytes)| self.deliver(node, *from, bytes))
    }

    /// A rank hears what there is for it, and says its next line when it has thought about it.
    fn go_on(&mut self, rank: u32) -> Result<(), Violation> {
        let (ranks, node) = (self.job.ranks(), self.job.node_of(rank));
        let here = &mut self.nodes[node as usize];
        let Some(server) = here.server.as_mut().filter(|_| !here.is_dead && !here.has_failed) else { return Ok(()) };
        let Some(member) = here.members.iter_mut().find(|member| member.rank == rank) else { return Ok(()) };
        if member.is_over() {
            return Ok(());
        }
        let step = member.step();
        if !member.has_said {
            member.has_said = true;
            if let Some(barrier) = step.barrier() {
                self.came[barrier] += 1;
            }
            let line = step.line(rank, ranks);
            let taken = member.conversation.handle_bytes(line.as_bytes(), server, self.now_ns);
            ensure(taken == line.len(), || format!("rank {rank} was not heard in {step:?}"))?;
        }
        member.conversation.poll(server);
        let heard = String::from_utf8_lossy(member.conversation.transmit()).into_owned();
        member.conversation.consume(heard.len());
        let outcome = step.hear(&heard, rank, ranks)?;
        if outcome != Heard::Nothing {
            member.goes_on();
            if member.is_over() {
                server.rank_ended(Rank(rank), Exit::Status(0), self.now_ns);
            }
            self.check(rank, step, outcome)?;
            let at_ns = self.now_ns + self.random.delay(2_000_000);
            self.at(at_ns, Happens::Rank(rank));
        }
        self.settle(node)
    }

    /// What a rank has heard is true.
    fn check(&mut self, rank: u32, step: super::script::Step, outcome: Heard) -> Result<(), Violation> {
        self.trace.note(self.now_ns, "answers", format_args!("rank {rank} in {step:?}: {outcome:?}"));
        if let Some(barrier) = step.barrier() {
            let (came, ranks) = (self.came[barrier], self.job.ranks());
            ensure(came == ranks, || format!("rank {rank} has left {step:?} to which {came} of {ranks} came"))
                .map_err(|violation| violation.by("barriers"))?;
        }
        if outcome == Heard::Refused {
            self.trace.count("refusals", 1);
            // A card lies with its rank, or has come with the barrier; what else there is lies somewhere.
            let is_dead = |rank: u32| self.nodes[self.job.node_of(rank) as usize].is_dead;
            let may_be = match step {
                super::script::Step::GetCard(_) => step.about(rank, self.job.ranks()).is_some_and(is_dead),
                _ => self.died > 0,
            };
            ensure(may_be, || format!("rank {rank} was refused what it is to have in {step:?}"))
                .map_err(|violation| violation.by("answers"))?;
        }
        Ok(())
    }

    fn deliver(&mut self, to: u32, from: u32, bytes: &[u8]) -> Result<(), Violation> {
        let here = &mut self.nodes[to as usize];
        if here.is_dead {
            return Ok(());
        }
        let frame = whole(bytes)?;
        if let Some(server) = &mut here.server {
            let taken = server.handle_frame(&frame, self.now_ns);
            taken.map_err(|error| Violation::new(format!("node {to} does not take a frame of {from}: {error}")))?;
            return self.settle(to);
        }
        if !frame.is_absence() {
            here.early.push((from, bytes.to_vec()));
            self.at(self.now_ns + PMI_ASK_NS, Happens::Waits { to, from, absence: frame.absence() });
        }
        Ok(())
    }

    /// Who calls a node that knows no such job is told now and then that the node is there.
    fn wait(&mut self, to: u32, from: u32, absence: Vec<u8>) {
        let here = &self.nodes[to as usize];
        if !here.is_dead && here.server.is_none() {
            self.send(to, from, absence.clone());
            self.at(self.now_ns + PMI_ASK_NS, Happens::Waits { to, from, absence });
        }
    }

    fn tick(&mut self, node: u32) -> Result<(), Violation> {
        let here = &mut self.nodes[node as usize];
        here.clock_ns = None;
        let Some(server) = here.server.as_mut().filter(|_| !here.is_dead) else { return Ok(()) };
        if server.poll_timeout().is_some_and(|at_ns| at_ns <= self.now_ns) {
            server.handle_timeout(self.now_ns);
        }
        self.settle(node)
    }

    /// Wakes ranks, sends frames and sets the clock, as a server wants.
    fn settle(&mut self, node: u32) -> Result<(), Violation> {
        let here = &mut self.nodes[node as usize];
        let Some(server) = &mut here.server else { return Ok(()) };
        let (mut released, mut frames, mut why) = (Vec::new(), Vec::new(), None);
        while let Some(event) = server.poll_event() {
            match event {
                Event::Released(Rank(rank)) => released.push(rank),
                Event::Failed(failure) => why = Some(failure),
                _ => {}
            }
        }
        let peers = here.peers.iter();
        peers.for_each(|peer| frames.extend(std::iter::from_fn(|| server.poll_transmit(*peer)).map(|it| (*peer, it))));
        let clock_ns = server.poll_timeout().filter(|at_ns| here.clock_ns.is_none_or(|clock_ns| *at_ns < clock_ns));
        if let Some(at_ns) = clock_ns {
            here.clock_ns = Some(at_ns);
            self.at(at_ns.max(self.now_ns), Happens::Clock(node));
        }
        if let Some(why) = why {
            self.fails(node, &why)?;
        }
        for rank in released {
            self.at(self.now_ns, Happens::Rank(rank));
        }
        for (peer, frame) in frames {
            self.send(node, peer, frame);
        }
        Ok(())
    }

    /// A node says why the job cannot go on.
    fn fails(&mut self, node: u32, why: &Why) -> Result<(), Violation> {
        self.trace.note(self.now_ns, "failures", format_args!("node {node}: {why}"));
        self.nodes[node as usize].has_failed = true;
        self.is_ended |= !matches!(why, Why::Dead { .. });
        ensure(self.died > 0, || format!("node {node} says that the job fails, and nobody has died: {why}"))?;
        if let Why::Dead { dead, .. } = why {
            let is_dead = self.nodes.get(dead.0 as usize).is_some_and(|dead| dead.is_dead);
            ensure(is_dead, || format!("node {node} takes node {dead} for dead, which lives"))
                .map_err(|violation| violation.by("watch"))?;
        }
        Ok(())
    }

    /// A frame is on its way. What a node has sent when it dies may still come, or not.
    fn send(&mut self, from: u32, to: u32, bytes: Vec<u8>) {
        let latency_ns = self.random.between(1_000, self.job.latency_ns.max(1_001));
        let arrival_ns = &mut self.arrivals_ns[(from * self.job.nodes + to) as usize];
        *arrival_ns = (self.now_ns + latency_ns).max(*arrival_ns + 1);
        let at_ns = *arrival_ns;
        self.at(at_ns, Happens::Frame { to, from, bytes });
    }

    fn report(mut self) -> Report {
        self.trace.count("jobs that went on", u64::from(self.job.goes_on));
        let is_through = self.nodes.iter().any(|node| !node.is_dead && !node.has_failed);
        self.trace.count("jobs that came to their end", u64::from(is_through));
        let (counts, digest) = (self.trace.counts(), self.trace.digest());
        Report { counts, digest, trace: self.trace.lines() }
    }

    fn fail(self, violation: Violation) -> Failure {
        let Self { seed, now_ns, job, deaths, trace, .. } = self;
        let mut lines = vec![format!("{job:?}"), format!("{deaths:?}, of {} lines a rank", SCRIPT.len())];
        lines.extend(trace.lines());
        Failure { seed, at_ns: now_ns, violation, faults: Vec::new(), trace: lines }
    }
}

fn whole(bytes: &[u8]) -> Result<PeerFrame, Violation> {
    let mut rest = bytes;
    let frame = PeerFrames::default().advance(&mut rest).map_err(|error| Violation::new(error.to_string()))?;
    frame.filter(|_| rest.is_empty()).ok_or_else(|| Violation::new("a frame is not whole".into()))
}
