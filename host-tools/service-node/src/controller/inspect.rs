//! Looking into ranks that run: questions of users that nodes answer.
//!
//! A question is answered when its node has answered, was lost, or has been silent for [`INSPECT_TIME_MAX`]. It has its
//! place until then, whether somebody still waits or not: nodes are not to be flooded by those who go away.

use std::collections::BTreeMap;
use std::time::Instant;

use coppice_protocol::ids::{JobId, NodeId, Rank};
use coppice_protocol::inspect::held::NotTold;
use coppice_protocol::inspect::{self, Inspect, Inspected, Query};
use coppice_protocol::pset::ToPset;

use super::requests::{Answer, Refused, reply};
use super::{Controller, Now};
use crate::limits::{INSPECT_TIME_MAX, INSPECTIONS_MAX};
use crate::plant::Plant;

/// Where a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The rank.
    pub rank: Rank,
    /// Its node.
    pub node: NodeId,
}

/// A question that waits for its node.
#[derive(Debug)]
struct Waiting {
    answer: Answer<inspect::Answer>,
    job: JobId,
    rank: Rank,
    node: NodeId,
    since: Instant,
}

/// Questions that wait for nodes, at most [`INSPECTIONS_MAX`], by the number their answers carry.
#[derive(Debug, Default)]
pub(super) struct Inspections {
    last: u64,
    waiting: BTreeMap<u64, Waiting>,
}

impl Inspections {
    /// When one of them has waited long enough.
    pub(super) fn deadline(&self) -> Option<Instant> {
        // Numbered as they came.
        self.waiting.first_key_value().map(|(_, waiting)| waiting.since + INSPECT_TIME_MAX)
    }

    /// Refuses those for which this is so.
    fn refuse_where(&mut self, is_over: impl Fn(&Waiting) -> bool, why: impl Fn(&Waiting) -> String) {
        let over: Vec<u64> =
            self.waiting.iter().filter(|(_, waiting)| is_over(waiting)).map(|(request, _)| *request).collect();
        for request in over {
            if let Some(waiting) = self.waiting.remove(&request) {
                let refused = Refused::conflict(&why(&waiting));
                reply(waiting.answer, Err(refused));
            }
        }
    }

    /// Those that have waited long enough wait no more.
    pub(super) fn give_up(&mut self, now: Now) {
        let is_over = |waiting: &Waiting| now.instant.saturating_duration_since(waiting.since) >= INSPECT_TIME_MAX;
        self.refuse_where(is_over, |waiting| {
            format!(
                "node {} did not answer within {} s about rank {} of job {}; try again, or see `coppice nodes`",
                waiting.node,
                INSPECT_TIME_MAX.as_secs(),
                waiting.rank,
                waiting.job
            )
        });
    }

    /// The cluster goes down: nobody waits for its nodes any more.
    pub(super) fn end(&mut self) {
        self.refuse_where(|_| true, |_| "the cluster is going down".to_owned());
    }

    /// A node is lost, and answers nothing any more.
    pub(super) fn node_lost(&mut self, node: NodeId) {
        self.refuse_where(
            |waiting| waiting.node == node,
            |waiting| format!("node {node}, on which rank {} of job {} was, is lost", waiting.rank, waiting.job),
        );
    }
}

/// What is answered if a node does not say what it was asked.
fn not_told(job: JobId, rank: Rank, node: NodeId, reason: NotTold) -> Result<inspect::Answer, Refused> {
    let who = format!("rank {rank} of job {job}");
    Err(match reason {
        // It may not be for long: whoever asks may ask again.
        NotTold::Taken => return Ok(inspect::Answer::NotTold(reason)),
        NotTold::Busy => Refused::busy(&format!(
            "node {node} answers as many questions about ranks as it can; try again when they are answered"
        )),
        NotTold::NotHeld => Refused::conflict(&format!("{who} was not looked at for too long, and goes on; try again")),
        NotTold::Ending => Refused::conflict(&format!("{who} has come to its end")),
        NotTold::Late(why) => Refused::conflict(&format!("{who} cannot be looked at now: {why}; try again")),
        NotTold::Refused => Refused::conflict(&format!("{who} cannot be changed like that")),
        NotTold::NoMemory => Refused::conflict(&format!("node {node} has no memory left to look at {who}")),
    })
}

impl<P: Plant> Controller<P> {
    /// Asks the node of a rank something about it.
    pub(super) fn inspect(&mut self, job: JobId, rank: Rank, query: Query, answer: Answer<inspect::Answer>, now: Now) {
        let node = match self.check_inspection(job, rank) {
            Ok(node) => node,
            Err(refused) => return reply(answer, Err(refused)),
        };
        let Some(pset) = self.nodes.get(node).map(|node| node.pset) else { return };
        self.inspections.last += 1;
        let request = self.inspections.last;
        self.plant.tell(pset, &ToPset::Inspect { node, inspect: Inspect { request, job, rank, query } });
        self.inspections.waiting.insert(request, Waiting { answer, job, rank, node, since: now.instant });
    }

    /// One rank of a job for each of its nodes, if all of them run.
    pub(super) fn one_rank_of_each_node(&mut self, id: JobId) -> Result<Vec<Place>, Refused> {
        let Some(job) = self.jobs.get(&id) else { return Err(self.why_not_under_way(id)) };
        if job.is_waiting() || job.ranks.iter().any(|(_, rank)| !rank.runs()) {
            return Err(Refused::conflict(&format!("not all ranks of job {id} run")));
        }
        let mut nodes = BTreeMap::new();
        for (rank, state) in job.ranks.iter() {
            nodes.entry(state.node).or_insert(rank);
        }
        Ok(nodes.into_iter().map(|(node, rank)| Place { rank, node }).collect())
    }

    /// Where the rank is, if it can be asked about.
    fn check_inspection(&mut self, id: JobId, rank: Rank) -> Result<NodeId, Refused> {
        let Some(job) = self.jobs.get(&id) else { return Err(self.why_not_under_way(id)) };
        let ranks = job.submission.ranks;
        if rank.0 >= ranks {
            return Err(Refused::missing(format!("job {id} has no rank {rank}; it has {ranks}, counted from 0")));
        }
        if job.is_waiting() {
            return Err(Refused::conflict(&format!("job {id} waits for nodes and does not run yet")));
        }
        let place = job.ranks.get(rank);
        let Some(node) = place.map(|place| place.node) else {
            return Err(Refused::conflict(&format!("rank {rank} of job {id} does not run yet")));
        };
        if self.inspections.waiting.len() >= INSPECTIONS_MAX {
            return Err(Refused::busy(&format!(
                "{INSPECTIONS_MAX} questions about ranks wait for nodes already; try again when they are answered"
            )));
        }
        Ok(node)
    }

    /// A node has answered. An answer to nobody, or of another node, is nobody's.
    pub(super) fn node_inspected(&mut self, node: NodeId, answer: Inspected) {
        let Inspected { request, answer } = answer;
        if self.inspections.waiting.get(&request).is_none_or(|waiting| waiting.node != node) {
            return;
        }
        let Some(waiting) = self.inspections.waiting.remove(&request) else { return };
        let Waiting { job, rank, .. } = waiting;
        let result = match answer {
            inspect::Answer::NotHere => Err(Refused::conflict(&format!(
                "rank {rank} of job {job} does not run on node {node}, not yet or no more"
            ))),
            inspect::Answer::NotTold(reason) => not_told(job, rank, node, reason),
            answer => Ok(answer),
        };
        reply(waiting.answer, result);
    }
}
