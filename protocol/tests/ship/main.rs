//! A node's requests and its I/O node's replies over connections that break: whatever happens, each call is made once
//! and answered once, and no rank keeps others waiting.

use std::collections::{BTreeMap, VecDeque};

use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::limits::{REQUESTS_IN_FLIGHT_MAX, REQUESTS_OWED_MAX, REQUESTS_PER_RANK_MAX};
use coppice_protocol::ship::{
    Answered, Connection, Heard, NOTICE_ID, Owner, Replies, Reply, RequestId, Requests, SLOTS,
};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_oneof};
use proptest::proptest;

fn owner(rank: u32) -> Owner {
    Owner { job: JobId(1), rank: Rank(rank) }
}

/// A call: which, and whether it changes something.
type Call = (u64, bool);

/// A node, its I/O node, and the connection between them.
struct Pair {
    requests: Requests<Call>,
    replies: Replies,
    down: VecDeque<(RequestId, Call)>,
    up: VecDeque<(RequestId, Reply)>,
    connection: Connection,
    /// What the I/O node is at.
    under_way: Vec<(RequestId, Call)>,
    made: BTreeMap<u64, u32>,
    answered: BTreeMap<u64, Reply>,
    calls: u64,
}

impl Pair {
    fn new() -> Self {
        let mut replies = Replies::default();
        let (connection, requests) = (replies.connected(), Requests::new());
        let (down, up, under_way) = (VecDeque::new(), VecDeque::new(), Vec::new());
        let (made, answered) = (BTreeMap::new(), BTreeMap::new());
        Self { requests, replies, down, up, connection, under_way, made, answered, calls: 0 }
    }

    fn call(&mut self, rank: u32, changes: bool) {
        self.calls += 1;
        self.requests.push(owner(rank), (self.calls, changes));
        self.pump();
    }

    fn pump(&mut self) {
        while let Some((id, call)) = self.requests.next(3) {
            assert_eq!(RequestId::of_frame(id.to_frame()), Some(id));
            assert_ne!(id.to_frame(), NOTICE_ID);
            self.down.push_back((id, *call));
        }
    }

    /// The next request arrives, if its slot is not busy with one that nobody waits for.
    fn hear(&mut self) {
        let Some((id, call)) = self.down.pop_front() else { return };
        match self.replies.hear(self.connection, id, call.1) {
            Heard::New => self.under_way.push((id, call)),
            Heard::UnderWay => {}
            Heard::Again(reply, bulk) => {
                assert!(bulk.is_empty());
                self.up.push_back((id, reply));
            }
            Heard::Later => self.down.push_front((id, call)),
            Heard::Nonsense => panic!("{id:?} makes no sense"),
        }
    }

    /// A call is carried out.
    fn carry_out(&mut self, which: usize) {
        if self.under_way.is_empty() {
            return;
        }
        let (id, (call, _)) = self.under_way.swap_remove(which % self.under_way.len());
        *self.made.entry(call).or_default() += 1;
        // Calls that are made twice find something else.
        let reply = Reply::Count(call << 32 | u64::from(self.made[&call]));
        if self.replies.answered(id, &reply, &[]) {
            self.up.push_back((id, reply));
        }
    }

    fn take_answer(&mut self) {
        let Some((id, reply)) = self.up.pop_front() else { return };
        match self.requests.take(id) {
            Answered::Request((call, changes)) => {
                let Reply::Count(count) = reply else { panic!("a count") };
                assert_eq!(count >> 32, call, "the answer to another");
                assert!(!changes || count & 0xffff_ffff == 1, "call {call} was made twice");
                assert!(self.answered.insert(call, reply).is_none(), "answered twice");
            }
            Answered::Forgotten => {}
            Answered::Unknown => panic!("{id:?} is no request"),
        }
        self.pump();
    }

    fn break_connection(&mut self) {
        self.down.clear();
        self.up.clear();
        self.connection = self.replies.connected();
        let again: Vec<_> = self.requests.again().into_iter().map(|(id, call)| (id, *call)).collect();
        self.down.extend(again);
        self.pump();
    }

