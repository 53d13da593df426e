//! Nodes and their boots.

use coppice_api::retain::LastProgram;
use coppice_protocol::control::{MemoryStatus, NodeStatus};
use coppice_protocol::ids::{Generation, NodeId};
use coppice_protocol::retain::RetainedProgram;
use rusqlite::{OptionalExtension, params};

use super::{Database, DatabaseError, from_sql, to_sql};

/// What is known of a node from its earlier life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRow {
    /// Boots so far.
    pub generation: u32,
    /// What it said of itself when it was last ready.
    pub status: Option<NodeStatus>,
    /// The program it ran last in that boot.
    pub last_program: Option<LastProgram>,
    /// What it held in that boot when it was last heard of, the program that ran last first.
    pub retained: Vec<RetainedProgram>,
}

impl Database {
    /// What is known of a node; of a new one, nothing.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn node(&self, node: NodeId) -> Result<NodeRow, DatabaseError> {
        let sql = "SELECT generation, kernel, boot_ns, memory_total, memory_kernel, memory_free, boot_idle_ns, cores
                   FROM nodes WHERE node = ?1";
        let row = self.connection.prepare_cached(sql)?.query_row([node.0], |row| {
            let kernel: Option<String> = row.get("kernel")?;
            let number = |column| row.get::<_, Option<i64>>(column).map(|value| value.map_or(0, from_sql));
            let memory = MemoryStatus {
                total: number("memory_total")?,
                kernel: number("memory_kernel")?,
                free: number("memory_free")?,
                retained: 0,
            };
            let (boot_ns, boot_idle_ns) = (number("boot_ns")?, number("boot_idle_ns")?);
            let cores = row.get("cores")?;
            let status = kernel.map(|kernel| NodeStatus { kernel, boot_ns, boot_idle_ns, cores, memory });
            Ok((row.get("generation")?, status))
        });
        let Some((generation, status)) = row.optional()? else { return Ok(NodeRow::default()) };
        let (last_program, retained) = (self.last_program(node)?, self.retained(node)?);
        Ok(NodeRow { generation, status, last_program, retained })
    }

    /// Counts a boot of a node and says which one it is, before the machine is started.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn next_generation(&self, node: NodeId) -> Result<Generation, DatabaseError> {
        let sql = "INSERT INTO nodes (node, generation) VALUES (?1, 1)
                   ON CONFLICT (node) DO UPDATE SET generation = generation + 1 RETURNING generation";
        // A statement that gives a row commits after that, and if it cannot then nobody hears of it.
        let transaction = self.connection.unchecked_transaction()?;
        let generation = Generation(transaction.prepare_cached(sql)?.query_row([node.0], |row| row.get("generation"))?);
        transaction.commit()?;
        Ok(generation)
    }

    /// Records what a node said of itself when it got ready.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn node_ready(&self, node: NodeId, status: &NodeStatus, at_ns: u64) -> Result<(), DatabaseError> {
        let sql = "UPDATE nodes SET kernel = ?2, boot_ns = ?3, memory_total = ?4, memory_kernel = ?5,
                          memory_free = ?6, ready_at_ns = ?7, boot_idle_ns = ?8, cores = ?9 WHERE node = ?1";
        let memory = status.memory;
        self.connection.prepare_cached(sql)?.execute(params![
            node.0,
            status.kernel,
            to_sql(status.boot_ns),
            to_sql(memory.total),
            to_sql(memory.kernel),
            to_sql(memory.free),
            to_sql(at_ns),
            to_sql(status.boot_idle_ns),
            status.cores,
        ])?;
        Ok(())
    }
}
