//! Changes that take long come in steps: each is short, others may come in between, and whoever began one may go away.

use coppice_hal::frames::FramePool;
use coppice_hal::paging::Access;
use coppice_protocol::retain::WalkCounts;

use super::{ANONYMOUS, DATA, FIXED, MIB, PAGE, RW, World, kind, reap};
use crate::errno::Errno;
use crate::memory::limits::STEP_PAGES;
use crate::memory::{Backing, Resolution, Source};

const AT: u64 = 0x7000_0000;
const PAGES: u64 = 2000;
const LENGTH: u64 = PAGES * PAGE;

/// A process with that many pages in memory, each with its number in it.
fn world() -> World {
    let mut world = World::new(FramePool::for_host(24 * MIB));
    world.space.map(AT, LENGTH, RW, ANONYMOUS | FIXED, Backing::Zero).expect("room");
    for number in 0..PAGES {
        world.space.write_u64(AT + number * PAGE, number + 1).expect("mapped");
    }
    world
}

/// Frames of programs that are in use.
fn used(world: &World) -> u64 {
    let usage = world.pool.usage();
    u64::from(usage.user + usage.pristine)
}

/// Goes on to the end of the change under way. Returns in how many steps, each of which is as long as it may be.
fn steps(world: &mut World) -> u64 {
    let mut steps = 1;
    loop {
        let before = used(world);
        let over = world.space.step();
        assert!(before.abs_diff(used(world)) <= u64::from(STEP_PAGES) + 8, "a step is bounded");
        if over {
            return steps;
        }
        steps += 1;
    }
}

fn waits(resolution: &Resolution) -> bool {
    matches!(resolution, Resolution::Fetch(fetch) if matches!(fetch.source, Source::Change))
}

#[test]
fn what_is_unmapped_goes_in_steps_and_is_no_areas_at_once() {
    let mut world = world();
    let before = used(&world);
    assert_eq!(world.space.unmap(AT, LENGTH), Ok(()));
    assert!(before - used(&world) <= u64::from(STEP_PAGES) + 8, "the first step is bounded, too");
    let change = world.space.unfinished().expect("it takes several steps");
    assert!(!world.space.is_mapped(AT, PAGE));
    assert_eq!(kind(world.touch(AT, Access::READ)), Some((11, 1)));
    // Another change has to wait, and its wait is work for this one.
    assert!(!world.space.may_change());
    assert_eq!(world.space.finish(change), None);
    assert!(steps(&mut world) >= PAGES / u64::from(STEP_PAGES) - 3);
    assert_eq!(world.space.finish(change), Some(Ok(())));
    assert!(world.space.may_change());
    assert_eq!((used(&world), world.space.stats().pages), (0, 0));
}

#[test]
fn the_pages_of_a_new_mapping_over_others_come_when_all_those_are_gone() {
    let mut world = world();
    assert_eq!(world.space.map(AT, LENGTH, RW, ANONYMOUS | FIXED, Backing::Zero), Ok(AT));
    // One that is gone already, and one that is not.
    assert!(waits(&world.space.fault(AT, Access::READ)));
    let last = AT + LENGTH - PAGE;
    assert_eq!(world.space.read_u64(last).expect("it is there still"), PAGES);
    // Neither what is beside it nor anything else has to wait.
    assert_eq!(world.byte(DATA), Some(world.initial(DATA)));
    assert_eq!(kind(world.touch(AT + LENGTH, Access::READ)), Some((11, 1)));
    steps(&mut world);
    assert_eq!([AT, last].map(|at| world.byte(at)), [Some(0), Some(0)]);
}

