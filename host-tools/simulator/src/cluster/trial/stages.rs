//! What is done one after the other: a job runs, has a checkpoint, then another, in the middle of which something
//! strikes; when all has come right a job goes on from the newest, and has one, too.

use std::sync::{Arc, PoisonError};

use coppice_api::checkpoint::{CheckpointMode, CheckpointName, MakeOrder, RestartOrder};
use coppice_api::job::{JobState, Submission};
use coppice_api::limits::OUTPUT_LOG_BYTES_DEFAULT;
use coppice_protocol::ids::{JobId, NodeId};
use coppice_service_node::checkpoints::{Around, make, prepare, submit};
use coppice_service_node::controller::{Refused, Request};

use super::super::faults::Cut;
use super::super::leading::{Leaders, Surroundings};
use super::super::queue::{MILLISECOND_NS, SECOND_NS};
use super::super::script::Script;
use super::super::words::Talk;
use super::super::world::World;
use super::Said;
use super::automatic::POLICY;

/// How long a stage takes at most, ns: also if nodes have to be given up and booted again meanwhile.
const STAGE_NS_MAX: u64 = 150 * SECOND_NS;

/// How long it takes at most until a checkpoint is made or has come to nothing, ns: who waits for somebody who is dead
/// hears that at once, or when an answer to a question is late.
const CHECKPOINT_NS_MAX: u64 = 12 * SECOND_NS;

/// Ranks of a node.
const RANKS_PER_NODE: u32 = 2;
/// What each of them does. They print at times of their own: whoever has one rank of one moment and one of another has
/// lines that do not fit together.
fn script(talks: bool) -> Script {
    let talk = Talk { rounds: ROUNDS, mark: 1, keys: 1, value_bytes: 8, pause_ns: TALK_NS, ..Talk::default() };
    Script {
        program: 1,
        lines: 30,
        fewer: 1,
        pause_ns: 25 * MILLISECOND_NS,
        line_bytes: 20,
        status: STATUS,
        touches: 5,
        talk: if talks { talk } else { Talk::default() },
        ..Script::default()
    }
}
/// What all of them exit with.
pub(super) const STATUS: u8 = 3;
/// Lines that a rank prints, from the first on.
pub(super) fn lines_of(rank: u32) -> u64 {
    script(false).lines_of(rank)
}

/// Lines that each rank has printed before the first checkpoint, and before the second.
const LINES_BEFORE: [usize; 2] = [3, 9];

/// Barriers that ranks go through where they do, and their longest pause before one, ns.
const ROUNDS: u64 = 30;
const TALK_NS: u64 = 6 * MILLISECOND_NS;
/// How long one node does not hear what another says when a checkpoint begins of ranks that talk, ns.
const DEAF_NS: u64 = 15 * MILLISECOND_NS;
/// Barriers that all ranks have left before the first of them leaves the next, which begins a checkpoint.
const BARRIERS_BEFORE: [u64; 2] = [1, 9];

/// How far it is.
#[derive(Clone, Debug, Default)]
pub(super) enum Stage {
    /// The cluster comes up.
    #[default]
    Up,
    /// The job runs.
    Runs(JobId),
    /// Its first checkpoint is made.
    First(JobId, Said<CheckpointName>),
    /// It has one.
    HasOne(JobId),
    /// Its second is made.
    Second(JobId, Said<CheckpointName>),
    /// Others are made by themselves.
    Automatic(JobId),
    /// It comes to its end, or goes on as another.
    Follows(JobId),
    /// It is made, or not, which was said unless the service node is gone; all comes right.
    Settles(JobId, Option<bool>),
    /// It goes on as another soon.
    Restarts(Said<JobId>),
    /// It goes on.
    GoesOn(JobId),
    /// The checkpoint of that is made.
    Third(JobId, Said<CheckpointName>),
    /// It is to end.
    Ends(JobId),
    /// All of it has happened.
    Over,
}

impl Stage {
    /// How long it takes at most, ns.
    fn longest_ns(&self) -> u64 {
        match self {
            Self::First(..) | Self::Second(..) | Self::Third(..) => CHECKPOINT_NS_MAX,
            _ => STAGE_NS_MAX,
        }
    }
}

impl PartialEq for Stage {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// Ranks were leaving barriers whenever it was tried.
fn is_to_be_tried_again(refused: &Refused) -> bool {
    refused.message.contains("leaving a barrier")
}

impl World {
    fn ranks(&self) -> u32 {
        self.options.nodes * RANKS_PER_NODE
    }

