//! What processes of a cluster make of the orders they are given.

use std::collections::BTreeMap;

use coppice_api::output::OutputCut;
use coppice_protocol::control::{Ends, Exit, MemoryStatus, NodeStatus, RankCounters, RankReport};
use coppice_protocol::ids::{Generation, JobId, NodeId, ProgramId, PsetId, Rank};
use coppice_protocol::inspect::Inspected;
use coppice_protocol::pset::{FromPset, Member, NodeEnds, StartJob, ToPset};
use coppice_protocol::retain::{RetainOutcome, Retained, RetainedProgram};
use coppice_qemu::machine::Accelerator;
use coppice_service_node::controller::Event;
use coppice_service_node::output::{OutputEvent, OutputOrder, OutputPiece, Summary};
use coppice_service_node::plant::{FromFabric, HelperEvent, Incarnation, LastWords, MachineEvent, PlantEvent, Task};
use coppice_service_node::store::Found;
use tokio::sync::mpsc::UnboundedSender;

use super::Order;
use super::cutting::Cutting;
use super::links::Fabric;
use super::memory::Memory;

/// What nodes answer when they are told to retain.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answers {
    /// What they did.
    Truly,
    /// This.
    With(RetainOutcome),
    /// Nothing, yet.
    Never,
}

/// Carries orders out as working processes would, or does not, as told.
#[derive(Debug)]
pub(crate) struct Behaviour {
    /// Machines come up.
    pub(crate) boots: bool,
    /// Processes of a job end by themselves, exiting with this status.
    pub(crate) exits: Option<u8>,
    /// Killed processes of a job end.
    pub(crate) obeys_kill: bool,
    /// Barriers that ranks have left when they end.
    pub(crate) barriers: u64,
    /// Processes of a job that are sent a signal are ended by it.
    pub(crate) obeys_signals: bool,
    /// Nodes answer orders to discard.
    pub(crate) discards: bool,
    /// Files that nodes are to keep get there.
    pub(crate) keeps: bool,
    /// Processes of a job get as far as to run.
    pub(crate) launches: bool,
    /// What nodes answer when told to retain.
    pub(crate) answers: Answers,
    /// The fabric says that it is alive when it is asked.
    pub(crate) fabric_answers: bool,
    /// I/O nodes do.
    pub(crate) io_nodes_answer: bool,
    /// What jobs write is kept.
    pub(crate) keeps_output: bool,
    /// What an earlier keeper of logs has left.
    pub(crate) left: BTreeMap<JobId, Summary>,
    /// Bytes that are kept of each job, at most.
    pub(crate) kept_max: u64,
    /// What is found when programs are looked at; none: nothing, yet.
    pub(crate) program: Option<Result<Found, String>>,
    /// Machines that are killed end.
    pub(crate) machines_end: bool,
    /// What the nodes remember.
    pub(crate) memory: Memory,
    /// Orders to discard that nodes have not answered, with the program.
    pub(crate) owed: BTreeMap<(NodeId, u64), Option<ProgramId>>,
    /// What nodes do that are led through a cut.
    pub(crate) cutting: Cutting,
    /// Whoever does what takes long, if anybody does.
    pub(crate) tasks: Option<UnboundedSender<Task>>,
    /// What the fabric makes of its links.
    pub(crate) links: Fabric,
    fabric: Incarnation,
    psets: Vec<Incarnation>,
    generations: Vec<Generation>,
    jobs: Vec<(PsetId, StartJob)>,
    kept: BTreeMap<JobId, Summary>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            boots: true,
            exits: None,
            obeys_kill: true,
            barriers: 0,
            obeys_signals: true,
            discards: true,
            keeps: true,
            launches: true,
            answers: Answers::Truly,
            fabric_answers: true,
            io_nodes_answer: true,
            keeps_output: true,
            left: BTreeMap::new(),
            kept_max: u64::MAX,
            program: Some(Ok(Found::Sound)),
            machines_end: true,
            memory: Memory::default(),
            owed: BTreeMap::new(),
            cutting: Cutting::default(),
            tasks: None,
            links: Fabric::default(),
            fabric: Incarnation::default(),
            psets: Vec::new(),
            generations: Vec::new(),
            jobs: Vec::new(),
            kept: BTreeMap::new(),
        }
    }
}

