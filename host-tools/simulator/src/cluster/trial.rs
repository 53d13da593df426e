//! A job that has checkpoints, and somebody who dies at one step of making one: afterwards the newest is the old one or
//! the new one, all of it, and a job that goes on from it goes on from what was cut.
//!
//! A run is always the same up to where something strikes. So what a checkpoint has is known from runs in which nothing
//! does, and each step is tried with each victim.
//!
//! | module | what |
//! | --- | --- |
//! | `stages` | what is done one after the other |
//! | `automatic` | the same where nobody asks for anything |
//! | `looks` | what must hold afterwards |

mod automatic;
mod looks;
mod stages;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coppice_protocol::ids::{JobId, NodeId, PsetId};
use coppice_service_node::controller::Refused;

use self::stages::Stage;
use super::Options;
use super::checkers::Who;
use super::world::World;
use crate::checkers::Violation;
use crate::{Failure, Report};

/// Who dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Victim {
    /// A node.
    Node(u32),
    /// All nodes at once.
    AllNodes,
    /// The I/O node of a pset.
    IoNode(u32),
    /// The service node, and all that lives with it.
    ServiceNode,
}

/// How a job has its checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Nodes have regions.
    pub has_regions: bool,
    /// Ranks stand until all is copied.
    pub copies: bool,
    /// Ranks go through barriers of PMI, and checkpoints begin when the first has left one.
    pub talks: bool,
    /// Checkpoints are made by themselves, and the job goes on by itself.
    pub is_automatic: bool,
    /// Who dies in front of which step of making the second checkpoint, counted from 0; nobody.
    pub strike: Option<(u64, Victim)>,
    /// Which of the job's checkpoints it goes on from afterwards; the newest.
    pub from: Option<u32>,
}

impl Default for Trial {
    fn default() -> Self {
        Self { has_regions: true, copies: false, talks: false, is_automatic: false, strike: None, from: None }
    }
}

/// What came of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Steps of making the second checkpoint: events of the world until all about it is over.
    pub steps: u64,
    /// The checkpoint that the job went on from.
    pub from: u32,
    /// The first line that each rank printed then.
    pub lines: BTreeMap<u32, u64>,
}

/// What somebody said at last, when he has.
#[derive(Clone, Debug)]
struct Said<T>(Arc<Mutex<Option<Result<T, Refused>>>>);

impl<T> Default for Said<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Said<T> {
    fn say(&self, said: Result<T, Refused>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
    }

    fn take(&self) -> Option<Result<T, Refused>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// How far a run is.
#[derive(Debug)]
pub(super) struct Trials {
    stage: Stage,
    /// Barriers that ranks have left, one by one.
    pub barriers: u64,
    /// Numbers of the lines that ranks of jobs have printed.
    lines: BTreeMap<(JobId, u32), Vec<u64>>,
    /// The job that begins.
    first: JobId,
    /// Who led its first checkpoint, by number, if regions have it.
    first_key: Option<u64>,
    /// When the stage began, ns.
    since_ns: u64,
    has_struck: bool,
    outcome: Arc<Mutex<Outcome>>,
}

impl Default for Trials {
    fn default() -> Self {
        Self {
            stage: Stage::default(),
            barriers: 0,
            lines: BTreeMap::new(),
            first: JobId(0),
            first_key: None,
            since_ns: 0,
            has_struck: false,
            outcome: Arc::default(),
        }
    }
}

impl Trials {
    /// Output is kept. Each line is written at once.
    pub(super) fn saw(&mut self, job: JobId, rank: u32, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        for line in text.lines() {
            let mut numbers = line.split(' ').map_while(|number| number.parse::<u64>().ok());
            // What another rank prints is no line of this one.
            let is_own = numbers.next() == Some(rank.into());
            self.lines.entry((job, rank)).or_default().push(numbers.next().filter(|_| is_own).unwrap_or(u64::MAX));
        }
    }

    /// What came of it up to now.
    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is still to come, if anything is.
    pub(super) fn what_is_not_over(&self) -> Option<String> {
        (self.stage != Stage::Over).then(|| format!("the job with checkpoints: {:?}", self.stage))
    }

