//! Values with everything in them that there may be, for what no small cluster answers: all variants of what is
//! answered in one of several ways, and what is measured.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;

use coppice_api::job::{Fence, Modex, RankCounters, RankOutcome, RankView, Startup};
use coppice_api::keep::{KeepNews, KeepReport, NotKept};
use coppice_api::output::{OutputCut, OutputView};
use coppice_api::overlay::{
    AlikeView, BarView, EpochView, MetricView, MissingView, OverlayPlacement, OverlayState, OverlayView, OverlayWish,
    ProcessView, TopView, TotalView,
};
use coppice_api::retain::RetainAnswer;
use coppice_api::stream::{JobEvent, StagingProgress};
use coppice_protocol::checkpoint::{Keeping, ObjectId, Part, PartOf, Saving};
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::inspect::cut::Step;
use coppice_protocol::inspect::debug::{BreakAt, BreakOn, Go, SetThread, Stop, Why};
use coppice_protocol::inspect::held::{
    EndedBy, HeldProcess, HeldThread, MappedArea, MemoryPart, NotTold, REGISTERS, Shows,
};
use coppice_protocol::inspect::{Answer, OpenObject, PairKind, Query, Question, What};
use coppice_protocol::region::SlotKey;
use coppice_protocol::text::ByteString;
use coppice_service_node::profiles::{ProfileOrder, Profiles};
use serde::Serialize;
use serde_json::Value;

use crate::description::Description;
use crate::support::Cluster;
use crate::support::served::Served;

fn bytes() -> ByteString {
    ByteString::from(&b"\xff\0"[..])
}

/// What there is of everything that a descriptor may stand for.
pub(crate) fn objects() -> Answer {
    let end = (Ipv4Addr::new(10, 128, 0, 1), 80);
    let pair = |kind| What::Pair { end: 1, kind, held: 2 };
    let whats = [
        What::File { path: bytes(), mode: 0o100_644, device: 1, inode: 2, size: 3 },
        What::Standard(1),
        What::Kernel { path: "/dev/null".into() },
        What::Shared { inode: 1, size: 2 },
        What::Pipe { pipe: 1, held: 2 },
        pair(PairKind::Stream),
        pair(PairKind::Sequence),
        pair(PairKind::Datagrams),
        What::Socket { stream: true, listening: false, local: end, peer: Some(end), held: 1, unsent: 2 },
        What::Socket { stream: false, listening: false, local: end, peer: None, held: 0, unsent: 0 },
        What::Event { value: u64::MAX },
        What::Timer { left_ns: 1, interval_ns: 2 },
        What::Signals { wanted: 0b101 },
        What::Poller { watched: vec![(3, 4, 5)], count: 1 },
        What::Service { held: 1 },
    ];
    let object = |(descriptor, what)| OpenObject { descriptor, close_on_exec: true, id: 7, flags: 2, offset: 9, what };
    Answer::Objects { objects: (0..).zip(whats).map(object).collect(), next: Some(64) }
}

pub(crate) fn held() -> Answer {
    Answer::Held(HeldProcess {
        pid: 100,
        parent: 1,
        user: 1000,
        group: 1000,
        name: "prog".into(),
        program: "/bin/prog".into(),
        arguments: "prog x".into(),
        auxiliary: bytes(),
        components: 7,
        threads: 1,
        ends: Some(EndedBy { tid: 100, signal: 11, info: bytes() }),
    })
}

fn questions() -> Vec<Question> {
    let at = BreakAt { address: 8, on: BreakOn::Write, length: 8 };
    let keeping = Keeping { since: Some(1), copy: Some(2), elsewhere: true };
    let steps = [Step::Save(keeping), Step::Resume, Step::GiveUp].into_iter().chain(Step::IN_ORDER);
    let all = vec![
        Question::Objects { from: 0 },
        Question::Hold,
        Question::Threads { from: 1 },
        Question::Areas { from: 2 },
        Question::Memory { address: 3, length: 4 },
        Question::Release,
        Question::Write { address: 3, bytes: bytes() },
        Question::Set(SetThread { tid: 1, registers: [1; REGISTERS], in_call: false, vector: bytes() }),
        Question::Go(Go {
            only: Some(1),
            step: None,
            signal: Some(5),
            breakpoints: [
                Some(at),
                Some(BreakAt { on: BreakOn::Execute, ..at }),
                Some(BreakAt { on: BreakOn::Access, ..at }),
                None,
            ],
            planted: vec![1],
        }),
        Question::Stop,
        Question::Saving,
    ];
    // What is new here is to be described, and stands above then.
    let is_here = |question: &Question| match question {
        Question::Objects { .. } | Question::Hold | Question::Threads { .. } | Question::Areas { .. } => true,
        Question::Memory { .. } | Question::Release | Question::Write { .. } | Question::Set(_) => true,
        Question::Go(_) | Question::Stop | Question::Cut(_) | Question::Saving => true,
    };
    all.into_iter().chain(steps.map(Question::Cut)).filter(is_here).collect()
}

