//! The pool against a list of what is out, with real memory.

extern crate std;

use std::collections::BTreeMap;
use std::iter;
use std::vec::Vec;

use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::{prop_assert, prop_assert_eq};

use super::{Frame, FrameKind, FramePool, ORDER_LARGE, ORDER_MAX, PhysicalRange, Usage};
use crate::addr::PAGE_BYTES;

const MIB: usize = 1024 * 1024;

fn bytes(frame: &Frame) -> Vec<u8> {
    let mut bytes = std::vec![0xee; frame.len()];
    frame.read(0, &mut bytes);
    bytes
}

fn is_zero(frame: &Frame) -> bool {
    bytes(frame).iter().all(|byte| *byte == 0)
}

/// How many blocks of each order can be had, the largest first and one order after the other.
fn blocks(pool: &'static FramePool) -> Vec<usize> {
    let mut held = Vec::new();
    let count = |order| {
        let before = held.len();
        held.extend(iter::from_fn(|| pool.alloc_block(FrameKind::Kernel, order)));
        held.len() - before
    };
    (0..=ORDER_MAX).rev().map(count).collect()
}

#[test]
fn memory_nobody_had_is_zero_too() {
    let pool = FramePool::for_host(2 * MIB);
    let all: Vec<_> = iter::from_fn(|| pool.alloc(FrameKind::Kernel)).collect();
    assert!(all.len() > 500);
    assert!(all.iter().all(is_zero));
}

#[test]
fn what_a_program_left_is_gone() {
    let pool = FramePool::for_host(2 * MIB);
    let secret = [0x5e; PAGE_BYTES];
    let frames: Vec<_> = iter::from_fn(|| pool.alloc(FrameKind::User)).collect();
    let count = frames.len();
    frames.iter().for_each(|frame| frame.write(0, &secret));
    drop(frames);
    let again: Vec<_> = iter::from_fn(|| pool.alloc(FrameKind::User)).collect();
    assert_eq!(again.len(), count);
    assert!(again.iter().all(is_zero));
}

#[test]
fn a_frame_is_freed_with_its_last_handle() {
    let pool = FramePool::for_host(MIB);
    let free = pool.free_frames();
    let frame = pool.alloc(FrameKind::User).expect("memory");
    let other = frame.clone();
    frame.write(100, b"shared");
    assert!(other.is_shared());
    drop(frame);
    assert_eq!(pool.free_frames(), free - 1);
    assert!(!other.is_shared());
    let mut text = [0; 6];
    other.read(100, &mut text);
    assert_eq!(&text, b"shared");
    drop(other);
    assert_eq!(pool.free_frames(), free);
}

#[test]
fn programs_cannot_take_the_reserve() {
    let pool = FramePool::for_host(8 * MIB);
    assert!(pool.reserve_frames() > 0);
    let user: Vec<_> = iter::from_fn(|| pool.alloc(FrameKind::User)).collect();
    assert_eq!(pool.free_frames(), pool.reserve_frames());
    assert_eq!(pool.available_frames(), 0);
    assert!(pool.alloc(FrameKind::Table).is_none());
    assert!(pool.alloc(FrameKind::Pristine).is_none());
    let kernel: Vec<_> = iter::from_fn(|| pool.alloc(FrameKind::Kernel)).collect();
    assert_eq!(kernel.len(), pool.reserve_frames() as usize);
    assert_eq!(pool.free_frames(), 0);
    drop((user, kernel));
    assert_eq!(pool.available_frames(), pool.free_frames() - pool.reserve_frames());
}

#[test]
fn blocks_are_aligned_and_usage_adds_up() {
    let pool = FramePool::for_host(16 * MIB);
    let large = pool.alloc_large(FrameKind::User).expect("memory");
    assert_eq!(large.len(), 2 * MIB);
    assert_eq!(large.address() % (2 * MIB as u64), 0);
    let table = pool.alloc(FrameKind::Table).expect("memory");
    let pristine = pool.alloc_block(FrameKind::Pristine, 2).expect("memory");
    assert!(pool.alloc_block(FrameKind::User, ORDER_MAX + 1).is_none());
    let usage = pool.usage();
    assert_eq!((usage.user, usage.tables, usage.pristine), (1 << ORDER_LARGE, 1, 4));
    assert_eq!(usage.total, usage.free + usage.kernel + usage.tables + usage.user + usage.pristine);
    assert_eq!(usage.total as usize, 16 * MIB / PAGE_BYTES);
    drop((large, table, pristine));
    assert_eq!(pool.usage().free, pool.free_frames());
}

#[test]
fn memory_given_away_is_never_handed_out_again() {
    let pool = FramePool::for_host(MIB);
    let frame = pool.alloc_block(FrameKind::Kernel, 3).expect("memory");
    let physical = frame.address();
    let other = frame.clone();
    let frame = frame.into_memory().expect_err("there is another handle");
    drop(other);
    let memory = frame.into_memory().expect("the only handle");
    assert_eq!(memory.len(), 8 * PAGE_BYTES);
    memory.fill(7);
    assert_eq!(pool.physical_address(&raw const memory[5000]), Some(physical + 5000));
    assert_eq!(pool.physical_address(&raw const pool), None);
    let rest: Vec<_> = iter::from_fn(|| pool.alloc(FrameKind::Kernel)).collect();
    assert!(rest.iter().all(is_zero));
    assert!(memory.iter().all(|byte| *byte == 7));
}

