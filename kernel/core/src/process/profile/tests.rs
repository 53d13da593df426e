//! Ranks whose programs are played: where each is, and how long, is known, and so is how often it is to be seen there.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal::heap;
use coppice_protocol::limits::{
    OVERLAY_LEAVES_MAX, OVERLAY_SAMPLE_PERIOD_NS_MIN, OVERLAY_STACK_ADDRESSES_MAX, OVERLAY_STACKS_MAX,
};
use coppice_protocol::overlay::Stacks;
use coppice_protocol::syscalls as nr;

use super::TABLE_BYTES;
use crate::process::testing::scripted::Step::{Be, Call};
use crate::process::testing::scripted::{CALLER, MS, Rank, function_at, pass};

const PERIOD_NS: u64 = MS;

impl Rank {
    /// One that is looked at from its start.
    fn sampled() -> Self {
        let rank = Self::measured(&[]);
        rank.bench.process.sample(PERIOD_NS);
        rank
    }
}

fn at(stacks: &Stacks, function: u64) -> u64 {
    stacks.iter().filter(|(stack, _)| stack.first() == Some(&function_at(function))).map(|(_, count)| count).sum()
}

#[test]
fn a_thread_is_seen_where_it_is_in_proportion_to_the_time() {
    let rank = Rank::sampled();
    // Its rounds are a period long, so that what is not random would always see the same function.
    let round = [Be(1, 700_000), Be(2, 200_000), Be(3, 100_000)];
    rank.start(&core::iter::repeat_n(round, 4_000).flatten().collect::<Vec<_>>());
    pass(10_000 * MS);
    let stacks = rank.bench.process.take_stacks();
    assert!((3_900..4_100).contains(&stacks.samples()), "{} samples of 4 s", stacks.samples());
    assert!(stacks.iter().all(|(stack, _)| stack.len() == 2 && stack[1] == CALLER));
    for (function, percent) in [(1, 70.0), (2, 20.0), (3, 10.0)] {
        let share = at(&stacks, function) as f64 * 100.0 / stacks.samples() as f64;
        assert!((share - percent).abs() < 3.0, "function {function}: {share} % instead of {percent} %");
    }
    assert!(rank.bench.process.take_stacks().is_empty(), "they are taken once");
}

#[test]
fn who_waits_or_is_in_the_kernel_is_not_seen() {
    let rank = Rank::sampled();
    rank.start(&[Be(1, 100 * MS), rank.sleep(5_000 * MS), Be(2, 100 * MS)]);
    pass(3_000 * MS);
    let stacks = rank.bench.process.take_stacks();
    assert!((90..=110).contains(&at(&stacks, 1)) && at(&stacks, 1) == stacks.samples(), "{stacks:?}");
    pass(2_000 * MS);
    assert!(rank.bench.process.take_stacks().is_empty());
    pass(2_000 * MS);
    let stacks = rank.bench.process.take_stacks();
    assert!((90..=110).contains(&at(&stacks, 2)) && at(&stacks, 2) == stacks.samples(), "{stacks:?}");
}

#[test]
fn time_in_the_program_adds_up_over_calls() {
    let rank = Rank::sampled();
    // Each stay is far shorter than a period, and some calls wait.
    let round = [Be(1, 10_000), Call(nr::GETPID, [0; 6]), Be(2, 30_000), rank.sleep(1_000_000)];
    rank.start(&core::iter::repeat_n(round, 5_000).flatten().collect::<Vec<_>>());
    pass(20_000 * MS);
    let stacks = rank.bench.process.take_stacks();
    assert!((185..=215).contains(&stacks.samples()), "{} samples of 200 ms", stacks.samples());
    let share = at(&stacks, 1) as f64 / stacks.samples() as f64;
    assert!((share - 0.25).abs() < 0.1, "{share}");
}

#[test]
fn all_threads_are_seen() {
    let rank = Rank::sampled();
    rank.start(&[Be(1, 300 * MS), rank.sleep(3_000 * MS)]);
    rank.start_another(1, &[Be(2, 100 * MS)]);
    rank.start_another(2, &[Be(3, 200 * MS)]);
    pass(1_000 * MS);
    assert_eq!(rank.bench.process.threads.count(), 1, "also what those have done that are gone");
    let stacks = rank.bench.process.take_stacks();
    for (function, samples) in [(1, 300), (2, 100), (3, 200)] {
        assert!(at(&stacks, function).abs_diff(samples) <= samples / 8, "function {function}: {stacks:?}");
    }
}

