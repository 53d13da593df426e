//! Peers that failed to authenticate: worth an event, but never so many that they drown the others.

use coppice_protocol::ids::NodeId;
use coppice_protocol::ras::{RasEvent, RasKind, Severity};
use coppice_protocol::session::SessionError;
use std::net::Ipv4Addr;

use crate::clock::ns;
use crate::limits::{BAD_PEER_EVENTS_MAX, BAD_PEER_WINDOW};

/// Counts them.
#[derive(Debug, Default)]
pub(super) struct BadPeers {
    window_start_ns: Option<u64>,
    in_window: u32,
    suppressed: u64,
}

impl BadPeers {
    /// The event to report about a peer, unless there were too many lately.
    pub(super) fn event(&mut self, now_ns: u64, peer: (Ipv4Addr, u16), error: SessionError) -> Option<RasEvent> {
        let window_ns = ns(BAD_PEER_WINDOW);
        let fresh = self.window_start_ns.is_none_or(|start_ns| now_ns.saturating_sub(start_ns) >= window_ns);
        if fresh {
            (self.window_start_ns, self.in_window) = (Some(now_ns), 0);
        }
        if self.in_window >= BAD_PEER_EVENTS_MAX {
            self.suppressed += 1;
            return None;
        }
        self.in_window += 1;
        let more = match std::mem::take(&mut self.suppressed) {
            0 => String::new(),
            count => format!(" ({count} more were not reported)"),
        };
        Some(RasEvent {
            severity: Severity::Warn,
            kind: RasKind::BadPeer,
            job: None,
            rank: None,
            address: None,
            instruction: None,
            text: format!("peer at {}:{}: {error}{more}", peer.0, peer.1),
        })
    }
}

/// Does that failure say that the peer is not who it should be?
#[must_use]
pub(super) fn is_bad(error: &SessionError) -> bool {
    match error {
        SessionError::Frame(_)
        | SessionError::Unexpected(_)
        | SessionError::Sequence { .. }
        | SessionError::Authentication
        | SessionError::Damaged
        | SessionError::Channel { .. }
        | SessionError::UnknownNode(_) => true,
        SessionError::Refused(_) | SessionError::HandshakeTimeout | SessionError::OutOfMemory(_) => false,
    }
}

/// The node that has an address in the cluster's network; `None` for addresses below the nodes'.
#[must_use]
pub(super) fn node_at(address: Ipv4Addr) -> Option<NodeId> {
    address.to_bits().checked_sub(NodeId(0).address().to_bits()).map(NodeId)
}
