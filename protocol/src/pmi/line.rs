//! Lines out of bytes: a rank's words end with `\n` and come in any pieces.
//!
//! A line is a list of `key=value` separated by spaces; a value ends at a space. That is how MPICH's
//! `PMIU_parse_keyvals` reads it, too. Of a key that comes twice the first counts.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::limits::PMI_LINE_BYTES_MAX;

/// Puts lines together.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Lines {
    /// The start of a line whose end has not come, at most [`PMI_LINE_BYTES_MAX`] bytes.
    partial: Vec<u8>,
    /// The line that comes is too long: its bytes are dropped.
    is_too_long: bool,
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line, without its end.
    Whole(Vec<u8>),
    /// One of more than [`PMI_LINE_BYTES_MAX`] bytes.
    TooLong,
}

impl Lines {
    /// Takes bytes off the front of `bytes` until a line is whole or no bytes are left.
    pub(crate) fn advance(&mut self, bytes: &mut &[u8]) -> Option<Line> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
        *bytes = rest;
        if self.partial.len() + piece.len() > PMI_LINE_BYTES_MAX {
            self.is_too_long = true;
            self.partial.clear();
        }
        if !self.is_too_long {
            self.partial.extend_from_slice(piece);
        }
        end?;
        *bytes = rest.get(1..).unwrap_or_default();
        let whole = core::mem::take(&mut self.partial);
        Some(if core::mem::take(&mut self.is_too_long) { Line::TooLong } else { Line::Whole(whole) })
    }
}

/// The words of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn of(line: &'a [u8]) -> Self {
        Self(line)
    }

    /// Whether there is nothing on the line.
    pub(crate) fn is_blank(self) -> bool {
        self.words().next().is_none()
    }

    /// Whether all of it are keys with values, without a zero byte: that would end a text of C's.
    pub(crate) fn is_well_formed(self) -> bool {
        !self.0.contains(&0) && self.words().all(|word| split(word).is_some())
    }

    /// The value of a key.
    pub(crate) fn get(self, key: &[u8]) -> Option<&'a [u8]> {
        self.words().filter_map(split).find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// The value of a key as a number.
    pub(crate) fn number<T: core::str::FromStr>(self, key: &[u8]) -> Option<T> {
        core::str::from_utf8(self.get(key)?).ok()?.parse().ok()
    }

    /// All that stands behind `key=`, spaces too.
    pub(crate) fn rest(self, key: &[u8]) -> Option<&'a [u8]> {
        let mut line = self.0;
        loop {
            if let Some(rest) = line.strip_prefix(key).and_then(|behind| behind.strip_prefix(b"=")) {
                return Some(rest);
            }
            let space = line.iter().position(|byte| *byte == b' ')?;
            line = line.get(space + 1..)?;
        }
    }

    fn words(self) -> impl Iterator<Item = &'a [u8]> {
        self.0.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
    }
}

/// Key and value of a word.
fn split(word: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = word.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
    Some((word.get(..equals)?, word.get(equals + 1..)?))
}
