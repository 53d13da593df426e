//! Jobs and nodes as they are recorded, read by another process where that matters.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use coppice_api::checkpoint::{CheckpointName, CheckpointPolicy, CheckpointsMade, Continuation};
use coppice_api::job::{JobState, RankCounters, RankOutcome, RankView, Submission};
use coppice_api::retain::{LastProgram, PlacedNode, Placement, PlacementReason, RetainAnswer, RetentionSummary};
use coppice_protocol::ids::{Generation, JobId, NodeId, ProgramId};
use coppice_protocol::retain::{HeldAs, RetainedProgram};
use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

use super::{Database, FileKey, JobRow, NodeRow, ProgramRow, StartRow};

const PROGRAM: ProgramId = ProgramId([9; 32]);

fn submission() -> Submission {
    Submission {
        arguments: vec!["a b".into(), "ü".into(), b"\xff\n"[..].into()],
        root: "/srv".into(),
        timeout_ms: Some(5),
        estimate_ms: Some(4),
        ..Submission::plain("/bin/x".into(), "x".into(), 2)
    }
}

fn rank(rank: u32) -> RankView {
    RankView {
        rank,
        node: rank + 4,
        outcome: RankOutcome::Exited,
        exit: Some(3),
        signal: None,
        reason: None,
        counters: RankCounters {
            launch_ns: u64::MAX,
            run_ns: 2,
            page_faults: 3,
            instruction_faults: 4,
            pages_fetched: 5,
            pages_peak: 6,
            bytes_read: 7,
            bytes_written: 8,
            lookups: 15,
            files_opened: 16,
            file_pages_fetched: 17,
            file_pages_found: 18,
        },
        retain: Some(RetainAnswer::Kept { kept: 1, dropped: 2, zeroed: 3, discarded: 4 }),
        pages_retained: 9,
        pages_kept: 10,
        pages_dropped: 11,
        pages_zeroed: 12,
        walk_ns: 13,
        syscalls: vec![],
    }
}

fn run(job: JobId) -> LastProgram {
    LastProgram { program: PROGRAM.to_string(), path: "x".into(), bytes: 7, job: job.0, at_ns: 20 }
}

/// Gives nodes that have not booted before to a job.
fn start(database: &mut Database, job: JobId, nodes: &[u32]) -> Placement {
    let nodes = nodes.iter().map(|node| {
        let node = NodeId(*node);
        (node, database.next_generation(node).expect("counted"))
    });
    let nodes: Vec<_> = nodes.collect();
    let placed = nodes.iter().map(|(node, _)| PlacedNode { node: node.0, reason: PlacementReason::Clean, pages: 0 });
    let placement = Placement { summary: "clean".into(), nodes: placed.collect() };
    let start = StartRow { nodes: &nodes, placement: &placement, ahead: None, program: PROGRAM, run: &run(job) };
    database.start_job(job, &start, 20).expect("started");
    placement
}

/// A number that was given and is not recorded would be given again.
#[test]
fn what_cannot_be_committed_has_no_number() {
    let directory = tempfile::tempdir().expect("directory");
    let mut database = Database::open(&directory.path().join("db")).expect("open");
    // As a disk that is full when the log of changes is written.
    database.connection.commit_hook(Some(|| true)).expect("hooked");
    assert!(database.add_job(&submission(), PROGRAM, &[], 10).is_err());
    assert!(database.next_generation(NodeId(4)).is_err());
    database.connection.commit_hook(None::<fn() -> bool>).expect("unhooked");
    assert_eq!(database.next_generation(NodeId(4)).expect("counted"), Generation(1));
    assert_eq!(database.add_job(&submission(), PROGRAM, &[], 10).expect("added"), JobId(1));
}

#[test]
fn a_file_of_the_database_that_cannot_be_opened_is_named_with_the_reason() {
    let directory = tempfile::tempdir().expect("directory");
    let file = directory.path().join("db");
    std::fs::create_dir(&file).expect("made");
    let error = Database::open(&file).expect_err("a directory").to_string();
    assert_eq!(error, "cannot open the file 'db' of the database: Is a directory");
}

