//! The bytes of messages as they are now. A change here is a change of the protocol: raise
//! [`coppice_protocol::frame::VERSION`] (or the personality's, or the pset protocol's) with it.

mod shipping;

use core::fmt::Write;

use coppice_protocol::broadcast::{Broadcast, BroadcastBegun};
use coppice_protocol::checkpoint::{ObjectId, Part, PartOf, Saving};
use coppice_protocol::control::{
    Dying, JobFailure, Launch, MemoryStatus, NodeStatus, OverlayOrder, Signal, ToIoNode, ToNode, Waiting,
};
use coppice_protocol::distribution::Scheme;
use coppice_protocol::ids::{Generation, JobId, NodeId, ProgramId, PsetId, Rank};
use coppice_protocol::inspect::cut::Step;
use coppice_protocol::inspect::debug::{BreakAt, BreakOn, Go, SetThread, Stop, Why};
use coppice_protocol::inspect::held::{HeldProcess, HeldThread, MappedArea, MemoryPart, NotTold, Shows};
use coppice_protocol::inspect::{Answer, Inspect, Inspected, OpenObject, Query, Question, What};
use coppice_protocol::keep::{Keep, KeepFile, KeepOutcome, KeepProgress, Kept, KeptTransfer};
use coppice_protocol::lease::FileId;
use coppice_protocol::overlay::{Above, Child, Down, Source};
use coppice_protocol::personality::NodeKey;
use coppice_protocol::pset::{self, FromPset, Member, NodeEnds, Pulled, StartJob, ToPset};
use coppice_protocol::psets::PsetTable;
use coppice_protocol::ranks::Ranks;
use coppice_protocol::ras::{RasEvent, RasKind, Severity};
use coppice_protocol::region::SlotKey;
use coppice_protocol::retain::{
    Discard, Discarded, HeldAs, Retain, RetainOutcome, Retained, RetainedProgram, WalkCounts,
};
use coppice_protocol::ship::Stream;
use coppice_protocol::spawn::{Joined, KeyValue, Origin, Spawn, Spawned, Wanted};
use coppice_protocol::staging::{StagedFile, Staging};
use coppice_protocol::trace::Traced;
use coppice_protocol::transfer::{FileOfJob, TransferEnd, TransferProgress};
use coppice_protocol::world::{JobKey, Kin, NetworkTag, NodeRange, World};
use serde::Serialize;

use crate::strategies::example_personality;

mod examples;

use self::examples::{ends, ranks, restore};

const JOB: JobId = JobId(300);
const RANK: Rank = Rank(4);
const MEMORY: MemoryStatus = MemoryStatus { total: 3, kernel: 2, free: 1, retained: 9 };
const PROGRAM: ProgramId = ProgramId([0xcc; 32]);
const WALK: WalkCounts = WalkCounts { kept: 1, dropped: 2, zeroed: 3, discarded: 4, walk_ns: 5 };
const HELD: RetainedProgram = RetainedProgram { program: PROGRAM, pages: 6, bytes: 7, held_as: HeldAs::Table };
const KEPT: RetainedProgram = RetainedProgram { held_as: HeldAs::File, ..HELD };

const OBJECT: ObjectId = ObjectId([0xdd; 32]);
const SLOT: SlotKey = SlotKey { slot: 2, key: 9 };

const INSPECT: Inspect = Inspect { request: 8, job: JOB, rank: RANK, query: OBJECTS };
const DYING: Dying = Dying { job: JOB, rank: RANK, signal: 11 };
const OBJECTS: Query = Query { by: 9, question: Question::Objects { from: 3 } };

fn inspected() -> Inspected {
    let what = What::Pipe { pipe: 1000, held: 5 };
    let object = OpenObject { descriptor: 3, close_on_exec: true, id: 1001, flags: 1, offset: 0, what };
    Inspected { request: 8, answer: Answer::Objects { objects: vec![object], next: Some(4) } }
}

