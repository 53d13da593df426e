//! What the ranks of one job have come to with PMIx.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::job::JobView;
use coppice_protocol::ids::{JobId, NodeId};
use coppice_protocol::limits::{PMI_ASK_NS, PMI_SILENCE_NS};
use coppice_protocol::pmix::Status;

use super::Note;
use super::cards::Cards;
use super::events::Events;
use crate::cluster::checkers::Troubles;
use crate::cluster::pmix::{Ask, Course, Fence, Loss, Reply, Source, Told, Want};
use crate::cluster::queue::SECOND_NS;
use crate::cluster::script::Script;

/// How long before a rank hears that a node is silent something was the matter with one at the latest, ns: it was
/// silent that long, and clocks differ.
const SILENT_NS: u64 = PMI_SILENCE_NS + 10 * SECOND_NS;
/// How much later it may be seen that a rank is gone than others hear of it, ns.
const SEEN_NS_MAX: u64 = SECOND_NS;
/// How long a rank waits at least that waits for a second, ns: by its own clock.
const SECOND_NS_MIN: u64 = SECOND_NS - SECOND_NS / 100;

/// A call that is not answered yet.
#[derive(Debug)]
struct Asked {
    ask: Ask,
    at_ns: u64,
    /// Commits of whose rank it must hear, if it wants a card.
    floor: u64,
    /// How long it has waited for what is there or cannot come, ns.
    stuck_ns: u64,
}

/// Who has come to a fence.
#[derive(Debug, Default)]
struct Passage {
    /// And how often each had committed by then.
    entered: BTreeMap<u32, u64>,
    /// When the last one has, ns.
    entered_ns: u64,
    left: u64,
}

/// See this module.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) ranks: u32,
    course: Course,
    /// What all its ranks exit with, if nothing else becomes of them.
    status: u8,
    submitted_ns: u64,
    /// Where ranks are that have begun, and when the first has and the last of all, ns.
    nodes: BTreeMap<u32, NodeId>,
    first_ns: Option<u64>,
    begun_ns: Option<u64>,
    asked: BTreeMap<u32, Asked>,
    fences: BTreeMap<Fence, Passage>,
    cards: Cards,
    events: Events,
    /// What was published for certain, by rank and round.
    published: BTreeSet<(u32, u64)>,
    publishing: BTreeSet<(u32, u64)>,
    /// Ranks that are done, and when the processes of others were gone, ns.
    done: BTreeSet<u32>,
    gone_ns: BTreeMap<u32, u64>,
    has_lost: bool,
    /// Somebody was to end it, or its time to.
    pub(super) was_killed: bool,
    /// What has to have been because one of these ranks is gone, and when it was, ns.
    unexplained: Vec<(u64, Vec<u32>, String)>,
    /// How long it was to end, ns.
    stuck_ns: u64,
}

/// What is known of a whole run: that nothing goes wrong in it, and what did.
type Around<'a> = (bool, &'a Troubles);

impl Job {
    pub(super) fn new(id: JobId, ranks: u32, script: &Script, has_time: bool, now_ns: u64) -> Self {
        Self {
            id,
            ranks,
            course: script.course,
            status: script.status,
            submitted_ns: now_ns,
            nodes: BTreeMap::new(),
            first_ns: None,
            begun_ns: None,
            asked: BTreeMap::new(),
            fences: BTreeMap::new(),
            cards: Cards::default(),
            events: Events::default(),
            published: BTreeSet::new(),
            publishing: BTreeSet::new(),
            done: BTreeSet::new(),
            gone_ns: BTreeMap::new(),
            has_lost: false,
            was_killed: has_time,
            unexplained: Vec::new(),
            stuck_ns: 0,
        }
    }

    /// Whether a rank puts, and says, nothing more.
    fn has_left(&self, rank: u32) -> bool {
        let is_lost = self.has_lost && self.course.lost().is_some_and(|(lost, _)| lost == rank);
        is_lost || self.done.contains(&rank) || self.gone_ns.contains_key(&rank)
    }

