//! A process that a signal is about to end, and of which a core file is wanted: all its threads stand first, for
//! somebody to take it ([`super::lease`]). When that is done, or nobody has come for a while, they go on, and what ends
//! the process happens again, this time to its end.

use alloc::sync::Arc;

use coppice_protocol::inspect::held::{EndedBy, NotTold};

use super::Process;
use crate::abi::signal::SignalInfo;
use crate::abi::signal_set::SignalSet;
use crate::sync::{LockLevel, Mutex};

/// The signal that is about to end the process, and whose it is, once there was one.
pub(crate) struct Dying(Mutex<Option<(u32, SignalInfo)>>);

impl Dying {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(LockLevel::Fact, None))
    }

    /// What is told of it.
    pub(crate) fn told(&self) -> Option<EndedBy> {
        let (tid, info) = (*self.0.lock())?;
        Some(EndedBy { tid, signal: info.signal as u8, info: info.record().into_bytes().as_slice().into() })
    }

    /// Notes it, if there was none.
    fn note(&self, tid: u32, info: SignalInfo) -> bool {
        let mut dying = self.0.lock();
        let is_first = dying.is_none();
        if is_first {
            *dying = Some((tid, info));
        }
        is_first
    }

    fn forget(&self) {
        *self.0.lock() = None;
    }
}

impl Process {
    /// A signal is about to end the process by what a thread has. Returns whether that is to stand before it does.
    pub(crate) fn stands_for_core(self: &Arc<Self>, tid: u32, info: SignalInfo) -> bool {
        let hold = &self.threads.hold;
        // Who debugs it has seen it all.
        if !self.identity.core_file || !SignalSet::CORE_FILE.contains(info.signal) || hold.debugger.is_there() {
            return false;
        }
        if !hold.dying.note(tid, info) {
            return self.is_leased();
        }
        match self.lease_to_first() {
            Ok(()) => {
                self.job.dies(self.identity.rank, info.signal as u8);
                true
            }
            // Somebody looks at it, and does not know. When he has done so, it is told.
            Err(NotTold::Taken) => {
                hold.dying.forget();
                true
            }
            Err(_) => false,
        }
    }
}
