//! Pages as they were, while the program goes on.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use coppice_hal::addr::USER_END;
use coppice_hal::frames::FramePool;
use coppice_hal::paging::Access;

use super::{ANONYMOUS, DATA, MIB, PAGE, PROGRAM, RW, World, pattern};
use crate::memory::{
    AddressSpace, Backing, GivenUp, Pages, SharedMemory, Snapshot, SpaceRecord, Taken, WINDOW_PAGES, Window,
};
use crate::quota::tests::quota;

const SHARED: u64 = 0x21;

/// Makes the address space data and takes a snapshot of it.
fn taken(world: &mut World) -> (Arc<Snapshot>, SpaceRecord, Pages) {
    let none = AddressSpace::new(world.pool, Arc::clone(&world.retention)).expect("memory");
    let space = core::mem::replace(&mut world.space, none);
    let (record, mut pages) = space.into_record(|_| 0);
    let snapshot = pages.snapshot().expect("memory");
    (snapshot, record, pages)
}

/// As [`taken`], and it goes on.
fn snapshot(world: &mut World) -> Arc<Snapshot> {
    world.stand(None, |pages| pages.snapshot().expect("memory"))
}

/// All that is in one: windows, with the bytes of each.
fn all(snapshot: &Snapshot) -> Vec<(Window, Vec<u8>)> {
    let mut windows = Vec::new();
    loop {
        let mut bytes = Vec::new();
        match snapshot.take(&mut bytes, |_| None).expect("not given up") {
            Some(Taken::Changed(window)) => windows.push((window, bytes)),
            Some(Taken::Unchanged(window)) => panic!("{window:?} is not known"),
            None => return windows,
        }
    }
}

/// The bytes of a page in it.
fn page(windows: &[(Window, Vec<u8>)], address: u64) -> Option<Vec<u8>> {
    windows.iter().find_map(|(window, bytes)| {
        let mut filled = bytes.chunks(PAGE as usize);
        window.pages(window.filled | window.zeros).find_map(|page| {
            let bytes = if window.is_zero(page) { vec![0; PAGE as usize] } else { filled.next()?.to_vec() };
            (page.address() == address).then_some(bytes)
        })
    })
}

fn anonymous(world: &mut World, pages: u64) -> u64 {
    world.space.map(0, pages * PAGE, RW, ANONYMOUS, Backing::Zero).expect("room")
}

#[test]
fn it_shows_what_was_there_whatever_is_written_then() {
    let mut world = World::new(FramePool::for_host(8 * MIB));
    let at = anonymous(&mut world, 100);
    let before = pattern(100 * PAGE as usize, 3);
    world.write(at, &before).expect("mapped");
    world.write(DATA, b"data").expect("mapped");
    let snapshot = snapshot(&mut world);
    world.write(at, &pattern(100 * PAGE as usize, 4)).expect("mapped");
    world.write(DATA, b"else").expect("mapped");
    let windows = all(&snapshot);
    for (number, bytes) in before.chunks(PAGE as usize).enumerate() {
        assert!(page(&windows, at + number as u64 * PAGE).expect("there") == bytes, "page {number}");
    }
    let data = page(&windows, DATA / PAGE * PAGE).expect("there");
    assert_eq!(data[(DATA % PAGE) as usize..][..4], *b"data");
    // The program sees what it wrote.
    let mut now = [0; 4];
    world.read(DATA, &mut now).expect("mapped");
    assert_eq!(now, *b"else");
}

#[test]
fn only_what_is_the_programs_own_is_in_it() {
    let mut world = World::new(FramePool::for_host(8 * MIB));
    // A page of its file that it has looked at, one of zeros, and none that it has not touched.
    assert_eq!(world.byte(0x40_0000), Some(world.initial(0x40_0000)));
    let at = anonymous(&mut world, 40);
    world.write(at + PAGE, &[0; 8]).expect("mapped");
    world.write(at + 33 * PAGE, &[1; 8]).expect("mapped");
    let windows = all(&snapshot(&mut world));
    assert_eq!(page(&windows, 0x40_0000), None);
    assert_eq!(page(&windows, at), None);
    let pages: u32 = windows.iter().map(|(window, _)| window.filled.count_ones() + window.zeros.count_ones()).sum();
    assert_eq!(pages, 2);
    assert_eq!(windows.iter().map(|(_, bytes)| bytes.len()).sum::<usize>(), PAGE as usize);
    assert!(windows.iter().all(|(window, _)| window.pages(u32::MAX).count() as u64 == WINDOW_PAGES));
}