impl Behaviour {
    pub(crate) fn generation(&self, node: NodeId) -> Generation {
        self.generations.get(node.0 as usize).copied().unwrap_or(Generation(0))
    }

    pub(crate) fn machine(&self, node: NodeId, event: MachineEvent) -> Event {
        Event::Plant(PlantEvent::Machine { node, generation: self.generation(node), event })
    }

    pub(crate) fn pset(&self, pset: PsetId, event: HelperEvent<FromPset>) -> Event {
        let incarnation = self.psets.get(pset.0 as usize).copied().unwrap_or_default();
        Event::Plant(PlantEvent::Pset { pset, incarnation, event })
    }

    pub(crate) fn said(&self, pset: PsetId, message: FromPset) -> Event {
        self.pset(pset, HelperEvent::Said(message))
    }

    pub(crate) fn fabric(&self, event: HelperEvent<FromFabric>) -> Event {
        Event::Plant(PlantEvent::Fabric { incarnation: self.fabric, event })
    }

    fn begin(&self, task: Task) -> Vec<Event> {
        if let Some(tasks) = &self.tasks {
            tasks.send(task).expect("somebody carries it out");
        }
        vec![]
    }

    /// What comes of an order.
    pub(crate) fn carry_out(&mut self, order: &Order) -> Vec<Event> {
        match order {
            Order::FindAccelerator => vec![Event::Plant(PlantEvent::Accelerator(Ok(Accelerator::Tcg)))],
            Order::StartFabric(incarnation, links) => {
                self.fabric = *incarnation;
                self.links.begin(links.clone());
                let alive = HelperEvent::Said(FromFabric::Alive);
                vec![self.fabric(HelperEvent::Started { pid: 10 }), self.fabric(alive)]
            }
            Order::AskFabric if self.fabric_answers => vec![self.fabric(HelperEvent::Said(FromFabric::Alive))],
            Order::TellFabric(request, orders) if self.fabric_answers => {
                let said = self.links.told(*request, orders);
                said.into_iter().map(|said| self.fabric(HelperEvent::Said(said))).collect()
            }
            Order::AskFabric | Order::TellFabric(..) => vec![],
            Order::StopFabric(_) => vec![self.fabric(HelperEvent::Ended("told to".into()))],
            Order::StartIoNode(pset, incarnation) => {
                set(&mut self.psets, pset.0, *incarnation);
                vec![
                    self.pset(*pset, HelperEvent::Started { pid: 100 + pset.0 }),
                    self.said(*pset, FromPset::Listening),
                ]
            }
            Order::KillIoNode(pset) => vec![self.pset(*pset, HelperEvent::Ended("killed".into()))],
            Order::CheckProgram(job) => {
                let found = |found| Event::Plant(PlantEvent::Program { job: *job, found });
                self.program.clone().map(found).into_iter().collect()
            }
            Order::Keep(order) if self.keeps_output => self.keep(order),
            Order::Keep(_) | Order::Profile(_) => vec![],
            Order::Checkpoint(order) => self.begin(Task::Checkpoint(order.clone())),
            Order::Spawn(order) => self.begin(Task::Spawn(order.clone())),
            Order::Boot(node, generation) => {
                set(&mut self.generations, node.0, *generation);
                self.memory.boot(*node);
                self.owed.retain(|(of, _), _| of != node);
                if self.boots {
                    vec![self.machine(*node, MachineEvent::Started { pid: 1000 + node.0 })]
                } else {
                    vec![]
                }
            }
            Order::KillMachine(_) if !self.machines_end => vec![],
            Order::KillMachine(node) => {
                vec![self.machine(*node, MachineEvent::Ended { reason: "killed".into(), last_words: LastWords::None })]
            }
            Order::Tell(pset, message) => self.told(*pset, message),
        }
    }

