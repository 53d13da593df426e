//! One connection's worth of talk with the I/O node.

use coppice_protocol::control::{MemoryStatus, NodeStatus, ToIoNode, ToNode};
use coppice_protocol::limits::HEARTBEAT_DEAD_NS;
use coppice_protocol::session::{Frame, SendError};

use super::Processes;
use super::jobs::Jobs;
use super::outbox::Outbox;
use crate::clock;
use crate::executor::{self, Either, race};
use crate::net::{Link, LinkError};
use crate::ras::RasQueue;

use alloc::vec::Vec;

/// An established control link and what flows over it.
pub(super) struct Conversation<'a, M, O> {
    pub(super) link: &'a Link,
    pub(super) outbox: &'a Outbox,
    pub(super) ras: &'static RasQueue,
    pub(super) memory: &'a M,
    pub(super) power_off: &'a O,
}

/// What happened next.
enum Next {
    Received(Result<Frame, LinkError>),
    ToSend(ToIoNode),
    /// The I/O node, which pings all the time, was silent for too long.
    Silence,
}

impl<M: Fn() -> MemoryStatus, O: Fn()> Conversation<'_, M, O> {
    /// Says that the node is ready, then listens and reports until the link breaks.
    pub(super) async fn hold(&self, status: NodeStatus, jobs: &mut Jobs<impl Processes + 'static>) -> LinkError {
        if let Err(error) = self.send(&ToIoNode::Ready(status)) {
            log::error!("agent: cannot say ready: {error}");
        }
        let mut heard_ns = executor::now_ns();
        loop {
            match self.next(heard_ns + HEARTBEAT_DEAD_NS).await {
                Next::Received(Ok(frame)) => {
                    heard_ns = executor::now_ns();
                    self.obey(&frame, jobs).await;
                }
                Next::Received(Err(error)) => return error,
                Next::ToSend(mut message) => {
                    jobs.say_held_now(&mut message);
                    match self.send(&message) {
                        Ok(()) | Err(SendError::NotEstablished) => self.outbox.sent(message),
                        Err(error) => log::error!("agent: cannot send a message: {error}"),
                    }
                }
                Next::Silence => return LinkError::Timeout,
            }
        }
    }

    async fn next(&self, deadline_ns: u64) -> Next {
        let message = async {
            match race(self.outbox.next(), self.ras.next()).await {
                Either::First(message) => message,
                Either::Second(event) => ToIoNode::Ras(event),
            }
        };
        // What is to be sent comes first: a queue that empties now is a queue that does not overflow.
        let either = race(message, self.link.receive());
        match executor::timeout_at(deadline_ns, either).await {
            Ok(Either::First(message)) => Next::ToSend(message),
            Ok(Either::Second(received)) => Next::Received(received),
            Err(executor::Elapsed) => Next::Silence,
        }
    }

    fn send(&self, message: &ToIoNode) -> Result<(), SendError> {
        self.link.send(0, message, Vec::new())
    }

    async fn obey(&self, frame: &Frame, jobs: &mut Jobs<impl Processes + 'static>) {
        let sent = match frame.message::<ToNode>() {
            Ok(ToNode::Ping { sequence, realtime_ns, taken }) => {
                clock::heard(realtime_ns);
                self.outbox.confirm(taken);
                self.send(&ToIoNode::Pong { sequence, memory: (self.memory)() })
            }
            Ok(ToNode::Launch(launch)) => {
                jobs.launch(launch).await;
                Ok(())
            }
            Ok(ToNode::Kill { job }) => {
                jobs.kill(job);
                Ok(())
            }
            Ok(ToNode::Signal(order)) => {
                jobs.signal(order);
                Ok(())
            }
            Ok(ToNode::Trace { job, traced }) => {
                jobs.trace(job, traced);
                Ok(())
            }
            Ok(ToNode::Checkpointed { job, made }) => {
                jobs.checkpointed(job, made);
                Ok(())
            }
            Ok(ToNode::NodeLost { job, node, ranks }) => {
                jobs.node_lost(job, node, &ranks);
                Ok(())
            }
            Ok(ToNode::Broadcast(order)) => {
                jobs.broadcast(*order);
                Ok(())
            }
            Ok(ToNode::Joined(joined)) => {
                jobs.joined(joined);
                Ok(())
            }
            Ok(ToNode::Spawned(spawned)) => {
                jobs.spawned(spawned);
                Ok(())
            }
            Ok(ToNode::Forget { job }) => {
                jobs.forget(job);
                Ok(())
            }
            Ok(ToNode::Overlay(order)) => {
                jobs.overlay(order);
                Ok(())
            }
            Ok(ToNode::Inspect(inspect)) => {
                jobs.inspect(inspect);
                Ok(())
            }
            Ok(ToNode::Retain(order)) => {
                jobs.retain(order);
                Ok(())
            }
            Ok(ToNode::Discard(order)) => {
                jobs.discard(order);
                Ok(())
            }
            Ok(ToNode::Keep(order)) => {
                jobs.keep(order);
                Ok(())
            }
            Ok(ToNode::EndKeep { request }) => {
                jobs.end_keep(request);
                Ok(())
            }
            Ok(ToNode::Taken { taken }) => {
                self.outbox.confirm(taken);
                Ok(())
            }
            Ok(ToNode::PowerOff) => {
                (self.power_off)();
                Ok(())
            }
            Err(error) => {
                log::warn!("agent: an order that this node does not understand: {error}");
                Ok(())
            }
        };
        if let Err(error) = sent {
            log::error!("agent: cannot answer: {error}");
        }
    }
}
