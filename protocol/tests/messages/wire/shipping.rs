//! Calls that are shipped, and their answers.

use coppice_protocol::lease::{FileId, Grant, Lease};
use coppice_protocol::lock::{Asked, Locked, Span, Whose};
use coppice_protocol::ship::{
    Call, FileStatus, FileSystemStatus, Handle, Keeping, Known, Location, Owner, Reply, Request, Stream, TimeChange,
    Timestamp,
};

use super::{JOB, PROGRAM, RANK, line};

const FILE: FileId = FileId { device: 1, inode: 2 };
const SPAN: Span = Span { first: 1, last: 2, exclusive: true };
const GRANT: Grant = Grant { lease: Lease::Sole, number: 4, known: 3, version: 5 };

fn location() -> Location {
    Location { directory: Some(Handle(7)), path: "a/b".into() }
}

fn status() -> FileStatus {
    FileStatus {
        device: 1,
        inode: 2,
        mode: 0o100_644,
        links: 3,
        user: 4,
        group: 5,
        special_device: 6,
        size: 7,
        block_size: 8,
        blocks: 9,
        accessed: Timestamp { seconds: -1, nanoseconds: 10 },
        modified: Timestamp { seconds: 1, nanoseconds: 11 },
        changed: Timestamp { seconds: 2, nanoseconds: 12 },
        created: Some(Timestamp { seconds: 3, nanoseconds: 13 }),
    }
}

#[test]
fn calls() {
    let mut table = String::new();
    let file = Handle(7);
    let asked = Asked { file, whose: Whose::OpenFile, span: SPAN };
    let when = TimeChange::To(Timestamp { seconds: 1, nanoseconds: 2 });
    let calls = [
        ("Pages", Call::Pages { program: PROGRAM, first: 1, count: 2 }),
        ("Open", Call::Open { at: location(), flags: 1, mode: 2 }),
        ("Close", Call::Close(file)),
        ("Return", Call::Return { file: FILE, number: 6 }),
        ("ReturnNames", Call::ReturnNames { number: 6 }),
        ("Read", Call::Read { file, offset: 1, length: 2 }),
        ("Fill", Call::Fill { file, offset: 1, length: 2, anyway: true }),
        ("Write", Call::Write { file, offset: Some(1) }),
        ("Input", Call::Input { length: 1 }),
        ("InputReady", Call::InputReady),
        ("PrintNothing", Call::PrintNothing),
        ("Print", Call::Print(Stream::Error)),
        ("Stat", Call::Stat { at: location(), follow: true }),
        ("HandleStat", Call::HandleStat(file)),
        ("FileSystem", Call::FileSystem(location())),
        ("HandleFileSystem", Call::HandleFileSystem(file)),
        ("Access", Call::Access { at: location(), mode: 1, flags: 2 }),
        ("List", Call::List { directory: file, position: 1, length: 2, attributes: true }),
        ("ReadLink", Call::ReadLink(location())),
        ("Resolve", Call::Resolve(location())),
        ("Manifest", Call::Manifest { made: 1, entries: 2 }),
        ("MakeDirectory", Call::MakeDirectory { at: location(), mode: 1 }),
        ("Remove", Call::Remove { at: location(), directory: true }),
        ("Rename", Call::Rename { from: location(), to: location(), flags: 1 }),
        ("Link", Call::Link { from: location(), to: location(), follow: true }),
        ("SymbolicLink", Call::SymbolicLink { target: b"t\xff"[..].into(), at: location() }),
        ("Truncate", Call::Truncate { at: location(), length: 1 }),
        ("HandleTruncate", Call::HandleTruncate { file, length: 1 }),
        ("Allocate", Call::Allocate { file, mode: 1, offset: 2, length: 3 }),
        ("SeekData", Call::SeekData { file, offset: 1, hole: true }),
        ("Synchronise", Call::Synchronise { file, data_only: true }),
        ("ChangeMode", Call::ChangeMode { at: location(), mode: 1 }),
        ("HandleChangeMode", Call::HandleChangeMode { file, mode: 1 }),
        (
            "ChangeTimes",
            Call::ChangeTimes { at: location(), accessed: TimeChange::Omit, modified: TimeChange::Now, follow: true },
        ),
        ("HandleChangeTimes", Call::HandleChangeTimes { file, accessed: when, modified: when }),
        ("SetFlags", Call::SetFlags { file, flags: 1 }),
        ("Lock", Call::Lock { asked, wait: Some(3) }),
        ("LockNothing", Call::LockNothing { wait: 3 }),
        ("Unlock", Call::Unlock(asked)),
        ("TestLock", Call::TestLock(asked)),
    ];
    for (name, call) in calls {
        line(&mut table, name, &Request { owner: Owner { job: JOB, rank: RANK }, call });
    }
    insta::assert_snapshot!(table);
}

#[test]
fn replies() {
    let mut table = String::new();
    let replies = [
        ("Done", Reply::Done),
        ("Data", Reply::Data),
        ("Pages", Reply::Pages { beside: vec![[1; 32], [2; 32]] }),
        ("Written", Reply::Written { bytes: 1, end: 2 }),
        ("Count", Reply::Count(1)),
        ("Opened", Reply::Opened { handle: Handle(7), status: status(), grant: Some(GRANT) }),
        ("Status", Reply::Status(status())),
        ("FileSystem", Reply::FileSystem(FileSystemStatus { kind: 0xef53, flags: 1, ..FileSystemStatus::default() })),
        ("Entries", Reply::Entries { next: 1 }),
        ("Path", Reply::Path("/a".into())),
        ("Manifest", Reply::Manifest { made: 1, untrue: vec![2, 3] }),
        ("Failed", Reply::Failed(2)),
        ("Known", Reply::Known(Keeping { number: 3, is_plain: true, attributes: true }, Known::Failed(2))),
        ("Later", Reply::Later),
        ("Locked", Reply::Locked(Locked { owner: Owner { job: JOB, rank: RANK }, is_open_files: true, span: SPAN })),
    ];
    for (name, reply) in replies {
        line(&mut table, name, &reply);
    }
    insta::assert_snapshot!(table);
}
