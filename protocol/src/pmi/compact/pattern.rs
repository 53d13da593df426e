//! Patterns: what keys or values have alike that differ in their numbers.
//!
//! A number is a run of decimal digits that are written as that number is: without a zero before it, and of 64 bits. A
//! run that is not, such as `007`, belongs to the pattern.

use alloc::vec::Vec;

use super::number::{Reader, put};
use crate::limits::PMI_PATTERN_NUMBERS_MAX;

/// Digits of the longest number.
const DIGITS_MAX: usize = 20;

/// Bytes with holes where numbers are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pattern {
    /// The bytes between.
    text: Vec<u8>,
    /// How many of them are before each hole.
    holes: Vec<usize>,
}

impl Pattern {
    /// What there is but numbers, and the numbers: one at least, and as many as a pattern may have.
    pub(super) fn split(item: &[u8]) -> Option<(Self, Vec<u64>)> {
        let (mut text, mut holes, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        for run in item.chunk_by(|one, next| one.is_ascii_digit() == next.is_ascii_digit()) {
            let Some(number) = number(run) else {
                text.extend_from_slice(run);
                continue;
            };
            if numbers.len() == PMI_PATTERN_NUMBERS_MAX {
                return None;
            }
            holes.push(text.len());
            numbers.push(number);
        }
        if numbers.is_empty() { None } else { Some((Self { text, holes }, numbers)) }
    }

    /// How many numbers it has.
    pub(super) fn numbers(&self) -> usize {
        self.holes.len()
    }

    /// The texts between holes, before the first and behind the last.
    fn texts(&self) -> impl Iterator<Item = &[u8]> {
        let begins = core::iter::once(0).chain(self.holes.iter().copied());
        let ends = self.holes.iter().copied().chain([self.text.len()]);
        begins.zip(ends).map(|(begin, end)| self.text.get(begin..end).unwrap_or_default())
    }

    /// What it is with these numbers; nothing longer than that.
    pub(super) fn fill(&self, numbers: &[u64], bytes_max: usize) -> Option<Vec<u8>> {
        let mut item = Vec::new();
        for (text, number) in self.texts().zip(numbers.iter().map(Some).chain([None])) {
            item.extend_from_slice(text);
            if let Some(number) = number {
                put_decimal(&mut item, *number);
            }
            if item.len() > bytes_max {
                return None;
            }
        }
        Some(item)
    }

    /// Appends it to a body.
    pub(super) fn put(&self, body: &mut Vec<u8>) {
        put(body, self.holes.len() as u64);
        for text in self.texts() {
            put(body, text.len() as u64);
            body.extend_from_slice(text);
        }
    }

    /// One from a body.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let holes = reader.size().filter(|holes| (1..=PMI_PATTERN_NUMBERS_MAX).contains(holes))?;
        let mut pattern = Self { text: Vec::new(), holes: Vec::new() };
        for hole in 0..=holes {
            let length = reader.size()?;
            pattern.text.extend_from_slice(reader.bytes(length)?);
            if hole < holes {
                pattern.holes.push(pattern.text.len());
            }
        }
        Some(pattern)
    }
}

/// The number that is written like that.
fn number(run: &[u8]) -> Option<u64> {
    let is_canonical = run.first().is_some_and(u8::is_ascii_digit) && (run.len() == 1 || !run.starts_with(b"0"));
    let text = core::str::from_utf8(run).ok().filter(|_| is_canonical)?;
    text.parse().ok()
}

fn put_decimal(item: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; DIGITS_MAX];
    let mut first = DIGITS_MAX;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        first -= 1;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    item.extend_from_slice(digits.get(first..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::{Pattern, Reader};

    fn numbers(item: &str) -> Option<Vec<u64>> {
        Some(Pattern::split(item.as_bytes())?.1)
    }

    #[test]
    fn numbers_are_what_is_written_as_one() {
        assert_eq!(numbers("P12-businesscard"), Some([12].into()));
        assert_eq!(numbers("10.128.0.4$"), Some([10, 128, 0, 4].into()));
        assert_eq!(numbers("007 and 0"), Some([0].into()));
        assert_eq!(numbers("18446744073709551615"), Some([u64::MAX].into()));
        assert_eq!(
            (numbers("18446744073709551616"), numbers("00"), numbers("a"), numbers("")),
            (None, None, None, None)
        );
        assert_eq!((numbers(&"1,".repeat(16)).map(|it| it.len()), numbers(&"1,".repeat(17))), (Some(16), None));
    }

    proptest! {
        #[test]
        fn what_is_split_fills_again(item in "[0-9a-c]{0,30}|([a-b]{0,3}[0-9]{0,22}){0,4}", cut in 0..40_usize) {
            let item = item.as_bytes();
            let Some((pattern, numbers)) = Pattern::split(item) else { return Ok(()) };
            let mut body = Vec::new();
            pattern.put(&mut body);
            let mut reader = Reader(&body);
            let read = Pattern::read(&mut reader);
            prop_assert_eq!(read.as_ref(), Some(&pattern));
            prop_assert!(reader.is_empty());
            let filled = pattern.fill(&numbers, item.len());
            prop_assert_eq!(filled.as_deref(), Some(item));
            prop_assert_eq!(pattern.fill(&numbers, item.len() - 1), None);
            prop_assert!(cut >= body.len() || Pattern::read(&mut Reader(&body[..cut])).is_none());
        }
    }
}
