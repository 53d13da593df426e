//! What goes wrong: connections break, nodes and the I/O node end and come back, strangers call.

use coppice_protocol::session::Channel;

use crate::context::Context;
use crate::network::ConnectionId;
use crate::schedule::Event;

/// Longest time between two faults, ns.
const FAULT_PAUSE_NS_MAX: u64 = 4_000_000_000;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// This connection breaks.
    Cut(ConnectionId),
    /// A node (counted from 0) is switched off, and comes back; its earlier boot may live on for a while.
    Reboot { node: usize, lives_on: bool },
    /// The I/O node ends.
    IoNode,
    /// A stranger calls as this node, or an earlier boot of it.
    Stranger { node: usize, channel: Channel, earlier: bool },
}

/// Chooses the next fault and plans the one after it.
pub(crate) fn next(nodes: usize, context: &mut Context) -> Option<Fault> {
    if !context.is_faulty() {
        return None;
    }
    context.plan_within(FAULT_PAUSE_NS_MAX, Event::Fault);
    let node = context.random.length(0, nodes - 1);
    match context.random.between(0, 99) {
        0..40 => {
            let working = context.network.working();
            let last = working.len().checked_sub(1)?;
            Some(Fault::Cut(working[context.random.length(0, last)]))
        }
        40..55 => Some(Fault::Reboot { node, lives_on: context.random.chance(500) }),
        55..60 => Some(Fault::IoNode),
        _ => {
            let channel = if context.random.chance(500) { Channel::Control } else { Channel::Ship };
            Some(Fault::Stranger { node, channel, earlier: context.random.chance(300) })
        }
    }
}
