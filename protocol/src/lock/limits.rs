//! Limits of file locks. Beyond those of counts it is `ENOLCK`.

/// Locks and waits that a rank has.
pub const LOCKS_PER_RANK_MAX: usize = 4096;

/// Locks and waits that the ranks of a job have at one I/O node.
pub const LOCKS_PER_JOB_MAX: usize = 65_536;

/// Locks of one file, all ranks' together.
pub const LOCKS_PER_FILE_MAX: usize = 16_384;

/// Waits for locks of one file.
pub const WAITS_PER_FILE_MAX: usize = 4096;

/// How long a wait that was called keeps others from what it was called for, ns: much longer than a call takes to come,
/// and not so long that a process which is stopped is to be noticed.
pub const TURN_NS: u64 = 1_000_000_000;

/// Waits that are looked at to find whether a process would wait for itself. Beyond, it is not found.
pub const DEADLOCK_STEPS_MAX: usize = 1024;
