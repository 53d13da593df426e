//! Programs: those that run and how they lie in memory, and one clear line for each reason why a file cannot run.

mod elf_file;
mod random;
mod refused;

use coppice_protocol::program::{
    INTERPRETER_BASE, LOAD_BASE, Placement, ProgramError, ProgramImage, Segment, ThreadLocal, USER_END, parse,
    parse_interpreter,
};

use crate::elf_file::{ElfFile, HEADERS, Header, READ, STACK, WRITE, load};

pub(crate) fn parse_file(file: &ElfFile) -> Result<ProgramImage, ProgramError> {
    parse(&file.page(), file.bytes)
}

/// What a [`ProgramImage`] promises to whoever maps it.
pub(crate) fn check_promises(image: &ProgramImage, file_bytes: u64) {
    assert!(!image.segments.is_empty());
    for segment in &image.segments {
        assert!(segment.memory_bytes > 0 && segment.file_bytes <= segment.memory_bytes, "{segment:?}");
        assert!(segment.address >= 0x1_0000 && segment.end() <= USER_END, "{segment:?}");
        assert!(segment.file_offset + segment.file_bytes <= file_bytes, "{segment:?}");
        if segment.file_bytes > 0 {
            assert_eq!(segment.address % 4096, segment.file_offset % 4096, "{segment:?}");
        }
    }
    for pair in image.segments.windows(2) {
        assert!(pair[0].end_page() <= pair[1].first_page(), "{pair:?}");
    }
    let holds = |segment: &&Segment| segment.address <= image.entry && image.entry < segment.end();
    assert!(image.segments.iter().find(holds).is_some_and(|segment| segment.execute));
    assert!(image.memory_bytes() > 0 && image.end_page() <= USER_END);
}

#[test]
fn a_fixed_program_lies_where_it_was_linked() {
    let file = ElfFile::fixed();
    let image = parse_file(&file).expect("a program");
    check_promises(&image, file.bytes);
    assert_eq!(image.placement, Placement::Fixed);
    assert_eq!(image.load_bias(), 0);
    assert_eq!(image.entry, 0x40_1bf0);
    assert_eq!(image.headers_address, Some(0x40_0040));
    assert_eq!(image.headers_count, 8);
    assert_eq!(image.relro, Some((0x40_6708, 0x8f8)));
    let thread_local = ThreadLocal { address: 0x40_6708, file_bytes: 0x28, memory_bytes: 0x28, alignment: 8 };
    assert_eq!(image.thread_local, Some(thread_local));
    assert!(!image.stack_executable);
    assert_eq!(image.memory_bytes(), (1 + 3 + 2 + 3) * 4096);
    assert_eq!(image.end_page(), 0x40_9000);
    let flags: Vec<_> = image.segments.iter().map(|segment| (segment.read, segment.write, segment.execute)).collect();
    assert_eq!(flags, [(true, false, false), (true, false, true), (true, false, false), (true, true, false)]);
    let data = image.segments[3];
    assert_eq!((data.address, data.memory_bytes), (0x40_6708, 0x2450));
    assert_eq!((data.file_offset, data.file_bytes), (0x5708, 0x908));
}

#[test]
fn a_position_independent_program_lies_at_the_load_base() {
    let file = ElfFile::position_independent();
    let image = parse_file(&file).expect("a program");
    check_promises(&image, file.bytes);
    assert_eq!(image.placement, Placement::PositionIndependent);
    assert_eq!(image.load_bias(), LOAD_BASE);
    assert_eq!(image.entry, LOAD_BASE + 0x1bf0);
    assert_eq!(image.headers_address, Some(LOAD_BASE + 64));
    assert_eq!(image.segments[0].address, LOAD_BASE);
    assert_eq!(image.relro, Some((LOAD_BASE + 0x6708, 0x8f8)));
}

#[test]
fn a_base_in_the_file_is_taken_off_by_whole_alignments() {
    let mut file = ElfFile::position_independent();
    for header in &mut file.headers {
        header.address += 0x30_1000;
        header.alignment = if header.kind == 1 { 0x20_0000 } else { header.alignment };
    }
    file.entry += 0x30_1000;
    let image = parse_file(&file).expect("a program");
    assert_eq!(image.load_bias(), LOAD_BASE - 0x20_0000);
    assert_eq!(image.segments[0].address, LOAD_BASE + 0x10_1000);
}

#[test]
fn an_executable_stack_is_reported() {
    let mut file = ElfFile::fixed();
    file.headers[7].flags = 7;
    assert!(parse_file(&file).expect("a program").stack_executable);
    file.headers.pop();
    assert!(!parse_file(&file).expect("a program").stack_executable);
}

