//! A whole I/O node process between a service node and a node that are both the test.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod confined;
mod descriptors;
mod keeps;
mod node;
mod objects;
mod once;
mod ranks;
mod regions;
mod retain;
mod staging;

use common::{JOB, KEY, NODE, OWNER, PROGRAM, PROGRAM_BYTES, Pset, RANK, identity, run, status};
use coppice_protocol::control::{Ends, Exit, RankReport, ToIoNode, ToNode};
use coppice_protocol::ids::{JobId, NodeId, Rank};
use coppice_protocol::limits::{INPUT_WINDOW_BYTES, OUTPUT_WINDOW_BYTES, REQUESTS_IN_FLIGHT_MAX};
use coppice_protocol::personality::NodeKey;
use coppice_protocol::program::tree;
use coppice_protocol::pset::{FromPset, Member, NodeEnds, ToPset};
use coppice_protocol::ras::RasKind;
use coppice_protocol::session::Channel;
use coppice_protocol::ship::{Call, Handle, Location, Notice, Owner, Reply, Stream};
use node::Node;

const ESRCH: u16 = 3;
const EBADF: u16 = 9;
const EINVAL: u16 = 22;
const O_RDONLY: u32 = 0;
const O_RDWR: u32 = 2;
const O_CREAT: u32 = 0o100;

fn report() -> RankReport {
    RankReport::ended(JOB, RANK, Exit::Status(3))
}

/// A rank has ended, on a node that holds nothing.
fn one_end(report: RankReport) -> ToIoNode {
    ToIoNode::Ended(Ends { held: Vec::new(), reports: vec![report] })
}

/// The only rank that has ended.
fn only(ends: &[NodeEnds]) -> &RankReport {
    match ends {
        [NodeEnds { ends: Ends { reports, .. }, .. }] if reports.len() == 1 => &reports[0],
        _ => panic!("{ends:?}"),
    }
}

async fn print(node: &mut Node, bytes: &[u8]) -> Reply {
    node.call(Call::Print(Stream::Output), bytes).await.0
}

#[test]
fn job_from_launch_to_end() {
    run(async {
        let (mut pset, mut node) = Pset::with_job().await;
        node.control.send(0, &ToIoNode::Launched { job: JOB, ranks: RANK.into() }, &[]);
        assert!(matches!(pset.receive().await, FromPset::Launched { job: JOB, ranks } if ranks == RANK.into()));

        // Pages: the last is short, none lie behind it.
        let program = std::fs::read(pset.dir.path().join("program")).unwrap();
        let pages = |first, count| Call::Pages { program: PROGRAM, first, count };
        let nodes = tree::of(&program);
        let sent = |first: usize, end: usize, beside: &[usize]| {
            let part = [first, end].map(|page| PROGRAM_BYTES.min(page * 4096));
            let beside = beside.iter().map(|place| nodes[*place]).collect();
            (Reply::Pages { beside }, program[part[0]..part[1]].to_vec())
        };
        // Of six pages, the first four are below node 1, the last two below node 8.
        assert_eq!(node.call(pages(0, 2), &[]).await, sent(0, 2, &[5, 8]));
        assert_eq!(node.call(pages(4, 32), &[]).await, sent(4, 6, &[1]));
        assert_eq!(node.call(pages(6, 1), &[]).await, sent(6, 6, &[]));
        assert_eq!(node.call(pages(u32::MAX, 1), &[]).await, sent(6, 6, &[]));
        assert_eq!(node.call(pages(0, 33), &[]).await.0, Reply::Failed(EINVAL));

        // Files.
        let file = node.open("/out", O_RDWR | O_CREAT).await;
        let written = node.call(Call::Write { file, offset: Some(2) }, b"hello").await.0;
        assert_eq!(written, Reply::Written { bytes: 5, end: 7 });
        assert_eq!(node.call(Call::Read { file, offset: 0, length: 100 }, &[]).await.1, b"\0\0hello");
        assert_eq!(node.call(Call::Synchronise { file, data_only: false }, &[]).await.0, Reply::Done);
        assert_eq!(std::fs::read(pset.root().join("out")).unwrap(), b"\0\0hello");

        // Streams.
        assert_eq!(print(&mut node, b"abc").await, Reply::Written { bytes: 3, end: 0 });
        match pset.receive().await {
            FromPset::Output { job: JOB, rank: RANK, stream: Stream::Output, bytes } => assert_eq!(bytes, b"abc"),
            other => panic!("{other:?}"),
        }

        // Another's rank, and one that is nobody's.
        for owner in [Owner { job: JobId(1), rank: RANK }, Owner { job: JOB, rank: Rank(4) }] {
            node.request(owner, Call::HandleStat(file), &[]);
            assert_eq!(node.reply().await.1, Reply::Failed(ESRCH));
        }

        // The end frees the files; a repeated report is not passed on.
        node.control.send(0, &one_end(report()), &[]);
        node.control.send(0, &one_end(report()), &[]);
        let event = common::event(&"ö".repeat(1000));
        node.control.send(0, &ToIoNode::Ras(event), &[]);
        assert!(matches!(pset.receive().await, FromPset::Ended(ends) if only(&ends).exit == Exit::Status(3)));
        match pset.receive().await {
            FromPset::Ras { node: Some(NODE), event } => assert_eq!(event.text, "ö".repeat(256)),
            other => panic!("{other:?}"),
        }
        assert_eq!(node.call(Call::HandleStat(file), &[]).await.0, Reply::Failed(ESRCH));
        pset.send(ToPset::Forget { job: JOB }).await;
        assert!(pset.close().await.success());
        assert!(!pset.dir.path().join("io.sock").exists());
    });
}