#[test]
fn nothing_is_seen_or_kept_that_nobody_wants_to_know() {
    let rank = Rank::new(&[]);
    let quota = Arc::clone(&rank.bench.process.node.quota);
    rank.bench.process.measure(true);
    rank.start(&[Be(1, 100 * MS), rank.sleep(1_000 * MS), Be(2, 100 * MS), rank.sleep(1_000 * MS), Be(3, 100 * MS)]);
    let taken = quota.taken();
    pass(500 * MS);
    assert_eq!((rank.bench.process.take_stacks().samples(), quota.taken()), (0, taken));
    rank.bench.process.sample(PERIOD_NS);
    assert_eq!(quota.taken(), taken + TABLE_BYTES);
    pass(1_000 * MS);
    let stacks = rank.bench.process.take_stacks();
    assert!(at(&stacks, 2) > 80 && at(&stacks, 2) == stacks.samples());
    rank.bench.process.sample(0);
    assert_eq!(quota.taken(), taken);
    pass(2_000 * MS);
    assert_eq!(rank.bench.process.take_stacks().samples(), 0);
    assert_eq!(rank.bench.process.profile.period_ns(), 0);
}

#[test]
fn looking_begins_in_the_middle_of_a_program_and_not_too_often() {
    let rank = Rank::new(&[]);
    rank.bench.process.measure(true);
    // The machine brings it back for other things; on the host it does so itself.
    rank.start(&core::iter::repeat_n([Be(1, MS), Call(nr::SCHED_YIELD, [0; 6])], 1_000).flatten().collect::<Vec<_>>());
    pass(300 * MS);
    rank.bench.process.sample(1);
    assert_eq!(rank.bench.process.profile.period_ns(), OVERLAY_SAMPLE_PERIOD_NS_MIN);
    assert!(rank.bench.state.has_attention());
    pass(1_000 * MS);
    let samples = rank.bench.process.take_stacks().samples();
    assert!(samples.abs_diff(700 * MS / OVERLAY_SAMPLE_PERIOD_NS_MIN) < 200, "{samples}");
}

#[test]
fn without_memory_for_it_a_rank_is_not_looked_at() {
    let rank = Rank::new(&[]);
    let mut rest = rank.bench.process.node.quota.charge(0).expect("nothing");
    while rest.grow(TABLE_BYTES / 4).is_ok() {}
    rest.shrink(TABLE_BYTES / 2);
    rank.bench.process.measure(true);
    rank.bench.process.sample(PERIOD_NS);
    rank.bench.process.sample(PERIOD_NS);
    rank.start(&[Be(1, 50 * MS), rank.sleep(100 * MS), Be(2, 50 * MS)]);
    pass(100 * MS);
    assert_eq!((rank.bench.process.take_stacks().samples(), rank.bench.process.profile.period_ns()), (0, 0));
    drop(rest);
    rank.bench.process.sample(PERIOD_NS);
    pass(500 * MS);
    assert!(at(&rank.bench.process.take_stacks(), 2) > 30, "it is, once there is some");
}

/// Whatever is seen, it takes no more than is charged for it.
#[test]
fn what_is_kept_is_charged() {
    let rank = Rank::sampled();
    let depth = OVERLAY_STACK_ADDRESSES_MAX / OVERLAY_STACKS_MAX;
    let (mut stack, profile) = (alloc::vec![0; 64], &rank.bench.process.profile);
    let ((), taken) = heap::measure(|| {
        for number in 0..4 * OVERLAY_STACKS_MAX as u64 {
            for deep in [2, depth + 1, 33, 64] {
                stack[..deep].fill(number);
                profile.add(&stack[..deep], 1);
            }
        }
        (0..4 * OVERLAY_LEAVES_MAX as u64).for_each(|leaf| profile.add(&[0x9000 + leaf], 1));
    });
    assert!((1..=TABLE_BYTES).contains(&taken.most_bytes), "{taken:?} of {TABLE_BYTES} bytes");
    let seen = 16 * OVERLAY_STACKS_MAX + 4 * OVERLAY_LEAVES_MAX;
    assert_eq!(rank.bench.process.take_stacks().samples(), seen as u64);
}
