//! The stack a program starts on, read as a C library reads it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use coppice_hal::addr::USER_END;
use coppice_hal::frames::FramePool;
use coppice_hal::paging::Access;
use coppice_protocol::text::ByteString;

use super::{LOADS, MIB, PAGE, World, elf, kind};
use crate::errno::Errno;
use crate::memory::limits::{STACK_BYTES, STACK_TOP};
use crate::memory::{AddressSpace, StartInfo};

fn info<'a>(arguments: &'a [ByteString], environment: &'a [ByteString]) -> StartInfo<'a> {
    StartInfo {
        arguments,
        environment,
        path: b"/bin/program",
        interpreter: 0x5400_0000_0000,
        random: core::array::from_fn(|at| at as u8 + 1),
        user: 1000,
        group: 1001,
        features: 0x1234_5678,
        features2: 2,
    }
}

fn strings(texts: &[&str]) -> Vec<ByteString> {
    texts.iter().copied().map(ByteString::from).collect()
}

fn text(space: &mut AddressSpace, at: u64) -> ByteString {
    let mut text = Vec::new();
    space.read_string(at, &mut text, 1 << 20).expect("a string");
    text.into()
}

/// The strings whose addresses are at `at` up to the null pointer, and where that is.
fn list(space: &mut AddressSpace, mut at: u64) -> (Vec<ByteString>, u64) {
    let mut texts = Vec::new();
    loop {
        match space.read_u64(at).expect("stack") {
            0 => return (texts, at),
            pointer => texts.push(text(space, pointer)),
        }
        at += 8;
    }
}

fn auxiliary(space: &mut AddressSpace, mut at: u64) -> BTreeMap<u64, u64> {
    let mut vector = BTreeMap::new();
    loop {
        let (key, value) = (space.read_u64(at).expect("stack"), space.read_u64(at + 8).expect("stack"));
        if key == 0 {
            return vector;
        }
        assert!(vector.insert(key, value).is_none(), "entry {key} twice");
        at += 16;
    }
}

#[test]
fn the_start_contract_is_whole() {
    for environment in [strings(&[]), strings(&["HOME=/", "EMPTY="]), strings(&["A=1"])] {
        let mut world = World::new(FramePool::for_host(2 * MIB));
        let arguments = strings(&["program", "", "drei vier"]);
        let pointer = world.space.build_stack(&info(&arguments, &environment)).expect("room");
        assert_eq!(pointer % 16, 0);
        assert!(world.fetched.is_empty());
        let space = &mut world.space;
        assert_eq!(space.read_u64(pointer).expect("stack"), 3);
        let (found, end) = list(space, pointer + 8);
        assert_eq!(found, arguments);
        assert_eq!(end, pointer + 8 + 3 * 8);
        let (found, end) = list(space, end + 8);
        assert_eq!(found, environment);
        let vector = auxiliary(space, end + 8);
        let expected = [
            (3, 0x40_0040),
            (4, 56),
            (5, 3),
            (6, 4096),
            (7, 0x5400_0000_0000),
            (8, 0),
            (9, 0x40_1000),
            (11, 1000),
            (12, 1000),
            (13, 1001),
            (14, 1001),
            (16, 0x1234_5678),
            (17, 100),
            (23, 0),
            (26, 2),
        ];
        for (key, value) in expected {
            assert_eq!(vector.get(&key), Some(&value), "entry {key}");
        }
        assert_eq!(vector.len(), expected.len() + 3);
        assert_eq!(vector.get(&33), None, "there is no vDSO");
        assert_eq!(space.read_array::<16>(vector[&25]).expect("stack"), info(&[], &[]).random);
        assert_eq!(text(space, vector[&31]), "/bin/program");
        assert_eq!(text(space, vector[&15]), "x86_64");
    }
}

#[test]
fn position_independent_programs_lie_at_the_same_place_always() {
    let loads =
        LOADS.map(|(address, memory, offset, bytes, flags)| (address - 0x40_0000, memory, offset, bytes, flags));
    let mut world = World::with(FramePool::for_host(2 * MIB), elf(&loads, 0x1000, super::FILE_BYTES, true));
    let base = coppice_protocol::program::LOAD_BASE;
    let pointer = world.space.build_stack(&info(&strings(&["p"]), &[])).expect("room");
    let vector = auxiliary(&mut world.space, pointer + 8 + 8 + 8 + 8);
    assert_eq!((vector[&3], vector[&9], vector[&7]), (base + 64, base + 0x1000, 0x5400_0000_0000));
    assert_eq!(world.byte(base + 0x1000), Some(world.file[0x1000]));
    assert!(world.space.set_break(0) > base);
}

#[test]
fn the_stack_grows_by_touching_and_ends_in_a_guard() {
    let mut world = World::new(FramePool::for_host(2 * MIB));
    let pointer = world.space.build_stack(&info(&strings(&["p"]), &[])).expect("room");
    assert!(pointer > STACK_TOP - PAGE && pointer < STACK_TOP);
    assert_eq!(world.space.stats().pages, 1);
    world.touch(pointer - 100 * PAGE, Access::WRITE).expect("stack");
    world.touch(STACK_TOP - STACK_BYTES, Access::WRITE).expect("stack");
    assert_eq!(world.space.stats().pages, 3);
    assert_eq!(kind(world.touch(STACK_TOP - STACK_BYTES - 1, Access::WRITE)), Some((11, 1)));
    assert_eq!(kind(world.touch(pointer, Access::EXECUTE)), Some((11, 2)));
    assert_eq!(kind(world.touch(USER_END, Access::READ)), Some((11, 1)));
}

#[test]
fn too_much_is_refused() {
    let world = || World::new(FramePool::for_host(8 * MIB));
    let long = "x".repeat(128 * 1024);
    assert_eq!(world().space.build_stack(&info(&strings(&[&long]), &[])), Err(Errno::E2BIG));
    let many: Vec<ByteString> = (0..20).map(|_| long[1..].into()).collect();
    assert_eq!(world().space.build_stack(&info(&many, &[])), Err(Errno::E2BIG));
    assert!(world().space.build_stack(&info(&many[..10], &[])).is_ok());
    let pointers: Vec<ByteString> = (0..250_000).map(|_| ByteString::new()).collect();
    assert_eq!(world().space.build_stack(&info(&[], &pointers)), Err(Errno::E2BIG));
    assert_eq!(world().space.build_stack(&info(&strings(&["a\0b"]), &[])), Err(Errno::EINVAL));
    let mut empty = AddressSpace::new(FramePool::for_host(MIB), alloc::sync::Arc::default()).expect("memory");
    assert_eq!(empty.build_stack(&info(&[], &[])), Err(Errno::ENOEXEC));
}
