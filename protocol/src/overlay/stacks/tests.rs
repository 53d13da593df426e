//! Stacks that are counted, merged, written and read.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use proptest::sample::select;
use proptest::test_runner::Config as ProptestConfig;
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::coding::{NoStacks, decode, encode};
use super::{ADDRESS_END, Stacks};
use crate::limits::{
    OVERLAY_LEAVES_MAX, OVERLAY_MESSAGE_BYTES_MAX, OVERLAY_STACK_ADDRESSES_MAX, OVERLAY_STACK_DEPTH_MAX,
    OVERLAY_STACKS_MAX,
};
use crate::overlay::{Source, Up};

fn all(stacks: &Stacks) -> BTreeMap<Vec<u64>, u64> {
    stacks.iter().map(|(stack, count)| (stack.to_vec(), count)).collect()
}

fn is_within_limits(stacks: &Stacks) -> bool {
    let addresses: usize = stacks.deep.iter().map(|(stack, _)| stack.len()).sum();
    let are_deep = stacks.deep.iter().all(|(stack, _)| (2..=OVERLAY_STACK_DEPTH_MAX).contains(&stack.len()));
    stacks.deep.len() <= OVERLAY_STACKS_MAX
        && stacks.leaves.len() <= OVERLAY_LEAVES_MAX
        && addresses == stacks.addresses
        && addresses <= OVERLAY_STACK_ADDRESSES_MAX
        && are_deep
}

/// Of some functions that call each other, deeply at times.
fn stack() -> impl Strategy<Value = Vec<u64>> {
    let address = select(Vec::from([0x40_1000, 0x40_1005, 0x40_2345, 0x41_0000, 0x7fff_1234_5678, 1, ADDRESS_END - 1]));
    vec(address, 0..80)
}

fn seen() -> impl Strategy<Value = Vec<(Vec<u64>, u64)>> {
    vec((stack(), 0..9_u64), 0..60)
}

fn stacks(seen: &[(Vec<u64>, u64)]) -> Stacks {
    let mut stacks = Stacks::default();
    seen.iter().for_each(|(stack, count)| stacks.add(stack, *count));
    stacks
}

#[test]
fn what_was_seen_is_counted() {
    let mut some = Stacks::default();
    assert!(some.is_empty());
    some.add(&[5, 70, 900], 2);
    some.add(&[6, 70, 900], 1);
    some.add(&[5, 70, 900], 3);
    some.add(&[5], 1);
    some.add(&[], 4);
    some.add(&[8, 9], 0);
    // Where no program is, nothing is; nor is anything outside of that.
    some.add(&[ADDRESS_END, 3], 1);
    some.add(&[7, u64::MAX, 3], 1);
    let expected = [(&[][..], 5), (&[5], 1), (&[5, 70, 900], 5), (&[6, 70, 900], 1), (&[7], 1)];
    assert_eq!(all(&some), expected.map(|(stack, count)| (stack.to_vec(), count)).into());
    assert_eq!((some.samples(), some.is_empty()), (13, false));
}

#[test]
fn a_stack_is_short_on_the_wire() {
    let mut some = Stacks::default();
    let outer: Vec<u64> = (0..20).map(|depth| 0x40_1000 + depth * 0x123).collect();
    for leaf in 0..100 {
        some.add(&[&[0x40_8000 + leaf * 4], &outer[..]].concat(), 1);
    }
    assert!(encode(&some).len() < 20 * 3 + 100 * 6, "{} bytes", encode(&some).len());
}

