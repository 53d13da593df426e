//! `coppice job`: one job, how it got its nodes, and what each rank cost.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use coppice_api::checkpoint::CheckpointPolicy;
use coppice_api::job::{JobDetail, JobView, RankCounters, RankView, SpawnedBy};
use coppice_api::output::OutputView;
use coppice_api::show::{show_command, show_end};
use coppice_api::staging::StagedView;
use coppice_api::{Client, counted, shown};

use super::checkpoints::cost as show_cost;
use super::listings::run_time;
use super::transfers;
use crate::arguments::Job;
use crate::show::{print, print_json, table};
use crate::units::{show_bytes, show_ns, show_time};

pub(crate) async fn job(client: &Client, job: &Job) -> anyhow::Result<()> {
    let detail = client.job(job.job).await?;
    if job.listing.json { print_json(&detail) } else { print(&describe(&detail)) }
}

/// A job for people.
fn describe(detail: &JobDetail) -> String {
    let job = &detail.job;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "job {}: {}", job.job, show_command(job));
    if let Some(checkpoint) = job.restarted_from {
        let _ = writeln!(text, "restarted from checkpoint {checkpoint}");
    }
    if let Some(SpawnedBy { job, rank }) = job.spawned_by {
        let _ = writeln!(text, "started by rank {rank} of job {job}");
    }
    if let Some(next) = job.continued_as {
        let _ = writeln!(
            text,
            "lost node {}, goes on as job {} from checkpoint {}",
            next.lost_node, next.job, next.checkpoint
        );
    }
    let exit = job.exit_status.map(|status| format!(", exit status {status}")).unwrap_or_default();
    let reason = job.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let _ = writeln!(text, "{}{exit}{reason}", job.state.as_str());
    let _ = write!(text, "submitted {}", show_time(job.submitted_at_ns));
    if let Some(running) = job.running_at_ns {
        let _ = write!(text, ", all ranks running after {}", show_ns(running.saturating_sub(job.submitted_at_ns)));
    }
    let _ = write!(text, ", time {}", run_time(job));
    if let Some(ms) = job.estimate_ms {
        let _ = write!(text, " (estimate {})", show_ns(ms.saturating_mul(1_000_000)));
    }
    let _ = writeln!(text, "\nprogram {}, root {}, directory {}", job.program, shown(&job.root), job.directory);
    if !job.staged.is_empty() {
        let show = |file: &StagedView| match &file.path {
            Some(path) => format!("{path} ({})", show_bytes(file.bytes)),
            None => format!("the program ({})", show_bytes(file.bytes)),
        };
        let _ = writeln!(text, "staged {}", job.staged.iter().map(show).collect::<Vec<_>>().join(", "));
    }
    for transfer in &job.transfers {
        let _ = writeln!(text, "{}", transfers::line(transfer));
    }
    if let Some(kept) = &job.output {
        let _ = writeln!(text, "{}", output(job.detached, kept));
    } else if job.detached {
        text.push_str("detached\n");
    }
    if let Some(line) = checkpoints(job) {
        let _ = writeln!(text, "{line}");
    }
    if let Some(placement) = &job.placement {
        let _ = writeln!(text, "placement: {}", placement.summary);
    }
    if let Some(ahead) = &job.ahead {
        let _ = writeln!(text, "program {}", ahead.summary);
    }
    if !detail.rank_reports.is_empty() {
        text.push('\n');
        text.push_str(&ranks_table(&detail.rank_reports));
    }
    for (rank, reason) in detail.rank_reports.iter().filter_map(|rank| Some((rank.rank, rank.reason.as_ref()?))) {
        let _ = writeln!(text, "rank {rank}: {reason}");
    }
    if let Some(line) = files(&detail.rank_reports) {
        let _ = writeln!(text, "\n{line}");
    }
    let unknown = unknown_calls(&detail.rank_reports);
    if !unknown.is_empty() {
        let _ = writeln!(text, "\nsystem calls that Coppice does not have: {}", unknown.join(", "));
    }
    text
}

