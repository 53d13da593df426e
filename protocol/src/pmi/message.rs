//! Messages of PMI version 2 out of bytes and into them: six characters say how many bytes follow, and those are
//! `key=value;` again and again, the first of them `cmd`. A `;` in a value is written twice.
//!
//! As MPICH's `simple2pmi.c` (`PMIi_ReadCommand`, `PMIi_WriteSimpleCommand`) has it. Of a key that comes twice the
//! first counts.
//!
//! **Tails.** That client, as MPICH 4.0 has it, counts the characters of the length, too, and sends as many bytes more
//! than it has written: whatever its stack has there. Which client speaks is seen at its first message
//! ([`has_tail`]); no other message shows it for certain, as what is behind one may look like anything.

use alloc::vec::Vec;
use core::fmt::{self, Write};

use serde::{Deserialize, Serialize};

use crate::limits::PMI_LONG_MESSAGE_BYTES_MAX;

/// Characters that say how long a message is.
const LENGTH_BYTES: usize = 6;

/// Puts messages together.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Messages {
    /// The start of one whose end has not come: its length, then what it says, of which at most
    /// [`PMI_LONG_MESSAGE_BYTES_MAX`] bytes are kept.
    partial: Vec<u8>,
    /// Bytes of it that are to come, once its length is known.
    left: Option<usize>,
    is_too_long: bool,
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A message, without its length.
    Whole(Vec<u8>),
    /// The beginning of one of more than [`PMI_LONG_MESSAGE_BYTES_MAX`] bytes.
    TooLong(Vec<u8>),
    /// No length: nobody knows where the next one begins.
    Nonsense,
}

impl Messages {
    /// Takes bytes off the front of `bytes` until a message is whole or no bytes are left.
    pub(super) fn advance(&mut self, bytes: &mut &[u8]) -> Option<Message> {
        if self.left.is_none() {
            let wanted = LENGTH_BYTES.saturating_sub(self.partial.len());
            let (piece, rest) = bytes.split_at(wanted.min(bytes.len()));
            *bytes = rest;
            self.partial.extend_from_slice(piece);
            if self.partial.len() < LENGTH_BYTES {
                return None;
            }
            let length = length(&core::mem::take(&mut self.partial));
            if length.is_none() {
                return Some(Message::Nonsense);
            }
            self.left = length;
        }
        let left = self.left?;
        let (piece, rest) = bytes.split_at(left.min(bytes.len()));
        *bytes = rest;
        let room = PMI_LONG_MESSAGE_BYTES_MAX.saturating_sub(self.partial.len());
        self.is_too_long |= piece.len() > room;
        self.partial.extend_from_slice(piece.get(..room).unwrap_or(piece));
        self.left = Some(left - piece.len());
        if left > piece.len() {
            return None;
        }
        self.left = None;
        let whole = core::mem::take(&mut self.partial);
        Some(if core::mem::take(&mut self.is_too_long) { Message::TooLong(whole) } else { Message::Whole(whole) })
    }
}