fn answers() -> Vec<Answer> {
    let stop = |why| Answer::Stopped(Some(Stop { tid: 1, why }));
    let at = BreakAt { address: 8, on: BreakOn::Access, length: 1 };
    let area = |shows| MappedArea { start: 0, end: 4096, read: true, write: false, execute: true, shows };
    let shows = [
        Shows::Zeros,
        Shows::Program { offset: 1 },
        Shows::File { path: bytes(), offset: 2 },
        Shows::Shared { offset: 3 },
    ];
    let part = |of| Part { of, object: ObjectId([7; 32]) };
    let saving = Saving {
        pages: (1, 2),
        bytes: 3,
        barriers: 4,
        parts: Some(vec![part(PartOf::Rank(Rank(1))), part(PartOf::Node(2))]),
        local: Some(SlotKey { slot: 1, key: u64::MAX }),
        failed: Some("no room".into()),
    };
    let thread = HeldThread {
        tid: 1,
        cpu_ns: 2,
        registers: [u64::MAX; REGISTERS],
        in_call: true,
        blocked: 3,
        pending: 4,
        vector: bytes(),
    };
    let all = vec![
        Answer::NotHere,
        objects(),
        held(),
        Answer::Threads(vec![thread], Some(2)),
        Answer::Areas(shows.map(area).into(), None),
        Answer::Memory(MemoryPart { zeros: 1, bytes: bytes() }),
        Answer::Released,
        Answer::Changed,
        Answer::Goes,
        stop(Why::Signal(5)),
        stop(Why::Step),
        stop(Why::Breakpoint),
        stop(Why::Touched(at)),
        Answer::Stopped(None),
        Answer::Cut,
        Answer::Saving(saving),
        Answer::Saving(Saving::default()),
    ];
    let not_told = [
        NotTold::Busy,
        NotTold::NotHeld,
        NotTold::Ending,
        NotTold::Late("a page did not come".into()),
        NotTold::NoMemory,
        NotTold::Taken,
        NotTold::Refused,
    ];
    // As above.
    let is_here = |answer: &Answer| match answer {
        Answer::NotHere | Answer::Objects { .. } | Answer::NotTold(_) | Answer::Held(_) | Answer::Threads(..) => true,
        Answer::Areas(..) | Answer::Memory(_) | Answer::Released | Answer::Changed | Answer::Goes => true,
        Answer::Stopped(_) | Answer::Cut | Answer::Saving(_) => true,
    };
    all.into_iter().chain(not_told.map(Answer::NotTold)).filter(is_here).collect()
}

fn epoch(epoch: u64) -> EpochView {
    let metric = MetricView {
        metric: "run".into(),
        unit: "ns".into(),
        count: 2,
        sum: 3,
        least: 1,
        least_rank: 0,
        mean: 2,
        deviation: 1,
        p50: 1,
        p90: 2,
        p99: 2,
        top: vec![TopView { rank: 1, value: 2 }],
        histogram: vec![BarView { least: 1, greatest: 2, count: 2 }],
    };
    EpochView {
        generation: 1,
        epoch,
        period_ns: 1_000_000_000,
        end_ns: (epoch + 1) * 1_000_000_000,
        came_ns: (epoch + 1) * 1_000_000_000 + 1,
        ranks: 2,
        of: 2,
        missing: String::new(),
        metrics: vec![metric.clone()],
        alike: vec![AlikeView { metric: "run".into(), sixteenths: 15, count: 2, ranks: vec![0, 1] }],
        counters: vec![MetricView { metric: "counter:steps".into(), unit: "times".into(), ..metric.clone() }],
        counters_dropped: 1,
        node_count: 2,
        nodes: vec![metric],
        totals: vec![TotalView { rank: 0, values: BTreeMap::from([("run".into(), epoch)]) }],
    }
}

