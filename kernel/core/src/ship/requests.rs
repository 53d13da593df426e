//! The requests that are under way on one connection, and who waits for which.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use coppice_protocol::limits::REQUESTS_IN_FLIGHT_MAX;
use coppice_protocol::session::Frame;
use coppice_protocol::ship::{Owner, Reply};

use crate::errno::Errno;
use crate::executor::oneshot;

/// What a call returns: the reply and the bytes behind it.
pub type Answer = Result<(Reply, Vec<u8>), Errno>;

/// At most [`REQUESTS_IN_FLIGHT_MAX`] requests.
pub(super) struct Requests {
    under_way: BTreeMap<u64, UnderWay>,
    /// Requests whose replies nobody waits for: what ended ranks had under way. It is gone before another job's ranks
    /// begin ([`super::Ship::scrub`]).
    forgotten: BTreeSet<u64>,
    last_id: u64,
}

struct UnderWay {
    owner: Owner,
    caller: oneshot::Sender<Answer>,
}

impl Requests {
    pub(super) const fn new() -> Self {
        Self { under_way: BTreeMap::new(), forgotten: BTreeSet::new(), last_id: 0 }
    }

    pub(super) fn is_full(&self) -> bool {
        self.under_way.len() >= REQUESTS_IN_FLIGHT_MAX
    }

    /// An id that no request had before, in any session.
    pub(super) const fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn add(&mut self, id: u64, owner: Owner) -> oneshot::Receiver<Answer> {
        let (caller, receiver) = oneshot::channel();
        self.under_way.insert(id, UnderWay { owner, caller });
        receiver
    }

    /// Hands a reply to its caller. False: it is no reply, or nobody asked.
    pub(super) fn answer(&mut self, frame: Frame) -> bool {
        let Some(UnderWay { caller, .. }) = self.under_way.remove(&frame.id) else {
            return self.forgotten.remove(&frame.id);
        };
        let reply = frame.message::<Reply>();
        let understood = reply.is_ok();
        let answer = match reply {
            Ok(Reply::Failed(errno)) => Err(Errno::from_wire(errno)),
            Ok(reply) => Ok((reply, frame.bulk)),
            Err(_) => Err(Errno::EIO),
        };
        // The caller may have gone away; then nobody wants it.
        let _ = caller.send(answer);
        understood
    }

    /// Everybody's call fails.
    pub(super) fn fail_all(&mut self, errno: Errno) {
        self.forgotten.clear();
        for (_, UnderWay { caller, .. }) in core::mem::take(&mut self.under_way) {
            let _ = caller.send(Err(errno));
        }
    }

    /// The calls of `owner` are of no interest any more.
    pub(super) fn forget(&mut self, owner: Owner) {
        let forgotten = &mut self.forgotten;
        self.under_way.retain(|id, request| {
            let keep = request.owner != owner;
            if !keep {
                forgotten.insert(*id);
            }
            keep
        });
    }

    /// Whether replies are still to come that nobody waits for.
    pub(super) fn any_forgotten(&self) -> bool {
        !self.forgotten.is_empty()
    }
}
