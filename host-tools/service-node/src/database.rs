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
mod reports;
#[cfg(test)]
mod tests;

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};

pub use jobs::{JobRow, StartRow};
pub use node_state::HeldBy;
pub use nodes::NodeRow;
pub use programs::{FileKey, ProgramRow};
pub(crate) use ras::{kind_name, severity_name};

use crate::limits::{LOCK_WAIT_MAX, ROWS_BETWEEN_TRIMS};
use crate::store::plain;

/// Statements that stay prepared: all there are, with some room.
const STATEMENTS_KEPT: usize = 64;

/// Why the database could not do something.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// SQLite failed.
    #[error("{}", in_words(.0))]
    Sqlite(rusqlite::Error),
    /// The system does not open one of its files.
    #[error("cannot open the file '{}' of the database: {}", .0.name, plain(&.0.error))]
    Open(NotOpened),
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
        let Self::Sqlite(error) = self else { return matches!(self, Self::Reserve(_) | Self::Open(_)) };
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

    fn is_of_opening(&self) -> bool {
        matches!(self, Self::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen))
    }
}

/// A file that the system does not open.
#[derive(Debug)]
pub struct NotOpened {
    name: String,
    error: std::io::Error,
}

/// Opens the files of a database as SQLite does, and says which cannot be, if one cannot. The database itself must not
/// be open: closing a file gives up its locks.
fn why_not_opened(path: &Path) -> Option<NotOpened> {
    ["", "-wal", "-shm"].into_iter().find_map(|end| {
        let mut file = path.as_os_str().to_owned();
        file.push(end);
        let opened = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&file);
        let name = Path::new(&file).file_name().unwrap_or_default().display().to_string();
        opened.err().map(|error| NotOpened { name, error })
    })
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
        let opened = Connection::open(path).map_err(DatabaseError::from).and_then(Self::prepare);
        // SQLite does not say why it cannot open a file.
        opened.map_err(|error| match error.is_of_opening().then(|| why_not_opened(path)).flatten() {
            Some(reason) => DatabaseError::Open(reason),
            None => error,
        })
    }

    /// A database that is gone when it is dropped.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn in_memory() -> Result<Self, DatabaseError> {
        Self::prepare(Connection::open_in_memory()?)
    }

    /// Forgets everything, as if it had just been made: for whoever needs one in memory after the other.
    ///
    /// # Errors
    /// [`DatabaseError`]: then nothing is forgotten.
    pub fn empty(&mut self) -> Result<(), DatabaseError> {
        let transaction = self.connection.transaction()?;
        // Those that refer to others come before these. SQLite's own knows which numbers were given.
        let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid DESC";
        let tables: Vec<String> =
            transaction.prepare_cached(tables)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        transaction.pragma_update(None, "defer_foreign_keys", true)?;
        for table in tables {
            transaction.prepare_cached(&format!("DELETE FROM {table}"))?.execute([])?;
        }
        transaction.commit()?;
        (self.events_since_trim, self.uses_since_trim) = (ROWS_BETWEEN_TRIMS, ROWS_BETWEEN_TRIMS);
        Ok(())
    }

    fn prepare(mut connection: Connection) -> Result<Self, DatabaseError> {
        connection.busy_timeout(LOCK_WAIT_MAX)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
        // A statement's plan does not hang on what is bound to it, or SQLite makes it anew nearly every time.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
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

fn to_json<T: serde::Serialize + ?Sized>(value: &T) -> String {
    // Lists of texts and numbers: serialising them cannot fail.
    serde_json::to_string(value).unwrap_or_default()
}

fn from_json<T: serde::de::DeserializeOwned>(text: &str, what: &'static str) -> Result<T, DatabaseError> {
    serde_json::from_str(text).map_err(|_| DatabaseError::Damaged(what))
}
