//! Messages of the control protocol, and what other messages have of theirs.

use coppice_protocol::checkpoint::ObjectId;
use coppice_protocol::control::{
    Dying, Ends, Exit, JobFailure, Launch, MemoryStatus, NodeRestore, NodeStatus, RankCounters, RankReport, Signal,
    SyscallCount, ToIoNode, ToNode, Waiting,
};
use coppice_protocol::distribution::{AskVariant, Scheme};
use coppice_protocol::ids::PsetId;
use coppice_protocol::pmi::{Fence, Modex, Startup};
use coppice_protocol::psets::PsetTable;
use coppice_protocol::ranks::Ranks;
use coppice_protocol::ras::{RasEvent, RasKind, Severity};
use coppice_protocol::staging::{StagedFile, Staging};
use coppice_protocol::text::ByteString;
use coppice_protocol::trace::Traced;
use coppice_protocol::transfer::MemberCounts;
use coppice_protocol::world::{JobKey, Passage, World};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;

use super::broadcast::broadcast;
use super::inspect::{inspect, inspected};
use super::keep::{keep, kept};
use super::overlay;
use super::retain::{discard, discarded, rank_retention, retain, retained, retained_programs};
use super::spawn::{joined, kin, origin, ranges, spawn, spawned};
use super::{bytes, job, node, program, rank};

pub(super) fn texts() -> impl Strategy<Value = Vec<ByteString>> {
    vec(bytes(), 0..4)
}

pub(super) fn memory() -> impl Strategy<Value = MemoryStatus> {
    any::<[u64; 4]>().prop_map(|[total, kernel, free, retained]| MemoryStatus { total, kernel, free, retained })
}

pub(super) fn node_status() -> impl Strategy<Value = NodeStatus> {
    (any::<String>(), any::<(u64, u64, u32)>(), memory()).prop_map(
        |(kernel, (boot_ns, boot_idle_ns, cores), memory)| NodeStatus { kernel, boot_ns, boot_idle_ns, cores, memory },
    )
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
        RasKind::DamagedProgram,
        RasKind::DamagedPiece,
        RasKind::LeaseKept,
        RasKind::LinkCut,
        RasKind::LinkMended,
        RasKind::RecordingEnded,
        RasKind::Undelivered,
        RasKind::OutputCut,
        RasKind::CheckpointFailed,
        RasKind::RestartFailed,
        RasKind::Overlay,
    ])
}

