//! Transfers of staged files: what their home and the nodes say of them is recorded with the job.

mod support;

use coppice_api::job::{FileCalls, Submission};
use coppice_api::staging::{ProgramStaging, Scheme};
use coppice_api::stream::{JobEvent, StagingProgress};
use coppice_api::transfer::{MembersView, TransferView};
use coppice_protocol::broadcast::limits::BROADCASTS_PER_JOB_MAX;
use coppice_protocol::broadcast::{self, BroadcastBegun};
use coppice_protocol::control::{Exit, RankReport};
use coppice_protocol::distribution;
use coppice_protocol::ids::{JobId, NodeId, PsetId, Rank};
use coppice_protocol::pset::{FromPset, StartJob, ToPset};
use coppice_protocol::staging::Staging;
use coppice_protocol::transfer::{MemberCounts, TransferEnd, TransferProgress};
use coppice_service_node::controller::Request;
use coppice_service_node::feed::Piece;
use coppice_service_node::limits::LINK_BYTES_PER_SECOND_DEFAULT;
use support::{Cluster, PROGRAM, job};

/// A job of three nodes, 2, 0 and 3, that has its program staged.
fn submit(cluster: &mut Cluster, scheme: Scheme) -> JobId {
    let stage_program = ProgramStaging::Always;
    // Whatever they hold.
    let retain = false;
    cluster.submit(Submission { nodes: vec![2, 0, 3], stage_program, scheme, retain, ..job(3) }).expect("accepted")
}

fn start(cluster: &Cluster, job: JobId) -> StartJob {
    let start = |message: &ToPset| match message {
        ToPset::Start(start) if start.job == job => Some(start.clone()),
        _ => None,
    };
    cluster.told().find_map(|(_, message)| start(message)).expect("started")
}

fn end(job: JobId, first_lost: &[u32]) -> FromPset {
    FromPset::Transferred(TransferEnd {
        of: Staging::file(job, 0),
        pieces: 1,
        elapsed_ns: 5_000,
        bytes_sent: 190,
        answered: 1,
        lost: u32::try_from(first_lost.len()).expect("few"),
        first_lost: first_lost.iter().copied().map(NodeId).collect(),
    })
}

fn ended(job: JobId, (rank, node): (u32, u32), counts: Vec<MemberCounts>) -> FromPset {
    let report = RankReport { transfers: counts, ..RankReport::ended(job, Rank(rank), Exit::Status(0)) };
    support::behaviour::one_end(NodeId(node), report, &[])
}

fn transfers(cluster: &mut Cluster, job: JobId) -> Vec<TransferView> {
    cluster.job(job).job.transfers
}

#[test]
fn a_transfer_is_recorded_with_what_home_says_and_then_with_what_nodes_counted() {
    let mut cluster = Cluster::up(4, 2);
    let id = submit(&mut cluster, Scheme::TwoTrees);
    assert_eq!(transfers(&mut cluster, id), []);
    // Home is the I/O node of the job's first node, and no other.
    cluster.said(0, end(id, &[]));
    assert_eq!(transfers(&mut cluster, id), []);
    cluster.said(2, end(id, &[3]));
    let [transfer] = &transfers(&mut cluster, id)[..] else { panic!("not one transfer") };
    assert_eq!((&transfer.path, transfer.bytes, transfer.pieces), (&None, PROGRAM.bytes, 1));
    assert_eq!((transfer.scheme, transfer.branches, transfer.nodes), (Scheme::TwoTrees, None, 3));
    assert_eq!((transfer.elapsed_ns, transfer.home_bytes, transfer.home_answered), (5_000, 190, 1));
    assert_eq!((transfer.lost, &transfer.lost_nodes[..]), (1, &[3][..]));
    let link = (transfer.link_bytes_per_second, transfer.link_is_stated);
    assert_eq!(link, (LINK_BYTES_PER_SECOND_DEFAULT, false));
    // 100 bytes take 2500 ns at 40 MB/s.
    assert_eq!(f64::from(transfer.times_bound), 2.0);
    assert_eq!(transfer.members, None, "nobody has said anything");
    // It is over once.
    cluster.said(2, end(id, &[]));
    assert_eq!(transfers(&mut cluster, id)[0].lost, 1);

    let counts = |asked, wrong| vec![MemberCounts { file: 0, asked, answered: 2, wrong, crossed_bytes: 100 }];
    cluster.said(2, ended(id, (0, 2), counts(4, 0)));
    cluster.said(0, ended(id, (1, 0), counts(5, 1)));
    // A report that is repeated is no other, and of one that says nothing of a file nothing is known.
    cluster.said(0, ended(id, (1, 0), counts(5, 1)));
    cluster
        .said(3, ended(id, (2, 3), vec![MemberCounts { file: 9, asked: 7, answered: 7, wrong: 7, crossed_bytes: 7 }]));
    let members = Some(MembersView { nodes: 2, asked: 9, answered: 4, wrong: 1, crossed_bytes: 200 });
    assert_eq!(transfers(&mut cluster, id)[0].members, members);

    let mut cluster = cluster.restarted();
    assert_eq!(transfers(&mut cluster, id)[0].members, members);
    assert_eq!(transfers(&mut cluster, id)[0].lost_nodes, [3]);
}

