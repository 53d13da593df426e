//! Names and paths in the database: text where they are UTF-8, so that other programs can read them, and blobs where
//! not. Equal bytes are equal values.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use coppice_protocol::text::ByteString;
use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};

/// Bytes to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    /// A path of the host.
    pub(super) fn of_path(path: &'a impl AsRef<OsStr>) -> Self {
        Self(path.as_ref().as_bytes())
    }
}

impl ToSql for Bytes<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let is_text = std::str::from_utf8(self.0).is_ok();
        Ok(ToSqlOutput::Borrowed(if is_text { ValueRef::Text(self.0) } else { ValueRef::Blob(self.0) }))
    }
}

/// Bytes that were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Read(pub(super) ByteString);

impl FromSql for Read {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(Self(bytes.into())),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => Err(FromSqlError::InvalidType),
        }
    }
}
