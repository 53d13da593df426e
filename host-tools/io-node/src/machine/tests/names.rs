//! Leases of names between nodes, with a disk that the tests play: it says of everything that it is there.

use coppice_protocol::lease::limits::{LOOKS_AFTER_RECALL, LOOKS_BEFORE_LEASE};
use coppice_protocol::ship::{
    self, Call, FileStatus, Handle, Keeping, Known, Location, Notice, Owner, Reply, RequestId,
};

use super::*;
use crate::machine::{CallId, ToCheck};

const NOW: Now = Now { ns: 0, realtime_ns: 1_000_000_000_000 };
const CREATE: u32 = 0o101;

/// Two nodes with a rank each.
struct Two {
    machine: Machine,
    wires: Vec<[Wire; 2]>,
    said: u64,
    /// Calls that the disk was to make and has not.
    disk: Vec<(CallId, Call)>,
    /// Manifests that it was to ask again, and has not.
    checks: Vec<(CallId, ToCheck)>,
    handles: u32,
}

/// What a node hears: answers, and leases that are wanted back.
type Heard = (Vec<(u64, Reply)>, Vec<u64>);

fn at(path: &str) -> Location {
    Location { directory: None, path: path.into() }
}

fn stat() -> Call {
    Call::Stat { at: at("/a"), follow: true }
}

fn make() -> Call {
    Call::MakeDirectory { at: at("/d"), mode: 0 }
}

fn open(flags: u32) -> Call {
    Call::Open { at: at("/a"), flags, mode: 0 }
}

fn status() -> FileStatus {
    FileStatus { device: 1, inode: 2, mode: 0o100_644, size: 5, ..FileStatus::default() }
}

impl Two {
    fn new(leases: bool) -> Self {
        Self::that_keep(leases, false)
    }

    /// The same, of a job that keeps what it looks up or not.
    fn that_keep(leases: bool, keeps_files: bool) -> Self {
        let mut machine = Machine::default();
        let wires = (0..2).map(|number| ready(&mut machine, number)).collect();
        let member =
            |node: u32| Member { node: NodeId(node), first: Rank(node), count: 1, use_retained: false, restore: None };
        let world = World::new(JobKey([7; 32]), 1, (0..2).map(NodeId));
        let members = vec![member(0), member(1)];
        start_this(&mut machine, StartJob { size: 2, members, world, leases, keeps_files, ..job() });
        Self { machine, wires, said: 0, disk: Vec::new(), checks: Vec::new(), handles: 0 }
    }

    /// A node's rank makes a call, which the disk does not make yet. Which it is.
    fn say(&mut self, node: u32, call: Call) -> u64 {
        self.said += 1;
        let id = RequestId::new(self.said as usize % 16, self.said).to_frame();
        let owner = Owner { job: JOB, rank: Rank(node) };
        let ship = &mut self.wires[node as usize][1];
        ship.session.send(id, &ship::Request { owner, call }, &[]).expect("sent");
        ship.exchange(&mut self.machine, NOW);
        while let Some(effect) = self.machine.next_effect() {
            self.wants(effect);
        }
        id
    }

    fn wants(&mut self, effect: Effect) {
        match effect {
            Effect::Names { id, call, .. } | Effect::Try { id, call, .. } => self.disk.push((id, call)),
            Effect::Manifest { id, to_check, .. } => self.checks.push((id, to_check)),
            _ => {}
        }
    }

    /// The disk does what there is to do. What it was.
    fn work(&mut self) -> Vec<Call> {
        let mut made = Vec::new();
        loop {
            while let Some(effect) = self.machine.next_effect() {
                self.wants(effect);
            }
            if self.disk.is_empty() {
                return made;
            }
            let (id, call) = self.disk.remove(0);
            let known = match &call {
                Call::Open { .. } => {
                    self.handles += 1;
                    Known::Opened { handle: Handle(self.handles), status: Box::new(status()), grant: None }
                }
                Call::Stat { .. } | Call::HandleStat(_) | Call::Close(_) => Known::Status(Box::new(status())),
                Call::List { attributes, .. } => {
                    Known::Entries { next: 1, attributes: if *attributes { vec![Some(status())] } else { Vec::new() } }
                }
                Call::Read { .. } => Known::Data,
                _ => Known::Done,
            };
            made.push(call);
            let keeping = Keeping { number: 0, is_plain: true, attributes: true };
            self.machine.done(id, (Reply::Known(keeping, known), Vec::new()), NOW);
        }
    }