    /// A rank is on this node.
    pub(super) fn is_on(&mut self, rank: u32, node: NodeId, now_ns: u64) {
        self.nodes.insert(rank, node);
        self.first_ns.get_or_insert(now_ns);
        if self.nodes.len() == self.ranks as usize {
            self.begun_ns.get_or_insert(now_ns);
        }
    }

    /// Whether nodes of it may have been silent for others since then. One that is not told of the job, as its I/O
    /// node's disk does not answer, says so where a fence of all waits for it, and nowhere else.
    fn was_troubled(&self, troubles: &Troubles, since_ns: u64) -> bool {
        let have_begun = self.begun_ns.is_some_and(|begun_ns| begun_ns < since_ns);
        !have_begun || self.is_struck(troubles, since_ns)
    }

    /// Whether something was the matter with its nodes since then.
    fn is_struck(&self, troubles: &Troubles, since_ns: u64) -> bool {
        self.nodes.values().any(|node| troubles.was(*node, since_ns))
    }

    /// Whether it goes on without a node: one that something was the matter with, and that has no rank of it any more.
    fn has_lost_node(&self, troubles: &Troubles) -> bool {
        let is_lost = |node: &NodeId| {
            let mut ranks = self.nodes.iter().filter(|(_, on)| *on == node).map(|(rank, _)| rank);
            troubles.was(*node, self.submitted_ns) && ranks.all(|rank| self.gone_ns.contains_key(rank))
        };
        self.nodes.values().any(is_lost)
    }

    /// Whether it goes on without a node that others take for dead, and that may be there: nodes of a job find that
    /// out themselves, and one that was cut off for so long stays dead to them. Who ends it, and when, is not theirs to
    /// say: nobody, if its I/O node heard it all the time. One that hears of nobody takes all others for dead, too.
    fn may_be_mistaken(&self, troubles: &Troubles, now_ns: u64) -> bool {
        let is_missed = |node: &NodeId| troubles.was_missed(*node, self.submitted_ns, now_ns);
        self.course.outlives && (self.begun_ns.is_none() || self.nodes.values().any(is_missed))
    }

    /// Whether some began so long after others that their nodes may have been silent for those.
    fn began_late(&self) -> bool {
        let first_ns = self.first_ns.unwrap_or_default();
        self.begun_ns.is_none_or(|begun_ns| begun_ns - first_ns > PMI_SILENCE_NS - 5 * SECOND_NS)
    }

    pub(super) fn note(&mut self, rank: u32, note: Note, around: Around<'_>, now_ns: u64) -> Result<(), String> {
        match note {
            Note::Loses => self.has_lost = true,
            Note::Begins => {}
            Note::Greeted => drop(self.asked.remove(&rank)),
            Note::Asks(ask) => self.asks(rank, ask, now_ns),
            Note::Hears(ask, reply) => return self.hears(rank, ask, reply, around, now_ns),
            Note::Told(Told::Event(from, number)) => return self.events.told(&self.course, rank, from, number),
            Note::Told(Told::End(of, source)) => {
                if source == Source::Own || !self.may_be_mistaken(around.1, now_ns) {
                    self.explain(now_ns, [of], format!("rank {rank} is told that rank {of} has ended, which runs"));
                }
                return self.events.told_of_end(rank, of);
            }
            Note::GivesUp => {
                let lost = self.course.outlived().and_then(|lost| self.gone_ns.get(&lost)).copied();
                let overdue = self.events.overdue(&self.course, rank, lost, now_ns);
                let is_excused = self.began_late() || self.is_struck(around.1, self.submitted_ns);
                return overdue.filter(|_| !is_excused).map_or(Ok(()), Err);
            }
        }
        Ok(())
    }

