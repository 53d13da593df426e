//! A home and nodes on a network in memory: files come whole, whatever gets lost, or it is said why not.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::task::Waker;

use coppice_endpoint::NetError;
use coppice_hal::frames::FramePool;
use coppice_hal::heap::measure;
use coppice_protocol::control::Launch;
use coppice_protocol::distribution::{MemberRanges, Message, Outcome, Party, PieceSet, Plan, Scheme, Step, packet};
use coppice_protocol::ids::{JobId, NodeId, ProgramId, PsetId, Rank};
use coppice_protocol::program::tree::{self, NODE_BYTES};
use coppice_protocol::psets::PsetTable;
use coppice_protocol::ras::RasKind;
use coppice_protocol::staging::{Roster, StagedFile, Staging as Staged};
use coppice_protocol::transfer::MemberCounts;
use coppice_protocol::world::{JobKey, World};

use super::Staging;
use super::member::Member;
use crate::errno::Errno;
use crate::executor;
use crate::files::cache::LeftFiles;
use crate::memory::Retention;
use crate::net::testing::Net;
use crate::net::{BoxFuture, Datagrams, Door, Neighbours, Wire};
use crate::process::testing::{order, pool};
use crate::process::{JobOnNode, JobsOnNode, NodeFacts};
use crate::quota::tests::quota;
use crate::sync::{LockLevel, Mutex};

mod broadcast;
mod kept;

const JOB: JobId = JobId(7);
const NODES: u32 = 5;
const KEY: JobKey = JobKey([9; 32]);

/// What changes datagrams on their way: `false` and it is lost. It is told from whom, to whom, and what.
type Fault = fn(Ipv4Addr, Ipv4Addr, &mut Vec<u8>) -> bool;

#[derive(Default)]
struct Station {
    came: VecDeque<(Ipv4Addr, Vec<u8>)>,
    watcher: Option<Waker>,
}

/// The network: what waits at each station that is there.
struct Wires {
    stations: Mutex<BTreeMap<Ipv4Addr, Station>>,
    fault: Fault,
    /// What it takes a node to look whether it may send, ns.
    look_ns: u64,
}

impl Wires {
    fn new(fault: Fault) -> Arc<Self> {
        Self::of_slow_nodes(fault, 0)
    }

    fn of_slow_nodes(fault: Fault, look_ns: u64) -> Arc<Self> {
        Arc::new(Self { stations: Mutex::new(LockLevel::Outbox, BTreeMap::new()), fault, look_ns })
    }
}

/// A station's way to the others.
struct At(Arc<Wires>, Ipv4Addr);

impl Neighbours for At {
    fn connect(&self, _: NodeId, _: u16, _: usize) -> BoxFuture<'_, Result<Arc<dyn Wire>, NetError>> {
        Box::pin(async { Err(NetError::Refused) })
    }

    fn listen(&self, _: u16, _: usize, _: usize) -> Result<Box<dyn Door>, NetError> {
        Err(NetError::PortInUse)
    }

    fn datagrams(&self, _: u16, _: usize) -> Result<Arc<dyn Datagrams>, NetError> {
        self.0.stations.lock().insert(self.1, Station::default());
        Ok(Arc::new(Port(At(Arc::clone(&self.0), self.1))))
    }
}

struct Port(At);

impl Drop for Port {
    fn drop(&mut self) {
        self.0.0.stations.lock().remove(&self.0.1);
    }
}

impl Datagrams for Port {
    fn receive(&self) -> Option<(Ipv4Addr, Vec<u8>)> {
        self.0.0.stations.lock().get_mut(&self.0.1)?.came.pop_front()
    }

    fn has_received(&self) -> bool {
        self.0.0.stations.lock().get(&self.0.1).is_some_and(|station| !station.came.is_empty())
    }

