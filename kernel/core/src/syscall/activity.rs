//! What calls say of themselves for [`crate::process::Process::deeds`]: what the time counts as in which they wait,
//! and what they move to and from other nodes.

use crate::executor::Phase;
use crate::files::stream::Stream;
use crate::files::{Object, OpenFile, Standard};
use crate::process::Caller;

/// What waiting for an open file counts as. Pipes and counters are files as others are: who is at their other end is
/// not in the network.
pub(super) fn phase_of(file: &OpenFile) -> Phase {
    match &file.object {
        Object::Standard(Standard::Input(_)) => Phase::Input,
        Object::Socket(_) | Object::Pair(_) | Object::Netlink(_) | Object::Service(_) | Object::Poller(_) => {
            Phase::Network
        }
        Object::Timer(_) | Object::Signals(_) => Phase::Sleep,
        Object::Standard(Standard::Output | Standard::Error)
        | Object::Shipped(_)
        | Object::Device(_)
        | Object::Text(..)
        | Object::Asks(..)
        | Object::Counters(..)
        | Object::Program(_)
        | Object::Special(_)
        | Object::Shared(_)
        | Object::Pipe(_)
        | Object::Event(_) => Phase::File,
    }
}

/// What waiting for any of several open files counts as.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AnyOf(Option<Phase>);

impl AnyOf {
    /// It is one of them.
    pub(super) fn add(&mut self, file: &OpenFile) {
        let phase = phase_of(file);
        // Where there are files of several kinds, those of the network are what programs mostly wait for.
        let is_one_kind = self.0.is_none_or(|other| other == phase);
        self.0 = Some(if is_one_kind { phase } else { Phase::Network });
    }

    /// Without any, it is a way to let time pass.
    pub(super) fn phase(self) -> Phase {
        self.0.unwrap_or(Phase::Sleep)
    }
}

/// So many bytes were put.
pub(super) fn count_sent(caller: Caller<'_>, stream: &dyn Stream, bytes: usize) {
    if let Some(address) = stream.receiver().filter(|address| caller.process.is_elsewhere(*address)) {
        caller.thread.deeds.sent(bytes as u64);
        caller.process.sent_to(address, bytes as u64);
    }
}

/// So many bytes were taken.
pub(super) fn count_received(caller: Caller<'_>, stream: &dyn Stream, bytes: usize) {
    if stream.sender().is_some_and(|address| caller.process.is_elsewhere(address)) {
        caller.thread.deeds.received(bytes as u64);
    }
}