    fn around(&self) -> Option<Surroundings> {
        self.host.leaders.as_ref().map(|leaders| leaders.around.clone())
    }

    /// The next stage begins.
    pub(super) fn begin_stage(&mut self, stage: Stage) {
        self.note("stage", format_args!("{stage:?}"));
        (self.trials.stage, self.trials.since_ns) = (stage, self.now_ns);
    }

    /// Something has happened: maybe something is to strike, or the next stage begins.
    pub(in super::super) fn go_on_with_the_trial(&mut self) {
        let ranks = self.ranks();
        match self.trials.stage.clone() {
            Stage::Runs(job) if self.is_automatic() && self.is_time(job, 1) => self.begin_stage(Stage::Automatic(job)),
            Stage::Automatic(job) => self.count_automatic_step(job),
            Stage::Runs(job) if !self.is_automatic() && self.is_time(job, 0) => {
                let said = self.begin_checkpoint(job);
                self.begin_stage(Stage::First(job, said));
            }
            Stage::First(job, said) => match said.take() {
                None => {}
                Some(Ok(_)) => self.begin_stage(Stage::HasOne(job)),
                Some(Err(refused)) if is_to_be_tried_again(&refused) => {
                    let said = self.begin_checkpoint(job);
                    self.begin_stage(Stage::First(job, said));
                }
                Some(Err(refused)) => self.is_wrong(format!("no first checkpoint: {}", refused.message)),
            },
            Stage::HasOne(job) if self.is_time(job, 1) && self.is_all_done() => {
                self.trials.first_key = self.key_in_regions();
                let said = self.begin_checkpoint(job);
                self.begin_stage(Stage::Second(job, said));
            }
            Stage::Second(job, said) => self.count_step(job, &said),
            Stage::Restarts(said) => match said.take() {
                None => {}
                Some(Ok(new)) => self.begin_stage(Stage::GoesOn(new)),
                Some(Err(refused)) => self.is_wrong(format!("it does not go on: {}", refused.message)),
            },
            Stage::GoesOn(job) if self.trials.have_printed(job, ranks, 1) => {
                let said = self.begin_checkpoint(job);
                self.begin_stage(Stage::Third(job, said));
            }
            Stage::Third(job, said) if self.is_all_done() => match said.take() {
                None => {}
                Some(Ok(checkpoint)) => {
                    self.look_at_regions(checkpoint);
                    self.begin_stage(Stage::Ends(job));
                }
                Some(Err(refused)) if is_to_be_tried_again(&refused) => {
                    let said = self.begin_checkpoint(job);
                    self.begin_stage(Stage::Third(job, said));
                }
                Some(Err(refused)) => self.is_wrong(format!("no third checkpoint: {}", refused.message)),
            },
            _ => {}
        }
    }

    /// Whether the job has come as far as where it has the checkpoint with that number.
    fn is_time(&self, job: JobId, number: usize) -> bool {
        let ranks = self.ranks();
        if self.options.trial.is_some_and(|trial| trial.talks) {
            return self.trials.barriers > BARRIERS_BEFORE[number] * u64::from(ranks);
        }
        self.trials.have_printed(job, ranks, LINES_BEFORE[number])
    }

    fn is_automatic(&self) -> bool {
        self.options.trial.is_some_and(|trial| trial.is_automatic)
    }

    /// A step is there. Has somebody die if it is that one, and says whether.
    pub(super) fn strikes(&mut self) -> bool {
        let strike = self.options.trial.and_then(|trial| trial.strike);
        let mut outcome = self.trials.outcome();
        let step = outcome.steps;
        outcome.steps += 1;
        drop(outcome);
        let victim = strike.filter(|(at, _)| *at == step).map(|(_, victim)| victim);
        if let Some(victim) = victim {
            self.trials.has_struck = true;
            self.strike(victim);
        }
        victim.is_some()
    }

    /// One more step of making the second checkpoint.
    fn count_step(&mut self, job: JobId, said: &Said<CheckpointName>) {
        self.strikes();
        if self.host.leaders.is_none() {
            // What it would have said nobody hears.
            let made = said.take().map(|said| said.is_ok());
            return self.begin_stage(Stage::Settles(job, made));
        }
        if self.is_all_done() {
            let made = said.take();
            if let Some(Err(refused)) = made.as_ref().filter(|_| !self.trials.has_struck) {
                if is_to_be_tried_again(refused) {
                    let said = self.begin_checkpoint(job);
                    return self.begin_stage(Stage::Second(job, said));
                }
                self.is_wrong(format!("no second checkpoint: {}", refused.message));
            }
            self.begin_stage(Stage::Settles(job, made.map(|made| made.is_ok())));
        }
    }