    fn asks(&mut self, rank: u32, ask: Ask, now_ns: u64) {
        let mut floor = 0;
        match ask {
            Ask::Commit(round) => self.cards.begins(rank, round),
            Ask::Publish(round) => drop(self.publishing.insert((rank, round))),
            Ask::Notify(number) => self.events.begins(number),
            Ask::Get(of, _) => floor = self.cards.floor(&self.course, rank, of),
            Ask::LookUp(of, round) => floor = self.published.contains(&(of, round)).into(),
            Ask::Fence(fence) => {
                let passage = self.fences.entry(fence).or_default();
                if passage.entered.insert(rank, self.cards.commits(rank)).is_none() {
                    passage.entered_ns = now_ns;
                }
            }
            Ask::Greet | Ask::Init | Ask::Register | Ask::Query | Ask::Finalize | Ask::Abort => {}
        }
        self.asked.insert(rank, Asked { ask, at_ns: now_ns, floor, stuck_ns: 0 });
    }

    fn hears(
        &mut self,
        rank: u32,
        ask: Ask,
        reply: Reply,
        (is_calm, troubles): Around<'_>,
        now_ns: u64,
    ) -> Result<(), String> {
        let (at_ns, floor) = self.asked.remove(&rank).map_or((now_ns, 0), |asked| (asked.at_ns, asked.floor));
        let was_troubled = self.was_troubled(troubles, now_ns.saturating_sub(SILENT_NS));
        let is_mistaken = self.may_be_mistaken(troubles, now_ns);
        // What such a node has kept stays out of reach for as long as the job goes on.
        let is_out_of_reach = was_troubled || is_mistaken || self.has_lost_node(troubles);
        let status = match reply {
            Reply::Status(status) => Status(status),
            Reply::Card(_) | Reply::Found => Status::SUCCESS,
        };
        let unwarranted = || Err(format!("hears {} for {ask:?} after {} ns", status.0, now_ns - at_ns));
        match (ask, reply) {
            (Ask::Fence(fence), _) => self.leaves(rank, fence, status, (was_troubled, is_mistaken), (is_calm, now_ns)),
            (Ask::Get(of, want), Reply::Card(commits)) => self.cards.gets(rank, of, want, floor, commits),
            (Ask::Get(of, want), _) => {
                let is_warranted = match status {
                    Status::NOT_FOUND if !self.cards.is_there(of, want) => {
                        self.explain(now_ns, [of], format!("rank {rank} gets nothing of rank {of}, which runs"));
                        true
                    }
                    Status::TIMEOUT => want == Want::Never && now_ns - at_ns >= SECOND_NS_MIN,
                    // Of one that went with its node that is so as long as the job is.
                    Status::UNREACHABLE => {
                        let is_gone = self.gone_ns.contains_key(&of);
                        (was_troubled || is_mistaken || is_gone) && !self.course.are_neighbours(rank, of)
                    }
                    _ => false,
                };
                if is_warranted { Ok(()) } else { unwarranted() }
            }
            (Ask::LookUp(of, round), Reply::Found) => {
                let is_published = self.publishing.contains(&(of, round));
                if is_published { Ok(()) } else { Err(format!("finds what rank {of} has not published in {round}")) }
            }
            (Ask::LookUp(..), _) => {
                let is_warranted = match status {
                    Status::NOT_FOUND => floor == 0,
                    Status::UNREACHABLE => is_out_of_reach,
                    // Its own node has to keep the question.
                    Status::OUT_OF_RESOURCE => {
                        self.nodes.get(&rank).is_some_and(|node| troubles.was_short(*node, at_ns))
                    }
                    _ => false,
                };
                if is_warranted { Ok(()) } else { unwarranted() }
            }
            (Ask::Publish(round), _) => {
                match status {
                    Status::SUCCESS => drop(self.published.insert((rank, round))),
                    Status::UNREACHABLE if is_out_of_reach => {}
                    // And some node the name.
                    Status::OUT_OF_RESOURCE if self.nodes.values().any(|node| troubles.was_short(*node, at_ns)) => {}
                    _ => return unwarranted(),
                }
                Ok(())
            }
            _ if status != Status::SUCCESS => unwarranted(),
            (Ask::Commit(round), _) => {
                self.cards.has_committed(rank, round);
                Ok(())
            }
            (Ask::Notify(number), _) => {
                self.events.is_taken(number, now_ns);
                Ok(())
            }
            (Ask::Finalize, _) => {
                self.done.insert(rank);
                Ok(())
            }
            (Ask::Greet | Ask::Init | Ask::Register | Ask::Query | Ask::Abort, _) => Ok(()),
        }
    }

