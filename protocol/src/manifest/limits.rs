//! Limits of manifests, with what happens at each.

use crate::limits::BULK_BYTES_MAX;

/// Most bytes of what a program looks up from a root that an I/O node keeps: all of it fits behind one message. What
/// comes beyond is not taken up; when more was refused than is there, it begins anew.
pub const MANIFEST_BYTES_MAX: usize = BULK_BYTES_MAX - 1024;

/// Longest path, and longest text of a link, in a manifest, bytes; longer ones are asked for each time.
pub const MANIFEST_PATH_BYTES_MAX: usize = 512;

/// Look-ups whose answers were seen to change and that a manifest leaves out; at more it forgets which.
pub const MANIFEST_SHUNNED_MAX: usize = 1024;
