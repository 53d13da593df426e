//! Versions of the schema. The file's `user_version` says how many of the steps it has had.

use rusqlite::Connection;

use super::DatabaseError;

/// Step n brings version n to version n + 1. Steps are never changed once released, only added.
const STEPS: [&str; 1] = [include_str!("schema-1.sql")];

/// Brings the file up to date, all or nothing.
pub(super) fn apply(connection: &mut Connection) -> Result<(), DatabaseError> {
    let known = u32::try_from(STEPS.len()).unwrap_or(u32::MAX);
    let found: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if found > known {
        return Err(DatabaseError::TooNew { found, known });
    }
    if found == known {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    for step in STEPS.iter().skip(found as usize) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{STEPS, apply};
    use crate::database::DatabaseError;

    #[test]
    fn a_new_file_gets_every_step_and_an_old_one_the_rest() {
        let mut connection = rusqlite::Connection::open_in_memory().expect("open");
        apply(&mut connection).expect("first");
        connection.execute("INSERT INTO nodes (node, generation) VALUES (3, 7)", []).expect("insert");
        apply(&mut connection).expect("second");
        let generation: u32 =
            connection.query_row("SELECT generation FROM nodes WHERE node = 3", [], |row| row.get(0)).expect("kept");
        assert_eq!(generation, 7);
    }

    #[test]
    fn a_file_of_a_later_version_is_left_alone() {
        let mut connection = rusqlite::Connection::open_in_memory().expect("open");
        let later = u32::try_from(STEPS.len()).expect("few") + 1;
        connection.pragma_update(None, "user_version", later).expect("pragma");
        assert!(matches!(apply(&mut connection), Err(DatabaseError::TooNew { found, .. }) if found == later));
    }

    #[test]
    fn a_step_that_fails_leaves_nothing() {
        let mut connection = rusqlite::Connection::open_in_memory().expect("open");
        connection.execute_batch("CREATE TABLE jobs (x)").expect("in the way");
        assert!(apply(&mut connection).is_err());
        let tables: u32 = connection
            .query_row("SELECT count(*) FROM sqlite_schema WHERE type = 'table'", [], |row| row.get(0))
            .expect("count");
        assert_eq!(tables, 1);
    }
}