    /// A rank leaves a fence.
    fn leaves(
        &mut self,
        rank: u32,
        fence: Fence,
        status: Status,
        (was_troubled, is_mistaken): (bool, bool),
        (is_calm, now_ns): (bool, u64),
    ) -> Result<(), String> {
        let members = self.course.members(fence, self.ranks);
        let is_of_all = members.clone().count() == self.ranks as usize;
        let passage = self.fences.entry(fence).or_default();
        passage.left += 1;
        match status {
            Status::SUCCESS => {
                if let Some(missing) = members.clone().find(|member| !passage.entered.contains_key(member)) {
                    return Err(format!("leaves {fence:?}, which rank {missing} has not entered"));
                }
                // Nobody has to ask again for what was not lost.
                let late_ns = now_ns - passage.entered_ns;
                if is_calm && late_ns >= PMI_ASK_NS {
                    return Err(format!("leaves {fence:?} {late_ns} ns after all have entered it"));
                }
                if self.course.collects(fence) {
                    self.cards.are_brought(rank, &passage.entered);
                }
                Ok(())
            }
            // Of a fence of all only those hear without whom the job goes on.
            Status::UNREACHABLE if is_of_all && !self.course.outlives => {
                Err(format!("hears that a member of {fence:?} is gone, of a job that ends with it"))
            }
            Status::UNREACHABLE => {
                if !is_mistaken && (is_of_all || !was_troubled) {
                    let what = format!("rank {rank} hears that a member of {fence:?} is gone, and all are there");
                    self.explain(now_ns, members, what);
                }
                Ok(())
            }
            Status(other) => Err(format!("leaves {fence:?} with {other}")),
        }
    }

    /// Something that is only if one of these ranks is gone: if it is, that will be seen soon.
    fn explain(&mut self, now_ns: u64, ranks: impl IntoIterator<Item = u32>, what: String) {
        let ranks: Vec<u32> = ranks.into_iter().collect();
        if !ranks.iter().any(|rank| self.has_left(*rank)) {
            self.unexplained.push((now_ns, ranks, what));
        }
    }

    pub(super) fn is_gone(&mut self, rank: u32, now_ns: u64) {
        self.gone_ns.entry(rank).or_insert(now_ns);
        self.asked.remove(&rank);
    }

    /// Whether somebody waits for a rank in a fence of a part, in which another one cannot come: all that make the call
    /// on a node hear of it together, and nobody before those on the node that leads it, which is that of its lowest
    /// member.
    fn is_waited_for(&self, member: u32, by: u32, fence: Fence) -> bool {
        let leads = *self.course.members(fence, self.ranks).start();
        let is_there = !self.done.contains(&member) && !self.gone_ns.contains_key(&member);
        is_there && (self.course.are_neighbours(member, by) || self.course.are_neighbours(member, leads))
    }

    /// Whether a rank waits for what is there, or cannot come.
    fn is_overdue(&self, rank: u32, ask: Ask) -> bool {
        match ask {
            Ask::Fence(fence) => {
                let entered = self.fences.get(&fence).map(|passage| &passage.entered);
                let members = self.course.members(fence, self.ranks);
                let missing = || {
                    let members = members.clone();
                    members.filter(|member| entered.is_none_or(|entered| !entered.contains_key(member)))
                };
                let is_gone = |member: u32| self.done.contains(&member) || self.gone_ns.contains_key(&member);
                let is_of_all = members.clone().count() == self.ranks as usize;
                let waits = || !is_of_all && missing().any(|member| self.is_waited_for(member, rank, fence));
                missing().next().is_none() || missing().any(is_gone) && !waits()
            }
            Ask::Get(_, Want::Never) => true,
            Ask::Get(_, Want::NeverEver) => false,
            Ask::Get(of, want) => {
                self.cards.is_there(of, want) || self.done.contains(&of) || self.gone_ns.contains_key(&of)
            }
            _ => true,
        }
    }

