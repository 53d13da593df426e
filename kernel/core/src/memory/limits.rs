//! Every limit of an address space, and where its fixed parts lie. There is no randomisation: where things are is a
//! function of the program and of what it does alone.

use coppice_hal::addr::{PAGE_BYTES, USER_END};

/// Bytes in a page, as the addresses' type has it.
pub const PAGE: u64 = PAGE_BYTES as u64;

/// Areas (runs of pages with the same rights and content) a process may have. A call that would need more answers
/// `ENOMEM`. Each costs the kernel about 100 bytes.
pub const AREAS_MAX: usize = 8192;

/// What each has at least where several processes on a node share that number.
pub const AREAS_MIN: usize = 512;

/// Lowest address that can be mapped, so that null pointers and offsets from them fault. Mapping below: `EPERM`.
pub const MAP_BOTTOM: u64 = 64 * 1024;

/// The main thread's stack, bytes; what `RLIMIT_STACK` says. Its pages appear when touched; below it lies a guard, and
/// the program gets `SIGSEGV`.
pub const STACK_BYTES: u64 = 8 * 1024 * 1024;

/// Address behind the stack's last byte.
pub const STACK_TOP: u64 = USER_END;

/// Space below the stack where nothing is placed unless a program asks for that very address.
pub const STACK_GUARD_BYTES: u64 = 1024 * 1024;

/// Mappings without a fixed address are placed downwards from here.
pub const MAP_TOP: u64 = STACK_TOP - STACK_BYTES - STACK_GUARD_BYTES;

/// Mappings asked for with `MAP_32BIT` are placed downwards from here.
pub const MAP_32BIT_TOP: u64 = 0x8000_0000;

/// Pages that a change of a process's memory takes away, changes or brings in before others get their turn. Zeroing a
/// frame is most of what each costs: some 300,000 instructions in all.
pub const STEP_PAGES: u32 = 256;

/// Pages fetched at once, in runs aligned in the file: as much as one request carries.
pub const READ_AHEAD_PAGES: u64 = coppice_protocol::limits::PAGES_PER_REQUEST_MAX as u64;

/// Frames that must be free for pages to be brought in that nobody asked for yet. With fewer, only the page that is
/// needed is installed.
pub const READ_AHEAD_SPARE_FRAMES: u32 = 128;

/// Longest single argument or environment string with its zero, bytes, as on Linux: `E2BIG`.
pub const ARGUMENT_STRING_BYTES_MAX: usize = 128 * 1024;

/// Bytes the start stack may take with strings and pointers, a quarter of the stack as on Linux: `E2BIG`.
pub const START_STACK_BYTES_MAX: u64 = STACK_BYTES / 4;