    fn send(&self, to: Ipv4Addr, mut bytes: Vec<u8>) {
        let At(wires, own) = &self.0;
        if !(wires.fault)(*own, to, &mut bytes) {
            return;
        }
        if let Some(station) = wires.stations.lock().get_mut(&to) {
            station.came.push_back((*own, bytes));
            if let Some(watcher) = station.watcher.take() {
                watcher.wake();
            }
        }
    }

    fn has_room(&self, _: usize) -> bool {
        executor::compute(self.0.0.look_ns);
        true
    }

    fn register(&self, watcher: &Waker) {
        if let Some(station) = self.0.0.stations.lock().get_mut(&self.0.1) {
            station.watcher = Some(watcher.clone());
        }
    }
}

fn file(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}

fn world() -> World {
    World::new(KEY, 1, (0..NODES).map(NodeId))
}

fn staged(files: &[Vec<u8>]) -> Staged {
    let staged = |(number, file): (usize, &Vec<u8>)| StagedFile {
        content: ProgramId(tree::of(file)[0]),
        bytes: file.len() as u64,
        path: Some(alloc::format!("/data/{number}").into()),
    };
    Staged {
        home: PsetId(0),
        psets: PsetTable::new(NODES, NODES),
        mtu: 1500,
        bytes_per_second: 10_000_000,
        latency_ns: 100_000,
        stall_ns: 0,
        scheme: Scheme::TwoTrees,
        files: files.iter().enumerate().map(staged).collect(),
    }
}

/// Home of one of the files, until all have it or are lost; says which are lost.
async fn home(at: At, files: Vec<Vec<u8>>, number: usize) -> Vec<u32> {
    let staged = staged(&files);
    let roster = Roster::new(&staged, &world()).expect("memory");
    let (plan, key) = (staged.plan(JOB, number, &roster).expect("a plan"), Staged::key(&KEY, JOB, number));
    home_of(at, &files[number], roster, plan, key).await.0
}

/// The same, and packets that it sent.
async fn home_of(at: At, file: &[u8], roster: Roster, plan: Plan, key: packet::TransferKey) -> (Vec<u32>, u64) {
    let port = at.datagrams(0, 0).expect("a port");
    let mut party = Party::new(&plan, key, roster, 0, 1, executor::now_ns()).expect("memory");
    party.machine().begin(executor::now_ns());
    let nodes = tree::of(file);
    loop {
        while let Some((source, datagram)) = port.receive() {
            let _ = party.receive(source, &datagram, executor::now_ns(), |_, _, _| {});
        }
        party.machine().advance(executor::now_ns());
        while let Some(step) = party.next(executor::now_ns()) {
            match step {
                Step::Datagram { to, bytes } => port.send(to, bytes),
                Step::Packets { to, piece, packets } => {
                    let start = piece as usize * plan.piece_bytes as usize;
                    let bytes = &file[start..start + plan.piece_length(piece) as usize];
                    let (first, count) = (start as u64 / 4096, bytes.len().div_ceil(4096) as u64);
                    let beside = tree::beside(plan.bytes, first, count).into_iter();
                    let proof: Vec<u8> = beside.flat_map(|place| nodes[place as usize]).collect();
                    assert!(proof.len() <= NODE_BYTES * 13);
                    let parts: Vec<&[u8]> = bytes.chunks(plan.packet_bytes as usize).chain([&proof[..]]).collect();
                    for packet in packets.numbers() {
                        let now_ns = executor::now_ns();
                        let (to, bytes) =
                            party.packet(to, piece, packet, parts[packet as usize], now_ns).expect("memory");
                        port.send(to, bytes);
                    }
                }
                Step::End(Outcome::All { lost }) => return (lost, party.tally().packets_sent),
                other => panic!("{other:?}"),
            }
        }
        executor::sleep(50_000).await;
    }
}

struct Node {
    order: Launch,
    job: Arc<JobOnNode>,
    facts: NodeFacts,
}

fn node(wires: &Arc<Wires>, number: u32, staging: &Staged) -> Node {
    node_of(wires, number, staging, pool())
}