#[test]
fn unusable_jobs_are_refused() {
    run(async {
        let (mut pset, _node) = Pset::with_node().await;
        let mut no_root = pset.job();
        no_root.root = "/nonexistent/root".into();
        let mut short_program = pset.job();
        short_program.program_bytes += 1;
        let mut other_node = pset.job();
        other_node.members =
            vec![Member { first: RANK, count: 1, node: NodeId(17), use_retained: false, restore: None }];
        for (spec, word) in [(no_root, "root"), (short_program, "program"), (other_node, "node 17")] {
            pset.send(ToPset::Start(spec)).await;
            match pset.receive().await {
                FromPset::Refused { job: JOB, ranks, reason } if ranks == RANK.into() => {
                    assert!(reason.contains(word), "{reason}")
                }
                other => panic!("{other:?}"),
            }
            pset.send(ToPset::Forget { job: JOB }).await;
        }
    });
}

#[test]
fn strangers_are_reported_and_kept_out() {
    run(async {
        let mut pset = Pset::start().await;
        pset.add_node(1).await;
        // With a wrong key, the handshake ends on this side: the challenge is not authentic.
        assert!(pset.connect(Channel::Ship, identity(1), NodeKey([8; 32])).await.is_none());
        for generation in 2..10 {
            assert!(pset.connect(Channel::Control, identity(generation), KEY).await.is_none());
        }
        let mut events = 0;
        let node = pset.connect_node(1).await;
        loop {
            match pset.receive().await {
                FromPset::Ras { node: Some(NODE), event } => {
                    assert_eq!(event.kind, RasKind::BadPeer);
                    events += 1;
                }
                FromPset::NodeReady { .. } => break,
                other => panic!("{other:?}"),
            }
        }
        // Not one for each.
        assert!((1..=4).contains(&events), "{events}");
        drop(node);
    });
}

#[test]
fn a_new_boot_replaces_the_old_one() {
    run(async {
        let (mut pset, mut old) = Pset::with_job().await;
        pset.add_node(2).await;
        assert!(old.control.try_message().await.is_none());
        assert!(old.ship.frame().await.is_none());
        assert!(pset.connect(Channel::Control, identity(1), KEY).await.is_none());
        match pset.receive().await {
            FromPset::Ras { node: Some(NODE), event } => assert_eq!(event.kind, RasKind::BadPeer),
            other => panic!("{other:?}"),
        }
        old = pset.ready_node(2).await;
        // The job went with the boot that ran it.
        let id = old.request(OWNER, Call::Print(Stream::Error), b"late");
        assert_eq!(old.reply().await, (id, Reply::Failed(ESRCH), Vec::new()));
    });
}