#[test]
fn memory_that_others_show_is_not_in_it_but_for_pages_that_were_written_privately() {
    let mut world = World::new(FramePool::for_host(8 * MIB));
    let shared = world.space.map(0, 4 * PAGE, RW, SHARED, Backing::Zero).expect("room");
    world.write(shared, &[7; 8]).expect("mapped");
    let (snapshot, _, pages) = taken(&mut world);
    assert_eq!(all(&snapshot).len(), 0);
    let [memory] = pages.memories() else { panic!("one memory") };
    let snapshot = memory.snapshot().expect("memory");
    assert_eq!(memory.write(Some(0), &[8; 8]).2, Ok(()));
    assert_eq!(page(&all(&snapshot), 0).expect("there")[..8], [7; 8]);
}

/// Two processes show the memory. What either has mapped when it stands, and touches then, is as it was for whoever
/// keeps it, and the same for both.
#[test]
fn what_others_write_to_shared_memory_is_not_in_it() {
    let pool = FramePool::for_host(8 * MIB);
    let mut worlds = [World::new(pool), World::new(pool)];
    let memory = Arc::new(SharedMemory::new(pool, Arc::clone(&worlds[0].retention), 40 * PAGE, None));
    let backing = Backing::Shared { memory: Arc::clone(&memory), offset: 0, may_write: true };
    let [one, other] = &mut worlds;
    let [at, there] = [&mut *one, &mut *other].map(|world| {
        let at = world.space.map(0, 40 * PAGE, RW, 1, backing.clone()).expect("room");
        world.write(at, &pattern(40 * PAGE as usize, 3)).expect("mapped");
        at
    });
    let resident = one.space.stats().pages;
    for world in [&mut *one, &mut *other] {
        world.stand(None, |pages| pages.snapshot().map(drop)).expect("memory");
    }
    let snapshot = memory.snapshot().expect("memory");
    assert_eq!((snapshot.pages(), one.space.stats().pages), (40, resident - 40));
    let frames = pool.usage().user;
    one.store(at, 9).expect("mapped");
    other.store(there + PAGE + 1, 9).expect("mapped");
    one.store(at + 39 * PAGE, 9).expect("mapped");
    // One for each that was written, and no more when it is written again.
    one.store(at + 1, 9).expect("mapped");
    other.store(there + 2, 9).expect("mapped");
    assert_eq!((other.byte(there), pool.usage().user), (Some(9), frames + 3));
    // Of two windows the first is kept when the second is written.
    let mut windows = Vec::new();
    let mut bytes = Vec::new();
    let Ok(Some(Taken::Changed(window))) = snapshot.take(&mut bytes, |_| None) else { panic!("there are two") };
    windows.push((window, bytes));
    other.store(there + 33 * PAGE, 9).expect("mapped");
    other.store(there + 3 * PAGE, 9).expect("mapped");
    windows.extend(all(&snapshot));
    let before = pattern(40 * PAGE as usize, 3);
    for (number, bytes) in before.chunks(PAGE as usize).enumerate() {
        assert!(page(&windows, number as u64 * PAGE).expect("there") == bytes, "page {number}");
    }
    drop(snapshot);
    one.store(at + 2 * PAGE, 9).expect("nobody keeps it");
    assert_eq!(other.byte(there + 2 * PAGE), Some(9));
}

/// As of a process's own pages: those who run come first.
#[test]
fn shared_memory_is_given_up_before_a_program_lacks_memory() {
    let mut world = World::new(FramePool::for_host(2 * MIB));
    let at = world.space.map(0, 400 * PAGE, RW, SHARED, Backing::Zero).expect("room");
    let mut filled = 0;
    while filled < 400 && world.pool.available_frames() > 40 {
        world.write(at + filled * PAGE, &[1; 8]).expect("memory");
        filled += 1;
    }
    let memories = world.stand(None, |pages| {
        pages.snapshot().map(drop).expect("memory");
        pages.memories().to_vec()
    });
    let snapshot = memories[0].snapshot().expect("memory");
    for number in 0..filled {
        world.write(at + number * PAGE, &[2; 8]).expect("the snapshot is given up instead");
    }
    assert_eq!(snapshot.take(&mut Vec::new(), |_| None), Err(GivenUp));
    assert!((0..filled).all(|number| world.byte(at + number * PAGE) == Some(2)));
}

