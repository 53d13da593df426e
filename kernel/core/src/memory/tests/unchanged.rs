//! What is unchanged since the last snapshot, and each way in which a page comes to be another.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use coppice_hal::addr::UserPage;
use coppice_hal::frames::{FrameKind, FramePool};
use coppice_hal::paging::Access;

use super::keeper::Keeper;
use super::{ANONYMOUS, DATA, FIXED, MIB, PAGE, PROGRAM, RW, TestFile, World, pattern};
use crate::memory::{
    AddressSpace, Backing, FileChange, FileSource, SharedMemory, Snapshot, Taken, WINDOW_PAGES, Window,
};
use crate::quota::tests::quota;

/// Where two windows begin, all of whose pages have been written.
const AT: u64 = 0x7000_0000;
const WINDOW: u64 = WINDOW_PAGES * PAGE;
const PAGES: u64 = 2 * WINDOW_PAGES;
const FIRST: u64 = AT / WINDOW;
const TO_FIXED: u64 = 3;
const DONT_NEED: u64 = 4;

fn world() -> World {
    let mut world = World::new(FramePool::for_host(8 * MIB));
    world.space.map(AT, PAGES * PAGE, RW, ANONYMOUS | FIXED, Backing::Zero).expect("room");
    world.write(AT, &pattern((PAGES * PAGE) as usize, 3)).expect("mapped");
    world
}

fn snapshot(world: &mut World) -> Arc<Snapshot> {
    world.stand(None, |pages| pages.snapshot().expect("memory"))
}

/// Whether what is kept is what the program sees.
fn is_kept(keeper: &Keeper, world: &mut World) -> bool {
    (0..PAGES).map(|number| AT + number * PAGE).all(|at| {
        let mut bytes = vec![0; PAGE as usize];
        let is_there = world.read(at, &mut bytes).is_ok();
        let kept = keeper.page(at);
        if is_there { kept.unwrap_or_else(|| vec![0; PAGE as usize]) == bytes } else { kept.is_none() }
    })
}

/// Which windows are unchanged behind a change, made when a snapshot was kept, or before that. All is kept, too.
fn unchanged(change: impl Fn(&mut World), while_there: bool) -> Vec<u64> {
    let (mut world, mut keeper) = (world(), Keeper::default());
    // What is known of the first one is that nothing is.
    assert_eq!(keeper.keep(&snapshot(&mut world)), Ok(vec![]));
    let before = snapshot(&mut world);
    if while_there {
        change(&mut world);
    }
    assert_eq!(keeper.keep(&before), Ok(vec![FIRST, FIRST + 1]), "nothing had changed");
    drop(before);
    if !while_there {
        change(&mut world);
    }
    let unchanged = keeper.keep(&snapshot(&mut world)).expect("memory");
    assert!(is_kept(&keeper, &mut world));
    // Again, with what came of that.
    keeper.keep(&snapshot(&mut world)).expect("memory");
    assert!(is_kept(&keeper, &mut world));
    unchanged
}

/// Whether the first window is noticed to be another, whenever that is done, and the second is not.
fn is_noticed(change: impl Fn(&mut World)) -> bool {
    [false, true].map(|while_there| unchanged(&change, while_there)) == [[FIRST + 1], [FIRST + 1]]
}

fn page(address: u64) -> UserPage {
    UserPage::containing(address).expect("a user's")
}

#[test]
fn what_is_read_stays_unchanged() {
    let look = |world: &mut World| {
        world.touch(AT, Access::READ).expect("mapped");
        world.read(AT, &mut vec![0; (PAGES * PAGE) as usize]).expect("mapped");
        world.space.load_word(AT + PAGE).expect("mapped");
        world.space.peek(AT, AT + PAGE, 100, &mut Vec::new());
        world.space.protect(AT, PAGES * PAGE, RW).expect("mapped");
        // What lies elsewhere is not of the same window.
        world.write(DATA, b"data").expect("mapped");
        world.stand(None, |_| ());
    };
    assert_eq!([false, true].map(|while_there| unchanged(look, while_there)), [[FIRST, FIRST + 1]; 2]);
}

