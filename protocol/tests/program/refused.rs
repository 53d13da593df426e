//! Files that cannot run, and the line that their user reads.

use core::fmt::Write;

use coppice_protocol::limits::PROGRAM_BYTES_MAX;
use coppice_protocol::program::{FileKind, ProgramError, USER_END, parse, parse_interpreter};

use crate::elf_file::{DYNAMIC, ElfFile, HEADERS, Header, INTERPRETER, READ, WRITE, load, other};
use crate::parse_file;

/// The error for a program after this change to it.
fn refuse(change: impl FnOnce(&mut ElfFile)) -> ProgramError {
    let mut file = ElfFile::fixed();
    change(&mut file);
    parse_file(&file).expect_err("cannot run")
}

#[test]
fn files_that_are_no_elf_files() {
    let files: [(&[u8], FileKind); 14] = [
        (b"", FileKind::Empty),
        (b"#!/bin/sh\necho hello\n", FileKind::Script),
        (b"MZ\x90\0\x03", FileKind::Windows),
        (b"\xcf\xfa\xed\xfe\x07\0\0\x01", FileKind::MacOs),
        (b"\0asm\x01\0\0\0", FileKind::WebAssembly),
        (b"!<arch>\nx.o", FileKind::Archive),
        (b"\x1f\x8b\x08", FileKind::Compressed),
        (b"PK\x03\x04", FileKind::Compressed),
        (b"int main() { return 0; }\n", FileKind::Text),
        ("größer\n".as_bytes(), FileKind::Text),
        (b"\x7fELG\x02\x01\x01", FileKind::Unknown),
        (b"\x7fEL", FileKind::Unknown),
        (&[0; 4096], FileKind::Unknown),
        (b"\x01\x02\x03", FileKind::Unknown),
    ];
    for (bytes, kind) in files {
        assert_eq!(parse(bytes, bytes.len() as u64), Err(ProgramError::NotElf(kind)), "{bytes:?}");
    }
}

#[test]
fn cut_short() {
    let file = ElfFile::fixed();
    let page = file.page();
    // Anywhere: in the header, in the table, in the segments. Only the bytes after the last segment do not matter.
    let end = 0x5708 + 0x908;
    for cut in (4..600).chain([4096, 0x1500, 0x4fff, end - 1]) {
        let start = &page[..cut.min(page.len())];
        let Err(ProgramError::Truncated { needed, file_bytes, .. }) = parse(start, cut as u64) else {
            panic!("cut at {cut}")
        };
        assert_eq!(file_bytes, cut as u64);
        assert!(needed > file_bytes);
    }
    assert!(parse(&page, end as u64).is_ok());
    // A caller who passes less of the file than he should.
    assert!(parse(&page[..100], file.bytes).is_err());
    assert!(parse(&page[..10], file.bytes).is_err());
}

fn with_interpreter(path: &[u8], offset: u64) -> ElfFile {
    let mut file = ElfFile::fixed();
    file.headers.push(other(INTERPRETER, offset, 0, path.len() as u64));
    file.content.push((offset.min(4000) as usize, path.to_vec()));
    file
}

#[test]
fn dynamic_linkers_have_absolute_paths() {
    let named = |path: &[u8], offset| parse_file(&with_interpreter(path, offset)).map(|image| image.interpreter);
    let path = |path: &[u8]| Ok(Some(path.into()));
    assert_eq!(named(b"/lib/ld-musl-x86_64.so.1\0", 1000), path(b"/lib/ld-musl-x86_64.so.1"));
    assert_eq!(named(b"/lib/\n\xff\0x\0", 1000), path(b"/lib/\n\xff"));
    for (bytes, offset) in [
        (&b"\0"[..], 1000),
        (b"", 1000),
        (b"lib/ld.so\0", 1000),
        (b"/lib/ld.so", 1000),
        (b"/lib/ld.so\0", 4090),
        (b"/lib/ld.so\0", 5000),
        (b"/lib/ld.so\0", u64::MAX),
    ] {
        assert_eq!(named(bytes, offset), Err(ProgramError::Interpreter), "{bytes:?} at {offset}");
    }
}