    /// What the keeper of logs does.
    pub(crate) fn keep(&mut self, order: &OutputOrder) -> Vec<Event> {
        let (job, events) = match order {
            OutputOrder::Open { job, .. } => {
                self.kept.insert(*job, Summary::default());
                return vec![];
            }
            OutputOrder::Append(OutputPiece { job, pset, bytes, .. }) => {
                let (bytes, summary) = (bytes.len(), self.kept.entry(*job).or_default());
                let kept = (self.kept_max - summary.bytes).min(bytes as u64);
                summary.bytes += kept;
                summary.dropped += bytes as u64 - kept;
                let mut events = Vec::new();
                if kept < bytes as u64 && summary.cut.is_none() {
                    summary.cut = Some(OutputCut::Disk);
                    events.push(OutputEvent::Cut { cut: OutputCut::Disk, why: "No space left on device".into() });
                }
                events.push(OutputEvent::Taken { pset: *pset, bytes, length: summary.bytes });
                (*job, events)
            }
            OutputOrder::Cut(job) => {
                self.kept.entry(*job).or_default().cut = Some(OutputCut::Late);
                (*job, vec![OutputEvent::Cut { cut: OutputCut::Late, why: "it did not answer".to_owned() }])
            }
            OutputOrder::Look(job) => {
                let nothing = Summary { cut: Some(OutputCut::ServiceNode), ..Summary::default() };
                (*job, vec![OutputEvent::Closed(self.left.get(job).copied().unwrap_or(nothing))])
            }
            OutputOrder::Close(job) => (*job, vec![OutputEvent::Closed(self.kept.remove(job).expect("an open log"))]),
        };
        events.into_iter().map(|event| Event::Plant(PlantEvent::Output { job, event })).collect()
    }

    /// A node that has booted calls its I/O node.
    pub(crate) fn ready(&self, pset: PsetId, node: NodeId, generation: Generation) -> Event {
        let memory = MemoryStatus { total: 64 << 20, kernel: 4 << 20, free: 60 << 20, retained: 0 };
        let status = NodeStatus { kernel: "0.1".into(), boot_ns: 1000, boot_idle_ns: 400, cores: 2, memory };
        self.said(pset, FromPset::NodeReady { node, generation, status })
    }

    fn told(&mut self, pset: PsetId, message: &ToPset) -> Vec<Event> {
        match message {
            ToPset::Start(start) => {
                self.jobs.push((pset, start.clone()));
                let job = start.job;
                let mut events = Vec::new();
                let ranks = |member: &Member| member.ranks().map(|rank| (member.clone(), rank)).collect::<Vec<_>>();
                for (member, rank) in start.members.iter().flat_map(ranks) {
                    let truth = self.memory.launch(start, &member, rank);
                    // A node is told to retain once, for all its ranks.
                    let answer = truth.filter(|_| rank == member.first).and_then(|truth| match self.answers {
                        Answers::Truly => Some(truth),
                        Answers::With(outcome) => Some(Retained { outcome, ..truth }),
                        Answers::Never => None,
                    });
                    if let Some(answer) = answer {
                        events.push(self.said(pset, FromPset::Retained { node: member.node, answer }));
                    }
                    if self.launches {
                        events.push(self.said(pset, FromPset::Launched { job, ranks: rank.into() }));
                    }
                }
                if let Some(status) = self.exits {
                    for (member, rank) in start.members.iter().flat_map(ranks) {
                        events.push(self.ended(pset, job, rank, member.node, Exit::Status(status)));
                    }
                }
                events
            }
            ToPset::Pull { .. } | ToPset::Wipe { .. } => {
                let said = self.cutting.region(message);
                said.into_iter().map(|said| self.said(pset, said)).collect()
            }
            ToPset::Inspect { node, inspect } => {
                let starts: Vec<_> =
                    self.jobs.iter().map(|(_, start)| start).filter(|start| start.job == inspect.job).collect();
                let answer = self.cutting.answer(*node, inspect, &starts);
                let inspected = |answer| FromPset::Inspected {
                    node: *node,
                    answer: Inspected { request: inspect.request, answer },
                };
                answer.map(|answer| self.said(pset, inspected(answer))).into_iter().collect()
            }
            ToPset::Ask if self.io_nodes_answer => vec![self.said(pset, FromPset::Alive)],
            ToPset::Kill { job } if self.obeys_kill => self.all_ended(pset, *job, Exit::Signal(9)),
            ToPset::Signal { job, signal } if self.obeys_signals => self.all_ended(pset, *job, Exit::Signal(*signal)),
            ToPset::Discard { request, program, nodes } => {
                self.owed.extend(nodes.iter().map(|node| ((*node, *request), *program)));
                if !self.discards {
                    return vec![];
                }
                nodes.iter().filter_map(|node| self.discarded(pset, *node, *request)).collect()
            }
            ToPset::Keep(order) if self.keeps => {
                let request = order.transfer.request;
                let content = order.content().expect("one file");
                order.nodes.iter().map(|node| self.kept(pset, *node, request, content)).collect()
            }
            ToPset::Shutdown => {
                // Nodes power off, then the I/O node ends.
                let nodes = (0..).map(NodeId).take(self.generations.len());
                let off = nodes.map(|node| {
                    self.machine(node, MachineEvent::Ended { reason: "off".into(), last_words: LastWords::None })
                });
                off.chain([self.pset(pset, HelperEvent::Ended("told to".into()))]).collect()
            }
            _ => vec![],
        }
    }

