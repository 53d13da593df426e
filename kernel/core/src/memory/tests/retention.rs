//! What stays of a program when it has ended, entry for entry, and what its next process sees.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use coppice_hal::addr::{PageRange, UserPage};
use coppice_hal::frames::{FrameKind, FramePool};
use coppice_hal::paging::{Access, Entry, Verdict};
use coppice_protocol::ids::ProgramId;
use coppice_protocol::retain::{RetentionPolicy, WalkCounts};

use super::{ANONYMOUS, DATA, FIXED, Load, MIB, PAGE, RW, World, elf};
use crate::memory::{Backing, Retention};

const TEXT: u64 = 0x40_0000;
const RODATA: u64 = 0x42_8000;
const P0: ProgramId = ProgramId([0; 32]);
const P1: ProgramId = ProgramId([1; 32]);

fn page(address: u64) -> UserPage {
    UserPage::containing(address).expect("a user address")
}

/// Every entry of a program's table: page counted from [`TEXT`] → entry and physical address.
fn entries(world: &mut World) -> BTreeMap<u64, (Entry, u64)> {
    let mut all = BTreeMap::new();
    world.space.table.walk(PageRange::ALL, |page, entry| {
        all.insert((page.address().wrapping_sub(TEXT)) / PAGE, (entry.get(), entry.frame().address()));
        Verdict::Keep
    });
    all
}

/// All free frames of a pool are zero.
fn assert_free_memory_is_zero(pool: &'static FramePool) {
    let frames: Vec<_> = core::iter::from_fn(|| pool.alloc(FrameKind::Kernel)).collect();
    assert!(!frames.is_empty());
    for frame in &frames {
        let mut bytes = vec![1; PAGE as usize];
        frame.read(0, &mut bytes);
        assert!(bytes.iter().all(|byte| *byte == 0), "{frame:?} was handed out with bytes in it");
    }
}

/// Programs of single pages: `rx` ones come from the file, `rw` ones are zeros that the program writes.
fn program_of(pages: &[u32]) -> Vec<u8> {
    let loads: Vec<Load> = pages
        .iter()
        .zip(0..)
        .map(|(flags, number)| {
            let bytes = if flags & 2 == 0 { PAGE } else { 0 };
            (TEXT + number * PAGE, PAGE, number * PAGE, bytes, *flags)
        })
        .collect();
    elf(&loads, TEXT, 8 * PAGE as usize, false)
}

/// The worked example of the design: P0 has pages 0, 1, 3 executable in frames 1, 4, 7 and page 2 writable in frame 3;
/// P1 has frames 0, 2, 5, 6.
#[test]
fn the_worked_example_entry_for_entry() {
    let pool = FramePool::for_host(2 * MIB);
    let retention = Arc::new(Retention::new(RetentionPolicy::One));
    let mut p0 = World::on_node(pool, Arc::clone(&retention), P0, program_of(&[5, 5, 6, 5]));
    let mut p1 = World::on_node(pool, Arc::clone(&retention), P1, program_of(&[5, 4, 6, 6]));
    // Frame numbers in the example's sense: in the order in which pages are first touched.
    let mut frames = Vec::new();
    for (is_p0, number) in [(false, 0), (true, 0), (false, 1), (true, 2), (true, 1), (false, 2), (false, 3), (true, 3)]
    {
        let world = if is_p0 { &mut p0 } else { &mut p1 };
        let at = TEXT + number * PAGE;
        if world.touch(at, Access::WRITE).is_ok() {
            world.write(at, b"a secret of this run").expect("writable");
        } else {
            world.touch(at, Access::READ).expect("readable");
        }
        frames.push(world.space.table().frame(page(at)).expect("touched").address());
    }
    let mapped = |world: &mut World| -> Vec<(u64, usize)> {
        let number = |address| frames.iter().position(|frame| *frame == address).expect("one of the eight");
        entries(world).into_iter().map(|(page, (_, address))| (page, number(address))).collect()
    };
    assert_eq!(mapped(&mut p0), [(0, 1), (1, 4), (2, 3), (3, 7)]);
    assert_eq!(mapped(&mut p1), [(0, 0), (1, 2), (2, 5), (3, 6)]);

    let ended = p0.end();
    assert_eq!((ended.kept, ended.dropped, ended.zeroed), (3, 1, 1));
    p1.end();
    let answer = retention.retain(P0).expect("it ran here");
    // P1's two pristine pages, and the four levels of its table.
    let expected = WalkCounts { kept: 3, dropped: 1, zeroed: 1 + 2 + 4, discarded: 1, walk_ns: 0 };
    assert_eq!(answer, expected);
    assert!(retention.take(P1).is_none());

    p0.relaunch();
    assert_eq!(mapped(&mut p0), [(0, 1), (1, 4), (3, 7)]);
    assert!(entries(&mut p0).values().all(|(entry, _)| entry.access == Access::READ | Access::EXECUTE));
    assert_eq!(p0.byte(TEXT + 3 * PAGE), Some(p0.initial(TEXT + 3 * PAGE)));
    assert!(p0.fetched.is_empty());
    drop(p1);
    assert_free_memory_is_zero(pool);
    assert_eq!(p0.byte(TEXT + 2 * PAGE), Some(0));
}

