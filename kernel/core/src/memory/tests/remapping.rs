//! mremap as Linux has it.

use coppice_hal::frames::FramePool;
use coppice_hal::paging::Access;

use super::{ANONYMOUS, DATA, FIXED, MIB, PAGE, RW, TestFile, World, kind};
use crate::errno::Errno;
use crate::memory::Backing;

const MAY_MOVE: u64 = 1;
const TO_FIXED: u64 = 3;
const AT: u64 = 0x7000_0000;

fn world() -> World {
    let mut world = World::new(FramePool::for_host(4 * MIB));
    let flags = ANONYMOUS | FIXED;
    world.space.map(AT, 4 * PAGE, RW, flags, Backing::Zero).expect("room");
    for number in 0..4 {
        world.write(AT + number * PAGE, &[number as u8 + 1]).expect("mapped");
    }
    world
}

fn bytes(world: &mut World, at: u64) -> [Option<u8>; 6] {
    core::array::from_fn(|number| world.byte(at + number as u64 * PAGE))
}

#[test]
fn growing_in_place_and_shrinking() {
    let mut world = world();
    assert_eq!(world.space.remap(AT, 4 * PAGE, 6 * PAGE, 0, 0), Ok(AT));
    assert_eq!(bytes(&mut world, AT), [Some(1), Some(2), Some(3), Some(4), Some(0), Some(0)]);
    assert_eq!(world.space.remap(AT, 6 * PAGE, 2 * PAGE, 0, 0), Ok(AT));
    assert_eq!(bytes(&mut world, AT), [Some(1), Some(2), None, None, None, None]);
    assert_eq!(world.space.remap(AT, 2 * PAGE, 2 * PAGE, 0, 0), Ok(AT));
}

#[test]
fn moving_takes_the_frames_along() {
    let mut world = world();
    world.space.map(AT + 4 * PAGE, PAGE, 1, ANONYMOUS | FIXED, Backing::Zero).expect("room");
    assert_eq!(world.space.remap(AT, 4 * PAGE, 5 * PAGE, 0, 0), Err(Errno::ENOMEM));
    let frames = world.pool.usage().user;
    let to = world.space.remap(AT, 4 * PAGE, 5 * PAGE, MAY_MOVE, 0).expect("room elsewhere");
    assert_ne!(to, AT);
    assert_eq!(world.pool.usage().user, frames);
    assert_eq!(bytes(&mut world, to), [Some(1), Some(2), Some(3), Some(4), Some(0), None]);
    assert_eq!(kind(world.touch(AT, Access::READ)), Some((11, 1)));
    // Only a part of an area.
    let part = world.space.remap(to + PAGE, 2 * PAGE, 3 * PAGE, MAY_MOVE, 0).expect("room elsewhere");
    assert_eq!(world.byte(to + PAGE), None);
    assert_eq!([world.byte(part), world.byte(part + PAGE)], [Some(2), Some(3)]);
    assert_eq!(world.byte(to + 3 * PAGE), Some(4));
}

#[test]
fn moving_to_a_fixed_place_replaces_what_is_there() {
    let mut world = world();
    let to = 0x5000_0000_0000;
    world.space.map(to, 8 * PAGE, RW, ANONYMOUS | FIXED, Backing::Zero).expect("room");
    world.write(to, &[9; 8 * PAGE as usize]).expect("mapped");
    assert_eq!(world.space.remap(AT, 4 * PAGE, 3 * PAGE, TO_FIXED, to + PAGE), Ok(to + PAGE));
    assert_eq!(bytes(&mut world, to), [Some(9), Some(1), Some(2), Some(3), Some(9), Some(9)]);
    assert_eq!(bytes(&mut world, AT), [None; 6]);
}

#[test]
fn nonsense_is_refused() {
    let mut world = world();
    let mut remap = |at, old, new, flags, to| world.space.remap(at, old, new, flags, to);
    assert_eq!(remap(AT + 1, PAGE, PAGE, 0, 0), Err(Errno::EINVAL));
    assert_eq!(remap(AT, 0, PAGE, MAY_MOVE, 0), Err(Errno::EINVAL));
    assert_eq!(remap(AT, PAGE, 0, MAY_MOVE, 0), Err(Errno::EINVAL));
    assert_eq!(remap(AT, PAGE, PAGE, 2, AT), Err(Errno::EINVAL), "fixed without may-move");
    assert_eq!(remap(AT, PAGE, PAGE, 4, AT), Err(Errno::EINVAL), "don't-unmap");
    assert_eq!(remap(AT, u64::MAX, PAGE, 0, 0), Err(Errno::EINVAL));
    assert_eq!(remap(AT, 4 * PAGE, u64::MAX - 0xffff, MAY_MOVE, 0), Err(Errno::EINVAL));
    assert_eq!(remap(AT, 4 * PAGE, 1 << 46, MAY_MOVE, 0), Err(Errno::ENOMEM), "more than memory");
    assert_eq!(remap(AT, 4 * PAGE, 4 * PAGE, TO_FIXED, AT + PAGE), Err(Errno::EINVAL), "onto itself");
    assert_eq!(remap(AT, 4 * PAGE, 4 * PAGE, TO_FIXED, AT - PAGE), Err(Errno::EINVAL), "onto itself");
    assert_eq!(remap(AT, 4 * PAGE, 4 * PAGE, TO_FIXED, u64::MAX - 0xfff), Err(Errno::EINVAL));
    assert_eq!(remap(AT, 4 * PAGE, 4 * PAGE, TO_FIXED, 0), Err(Errno::EPERM));
    assert_eq!(remap(AT, 5 * PAGE, 6 * PAGE, MAY_MOVE, 0), Err(Errno::EFAULT));
    assert_eq!(remap(0x6000_0000, PAGE, 2 * PAGE, MAY_MOVE, 0), Err(Errno::EFAULT));
    assert_eq!(bytes(&mut world, AT), [Some(1), Some(2), Some(3), Some(4), None, None]);
}