    /// A node has a file that it is to keep.
    pub(crate) fn kept(&mut self, pset: PsetId, node: NodeId, request: u64, content: ProgramId) -> Event {
        let answer = self.memory.keep(node, request, content);
        self.said(pset, FromPset::Kept { node, answer })
    }

    /// All ranks of a job on a pset end.
    fn all_ended(&mut self, pset: PsetId, job: JobId, exit: Exit) -> Vec<Event> {
        let started = self.jobs.iter().filter(|(of, start)| *of == pset && start.job == job);
        let members: Vec<Member> = started.flat_map(|(_, start)| start.members.clone()).collect();
        let ranks = |member: &Member| member.ranks().map(|rank| (member.node, rank)).collect::<Vec<_>>();
        members.iter().flat_map(ranks).map(|(node, rank)| self.ended(pset, job, rank, node, exit)).collect()
    }

    /// A rank ends; it leaves its program in the node's memory if it ran there.
    pub(crate) fn ended(&mut self, pset: PsetId, job: JobId, rank: Rank, node: NodeId, exit: Exit) -> Event {
        let retention = self.memory.end(job, rank, node).unwrap_or_default();
        let report = RankReport { retention, barriers: self.barriers, ..report(job, rank, exit) };
        self.said(pset, one_end(node, report, self.memory.held(node)))
    }

    /// A node answers an order to discard, if it owes an answer.
    pub(crate) fn discarded(&mut self, pset: PsetId, node: NodeId, request: u64) -> Option<Event> {
        let program = self.owed.remove(&(node, request))?;
        let answer = self.memory.discard(node, request, program);
        Some(self.said(pset, FromPset::Discarded { node, answer }))
    }
}

/// A rank of a node has ended, which holds this then.
pub(crate) fn one_end(node: NodeId, report: RankReport, held: &[RetainedProgram]) -> FromPset {
    FromPset::Ended(vec![NodeEnds { node, ends: Ends { held: held.to_vec(), reports: vec![report] } }])
}

fn set<T: Copy>(list: &mut Vec<T>, index: u32, value: T) {
    let index = index as usize;
    if list.len() <= index {
        list.resize(index + 1, value);
    }
    list[index] = value;
}

pub(crate) fn report(job: JobId, rank: Rank, exit: Exit) -> RankReport {
    let counters =
        RankCounters { launch_ns: 1, run_ns: 2, page_faults: 3, pages_fetched: 5, ..RankCounters::default() };
    RankReport { counters, ..RankReport::ended(job, rank, exit) }
}
