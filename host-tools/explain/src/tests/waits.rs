//! What cost time.

use coppice_api::job::{JobState, JobView};
use coppice_api::link::{DirectionView, LinkShape, LinkView, LinksView, Station};
use coppice_api::retain::RetentionSummary;

use super::evidence::{BEGIN, SECOND, calls, causes, epoch, first, gathered, job, quiet, said};
use crate::{Cause, Evidence, explain, waits_for};

#[test]
fn nothing_stands_out() {
    assert_eq!(causes(&quiet()), [Cause::Nothing, Cause::NotGathered]);
    let evidence = gathered(&[("user", [900; 4]), ("network", [100; 4])]);
    insta::assert_snapshot!(said(&explain(&evidence)));
    assert_eq!(causes(&evidence), [Cause::Nothing]);
}

#[test]
fn one_rank_is_slow() {
    let evidence = gathered(&[("user", [100, 110, 800, 100]), ("network", [900, 890, 200, 900])]);
    insta::assert_snapshot!(said(&explain(&evidence)));
    // Another is nearly as slow, or the others do not wait for it, or hardly.
    let two = [("user", [100, 700, 800, 100]), ("network", [900, 300, 200, 900])];
    assert_eq!(first(&gathered(&two)), Cause::Imbalance);
    let alone = gathered(&[("user", [100, 110, 800, 100]), ("sleep", [900, 890, 200, 900])]);
    assert_eq!(causes(&alone), [Cause::Nothing]);
    let barely = gathered(&[("user", [800, 800, 920, 800]), ("network", [200, 200, 80, 200])]);
    assert_eq!(causes(&barely), [Cause::Nothing]);
    // 0.1 of the time is enough.
    let just = gathered(&[("user", [700, 700, 834, 700]), ("network", [300, 300, 166, 300])]);
    assert_eq!(first(&just), Cause::SlowRank);
}

/// What is known comes before what is not, if it cost half as much.
#[test]
fn a_slow_rank_comes_before_a_network_that_is_only_somewhat_slower() {
    // The slow rank waits for the network, too, for 0.28 of the time; the others do so for 0.22 more.
    let known = gathered(&[("user", [500, 500, 720, 500]), ("network", [500, 500, 280, 500])]);
    assert_eq!(causes(&known)[..2], [Cause::SlowRank, Cause::Network]);
    let hardly = gathered(&[("user", [300, 300, 480, 300]), ("network", [700, 700, 520, 700])]);
    assert_eq!(causes(&hardly)[..2], [Cause::Network, Cause::SlowRank]);
}

#[test]
fn work_is_unevenly_spread() {
    let evidence = gathered(&[("user", [100, 400, 600, 800]), ("network", [900, 600, 400, 200])]);
    assert_eq!(first(&evidence), Cause::Imbalance);
    // Each is slow in turn.
    let mut evidence = quiet();
    evidence.profile.epochs = (0..10_u64)
        .map(|second| {
            let slow = usize::try_from(second % 4).expect("small");
            let (mut user, mut network) = ([100_000_000; 4], [900_000_000; 4]);
            (user[slow], network[slow]) = (900_000_000, 100_000_000);
            epoch(second, &[("user", user), ("network", network)])
        })
        .collect();
    assert_eq!(first(&evidence), Cause::Imbalance);
    insta::assert_snapshot!(said(&explain(&evidence)));
}

#[test]
fn a_rank_runs_on_by_the_record() {
    let mut evidence = quiet();
    for (rank, seconds) in [(0, 2), (1, 2), (3, 3)] {
        evidence.job.rank_reports[rank].counters.run_ns = seconds * SECOND;
    }
    assert_eq!(causes(&evidence), [Cause::SlowRank, Cause::NotGathered]);
    assert!(
        said(&explain(&evidence)).starts_with("Rank 2 on node 2 is slow: it ran for 10.0 s, the others for 2333 ms")
    );
    evidence.job.rank_reports[1].counters.run_ns = 9 * SECOND;
    assert_eq!(first(&evidence), Cause::Imbalance);
    // In so short a job it says nothing.
    let mut short = evidence.clone();
    for rank in &mut short.job.rank_reports {
        rank.counters.run_ns /= 50;
    }
    assert_eq!(first(&short), Cause::Nothing);
    evidence.job.job.state = JobState::Running;
    assert_eq!(first(&evidence), Cause::Nothing, "nobody knows yet");
}

/// The link of node 2 is like this to it, and that of a node of others is cut.
pub(super) fn with_link(evidence: Evidence, shape: LinkShape) -> Evidence {
    let link = |node, shape| LinkView {
        link: Station::Node(node),
        up: true,
        to: DirectionView { shape, ..DirectionView::default() },
        from: DirectionView::default(),
        queued_frames: 0,
        recording: None,
    };
    let cut = LinkShape { cut: true, ..LinkShape::default() };
    let links = vec![link(0, LinkShape::default()), link(2, shape), link(9, cut)];
    Evidence { links: Some(LinksView { fabric: 1, counted_at_ns: 0, links }), ..evidence }
}

