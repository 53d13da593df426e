//! Leases of files between nodes, with a disk that the tests play: one file.

use coppice_protocol::lease::limits::FIRST_BYTES_MAX;
use coppice_protocol::lease::{FileId, Grant, Lease};
use coppice_protocol::ship::{self, Call, FileStatus, Handle, Location, Notice, Owner, Reply, RequestId, Timestamp};

use super::*;
use crate::machine::CallId;

const FILE: FileId = FileId { device: 1, inode: 2 };
const READ: u32 = 0;
const WRITE: u32 = 1;
const CUT: u32 = 0o1000;
/// Long after the file was changed.
const NOW: Now = Now { ns: 0, realtime_ns: 1_000_000_000_000 };

/// Answers, with what came behind each, and leases that are wanted back.
type Heard = (Vec<(u64, Reply, Vec<u8>)>, Vec<u64>);

/// Two nodes with a rank each.
pub(super) struct Two {
    pub(super) machine: Machine,
    pub(super) wires: Vec<[Wire; 2]>,
    said: u64,
    /// Calls that the disk was to make and has not.
    disk: Vec<(CallId, Call)>,
    pub(super) size: u64,
    /// When the file was changed last, s since 1970.
    pub(super) changed_s: i64,
    handles: u32,
    /// What else was to be done.
    pub(super) effects: Vec<Effect>,
    /// What else nodes were told.
    pub(super) told: Vec<Notice>,
}

impl Two {
    pub(super) fn new() -> Self {
        Self::of_job(2)
    }

    /// The same of a job of so many ranks, of which the others are at another I/O node.
    pub(super) fn of_job(size: u32) -> Self {
        let member =
            |node: u32| Member { node: NodeId(node), first: Rank(node), count: 1, use_retained: false, restore: None };
        let world = World::new(JobKey([7; 32]), 1, (0..size).map(NodeId));
        Self::with(StartJob { size, members: vec![member(0), member(1)], world, ..job() })
    }

    pub(super) fn with(job: StartJob) -> Self {
        let mut machine = Machine::default();
        let wires = (0..2).map(|number| ready(&mut machine, number)).collect();
        start_this(&mut machine, job);
        Self {
            machine,
            wires,
            said: 0,
            disk: Vec::new(),
            size: 5,
            changed_s: 1,
            handles: 0,
            effects: Vec::new(),
            told: Vec::new(),
        }
    }

    /// A node's rank makes a call. Which it is.
    pub(super) fn say(&mut self, node: u32, call: Call) -> u64 {
        self.said += 1;
        let id = RequestId::new(self.said as usize % 8, self.said).to_frame();
        let owner = Owner { job: JOB, rank: Rank(node) };
        let ship = &mut self.wires[node as usize][1];
        ship.session.send(id, &ship::Request { owner, call }, &[]).expect("sent");
        ship.exchange(&mut self.machine, NOW);
        id
    }

    /// A rank comes to its end by itself.
    pub(super) fn end(&mut self, node: u32) {
        let report = RankReport::ended(JOB, Rank(node), Exit::Status(0));
        let control = &mut self.wires[node as usize][0];
        control.say(&one_end(report));
        control.exchange(&mut self.machine, NOW);
    }

    pub(super) fn status(&self) -> FileStatus {
        let changed = Timestamp { seconds: self.changed_s, nanoseconds: 1 };
        FileStatus { device: 1, inode: 2, mode: 0o100_644, size: self.size, changed, ..FileStatus::default() }
    }

    /// The disk does what there is to do. What it was.
    pub(super) fn work(&mut self) -> Vec<Call> {
        let mut made = Vec::new();
        loop {
            while let Some(effect) = self.machine.next_effect() {
                match effect {
                    Effect::Names { id, call, .. } | Effect::Try { id, call, .. } => self.disk.push((id, call)),
                    other => self.effects.push(other),
                }
            }
            let Some((id, call)) = self.disk.pop() else { return made };
            let reply = match &call {
                Call::Open { .. } => {
                    self.handles += 1;
                    Reply::Opened { handle: Handle(self.handles), status: self.status(), grant: None }
                }
                Call::HandleTruncate { length, .. } => {
                    self.size = *length;
                    Reply::Done
                }
                Call::Read { .. } => Reply::Data,
                Call::Stat { .. } | Call::HandleStat(_) | Call::Close(_) => Reply::Status(self.status()),
                other => panic!("{other:?}"),
            };
            let bytes = if let Call::Read { length, .. } = call { vec![7; length as usize] } else { Vec::new() };
            made.push(call);
            self.machine.done(id, (reply, bytes), NOW);
        }
    }