#[test]
fn a_second_run_fetches_nothing_whatever_the_first_one_wrote() {
    let mut world = World::new(FramePool::for_host(2 * MIB));
    let touch_all = |world: &mut World| {
        for at in (TEXT..TEXT + 40 * PAGE).step_by(PAGE as usize) {
            world.touch(at, Access::EXECUTE).expect("text");
        }
        world.touch(RODATA + PAGE, Access::READ).expect("data");
        for number in 0..8 {
            let at = DATA + number * PAGE;
            assert_eq!(world.byte(at), Some(world.initial(at)));
            world.write(at, b"mine").expect("data");
        }
    };
    touch_all(&mut world);
    assert!(!world.fetched.is_empty());
    let counts = world.end();
    // Forty pages of text, three of read-only data, four of data; the rest is bss.
    assert_eq!(counts.kept, 47);
    for _ in 0..3 {
        world.relaunch();
        assert_eq!(world.space.stats().pages_found, 47);
        touch_all(&mut world);
        assert!(world.fetched.is_empty());
        let stats = world.space.stats();
        assert_eq!((stats.instruction_faults, stats.pages_fetched), (40, 0), "the test's touches alone");
        world.end();
    }
}

#[test]
fn what_was_once_writable_is_never_taken_for_the_files() {
    let mut world = World::new(FramePool::for_host(2 * MIB));
    // RELRO: written, then made read-only.
    world.write(DATA, b"relocated").expect("data");
    world.space.protect(DATA / PAGE * PAGE, PAGE, 1).expect("mapped");
    // Text that was patched and made executable again; text that was made writable and only looked at.
    world.space.protect(TEXT, 2 * PAGE, RW).expect("mapped");
    world.write(TEXT + 7, b"patched").expect("text");
    world.byte(TEXT + PAGE).expect("text");
    world.space.protect(TEXT, 2 * PAGE, 5).expect("mapped");
    // A page of the program's own file, mapped writable over its read-only data.
    let file = super::TestFile::new(4 * PAGE as usize, 3);
    let backing = Backing::File { file, offset: 0 };
    world.space.map(RODATA, PAGE, RW, FIXED | 2, backing).expect("room");
    world.write(RODATA, b"over it").expect("mapped");
    let secrets: Vec<u64> =
        [DATA, TEXT, RODATA].iter().map(|at| world.space.table().frame(page(*at)).expect("there").address()).collect();
    world.end();
    world.relaunch();
    let now: Vec<u64> = entries(&mut world).values().map(|(_, address)| *address).collect();
    assert!(secrets.iter().all(|secret| !now.contains(secret)), "a frame that was written is mapped again");
    for at in (TEXT..TEXT + 40 * PAGE).chain(RODATA..RODATA + 2 * PAGE + 100).chain(DATA..DATA + 8 * PAGE).step_by(61) {
        assert_eq!(world.byte(at), Some(world.initial(at)), "{at:#x}");
    }
    let rights = world.space.table().entry(page(DATA)).expect("there").access;
    assert_eq!(rights, Access::READ, "as the headers have it, less writing");
    world.write(DATA, b"fresh").expect("data is writable in a new run");
}

#[test]
fn pages_that_were_moved_or_hidden_are_back_in_their_places() {
    let mut world = World::new(FramePool::for_host(2 * MIB));
    world.touch(TEXT, Access::EXECUTE).expect("text");
    world.touch(TEXT + 39 * PAGE, Access::EXECUTE).expect("text");
    // A page of text goes elsewhere, and to where other text was.
    let away = world.space.remap(TEXT + 3 * PAGE, PAGE, PAGE, 3, 0x1000_0000).expect("moved");
    assert_eq!(world.byte(away), Some(world.initial(TEXT + 3 * PAGE)));
    world.space.remap(TEXT + 5 * PAGE, PAGE, PAGE, 3, TEXT + 6 * PAGE).expect("moved");
    world.space.unmap(TEXT + 9 * PAGE, PAGE).expect("mapped");
    world.space.map(TEXT + 10 * PAGE, PAGE, RW, ANONYMOUS | FIXED, Backing::Zero).expect("room");
    world.write(TEXT + 10 * PAGE, b"here").expect("mapped");
    world.space.protect(TEXT + 11 * PAGE, PAGE, 0).expect("mapped");
    let counts = world.end();
    // Gone: 3 (moved), 5 and 6 (moved over), 9, 10.
    assert_eq!(counts.kept, 35);
    world.relaunch();
    assert_eq!(
        world.space.table().entry(page(TEXT + 11 * PAGE)).expect("there").access,
        Access::READ | Access::EXECUTE
    );
    assert!(world.space.table().entry(page(away)).is_none());
    for at in (TEXT..TEXT + 40 * PAGE).step_by(509) {
        assert_eq!(world.byte(at), Some(world.initial(at)), "{at:#x}");
    }
    assert_eq!(world.fetched, [(3, 8)], "from the first hole to the last");
}