#[test]
fn rights_change_in_steps_and_are_the_areas_at_once() {
    let mut world = world();
    assert_eq!(world.space.protect(AT, LENGTH, 1), Ok(()));
    let last = AT + LENGTH - PAGE;
    assert!(world.space.unfinished().is_some());
    assert_eq!(kind(world.touch(AT, Access::WRITE)), Some((11, 2)));
    assert_eq!(world.space.table().entry(page(last)).map(|entry| entry.access), Some(Access::READ | Access::WRITE));
    assert!(steps(&mut world) >= PAGES / u64::from(STEP_PAGES) - 3);
    assert_eq!(kind(world.touch(last, Access::WRITE)), Some((11, 2)));
    assert_eq!(world.space.protect(AT, LENGTH, RW), Ok(()));
    // What was not come to yet is made usable where it is touched.
    assert!(world.touch(last, Access::WRITE).is_ok());
    steps(&mut world);
    assert_eq!(world.space.read_u64(last).expect("mapped"), PAGES);
}

fn page(address: u64) -> coppice_hal::addr::UserPage {
    coppice_hal::addr::UserPage::containing(address).expect("a user page")
}

#[test]
fn a_move_in_steps_brings_every_page_and_nothing_between() {
    let mut world = world();
    let to = 0x5000_0020_0000;
    assert_eq!(world.space.remap(AT, LENGTH, LENGTH + PAGE, 3, to), Ok(to));
    let mut between = 0;
    while world.space.unfinished().is_some() {
        // Nothing is brought in on either side, and what is there is as it was.
        for number in [0, 700, PAGES - 1] {
            let (from, to) = (AT + number * PAGE, to + number * PAGE);
            let found = [from, to].map(|at| world.space.fault(at, Access::READ));
            for resolution in &found {
                assert!(matches!(resolution, Resolution::Ready) || waits(resolution));
            }
            assert!(found.iter().filter(|found| matches!(found, Resolution::Ready)).count() == 1, "page {number}");
        }
        between += 1;
        world.space.step();
    }
    assert!(between > 8, "tables first, then pages");
    for number in 0..PAGES {
        assert_eq!(world.space.read_u64(to + number * PAGE).expect("moved"), number + 1);
    }
    assert_eq!(world.byte(to + LENGTH), Some(0));
    assert_eq!(kind(world.touch(AT, Access::READ)), Some((11, 1)));
}

#[test]
fn a_move_within_one_leaf_table_loses_no_page_when_there_is_no_frame() {
    let mut world = World::new(FramePool::for_host(4 * MIB));
    // The last page of the source is the only one of its table when it goes to another place in that.
    let (at, to) = (0x7000_0000, 0x7000_0000 + 300 * PAGE);
    world.space.map(at, 100 * PAGE, RW, ANONYMOUS | FIXED, Backing::Zero).expect("room");
    world.write(at + 99 * PAGE, b"mine").expect("mapped");
    let held: alloc::vec::Vec<_> =
        core::iter::from_fn(|| world.pool.alloc(coppice_hal::frames::FrameKind::User)).collect();
    assert_eq!(world.space.remap(at, 100 * PAGE, 100 * PAGE, 3, to), Ok(to));
    assert_eq!(world.byte(to + 99 * PAGE), Some(b'm'));
    drop(held);
}

#[test]
fn a_move_into_a_table_that_its_first_pages_leave_empty_keeps_that() {
    let mut world = world();
    // All that is in the second table leaves it before the first page comes there.
    let table = 0x7fff_ff40_0000;
    let (pages, source) = (537, table + 486 * PAGE);
    let target = source - pages * PAGE;
    world.space.map(source, pages * PAGE, RW, ANONYMOUS | FIXED, Backing::Zero).expect("room");
    for number in 0..pages {
        world.space.write_u64(source + number * PAGE, number).expect("mapped");
    }
    let tables = world.pool.usage().tables;
    assert_eq!(world.space.remap(source, pages * PAGE, pages * PAGE, 3, target), Ok(target));
    while !world.space.step() {}
    for number in 0..pages {
        assert_eq!(world.space.read_u64(target + number * PAGE).ok(), Some(number));
    }
    assert_eq!(world.pool.usage().tables, tables, "three then, two and one now, none empty");
}

