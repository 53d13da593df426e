//! The node-state table: what each node ran last, what it holds of programs and of files that these have read
//! since, and which files it keeps.
//!
//! Every row carries the boot it is about. A node that was booted again holds nothing: readers pass over rows of
//! another boot than the node's present one, so that counting a boot voids them without touching them.

use coppice_api::retain::LastProgram;
use coppice_protocol::ids::{Generation, NodeId, ProgramId};
use coppice_protocol::retain::{HeldAs, RetainedProgram};
use rusqlite::{OptionalExtension, Transaction, params};

use super::bytes::{Bytes, Read};
use super::{Database, DatabaseError, from_sql, to_sql};

/// What a node holds in a boot.
pub type HeldBy = (NodeId, Generation, Vec<RetainedProgram>);

impl Database {
    /// The last program a node ran in its present boot.
    pub(super) fn last_program(&self, node: NodeId) -> Result<Option<LastProgram>, DatabaseError> {
        let sql =
            "SELECT lower(hex(s.program)) AS program, s.path AS path, s.bytes AS bytes, s.job AS job, s.at_ns AS at_ns
                   FROM node_state s JOIN nodes n ON n.node = s.node AND n.generation = s.generation
                   WHERE s.node = ?1";
        let row = self.connection.prepare_cached(sql)?.query_row([node.0], |row| {
            Ok(LastProgram {
                program: row.get("program")?,
                path: row.get::<_, Read>("path")?.0,
                bytes: from_sql(row.get("bytes")?),
                job: from_sql(row.get("job")?),
                at_ns: from_sql(row.get("at_ns")?),
            })
        });
        Ok(row.optional()?)
    }

    /// What a node holds in its present boot, the program that ran last first, files behind programs, and what was read
    /// of others behind these.
    pub(super) fn retained(&self, node: NodeId) -> Result<Vec<RetainedProgram>, DatabaseError> {
        let tables = "SELECT r.program AS content, r.pages AS pages, r.bytes AS bytes
                   FROM retained r JOIN nodes n ON n.node = r.node AND n.generation = r.generation
                   WHERE r.node = ?1 ORDER BY r.rowid";
        let files = "SELECT k.content AS content, k.pages AS pages, k.bytes AS bytes
                   FROM kept k JOIN nodes n ON n.node = k.node AND n.generation = k.generation
                   WHERE k.node = ?1 ORDER BY k.rowid";
        let read = "SELECT f.program AS content, f.pages AS pages, f.bytes AS bytes
                   FROM read_files f JOIN nodes n ON n.node = f.node AND n.generation = f.generation
                   WHERE f.node = ?1 ORDER BY f.rowid";
        let mut held = Vec::new();
        for (sql, held_as) in [(tables, HeldAs::Table), (files, HeldAs::File), (read, HeldAs::Read)] {
            let mut statement = self.connection.prepare_cached(sql)?;
            let rows = statement.query_map([node.0], |row| {
                let (program, pages, bytes) = (ProgramId(row.get("content")?), row.get("pages")?, row.get("bytes")?);
                Ok(RetainedProgram { program, pages: from_sql(pages), bytes: from_sql(bytes), held_as })
            })?;
            for row in rows {
                held.push(row?);
            }
        }
        Ok(held)
    }

    /// Records all that nodes hold, each program and file once, the one that was used last first.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn set_retained(&mut self, nodes: &[HeldBy], at_ns: u64) -> Result<(), DatabaseError> {
        let transaction = self.connection.transaction()?;
        nodes.iter().try_for_each(|held| retain(&transaction, held, at_ns))?;
        Ok(transaction.commit()?)
    }

    /// Records that nothing of what is known of a node is true any more: its machine is gone.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn void_node_state(&mut self, node: NodeId) -> Result<(), DatabaseError> {
        let transaction = self.connection.transaction()?;
        transaction.prepare_cached("DELETE FROM retained WHERE node = ?1")?.execute([node.0])?;
        transaction.prepare_cached("DELETE FROM kept WHERE node = ?1")?.execute([node.0])?;
        transaction.prepare_cached("DELETE FROM read_files WHERE node = ?1")?.execute([node.0])?;
        transaction.prepare_cached("DELETE FROM node_state WHERE node = ?1")?.execute([node.0])?;
        Ok(transaction.commit()?)
    }
}

/// Records all that a node holds.
fn retain(transaction: &Transaction<'_>, (node, generation, held): &HeldBy, at_ns: u64) -> Result<(), DatabaseError> {
    transaction.prepare_cached("DELETE FROM retained WHERE node = ?1")?.execute([node.0])?;
    transaction.prepare_cached("DELETE FROM kept WHERE node = ?1")?.execute([node.0])?;
    transaction.prepare_cached("DELETE FROM read_files WHERE node = ?1")?.execute([node.0])?;
    let table = "INSERT INTO retained (node, program, pages, bytes, generation, at_ns)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let file = "INSERT INTO kept (node, content, pages, bytes, generation, at_ns)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let read = "INSERT INTO read_files (node, program, pages, bytes, generation, at_ns)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    for RetainedProgram { program, pages, bytes, held_as } in held {
        let sql = match held_as {
            HeldAs::Table => table,
            HeldAs::File => file,
            HeldAs::Read => read,
        };
        let values = params![node.0, program.0, to_sql(*pages), to_sql(*bytes), generation.0, to_sql(at_ns)];
        transaction.prepare_cached(sql)?.execute(values)?;
    }
    Ok(())
}

/// Records that nodes run a program, in their boots.
pub(super) fn record_run(
    transaction: &Transaction<'_>,
    nodes: &[(NodeId, Generation)],
    run: &LastProgram,
    program: ProgramId,
) -> Result<(), DatabaseError> {
    let sql = "INSERT OR REPLACE INTO node_state (node, program, path, bytes, job, generation, at_ns)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    for (node, generation) in nodes {
        transaction.prepare_cached(sql)?.execute(params![
            node.0,
            program.0,
            Bytes(&run.path),
            to_sql(run.bytes),
            to_sql(run.job),
            generation.0,
            to_sql(run.at_ns),
        ])?;
    }
    Ok(())
}
