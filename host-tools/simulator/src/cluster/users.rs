//! Users: each submits a job, watches it, and submits the next. Some take output slowly, end their job, or go away.

use std::sync::Arc;

use coppice_api::job::{JobView, Submission};
use coppice_api::limits::OUTPUT_LOG_BYTES_DEFAULT;
use coppice_api::overlay::{OverlayPlacement, OverlayWish};
use coppice_api::stream::JobEvent;
use coppice_protocol::ids::{JobId, PsetId};
use coppice_protocol::limits::{PMI_BYTES_PER_JOB_MAX, PMI_KEY_BYTES_MAX, PMI_SILENCE_NS};
use coppice_service_node::controller::{Event as HostEvent, Refused, Request};
use coppice_service_node::feed::{Piece, Taker};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::oneshot;

use super::checkers::Checkers;
use super::host::Copied;
use super::listener::Listener;
use super::pmix::Course;
use super::programs::PROGRAMS;
use super::queue::{Event, MILLISECOND_NS, SECOND_NS};
use super::script::Script;
use super::sharing::Sharing;
use super::words::{Desertion, Talk};
use super::world::World;
use crate::random::Random;

/// In so many runs of a thousand users are impatient: they do something this many times as often, and mostly it is to
/// end their job.
const IMPATIENT_PER_MILLE: u64 = 50;
const IMPATIENCE: u64 = 10;

/// How often what a user does to his job is to end it.
const KILLS_PER_MILLE: u64 = 50;
const KILLS_IMPATIENT_PER_MILLE: u64 = 500;

/// Longest pause between two jobs, or until a user does something to one, ns.
const PAUSE_NS_MAX: u64 = 3 * SECOND_NS;

/// How long a job takes at most from having its nodes to running, or it ends, ns.
const START_NS_MAX: u64 = 60 * SECOND_NS;

/// Pages that a process writes beyond those of its program, at most: three of them leave no room for other programs.
pub(super) const TOUCHES_MAX: u64 = 60;

/// How often what a user does is to have programs forgotten.
const FORGETS_PER_MILLE: u64 = 30;

/// How often a job is nobody's, and how often the output of others is kept.
const DETACHED_PER_MILLE: u64 = 250;
const KEPT_PER_MILLE: u64 = 150;

/// How often a job's ranks use the same files, and how many they are at most.
const SHARES_PER_MILLE: u64 = 250;
const SHARERS_MAX: u32 = 5;
/// How often the ranks of the others speak with PMI, and how often one of those goes away in the middle of it.
const TALKS_PER_MILLE: u64 = 600;
const DESERTS_PER_MILLE: u64 = 250;
/// How often the ranks of the others use PMIx.
const COURSES_PER_MILLE: u64 = 700;
/// How often a job has an overlay.
const OVERLAYS_PER_MILLE: u64 = 150;
/// Barriers of a job, and keys that each of its ranks puts before each.
const ROUNDS_MAX: u64 = 3;
const KEYS_MAX: u64 = 3;

/// A pause that is longer than a node may be silent, ns.
const LONG_PAUSE_NS: u64 = PMI_SILENCE_NS + 5 * SECOND_NS;

/// How long it takes at most to look for a program in the store, or to store it, ns.
const STORE_NS_MAX: u64 = SECOND_NS;

/// Whether they are impatient in a run.
pub(super) fn are_impatient(random: &mut Random) -> bool {
    random.chance(IMPATIENT_PER_MILLE)
}

/// A job that a user is about to submit: its program is there.
#[derive(Debug)]
struct Wanted {
    submission: Submission,
    script: Script,
    copied: Copied,
}

/// One of them.
#[derive(Debug, Default)]
pub(super) struct User {
    wanted: Option<Wanted>,
    job: Option<(JobId, Arc<Listener>)>,
    /// A job that is nobody's, whose end he waits for.
    awaited: Option<(JobId, oneshot::Receiver<Result<JobView, Refused>>)>,
    /// How long it is to run at most, ns.
    time_ns: Option<u64>,
}

impl User {
    /// His job.
    pub(super) fn job(&self) -> Option<JobId> {
        let awaited = self.awaited.as_ref().map(|(job, _)| *job);
        self.job.as_ref().map(|(job, _)| *job).or(awaited)
    }
}

