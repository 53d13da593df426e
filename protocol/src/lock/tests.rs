//! The table, step by step and against one that has each byte by itself.

use alloc::vec::Vec;

use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::limits::{LOCKS_PER_RANK_MAX, TURN_NS};
use super::{Denied, Holder, Locks, Place, Span, Whose};
use crate::ids::{JobId, Rank};
use crate::lease::FileId;
use crate::ship::{Handle, Owner};

const FILE: FileId = FileId { device: 1, inode: 1 };
const OTHER: FileId = FileId { device: 1, inode: 2 };

const fn rank(rank: u32) -> Owner {
    Owner { job: JobId(1), rank: Rank(rank) }
}

/// A table, and whom it has called.
#[derive(Default)]
struct Bench {
    locks: Locks,
    called: Vec<Owner>,
    now_ns: u64,
}

impl Bench {
    fn lock_as(
        &mut self,
        (owner, file, whose): (u32, FileId, Whose),
        span: Span,
        wait: Option<u32>,
    ) -> Result<(), Denied> {
        let holder = Holder::of(rank(owner), Handle(owner), whose);
        self.locks.lock((Place::of(file, whose), holder), span, wait, self.now_ns, &mut self.called)
    }

    /// A lock of a range of the file.
    fn lock(&mut self, owner: u32, (first, last): (u64, u64), exclusive: bool) -> Result<(), Denied> {
        self.lock_as((owner, FILE, Whose::Process), Span { first, last, exclusive }, None)
    }

    /// The same, waiting.
    fn wait(&mut self, owner: u32, (first, last): (u64, u64), exclusive: bool) -> Result<(), Denied> {
        self.lock_as((owner, FILE, Whose::Process), Span { first, last, exclusive }, Some(owner))
    }

    /// The same, of a byte of either file.
    fn wait_in(&mut self, owner: u32, file: FileId) -> Result<(), Denied> {
        self.lock_as((owner, file, Whose::Process), Span { first: 0, last: 0, exclusive: true }, Some(owner))
    }

    fn unlock(&mut self, owner: u32, first: u64, last: u64) {
        let of = (Place::of(FILE, Whose::Process), Holder { owner: rank(owner), open: None });
        assert_eq!(self.locks.unlock(of, (first, last), self.now_ns, &mut self.called), Ok(()));
    }

    fn called(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.called).into_iter().map(|owner| owner.rank.0).collect()
    }

    fn gone(&mut self, owner: u32) {
        self.locks.gone(rank(owner), self.now_ns, &mut self.called);
    }

    fn is_empty(&self) -> bool {
        self.locks.sizes() == (0, 0) && self.locks.turns.is_empty()
    }
}

#[test]
fn who_waits_is_called_in_order_and_passed_by_nobody() {
    let mut bench = Bench::default();
    assert_eq!(bench.lock(0, (0, 9), true), Ok(()));
    assert_eq!(bench.wait(1, (5, 5), true), Err(Denied::Taken));
    assert_eq!(bench.wait(2, (5, 5), true), Err(Denied::Taken));
    assert!(bench.called().is_empty());
    bench.unlock(0, 0, 9);
    assert_eq!(bench.called(), [1]);
    assert_eq!(bench.lock(0, (0, 9), true), Err(Denied::Taken), "it is another's turn");
    assert_eq!(bench.lock(0, (6, 9), true), Ok(()), "not of these bytes");
    assert_eq!(bench.wait(2, (5, 5), true), Err(Denied::Taken));
    assert_eq!(bench.wait(1, (5, 5), true), Ok(()));
    assert!(bench.called().is_empty());
    bench.unlock(1, 0, u64::MAX);
    assert_eq!(bench.called(), [2]);
    assert_eq!(bench.wait(2, (5, 5), true), Ok(()));
    bench.gone(2);
    bench.gone(0);
    assert!(bench.is_empty());
}

