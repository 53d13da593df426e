//! Rows of keys or values that are alike: of each the last one is known, and in which holes it differed from the one
//! before.
//!
//! Ranks put several things each, so what comes next is rarely like what came before; but it is like what the last rank
//! put there. Nobody says what is: whatever is told by how it differs from the last of a row is the next of that row,
//! and what is not begins one. The row that was used the longest ago makes room for it. So whoever reads a body has the
//! same rows as whoever wrote it.

use alloc::vec::Vec;

use super::digits::Form;
use super::holes::Holes;
use super::number::{Reader, put};
use super::text::Text;
use super::{FILLING, HOLES, LOWER, Measures, PLAIN, UPPER};
use crate::limits::PMI_ROWS_MAX;

/// Holes that have no more bytes for nothing are not said anew.
const IDLE_MAX: usize = 4;

/// What differs from all rows in more than half of its bytes, and in more than so many, begins one.
const DIFFERING_MAX: usize = 8;

struct Row {
    last: Vec<u8>,
    holes: Holes,
    /// Whether the last one was said to have them.
    fit: bool,
}

impl Row {
    /// Its last one has other holes. Those that fit the one before are likely to fit the next, too, as when ranks of
    /// the next node begin.
    fn differs(&mut self, holes: Holes) {
        if !core::mem::take(&mut self.fit) {
            self.holes = holes;
        }
    }
}

/// See this module; the one that was used last comes first.
#[derive(Default)]
pub(super) struct Rows(Vec<Row>);

/// How the next key or value is said.
pub(super) enum Way<'a> {
    /// What is in the holes of this row.
    Filling(usize),
    /// Other holes in the last of this row, and what is in them.
    Holes(usize, Holes),
    /// What it has in common with the last of a row, or with nothing, and the rest.
    Text(Text<'a>),
}

impl Way<'_> {
    /// How many bytes the next take that differ in the same places, if places are said.
    pub(super) fn bytes_from_now_on(&self) -> Option<usize> {
        match self {
            Self::Holes(_, holes) => Some(1 + holes.filling_bytes()),
            Self::Filling(_) | Self::Text(..) => None,
        }
    }
}

impl Rows {
    /// The way that takes the fewest bytes, as far as is worth looking, and how many.
    pub(super) fn best<'a>(&self, item: &'a [u8], measures: Measures) -> (Way<'a>, usize) {
        let alike = || self.0.iter().enumerate().filter(|(_, row)| measures.holes && row.last.len() == item.len());
        for (index, Row { last, holes, .. }) in alike() {
            if holes.idle(last, item).is_some_and(|idle| idle <= IDLE_MAX) {
                return (Way::Filling(index), 1 + holes.filling_bytes());
            }
        }
        let may_pack = measures.hexadecimal;
        let text = |row| {
            let text = Text::of(row, item, may_pack);
            (Way::Text(text), 1 + text.bytes())
        };
        let mut best = text(None);
        let mut offer = |way: (Way<'a>, usize)| {
            if way.1 < best.1 {
                best = way;
            }
            best.1
        };
        let differing_max = DIFFERING_MAX.max(item.len() / 2);
        let mut bytes = usize::MAX;
        for (index, row) in alike() {
            if let Some(holes) = Holes::between(&row.last, item, may_pack, differing_max) {
                let holes_bytes = 1 + holes.bytes(item.len()) + holes.filling_bytes();
                bytes = offer((Way::Holes(index, holes), holes_bytes));
            }
        }
        if bytes > differing_max {
            let rows = match (measures.front, measures.holes) {
                (false, _) => 0,
                (true, false) => 1,
                (true, true) => PMI_ROWS_MAX,
            };
            for (index, row) in self.0.iter().take(rows).enumerate() {
                offer(text(Some((index, &row.last))));
            }
        }
        best
    }

    /// Whether it may be that only numbers make the difference.
    pub(super) fn may_be_numbered(&self, way: &Way<'_>, item: &[u8]) -> bool {
        match way {
            Way::Filling(index) => self.0.get(*index).is_some_and(|row| row.holes.are_decimal(item)),
            Way::Holes(_, holes) => holes.are_decimal(item),
            Way::Text(..) => true,
        }
    }

    /// Appends a key or a value that is said so to a body.
    pub(super) fn put(&mut self, way: Way<'_>, item: &[u8], body: &mut Vec<u8>) {
        match way {
            Way::Filling(index) => {
                put(body, FILLING + index as u64);
                if let Some(row) = self.used(index) {
                    row.holes.put_filling(item, body);
                    row.fit = true;
                    row.last.copy_from_slice(item);
                }
            }
            Way::Holes(index, holes) => {
                put(body, HOLES + index as u64);
                holes.put(item.len(), body);
                holes.put_filling(item, body);
                if let Some(row) = self.used(index) {
                    row.differs(holes);
                    row.last.copy_from_slice(item);
                }
            }
            Way::Text(text) => {
                put(
                    body,
                    match text.form {
                        Form::Plain => PLAIN,
                        Form::Lower => LOWER,
                        Form::Upper => UPPER,
                    },
                );
                text.put(body);
                self.begin(item.to_vec());
            }
        }
    }

    /// What comes next, from a body that has this before it.
    pub(super) fn read(&mut self, head: u64, reader: &mut Reader<'_>, bytes_max: usize) -> Option<&[u8]> {
        let form = match head {
            PLAIN => Form::Plain,
            LOWER => Form::Lower,
            UPPER => Form::Upper,
            _ => {
                let (index, are_said) = match head.checked_sub(HOLES) {
                    Some(index) => (index, true),
                    None => (head.checked_sub(FILLING)?, false),
                };
                let row = self.used(index.try_into().ok()?)?;
                if are_said {
                    let holes = Holes::read(reader, row.last.len())?;
                    holes.fill(reader, &mut row.last)?;
                    row.differs(holes);
                } else {
                    row.holes.fill(reader, &mut row.last)?;
                    row.fit = true;
                }
                return Some(&row.last);
            }
        };
        let last = |row: usize| Some(&self.0.get(row)?.last[..]);
        let item = Text::read(reader, form, last, bytes_max)?;
        Some(&self.begin(item)?.last)
    }

    /// A row that is used.
    fn used(&mut self, index: usize) -> Option<&mut Row> {
        self.0.get_mut(..=index)?.rotate_right(1);
        self.0.first_mut()
    }

    /// A row begins.
    fn begin(&mut self, last: Vec<u8>) -> Option<&mut Row> {
        self.0.truncate(PMI_ROWS_MAX - 1);
        self.0.insert(0, Row { last, holes: Holes::default(), fit: false });
        self.0.first_mut()
    }
}
