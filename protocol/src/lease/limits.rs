//! Limits of leases, with what happens at each.

/// Longest file, bytes, all of which comes with the lease of it when it is opened.
pub const FIRST_BYTES_MAX: u64 = 16 * 1024;

/// Files that nobody has open any more of which an I/O node knows what they were; of others it is read again what is in
/// them.
pub const FILE_VERSIONS_MAX: usize = 4096;

/// Changes of a file that are further apart than this, ns, give it different times on every file system that counts
/// finer than seconds: Linux takes times from its tick, which is 10 ms at most.
pub const FILE_TIME_GRAIN_NS: u64 = 20_000_000;
