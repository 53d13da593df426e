//! How a body is read.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::number::{Reader, further};
use super::pattern::Pattern;
use super::rows::Rows;
use super::{FIRST_PATTERN, Kind, NEW_PATTERN};
use crate::limits::PMI_PATTERNS_MAX;

/// What was read of a body.
#[derive(Default)]
pub(super) struct Items {
    rows: [Rows; 2],
    /// Patterns, and the last numbers of each.
    patterns: Vec<(Pattern, Vec<u64>)>,
}

impl Items {
    /// The next key or value, which has this before it.
    pub(super) fn item(&mut self, reader: &mut Reader<'_>, head: u64, kind: Kind) -> Option<Box<[u8]>> {
        let index = match head {
            NEW_PATTERN => {
                if self.patterns.len() == PMI_PATTERNS_MAX {
                    return None;
                }
                let pattern = Pattern::read(reader)?;
                let numbers = alloc::vec![0; pattern.numbers()];
                self.patterns.push((pattern, numbers));
                self.patterns.len() - 1
            }
            FIRST_PATTERN.. => usize::try_from(head - FIRST_PATTERN).ok()?,
            _ => return self.rows[kind as usize].read(head, reader, kind.bytes_max()).map(Box::from),
        };
        let (pattern, numbers) = self.patterns.get_mut(index)?;
        for number in numbers.iter_mut() {
            *number = further(*number, reader.number()?);
        }
        pattern.fill(numbers, kind.bytes_max()).map(Vec::into_boxed_slice)
    }
}
