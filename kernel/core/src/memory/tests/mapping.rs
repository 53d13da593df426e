//! mmap, munmap, mprotect, madvise and brk as Linux has them.

use coppice_hal::addr::USER_END;
use coppice_hal::frames::FramePool;
use coppice_hal::paging::Access;

use super::{ANONYMOUS, FIXED, MIB, PAGE, RW, TestFile, World, kind};
use crate::errno::Errno;
use crate::memory::limits::{AREAS_MAX, AREAS_MIN, MAP_TOP};
use crate::memory::{AddressSpace, Backing, FileSource};

const PRIVATE: u64 = 2;
const SHARED: u64 = 1;
const NO_RESERVE: u64 = 0x4000;
const NO_REPLACE: u64 = 0x10_0000;
const POPULATE: u64 = 0x8000;

fn world() -> World {
    World::new(FramePool::for_host(4 * MIB))
}

#[test]
fn placement_is_downwards_and_repeats_itself() {
    let (mut one, mut other) = (world(), world());
    for world in [&mut one, &mut other] {
        assert_eq!(world.space.map(0, 1, RW, ANONYMOUS, Backing::Zero), Ok(MAP_TOP - PAGE));
        assert_eq!(world.space.map(0, 2 * PAGE, 1, ANONYMOUS, Backing::Zero), Ok(MAP_TOP - 3 * PAGE));
        world.space.unmap(MAP_TOP - PAGE, PAGE).expect("mapped");
        // The highest hole that is large enough.
        assert_eq!(world.space.map(0, 2 * PAGE, RW, ANONYMOUS, Backing::Zero), Ok(MAP_TOP - 5 * PAGE));
        assert_eq!(world.space.map(0, PAGE, RW, ANONYMOUS, Backing::Zero), Ok(MAP_TOP - PAGE));
    }
}

#[test]
fn hints_are_taken_if_there_is_room() {
    let mut world = world();
    assert_eq!(world.space.map(0x7000_0123, PAGE, RW, ANONYMOUS, Backing::Zero), Ok(0x7000_0000));
    let other = world.space.map(0x7000_0000, PAGE, RW, ANONYMOUS, Backing::Zero).expect("elsewhere");
    assert_ne!(other, 0x7000_0000);
    assert_eq!(world.space.map(1, PAGE, RW, ANONYMOUS, Backing::Zero), Ok(0x1_0000));
    for wild in [USER_END, u64::MAX, 0xffff_8000_0000_0000] {
        assert!(world.space.map(wild, PAGE, RW, ANONYMOUS, Backing::Zero).is_ok_and(|at| at < MAP_TOP));
    }
    let low = world.space.map(0, PAGE, RW, ANONYMOUS | 0x40, Backing::Zero).expect("room below 2 GiB");
    assert_eq!(low, 0x7fff_f000);
}

#[test]
fn nonsense_is_refused_as_linux_does() {
    let mut world = world();
    let mut map = |hint, length, flags| world.space.map(hint, length, RW, flags, Backing::Zero);
    assert_eq!(map(0, 0, ANONYMOUS), Err(Errno::EINVAL));
    assert_eq!(map(0, PAGE, 0x20), Err(Errno::EINVAL));
    assert_eq!(map(0, u64::MAX, ANONYMOUS | NO_RESERVE), Err(Errno::ENOMEM));
    assert_eq!(map(0, USER_END + 1, ANONYMOUS | NO_RESERVE), Err(Errno::ENOMEM));
    assert_eq!(map(0x7000_0001, PAGE, ANONYMOUS | FIXED), Err(Errno::EINVAL));
    assert_eq!(map(0, PAGE, ANONYMOUS | FIXED), Err(Errno::EPERM));
    assert_eq!(map(USER_END - PAGE, 2 * PAGE, ANONYMOUS | FIXED), Err(Errno::ENOMEM));
    assert_eq!(map(u64::MAX - 0xfff, PAGE, ANONYMOUS | FIXED), Err(Errno::ENOMEM));
    assert_eq!(map(0x40_0000, PAGE, ANONYMOUS | NO_REPLACE), Err(Errno::EEXIST));
    assert_eq!(map(0x7000_0000, PAGE, ANONYMOUS | NO_REPLACE), Ok(0x7000_0000));
    assert_eq!(map(0, PAGE, ANONYMOUS | 0x4_0000), Err(Errno::ENOMEM), "no huge pages");
    assert_eq!(world.space.unmap(0x7000_0001, PAGE), Err(Errno::EINVAL));
    assert_eq!(world.space.unmap(0x7000_0000, 0), Err(Errno::EINVAL));
    assert_eq!(world.space.unmap(0x7000_0000, u64::MAX), Err(Errno::EINVAL));
    assert_eq!(world.space.unmap(USER_END, PAGE), Err(Errno::EINVAL));
    assert_eq!(world.space.unmap(0x7100_0000, PAGE), Ok(()), "nothing there is no error");
    assert_eq!(world.space.protect(0x7000_0000, PAGE, 0x80), Err(Errno::EINVAL));
    assert_eq!(world.space.protect(0x7000_0000, u64::MAX - 5, RW), Err(Errno::ENOMEM));
    assert_eq!(world.space.protect(0x7000_0000, 2 * PAGE, 1), Err(Errno::ENOMEM));
    assert_eq!(world.space.protect(0x7000_0000, 0, 1), Ok(()));
    assert_eq!(world.space.advise(0x7000_0000, PAGE, 9), Err(Errno::EINVAL));
    assert_eq!(world.space.advise(0x7000_0000, 2 * PAGE, 4), Err(Errno::ENOMEM));
    assert_eq!(world.space.advise(u64::MAX - 0xfff, PAGE, 4), Err(Errno::EINVAL));
}

