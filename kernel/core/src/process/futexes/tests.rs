//! Who is woken, in what order, and that no wake is lost.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::{Asleep, Futexes, Sleeper, Word};
use crate::limits::FUTEX_QUEUES;
use crate::testing::block_on;

pub(super) const fn word(address: u64) -> Word {
    Word::Own { pid: 1000, address }
}

/// A word that shares its queue with `first`, and one that does not.
pub(super) fn beside(first: Word) -> (Word, Word) {
    let words = || (1..).map(|index| word(0x1000 + 4 * index)).filter(|other| *other != first);
    let same = words().find(|other| other.queue() == first.queue());
    let other = words().find(|other| other.queue() != first.queue());
    (same.expect("there are few queues"), other.expect("there are several queues"))
}

fn sleepers<const N: usize>() -> [Arc<Sleeper>; N] {
    [(); N].map(|()| Arc::default())
}

fn lie_down<'a>(futexes: &'a Futexes, sleeper: &'a Arc<Sleeper>, at: Word, bits: u32) -> Asleep<'a> {
    futexes.lie_down(sleeper, at, bits, || Ok::<_, Infallible>(())).expect("it may");
    futexes.asleep(sleeper)
}

fn requeue(futexes: &Futexes, from: (Word, usize), to: (Word, usize)) -> usize {
    futexes.requeue(from, to, || Ok::<_, Infallible>(())).expect("it may")
}

