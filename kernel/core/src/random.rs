//! Random bytes: the output stream of BLAKE3 keyed with a seed from the host's generator, which the personality brings.

use blake3::{Hasher, OutputReader};

use crate::sync::{LockLevel, Mutex};

static STREAM: Mutex<Option<OutputReader>> = Mutex::new(LockLevel::Fact, None);

/// What the stream is of, apart from the seed.
const CONTEXT: &[u8] = b"coppice node random stream";

fn stream_of(seed: &[u8; 32]) -> OutputReader {
    Hasher::new_keyed(seed).update(CONTEXT).finalize_xof()
}

/// Starts the node's stream. Called once, at boot, with 32 secret random bytes.
pub fn seed(seed: &[u8; 32]) {
    *STREAM.lock() = Some(stream_of(seed));
}

/// Fills `bytes` from the node's stream. Before [`seed`] (which is to say: in host tests) the seed is all zeros.
pub fn fill(bytes: &mut [u8]) {
    STREAM.lock().get_or_insert_with(|| stream_of(&[0; 32])).fill(bytes);
}

/// An array of random bytes.
#[must_use]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    fill(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::{bytes, stream_of};

    #[test]
    fn a_seed_gives_one_stream_however_it_is_cut() {
        let mut whole = [0; 100];
        stream_of(&[7; 32]).fill(&mut whole);
        let mut stream = stream_of(&[7; 32]);
        let mut parts = [0; 100];
        stream.fill(&mut parts[..33]);
        stream.fill(&mut parts[33..]);
        assert_eq!(whole, parts);
    }

    #[test]
    fn no_two_answers_are_alike() {
        assert_ne!(bytes::<16>(), bytes::<16>());
    }
}