    /// What a node hears: answers, and what it is asked to give back.
    pub(super) fn hear(&mut self, node: u32) -> (Vec<(u64, Reply)>, Vec<u64>) {
        let (replies, recalls) = self.hear_all(node);
        (replies.into_iter().map(|(id, reply, _)| (id, reply)).collect(), recalls)
    }

    /// The same with what came behind answers.
    fn hear_all(&mut self, node: u32) -> Heard {
        let ship = &mut self.wires[node as usize][1];
        let bytes = self.machine.transmit(ship.line).to_vec();
        self.machine.consume(ship.line, bytes.len(), NOW);
        ship.session.handle_bytes(&bytes).expect("authentic");
        let (mut replies, mut recalls) = (Vec::new(), Vec::new());
        while let Some(Event::Frame(frame)) = ship.session.poll_event() {
            if frame.id == ship::NOTICE_ID {
                match frame.message().expect("a notice") {
                    Notice::Recall { job: JOB, file: FILE, number } => recalls.push(number),
                    other => self.told.push(other),
                }
            } else {
                replies.push((frame.id, frame.message().expect("a reply"), frame.bulk));
            }
        }
        (replies, recalls)
    }

    pub(super) fn open(&mut self, node: u32, flags: u32) -> u64 {
        let at = Location { directory: None, path: "/a".into() };
        self.say(node, Call::Open { at, flags, mode: 0 })
    }

