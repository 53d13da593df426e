//! What clients read: the other half of [`super::reader`].

use alloc::vec::Vec;

use super::dialect::Dialect;
use super::kind::{Kind, WIDE_SIZE, WIDE_WORD};
use super::reader::Process;
use super::status::Status;

/// Puts values behind each other.
#[derive(Clone, Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    dialect: Dialect,
}

/// A value that this server has for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// `PMIX_STRING`.
    Text(&'a str),
    /// `PMIX_UINT32`.
    Number(u32),
    /// `PMIX_INT`.
    Int(i32),
    /// `PMIX_SIZE`.
    Size(usize),
    /// `PMIX_UINT16`.
    Short(u16),
    /// `PMIX_PROC_RANK`.
    Rank(u32),
    /// `PMIX_BOOL`.
    Truth(bool),
    /// `PMIX_STATUS`.
    Status(Status),
    /// `PMIX_BYTE_OBJECT`.
    Bytes(&'a [u8]),
    /// `PMIX_PROC`.
    Process(Process<'a>),
    /// `PMIX_DATA_ARRAY` of `PMIX_PROC`.
    Processes(&'a [Process<'a>]),
    /// `PMIX_DATA_ARRAY` of `PMIX_INFO`.
    Infos(&'a [(&'a str, Value<'a>)]),
}

impl Value<'_> {
    const fn kind(&self) -> Kind {
        match self {
            Self::Text(_) => Kind::STRING,
            Self::Number(_) => Kind::UINT32,
            Self::Int(_) => Kind::INT,
            Self::Size(_) => Kind::SIZE,
            Self::Short(_) => Kind::UINT16,
            Self::Rank(_) => Kind::PROC_RANK,
            Self::Truth(_) => Kind::BOOL,
            Self::Status(_) => Kind::STATUS,
            Self::Bytes(_) => Kind::BYTE_OBJECT,
            Self::Process(_) => Kind::PROC,
            Self::Infos(_) | Self::Processes(_) => Kind::DATA_ARRAY,
        }
    }
}

impl Writer {
    /// Of nothing.
    #[must_use]
    pub const fn new(dialect: Dialect) -> Self {
        Self { bytes: Vec::new(), dialect }
    }

    /// All that was written.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The same, so far.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes as they are.
    pub fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// `PMIX_BYTE`, and all that is one.
    pub fn byte(&mut self, byte: u8) -> &mut Self {
        self.put(&[byte])
    }

    fn flex(&mut self, mut value: u64) -> &mut Self {
        for _ in 0..8 {
            let low = (value & 0x7f) as u8;
            value >>= 7;
            if value == 0 {
                return self.byte(low);
            }
            self.byte(low | 0x80);
        }
        self.byte(value as u8)
    }

    /// `PMIX_UINT16`.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        match self.dialect {
            Dialect::Short => self.flex(value.into()),
            Dialect::Wide => self.put(&value.to_be_bytes()),
        }
    }

    /// `PMIX_UINT32`, and a rank.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        match self.dialect {
            Dialect::Short => self.flex(value.into()),
            Dialect::Wide => self.put(&value.to_be_bytes()),
        }
    }

    /// `PMIX_UINT64`.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        match self.dialect {
            Dialect::Short => self.flex(value),
            Dialect::Wide => self.put(&value.to_be_bytes()),
        }
    }

    /// `PMIX_INT32`, and a status.
    pub fn i32(&mut self, value: i32) -> &mut Self {
        match self.dialect {
            Dialect::Short => {
                let value = i64::from(value);
                self.flex(((value << 1) ^ (value >> 63)).cast_unsigned())
            }
            Dialect::Wide => self.put(&value.to_be_bytes()),
        }
    }

    fn described(&mut self, kind: Kind) -> &mut Self {
        match self.dialect {
            Dialect::Short => self,
            Dialect::Wide => self.u16(kind.0),
        }
    }

    /// `PMIX_SIZE`.
    pub fn size(&mut self, size: usize) -> &mut Self {
        self.described(WIDE_SIZE).u64(size as u64)
    }

    /// `PMIX_INT`.
    pub fn int(&mut self, value: i32) -> &mut Self {
        self.described(WIDE_WORD).i32(value)
    }

    /// How many values follow that are packed by one call.
    pub fn packed(&mut self, count: usize) -> &mut Self {
        self.i32(count as i32)
    }

    /// `PMIX_STRING`.
    pub fn text(&mut self, text: &[u8]) -> &mut Self {
        self.i32(text.len() as i32 + 1).put(text).byte(0)
    }

    /// `PMIX_BYTE_OBJECT`.
    pub fn object(&mut self, bytes: &[u8]) -> &mut Self {
        self.size(bytes.len()).put(bytes)
    }

    /// `PMIX_PROC`.
    pub fn process(&mut self, process: Process<'_>) -> &mut Self {
        self.text(process.space).u32(process.rank)
    }

    /// A value without its type.
    fn plain(&mut self, value: &Value<'_>) -> &mut Self {
        match *value {
            Value::Text(text) => self.text(text.as_bytes()),
            Value::Number(number) | Value::Rank(number) => self.u32(number),
            Value::Int(number) => self.int(number),
            Value::Size(size) => self.size(size),
            Value::Short(number) => self.u16(number),
            Value::Truth(truth) => self.byte(truth.into()),
            Value::Status(status) => self.i32(status.0),
            Value::Bytes(bytes) => self.object(bytes),
            Value::Process(process) => self.process(process),
            Value::Processes(processes) => {
                self.u16(Kind::PROC.0).size(processes.len());
                for process in processes {
                    self.process(*process);
                }
                self
            }
            Value::Infos(infos) => {
                self.u16(Kind::INFO.0).size(infos.len());
                for (key, value) in infos {
                    self.info(key, value);
                }
                self
            }
        }
    }

    /// `PMIX_VALUE`.
    pub fn value(&mut self, value: &Value<'_>) -> &mut Self {
        self.u16(value.kind().0).plain(value)
    }

    /// `PMIX_INFO`.
    pub fn info(&mut self, key: &str, value: &Value<'_>) -> &mut Self {
        self.text(key.as_bytes()).u32(0).value(value)
    }

    /// One `PMIX_KVAL`, packed by a call of its own.
    pub fn pair(&mut self, key: &str, value: &Value<'_>) -> &mut Self {
        self.packed(1).text(key.as_bytes()).value(value)
    }

    /// One status, packed by a call of its own.
    pub fn status(&mut self, status: Status) -> &mut Self {
        self.packed(1).i32(status.0)
    }
}