    fn hear(&mut self, node: u32) -> Heard {
        let ship = &mut self.wires[node as usize][1];
        let bytes = self.machine.transmit(ship.line).to_vec();
        self.machine.consume(ship.line, bytes.len(), NOW);
        ship.session.handle_bytes(&bytes).expect("authentic");
        let (mut replies, mut recalls) = (Vec::new(), Vec::new());
        while let Some(Event::Frame(frame)) = ship.session.poll_event() {
            if frame.id == ship::NOTICE_ID {
                match frame.message().expect("a notice") {
                    Notice::RecallNames { job: JOB, number } => recalls.push(number),
                    // Of the file, which nobody keeps here.
                    Notice::Recall { file, number, .. } => drop(self.say(node, Call::Return { file, number })),
                    other => panic!("{other:?}"),
                }
                return self.hear_more(node, (replies, recalls));
            }
            replies.push((frame.id, frame.message().expect("a reply")));
        }
        (replies, recalls)
    }

    fn hear_more(&mut self, node: u32, (mut replies, mut recalls): Heard) -> Heard {
        let ship = &mut self.wires[node as usize][1];
        while let Some(Event::Frame(frame)) = ship.session.poll_event() {
            if frame.id != ship::NOTICE_ID {
                replies.push((frame.id, frame.message().expect("a reply")));
            } else if let Ok(Notice::RecallNames { number, .. }) = frame.message() {
                recalls.push(number);
            }
        }
        (replies, recalls)
    }

