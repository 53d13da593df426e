//! Every request is answered once, or reported lost once with its connection, or ends with the node that made it.

use std::collections::BTreeMap;

use crate::checkers::{Violation, ensure};
use crate::node::LifeId;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Answered,
    Lost,
}

/// Every request of a run.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    fates: BTreeMap<(LifeId, u64), Fate>,
}

impl Requests {
    pub(crate) fn made(&mut self, life: LifeId, id: u64) -> Result<(), Violation> {
        let before = self.fates.insert((life, id), Fate::Open);
        ensure(before.is_none(), || format!("request {id} of life {life} was made twice"))
    }

    pub(crate) fn answered(&mut self, life: LifeId, id: u64) -> Result<(), Violation> {
        self.settle(life, id, Fate::Answered)
    }

    pub(crate) fn lost(&mut self, life: LifeId, id: u64) -> Result<(), Violation> {
        self.settle(life, id, Fate::Lost)
    }

    fn settle(&mut self, life: LifeId, id: u64, fate: Fate) -> Result<(), Violation> {
        let before = self.fates.insert((life, id), fate);
        ensure(before == Some(Fate::Open), || format!("request {id} of life {life} is {fate:?} and was {before:?}"))
    }

    /// The node that made them is gone.
    pub(crate) fn ended(&mut self, life: LifeId) {
        self.fates.retain(|(owner, _), fate| *owner != life || *fate != Fate::Open);
    }

    /// At the end nothing is open.
    pub(crate) fn all_settled(&self) -> Result<(), Violation> {
        let open = self.fates.iter().find(|(_, fate)| **fate == Fate::Open);
        ensure(open.is_none(), || format!("request {open:?} was neither answered nor reported lost"))
    }
}
