//! Demand paging of the program: what is fetched, shared, copied, kept.

use coppice_hal::addr::{PageRange, UserPage};
use coppice_hal::frames::{FrameKind, FramePool};
use coppice_hal::paging::{Access, Marks, Verdict};

use super::{DATA, MIB, PAGE, RW, World, kind};
use crate::memory::Resolution;

const TEXT: u64 = 0x40_0000;
const RODATA: u64 = 0x42_8000;

fn page(address: u64) -> UserPage {
    UserPage::containing(address).expect("a user address")
}

#[test]
fn loading_touches_nothing() {
    let world = World::new(FramePool::for_host(MIB));
    assert_eq!(world.space.stats().pages, 0);
    assert!(world.space.table().first_in(PageRange::ALL).is_none());
}

#[test]
fn text_comes_in_aligned_runs_clipped_to_the_segment() {
    let mut world = World::new(FramePool::for_host(2 * MIB));
    world.touch(TEXT + 0x5123, Access::EXECUTE).expect("text");
    assert_eq!(world.fetched, [(0, 32)]);
    // All of the run is there now; the next one ends with the segment's 40 pages.
    for number in 0..32 {
        let entry = world.space.table().entry(page(TEXT + number * PAGE)).expect("read ahead");
        assert_eq!(entry.access, Access::READ | Access::EXECUTE);
        assert!(entry.marks.contains(Marks::PRISTINE));
    }
    world.touch(TEXT + 32 * PAGE, Access::READ).expect("text");
    assert_eq!(world.fetched, [(0, 32), (32, 8)]);
    assert_eq!(world.space.stats().pages_fetched, 40);
    assert_eq!(world.space.stats().pages, 40);
    for address in (TEXT..TEXT + 40 * PAGE).step_by(509) {
        assert_eq!(world.byte(address), Some(world.initial(address)), "{address:#x}");
    }
    assert_eq!(world.fetched.len(), 2);
}

#[test]
fn what_is_there_is_not_fetched_again() {
    let mut world = World::new(FramePool::for_host(2 * MIB));
    world.touch(TEXT, Access::READ).expect("text");
    // Two of the run's pages are given up; what lies before the first and behind the second is here.
    world.space.advise(TEXT + 4 * PAGE, PAGE, 4).expect("mapped");
    world.space.advise(TEXT + 9 * PAGE, PAGE, 4).expect("mapped");
    world.fetched.clear();
    world.touch(TEXT + 9 * PAGE, Access::READ).expect("text");
    assert_eq!(world.fetched, [(4, 6)]);
}

#[test]
fn faults_are_counted_by_kind_and_copies_are_not_faults() {
    let mut world = World::new(FramePool::for_host(2 * MIB));
    world.touch(TEXT, Access::EXECUTE).expect("text");
    world.touch(DATA, Access::WRITE).expect("data");
    world.byte(RODATA).expect("data");
    let stats = world.space.stats();
    assert_eq!((stats.faults, stats.instruction_faults), (2, 1));
}

/// The processor lets a program read what it may write, so reading needs no copy of the page, whatever took the right
/// to write out of its entry.
#[test]
fn what_may_only_be_written_is_read_without_a_copy() {
    let mut world = World::new(FramePool::for_host(2 * MIB));
    world.touch(TEXT, Access::READ).expect("text");
    world.space.protect(TEXT, 2 * PAGE, 2).expect("mapped");
    // Both that were mapped before and one that is fetched now.
    world.space.protect(DATA & !(PAGE - 1), PAGE, 2).expect("mapped");
    for address in [TEXT, TEXT + PAGE, DATA] {
        world.touch(address, Access::READ).expect("reading comes with writing");
        let entry = world.space.table().entry(page(address)).expect("just touched");
        assert_eq!((entry.access, entry.marks), (Access::READ, Marks::all()), "{address:#x}");
    }
    world.touch(TEXT, Access::WRITE).expect("it may be written");
    assert!(world.space.table().entry(page(TEXT)).is_some_and(|entry| entry.access.contains(Access::WRITE)));
    world.space.protect(TEXT, 2 * PAGE, 0).expect("mapped");
    assert_eq!(kind(world.touch(TEXT + PAGE, Access::READ)), Some((11, 2)));
}

