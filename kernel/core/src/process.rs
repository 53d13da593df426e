//! Processes: what one is, how it starts, runs and ends.
//!
//! A process is plain data ([`Process`]) and a future for each of its threads ([`threads`]): enter the program, handle
//! why it came back, perhaps wait, enter again ([`thread`]). Everything a thread is while it does not run lies in its
//! registers: **the future may be dropped wherever it waits**. That is safe because of three habits that every system
//! call keeps:
//!
//! - The result is put into the registers last. As long as a call waits, the registers are those of the `syscall`
//!   instruction; with `rip` two bytes back the thread would make the call again.
//! - What a waiting call changes, it changes in one step after the wait: a call that was dropped has had no effect
//!   here. At the I/O node a request that was sent is executed whether somebody waits for the reply or not, so a
//!   dropped call may have happened there as a whole, as with a signal that comes a moment later.
//! - Calls that are done in parts (long reads and writes) note after each part how far they are
//!   ([`ThreadState::completed`]), as their result would be if they ended there.
//!
//! The vector registers stay in the processor until another thread needs it, which the hardware layer notices by
//! itself.

mod caller;
mod counts;
mod end;
mod fault;
mod fetch;
mod files_changed;
pub(crate) mod futexes;
mod job;
mod kill;
mod launch;
mod load;
mod memory;
mod outcome;
pub(crate) mod placement;
pub(crate) mod remembered;
mod report;
pub(crate) mod resources;
mod robust;
pub(crate) mod signals;
mod state;
mod table;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod thread;
mod thread_state;
mod threads;
pub(crate) mod timers;
mod trace;

pub(crate) use self::job::JobOnNode;
#[cfg(test)]
pub(crate) use self::job::JobsOnNode;
pub(crate) use caller::Caller;
pub use end::End;
pub use kill::KillSwitch;
pub(crate) use launch::{launch, taken_apart};
pub(crate) use memory::Unfinished;
pub(crate) use outcome::{Awaited, Failure, Immediate, Trouble};
pub use state::NodeFacts;
pub(crate) use state::{Identity, Process};
pub use table::ProcessTable;
pub(crate) use thread::start as start_thread;
pub(crate) use thread_state::ThreadState;
