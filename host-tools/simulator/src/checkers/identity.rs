//! Whoever is accepted has the key: the I/O node accepts only the boot of a node that it was told of last, and a node
//! only the I/O node that was told its key.

use std::collections::BTreeMap;

use coppice_protocol::session::{Channel, Identity};

use crate::checkers::{Violation, ensure};
use crate::network::ConnectionId;

/// Who really is at one end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    /// Which boot it claims, or was asked for.
    pub(crate) identity: Identity,
    /// The key that it uses.
    pub(crate) key: [u8; 32],
    /// The channel it speaks.
    pub(crate) channel: Channel,
}

/// Who really is where.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    /// Ends that called; strangers who only play back bytes are not in here.
    callers: BTreeMap<ConnectionId, Who>,
    /// Ends that were called and asked for a key.
    called: BTreeMap<ConnectionId, Who>,
}

impl Identities {
    /// Somebody with a session calls.
    pub(crate) fn calls(&mut self, connection: ConnectionId, who: Who) {
        self.callers.insert(connection, who);
    }

    /// Somebody who was called uses this key.
    pub(crate) fn answers(&mut self, connection: ConnectionId, who: Who) {
        self.called.insert(connection, who);
    }

    /// The I/O node accepted a peer, and `current` is what it has been told of that node.
    pub(crate) fn io_node_accepts(
        &self,
        connection: ConnectionId,
        channel: Channel,
        identity: Identity,
        current: Option<(Identity, [u8; 32])>,
    ) -> Result<(), Violation> {
        let Some((current, key)) = current else {
            return Err(Violation::new(format!("{identity:?} was accepted and is not known")));
        };
        ensure(identity == current, || format!("{identity:?} was accepted where {current:?} is current"))?;
        let expected = Who { identity, key, channel };
        let caller = self.callers.get(&connection);
        ensure(caller == Some(&expected), || format!("{identity:?} was accepted on {channel}, and is {caller:?}"))
    }

    /// A node accepted its peer.
    pub(crate) fn node_accepts(&self, connection: ConnectionId) -> Result<(), Violation> {
        let (caller, called) = (self.callers.get(&connection), self.called.get(&connection));
        ensure(caller.is_some() && caller == called, || format!("a node ({caller:?}) accepted {called:?}"))
    }

    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        self.callers.remove(&connection);
        self.called.remove(&connection);
    }
}
