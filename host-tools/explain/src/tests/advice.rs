//! Commands that are advised in cases of which nothing else is looked at here. The tool's tests try to parse them, and
//! all others in snapshots.

use coppice_api::job::{JobState, RankOutcome, RankView};
use coppice_api::link::LinkShape;
use coppice_api::output::OutputView;
use coppice_api::staging::StagedView;

use super::evidence::{BEGIN, SECOND, event, gathered, quiet, said};
use super::waits::with_link;
use crate::{Evidence, explain};

fn changed(mut evidence: Evidence, change: impl FnOnce(&mut Evidence)) -> Evidence {
    change(&mut evidence);
    evidence
}

/// A job all of whose ranks exited with 1.
fn exited() -> Evidence {
    changed(quiet(), |evidence| {
        evidence.job.job.exit_status = Some(1);
        for rank in &mut evidence.job.rank_reports {
            rank.exit = Some(1);
        }
    })
}

#[test]
fn what_else_is_advised() {
    let waits = || gathered(&[("user", [100; 4]), ("network", [900; 4])]);
    let files = || gathered(&[("file", [800; 4]), ("user", [200; 4]), ("calls", [10; 4]), ("bytes-shipped", [50; 4])]);
    let all = [
        waits(),
        with_link(waits(), LinkShape { cut: true, ..LinkShape::default() }),
        changed(waits(), |evidence| evidence.ras.push(event(3, "link-cut", Some(1), None, "cut"))),
        changed(exited(), |evidence| evidence.ras.push(event(3, "kernel-panic", Some(1), None, "a panic"))),
        exited(),
        changed(exited(), |evidence| evidence.job.job.output = Some(OutputView::limited(1 << 20))),
        changed(exited(), |evidence| {
            evidence.job.rank_reports[1] = RankView::ended(1, 1, RankOutcome::NotStarted, None);
        }),
        changed(files(), |evidence| evidence.job.job.state = JobState::Running),
        changed(files(), |evidence| {
            for epoch in &mut evidence.profile.epochs {
                epoch.metrics.push(super::evidence::metric("bytes-shipped", &[1 << 30; 4]));
                epoch.metrics.retain(|metric| metric.metric != "bytes-shipped" || metric.sum > 1 << 20);
            }
        }),
        changed(gathered(&[("user", [250; 4]), ("ready", [750; 4])]), |evidence| {
            evidence.job.job.ranks_per_node = 4;
            evidence.job.job.nodes = vec![0];
            evidence.nodes.truncate(1);
        }),
        changed(quiet(), |evidence| {
            (evidence.job.job.started_at_ns, evidence.job.job.state) = (None, JobState::Queued);
        }),
        changed(quiet(), |evidence| {
            evidence.job.job.staged = vec![StagedView { path: Some("/in/a".into()), bytes: 5 << 20 }];
            evidence.job.job.running_at_ns = Some(BEGIN + 9 * SECOND);
        }),
        changed(quiet(), |evidence| evidence.job.rank_reports[0].counters.run_ns = 90 * SECOND),
        changed(quiet(), |evidence| {
            (evidence.job.job.state, evidence.job.job.ended_at_ns) = (JobState::Starting, None);
            evidence.job.job.running_at_ns = None;
        }),
    ];
    let first = |evidence: &Evidence| said(&explain(evidence)).lines().take(2).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(all.iter().map(first).collect::<Vec<_>>().join("\n"));
}
