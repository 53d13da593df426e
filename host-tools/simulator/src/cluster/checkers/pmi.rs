//! PMI, as programs see it: nobody leaves a barrier before all ranks of the job have entered it, all are told the same,
//! and nobody waits in a barrier for ever, least of all for one that is gone. What each must be told of what others
//! have put the programs know themselves ([`crate::cluster::words`]).

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::job::JobView;
use coppice_protocol::ids::JobId;
use coppice_protocol::limits::PMI_ASK_NS;

use super::Troubles;
use crate::checkers::Violation;
use crate::cluster::queue::SECOND_NS;
use crate::cluster::script::Script;
use crate::cluster::words::Talk;

/// How long ranks are in a barrier at most that all have entered, or that one cannot enter any more, ns: so long a node
/// may be silent, and then the job has to end.
const STUCK_NS_MAX: u64 = 80 * SECOND_NS;
/// The same where nothing goes wrong, ns.
const STUCK_CALM_NS_MAX: u64 = 5 * SECOND_NS;

/// How long a process that ends is there where nothing goes wrong, ns.
const END_CALM_NS_MAX: u64 = 5 * SECOND_NS;
/// What a rank does or hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum Note {
    /// It is told what the key-value space is called.
    Name(String),
    /// It is about to enter the barrier with this number.
    Enters(u64),
    /// It has left it.
    Leaves(u64),
    /// It is told what one of the ranks has put in that round.
    Shared(u64, String),
    /// It goes away, as it was told to.
    Deserts,
    /// It is done with PMI.
    Done,
    /// It ends.
    Ends,
}

/// What ranks have come to, each in its barriers.
#[derive(Debug, Default)]
struct Barrier {
    entered: BTreeSet<u32>,
    /// When the last one did, ns.
    entered_ns: u64,
    left: BTreeSet<u32>,
    /// What all are told that was put before it.
    shared: Option<String>,
}

#[derive(Debug)]
struct Job {
    id: JobId,
    ranks: u32,
    talk: Talk,
    /// What all its ranks exit with, if nothing else becomes of them.
    status: u8,
    name: Option<String>,
    barriers: BTreeMap<u64, Barrier>,
    /// Ranks that are done with PMI, and those whose processes are gone.
    done: BTreeSet<u32>,
    gone: BTreeSet<u32>,
    /// When each has begun to end, ns.
    ends_ns: BTreeMap<u32, u64>,
    has_deserted: bool,
    /// Somebody was to end it, or its time to.
    was_killed: bool,
    /// When somebody ended it, ns.
    killed_ns: Option<u64>,
    /// How long it has been stuck, ns.
    stuck_ns: u64,
}

impl Job {
    /// Some wait in a barrier that all have entered, or that one of them cannot enter any more, as is known when its
    /// process is gone; or the job is to end.
    fn is_stuck(&self) -> bool {
        let is_to_end = self.has_deserted && self.talk.ends_the_job();
        is_to_end
            || self.barriers.values().any(|barrier| {
                let waits =
                    barrier.entered.iter().any(|rank| !barrier.left.contains(rank) && !self.gone.contains(rank));
                let is_full = barrier.entered.len() == self.ranks as usize;
                waits && (is_full || self.gone.iter().any(|rank| !barrier.entered.contains(rank)))
            })
    }

    fn note(&mut self, rank: u32, note: Note, now_ns: u64, is_calm: bool) -> Result<(), String> {
        match note {
            Note::Name(name) => {
                let known = self.name.get_or_insert_with(|| name.clone());
                if *known != name {
                    return Err(format!("is told that its space is {name}, others that it is {known}"));
                }
            }
            Note::Enters(number) => {
                let barrier = self.barriers.entry(number).or_default();
                if barrier.entered.insert(rank) {
                    barrier.entered_ns = now_ns;
                }
                self.stuck_ns = 0;
            }
            Note::Leaves(number) => {
                let barrier = self.barriers.entry(number).or_default();
                barrier.left.insert(rank);
                self.stuck_ns = 0;
                if let Some(missing) = (0..self.ranks).find(|rank| !barrier.entered.contains(rank)) {
                    return Err(format!("leaves barrier {number}, which rank {missing} has not entered"));
                }
                // Nobody has to ask again for what was not lost.
                let late_ns = now_ns - barrier.entered_ns;
                if is_calm && late_ns >= PMI_ASK_NS {
                    return Err(format!("leaves barrier {number} {late_ns} ns after all have entered it"));
                }
            }
            Note::Shared(number, value) => {
                if !(0..self.ranks).any(|rank| value == self.talk.shared(rank, number)) {
                    return Err(format!("is told {value:?} for what no rank has put in round {number}"));
                }
                let known = self.barriers.entry(number).or_default().shared.get_or_insert_with(|| value.clone());
                if *known != value {
                    return Err(format!("is told {value:?} where others are told {known:?}"));
                }
            }
            Note::Deserts => self.has_deserted = true,
            Note::Ends => {
                self.ends_ns.entry(rank).or_insert(now_ns);
            }
            Note::Done => {
                self.done.insert(rank);
            }
        }
        Ok(())
    }
}

/// See this module.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Pmi {
    /// By the marks of their scripts, those that have not ended.
    jobs: BTreeMap<u64, Job>,
    /// Whose each name is, by its mark.
    names: BTreeMap<String, u64>,
    /// Nothing goes wrong in this run.
    pub is_calm: bool,
    found: Vec<Violation>,
}

