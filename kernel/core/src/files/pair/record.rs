//! One end of a pair as data.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::{PairEnd, PairKind};
use crate::files::channel::Channel;
use crate::files::record::{MadeChannel, Number};
use crate::files::socket_options::Options;
use crate::sync::{LockLevel, Mutex};

/// See this module.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PairRecord {
    incoming: Number,
    outgoing: Number,
    kind: PairKind,
    serial: u64,
    options: Options,
    has_lost_peer: bool,
}

impl PairRecord {
    /// The numbers of its channels, to it and from it.
    pub(crate) const fn channels(&self) -> (Number, Number) {
        (self.incoming, self.outgoing)
    }
}

impl PairEnd {
    /// Writes it down.
    pub(crate) fn record(&self, mut number: impl FnMut(&Arc<Channel>) -> Number) -> PairRecord {
        PairRecord {
            incoming: number(&self.incoming),
            outgoing: number(&self.outgoing),
            kind: self.kind,
            serial: self.serial,
            options: self.options(),
            has_lost_peer: self.has_lost_peer.load(Ordering::Relaxed),
        }
    }

    /// Makes it again.
    pub(in crate::files) fn again(record: &PairRecord, incoming: &MadeChannel, outgoing: &MadeChannel) -> Self {
        Self {
            incoming: Arc::clone(&incoming.channel),
            outgoing: Arc::clone(&outgoing.channel),
            level: incoming.reader.clone(),
            kind: record.kind,
            serial: record.serial,
            options: Mutex::new(LockLevel::Fact, record.options),
            has_lost_peer: AtomicBool::new(record.has_lost_peer),
        }
    }
}
