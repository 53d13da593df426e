//! Keys and values by what they have in common with the one before: how it begins, how it ends, and the bytes between.
//! Those are packed two hexadecimal digits a byte where they are nothing else.

use alloc::vec::Vec;

use super::number::{Reader, length, put};

/// Fewer digits are not packed.
const DIGITS_MIN: usize = 8;

/// How the bytes between are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    /// As hexadecimal digits, those beyond 9 small.
    Lower,
    /// The same in capitals.
    Upper,
}

/// What is to be written of a key or a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    pub(super) form: Form,
    prefix: usize,
    suffix: usize,
    middle: &'a [u8],
}

impl<'a> Text<'a> {
    /// Of one that comes after `last`.
    pub(super) fn of(last: &[u8], item: &'a [u8], may_pack: bool) -> Self {
        let alike = |(one, other): &(&u8, &u8)| one == other;
        let prefix = last.iter().zip(item).take_while(alike).count();
        let rest = last.len().min(item.len()) - prefix;
        let suffix = last.iter().rev().zip(item.iter().rev()).take(rest).take_while(alike).count();
        let with = |form, prefix: usize| Self {
            form,
            prefix,
            suffix,
            middle: item.get(prefix..item.len() - suffix).unwrap_or_default(),
        };
        // An odd number of digits may be even with one that is the same.
        let even = prefix.saturating_sub((item.len() - prefix - suffix) % 2);
        match hexadecimal(with(Form::Plain, even).middle) {
            Some(form) if may_pack => with(form, even),
            _ => with(Form::Plain, prefix),
        }
    }

    fn middle_bytes(&self) -> usize {
        if self.form == Form::Plain { self.middle.len() } else { self.middle.len() / 2 }
    }

    /// How many bytes it takes, without its form.
    pub(super) fn bytes(&self) -> usize {
        let lengths = [self.prefix, self.suffix, self.middle_bytes()];
        lengths.into_iter().map(|bytes| length(bytes as u64)).sum::<usize>() + self.middle_bytes()
    }

    /// Appends it to a body, without its form.
    pub(super) fn put(&self, body: &mut Vec<u8>) {
        for bytes in [self.prefix, self.suffix, self.middle_bytes()] {
            put(body, bytes as u64);
        }
        if self.form == Form::Plain {
            body.extend_from_slice(self.middle);
            return;
        }
        let value = |digit: &u8| (*digit as char).to_digit(16).unwrap_or_default() as u8;
        let (pairs, _) = self.middle.as_chunks::<2>();
        body.extend(pairs.iter().map(|[high, low]| value(high) << 4 | value(low)));
    }

    /// What comes after `last`, from a body; nothing longer than that.
    pub(super) fn read(reader: &mut Reader<'_>, form: Form, last: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
        let (prefix, suffix, middle) = (reader.size()?, reader.size()?, reader.size()?);
        let prefix = last.get(..prefix)?;
        let suffix = last.get(last.len().checked_sub(suffix)?..)?;
        let middle = reader.bytes(middle)?;
        let digits = if form == Form::Plain { middle.len() } else { 2 * middle.len() };
        // The three are no longer than a body and two items.
        if prefix.len() + digits + suffix.len() > bytes_max {
            return None;
        }
        let mut item = prefix.to_vec();
        match form {
            Form::Plain => item.extend_from_slice(middle),
            Form::Lower => item.extend(middle.iter().flat_map(|byte| digits_of(*byte, b"0123456789abcdef"))),
            Form::Upper => item.extend(middle.iter().flat_map(|byte| digits_of(*byte, b"0123456789ABCDEF"))),
        }
        item.extend_from_slice(suffix);
        Some(item)
    }
}

fn digits_of(byte: u8, digits: &[u8; 16]) -> [u8; 2] {
    [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]
}

/// What kind of hexadecimal digits bytes are, if they are to be packed.
fn hexadecimal(bytes: &[u8]) -> Option<Form> {
    if bytes.len() < DIGITS_MIN || bytes.len() % 2 == 1 {
        return None;
    }
    let all = |is: fn(&u8) -> bool| bytes.iter().all(|byte| byte.is_ascii_digit() || is(byte));
    if all(|byte| (b'a'..=b'f').contains(byte)) {
        Some(Form::Lower)
    } else if all(|byte| (b'A'..=b'F').contains(byte)) {
        Some(Form::Upper)
    } else {
        None
    }
}
