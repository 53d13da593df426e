//! Puts as few bytes: what nodes tell each other in a barrier is much the same for all ranks.
//!
//! Keys and values of different ranks differ in a few numbers: `description#node3$port#43211$ifname#10.128.0.4$`. So a
//! body says once what they have alike, a *pattern* ([`pattern`]), and then the numbers only, as the differences from
//! those before. What no pattern fits is said by how it differs from the one before ([`text`]). Names of nodes are in
//! no body, but their indices.
//!
//! ```text
//! body:  an item for each key, and one for its value, until the end
//! item:  number  what follows
//!        0       a difference: the index of the node that put what follows, from the one before or 0; then a key
//!        1       three lengths (in common with the key or value before: at the beginning, at the end; between), bytes
//!        2, 3    the same, the bytes being pairs of hexadecimal digits, small or capital
//!        4       the next pattern: how many numbers it has, lengths and bytes of the texts before, between and behind
//!                them; then as below
//!        5 + i   pattern i: for each number its difference from that of the last item of this pattern, or 0
//! ```
//!
//! Numbers are as in [`number`]. A body stands alone, as frames come in any order. A pattern is said when it comes the
//! second time, as most that come once do not come again. A few bytes may stand for many: whoever reads a body looks at
//! each key and value, and at the sum, before they take memory.

mod number;
mod pattern;
mod text;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use self::number::{Reader, difference, further, length, put};
use self::pattern::Pattern;
use self::text::{Form, Text};
use super::frame::PeerError;
use super::space::Put;
use crate::limits::{
    PMI_BYTES_PER_JOB_MAX, PMI_FRAME_BODY_BYTES_MAX, PMI_KEY_BYTES_MAX, PMI_KEYS_PER_JOB_MAX, PMI_PATTERNS_MAX,
    PMI_VALUE_BYTES_MAX,
};

const ORIGIN: u64 = 0;
const PLAIN: u64 = 1;
const LOWER: u64 = 2;
const UPPER: u64 = 3;
const NEW_PATTERN: u64 = 4;
const FIRST_PATTERN: u64 = 5;

/// The most that a put takes in a body, with some room: both may be told of as new patterns.
const PUT_BYTES_MAX: usize = 2 * (PMI_KEY_BYTES_MAX + PMI_VALUE_BYTES_MAX);

/// Patterns that came once which a body remembers.
const SEEN_MAX: usize = 256;

/// A pattern is said if that has paid off after so many items.
const PAYS_OFF_ITEMS: usize = 16;

/// A put: of which node, the key and the value.
pub type Card = (u32, Box<[u8]>, Box<[u8]>);

/// An item is compared with the one before it of its kind.
#[derive(Clone, Copy)]
enum Kind {
    Key,
    Value,
}

impl Kind {
    const fn bytes_max(self) -> usize {
        match self {
            Self::Key => PMI_KEY_BYTES_MAX,
            Self::Value => PMI_VALUE_BYTES_MAX,
        }
    }
}

/// What is done to make bodies short; without any of it only indices are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measures {
    /// Say patterns and numbers.
    pub patterns: bool,
    /// Leave out what begins or ends as the one before.
    pub front: bool,
    /// Pack hexadecimal digits.
    pub hexadecimal: bool,
}

impl Measures {
    /// As frames have it.
    pub const ALL: Self = Self { patterns: true, front: true, hexadecimal: true };
}

/// The bodies of as many frames as these puts need, at least one: of which node, the key and the value.
///
/// # Errors
/// [`PeerError::OutOfMemory`].
pub fn pack<'a>(
    puts: impl IntoIterator<Item = (u32, &'a [u8], &'a [u8])>,
    measures: Measures,
) -> Result<Vec<Vec<u8>>, PeerError> {
    let (mut bodies, mut puts) = (Vec::new(), puts.into_iter().peekable());
    if puts.peek().is_none() {
        // As most are: no memory is taken for one.
        return Ok(Vec::from([Vec::new()]));
    }
    let mut packer = Packer::new(measures)?;
    for (origin, key, value) in puts {
        if !packer.push(origin, key, value) {
            bodies.push(core::mem::replace(&mut packer, Packer::new(measures)?).body);
            // The longest put fits in.
            packer.push(origin, key, value);
        }
    }
    bodies.push(packer.body);
    Ok(bodies)
}

/// What is in a body, as [`pack`] has it, if that is no more than a job may put.
///
/// # Errors
/// [`PeerError::Nonsense`].
pub fn unpack(body: &[u8]) -> Result<Vec<Card>, PeerError> {
    let (mut room, mut puts) = (Room::default(), Vec::new());
    unpack_with(body, |origin, Put { key, value }| {
        room.take(key.len() + value.len())?;
        puts.push((origin, key, value));
        Ok(())
    })?;
    Ok(puts)
}

/// What a job may put beyond what was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    keys: usize,
    bytes: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { keys: PMI_KEYS_PER_JOB_MAX, bytes: PMI_BYTES_PER_JOB_MAX }
    }
}

impl Room {
    /// Takes what a key with its value needs.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), PeerError> {
        let left = self.keys.checked_sub(1).zip(self.bytes.checked_sub(bytes));
        (self.keys, self.bytes) = left.ok_or(PeerError::Nonsense("more than a job may put"))?;
        Ok(())
    }
}

/// A body in the making.
struct Packer {
    measures: Measures,
    body: Vec<u8>,
    origin: u32,
    last: [Vec<u8>; 2],
    /// Patterns that were said, by their number.
    patterns: BTreeMap<Pattern, usize>,
    /// The last numbers of each.
    numbers: Vec<Vec<u64>>,
    /// Patterns that came once.
    seen: BTreeSet<Pattern>,
}