#[test]
fn partial_pages_end_in_zeros() {
    let mut world = World::new(FramePool::for_host(2 * MIB));
    // The read-only data ends 100 bytes into its third page; the file goes on, the page does not.
    assert_eq!(world.byte(RODATA + 2 * PAGE + 99), Some(world.file[42 * PAGE as usize + 99]));
    assert_eq!(world.byte(RODATA + 2 * PAGE + 100), Some(0));
    // Before the data segment's first byte, and behind its last byte of the file.
    assert_eq!(world.byte(DATA - 1), Some(0));
    assert_eq!(world.byte(DATA), Some(world.file[43 * PAGE as usize + 0x100]));
    let end = DATA + 3 * PAGE + 0x700;
    assert_eq!(world.byte(end - 1), Some(world.initial(end - 1)));
    assert_ne!(world.byte(end - 1), Some(0));
    assert_eq!(world.byte(end), Some(0));
    let fetched = world.fetched.len();
    // Pure bss is not fetched.
    assert_eq!(world.byte(DATA + 7 * PAGE), Some(0));
    assert_eq!(world.fetched.len(), fetched);
}

#[test]
fn a_write_to_a_page_that_comes_back_from_beside_is_done_at_once() {
    let mut world = World::new(FramePool::for_host(2 * MIB));
    world.touch(DATA, Access::WRITE).expect("data");
    world.space.advise(DATA / PAGE * PAGE, PAGE, 4).expect("mapped");
    assert!(matches!(world.space.resolve(DATA, Access::WRITE), Resolution::Ready));
    let entry = world.space.table().entry(page(DATA)).expect("touched");
    assert!(entry.access.contains(Access::WRITE) && !entry.marks.contains(Marks::PRISTINE));
}

#[test]
fn written_data_is_a_copy_and_the_pristine_page_is_kept() {
    let mut world = World::new(FramePool::for_host(2 * MIB));
    world.touch(DATA, Access::READ).expect("data");
    let pristine = world.space.table().frame(page(DATA)).expect("mapped");
    assert_eq!(pristine.kind(), FrameKind::Pristine);
    assert!(!world.space.table().entry(page(DATA)).expect("mapped").access.contains(Access::WRITE));
    let before = world.space.stats().pages;
    world.touch(DATA, Access::WRITE).expect("data");
    world.write(DATA, b"mine").expect("data");
    let entry = world.space.table().entry(page(DATA)).expect("mapped");
    assert!(entry.access.contains(Access::WRITE));
    assert!(!entry.marks.contains(Marks::PRISTINE));
    let own = world.space.table().frame(page(DATA)).expect("mapped");
    assert_ne!(own.address(), pristine.address());
    assert_eq!(own.kind(), FrameKind::User);
    assert!(pristine.is_shared(), "kept for a relaunch");
    assert_eq!(world.space.stats().pages, before + 1);
    let mut byte = [0];
    pristine.read(0x100, &mut byte);
    assert_eq!(byte[0], world.initial(DATA));
    // The rest of the page came along.
    assert_eq!(world.byte(DATA + 4), Some(world.initial(DATA + 4)));
    // Given up, it shows the file again, from the frame that was kept.
    let fetched = world.fetched.len();
    world.space.advise(DATA / PAGE * PAGE, PAGE, 4).expect("mapped");
    assert_eq!(world.byte(DATA), Some(world.initial(DATA)));
    assert_eq!(world.space.table().frame(page(DATA)).map(|frame| frame.address()), Some(pristine.address()));
    assert_eq!(world.fetched.len(), fetched);
}

#[test]
fn what_was_written_stays_written_to_under_relro() {
    let mut world = World::new(FramePool::for_host(2 * MIB));
    let relro = DATA / PAGE * PAGE;
    world.write(DATA, b"relocated").expect("data");
    world.space.protect(relro, 2 * PAGE, 1).expect("mapped");
    let written = world.space.table().entry(page(relro)).expect("mapped");
    assert_eq!(written.access, Access::READ);
    assert!(!written.marks.contains(Marks::PRISTINE), "it was once writable");
    world.touch(relro + PAGE, Access::READ).expect("data");
    let untouched = world.space.table().entry(page(relro + PAGE)).expect("mapped");
    assert!(untouched.marks.contains(Marks::PRISTINE));
    assert_eq!(kind(world.touch(DATA, Access::WRITE)), Some((11, 2)));
    // Writable again: what was never written still goes to a copy.
    world.space.protect(relro, 2 * PAGE, RW).expect("mapped");
    assert!(world.space.table().entry(page(relro)).expect("mapped").access.contains(Access::WRITE));
    assert!(!world.space.table().entry(page(relro + PAGE)).expect("mapped").access.contains(Access::WRITE));
    world.write(relro + PAGE, b"x").expect("data");
    assert!(!world.space.table().entry(page(relro + PAGE)).expect("mapped").marks.contains(Marks::PRISTINE));
}

