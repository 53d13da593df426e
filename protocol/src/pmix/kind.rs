//! Types of values, by OpenPMIx's numbers, and how long a value of each is.
//!
//! What clients publish is kept and passed on as they wrote it. To find where one value ends and the next begins it
//! has to be walked through; nothing of it is made.

use serde::{Deserialize, Serialize};

use super::reader::{Read, Reader};
use super::status::Status;
use crate::limits::PMIX_DEPTH_MAX;

/// `pmix_data_type_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kind(pub u16);

/// What a size says that it is, where it says so.
pub(super) const WIDE_SIZE: Kind = Kind::UINT64;
/// What a plain integer says that it is, where it says so.
pub(super) const WIDE_WORD: Kind = Kind::INT32;

impl Kind {
    /// No value.
    pub const UNDEFINED: Self = Self(0);
    /// `bool`, one byte.
    pub const BOOL: Self = Self(1);
    /// A byte.
    pub const BYTE: Self = Self(2);
    /// A text.
    pub const STRING: Self = Self(3);
    /// `size_t`.
    pub const SIZE: Self = Self(4);
    /// `pid_t`.
    pub const PID: Self = Self(5);
    /// `int`.
    pub const INT: Self = Self(6);
    /// `int32_t`.
    pub const INT32: Self = Self(9);
    /// `unsigned int`.
    pub const UINT: Self = Self(11);
    /// `uint16_t`.
    pub const UINT16: Self = Self(13);
    /// `uint32_t`.
    pub const UINT32: Self = Self(14);
    /// `uint64_t`.
    pub const UINT64: Self = Self(15);
    /// `pmix_status_t`.
    pub const STATUS: Self = Self(20);
    /// A value with its type.
    pub const VALUE: Self = Self(21);
    /// A name space and a rank.
    pub const PROC: Self = Self(22);
    /// A key, flags, and a value.
    pub const INFO: Self = Self(24);
    /// Bytes and how many they are.
    pub const BYTE_OBJECT: Self = Self(27);
    /// A key and a value.
    pub const KVAL: Self = Self(28);
    /// How far data goes.
    pub const SCOPE: Self = Self(32);
    /// Who may look something up.
    pub const DATA_RANGE: Self = Self(33);
    /// A process and what is known of it.
    pub const PROC_INFO: Self = Self(38);
    /// Values of one type.
    pub const DATA_ARRAY: Self = Self(39);
    /// A rank.
    pub const PROC_RANK: Self = Self(40);

    /// Walks past a value of this type.
    ///
    /// # Errors
    /// [`Status::UNKNOWN_DATA_TYPE`]: nobody knows how long it is. [`Status::UNPACK_FAILURE`]: it has no end, or lies
    /// deeper in others than [`PMIX_DEPTH_MAX`].
    pub fn skip(self, reader: &mut Reader<'_>) -> Read<()> {
        self.skip_in(reader, 0)
    }

