//! Messages of function shipping.

use coppice_protocol::checkpoint::ObjectId;
use coppice_protocol::lease::{FileId, Grant, Lease};
use coppice_protocol::lock::{Asked, Locked, Span, Whose};
use coppice_protocol::ship::{
    Call, FileStatus, FileSystemStatus, Handle, Keeping, Known, Location, Notice, Owner, Reply, Request, Stream,
    TimeChange, Timestamp,
};
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;

use super::{bytes, job, program, rank};

pub(super) fn stream() -> impl Strategy<Value = Stream> {
    select(vec![Stream::Output, Stream::Error, Stream::Trace])
}

fn handle() -> impl Strategy<Value = Handle> {
    any::<u32>().prop_map(Handle)
}

fn location() -> impl Strategy<Value = Location> {
    (option::of(handle()), bytes()).prop_map(|(directory, path)| Location { directory, path })
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    any::<(i64, u32)>().prop_map(|(seconds, nanoseconds)| Timestamp { seconds, nanoseconds })
}

fn time_change() -> impl Strategy<Value = TimeChange> {
    prop_oneof![Just(TimeChange::Omit), Just(TimeChange::Now), timestamp().prop_map(TimeChange::To)]
}

fn span() -> impl Strategy<Value = Span> {
    any::<(u64, u64, bool)>().prop_map(|(first, last, exclusive)| Span { first, last, exclusive })
}

fn asked() -> impl Strategy<Value = Asked> {
    let whose = select(vec![Whose::Process, Whose::OpenFile, Whose::Whole]);
    (handle(), whose, span()).prop_map(|(file, whose, span)| Asked { file, whose, span })
}

/// Calls about locks.
fn call_about_locks() -> impl Strategy<Value = Call> {
    prop_oneof![
        (asked(), any::<Option<u32>>()).prop_map(|(asked, wait)| Call::Lock { asked, wait }),
        any::<u32>().prop_map(|wait| Call::LockNothing { wait }),
        asked().prop_map(Call::Unlock),
        asked().prop_map(Call::TestLock),
    ]
}

/// Calls on programs, open files and streams.
fn call_by_handle() -> impl Strategy<Value = Call> {
    prop_oneof![
        (program(), any::<(u32, u16)>()).prop_map(|(program, (first, count))| Call::Pages { program, first, count }),
        handle().prop_map(Call::Close),
        (file_id(), any::<u64>()).prop_map(|(file, number)| Call::Return { file, number }),
        (handle(), any::<(u64, u32)>()).prop_map(|(file, (offset, length))| Call::Read { file, offset, length }),
        (handle(), any::<(u64, u32, bool)>()).prop_map(|(file, (offset, length, anyway))| Call::Fill {
            file,
            offset,
            length,
            anyway
        }),
        (handle(), any::<Option<u64>>()).prop_map(|(file, offset)| Call::Write { file, offset }),
        any::<u32>().prop_map(|length| Call::Input { length }),
        Just(Call::InputReady),
        Just(Call::PutObject),
        any::<[u8; 32]>().prop_map(|id| Call::GetObject(ObjectId(id))),
        Just(Call::SettleObjects),
        Just(Call::PrintNothing),
        stream().prop_map(Call::Print),
        handle().prop_map(Call::HandleStat),
        handle().prop_map(Call::HandleFileSystem),
        any::<u64>().prop_map(|number| Call::ReturnNames { number }),
        (handle(), any::<(u64, u32, bool)>()).prop_map(|(directory, (position, length, attributes))| Call::List {
            directory,
            position,
            length,
            attributes,
        }),
        (handle(), any::<u64>()).prop_map(|(file, length)| Call::HandleTruncate { file, length }),
        (handle(), any::<(u32, u64, u64)>()).prop_map(|(file, (mode, offset, length))| Call::Allocate {
            file,
            mode,
            offset,
            length,
        }),
        (handle(), any::<(u64, bool)>()).prop_map(|(file, (offset, hole))| Call::SeekData { file, offset, hole }),
        (handle(), any::<bool>()).prop_map(|(file, data_only)| Call::Synchronise { file, data_only }),
        (handle(), any::<u32>()).prop_map(|(file, mode)| Call::HandleChangeMode { file, mode }),
        (handle(), time_change(), time_change()).prop_map(|(file, accessed, modified)| Call::HandleChangeTimes {
            file,
            accessed,
            modified
        }),
        (handle(), any::<u32>()).prop_map(|(file, flags)| Call::SetFlags { file, flags }),
    ]
}

/// Calls on paths.
fn call_by_path() -> impl Strategy<Value = Call> {
    prop_oneof![
        (location(), any::<(u32, u32)>()).prop_map(|(at, (flags, mode))| Call::Open { at, flags, mode }),
        (location(), any::<bool>()).prop_map(|(at, follow)| Call::Stat { at, follow }),
        location().prop_map(Call::FileSystem),
        (location(), any::<(u32, u32)>()).prop_map(|(at, (mode, flags))| Call::Access { at, mode, flags }),
        location().prop_map(Call::ReadLink),
        location().prop_map(Call::Resolve),
        any::<(u64, u32)>().prop_map(|(made, entries)| Call::Manifest { made, entries }),
        (location(), any::<u32>()).prop_map(|(at, mode)| Call::MakeDirectory { at, mode }),
        (location(), any::<bool>()).prop_map(|(at, directory)| Call::Remove { at, directory }),
        (location(), location(), any::<u32>()).prop_map(|(from, to, flags)| Call::Rename { from, to, flags }),
        (location(), location(), any::<bool>()).prop_map(|(from, to, follow)| Call::Link { from, to, follow }),
        (bytes(), location()).prop_map(|(target, at)| Call::SymbolicLink { target, at }),
        (location(), any::<u64>()).prop_map(|(at, length)| Call::Truncate { at, length }),
        (location(), any::<u32>()).prop_map(|(at, mode)| Call::ChangeMode { at, mode }),
        (location(), time_change(), time_change(), any::<bool>())
            .prop_map(|(at, accessed, modified, follow)| { Call::ChangeTimes { at, accessed, modified, follow } }),
    ]
}