#[test]
fn a_link_is_slow() {
    let waits = || gathered(&[("user", [100; 4]), ("network", [900; 4])]);
    assert_eq!(first(&waits()), Cause::Network);
    let slow = LinkShape { latency_ns: 20_000_000, loss_ppm: 10_000, ..LinkShape::default() };
    let evidence = with_link(waits(), slow);
    insta::assert_snapshot!(said(&explain(&evidence)));
    // One that is slow, but for which nobody waits.
    let computes = gathered(&[("user", [810; 4]), ("network", [190; 4])]);
    assert_eq!(causes(&with_link(computes, slow)), [Cause::Nothing]);
    // Nothing but files comes over it.
    let reads = with_link(gathered(&[("user", [100; 4]), ("file", [600; 4]), ("page", [300; 4])]), slow);
    let words = "delays each frame by 20 ms; its 4 ranks waited for files and pages for 90 % of their time.";
    assert!(said(&explain(&reads)).contains(words), "{}", said(&explain(&reads)));
    // A link that is well by now.
    let mut evidence = waits();
    evidence.ras.push(super::evidence::event(3, "link-cut", Some(1), None, "the link of node 1 is cut"));
    assert_eq!(first(&evidence), Cause::SlowLink);
    assert!(said(&explain(&evidence)).starts_with("The link of node 1 was cut for a while: "));
}

#[test]
fn files_pages_input_locks_and_cores() {
    let mut files =
        gathered(&[("file", [800; 4]), ("user", [200; 4]), ("calls", [500; 4]), ("bytes-shipped", [50; 4])]);
    calls(&mut files, "fsync", 20_000);
    insta::assert_snapshot!("disk", said(&explain(&files)));
    let faults = ("faults", [1000; 4]);
    let pages = gathered(&[("page", [700; 4]), ("kernel", [300; 4]), faults]);
    insta::assert_snapshot!("pages", said(&explain(&pages)));
    // All others wait for the one that waits for input.
    let input = gathered(&[("input", [900, 0, 0, 0]), ("network", [50, 950, 950, 950]), ("user", [50; 4])]);
    insta::assert_snapshot!("input", said(&explain(&input)));
    // Four threads a rank.
    let mut locks = gathered(&[("futex", [2900; 4]), ("user", [900; 4]), ("ready", [200; 4])]);
    calls(&mut locks, "futex", 20_000);
    insta::assert_snapshot!("locks", said(&explain(&locks)));
    let mut cores = gathered(&[("user", [250; 4]), ("ready", [750; 4])]);
    assert_eq!(causes(&cores), [Cause::Nothing], "each has one");
    cores.job.job.ranks_per_node = 4;
    cores.job.job.nodes = vec![0];
    insta::assert_snapshot!("cores", said(&explain(&cores)));
}

/// Threads begin amid the first epoch and end amid the last, and a node may come late to look.
#[test]
fn threads_are_as_many_as_in_most_epochs() {
    let milliseconds = [1000, 4000, 5600, 2400, 4000, 500];
    let mut job = gathered(&[]);
    let half = milliseconds.map(|of_all| of_all * 1_000_000 / 2);
    let busy = (0..).zip(half).map(|(second, ns)| epoch(second, &[("futex", [ns; 4]), ("user", [ns; 4])]));
    job.profile.epochs = busy.collect();
    let said = said(&explain(&job));
    assert!(said.contains("with 4 threads a rank"), "{said}");
}

#[test]
fn shares_count_from_the_thresholds_on() {
    let of = |phase: &'static str, thousandths: u64| {
        first(&gathered(&[(phase, [thousandths; 4]), ("user", [1000 - thousandths; 4]), ("faults", [100; 4])]))
    };
    let least = [
        ("file", 200, Cause::SlowDisk),
        ("page", 200, Cause::PageStorm),
        ("input", 200, Cause::Input),
        ("network", 200, Cause::Network),
        ("futex", 300, Cause::LockContention),
    ];
    for (phase, thousandths, cause) in least {
        assert_eq!((of(phase, thousandths), of(phase, thousandths - 1)), (cause, Cause::Nothing), "{phase}");
    }
}

/// Of a long job epochs are thinned out, and it counts for as much as with all of them.
#[test]
fn what_is_thinned_out_counts_for_as_much() {
    let mut evidence = gathered(&[("user", [100, 110, 800, 100]), ("network", [900, 890, 200, 900])]);
    let all = explain(&evidence).findings[0].clone();
    let mut second = 0;
    evidence.profile.epochs.retain(|_| {
        second += 1;
        second % 3 == 1
    });
    let some = explain(&evidence).findings[0].clone();
    assert_eq!((all.cause, some.cause), (Cause::SlowRank, Cause::SlowRank));
    assert!(all.lost_ns.abs_diff(some.lost_ns) < all.lost_ns / 100, "{} {}", all.lost_ns, some.lost_ns);
}

