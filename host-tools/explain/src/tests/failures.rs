//! How jobs failed.

use coppice_api::job::{JobState, RankOutcome, RankView};

use super::evidence::{BEGIN, SECOND, causes, event, first, quiet, said};
use crate::{Cause, Evidence, explain};

fn killed(rank: u32) -> RankView {
    let reason = Some("killed in system call read".to_owned());
    RankView { signal: Some(9), exit: None, reason, outcome: RankOutcome::Signalled, ..super::evidence::rank(rank) }
}

/// All ranks were ended.
fn failed(status: u8) -> Evidence {
    let mut evidence = quiet();
    evidence.job.job.exit_status = Some(status);
    evidence.job.rank_reports = (0..4).map(killed).collect();
    evidence
}

#[test]
fn a_crash_ends_the_others() {
    let mut evidence = failed(139);
    evidence.job.rank_reports[2].signal = Some(11);
    evidence.job.rank_reports[2].reason = Some("at address 0x0, instruction 0x4019d1: nothing is mapped there".into());
    evidence.ras = vec![
        event(4, "node-lost", Some(3), None, "node 3 was lost"),
        event(2, "program-fault", Some(2), Some(2), "rank 2 (./x): SIGSEGV at address 0x0"),
        event(1, "unknown-syscall", Some(2), Some(2), "rank 2: rseq"),
    ];
    insta::assert_snapshot!(said(&explain(&evidence)));
    // Without any event the rank's end says it.
    evidence.ras.clear();
    assert_eq!(first(&evidence), Cause::Crash);
    let text = said(&explain(&evidence));
    assert!(
        text.starts_with("Rank 2 on node 2 was the first that failed: it was ended by SIGSEGV after 10.0 s"),
        "{text}"
    );
    // Others crash after it.
    evidence.ras = vec![
        event(2, "program-fault", Some(2), Some(2), "rank 2 (./x): SIGSEGV at address 0x0"),
        event(3, "program-fault", Some(1), Some(1), "rank 1 (./x): SIGSEGV at address 0x0"),
        event(4, "program-fault", Some(3), Some(3), "rank 3 (./x): SIGSEGV at address 0x0"),
    ];
    assert!(said(&explain(&evidence)).contains("because of it, and the same happened 2 times more."));
}

#[test]
fn memory_is_short() {
    let mut evidence = failed(137);
    evidence.job.rank_reports[0].counters.pages_peak = 14_000;
    evidence.ras = vec![event(2, "out-of-memory", Some(0), Some(0), "rank 0 (./x): out of memory")];
    insta::assert_snapshot!(said(&explain(&evidence)));
    let mut evidence = quiet();
    evidence.job.rank_reports[3].counters.pages_peak = (55 << 20) / 4096 * 9 / 10 + 1;
    assert_eq!(causes(&evidence), [Cause::Nothing, Cause::MemoryShort, Cause::NotGathered]);
    evidence.job.rank_reports[3].counters.pages_peak -= 2;
    assert_eq!(causes(&evidence), [Cause::Nothing, Cause::NotGathered]);
}

#[test]
fn a_node_is_lost() {
    let mut evidence = failed(125);
    evidence.job.rank_reports[3] = RankView::ended(3, 3, RankOutcome::Lost, Some("node 3 was lost".into()));
    evidence.ras = vec![event(2, "node-lost", Some(3), None, "node 3 was lost: QEMU was ended by signal 9")];
    insta::assert_snapshot!(said(&explain(&evidence)));
    // Another job's node, and one of its own before it had it.
    evidence.ras = vec![event(2, "node-lost", Some(8), None, "node 8 was lost")];
    evidence.ras.push(crate::tests::evidence::event(1, "node-lost", Some(1), None, "node 1 was lost"));
    evidence.ras[1].at_ns = BEGIN - SECOND;
    let text = said(&explain(&evidence));
    assert!(text.starts_with("Rank 3 on node 3 was the first that failed: it was lost with its node"), "{text}");
    evidence.ras[1].at_ns = BEGIN;
    evidence.ras[1].kind = "kernel-panic".into();
    assert!(said(&explain(&evidence)).contains("coppice console 1"));
}

#[test]
fn programs_exit_badly() {
    let mut evidence = failed(3);
    for (rank, status) in [(0, 2), (1, 3)] {
        let report = &mut evidence.job.rank_reports[rank];
        (report.outcome, report.exit, report.signal, report.reason) = (RankOutcome::Exited, Some(status), None, None);
        report.counters.run_ns = SECOND * u64::from(status);
    }
    let text = said(&explain(&evidence));
    let wanted = "Rank 0 on node 0 was the first that failed: it exited with status 2 after 2000 ms; \
                  2 other ranks were ended because of it, and 1 failed, too.\n";
    assert!(text.starts_with(wanted), "{text}");
    for report in &mut evidence.job.rank_reports {
        (report.outcome, report.exit, report.signal, report.reason) = (RankOutcome::Exited, Some(1), None, None);
    }
    assert!(said(&explain(&evidence)).starts_with("All of its 4 ranks exited with status 1.\n"));
    evidence.job.rank_reports[1] = RankView::ended(1, 1, RankOutcome::NotStarted, Some("no room".into()));
    assert_eq!(first(&evidence), Cause::NotStarted);
}

#[test]
fn it_was_ended_from_outside() {
    let mut evidence = failed(125);
    evidence.job.job.reason = Some("ended by --timeout after 1 s".into());
    assert_eq!(first(&evidence), Cause::Ended);
    let text = said(&explain(&evidence));
    assert!(
        text.starts_with("The job was ended, and no rank failed by itself before that: ended by --timeout"),
        "{text}"
    );
}

#[test]
fn signals_that_somebody_sent_are_no_crash() {
    let mut evidence = failed(143);
    for (signal, cause, name) in
        [(15, Cause::Ended, "SIGTERM"), (6, Cause::Crash, "SIGABRT"), (8, Cause::Crash, "SIGFPE")]
    {
        for report in &mut evidence.job.rank_reports {
            (report.signal, report.reason) = (Some(signal), None);
        }
        assert_eq!(first(&evidence), cause);
        let wanted = format!("All of its 4 ranks were ended by {name}.\n");
        assert!(said(&explain(&evidence)).starts_with(&wanted), "{}", said(&explain(&evidence)));
    }
}

/// A rank of a job that goes on has crashed.
#[test]
fn a_job_that_runs_may_have_lost_ranks() {
    let mut evidence = quiet();
    evidence.job.job.state = JobState::Running;
    (evidence.job.job.ended_at_ns, evidence.job.job.exit_status) = (None, None);
    evidence.job.rank_reports.clear();
    assert_eq!(first(&evidence), Cause::Nothing);
    evidence.ras = vec![event(2, "program-fault", Some(2), Some(2), "rank 2 (./x\x1b[31m): SIGSEGV\nat 0x0")];
    let text = said(&explain(&evidence));
    let wanted = "Rank 2 on node 2 crashed: rank 2 (./x\\u{1b}[31m): SIGSEGV\\nat 0x0; no other rank was ended";
    assert!(text.starts_with(wanted), "{text}");
    assert!(text.contains("coppice overlay 7 on"), "{text}");
}