#[test]
fn output_waits_for_the_user() {
    run(async {
        let (mut pset, mut node) = Pset::with_job().await;
        const PIECE: usize = 64 * 1024;
        for _ in 0..OUTPUT_WINDOW_BYTES / PIECE {
            assert!(matches!(print(&mut node, &[b'x'; PIECE]).await, Reply::Written { .. }));
        }
        // Whoever has to wait is told so at once, however many they are.
        for _ in 0..3 * REQUESTS_IN_FLIGHT_MAX {
            assert_eq!(print(&mut node, b"one").await, Reply::Later);
        }
        assert_eq!(node.call(Call::HandleStat(Handle(0)), &[]).await.0, Reply::Failed(EBADF));
        for _ in 0..OUTPUT_WINDOW_BYTES / PIECE {
            assert!(matches!(pset.receive().await, FromPset::Output { .. }));
        }
        pset.send(ToPset::OutputTaken { job: JOB, bytes: 4 }).await;
        assert_eq!(node.notice().await, Notice::Output(OWNER));
        assert_eq!(print(&mut node, b"one").await, Reply::Written { bytes: 3, end: 0 });
        assert_eq!(print(&mut node, b"two").await, Reply::Later);
        assert_eq!(node.call(Call::PrintNothing, &[]).await.0, Reply::Done);
        assert_eq!(print(&mut node, b"2").await, Reply::Written { bytes: 1, end: 0 });
        // More is never given back than was taken.
        pset.send(ToPset::OutputTaken { job: JOB, bytes: u32::MAX }).await;
        for text in [&b"one"[..], b"2"] {
            assert!(matches!(pset.receive().await, FromPset::Output { bytes, .. } if bytes == text));
        }
    });
}

#[test]
fn input_comes_when_it_comes() {
    run(async {
        let (mut pset, mut node) = Pset::with_job().await;
        assert_eq!(node.call(Call::InputReady, &[]).await.0, Reply::Count(0));
        for _ in 0..3 * REQUESTS_IN_FLIGHT_MAX {
            assert_eq!(node.call(Call::Input { length: 4 }, &[]).await.0, Reply::Later);
        }
        pset.send(ToPset::Input { job: JOB, bytes: b"abcdef".to_vec() }).await;
        assert_eq!(node.notice().await, Notice::Input(OWNER));
        assert_eq!(node.call(Call::Input { length: 4 }, &[]).await, (Reply::Data, b"abcd".to_vec()));
        assert!(matches!(pset.receive().await, FromPset::InputTaken { job: JOB, bytes: 4 }));
        assert_eq!(node.call(Call::InputReady, &[]).await.0, Reply::Count(1));
        assert_eq!(node.call(Call::Input { length: 100 }, &[]).await.1, b"ef");
        assert!(matches!(pset.receive().await, FromPset::InputTaken { bytes: 2, .. }));
        // A whole window, then the end.
        pset.send(ToPset::Input { job: JOB, bytes: vec![b'z'; INPUT_WINDOW_BYTES] }).await;
        pset.send(ToPset::Input { job: JOB, bytes: Vec::new() }).await;
        let mut total = 0;
        while total < INPUT_WINDOW_BYTES {
            total += node.call(Call::Input { length: u32::MAX }, &[]).await.1.len();
        }
        assert_eq!(node.call(Call::Input { length: 1 }, &[]).await, (Reply::Data, Vec::new()));
    });
}

#[test]
fn other_ranks_have_no_input() {
    run(async {
        let (mut pset, mut node) = Pset::with_node().await;
        let mut spec = pset.job();
        spec.input_rank = None;
        pset.send(ToPset::Start(spec)).await;
        assert!(matches!(node.control.message().await, ToNode::Launch(_)));
        assert_eq!(node.call(Call::Input { length: 1 }, &[]).await, (Reply::Data, Vec::new()));
        assert_eq!(node.call(Call::InputReady, &[]).await.0, Reply::Count(1));
    });
}

