//! Files that nodes read from their start, and that are broadcast for that.

use coppice_protocol::broadcast::limits::BROADCAST_BYTES_MIN;
use coppice_protocol::broadcast::{BroadcastBegun, file_of_job};
use coppice_protocol::distribution::Scheme;
use coppice_protocol::ids::PsetId;
use coppice_protocol::lease::{FileId, Stamp};
use coppice_protocol::psets::PsetTable;
use coppice_protocol::ship::{Call, FileStatus, Reply, Timestamp};
use coppice_protocol::staging::{StagedFile, Staging};
use coppice_protocol::transfer::TransferEnd;

use super::leases::Two;
use super::*;
use crate::machine::TakenFile;

const READ: u32 = 0;
const WRITE: u32 = 1;
const LONG: u64 = BROADCAST_BYTES_MIN;

fn over() -> Staging {
    Staging {
        home: PsetId(0),
        psets: PsetTable::new(8, 8),
        mtu: 9000,
        bytes_per_second: 1_000_000,
        latency_ns: 0,
        stall_ns: 0,
        scheme: Scheme::TwoTrees,
        files: Vec::new(),
    }
}

/// A job on two nodes, and a file that is that long.
fn two(bytes: u64, broadcasts: Option<Staging>) -> Two {
    let member =
        |node: u32| Member { node: NodeId(node), first: Rank(node), count: 1, use_retained: false, restore: None };
    let world = World::new(JobKey([7; 32]), 1, (0..2).map(NodeId));
    let (members, broadcasts) = (vec![member(0), member(1)], broadcasts.map(Box::new));
    let mut two = Two::with(StartJob { size: 2, members, world, broadcasts, root: "/srv".into(), ..job() });
    two.size = bytes;
    two.work();
    two.effects.clear();
    two
}

/// Both nodes open the file and begin to read it. Files that were to be taken then.
fn both_read(two: &mut Two) -> Vec<Effect> {
    let handles = [0, 1].map(|node| two.opened(node, READ).0);
    for (node, file) in (0..).zip(handles) {
        two.say(node, Call::Read { file, offset: 0, length: 4096 });
        two.work();
    }
    taking(two)
}

fn taking(two: &mut Two) -> Vec<Effect> {
    std::mem::take(&mut two.effects).into_iter().filter(|effect| matches!(effect, Effect::Take(_))).collect()
}

/// What is to be done for broadcasts.
fn doing(two: &mut Two) -> Vec<Effect> {
    two.work();
    let is_of_broadcast =
        |effect: &Effect| matches!(effect, Effect::Take(_) | Effect::Broadcast { .. } | Effect::EndBroadcast { .. });
    std::mem::take(&mut two.effects).into_iter().filter(is_of_broadcast).collect()
}

/// A node opens the file to write, for which others give their leases back.
fn write(two: &mut Two, node: u32) {
    two.open(node, WRITE);
    two.work();
    for node in 0..2 {
        let (_, recalls) = two.hear(node);
        recalls.into_iter().for_each(|number| two.give_back(node, number));
    }
    (0..2).for_each(|node| drop(two.hear(node)));
}

fn taken(two: &Two) -> TakenFile {
    let file = StagedFile { content: ProgramId([3; 32]), bytes: two.size, path: Some("/srv/in/a".into()) };
    TakenFile { file, stamp: Stamp::of(&two.status()) }
}

/// What nodes and the service node are told.
fn told(two: &mut Two) -> (Vec<Vec<ToNode>>, Vec<FromPset>) {
    let Two { machine, wires, .. } = two;
    let is_of_broadcast = |order: &ToNode| matches!(order, ToNode::Broadcast(_));
    let nodes = wires.iter_mut().map(|wires| wires[0].orders(machine, at(0)));
    let nodes = nodes.map(|orders| orders.into_iter().filter(is_of_broadcast).collect()).collect();
    let said = std::iter::from_fn(|| machine.next_message(at(0)));
    (nodes, said.filter(|message| matches!(message, FromPset::BroadcastBegun(_))).collect())
}

fn one(mut effects: Vec<Effect>) -> Box<crate::machine::TakeFile> {
    let (Some(Effect::Take(take)), true) = (effects.pop(), effects.is_empty()) else { panic!("{effects:?}") };
    take
}

