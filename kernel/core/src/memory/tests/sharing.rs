//! Two processes of one program on a node: what one has pristine the other finds, what one writes the other never sees,
//! and when both have ended there is one table.

use alloc::vec;
use alloc::vec::Vec;

use coppice_hal::addr::UserPage;
use coppice_hal::frames::{FrameKind, FramePool};
use coppice_hal::paging::Access;

use super::{DATA, MIB, PAGE, World};
use crate::memory::Resolution;

const TEXT: u64 = 0x40_0000;

fn frame(world: &World, address: u64) -> u64 {
    let page = UserPage::containing(address).expect("a user address");
    world.space.table().frame(page).expect("mapped").address()
}

/// Touches all text and writes to the data.
fn use_all(world: &mut World, bytes: &[u8]) {
    for at in (TEXT..TEXT + 40 * PAGE).step_by(PAGE as usize) {
        world.touch(at, Access::EXECUTE).expect("text");
    }
    for number in 0..8 {
        let at = DATA + number * PAGE;
        assert_eq!(world.byte(at), Some(world.initial(at)));
        world.write(at, bytes).expect("data");
    }
}

#[test]
fn a_second_process_finds_all_that_the_first_has_or_has_written() {
    let pool = FramePool::for_host(2 * MIB);
    let mut first = World::new(pool);
    use_all(&mut first, b"first");
    let pristine = pool.usage().pristine;
    let mut second = first.beside();
    // Forty pages of text, four of data.
    assert_eq!((second.space.stats().pages_found, pool.usage().pristine), (44, pristine));
    assert_eq!(frame(&first, TEXT), frame(&second, TEXT));
    use_all(&mut second, b"second");
    assert!(second.fetched.is_empty());
    assert_eq!(pool.usage().pristine, pristine, "nothing is there twice");
    let mut bytes = [0; 6];
    first.read(DATA, &mut bytes).expect("data");
    assert_eq!(&bytes[..5], b"first");
    second.read(DATA, &mut bytes).expect("data");
    assert_eq!(&bytes, b"second");

    let counts = first.end();
    assert_eq!(counts.kept, 44);
    assert_eq!(second.byte(TEXT), Some(second.initial(TEXT)));
    let counts = second.end();
    assert_eq!(counts.kept, 44);
    assert_eq!(pool.usage().pristine, pristine);
    assert_eq!(first.retention.held().iter().map(|held| held.pages).collect::<Vec<_>>(), [44]);
    first.relaunch();
    use_all(&mut first, b"again");
    assert!(first.fetched.is_empty());
}

#[test]
fn what_two_processes_fetched_each_becomes_one_table() {
    let pool = FramePool::for_host(4 * MIB);
    let free = pool.free_frames();
    let mut first = World::new(pool);
    let mut second = first.beside();
    // Both start cold, and neither asks the other. Runs of 32 pages: the first has 0..32, the second 0..40.
    first.touch(TEXT, Access::EXECUTE).expect("text");
    second.touch(TEXT, Access::EXECUTE).expect("text");
    second.touch(TEXT + 39 * PAGE, Access::EXECUTE).expect("text");
    first.write(DATA, b"first").expect("data");
    assert_ne!(frame(&first, TEXT), frame(&second, TEXT));
    let with_data = pool.usage().pristine;
    first.end();
    second.end();
    let held = first.retention.held();
    assert_eq!(held.len(), 1);
    assert_eq!(u64::from(pool.usage().pristine), held[0].pages, "of each page one frame is left");
    assert!(u64::from(with_data) > held[0].pages && held[0].pages >= 44);
    assert_eq!(held[0].bytes, (held[0].pages + u64::from(pool.usage().tables) - 2) * PAGE);
    first.relaunch();
    use_all(&mut first, b"again");
    assert!(first.fetched.is_empty(), "all that any of them had is there");
    first.end();
    let retention = alloc::sync::Arc::clone(&first.retention);
    drop((first, second));
    retention.discard(None);
    super::reap(&retention);
    assert_eq!(pool.free_frames(), free);
}

#[test]
fn discarding_while_one_still_runs_takes_nothing_from_it() {
    let pool = FramePool::for_host(2 * MIB);
    let mut first = World::new(pool);
    use_all(&mut first, b"first");
    let mut second = first.beside();
    first.end();
    assert_eq!(first.retention.discard(None).len(), 1);
    for at in (TEXT..TEXT + 40 * PAGE).step_by(509) {
        assert_eq!(second.byte(at), Some(second.initial(at)), "{at:#x}");
    }
    // It is the only holder now, and what it writes is its own.
    second.write(DATA, b"second").expect("data");
    assert_eq!(second.end().kept, 44);
    second.relaunch();
    assert_eq!(second.byte(DATA), Some(second.initial(DATA)));
    // The order to keep another program's table takes it, too.
    assert!(second.retention.retain(coppice_protocol::ids::ProgramId([9; 32])).is_none());
}

#[test]
fn without_memory_a_shared_frame_is_never_written() {
    let pool = FramePool::for_host(2 * MIB);
    let mut first = World::new(pool);
    first.touch(DATA, Access::READ).expect("data");
    let mut second = first.beside();
    let held: Vec<_> = core::iter::from_fn(|| pool.alloc(FrameKind::User)).collect();
    assert!(matches!(second.space.fault(DATA, Access::WRITE), Resolution::OutOfMemory));
    assert_eq!(first.byte(DATA), Some(first.initial(DATA)));
    // Once the first has gone, and what it left was given back, the second has the frame for itself.
    first.end();
    assert!(matches!(second.space.fault(DATA, Access::WRITE), Resolution::Ready));
    drop(held);
    second.write(DATA, b"second").expect("data");
    second.end();
    second.relaunch();
    assert_eq!(second.byte(DATA), Some(second.initial(DATA)));
}

#[test]
fn pages_come_from_a_sibling_wherever_they_are_mapped() {
    let pool = FramePool::for_host(2 * MIB);
    let mut first = World::new(pool);
    let mut second = first.beside();
    first.touch(TEXT, Access::EXECUTE).expect("text");
    first.write(DATA, b"first").expect("data");
    // The first has moved a page of text; the second wants to see one elsewhere.
    first.space.remap(TEXT + 3 * PAGE, PAGE, PAGE, 3, 0x1000_0000).expect("moved");
    let away = second.space.remap(TEXT + 5 * PAGE, PAGE, PAGE, 3, 0x1000_0000).expect("moved");
    second.take_from(&first, away);
    second.take_from(&first, TEXT + 3 * PAGE);
    second.take_from(&first, TEXT + 7 * PAGE);
    second.take_from(&first, DATA);
    assert_eq!(frame(&second, away), frame(&first, TEXT + 5 * PAGE));
    let mut bytes = vec![0; PAGE as usize];
    for at in [away, TEXT + 7 * PAGE, DATA / PAGE * PAGE] {
        second.read(at, &mut bytes).expect("mapped");
        let origin = if at == away { TEXT + 5 * PAGE } else { at };
        assert!(bytes.iter().zip(origin..).all(|(byte, at)| *byte == second.initial(at)), "{at:#x}");
    }
    assert!(!second.space.has_page(TEXT + 3 * PAGE), "moved away at the sibling: to be fetched");
    assert!(second.fetched.is_empty());
    // Rights are those of the area, never writing.
    let entry = second.space.table().entry(UserPage::containing(DATA).expect("data")).expect("there");
    assert_eq!(entry.access, Access::READ);
}
