//! Numbers in a body: seven bits in each byte, the lowest first (LEB128), and differences with their sign in the lowest
//! bit, so that small ones are short either way.

use alloc::vec::Vec;

/// Appends a number.
pub(super) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// How many bytes that takes.
pub(super) const fn length(number: u64) -> usize {
    (64 - (number | 1).leading_zeros() as usize).div_ceil(7)
}

/// How far it is from one number to another, round the end of all numbers if that is nearer.
pub(super) const fn difference(from: u64, to: u64) -> u64 {
    let far = to.wrapping_sub(from).cast_signed();
    ((far << 1) ^ (far >> 63)).cast_unsigned()
}

/// The number that is so far from another.
pub(super) const fn further(from: u64, difference: u64) -> u64 {
    let far = (difference >> 1) ^ (difference & 1).wrapping_neg();
    from.wrapping_add(far)
}

/// What is left of a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// So many bytes, if there are.
    pub(super) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// A number, if it is one of 64 bits.
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let &[byte] = self.bytes(1)?.first_chunk()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// A length or an index.
    pub(super) fn size(&mut self) -> Option<usize> {
        self.number()?.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::{Reader, difference, further, length, put};

    proptest! {
        #[test]
        fn numbers_are_read_as_they_are_put(number: u64, shift in 0..64, from: u64, to: u64) {
            let number = number >> shift;
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            prop_assert_eq!(bytes.len(), length(number));
            let mut reader = Reader(&bytes);
            prop_assert_eq!((reader.number(), reader.is_empty()), (Some(number), true));
            prop_assert_eq!(further(from, difference(from, to)), to);
        }
    }

    #[test]
    fn what_is_no_number_of_64_bits_is_none() {
        let read = |bytes: &[u8]| Reader(bytes).number();
        assert_eq!((read(&[]), read(&[0x80]), read(&[0xff; 9])), (None, None, None));
        let last = |byte| [&[0xff; 9][..], &[byte]].concat();
        assert_eq!((read(&last(1)), read(&last(2)), read(&last(0x81))), (Some(u64::MAX), None, None));
        assert_eq!((difference(5, 5), difference(5, 6), difference(5, 4), difference(0, u64::MAX)), (0, 2, 1, 1));
    }
}