#[test]
fn killed_ranks_are_served_until_they_end() {
    run(async {
        let (mut pset, mut node) = Pset::with_job().await;
        pset.send(ToPset::Kill { job: JOB }).await;
        assert_eq!(node.control.message().await, ToNode::Kill { job: JOB });
        // Files work until the node says that the rank has ended.
        let handle = node.open("/", O_RDONLY).await;
        assert!(matches!(node.call(Call::HandleStat(handle), &[]).await.0, Reply::Status(_)));
        // Forgotten although it never ended: the node hears of it.
        pset.send(ToPset::Forget { job: JOB }).await;
        assert_eq!(node.control.message().await, ToNode::Kill { job: JOB });
    });
}

#[test]
fn a_lost_connection_loses_the_node() {
    run(async {
        for channel in [Channel::Control, Channel::Ship] {
            let (mut pset, node) = Pset::with_job().await;
            match channel {
                Channel::Control => node.control.abort(),
                Channel::Ship => node.ship.abort(),
            }
            match pset.receive().await {
                FromPset::NodeLost { node: NODE, generation, reason } => {
                    assert_eq!(generation.0, 1);
                    assert!(reason.contains(&channel.to_string()), "{reason}");
                }
                other => panic!("{other:?}"),
            }
            // That boot is over.
            assert!(pset.connect(Channel::Control, identity(1), KEY).await.is_none());
        }
    });
}

#[test]
fn a_connection_may_come_back() {
    run(async {
        let (mut pset, mut node) = Pset::with_job().await;
        let file = node.open("/kept", O_RDWR | O_CREAT).await;
        node.control.abort();
        node.ship.abort();
        let connections = pset.connect_node(1).await;
        let mut node = node.again(connections);
        // What may have been lost is said again, and open files are still open.
        assert!(matches!(node.control.message().await, ToNode::Launch(launch) if launch.first == RANK));
        assert!(matches!(node.call(Call::HandleStat(file), &[]).await.0, Reply::Status(_)));
        node.control.send(0, &one_end(report()), &[]);
        assert!(matches!(pset.receive().await, FromPset::Ended(_)));
    });
}

#[test]
fn a_silent_node_is_lost() {
    run(async {
        let (mut pset, _node) = Pset::with_node().await;
        match pset.receive().await {
            FromPset::NodeLost { node: NODE, reason, .. } => assert!(reason.contains("12 s"), "{reason}"),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn shutdown_powers_nodes_off() {
    run(async {
        let (mut pset, node) = Pset::with_node().await;
        pset.send(ToPset::Shutdown).await;
        assert_eq!(node.control.message().await, ToNode::PowerOff);
        assert!(pset.wait().await.success());
        assert!(pset.try_receive().await.is_none());
    });
}

#[test]
fn damaged_messages_end_the_line_only() {
    run(async {
        let (mut pset, node) = Pset::with_node().await;
        node.control.send(0, &u64::MAX, &[]);
        assert!(matches!(pset.receive().await, FromPset::NodeLost { .. }));
        pset.add_node(2).await;
        let node = pset.ready_node(2).await;
        assert_eq!(status().boot_ns, 5);
        drop(node);
    });
}

#[test]
fn many_requests_at_once_are_all_answered() {
    run(async {
        let (_pset, mut node) = Pset::with_job().await;
        let file = node.open("/big", O_RDWR | O_CREAT).await;
        let piece = vec![b'q'; 128 * 1024];
        let mut expected = Vec::new();
        for index in 0..16 {
            expected.push(node.request(OWNER, Call::Write { file, offset: Some(index * 128 * 1024) }, &piece));
        }
        for index in 0..16 {
            expected.push(node.request(
                OWNER,
                Call::Read { file, offset: index * 128 * 1024, length: 128 * 1024 },
                &[],
            ));
        }
        let mut answered = Vec::new();
        for _ in 0..expected.len() {
            let (id, reply, bulk) = node.reply().await;
            assert!(matches!(reply, Reply::Written { bytes: 131_072, .. }) || bulk == piece, "{reply:?}");
            answered.push(id);
        }
        answered.sort_unstable();
        assert_eq!(answered, expected);
        let at = Location { directory: None, path: "/big".into() };
        assert!(matches!(
            node.call(Call::Stat { at, follow: true }, &[]).await.0,
            Reply::Status(status) if status.size == 16 * 128 * 1024
        ));
    });
}