/// Each is seen once; the frequent ones are what is told apart in the end.
#[test]
fn what_there_is_no_room_for_is_counted_and_the_frequent_stays() {
    let mut some = Stacks::default();
    let frequent = |number: u64| Vec::from([number % 7, 0x1000 + number]);
    for round in 0..20 {
        (0..100).for_each(|number| some.add(&frequent(number), 1));
        (0..100).for_each(|number| some.add(&[number % 5, 0x9000 + number, 0x10_0000 + round], 1));
    }
    assert!(is_within_limits(&some));
    assert_eq!((some.samples(), some.deep.len()), (4000, OVERLAY_STACKS_MAX));
    assert!((0..100).all(|number| all(&some)[&frequent(number)] == 20));
    // What each innermost address has is what was seen there.
    let mut leaves = BTreeMap::<u64, u64>::new();
    some.iter().for_each(|(stack, count)| *leaves.entry(stack[0]).or_default() += count);
    let at = |leaf: u64| (0..100).filter(|number| number % 7 == leaf).count() as u64 * 20 + 400 * u64::from(leaf < 5);
    assert_eq!(leaves, (0..7).map(|leaf| (leaf, at(leaf))).collect());
    // Too many leaves, too.
    (0..2 * OVERLAY_LEAVES_MAX as u64).for_each(|leaf| some.add(&[0x50_0000 + leaf], 1));
    (0..2 * OVERLAY_LEAVES_MAX as u64).for_each(|leaf| some.add(&[0x60_0000 + leaf, 3, 4], 2));
    assert!(is_within_limits(&some));
    assert_eq!((some.samples(), some.leaves.len()), (4000 + 6 * OVERLAY_LEAVES_MAX as u64, OVERLAY_LEAVES_MAX));
    assert!(all(&some)[&Vec::new()] > 0);
}

#[test]
fn a_function_that_begins_late_is_seen() {
    let mut some = Stacks::default();
    (0..OVERLAY_STACKS_MAX as u64).for_each(|number| some.add(&[7, number], 2));
    (0..5).for_each(|_| some.add(&[8, 9], 1));
    assert_eq!(all(&some)[&Vec::from([8, 9])], 5);
    assert_eq!(some.deep.len(), OVERLAY_STACKS_MAX);
}

const LEB_BYTES: usize = 10;

/// By the lengths of numbers there are no stacks that take more in a message.
pub(in crate::overlay) const BYTES_MAX: usize = OVERLAY_STACK_ADDRESSES_MAX * 7
    + OVERLAY_STACKS_MAX * (2 + LEB_BYTES)
    + OVERLAY_LEAVES_MAX * (7 + LEB_BYTES)
    + 10 * LEB_BYTES;

/// The largest that there are: all limits are reached, and no two addresses are near each other.
#[test]
fn a_message_has_room_for_all_that_there_may_be() {
    let mut some = Stacks::default();
    let far = |number: u64| if number.is_multiple_of(2) { number } else { ADDRESS_END - 1 - number };
    for number in 0..OVERLAY_STACKS_MAX as u64 {
        let deep = OVERLAY_STACK_ADDRESSES_MAX / OVERLAY_STACKS_MAX;
        let stack: Vec<u64> = (0..deep as u64).map(|depth| far(number * 100 + depth)).collect();
        some.add(&stack, 1 << 53);
    }
    let apart = ADDRESS_END / OVERLAY_LEAVES_MAX as u64;
    (0..OVERLAY_LEAVES_MAX as u64).for_each(|number| some.add(&[number * apart], 1 << 52));
    assert_eq!((some.deep.len(), some.addresses), (OVERLAY_STACKS_MAX, OVERLAY_STACK_ADDRESSES_MAX));
    assert_eq!(some.leaves.len(), OVERLAY_LEAVES_MAX);
    let whole = Up::Stacks { generation: u32::MAX, source: Source::Process(u32::MAX), number: u64::MAX, stacks: some };
    let said = whole.encode();
    assert!(said.len() > 64 << 10 && said.len() <= OVERLAY_MESSAGE_BYTES_MAX, "{} bytes", said.len());
    assert_eq!(Up::decode(&said), Ok(whole));
    const { assert!(BYTES_MAX <= OVERLAY_MESSAGE_BYTES_MAX) };
}