/// The same when the memory is wanted for something else.
#[test]
fn copies_of_shared_memory_are_given_up_for_other_pages() {
    let mut world = World::new(FramePool::for_host(2 * MIB));
    let at = world.space.map(0, 100 * PAGE, RW, SHARED, Backing::Zero).expect("room");
    let own = anonymous(&mut world, 400);
    world.write(at, &pattern(100 * PAGE as usize, 1)).expect("memory");
    let memories = world.stand(None, |pages| {
        pages.snapshot().map(drop).expect("memory");
        pages.memories().to_vec()
    });
    let snapshot = memories[0].snapshot().expect("memory");
    world.write(at, &pattern(100 * PAGE as usize, 2)).expect("memory");
    let room = world.pool.available_frames() as u64;
    for number in 0..(room + 50).min(400) {
        world.write(own + number * PAGE, &[1; 8]).expect("it is given up first");
    }
    assert_eq!(snapshot.take(&mut Vec::new(), |_| None), Err(GivenUp));
}

/// A process whose every page is written again while they are kept needs twice as many: without them it goes on, and
/// what was to be kept is given up.
#[test]
fn it_is_given_up_before_the_program_lacks_memory() {
    let mut world = World::new(FramePool::for_host(2 * MIB));
    let at = anonymous(&mut world, 400);
    let mut filled = 0;
    while filled < 400 && world.pool.available_frames() > 40 {
        world.write(at + filled * PAGE, &[1; 8]).expect("memory");
        filled += 1;
    }
    let snapshot = snapshot(&mut world);
    for number in 0..filled {
        world.write(at + number * PAGE, &[2; 8]).expect("the snapshot is given up instead");
    }
    assert_eq!(snapshot.take(&mut Vec::new(), |_| None), Err(GivenUp));
    for number in 0..filled {
        assert_eq!(world.byte(at + number * PAGE), Some(2));
    }
}

#[test]
fn nothing_is_left_of_it() {
    let pool = FramePool::for_host(4 * MIB);
    let free = pool.free_frames();
    let mut world = World::new(pool);
    let at = anonymous(&mut world, 30);
    world.write(at, &pattern(30 * PAGE as usize, 3)).expect("mapped");
    let kept = snapshot(&mut world);
    world.write(at, &[5; 8 * PAGE as usize]).expect("mapped");
    drop(all(&kept));
    drop(kept);
    let given_up = snapshot(&mut world);
    assert!(given_up.give_up() && !given_up.give_up());
    drop(given_up);
    world.space.cut_back();
    drop(world);
    assert_eq!(pool.free_frames(), free);
}

/// A page of a window is where it was, with the rights of its area; what the image has elsewhere by now is fetched.
#[test]
fn pages_are_put_where_they_were() {
    let mut world = World::new(FramePool::for_host(8 * MIB));
    let at = anonymous(&mut world, 50);
    let before = pattern(50 * PAGE as usize, 3);
    world.write(at, &before).expect("mapped");
    world.write(DATA, b"data").expect("mapped");
    world.space.protect(at, PAGE, 1).expect("mapped");
    let (snapshot, record, pages) = taken(&mut world);
    drop(pages);
    let windows = all(&snapshot);
    // Another node, on which the program has not run.
    let mut other = World::on_node(world.pool, Arc::clone(&world.retention), PROGRAM, world.file.clone());
    assert_eq!(other.byte(0x40_0000), Some(other.initial(0x40_0000)));
    let none = AddressSpace::new(other.pool, Arc::clone(&other.retention)).expect("memory");
    let pages = core::mem::replace(&mut other.space, none).into_pages(Vec::new());
    other.space = record.make(pages, |_| None, &quota()).expect("as it was");
    other.space.keep_what_fits();
    for (window, bytes) in &windows {
        let mut filled = bytes.chunks(PAGE as usize);
        for page in window.pages(window.filled | window.zeros) {
            let bytes = if window.is_zero(page) { None } else { filled.next() };
            other.space.put_page(page, bytes).expect("memory");
        }
    }
    let mut now = vec![0; before.len()];
    other.read(at, &mut now).expect("mapped");
    assert!(now == before);
    assert!(!other.space.may_access(at, Access::WRITE) && other.write(at, b"x").is_err());
    other.write(at + PAGE, b"x").expect("mapped to be written");
    let mut data = [0; 4];
    other.read(DATA, &mut data).expect("mapped");
    assert_eq!(data, *b"data");
    assert_eq!(other.byte(0x40_1000), Some(other.initial(0x40_1000)));
}

#[test]
fn a_window_beyond_all_pages_has_none() {
    for number in [u64::MAX, u64::MAX / WINDOW_PAGES, USER_END / PAGE / WINDOW_PAGES + 1] {
        let window = Window { number, filled: u32::MAX, zeros: u32::MAX };
        assert_eq!(window.pages(u32::MAX).count(), 0, "{number}");
    }
}
