//! What an object's file holds: a byte that says how, and the object's bytes, compressed if that makes them shorter.

use coppice_protocol::checkpoint::OBJECT_BYTES_MAX;

use crate::limits::OBJECT_FILE_BYTES_MAX;

/// As it is.
const RAW: u8 = 0;
/// One frame of zstd.
const ZSTD: u8 = 1;

/// Nothing should wait for this longer than for the disk: from the next level, 1, on, numbers take five times as long
/// to become no shorter to speak of.
const LEVEL: i32 = -1;

/// What is written for an object.
pub(crate) fn encode(bytes: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(OBJECT_FILE_BYTES_MAX);
    file.push(ZSTD);
    // If that fails there is no memory for its tables.
    let compressed = zstd::bulk::compress(bytes, LEVEL).ok().filter(|compressed| compressed.len() < bytes.len());
    if compressed.is_none() {
        file[0] = RAW;
    }
    file.extend_from_slice(compressed.as_deref().unwrap_or(bytes));
    file
}

/// The object that a file holds; `None` if it is damaged so that there is none, or longer than an object.
pub(crate) fn decode(file: &[u8]) -> Option<Vec<u8>> {
    match file.split_first()? {
        (&RAW, bytes) if bytes.len() <= OBJECT_BYTES_MAX => Some(bytes.to_vec()),
        // Gives no more than that, whatever the frame promises.
        (&ZSTD, frame) => zstd::bulk::decompress(frame, OBJECT_BYTES_MAX).ok(),
        _ => None,
    }
}

/// Whether a file with this first byte and length can be that of an object of so many bytes.
pub(crate) const fn may_hold(encoding: u8, length: u64, bytes: usize) -> bool {
    match encoding {
        RAW => length == 1 + bytes as u64,
        ZSTD => length > 1 && length <= bytes as u64,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use coppice_protocol::checkpoint::OBJECT_BYTES_MAX;
    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::{prop_assert_eq, proptest};

    use super::{RAW, ZSTD, decode, encode, may_hold};

    #[test]
    fn what_does_not_become_shorter_is_kept_as_it_is() {
        assert_eq!((encode(b""), encode(b"abc")), (vec![RAW], b"\0abc".to_vec()));
        let zeros = encode(&[0; OBJECT_BYTES_MAX]);
        assert!(zeros[0] == ZSTD && zeros.len() < 100, "{}", zeros.len());
        assert!(may_hold(ZSTD, zeros.len() as u64, OBJECT_BYTES_MAX));
        assert!(may_hold(RAW, 4, 3) && !may_hold(RAW, 3, 3) && !may_hold(RAW, 0, 0) && !may_hold(7, 4, 3));
    }

    #[test]
    fn what_would_be_more_than_an_object_is_none() {
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 19).expect("compresses");
        assert!(bomb.len() < OBJECT_BYTES_MAX);
        assert_eq!(decode(&[&[ZSTD], &bomb[..]].concat()), None);
        // One that does not say how long it is.
        let mut encoder = zstd::stream::write::Encoder::new(vec![ZSTD], 1).expect("memory");
        encoder.include_contentsize(false).expect("is known");
        std::io::copy(&mut std::io::Read::take(std::io::repeat(0), 64 << 20), &mut encoder).expect("compresses");
        assert_eq!(decode(&encoder.finish().expect("compresses")), None);
        assert_eq!(decode(&vec![RAW; OBJECT_BYTES_MAX + 2]), None);
        assert!(decode(&vec![RAW; OBJECT_BYTES_MAX + 1]).is_some());
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(bytes in vec(any::<u8>(), 0..2000), repeated in 1..50_usize) {
            let bytes = bytes.repeat(repeated);
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }

        #[test]
        fn anything_may_be_in_a_file(bytes in vec(any::<u8>(), 0..200)) {
            drop(decode(&bytes));
            drop(decode(&[&[ZSTD], &encode(&[7; 500])[1..20], &bytes].concat()));
        }
    }
}
