//! A node of the job, and its ranks.

use coppice_protocol::ids::{JobId, NodeId, Rank};
use coppice_protocol::pmi::{Conversation, Placement, Server, Startup};

use super::Job;
use super::script::{SCRIPT, Step};

/// The job's key.
pub(super) const KEY: [u8; 32] = [7; 32];

pub(super) struct Member {
    pub(super) rank: u32,
    pub(super) conversation: Conversation,
    /// Where in [`SCRIPT`] it is, and whether it has said that line.
    place: usize,
    pub(super) has_said: bool,
}

impl Member {
    pub(super) fn step(&self) -> Step {
        SCRIPT.get(self.place).copied().unwrap_or(Step::Ended)
    }

    pub(super) fn goes_on(&mut self) {
        self.place += 1;
        self.has_said = false;
    }

    pub(super) fn is_over(&self) -> bool {
        self.step() == Step::Ended
    }
}

pub(super) struct Node {
    /// Once it is told of the job.
    pub(super) server: Option<Server>,
    pub(super) members: Vec<Member>,
    pub(super) peers: Vec<u32>,
    /// Frames of others that came before that, which wait.
    pub(super) early: Vec<(u32, Vec<u8>)>,
    pub(super) clock_ns: Option<u64>,
    /// It has said that the job fails.
    pub(super) has_failed: bool,
    pub(super) is_dead: bool,
}

impl Node {
    /// It is told of the job.
    pub(super) fn launch(job: &Job, placement: &Placement, index: u32) -> Option<Server> {
        let mut server = Server::new(JobId(0), &KEY, placement.clone(), NodeId(index))?;
        server.set_startup(Startup { modex: Some(job.modex), fence: job.fence });
        if job.goes_on {
            server.set_outlives_ranks();
        }
        Some(server)
    }

    /// It is not.
    pub(super) fn new(job: &Job, index: u32) -> Self {
        let ranks = index * job.ranks_per_node..(index + 1) * job.ranks_per_node;
        let member =
            |rank| Member { rank, conversation: Conversation::on_descriptor(Rank(rank)), place: 0, has_said: false };
        let members = ranks.map(member).collect();
        let (peers, early) = (Vec::new(), Vec::new());
        Self { server: None, members, peers, early, clock_ns: None, has_failed: false, is_dead: false }
    }

    /// It has nothing more to do: its ranks are over, or it has said why they cannot be.
    pub(super) fn is_through(&self) -> bool {
        self.has_failed || self.members.iter().all(Member::is_over)
    }
}
