//! Retained pages against the rest of the node's memory: given back when it is wanted, oldest first, never lost.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal::frames::{FrameKind, FramePool};
use coppice_hal::paging::Access;
use coppice_protocol::ids::ProgramId;
use coppice_protocol::limits::RETAINED_PROGRAMS_MAX;
use coppice_protocol::retain::RetentionPolicy;

use super::{ANONYMOUS, DATA, FILE_BYTES, LOADS, MIB, PAGE, RW, World, elf, reap};
use crate::memory::{AddressSpace, Backing, Resolution, Retention};

const TEXT: u64 = 0x40_0000;

/// A program that has run on the node and left pages there.
fn ran(pool: &'static FramePool, retention: &Arc<Retention>, number: u8) -> ProgramId {
    let id = ProgramId([number; 32]);
    let mut world = World::on_node(pool, Arc::clone(retention), id, elf(&LOADS, TEXT, FILE_BYTES, false));
    world.touch(TEXT, Access::EXECUTE).expect("text");
    world.write(DATA, b"mine").expect("data");
    assert!(world.end().kept > 32);
    id
}

fn programs(retention: &Retention) -> Vec<ProgramId> {
    retention.held().iter().map(|held| held.program).collect()
}

#[test]
fn a_program_gets_the_memory_that_others_left_pages_in_the_oldest_first() {
    let pool = FramePool::for_host(2 * MIB);
    let free = pool.free_frames();
    let retention = Arc::new(Retention::default());
    let ids: Vec<ProgramId> = (1..4).map(|number| ran(pool, &retention, number)).collect();
    assert_eq!(programs(&retention), [ids[2], ids[1], ids[0]]);
    assert_eq!(retention.bytes(), u64::from(free - pool.free_frames()) * PAGE);

    let mut space = AddressSpace::new(pool, Arc::clone(&retention)).expect("memory");
    let at = space.map(0, 1 << 30, RW, ANONYMOUS | 0x4000, Backing::Zero).expect("room");
    let mut seen = Vec::new();
    let mut next = at;
    while matches!(space.fault(next, Access::WRITE), Resolution::Ready) {
        next += PAGE;
        seen.push(programs(&retention));
    }
    seen.dedup();
    assert_eq!(
        seen,
        [Vec::from([ids[2], ids[1], ids[0]]), Vec::from([ids[2], ids[1]]), Vec::from([ids[2]]), Vec::new()]
    );
    assert_eq!(pool.free_frames(), pool.reserve_frames(), "it got all that a program can have");
    drop(space);
    assert_eq!(pool.free_frames(), free);
}

#[test]
fn page_tables_and_read_ahead_get_that_memory_too() {
    let pool = FramePool::for_host(4 * MIB);
    let retention = Arc::new(Retention::default());
    ran(pool, &retention, 1);
    ran(pool, &retention, 2);
    let held: Vec<_> = (0..pool.available_frames()).filter_map(|_| pool.alloc(FrameKind::User)).collect();
    let mut world =
        World::on_node(pool, Arc::clone(&retention), ProgramId([9; 32]), elf(&LOADS, TEXT, FILE_BYTES, false));
    assert_eq!(retention.held().len(), 1, "its first table took the place of the oldest program's pages");
    world.touch(TEXT, Access::EXECUTE).expect("text");
    drop(held);
}

#[test]
fn more_programs_than_a_node_keeps_push_the_oldest_out() {
    let pool = FramePool::for_host(8 * MIB);
    let free = pool.free_frames();
    let retention = Arc::new(Retention::default());
    let ids: Vec<ProgramId> = (0..=RETAINED_PROGRAMS_MAX as u8).map(|number| ran(pool, &retention, number)).collect();
    let mut expected = ids.clone();
    expected.remove(0);
    expected.reverse();
    assert_eq!(programs(&retention), expected);
    // One that runs again is the newest.
    ran(pool, &retention, 3);
    assert_eq!(retention.held().len(), RETAINED_PROGRAMS_MAX);
    assert_eq!(programs(&retention)[0], ids[3]);
    let gone = retention.discard(Some(ids[5]));
    assert_eq!(gone.iter().map(|held| held.program).collect::<Vec<_>>(), [ids[5]]);
    assert!(retention.discard(Some(ids[5])).is_empty());
    assert!(retention.retain(ids[5]).is_none(), "a program that is not there changes nothing");
    assert_eq!(retention.discard(None).len(), RETAINED_PROGRAMS_MAX - 1);
    reap(&retention);
    assert_eq!((pool.free_frames(), retention.bytes()), (free, 0));
}

