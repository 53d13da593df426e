//! Random bytes: the output stream of BLAKE3 keyed with a seed from the host's generator, which the personality brings.

use blake3::{BLOCK_LEN, Hasher, OutputReader};

use crate::sync::{LockLevel, Mutex};

#[cfg(target_os = "none")]
static STREAM: Mutex<Option<Stream>> = Mutex::new(LockLevel::Fact, None);

// On the host each thread has nodes of its own.
#[cfg(not(target_os = "none"))]
std::thread_local! {
    static STREAM: Mutex<Option<Stream>> = const { Mutex::new(LockLevel::Fact, None) };
}

/// What the stream is of, apart from the seed.
const CONTEXT: &[u8] = b"coppice node random stream";

/// The stream, made block by block: most answers are much shorter than one.
struct Stream {
    output: OutputReader,
    /// The block that is being given away. What was given away is zeros.
    block: [u8; BLOCK_LEN],
    /// How much of it is left, at its end, bytes.
    left: usize,
}

impl Stream {
    fn new(seed: &[u8; 32]) -> Self {
        let output = Hasher::new_keyed(seed).update(CONTEXT).finalize_xof();
        Self { output, block: [0; BLOCK_LEN], left: 0 }
    }

    fn fill(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            if self.left == 0 {
                // Whole blocks need not be kept.
                let (whole, rest) = bytes.split_at_mut(bytes.len() / BLOCK_LEN * BLOCK_LEN);
                self.output.fill(whole);
                bytes = rest;
                if bytes.is_empty() {
                    return;
                }
                self.output.fill(&mut self.block);
                self.left = BLOCK_LEN;
            }
            let count = bytes.len().min(self.left);
            let (now, later) = bytes.split_at_mut(count);
            let given = &mut self.block[BLOCK_LEN - self.left..][..count];
            now.copy_from_slice(given);
            given.fill(0);
            self.left -= count;
            bytes = later;
        }
    }
}

/// Starts the node's stream. Called once, at boot, with 32 secret random bytes.
pub fn seed(seed: &[u8; 32]) {
    with_stream(|stream| *stream = Some(Stream::new(seed)));
}

/// Fills `bytes` from the node's stream. Before [`seed`] (which is to say: in host tests) the seed is all zeros.
pub fn fill(bytes: &mut [u8]) {
    with_stream(|stream| stream.get_or_insert_with(|| Stream::new(&[0; 32])).fill(bytes));
}

#[cfg(target_os = "none")]
fn with_stream<R>(f: impl FnOnce(&mut Option<Stream>) -> R) -> R {
    f(&mut STREAM.lock())
}

#[cfg(not(target_os = "none"))]
fn with_stream<R>(f: impl FnOnce(&mut Option<Stream>) -> R) -> R {
    STREAM.with(|stream| f(&mut stream.lock()))
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
    use super::{CONTEXT, Hasher, Stream, bytes};

    #[test]
    fn a_seed_gives_one_stream_however_it_is_cut() {
        let mut whole = [0; 1000];
        Hasher::new_keyed(&[7; 32]).update(CONTEXT).finalize_xof().fill(&mut whole);
        for cuts in [&[33, 67, 900][..], &[1, 63, 64, 65, 128, 129, 550], &[1000], &[8; 125]] {
            let (mut stream, mut parts) = (Stream::new(&[7; 32]), [0; 1000]);
            let mut rest = &mut parts[..];
            for cut in cuts {
                let (part, more) = rest.split_at_mut(*cut);
                stream.fill(part);
                rest = more;
            }
            assert_eq!(whole, parts, "{cuts:?}");
        }
    }

    #[test]
    fn what_was_given_away_is_not_kept() {
        let mut stream = Stream::new(&[7; 32]);
        stream.fill(&mut [0; 40]);
        assert_eq!((stream.left, &stream.block[..40]), (24, &[0; 40][..]));
    }

    #[test]
    fn no_two_answers_are_alike() {
        assert_ne!(bytes::<16>(), bytes::<16>());
    }
}
