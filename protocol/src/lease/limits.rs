//! Limits of leases, with what happens at each.

/// Longest file, bytes, all of which comes with the lease of it when it is opened.
pub const FIRST_BYTES_MAX: u64 = 16 * 1024;

/// Files that nobody has open any more of which an I/O node knows what they were; of others it is read again what is in
/// them.
pub const FILE_VERSIONS_MAX: usize = 16_384;

/// Changes of a file that are further apart than this, ns, give it different times on every file system that counts
/// finer than seconds: Linux takes times from its tick, which is 10 ms at most.
pub const FILE_TIME_GRAIN_NS: u64 = 20_000_000;

/// Look-ups that a node makes for a job before it gets a lease of names: a program that looks at a few files does not
/// make others wait.
pub const LOOKS_BEFORE_LEASE: u32 = 4;

/// Look-ups before it gets the next after one that was asked back, so that who changes names, and who looks at them
/// meanwhile, do not have the lease go to and fro.
pub const LOOKS_AFTER_RECALL: u32 = 32;

/// How long what is kept of names and attributes is believed, ns: processes of the host change them, too.
pub const NAMES_BELIEVED_NS: u64 = 1_000_000_000;

/// Entries of a listing that come with their attributes, at most some 150 bytes each, which a message has room for; of
/// further ones these are to be asked for.
pub const LISTED_MAX: usize = 1024;