    /// A file that is opened at once.
    pub(super) fn opened(&mut self, node: u32, flags: u32) -> (Handle, Option<Grant>) {
        let id = self.open(node, flags);
        self.work();
        match &self.hear(node).0[..] {
            [(of, Reply::Opened { handle, grant, .. })] if *of == id => (*handle, *grant),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn give_back(&mut self, node: u32, number: u64) {
        self.say(node, Call::Return { file: FILE, number });
        self.work();
    }
}

fn lease(grant: Option<Grant>) -> Option<Lease> {
    grant.map(|grant| grant.lease)
}

#[test]
fn who_opens_against_a_lease_waits_until_it_is_back_and_sees_what_was_written_until_then() {
    let mut two = Two::new();
    let (_, sole) = two.opened(0, WRITE);
    assert_eq!(lease(sole), Some(Lease::Sole));
    let id = two.open(1, READ);
    two.work();
    let number = sole.expect("it has one").number;
    assert_eq!(two.hear(0).1, [number]);
    assert!(two.hear(1).0.is_empty(), "it waits");
    // What that node had not written yet.
    two.size = 9;
    two.give_back(0, number);
    match &two.hear(1).0[..] {
        [(of, Reply::Opened { status, grant: None, .. })] if *of == id => assert_eq!(status.size, 9),
        other => panic!("{other:?}"),
    }
    assert_eq!(two.machine.remains().calls, 0);
}

#[test]
fn readers_share_until_somebody_writes_and_nothing_is_cut_before_they_know_nothing() {
    let mut two = Two::new();
    let (_, one) = two.opened(0, READ);
    let (handle, other) = two.opened(1, READ);
    assert_eq!((lease(one), lease(other)), (Some(Lease::Shared), Some(Lease::Shared)));
    two.open(1, WRITE | CUT);
    assert!(matches!(two.work()[..], [Call::Open { flags: WRITE, .. }]), "it is not cut yet");
    assert_eq!((two.hear(0).1, two.hear(1).1), (vec![one.expect("one").number], vec![]), "it is its own");
    two.give_back(0, one.expect("one").number);
    let (replies, _) = two.hear(1);
    assert!(matches!(replies[..], [(_, Reply::Opened { grant: None, .. })]) && two.size == 0, "{replies:?}");
    two.say(1, Call::Close(handle));
    two.work();
}

/// With both bits of the access mode a file is neither to be read nor to be written, and its handle can cut nothing.
#[test]
fn what_is_opened_to_be_neither_read_nor_written_is_cut_by_that() {
    const NEITHER: u32 = 3;
    let mut two = Two::new();
    let id = two.open(0, NEITHER | CUT);
    assert!(matches!(two.work()[..], [Call::Open { flags, .. }] if flags == NEITHER | CUT));
    let (replies, _) = two.hear(0);
    assert!(matches!(replies[..], [(of, Reply::Opened { .. })] if of == id), "{replies:?}");
}

#[test]
fn who_looks_at_a_file_sees_what_others_have_not_written_yet() {
    let mut two = Two::new();
    let (_, sole) = two.opened(0, WRITE);
    let at = || Location { directory: None, path: "/a".into() };
    let id = two.say(1, Call::Stat { at: at(), follow: true });
    two.work();
    assert!(two.hear(1).0.is_empty());
    two.size = 7;
    two.give_back(0, sole.expect("it has one").number);
    match &two.hear(1).0[..] {
        [(of, Reply::Status(status))] if *of == id => assert_eq!(status.size, 7),
        other => panic!("{other:?}"),
    }
    // Its own node knows what it has not written.
    let (_, sole) = two.opened(0, WRITE);
    assert!(sole.is_some());
    two.say(0, Call::Stat { at: at(), follow: true });
    two.work();
    assert!(matches!(two.hear(0), (replies, recalls) if replies.len() == 1 && recalls.is_empty()));
}

#[test]
fn a_lease_ends_with_its_node_and_with_its_rank() {
    for loses_node in [false, true] {
        let mut two = Two::new();
        assert!(two.opened(0, WRITE).1.is_some());
        two.open(1, WRITE);
        two.work();
        if loses_node {
            two.machine.order(ToPset::RemoveNode { node: NodeId(0) }, NOW).expect("makes sense");
        } else {
            two.end(0);
        }
        two.work();
        let (replies, _) = two.hear(1);
        assert!(matches!(replies[..], [(_, Reply::Opened { grant: Some(_), .. })]), "{replies:?}");
    }
}

/// What a rank that has ended is still writing, on a thread that nobody calls off, is there before others have a lease.
#[test]
fn a_lease_outlives_its_rank_as_long_as_that_still_writes() {
    for loses_node in [false, true] {
        let mut two = Two::new();
        let (file, _) = two.opened(0, WRITE);
        let mut written = Vec::new();
        for offset in [Some(0), Some(5)] {
            two.say(0, Call::Write { file, offset });
            while let Some(effect) = two.machine.next_effect() {
                if let Effect::Try { id, .. } = effect {
                    two.machine.waits(id, NOW);
                    written.push(id);
                }
            }
        }
        if loses_node {
            two.machine.order(ToPset::RemoveNode { node: NodeId(0) }, NOW).expect("makes sense");
        } else {
            two.end(0);
        }
        two.open(1, READ);
        for id in written {
            two.work();
            assert_eq!(two.hear(1).0, [], "{loses_node}");
            two.machine.done(id, (Reply::Written { bytes: 5, end: 5 }, Vec::new()), NOW);
        }
        two.work();
        let (replies, _) = two.hear(1);
        assert!(matches!(replies[..], [(_, Reply::Opened { .. })]), "{replies:?}");
    }
}

#[test]
fn a_node_is_asked_again_on_its_next_connection_and_not_waited_for_for_ever() {
    let mut two = Two::new();
    let (_, sole) = two.opened(0, WRITE);
    let id = two.open(1, READ);
    two.work();
    two.machine.disconnected(two.wires[0][1].line, Disconnected::Closed, NOW);
    let again = Wire::connect(&mut two.machine, Channel::Ship, NodeId(0), &NodeKey([7; 32]));
    two.wires[0][1] = again;
    assert_eq!(two.hear(0).1, [sole.expect("it has one").number]);
    let late = Now { ns: 61_000_000_000, ..NOW };
    two.machine.advance(late);
    two.work();
    let (replies, _) = two.hear(1);
    assert!(matches!(replies[..], [(of, Reply::Failed(5))] if of == id), "{replies:?}");
    let said = std::iter::from_fn(|| two.machine.next_message(late));
    let is_said = |message| matches!(message, FromPset::Ras { event, .. } if event.kind == RasKind::LeaseKept);
    assert_eq!(said.filter(|message| is_said(message.clone())).count(), 1);
    assert_eq!(two.machine.remains().calls, 0);
}

#[test]
fn what_the_host_changed_is_seen_in_a_second() {
    let mut two = Two::new();
    let (_, one) = two.opened(0, READ);
    let (handle, other) = two.opened(1, READ);
    let mut now = NOW;
    let mut look = |two: &mut Two| {
        now.ns += 1_000_000_000;
        two.machine.advance(now);
        two.work()
    };
    assert!(matches!(look(&mut two)[..], [Call::HandleStat(_)]), "once for both");
    assert_eq!((two.hear(0).1, two.hear(1).1), (vec![], vec![]));
    two.size = 6;
    look(&mut two);
    let numbers = [one, other].map(|grant| vec![grant.expect("one").number]);
    assert_eq!([two.hear(0).1, two.hear(1).1], numbers);
    for (node, number) in [(0, numbers[0][0]), (1, numbers[1][0])] {
        two.give_back(node, number);
    }
    assert_eq!(look(&mut two), [], "there is no lease");
    two.say(1, Call::Close(handle));
    two.work();
    assert_eq!(two.machine.remains().calls, 0);
}

/// A mount that answers no more is asked once, not each second.
#[test]
fn a_disk_that_does_not_answer_is_not_asked_again_and_again() {
    let mut two = Two::new();
    assert!(two.opened(0, READ).1.is_some());
    for second in 1..10 {
        two.machine.advance(Now { ns: second * 1_000_000_000, ..NOW });
    }
    assert_eq!(two.machine.remains().calls, 1);
    assert!(matches!(two.work()[..], [Call::HandleStat(_)]));
    two.machine.advance(Now { ns: 11_000_000_000, ..NOW });
    assert!(matches!(two.work()[..], [Call::HandleStat(_)]), "it answers again");
}

#[test]
fn of_what_is_made_when_it_is_read_there_is_no_lease() {
    for (flags, size, is_leased) in [(READ, 0, false), (READ, 1, true), (WRITE, 0, false), (WRITE, 1, true)] {
        let mut two = Two { size, ..Two::new() };
        assert_eq!(two.opened(0, flags).1.is_some(), is_leased, "{flags} {size}");
    }
}

#[test]
fn a_short_file_comes_with_its_lease_and_with_nothing_else() {
    for (flags, size, comes) in [(READ, 5, true), (READ, FIRST_BYTES_MAX + 1, false), (WRITE, 5, false)] {
        let mut two = Two { size, ..Two::new() };
        two.open(0, flags);
        two.work();
        match &two.hear_all(0).0[..] {
            [(_, Reply::Opened { grant: Some(_), .. }, bytes)] => {
                assert_eq!(bytes.len() as u64, if comes { size } else { 0 }, "{flags} {size}");
            }
            other => panic!("{other:?}"),
        }
    }
    // Without a lease it may be another by then.
    let mut two = Two::new();
    two.opened(0, READ);
    two.opened(1, READ);
    two.open(1, WRITE);
    two.work();
    let number = two.hear(0).1[0];
    two.give_back(0, number);
    two.open(0, READ);
    two.work();
    let (replies, _) = two.hear_all(0);
    let bytes = replies.iter().find_map(|(_, reply, bytes)| match reply {
        Reply::Opened { grant: None, .. } => Some(bytes.len()),
        _ => None,
    });
    assert_eq!(bytes, Some(0), "{replies:?}");
}

#[test]
fn a_job_without_leases_gets_none() {
    let mut two = Two::with(StartJob { leases: false, ..job() });
    assert_eq!(two.opened(0, WRITE | CUT).1, None);
}
