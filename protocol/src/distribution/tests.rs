//! Whole transfers in a small world: packets that are late, lost, doubled and changed, members that die.

use super::{Link, Plan, Scheme, TransferId};
use crate::ids::Generation;

/// A plan of 1,000-byte pieces of up to 10 packets.
pub(super) fn plan(bytes: u64, members: u32, scheme: Scheme) -> Plan {
    Plan {
        transfer: TransferId { number: 1, generation: Generation(1) },
        bytes,
        piece_bytes: 1000,
        packet_bytes: 100,
        overhead_bytes: 10,
        members,
        scheme,
        link: Link { bytes_per_second: 1_000_000_000, latency_ns: 5_000 },
    }
}