impl World {
    pub(super) fn plan_user(&mut self, user: usize) {
        let pause_ns_max = if self.are_impatient { PAUSE_NS_MAX / IMPATIENCE } else { PAUSE_NS_MAX };
        let in_ns = self.random.delay(pause_ns_max) + MILLISECOND_NS;
        self.plan(in_ns, Event::User(user));
    }

    /// A user does what comes to mind.
    pub(super) fn user_acts(&mut self, user: usize) {
        if self.host.is_up() {
            if self.is_faulty() && self.random.chance(FORGETS_PER_MILLE) {
                self.forget();
            }
            if self.is_faulty() {
                self.trace_any();
            }
            match self.users.get(user).and_then(User::job) {
                None if self.is_faulty() => match self.users.get_mut(user).and_then(|user| user.wanted.take()) {
                    Some(Wanted { submission, script, copied }) => drop(self.submit(user, submission, script, copied)),
                    None => return self.want_any(user),
                },
                Some(job) if self.is_faulty() => self.do_to(user, job),
                // When nothing is broken any more, all that was begun is to end by itself.
                _ => return,
            }
        }
        self.plan_user(user);
    }

    /// A service node that dies holds nothing for anybody.
    pub(super) fn forget_wanted(&mut self) {
        for user in &mut self.users {
            // Nor does he hear what one says that is dead already.
            (user.wanted, user.awaited) = (None, None);
        }
        self.tracers.forget();
    }

    /// The copy of a program, as far as there is a service node that has it stored.
    pub(super) fn copy_of(&mut self, program: u64) -> Option<Copied> {
        let copied = match self.host.copy_of(program, self.now_ns) {
            Ok(copied) => copied,
            Err(error) => {
                self.violate(format!("program {program} cannot be stored: {error:#}"));
                None
            }
        };
        self.settle_host();
        if copied.as_ref().is_some_and(|copied| copied.is_again) {
            self.trace.count("programs stored again", 1);
        }
        copied
    }

    /// A user comes to want a job, and has its program looked for.
    fn want_any(&mut self, user: usize) {
        let (submission, script) = self.any_job();
        if let Some(copied) = self.copy_of(script.program)
            && self.host.is_up()
            && let Some(user) = self.users.get_mut(user)
        {
            user.wanted = Some(Wanted { submission, script, copied });
        }
        let in_ns = self.random.delay(STORE_NS_MAX);
        self.plan(in_ns, Event::User(user));
    }

    fn any_job(&mut self) -> (Submission, Script) {
        // Some fill the windows of connections and of output.
        let line_bytes_max = if self.random.chance(100) { 60_000 } else { 200 };
        let program = self.random.between(0, PROGRAMS as u64 - 1);
        let script = Script {
            program,
            lines: self.random.between(0, 30),
            fewer: self.random.between(0, 4),
            pause_ns: self.random.delay(SECOND_NS),
            line_bytes: self.random.delay(line_bytes_max),
            appends: self.random.chance(500),
            status: self.random.between(0, 3) as u8,
            touches: if self.random.chance(150) { TOUCHES_MAX } else { self.random.delay(TOUCHES_MAX) },
            spoils: self.random.chance(200),
            talk: Talk::default(),
            course: Course::default(),
            sharing: Sharing::default(),
        };
        let is_warm = self.random.chance(800);
        let ranks = self.random.between(1, u64::from(self.options.nodes)) as u32;
        let ranks_per_node = self.random.between(1, 3) as u32;
        let shares = self.options.shares || self.random.chance(SHARES_PER_MILLE);
        // Few nodes, as only those of one pset know something of files.
        let ranks = if shares { ranks.min(SHARERS_MAX) } else { ranks };
        let script = if shares {
            Script { sharing: self.any_sharing(), ..script }
        } else if self.random.chance(TALKS_PER_MILLE) {
            Script { talk: self.any_talk(ranks, ranks_per_node), ..script }
        } else if self.random.chance(COURSES_PER_MILLE) {
            Script { course: self.any_course(ranks, ranks_per_node), ..script }
        } else {
            script
        };
        let submission = Submission {
            ranks,
            ranks_per_node,
            detached: self.random.chance(DETACHED_PER_MILLE),
            timeout_ms: self.random.chance(100).then(|| 1 + self.random.delay(20_000)),
            ..script.submission(is_warm)
        };
        let is_kept = submission.detached || self.random.chance(KEPT_PER_MILLE);
        let keep_output = is_kept.then_some(OUTPUT_LOG_BYTES_DEFAULT);
        let overlay = self.random.chance(OVERLAYS_PER_MILLE).then(|| OverlayWish {
            period_ms: self.random.between(20, 1000),
            placement: if self.random.chance(500) {
                OverlayPlacement::Average
            } else {
                OverlayPlacement::Comprehensive
            },
            topology: None,
            sample_hz: self.random.chance(300).then_some(100),
        });
        let submission = Submission { keep_output, overlay, ..submission };
        (submission, script)
    }