#[test]
fn a_dynamic_linker_needs_none_and_lies_anywhere() {
    let refused = |file: &ElfFile| parse_interpreter(&file.page(), file.bytes).map(drop);
    assert_eq!(refused(&ElfFile::fixed()), Err(ProgramError::NoInterpreter("it is linked to fixed addresses")));
    let itself = with_interpreter(b"/lib/ld.so\0", 1000);
    assert_eq!(refused(&itself), Err(ProgramError::NoInterpreter("it needs one itself")));
}

#[test]
fn segments_that_overlap() {
    let overlap = ProgramError::Overlap { first: 0x40_4000, second: 0x40_5000 };
    assert_eq!(refuse(|file| file.headers[4] = load(READ | WRITE, 0x5000, 0x40_5000, 0x10, 0x10)), overlap);
    // In the same page of memory, and not the same page of the file.
    let overlap = ProgramError::Overlap { first: 0x40_4000, second: 0x40_5100 };
    assert_eq!(refuse(|file| file.headers[4] = load(READ | WRITE, 0x4100, 0x40_5100, 0x10, 0x10)), overlap);
    // In the same page of the file, but one of them wants zeros there.
    let zeros = refuse(|file| {
        file.headers[3].memory_bytes += 1;
        file.headers[4] = load(READ | WRITE, 0x5100, 0x40_5100, 0x10, 0x10);
    });
    assert_eq!(zeros, overlap);
    let zeros = refuse(|file| file.headers[4] = load(READ | WRITE, 0, 0x40_5100, 0, 0x10));
    assert_eq!(zeros, overlap);
    // One within another, and one twice.
    assert!(matches!(
        refuse(|file| file.headers[2].memory_bytes = 0x10_0000),
        ProgramError::Overlap { first: 0x40_1000, second: 0x40_4000 }
    ));
    assert!(matches!(
        refuse(|file| {
            let twice = file.headers[2];
            file.headers.push(twice);
        }),
        ProgramError::Overlap { first: 0x40_1000, second: 0x40_1000 }
    ));
}

#[test]
fn segments_in_other_peoples_memory() {
    for address in [0xffff_8000_0000_0000, 0x8000_0000_0000, USER_END, USER_END - 4095, u64::MAX - 4095] {
        let offset = address % 4096;
        let error = refuse(|file| file.headers.push(load(READ, offset, address, 16, 4096)));
        assert_eq!(error, ProgramError::KernelAddress { address });
    }
    let error = refuse(|file| file.headers[4].memory_bytes = u64::MAX - 0x1000);
    assert_eq!(error, ProgramError::KernelAddress { address: 0x40_6708 });
    for address in [0, 0x1000, 0xf000] {
        let error = refuse(|file| file.headers.push(load(READ, 0, address, 16, 16)));
        assert_eq!(error, ProgramError::LowAddress { address });
    }
    // A position-independent program whose parts are farther apart than there is room.
    let mut file = ElfFile::position_independent();
    file.headers.push(load(READ, 0, USER_END, 16, 16));
    assert_eq!(parse_file(&file), Err(ProgramError::KernelAddress { address: USER_END }));
    file.headers.last_mut().expect("one").address = u64::MAX - 4095;
    assert!(matches!(parse_file(&file), Err(ProgramError::KernelAddress { .. })));
}

#[test]
fn entry_points_that_lead_nowhere() {
    for address in [1, 0x40_0000, 0x40_3989, 0x40_4000, u64::MAX] {
        assert_eq!(refuse(|file| file.entry = address), ProgramError::Entry { address });
    }
    assert_eq!(refuse(|file| file.entry = 0), ProgramError::NoEntry);
}