    fn skip_in(self, reader: &mut Reader<'_>, depth: usize) -> Read<()> {
        if depth > PMIX_DEPTH_MAX {
            return Err(Status::UNPACK_FAILURE);
        }
        match self.0 {
            // Nothing.
            0 => Ok(()),
            // Bytes: BOOL, BYTE, INT8, UINT8, PERSIST, POINTER, SCOPE, DATA_RANGE, COMMAND, PROC_STATE,
            // ALLOC_DIRECTIVE, JOB_STATE, LINK_STATE.
            1 | 2 | 7 | 12 | 30..=34 | 37 | 43 | 50 | 51 => reader.byte().map(drop),
            // STRING; FLOAT and DOUBLE, which are texts too; PROC_CPUSET and PROC_NSPACE.
            3 | 16 | 17 | 52 | 60 => reader.text().map(drop),
            // SIZE.
            4 => reader.size().map(drop),
            // PID says in either dialect what it is.
            5 => match Self(reader.u16()?) {
                Self::UINT32 => reader.u32().map(drop),
                Self::INT32 => reader.i32().map(drop),
                _ => Err(Status::UNPACK_FAILURE),
            },
            // INT, and UINT, which is packed as one.
            6 | 11 => reader.int().map(drop),
            8 => reader.i16().map(drop),
            // INT32, STATUS.
            9 | 20 => reader.i32().map(drop),
            10 => reader.i64().map(drop),
            // UINT16, DATA_TYPE, IOF_CHANNEL, LOCTYPE, STOR_ACCESS_TYPE.
            13 | 36 | 45 | 58 | 69 => reader.u16().map(drop),
            // UINT32, INFO_DIRECTIVES, PROC_RANK.
            14 | 35 | 40 => reader.u32().map(drop),
            // UINT64, TIME, DEVTYPE, STOR_MEDIUM, STOR_ACCESS, STOR_PERSIST.
            15 | 19 | 57 | 66..=68 => reader.u64().map(drop),
            // TIMEVAL: seconds and microseconds.
            18 => reader.i64().and_then(|_| reader.i64()).map(drop),
            21 => {
                let kind = Self(reader.u16()?);
                kind.skip_in(reader, depth + 1)
            }
            22 => reader.process().map(drop),
            24 => {
                reader.text()?;
                reader.u32()?;
                Self::VALUE.skip_in(reader, depth + 1)
            }
            // PDATA: who published it, a key, a value.
            25 => {
                reader.process()?;
                reader.text()?;
                Self::VALUE.skip_in(reader, depth + 1)
            }
            // BYTE_OBJECT, COMPRESSED_STRING, COMPRESSED_BYTE_OBJECT, DATA_BUFFER.
            27 | 42 | 59 | 65 => reader.object().map(drop),
            28 => {
                reader.text()?;
                Self::VALUE.skip_in(reader, depth + 1)
            }
            // PROC_INFO: who, its host, its program, its id and its state.
            38 => {
                reader.process()?;
                reader.text()?;
                reader.text()?;
                Self::PID.skip_in(reader, depth + 1)?;
                reader.byte().map(drop)
            }
            39 => Self::skip_array(reader, depth),
            // ENVAR: name, value, what stands between values.
            46 => {
                reader.text()?;
                reader.text()?;
                reader.byte().map(drop)
            }
            // COORD: its kind, how many, and those.
            47 => {
                reader.byte()?;
                let count = reader.size()?;
                Self::UINT32.skip_many(reader, count, depth)
            }
            // REGATTR: name, key, type, and lines of a description.
            48 => {
                reader.text()?;
                reader.text()?;
                reader.u16()?;
                let lines = usize::try_from(reader.i32()?).map_err(|_| Status::UNPACK_FAILURE)?;
                Self::STRING.skip_many(reader, lines, depth)
            }
            // GEOMETRY: number, two names, coordinates.
            53 => {
                reader.size()?;
                reader.text()?;
                reader.text()?;
                let count = reader.size()?;
                Self(47).skip_many(reader, count, depth)
            }
            // DEVICE_DIST: two names, type, least and largest distance.
            54 => {
                reader.text()?;
                reader.text()?;
                reader.u64()?;
                reader.u16()?;
                reader.u16().map(drop)
            }
            // ENDPOINT: two names and bytes.
            55 => {
                reader.text()?;
                reader.text()?;
                reader.object().map(drop)
            }
            // REGEX and TOPO do not say how long they are, statistics are what servers say.
            _ => Err(Status::UNKNOWN_DATA_TYPE),
        }
    }

    fn skip_array(reader: &mut Reader<'_>, depth: usize) -> Read<()> {
        let kind = Self(reader.u16()?);
        let count = reader.size()?;
        if kind == Self::UNDEFINED {
            return Ok(());
        }
        kind.skip_many(reader, count, depth)
    }

    /// Every value has at least one byte, so no more of them are walked through than there are bytes.
    fn skip_many(self, reader: &mut Reader<'_>, count: usize, depth: usize) -> Read<()> {
        if count > reader.rest().len() || self == Self::UNDEFINED {
            return Err(Status::UNPACK_FAILURE);
        }
        (0..count).try_for_each(|_| self.skip_in(reader, depth + 1))
    }
}