#[test]
fn a_write_is_noticed() {
    // By a call, from the outside, and by the program.
    assert!(is_noticed(|world| world.write(AT + PAGE - 2, b"xyz").expect("mapped")));
    assert!(is_noticed(|world| world.space.write_u32(AT + 8, 7).expect("mapped")));
    assert!(is_noticed(|world| assert!(world.space.update_word(AT + 8, |word| Some(word + 1)).is_ok())));
    assert!(is_noticed(|world| world.space.poke(AT + PAGE, b"x").expect("mapped")));
    assert!(is_noticed(|world| assert!(world.space.exchange(AT + PAGE, 0, |_| true).is_ok())));
    assert!(is_noticed(|world| world.space.put_page(page(AT), Some(b"x")).expect("memory")));
    assert!(is_noticed(|world| world.store(AT + 31 * PAGE, 7).expect("mapped")));
    // It may write when it likes from now on.
    assert!(is_noticed(|world| world.touch(AT + 31 * PAGE, Access::WRITE).expect("mapped")));
}

#[test]
fn a_write_that_changes_nothing_is_taken_for_one() {
    assert!(is_noticed(|world| {
        let mut bytes = [0; 9];
        world.read(AT, &mut bytes).expect("mapped");
        world.write(AT, &bytes).expect("mapped");
    }));
}

#[test]
fn what_is_mapped_anew_is_noticed() {
    let anew = |world: &mut World| {
        world.space.unmap(AT, PAGE).expect("mapped");
        world.space.map(AT, PAGE, RW, ANONYMOUS | FIXED, Backing::Zero).expect("room");
    };
    assert!(is_noticed(|world| world.space.unmap(AT + PAGE, PAGE).expect("mapped")));
    assert!(is_noticed(anew));
    assert!(is_noticed(|world| {
        anew(world);
        assert_eq!(world.byte(AT), Some(0));
    }));
    assert!(is_noticed(|world| {
        anew(world);
        world.write(AT, b"x").expect("mapped");
    }));
    assert!(is_noticed(|world| {
        world.space.map(AT, 3 * PAGE, RW, ANONYMOUS | FIXED, Backing::Zero).expect("room");
        assert_eq!(world.byte(AT + PAGE), Some(0));
    }));
}

#[test]
fn what_is_not_needed_is_noticed() {
    for advice in [DONT_NEED, 8] {
        assert!(is_noticed(|world| world.space.advise(AT + PAGE, PAGE, advice).expect("mapped")));
        assert!(is_noticed(|world| {
            world.space.advise(AT, WINDOW, advice).expect("mapped");
            assert_eq!(world.byte(AT), Some(0));
        }));
        assert!(is_noticed(|world| {
            world.space.advise(AT, WINDOW, advice).expect("mapped");
            world.store(AT + 5 * PAGE, 7).expect("mapped");
        }));
    }
}

#[test]
fn what_moves_is_noticed_where_it_comes() {
    let go = |world: &mut World, from: u64, to: u64| {
        assert_eq!(world.space.remap(from, PAGE, PAGE, TO_FIXED, to), Ok(to));
    };
    assert!(is_noticed(|world| go(world, AT + 3 * PAGE, AT)));
    assert!(is_noticed(|world| go(world, AT, 0x6000_0000)));
    assert!(is_noticed(|world| {
        go(world, AT, 0x6000_0000);
        go(world, 0x6000_0000, AT);
    }));
    // Two change places: each window has as many as before.
    for while_there in [false, true] {
        let swap = |world: &mut World| {
            go(world, AT, 0x6000_0000);
            go(world, AT + WINDOW, AT);
            go(world, 0x6000_0000, AT + WINDOW);
        };
        assert_eq!(unchanged(swap, while_there), []);
    }
}

#[test]
fn a_write_behind_other_rights_is_noticed() {
    for rights in [0, 1, 4] {
        assert!(is_noticed(|world| {
            world.space.protect(AT, PAGE, rights).expect("mapped");
            assert_eq!(world.write(AT, b"x"), Err(0));
            world.space.protect(AT, PAGE, RW).expect("mapped");
            world.write(AT, b"x").expect("mapped");
        }));
        assert!(is_noticed(|world| {
            world.space.protect(AT, PAGE, rights).expect("mapped");
            world.space.protect(AT, PAGE, RW).expect("mapped");
            world.store(AT, 7).expect("mapped");
        }));
        // A debugger writes nevertheless.
        assert!(is_noticed(|world| {
            world.space.protect(AT, PAGE, rights).expect("mapped");
            world.space.poke(AT + 7, b"x").expect("mapped");
            world.space.protect(AT, PAGE, RW).expect("mapped");
        }));
    }
}