#[test]
fn a_file_that_nodes_read_is_sent_to_all() {
    let mut two = two(LONG, Some(over()));
    let take = one(both_read(&mut two));
    assert_eq!((take.bytes, take.broadcast.number, take.file.0.rank), (LONG, 0, Rank(1)));
    let file = taken(&two);
    two.machine.file_taken(take.place, 0, Ok(file), at(1));
    assert!(matches!(doing(&mut two)[..], [Effect::Broadcast { number: 0, .. }]));
    let (nodes, said) = told(&mut two);
    let of = file_of_job(JOB, 0);
    let [FromPset::BroadcastBegun(begun)] = &said[..] else { panic!("{said:?}") };
    assert_eq!(*begun, BroadcastBegun { of, path: "/in/a".into(), bytes: LONG, opened: 2 });
    for orders in nodes {
        let [ToNode::Broadcast(order)] = &orders[..] else { panic!("{orders:?}") };
        let content = order.content().expect("a file");
        assert_eq!((order.file, content.bytes, &content.path), (FileId { device: 1, inode: 2 }, LONG, &None));
        assert_eq!(order.version, take.broadcast.version);
    }
    // Once is enough, and in the end nothing is held.
    assert!(both_read(&mut two).is_empty());
    let (elapsed_ns, bytes_sent, first_lost) = (1, 1, Vec::new());
    two.machine.transferred(TransferEnd { of, pieces: 1, elapsed_ns, bytes_sent, answered: 0, lost: 0, first_lost });
    assert!(matches!(doing(&mut two)[..], [Effect::EndBroadcast { number: 0, .. }]));
}

#[test]
fn nothing_is_sent_that_need_not_be() {
    for (bytes, over) in [(LONG - 1, Some(over())), (LONG, None)] {
        assert!(both_read(&mut two(bytes, over)).is_empty(), "{bytes}");
    }
    // Of one that was changed just now nobody would see that it is being changed.
    let mut fresh = two(LONG, Some(over()));
    fresh.changed_s = 1000;
    assert!(both_read(&mut fresh).is_empty());
    // Who reads elsewhere does not read all of it.
    let mut elsewhere = two(LONG, Some(over()));
    for node in 0..2 {
        let (file, _) = elsewhere.opened(node, READ);
        elsewhere.say(node, Call::Read { file, offset: 4096, length: 4096 });
        elsewhere.work();
    }
    assert!(taking(&mut elsewhere).is_empty());
    // Nor is what somebody writes, nor where a node would not take part.
    let mut written = two(LONG, Some(over()));
    written.opened(0, READ);
    write(&mut written, 1);
    assert!(both_read(&mut written).is_empty());
    let mut ended = two(LONG, Some(over()));
    ended.end(1);
    let (file, _) = ended.opened(0, READ);
    ended.say(0, Call::Read { file, offset: 0, length: 4096 });
    ended.work();
    assert!(taking(&mut ended).is_empty());
}

#[test]
fn what_is_not_what_its_readers_were_told_is_not_sent() {
    let other =
        |status: FileStatus| Stamp::of(&FileStatus { modified: Timestamp { seconds: 9, nanoseconds: 9 }, ..status });
    let changes: [fn(&mut Two); 3] = [
        |_| {},
        // Somebody writes it meanwhile.
        |two| write(two, 1),
        |two| (0..2).for_each(|node| two.end(node)),
    ];
    for (case, change) in changes.iter().enumerate() {
        let mut two = two(LONG, Some(over()));
        let take = one(both_read(&mut two));
        change(&mut two);
        let file = taken(&two);
        let stamp = if case == 0 { other(two.status()) } else { file.stamp };
        two.effects.clear();
        two.machine.file_taken(take.place, 0, Ok(TakenFile { stamp, ..file }), at(1));
        assert!(matches!(doing(&mut two)[..], [Effect::EndBroadcast { number: 0, .. }]), "{case}");
        let (nodes, said) = told(&mut two);
        assert!(nodes.iter().all(Vec::is_empty) && said.is_empty(), "{case}");
    }
    let mut failed = two(LONG, Some(over()));
    let take = one(both_read(&mut failed));
    failed.machine.file_taken(take.place, 0, Err("no memory".into()), at(1));
    assert!(matches!(doing(&mut failed)[..], [Effect::EndBroadcast { number: 0, .. }]));
    assert!(both_read(&mut failed).is_empty(), "it is not tried again and again");
}