#[test]
fn a_job_is_followed_from_queue_to_end() {
    let directory = tempfile::tempdir().expect("directory");
    let file = directory.path().join("db");
    let mut database = Database::open(&file).expect("open");
    let job = database.add_job(&submission(), PROGRAM, &[], 10).expect("added");
    let queued = database.job(job).expect("query").expect("there").job;
    assert_eq!((queued.state, queued.estimate_ms, queued.placement), (JobState::Queued, Some(4), None));
    let placement = start(&mut database, job, &[4, 5]);
    database.job_running(job, 25).expect("running");
    assert_eq!(database.unfinished_jobs().expect("query"), [job]);
    database.add_ranks(job, &[rank(1), rank(0)]).expect("ranks");
    // What is said twice is recorded once.
    database.add_ranks(job, &[rank(1)]).expect("ranks");
    let retention = RetentionSummary { warm_ranks: 2, warm_nodes: 1, pages_kept: 18, pages_fetched: 10 };
    let last = CheckpointName { job: job.0, number: 7 };
    let made = CheckpointsMade { count: 8, last, cost: None, interval_ms: None };
    database.set_checkpoints_made(job, &made).expect("made");
    let continued_as = Some(Continuation { job: 99, checkpoint: last, lost_node: 4 });
    let (reason, retention) = (Some("because".into()), Some(retention));
    let end = JobRow { exit_status: 3, reason, retention, pages_touched: Some(9), continued_as };
    database.end_job(job, &end, 30).expect("ended");

    // As another process would find it, the first one having been killed.
    std::mem::forget(database);
    let database = Database::open(&file).expect("open again");
    assert_eq!(database.unfinished_jobs().expect("query"), []);
    let detail = database.job(job).expect("query").expect("there");
    assert_eq!(detail.rank_reports, [rank(0), rank(1)]);
    assert_eq!((detail.job.nodes, detail.job.exit_status), (vec![4, 5], Some(3)));
    assert_eq!(detail.job.arguments, submission().arguments);
    let times = (detail.job.started_at_ns, detail.job.running_at_ns, detail.job.ended_at_ns);
    assert_eq!(times, (Some(20), Some(25), Some(30)));
    assert_eq!((detail.job.placement, detail.job.retention), (Some(placement), retention));
    assert_eq!((detail.job.checkpoints_made, detail.job.continued_as), (Some(made), continued_as));
    assert_eq!(database.jobs(9, None).expect("jobs")[0].retention, retention);
}

/// Of a job that a service node left behind the next one says that it ended, by a clock that was set meanwhile.
#[test]
fn no_job_ends_before_its_beginning() {
    let mut database = Database::in_memory().expect("open");
    let end = JobRow { exit_status: 125, reason: None, retention: None, pages_touched: None, continued_as: None };
    let job = |database: &mut Database| database.add_job(&submission(), PROGRAM, &[], 10).expect("added");
    let (queued, started, running) = (job(&mut database), job(&mut database), job(&mut database));
    start(&mut database, started, &[4]);
    start(&mut database, running, &[5]);
    database.job_running(running, 25).expect("running");
    for (job, ended_at_ns) in [(queued, 10), (started, 20), (running, 25)] {
        database.end_job(job, &end, 5).expect("ended");
        assert_eq!(database.job(job).expect("query").expect("there").job.ended_at_ns, Some(ended_at_ns));
    }
}

#[test]
fn numbers_are_never_reused_and_the_newest_come_last() {
    let database = Database::in_memory().expect("open");
    let first = database.add_job(&submission(), PROGRAM, &[], 10).expect("added");
    database.connection.execute("DELETE FROM jobs", []).expect("deleted");
    let second = database.add_job(&submission(), PROGRAM, &[], 10).expect("added");
    assert!(second > first);
    let third = database.add_job(&submission(), PROGRAM, &[], 10).expect("added");
    let listed: Vec<u64> = database.jobs(10, None).expect("jobs").iter().map(|job| job.job).collect();
    assert_eq!(listed, [second.0, third.0]);
    assert_eq!(database.jobs(1, None).expect("jobs")[0].job, third.0);
    let before = |job| database.jobs(10, Some(job)).expect("jobs").iter().map(|job| job.job).collect::<Vec<_>>();
    assert_eq!((before(third), before(second), before(JobId(u64::MAX)).len()), (vec![second.0], vec![], 2));
}

