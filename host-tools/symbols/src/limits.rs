//! Limits, and what happens at each.

use std::time::Duration;

/// Longest file that is looked into, bytes; it is read into memory. A longer one is refused.
pub const FILE_BYTES_MAX: u64 = 1 << 30;

/// Debug information of a program, as long as it is once it is no longer compressed, bytes. What has more is looked up
/// in the symbol table.
pub const DEBUG_BYTES_MAX: u64 = 2 << 30;

/// How long is spent on looking addresses up in debug information. The others are looked up in the symbol table.
pub const LOOK_UP_TIME_MAX: Duration = Duration::from_secs(20);

/// How deep entries of debug information may lie in each other; their reader calls itself for each. Debug information
/// that has deeper ones is not used.
pub const DEBUG_DEPTH_MAX: isize = 1024;

/// How often each part of debug information may be used on average. Debug information that has its tables used more
/// often is not used: a short file could stand for work without end.
pub const DEBUG_USES_MAX: u64 = 2;

/// Stack of the thread that reads debug information, bytes: for entries as deep as [`DEBUG_DEPTH_MAX`].
pub const DEBUG_STACK_BYTES: usize = 32 << 20;

/// Functions that are inlined into each other at an address. The outer ones of more are left out.
pub const INLINED_MAX: usize = 64;

/// Longest name of a function or a source file, bytes. Longer ones are cut.
pub const NAME_BYTES_MAX: usize = 1024;

/// How deep the parts of a C++ name may lie in each other. One with more is shown as it is in the file.
pub const NAME_DEPTH_MAX: u32 = 64;

/// How far a symbol without a size reaches, bytes, if no other follows.
pub const SIZELESS_BYTES_MAX: u64 = 64 << 10;

/// Symbols that begin before an address and may end before it, too, while one around them is looked for.
pub const SYMBOLS_BACK_MAX: usize = 16;