#[test]
fn who_does_not_come_when_called_keeps_others_for_a_moment_only() {
    let mut bench = Bench::default();
    assert_eq!(bench.lock(0, (0, 0), true), Ok(()));
    assert_eq!(bench.wait(1, (0, 0), true), Err(Denied::Taken));
    assert_eq!(bench.wait(2, (0, 0), true), Err(Denied::Taken));
    bench.gone(0);
    assert_eq!(bench.called(), [1]);
    assert_eq!(bench.locks.first_turn_over_ns(), Some(TURN_NS));
    bench.now_ns = TURN_NS;
    bench.locks.turns_over(TURN_NS, &mut bench.called);
    assert_eq!(bench.called(), [2]);
    assert_eq!(bench.wait(2, (0, 0), true), Ok(()));
    assert_eq!(bench.wait(1, (0, 0), true), Err(Denied::Taken), "too late");
    bench.unlock(2, 0, 0);
    assert_eq!(bench.called(), [1], "it stands in line as before");
    bench.now_ns += TURN_NS;
    bench.locks.turns_over(bench.now_ns, &mut bench.called);
    assert_eq!(bench.wait(1, (0, 0), true), Ok(()), "nobody else wants it");
    bench.gone(1);
    assert!(bench.is_empty());
}

#[test]
fn who_waits_no_more_keeps_nobody() {
    let mut bench = Bench::default();
    assert_eq!(bench.lock(0, (0, 0), true), Ok(()));
    assert_eq!(bench.wait(1, (0, 0), true), Err(Denied::Taken));
    assert_eq!(bench.wait(2, (0, 0), true), Err(Denied::Taken));
    bench.unlock(0, 0, 0);
    assert_eq!(bench.called(), [1]);
    bench.locks.withdraw(rank(1), Some(1), 0, &mut bench.called);
    assert_eq!(bench.called(), [2]);
    bench.gone(2);
    assert!(bench.is_empty());
    assert_eq!(bench.lock(0, (0, 0), true), Ok(()));
}

#[test]
fn several_that_read_are_called_at_once_and_go_with_those_that_do() {
    let mut bench = Bench::default();
    assert_eq!(bench.lock(0, (0, 9), true), Ok(()));
    for owner in [1, 2] {
        assert_eq!(bench.wait(owner, (0, 9), false), Err(Denied::Taken));
    }
    assert_eq!(bench.wait(3, (0, 9), true), Err(Denied::Taken));
    assert_eq!(bench.lock(0, (0, 9), false), Ok(()), "what it has becomes less");
    assert_eq!(bench.called(), [1, 2]);
    assert_eq!((bench.wait(1, (0, 9), false), bench.wait(2, (0, 9), false)), (Ok(()), Ok(())));
    assert_eq!(bench.lock(4, (3, 3), false), Ok(()), "who waits to write keeps nobody from reading");
    for owner in [0, 1, 2, 4] {
        assert!(bench.called().is_empty());
        bench.gone(owner);
    }
    assert_eq!(bench.called(), [3]);
}

#[test]
fn a_process_that_would_wait_for_itself_does_not() {
    let mut bench = Bench::default();
    for (owner, inode) in [(0, 1), (1, 2), (2, 3)] {
        assert_eq!(bench.wait_in(owner, FileId { device: 1, inode }), Ok(()));
    }
    assert_eq!(bench.wait_in(0, OTHER), Err(Denied::Taken));
    assert_eq!(bench.wait_in(1, FileId { device: 1, inode: 3 }), Err(Denied::Taken));
    assert_eq!(bench.wait_in(2, FILE), Err(Denied::Deadlock));
    let span = Span { first: 0, last: 0, exclusive: true };
    assert_eq!(bench.lock_as((2, FILE, Whose::Process), span, None), Err(Denied::Taken), "it does not wait");
    assert_eq!(bench.lock_as((2, FILE, Whose::OpenFile), span, Some(9)), Err(Denied::Taken), "nor is it the process");
    bench.gone(2);
    assert_eq!(bench.called(), [1]);
}