/// What comes by itself is not sent twice.
#[test]
fn what_is_asked_for_ahead_waits_while_the_file_is_taken() {
    for late in [false, true] {
        let mut two = two(LONG, Some(over()));
        let handles = [0, 1].map(|node| two.opened(node, READ).0);
        let fill = |two: &mut Two, node: u32, offset| {
            let file = handles[node as usize];
            let id = two.say(node, Call::Fill { file, offset, length: 4096, anyway: false });
            two.work();
            id
        };
        fill(&mut two, 0, 0);
        assert!(matches!(two.hear(0).0[..], [(_, Reply::Data)]), "there is no broadcast");
        let held = [fill(&mut two, 1, 0), fill(&mut two, 1, 4096)];
        let read = two.say(1, Call::Read { file: handles[1], offset: 0, length: 4096 });
        two.work();
        assert_eq!(two.hear(1).0, [(read, Reply::Data)], "a program waits for it");
        let take = one(taking(&mut two));
        if late {
            two.machine.advance(Now { ns: crate::clock::ns(crate::limits::HELD_TIME_MAX), ..at(0) });
            two.work();
            let mut heard = two.hear(1).0;
            heard.sort_by_key(|(id, _)| *id);
            assert_eq!(heard, held.map(|id| (id, Reply::Data)));
            fill(&mut two, 0, 8192);
            assert!(matches!(two.hear(0).0[..], [(_, Reply::Data)]), "nor does another wait then");
        }
        let file = taken(&two);
        two.machine.file_taken(take.place, 0, Ok(file), at(1));
        two.work();
        let wanted = if late { vec![] } else { held.map(|id| (id, Reply::Later)).to_vec() };
        assert_eq!(two.hear(1).0, wanted);
        fill(&mut two, 0, 12288);
        assert!(matches!(two.hear(0).0[..], [(_, Reply::Later)]), "it has not heard of the broadcast yet");
        two.say(0, Call::Fill { file: handles[0], offset: 12288, length: 4096, anyway: true });
        two.work();
        assert!(matches!(two.hear(0).0[..], [(_, Reply::Data)]), "it has no part in it");
        let (elapsed_ns, bytes_sent, first_lost, of) = (1, 1, Vec::new(), file_of_job(JOB, 0));
        let end = TransferEnd { of, pieces: 1, elapsed_ns, bytes_sent, answered: 0, lost: 0, first_lost };
        two.machine.transferred(end);
        fill(&mut two, 1, 0);
        assert!(matches!(two.hear(1).0[..], [(_, Reply::Data)]), "it is over");
    }
    let begun = || {
        let mut two = two(LONG, Some(over()));
        let handles = [0, 1].map(|node| two.opened(node, READ).0);
        let ids = [0, 1].map(|node| {
            let file = handles[node as usize];
            two.say(node, Call::Fill { file, offset: 0, length: 4096, anyway: false })
        });
        two.work();
        let take = one(taking(&mut two));
        (two, take, ids)
    };
    let (mut failed, take, ids) = begun();
    failed.machine.file_taken(take.place, 0, Err("no memory".into()), at(1));
    failed.work();
    assert_eq!(failed.hear(1).0, [(ids[1], Reply::Data)]);
    // A node's places for calls are its own again, whatever becomes of the job.
    let (mut gone, take, ids) = begun();
    gone.machine.order(ToPset::Forget { job: JOB }, at(1)).expect("makes sense");
    gone.work();
    assert!(matches!(gone.hear(1).0[..], [(id, Reply::Failed(_))] if id == ids[1]));
    let file = taken(&gone);
    gone.machine.file_taken(take.place, 0, Ok(file), at(2));
    assert!(doing(&mut gone).is_empty());
    // One that cannot be sent after all is over.
    let (mut unsent, take, _) = begun();
    let file = taken(&unsent);
    unsent.machine.file_taken(take.place, 0, Ok(file), at(1));
    unsent.machine.file_taken(take.place, 0, Err("there is one of that number".into()), at(2));
    unsent.work();
    unsent.hear(0);
    let (file, _) = unsent.opened(0, READ);
    unsent.say(0, Call::Fill { file, offset: 0, length: 4096, anyway: false });
    unsent.work();
    assert!(matches!(unsent.hear(0).0[..], [(_, Reply::Data)]));
}
