//! Copies between the kernel and a program.

use alloc::vec;
use alloc::vec::Vec;

use coppice_hal::addr::USER_END;
use coppice_hal::frames::FramePool;

use super::{ANONYMOUS, DATA, MIB, PAGE, RW, World, pattern};
use crate::memory::{AddressSpace, Backing, CopyError, StringError};

fn anonymous(world: &mut World, pages: u64) -> u64 {
    world.space.map(0, pages * PAGE, RW, ANONYMOUS, Backing::Zero).expect("room")
}

#[test]
fn long_copies_cross_pages() {
    let mut world = World::new(FramePool::for_host(4 * MIB));
    let at = anonymous(&mut world, 40) + 123;
    let bytes = pattern(128 * 1024 + 77, 9);
    world.write(at, &bytes).expect("mapped");
    let mut back = vec![0; bytes.len()];
    world.read(at, &mut back).expect("mapped");
    assert!(back == bytes);
    assert_eq!(world.byte(at - 1), Some(0));
    assert_eq!(world.byte(at + bytes.len() as u64), Some(0));
}

#[test]
fn a_copy_stops_at_the_page_to_fetch_and_goes_on() {
    let mut world = World::new(FramePool::for_host(4 * MIB));
    // From rodata's last page, which is partial, into the data segment: three pages of file, each its own run.
    let at = 0x42_a000;
    let mut out = vec![0xff; 2 * PAGE as usize];
    let Err(CopyError::Fetch { done: 0, fetch }) = world.space.read_bytes(at, &mut out) else {
        panic!("nothing is here yet");
    };
    assert_eq!(fetch.address, at);
    let bytes = world.serve(&fetch);
    world.space.install(&fetch, &bytes);
    let Err(CopyError::Fetch { done: 4096, .. }) = world.space.read_bytes(at, &mut out) else {
        panic!("the first page is here");
    };
    world.read(at, &mut out).expect("mapped");
    for (address, byte) in (at..).zip(&out) {
        assert_eq!(*byte, world.initial(address), "{address:#x}");
    }
}

#[test]
fn kernel_addresses_and_wrapping_lengths_fault() {
    let mut world = World::new(FramePool::for_host(MIB));
    let mut out = [0; 64];
    for address in [0, USER_END, 0xffff_8000_0000_0000, u64::MAX, u64::MAX - 10, 1 << 47] {
        assert_eq!(world.read(address, &mut out), Err(0), "{address:#x}");
        assert_eq!(world.write(address, &out), Err(0), "{address:#x}");
    }
    assert!(!AddressSpace::is_user_range(u64::MAX, 2));
    assert!(!AddressSpace::is_user_range(USER_END - 1, 2));
    assert!(!AddressSpace::is_user_range(4096, u64::MAX));
    assert!(AddressSpace::is_user_range(USER_END - 1, 1));
    // Nothing to copy is no fault, wherever.
    assert_eq!(world.read(u64::MAX, &mut []), Ok(()));
}

#[test]
fn a_copy_says_how_far_it_came() {
    let mut world = World::new(FramePool::for_host(MIB));
    let at = anonymous(&mut world, 3);
    world.space.protect(at + PAGE, PAGE, 1).expect("mapped");
    world.space.unmap(at + 2 * PAGE, PAGE).expect("mapped");
    let bytes = [1; 3 * PAGE as usize];
    assert_eq!(world.write(at + 96, &bytes), Err(4000));
    let mut out = [0; 3 * PAGE as usize];
    assert_eq!(world.read(at, &mut out), Err(2 * PAGE as usize));
    assert_eq!((out[95], out[96], out[4095], out[4096]), (0, 1, 1, 0));
}

#[test]
fn system_calls_cannot_write_what_the_program_cannot() {
    let mut world = World::new(FramePool::for_host(4 * MIB));
    assert_eq!(world.write(0x40_0000, b"x"), Err(0), "text");
    assert_eq!(world.byte(0x40_1234), Some(world.initial(0x40_1234)));
    assert_eq!(world.write(0x40_1234, b"x"), Err(0), "text that is here");
    let at = anonymous(&mut world, 1);
    world.write(at, b"x").expect("mapped");
    world.space.protect(at, PAGE, 0).expect("mapped");
    assert_eq!(world.byte(at), None);
    world.space.protect(at, PAGE, 1).expect("mapped");
    assert_eq!(world.byte(at), Some(b'x'));
}

#[test]
fn strings_end_at_their_zero_or_at_the_limit() {
    let mut world = World::new(FramePool::for_host(4 * MIB));
    let at = anonymous(&mut world, 2);
    let long = [b'a'; 600];
    world.write(at + PAGE - 300, &long).expect("mapped");
    let mut text = Vec::new();
    world.space.read_string(at + PAGE - 300, &mut text, 601).expect("with its zero it has 601 bytes");
    assert_eq!(text, long);
    text.clear();
    assert!(matches!(world.space.read_string(at + PAGE - 300, &mut text, 600), Err(StringError::TooLong)));
    // Ends with the mapping: the page behind is never looked at.
    world.write(at + 2 * PAGE - 4, b"end\0").expect("mapped");
    text.clear();
    world.space.read_string(at + 2 * PAGE - 4, &mut text, 4096).expect("it ends in time");
    assert_eq!(text, b"end");
    // Does not end with the mapping: the page behind belongs to nobody.
    let alone = world.space.map(0x6000_0000, PAGE, RW, ANONYMOUS | super::FIXED, Backing::Zero).expect("room");
    world.write(alone + PAGE - 3, b"end").expect("mapped");
    text.clear();
    assert!(matches!(
        world.space.read_string(alone + PAGE - 3, &mut text, 4096),
        Err(StringError::Copy(CopyError::Fault { .. }))
    ));
    text.clear();
    assert!(matches!(
        world.space.read_string(u64::MAX - 1, &mut text, 4096),
        Err(StringError::Copy(CopyError::Fault { .. }))
    ));
}

#[test]
fn a_string_goes_on_after_a_fetch() {
    let mut world = World::new(FramePool::for_host(4 * MIB));
    // All of the initialised data, up to the first zero, which bss has.
    let at = DATA;
    let mut text = Vec::new();
    let mut fetches = 0;
    let result = loop {
        match world.space.read_string(at, &mut text, 1 << 20) {
            Err(StringError::Copy(CopyError::Fetch { fetch, .. })) => {
                fetches += 1;
                let bytes = world.serve(&fetch);
                world.space.install(&fetch, &bytes);
            }
            other => break other,
        }
    };
    result.expect("it ends");
    assert_eq!(fetches, 1);
    assert_eq!(text.len() as u64, 3 * PAGE + 0x700);
    assert!(text.iter().zip(at..).all(|(byte, at)| *byte == world.initial(at)));
}

#[test]
fn numbers_are_little_endian() {
    let mut world = World::new(FramePool::for_host(MIB));
    let at = anonymous(&mut world, 2) + PAGE - 3;
    world.space.write_u64(at, 0x0102_0304_0506_0708).expect("mapped");
    assert_eq!(world.byte(at), Some(8));
    assert_eq!(world.space.read_u64(at).expect("mapped"), 0x0102_0304_0506_0708);
    assert_eq!(world.space.read_u32(at + 4).expect("mapped"), 0x0102_0304);
    world.space.write_u32(at, 7).expect("mapped");
    assert_eq!(world.space.read_array(at).expect("mapped"), [7, 0, 0, 0, 4, 3]);
}