#[test]
fn text_made_writable_is_no_longer_pristine_once_written() {
    let mut world = World::new(FramePool::for_host(2 * MIB));
    world.touch(TEXT, Access::EXECUTE).expect("text");
    world.space.protect(TEXT, PAGE, 7).expect("mapped");
    world.write(TEXT + 5, &[0xcc]).expect("writable");
    world.space.protect(TEXT, PAGE, 5).expect("mapped");
    let entry = world.space.table().entry(page(TEXT)).expect("mapped");
    assert_eq!(entry.access, Access::READ | Access::EXECUTE);
    assert!(!entry.marks.contains(Marks::PRISTINE));
    let mut table_pages = 0;
    world.space.table.walk(PageRange::ALL, |_, entry| {
        table_pages += 1;
        assert!(!(entry.get().marks.contains(Marks::PRISTINE) && entry.get().access.contains(Access::WRITE)));
        Verdict::Keep
    });
    assert_eq!(table_pages, 32);
}

#[test]
fn wild_addresses_get_the_signals_linux_gives() {
    let mut world = World::new(FramePool::for_host(2 * MIB));
    for address in [0, 8, 0x3f_ffff, 0x7fff_ffff_f000, 0xffff_8000_0000_0000, u64::MAX] {
        let signal = world.touch(address, Access::READ).expect_err("nothing is there");
        assert_eq!((signal.number, signal.code, signal.address), (11, 1, address));
    }
    assert_eq!(kind(world.touch(TEXT, Access::WRITE)), Some((11, 2)));
    assert_eq!(kind(world.touch(RODATA, Access::EXECUTE)), Some((11, 2)));
    assert_eq!(kind(world.touch(DATA, Access::EXECUTE)), Some((11, 2)));
    assert_eq!(kind(world.touch(RODATA, Access::READ)), None);
}

#[test]
fn an_answer_that_comes_late_or_twice_does_no_harm() {
    let mut world = World::new(FramePool::for_host(2 * MIB));
    let Resolution::Fetch(fetch) = world.space.fault(DATA, Access::READ) else { panic!("not fetched yet") };
    let bytes = world.serve(&fetch);
    assert!(matches!(world.space.install(&fetch, &bytes), Resolution::Ready));
    world.write(DATA, b"mine").expect("data");
    assert!(matches!(world.space.install(&fetch, &bytes), Resolution::Ready));
    let mut text = [0; 4];
    world.read(DATA, &mut text).expect("data");
    assert_eq!(&text, b"mine");
    // Something else is there now.
    let start = DATA / PAGE * PAGE;
    world.space.map(start, 4 * PAGE, RW, super::ANONYMOUS | super::FIXED, crate::memory::Backing::Zero).expect("room");
    assert!(matches!(world.space.install(&fetch, &bytes), Resolution::Ready));
    assert_eq!(world.byte(DATA), Some(0));
    // Nothing is there now.
    world.space.unmap(start, 4 * PAGE).expect("mapped");
    let pages = world.space.stats().pages;
    assert!(matches!(world.space.install(&fetch, &bytes), Resolution::Ready));
    assert_eq!(world.space.stats().pages, pages);
}

#[test]
fn a_short_answer_is_a_bus_error() {
    let mut world = World::new(FramePool::for_host(2 * MIB));
    let Resolution::Fetch(fetch) = world.space.fault(TEXT + 3 * PAGE, Access::EXECUTE) else { panic!("not here") };
    let bytes = world.serve(&fetch);
    let short = &bytes[..3 * PAGE as usize + 10];
    let Resolution::Signal(signal) = world.space.install(&fetch, short) else { panic!("the page is not in it") };
    assert_eq!((signal.number, signal.address), (7, TEXT + 3 * PAGE));
}

#[test]
fn everything_returns_to_the_pool() {
    let pool = FramePool::for_host(2 * MIB);
    let free = pool.free_frames();
    let mut world = World::new(pool);
    for address in (TEXT..DATA + 8 * PAGE).step_by(4096) {
        let _ = world.touch(address, Access::READ);
        let _ = world.touch(address, Access::WRITE);
    }
    assert!(free - pool.free_frames() > 50);
    assert_eq!(u64::from(pool.usage().user + pool.usage().pristine), world.space.stats().pages);
    drop(world);
    assert_eq!(pool.free_frames(), free);
}
