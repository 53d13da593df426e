//! When memory runs out: the program ends alone, and nothing is lost or left half done.

use coppice_hal::frames::{FrameKind, FramePool};
use coppice_hal::paging::Access;

use super::{ANONYMOUS, DATA, MIB, PAGE, RW, World};
use crate::memory::{AddressSpace, Backing, CopyError, LoadError, Resolution};

/// Everything a program could have but `left` frames.
fn take_all_but(pool: &'static FramePool, left: u32) -> alloc::vec::Vec<coppice_hal::frames::Frame> {
    (left..pool.available_frames()).filter_map(|_| pool.alloc(FrameKind::User)).collect()
}

#[test]
fn a_program_that_eats_all_memory_leaves_the_kernel_its_reserve() {
    let pool = FramePool::for_host(2 * MIB);
    let free = pool.free_frames();
    let mut world = World::new(pool);
    let at = world.space.map(0, 1 << 40, RW, ANONYMOUS | 0x4000, Backing::Zero).expect("room");
    let mut next = at;
    while matches!(world.space.fault(next, Access::WRITE), Resolution::Ready) {
        next += PAGE;
    }
    assert!(matches!(world.space.fault(next, Access::WRITE), Resolution::OutOfMemory));
    assert!(matches!(world.space.write_bytes(next, b"x"), Err(CopyError::OutOfMemory)));
    assert_eq!(pool.free_frames(), pool.reserve_frames());
    assert_eq!((next - at) / PAGE, world.space.stats().pages);
    assert!(pool.alloc(FrameKind::Kernel).is_some());
    drop(world);
    assert_eq!(pool.free_frames(), free);
}

#[test]
fn a_read_ahead_does_not_take_the_last_frames() {
    let pool = FramePool::for_host(4 * MIB);
    let mut world = World::new(pool);
    let held = take_all_but(pool, 6);
    world.touch(0x40_5000, Access::EXECUTE).expect("a page and its tables");
    assert_eq!(world.space.stats().pages, 1);
    drop(held);
}

#[test]
fn without_memory_for_a_copy_the_pristine_page_itself_is_written() {
    let pool = FramePool::for_host(4 * MIB);
    let mut world = World::new(pool);
    world.touch(DATA, Access::READ).expect("data");
    let held = take_all_but(pool, 0);
    world.write(DATA, b"mine").expect("data");
    assert_eq!(world.byte(DATA), Some(b'm'));
    assert_eq!(world.byte(DATA + 4), Some(world.initial(DATA + 4)));
    drop(held);
    // There was no copy to keep, so it has to be fetched again.
    let fetched = world.fetched.len();
    world.space.advise(DATA / PAGE * PAGE, PAGE, 4).expect("mapped");
    assert_eq!(world.byte(DATA), Some(world.initial(DATA)));
    assert_eq!(world.fetched.len(), fetched + 1);
}

#[test]
fn pristine_copies_are_given_up_before_a_program_dies() {
    let pool = FramePool::for_host(4 * MIB);
    let mut world = World::new(pool);
    for number in 0..4 {
        world.write(DATA + number * PAGE, b"mine").expect("data");
    }
    // Four copies, and the four tables they lie in.
    let at = world.space.map(DATA + (1 << 20), 9 * PAGE, RW, ANONYMOUS, Backing::Zero).expect("room");
    let held = take_all_but(pool, 0);
    for number in 0..8 {
        world.write(at + number * PAGE, b"more").expect("pristine copies make room");
    }
    assert!(matches!(world.space.fault(at + 8 * PAGE, Access::WRITE), Resolution::OutOfMemory));
    assert_eq!(world.byte(DATA), Some(b'm'));
    drop(held);
}

#[test]
fn an_address_space_needs_a_frame() {
    let pool = FramePool::for_host(MIB);
    let held = take_all_but(pool, 0);
    assert!(AddressSpace::new(pool, alloc::sync::Arc::default()).is_err());
    drop(held);
    assert!(AddressSpace::new(pool, alloc::sync::Arc::default()).is_ok());
}

#[test]
fn a_move_that_fails_for_want_of_tables_changes_nothing() {
    let pool = FramePool::for_host(4 * MIB);
    let mut world = World::new(pool);
    let at = 0x1000_0000_0000;
    world.space.map(at, 1 << 31, RW, 0x4032, Backing::Zero).expect("room");
    for place in [0, 1 << 21, 1 << 22, 1 << 30] {
        world.space.write_u64(at + place, place).expect("mapped");
    }
    // The move needs a table of the second and two of the third level, and four of the lowest.
    for left in 0..7 {
        let held = take_all_but(pool, left);
        let tables = pool.usage().tables;
        let refused = world.space.remap(at, 1 << 31, 1 << 31, 3, 0x2000_0000_0000);
        assert_eq!(refused, Err(crate::errno::Errno::ENOMEM), "with {left} frames");
        assert_eq!(pool.usage().tables, tables);
        drop(held);
    }
    for place in [0, 1 << 21, 1 << 22, 1 << 30] {
        assert_eq!(world.space.read_u64(at + place).expect("mapped"), place);
    }
    let held = take_all_but(pool, 7);
    assert!(world.space.remap(at, 1 << 31, 1 << 31, 3, 0x2000_0000_0000).is_ok());
    drop(held);
}

#[test]
fn a_program_larger_than_memory_is_refused_in_one_line() {
    let pool = FramePool::for_host(MIB);
    let loads = [(0x40_0000, 4096, 0, 4096, 5), (0x50_0000, 4 << 20, 4096, 4096, 6)];
    let file = super::elf(&loads, 0x40_0800, 8192, false);
    let image = coppice_protocol::program::parse(&file, 8192).expect("a good program");
    let mut space = AddressSpace::new(pool, alloc::sync::Arc::default()).expect("memory");
    let error = space.load_image(&image, super::PROGRAM).expect_err("too large");
    assert!(matches!(error, LoadError::TooLarge { needed: 0x40_1000, .. }));
    assert!(!alloc::format!("{error}").contains('\n'));
}