fn overlay() -> OverlayView {
    let process = ProcessView { process: 1, node: 0, above: Some(0), processes: vec![2], nodes: vec![0], ranks: 2 };
    let placement = OverlayPlacement::Comprehensive;
    let (topology, sample_hz) = (Some("0 => 1 ;".into()), Some(100));
    OverlayView {
        job: 1,
        state: OverlayState::Running,
        generation: 1,
        wish: Some(OverlayWish { period_ms: 1000, placement, topology, sample_hz }),
        period_ms: Some(2000),
        ranks: 2,
        nodes_here: 2,
        nodes: 2,
        processes: vec![process],
        epochs: 1,
        late: 2,
        dropped: 3,
        lies: 4,
        not_recorded: 5,
        missing: vec![MissingView { ranks: "1".into(), since_ns: 1 }],
        last: Some(epoch(7)),
    }
}

/// Records what a job's ranks did, as the thread that records would.
pub(crate) fn record(profiles: &Path, job: JobId) {
    let stacks = vec![(vec![0x40_0810, 0x40_0830], 5)];
    let mut orders = vec![
        ProfileOrder::Sampling { job, generation: 1, hz: 100 },
        ProfileOrder::Stacks { job, generation: 1, stacks },
    ];
    orders.extend((1..4).map(|number| ProfileOrder::Epoch(job, Box::new(epoch(number)))));
    Profiles::open(profiles).expect("new").add(&orders).expect("room");
}

fn events() -> Vec<JobEvent> {
    let progress = StagingProgress { bytes: 1, total: 2, whole: 3, nodes: 4 };
    let kept = |cut| JobEvent::Kept(OutputView { cut, ..OutputView::limited(4096) });
    let cuts = [OutputCut::Limit, OutputCut::Logs, OutputCut::Disk, OutputCut::ServiceNode, OutputCut::Late];
    let all = [
        JobEvent::Queued { ahead: 1 },
        JobEvent::Started { nodes: vec![1] },
        JobEvent::Staging(progress),
        JobEvent::Staged,
        JobEvent::Dies { rank: 1, signal: 11 },
        JobEvent::Spawned { job: 2, rank: 1 },
        JobEvent::NotSpawned { rank: 1, reason: "no room".into() },
        JobEvent::Unreadable { reason: "it is gone".into() },
    ];
    all.into_iter().chain(cuts.map(Some).map(kept)).collect()
}

fn rank(retain: RetainAnswer) -> RankView {
    let counters = RankCounters { launch_ns: 1, ..RankCounters::default() };
    RankView { counters, retain: Some(retain), ..RankView::ended(1, 2, RankOutcome::NotStarted, Some("why".into())) }
}

fn check<T: Serialize>(description: &Description, name: &str, values: impl IntoIterator<Item = T>) {
    for value in values {
        let value: Value = serde_json::to_value(value).expect("plain data");
        description.check(name, &value).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    }
}

#[tokio::test]
async fn values_of_all_kinds_are_as_is_described() {
    let served = Served::new(Cluster::up(1, 1));
    let description = Description::new(&served.client.description().await.expect("answered"));
    served.down().await;
    check(&description, "Query", questions().into_iter().map(|question| Query { by: u64::MAX, question }));
    check(&description, "Answer", answers());
    check(&description, "JobEvent", events());
    check(&description, "OverlayView", [overlay()]);
    let retained = [
        RetainAnswer::Kept { kept: 1, dropped: 2, zeroed: 3, discarded: 4 },
        RetainAnswer::Absent,
        RetainAnswer::Busy { job: 1 },
        RetainAnswer::OtherBoot { generation: 1 },
    ];
    check(&description, "RankView", retained.map(rank));
    let report = KeepReport { hash: "00".into(), bytes: 1, nodes: 2, had: 1, failed: Vec::new(), took_ns: 3 };
    let failed = vec![NotKept { node: 1, reason: "no room".into() }];
    check(
        &description,
        "KeepNews",
        [
            KeepNews::Staging(StagingProgress::default()),
            KeepNews::Kept(KeepReport { failed, ..report }),
            KeepNews::Refused { status: 409, error: "no".into() },
        ],
    );
    let fences = Fence::ALL.map(Some).into_iter().chain([None]);
    let modex = |modex| fences.clone().map(move |fence| Startup { modex, fence });
    check(&description, "Startup", [Some(Modex::Full), Some(Modex::Direct), None].into_iter().flat_map(modex));
}
