//! What the I/O node orders nodes to do: jobs on what nodes are believed to retain, and giving that back.

use std::collections::BTreeMap;

use coppice_protocol::control::{Ends, Launch, ToIoNode, ToNode};
use coppice_protocol::ids::{Generation, JobId, ProgramId, Rank};
use coppice_protocol::retain::{Discard, Retain, RetainedProgram};
use coppice_protocol::session::Identity;

use crate::context::Context;

/// Programs that are run again and again.
const PROGRAMS: u64 = 3;

/// Orders given, and what came of them as far as it was heard.
#[derive(Default)]
pub(crate) struct Orders {
    /// Numbers of jobs and requests, never used again, whatever is forgotten.
    jobs: u64,
    requests: u64,
    /// The job on each boot, until its end is heard of.
    running: BTreeMap<Identity, Launch>,
    /// What boots are believed to hold.
    believed: BTreeMap<Identity, Vec<RetainedProgram>>,
}

impl Orders {
    /// Orders for a boot, now and then, for as long as programs make requests.
    pub(crate) fn next(&mut self, boot: Identity, context: &mut Context) -> Vec<ToNode> {
        if !context.is_busy() {
            return Vec::new();
        }
        match context.random.between(0, 99) {
            0..30 if !self.running.contains_key(&boot) => self.run(boot, context),
            30..40 => vec![self.discard(context)],
            40..45 => vec![self.stray(boot, context)],
            _ => Vec::new(),
        }
    }

    fn run(&mut self, boot: Identity, context: &mut Context) -> Vec<ToNode> {
        let program = program(context);
        let holds = |held: &Vec<RetainedProgram>| held.iter().any(|held| held.program == program);
        let believed = self.believed.get(&boot).is_some_and(holds);
        // Beliefs may be wrong.
        let use_retained = believed != context.random.chance(100);
        let launch = launch(self.number(), program, use_retained, context);
        let orders = pair(boot, &launch);
        self.running.insert(boot, launch);
        orders
    }

    fn number(&mut self) -> JobId {
        self.jobs += 1;
        JobId(self.jobs)
    }

    fn discard(&mut self, context: &mut Context) -> ToNode {
        self.requests += 1;
        let program = if context.random.chance(500) { Some(program(context)) } else { None };
        ToNode::Discard(Discard { request: self.requests, program })
    }

    /// An order to retain that no launch follows: meant for another boot of the node, or untimely.
    fn stray(&mut self, boot: Identity, context: &mut Context) -> ToNode {
        let own = boot.generation.0;
        let number = match context.random.between(0, 2) {
            0 => own.saturating_sub(1),
            1 => own,
            _ => own.saturating_add(1),
        };
        ToNode::Retain(Retain { job: self.number(), generation: Generation(number), program: program(context) })
    }

    /// The boot has a new connection: what was said on the last may be lost with it.
    pub(crate) fn again(&self, boot: Identity) -> Vec<ToNode> {
        self.running.get(&boot).map(|launch| pair(boot, launch)).unwrap_or_default()
    }

    /// A boot says something.
    pub(crate) fn heard(&mut self, boot: Identity, message: ToIoNode) {
        match message {
            ToIoNode::Ended(Ends { held, reports }) => {
                // It may be said again long after.
                let is_its = |launch: &Launch| reports.iter().any(|report| report.job == launch.job);
                if self.running.get(&boot).is_some_and(is_its) {
                    self.running.remove(&boot);
                    self.believed.insert(boot, held);
                }
            }
            ToIoNode::Discarded(answer) => {
                self.believed.insert(boot, answer.still_held);
            }
            ToIoNode::Ready(_)
            | ToIoNode::Pong { .. }
            | ToIoNode::Launched { .. }
            | ToIoNode::Failed(_)
            | ToIoNode::Waits(_)
            | ToIoNode::Dies(_)
            | ToIoNode::WantsCheckpoint { .. }
            | ToIoNode::Spawns(_)
            | ToIoNode::Joined { .. }
            | ToIoNode::Overlay { .. }
            | ToIoNode::Retained(_)
            | ToIoNode::Ras(_)
            | ToIoNode::Inspected(_)
            | ToIoNode::Kept(_) => {}
        }
    }

    /// Only this boot of the node counts from now on.
    pub(crate) fn boots(&mut self, boot: Identity) {
        let counts = |other: &Identity| other.node != boot.node || *other == boot;
        self.running.retain(|other, _| counts(other));
        self.believed.retain(|other, _| counts(other));
    }

    /// The I/O node has ended, and with it what it knew.
    pub(crate) fn forget(&mut self) {
        self.running.clear();
        self.believed.clear();
    }

    /// A job whose end was not heard of.
    pub(crate) fn open(&self) -> Option<JobId> {
        self.running.values().next().map(|launch| launch.job)
    }
}

/// What a boot is told to run a job: if it is believed to hold the program's table, to retain that first.
fn pair(boot: Identity, launch: &Launch) -> Vec<ToNode> {
    let order = Retain { job: launch.job, generation: boot.generation, program: launch.program };
    let retain = launch.use_retained.then_some(ToNode::Retain(order));
    retain.into_iter().chain([ToNode::Launch(launch.clone())]).collect()
}

fn program(context: &mut Context) -> ProgramId {
    ProgramId([context.random.between(1, PROGRAMS) as u8; 32])
}

fn launch(job: JobId, program: ProgramId, use_retained: bool, context: &mut Context) -> Launch {
    let variables = context.random.length(0, 400);
    Launch {
        job,
        first: Rank(0),
        count: 1,
        size: 1,
        program,
        program_bytes: 1 << 20,
        path: "program".into(),
        arguments: vec![b"program\xff"[..].into()],
        environment: (0..variables).map(|number| format!("VARIABLE_{number}=value").into()).collect(),
        directory: "/".into(),
        user: 1000,
        group: 1000,
        executable: None,
        umask: 0o22,
        use_retained,
        keeps_files: use_retained,
        has_manifest: false,
        world: coppice_protocol::world::World::new(
            coppice_protocol::world::JobKey([0; 32]),
            1,
            [coppice_protocol::ids::NodeId(0)],
        ),
        staging: None,
        traced: coppice_protocol::trace::Traced::None,
        core_file: false,
        outlives_ranks: false,
        universe: 0,
        origin: None,
        restore: None,
    }
}
