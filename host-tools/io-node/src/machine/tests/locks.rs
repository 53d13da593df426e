//! Locks of a file between ranks on two nodes.

use coppice_protocol::lock::limits::TURN_NS;
use coppice_protocol::lock::{Asked, Locked, Span, Whose};
use coppice_protocol::ship::{Call, Handle, Notice, Owner, Reply};
use rustix::io::Errno;

use super::leases::Two;
use super::*;

const WRITE: u32 = 1;
const SPAN: Span = Span { first: 0, last: 9, exclusive: true };

fn owner(rank: u32) -> Owner {
    Owner { job: JOB, rank: Rank(rank) }
}

fn error(errno: Errno) -> Reply {
    Reply::Failed(errno.raw_os_error() as u16)
}

/// Two ranks that have the file open.
fn two_with_file() -> (Two, [Handle; 2]) {
    let mut two = Two::new();
    let one = two.opened(0, WRITE).0;
    two.open(1, WRITE);
    two.work();
    let number = two.hear(0).1[0];
    two.give_back(0, number);
    let other = two.hear(1).0.into_iter().find_map(|(_, reply)| match reply {
        Reply::Opened { handle, .. } => Some(handle),
        _ => None,
    });
    two.hear(0);
    (two, [one, other.expect("it is open")])
}

impl Two {
    /// What a rank is answered at once.
    fn ask(&mut self, node: u32, call: Call) -> Reply {
        let id = self.say(node, call);
        match self.hear(node).0.pop() {
            Some((of, reply)) if of == id => reply,
            other => panic!("{other:?}"),
        }
    }

    /// What a rank is answered that waits for a lock, with its own number as that of its wait.
    fn wait(&mut self, node: u32, asked: Asked) -> Reply {
        self.ask(node, Call::Lock { asked, wait: Some(node) })
    }

    /// Who was told to try again.
    fn called(&mut self) -> Vec<u32> {
        for node in 0..2 {
            self.hear(node);
        }
        let rank = |notice| if let Notice::Lock(owner) = notice { owner.rank.0 } else { panic!("{notice:?}") };
        self.told.drain(..).map(rank).collect()
    }
}

fn asked(file: Handle, whose: Whose) -> Asked {
    Asked { file, whose, span: SPAN }
}

#[test]
fn who_finds_a_lock_taken_is_told_so_and_called_when_it_is_free() {
    for whose in [Whose::Process, Whose::OpenFile, Whose::Whole] {
        let (mut two, [one, other]) = two_with_file();
        let (mine, yours) = (asked(one, whose), asked(other, whose));
        assert_eq!(two.ask(0, Call::Lock { asked: mine, wait: None }), Reply::Done);
        assert_eq!(two.ask(1, Call::Lock { asked: yours, wait: None }), error(Errno::AGAIN));
        let span = if whose == Whose::Whole { Span::whole(true) } else { SPAN };
        let found = Locked { owner: owner(0), is_open_files: whose != Whose::Process, span };
        assert_eq!(two.ask(1, Call::TestLock(yours)), Reply::Locked(found));
        assert_eq!(two.wait(1, yours), Reply::Later);
        assert!(two.called().is_empty());
        assert_eq!(two.ask(0, Call::Unlock(mine)), Reply::Done);
        assert_eq!(two.called(), [1]);
        assert_eq!(two.ask(0, Call::Lock { asked: mine, wait: None }), error(Errno::AGAIN), "it is the other's turn");
        assert_eq!(two.wait(1, yours), Reply::Done);
        assert_eq!(two.ask(1, Call::TestLock(yours)), Reply::Done);
        assert_eq!(two.machine.remains().calls, 0);
    }
}