impl Packer {
    fn new(measures: Measures) -> Result<Self, PeerError> {
        let mut body = Vec::new();
        // It is found out that a put does not fit in when it is there.
        body.try_reserve_exact(PMI_FRAME_BODY_BYTES_MAX + PUT_BYTES_MAX).map_err(|_| PeerError::OutOfMemory)?;
        Ok(Self {
            measures,
            body,
            origin: 0,
            last: [Vec::new(), Vec::new()],
            patterns: BTreeMap::new(),
            numbers: Vec::new(),
            seen: BTreeSet::new(),
        })
    }

    /// Appends a key and its value; false if they do not fit in, and then nothing else is to be appended.
    fn push(&mut self, origin: u32, key: &[u8], value: &[u8]) -> bool {
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
        let last: &[u8] = if self.measures.front { &self.last[kind as usize] } else { &[] };
        let text = Text::of(last, item, self.measures.hexadecimal);
        let split = if self.measures.patterns { Pattern::split(item) } else { None };
        if !split.is_some_and(|(pattern, numbers)| self.numbered(pattern, numbers, 1 + text.bytes())) {
            let form = match text.form {
                Form::Plain => PLAIN,
                Form::Lower => LOWER,
                Form::Upper => UPPER,
            };
            put(&mut self.body, form);
            text.put(&mut self.body);
        }
        let last = &mut self.last[kind as usize];
        last.clear();
        last.extend_from_slice(item);
    }

    /// Appends an item as a pattern's, if that is shorter than so many bytes, or will be for the next.
    fn numbered(&mut self, pattern: Pattern, numbers: Vec<u64>, text_bytes: usize) -> bool {
        let differences = |from: &[u64]| -> Vec<u64> {
            let from = from.iter().copied().chain(core::iter::repeat(0));
            from.zip(&numbers).map(|(from, to)| difference(from, *to)).collect()
        };
        let bytes =
            |head: u64, differences: &[u64]| length(head) + differences.iter().copied().map(length).sum::<usize>();
        if let Some(index) = self.patterns.get(&pattern).copied() {
            let head = FIRST_PATTERN + index as u64;
            let Some(before) = self.numbers.get_mut(index) else { return false };
            let differences = differences(before);
            if bytes(head, &differences) >= text_bytes {
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
        let differences = differences(&[]);
        let mut said = Vec::new();
        pattern.put(&mut said);
        let saved = text_bytes.saturating_sub(bytes(NEW_PATTERN, &differences));
        if self.numbers.len() == PMI_PATTERNS_MAX || said.len() > PAYS_OFF_ITEMS * saved {
            return false;
        }
        put(&mut self.body, NEW_PATTERN);
        self.body.append(&mut said);
        self.put_all(&differences);
        self.patterns.insert(pattern, self.numbers.len());
        self.numbers.push(numbers);
        true
    }

    fn put_all(&mut self, differences: &[u64]) {
        differences.iter().for_each(|difference| put(&mut self.body, *difference));
    }
}

/// Gives what is in a body to `take`, one put after the other, each within the limits, until that is an error.
///
/// # Errors
/// [`PeerError::Nonsense`]: some may have been given before that; and what `take` says.
pub(super) fn unpack_with(
    body: &[u8],
    mut take: impl FnMut(u32, Put) -> Result<(), PeerError>,
) -> Result<(), PeerError> {
    let nonsense = PeerError::Nonsense("body");
    let (mut reader, mut items) = (Reader(body), Items::default());
    let mut origin = 0_u32;
    while !reader.is_empty() {
        let mut head = reader.number().ok_or(nonsense)?;
        if head == ORIGIN {
            let index = further(origin.into(), reader.number().ok_or(nonsense)?);
            origin = index.try_into().map_err(|_| nonsense)?;
            head = reader.number().ok_or(nonsense)?;
        }
        let key = items.item(&mut reader, head, Kind::Key).ok_or(nonsense)?;
        let head = reader.number().ok_or(nonsense)?;
        let value = items.item(&mut reader, head, Kind::Value).ok_or(nonsense)?;
        let entry = Put { key, value };
        if !entry.is_within_limits() {
            return Err(nonsense);
        }
        take(origin, entry)?;
    }
    Ok(())
}

/// What was read of a body.
#[derive(Default)]
struct Items {
    last: [Vec<u8>; 2],
    /// Patterns, and the last numbers of each.
    patterns: Vec<(Pattern, Vec<u64>)>,
}

impl Items {
    fn item(&mut self, reader: &mut Reader<'_>, head: u64, kind: Kind) -> Option<Box<[u8]>> {
        let last = &mut self.last[kind as usize];
        let form = match head {
            ORIGIN => return None,
            PLAIN => Some(Form::Plain),
            LOWER => Some(Form::Lower),
            UPPER => Some(Form::Upper),
            _ => None,
        };
        *last = match form {
            Some(form) => Text::read(reader, form, last, kind.bytes_max())?,
            None => {
                let mut index = head.checked_sub(FIRST_PATTERN).and_then(|index| usize::try_from(index).ok());
                if head == NEW_PATTERN {
                    if self.patterns.len() == PMI_PATTERNS_MAX {
                        return None;
                    }
                    index = Some(self.patterns.len());
                    let pattern = Pattern::read(reader)?;
                    let numbers = alloc::vec![0; pattern.numbers()];
                    self.patterns.push((pattern, numbers));
                }
                let (pattern, numbers) = self.patterns.get_mut(index?)?;
                for number in numbers.iter_mut() {
                    *number = further(*number, reader.number()?);
                }
                pattern.fill(numbers, kind.bytes_max())?
            }
        };
        Some(Box::from(last.as_slice()))
    }
}