#[test]
fn open_files_have_locks_of_their_own_and_those_of_whole_files_are_apart() {
    let mut bench = Bench::default();
    let span = Span { first: 0, last: 9, exclusive: true };
    assert_eq!(bench.lock_as((1, FILE, Whose::OpenFile), span, None), Ok(()));
    assert_eq!(bench.lock(1, (0, 9), true), Err(Denied::Taken), "the same rank's");
    let place = Place::of(FILE, Whose::Process);
    let asks = Holder { owner: rank(2), open: None };
    let found = bench.locks.test(place, asks, &span).expect("it is in the way");
    assert_eq!((found.holder, found.span), (Holder { owner: rank(1), open: Some(Handle(1)) }, span));
    let whole =
        |bench: &mut Bench, owner, exclusive| bench.lock_as((owner, FILE, Whose::Whole), Span::whole(exclusive), None);
    assert_eq!((whole(&mut bench, 1, false), whole(&mut bench, 2, false)), (Ok(()), Ok(())));
    assert_eq!(whole(&mut bench, 1, true), Err(Denied::Taken));
    assert_eq!(whole(&mut bench, 2, true), Ok(()), "what the other had was gone all the same");
    assert_eq!(whole(&mut bench, 2, false), Ok(()));
    bench.locks.closed((rank(1), Handle(1)), FILE, false, 0, &mut bench.called);
    assert_eq!(bench.lock(2, (0, 9), true), Ok(()));
    bench.locks.closed((rank(2), Handle(7)), FILE, true, 0, &mut bench.called);
    assert_eq!(bench.lock(1, (0, 9), true), Ok(()), "no open file was left");
    assert_eq!(whole(&mut bench, 1, true), Err(Denied::Taken));
    bench.gone(1);
    bench.gone(2);
    assert!(bench.is_empty());
}

#[test]
fn there_is_an_end_to_how_many_a_rank_has() {
    let mut bench = Bench::default();
    let mut count = 0;
    while bench.lock(0, (2 * count, 2 * count), true).is_ok() {
        count += 1;
    }
    assert_eq!(count as usize, LOCKS_PER_RANK_MAX - 1);
    assert_eq!(bench.lock(0, (0, 0), true), Err(Denied::TooMany));
    bench.unlock(0, 0, 0);
    assert_eq!(bench.lock(0, (0, 0), true), Ok(()));
    bench.gone(0);
    assert!(bench.is_empty());
}

const RANKS: u32 = 4;
const BYTES: u64 = 12;

#[derive(Clone, Debug)]
enum Step {
    Lock { owner: u32, span: Span, waits: bool },
    Unlock { owner: u32, first: u64, last: u64 },
    Withdraw { owner: u32 },
    Gone { owner: u32 },
    Later,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = (0..BYTES, 0..BYTES).prop_map(|(one, other)| (one.min(other), one.max(other)));
    let lock =
        (0..RANKS, bytes.clone(), any::<bool>(), any::<bool>()).prop_map(|(owner, (first, last), exclusive, waits)| {
            Step::Lock { owner, span: Span { first, last, exclusive }, waits }
        });
    let unlock = (0..RANKS, bytes).prop_map(|(owner, (first, last))| Step::Unlock { owner, first, last });
    prop_oneof![
        8 => lock,
        4 => unlock,
        1 => (0..RANKS).prop_map(|owner| Step::Withdraw { owner }),
        1 => (0..RANKS).prop_map(|owner| Step::Gone { owner }),
        1 => Just(Step::Later),
    ]
}

/// What of each byte each rank has.
type Model = [[Option<bool>; BYTES as usize]; RANKS as usize];

fn is_free(model: &Model, owner: u32, span: &Span) -> bool {
    let others = model.iter().enumerate().filter(|(other, _)| *other != owner as usize);
    let mut had = others.flat_map(|(_, bytes)| bytes[span.first as usize..=span.last as usize].iter().flatten());
    had.all(|had| !had && !span.exclusive)
}