/// Requests of function shipping.
pub(crate) fn request() -> impl Strategy<Value = Request> {
    (job(), rank(), prop_oneof![call_by_handle(), call_by_path(), call_about_locks()])
        .prop_map(|(job, rank, call)| Request { owner: Owner { job, rank }, call })
}

fn file_status() -> impl Strategy<Value = FileStatus> {
    let times = (timestamp(), timestamp(), timestamp(), option::of(timestamp()));
    (any::<[u64; 6]>(), any::<[u32; 4]>(), times).prop_map(|(wide, narrow, times)| {
        let [device, inode, links, special_device, size, blocks] = wide;
        let [mode, user, group, block_size] = narrow;
        let (accessed, modified, changed, created) = times;
        FileStatus {
            device,
            inode,
            mode,
            links,
            user,
            group,
            special_device,
            size,
            block_size,
            blocks,
            accessed,
            modified,
            changed,
            created,
        }
    })
}

fn file_system_status() -> impl Strategy<Value = FileSystemStatus> {
    any::<[u64; 10]>().prop_map(|numbers| {
        let [
            kind,
            block_size,
            blocks,
            blocks_free,
            blocks_available,
            files,
            files_free,
            name_bytes_max,
            fragment_size,
            flags,
        ] = numbers;
        FileSystemStatus {
            kind,
            block_size,
            blocks,
            blocks_free,
            blocks_available,
            files,
            files_free,
            name_bytes_max,
            fragment_size,
            flags,
        }
    })
}

fn file_id() -> impl Strategy<Value = FileId> {
    any::<(u64, u64)>().prop_map(|(device, inode)| FileId { device, inode })
}

fn grant() -> impl Strategy<Value = Grant> {
    let lease = prop_oneof![Just(Lease::Shared), Just(Lease::Sole)];
    (lease, any::<[u64; 3]>()).prop_map(|(lease, [number, known, version])| Grant { lease, number, known, version })
}

fn known() -> impl Strategy<Value = Known> {
    let opened = (handle(), file_status(), option::of(grant()));
    let listed = (any::<u64>(), proptest::collection::vec(option::of(file_status()), 0..3));
    prop_oneof![
        Just(Known::Done),
        Just(Known::Data),
        opened.prop_map(|(handle, status, grant)| Known::Opened { handle, status: Box::new(status), grant }),
        file_status().prop_map(|status| Known::Status(Box::new(status))),
        listed.prop_map(|(next, attributes)| Known::Entries { next, attributes }),
        bytes().prop_map(Known::Path),
        any::<u16>().prop_map(Known::Failed),
    ]
}

/// Replies of function shipping.
pub(crate) fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        Just(Reply::Done),
        Just(Reply::Data),
        proptest::collection::vec(any::<[u8; 32]>(), 0..4).prop_map(|beside| Reply::Pages { beside }),
        any::<(u32, u64)>().prop_map(|(bytes, end)| Reply::Written { bytes, end }),
        any::<u64>().prop_map(Reply::Count),
        any::<[u8; 32]>().prop_map(|id| Reply::Object(ObjectId(id))),
        (handle(), file_status(), option::of(grant())).prop_map(|(handle, status, grant)| Reply::Opened {
            handle,
            status,
            grant
        }),
        file_status().prop_map(Reply::Status),
        file_system_status().prop_map(Reply::FileSystem),
        any::<u64>().prop_map(|next| Reply::Entries { next }),
        bytes().prop_map(Reply::Path),
        (any::<u64>(), proptest::collection::vec(any::<u32>(), 0..5))
            .prop_map(|(made, untrue)| Reply::Manifest { made, untrue }),
        any::<u16>().prop_map(Reply::Failed),
        (any::<(u64, bool, bool)>(), known()).prop_map(|((number, is_plain, attributes), known)| {
            Reply::Known(Keeping { number, is_plain, attributes }, known)
        }),
        Just(Reply::Later),
        (job(), rank(), any::<bool>(), span()).prop_map(|(job, rank, is_open_files, span)| {
            Reply::Locked(Locked { owner: Owner { job, rank }, is_open_files, span })
        }),
    ]
}

/// What an I/O node says of its own accord.
pub(crate) fn notice() -> impl Strategy<Value = Notice> {
    let owner = || (job(), rank()).prop_map(|(job, rank)| Owner { job, rank });
    let recall = (job(), file_id(), any::<u64>());
    let recall = recall.prop_map(|(job, file, number)| Notice::Recall { job, file, number });
    let names = (job(), any::<u64>()).prop_map(|(job, number)| Notice::RecallNames { job, number });
    prop_oneof![
        owner().prop_map(Notice::Output),
        owner().prop_map(Notice::Input),
        owner().prop_map(Notice::Lock),
        recall,
        names
    ]
}