    /// What so many ranks have to say to PMI, so many of them on a node.
    fn any_talk(&mut self, ranks: u32, ranks_per_node: u32) -> Talk {
        self.talks += 1;
        let (rounds, keys) = (self.random.between(1, ROUNDS_MAX), self.random.between(1, KEYS_MAX));
        // No node's ranks put more than they may.
        let puts = rounds * (keys + 1) * u64::from(ranks_per_node);
        let bytes_max = PMI_BYTES_PER_JOB_MAX as u64 / u64::from(ranks.div_ceil(ranks_per_node)) / puts;
        let wanted = if self.random.chance(100) { 900 } else { 60 };
        let talk = Talk {
            rounds,
            mark: self.talks,
            keys,
            value_bytes: self.random.delay(wanted.min(bytes_max.saturating_sub(PMI_KEY_BYTES_MAX as u64))),
            // Who takes long is not taken for dead.
            pause_ns: if self.random.chance(50) { LONG_PAUSE_NS } else { self.random.delay(SECOND_NS) },
            ..Talk::default()
        };
        if !self.random.chance(DESERTS_PER_MILLE) {
            return talk;
        }
        Talk {
            deserter: self.random.between(1, u64::from(ranks)),
            deserts_in: self.random.between(0, rounds - 1),
            deserts_after: self.random.between(0, talk.in_round() - 1),
            deserts_how: self.random.between(0, Desertion::ALL.len() as u64 - 1),
            ..talk
        }
    }

    /// Submits a job and watches it.
    pub(super) fn submit(
        &mut self,
        user: usize,
        submission: Submission,
        script: Script,
        copied: Copied,
    ) -> Option<JobId> {
        let (ranks, is_warm, is_detached) = (submission.ranks, submission.retain, submission.detached);
        let has_overlay = submission.overlay.is_some();
        let time_ns = submission.timeout_ms.map(|ms| ms * MILLISECOND_NS);
        let Some(Ok(job)) = self.host.submit(copied, submission, self.now_ns) else {
            self.trace.count("submissions refused", 1);
            self.settle_host();
            return None;
        };
        self.note("job submitted", format_args!("{job} by user {user}: {ranks} ranks, {script:?}"));
        self.checkers.jobs.submitted(job, ranks, is_detached, script, self.now_ns);
        if has_overlay {
            self.checkers.overlays.submitted(job, ranks);
        }
        self.checkers.retention.submitted(job, script.program, is_warm);
        self.checkers.pmi.submitted(job, ranks, &script, time_ns.is_some());
        self.checkers.pmix.submitted(job, ranks, &script, time_ns.is_some(), self.now_ns);
        if is_detached {
            let (answer, answered) = oneshot::channel();
            self.host.handle(HostEvent::Request(Request::Wait(job, answer)), self.now_ns);
            if let Some(user) = self.users.get_mut(user) {
                (user.awaited, user.time_ns) = (Some((job, answered)), None);
            }
            self.settle_host();
            return Some(job);
        }
        match self.host.ask(|answer| Request::Attach(job, answer), self.now_ns) {
            Some(Ok(receiver)) => {
                let receiver = Arc::new(Listener::new(receiver));
                self.host.disk.overhear(&receiver);
                if let Some(user) = self.users.get_mut(user) {
                    (user.job, user.time_ns) = (Some((job, receiver)), time_ns);
                }
            }
            _ => self.trace.count("streams refused", 1),
        }
        self.settle_host();
        Some(job)
    }

