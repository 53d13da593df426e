//! Programs that are sent ahead of their launch without anybody having asked for that: when, and what is recorded.

mod support;

use coppice_api::ahead::AheadDecision;
use coppice_api::job::Submission;
use coppice_api::staging::ProgramStaging;
use coppice_protocol::control::{Exit, RankCounters, RankReport};
use coppice_protocol::ids::{JobId, NodeId, ProgramId, Rank};
use coppice_protocol::pset::ToPset;
use coppice_service_node::database::ProgramRow;
use support::{Cluster, job};

/// 8 MiB that take 0.67 s on a link of 100 Mbit/s.
const LARGE: ProgramRow = ProgramRow { id: ProgramId([8; 32]), bytes: 8 << 20, memory_bytes: 8 << 20 };
const LINK: u64 = 100_000_000;

fn submit(cluster: &mut Cluster, program: ProgramRow, job: Submission) -> JobId {
    cluster.submit_program(program, job).expect("accepted")
}

/// How many files the I/O nodes were told to stage for a job.
fn files(cluster: &Cluster, job: JobId) -> usize {
    let start = |message: &ToPset| match message {
        ToPset::Start(start) if start.job == job => Some(start.staging.as_ref().map_or(0, |all| all.files.len())),
        _ => None,
    };
    cluster.told().find_map(|(_, message)| start(message)).expect("started")
}

/// What was decided for a job, which is what was done.
fn decision(cluster: &mut Cluster, job: JobId) -> AheadDecision {
    let decision = cluster.job(job).job.ahead.expect("decided");
    assert_eq!(files(cluster, job), usize::from(decision.staged), "{decision:?}");
    decision
}

/// The ranks of a job end, each of which fetched so many pages.
fn end(cluster: &mut Cluster, job: JobId, exit: Exit, pages_fetched: u64) {
    let nodes = cluster.job(job).job.nodes;
    for (node, rank) in nodes.into_iter().zip(0..) {
        let counters = RankCounters { pages_fetched, ..RankCounters::default() };
        let report = RankReport { counters, ..RankReport::ended(job, Rank(rank), exit) };
        cluster.said(node, support::behaviour::one_end(NodeId(node), report, &[]));
    }
}

#[test]
fn a_large_program_is_sent_ahead_to_many_nodes_and_the_job_says_why() {
    let mut cluster = Cluster::linked(8, LINK);
    let id = submit(&mut cluster, LARGE, job(8));
    let large = decision(&mut cluster, id);
    assert!(large.staged && large.summary.starts_with("staged: "), "{large:?}");
    let reckoned = large.reckoned.expect("reckoned");
    assert_eq!((reckoned.program_bytes, reckoned.nodes, reckoned.nodes_holding), (8 << 20, 8, 0));
    assert_eq!((reckoned.pages_touched, reckoned.is_measured), (615, false));
    assert_eq!((reckoned.pages_missing, reckoned.link_bytes_per_second), (8 * 615, LINK / 8));
    assert!(reckoned.demand_ns > reckoned.staged_ns);
    cluster.end(id);
    let mut cluster = cluster.restarted();
    assert_eq!(cluster.job(id).job.ahead, Some(large));

    // Not to few, nor a small one, nor where nobody said how fast links are.
    let mut cluster = Cluster::linked(8, LINK);
    let few = submit(&mut cluster, LARGE, job(3));
    assert!(!decision(&mut cluster, few).staged);
    let small = ProgramRow { bytes: 100_000, ..LARGE };
    let small = submit(&mut cluster, small, job(5));
    assert!(!decision(&mut cluster, small).staged);
    let mut cluster = Cluster::up(8, 8);
    let unknown = submit(&mut cluster, LARGE, job(8));
    assert_eq!(decision(&mut cluster, unknown).summary, "not staged: nobody said how fast the links are");
}

#[test]
fn who_says_so_has_it_staged_or_not() {
    let mut cluster = Cluster::linked(8, LINK);
    let wanted = |stage_program, ranks| Submission { stage_program, ..job(ranks) };
    let never = submit(&mut cluster, LARGE, wanted(ProgramStaging::Never, 6));
    assert_eq!(decision(&mut cluster, never).summary, "not staged: as asked");
    let always = submit(&mut cluster, LARGE, wanted(ProgramStaging::Always, 2));
    assert_eq!(decision(&mut cluster, always).summary, "staged: as asked");
}

#[test]
fn what_a_program_touched_last_time_counts_and_nodes_that_hold_it_get_nothing() {
    let mut cluster = Cluster::linked(8, LINK);
    let cold = || Submission { retain: false, ..job(8) };
    let first = submit(&mut cluster, LARGE, cold());
    assert!(decision(&mut cluster, first).staged);
    // It touched little of what was sent.
    end(&mut cluster, first, Exit::Status(0), 50);
    let second = submit(&mut cluster, LARGE, cold());
    let little = decision(&mut cluster, second);
    let reckoned = little.reckoned.expect("reckoned");
    assert_eq!((little.staged, reckoned.pages_touched, reckoned.is_measured), (false, 50, true));
    assert!(little.summary.ends_with("(50 pages a node, as last time)"), "{}", little.summary);
    // One that was ended says nothing of what it would have touched.
    end(&mut cluster, second, Exit::Signal(9), 1);
    let third = submit(&mut cluster, LARGE, cold());
    assert_eq!(decision(&mut cluster, third).reckoned.expect("reckoned").pages_touched, 50);
    end(&mut cluster, third, Exit::Status(1), 2048);
    let fourth = submit(&mut cluster, LARGE, cold());
    assert!(decision(&mut cluster, fourth).staged);
    cluster.end(fourth);

    let program = ProgramRow { id: ProgramId([9; 32]), ..LARGE };
    cluster.run_on(program, &[0, 1, 2, 3, 4, 5, 6, 7]);
    let warm = submit(&mut cluster, program, job(8));
    assert_eq!(decision(&mut cluster, warm).summary, "not staged: all nodes hold pages of the program");
}

#[test]
fn nothing_is_refused_for_a_program_that_nobody_asked_to_have_sent() {
    let mut cluster = Cluster::linked(8, LINK);
    // The nodes have 60 MiB free: it runs, and there is no room for it twice.
    let long = ProgramRow { bytes: 40 << 20, memory_bytes: 40 << 20, ..LARGE };
    let id = submit(&mut cluster, long, job(8));
    let decision = decision(&mut cluster, id);
    assert_eq!((decision.staged, decision.summary.as_str()), (false, "not staged: nodes have little memory for it"));
    assert!(decision.reckoned.is_some_and(|reckoned| reckoned.demand_ns > reckoned.staged_ns));
}