    /// The service node has worked for so long: for how long a rank has been waiting in vain, or the job was to end.
    pub(super) fn worked(&mut self, ns: u64) -> u64 {
        let is_overdue = |(rank, asked): &(&u32, &Asked)| self.is_overdue(**rank, asked.ask);
        let overdue = self.asked.iter().filter(is_overdue).map(|(rank, _)| *rank);
        let overdue: BTreeSet<u32> = overdue.collect();
        for (rank, asked) in &mut self.asked {
            asked.stuck_ns = if overdue.contains(rank) { asked.stuck_ns + ns } else { 0 };
        }
        let is_to_end = self.has_lost && self.course.ends_the_job();
        self.stuck_ns = if is_to_end { self.stuck_ns + ns } else { 0 };
        self.asked.values().map(|asked| asked.stuck_ns).max().unwrap_or(0).max(self.stuck_ns)
    }

    /// What its ranks wait for, that is there or cannot come.
    pub(super) fn what_is_stuck(&self) -> String {
        let stuck = self.asked.iter().filter(|(_, asked)| asked.stuck_ns > 0);
        stuck.map(|(rank, asked)| format!("rank {rank} for {:?}", asked.ask)).collect::<Vec<_>>().join(", ")
    }

    /// What would have to have been because a rank is gone, and none is.
    pub(super) fn unexplained(&mut self, now_ns: u64) -> Option<String> {
        let unexplained = std::mem::take(&mut self.unexplained);
        let are_there = |ranks: &[u32]| !ranks.iter().any(|rank| self.has_left(*rank));
        let open: Vec<_> = unexplained.into_iter().filter(|(_, ranks, _)| are_there(ranks)).collect();
        self.unexplained = open;
        let (at_ns, _, what) = self.unexplained.first()?;
        (now_ns - at_ns > SEEN_NS_MAX).then(|| what.clone())
    }

    /// Fences that its ranks have left, all together.
    pub(super) fn fences_left(&self) -> u64 {
        self.fences.values().map(|passage| passage.left).sum()
    }

    /// A user heard of its end.
    pub(super) fn ended(&self, view: &JobView, (is_calm, troubles): Around<'_>, now_ns: u64) -> Result<(), String> {
        let reason = view.reason.as_deref();
        let is_well = reason.is_none() && !self.was_killed;
        // Three large ranks do not fit into a node, and one of them is ended.
        let is_full = |reason: &str| reason.contains("memory") || reason.contains("by signal 9");
        let lost_status = match self.course.lost() {
            Some((_, Loss::Crash)) => Some(128 + 4),
            Some(_) => Some(97),
            None => None,
        };
        let outlived = self.course.outlived().filter(|_| self.has_lost);
        let expected = lost_status.filter(|_| outlived.is_some()).unwrap_or(self.status).max(self.status);
        let is_as_meant = view.exit_status == Some(expected);
        let must_be_done = self.ranks as usize - usize::from(outlived.is_some());
        if is_well && self.has_lost && self.course.must_fail(self.ranks) {
            let is_at_once = self.course.ends_the_job() || view.exit_status == Some(self.status);
            if is_at_once {
                return Err("ended well, and one of its ranks went away in the middle of PMIx".to_owned());
            }
        }
        if is_well && is_as_meant && !self.course.must_fail(self.ranks) && self.done.len() < must_be_done {
            return Err(format!("ended well, and only {} of {must_be_done} ranks are done with PMIx", self.done.len()));
        }
        if let Some(reason) = reason.filter(|reason| troubles.is_no_reason(reason, now_ns)) {
            return Err(format!("ended because {reason}, and nothing was the matter with them"));
        }
        let is_innocent = is_calm && !self.was_killed && (!self.has_lost || outlived.is_some());
        match reason.filter(|reason| is_innocent && !is_full(reason)) {
            Some(reason) if reason.contains("PMI") || reason.contains("MPI") => {
                Err(format!("ended, where nothing went wrong, because {reason}"))
            }
            _ => Ok(()),
        }
    }
}
