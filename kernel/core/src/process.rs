//! Processes: what one is and has.
//!
//! A process is plain data ([`Process`]) and a future for each of its threads ([`threads`]): enter the program, handle
//! why it came back, perhaps wait, enter again ([`crate::thread`]). Everything a thread is while it does not run lies
//! in its registers: **the future may be dropped wherever it waits**. That is safe because of three habits that every
//! system call keeps:
//!
//! - The result is put into the registers last. As long as a call waits, the registers are those of the `syscall`
//!   instruction; with `rip` two bytes back the thread would make the call again.
//! - What a waiting call changes, it changes in one step after the wait: a call that was dropped has had no effect
//!   here. At the I/O node a request that was sent is executed whether somebody waits for the reply or not, so a
//!   dropped call may have happened there as a whole, as with a signal that comes a moment later.
//! - Calls that are done in parts (long reads and writes) note after each part how far they are
//!   ([`Caller::completed`]), as their result would be if they ended there, and until when they wait
//!   ([`Caller::deadline_ns`]). A thread that is held is made to go on from that ([`hold`]).
//!
//! The vector registers stay in the processor until another thread needs it, which the hardware layer notices by
//! itself.

mod activity;
mod call_files;
mod caller;
pub(crate) mod clock;
pub(crate) mod counts;
pub(crate) mod cut;
pub(crate) mod debugger;
mod dying;
mod end;
pub(crate) mod fault;
pub(crate) mod fetch;
mod files_changed;
pub(crate) mod futexes;
pub(crate) mod hold;
mod job;
mod last_look;
pub(crate) mod lease;
mod memory;
mod open_file;
mod outcome;
pub(crate) mod placement;
pub(crate) mod profile;
pub(crate) mod record;
pub(crate) mod remembered;
pub(crate) mod resources;
mod robust;
pub(crate) mod sent_to;
mod shared_files;
pub(crate) mod signals;
pub(crate) mod special;
mod state;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod thread_state;
pub(crate) mod threads;
pub(crate) mod timers;
pub(crate) mod trace;

pub(crate) use self::job::{JobOnNode, JobsOnNode};
pub(crate) use caller::Caller;
pub use end::End;
pub(crate) use fetch::Fetched;
pub(crate) use memory::Unfinished;
pub(crate) use outcome::{Awaited, Failure, Immediate, Trouble};
pub use state::NodeFacts;
pub(crate) use state::{Account, Identity, Process, list_bytes};
pub(crate) use thread_state::ThreadState;
