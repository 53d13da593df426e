//! Wall-clock time as it is recorded.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, ns since 1970.
#[must_use]
pub fn realtime_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
