//! Keys and values by what they have in common with the last of a row, how they begin and how they end, and the bytes
//! between.

use alloc::vec::Vec;

use super::digits::Form;
use super::number::{Reader, length, put};

/// What is to be written of a key or a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    /// Which row it is like, if it is like one.
    row: Option<usize>,
    pub(super) form: Form,
    prefix: usize,
    suffix: usize,
    middle: &'a [u8],
}

impl<'a> Text<'a> {
    /// Of one that is like the last of a row, or like nothing.
    pub(super) fn of(row: Option<(usize, &[u8])>, item: &'a [u8], may_pack: bool) -> Self {
        let (row, last) = row.map_or((None, &[][..]), |(row, last)| (Some(row), last));
        let alike = |(one, other): &(&u8, &u8)| one == other;
        let prefix = last.iter().zip(item).take_while(alike).count();
        let rest = last.len().min(item.len()) - prefix;
        let suffix = last.iter().rev().zip(item.iter().rev()).take(rest).take_while(alike).count();
        let with = |form, prefix: usize| Self {
            row,
            form,
            prefix,
            suffix,
            middle: item.get(prefix..item.len() - suffix).unwrap_or_default(),
        };
        // An odd number of digits may be even with one that is the same.
        let even = prefix.saturating_sub((item.len() - prefix - suffix) % 2);
        match Form::of(with(Form::Plain, even).middle) {
            form @ (Form::Lower | Form::Upper) if may_pack => with(form, even),
            _ => with(Form::Plain, prefix),
        }
    }

    fn middle_bytes(&self) -> usize {
        self.form.packed(self.middle.len())
    }

    /// The numbers of it: which row, from 1, and how much of its last; or 0. Then how much there is between.
    fn said(&self, mut say: impl FnMut(u64)) {
        match self.row {
            Some(row) => [row + 1, self.prefix, self.suffix].into_iter().for_each(|number| say(number as u64)),
            None => say(0),
        }
        say(self.middle_bytes() as u64);
    }

    /// How many bytes it takes, without its form.
    pub(super) fn bytes(&self) -> usize {
        let mut bytes = self.middle_bytes();
        self.said(|number| bytes += length(number));
        bytes
    }

    /// Appends it to a body, without its form.
    pub(super) fn put(&self, body: &mut Vec<u8>) {
        self.said(|number| put(body, number));
        self.form.put(self.middle, body);
    }

    /// One from a body; nothing longer than that. `last` knows the last of a row.
    pub(super) fn read<'b>(
        reader: &mut Reader<'_>,
        form: Form,
        last: impl FnOnce(usize) -> Option<&'b [u8]>,
        bytes_max: usize,
    ) -> Option<Vec<u8>> {
        let (prefix, suffix) = match reader.size()?.checked_sub(1) {
            None => Default::default(),
            Some(row) => {
                let (last, prefix, suffix) = (last(row)?, reader.size()?, reader.size()?);
                (last.get(..prefix)?, last.get(last.len().checked_sub(suffix)?..)?)
            }
        };
        let middle = reader.size()?;
        let middle = reader.bytes(middle)?;
        let end = prefix.len() + form.unpacked(middle.len());
        // The three are no longer than a body and two items.
        if end + suffix.len() > bytes_max {
            return None;
        }
        let mut item = prefix.to_vec();
        item.resize(end, 0);
        form.read(middle, item.get_mut(prefix.len()..)?);
        item.extend_from_slice(suffix);
        Some(item)
    }
}
