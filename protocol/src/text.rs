//! Text that is bytes: paths, arguments and variables are any bytes but zeros on Linux, and mostly UTF-8.
//!
//! In a message between nodes and host a [`ByteString`] is what a string would be, without having to be UTF-8. In JSON
//! it is a string if it is UTF-8, and else an object with its bytes in hexadecimal: `{"bytes":"66ff6f"}`. No UTF-8 text
//! is ever written that way, though it may be read. People are shown it escaped ([`Shown`]).

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Unexpected, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// Text that need not be UTF-8.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteString(Vec<u8>);

impl ByteString {
    /// Nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its bytes, without a copy.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The same as a string, if it is UTF-8.
    #[must_use]
    pub fn to_str(&self) -> Option<&str> {
        core::str::from_utf8(&self.0).ok()
    }
}

impl Deref for ByteString {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for ByteString {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<&[u8]> for ByteString {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_owned())
    }
}

impl From<String> for ByteString {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl From<&str> for ByteString {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_owned())
    }
}

impl PartialEq<str> for ByteString {
    fn eq(&self, text: &str) -> bool {
        self.0 == text.as_bytes()
    }
}

impl PartialEq<&str> for ByteString {
    fn eq(&self, text: &&str) -> bool {
        self.0 == text.as_bytes()
    }
}

impl fmt::Display for ByteString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Shown(&self.0).fmt(f)
    }
}

impl fmt::Debug for ByteString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", Shown(&self.0))
    }
}

/// Bytes as people are shown them: within one line, and with nothing in them that a terminal obeys. What cannot be
/// printed is escaped as in Rust's strings: `\n`, `\u{1b}`, and `\xff` for a byte that is not UTF-8; so is `\` itself.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            // Quotation marks are as harmless as letters.
            for piece in chunk.valid().split_inclusive(['\'', '"']) {
                let text = piece.strip_suffix(['\'', '"']).unwrap_or(piece);
                write!(f, "{}{}", text.escape_debug(), &piece[text.len()..])?;
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// The key of the object that stands in JSON for what is not UTF-8.
const BYTES: &str = "bytes";

/// Bytes in hexadecimal.
struct Hexadecimal<'a>(&'a [u8]);

impl Serialize for Hexadecimal<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Hexadecimal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn parse_hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| u8::try_from(value(*high)? * 16 + value(*low)?).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

impl Serialize for ByteString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return serializer.serialize_bytes(&self.0);
        }
        match self.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry(BYTES, &Hexadecimal(&self.0))?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for ByteString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(Reader)
        } else {
            deserializer.deserialize_byte_buf(Reader)
        }
    }
}

/// Reads either form.
struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = ByteString;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, or {\"bytes\": \"…\"} with hexadecimal digits")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ByteString, E> {
        Ok(text.into())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<ByteString, E> {
        Ok(text.into())
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<ByteString, E> {
        Ok(bytes.into())
    }

    fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<ByteString, E> {
        Ok(bytes.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ByteString, A::Error> {
        let Some((key, digits)) = map.next_entry::<String, String>()? else {
            return Err(Error::missing_field(BYTES));
        };
        if key != BYTES || map.next_key::<String>()?.is_some() {
            return Err(Error::invalid_value(Unexpected::Map, &self));
        }
        let bytes = parse_hexadecimal(&digits);
        bytes.map(ByteString).ok_or_else(|| Error::invalid_value(Unexpected::Str(&digits), &self))
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{ByteString, Shown};

    #[test]
    fn what_can_be_printed_is_shown_as_it_is_and_the_rest_escaped() {
        let shown = |bytes: &[u8]| Shown(bytes).to_string();
        assert_eq!(shown("a b/ü/日本 it's \"so\"".as_bytes()), "a b/ü/日本 it's \"so\"");
        assert_eq!(shown(b"a\nb\x1b[31m\x7f"), "a\\nb\\u{1b}[31m\\u{7f}");
        assert_eq!(shown(b"\xff\\xff"), "\\xff\\\\xff");
        assert_eq!(shown("\u{202e}\u{9b}".as_bytes()), "\\u{202e}\\u{9b}");
        assert_eq!(shown(b"'\xc3'"), "'\\xc3'");
        assert_eq!(format!("{:?}", ByteString::from("a\n")), "\"a\\n\"");
    }

    #[test]
    fn in_a_message_it_is_what_a_string_is() {
        let text = "/a/ü";
        assert_eq!(postcard::to_allocvec(&ByteString::from(text)), postcard::to_allocvec(text));
    }

    proptest! {
        #[test]
        fn any_bytes_go_through_a_message(bytes in any::<Vec<u8>>()) {
            let text = ByteString::from(bytes);
            let message = postcard::to_allocvec(&text).unwrap();
            prop_assert_eq!(postcard::from_bytes::<ByteString>(&message).unwrap(), text);
        }

        #[test]
        fn what_is_shown_is_harmless_and_says_which_bytes(one in any::<Vec<u8>>(), other in any::<Vec<u8>>()) {
            let shown: String = Shown(&one).to_string();
            prop_assert!(!shown.chars().any(char::is_control), "{shown:?}");
            prop_assert_eq!(shown == Shown(&other).to_string(), one == other);
        }
    }
}