proptest! {
    /// Against a table of who has what of each byte: nobody gets what another has, who does not wait gets what nobody
    /// has and nobody was called for, and who waits is called when it is free.
    #[test]
    fn every_byte_is_locked_as_if_it_were_alone(steps in proptest::collection::vec(step(), 1..80)) {
        let mut bench = Bench::default();
        let mut model = Model::default();
        // What ranks wait for, and whether they were called.
        let mut waits: [Option<(Span, bool)>; RANKS as usize] = [None; RANKS as usize];
        for step in steps {
            match step {
                Step::Lock { owner, span, waits: does_wait } => {
                    let wait = &mut waits[owner as usize];
                    // One thread: who waits goes on doing so.
                    let (span, does_wait) = wait.map_or((span, does_wait), |(span, _)| (span, true));
                    let was_called = wait.is_some_and(|(_, called)| called);
                    let free = is_free(&model, owner, &span);
                    let anothers = waits.iter().enumerate().any(|(other, wait)| {
                        other != owner as usize && wait.is_some_and(|(other, called)| called && other.conflicts(&span))
                    });
                    let asks = (owner, FILE, Whose::Process);
                    let result = bench.lock_as(asks, span, does_wait.then_some(owner));
                    if result.is_ok() {
                        prop_assert!(free);
                        model[owner as usize][span.first as usize..=span.last as usize].fill(Some(span.exclusive));
                        waits[owner as usize] = None;
                    } else {
                        prop_assert!(!free || anothers, "{result:?}");
                        prop_assert!(!was_called || !free, "it was called");
                        let waits_on = does_wait && result == Err(Denied::Taken);
                        waits[owner as usize] = waits_on.then_some((span, false));
                    }
                }
                Step::Unlock { owner, first, last } => {
                    bench.unlock(owner, first, last);
                    model[owner as usize][first as usize..=last as usize].fill(None);
                }
                Step::Withdraw { owner } => {
                    bench.locks.withdraw(rank(owner), Some(owner), bench.now_ns, &mut bench.called);
                    waits[owner as usize] = None;
                }
                Step::Gone { owner } => {
                    bench.gone(owner);
                    model[owner as usize].fill(None);
                    waits[owner as usize] = None;
                }
                Step::Later => {
                    bench.now_ns += TURN_NS;
                    for wait in waits.iter_mut().flatten() {
                        wait.1 = false;
                    }
                    bench.locks.turns_over(bench.now_ns, &mut bench.called);
                }
            }
            for owner in bench.called() {
                let Some(wait) = &mut waits[owner as usize] else { panic!("{owner} does not wait") };
                prop_assert!(is_free(&model, owner, &wait.0));
                wait.1 = true;
            }
            for owner in 0..RANKS {
                for at in 0..BYTES {
                    let asks = Holder { owner: rank(9), open: None };
                    let span = Span { first: at, last: at, exclusive: true };
                    let had = model.iter().any(|bytes| bytes[at as usize].is_some());
                    prop_assert_eq!(bench.locks.test(Place::of(FILE, Whose::Process), asks, &span).is_some(), had);
                }
                let of = bench.locks.files.get(&Place::of(FILE, Whose::Process));
                let spans = of.and_then(|file| file.held.get(&Holder { owner: rank(owner), open: None }));
                let spans = spans.map(|spans| spans.all().to_vec()).unwrap_or_default();
                let is_apart = |two: &[Span]| two[0].last + 1 < two[1].first || two[0].exclusive != two[1].exclusive;
                let are_apart = spans.windows(2).all(|two| two[0].last < two[1].first && is_apart(two));
                prop_assert!(are_apart);
                for at in 0..BYTES {
                    let span = spans.iter().find(|span| (span.first..=span.last).contains(&at));
                    prop_assert_eq!(span.map(|span| span.exclusive), model[owner as usize][at as usize]);
                }
            }
        }
        // Nobody who waits is forgotten.
        for _ in 0..2 * RANKS {
            for owner in 0..RANKS {
                if waits[owner as usize].is_none() {
                    bench.gone(owner);
                }
            }
            for owner in bench.called() {
                waits[owner as usize].as_mut().expect("it waits").1 = true;
            }
            for (owner, wait) in waits.iter_mut().enumerate() {
                if let Some((span, true)) = wait
                    && bench.lock_as((owner as u32, FILE, Whose::Process), *span, Some(owner as u32)).is_ok()
                {
                    *wait = None;
                }
            }
            bench.now_ns += TURN_NS;
            bench.locks.turns_over(bench.now_ns, &mut bench.called);
        }
        for owner in 0..RANKS {
            bench.gone(owner);
        }
        prop_assert!(bench.is_empty());
    }
}