    /// A call that is made at once. The answer.
    fn ask(&mut self, node: u32, call: Call) -> Reply {
        let id = self.say(node, call);
        self.work();
        match &self.hear(node).0[..] {
            [(of, reply)] if *of == id => reply.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// Looks so often that a lease comes with it. Its number.
    fn leased(&mut self, node: u32) -> u64 {
        let number = (0..=LOOKS_BEFORE_LEASE).find_map(|_| self.keeping(node, stat())).expect("it is time").number;
        self.hear(node);
        number
    }

    /// How long the answer to a call may be kept.
    fn keeping(&mut self, node: u32, call: Call) -> Option<Keeping> {
        match self.ask(node, call) {
            Reply::Known(keeping, _) => Some(keeping),
            _ => None,
        }
    }
}

#[test]
fn who_changes_something_waits_until_others_know_nothing_any_more() {
    let mut two = Two::new(true);
    let number = two.leased(0);
    for change in [make(), open(CREATE), Call::Remove { at: at("/a"), directory: false }] {
        assert_eq!(two.ask(0, make()), Reply::Known(Keeping { number, is_plain: true, attributes: true }, Known::Done));
        let mut other = Two::new(true);
        let number = other.leased(0);
        let id = other.say(1, change);
        assert_eq!((other.work(), other.hear(0).1), (vec![], vec![number]), "nothing is done yet");
        // What is told now is late.
        assert_eq!(other.ask(0, stat()), Reply::Status(status()));
        other.say(0, Call::ReturnNames { number });
        assert_eq!(other.work().len(), 1);
        let (replies, _) = other.hear(1);
        assert!(matches!(replies[..], [(of, _)] if of == id), "{replies:?}");
        assert_eq!(other.machine.remains().calls, 0);
    }
}

#[test]
fn an_answer_that_is_under_way_when_a_lease_is_asked_back_is_not_kept() {
    let mut two = Two::new(true);
    let number = two.leased(0);
    let look = two.say(0, stat());
    two.say(1, make());
    assert_eq!(two.work().len(), 1, "the look-up");
    assert_eq!(two.hear(0), (vec![(look, Reply::Status(status()))], vec![number]));
    // Nor one that was asked for while a change was under way, or one's own.
    let mut two = Two::new(true);
    two.leased(0);
    two.say(0, stat());
    two.say(0, make());
    two.say(0, stat());
    two.work();
    let (replies, _) = two.hear(0);
    let kept = replies.iter().filter(|(_, reply)| matches!(reply, Reply::Known(_, Known::Status(_)))).count();
    assert_eq!((replies.len(), kept), (3, 0), "{replies:?}");
    assert!(two.keeping(0, stat()).is_some());
}

#[test]
fn who_looks_while_others_change_does_not_have_the_lease_go_to_and_fro() {
    let mut two = Two::new(true);
    let number = two.leased(0);
    two.say(1, make());
    two.say(0, Call::ReturnNames { number });
    two.work();
    for _ in 0..LOOKS_AFTER_RECALL {
        assert_eq!(two.keeping(0, stat()), None);
        two.hear(1);
        two.ask(1, make());
    }
    // Nor does it get one while something is being changed.
    let change = two.say(1, make());
    let held = two.disk.pop().expect("the change");
    assert_eq!(two.keeping(0, stat()), None);
    two.disk.push(held);
    two.work();
    assert_eq!(two.hear(1).0.len(), 1, "{change}");
    assert!(two.keeping(0, stat()).is_some_and(|keeping| keeping.number > number));
}

#[test]
fn attributes_of_what_somebody_writes_are_told_and_not_kept() {
    for writer in [0, 1] {
        let mut two = Two::new(true);
        let Reply::Opened { handle, .. } = two.ask(writer, open(1)).plain() else { panic!("it is open") };
        if writer == 1 {
            // Who looks has the lease of the file asked back first.
            two.say(0, stat());
            for node in [0, 1, 0] {
                two.work();
                two.hear(node);
            }
        }
        two.leased(0);
        let keeping = two.keeping(0, stat()).expect("a lease");
        assert!(!keeping.attributes && keeping.is_plain, "{keeping:?}");
        // What was looked at before it was closed may be from before the last write.
        let look = two.say(0, stat());
        let held = two.disk.pop().expect("the look-up");
        let closed = two.ask(writer, Call::Close(handle));
        two.disk.push(held);
        two.work();
        let (replies, _) = two.hear(0);
        assert!(
            matches!(replies[..], [(of, Reply::Known(Keeping { attributes: false, .. }, _))] if of == look),
            "{replies:?}"
        );
        let is_told = matches!(closed, Reply::Known(Keeping { attributes: true, .. }, Known::Status(_)));
        assert_eq!(is_told, writer == 0, "its own node is told what it was then: {closed:?}");
        assert!(two.keeping(0, stat()).is_some_and(|keeping| keeping.attributes));
    }
}

#[test]
fn what_is_listed_comes_with_attributes_for_who_may_keep_them() {
    let mut two = Two::new(true);
    let list = || Call::List { directory: Handle(1), position: 0, length: 100, attributes: true };
    assert_eq!(two.ask(0, list()), Reply::Entries { next: 1 });
    two.leased(0);
    let told = |reply| if let Reply::Known(_, Known::Entries { attributes, .. }) = reply { attributes } else { vec![] };
    assert_eq!(told(two.ask(0, list())), [Some(status())]);
    two.ask(0, open(1));
    assert_eq!(told(two.ask(0, list())), [None], "it is written");
}

#[test]
fn a_lease_of_names_ends_with_its_node_and_with_its_last_rank() {
    for loses_node in [false, true] {
        let mut two = Two::new(true);
        two.leased(0);
        let id = two.say(1, make());
        if loses_node {
            two.machine.order(ToPset::RemoveNode { node: NodeId(0) }, NOW).expect("makes sense");
        } else {
            two.wires[0][0].say(&one_end(RankReport::ended(JOB, Rank(0), Exit::Status(0))));
            two.wires[0][0].exchange(&mut two.machine, NOW);
        }
        assert_eq!(two.work(), [make()]);
        assert!(matches!(two.hear(1).0[..], [(of, Reply::Done)] if of == id));
    }
}

#[test]
fn a_node_is_asked_for_names_again_on_its_next_connection_and_not_for_ever() {
    let mut two = Two::new(true);
    let number = two.leased(0);
    let id = two.say(1, make());
    two.machine.disconnected(two.wires[0][1].line, Disconnected::Closed, NOW);
    two.wires[0][1] = Wire::connect(&mut two.machine, Channel::Ship, NodeId(0), &NodeKey([7; 32]));
    assert_eq!(two.hear(0).1, [number]);
    let late = Now { ns: 61_000_000_000, ..NOW };
    two.machine.advance(late);
    assert_eq!(two.work(), [], "it is not made any more");
    assert!(matches!(two.hear(1).0[..], [(of, Reply::Failed(5))] if of == id));
    let said = std::iter::from_fn(|| two.machine.next_message(late));
    let is_said = |message| matches!(message, FromPset::Ras { event, .. } if event.kind == RasKind::LeaseKept);
    assert_eq!(said.filter(|message| is_said(message.clone())).count(), 1);
    two.say(0, Call::ReturnNames { number });
    assert_eq!((two.work(), two.machine.remains().calls), (vec![], 0));
    assert_eq!(two.ask(1, make()), Reply::Done);
}

#[test]
fn a_job_without_leases_keeps_nothing_of_names() {
    let mut two = Two::new(false);
    for _ in 0..2 * LOOKS_BEFORE_LEASE {
        assert_eq!(two.keeping(0, stat()), None);
    }
}

impl Two {
    /// A node asks for the manifest, of which it has so much, and the disk finds some of it untrue. What was to be
    /// asked again, and what the node hears.
    fn check(&mut self, node: u32, (made, entries): (u64, u32), untrue: &[u32]) -> (ToCheck, Reply) {
        self.say(node, Call::Manifest { made, entries });
        let (id, to_check) = self.checks.pop().expect("it is asked again");
        self.checked(id, &to_check, untrue);
        let (replies, _) = self.hear(node);
        (to_check, replies.into_iter().next().expect("it is answered").1)
    }

    fn checked(&mut self, id: CallId, to_check: &ToCheck, untrue: &[u32]) {
        let known = Known::Manifest { made: to_check.made, untrue: untrue.to_vec() };
        self.machine.done(id, (Reply::Known(Keeping::default(), known), Vec::new()), NOW);
    }
}

#[test]
fn what_ranks_look_up_is_told_to_nodes_that_start_the_same_as_far_as_it_is_so() {
    let mut two = Two::that_keep(true, true);
    let (none, reply) = two.check(1, (0, 0), &[]);
    assert_eq!((none.made, none.entries.len()), (0, 0));
    assert!(matches!(reply, Reply::Known(_, Known::Manifest { made: 0, .. })), "{reply:?}");
    for call in [stat(), open(0), Call::Access { at: at("/b"), mode: 4, flags: 0 }, Call::HandleStat(Handle(1))] {
        two.ask(0, call);
    }
    let (all, reply) = two.check(1, (0, 0), &[]);
    // What was opened is the same as what was looked at.
    let calls: Vec<Call> = all.entries.iter().map(|entry| entry.call.clone()).collect();
    assert_eq!((calls, all.from), (vec![stat(), Call::Access { at: at("/b"), mode: 4, flags: 0 }], 0));
    let Reply::Known(keeping, Known::Manifest { made, untrue }) = reply else { panic!("{reply:?}") };
    assert!(keeping.number > 0 && made == all.made && untrue.is_empty());
    // What the node has it is not sent again.
    assert_eq!(two.check(1, (made, 1), &[]).0.from, 1);
    assert_eq!(two.check(1, (made + 100, 1), &[]).0.from, 0);
    // What is not so is told not to be, and is not in it any more.
    let (_, reply) = two.check(1, (made, 2), &[0]);
    assert!(matches!(&reply, Reply::Known(_, Known::Manifest { untrue, .. }) if *untrue == [0]), "{reply:?}");
    let (rest, _) = two.check(1, (made, 2), &[]);
    assert!(rest.made != made && rest.entries.len() == 1 && rest.from == 0);
    // Of a job that leaves nothing it is not taken up.
    let mut other = Two::new(true);
    other.ask(0, stat());
    assert_eq!(other.check(1, (0, 0), &[]).0.entries.len(), 0);
}

#[test]
fn what_is_changed_or_written_meanwhile_is_not_told_to_be_kept() {
    let mut two = Two::that_keep(true, true);
    two.ask(0, stat());
    // Somebody changes a name while it is asked again.
    two.say(1, Call::Manifest { made: 0, entries: 0 });
    let (id, to_check) = two.checks.pop().expect("it is asked again");
    let change = two.say(0, make());
    assert!(two.disk.is_empty(), "who changes it waits");
    two.checked(id, &to_check, &[]);
    let (replies, recalls) = two.hear(1);
    assert!(matches!(replies[..], [(_, Reply::Manifest { .. })]), "{replies:?}");
    two.say(1, Call::ReturnNames { number: recalls[0] });
    two.work();
    assert_eq!(two.hear(0).0[0].0, change);
    // Somebody has a file of it open to write.
    let mut two = Two::that_keep(true, true);
    two.ask(0, stat());
    two.ask(0, open(1));
    two.hear(1);
    let (_, reply) = two.check(0, (0, 0), &[]);
    assert!(matches!(&reply, Reply::Known(_, Known::Manifest { untrue, .. }) if *untrue == [0]), "{reply:?}");
}