/// Pages that were not to be written at the first snapshot, one of them the program's.
#[test]
fn a_debugger_is_noticed_where_nobody_else_may_write() {
    const TEXT: u64 = 0x40_0000;
    let (mut world, mut keeper) = (world(), Keeper::default());
    world.touch(TEXT, Access::EXECUTE).expect("mapped");
    world.space.protect(AT, WINDOW, 1).expect("mapped");
    world.space.poke(TEXT, b"x").expect("it is there");
    for byte in [b'y', b'z'] {
        keeper.keep(&snapshot(&mut world)).expect("memory");
        assert_eq!(keeper.keep(&snapshot(&mut world)), Ok(vec![TEXT / WINDOW, FIRST, FIRST + 1]));
        world.space.poke(TEXT + 1, &[byte]).expect("it is there");
        world.space.exchange(AT, byte, |_| true).expect("it is there");
        assert_eq!(keeper.keep(&snapshot(&mut world)), Ok(vec![FIRST + 1]));
        assert_eq!(keeper.page(TEXT).expect("it is there")[..2], [b'x', byte]);
        assert!(is_kept(&keeper, &mut world));
    }
}

#[test]
fn a_page_that_came_beside_others_is_noticed() {
    let (mut world, mut keeper) = (world(), Keeper::default());
    world.space.unmap(AT, PAGE).expect("mapped");
    keeper.keep(&snapshot(&mut world)).expect("memory");
    world.space.map(AT, PAGE, RW, ANONYMOUS | FIXED, Backing::Zero).expect("room");
    assert_eq!(keeper.keep(&snapshot(&mut world)), Ok(vec![FIRST, FIRST + 1]), "nothing of it is in memory");
    assert_eq!(world.byte(AT), Some(0));
    assert_eq!(keeper.keep(&snapshot(&mut world)), Ok(vec![FIRST + 1]));
    assert_eq!(keeper.keep(&snapshot(&mut world)), Ok(vec![FIRST, FIRST + 1]));
    assert_eq!(keeper.page(AT), Some(vec![0; PAGE as usize]));
}

#[test]
fn a_file_that_changed_is_noticed() {
    let (mut world, mut keeper) = (world(), Keeper::default());
    let file = TestFile::new(4 * PAGE as usize, 7);
    let backing = Backing::File { file: file.clone(), offset: 0 };
    world.space.map(AT, 4 * PAGE, 1, 2 | FIXED, backing).expect("room");
    assert_eq!(world.byte(AT), Some(file.bytes[0]));
    let mut snapshot = |world: &mut World| {
        keeper.keep(&world.stand(Some(&file), |pages| pages.snapshot().expect("memory"))).expect("memory")
    };
    assert_eq!(snapshot(&mut world), []);
    assert_eq!(snapshot(&mut world), [FIRST, FIRST + 1]);
    // It is the file's still.
    world.space.file_changed(file.identity(), &FileChange::Written(0..5));
    assert!(!world.space.has_page(AT) && world.space.has_page(AT + PAGE));
    assert_eq!(world.byte(AT), Some(file.bytes[0]));
    assert_eq!(snapshot(&mut world), [FIRST + 1]);
}

/// Memory that others show, too, shown privately: what is written there is the process's own from then on.
#[test]
fn a_private_page_of_shared_memory_is_noticed() {
    let (mut world, mut keeper) = (world(), Keeper::default());
    let memory = Arc::new(SharedMemory::new(world.pool, Arc::clone(&world.retention), 8 * PAGE, None));
    assert_eq!(memory.write(Some(0), &pattern(8 * PAGE as usize, 9)).2, Ok(()));
    let backing = Backing::Shared { memory: Arc::clone(&memory), offset: 0, may_write: false };
    world.space.map(AT, 8 * PAGE, RW, 2 | FIXED, backing).expect("room");
    world.write(AT, b"own").expect("mapped");
    world.byte(AT + PAGE).expect("mapped");
    keeper.keep(&snapshot(&mut world)).expect("memory");
    assert_eq!((keeper.page(AT).is_some(), keeper.page(AT + PAGE)), (true, None));
    // What others write where it has written nothing is not its own.
    assert_eq!(memory.write(Some(0), &[5; 2 * PAGE as usize]).2, Ok(()));
    assert_eq!(keeper.keep(&snapshot(&mut world)), Ok(vec![FIRST, FIRST + 1]));
    for at in [AT, AT + PAGE, AT + 2 * PAGE] {
        world.write(at, b"new").expect("mapped");
        assert_eq!(keeper.keep(&snapshot(&mut world)), Ok(vec![FIRST + 1]));
        assert_eq!(keeper.page(at).expect("own")[..3], *b"new");
    }
    assert_eq!(keeper.keep(&snapshot(&mut world)), Ok(vec![FIRST, FIRST + 1]));
    world.space.advise(AT, PAGE, DONT_NEED).expect("mapped");
    assert_eq!(keeper.keep(&snapshot(&mut world)), Ok(vec![FIRST + 1]));
    assert_eq!(keeper.page(AT), None);
}

