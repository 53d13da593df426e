//! What clients write, read back: OpenPMIx's *bfrops* without descriptions (`PMIX_BFROP_BUFFER_NON_DESC`).
//!
//! Everything that is packed by a call of its own begins with how many values it is ([`Reader::packed`]).

use super::dialect::Dialect;
use super::kind::{Kind, WIDE_SIZE, WIDE_WORD};
use super::status::Status;

/// Takes values off the front of some bytes.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    dialect: Dialect,
}

/// A process, or all of a name space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process<'a> {
    /// The name space.
    pub space: &'a [u8],
    /// Its rank there, or one of [`super::rank`].
    pub rank: u32,
}

/// A directive of a call, or a key with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Of which type its value is.
    pub kind: Kind,
    /// The value.
    pub value: &'a [u8],
}

/// What was read, or why it cannot be.
pub type Read<T> = Result<T, Status>;

impl<'a> Reader<'a> {
    /// Of these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8], dialect: Dialect) -> Self {
        Self { bytes, dialect }
    }

    /// The bytes that are left.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether none is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next bytes.
    ///
    /// # Errors
    /// [`Status::UNPACK_FAILURE`]: there are fewer. So with everything that follows.
    pub fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(Status::UNPACK_FAILURE)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or(Status::UNPACK_FAILURE)?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// `PMIX_BYTE`, and all that is one.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn byte(&mut self) -> Read<u8> {
        self.array().map(|[byte]| byte)
    }

    /// Seven bits in each byte, least significant first, the eighth says that there is more; a ninth byte is whole.
    fn flex(&mut self) -> Read<u64> {
        let mut value = 0_u64;
        for place in 0..8 {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Ok(value | u64::from(self.byte()?) << 56)
    }

    /// A number without a sign of at most so many bits.
    fn unsigned(&mut self, bits: u32) -> Read<u64> {
        match self.dialect {
            Dialect::Short => self.flex().and_then(|value| {
                if value.checked_shr(bits).unwrap_or(0) == 0 { Ok(value) } else { Err(Status::UNPACK_FAILURE) }
            }),
            Dialect::Wide => match bits {
                16 => self.array().map(|bytes| u16::from_be_bytes(bytes).into()),
                32 => self.array().map(|bytes| u32::from_be_bytes(bytes).into()),
                _ => self.array().map(u64::from_be_bytes),
            },
        }
    }

    /// `PMIX_UINT16`.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn u16(&mut self) -> Read<u16> {
        self.unsigned(16).map(|value| value as u16)
    }

    /// `PMIX_UINT32`, and a rank.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn u32(&mut self) -> Read<u32> {
        self.unsigned(32).map(|value| value as u32)
    }

    /// `PMIX_UINT64`.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn u64(&mut self) -> Read<u64> {
        self.unsigned(64)
    }

    /// A number with a sign.
    fn signed(&mut self, bits: u32) -> Read<i64> {
        match self.dialect {
            Dialect::Short => self.flex().map(|value| (value >> 1).cast_signed() ^ -((value & 1).cast_signed())),
            Dialect::Wide => match bits {
                16 => self.array().map(|bytes| i16::from_be_bytes(bytes).into()),
                32 => self.array().map(|bytes| i32::from_be_bytes(bytes).into()),
                _ => self.array().map(i64::from_be_bytes),
            },
        }
    }

    /// `PMIX_INT16`.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn i16(&mut self) -> Read<i16> {
        self.signed(16).and_then(|value| value.try_into().map_err(|_| Status::UNPACK_FAILURE))
    }

    /// `PMIX_INT32`, and a status.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn i32(&mut self) -> Read<i32> {
        self.signed(32).and_then(|value| value.try_into().map_err(|_| Status::UNPACK_FAILURE))
    }

    /// `PMIX_INT64`.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn i64(&mut self) -> Read<i64> {
        self.signed(64)
    }

    /// A number that says its type in one dialect: it has to be the one that it is on every machine of this kind.
    fn described(&mut self, kind: Kind) -> Read<()> {
        if self.dialect == Dialect::Short || Kind(self.u16()?) == kind { Ok(()) } else { Err(Status::UNPACK_FAILURE) }
    }

    /// `PMIX_SIZE`.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn size(&mut self) -> Read<usize> {
        self.described(WIDE_SIZE)?;
        self.u64().and_then(|size| size.try_into().map_err(|_| Status::UNPACK_FAILURE))
    }

    /// `PMIX_INT`.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn int(&mut self) -> Read<i32> {
        self.described(WIDE_WORD)?;
        self.i32()
    }

    /// How many values there are of what was packed by one call.
    ///
    /// # Errors
    /// [`Status::UNPACK_FAILURE`]: not as many as there have to be.
    pub fn packed(&mut self, count: usize) -> Read<()> {
        if usize::try_from(self.i32()?) == Ok(count) { Ok(()) } else { Err(Status::UNPACK_FAILURE) }
    }

    /// `PMIX_STRING`: without the zero byte at its end; nothing if there is none.
    ///
    /// # Errors
    /// [`Status::UNPACK_FAILURE`]: it has no end, or one in its middle.
    pub fn text(&mut self) -> Read<&'a [u8]> {
        let length = usize::try_from(self.i32()?).map_err(|_| Status::UNPACK_FAILURE)?;
        match self.take(length)?.split_last() {
            None => Ok(&[]),
            Some((0, text)) if !text.contains(&0) => Ok(text),
            Some(_) => Err(Status::UNPACK_FAILURE),
        }
    }

    /// `PMIX_BYTE_OBJECT`.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn object(&mut self) -> Read<&'a [u8]> {
        let length = self.size()?;
        self.take(length)
    }

    /// `PMIX_PROC`.
    ///
    /// # Errors
    /// As [`Self::text`].
    pub fn process(&mut self) -> Read<Process<'a>> {
        Ok(Process { space: self.text()?, rank: self.u32()? })
    }

    /// A value of this type, as its bytes.
    ///
    /// # Errors
    /// [`Status::UNPACK_FAILURE`]; [`Status::UNKNOWN_DATA_TYPE`].
    pub fn value(&mut self, kind: Kind) -> Read<&'a [u8]> {
        let all = self.bytes;
        kind.skip(self)?;
        all.get(..all.len() - self.bytes.len()).ok_or(Status::UNPACK_FAILURE)
    }

    /// `PMIX_INFO`.
    ///
    /// # Errors
    /// As [`Self::value`].
    pub fn info(&mut self) -> Read<Info<'a>> {
        let key = self.text()?;
        self.u32()?;
        let kind = Kind(self.u16()?);
        Ok(Info { key, kind, value: self.value(kind)? })
    }

    /// `PMIX_KVAL`, as its key and all of its bytes.
    ///
    /// # Errors
    /// As [`Self::value`].
    pub fn pair(&mut self) -> Read<(&'a [u8], &'a [u8])> {
        let all = self.bytes;
        let key = self.text()?;
        Kind::VALUE.skip(self)?;
        all.get(..all.len() - self.bytes.len()).map(|pair| (key, pair)).ok_or(Status::UNPACK_FAILURE)
    }

    pub(super) const fn dialect(&self) -> Dialect {
        self.dialect
    }
}
