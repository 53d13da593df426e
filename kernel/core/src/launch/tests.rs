//! Launches that come to nothing, and how they are reported.

use alloc::vec;
use alloc::vec::Vec;

use coppice_protocol::control::{Exit, Launch, RankReport};
use coppice_protocol::text::ByteString;

use crate::process::testing::{World, launch, order, small_program};

fn reason(report: &RankReport) -> (Exit, &str) {
    (report.exit, report.reason.as_deref().unwrap_or("none"))
}

#[test]
fn a_killed_process_is_reported_with_the_first_signal() {
    let report = launch(order(1), |world| world.stuck_from = Some(0), 15);
    assert_eq!((report.exit, report.rank, report.syscalls.len()), (Exit::Signal(15), order(1).first, 0));
}

#[test]
fn a_launch_for_which_there_is_no_memory_is_refused() {
    // Each takes its place in two lists while the process is made.
    let report = launch(Launch { arguments: vec![ByteString::new(); 300_000], ..order(1) }, |_| (), 9);
    assert_eq!(reason(&report), (Exit::NotStarted, "the node has no memory for a process"));
}

#[test]
fn what_is_no_program_is_not_started() {
    let report = launch(order(1), |world| world.program = b"#!/bin/sh\n".to_vec(), 9);
    let (exit, text) = reason(&report);
    assert_eq!(exit, Exit::NotStarted);
    assert!(text.starts_with("bin/test: "), "{text}");
    assert!(!text.contains('\n'), "{text}");
}

#[test]
fn a_program_cut_short_is_not_started() {
    let mut program = vec![0; 4096];
    program[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0");
    let report = launch(order(1), |world| world.program = program, 9);
    assert_eq!(report.exit, Exit::NotStarted);
}

#[test]
fn a_working_directory_that_is_not_there_is_named() {
    for (directory, expected) in [
        (&b"/nowhere"[..], "working directory /nowhere: No such file or directory (ENOENT)"),
        (b"/work/a", "working directory /work/a: Not a directory (ENOTDIR)"),
        (b"/dev/null", "working directory /dev/null: Not a directory (ENOTDIR)"),
        (b"/\xff\n", "working directory /\\xff\\n: No such file or directory (ENOENT)"),
        (b"/dev/shm/a", "working directory /dev/shm/a: No such file or directory (ENOENT)"),
    ] {
        let order = Launch { directory: directory.into(), ..order(1) };
        let report = launch(order, |_| (), 9);
        assert_eq!(reason(&report), (Exit::NotStarted, expected));
    }
}

/// A small program that names a dynamic linker.
fn dynamic(linker: &str) -> Vec<u8> {
    let mut program = small_program();
    let path = [linker.as_bytes(), b"\0"].concat();
    program[2000..2000 + path.len()].copy_from_slice(&path);
    let header: [u64; 7] = [4 << 32 | 3, 2000, 0, 0, path.len() as u64, 0, 1];
    for (word, value) in header.iter().enumerate() {
        let at = 120 + 8 * word;
        program[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    program[24..32].copy_from_slice(&0x40_0800_u64.to_le_bytes());
    program[56] = 2;
    program
}

#[test]
fn a_dynamic_linker_that_cannot_be_used_is_named() {
    let cut_short = &small_program()[..100];
    let none = dynamic("/lib/other");
    let cases: [(&str, &[u8], &str); 6] = [
        ("/lib/nothing", b"", "/lib/nothing cannot be opened in the job's root: No such file or directory"),
        ("/dev/null", b"", "/dev/null cannot be opened in the job's root: Permission denied"),
        ("/work/ld", b"#!/bin/sh\n", "/work/ld: not an ELF program but a script"),
        ("/work/ld", cut_short, "/work/ld: truncated"),
        ("/work/ld", &small_program(), "/work/ld: not a dynamic linker: it is linked to fixed addresses"),
        ("/work/ld", &none, "/work/ld: not a dynamic linker: it needs one itself"),
    ];
    for (linker, file, expected) in cases {
        let prepare = |world: &mut World| {
            world.program = dynamic(linker);
            world.files.insert(b"/work/ld".to_vec(), file.to_vec());
        };
        let report = launch(order(1), prepare, 9);
        let (exit, text) = reason(&report);
        assert_eq!(exit, Exit::NotStarted, "{text}");
        assert!(text.starts_with("bin/test: its dynamic linker ") && text.contains(expected), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }
}
