//! Whatever the evidence is, something is said of it, in lines that no terminal obeys.

use coppice_api::job::{JobState, RankOutcome};
use coppice_api::link::{DirectionView, DroppedView, LinkCounters, LinkShape, LinkView, LinksView, Station};
use coppice_api::overlay::{EpochView, MetricView, TopView};
use coppice_api::retain::RetentionSummary;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_oneof, proptest};

use super::evidence::{event, metric, quiet};
use crate::times::PHASES;
use crate::{Evidence, explain};

/// Numbers at which something may go wrong.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(1 << 63), 0..100_u64, any::<u64>()]
}

fn small() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(u32::MAX), 0..6_u32]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just("\x1b[2J\n<script>\u{9b}\r".to_owned()), Just(String::new()), "\\PC{0,80}", ".{0,20}"]
}

fn any_metric() -> impl Strategy<Value = MetricView> {
    let others = ["faults", "pages-fetched", "calls", "bytes-shipped", "bytes-sent"];
    let names = PHASES.into_iter().chain(others).collect::<Vec<_>>();
    let top = vec((small(), number()).prop_map(|(rank, value)| TopView { rank, value }), 0..5);
    (proptest::sample::select(names), number(), number(), number(), top)
        .prop_map(|(name, count, sum, least, top)| MetricView { count, sum, least, top, ..metric(name, &[]) })
}

fn any_epoch() -> impl Strategy<Value = EpochView> {
    (number(), number(), vec(any_metric(), 0..12)).prop_map(|(period_ns, end_ns, metrics)| EpochView {
        period_ns,
        end_ns,
        metrics,
        ..super::evidence::epoch(0, &[])
    })
}

fn any_link() -> impl Strategy<Value = LinkView> {
    let direction = (option::of(number()), number(), small(), any::<bool>(), number(), number());
    let direction = direction.prop_map(|(bandwidth_bits_per_s, latency_ns, loss_ppm, cut, frames, queue_full)| {
        let dropped = DroppedView { queue_full, ..DroppedView::default() };
        let counters = LinkCounters { frames, bytes: frames, dropped };
        DirectionView { shape: LinkShape { bandwidth_bits_per_s, latency_ns, loss_ppm, cut }, counters }
    });
    let station = prop_oneof![small().prop_map(Station::Node), small().prop_map(Station::IoNode)];
    (station, direction).prop_map(|(link, direction)| LinkView {
        link,
        up: true,
        to: direction,
        from: DirectionView::default(),
        queued_frames: 0,
        recording: None,
    })
}

/// A job with any numbers.
fn any_job() -> impl Strategy<Value = Evidence> {
    let states = [JobState::Queued, JobState::Starting, JobState::Running, JobState::Ended];
    let moments = (number(), option::of(number()), option::of(number()), option::of(number()));
    let shape = (small(), small(), vec(small(), 0..5), option::of(any::<u8>()), option::of(text()), text());
    (proptest::sample::select(states.to_vec()), moments, shape, option::of(small())).prop_map(
        |(state, (submitted, started, running, ended), (ranks, per_node, nodes, exit, reason, name), warm)| {
            let mut evidence = quiet();
            let job = &mut evidence.job.job;
            job.state = state;
            (job.submitted_at_ns, job.started_at_ns, job.running_at_ns, job.ended_at_ns) =
                (submitted, started, running, ended);
            (job.ranks, job.ranks_per_node, job.nodes, job.exit_status) = (ranks, per_node, nodes, exit);
            (job.reason, job.name) = (reason, name.as_str().into());
            job.retention = warm.map(|warm_ranks| RetentionSummary { warm_ranks, ..RetentionSummary::default() });
            evidence
        },
    )
}

fn any_evidence() -> impl Strategy<Value = Evidence> {
    let outcomes = [RankOutcome::Exited, RankOutcome::Signalled, RankOutcome::NotStarted, RankOutcome::Lost];
    let outcome = proptest::sample::select(outcomes.to_vec());
    let of_rank = (outcome, option::of(any::<u8>()), option::of(any::<u8>()), option::of(text()), number());
    let kinds = ["program-fault", "out-of-memory", "node-lost", "kernel-panic", "io-node-lost", "link-cut", "other"];
    let kind = proptest::sample::select(kinds.to_vec());
    let of_event = (0..20_u64, kind, option::of(small()), option::of(small()), text());
    let others = vec((small(), vec(small(), 0..4), option::of(number()), option::of(number()), text()), 0..4);
    let around = (vec(of_event, 0..4), others, option::of(vec(any_link(), 0..4)), number());
    (any_job(), vec(of_rank, 0..5), vec(any_epoch(), 0..4), around).prop_map(
        |(mut evidence, ranks, epochs, (events, jobs, links, now_ns))| {
            evidence.profile.epochs = epochs;
            evidence.job.rank_reports = (0..)
                .zip(ranks)
                .map(|(rank, (outcome, exit, signal, reason, number))| {
                    let mut view = super::evidence::rank(rank);
                    (view.outcome, view.exit, view.signal, view.reason) = (outcome, exit, signal, reason);
                    (view.counters.run_ns, view.counters.pages_peak) = (number, number);
                    (view.counters.pages_fetched, view.counters.bytes_read) = (number, number);
                    view
                })
                .collect();
            let event =
                |(number, kind, node, rank, text): (u64, &str, _, _, String)| event(number, kind, node, rank, &text);
            evidence.ras = events.into_iter().map(event).collect();
            let other = |(job, nodes, started, ended, name): (u32, Vec<u32>, _, _, String)| {
                let mut view = super::evidence::job(job.into(), &nodes, started, ended);
                view.name = name.as_str().into();
                view
            };
            evidence.jobs = jobs.into_iter().map(other).collect();
            evidence.links = links.map(|links| LinksView { fabric: 1, counted_at_ns: 0, links });
            evidence.now_ns = now_ns;
            evidence
        },
    )
}

proptest! {
    #[test]
    fn something_is_said_of_anything(evidence in any_evidence()) {
        let explanation = explain(&evidence);
        prop_assert!(!explanation.findings.is_empty());
        for finding in &explanation.findings {
            let texts = finding.advice.iter().flat_map(|advice| [&advice.text, &advice.command]).chain([&finding.text]);
            for text in texts {
                prop_assert!(!text.is_empty() && !text.contains(char::is_control), "{text:?}");
            }
            prop_assert!(finding.text.ends_with('.'), "{}", finding.text);
        }
        let json = serde_json::to_string(&explanation).expect("plain");
        let read: crate::Explanation = serde_json::from_str(&json).expect("what was written");
        prop_assert!(read == explanation);
    }
}