/// What is asked for is used, so it is the last to go; the others stay, or go at once.
#[test]
fn other_programs_stay_if_many_are_to_be_kept() {
    for policy in [RetentionPolicy::Many, RetentionPolicy::One] {
        let pool = FramePool::for_host(4 * MIB);
        let free = pool.free_frames();
        let retention = Arc::new(Retention::new(policy));
        let ids: Vec<ProgramId> = (1..4).map(|number| ran(pool, &retention, number)).collect();
        let counts = retention.retain(ids[0]).expect("it ran here");
        match policy {
            RetentionPolicy::Many => {
                assert_eq!((counts.discarded, programs(&retention)), (0, Vec::from([ids[0], ids[2], ids[1]])));
                assert!(retention.give_back());
                assert_eq!(programs(&retention), [ids[0], ids[2]]);
                // Each of two that take turns finds all of its pages each time.
                for id in [ids[2], ids[0], ids[2], ids[0]] {
                    let kept = retention.retain(id).expect("it stayed").kept;
                    assert!(kept > 32, "{kept}");
                    assert_eq!(programs(&retention)[0], id);
                }
            }
            RetentionPolicy::One => assert_eq!((counts.discarded, programs(&retention)), (2, Vec::from([ids[0]]))),
        }
        retention.discard(None);
        reap(&retention);
        assert_eq!(pool.free_frames(), free);
    }
}

#[test]
fn a_thousand_runs_of_two_programs_leak_nothing() {
    let pool = FramePool::for_host(4 * MIB);
    let retention = Arc::new(Retention::default());
    let mut worlds: Vec<World> = (0..2)
        .map(|number| {
            let file = elf(&LOADS, TEXT, FILE_BYTES, false);
            World::on_node(pool, Arc::clone(&retention), ProgramId([number; 32]), file)
        })
        .collect();
    let mut free = Vec::new();
    for run in 0..1000 {
        let world = &mut worlds[run % 2];
        world.relaunch();
        world.touch(TEXT + 5 * PAGE, Access::EXECUTE).expect("text");
        world.write(DATA, &run.to_le_bytes()).expect("data");
        if run % 3 == 0 {
            retention.retain(world.id);
        }
        world.end();
        free.push(pool.free_frames());
    }
    retention.discard(None);
    reap(&retention);
    let at_rest = pool.free_frames();
    drop(worlds);
    // Each world has an empty table still.
    assert_eq!(pool.free_frames(), at_rest + 2);
    assert_eq!(free[6..12], free[990..996], "the same numbers, run for run");
}

#[test]
fn a_process_that_never_touched_anything_leaves_nothing() {
    let pool = FramePool::for_host(MIB);
    let mut world = World::new(pool);
    assert_eq!(world.end(), coppice_protocol::retain::WalkCounts::default());
    assert!(world.retention.held().is_empty());
    world.relaunch();
    assert_eq!(world.space.stats().pages_found, 0);
}

#[test]
fn without_a_frame_for_the_next_table_nothing_is_retained_and_nothing_left() {
    let pool = FramePool::for_host(2 * MIB);
    let mut world = World::new(pool);
    world.touch(TEXT, Access::EXECUTE).expect("text");
    let held: Vec<_> = (0..pool.available_frames()).filter_map(|_| pool.alloc(FrameKind::User)).collect();
    let counts = world.end();
    assert_eq!((counts.kept, counts.dropped), (0, 32));
    assert!(world.retention.held().is_empty());
    assert_eq!(pool.usage().pristine, 0);
    drop(held);
}