    fn do_to(&mut self, user: usize, job: JobId) {
        // Every second one waits, however long it takes: what hangs is not to be hidden.
        if user.is_multiple_of(2) {
            return;
        }
        let kills_per_mille = if self.are_impatient { KILLS_IMPATIENT_PER_MILLE } else { KILLS_PER_MILLE };
        if self.random.chance(kills_per_mille) {
            let signal = if self.random.chance(500) { 9 } else { 15 };
            self.note("job killed", format_args!("{job} with {signal}"));
            let answer = self.host.ask(|answer| Request::Kill(job, signal, answer), self.now_ns);
            self.checkers.pmi.killed(job, self.now_ns);
            self.checkers.pmix.killed(job);
            if let Some(Ok(_)) = answer {
                self.checkers.promises.ends(job, "was killed", (0, 0), self.now_ns);
            }
        } else if self.random.chance(30) {
            self.note("user left", format_args!("{user}, of {job}"));
            self.leave_job(user);
            if self.is_detached(job) {
                // It goes on.
                return;
            }
            self.host.handle(HostEvent::Request(Request::Left(job, Taker::Owner)), self.now_ns);
        }
        self.settle_host();
    }

    /// Users see what the service node has for them.
    pub(super) fn look_at_streams(&mut self) {
        self.look_at_tracers();
        for number in 0..self.users.len() {
            self.look_at_awaited(number);
            while let Some((job, listener)) = self.users.get(number).and_then(|user| user.job.clone()) {
                match listener.hear() {
                    Ok(Piece::Output { pset, rank, bytes, .. }) => {
                        self.checkers.jobs.output(job, rank.0, &bytes);
                        self.checkers.limits.sent(job, pset, bytes.len());
                        // Every third one is slow, and fills the windows of jobs that print much.
                        let slowest_ns = if number.is_multiple_of(3) { 10 * SECOND_NS } else { SECOND_NS / 2 };
                        let in_ns = self.random.delay(slowest_ns);
                        self.plan(in_ns, Event::Taken(job, pset, bytes.len()));
                    }
                    Ok(Piece::Event(JobEvent::Ended(view))) => {
                        self.heard_end(job, &view);
                        self.leave_job(number);
                    }
                    Ok(Piece::Event(JobEvent::Started { .. })) => {
                        if let Some(time_ns) = self.users.get(number).and_then(|user| user.time_ns) {
                            let ns = (time_ns, START_NS_MAX);
                            self.checkers.promises.ends(job, "had its time", ns, self.now_ns);
                        }
                    }
                    Ok(Piece::Event(_) | Piece::Progress { .. }) => {}
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => self.leave_job(number),
                }
            }
        }
    }

    /// Somebody hears that a job that is nobody's has ended.
    fn look_at_awaited(&mut self, number: usize) {
        let Some((job, answered)) = self.users.get_mut(number).and_then(|user| user.awaited.as_mut()) else { return };
        let job = *job;
        match answered.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => return,
            Ok(Ok(view)) => self.heard_end(job, &view),
            Ok(Err(_)) | Err(oneshot::error::TryRecvError::Closed) => {}
        }
        self.leave_job(number);
    }

    fn leave_job(&mut self, user: usize) {
        if let Some(user) = self.users.get_mut(user) {
            (user.job, user.awaited) = (None, None);
        }
    }

    pub(super) fn is_detached(&self, job: JobId) -> bool {
        self.checkers.jobs.is_detached(job)
    }

    fn heard_end(&mut self, job: JobId, view: &JobView) {
        let reason = view.reason.as_deref().unwrap_or("");
        self.note("job ended", format_args!("{job}: {:?} {reason}", view.exit_status));
        let alive = self.observed.lock().alive.keys().filter(|(_, of, _)| *of == job).map(|(life, ..)| *life).collect();
        self.checkers.promises.ended(job, self.now_ns);
        self.look_at_processes();
        let Checkers { pmi, pmix, troubles, .. } = &mut self.checkers;
        let left = pmi.ended(job, view, troubles, self.now_ns);
        let fences = pmix.ended(job, view, troubles, self.now_ns);
        self.trace.count("PMI barriers left in jobs whose end was heard", left);
        self.trace.count("PMIx fences left in jobs whose end was heard", fences);
        let lives = self.machines.values().map(|machine| machine.life).collect();
        self.checkers.jobs.ended(job, view, alive, &lives, self.now_ns);
    }

    /// Also when its user has nothing more to do with the job: it was taken.
    pub(super) fn taken(&mut self, job: JobId, pset: PsetId, bytes: usize) {
        self.checkers.limits.taken(job, pset, bytes);
        self.host.handle(HostEvent::Request(Request::Taken(job, Taker::Owner, pset, bytes)), self.now_ns);
        self.settle_host();
    }
}