#[test]
fn reservations_cost_nothing() {
    let pool = FramePool::for_host(MIB);
    let mut world = World::new(pool);
    let free = pool.free_frames();
    let huge = 1 << 46;
    let at = world.space.map(0, huge, 0, ANONYMOUS, Backing::Zero).expect("nothing but addresses");
    let lazy = world.space.map(0, 1 << 44, RW, ANONYMOUS | NO_RESERVE, Backing::Zero).expect("not reserved");
    assert_eq!(pool.free_frames(), free);
    // More than the machine has, wanted for sure, is refused at once.
    assert_eq!(world.space.map(0, 2 * MIB as u64, RW, ANONYMOUS, Backing::Zero), Err(Errno::ENOMEM));
    world.write(lazy + (1 << 43), b"x").expect("a page of it");
    assert_eq!(kind(world.touch(at + (1 << 45), Access::READ)), Some((11, 2)));
    world.space.protect(at + (1 << 45), 2 * PAGE, RW).expect("mapped");
    world.write(at + (1 << 45) + PAGE, b"x").expect("now it may");
    world.space.advise(at, huge, 4).expect("mapped");
    world.space.unmap(at, huge).expect("mapped");
    world.space.unmap(lazy, 1 << 44).expect("mapped");
    assert_eq!(pool.free_frames(), free);
    assert_eq!(world.space.stats().pages, 0);
}

