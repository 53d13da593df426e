//! Retained page tables: a launch that is to use one never overtakes the order to retain it; an answer is to an order
//! that was given to that very boot, and comes from nobody else; what was answered once is answered again; and a node
//! that says "kept" holds that program's table, so that the launch finds it, and of the others all or none, as is the
//! policy.

use std::collections::{BTreeMap, BTreeSet};

use coppice_protocol::control::{Launch, ToIoNode, ToNode};
use coppice_protocol::ids::{JobId, NodeId, ProgramId};
use coppice_protocol::retain::{Retain, RetainOutcome, RetentionPolicy};
use coppice_protocol::session::Identity;

use crate::checkers::{Violation, ensure};
use crate::network::{ConnectionId, Holder};
use crate::node::LifeId;

/// Orders and answers of a run.
#[derive(Debug, Default)]
pub(crate) struct Retention {
    policy: RetentionPolicy,
    boots: BTreeMap<LifeId, Identity>,
    /// The boot of each node that the I/O node was told of last.
    current: BTreeMap<NodeId, Identity>,
    /// Orders by the boot that they were given to.
    retains: BTreeSet<(Identity, JobId, ProgramId)>,
    discards: BTreeSet<(Identity, u64)>,
    /// Orders to retain that have arrived, by connection.
    arrived: BTreeSet<(ConnectionId, JobId, ProgramId)>,
    /// The jobs that boots run.
    running: BTreeMap<LifeId, JobId>,
    /// First answers to orders that were carried out.
    answers: BTreeMap<(LifeId, JobId, ProgramId), RetainOutcome>,
    /// For which job a boot was cut back to which table, if that was the last thing that happened to its tables.
    cut_back: BTreeMap<LifeId, (JobId, ProgramId)>,
}

impl Retention {
    pub(crate) fn new(policy: RetentionPolicy) -> Self {
        Self { policy, ..Self::default() }
    }

    pub(crate) fn boots(&mut self, life: LifeId, identity: Identity) {
        self.boots.insert(life, identity);
    }

    /// The I/O node was told of a boot.
    pub(crate) fn registered(&mut self, identity: Identity) {
        self.current.insert(identity.node, identity);
    }

    /// The I/O node gives an order to a boot.
    pub(crate) fn ordered(&mut self, boot: Identity, order: &ToNode) {
        match order {
            ToNode::Retain(order) => {
                self.retains.insert((boot, order.job, order.program));
            }
            ToNode::Discard(order) => {
                self.discards.insert((boot, order.request));
            }
            ToNode::Ping { .. }
            | ToNode::Taken { .. }
            | ToNode::Launch(_)
            | ToNode::Kill { .. }
            | ToNode::Signal(_)
            | ToNode::Trace { .. }
            | ToNode::Inspect(_)
            | ToNode::PowerOff
            | ToNode::Keep(_)
            | ToNode::Broadcast(_)
            | ToNode::EndKeep { .. }
            | ToNode::Checkpointed { .. }
            | ToNode::NodeLost { .. }
            | ToNode::Joined(_)
            | ToNode::Spawned(_)
            | ToNode::Overlay(_)
            | ToNode::Forget { .. } => {}
        }
    }

    /// An order to retain arrived and was answered; the boot held these programs' tables before and does so after.
    pub(crate) fn answers(
        &mut self,
        (life, connection): (LifeId, ConnectionId),
        order: Retain,
        outcome: RetainOutcome,
        before: &[ProgramId],
        after: &[ProgramId],
    ) -> Result<(), Violation> {
        let Retain { job, generation, program } = order;
        let what = || format!("life {life} answers {order:?} with {outcome:?}: had {before:?}, has {after:?}");
        self.arrived.insert((connection, job, program));
        let own = self.boots.get(&life).map(|boot| boot.generation);
        if let RetainOutcome::OtherBoot(says) = outcome {
            return ensure(own == Some(says) && generation != says && before == after, what);
        }
        ensure(own == Some(generation), what)?;
        if let Some(first) = self.answers.get(&(life, job, program)) {
            return ensure(*first == outcome && before == after, || format!("{}; first it was {first:?}", what()));
        }
        if let Some(busy) = self.running.get(&life) {
            return ensure(outcome == RetainOutcome::Busy(*busy) && before == after, what);
        }
        self.answers.insert((life, job, program), outcome);
        match outcome {
            RetainOutcome::Kept(_) => {
                self.cut_back.insert(life, (job, program));
                let stays = |other: &&ProgramId| self.policy == RetentionPolicy::Many && **other != program;
                let expected = [program].into_iter().chain(before.iter().filter(stays).copied());
                ensure(before.contains(&program) && expected.eq(after.iter().copied()), what)
            }
            RetainOutcome::Absent => ensure(!before.contains(&program) && before == after, what),
            RetainOutcome::Busy(_) | RetainOutcome::OtherBoot(_) => Err(Violation::new(what())),
        }
    }

    /// A launch arrived.
    pub(crate) fn launch(&self, connection: ConnectionId, launch: &Launch) -> Result<(), Violation> {
        let Launch { job, program, use_retained, .. } = launch;
        let told = self.arrived.contains(&(connection, *job, *program));
        ensure(told || !use_retained, || format!("connection {connection}: the launch of job {job} came before retain"))
    }

    /// A launch started a process, which found that many pages of its program.
    pub(crate) fn starts(&mut self, life: LifeId, launch: &Launch, found: u64) -> Result<(), Violation> {
        let Launch { job, program, use_retained, .. } = launch;
        let before = self.running.insert(life, *job);
        ensure(before.is_none(), || format!("life {life} starts job {job} and runs job {before:?}"))?;
        let is_there = self.cut_back.remove(&life) == Some((*job, *program));
        ensure(!is_there || found > 0, || format!("life {life}, job {job}: what was kept was not found"))?;
        ensure(*use_retained || found == 0, || format!("life {life}, job {job}: used what it was not to use"))
    }

    /// The process of a boot ended.
    pub(crate) fn ends(&mut self, life: LifeId) {
        self.running.remove(&life);
        self.cut_back.remove(&life);
    }

    /// A boot gave tables back.
    pub(crate) fn discards(&mut self, life: LifeId) {
        self.cut_back.remove(&life);
    }

    /// The I/O node takes what a boot says on a connection, at whose other end `holder` is.
    pub(crate) fn accepted(&self, holder: Holder, boot: Identity, message: &ToIoNode) -> Result<(), Violation> {
        let was_asked = match message {
            ToIoNode::Retained(answer) => self.retains.contains(&(boot, answer.job, answer.program)),
            ToIoNode::Discarded(answer) => self.discards.contains(&(boot, answer.request)),
            _ => return Ok(()),
        };
        ensure(was_asked, || format!("{message:?} of {boot:?} is the answer to nothing"))?;
        let speaker = match holder {
            Holder::Life(life) => self.boots.get(&life),
            Holder::IoNode | Holder::Stranger => None,
        };
        let current = self.current.get(&boot.node);
        ensure(speaker == Some(&boot) && current == Some(&boot), || {
            format!("{message:?} was taken for an answer of {boot:?}; {speaker:?} said it, {current:?} is current")
        })
    }

    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        self.arrived.retain(|(other, ..)| *other != connection);
    }
}