impl Pmi {
    pub(in crate::cluster) fn submitted(&mut self, id: JobId, ranks: u32, script: &Script, has_time: bool) {
        let Script { talk, status, .. } = *script;
        if talk.rounds > 0 {
            let job = Job {
                id,
                ranks,
                talk,
                status,
                name: None,
                barriers: BTreeMap::new(),
                done: BTreeSet::new(),
                gone: BTreeSet::new(),
                ends_ns: BTreeMap::new(),
                has_deserted: false,
                was_killed: has_time,
                killed_ns: None,
                stuck_ns: 0,
            };
            self.jobs.insert(talk.mark, job);
        }
    }

    /// A user ends it.
    pub(in crate::cluster) fn killed(&mut self, id: JobId, now_ns: u64) {
        for job in self.jobs.values_mut().filter(|job| job.id == id) {
            job.was_killed = true;
            job.killed_ns.get_or_insert(now_ns);
        }
    }

    /// A rank of the job with this mark does or hears something.
    pub(in crate::cluster) fn note(&mut self, mark: u64, rank: u32, note: Note, now_ns: u64) {
        let Some(job) = self.jobs.get_mut(&mark) else { return };
        if let Note::Name(name) = &note
            && let other = *self.names.entry(name.clone()).or_insert(mark)
            && other != mark
        {
            self.found.push(Violation::new(format!("the jobs with marks {other} and {mark} have space {name}")));
        }
        if let Err(what) = job.note(rank, note, now_ns, self.is_calm) {
            self.found.push(Violation::new(format!("job {}: rank {rank} of {} {what}", job.id, job.ranks)));
        }
    }

    /// A process is gone.
    pub(in crate::cluster) fn gone(&mut self, id: JobId, rank: u32, now_ns: u64) {
        let Some(job) = self.jobs.values_mut().find(|job| job.id == id) else { return };
        job.gone.insert(rank);
        let ends_ns = job.ends_ns.get(&rank).copied().into_iter().chain(job.killed_ns).min().unwrap_or(now_ns);
        if self.is_calm && now_ns - ends_ns > END_CALM_NS_MAX {
            let what = format!("job {id}: rank {rank} is gone {} ns after it was to end", now_ns - ends_ns);
            self.found.push(Violation::new(what));
        }
    }

    /// The service node has worked for so long. Gives the jobs that have been stuck for too long in that time: whoever
    /// looks says if they have not ended, by [`Self::is_stuck`].
    pub(in crate::cluster) fn worked(&mut self, ns: u64) -> Vec<JobId> {
        let most_ns = if self.is_calm { STUCK_CALM_NS_MAX } else { STUCK_NS_MAX };
        let mut stuck = Vec::new();
        for job in self.jobs.values_mut() {
            job.stuck_ns = if job.is_stuck() { job.stuck_ns + ns } else { 0 };
            if job.stuck_ns > most_ns {
                stuck.push(job.id);
            }
        }
        stuck
    }

    /// It has ended, and nobody watched.
    pub(in crate::cluster) fn is_over(&mut self, id: JobId) {
        self.jobs.retain(|_, job| job.id != id);
    }

    pub(in crate::cluster) fn is_stuck(&mut self, id: JobId, state: &str) {
        self.found.push(Violation::new(format!("ranks of job {id} are stuck in a barrier: {state}")));
    }

    /// A user heard of its end. Gives how many barriers its ranks have left, all together.
    pub(in crate::cluster) fn ended(&mut self, id: JobId, view: &JobView, troubles: &Troubles, now_ns: u64) -> u64 {
        let mark = self.jobs.iter().find(|(_, job)| job.id == id).map(|(mark, _)| *mark);
        let Some(job) = mark.and_then(|mark| self.jobs.remove(&mark)) else { return 0 };
        let reason = view.reason.as_deref();
        let is_well = reason.is_none() && !job.was_killed;
        // Otherwise some were ended before they had anything to say.
        let as_meant = view.exit_status == Some(job.status);
        let must_fail = job.talk.ends_the_job() || as_meant && job.talk.must_fail(job.ranks);
        let what = if is_well && job.has_deserted && must_fail {
            Some("ended well, and one of its ranks went away in the middle of PMI".to_owned())
        } else if is_well && as_meant && !job.has_deserted && job.done.len() < job.ranks as usize {
            Some(format!("ended well, and only {} of {} ranks are done with PMI", job.done.len(), job.ranks))
        } else if let Some(reason) = reason.filter(|reason| reason.contains("was ended by signal 15")) {
            // Only users send that.
            Some(format!("ended because {reason}, and not because a user wanted it to"))
        } else if let Some(reason) = reason.filter(|reason| troubles.is_no_reason(reason, now_ns)) {
            Some(format!("ended because {reason}, and nothing was the matter with them"))
        } else {
            // Three large ranks do not fit into a node, and one of them is ended.
            let is_full = |reason: &&str| reason.contains("no memory") || reason.contains("by signal 9");
            let blames = reason.filter(|reason| reason.contains("MPI") || reason.contains("PMI"));
            let is_innocent = self.is_calm && !job.has_deserted && !job.was_killed;
            let blames = blames.filter(|reason| is_innocent && !is_full(reason));
            blames.map(|reason| format!("ended, where nothing went wrong, because {reason}"))
        };
        if let Some(what) = what {
            self.found.push(Violation::new(format!("job {id} of {} ranks {what}", job.ranks)));
        }
        job.barriers.values().map(|barrier| barrier.left.len() as u64).sum()
    }

    pub(in crate::cluster) fn found(&mut self) -> &mut Vec<Violation> {
        &mut self.found
    }
}