#[test]
fn of_a_transfer_that_is_not_over_nothing_is_recorded() {
    let mut cluster = Cluster::up(4, 2);
    let id = submit(&mut cluster, Scheme::TwoTrees);
    cluster
        .said(2, ended(id, (0, 2), vec![MemberCounts { file: 0, asked: 4, answered: 2, wrong: 0, crossed_bytes: 0 }]));
    cluster.end(id);
    assert_eq!(transfers(&mut cluster, id), []);
    // Nor of one of a job that is gone, or that no job has.
    cluster.said(2, end(id, &[]));
    cluster.said(2, end(JobId(99), &[]));
    assert_eq!(transfers(&mut cluster, id), []);
    let nothing = cluster.submit(Submission { nodes: vec![2], ..job(1) }).expect("accepted");
    cluster.said(2, end(nothing, &[]));
    assert_eq!(transfers(&mut cluster, nothing), []);
}

#[test]
fn whoever_runs_a_job_is_told_how_far_its_files_are_until_they_are_there() {
    let mut cluster = Cluster::up(4, 2);
    let id = submit(&mut cluster, Scheme::TwoTrees);
    let mut feed = cluster.ask(|answer| Request::Attach(id, answer)).expect("attached");
    let mut said = || {
        let pieces: Vec<Piece> = std::iter::from_fn(|| feed.try_recv().ok()).collect();
        let staging = pieces.into_iter().filter_map(|piece| match piece {
            Piece::Progress { event: JobEvent::Staging(progress), .. } => Some(Some(progress)),
            Piece::Event(JobEvent::Staged) => Some(None),
            _ => None,
        });
        staging.collect::<Vec<_>>()
    };
    let goes_on = |file, bytes, whole| {
        let of = Staging::file(id, file);
        FromPset::Transferring(TransferProgress { of, bytes, whole })
    };
    let progress = |bytes, whole| Some(StagingProgress { bytes, total: PROGRAM.bytes, whole, nodes: 3 });
    cluster.said(2, goes_on(0, 40, 0));
    assert_eq!(said(), [progress(40, 0)]);
    // More than there is is not shown, nor what another says, or of another file.
    cluster.said(2, goes_on(0, 4000, 9));
    cluster.said(2, goes_on(0, 60, 2));
    assert_eq!(said(), [progress(PROGRAM.bytes, 3)], "the other had to wait for its turn");
    cluster.said(0, goes_on(0, 50, 0));
    cluster.said(2, goes_on(1, 50, 0));
    assert_eq!(said(), []);
    cluster.said(2, end(id, &[]));
    cluster.said(2, goes_on(0, 60, 2));
    assert_eq!(said(), [None]);
}

/// 10 MB/s, both ways.
const LINK: u64 = 80_000_000;

