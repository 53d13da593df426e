//! How a body is made.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::number::{difference, length, put};
use super::pattern::Pattern;
use super::rows::Rows;
use super::{FIRST_PATTERN, Kind, Measures, NEW_PATTERN, ORIGIN};
use crate::limits::{PMI_FRAME_BODY_BYTES_MAX, PMI_KEY_BYTES_MAX, PMI_PATTERNS_MAX, PMI_VALUE_BYTES_MAX};
use crate::pmi::frame::PeerError;

/// The most that a put takes in a body, with some room: both may be told of as new patterns.
const PUT_BYTES_MAX: usize = 2 * (PMI_KEY_BYTES_MAX + PMI_VALUE_BYTES_MAX);

/// Patterns that came once which a body remembers.
const SEEN_MAX: usize = 256;

/// A pattern is said if that has paid off after so many items.
const PAYS_OFF_ITEMS: usize = 16;

/// No pattern says anything in fewer bytes: which it is, and a number.
const NUMBERED_BYTES_MIN: usize = 2;

/// A body in the making.
pub(super) struct Packer {
    measures: Measures,
    pub(super) body: Vec<u8>,
    origin: u32,
    rows: [Rows; 2],
    /// Patterns that were said, by their number.
    patterns: BTreeMap<Pattern, usize>,
    /// The last numbers of each.
    numbers: Vec<Vec<u64>>,
    /// Patterns that came once.
    seen: BTreeSet<Pattern>,
}

impl Packer {
    pub(super) fn new(measures: Measures) -> Result<Self, PeerError> {
        let mut body = Vec::new();
        // It is found out that a put does not fit in when it is there.
        body.try_reserve_exact(PMI_FRAME_BODY_BYTES_MAX + PUT_BYTES_MAX).map_err(|_| PeerError::OutOfMemory)?;
        Ok(Self {
            measures,
            body,
            origin: 0,
            rows: [Rows::default(), Rows::default()],
            patterns: BTreeMap::new(),
            numbers: Vec::new(),
            seen: BTreeSet::new(),
        })
    }

    /// Appends a key and its value; false if they do not fit in, and then nothing else is to be appended.
    pub(super) fn push(&mut self, origin: u32, key: &[u8], value: &[u8]) -> bool {
        let before = self.body.len();
        if origin != self.origin {
            put(&mut self.body, ORIGIN);
            put(&mut self.body, difference(self.origin.into(), origin.into()));
            self.origin = origin;
        }
        self.item(Kind::Key, key);
        self.item(Kind::Value, value);
        let fits = self.body.len() <= PMI_FRAME_BODY_BYTES_MAX;
        if !fits {
            self.body.truncate(before);
        }
        fits
    }

    fn item(&mut self, kind: Kind, item: &[u8]) {
        let (way, bytes) = self.rows[kind as usize].best(item, self.measures);
        if self.measures.patterns
            && bytes > NUMBERED_BYTES_MIN
            && self.rows[kind as usize].may_be_numbered(&way, item)
            && let Some((pattern, numbers)) = Pattern::split(item)
            && self.numbered(pattern, numbers, way.bytes_from_now_on().unwrap_or(bytes))
        {
            return;
        }
        self.rows[kind as usize].put(way, item, &mut self.body);
    }

    /// Appends an item as a pattern's, if that is shorter than so many bytes, or will be for the next.
    fn numbered(&mut self, pattern: Pattern, numbers: Vec<u64>, otherwise_bytes: usize) -> bool {
        let differences = |from: &[u64]| -> Vec<u64> {
            let from = from.iter().copied().chain(core::iter::repeat(0));
            from.zip(&numbers).map(|(from, to)| difference(from, *to)).collect()
        };
        if let Some(index) = self.patterns.get(&pattern).copied() {
            let head = FIRST_PATTERN + index as u64;
            let Some(before) = self.numbers.get_mut(index) else { return false };
            let differences = differences(before);
            let bytes = length(head) + differences.iter().copied().map(length).sum::<usize>();
            if bytes >= otherwise_bytes {
                return false;
            }
            *before = numbers;
            put(&mut self.body, head);
            self.put_all(&differences);
            return true;
        }
        if !self.seen.contains(&pattern) {
            if self.seen.len() == SEEN_MAX {
                self.seen.clear();
            }
            self.seen.insert(pattern);
            return false;
        }
        let mut said = Vec::new();
        pattern.put(&mut said);
        // Once it is said most differences are of a byte.
        let saved = otherwise_bytes.saturating_sub(1 + numbers.len());
        if self.numbers.len() == PMI_PATTERNS_MAX || said.len() > PAYS_OFF_ITEMS * saved {
            return false;
        }
        put(&mut self.body, NEW_PATTERN);
        self.body.append(&mut said);
        self.put_all(&differences(&[]));
        self.patterns.insert(pattern, self.numbers.len());
        self.numbers.push(numbers);
        true
    }

    fn put_all(&mut self, differences: &[u64]) {
        differences.iter().for_each(|difference| put(&mut self.body, *difference));
    }
}