pub(super) fn ras_event() -> impl Strategy<Value = RasEvent> {
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

pub(super) fn world() -> impl Strategy<Value = World> {
    let startup = (option::of(select(vec![Modex::Full, Modex::Direct])), option::of(select(Fence::ALL.to_vec())));
    let passage = (any::<u32>(), any::<u32>()).prop_map(|(latency_ns, byte_ns)| Passage { latency_ns, byte_ns });
    let world = (any::<[u8; 32]>(), any::<u32>(), ranges(), option::of(kin()), startup, any::<u16>(), passage);
    world.prop_map(|(key, ranks_per_node, nodes, kin, (modex, fence), nodes_per_core, passage)| {
        let startup = Startup { modex, fence };
        World { key: JobKey(key), ranks_per_node, nodes, kin, startup, nodes_per_core, passage }
    })
}

pub(super) fn job_failure() -> impl Strategy<Value = JobFailure> {
    let failure = (job(), rank(), any::<u8>(), any::<String>());
    failure.prop_map(|(job, rank, code, reason)| JobFailure { job, rank, code, reason })
}

fn scheme() -> impl Strategy<Value = Scheme> {
    let ask = prop_oneof![Just(AskVariant::PieceFirst), Just(AskVariant::NodeFirst)];
    let branches = (any::<(u32, u8)>(), ask);
    let branches = branches.prop_map(|((branches, layers), ask)| Scheme::Branches { branches, layers, ask });
    prop_oneof![Just(Scheme::TwoTrees), branches]
}

pub(super) fn staging() -> impl Strategy<Value = Staging> {
    let file = (program(), any::<u64>(), option::of(bytes()));
    let file = file.prop_map(|(content, bytes, path)| StagedFile { content, bytes, path });
    let psets = any::<(u32, u32)>().prop_map(|(nodes, size)| PsetTable::new(nodes, size));
    let numbers = any::<(u32, u16, u64, u32, u32)>();
    (numbers, psets, vec(file, 0..4), scheme()).prop_map(|(numbers, psets, files, scheme)| {
        let (home, mtu, bytes_per_second, latency_ns, stall_ns) = numbers;
        Staging { home: PsetId(home), psets, mtu, bytes_per_second, latency_ns, stall_ns, files, scheme }
    })
}

pub(super) fn dying() -> impl Strategy<Value = Dying> {
    (job(), rank(), any::<u8>()).prop_map(|(job, rank, signal)| Dying { job, rank, signal })
}

pub(super) fn traced() -> impl Strategy<Value = Traced> {
    prop_oneof![Just(Traced::None), rank().prop_map(Traced::Rank), Just(Traced::All)]
}

pub(super) fn node_restore() -> impl Strategy<Value = NodeRestore> {
    let ranks = vec(any::<[u8; 32]>().prop_map(ObjectId), 0..4);
    (any::<([u8; 32], u64, bool)>(), ranks).prop_map(|((node, by, keep_files), ranks)| NodeRestore {
        node: ObjectId(node),
        ranks,
        by,
        keep_files,
    })
}

pub(super) fn launch() -> impl Strategy<Value = Launch> {
    let who = (job(), rank(), any::<(u32, u32)>(), program(), any::<u64>());
    let what = (bytes(), texts(), texts(), bytes());
    let how = (any::<(u32, u32, u32, bool, bool)>(), world(), option::of(staging()), option::of(node_restore()));
    let how = (how, any::<u32>(), option::of(origin()));
    (who, what, how).prop_map(|(who, what, (how, universe, origin))| {
        let ((user, group, umask, use_retained, is_traced), world, staging, restore) = how;
        let (job, first, (count, size), program, program_bytes) = who;
        let (path, arguments, environment, directory) = what;
        Launch {
            job,
            first,
            count,
            size,
            program,
            program_bytes,
            executable: is_traced.then(|| Box::new(path.clone())),
            path,
            arguments,
            environment,
            directory,
            user,
            group,
            umask,
            use_retained,
            keeps_files: !is_traced,
            has_manifest: is_traced,
            world,
            staging,
            traced: if is_traced { Traced::Rank(first) } else { Traced::All },
            core_file: !is_traced,
            outlives_ranks: is_traced,
            restore,
            universe,
            origin,
        }
    })
}

fn exit() -> impl Strategy<Value = Exit> {
    prop_oneof![any::<u8>().prop_map(Exit::Status), any::<u8>().prop_map(Exit::Signal), Just(Exit::NotStarted)]
}

pub(super) fn rank_report() -> impl Strategy<Value = RankReport> {
    let count = any::<(i32, u64, u64)>().prop_map(|(number, calls, unknown)| SyscallCount { number, calls, unknown });
    let counts = any::<(u8, [u64; 4])>();
    let counts = counts.prop_map(|(file, [asked, answered, wrong, crossed_bytes])| MemberCounts {
        file,
        asked,
        answered,
        wrong,
        crossed_bytes,
    });
    let end = (exit(), any::<Option<String>>());
    (job(), rank(), end, any::<[u64; 13]>(), vec(count, 0..6), rank_retention(), vec(counts, 0..4)).prop_map(
        |(job, rank, (exit, reason), numbers, syscalls, retention, transfers)| {
            let [
                launch_ns,
                run_ns,
                page_faults,
                instruction_faults,
                pages_fetched,
                pages_peak,
                bytes_written,
                bytes_read,
                lookups,
                files_opened,
                file_pages_fetched,
                file_pages_found,
                barriers,
            ] = numbers;
            let counters = RankCounters {
                launch_ns,
                run_ns,
                page_faults,
                instruction_faults,
                pages_fetched,
                pages_peak,
                bytes_written,
                bytes_read,
                lookups,
                files_opened,
                file_pages_fetched,
                file_pages_found,
            };
            RankReport { job, rank, exit, reason, counters, syscalls, retention, barriers, transfers }
        },
    )
}

pub(super) fn waiting() -> impl Strategy<Value = Waiting> {
    (job(), any::<u64>()).prop_map(|(job, barrier)| Waiting { job, barrier })
}

/// Messages of the control protocol to a node.
pub(crate) fn to_node() -> impl Strategy<Value = ToNode> {
    prop_oneof![
        any::<[u64; 3]>().prop_map(|[sequence, realtime_ns, taken]| ToNode::Ping { sequence, realtime_ns, taken }),
        any::<u64>().prop_map(|taken| ToNode::Taken { taken }),
        launch().prop_map(ToNode::Launch),
        job().prop_map(|job| ToNode::Kill { job }),
        (job(), any::<(u32, u8)>()).prop_map(|(job, (sequence, signal))| ToNode::Signal(Signal {
            job,
            sequence,
            signal
        })),
        retain().prop_map(ToNode::Retain),
        discard().prop_map(ToNode::Discard),
        Just(ToNode::PowerOff),
        keep().prop_map(ToNode::Keep),
        (job(), node(), vec(rank(), 0..4)).prop_map(|(job, node, ranks)| ToNode::NodeLost { job, node, ranks }),
        broadcast().prop_map(|order| ToNode::Broadcast(Box::new(order))),
        joined().prop_map(ToNode::Joined),
        spawned().prop_map(ToNode::Spawned),
        overlay::order().prop_map(ToNode::Overlay),
        any::<u64>().prop_map(|request| ToNode::EndKeep { request }),
        (job(), traced()).prop_map(|(job, traced)| ToNode::Trace { job, traced }),
        inspect().prop_map(ToNode::Inspect),
        (job(), any::<u64>()).prop_map(|(job, made)| ToNode::Checkpointed { job, made }),
        job().prop_map(|job| ToNode::Forget { job }),
    ]
}

pub(super) fn ranks() -> impl Strategy<Value = Ranks> {
    vec(rank(), 0..4).prop_map(Ranks::from_iter)
}

pub(super) fn ends() -> impl Strategy<Value = Ends> {
    (retained_programs(), vec(rank_report(), 0..4)).prop_map(|(held, reports)| Ends { held, reports })
}

/// Messages of the control protocol to an I/O node.
pub(crate) fn to_io_node() -> impl Strategy<Value = ToIoNode> {
    prop_oneof![
        node_status().prop_map(ToIoNode::Ready),
        (any::<u64>(), memory()).prop_map(|(sequence, memory)| ToIoNode::Pong { sequence, memory }),
        (job(), ranks()).prop_map(|(job, ranks)| ToIoNode::Launched { job, ranks }),
        ends().prop_map(ToIoNode::Ended),
        job_failure().prop_map(ToIoNode::Failed),
        waiting().prop_map(ToIoNode::Waits),
        retained().prop_map(ToIoNode::Retained),
        discarded().prop_map(ToIoNode::Discarded),
        ras_event().prop_map(ToIoNode::Ras),
        kept().prop_map(ToIoNode::Kept),
        dying().prop_map(ToIoNode::Dies),
        job().prop_map(|job| ToIoNode::WantsCheckpoint { job }),
        spawn().prop_map(ToIoNode::Spawns),
        (job(), any::<u32>()).prop_map(|(job, nodes)| ToIoNode::Joined { job, nodes }),
        (job(), any::<Vec<u8>>()).prop_map(|(job, said)| ToIoNode::Overlay { job, said }),
        inspected().prop_map(ToIoNode::Inspected),
    ]
}