#[test]
fn files_that_nodes_read_are_recorded_with_why_they_were_sent() {
    let mut cluster = Cluster::linked(4, LINK);
    let id = cluster.submit(Submission { nodes: vec![2, 0, 3], ..job(3) }).expect("accepted");
    let over = start(&cluster, id).broadcasts.expect("its links are slow");
    assert_eq!((over.home, over.files.len(), over.bytes_per_second), (PsetId(0), 0, 9_375_000));
    let begun = |job, number, opened| {
        let (of, path) = (broadcast::file_of_job(job, number), "/in/a".into());
        FromPset::BroadcastBegun(BroadcastBegun { of, path, bytes: 100_000, opened })
    };
    let over = |number| {
        let FromPset::Transferred(end) = end(id, &[]) else { panic!("no end") };
        FromPset::Transferred(TransferEnd { of: broadcast::file_of_job(id, number), ..end })
    };
    let mut feed = cluster.ask(|answer| Request::Attach(id, answer)).expect("attached");
    cluster.said(0, begun(id, 7, 2));
    // What makes no sense is not believed: twice, of too high a number, of no such job.
    cluster.said(0, begun(id, 7, 3));
    cluster.said(0, begun(id, BROADCASTS_PER_JOB_MAX, 3));
    cluster.said(0, begun(JobId(99), 7, 3));
    assert_eq!(transfers(&mut cluster, id), [], "it is not over");
    cluster.said(0, over(7));
    cluster.said(0, over(8));
    let pieces: Vec<Piece> = std::iter::from_fn(|| feed.try_recv().ok()).collect();
    let is_staged = |piece: &Piece| matches!(piece, Piece::Event(JobEvent::Staged));
    assert!(!pieces.iter().any(is_staged), "it had nothing staged");
    let [transfer] = &transfers(&mut cluster, id)[..] else { panic!("not one transfer") };
    assert_eq!((transfer.path.as_deref(), transfer.bytes, transfer.readers), (Some(&b"/in/a"[..]), 100_000, Some(2)));
    assert_eq!((transfer.link_bytes_per_second, transfer.link_is_stated, transfer.nodes), (LINK / 8, true, 3));
    let of = broadcast::file_of_job(id, 7);
    let counts = MemberCounts { file: of.file, asked: 4, answered: 2, wrong: 0, crossed_bytes: 0 };
    cluster.said(0, ended(id, (0, 2), vec![counts]));
    cluster.end(id);
    assert_eq!(transfers(&mut cluster, id)[0].members.map(|members| (members.nodes, members.asked)), Some((1, 4)));
}

#[test]
fn nothing_is_broadcast_where_that_saves_nothing_or_nobody_may_know_files() {
    let over = |cluster: &mut Cluster, submission| {
        let id = cluster.submit(submission).expect("accepted");
        let over = start(cluster, id).broadcasts;
        cluster.end(id);
        over.is_some()
    };
    let mut linked = Cluster::linked(4, LINK);
    assert!(over(&mut linked, job(2)));
    assert!(!over(&mut linked, job(1)), "it is on one node");
    assert!(!over(&mut linked, Submission { io: FileCalls::Strict, ..job(2) }));
    // Nobody said how fast links are.
    assert!(!over(&mut Cluster::up(4, 4), job(2)));
}

#[test]
fn io_nodes_are_told_the_scheme_that_a_job_asked_for() {
    let mut cluster = Cluster::up(4, 2);
    for (scheme, told) in
        [(Scheme::TwoTrees, distribution::Scheme::TwoTrees), (Scheme::Tree, distribution::Scheme::published(3))]
    {
        let id = submit(&mut cluster, scheme);
        assert_eq!(start(&cluster, id).staging.expect("staged").scheme, told);
        cluster.said(2, end(id, &[]));
        let transfer = transfers(&mut cluster, id).remove(0);
        assert_eq!((transfer.scheme, transfer.branches), (scheme, (scheme == Scheme::Tree).then_some(2)));
        cluster.end(id);
    }
}
