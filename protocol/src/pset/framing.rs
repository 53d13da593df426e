//! Messages as bytes: each with its length in front.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::MESSAGE_BYTES_MAX;

/// Why a message could not be read or written.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PsetError {
    /// Longer than [`MESSAGE_BYTES_MAX`].
    #[error("message of {0} bytes is over the limit")]
    TooLong(usize),
    /// Not a message of this protocol.
    #[error("message is damaged")]
    Damaged,
}

/// One message with its length in front.
///
/// # Errors
/// [`PsetError::TooLong`].
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, PsetError> {
    let mut bytes = postcard::to_extend(message, Vec::from([0u8; 4])).map_err(|_| PsetError::Damaged)?;
    let length = bytes.len() - 4;
    let prefix =
        u32::try_from(length).ok().filter(|_| length <= MESSAGE_BYTES_MAX).ok_or(PsetError::TooLong(length))?;
    bytes[..4].copy_from_slice(&prefix.to_le_bytes());
    Ok(bytes)
}

/// Takes the first whole message off `buffer`, if there is one, and says how many bytes it took.
///
/// # Errors
/// [`PsetError`]; the connection is then of no more use.
pub fn decode<'a, T: Deserialize<'a>>(buffer: &'a [u8]) -> Result<Option<(T, usize)>, PsetError> {
    let Some((prefix, rest)) = buffer.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*prefix) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(PsetError::TooLong(length));
    }
    let Some(body) = rest.get(..length) else {
        return Ok(None);
    };
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(Some((message, 4 + length))),
        _ => Err(PsetError::Damaged),
    }
}