#[test]
fn a_lock_ends_with_its_open_file_its_rank_and_its_node() {
    for way in 0..4 {
        let (mut two, [one, other]) = two_with_file();
        let whose = if way == 0 { Whose::OpenFile } else { Whose::Process };
        assert_eq!(two.ask(0, Call::Lock { asked: asked(one, whose), wait: None }), Reply::Done);
        assert_eq!(two.wait(1, asked(other, Whose::Process)), Reply::Later);
        match way {
            // The rank's own lock ends with the last of its open files.
            0 | 1 => {
                two.say(0, Call::Close(one));
            }
            2 => {
                two.wires[0][0].say(&one_end(RankReport::ended(JOB, Rank(0), Exit::Status(0))));
                two.wires[0][0].exchange(&mut two.machine, at(0));
            }
            _ => two.machine.order(ToPset::RemoveNode { node: NodeId(0) }, at(0)).expect("makes sense"),
        }
        two.work();
        two.hear(1);
        assert_eq!(two.told, [Notice::Lock(owner(1))], "{way}");
        assert_eq!(two.wait(1, asked(other, Whose::Process)), Reply::Done);
    }
}

#[test]
fn a_lock_outlives_a_connection_and_who_waits_asks_again_on_the_next() {
    let (mut two, [one, other]) = two_with_file();
    let (mine, yours) = (asked(one, Whose::Process), asked(other, Whose::Process));
    assert_eq!(two.ask(0, Call::Lock { asked: mine, wait: None }), Reply::Done);
    assert_eq!(two.wait(1, yours), Reply::Later);
    for node in 0..2 {
        two.machine.disconnected(two.wires[node][1].line, Disconnected::Closed, at(0));
    }
    two.wires[0][1] = Wire::connect(&mut two.machine, Channel::Ship, NodeId(0), &NodeKey([7; 32]));
    assert_eq!(two.ask(0, Call::Unlock(mine)), Reply::Done);
    // Nobody hears that it is called.
    two.wires[1][1] = Wire::connect(&mut two.machine, Channel::Ship, NodeId(1), &NodeKey([7; 32]));
    assert_eq!(two.ask(0, Call::Lock { asked: mine, wait: None }), error(Errno::AGAIN), "it may still come");
    assert_eq!(two.wait(1, yours), Reply::Done);
}

#[test]
fn who_is_called_and_does_not_come_is_waited_for_for_a_moment() {
    let (mut two, [one, other]) = two_with_file();
    let (mine, yours) = (asked(one, Whose::Process), asked(other, Whose::Process));
    assert_eq!(two.ask(0, Call::Lock { asked: mine, wait: None }), Reply::Done);
    assert_eq!(two.wait(1, yours), Reply::Later);
    assert_eq!(two.ask(0, Call::Unlock(mine)), Reply::Done);
    assert_eq!((two.called(), two.wait(0, mine)), (vec![1], Reply::Later));
    two.machine.advance(at(two.machine.deadline().expect("its turn ends").max(TURN_NS)));
    assert_eq!(two.called(), [0]);
    assert_eq!(two.wait(0, mine), Reply::Done);
    // Who does not wait any more is not called.
    assert_eq!(two.ask(1, Call::LockNothing { wait: 1 }), Reply::Done);
    assert_eq!(two.ask(0, Call::Unlock(mine)), Reply::Done);
    assert!(two.called().is_empty());
}

#[test]
fn what_cannot_be_locked_is_refused() {
    let (mut two, [one, other]) = two_with_file();
    let lock = |asked| Call::Lock { asked, wait: None };
    assert_eq!(two.ask(0, lock(asked(other, Whose::Process))), error(Errno::BADF), "it is the other rank's");
    let backwards = Asked { span: Span { first: 1, last: 0, exclusive: true }, ..asked(one, Whose::Process) };
    assert_eq!(two.ask(0, lock(backwards)), error(Errno::INVAL));
    let byte = |file, at| Asked { file, whose: Whose::Process, span: Span { first: at, last: at, exclusive: true } };
    assert_eq!((two.wait(0, byte(one, 0)), two.wait(1, byte(other, 1))), (Reply::Done, Reply::Done));
    assert_eq!(two.wait(0, byte(one, 1)), Reply::Later);
    assert_eq!(two.wait(1, byte(other, 0)), error(Errno::DEADLK));
    // Ranks elsewhere would not know of it.
    let mut two = Two::of_job(3);
    let one = two.opened(0, WRITE).0;
    assert_eq!(two.ask(0, lock(asked(one, Whose::Whole))), error(Errno::NOLCK));
}