#[test]
fn a_move_without_memory_half_way_gives_all_back_in_steps() {
    let mut world = world();
    // A page every 2 MiB, so that each needs a table of its own.
    let (at, to, sparse) = (0x1000_0000_0000, 0x2000_0000_0000, 400_u64);
    let length = sparse << 21;
    world.space.map(at, length, RW, ANONYMOUS | FIXED | 0x4000, Backing::Zero).expect("room");
    for number in 0..sparse {
        world.space.write_u64(at + (number << 21), number).expect("mapped");
    }
    let available = world.pool.available_frames();
    let held: alloc::vec::Vec<_> =
        (300..available).filter_map(|_| world.pool.alloc(coppice_hal::frames::FrameKind::User)).collect();
    let tables = world.pool.usage().tables;
    assert_eq!(world.space.remap(at, length, length, 3, to), Ok(to), "as far as it is known");
    let change = world.space.unfinished().expect("it takes several steps");
    let outcome = loop {
        // Somebody else may be the one who does it; who began it is told all the same.
        world.space.step();
        if world.space.unfinished().is_none() {
            assert!(!world.space.may_change(), "nobody begins another before");
            break world.space.finish(change);
        }
    };
    assert_eq!(outcome, Some(Err(Errno::ENOMEM)));
    assert!(world.space.may_change());
    assert_eq!(world.pool.usage().tables, tables);
    for number in 0..sparse {
        assert_eq!(world.space.read_u64(at + (number << 21)).expect("where it was"), number);
    }
    drop(held);
}

#[test]
fn who_goes_away_in_the_middle_leaves_it_to_the_next() {
    let mut world = world();
    // Nobody finishes what this begins.
    world.space.unmap(AT, LENGTH / 2).expect("mapped");
    assert!(world.space.unfinished().is_some());
    // The next change does, and the end of the process.
    assert_eq!(world.space.map(AT, PAGE, RW, ANONYMOUS | FIXED, Backing::Zero), Ok(AT));
    assert_eq!(world.byte(AT), Some(0));
    world.space.remap(AT + LENGTH / 2, LENGTH / 2, LENGTH / 2, 3, 0x5000_0000_0000).expect("room");
    assert!(world.space.unfinished().is_some());
    assert_eq!(world.end().kept, 0);
    reap(&world.retention);
    assert_eq!(used(&world), 0);
}

#[test]
fn the_end_of_a_process_comes_in_steps() {
    let mut world = world();
    world.write(DATA, b"mine").expect("data");
    world.touch(0x40_0000, Access::EXECUTE).expect("text");
    let mut cut = world.space.begin_cut();
    let mut taken = 0;
    let (counts, table) = loop {
        let before = used(&world);
        let done = world.space.cut_on(&mut cut);
        assert!(before - used(&world) <= u64::from(STEP_PAGES) + 8, "a step is bounded");
        taken += 1;
        if let Some(result) = done {
            break result;
        }
    };
    assert!(taken > PAGES / u64::from(STEP_PAGES));
    assert_eq!(counts.dropped, PAGES + 1);
    let kept = table.expect("text and data").held().pages;
    assert_eq!(counts, WalkCounts { kept, dropped: PAGES + 1, zeroed: counts.zeroed, ..WalkCounts::default() });
}

#[test]
fn populating_comes_in_steps() {
    let mut world = World::new(FramePool::for_host(24 * MIB));
    world.space.map(AT, LENGTH, RW, ANONYMOUS | FIXED, Backing::Zero).expect("room");
    let (mut at, mut taken) = (AT, 0);
    while at < AT + LENGTH {
        let before = used(&world);
        at = world.space.populate(at, AT + LENGTH, Access::READ | Access::WRITE).0;
        assert!(used(&world) - before <= u64::from(STEP_PAGES), "a step is bounded");
        taken += 1;
    }
    assert_eq!((taken, used(&world)), (PAGES.div_ceil(u64::from(STEP_PAGES)), PAGES));
    // It goes as far as there is memory, and as there is anything mapped.
    let end = AT + LENGTH;
    world.space.unmap(AT, PAGE).expect("mapped");
    assert_eq!(world.space.populate(AT, end, Access::READ).0, end);
}