#[test]
fn files_and_the_program_go_on_where_they_were() {
    let mut world = world();
    let file = TestFile::new(64 * PAGE as usize, 1);
    let backing = Backing::File { file: file.clone(), offset: PAGE };
    let at = world.space.map(0, 3 * PAGE, 1, 2, backing).expect("room");
    let to = world.space.remap(at + PAGE, 2 * PAGE, 4 * PAGE, MAY_MOVE, 0).expect("room");
    assert_eq!(world.byte(to + 3 * PAGE + 5), Some(file.bytes[5 * PAGE as usize + 5]));
    // Initialised data moved: what was not touched comes from the right page of the file, and stays copy-on-write.
    let start = DATA / PAGE * PAGE;
    world.byte(start + PAGE).expect("data");
    world.space.advise(start + 2 * PAGE, PAGE, 4).expect("mapped");
    let to = world.space.remap(start + PAGE, 2 * PAGE, 2 * PAGE, TO_FIXED, AT + 16 * PAGE).expect("room");
    for inside in [0, 100, PAGE, PAGE + 77] {
        assert_eq!(world.byte(to + inside), Some(world.initial(start + PAGE + inside)));
    }
    world.write(to, b"own").expect("data");
    world.space.advise(to, PAGE, 4).expect("mapped");
    assert_eq!(world.byte(to), Some(world.initial(start + PAGE)));
}

#[test]
fn a_huge_sparse_area_moves_by_its_pages() {
    let mut world = world();
    let flags = ANONYMOUS | 0x4000;
    let length = 1 << 42;
    let at = world.space.map(0, length, RW, flags, Backing::Zero).expect("room");
    for place in [0, 1 << 21, 1 << 30, (1 << 41) + PAGE, length - PAGE] {
        world.write(at + place, &place.to_le_bytes()).expect("mapped");
    }
    let to = 0x1000_0000_0000;
    world.space.remap(at, length, length, TO_FIXED, to).expect("room");
    for place in [0, 1 << 21, 1 << 30, (1 << 41) + PAGE, length - PAGE] {
        assert_eq!(world.space.read_u64(to + place).expect("mapped"), place);
    }
    assert_eq!(world.byte(at), None);
}

/// As on Linux, what lies at the new place goes all the same.
#[test]
fn what_moves_to_a_place_grows_no_further_than_what_stays() {
    let mut world = world();
    let to = AT + 16 * PAGE;
    let all: u64 = world.space.mapped().map(|(start, end, _)| end - start).sum();
    world.space.limit(all + 2 * PAGE, u64::MAX);
    assert_eq!(world.space.remap(AT, 4 * PAGE, 7 * PAGE, TO_FIXED, to), Err(Errno::ENOMEM));
    assert_eq!(world.space.remap(AT, 4 * PAGE, 7 * PAGE, MAY_MOVE, 0), Err(Errno::ENOMEM));
    assert_eq!(bytes(&mut world, AT), [Some(1), Some(2), Some(3), Some(4), None, None]);
    assert_eq!(world.space.remap(AT, 4 * PAGE, 6 * PAGE, TO_FIXED, to), Ok(to));
    world.space.limit(u64::MAX, 0);
    assert_eq!(world.space.remap(to, 6 * PAGE, 7 * PAGE, TO_FIXED, AT), Err(Errno::ENOMEM));
    assert_eq!(world.space.remap(to, 6 * PAGE, 6 * PAGE, TO_FIXED, AT), Ok(AT));
    world.space.limit(u64::MAX, u64::MAX);
    assert_eq!(world.space.remap(AT, 6 * PAGE, 1 << 46, TO_FIXED, 1 << 40), Err(Errno::ENOMEM), "more than memory");
    assert_eq!(bytes(&mut world, AT), [Some(1), Some(2), Some(3), Some(4), Some(0), Some(0)]);
}
