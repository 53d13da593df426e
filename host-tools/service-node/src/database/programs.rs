//! Programs by hash, and files whose hash is known.

use std::path::Path;

use coppice_api::program::ProgramView;
use coppice_protocol::ids::ProgramId;
use rusqlite::{OptionalExtension, Row, params};

use super::bytes::{Bytes, Read};
use super::{Database, DatabaseError, from_sql, to_sql};
use crate::limits::{KNOWN_FILES_MAX, PROGRAMS_KEPT_MAX, ROWS_BETWEEN_TRIMS};

/// What a file's bytes are known by without reading them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileKey {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Length, bytes.
    pub bytes: u64,
    /// Last modification of the data, ns since 1970.
    pub modified_ns: i64,
    /// Last modification of the metadata, ns since 1970; no program can set it back.
    pub changed_ns: i64,
}

/// A program that was read and checked once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramRow {
    /// Hash of its bytes.
    pub id: ProgramId,
    /// Length of its file, bytes.
    pub bytes: u64,
    /// What its segments take in memory, bytes.
    pub memory_bytes: u64,
}

impl Database {
    /// The program a file holds, if the file has not changed since it was read and its bytes are stored.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn known_program(&self, file: FileKey) -> Result<Option<ProgramRow>, DatabaseError> {
        let sql = "SELECT p.hash AS hash, p.bytes AS bytes, p.memory_bytes AS memory_bytes
                   FROM known_files f JOIN programs p ON p.hash = f.hash
                   WHERE f.device = ?1 AND f.inode = ?2 AND f.bytes = ?3 AND f.modified_ns = ?4 AND f.changed_ns = ?5
                   AND p.stored";
        let key =
            params![to_sql(file.device), to_sql(file.inode), to_sql(file.bytes), file.modified_ns, file.changed_ns];
        Ok(self.connection.prepare_cached(sql)?.query_row(key, program).optional()?)
    }

    /// Records that a program was used just now, from that path and file, and that its bytes are stored.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn use_program(
        &mut self,
        row: &ProgramRow,
        file: FileKey,
        path: &Path,
        at_ns: u64,
    ) -> Result<(), DatabaseError> {
        let transaction = self.connection.transaction()?;
        let sql = "INSERT INTO programs (hash, bytes, memory_bytes, path, used_at_ns, stored)
                   VALUES (?1, ?2, ?3, ?4, ?5, 1)
                   ON CONFLICT (hash) DO UPDATE SET memory_bytes = ?3, path = ?4, used_at_ns = ?5, stored = 1";
        transaction.prepare_cached(sql)?.execute(params![
            row.id.0,
            to_sql(row.bytes),
            to_sql(row.memory_bytes),
            Bytes::of_path(&path),
            to_sql(at_ns)
        ])?;
        let sql = "INSERT OR REPLACE INTO known_files
                   (device, inode, bytes, modified_ns, changed_ns, hash, used_at_ns)
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        transaction.prepare_cached(sql)?.execute(params![
            to_sql(file.device),
            to_sql(file.inode),
            to_sql(file.bytes),
            file.modified_ns,
            file.changed_ns,
            row.id.0,
            to_sql(at_ns),
        ])?;
        transaction.commit()?;
        self.count_use()
    }

    /// Pages that a node had or fetched when a program last ran to its end.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn pages_touched(&self, id: ProgramId) -> Result<Option<u64>, DatabaseError> {
        let sql = "SELECT pages_touched FROM programs WHERE hash = ?1";
        let row = self.connection.prepare_cached(sql)?.query_row([id.0], |row| row.get::<_, Option<i64>>(0));
        Ok(row.optional()?.flatten().map(from_sql))
    }

    /// Stored programs, the one unused for longest first.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn stored_programs(&self) -> Result<Vec<ProgramRow>, DatabaseError> {
        let sql = "SELECT hash, bytes, memory_bytes FROM programs WHERE stored ORDER BY used_at_ns";
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map([], program)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Records that nodes are to keep what is in a file of that path, which need be no program.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn use_file(&mut self, row: &ProgramRow, path: &Path, at_ns: u64) -> Result<(), DatabaseError> {
        let sql = "INSERT INTO programs (hash, bytes, memory_bytes, path, used_at_ns, stored)
                   VALUES (?1, ?2, 0, ?3, ?4, 0)
                   ON CONFLICT (hash) DO UPDATE SET path = ?3, used_at_ns = ?4";
        let values = params![row.id.0, to_sql(row.bytes), Bytes::of_path(&path), to_sql(at_ns)];
        self.connection.prepare_cached(sql)?.execute(values)?;
        self.count_use()
    }

    /// Looks at the limits of the tables now and then.
    fn count_use(&mut self) -> Result<(), DatabaseError> {
        self.uses_since_trim += 1;
        if self.uses_since_trim >= ROWS_BETWEEN_TRIMS {
            self.uses_since_trim = 0;
            self.trim_programs(KNOWN_FILES_MAX, PROGRAMS_KEPT_MAX)?;
        }
        Ok(())
    }

    /// Records that a program's bytes are no longer stored, and forgets the files that hold it.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn program_removed(&self, id: ProgramId) -> Result<(), DatabaseError> {
        self.connection.prepare_cached("UPDATE programs SET stored = 0 WHERE hash = ?1")?.execute([id.0])?;
        self.connection.prepare_cached("DELETE FROM known_files WHERE hash = ?1")?.execute([id.0])?;
        Ok(())
    }

    /// Forgets the files beyond a number of them that were not used for longest; and likewise the programs, of which
    /// those stay that are stored or named elsewhere.
    fn trim_programs(&self, files_max: u64, programs_max: u64) -> Result<(), DatabaseError> {
        let sql = "DELETE FROM known_files WHERE (device, inode) IN
                   (SELECT device, inode FROM known_files ORDER BY used_at_ns DESC LIMIT -1 OFFSET ?1)";
        self.connection.prepare_cached(sql)?.execute([to_sql(files_max)])?;
        let sql = "DELETE FROM programs WHERE hash IN
                   (SELECT hash FROM programs AS p WHERE NOT stored
                    AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.program = p.hash)
                    AND NOT EXISTS (SELECT 1 FROM node_state WHERE node_state.program = p.hash)
                    AND NOT EXISTS (SELECT 1 FROM retained WHERE retained.program = p.hash)
                    AND NOT EXISTS (SELECT 1 FROM kept WHERE kept.content = p.hash)
                    ORDER BY used_at_ns LIMIT max(0, (SELECT count(*) FROM programs) - ?1))";
        self.connection.prepare_cached(sql)?.execute([to_sql(programs_max)])?;
        Ok(())
    }

    /// Programs whose hash starts with these hexadecimal digits: one, or two of several.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn programs_by_hash(&self, digits: &str) -> Result<Vec<ProgramId>, DatabaseError> {
        let sql = "SELECT hash FROM programs WHERE substr(hex(hash), 1, length(?1)) = upper(?1) ORDER BY hash LIMIT 2";
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map([digits], |row| row.get("hash").map(ProgramId))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The program that was submitted last from a path.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn program_from(&self, path: &[u8]) -> Result<Option<ProgramId>, DatabaseError> {
        let sql = "SELECT hash FROM programs WHERE path = ?1 ORDER BY used_at_ns DESC LIMIT 1";
        let row = self.connection.prepare_cached(sql)?.query_row([Bytes(path)], |row| row.get("hash").map(ProgramId));
        Ok(row.optional()?)
    }

    /// All programs, the newest last. What nodes hold of them is not filled in.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn programs(&self) -> Result<Vec<ProgramView>, DatabaseError> {
        let sql = "SELECT lower(hex(hash)) AS hash, bytes, memory_bytes, path, used_at_ns, stored FROM programs
                   ORDER BY used_at_ns";
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map([], |row| {
            Ok(ProgramView {
                hash: row.get("hash")?,
                bytes: from_sql(row.get("bytes")?),
                memory_bytes: from_sql(row.get("memory_bytes")?),
                path: row.get::<_, Read>("path")?.0,
                used_at_ns: from_sql(row.get("used_at_ns")?),
                stored: row.get("stored")?,
                nodes: Vec::new(),
                retained_pages: 0,
                retained_bytes: 0,
                kept_nodes: Vec::new(),
                kept_bytes: 0,
                read_pages: 0,
                read_bytes: 0,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

fn program(row: &Row<'_>) -> rusqlite::Result<ProgramRow> {
    Ok(ProgramRow {
        id: ProgramId(row.get("hash")?),
        bytes: from_sql(row.get("bytes")?),
        memory_bytes: from_sql(row.get("memory_bytes")?),
    })
}

#[cfg(test)]
mod tests {
    use coppice_protocol::ids::ProgramId;

    use super::{FileKey, ProgramRow, from_sql, to_sql};
    use crate::database::Database;
    use crate::limits::{KNOWN_FILES_MAX, ROWS_BETWEEN_TRIMS};

    const FILE: FileKey = FileKey { device: u64::MAX, inode: 2, bytes: 3, modified_ns: 4, changed_ns: 5 };

    #[test]
    fn a_known_file_is_known_until_anything_of_it_changes() {
        let mut database = Database::in_memory().expect("open");
        let row = ProgramRow { id: ProgramId([7; 32]), bytes: 3, memory_bytes: 9 };
        database.use_program(&row, FILE, "/bin/x".as_ref(), 1).expect("used");
        assert_eq!(database.known_program(FILE).expect("query"), Some(row));
        for other in [
            FileKey { device: 1, ..FILE },
            FileKey { inode: 1, ..FILE },
            FileKey { bytes: 1, ..FILE },
            FileKey { modified_ns: 1, ..FILE },
            FileKey { changed_ns: 1, ..FILE },
        ] {
            assert_eq!(database.known_program(other).expect("query"), None);
        }
        database.program_removed(row.id).expect("removed");
        assert_eq!(database.known_program(FILE).expect("query"), None);
        let listed = database.programs().expect("listed");
        assert_eq!((listed.len(), listed[0].stored, listed[0].hash.as_str()), (1, false, "07".repeat(32).as_str()));
    }

    #[test]
    fn what_nothing_names_any_more_is_forgotten_beyond_a_number() {
        let mut database = Database::in_memory().expect("open");
        let row = |hash: u8| ProgramRow { id: ProgramId([hash; 32]), bytes: 3, memory_bytes: 9 };
        for hash in 0..9 {
            let file = FileKey { inode: hash.into(), ..FILE };
            database.use_program(&row(hash), file, "/bin/x".as_ref(), hash.into()).expect("used");
        }
        // One of each is named by a job, the last of a node, what a node holds, and the store.
        let sql = "INSERT INTO nodes (node, generation) VALUES (1, 1);
                   INSERT INTO jobs (state, name, arguments, program, root, directory, ranks, submitted_at_ns)
                   SELECT 'ended', 'x', '[]', hash, '/', '/', 1, 1 FROM programs WHERE used_at_ns = 0;
                   INSERT INTO node_state (node, program, job, generation, at_ns)
                   SELECT 1, hash, 1, 1, 1 FROM programs WHERE used_at_ns = 1;
                   INSERT INTO retained (node, program, pages, bytes, generation, at_ns)
                   SELECT 1, hash, 1, 1, 1, 1 FROM programs WHERE used_at_ns = 2;";
        database.connection.execute_batch(sql).expect("filled");
        let uses = |database: &Database| -> Vec<u64> {
            database.programs().expect("listed").iter().map(|program| program.used_at_ns).collect()
        };
        for hash in [0, 1, 2, 4, 5, 6, 7, 8] {
            database.program_removed(row(hash).id).expect("removed");
        }
        database.trim_programs(9, 9).expect("trimmed");
        assert_eq!(uses(&database).len(), 9);
        database.trim_programs(9, 7).expect("trimmed");
        assert_eq!(uses(&database), [0, 1, 2, 3, 6, 7, 8]);
        database.trim_programs(9, 2).expect("trimmed");
        assert_eq!(uses(&database), [0, 1, 2, 3]);
    }

    #[test]
    fn files_unused_for_longest_are_forgotten_beyond_a_number() {
        let mut database = Database::in_memory().expect("open");
        let row = ProgramRow { id: ProgramId([7; 32]), bytes: 3, memory_bytes: 9 };
        let file = |number: u64| FileKey { inode: number, ..FILE };
        for number in 0..5 {
            database.use_program(&row, file(number), "/bin/x".as_ref(), number).expect("used");
        }
        database.use_program(&row, file(0), "/bin/x".as_ref(), 9).expect("used again");
        database.trim_programs(2, 9).expect("trimmed");
        let known = |number| database.known_program(file(number)).expect("query").is_some();
        assert_eq!([0, 1, 2, 3, 4].map(known), [true, false, false, false, true]);
    }

    #[test]
    fn the_limits_are_looked_at_when_a_service_node_begins_and_now_and_then() {
        let mut database = Database::in_memory().expect("open");
        let row = ProgramRow { id: ProgramId([7; 32]), bytes: 3, memory_bytes: 9 };
        let look = |database: &mut Database, uses: u64| {
            let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                       INSERT OR REPLACE INTO known_files SELECT 3, i, 3, 4, 5, zeroblob(32), 1 FROM n";
            database.connection.execute(sql, [to_sql(KNOWN_FILES_MAX)]).expect("filled");
            for number in 0..uses {
                database.use_program(&row, FileKey { inode: number, ..FILE }, "/bin/x".as_ref(), 2).expect("used");
            }
            let count = database.connection.query_row("SELECT count(*) FROM known_files", [], |row| row.get(0));
            from_sql(count.expect("counted"))
        };
        assert_eq!(look(&mut database, 1), KNOWN_FILES_MAX);
        assert!(look(&mut database, ROWS_BETWEEN_TRIMS - 1) > KNOWN_FILES_MAX);
        assert_eq!(look(&mut database, 1), KNOWN_FILES_MAX);
    }
}