    /// Whether all of so many ranks have printed so many lines.
    fn have_printed(&self, job: JobId, ranks: u32, lines: usize) -> bool {
        (0..ranks).all(|rank| self.lines.get(&(job, rank)).is_some_and(|printed| printed.len() >= lines))
    }
}

/// Runs one seed with nothing but this.
///
/// # Errors
/// [`Failure`]: something must not be.
pub fn try_one(seed: u64, options: &Options, trial: Trial) -> Result<(Report, Outcome), Failure> {
    let options = Options { trial: Some(trial), faulty_ns: 0, ..*options };
    let world = World::new(seed, &options, None)?;
    let outcome = Arc::clone(&world.trials.outcome);
    let report = world.run()?;
    let outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok((report, outcome))
}

/// What came of trying many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// Steps of a checkpoint at which nothing strikes.
    pub steps: u64,
    /// How often each victim's job went on from which checkpoint.
    pub from: BTreeMap<(Victim, u32), u64>,
}

/// Tries a few of all the ways in which somebody may die there: which, depends on the seed.
///
/// # Errors
/// [`Failure`]: something must not be.
pub fn try_some(seed: u64) -> Result<Tried, Failure> {
    let options = Options { nodes: 2, pset_size: 1, users: 0, ..Options::default() };
    let trial = Trial { has_regions: seed % 5 != 4, copies: seed % 3 == 2, talks: seed % 2 == 1, ..Trial::default() };
    let trial = Trial { is_automatic: seed % 4 == 2, ..trial };
    let victims =
        [Victim::Node(0), Victim::AllNodes, Victim::IoNode(0), Victim::IoNode(1), Victim::ServiceNode, Victim::Node(1)];
    try_all(seed, &options, trial, &victims, 2)
}

/// Has each of these die at each step of making a checkpoint, or at so many steps, evenly, which depend on the seed.
///
/// # Errors
/// [`Failure`]: something must not be.
pub fn try_all(seed: u64, options: &Options, trial: Trial, victims: &[Victim], at_most: u64) -> Result<Tried, Failure> {
    let whole =
        |from: Option<u32>| try_one(seed, options, Trial { strike: None, from, ..trial }).map(|(_, outcome)| outcome);
    // What those that are made by themselves have is not known.
    let first = if trial.is_automatic { None } else { Some((1, whole(Some(1))?)) };
    let newest = whole(None)?;
    let steps = newest.steps;
    let known: BTreeMap<u32, Outcome> = first.into_iter().chain([(2, newest)]).collect();
    let mut tried = Tried { steps, ..Tried::default() };
    let count = steps.min(at_most.max(1));
    for (place, victim) in victims.iter().enumerate() {
        // Different ones of each, so that together they are more.
        let each = (steps / count).max(1);
        let shift = each * place as u64 / victims.len() as u64 + seed * (each / 3 + 1);
        for number in 0..count {
            let step = number * steps / count + shift % each;
            let strike = Some((step, *victim));
            let (report, outcome) = try_one(seed, options, Trial { strike, ..trial })?;
            let expected = known.get(&outcome.from);
            if !trial.is_automatic && expected.is_none_or(|expected| expected.lines != outcome.lines) {
                let what = format!("{victim:?} died at step {step}, and afterwards {outcome:?}, not as in {known:?}");
                let violation = Violation::new(what).by("checkpoints");
                return Err(Failure { seed, at_ns: 0, violation, faults: Vec::new(), trace: report.trace });
            }
            *tried.from.entry((*victim, outcome.from)).or_default() += 1;
        }
    }
    Ok(tried)
}

impl World {
    /// Something must not be.
    fn is_wrong(&mut self, what: String) {
        self.violations.push(Violation::new(what).by("checkpoints"));
    }

    /// Somebody dies.
    fn strike(&mut self, victim: Victim) {
        self.note("struck", format_args!("{victim:?}"));
        match victim {
            Victim::Node(node) => self.kill_node(NodeId(node)),
            Victim::AllNodes => (0..self.options.nodes).for_each(|node| self.kill_node(NodeId(node))),
            Victim::IoNode(pset) => {
                self.host.leave_a_file();
                self.excuse(Who::IoNode(PsetId(pset)));
                self.io_node_ends(PsetId(pset), "killed");
            }
            Victim::ServiceNode => {
                self.host.leave_a_file();
                self.kill_host();
                self.plan_start(0);
            }
        }
    }

    fn kill_node(&mut self, node: NodeId) {
        self.excuse(Who::Machine(node));
        self.machine_ends(node, "killed");
    }

    fn excuse(&mut self, who: Who) {
        self.checkers.given_up.excuse(who, self.now_ns);
        self.checkers.rates.struck(who, self.now_ns);
    }
}