#[test]
fn areas_split_merge_and_have_a_limit() {
    let mut world = world();
    let areas = world.space.areas.len();
    let at = world.space.map(0, 1 << 40, 0, ANONYMOUS, Backing::Zero).expect("room");
    world.space.protect(at + 4 * PAGE, PAGE, RW).expect("mapped");
    assert_eq!(world.space.areas.len(), areas + 3);
    world.space.protect(at + 4 * PAGE, PAGE, 0).expect("mapped");
    assert_eq!(world.space.areas.len(), areas + 1);
    let mut made = 0;
    let refused = loop {
        // Every second page: no two merge.
        match world.space.protect(at + (2 * made + 1) * PAGE, PAGE, RW) {
            Ok(()) => made += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, Errno::ENOMEM);
    assert!(world.space.areas.len() <= AREAS_MAX && world.space.areas.len() + 2 > AREAS_MAX);
    assert!(world.space.areas.is_free(0x7000_0000, 0x7000_1000));
    while world.space.map(0, PAGE, made & 1, ANONYMOUS | PRIVATE, Backing::Zero).is_ok() {
        made += 1;
    }
    // A hole in the middle of an area takes one more than there can be; the whole of it can go.
    assert_eq!(world.space.unmap(at + (1 << 39), PAGE), Err(Errno::ENOMEM));
    assert_eq!(world.space.unmap(at, 1 << 40), Ok(()));
    assert!(world.space.areas.len() < 30);
}

#[test]
fn processes_that_share_a_node_have_fewer_areas_each() {
    for (spaces, most) in [(1, AREAS_MAX), (4, AREAS_MAX / 4), (64, AREAS_MIN), (u32::MAX, AREAS_MIN), (0, AREAS_MAX)] {
        let mut world = world();
        world.space.share_room(spaces, &crate::quota::tests::quota());
        let mut made = 0;
        while world.space.map(0, PAGE, made & 1, ANONYMOUS | PRIVATE, Backing::Zero).is_ok() {
            made += 1;
        }
        assert_eq!(world.space.areas.len(), most, "{spaces}");
    }
}

#[test]
fn a_fixed_mapping_replaces_what_was_there() {
    let mut world = world();
    let at = world.space.map(0, 4 * PAGE, RW, ANONYMOUS, Backing::Zero).expect("room");
    world.write(at, &[1; 4 * PAGE as usize]).expect("mapped");
    let pages = world.space.stats().pages;
    assert_eq!(world.space.map(at + PAGE, 2 * PAGE, RW, ANONYMOUS | FIXED, Backing::Zero), Ok(at + PAGE));
    assert_eq!(world.space.stats().pages, pages - 2);
    let ends = [0, PAGE - 1, PAGE, 3 * PAGE - 1, 3 * PAGE].map(|inside| world.byte(at + inside));
    assert_eq!(ends, [Some(1), Some(1), Some(0), Some(0), Some(1)]);
    // The stack's neighbour at the top, too.
    assert!(world.space.map(USER_END - PAGE, PAGE, RW, ANONYMOUS | FIXED, Backing::Zero).is_ok());
}

#[test]
fn files_are_read_when_touched_and_end_in_zeros_then_in_bus_errors() {
    let mut world = world();
    let file = TestFile::new(50 * PAGE as usize + 10, 3);
    let source: alloc::sync::Arc<dyn FileSource> = file.clone();
    let backing = Backing::File { file: source, offset: 8 * PAGE };
    let at = world.space.map(0, 45 * PAGE, RW, PRIVATE, backing).expect("room");
    assert!(file.reads.lock().is_empty());
    assert_eq!(world.byte(at + 3), Some(file.bytes[8 * PAGE as usize + 3]));
    // To the end of the aligned run of 32.
    assert_eq!(*file.reads.lock(), [(8 * PAGE, 24 * PAGE as usize)]);
    world.write(at + 2 * PAGE, b"private").expect("mapped");
    assert_eq!(world.byte(at + 2 * PAGE + 7), Some(file.bytes[10 * PAGE as usize + 7]));
    assert_eq!(world.byte(at + 42 * PAGE + 9), Some(file.bytes[50 * PAGE as usize + 9]));
    assert_eq!(world.byte(at + 42 * PAGE + 10), Some(0));
    assert_eq!(kind(world.touch(at + 43 * PAGE, Access::READ)), Some((7, 2)));
    assert_eq!(world.byte(at + 43 * PAGE), None);
    assert_eq!(file.reads.lock().len(), 4);
    assert_eq!(world.space.stats().pages_fetched, 0, "those are the program's alone");
    // What was written is gone with the memory; the file comes again.
    world.space.advise(at + 2 * PAGE, PAGE, 4).expect("mapped");
    assert_eq!(world.byte(at + 2 * PAGE), Some(file.bytes[10 * PAGE as usize]));
    assert_eq!(world.space.advise(at, PAGE, 8), Err(Errno::EINVAL));
    // A part of it cut off still shows the right bytes.
    world.space.unmap(at, 20 * PAGE).expect("mapped");
    assert_eq!(world.byte(at + 30 * PAGE), Some(file.bytes[38 * PAGE as usize]));
}

#[test]
fn shared_files_can_be_read_only() {
    let mut world = world();
    let file = |offset| Backing::File { file: TestFile::new(PAGE as usize, 3), offset };
    assert_eq!(world.space.map(0, PAGE, RW, SHARED, file(0)), Err(Errno::ENODEV));
    assert_eq!(world.space.map(0, PAGE, 1, SHARED, file(5)), Err(Errno::EINVAL));
    assert_eq!(world.space.map(0, PAGE, 1, SHARED, file(i64::MAX as u64 - 0xfff)), Err(Errno::EOVERFLOW));
    let at = world.space.map(0, PAGE, 1, SHARED, file(0)).expect("room");
    assert_eq!(world.byte(at), Some(super::pattern(1, 3)[0]));
    assert_eq!(world.space.protect(at, PAGE, RW), Err(Errno::EACCES));
    assert_eq!(world.space.protect(at, PAGE, 0), Ok(()));
    let shared = world.space.map(0, PAGE, RW, 0x21, Backing::Zero).expect("shared with nobody");
    world.write(shared, b"x").expect("mapped");
}

#[test]
fn the_heap_grows_shrinks_and_stops() {
    let mut world = world();
    let start = world.space.set_break(0);
    assert_eq!(start, world.image.end_page());
    assert_eq!(world.space.set_break(start + 100), start + 100);
    world.write(start, b"first").expect("heap");
    assert_eq!(world.space.set_break(start + 10 * PAGE + 1), start + 10 * PAGE + 1);
    let areas = world.space.areas.len();
    world.write(start + 11 * PAGE - 1, b"x").expect("the whole last page");
    assert_eq!(kind(world.touch(start + 11 * PAGE, Access::READ)), Some((11, 1)));
    // Shrinking frees; growing again shows zeros.
    assert_eq!(world.space.set_break(start + 10 * PAGE), start + 10 * PAGE);
    assert_eq!(world.space.set_break(start + 11 * PAGE), start + 11 * PAGE);
    assert_eq!(world.byte(start + 11 * PAGE - 1), Some(0));
    assert_eq!(world.byte(start), Some(b'f'));
    assert_eq!(world.space.areas.len(), areas);
    // Refused: below the start, into something else, beyond memory, nonsense.
    let now = start + 11 * PAGE;
    world.space.map(start + 20 * PAGE, PAGE, RW, ANONYMOUS | FIXED, Backing::Zero).expect("room");
    for wish in [start - 1, start + 20 * PAGE, start + 21 * PAGE, start + (1 << 30), USER_END, u64::MAX] {
        assert_eq!(world.space.set_break(wish), now, "{wish:#x}");
    }
    assert_eq!(world.space.set_break(start + 19 * PAGE), start + 19 * PAGE);
    // musl puts a guard over the first page.
    world.space.map(start, PAGE, 0, ANONYMOUS | FIXED, Backing::Zero).expect("room");
    assert_eq!(world.byte(start), None);
    assert_eq!(world.space.set_break(start + 18 * PAGE), start + 18 * PAGE);
}

#[test]
fn advice_that_frees_gives_zeros_and_memory_back() {
    let mut world = world();
    let at = world.space.map(0, 4 * PAGE, RW, ANONYMOUS, Backing::Zero).expect("room");
    world.write(at, &[1; 4 * PAGE as usize]).expect("mapped");
    let free = world.pool.free_frames();
    for advice in [0, 1, 2, 3, 10, 14, 21] {
        assert_eq!(world.space.advise(at, 4 * PAGE, advice), Ok(()));
    }
    assert_eq!(world.byte(at), Some(1));
    world.space.advise(at, PAGE, 4).expect("mapped");
    world.space.advise(at + PAGE, PAGE, 8).expect("mapped");
    assert_eq!(world.pool.free_frames(), free + 2);
    let bytes = [0, PAGE, 2 * PAGE].map(|inside| world.byte(at + inside));
    assert_eq!(bytes, [Some(0), Some(0), Some(1)]);
}

#[test]
fn mprotect_reaches_down_to_the_areas_start_if_asked() {
    let mut world = world();
    let at = world.space.map(0, 4 * PAGE, RW, ANONYMOUS, Backing::Zero).expect("room");
    world.space.protect(at + 3 * PAGE, PAGE, 0x0100_0007).expect("mapped");
    assert!(world.touch(at, Access::EXECUTE).is_ok());
}

#[test]
fn populating_touches_at_once() {
    let mut world = world();
    let at = world.space.map(0, 20 * PAGE, RW, ANONYMOUS | POPULATE, Backing::Zero).expect("room");
    assert_eq!(world.space.stats().pages, 0, "its pages are brought in after that");
    let access = AddressSpace::populates(RW, ANONYMOUS | POPULATE).expect("it was asked for");
    assert_eq!(world.space.populate(at, at + 20 * PAGE, access).0, at + 20 * PAGE);
    assert_eq!(world.space.stats().pages, 20);
    assert_eq!(world.space.stats().faults, 0);
}