#[test]
fn headers_are_found_without_their_own_entry() {
    let mut file = ElfFile::fixed();
    file.headers.remove(0);
    assert_eq!(parse_file(&file).expect("a program").headers_address, Some(0x40_0040));
    // And if they are not loaded at all, that is no address.
    file.headers[0].offset = 0x1000;
    assert_eq!(parse_file(&file).expect("a program").headers_address, None);
}

#[test]
fn segments_may_come_in_any_order_and_empty_ones_do_not_count() {
    let mut file = ElfFile::fixed();
    file.headers.swap(1, 4);
    file.headers.push(load(READ, 0, u64::MAX - 5, 0, 0));
    let image = parse_file(&file).expect("a program");
    check_promises(&image, file.bytes);
    assert_eq!(image.segments.len(), 4);
}

#[test]
fn two_segments_may_share_a_page_of_the_file() {
    let mut file = ElfFile::fixed();
    // Data goes on in the page where read-only data ends, as linkers with small pages do it.
    file.headers[4] = load(READ | WRITE, 0x5017, 0x40_5017, 0x908, 0x2450);
    file.headers.retain(|header| matches!(header.kind, 1 | HEADERS | STACK));
    let image = parse_file(&file).expect("a program");
    check_promises(&image, file.bytes);
    let [.., below, above] = image.segments[..] else { panic!("too few segments") };
    assert_eq!((below.address, below.memory_bytes, below.file_bytes), (0x40_4000, 0x1000, 0x1000));
    assert_eq!((above.address, above.file_offset), (0x40_5000, 0x5000));
    assert_eq!((above.file_bytes, above.memory_bytes), (0x17 + 0x908, 0x17 + 0x2450));
    // Three in a page, and the lowest vanishes in it.
    file.headers = vec![
        load(READ, 0x1100, 0x40_1100, 0x10, 0x10),
        load(READ, 0x1200, 0x40_1200, 0x10, 0x10),
        load(7, 0x1300, 0x40_1300, 0x3000, 0x3000),
    ];
    file.entry = 0x40_1300;
    let image = parse_file(&file).expect("a program");
    check_promises(&image, file.bytes);
    let [segment] = image.segments[..] else { panic!("{:?}", image.segments) };
    assert_eq!((segment.address, segment.file_offset, segment.file_bytes), (0x40_1100, 0x1100, 0x3200));
}

#[test]
fn read_only_after_relocation_may_end_with_the_page() {
    // As lld writes it: up to the end of the page, beyond the segment's own end.
    let mut file = ElfFile::fixed();
    file.headers[6] = Header { memory_bytes: 0x28f8, ..file.headers[6] };
    assert_eq!(parse_file(&file).expect("a program").relro, Some((0x40_6708, 0x28f8)));
}

#[test]
fn thread_local_storage_without_an_image_needs_no_place() {
    let mut file = ElfFile::fixed();
    file.headers[5] = Header { file_bytes: 0, memory_bytes: 0x100, alignment: 0, ..file.headers[5] };
    let thread_local = parse_file(&file).expect("a program").thread_local.expect("some");
    assert_eq!((thread_local.file_bytes, thread_local.memory_bytes, thread_local.alignment), (0, 0x100, 1));
}

#[test]
fn the_highest_user_page_can_be_used() {
    let mut file = ElfFile::fixed();
    file.headers.push(load(READ | WRITE, 0, USER_END - 4096, 0, 4096));
    let image = parse_file(&file).expect("a program");
    check_promises(&image, file.bytes);
    assert_eq!(image.end_page(), USER_END);
}

#[test]
fn real_programs_of_this_machine() {
    // Whatever of them is installed; most are dynamic.
    for path in ["/bin/busybox", "/bin/ls", "/bin/sh", "/usr/bin/env", "/sbin/ldconfig", "/usr/sbin/ldconfig"] {
        let Ok(file) = std::fs::read(path) else { continue };
        let start = &file[..file.len().min(4096)];
        let image = parse(start, file.len() as u64).unwrap_or_else(|error| panic!("{path}: {error}"));
        check_promises(&image, file.len() as u64);
        let Some(interpreter) = image.interpreter else { continue };
        let path = interpreter.to_str().expect("UTF-8");
        let file = std::fs::read(path).expect("it is there");
        let image =
            parse_interpreter(&file[..4096], file.len() as u64).unwrap_or_else(|error| panic!("{path}: {error}"));
        check_promises(&image, file.len() as u64);
        assert_eq!(image.segments[0].address, INTERPRETER_BASE);
    }
}