/// A number between spaces.
fn length(bytes: &[u8]) -> Option<usize> {
    let digits = bytes.trim_ascii();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    core::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

/// Whether the bytes at the end of a first message, as many as a length has characters, belong to no message of this
/// client's: what is before them ends as MPICH's `fullinit` does.
pub(super) fn has_tail(first: &[u8]) -> bool {
    let text = without_tail(first);
    [&b";threaded=TRUE;"[..], b";threaded=FALSE;"].iter().any(|end| text.ends_with(end))
}

/// A message without them.
pub(super) fn without_tail(message: &[u8]) -> &[u8] {
    message.get(..message.len().saturating_sub(LENGTH_BYTES)).unwrap_or_default()
}

/// The keys and values of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pairs(Vec<(Vec<u8>, Vec<u8>)>);

impl Pairs {
    /// Those of a message, up to where it is none any more; and whether all of it is one, without a zero byte, which
    /// would end a text of C's.
    pub(super) fn of(message: &[u8]) -> (Self, bool) {
        let (mut pairs, mut rest) = (Vec::new(), message);
        while let Some((key, behind)) = split_at(rest, b'=').filter(|(key, _)| !key.is_empty()) {
            let Some((value, behind)) = value(behind) else { break };
            if key.contains(&0) || value.contains(&0) {
                break;
            }
            pairs.push((key.to_vec(), value));
            rest = behind;
        }
        (Self(pairs), rest.is_empty())
    }

    /// All of them, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(key, value)| (&key[..], &value[..]))
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&[u8]> {
        self.0.iter().find(|(name, _)| name == key.as_bytes()).map(|(_, value)| &**value)
    }

    /// The same as a number.
    pub(super) fn number<T: core::str::FromStr>(&self, key: &str) -> Option<T> {
        core::str::from_utf8(self.get(key)?).ok()?.parse().ok()
    }

    /// The command, if it comes first.
    pub(super) fn command(&self) -> Option<&[u8]> {
        self.0.first().filter(|(key, _)| key == b"cmd").map(|(_, value)| &**value)
    }
}

fn split_at(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = bytes.iter().position(|byte| *byte == at)?;
    Some((bytes.get(..place)?, bytes.get(place + 1..)?))
}

/// A value up to its `;`, and what is behind that.
fn value(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (mut value, mut rest) = (Vec::new(), bytes);
    loop {
        let (piece, behind) = split_at(rest, b';')?;
        value.extend_from_slice(piece);
        match behind.split_first() {
            Some((b';', behind)) => {
                value.push(b';');
                rest = behind;
            }
            _ => return Some((value, behind)),
        }
    }
}

/// A message that is written.
#[derive(Debug)]
pub(super) struct Written(Vec<u8>);

impl Written {
    /// One that begins with that command.
    pub(super) fn new(command: &[u8]) -> Self {
        Self(Vec::new()).pair("cmd", command)
    }

    /// Goes on with a key and its value.
    pub(super) fn pair(mut self, key: &str, value: &[u8]) -> Self {
        self.0.extend_from_slice(key.as_bytes());
        self.0.push(b'=');
        for byte in value {
            self.0.extend_from_slice(if *byte == b';' { b";;" } else { core::slice::from_ref(byte) });
        }
        self.0.push(b';');
        self
    }

    /// The same with what is shown of something, without a `;`.
    pub(super) fn shown(mut self, key: &str, value: impl fmt::Display) -> Self {
        // Writing to a vector does not fail.
        let _ = write!(super::conversation::Text(&mut self.0), "{key}={value};");
        self
    }

    /// Adds it to bytes, with its length.
    pub(super) fn append_to(self, bytes: &mut Vec<u8>) {
        let _ = write!(super::conversation::Text(bytes), "{:>LENGTH_BYTES$}", self.0.len());
        bytes.extend_from_slice(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn messages(bytes: &[u8], piece: usize) -> Vec<Message> {
        let (mut messages, mut whole) = (Messages::default(), Vec::new());
        for mut piece in bytes.chunks(piece) {
            while !piece.is_empty() {
                whole.extend(messages.advance(&mut piece));
            }
        }
        whole
    }

    #[test]
    fn a_message_ends_where_it_says() {
        let bytes = b"     8cmd=one;10    cmd=three;     0     7cmd=x;;";
        let whole = [&b"cmd=one;"[..], b"cmd=three;", b"", b"cmd=x;;"].map(|text| Message::Whole(text.to_vec()));
        for piece in [1, 5, bytes.len()] {
            assert_eq!(messages(bytes, piece), whole);
        }
        for nonsense in [b"-00001", b"      ", b"1 2   ", b"0x0010"] {
            assert_eq!(messages(nonsense, 6), vec![Message::Nonsense]);
        }
        let long = [format_of(70_000).as_slice(), b"cmd=spawn;", &vec![b'x'; 69_990], b"     2ok"].concat();
        let [Message::TooLong(kept), Message::Whole(next)] = &messages(&long, 2048)[..] else { panic!("two") };
        assert!(kept.len() == PMI_LONG_MESSAGE_BYTES_MAX && kept.starts_with(b"cmd=spawn;xx") && next == b"ok");
    }

    fn format_of(length: usize) -> Vec<u8> {
        alloc::format!("{length:6}").into_bytes()
    }

    #[test]
    fn a_tail_shows_at_the_first_message() {
        let first = b"cmd=fullinit;pmirank=3;threaded=FALSE;";
        assert!(!has_tail(first) && !has_tail(b"") && !has_tail(b"cmd=fullinit;threaded=FALSE;key=ab;"));
        for tail in [b"\0\0\0\0\0\0", b";a=b;;", b"key=a;"] {
            let message = [&first[..], tail].concat();
            assert!(has_tail(&message) && without_tail(&message) == first);
        }
        assert_eq!(without_tail(b"abc"), b"");
    }

    #[test]
    fn pairs_end_where_the_message_is_none_any_more() {
        let text = |message: &[u8]| {
            let (pairs, is_whole) = Pairs::of(message);
            (pairs.0.len(), is_whole)
        };
        assert_eq!(text(b"cmd=put;key=a;;b=c;value=;"), (3, true));
        let (pairs, _) = Pairs::of(b"cmd=put;key=a;;b=c;;;value=;key=2;");
        assert_eq!(
            (pairs.get("key"), pairs.get("value"), pairs.get("x")),
            (Some(&b"a;b=c;"[..]), Some(&b""[..]), None)
        );
        assert_eq!((pairs.command(), pairs.number::<u32>("key")), (Some(&b"put"[..]), None));
        assert_eq!(
            (text(b""), text(b"cmd=a"), text(b"cmd=a;;"), text(b"=b;")),
            ((0, true), (0, false), (0, false), (0, false))
        );
        assert_eq!((text(b"cmd=a;key"), text(b"cmd=a;key=\0;"), text(b"hello")), ((1, false), (1, false), (0, false)));
        assert_eq!(Pairs::of(b"key=a;cmd=b;").0.command(), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(pairs in vec(("[a-z]{1,9}", vec(1_u8.., 0..40)), 0..5), piece in 1..50_usize) {
            let mut written = Written::new(b"command;");
            for (key, value) in &pairs {
                written = written.pair(key, value);
            }
            let mut bytes = Vec::new();
            written.append_to(&mut bytes);
            let read = messages(&bytes, piece);
            let [Message::Whole(message)] = &read[..] else { panic!("{read:?}") };
            let (read, is_whole) = Pairs::of(message);
            prop_assert!(is_whole);
            prop_assert_eq!(read.command(), Some(&b"command;"[..]));
            let rest: Vec<_> = read.0[1..].iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            let wanted: Vec<_> = pairs.into_iter().map(|(key, value)| (key.into_bytes(), value)).collect();
            prop_assert_eq!(rest, wanted);
        }

        #[test]
        fn anything_may_come(bytes in vec(any::<u8>(), 0..300), piece in 1..50_usize) {
            for message in messages(&bytes, piece) {
                if let Message::Whole(message) | Message::TooLong(message) = message {
                    drop(Pairs::of(&message));
                }
            }
        }
    }
}