#[test]
fn holes_are_never_handed_out() {
    let layout = std::alloc::Layout::from_size_align(16 * MIB, 4 * MIB).expect("a layout");
    // SAFETY: the layout is not empty.
    let memory = unsafe { std::alloc::alloc(layout) };
    assert!(!memory.is_null());
    // Ends inside pages: only whole ones count. Frame 0 is left out.
    let ranges = [(0, 0x9_f123), (0x10_0800, 0x70_0000), (0xb0_0001, 0x100_0000)];
    let ranges = ranges.map(|(start, end)| PhysicalRange { start, end });
    // SAFETY: the ranges are inside the memory just allocated, which is nobody else's and never freed.
    let pool = unsafe { FramePool::from_memory(ranges.into_iter(), memory) }.expect("room for records");
    let pool: &'static FramePool = std::boxed::Box::leak(std::boxed::Box::new(pool));
    let frames: Vec<_> = iter::from_fn(|| pool.alloc(FrameKind::Kernel)).collect();
    assert_eq!(pool.total_frames(), 0x9e + 0x5ff + 0x4ff);
    assert!(frames.len() > 0x5ff + 0x4ff);
    for frame in frames {
        let (start, end) = (frame.address(), frame.address() + PAGE_BYTES as u64);
        assert!(start > 0);
        assert!(ranges.iter().any(|range| range.start <= start && end <= range.end), "{frame:?}");
        frame.write(0, &[1; PAGE_BYTES]);
    }
}

/// Who has how many frames, as the records say.
fn usage_by_records(pool: &'static FramePool) -> Usage {
    let mut usage = Usage { total: pool.total, free: pool.free_frames(), kernel: pool.info_frames, ..Usage::default() };
    let mut index = 0;
    while let Some(info) = pool.info.get(index) {
        let (kind, frames) = info.block();
        match kind {
            Some(FrameKind::Kernel) => usage.kernel += frames,
            Some(FrameKind::Table) => usage.tables += frames,
            Some(FrameKind::User) => usage.user += frames,
            Some(FrameKind::Pristine) => usage.pristine += frames,
            None => {}
        }
        index += frames as usize;
    }
    usage
}

fn kind() -> impl Strategy<Value = FrameKind> {
    prop_oneof![Just(FrameKind::Kernel), Just(FrameKind::Table), Just(FrameKind::User), Just(FrameKind::Pristine)]
}

#[derive(Clone, Debug)]
enum Step {
    Alloc(FrameKind, u8),
    Kind(usize, FrameKind),
    Clone(usize),
    Drop(usize),
    Write(usize, u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (kind(), 0_u8..6).prop_map(|(kind, order)| Step::Alloc(kind, order)),
        1 => (any::<usize>(), kind()).prop_map(|(which, kind)| Step::Kind(which, kind)),
        1 => any::<usize>().prop_map(Step::Clone),
        3 => any::<usize>().prop_map(Step::Drop),
        2 => (any::<usize>(), any::<u8>()).prop_map(|(which, value)| Step::Write(which, value)),
    ]
}

proptest! {
    #[test]
    fn frames_are_whole_separate_and_never_lost(steps in proptest::collection::vec(step(), 1..120)) {
        std::thread_local!(static POOL: &'static FramePool = FramePool::for_host(12 * MIB));
        let pool = POOL.with(|pool| *pool);
        let (free, whole) = (pool.free_frames(), blocks(pool));
        let mut held: Vec<Frame> = Vec::new();
        // Address → (length, what was last written, handles).
        let mut model: BTreeMap<u64, (u64, u8, u32)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Alloc(kind, order) => {
                    let Some(frame) = pool.alloc_block(kind, order) else { continue };
                    let (start, length) = (frame.address(), frame.len() as u64);
                    prop_assert_eq!(length, (PAGE_BYTES as u64) << order);
                    prop_assert_eq!(start % length, 0);
                    prop_assert!(is_zero(&frame));
                    let overlaps = model.range(..start + length).next_back();
                    prop_assert!(overlaps.is_none_or(|(at, (length, ..))| at + length <= start));
                    model.insert(start, (length, 0, 1));
                    held.push(frame);
                }
                Step::Clone(which) if !held.is_empty() => {
                    let frame = held[which % held.len()].clone();
                    model.get_mut(&frame.address()).expect("held").2 += 1;
                    held.push(frame);
                }
                Step::Drop(which) if !held.is_empty() => {
                    let frame = held.swap_remove(which % held.len());
                    let entry = model.get_mut(&frame.address()).expect("held");
                    entry.2 -= 1;
                    if entry.2 == 0 {
                        model.remove(&frame.address());
                    }
                }
                Step::Write(which, value) if !held.is_empty() => {
                    let frame = &held[which % held.len()];
                    frame.write(0, &std::vec![value; frame.len()]);
                    model.get_mut(&frame.address()).expect("held").1 = value;
                }
                Step::Kind(which, kind) if !held.is_empty() => held[which % held.len()].set_kind(kind),
                Step::Clone(_) | Step::Drop(_) | Step::Write(..) | Step::Kind(..) => {}
            }
            let out: u64 = model.values().map(|(length, ..)| length / PAGE_BYTES as u64).sum();
            prop_assert_eq!(u64::from(pool.free_frames()) + out, u64::from(free));
        }
        prop_assert_eq!(pool.usage(), usage_by_records(pool));
        for frame in &held {
            let (_, value, handles) = model[&frame.address()];
            prop_assert!(bytes(frame).iter().all(|byte| *byte == value));
            prop_assert_eq!(frame.is_shared(), handles > 1);
        }
        drop(held);
        prop_assert_eq!(pool.free_frames(), free);
        prop_assert_eq!(pool.usage(), usage_by_records(pool));
        // Everything has merged again.
        prop_assert_eq!(blocks(pool), whole);
    }
}