fn node_of(wires: &Arc<Wires>, number: u32, staging: &Staged, frames: &'static FramePool) -> Node {
    let quota = quota();
    let at = At(Arc::clone(wires), NodeId(number).address());
    let retention: Arc<Retention> = Arc::default();
    let staging_of = Staging::new(Arc::new(at), Arc::clone(&quota), &retention);
    assert!(executor::spawn(staging_of.clone().serve()).is_ok());
    let left = LeftFiles::new(&retention);
    let facts = NodeFacts {
        frames,
        retention,
        left,
        quota: Arc::clone(&quota),
        network: Arc::new(Net::new().dial.stack.clone()),
        staging: staging_of,
        region: None,
        servers: Arc::new(crate::files::NoServers),
    };
    let (rank, size, staging) = (Rank(number), NODES, Some(staging.clone()));
    let order = Launch { job: JOB, first: rank, size, world: world(), staging, ..order(NODES) };
    let jobs = Arc::new(JobsOnNode::default());
    let job = jobs.enter(&order, (frames, &facts.left), &quota).expect("memory");
    Node { order, job, facts }
}

/// What each node says, with the files it has then; whom home found lost; and what nodes counted.
type Said = (Vec<Result<Vec<Vec<u8>>, String>>, Vec<u32>, Vec<MemberCounts>);

fn run(files: Vec<Vec<u8>>, absent: Option<u32>, fault: Fault) -> Said {
    run_on(Wires::new(fault), files, absent)
}

fn run_on(wires: Arc<Wires>, files: Vec<Vec<u8>>, absent: Option<u32>) -> Said {
    let said = Arc::new(Mutex::new(LockLevel::Fact, Said::default()));
    let result = Arc::clone(&said);
    let done = executor::run_to_end(async move {
        let staging = staged(&files);
        let nodes = (0..NODES).filter(|number| Some(*number) != absent);
        let nodes: Vec<Arc<Node>> = nodes.map(|number| Arc::new(node(&wires, number, &staging))).collect();
        for node in &nodes {
            let (node, said, count) = (Arc::clone(node), Arc::clone(&said), files.len());
            let started = executor::spawn(async move {
                let Node { order, job, facts } = &*node;
                let ready = job.staging.ready(order, job.as_tenant(), facts.as_site()).await;
                let has = ready.map(|()| {
                    let name = |number| alloc::format!("/data/./{number}");
                    let read = |number| {
                        let name = job.shared.staged(name(number).as_bytes()).expect("a name");
                        let file = job.shared.find(&name).expect("a file");
                        assert_eq!(file.write(Some(0), b"x"), Err(Errno::EPERM));
                        assert_eq!(job.shared.remove(&name), Err(Errno::EROFS));
                        let mut bytes = vec![0; file.memory.length() as usize];
                        file.memory.read(0, &mut bytes);
                        bytes
                    };
                    (0..count).map(read).collect()
                });
                let counts = job.staging.counts();
                assert_eq!(job.staging.counts(), [], "once");
                let mut said = said.lock();
                said.0.push(has);
                said.2.extend(counts);
            });
            assert!(started.is_ok());
        }
        for number in 0..files.len() {
            let lost = home(At(Arc::clone(&wires), PsetId(0).address()), files.clone(), number).await;
            said.lock().1.extend(lost);
        }
        while said.lock().0.len() < nodes.len() {
            executor::sleep(1_000_000).await;
        }
    });
    assert_eq!(done, Ok(()));
    core::mem::take(&mut *result.lock())
}

fn all_right(files: Vec<Vec<u8>>, fault: Fault) -> Vec<MemberCounts> {
    let (said, lost, counts) = run(files.clone(), None, fault);
    assert!(lost.is_empty(), "{lost:?}");
    assert_eq!(said.len(), NODES as usize);
    for has in said {
        assert!(has.expect("all of it") == files);
    }
    for number in 0..files.len() as u8 {
        assert_eq!(counts.iter().filter(|counts| counts.file == number).count(), NODES as usize);
    }
    counts
}

