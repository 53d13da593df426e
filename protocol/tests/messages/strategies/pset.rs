//! Messages between the service node and an I/O node.

use coppice_protocol::ids::PsetId;
use coppice_protocol::keep::KeepProgress;
use coppice_protocol::pset::{FromPset, Member, NodeEnds, Pulled, StartJob, ToPset};
use coppice_protocol::transfer::{FileOfJob, TransferEnd, TransferProgress};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

use super::broadcast::begun;
use super::control::{
    dying, ends, job_failure, launch, memory, node_restore, node_status, ranks, ras_event, traced, waiting,
};
use super::inspect::{inspect, inspected, part, slot_key};
use super::keep::{keep_file, kept};
use super::overlay;
use super::retain::{discarded, retained};
use super::ship::stream;
use super::spawn::{joined, spawn, spawned};
use super::{bytes, generation, job, key, node, program, rank};

fn member() -> impl Strategy<Value = Member> {
    let restore = option::of(node_restore());
    (node(), rank(), any::<(u32, bool)>(), restore).prop_map(|(node, first, (count, use_retained), restore)| Member {
        node,
        first,
        count,
        use_retained,
        restore,
    })
}

fn node_ends() -> impl Strategy<Value = NodeEnds> {
    (node(), ends()).prop_map(|(node, ends)| NodeEnds { node, ends })
}

fn start_job() -> impl Strategy<Value = StartJob> {
    let files = (bytes(), bytes(), bytes(), bytes());
    let members = vec(member(), 0..5);
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
            executable: launch.executable,
            arguments: launch.arguments,
            environment: launch.environment,
            directory,
            user: launch.user,
            group: launch.group,
            umask: launch.umask,
            input_rank,
            members,
            world: launch.world,
            staged_files: launch
                .staging
                .iter()
                .flat_map(|staging| &staging.files)
                .filter_map(|file| file.path.clone())
                .collect(),
            broadcasts: launch.staging.clone().map(Box::new),
            staging: launch.staging.map(Box::new),
            core_file: launch.core_file,
            keeps_files: launch.keeps_files,
            leases: launch.core_file,
            outlives_ranks: launch.outlives_ranks,
            universe: launch.universe,
            origin: launch.origin,
            traced: launch.traced,
        }
    })
}

