//! A process's address space: what is mapped where, and getting pages in when they are touched.
//!
//! An [`AddressSpace`] is plain data and never waits. It holds the areas a program has mapped and the real page table;
//! the page table is the truth about what is in memory. Whoever runs the program asks [`AddressSpace::fault`] when the
//! processor could not go on, and gets one of four answers ([`Resolution`]): go on; fetch these pages first (and give
//! them to [`AddressSpace::install`]); the program gets a signal; there is no memory.
//!
//! - Zeros appear on demand: frames come zeroed from the pool, so a fault costs one table entry.
//! - A program's pages come in aligned runs ([`limits::READ_AHEAD_PAGES`]) and are *pristine*: never writable. A page
//!   of a writable segment is mapped copy-on-write; when it is first written the program gets a copy and the pristine
//!   frame is kept aside, so that a relaunch need not fetch it. What the program ever wrote is thus never marked
//!   pristine, whatever mprotect says later.
//! - Reservations cost one area, however large.
//! - Nothing is random: addresses depend on the program and its calls alone.
//!
//! The kernel reads and writes a program's memory only through [`AddressSpace::read_bytes`] and its kin, which look
//! each page up in the table; a wild pointer is an error like any other.

mod advise;
mod area;
mod areas;
mod aside;
mod calls;
mod change;
mod changed;
mod copy;
mod cut;
mod fault;
mod fetch;
mod image;
mod limit;
pub mod limits;
mod map;
mod mapped;
mod peek;
mod poke;
mod protect;
mod reaper;
mod record;
mod remap;
mod retention;
mod share;
mod shared;
mod snapshot;
mod space;
mod spare;
mod stack;
mod status;
#[cfg(test)]
mod tests;
mod word;

pub use self::area::{Backing, FileSource};
pub use self::change::ChangeNumber;
pub use self::changed::{FileChange, FileIdentity};
pub use self::copy::{CopyError, StringError};
pub use self::cut::RetainedTable;
pub use self::fault::{Resolution, Signal};
pub use self::fetch::{Fetch, Source};
pub use self::image::LoadError;
pub(crate) use self::mapped::MappedPages;
pub use self::peek::{Peeked, Seen};
pub use self::reaper::Reaper;
pub use self::record::{Pages, SpaceRecord};
pub use self::retention::Retention;
pub use self::share::{BesideError, Wanted};
pub use self::shared::{Budget, NoPage, SHARED_BYTES_MAX, SharedMemory};
pub use self::snapshot::{GivenUp, Snapshot, Taken, WINDOW_PAGES, Window};
pub use self::space::{AddressSpace, MemoryStats, OutOfMemory, Start};
pub(crate) use self::spare::Spare;
pub use self::stack::StartInfo;
pub use self::status::status;