fn woken<const N: usize>(asleep: &[Asleep<'_>; N]) -> [bool; N] {
    core::array::from_fn(|index| asleep[index].was_woken())
}

#[test]
fn words_are_spread_over_the_queues() {
    let mut used = [0_u32; FUTEX_QUEUES];
    for index in 0..FUTEX_QUEUES as u64 {
        used[word(0x7fff_0000_0910 + 4096 * 2049 * index).queue()] += 1;
        used[word(0x60_1000 + 4 * index).queue()] += 1;
        used[Word::Shared { memory: 1, offset: 64 * index }.queue()] += 1;
    }
    assert!(used.iter().all(|count| *count < 16), "{used:?}");
}

#[test]
fn who_slept_longest_is_woken_first_and_for_its_bits() {
    let futexes = Futexes::default();
    let (at, all) = (word(0x1000), sleepers::<4>());
    let asleep = [(0, 1), (1, 2), (2, 3), (3, 1)].map(|(index, bits)| lie_down(&futexes, &all[index], at, bits));
    assert_eq!(futexes.wake(beside(at).0, 9, u32::MAX), 0, "others of the queue sleep elsewhere");
    assert_eq!(futexes.wake(at, 2, 1), 2);
    assert_eq!(woken(&asleep), [true, false, true, false]);
    assert_eq!(futexes.wake(at, 9, u32::MAX), 2);
    assert_eq!(futexes.wake(at, 9, u32::MAX), 0);
}

#[test]
fn who_may_not_sleep_does_not() {
    let futexes = Futexes::default();
    let [sleeper] = sleepers();
    assert_eq!(futexes.lie_down(&sleeper, word(0x1000), 1, || Err(5)).err(), Some(5));
    assert_eq!(futexes.wake(word(0x1000), 1, 1), 0);
    assert_eq!(futexes.requeue((word(0), 1), (word(4), 1), || Err(6)), Err(6));
    assert_eq!(futexes.wake_two((word(0), 1), (word(4), 1), || Err(7)), Err(7));
}

#[test]
fn who_gets_up_by_itself_is_not_woken_but_a_wake_that_came_counts() {
    let futexes = Futexes::default();
    let (at, all) = (word(0x1000), sleepers::<2>());
    let [one, two] = [0, 1].map(|index| lie_down(&futexes, &all[index], at, 1));
    assert!(!one.get_up(), "nobody woke it");
    assert_eq!(futexes.wake(at, 1, 1), 1);
    assert!(two.get_up(), "the wake would be lost");
    let again = lie_down(&futexes, &all[0], at, 1);
    drop(again);
    assert_eq!(futexes.wake(at, 9, 1), 0);
    assert!((0..FUTEX_QUEUES).all(|index| futexes.queue(index).lock().0.is_empty()));
}

#[test]
fn moved_sleepers_come_behind_those_that_are_there() {
    let from = word(0x1000);
    for to in [beside(from).0, beside(from).1] {
        let futexes = Futexes::default();
        let all = sleepers::<6>();
        let asleep = [from, from, to, from, from, to];
        let asleep: [_; 6] = core::array::from_fn(|index| lie_down(&futexes, &all[index], asleep[index], 1));
        assert_eq!(requeue(&futexes, (from, 1), (to, 2)), 3);
        assert_eq!(woken(&asleep), [true, false, false, false, false, false]);
        let mut order = Vec::new();
        while futexes.wake(to, 1, u32::MAX) == 1 {
            order.push((0..6).rfind(|index| asleep[*index].was_woken() && !order.contains(index)).unwrap_or(9));
            assert!(order.len() < 9);
        }
        assert_eq!(order, [2, 5, 1, 3].map(|index| index), "0 was woken, 4 still sleeps");
        assert!(!asleep[4].was_woken());
        assert_eq!(futexes.wake(from, 9, 1), 1);
    }
}

#[test]
fn moving_to_where_one_is_ends() {
    let futexes = Futexes::default();
    let (at, all) = (word(0x1000), sleepers::<3>());
    let asleep: [_; 3] = core::array::from_fn(|index| lie_down(&futexes, &all[index], at, 1));
    assert_eq!(requeue(&futexes, (at, 0), (at, usize::MAX)), 3);
    assert_eq!(futexes.wake(at, 1, 1), 1);
    assert_eq!(woken(&asleep), [true, false, false]);
}

#[test]
fn who_was_moved_gets_up_where_it_is() {
    let from = word(0x1000);
    let futexes = Futexes::default();
    let [sleeper] = sleepers();
    let asleep = lie_down(&futexes, &sleeper, from, 1);
    let to = beside(from).1;
    assert_eq!(requeue(&futexes, (from, 0), (to, 1)), 1);
    assert!(!asleep.get_up());
    assert_eq!(futexes.wake(to, 1, 1) + futexes.wake(from, 1, 1), 0);
}

#[test]
fn two_words_are_woken_at_once() {
    let one = word(0x1000);
    for other in [beside(one).0, beside(one).1] {
        for also in [false, true] {
            let futexes = Futexes::default();
            let all = sleepers::<4>();
            let at = [one, other, one, other];
            let asleep: [_; 4] = core::array::from_fn(|index| lie_down(&futexes, &all[index], at[index], 1));
            let count = futexes.wake_two((one, 1), (other, 9), || Ok::<_, Infallible>(also));
            assert_eq!(count, Ok(if also { 3 } else { 1 }));
            assert_eq!(woken(&asleep), [true, also, false, also]);
        }
    }
}

/// Threads sleep and wake each other at a few words; every wake that was counted is somebody's, and nobody gets up
/// without one.
#[test]
fn no_wake_is_lost_between_threads() {
    const SLEEPERS: usize = 6;
    const ROUNDS: usize = 300;
    let futexes = Futexes::default();
    let words: [Word; 3] = core::array::from_fn(|index| word(0x1000 + 4 * index as u64));
    let (got_up, counted, gave_up) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let sleeping: Vec<_> = (0..SLEEPERS)
            .map(|number| {
                let (futexes, words, got_up, gave_up) = (&futexes, &words, &got_up, &gave_up);
                scope.spawn(move || {
                    let sleeper = Arc::default();
                    for round in 0..ROUNDS {
                        let asleep = lie_down(futexes, &sleeper, words[(number + round) % words.len()], 1);
                        let was_woken = if round % 3 == 0 {
                            asleep.get_up()
                        } else {
                            block_on(asleep.woken());
                            true
                        };
                        let count = if was_woken { got_up } else { gave_up };
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for shift in 0..2 {
            let (futexes, words, counted, over) = (&futexes, &words, &counted, &over);
            scope.spawn(move || {
                let mut round = shift;
                while !over.load(Ordering::Relaxed) {
                    round += 1;
                    let (from, to) = (words[round % words.len()], words[(round + 1 + shift) % words.len()]);
                    if round % 4 == 0 {
                        requeue(futexes, (from, 0), (to, 2));
                    } else {
                        counted.fetch_add(futexes.wake(from, 1 + round % 2, u32::MAX), Ordering::Relaxed);
                    }
                    thread::yield_now();
                }
            });
        }
        let ended: Vec<_> = sleeping.into_iter().map(thread::ScopedJoinHandle::join).collect();
        over.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    assert_eq!(got_up.load(Ordering::Relaxed), counted.load(Ordering::Relaxed));
    assert_eq!(got_up.load(Ordering::Relaxed) + gave_up.load(Ordering::Relaxed), SLEEPERS * ROUNDS);
}
