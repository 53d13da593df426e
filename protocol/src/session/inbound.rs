//! What comes in: puts frames together from any split of the stream, each byte copied once to where it stays.
//!
//! Nothing is allocated for a frame before its header was admitted, and nothing beyond what it announces. Nothing is
//! kept of a frame that was handed on but its header.

use alloc::vec::Vec;

use crate::frame::{self, DIGEST_BYTES, HEADER_BYTES, Header, MAC_BYTES, PREFIX_BYTES};
use crate::session::error::SessionError;

/// A frame under way or complete.
#[derive(Debug)]
pub(crate) struct Partial {
    pub(crate) header: Header,
    /// The header's bytes, for the MAC.
    pub(crate) encoded: [u8; HEADER_BYTES],
    pub(crate) mac: [u8; MAC_BYTES],
    /// With the digest of the bulk bytes behind it until that was taken off.
    pub(crate) body: Vec<u8>,
    /// The digest of the bulk bytes, where there is one.
    pub(crate) digest: Option<[u8; DIGEST_BYTES]>,
    pub(crate) bulk: Vec<u8>,
}

impl Partial {
    /// Takes the digest off the body.
    fn split_digest(&mut self) {
        if let Some((body, digest)) = self.body.split_last_chunk()
            && body.len() == self.header.body_bytes
        {
            self.digest = Some(*digest);
            self.body.truncate(self.header.body_bytes);
        }
    }
}

#[derive(Debug)]
enum Stage {
    Header,
    Body(Partial),
    Bulk(Partial),
}

/// Puts frames together.
#[derive(Debug)]
pub(crate) struct Inbound {
    header: [u8; HEADER_BYTES],
    /// Bytes of `header` that are there.
    filled: usize,
    stage: Stage,
}

/// What the session has to look at before more bytes are taken.
pub(crate) trait Gate {
    /// A header arrived; nothing was allocated for the frame yet.
    fn admit(&self, header: &Header) -> Result<(), SessionError>;
    /// Whether a digest of its bulk bytes comes between a frame's body and them.
    fn has_digest(&self, header: &Header) -> bool;
    /// Header, body and digest are there; nothing was allocated for the bulk bytes yet.
    fn check_body(&self, partial: &Partial) -> Result<(), SessionError>;
}

impl Inbound {
    pub(crate) const fn new() -> Self {
        Self { header: [0; HEADER_BYTES], filled: 0, stage: Stage::Header }
    }

    /// Bytes of a frame that are there while the rest is not.
    pub(crate) fn buffered_bytes(&self) -> usize {
        match &self.stage {
            Stage::Header => self.filled,
            Stage::Body(partial) | Stage::Bulk(partial) => {
                let digest = if partial.digest.is_some() { DIGEST_BYTES } else { 0 };
                HEADER_BYTES + partial.body.len() + digest + partial.bulk.len()
            }
        }
    }

    /// Takes bytes off the front of `bytes` until a frame is complete or no bytes are left.
    pub(crate) fn advance(&mut self, bytes: &mut &[u8], gate: &impl Gate) -> Result<Option<Partial>, SessionError> {
        loop {
            match core::mem::replace(&mut self.stage, Stage::Header) {
                Stage::Header => match self.take_header(bytes)? {
                    Some((header, mac)) => {
                        gate.admit(&header)?;
                        let body = reserve(body_bytes(&header, gate))?;
                        let (digest, bulk) = (None, Vec::new());
                        let partial = Partial { header, encoded: self.header, mac, body, digest, bulk };
                        self.stage = Stage::Body(partial);
                    }
                    None => return Ok(None),
                },
                Stage::Body(mut partial) => {
                    if !fill(&mut partial.body, body_bytes(&partial.header, gate), bytes) {
                        self.stage = Stage::Body(partial);
                        return Ok(None);
                    }
                    gate.check_body(&partial)?;
                    partial.split_digest();
                    partial.bulk = reserve(partial.header.bulk_bytes)?;
                    self.stage = Stage::Bulk(partial);
                }
                Stage::Bulk(mut partial) => {
                    if !fill(&mut partial.bulk, partial.header.bulk_bytes, bytes) {
                        self.stage = Stage::Bulk(partial);
                        return Ok(None);
                    }
                    return Ok(Some(partial));
                }
            }
        }
    }

    fn take_header(&mut self, bytes: &mut &[u8]) -> Result<Option<(Header, [u8; MAC_BYTES])>, SessionError> {
        let before = self.filled;
        let (taken, rest) = bytes.split_at(bytes.len().min(HEADER_BYTES - self.filled));
        self.header[self.filled..self.filled + taken.len()].copy_from_slice(taken);
        self.filled += taken.len();
        *bytes = rest;
        if before < PREFIX_BYTES
            && self.filled >= PREFIX_BYTES
            && let Some(prefix) = self.header.first_chunk()
        {
            frame::check_prefix(prefix)?;
        }
        if self.filled < HEADER_BYTES {
            return Ok(None);
        }
        self.filled = 0;
        Ok(Some(Header::parse(&self.header)?))
    }
}

/// Length of a frame's body with the digest behind it.
fn body_bytes(header: &Header, gate: &impl Gate) -> usize {
    header.body_bytes + if gate.has_digest(header) { DIGEST_BYTES } else { 0 }
}

/// An empty vector with room for exactly `length` bytes.
fn reserve(length: usize) -> Result<Vec<u8>, SessionError> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| SessionError::OutOfMemory(length))?;
    Ok(bytes)
}

/// Moves bytes to `target` until it has `length`, and says whether it has.
fn fill(target: &mut Vec<u8>, length: usize, bytes: &mut &[u8]) -> bool {
    let (taken, rest) = bytes.split_at(bytes.len().min(length - target.len()));
    target.extend_from_slice(taken);
    *bytes = rest;
    target.len() == length
}