#[test]
fn a_start_is_cold() {
    let mut evidence = gathered(&[("page", [600; 4]), ("kernel", [400; 4]), ("faults", [90; 4])]);
    for epoch in &mut evidence.profile.epochs {
        epoch.metrics.push(super::evidence::metric("pages-fetched", &[2000; 4]));
    }
    evidence.job.job.retention = Some(RetentionSummary::default());
    evidence.job.job.running_at_ns = Some(BEGIN + SECOND);
    assert_eq!(first(&evidence), Cause::ColdStart);
    insta::assert_snapshot!(said(&explain(&evidence)));
    // All found it: whatever took long, it was not that.
    evidence.job.job.retention = Some(RetentionSummary { warm_ranks: 4, ..RetentionSummary::default() });
    assert_ne!(first(&evidence), Cause::ColdStart);
    // Nothing but the record.
    let mut evidence = quiet();
    evidence.job.job.running_at_ns = Some(BEGIN + 3 * SECOND);
    assert_eq!(causes(&evidence), [Cause::ColdStart, Cause::NotGathered]);
    evidence.job.job.running_at_ns = Some(BEGIN + 3 * SECOND - 100_000);
    assert_eq!(first(&evidence), Cause::Nothing);
    // What came is told of all the same, if it is worth a word.
    evidence.job.rank_reports[1].counters.pages_fetched = 255;
    assert_eq!(causes(&evidence), [Cause::Nothing, Cause::NotGathered]);
    evidence.job.rank_reports[2].counters.pages_fetched = 1;
    assert_eq!(causes(&evidence), [Cause::Nothing, Cause::Loaded, Cause::NotGathered]);
    evidence.job.rank_reports[2].counters.bytes_read = 16 << 20;
    insta::assert_snapshot!("loaded", said(&explain(&evidence)));
    // It is not over yet.
    evidence.job.job.state = JobState::Starting;
    (evidence.job.job.running_at_ns, evidence.job.job.ended_at_ns) = (None, None);
    assert!(said(&explain(&evidence)).starts_with("It is still being loaded: it has nodes since 20.0 s, and not all"));
}

#[test]
fn it_waited_in_the_queue() {
    let mut evidence = quiet();
    let small = job(3, &[3], Some(BEGIN - SECOND), Some(BEGIN + 2 * SECOND));
    let large = job(5, &[0, 1, 2], Some(BEGIN - SECOND), Some(BEGIN + 4 * SECOND));
    let before = job(2, &[0, 1, 2], Some(BEGIN - 9 * SECOND), Some(BEGIN - SECOND));
    evidence.jobs = vec![before, small, large, evidence.job.job.clone()];
    evidence.job.job.started_at_ns = Some(BEGIN + 4 * SECOND);
    evidence.job.job.running_at_ns = Some(BEGIN + 4 * SECOND + 10_000_000);
    assert_eq!(causes(&evidence), [Cause::Queue, Cause::NotGathered]);
    insta::assert_snapshot!(said(&explain(&evidence)));
    evidence.job.job.started_at_ns = Some(BEGIN + SECOND - 1);
    evidence.job.job.running_at_ns = Some(BEGIN + SECOND);
    assert_eq!(first(&evidence), Cause::Nothing, "less than a tenth");
    // It still waits.
    evidence.job.job = crate::tests::evidence::job(7, &[], None, None);
    evidence.job.job.state = JobState::Queued;
    evidence.job.rank_reports.clear();
    evidence.jobs[2].ended_at_ns = None;
    evidence.jobs[2].name = "./\x1b[2Jbad\n<script>".into();
    insta::assert_snapshot!("it_waits", said(&explain(&evidence)));
    evidence.jobs.clear();
    assert!(said(&explain(&evidence)).contains("no other job had nodes then; 4 of 4 nodes are ready now."));
}

#[test]
fn why_it_waits_is_said_in_some_words() {
    let mut waits = job(9, &[], None, None);
    (waits.state, waits.ranks, waits.ranks_per_node) = (JobState::Queued, 6, 2);
    let now = BEGIN + 9 * SECOND;
    let over = job(1, &[0, 1, 2, 3], Some(BEGIN), Some(BEGIN + SECOND));
    let (small, large) = (job(2, &[0], Some(BEGIN), None), job(3, &[1, 2], Some(BEGIN), None));
    let said = |jobs: &[&JobView]| waits_for(&waits, &jobs.iter().map(|job| (*job).clone()).collect::<Vec<_>>(), now);
    assert_eq!(said(&[&over, &waits]).as_deref(), Some("waits for 3 nodes"));
    assert_eq!(said(&[&over, &small]).as_deref(), Some("waits for 3 nodes; job 2 has 1 node"));
    let both = said(&[&over, &small, &large]);
    assert_eq!(both.as_deref(), Some("waits for 3 nodes; job 3 and 1 other job have 3 nodes"));
    assert_eq!(waits_for(&small, &[large], now), None);
}
