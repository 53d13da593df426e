//! `O_*` as Linux has them on x86-64.

pub(crate) const O_ACCMODE: u32 = 0o3;
pub(crate) const O_RDONLY: u32 = 0o0;
pub(crate) const O_WRONLY: u32 = 0o1;
pub(crate) const O_RDWR: u32 = 0o2;
pub(crate) const O_CREAT: u32 = 0o100;
pub(crate) const O_EXCL: u32 = 0o200;
pub(crate) const O_NOCTTY: u32 = 0o400;
pub(crate) const O_TRUNC: u32 = 0o1000;
pub(crate) const O_APPEND: u32 = 0o2000;
pub(crate) const O_NONBLOCK: u32 = 0o4000;
pub(crate) const O_ASYNC: u32 = 0o20000;
pub(crate) const O_DIRECT: u32 = 0o40000;
pub(crate) const O_LARGEFILE: u32 = 0o100_000;
pub(crate) const O_DIRECTORY: u32 = 0o200_000;
pub(crate) const O_NOFOLLOW: u32 = 0o400_000;
pub(crate) const O_NOATIME: u32 = 0o1_000_000;
pub(crate) const O_CLOEXEC: u32 = 0o2_000_000;
pub(crate) const O_PATH: u32 = 0o10_000_000;
pub(crate) const O_TMPFILE: u32 = 0o20_000_000;
pub(crate) const O_DSYNC: u32 = 0o10000;
pub(crate) const O_SYNC: u32 = 0o4_000_000;
/// What an open file keeps of what it was opened with, and nothing changes.
pub(crate) const KEPT: u32 = O_ACCMODE | O_LARGEFILE | O_DIRECTORY | O_NOFOLLOW | O_DSYNC | O_SYNC | O_TMPFILE | O_PATH;
/// What `F_SETFL` can change.
pub(crate) const SETTABLE: u32 = O_APPEND | O_NONBLOCK | O_ASYNC | O_DIRECT | O_NOATIME;
