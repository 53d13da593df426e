//! Hexadecimal digits, packed two in a byte.

use alloc::vec::Vec;

/// Fewer digits are not packed.
const DIGITS_MIN: usize = 4;

/// How bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    /// As hexadecimal digits, those beyond 9 small.
    Lower,
    /// The same in capitals.
    Upper,
}

impl Form {
    /// The one that makes bytes shortest.
    pub(super) fn of(bytes: &[u8]) -> Self {
        if bytes.len() < DIGITS_MIN {
            return Self::Plain;
        }
        [Self::Lower, Self::Upper].into_iter().find(|form| form.suits(bytes)).unwrap_or(Self::Plain)
    }

    /// Whether such bytes can be written like that.
    pub(super) fn suits(self, bytes: &[u8]) -> bool {
        let even = |is: fn(&u8) -> bool| bytes.len().is_multiple_of(2) && bytes.iter().all(is);
        match self {
            Self::Plain => true,
            Self::Lower => even(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte)),
            Self::Upper => even(|byte| byte.is_ascii_digit() || (b'A'..=b'F').contains(byte)),
        }
    }

    /// How many bytes so many written ones stand for.
    pub(super) const fn unpacked(self, written: usize) -> usize {
        match self {
            Self::Plain => written,
            Self::Lower | Self::Upper => written.saturating_mul(2),
        }
    }

    /// How many bytes are written for so many.
    pub(super) const fn packed(self, bytes: usize) -> usize {
        match self {
            Self::Plain => bytes,
            Self::Lower | Self::Upper => bytes / 2,
        }
    }

    /// Appends bytes that it suits to a body.
    pub(super) fn put(self, bytes: &[u8], body: &mut Vec<u8>) {
        if self == Self::Plain {
            body.extend_from_slice(bytes);
            return;
        }
        let value = |digit: &u8| (*digit as char).to_digit(16).unwrap_or_default() as u8;
        let (pairs, _) = bytes.as_chunks::<2>();
        body.extend(pairs.iter().map(|[high, low]| value(high) << 4 | value(low)));
    }

    /// What written bytes stand for, to where there is room for just that.
    pub(super) fn read(self, written: &[u8], to: &mut [u8]) {
        let digits = match self {
            Self::Plain => return to.copy_from_slice(written),
            Self::Lower => b"0123456789abcdef",
            Self::Upper => b"0123456789ABCDEF",
        };
        let (pairs, _) = to.as_chunks_mut::<2>();
        for (pair, byte) in pairs.iter_mut().zip(written) {
            *pair = [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]];
        }
    }
}
