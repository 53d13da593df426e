//! What a cluster remembers: one SQLite file, written before anybody is told.
//!
//! The file is in WAL mode with `synchronous=NORMAL`: a committed transaction survives the end of this process however
//! it comes. (A power failure of the host may lose the last moments, never the file.) Only the controller uses it, from
//! one thread.

mod bytes;
mod jobs;
mod migrations;
mod node_state;
mod nodes;
mod programs;
mod ras;
#[cfg(test)]
mod tests;

use std::path::Path;

use rusqlite::{Connection, ErrorCode};

pub use jobs::{JobRow, StartRow};
pub use nodes::NodeRow;
pub use programs::{FileKey, ProgramRow};

use crate::limits::{LOCK_WAIT_MAX, ROWS_BETWEEN_TRIMS};

/// Why the database could not do something.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// SQLite failed.
    #[error("{}", in_words(.0))]
    Sqlite(rusqlite::Error),
    /// The room for records that wait could not be taken or read.
    #[error("{0}")]
    Reserve(#[from] std::io::Error),
    /// The file was written by a later version.
    #[error("it has version {found}, this coppiced knows up to {known}; use the newer Coppice")]
    TooNew {
        /// Version of the file.
        found: u32,
        /// Newest known version.
        known: u32,
    },
    /// A row does not hold what it must.
    #[error("damaged {0} in the database")]
    Damaged(&'static str),
}

// Not as a source, whose own words would follow ours.
impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl DatabaseError {
    /// Whether the same may succeed later: nothing is wrong with what was to be done, but with the disk, or somebody
    /// else has the file.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        let Self::Sqlite(error) = self else { return matches!(self, Self::Reserve(_)) };
        error.sqlite_error_code().is_some_and(|code| {
            matches!(
                code,
                ErrorCode::DiskFull
                    | ErrorCode::SystemIoFailure
                    | ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::CannotOpen
                    | ErrorCode::ReadOnly
                    | ErrorCode::OutOfMemory
            )
        })
    }
}

/// What failed, for people.
fn in_words(error: &rusqlite::Error) -> String {
    /// The index beside the log of changes could not grow: `SQLITE_IOERR_SHMSIZE`.
    const INDEX_NOT_GROWN: i32 = 4874;
    let extended = error.sqlite_error().map(|error| error.extended_code);
    match error.sqlite_error_code() {
        _ if extended == Some(INDEX_NOT_GROWN) => "no space left on the disk of the database".into(),
        Some(ErrorCode::DiskFull) => "no space left on the disk of the database".into(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program holds the lock of the database".into()
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            "it is damaged; move it elsewhere, with the files whose names begin with its own, and the cluster starts a \
             new history"
                .into()
        }
        _ => format!("database: {error}"),
    }
}

/// The open database of one cluster.
#[derive(Debug)]
pub struct Database {
    connection: Connection,
    /// RAS events since the last look at their limit; the first one looks.
    events_since_trim: u64,
    /// Uses of programs since the last look at their limits; the first one looks.
    uses_since_trim: u64,
}

impl Database {
    /// Opens the file, makes it if there is none, and brings an older one up to date.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn open(path: &Path) -> Result<Self, DatabaseError> {
        Self::prepare(Connection::open(path)?)
    }

    /// A database that is gone when it is dropped.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn in_memory() -> Result<Self, DatabaseError> {
        Self::prepare(Connection::open_in_memory()?)
    }

    fn prepare(mut connection: Connection) -> Result<Self, DatabaseError> {
        connection.busy_timeout(LOCK_WAIT_MAX)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        migrations::apply(&mut connection)?;
        let (events_since_trim, uses_since_trim) = (ROWS_BETWEEN_TRIMS, ROWS_BETWEEN_TRIMS);
        Ok(Self { connection, events_since_trim, uses_since_trim })
    }

    /// Folds the log of changes into the file, so that it stands alone.
    ///
    /// # Errors
    /// [`DatabaseError::Sqlite`].
    pub fn checkpoint(&self) -> Result<(), DatabaseError> {
        self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }
}

/// SQLite's integers are signed; ours that could be larger than `i64::MAX` are stored as the same 64 bits.
fn to_sql(value: u64) -> i64 {
    value.cast_signed()
}

fn from_sql(value: i64) -> u64 {
    value.cast_unsigned()
}

fn to_json<T: serde::Serialize>(value: &T) -> String {
    // Lists of texts and numbers: serialising them cannot fail.
    serde_json::to_string(value).unwrap_or_default()
}

fn from_json<T: serde::de::DeserializeOwned>(text: &str, what: &'static str) -> Result<T, DatabaseError> {
    serde_json::from_str(text).map_err(|_| DatabaseError::Damaged(what))
}
