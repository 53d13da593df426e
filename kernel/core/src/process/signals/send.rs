//! Sending signals, and telling the threads that are to look.

use alloc::vec::Vec;

use super::outcome::{Outcome, Target};
use crate::abi::signal::SignalInfo;
use crate::errno::Errno;
use crate::process::{End, Process};

impl Process {
    /// Sends the process, or one of its threads, a signal, and does what there is to do about it at once. Gives the
    /// end, if that is what comes of it.
    ///
    /// # Errors
    /// As [`super::Signals::send`].
    pub(crate) fn send(&self, target: Target, info: SignalInfo) -> Result<Option<End>, Errno> {
        let outcome = self.signals.lock().send(target, info)?;
        Ok(self.act(outcome))
    }

    /// Does what there is to do about a signal that was sent. Gives the end, if that is what comes of it.
    pub(crate) fn act(&self, outcome: Outcome) -> Option<End> {
        match outcome {
            Outcome::Nothing | Outcome::Ignored => {}
            Outcome::Call(id) => self.call_thread(id),
            Outcome::CallAll => self.call_all(),
            Outcome::End(signal) => {
                let end = End::signal(signal as u8);
                self.end(end.clone());
                return Some(end);
            }
        }
        None
    }

    /// Lets these threads look at their signals.
    pub(crate) fn call_threads(&self, ids: Vec<u32>) {
        ids.into_iter().for_each(|id| self.call_thread(id));
    }

    /// Lets all threads look at their signals.
    pub(crate) fn call_all(&self) {
        self.threads.all().iter().for_each(|thread| thread.call_attention());
    }

    fn call_thread(&self, id: u32) {
        if let Some(thread) = self.threads.find(id) {
            thread.call_attention();
        }
    }
}
