//! Inputs as text: each line ends with the bytes in hexadecimal, and what is before them says what they are.

/// The inputs of a text. Lines that end with something else are passed over.
pub(crate) fn inputs(text: &str) -> impl Iterator<Item = Vec<u8>> {
    text.lines().filter_map(|line| line.split_whitespace().next_back()).filter_map(from_hex)
}

/// The bytes that hexadecimal digits stand for; `None` if that is something else.
#[must_use]
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Bytes as hexadecimal digits.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
