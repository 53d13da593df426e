//! What else than page tables a node keeps as long as nobody wants its memory.

use alloc::vec::Vec;

use coppice_protocol::retain::RetainedProgram;

/// See this module. May be asked while memory is locked that several processes show.
pub(crate) trait Spare: Send + Sync {
    /// When that was used last which goes first, as [`super::Retention::next_use`] counts. `None`: nothing may go.
    fn oldest(&self) -> Option<u64>;

    /// Gives that back, to be taken apart. Whether there was anything.
    fn give_back(&self) -> bool;

    /// What is there, the last that was used first.
    fn held(&self) -> Vec<RetainedProgram>;

    /// Memory that may be given back, bytes.
    fn bytes(&self) -> u64;

    /// What it is charged with that stays when a job has ended, bytes.
    fn charged(&self) -> usize {
        0
    }
}