/// What its ranks had of files: how much of it had to come from the I/O node.
fn files(ranks: &[RankView]) -> Option<String> {
    let sum =
        |of: fn(&RankCounters) -> u64| ranks.iter().fold(0_u64, |sum, rank| sum.saturating_add(of(&rank.counters)));
    let opened = sum(|counters| counters.files_opened);
    let (lookups, fetched) = (sum(|counters| counters.lookups), sum(|counters| counters.file_pages_fetched));
    let found = sum(|counters| counters.file_pages_found);
    (opened + lookups > 0).then(|| {
        let (opened, lookups) = (counted(opened, "file"), counted(lookups, "look-up"));
        format!(
            "{opened} opened, {lookups} made at the I/O node; {} of files found, {fetched} fetched",
            counted(found, "page")
        )
    })
}

/// What is done about checkpoints of a job, and what was.
fn checkpoints(job: &JobView) -> Option<String> {
    let ms = |ms: u64| show_ns(ms.saturating_mul(1_000_000));
    let policy = job.checkpoint_policy.map(|CheckpointPolicy { every_ms, keep, max_restarts, node_mtbf_ms }| {
        let chosen = job.checkpoints_made.and_then(|made| made.interval_ms);
        let every = match (node_mtbf_ms, chosen) {
            (None, _) => format!("a checkpoint every {}", ms(every_ms)),
            (Some(_), None) => format!("a checkpoint after {}, then as often as pays", ms(every_ms)),
            (Some(_), Some(chosen)) => format!("a checkpoint every {}, as often as pays", ms(chosen)),
        };
        format!("{every}, {keep} stay, at most {}", counted(max_restarts, "restart"))
    });
    let made = job.checkpoints_made.map(|made| {
        let cost = made.cost.map(|cost| format!(": {}", show_cost(&cost))).unwrap_or_default();
        format!("{} made, the last {}{cost}", counted(made.count, "checkpoint"), made.last)
    });
    let lines: Vec<String> = policy.into_iter().chain(made).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// What is kept of a job's output.
fn output(detached: bool, kept: &OutputView) -> String {
    let detached = if detached { "detached, " } else { "" };
    let limit = show_bytes(kept.limit);
    let bytes = match kept.bytes {
        _ if kept.given_back => return format!("{detached}output not kept any more: it made room for later jobs'"),
        None => return format!("{detached}output kept up to {limit}"),
        Some(bytes) => format!("{detached}output kept: {} of at most {limit}", show_bytes(bytes)),
    };
    match kept.cut {
        None => bytes,
        Some(cut) if kept.dropped == 0 => format!("{bytes}, cut: {cut}"),
        Some(cut) => format!("{bytes}, {} cut: {cut}", show_bytes(kept.dropped)),
    }
}

fn ranks_table(ranks: &[RankView]) -> String {
    let row = |rank: &RankView| {
        vec![
            rank.rank.to_string(),
            rank.node.to_string(),
            show_end(rank),
            show_ns(rank.counters.launch_ns),
            show_ns(rank.counters.run_ns),
            rank.pages_retained.to_string(),
            rank.counters.pages_fetched.to_string(),
            rank.pages_zeroed.to_string(),
            rank.counters.page_faults.to_string(),
            show_bytes(rank.counters.pages_peak.saturating_mul(4096)),
            show_bytes(rank.counters.bytes_read),
            show_bytes(rank.counters.bytes_written),
            rank.syscalls.iter().map(|count| count.calls).sum::<u64>().to_string(),
        ]
    };
    let heading = [
        "RANK", "NODE", "END", "LAUNCH", "RUN", "RETAINED", "FETCHED", "ZEROED", "FAULTS", "MEMORY", "READ", "WRITTEN",
        "SYSCALLS",
    ];
    table(&heading, ranks.iter().map(row))
}

fn unknown_calls(ranks: &[RankView]) -> Vec<String> {
    let mut counts: BTreeMap<i32, (Option<&str>, u64)> = BTreeMap::new();
    for call in ranks.iter().flat_map(|rank| &rank.syscalls).filter(|call| call.unknown > 0) {
        let entry = counts.entry(call.number).or_insert((call.name.as_deref(), 0));
        entry.1 += call.unknown;
    }
    let show = |(number, (name, count)): (i32, (Option<&str>, u64))| match name {
        Some(name) => format!("{name} ({count} times)"),
        None => format!("number {number} ({count} times)"),
    };
    counts.into_iter().map(show).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use coppice_api::ahead::AheadDecision;
    use coppice_api::checkpoint::{CheckpointCost, CheckpointName, CheckpointPolicy, CheckpointsMade, Continuation};
    use coppice_api::job::{JobDetail, JobState, JobView, RankCounters, RankOutcome, RankView, SyscallView};
    use coppice_api::retain::{PlacedNode, Placement, PlacementReason};

    use coppice_api::staging::StagedView;

    use coppice_api::output::{OutputCut, OutputView};

    use super::{checkpoints, describe, output, transfers};
    use crate::run::goes_on;

    /// A job of two ranks that has ended well.
    pub(crate) fn view() -> JobView {
        JobView {
            job: 7,
            state: JobState::Ended,
            name: "./hello".into(),
            arguments: vec!["world".into()],
            program: "0123".into(),
            root: "/r".into(),
            directory: "/".into(),
            ranks: 2,
            ranks_per_node: 1,
            nodes: vec![4, 1],
            staged: vec![],
            transfers: vec![],
            submitted_at_ns: 0,
            started_at_ns: Some(1_000_000),
            running_at_ns: Some(31_000_000),
            ended_at_ns: Some(2_001_000_000),
            estimate_ms: None,
            placement: None,
            ahead: None,
            retention: None,
            exit_status: Some(0),
            reason: None,
            detached: false,
            output: None,
            restarted_from: None,
            spawned_by: None,
            checkpoint_policy: None,
            checkpoints_made: None,
            continued_as: None,
        }
    }

    fn rank(rank: u32) -> RankView {
        RankView {
            rank,
            node: rank + 3,
            outcome: RankOutcome::Exited,
            exit: Some(0),
            signal: None,
            reason: None,
            counters: RankCounters {
                launch_ns: 2_000,
                run_ns: 3_000,
                page_faults: 11,
                instruction_faults: 1,
                pages_fetched: 12,
                pages_peak: 2,
                bytes_read: 3,
                bytes_written: 4,
                lookups: 5,
                files_opened: 6,
                file_pages_fetched: 7,
                file_pages_found: 8,
            },
            retain: None,
            pages_retained: 13,
            pages_kept: 14,
            pages_dropped: 15,
            pages_zeroed: 16,
            walk_ns: 17,
            syscalls: vec![SyscallView { number: 57, name: Some("fork".into()), calls: 5, unknown: 2 }],
        }
    }

    #[test]
    fn a_job_says_how_it_was_placed_and_what_ranks_found() {
        let placed = |node| PlacedNode { node, reason: PlacementReason::Retained, pages: 13 };
        let summary = "2 nodes hold pages of the program".to_owned();
        let placement = Some(Placement { summary, nodes: vec![placed(4), placed(1)] });
        let staged = |path: Option<&str>| StagedView { path: path.map(Into::into), bytes: 2048 };
        let staged = vec![staged(None), staged(Some("/in/a"))];
        let transfers = vec![transfers::tests::transfer()];
        let ahead = Some(AheadDecision { staged: true, summary: "staged: as asked".to_owned(), reckoned: None });
        let job = JobView { placement, ahead, estimate_ms: Some(90_000), staged, transfers, ..view() };
        let text = describe(&JobDetail { job, rank_reports: vec![rank(0), rank(1)] });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..5],
            [
                "job 7: ./hello world",
                "ended, exit status 0",
                "submitted 1970-01-01 00:00:00Z, all ranks running after 31 ms, time 2000 ms (estimate 90.0 s)",
                "program 0123, root /r, directory /",
                "staged the program (2.0 KiB), /in/a (2.0 KiB)",
            ]
        );
        assert!(lines[5].starts_with("transfer of /in/a: 4.0 MiB to 8 nodes by two trees in 400 ms"), "{}", lines[5]);
        assert_eq!(lines[6..8], ["placement: 2 nodes hold pages of the program", "program staged: as asked"]);
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            words(lines[9]),
            "RANK NODE END LAUNCH RUN RETAINED FETCHED ZEROED FAULTS MEMORY READ WRITTEN SYSCALLS"
        );
        assert_eq!(words(lines[10]), "0 3 exit 0 2000 ns 3000 ns 13 12 16 11 8.0 KiB 3 B 4 B 5");
        let files = "12 files opened, 10 look-ups made at the I/O node; 16 pages of files found, 14 fetched";
        assert_eq!(lines[lines.len() - 3], files);
        assert_eq!(lines.last(), Some(&"system calls that Coppice does not have: fork (4 times)"));
    }

    #[test]
    fn what_is_kept_of_its_output_is_one_line() {
        let kept = OutputView::limited(64 << 20);
        assert_eq!(output(true, &kept), "detached, output kept up to 64.0 MiB");
        let whole = OutputView { bytes: Some(1536), ..kept };
        assert_eq!(output(false, &whole), "output kept: 1.5 KiB of at most 64.0 MiB");
        let cut = OutputView { cut: Some(OutputCut::ServiceNode), ..whole };
        assert!(output(false, &cut).ends_with("MiB, cut: the service node ended"));
        let cut = OutputView { dropped: 2048, ..cut };
        assert!(output(false, &cut).ends_with("MiB, 2.0 KiB cut: the service node ended"));
        assert!(output(true, &OutputView { given_back: true, ..whole }).starts_with("detached, output not kept any"));
    }

    #[test]
    fn a_job_says_where_it_goes_on_from() {
        let job = JobView { restarted_from: Some(CheckpointName { job: 3, number: 2 }), ..view() };
        let text = describe(&JobDetail { job, rank_reports: Vec::new() });
        let beginning = "job 7: ./hello world\nrestarted from checkpoint 3@2\nended, exit status 0\n";
        assert!(text.starts_with(beginning), "{text}");
    }

    #[test]
    fn a_job_says_what_is_done_about_checkpoints_and_how_it_goes_on() {
        let last = CheckpointName { job: 7, number: 4 };
        let job = JobView {
            checkpoint_policy: Some(CheckpointPolicy {
                every_ms: 600_000,
                keep: 2,
                max_restarts: 1,
                node_mtbf_ms: None,
            }),
            checkpoints_made: Some(CheckpointsMade { count: 4, last, cost: None, interval_ms: None }),
            continued_as: Some(Continuation { job: 8, checkpoint: last, lost_node: 3 }),
            ..view()
        };
        let made = "4 checkpoints made, the last 7@4";
        let all = format!("a checkpoint every 600.0 s, 2 stay, at most 1 restart; {made}");
        assert_eq!(checkpoints(&job), Some(all));
        assert_eq!(checkpoints(&JobView { checkpoint_policy: None, ..job.clone() }).as_deref(), Some(made));
        assert_eq!(checkpoints(&view()), None);
        let auto = CheckpointPolicy { every_ms: 60_000, keep: 2, max_restarts: 0, node_mtbf_ms: Some(1000) };
        let first = JobView { checkpoint_policy: Some(auto), checkpoints_made: None, ..job.clone() };
        let text = "a checkpoint after 60.0 s, then as often as pays, 2 stay, at most 0 restarts";
        assert_eq!(checkpoints(&first).as_deref(), Some(text));
        let cost =
            CheckpointCost { pause_us: 12_000, pages: 900, bytes: 3 << 20, local_ms: 80, drain_ms: 300, hash_ms: None };
        let last = CheckpointsMade { count: 1, last, cost: Some(cost), interval_ms: Some(227_690) };
        let text = checkpoints(&JobView { checkpoints_made: Some(last), ..first }).expect("some");
        assert!(text.starts_with("a checkpoint every 227.7 s, as often as pays, 2 stay"), "{text}");
        assert!(
            text.ends_with("the last 7@4: paused 12 ms, local after 80 ms, drained after 300 ms; 900 pages, 3.0 MiB")
        );
        let line = "job 7 lost node 3; goes on as job 8 from checkpoint 7@4";
        assert_eq!(goes_on(&job).as_deref(), Some(line));
        assert_eq!(goes_on(&view()), None);
        let text = describe(&JobDetail { job, rank_reports: Vec::new() });
        assert!(text.contains("\nlost node 3, goes on as job 8 from checkpoint 7@4\nended"), "{text}");
    }

    #[test]
    fn a_job_without_nodes_says_no_more_than_is_known() {
        let waiting =
            JobView { state: JobState::Queued, started_at_ns: None, running_at_ns: None, exit_status: None, ..view() };
        let text = describe(&JobDetail { job: waiting, rank_reports: Vec::new() });
        assert_eq!(
            text,
            "job 7: ./hello world\nqueued\nsubmitted 1970-01-01 00:00:00Z, time -\nprogram 0123, root /r, directory /\n"
        );
    }
}
