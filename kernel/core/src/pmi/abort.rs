//! A rank that ends its job: with which status, and what its user is told.

use alloc::format;
use alloc::string::String;

use coppice_protocol::ids::Rank;

/// What a shell would show of a process that exited with this code; never success.
pub(super) fn status_of(code: i32) -> u8 {
    match (code & 0xff) as u8 {
        0 => 1,
        status => status,
    }
}

/// Why the job ends, for its user.
pub(super) fn reason_of(rank: Rank, code: i32, message: &str) -> String {
    let message = message.trim();
    if message.is_empty() {
        format!("rank {rank} aborted the job with code {code}")
    } else {
        format!("rank {rank} aborted the job with code {code}: {message}")
    }
}