/// A number that a datagram always gives, below 100.
fn draw(datagram: &[u8], to: Ipv4Addr) -> u32 {
    let hash = blake3::hash(&[datagram, &to.octets()].concat());
    u32::from(hash.as_bytes()[0]) * 100 / 256
}

#[test]
fn files_of_all_lengths_come_whole() {
    for length in [1, 4096, 5000, 32 * 1024, 200_001] {
        let counts = all_right(vec![file(length)], |_, _, _| true);
        assert!(counts.iter().all(|counts| counts.wrong == 0));
    }
}

#[test]
fn several_files_come_one_by_one_and_all_of_them() {
    let _ = all_right(vec![file(70_000), file(3), file(100_000)], |_, _, _| true);
}

#[test]
fn what_is_lost_on_the_way_is_asked_for() {
    let counts = all_right(vec![file(300_000)], |_, to, datagram| draw(datagram, to) >= 10);
    assert!(counts.iter().any(|counts| counts.asked > 0));
}

#[test]
fn what_is_changed_on_the_way_is_not_believed() {
    let _ = all_right(vec![file(300_000)], |_, to, datagram| {
        if draw(datagram, to) < 10 {
            let last = datagram.len() - 1;
            datagram[last] ^= 1;
        }
        true
    });
}

#[test]
fn a_node_that_is_not_there_keeps_no_other_from_its_file() {
    for absent in 0..NODES {
        let (said, lost, _) = run(vec![file(150_000)], Some(absent), |_, _, _| true);
        assert_eq!(lost, [absent + 1]);
        assert_eq!(said.len(), NODES as usize - 1);
        assert!(said.into_iter().all(|has| has == Ok(vec![file(150_000)])));
    }
}

#[test]
fn nodes_that_are_slower_than_their_links_let_others_go_on() {
    // What home sends for the first second is lost: nodes have begun, and something of theirs is always due.
    let early: Fault =
        |from, _, datagram| from != PsetId(0).address() || datagram.len() < 500 || executor::now_ns() > 1_000_000_000;
    let (said, lost, _) = run_on(Wires::of_slow_nodes(early, 5_000_000), vec![file(5_000)], None);
    assert_eq!((said.len(), lost.len()), (NODES as usize, 0));
    assert!(said.into_iter().all(|has| has == Ok(vec![file(5_000)])));
}

#[test]
fn a_home_that_is_silent_is_given_up_with_a_reason() {
    let (said, ..) =
        run(vec![file(150_000)], None, |from, to, _| from != PsetId(0).address() && to != PsetId(0).address());
    assert_eq!(said.len(), NODES as usize);
    for has in said {
        assert_eq!(has, Err("cannot stage /data/0: its bytes do not come any more".into()));
    }
}

#[test]
fn a_node_that_sends_what_is_not_the_file_is_found_and_avoided() {
    for length in [40_000, 300_000] {
        let counts = all_right(vec![file(length)], |from, _, datagram| {
            // Who passes on what home sends, in a tree: it has the key.
            if from == NodeId(2).address() && datagram.len() > 1000 {
                datagram[500] ^= 1;
                packet::seal(&Staged::key(&KEY, JOB, 0), datagram);
            }
            true
        });
        let wrong: u64 = counts.iter().map(|counts| counts.wrong).sum();
        // Nothing else in these tests takes events of the node's queue.
        let events = core::iter::from_fn(|| crate::ras::queue().pop());
        let said: Vec<_> = events.filter(|event| event.kind == RasKind::DamagedPiece).map(|event| event.text).collect();
        assert_eq!(wrong, said.len() as u64);
        assert!(said.iter().any(|text| text.contains("from node 2,")), "{said:?}");
        assert!(said.iter().all(|text| !text.contains("from node 1") && !text.contains("from the I/O")), "{said:?}");
    }
}