    fn settle(&mut self) {
        while !(self.down.is_empty() && self.under_way.is_empty() && self.up.is_empty()) {
            self.hear();
            self.carry_out(0);
            self.take_answer();
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Call(u32, bool),
    Hear,
    CarryOut(usize),
    TakeAnswer,
    Break,
    Forget(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_u32, any::<bool>()).prop_map(|(rank, changes)| Step::Call(rank, changes)),
        5 => any::<bool>().prop_map(|_| Step::Hear),
        5 => any::<usize>().prop_map(Step::CarryOut),
        5 => any::<bool>().prop_map(|_| Step::TakeAnswer),
        1 => any::<bool>().prop_map(|_| Step::Break),
        1 => (0..3_u32).prop_map(Step::Forget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn each_call_is_made_once_and_answered_once(steps in vec(step(), 0..200)) {
        let mut pair = Pair::new();
        let mut forgotten = Vec::new();
        let mut of_rank = BTreeMap::<u32, Vec<u64>>::new();
        for step in steps {
            match step {
                Step::Call(rank, changes) => {
                    pair.call(rank, changes);
                    of_rank.entry(rank).or_default().push(pair.calls);
                }
                Step::Hear => pair.hear(),
                Step::CarryOut(which) => pair.carry_out(which),
                Step::TakeAnswer => pair.take_answer(),
                Step::Break => pair.break_connection(),
                Step::Forget(rank) => {
                    pair.requests.forget(owner(rank));
                    forgotten.extend(of_rank.remove(&rank).unwrap_or_default());
                }
            }
        }
        pair.settle();
        for call in 1..=pair.calls {
            let (made, is_answered) = (pair.made.get(&call).copied(), pair.answered.contains_key(&call));
            assert!(is_answered || forgotten.contains(&call), "call {call} was not answered");
            assert!(made.is_some() || forgotten.contains(&call), "call {call} was not made");
        }
        assert!(!pair.requests.any_forgotten() && pair.requests.iter().next().is_none());
    }
}

/// An answer that was lost does not make the call be made again; an answer that is late comes on the new connection.
#[test]
fn a_call_that_changes_something_is_not_made_again() {
    let mut pair = Pair::new();
    pair.call(0, true);
    pair.call(0, false);
    pair.call(0, true);
    for _ in 0..3 {
        pair.hear();
    }
    pair.carry_out(0);
    pair.carry_out(1);
    pair.break_connection();
    assert_eq!(pair.down.len(), 3, "all are said again");
    pair.settle();
    assert_eq!(pair.made, BTreeMap::from([(1, 1), (2, 2), (3, 1)]), "only one that changes nothing is made again");
    assert_eq!(pair.answered.len(), 3);
}

#[test]
fn ranks_take_turns_and_none_takes_all_places() {
    let mut requests = Requests::new();
    for number in 0..500 {
        requests.push(owner(0), number);
    }
    let went: Vec<RequestId> = std::iter::from_fn(|| requests.next(2).map(|(id, _)| id)).collect();
    assert_eq!(went.len(), REQUESTS_PER_RANK_MAX, "the others find places");
    for number in 500..600 {
        requests.push(owner(1), number);
    }
    let went_of_other: Vec<u64> = std::iter::from_fn(|| requests.next(2).map(|(_, number)| *number)).collect();
    assert_eq!(went_of_other, (500..).take(REQUESTS_IN_FLIGHT_MAX - REQUESTS_PER_RANK_MAX).collect::<Vec<u64>>());
    // One after the other, as places become free.
    let mut turns = Vec::new();
    for id in went {
        assert!(matches!(requests.take(id), Answered::Request(_)));
        turns.extend(requests.next(2).map(|(_, number)| *number >= 500));
    }
    let of_one = turns.iter().filter(|is_of_one| **is_of_one).count();
    assert_eq!((turns.len(), of_one), (12, 6), "{turns:?}");
    // A rank that has its node for itself has all places.
    let mut alone = Requests::new();
    for number in 0..100 {
        alone.push(owner(0), number);
    }
    assert_eq!(std::iter::from_fn(|| alone.next(1).map(drop)).count(), REQUESTS_IN_FLIGHT_MAX);
}

#[test]
fn what_no_node_would_say_makes_no_sense() {
    let mut replies = Replies::default();
    let id = |number| RequestId::new(3, number);
    let first = replies.connected();
    assert_eq!(replies.hear(first, id(5), true), Heard::New);
    assert_eq!(replies.hear(first, id(5), true), Heard::Nonsense, "it was said on this connection");
    assert_eq!(replies.hear(first, id(6), true), Heard::Nonsense, "it does not wait for the answer");
    assert_eq!(replies.hear(first, id(4), true), Heard::Nonsense, "it has sent later ones");
    let second = replies.connected();
    assert_eq!(replies.hear(first, id(6), true), Heard::Nonsense, "that connection is over");
    assert_eq!(replies.hear(second, id(6), true), Heard::Later, "the one before was forgotten");
    assert!(!replies.answered(id(5), &Reply::Done, &[]), "nobody wants to know");
    assert_eq!(replies.hear(second, id(6), true), Heard::New);
    assert!(replies.answered(id(6), &Reply::Done, &[]));
    for nonsense in [0, 1, SLOTS as u64 | 1 << 8, 255 | 1 << 8] {
        assert_eq!(RequestId::of_frame(nonsense), None);
    }
}

/// Whoever waits at the I/O node for what somebody else owes cannot keep that from being given.
#[test]
fn what_is_owed_goes_first_and_has_places_of_its_own() {
    let owner = |rank| Owner { job: JobId(1), rank: Rank(rank) };
    let mut requests = Requests::new();
    for number in 0..2 * REQUESTS_IN_FLIGHT_MAX as u64 {
        requests.push(owner(0), number);
    }
    let go = |requests: &mut Requests<u64>| requests.next(1).map(|(id, number)| (id, *number));
    while go(&mut requests).is_some() {}
    for number in 100..100 + 2 * REQUESTS_OWED_MAX as u64 {
        requests.push_owed(owner(1), number);
    }
    let went: Vec<_> = std::iter::from_fn(|| go(&mut requests)).collect();
    assert_eq!(went.iter().map(|(_, number)| *number).collect::<Vec<_>>(), [100, 101, 102, 103]);
    assert!(went.iter().all(|(id, _)| id.slot() >= REQUESTS_IN_FLIGHT_MAX && id.slot() < SLOTS));
    assert_eq!(requests.take(went[0].0), Answered::Request(100));
    assert_eq!(go(&mut requests).map(|(_, number)| number), Some(104));
    // Said again with the others, and gone with their rank.
    assert_eq!(requests.again().len(), SLOTS);
    requests.forget(owner(1));
    assert_eq!(requests.iter().filter(|number| **number >= 100).count(), 0);
    assert_eq!(requests.give_up(|_| true).len(), 2 * REQUESTS_IN_FLIGHT_MAX);
}
