//! Calls that are said again because a connection broke before their answer came: they are made once.

use coppice_protocol::control::ToNode;
use coppice_protocol::pset::{FromPset, ToPset};
use coppice_protocol::ship::{Call, Location, Notice, Reply, RequestId, SLOTS, Stream};

use crate::common::{JOB, OWNER, Pset, run};
use crate::node::Node;

const O_RDWR: u32 = 2;
const O_CREAT: u32 = 0o100;
const O_EXCL: u32 = 0o200;

fn at(path: &str) -> Location {
    Location { directory: None, path: path.into() }
}

/// Both connections break, and the node makes new ones.
async fn reconnect(pset: &Pset, node: Node) -> Node {
    node.control.abort();
    node.ship.abort();
    let connections = pset.connect_node(1).await;
    assert!(matches!(connections.control.message().await, ToNode::Launch(_)));
    node.again(connections)
}

/// Each would fail, or do more, if it were made twice. The node did not hear the answer, so it asks again.
#[test]
fn calls_that_are_said_again_are_made_once() {
    run(async {
        let (mut pset, mut node) = Pset::with_job().await;
        let file = node.open("/log", O_RDWR | O_CREAT).await;
        std::fs::write(pset.root().join("old"), "x").unwrap();
        let calls = [
            (Call::Write { file, offset: None }, &b"line\n"[..]),
            (Call::Open { at: at("/new"), flags: O_RDWR | O_CREAT | O_EXCL, mode: 0o644 }, &[]),
            (Call::MakeDirectory { at: at("/dir"), mode: 0o755 }, &[]),
            (Call::Rename { from: at("/old"), to: at("/dir/other"), flags: 0 }, &[]),
            (Call::Link { from: at("/dir/other"), to: at("/link"), follow: false }, &[]),
            (Call::SymbolicLink { target: "link".into(), at: at("/symbolic") }, &[]),
            (Call::Remove { at: at("/dir/other"), directory: false }, &[]),
            (Call::Print(Stream::Output), b"said once"),
        ];
        let mut answers = Vec::new();
        for (call, bulk) in &calls {
            let id = node.request(OWNER, call.clone(), bulk);
            let (answered, reply, _) = node.reply().await;
            assert_eq!(answered, id);
            assert!(!matches!(reply, Reply::Failed(_) | Reply::Later), "{call:?}: {reply:?}");
            answers.push((id, reply));
        }
        for _ in 0..2 {
            node = reconnect(&pset, node).await;
            for ((call, bulk), (id, reply)) in calls.iter().zip(&answers) {
                node.request_as(*id, OWNER, call.clone(), bulk);
                let (answered, again, _) = node.reply().await;
                assert_eq!((answered, &again), (*id, reply), "{call:?}");
            }
        }
        assert_eq!(std::fs::read(pset.root().join("log")).unwrap(), b"line\n");
        assert!(matches!(pset.receive().await, FromPset::Output { bytes, .. } if bytes == b"said once"));
        // What comes next is not a second piece of output.
        assert!(matches!(print_marker(&mut pset, &mut node).await, FromPset::Output { bytes, .. } if bytes == b"mark"));
    });
}

async fn print_marker(pset: &mut Pset, node: &mut Node) -> FromPset {
    let _ = node.call(Call::Print(Stream::Output), b"mark").await;
    pset.receive().await
}

/// What was read is not lost with the answer, and what a rank waits for is asked for anew.
#[test]
fn input_is_not_lost_with_a_connection() {
    run(async {
        let (mut pset, mut node) = Pset::with_job().await;
        pset.send(ToPset::Input { job: JOB, bytes: b"abcdef".to_vec() }).await;
        // It has come when it is ready.
        while node.call(Call::InputReady, &[]).await.0 != Reply::Count(1) {
            assert_eq!(node.notice().await, Notice::Input(OWNER));
        }
        let id = node.request(OWNER, Call::Input { length: 4 }, &[]);
        assert!(matches!(pset.receive().await, FromPset::InputTaken { bytes: 4, .. }));
        let mut node = reconnect(&pset, node).await;
        node.request_as(id, OWNER, Call::Input { length: 4 }, &[]);
        assert_eq!(node.reply().await, (id, Reply::Data, b"abcd".to_vec()));
        assert_eq!(node.call(Call::Input { length: 9 }, &[]).await.1, b"ef");
    });
}

#[test]
fn a_node_that_does_not_wait_for_answers_is_cut_off() {
    let has_no_such_place = async |id| {
        let (mut pset, node) = Pset::with_job().await;
        node.request_as(id, OWNER, Call::InputReady, &[]);
        assert!(matches!(pset.receive().await, FromPset::NodeLost { .. }));
    };
    let asks_twice = async {
        let (mut pset, mut node) = Pset::with_job().await;
        let id = node.request(OWNER, Call::InputReady, &[]);
        assert_eq!(node.reply().await.0, id);
        node.request_as(id, OWNER, Call::InputReady, &[]);
        assert!(matches!(pset.receive().await, FromPset::NodeLost { .. }));
    };
    // Each is given time to be back.
    run(async {
        let beyond = RequestId::new(SLOTS, 1).to_frame();
        tokio::join!(has_no_such_place(7), has_no_such_place(beyond), asks_twice);
    });
}