/// Between the cut of a memory and the moment when all have forgotten its frames, others still write to these.
#[test]
fn a_frame_of_a_memory_that_was_cut_is_never_unchanged() {
    let (mut world, mut keeper) = (world(), Keeper::default());
    let memory = Arc::new(SharedMemory::new(world.pool, Arc::clone(&world.retention), PAGE, None));
    let backing = Backing::Shared { memory: Arc::clone(&memory), offset: 0, may_write: true };
    let mut other = World::with(world.pool, world.file.clone());
    let shared = other.space.map(0, PAGE, RW, 1, backing.clone()).expect("room");
    world.space.map(AT, PAGE, RW, 2 | FIXED, backing).expect("room");
    other.write(shared, b"one").expect("mapped");
    assert_eq!(world.byte(AT), Some(b'o'));
    assert_eq!(memory.set_length(0), Some(0));
    for bytes in [b"two", b"six"] {
        assert_eq!(keeper.keep(&snapshot(&mut world)).map(|windows| windows.contains(&FIRST)), Ok(false));
        other.write(shared, bytes).expect("it is there");
        keeper.keep(&snapshot(&mut world)).expect("memory");
        assert_eq!(keeper.page(AT).expect("it is there")[..3], *bytes);
    }
}

#[test]
fn a_snapshot_that_failed_has_a_number_too() {
    let (mut world, mut keeper) = (world(), Keeper::default());
    // Far from each other, so that there is memory for the tables of some.
    let far = [0x1000_0000_0000, 0x2000_0000_0000, 0x3000_0000_0000];
    for at in far {
        world.space.map(at, PAGE, RW, ANONYMOUS | FIXED, Backing::Zero).expect("room");
        world.write(at, b"far").expect("mapped");
    }
    let first = snapshot(&mut world);
    assert!(first.number() == 1 && !first.follows(0) && !first.follows(1));
    keeper.keep(&first).expect("memory");
    for left in 0..9 {
        let before = snapshot(&mut world);
        keeper.keep(&before).expect("memory");
        world.write(far[0], &[left]).expect("mapped");
        world.stand(None, |pages| {
            let held: Vec<_> =
                (u32::from(left)..world.pool.available_frames()).map(|_| world.pool.alloc(FrameKind::User)).collect();
            assert!(pages.snapshot().is_err(), "{left} frames are not enough");
            drop(held);
        });
        let after = snapshot(&mut world);
        assert_eq!((after.number(), after.follows(before.number())), (before.number() + 2, false));
        assert_eq!(keeper.keep(&after), Ok(vec![]), "nobody has the one before");
        assert_eq!(keeper.page(far[0]).expect("it is there")[0], left);
        assert!(is_kept(&keeper, &mut world));
    }
    // So has one that was given up, or not taken as a whole.
    for taken in [0, 1] {
        world.write(AT, &[taken]).expect("mapped");
        let given_up = snapshot(&mut world);
        (0..taken).for_each(|_| assert!(given_up.take(&mut Vec::new(), |_| None).expect("memory").is_some()));
        given_up.give_up();
        assert_eq!(keeper.keep(&snapshot(&mut world)), Ok(vec![]));
        assert!(is_kept(&keeper, &mut world));
    }
    assert_eq!(keeper.keep(&snapshot(&mut world)).map(|windows| windows.len()), Ok(5));
}