#[test]
fn what_are_no_stacks_is_refused() {
    let refused: [&[u8]; 12] = [
        &[],
        &[0, 0],
        &[0, 0, 0, 0],
        // A count of nothing; of more than there is.
        &[1, 0, 2, 2, 2, 0, 0, 0],
        &[0, 2, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1, 1, 0],
        // A number of more than 64 bits.
        &[0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
        // One of one address, one that shares what there is not, and one twice.
        &[1, 0, 1, 2, 1, 0, 0],
        &[1, 1, 1, 2, 1, 0, 0],
        &[2, 0, 2, 2, 2, 1, 2, 0, 1, 0, 0],
        // An address before the first one, a leaf twice, and more of them than there may be.
        &[1, 0, 2, 1, 2, 1, 0, 0],
        &[0, 2, 1, 1, 0, 1, 0],
        &[0, 0x81, 8, 0, 1],
    ];
    for (number, bytes) in refused.iter().enumerate() {
        assert_eq!(decode(bytes), Err(NoStacks), "{number}");
    }
    assert_eq!(decode(&[0, 0, 0]), Ok(Stacks::default()));
    let mut some = Stacks::default();
    some.add(&[2, 1], 1);
    assert_eq!(decode(&[1, 0, 2, 2, 2, 1, 0, 0]), Ok(some));
}

proptest! {
    #[test]
    fn stacks_survive_the_wire(seen in seen(), bytes in vec(any::<u8>(), 0..60)) {
        let some = stacks(&seen);
        prop_assert!(is_within_limits(&some));
        prop_assert_eq!(some.samples(), seen.iter().map(|(_, count)| count).sum::<u64>());
        let said = postcard::to_allocvec(&some).expect("plain data");
        prop_assert_eq!(postcard::from_bytes::<Stacks>(&said), Ok(some));
        // Whatever comes is nothing, or what would be said so.
        if let Ok(other) = decode(&bytes) {
            prop_assert!(is_within_limits(&other));
            prop_assert_eq!(decode(&encode(&other)), Ok(other));
        }
    }

    #[test]
    fn parts_add_up_to_the_whole(seen in seen(), middle in any::<proptest::sample::Index>()) {
        let (left, right) = seen.split_at(middle.index(seen.len() + 1));
        let (mut one, mut other) = (stacks(left), stacks(right));
        one.merge(&other);
        other.merge(&stacks(left));
        // There is room for all of them.
        prop_assert_eq!(&one, &stacks(&seen));
        prop_assert_eq!(&one, &other);
    }

}

proptest! {
    // Large ones, which take their time.
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn nothing_is_lost_where_there_is_no_room(
        parts in vec((0_u32..9, 1_u64..700, 1_usize..70, 1_u64..5), 2..4),
    ) {
        let part = |(seed, stacks, depth, count): (u32, u64, usize, u64)| {
            let mut part = Stacks::default();
            for number in 0..stacks {
                let outer = (1..depth as u64).map(|depth| (number * depth) % 1009 + u64::from(seed));
                part.add(&core::iter::once(number % 50).chain(outer).collect::<Vec<u64>>(), count);
            }
            part
        };
        let total: u64 = parts.iter().map(|(_, stacks, _, count)| stacks * count).sum();
        let leaf = |some: &Stacks| {
            some.iter().filter(|(stack, _)| stack.first() == Some(&7)).map(|(_, count)| count).sum::<u64>()
        };
        let (mut forth, mut back) = (Stacks::default(), Stacks::default());
        parts.iter().for_each(|of| forth.merge(&part(*of)));
        parts.iter().rev().for_each(|of| back.merge(&part(*of)));
        prop_assert!(is_within_limits(&forth) && is_within_limits(&back));
        prop_assert_eq!((forth.samples(), back.samples()), (total, total));
        prop_assert_eq!(leaf(&forth), leaf(&back));
        prop_assert_eq!(decode(&encode(&forth)), Ok(forth));
    }
}