#[test]
fn parts_outside_of_all_segments() {
    let damaged = |error: ProgramError| assert!(matches!(error, ProgramError::Damaged(_)), "{error}");
    damaged(refuse(|file| file.headers[0].address = 0x50_0000));
    damaged(refuse(|file| file.headers[0].address = u64::MAX));
    damaged(refuse(|file| file.headers[5].address = 0x50_0000));
    damaged(refuse(|file| file.headers[5].alignment = 24));
    damaged(refuse(|file| file.headers[5].memory_bytes = 1));
    damaged(refuse(|file| file.headers[6].address = 0x50_0000));
    damaged(refuse(|file| file.headers[6].memory_bytes = u64::MAX));
}

/// Every error there is, as its user reads it.
#[test]
fn what_users_read() {
    let errors = [
        parse(b"#!/bin/sh\n", 10).expect_err("a script"),
        parse(b"int main()", 10).expect_err("text"),
        parse(b"MZ", 2).expect_err("another system's"),
        parse(b"", 0).expect_err("empty"),
        parse(b"\0\x01", 2).expect_err("anything"),
        parse(b"\x7fELF\x02", 5).expect_err("cut short"),
        refuse(|file| file.bytes = 0x3000),
        refuse(|file| {
            file.headers.push(other(INTERPRETER, 1000, 0, 6));
            file.content.push((1000, b"ld.so\0".to_vec()));
        }),
        refuse(|file| file.machine = 183),
        refuse(|file| (file.class, file.machine) = (1, 3)),
        refuse(|file| (file.byte_order, file.machine) = (2, 22)),
        refuse(|file| file.machine = 0x1234),
        refuse(|file| file.class = 1),
        refuse(|file| file.byte_order = 2),
        refuse(|file| file.system = 9),
        refuse(|file| file.kind = 1),
        refuse(|file| file.kind = 4),
        refuse(|file| {
            (file.kind, file.entry) = (3, 0);
            file.headers.push(other(DYNAMIC, 0x5708, 0x40_6708, 0x10));
        }),
        refuse(|file| file.kind = 0xfe00),
        refuse(|file| file.version = 0),
        refuse(|file| file.class = 7),
        refuse(|file| file.byte_order = 0),
        refuse(|file| file.entry_bytes = 32),
        refuse(|file| file.table_offset = u64::MAX - 10),
        refuse(|file| file.table_offset = 4000),
        refuse(|file| file.count = Some(100)),
        refuse(|file| file.count = Some(u16::MAX)),
        refuse(|file| file.count = Some(0)),
        refuse(|file| file.headers.retain(|header| header.kind == HEADERS)),
        refuse(|file| {
            let more = |index: u64| load(READ, 0, 0x100_0000 + index * 0x1000, 16, 16);
            file.headers.extend((0..20).map(more));
        }),
        refuse(|file| file.bytes = PROGRAM_BYTES_MAX + 1),
        refuse(|file| file.headers[2].address += 8),
        refuse(|file| file.headers[2].memory_bytes -= 8),
        refuse(|file| file.headers[2].alignment = 3),
        refuse(|file| file.headers[2] = Header { offset: u64::MAX, ..file.headers[2] }),
        refuse(|file| file.headers[4] = load(READ, 0x4000, 0x40_5000, 0x10, 0x10)),
        refuse(|file| file.headers.push(load(READ, 0, 0xffff_ffff_8000_0000, 16, 16))),
        refuse(|file| file.headers.push(load(READ, 0, 0, 16, 16))),
        refuse(|file| file.entry = 0x40_0000),
        refuse(|file| file.headers[0].address = 0x50_0000),
    ];
    let mut text = String::new();
    for error in errors {
        let line = error.to_string();
        assert!(!line.contains('\n') && !line.contains("  "), "one line: {line:?}");
        writeln!(text, "{line}").expect("a string takes anything");
    }
    insta::assert_snapshot!(text);
}
