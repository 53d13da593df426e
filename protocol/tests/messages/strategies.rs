//! Strategies for every message type, by hand: what the derive would make of them is what the limits allow, no less.

use core::net::Ipv4Addr;

use coppice_protocol::control::{Exit, Launch, MemoryStatus, NodeStatus, RankReport, SyscallCount, ToIoNode, ToNode};
use coppice_protocol::ids::{Generation, JobId, MacAddress, NodeId, ProgramId, PsetId, Rank};
use coppice_protocol::personality::{NodeKey, Personality};
use coppice_protocol::pset::{FromPset, StartJob, ToPset};
use coppice_protocol::ras::{RasEvent, RasKind, Severity};
use coppice_protocol::ship::{
    Call, FileStatus, FileSystemStatus, Handle, Location, Owner, Reply, Request, Stream, TimeChange, Timestamp,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;

fn node() -> impl Strategy<Value = NodeId> {
    any::<u32>().prop_map(NodeId)
}

fn generation() -> impl Strategy<Value = Generation> {
    any::<u32>().prop_map(Generation)
}

fn job() -> impl Strategy<Value = JobId> {
    any::<u64>().prop_map(JobId)
}

fn rank() -> impl Strategy<Value = Rank> {
    any::<u32>().prop_map(Rank)
}

fn program() -> impl Strategy<Value = ProgramId> {
    any::<[u8; 32]>().prop_map(ProgramId)
}

fn key() -> impl Strategy<Value = NodeKey> {
    any::<[u8; 32]>().prop_map(NodeKey)
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    vec(any::<String>(), 0..4)
}

fn memory() -> impl Strategy<Value = MemoryStatus> {
    any::<(u64, u64, u64)>().prop_map(|(total, kernel, free)| MemoryStatus { total, kernel, free })
}

fn node_status() -> impl Strategy<Value = NodeStatus> {
    (any::<String>(), any::<(u64, u64)>(), memory()).prop_map(|(kernel, (boot_ns, boot_idle_ns), memory)| NodeStatus {
        kernel,
        boot_ns,
        boot_idle_ns,
        memory,
    })
}

fn severity() -> impl Strategy<Value = Severity> {
    select(vec![Severity::Info, Severity::Warn, Severity::Error, Severity::Fatal])
}

fn ras_kind() -> impl Strategy<Value = RasKind> {
    select(vec![
        RasKind::ProgramFault,
        RasKind::UnknownSyscall,
        RasKind::OutOfMemory,
        RasKind::KernelPanic,
        RasKind::NodeLost,
        RasKind::NodeReady,
        RasKind::IoNodeLost,
        RasKind::BadPeer,
        RasKind::EventsLost,
        RasKind::Recovery,
    ])
}

fn ras_event() -> impl Strategy<Value = RasEvent> {
    (
        severity(),
        ras_kind(),
        option::of(job()),
        option::of(rank()),
        any::<Option<u64>>(),
        any::<Option<u64>>(),
        any::<String>(),
    )
        .prop_map(|(severity, kind, job, rank, address, instruction, text)| RasEvent {
            severity,
            kind,
            job,
            rank,
            address,
            instruction,
            text,
        })
}

fn launch() -> impl Strategy<Value = Launch> {
    let who = (job(), rank(), any::<u32>(), program(), any::<u64>());
    let what = (any::<String>(), texts(), texts(), any::<String>());
    (who, what, any::<(u32, u32, u32)>()).prop_map(|(who, what, (user, group, umask))| {
        let (job, rank, size, program, program_bytes) = who;
        let (path, arguments, environment, directory) = what;
        Launch { job, rank, size, program, program_bytes, path, arguments, environment, directory, user, group, umask }
    })
}

fn exit() -> impl Strategy<Value = Exit> {
    prop_oneof![any::<u8>().prop_map(Exit::Status), any::<u8>().prop_map(Exit::Signal), Just(Exit::NotStarted)]
}

fn rank_report() -> impl Strategy<Value = RankReport> {
    let count = any::<(i32, u64, u64)>().prop_map(|(number, calls, unknown)| SyscallCount { number, calls, unknown });
    (job(), rank(), exit(), any::<Option<String>>(), any::<[u64; 8]>(), vec(count, 0..6)).prop_map(
        |(job, rank, exit, reason, numbers, syscalls)| {
            let [
                launch_ns,
                run_ns,
                page_faults,
                instruction_faults,
                pages_fetched,
                pages_peak,
                bytes_written,
                bytes_read,
            ] = numbers;
            RankReport {
                job,
                rank,
                exit,
                reason,
                launch_ns,
                run_ns,
                page_faults,
                instruction_faults,
                pages_fetched,
                pages_peak,
                bytes_written,
                bytes_read,
                syscalls,
            }
        },
    )
}

/// Messages of the control protocol to a node.
pub(crate) fn to_node() -> impl Strategy<Value = ToNode> {
    prop_oneof![
        any::<(u64, u64)>().prop_map(|(sequence, realtime_ns)| ToNode::Ping { sequence, realtime_ns }),
        launch().prop_map(ToNode::Launch),
        (job(), any::<u8>()).prop_map(|(job, signal)| ToNode::Kill { job, signal }),
        Just(ToNode::PowerOff),
    ]
}

/// Messages of the control protocol to an I/O node.
pub(crate) fn to_io_node() -> impl Strategy<Value = ToIoNode> {
    prop_oneof![
        node_status().prop_map(ToIoNode::Ready),
        (any::<u64>(), memory()).prop_map(|(sequence, memory)| ToIoNode::Pong { sequence, memory }),
        (job(), rank()).prop_map(|(job, rank)| ToIoNode::Launched { job, rank }),
        rank_report().prop_map(ToIoNode::Ended),
        ras_event().prop_map(ToIoNode::Ras),
    ]
}

fn start_job() -> impl Strategy<Value = StartJob> {
    let files = (any::<String>(), any::<String>(), any::<String>(), any::<String>());
    let members = vec((rank(), node()), 0..5);
    ((launch(), files), option::of(rank()), members).prop_map(|((launch, files), input_rank, members)| {
        let (root, program_file, path, directory) = files;
        StartJob {
            job: launch.job,
            size: launch.size,
            root,
            program: launch.program,
            program_bytes: launch.program_bytes,
            program_file,
            path,
            arguments: launch.arguments,
            environment: launch.environment,
            directory,
            user: launch.user,
            group: launch.group,
            umask: launch.umask,
            input_rank,
            members,
        }
    })
}

/// Messages of the service node to an I/O node.
pub(crate) fn to_pset() -> impl Strategy<Value = ToPset> {
    prop_oneof![
        any::<(u16, u32, u16, String, String)>().prop_map(|(version, pset, mtu, socket, fabric)| ToPset::Configure {
            version,
            pset: PsetId(pset),
            mtu,
            socket,
            fabric,
        }),
        (node(), generation(), key()).prop_map(|(node, generation, key)| ToPset::AddNode { node, generation, key }),
        node().prop_map(|node| ToPset::RemoveNode { node }),
        start_job().prop_map(ToPset::Start),
        (job(), any::<u8>()).prop_map(|(job, signal)| ToPset::Kill { job, signal }),
        job().prop_map(|job| ToPset::Forget { job }),
        (job(), any::<Vec<u8>>()).prop_map(|(job, bytes)| ToPset::Input { job, bytes }),
        (job(), any::<u32>()).prop_map(|(job, bytes)| ToPset::OutputTaken { job, bytes }),
        Just(ToPset::Shutdown),
    ]
}

fn stream() -> impl Strategy<Value = Stream> {
    select(vec![Stream::Output, Stream::Error])
}

/// Messages of an I/O node to the service node.
pub(crate) fn from_pset() -> impl Strategy<Value = FromPset> {
    prop_oneof![
        Just(FromPset::Listening),
        (node(), generation(), node_status()).prop_map(|(node, generation, status)| FromPset::NodeReady {
            node,
            generation,
            status
        }),
        (node(), generation(), any::<String>()).prop_map(|(node, generation, reason)| FromPset::NodeLost {
            node,
            generation,
            reason
        }),
        (job(), rank()).prop_map(|(job, rank)| FromPset::Launched { job, rank }),
        (node(), rank_report()).prop_map(|(node, report)| FromPset::Ended { node, report }),
        (job(), rank(), any::<String>()).prop_map(|(job, rank, reason)| FromPset::Refused { job, rank, reason }),
        (job(), rank(), stream(), any::<Vec<u8>>()).prop_map(|(job, rank, stream, bytes)| FromPset::Output {
            job,
            rank,
            stream,
            bytes
        }),
        (job(), any::<u32>()).prop_map(|(job, bytes)| FromPset::InputTaken { job, bytes }),
        (node(), ras_event()).prop_map(|(node, event)| FromPset::Ras { node, event }),
    ]
}

fn handle() -> impl Strategy<Value = Handle> {
    any::<u32>().prop_map(Handle)
}

fn location() -> impl Strategy<Value = Location> {
    (option::of(handle()), any::<String>()).prop_map(|(directory, path)| Location { directory, path })
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    any::<(i64, u32)>().prop_map(|(seconds, nanoseconds)| Timestamp { seconds, nanoseconds })
}

fn time_change() -> impl Strategy<Value = TimeChange> {
    prop_oneof![Just(TimeChange::Omit), Just(TimeChange::Now), timestamp().prop_map(TimeChange::To)]
}

/// Calls on programs, open files and streams.
fn call_by_handle() -> impl Strategy<Value = Call> {
    prop_oneof![
        (program(), any::<(u32, u16)>()).prop_map(|(program, (first, count))| Call::Pages { program, first, count }),
        handle().prop_map(Call::Close),
        (handle(), any::<(u64, u32)>()).prop_map(|(file, (offset, length))| Call::Read { file, offset, length }),
        (handle(), any::<Option<u64>>()).prop_map(|(file, offset)| Call::Write { file, offset }),
        any::<u32>().prop_map(|length| Call::Input { length }),
        any::<u32>().prop_map(|wait_ms| Call::InputReady { wait_ms }),
        stream().prop_map(Call::Print),
        handle().prop_map(Call::HandleStat),
        handle().prop_map(Call::HandleFileSystem),
        (handle(), any::<(u64, u32)>()).prop_map(|(directory, (position, length))| Call::List {
            directory,
            position,
            length,
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
        (location(), any::<u32>()).prop_map(|(at, mode)| Call::MakeDirectory { at, mode }),
        (location(), any::<bool>()).prop_map(|(at, directory)| Call::Remove { at, directory }),
        (location(), location(), any::<u32>()).prop_map(|(from, to, flags)| Call::Rename { from, to, flags }),
        (location(), location(), any::<bool>()).prop_map(|(from, to, follow)| Call::Link { from, to, follow }),
        (any::<String>(), location()).prop_map(|(target, at)| Call::SymbolicLink { target, at }),
        (location(), any::<u64>()).prop_map(|(at, length)| Call::Truncate { at, length }),
        (location(), any::<u32>()).prop_map(|(at, mode)| Call::ChangeMode { at, mode }),
        (location(), time_change(), time_change(), any::<bool>())
            .prop_map(|(at, accessed, modified, follow)| { Call::ChangeTimes { at, accessed, modified, follow } }),
    ]
}

/// Requests of function shipping.
pub(crate) fn request() -> impl Strategy<Value = Request> {
    (job(), rank(), prop_oneof![call_by_handle(), call_by_path()])
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

/// Replies of function shipping.
pub(crate) fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        Just(Reply::Done),
        Just(Reply::Data),
        any::<(u32, u64)>().prop_map(|(bytes, end)| Reply::Written { bytes, end }),
        any::<u64>().prop_map(Reply::Count),
        (handle(), file_status()).prop_map(|(handle, status)| Reply::Opened { handle, status }),
        file_status().prop_map(Reply::Status),
        file_system_status().prop_map(Reply::FileSystem),
        any::<u64>().prop_map(|next| Reply::Entries { next }),
        any::<String>().prop_map(Reply::Path),
        any::<u16>().prop_map(Reply::Failed),
    ]
}

/// Personalities that a node takes.
pub(crate) fn personality() -> impl Strategy<Value = Personality> {
    let numbers = (0..0x00bf_fffe_u32, any::<u32>(), 0..0x003f_ffff_u32, 576..=u16::MAX, 1..=32_u8);
    (numbers, any::<[u8; 32]>(), any::<[u8; 32]>(), any::<u64>(), any::<u8>()).prop_map(
        |((node, generation, pset, mtu, prefix), key, seed, realtime_ns, log_level)| {
            let address = NodeId(node).address();
            Personality {
                node: NodeId(node),
                generation: Generation(generation),
                pset: PsetId(pset),
                address,
                prefix,
                mac: MacAddress::of(address),
                mtu,
                io_node: PsetId(pset).address(),
                key: NodeKey(key),
                seed,
                realtime_ns,
                log_level,
            }
        },
    )
}

/// One personality, the same each time.
pub(crate) fn example_personality() -> Personality {
    Personality {
        node: NodeId(5),
        generation: Generation(2),
        pset: PsetId(1),
        address: Ipv4Addr::new(10, 64, 0, 6),
        prefix: 8,
        mac: MacAddress([2, 0, 10, 64, 0, 6]),
        mtu: 9000,
        io_node: Ipv4Addr::new(10, 0, 0, 2),
        key: NodeKey([0xaa; 32]),
        seed: [0xbb; 32],
        realtime_ns: 1_700_000_000_000_000_000,
        log_level: 3,
    }
}
