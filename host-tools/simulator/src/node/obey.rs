//! What a boot of a node does when it is given orders on its control connection.

use coppice_protocol::control::{Launch, ToIoNode, ToNode};
use coppice_protocol::ids::JobId;
use coppice_protocol::retain::{Retain, RetainOutcome};
use coppice_protocol::session::{Channel, Frame};

use super::{Life, Link, MEMORY, index, say};
use crate::checkers::Violation;
use crate::context::Context;
use crate::network::Side;
use crate::schedule::Event as Planned;
use crate::tables::Started;

/// Longest time that a process runs, ns.
const RUN_NS_MAX: u64 = 15_000_000_000;

impl Life {
    /// A message from the I/O node on the control channel.
    pub(super) fn obey(&mut self, link: &mut Link, frame: &Frame, context: &mut Context) -> Result<(), Violation> {
        let message = frame.message::<ToNode>().map_err(|error| Violation::new(format!("control: {error}")))?;
        match message {
            ToNode::Ping { sequence, .. } => say(link, &ToIoNode::Pong { sequence, memory: MEMORY }, context),
            ToNode::Launch(launch) => self.launch(link, &launch, context),
            ToNode::Retain(order) => self.retain(link, order, context),
            ToNode::Discard(order) => {
                let answer = self.tables.discard(order);
                context.checkers.retention.discards(self.id);
                let (life, count) = (self.id, answer.given_back.len());
                context.trace.note(context.now_ns, "discard", format_args!("life {life} gives {count} tables back"));
                self.answer(link, ToIoNode::Discarded(answer), context)
            }
            ToNode::Kill { .. }
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
            | ToNode::Forget { .. }
            | ToNode::Taken { .. } => Ok(()),
        }
    }

    fn retain(&mut self, link: &mut Link, order: Retain, context: &mut Context) -> Result<(), Violation> {
        if self.tables.has_answered(order) {
            context.trace.count("retain: twice", 1);
        }
        let before = self.tables.held().to_vec();
        let answer = self.tables.retain(order);
        let (life, job, outcome) = (self.id, order.job, answer.outcome);
        let place = (life, link.connection);
        context.checkers.retention.answers(place, order, outcome, &before, self.tables.held())?;
        context.trace.note(context.now_ns, "retain", format_args!("life {life} for job {job}: {outcome:?}"));
        context.trace.count(
            match outcome {
                RetainOutcome::Kept(_) => "retain: kept",
                RetainOutcome::Absent => "retain: absent",
                RetainOutcome::Busy(_) => "retain: busy",
                RetainOutcome::OtherBoot(_) => "retain: other boot",
            },
            1,
        );
        self.answer(link, ToIoNode::Retained(answer), context)
    }

    fn launch(&mut self, link: &mut Link, launch: &Launch, context: &mut Context) -> Result<(), Violation> {
        let (life, job) = (self.id, launch.job);
        context.checkers.retention.launch(link.connection, launch)?;
        match self.tables.launch(launch) {
            Started::Now { found } => {
                context.checkers.retention.starts(life, launch, found)?;
                let name = if found > 0 { "warm launch" } else { "cold launch" };
                context.trace.note(context.now_ns, name, format_args!("life {life}, job {job}"));
                context.plan_within(RUN_NS_MAX, Planned::Exit { life, job });
                self.answer(link, ToIoNode::Launched { job, ranks: launch.first.into() }, context)
            }
            Started::Already => {
                context.trace.count("launches said again", 1);
                Ok(())
            }
            Started::Ended(message) => self.answer(link, message, context),
        }
    }

    /// Says what must not be lost with the connection.
    fn answer(&mut self, link: &mut Link, message: ToIoNode, context: &mut Context) -> Result<(), Violation> {
        let said = say(link, &message, context);
        self.tables.says(message);
        said
    }

    /// The process of a job ends.
    pub(crate) fn exit(&mut self, job: JobId, context: &mut Context) -> Result<(), Violation> {
        if !self.alive {
            return Ok(());
        }
        let memory_is_wanted = context.random.chance(100);
        let Some(message) = self.tables.exit(job, memory_is_wanted) else { return Ok(()) };
        context.checkers.retention.ends(self.id);
        // Without a connection it is said on the next one.
        let link = self.links[index(Channel::Control)].as_mut().filter(|link| link.session.is_established());
        let said = match link {
            Some(link) => {
                let said = say(link, &message, context);
                context.pump(link.connection, Side::Node, &mut link.session);
                said
            }
            None => Ok(()),
        };
        self.tables.says(message);
        said
    }
}