#[test]
fn the_node_state_table_survives_and_is_void_after_a_boot() {
    let directory = tempfile::tempdir().expect("directory");
    let file = directory.path().join("db");
    let held = |program, pages| RetainedProgram {
        program: ProgramId([program; 32]),
        pages,
        bytes: u64::MAX,
        held_as: HeldAs::Table,
    };
    let mut database = Database::open(&file).expect("open");
    let job = database.add_job(&submission(), PROGRAM, &[], 10).expect("added");
    start(&mut database, job, &[4, 5, 6]);
    // In the order they ran, which is not that of their hashes.
    let table = [held(9, 3), held(1, 2)];
    for node in [4, 5, 6] {
        database.set_retained(&[(NodeId(node), Generation(1), vec![held(7, 1), held(8, 1)])], 20).expect("recorded");
        database.set_retained(&[(NodeId(node), Generation(1), table.to_vec())], 21).expect("recorded");
    }
    std::mem::forget(database);

    let mut database = Database::open(&file).expect("open again");
    let known = |database: &Database, node| {
        let NodeRow { last_program, retained, .. } = database.node(NodeId(node)).expect("node");
        (last_program, retained)
    };
    assert_eq!(known(&database, 4), (Some(run(job)), table.to_vec()));
    assert_eq!(known(&database, 7), (None, vec![]), "nobody knows it");
    database.next_generation(NodeId(4)).expect("booted");
    assert_eq!(known(&database, 4), (None, vec![]), "rows of another boot are void");
    database.void_node_state(NodeId(5)).expect("voided");
    assert_eq!(known(&database, 5), (None, vec![]));
    assert_eq!(known(&database, 6), (Some(run(job)), table.to_vec()), "nobody touched it");
    // A boot that came to nothing before it ran anything finds no rows of the one before it either.
    database.set_retained(&[(NodeId(4), Generation(2), vec![])], 22).expect("recorded");
    assert_eq!(known(&database, 4), (None, vec![]));
}

fn value(database: &Database, sql: &str) -> rusqlite::types::Value {
    database.connection.query_row(sql, [], |row| row.get(0)).expect("a row")
}

#[test]
fn what_is_text_is_stored_as_text_and_what_is_not_as_bytes() {
    let mut database = Database::in_memory().expect("open");
    let odd = Submission { name: b"./x\xff"[..].into(), directory: "/ü".into(), ..submission() };
    let job = database.add_job(&odd, PROGRAM, &[], 10).expect("added");
    assert_eq!(value(&database, "SELECT name FROM jobs"), b"./x\xff".to_vec().into());
    assert_eq!(value(&database, "SELECT directory FROM jobs"), "/ü".to_owned().into());
    let run = LastProgram { path: odd.name.clone(), ..run(job) };
    let nodes = [(NodeId(1), database.next_generation(NodeId(1)).expect("counted"))];
    let placement = Placement { summary: "clean".into(), nodes: Vec::new() };
    let start = StartRow { nodes: &nodes, placement: &placement, ahead: None, program: PROGRAM, run: &run };
    database.start_job(job, &start, 20).expect("started");
    assert_eq!(database.node(NodeId(1)).expect("node").last_program, Some(run));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn any_bytes_are_read_as_they_were_written(
        [name, directory, path, argument] in any::<[Vec<u8>; 4]>(),
        is_text in any::<bool>(),
    ) {
        let [name, directory, path, argument] = [name, directory, path, argument].map(|bytes| {
            if is_text { String::from_utf8_lossy(&bytes).into_owned().into_bytes() } else { bytes }
        });
        let path = PathBuf::from(OsString::from_vec(path));
        let mut database = Database::in_memory().expect("open");
        let job = Submission {
            name: name.into(),
            directory: directory.into(),
            root: path.clone(),
            arguments: vec![argument.into()],
            restarted_from: is_text.then_some(CheckpointName { job: 3, number: u32::MAX }),
            checkpoint_policy: is_text.then_some(CheckpointPolicy {
                every_ms: 1000,
                keep: 2,
                max_restarts: 3,
                node_mtbf_ms: Some(u64::MAX / 2),
            }),
            ..submission()
        };
        let id = database.add_job(&job, PROGRAM, &[], 10).expect("added");
        let found = database.job(id).expect("query").expect("there").job;
        prop_assert_eq!((found.name, found.arguments), (job.name, job.arguments));
        prop_assert_eq!((found.root, found.directory), (job.root, job.directory));
        prop_assert_eq!((found.restarted_from, found.checkpoint_policy), (job.restarted_from, job.checkpoint_policy));
        let row = ProgramRow { id: PROGRAM, bytes: 3, memory_bytes: 9 };
        let file = FileKey { device: 1, inode: 2, bytes: 3, modified_ns: 4, changed_ns: 5 };
        database.use_program(&row, file, &path, 1).expect("used");
        prop_assert_eq!(database.program_from(path.as_os_str().as_bytes()).expect("query"), Some(PROGRAM));
        let listed = database.programs().expect("listed");
        prop_assert_eq!(&*listed[0].path, path.as_os_str().as_bytes());
    }
}