    /// Nobody makes a checkpoint, nor is anything pulled or wiped.
    fn is_all_done(&self) -> bool {
        let are_idle = self.host.leaders.as_ref().is_some_and(Leaders::are_idle);
        are_idle && self.io_nodes.values().all(|io_node| io_node.machine.remains().regions == 0)
    }

    /// A second has passed: whether a stage takes too long, or is over.
    pub(in super::super) fn look_at_the_trial(&mut self) {
        if self.now_ns - self.trials.since_ns > self.trials.stage.longest_ns() && self.trials.stage != Stage::Over {
            let stage = format!("{:?}", self.trials.stage);
            let why = self.what_is_not_up();
            return self.is_wrong(format!("it waits for too long: {stage}; {why:?}"));
        }
        match self.trials.stage.clone() {
            Stage::Up if self.is_up() => self.submit_one(),
            Stage::Settles(job, made) if self.has_ended(job) && self.is_up() => {
                self.look_at_storage(job, made);
                self.look_at_the_newest(job, made);
                self.begin_restart(job);
            }
            Stage::Follows(job) => self.follow(job),
            Stage::Ends(job) if self.has_ended(job) && self.is_up() => {
                self.look_at_the_end(job);
                self.begin_stage(Stage::Over);
            }
            _ => {}
        }
    }

    fn has_ended(&mut self, job: JobId) -> bool {
        let detail = self.host.ask(|answer| Request::Job(job, answer), self.now_ns);
        matches!(detail, Some(Ok(detail)) if detail.job.state == JobState::Ended)
    }

    fn submit_one(&mut self) {
        let script = script(self.options.trial.is_some_and(|trial| trial.talks));
        let Some(copied) = self.copy_of(script.program) else { return };
        let submission = Submission {
            ranks: self.ranks(),
            ranks_per_node: RANKS_PER_NODE,
            detached: true,
            keep_output: Some(OUTPUT_LOG_BYTES_DEFAULT),
            checkpoint_policy: self.is_automatic().then_some(POLICY),
            ..script.submission(false)
        };
        let submitted = self.host.submit(copied, submission, self.now_ns);
        self.settle_host();
        match submitted {
            Some(Ok(job)) => {
                self.trials.first = job;
                self.begin_stage(Stage::Runs(job));
            }
            other => self.is_wrong(format!("no job is taken: {other:?}")),
        }
    }

    fn begin_checkpoint(&mut self, job: JobId) -> Said<CheckpointName> {
        let said = Said::default();
        let Some(around) = self.around() else { return said };
        if self.options.trial.is_some_and(|trial| trial.talks) {
            // Some leave a barrier, and others do not hear that they may.
            self.cut(&[Cut::Between(NodeId(0), NodeId(1))], self.now_ns + DEAF_NS);
        }
        let copies = self.options.trial.is_some_and(|trial| trial.copies);
        let mode = if copies { CheckpointMode::Copy } else { CheckpointMode::default() };
        let order = MakeOrder { mode, dma_pending: None };
        let (tell, maker) = (said.clone(), around.clone());
        around.spawn(async move {
            let made = match maker.checkpoints().make(job) {
                Ok(making) => {
                    let made = make(&maker, job, order).await;
                    drop(making);
                    made
                }
                Err(refused) => Err(refused),
            };
            tell.say(made.map(|report| report.checkpoint));
        });
        self.lead();
        said
    }

    fn begin_restart(&mut self, job: JobId) {
        let said = Said::default();
        let Some(around) = self.around() else { return };
        let order = RestartOrder {
            keep_files: false,
            checkpoint: self.options.trial.and_then(|trial| trial.from),
            nodes: Vec::new(),
            verify: true,
            detached: true,
            keep_output: Some(OUTPUT_LOG_BYTES_DEFAULT),
            core_file: false,
            timeout_ms: None,
            checkpoint_policy: None,
        };
        let (tell, outcome) = (said.clone(), Arc::clone(&self.trials.outcome));
        let starter = around.clone();
        around.spawn(async move {
            let restarted = match prepare(&starter, job, order).await {
                Ok(prepared) => submit(starter, prepared, None).await,
                Err(refused) => Err(refused),
            };
            if let Ok(restarted) = &restarted {
                let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
                outcome.from = restarted.checkpoint.number;
            }
            tell.say(restarted.map(|restarted| JobId(restarted.job)));
        });
        self.begin_stage(Stage::Restarts(said));
        self.lead();
    }
}
