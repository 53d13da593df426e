//! Versions of the schema. The file's `user_version` says how many of the steps it has had.

use rusqlite::Connection;

use super::DatabaseError;

/// Step n brings version n to version n + 1. Steps are never changed once released, only added.
const STEPS: [&str; 15] = [
    include_str!("schema-1.sql"),
    include_str!("schema-2.sql"),
    include_str!("schema-3.sql"),
    include_str!("schema-4.sql"),
    include_str!("schema-5.sql"),
    include_str!("schema-6.sql"),
    include_str!("schema-7.sql"),
    include_str!("schema-8.sql"),
    include_str!("schema-9.sql"),
    include_str!("schema-10.sql"),
    include_str!("schema-11.sql"),
    include_str!("schema-12.sql"),
    include_str!("schema-13.sql"),
    include_str!("schema-14.sql"),
    include_str!("schema-15.sql"),
];

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
    use coppice_protocol::ids::{Generation, JobId, NodeId, ProgramId};
    use coppice_protocol::retain::{HeldAs, RetainedProgram};

    use super::{STEPS, apply};
    use crate::database::{Database, DatabaseError};

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

    /// A file as the first version left it, with something of everything.
    fn old_file() -> rusqlite::Connection {
        let connection = rusqlite::Connection::open_in_memory().expect("open");
        connection.execute_batch(STEPS[0]).expect("the first step");
        connection.pragma_update(None, "user_version", 1).expect("pragma");
        let report = r#"{"rank":0,"node":3,"outcome":"exited","exit":4,"signal":null,"reason":null,"launch_ns":1,
            "run_ns":2,"page_faults":3,"instruction_faults":4,"pages_fetched":5,"pages_peak":6,"bytes_read":7,
            "bytes_written":8,"syscalls":[]}"#;
        let rows = format!(
            "INSERT INTO nodes (node, generation, kernel, memory_total) VALUES (3, 7, '0.1', 64);
             INSERT INTO nodes (node, generation) VALUES (4, 9);
             INSERT INTO programs VALUES (x'{p}', 100, 4096, '/bin/prog', 10, 1);
             INSERT INTO jobs (state, name, arguments, program, root, directory, ranks, submitted_at_ns, exit_status)
             VALUES ('ended', './prog', '[\"a\"]', x'{p}', '/', '/', 1, 5, 4);
             INSERT INTO blocks (job, nodes, formed_at_ns) VALUES (1, '[3]', 6);
             INSERT INTO ranks VALUES (1, 0, '{report}');
             INSERT INTO node_state VALUES (3, x'{p}', 1, 7, 6);
             INSERT INTO node_state VALUES (4, x'{p}', 99, 8, 6);",
            p = "03".repeat(32)
        );
        connection.execute_batch(&rows).expect("filled");
        connection
    }

    #[test]
    fn a_file_of_the_first_version_goes_on_to_work() {
        let mut database = Database::prepare(old_file()).expect("brought up to date");
        let node = database.node(NodeId(3)).expect("node");
        let last = node.last_program.expect("it ran something");
        assert_eq!((last.path, last.bytes, last.job, last.at_ns), ("./prog".into(), 100, 1, 6));
        assert_eq!(last.program, "03".repeat(32));
        assert_eq!((node.generation, node.retained), (7, vec![]));
        assert_eq!(node.status.map(|status| status.cores), Some(1));
        assert_eq!(database.node(NodeId(4)).expect("node").last_program, None, "of an earlier boot");
        let detail = database.job(JobId(1)).expect("query").expect("there");
        assert_eq!((detail.job.nodes.as_slice(), detail.job.exit_status), (&[3][..], Some(4)));
        assert_eq!((detail.job.ranks, detail.job.ranks_per_node), (1, 1));
        assert_eq!((detail.job.name, detail.job.arguments), ("./prog".into(), vec!["a".into()]));
        assert_eq!((detail.job.root.to_str(), detail.job.directory), (Some("/"), "/".into()));
        assert_eq!((detail.job.staged, detail.job.transfers, detail.job.ahead), (vec![], vec![], None));
        assert_eq!((detail.job.detached, detail.job.output, detail.job.restarted_from), (false, None, None));
        assert_eq!(
            (detail.job.checkpoint_policy, detail.job.checkpoints_made, detail.job.continued_as),
            (None, None, None)
        );
        assert_eq!(database.pages_touched(ProgramId([3; 32])).expect("query"), None);
        assert_eq!((detail.job.placement, detail.job.retention, detail.job.running_at_ns), (None, None, None));
        assert_eq!((detail.rank_reports[0].counters.pages_fetched, detail.rank_reports[0].retain), (5, None));
        let programs = database.programs().expect("programs");
        assert_eq!(programs.iter().map(|program| &program.path).collect::<Vec<_>>(), [&"/bin/prog"]);
        assert!(database.program_from(b"/bin/prog").expect("query").is_some());
        // What is new can be recorded in it.
        let held = [HeldAs::Table, HeldAs::File, HeldAs::Read].map(|held_as| RetainedProgram {
            program: ProgramId([3; 32]),
            pages: 5,
            bytes: 6,
            held_as,
        });
        database.set_retained(&[(NodeId(3), Generation(7), held.to_vec())], 11).expect("recorded");
        assert_eq!(database.node(NodeId(3)).expect("node").retained, held);
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