/// Messages of the service node to an I/O node.
pub(crate) fn to_pset() -> impl Strategy<Value = ToPset> {
    prop_oneof![
        (any::<(u16, u32, u16)>(), bytes(), bytes(), option::of(bytes()), option::of(bytes())).prop_map(
            |((version, pset, mtu), socket, fabric, storage, regions)| {
                ToPset::Configure { version, pset: PsetId(pset), mtu, socket, fabric, storage, regions }
            }
        ),
        (node(), generation(), key()).prop_map(|(node, generation, key)| ToPset::AddNode { node, generation, key }),
        node().prop_map(|node| ToPset::RemoveNode { node }),
        (any::<u64>(), option::of(program()), vec(node(), 0..5))
            .prop_map(|(request, program, nodes)| { ToPset::Discard { request, program, nodes } }),
        start_job().prop_map(ToPset::Start),
        job().prop_map(|job| ToPset::Kill { job }),
        (job(), any::<u8>()).prop_map(|(job, signal)| ToPset::Signal { job, signal }),
        job().prop_map(|job| ToPset::Forget { job }),
        (job(), any::<Vec<u8>>()).prop_map(|(job, bytes)| ToPset::Input { job, bytes }),
        (job(), any::<u32>()).prop_map(|(job, bytes)| ToPset::OutputTaken { job, bytes }),
        Just(ToPset::Shutdown),
        keep_file().prop_map(ToPset::Keep),
        any::<u64>().prop_map(|request| ToPset::EndKeep { request }),
        (job(), traced()).prop_map(|(job, traced)| ToPset::Trace { job, traced }),
        (node(), inspect()).prop_map(|(node, inspect)| ToPset::Inspect { node, inspect }),
        (any::<u64>(), node(), slot_key()).prop_map(|(request, node, from)| ToPset::Pull { request, node, from }),
        (any::<u64>(), node(), option::of(job()), option::of(slot_key()))
            .prop_map(|(request, node, job, but)| ToPset::Wipe { request, node, job, but }),
        (job(), any::<u64>()).prop_map(|(job, made)| ToPset::Checkpointed { job, made }),
        (job(), node(), vec(rank(), 0..4)).prop_map(|(job, node, ranks)| ToPset::NodeLost { job, node, ranks }),
        joined().prop_map(ToPset::Joined),
        spawned().prop_map(ToPset::Spawned),
        (job(), node(), overlay::down()).prop_map(|(job, node, order)| ToPset::Overlay { job, node, order }),
    ]
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
        (job(), ranks()).prop_map(|(job, ranks)| FromPset::Launched { job, ranks }),
        vec(node_ends(), 0..4).prop_map(FromPset::Ended),
        (node(), job_failure()).prop_map(|(node, failure)| FromPset::Failed { node, failure }),
        waiting().prop_map(FromPset::Waits),
        (node(), retained()).prop_map(|(node, answer)| FromPset::Retained { node, answer }),
        (node(), discarded()).prop_map(|(node, answer)| FromPset::Discarded { node, answer }),
        (node(), kept()).prop_map(|(node, answer)| FromPset::Kept { node, answer }),
        (any::<u64>(), vec(part(), 0..4), any::<u64>())
            .prop_map(|(request, parts, hash_ns)| FromPset::Pulled { request, pulled: Ok(Pulled { parts, hash_ns }) }),
        any::<(u64, String)>().prop_map(|(request, why)| FromPset::Pulled { request, pulled: Err(why) }),
        any::<(u64, (u64, u64))>().prop_map(|(request, objects)| FromPset::Pulling { request, objects }),
        any::<(u64, Option<String>)>().prop_map(|(request, failed)| FromPset::Wiped { request, failed }),
        (node(), dying()).prop_map(|(node, dying)| FromPset::Dies { node, dying }),
        job().prop_map(|job| FromPset::WantsCheckpoint { job }),
        (node(), spawn()).prop_map(|(node, spawn)| FromPset::Spawns { node, spawn }),
        (node(), job(), any::<u32>()).prop_map(|(node, job, nodes)| FromPset::Joined { node, job, nodes }),
        (node(), job(), any::<Vec<u8>>()).prop_map(|(node, job, said)| FromPset::Overlay { node, job, said }),
        (node(), inspected()).prop_map(|(node, answer)| FromPset::Inspected { node, answer }),
        any::<(u64, String)>().prop_map(|(request, reason)| FromPset::KeepFailed { request, reason }),
        any::<(u64, u64, u32)>().prop_map(|(request, bytes, whole)| FromPset::Keeping(KeepProgress {
            request,
            bytes,
            whole
        })),
        (job(), ranks(), any::<String>()).prop_map(|(job, ranks, reason)| FromPset::Refused { job, ranks, reason }),
        (job(), rank(), stream(), any::<Vec<u8>>()).prop_map(|(job, rank, stream, bytes)| FromPset::Output {
            job,
            rank,
            stream,
            bytes
        }),
        (job(), any::<u32>()).prop_map(|(job, bytes)| FromPset::InputTaken { job, bytes }),
        (proptest::option::of(node()), ras_event()).prop_map(|(node, event)| FromPset::Ras { node, event }),
        (node(), generation(), memory()).prop_map(|(node, generation, memory)| FromPset::Memory {
            node,
            generation,
            memory,
        }),
        transfer_end().prop_map(FromPset::Transferred),
        begun().prop_map(FromPset::BroadcastBegun),
        (file_of_job(), any::<(u64, u32)>())
            .prop_map(|(of, (bytes, whole))| { FromPset::Transferring(TransferProgress { of, bytes, whole }) }),
    ]
}

pub(super) fn file_of_job() -> impl Strategy<Value = FileOfJob> {
    (job(), any::<u8>()).prop_map(|(job, file)| FileOfJob { job, file })
}

fn transfer_end() -> impl Strategy<Value = TransferEnd> {
    let numbers = any::<(u32, u64, u64, u64, u32)>();
    (file_of_job(), numbers, vec(node(), 0..4)).prop_map(|(of, numbers, first_lost)| {
        let (pieces, elapsed_ns, bytes_sent, answered, lost) = numbers;
        TransferEnd { of, pieces, elapsed_ns, bytes_sent, answered, lost, first_lost }
    })
}