/// On another node nothing is known of it.
#[test]
fn numbers_begin_anew_where_a_process_is_made_again() {
    let mut world = world();
    snapshot(&mut world);
    world.stand(None, |_| ());
    assert_eq!(snapshot(&mut world).number(), 2);
    let none = AddressSpace::new(world.pool, Arc::clone(&world.retention)).expect("memory");
    let (record, _) = core::mem::replace(&mut world.space, none).into_record(|_| 0);
    let other = World::on_node(world.pool, Arc::clone(&world.retention), PROGRAM, world.file.clone());
    world.space = record.make(other.space.into_pages(Vec::new()), |_| None, &quota()).expect("as it was");
    world.space.put_page(page(AT), Some(b"x")).expect("memory");
    let snapshot = snapshot(&mut world);
    assert_eq!(snapshot.number(), 1);
    // Whatever somebody thinks to know of it.
    let known = Window { number: FIRST, filled: 1, zeros: 0 };
    let taken = snapshot.take(&mut Vec::new(), |_| Some(known));
    assert_eq!(taken, Ok(Some(Taken::Changed(known))));
}

#[test]
fn frames_are_given_as_they_were() {
    let mut world = world();
    world.write(AT + PAGE, &[0; PAGE as usize]).expect("mapped");
    let before = snapshot(&mut world);
    let mut frames = Vec::new();
    let taken = before.take_frames(&mut frames, |_| None).expect("memory");
    let window = Window { number: FIRST, filled: !2, zeros: 2 };
    assert_eq!((taken, frames.len()), (Some(Taken::Changed(window)), 31));
    // Giving up takes nothing away that was given out, and the program writes elsewhere.
    before.give_up();
    world.write(AT, &[7; WINDOW as usize]).expect("mapped");
    let bytes = pattern((PAGES * PAGE) as usize, 3);
    let filled = bytes.chunks(PAGE as usize).take(32).enumerate().filter(|(index, _)| *index != 1);
    for (frame, (_, bytes)) in frames.iter().zip(filled) {
        let mut now = vec![0; PAGE as usize];
        frame.read(0, &mut now);
        assert!(now == bytes);
    }
    drop(frames);
    // What is unchanged is not given.
    let (first, mut frames) = (snapshot(&mut world), Vec::new());
    let first = first.take_frames(&mut frames, |_| None).expect("memory").expect("a window");
    let Taken::Changed(window) = first else { panic!("it was written") };
    frames.clear();
    let again = snapshot(&mut world).take_frames(&mut frames, |_| Some(window));
    assert!(matches!(again, Ok(Some(Taken::Unchanged(same))) if same == window) && frames.is_empty());
}

/// Of memory that others show, too, whatever was asked for to be written is another.
#[test]
fn shared_memory_is_unchanged_until_it_is_touched() {
    let mut world = world();
    let memory = Arc::new(SharedMemory::new(world.pool, Arc::clone(&world.retention), 40 * PAGE, None));
    let backing = Backing::Shared { memory: Arc::clone(&memory), offset: 0, may_write: true };
    let shared = world.space.map(0, 40 * PAGE, RW, 1, backing).expect("room");
    let take = |world: &mut World| {
        world.stand(None, |pages| pages.snapshot().map(drop)).expect("memory");
        let snapshot = memory.snapshot().expect("memory");
        let mut windows = Vec::new();
        let known = |number| Some(Window { number, filled: 1, zeros: 0 });
        while let Some(window) = snapshot.take(&mut Vec::new(), known).expect("not given up") {
            windows.push(matches!(window, Taken::Unchanged(_)));
        }
        (snapshot.number(), windows)
    };
    world.write(shared, b"one").expect("mapped");
    world.write(shared + 32 * PAGE, b"two").expect("mapped");
    assert_eq!(take(&mut world), (1, vec![false, false]));
    assert_eq!(take(&mut world), (2, vec![true, true]));
    world.write(shared, b"one").expect("mapped");
    assert_eq!(take(&mut world), (3, vec![false, true]));
    assert_eq!(memory.write(Some(32 * PAGE), b"two").2, Ok(()));
    assert_eq!(take(&mut world), (4, vec![true, false]));
    // What is cut within a page is zeros there.
    assert_eq!(memory.set_length(32 * PAGE + 1), Some(33));
    assert_eq!(take(&mut world), (5, vec![true, false]));
    assert_eq!(memory.set_length(32 * PAGE), Some(32));
    assert_eq!(memory.set_length(40 * PAGE), None);
    assert_eq!(memory.allocate(32 * PAGE, PAGE, false), Ok(()));
    assert_eq!(take(&mut world), (6, vec![true, false]));
}