const WATCH: BreakAt = BreakAt { address: 0x2000, on: BreakOn::Write, length: 8 };

/// Each question about a held process.
fn questions() -> [Question; 11] {
    let registers = core::array::from_fn(|number| number as u64);
    let breakpoints = [Some(WATCH), None, None, None];
    let go = Go { only: Some(1004), step: Some(1004), signal: None, breakpoints, planted: vec![0x40_1000] };
    [
        Question::Hold,
        Question::Threads { from: 1 },
        Question::Areas { from: 2 },
        Question::Memory { address: 0x1000, length: 7 },
        Question::Release,
        Question::Write { address: 0x1000, bytes: "ab".into() },
        Question::Set(SetThread { tid: 1004, registers, in_call: false, vector: "xy".into() }),
        Question::Go(go),
        Question::Stop,
        Question::Cut(Step::Record),
        Question::Saving,
    ]
}

/// An answer to each question about a held process, and what is said instead.
fn held() -> [(&'static str, Answer); 11] {
    let process = HeldProcess { pid: 1004, parent: 1, threads: 2, components: 7, ..HeldProcess::default() };
    let registers = core::array::from_fn(|number| number as u64);
    let thread =
        HeldThread { tid: 1004, cpu_ns: 5, registers, in_call: true, blocked: 6, pending: 7, vector: "xy".into() };
    let shows = Shows::File { path: "/a".into(), offset: 4096 };
    let parts = vec![Part { of: PartOf::Rank(RANK), object: OBJECT }];
    let saving = Saving { pages: (1, 2), bytes: 3, barriers: 4, parts: Some(parts), local: Some(SLOT), failed: None };
    let area = MappedArea { start: 0x1000, end: 0x2000, read: true, write: false, execute: true, shows };
    [
        ("Held", Answer::Held(process)),
        ("Threads", Answer::Threads(vec![thread], Some(1009))),
        ("Areas", Answer::Areas(vec![area], None)),
        ("Memory", Answer::Memory(MemoryPart { zeros: 300, bytes: "ab".into() })),
        ("Released", Answer::Released),
        ("Changed", Answer::Changed),
        ("Goes", Answer::Goes),
        ("Cut", Answer::Cut),
        ("Saving", Answer::Saving(saving)),
        ("Stopped", Answer::Stopped(Some(Stop { tid: 1004, why: Why::Touched(WATCH) }))),
        ("NotTold", Answer::NotTold(NotTold::Late("slow".into()))),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn line<T: Serialize>(table: &mut String, name: &str, message: &T) {
    let body = postcard::to_allocvec(message).expect("plain data");
    writeln!(table, "{name:<20} {}", hex(&body)).expect("a string takes anything");
}

fn retained(outcome: RetainOutcome) -> Retained {
    Retained { job: JOB, program: PROGRAM, outcome }
}

fn discarded() -> Discarded {
    Discarded { request: 8, given_back: vec![HELD], still_held: Vec::new() }
}

fn event() -> RasEvent {
    RasEvent {
        severity: Severity::Error,
        kind: RasKind::ProgramFault,
        job: Some(JOB),
        rank: Some(RANK),
        address: Some(0),
        instruction: Some(0x40_1000),
        text: "null".into(),
    }
}

fn origin() -> Origin {
    Origin { job: JOB, keys: vec![KeyValue { key: "k".into(), value: "v".into() }] }
}

fn spawn() -> Spawn {
    let (program, arguments) = ("w".into(), vec!["a".into()]);
    let wanted = Wanted { program, arguments, directory: Some("/d".into()), ranks: 3, keys: origin().keys };
    Spawn { job: JOB, rank: RANK, number: 2, wanted }
}

fn spawned(outcome: Result<JobId, String>) -> Spawned {
    Spawned { job: JOB, rank: RANK, number: 2, outcome }
}

/// What a front end says.
fn overlay() -> [(&'static str, Down); 6] {
    let (generation, index) = (3, 1);
    let (above, ranks) = (Above::Process { index: 0, node: NodeId(9) }, Ranks::range(Rank(4), 2));
    let child = Child { source: Source::BackEnds(NodeId(5)), ranks: ranks.clone() };
    let (without, with) = (Some(Source::Process(2)), vec![child.clone()]);
    [
        ("Overlay Announce", Down::Announce { generation, period_ns: 1000, sample_period_ns: 10, size: 4 }),
        ("Overlay Begin", Down::Begin { generation, index, above, height: 2, children: vec![child] }),
        ("Overlay Attach", Down::Attach { generation, ranks, above }),
        ("Overlay Move", Down::Move { generation, index, above: Above::FrontEnd }),
        ("Overlay Below", Down::Below { generation, index, without, with }),
        ("Overlay End", Down::End { generation }),
    ]
}

fn joined() -> Joined {
    Joined { job: JOB, first: 4, nodes: vec![NodeRange { first: NodeId(9), count: 3 }] }
}

fn world() -> World {
    let world = World::new(JobKey([0xcc; 32]), 2, [NodeId(5), NodeId(6), NodeId(9), NodeId(10)]);
    let before = vec![NodeRange { first: NodeId(1), count: 2 }];
    World { kin: Some(Box::new(Kin { tag: NetworkTag([0xab; 8]), before })), ..world }
}

fn failure() -> JobFailure {
    JobFailure { job: JOB, rank: RANK, code: 7, reason: "w".into() }
}

fn staging() -> Staging {
    let file = StagedFile { content: PROGRAM, bytes: 5000, path: Some("/f".into()) };
    let scheme = Scheme::published(7);
    Staging {
        home: PsetId(1),
        psets: PsetTable::new(12, 8),
        mtu: 9000,
        bytes_per_second: 1000,
        latency_ns: 7,
        stall_ns: 8,
        scheme,
        files: vec![file],
    }
}

fn transfer() -> KeptTransfer {
    KeptTransfer { request: 9, world: world(), staging: staging() }
}

fn kept(outcome: KeepOutcome) -> Kept {
    Kept { request: 9, outcome, held: vec![HELD, KEPT] }
}

#[test]
fn control() {
    let mut table = String::new();
    let launch = Launch {
        job: JOB,
        first: RANK,
        count: 2,
        size: 8,
        program: PROGRAM,
        program_bytes: 5000,
        path: "p".into(),
        executable: Some(Box::new("/b/p".into())),
        arguments: vec!["p".into(), b"x\xff"[..].into()],
        environment: vec!["A=B".into()],
        directory: "/".into(),
        user: 1000,
        group: 1001,
        umask: 0o22,
        use_retained: true,
        keeps_files: true,
        has_manifest: true,
        world: world(),
        staging: Some(staging()),
        traced: Traced::Rank(RANK),
        core_file: true,
        outlives_ranks: true,
        restore: Some(restore()),
        universe: 12,
        origin: Some(Box::new(origin())),
    };
    line(&mut table, "Ping", &ToNode::Ping { sequence: 1, realtime_ns: 2, taken: 3 });
    line(&mut table, "Launch", &ToNode::Launch(launch));
    line(&mut table, "Kill", &ToNode::Kill { job: JOB });
    line(&mut table, "Signal", &ToNode::Signal(Signal { job: JOB, sequence: 3, signal: 15 }));
    line(&mut table, "Retain", &ToNode::Retain(Retain { job: JOB, generation: Generation(2), program: PROGRAM }));
    line(&mut table, "Discard", &ToNode::Discard(Discard { request: 8, program: Some(PROGRAM) }));
    line(&mut table, "Discard all", &ToNode::Discard(Discard { request: 8, program: None }));
    line(&mut table, "PowerOff", &ToNode::PowerOff);
    line(
        &mut table,
        "Ready",
        &ToIoNode::Ready(NodeStatus { kernel: "0.1".into(), boot_ns: 9, boot_idle_ns: 5, cores: 2, memory: MEMORY }),
    );
    line(&mut table, "Pong", &ToIoNode::Pong { sequence: 1, memory: MEMORY });
    line(&mut table, "Launched", &ToIoNode::Launched { job: JOB, ranks: ranks() });
    line(&mut table, "Ended", &ToIoNode::Ended(ends()));
    line(&mut table, "Failed", &ToIoNode::Failed(failure()));
    line(&mut table, "Waits", &ToIoNode::Waits(Waiting { job: JOB, barrier: 13 }));
    let outcomes = [
        ("Retained Kept", RetainOutcome::Kept(WALK)),
        ("Retained Absent", RetainOutcome::Absent),
        ("Retained Busy", RetainOutcome::Busy(JOB)),
        ("Retained OtherBoot", RetainOutcome::OtherBoot(Generation(2))),
    ];
    for (name, outcome) in outcomes {
        line(&mut table, name, &ToIoNode::Retained(retained(outcome)));
    }
    line(&mut table, "Discarded", &ToIoNode::Discarded(discarded()));
    line(&mut table, "Ras", &ToIoNode::Ras(event()));
    let keep = Keep { generation: Generation(2), node: NodeId(6), transfer: transfer() };
    line(&mut table, "Keep", &ToNode::Keep(keep));
    line(&mut table, "EndKeep", &ToNode::EndKeep { request: 9 });
    let file = FileId { device: 3, inode: 700 };
    let broadcast = Broadcast { job: JOB, number: 2, file, version: 5, staging: staging() };
    line(&mut table, "Broadcast", &ToNode::Broadcast(Box::new(broadcast)));
    line(&mut table, "Taken", &ToNode::Taken { taken: 3 });
    line(&mut table, "Trace", &ToNode::Trace { job: JOB, traced: Traced::Rank(RANK) });
    line(&mut table, "Inspect", &ToNode::Inspect(INSPECT));
    line(&mut table, "Inspected", &ToIoNode::Inspected(inspected()));
    for question in questions() {
        line(&mut table, "Inspect", &ToNode::Inspect(Inspect { query: Query { by: 9, question }, ..INSPECT }));
    }
    for (name, answer) in held() {
        line(&mut table, name, &ToIoNode::Inspected(Inspected { request: 8, answer }));
    }
    let outcomes = [
        ("Kept Whole", KeepOutcome::Whole { was_here: true }),
        ("Kept Refused", KeepOutcome::Refused("w".into())),
        ("Kept OtherBoot", KeepOutcome::OtherBoot(Generation(2))),
    ];
    for (name, outcome) in outcomes {
        line(&mut table, name, &ToIoNode::Kept(kept(outcome)));
    }
    line(&mut table, "Dies", &ToIoNode::Dies(DYING));
    line(&mut table, "WantsCheckpoint", &ToIoNode::WantsCheckpoint { job: JOB });
    line(&mut table, "Checkpointed", &ToNode::Checkpointed { job: JOB, made: 3 });
    line(&mut table, "NodeLost", &ToNode::NodeLost { job: JOB, node: NodeId(5), ranks: vec![RANK] });
    line(&mut table, "Joined", &ToNode::Joined(joined()));
    line(&mut table, "Spawned", &ToNode::Spawned(spawned(Ok(JobId(301)))));
    line(&mut table, "not Spawned", &ToNode::Spawned(spawned(Err("why".into()))));
    line(&mut table, "Spawns", &ToIoNode::Spawns(spawn()));
    line(&mut table, "Joined", &ToIoNode::Joined { job: JOB, nodes: 7 });
    for (name, order) in overlay() {
        line(&mut table, name, &ToNode::Overlay(OverlayOrder { job: JOB, number: 2, order }));
    }
    line(&mut table, "Overlay", &ToIoNode::Overlay { job: JOB, said: vec![1, 2, 3] });
    line(&mut table, "Forget", &ToNode::Forget { job: JOB });
    insta::assert_snapshot!(table);
}

#[test]
fn pset() {
    let mut table = String::new();
    let node = NodeId(5);
    let generation = Generation(2);
    let start = StartJob {
        job: JOB,
        size: 8,
        root: b"/r\xff"[..].into(),
        program: PROGRAM,
        program_bytes: 5000,
        program_file: "/f".into(),
        path: "p".into(),
        executable: Some(Box::new("/b/p".into())),
        arguments: vec!["p".into()],
        environment: vec!["A=B".into()],
        directory: "/".into(),
        user: 1000,
        group: 1001,
        umask: 0o22,
        input_rank: Some(Rank(0)),
        members: vec![Member { node, first: RANK, count: 2, use_retained: true, restore: Some(restore()) }],
        world: world(),
        staging: Some(Box::new(staging())),
        staged_files: vec!["s".into()],
        traced: Traced::None,
        core_file: false,
        leases: true,
        broadcasts: None,
        outlives_ranks: false,
        keeps_files: true,
        universe: 12,
        origin: Some(Box::new(origin())),
    };
    let configure = ToPset::Configure {
        version: pset::VERSION,
        pset: PsetId(1),
        mtu: 9000,
        socket: "s".into(),
        fabric: "f".into(),
        storage: Some("c".into()),
        regions: Some("r".into()),
    };
    line(&mut table, "Configure", &configure);
    line(&mut table, "AddNode", &ToPset::AddNode { node, generation, key: NodeKey([0xaa; 32]) });
    line(&mut table, "RemoveNode", &ToPset::RemoveNode { node });
    line(&mut table, "Start", &ToPset::Start(start));
    line(&mut table, "Kill", &ToPset::Kill { job: JOB });
    line(&mut table, "Signal", &ToPset::Signal { job: JOB, signal: 15 });
    line(&mut table, "Forget", &ToPset::Forget { job: JOB });
    line(&mut table, "Input", &ToPset::Input { job: JOB, bytes: vec![1, 2, 255] });
    line(&mut table, "OutputTaken", &ToPset::OutputTaken { job: JOB, bytes: 1 });
    line(&mut table, "Discard", &ToPset::Discard { request: 8, program: Some(PROGRAM), nodes: vec![node] });
    line(&mut table, "Shutdown", &ToPset::Shutdown);
    line(&mut table, "Ask", &ToPset::Ask);
    line(&mut table, "Trace", &ToPset::Trace { job: JOB, traced: Traced::All });
    line(&mut table, "Inspect", &ToPset::Inspect { node, inspect: INSPECT });
    line(&mut table, "Pull", &ToPset::Pull { request: 7, node, from: SLOT });
    line(&mut table, "Wipe", &ToPset::Wipe { request: 7, node, job: Some(JOB), but: Some(SLOT) });
    line(&mut table, "Inspected", &FromPset::Inspected { node, answer: inspected() });
    let status = NodeStatus { kernel: "0.1".into(), boot_ns: 9, boot_idle_ns: 5, cores: 2, memory: MEMORY };
    line(&mut table, "Listening", &FromPset::Listening);
    line(&mut table, "NodeReady", &FromPset::NodeReady { node, generation, status });
    line(&mut table, "NodeLost", &FromPset::NodeLost { node, generation, reason: "why".into() });
    line(&mut table, "Launched", &FromPset::Launched { job: JOB, ranks: ranks() });
    line(&mut table, "Ended", &FromPset::Ended(vec![NodeEnds { node, ends: ends() }]));
    line(&mut table, "Failed", &FromPset::Failed { node, failure: failure() });
    line(&mut table, "Waits", &FromPset::Waits(Waiting { job: JOB, barrier: 13 }));
    line(&mut table, "Retained", &FromPset::Retained { node, answer: retained(RetainOutcome::Kept(WALK)) });
    line(&mut table, "Discarded", &FromPset::Discarded { node, answer: discarded() });
    line(&mut table, "Refused", &FromPset::Refused { job: JOB, ranks: ranks(), reason: "why".into() });
    line(&mut table, "Output", &FromPset::Output { job: JOB, rank: RANK, stream: Stream::Output, bytes: vec![10] });
    line(&mut table, "InputTaken", &FromPset::InputTaken { job: JOB, bytes: 1 });
    line(&mut table, "Ras", &FromPset::Ras { node: Some(node), event: event() });
    line(&mut table, "Memory", &FromPset::Memory { node, generation, memory: MEMORY });
    line(&mut table, "Alive", &FromPset::Alive);
    let of = FileOfJob { job: JOB, file: 2 };
    let (elapsed_ns, bytes_sent) = (500, 600);
    let end = TransferEnd { of, pieces: 3, elapsed_ns, bytes_sent, answered: 4, lost: 1, first_lost: vec![NodeId(5)] };
    line(&mut table, "Transferred", &FromPset::Transferred(end));
    line(&mut table, "Transferring", &FromPset::Transferring(TransferProgress { of, bytes: 700, whole: 6 }));
    let begun = BroadcastBegun { of, path: "/in".into(), bytes: 700, opened: 6 };
    line(&mut table, "BroadcastBegun", &FromPset::BroadcastBegun(begun));
    let file = KeepFile { transfer: transfer(), nodes: vec![node], file: "/f".into() };
    line(&mut table, "Keep", &ToPset::Keep(file));
    line(&mut table, "EndKeep", &ToPset::EndKeep { request: 9 });
    let answer = kept(KeepOutcome::Whole { was_here: false });
    line(&mut table, "Kept", &FromPset::Kept { node, answer });
    line(&mut table, "Dies", &FromPset::Dies { node, dying: DYING });
    let parts = vec![Part { of: PartOf::Rank(RANK), object: OBJECT }];
    line(&mut table, "Pulled", &FromPset::Pulled { request: 7, pulled: Ok(Pulled { parts, hash_ns: 8 }) });
    line(&mut table, "Pulling", &FromPset::Pulling { request: 7, objects: (1, 2) });
    line(&mut table, "Wiped", &FromPset::Wiped { request: 7, failed: Some("no".into()) });
    line(&mut table, "WantsCheckpoint", &FromPset::WantsCheckpoint { job: JOB });
    line(&mut table, "Checkpointed", &ToPset::Checkpointed { job: JOB, made: 3 });
    line(&mut table, "NodeLost", &ToPset::NodeLost { job: JOB, node, ranks: vec![RANK] });
    line(&mut table, "Joined", &ToPset::Joined(joined()));
    line(&mut table, "Spawned", &ToPset::Spawned(spawned(Ok(JobId(301)))));
    line(&mut table, "Spawns", &FromPset::Spawns { node, spawn: spawn() });
    line(&mut table, "Joined", &FromPset::Joined { node, job: JOB, nodes: 7 });
    let order = Down::End { generation: 3 };
    line(&mut table, "Overlay", &ToPset::Overlay { job: JOB, node, order });
    line(&mut table, "Overlay", &FromPset::Overlay { node, job: JOB, said: vec![1, 2, 3] });
    line(&mut table, "KeepFailed", &FromPset::KeepFailed { request: 9, reason: "why".into() });
    line(&mut table, "Keeping", &FromPset::Keeping(KeepProgress { request: 9, bytes: 700, whole: 6 }));
    let framed = pset::encode(&ToPset::RemoveNode { node }).expect("within the limit");
    writeln!(table, "{:<20} {}", "framed RemoveNode", hex(&framed)).expect("a string takes anything");
    insta::assert_snapshot!(table);
}

#[test]
fn personality() {
    insta::assert_snapshot!(hex(&example_personality().encode()));
}
