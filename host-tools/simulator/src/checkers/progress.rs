//! Once nothing goes wrong any more, all comes right: every node is connected on both channels and is answered, and no
//! handshake was ever left hanging.

use std::collections::BTreeSet;

use coppice_protocol::limits::HANDSHAKE_TIMEOUT_NS;
use coppice_protocol::session::Session;

use crate::checkers::{Violation, ensure};
use crate::node::LifeId;

/// Nodes that were answered in the quiet time.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    answered: BTreeSet<LifeId>,
}

impl Progress {
    pub(crate) fn answered_in_quiet(&mut self, life: LifeId) {
        self.answered.insert(life);
    }

    /// A node at the end of the run.
    pub(crate) fn at_end(&self, life: LifeId, sessions: [Option<&Session>; 2]) -> Result<(), Violation> {
        for session in sessions {
            let established = session.is_some_and(Session::is_established);
            ensure(established, || format!("life {life} is not connected at the end: {session:?}"))?;
        }
        ensure(self.answered.contains(&life), || format!("life {life} got no answer in the quiet time"))
    }

    /// A session that was started `age_ns` ago and is looked at after its timers ran.
    pub(crate) fn handshake(session: &Session, age_ns: u64) -> Result<(), Violation> {
        let hangs = age_ns > HANDSHAKE_TIMEOUT_NS && !session.is_established() && session.failure().is_none();
        ensure(!hangs, || format!("handshake has been hanging for {age_ns} ns: {session:?}"))
    }
}