#[test]
fn nothing_is_kept_of_a_job_that_ends_before_its_files_are_there() {
    let done = executor::run_to_end(async move {
        let wires = Wires::new(|_, _, _| false);
        let node = node(&wires, 1, &staged(&[file(500_000), file(9)]));
        let before = node.facts.quota.taken();
        let waits = node.job.staging.ready(&node.order, node.job.as_tenant(), node.facts.as_site());
        assert!(executor::timeout(100_000_000, waits).await.is_err());
        assert_eq!(wires.stations.lock().len(), 1);
        assert!(node.facts.quota.taken() > before);
        // Another rank that waited hears of it.
        let again = node.job.staging.ready(&node.order, node.job.as_tenant(), node.facts.as_site()).await;
        assert!(again.is_err_and(|reason| reason.contains("was ended")));
        let Node { facts, job, .. } = node;
        drop(job);
        facts.retention.reaper().free(pool()).await;
        assert_eq!(wires.stations.lock().len(), 0, "its port is open");
        assert!(facts.quota.taken() < before, "the job's own is gone, too");
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn a_node_without_room_says_so_with_numbers() {
    let done = executor::run_to_end(async move {
        let wires = Wires::new(|_, _, _| false);
        let mut long = staged(&[file(9)]);
        long.files[0].bytes = 200 << 20;
        let node = node(&wires, 1, &long);
        let said = node.job.staging.ready(&node.order, node.job.as_tenant(), node.facts.as_site()).await;
        let said = said.expect_err("it is longer than all memory");
        assert!(said.starts_with("cannot stage /data/0: it has 200 MiB and the node has no memory left"), "{said}");
        let told = said.split_once("left for it (").and_then(|(_, rest)| rest.split(' ').next()?.parse::<u64>().ok());
        assert!(told.is_some_and(|told| (1..200).contains(&told)), "what it took of it for that is free: {said}");
        drop(node);
        // A program's pages can be fetched one by one instead.
        let mut program = long.clone();
        program.files[0].path = None;
        let node = self::node(&wires, 1, &program);
        assert_eq!(node.job.staging.ready(&node.order, node.job.as_tenant(), node.facts.as_site()).await, Ok(()));
        assert!(node.job.staging.program().is_none());
        assert_eq!(node.job.staging.counts(), [], "it has no part in it");
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn what_is_known_of_a_transfer_is_charged() {
    let mut long = staged(&[file(9)]);
    long.mtu = 9000;
    for (bytes, pset_size) in [(1, 20_000), (32 << 20, 64), (256 << 20, 2)] {
        long.files[0].bytes = bytes;
        let scattered = World::new(KEY, 1, (0..10_000).map(|node| NodeId(2 * node)));
        long.psets = PsetTable::new(20_000, pset_size);
        let roster = || Roster::new(&long, &scattered).expect("memory");
        let plan = long.plan(JOB, 0, &roster()).expect("a plan");
        // One that may pass on all pieces, has done nothing yet, and knows of many others.
        let (party, taken) = measure(|| {
            let roster = roster();
            let mut party = Party::new(&plan, Staged::key(&KEY, JOB, 0), roster, 4, 1, 0).expect("memory");
            let mut all = PieceSet::none_of(plan.pieces()).expect("memory");
            for piece in 0..plan.pieces() {
                all.insert(piece);
            }
            party.machine().holds(&all, 0);
            for member in (1..2000).step_by(2) {
                let mut members = MemberRanges::none();
                members.add(member, member);
                party.machine().heard(member, Message::Whole { members }, 0, 0);
                party.machine().heard(member, Message::Ask { piece: 0, packets: plan.packets(0) }, 0, 0);
                while party.next(0).is_some() {}
            }
            party
        });
        let charged = Member::bytes(&plan) + Roster::memory_bytes(&long, &scattered);
        let kept = taken.kept_bytes.unsigned_abs();
        assert!((charged / 4..charged).contains(&kept), "{kept} of {charged} bytes, {} pieces", plan.pieces());
        drop(party);
    }
}
