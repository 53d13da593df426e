//! What a boot of a node runs and which page tables it retains, by the rules of [`coppice_protocol::retain`].

use std::collections::VecDeque;

use coppice_protocol::control::{Ends, Exit, Launch, RankReport, ToIoNode};
use coppice_protocol::ids::{Generation, JobId, ProgramId, Rank};
use coppice_protocol::limits::RETAINED_PROGRAMS_MAX;
use coppice_protocol::retain::{
    Discard, Discarded, HeldAs, RankRetention, Retain, RetainOutcome, Retained, RetainedProgram, RetentionPolicy,
    WalkCounts,
};

/// Answers and ends that a boot remembers, for orders that come twice.
const REMEMBERED_MAX: usize = 16;

/// The process of a boot.
#[derive(Debug)]
struct Process {
    job: JobId,
    rank: Rank,
    program: ProgramId,
    /// Pages it found of its program.
    found: u64,
}

/// What came of an order to launch.
pub(crate) enum Started {
    /// The process starts, with that many pages of its program.
    Now { found: u64 },
    /// It runs.
    Already,
    /// It has ended, or cannot start.
    Ended(ToIoNode),
}

/// What a boot runs and retains.
#[derive(Debug)]
pub(crate) struct Tables {
    policy: RetentionPolicy,
    generation: Generation,
    running: Option<Process>,
    /// The program that ran last comes first.
    held: Vec<ProgramId>,
    answers: VecDeque<Retained>,
    ended: VecDeque<RankReport>,
    /// What was said last, to be said again on the next connection: it may be lost with this one.
    said: VecDeque<ToIoNode>,
}

impl Tables {
    pub(crate) fn new(generation: Generation, policy: RetentionPolicy) -> Self {
        let (held, answers, ended, said) = (Vec::new(), VecDeque::new(), VecDeque::new(), VecDeque::new());
        Self { policy, generation, running: None, held, answers, ended, said }
    }

    /// Programs whose tables it holds, the one that ran last first.
    pub(crate) fn held(&self) -> &[ProgramId] {
        &self.held
    }

    /// Cuts the node back to one program's table, or puts that before the others. An order that comes twice is answered
    /// as the first one was.
    pub(crate) fn retain(&mut self, order: Retain) -> Retained {
        let Retain { job, generation, program } = order;
        let outcome = if generation != self.generation {
            RetainOutcome::OtherBoot(self.generation)
        } else if let Some(given) = self.given(order) {
            given.outcome
        } else if let Some(process) = &self.running {
            RetainOutcome::Busy(process.job)
        } else {
            let outcome = self.cut_back(program);
            remember(&mut self.answers, Retained { job, program, outcome });
            outcome
        };
        Retained { job, program, outcome }
    }

    /// Whether that order was answered before.
    pub(crate) fn has_answered(&self, order: Retain) -> bool {
        self.given(order).is_some()
    }

    fn given(&self, order: Retain) -> Option<&Retained> {
        self.answers.iter().find(|answer| answer.job == order.job && answer.program == order.program)
    }

    fn cut_back(&mut self, program: ProgramId) -> RetainOutcome {
        if !self.held.contains(&program) {
            return RetainOutcome::Absent;
        }
        let before = self.held.len();
        self.held.retain(|held| self.policy == RetentionPolicy::Many && *held != program);
        self.held.insert(0, program);
        let discarded = (before - self.held.len()) as u64;
        RetainOutcome::Kept(WalkCounts { kept: pages(program), discarded, ..WalkCounts::default() })
    }

    /// Gives tables back. The process that runs is not touched.
    pub(crate) fn discard(&mut self, order: Discard) -> Discarded {
        let is_meant = |held: &ProgramId| order.program.is_none_or(|program| program == *held);
        let (given_back, still_held) = self.held.iter().copied().partition(is_meant);
        self.held = still_held;
        Discarded { request: order.request, given_back: tables(&given_back), still_held: tables(&self.held) }
    }

    /// Starts a process, on its program's table if it is to and there is one.
    pub(crate) fn launch(&mut self, launch: &Launch) -> Started {
        let Launch { job, first: rank, program, .. } = *launch;
        if let Some(report) = self.ended.iter().find(|report| report.job == job) {
            return Started::Ended(self.end_of(report.clone()));
        }
        match &self.running {
            Some(process) if process.job == job => return Started::Already,
            Some(_) => return Started::Ended(self.end_of(RankReport::ended(job, rank, Exit::NotStarted))),
            None => {}
        }
        let found = if launch.use_retained && self.held.contains(&program) { pages(program) } else { 0 };
        // The table is the process's now, or is discarded.
        self.held.retain(|held| *held != program);
        self.running = Some(Process { job, rank, program, found });
        Started::Now { found }
    }

    /// The process of that job ends, and its table is retained. If memory is wanted the oldest goes.
    pub(crate) fn exit(&mut self, job: JobId, memory_is_wanted: bool) -> Option<ToIoNode> {
        let Process { rank, program, found, .. } = self.running.take_if(|process| process.job == job)?;
        self.held.insert(0, program);
        self.held.truncate(RETAINED_PROGRAMS_MAX);
        if memory_is_wanted {
            self.held.pop();
        }
        let mut report = RankReport::ended(job, rank, Exit::Status(0));
        report.retention = RankRetention { found, walk: WalkCounts::default() };
        remember(&mut self.ended, report.clone());
        Some(self.end_of(report))
    }

    /// A rank has ended.
    fn end_of(&self, report: RankReport) -> ToIoNode {
        ToIoNode::Ended(Ends { held: tables(&self.held), reports: vec![report] })
    }

    /// Something is said that must not be lost with a connection.
    pub(crate) fn says(&mut self, message: ToIoNode) {
        remember(&mut self.said, message);
    }

    /// What is said again on a new connection.
    pub(crate) fn said(&self) -> Vec<ToIoNode> {
        self.said.iter().cloned().collect()
    }
}

/// Adds to a list of limited length; the oldest entry goes.
fn remember<T>(list: &mut VecDeque<T>, entry: T) {
    if list.len() == REMEMBERED_MAX {
        list.pop_front();
    }
    list.push_back(entry);
}

/// Pages of a program: any number will do that is the same each time.
fn pages(program: ProgramId) -> u64 {
    1 + u64::from(program.0[0])
}

fn tables(programs: &[ProgramId]) -> Vec<RetainedProgram> {
    let table = |program: &ProgramId| {
        let pages = pages(*program);
        RetainedProgram { program: *program, pages, bytes: pages * 4096, held_as: HeldAs::Table }
    };
    programs.iter().map(table).collect()
}
