//! What the host has of chance: the seeds of its hash maps.

use core::hash::{BuildHasher, Hasher};
use std::hash::RandomState;

/// Bytes that differ from call to call; as seed material beside others, never alone.
#[must_use]
pub fn seed_bits() -> [u8; 32] {
    let mut seed = [0; 32];
    for bytes in seed.chunks_exact_mut(8) {
        bytes.copy_from_slice(&RandomState::new().build_hasher().finish().to_ne_bytes());
    }
    seed
}
