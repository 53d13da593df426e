//! Files that nodes keep without a job: they come, are found, used, and go when their memory is wanted.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use coppice_hal::frames::FramePool;
use coppice_protocol::distribution::Plan;
use coppice_protocol::ids::{Generation, NodeId, ProgramId, PsetId};
use coppice_protocol::keep::{Keep, KeepOutcome, KeptTransfer};
use coppice_protocol::limits::KEPT_FILES_MAX;
use coppice_protocol::program::tree;
use coppice_protocol::retain::HeldAs;
use coppice_protocol::staging::{Roster, Staging as Staged};

use super::{At, BTreeMap, Fault, JOB, KEY, NODES, Node, Wires, file, home_of, node, node_of, staged, world};
use crate::executor;
use crate::memory::{Retention, SharedMemory};
use crate::process::testing::pool;
use crate::staging::keep;
use crate::staging::room::{Hold, Room, reserve};
use crate::sync::{LockLevel, Mutex};

const WHOLE: KeepOutcome = KeepOutcome::Whole { was_here: false };
const WAS_HERE: KeepOutcome = KeepOutcome::Whole { was_here: true };
/// Packets of a piece on links as these are.
const PIECE_PACKETS: u64 = 33;

/// A file as others know it, its transfer to all nodes, and what came of it on each.
struct Transfer {
    file: Vec<u8>,
    transfer: KeptTransfer,
    told: Arc<Mutex<BTreeMap<u32, KeepOutcome>>>,
}

impl Transfer {
    fn new(request: u64, file: Vec<u8>) -> Self {
        let transfer = KeptTransfer { request, world: world(), staging: staged(core::slice::from_ref(&file)) };
        Self { file, transfer, told: Arc::new(Mutex::new(LockLevel::Fact, BTreeMap::new())) }
    }

    fn plan(&self) -> Plan {
        let roster = self.transfer.roster().expect("memory");
        self.transfer.plan(&roster).expect("a plan")
    }

    fn content(&self) -> ProgramId {
        ProgramId(tree::of(&self.file)[0])
    }

    /// One of the nodes takes part from now on.
    fn order(&self, number: u32, node: &Node) -> impl Future<Output = ()> + Send + 'static {
        let order = Keep { generation: Generation(1), node: NodeId(number), transfer: self.transfer.clone() };
        let told = Arc::clone(&self.told);
        let facts = node.facts.clone();
        async move { keep(order, facts.as_site(), |outcome| drop(told.lock().insert(number, outcome))).await }
    }

    fn begin(&self, number: u32, node: &Node) {
        assert!(executor::spawn(self.order(number, node)).is_ok());
    }

    /// Home sends it until all have it or are lost; says which are lost, and how many packets that took.
    async fn home(&self, wires: &Arc<Wires>) -> (Vec<u32>, u64) {
        let at = At(Arc::clone(wires), PsetId(0).address());
        let roster = self.transfer.roster().expect("memory");
        home_of(at, &self.file, roster, self.plan(), self.transfer.key()).await
    }

    async fn told(&self, nodes: usize) -> Vec<KeepOutcome> {
        while self.told.lock().len() < nodes {
            executor::sleep(1_000_000).await;
        }
        self.told.lock().values().cloned().collect()
    }

    /// What a node has of it.
    fn kept(&self, node: &Node) -> Option<Vec<u8>> {
        let plan = self.plan();
        let room = node.facts.staging.kept().find(self.content(), &plan, node.facts.retention.next_use())?;
        let mut bytes = vec![0; room.bytes.length() as usize];
        room.bytes.read(0, &mut bytes);
        Some(bytes)
    }
}

fn wires(fault: Fault) -> Arc<Wires> {
    Wires::new(fault)
}

fn all_nodes(wires: &Arc<Wires>, staging: &Staged) -> Vec<Arc<Node>> {
    (0..NODES).map(|number| Arc::new(node(wires, number, staging))).collect()
}

async fn is_left(wires: &Arc<Wires>) {
    while !wires.stations.lock().is_empty() {
        executor::sleep(10_000_000).await;
    }
}

#[test]
fn a_file_stays_and_a_job_that_names_its_bytes_finds_it_there() {
    let done = executor::run_to_end(async {
        let wires = wires(|_, _, _| true);
        let transfer = Transfer::new(1, file(3_000_000));
        let staging = staged(core::slice::from_ref(&transfer.file));
        let nodes = all_nodes(&wires, &staging);
        nodes.iter().zip(0..).for_each(|(node, number)| transfer.begin(number, node));
        let (lost, sent) = transfer.home(&wires).await;
        let pieces = u64::from(transfer.plan().pieces());
        assert!(lost.is_empty() && sent >= pieces * PIECE_PACKETS, "{lost:?}, {sent} packets");
        assert_eq!(transfer.told(NODES as usize).await, vec![WHOLE; NODES as usize]);
        // They leave, and it stays.
        is_left(&wires).await;
        for node in &nodes {
            assert!(transfer.kept(node).is_some_and(|bytes| bytes == transfer.file));
            let held = node.facts.retention.held();
            let said = held.iter().map(|held| (held.program, held.held_as, held.pages)).collect::<Vec<_>>();
            assert_eq!(said, [(transfer.content(), HeldAs::File, 733)]);
            assert_eq!(node.facts.retention.bytes(), held[0].bytes);
        }
        // Who is told once more has it, and home sends no more than it had before that was said.
        let again = Transfer::new(2, transfer.file.clone());
        nodes.iter().zip(0..).for_each(|(node, number)| again.begin(number, node));
        let (lost, sent) = again.home(&wires).await;
        assert!(lost.is_empty() && sent < 8 * PIECE_PACKETS, "{lost:?}, {sent} packets");
        assert_eq!(again.told(NODES as usize).await, vec![WAS_HERE; NODES as usize]);
        is_left(&wires).await;
        // So has a job, at its path.
        for node in &nodes {
            let node = Arc::clone(node);
            let expected = transfer.file.clone();
            let started = executor::spawn(async move {
                node.job
                    .staging
                    .ready(&node.order, node.job.as_tenant(), node.facts.as_site())
                    .await
                    .expect("it is there");
                let name = node.job.shared.staged(b"/data/0").expect("a name");
                let file = node.job.shared.find(&name).expect("a file");
                let mut bytes = vec![0; expected.len()];
                assert_eq!(file.memory.read(0, &mut bytes), bytes.len());
                assert!(bytes == expected);
                // As long as the job lasts it is the job's memory, whoever wants it.
                assert!(!node.facts.retention.give_back());
                assert_eq!(node.facts.staging.kept().discard(None), []);
                assert_eq!((node.facts.retention.held().len(), node.facts.retention.bytes()), (1, 0));
            });
            assert!(started.is_ok());
        }
        let roster = Roster::new(&staging, &world()).expect("memory");
        let plan = staging.plan(JOB, 0, &roster).expect("a plan");
        let at = At(Arc::clone(&wires), PsetId(0).address());
        let (lost, sent) = home_of(at, &transfer.file, roster, plan, Staged::key(&KEY, JOB, 0)).await;
        assert!(lost.is_empty() && sent < 8 * PIECE_PACKETS, "{lost:?}, {sent} packets");
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn those_that_have_it_help_the_others() {
    let done = executor::run_to_end(async {
        let wires = wires(|_, _, _| true);
        let transfer = Transfer::new(1, file(2_000_000));
        let nodes = all_nodes(&wires, &staged(&[]));
        let some = Transfer::new(2, transfer.file.clone());
        // Two of them got it before.
        let two = KeptTransfer {
            world: coppice_protocol::world::World::new(KEY, 1, [1, 3].map(NodeId)),
            ..some.transfer.clone()
        };
        let some = Transfer { transfer: two, ..some };
        [1, 3].iter().for_each(|number| some.begin(*number, &nodes[*number as usize]));
        assert_eq!(some.home(&wires).await.0, []);
        assert_eq!(some.told(2).await, [WHOLE, WHOLE]);
        is_left(&wires).await;
        nodes.iter().zip(0..).for_each(|(node, number)| transfer.begin(number, node));
        assert_eq!(transfer.home(&wires).await.0, []);
        assert_eq!(transfer.told(5).await, [WHOLE, WAS_HERE, WHOLE, WAS_HERE, WHOLE]);
        for node in &nodes {
            assert!(transfer.kept(node).is_some_and(|bytes| bytes == transfer.file));
        }
    });
    assert_eq!(done, Ok(()));
}

/// A node with memory of its own, which keeps files of these contents, of a MiB each.
async fn filled(contents: core::ops::Range<u8>) -> (Node, &'static FramePool) {
    let frames = FramePool::for_host(32 << 20);
    let node = node_of(&wires(|_, _, _| false), 0, &staged(&[]), frames);
    for content in contents {
        put(&node, content).await;
    }
    (node, frames)
}

async fn put(node: &Node, content: u8) {
    let plan = Transfer::new(1, file(1 << 20)).plan();
    let room = Room::new(&plan, ProgramId([content; 32]), node.facts.as_site()).expect("memory");
    let coming = node.facts.staging.kept().begin(room, node.facts.retention.next_use()).expect("memory");
    assert!(reserve(&Hold::Loose(coming.room()), &plan).await);
    assert!(coming.finish());
}

fn contents(retention: &Retention) -> Vec<u8> {
    retention.held().iter().map(|held| held.program.0[0]).collect()
}

#[test]
fn whoever_wants_the_memory_gets_it_what_was_used_longest_ago_first() {
    let done = executor::run_to_end(async {
        let (node, frames) = filled(0..0).await;
        let free = frames.free_frames();
        for content in 1..4 {
            put(&node, content).await;
        }
        let facts = &node.facts;
        assert_eq!(contents(&facts.retention), [3, 2, 1]);
        assert_eq!(facts.retention.bytes(), u64::from(free - frames.free_frames()) * 4096);
        // One that is used is the last to go, and while it is, it does not.
        let plan = Transfer::new(1, file(1 << 20)).plan();
        let used = facts.staging.kept().find(ProgramId([1; 32]), &plan, facts.retention.next_use());
        assert!(used.is_some());
        let memory = SharedMemory::new(frames, Arc::clone(&facts.retention), 0, None);
        let (mut seen, mut offset) = (Vec::new(), 0);
        while memory.allocate(offset, 4096, true).is_ok() {
            offset += 4096;
            seen.push(contents(&facts.retention));
        }
        seen.dedup();
        assert_eq!(seen, [vec![1, 3, 2], vec![1, 3], vec![1]]);
        drop(used);
        assert!(memory.allocate(offset, 4096, true).is_ok(), "nobody uses it any more");
        assert_eq!(contents(&facts.retention), []);
        drop(memory);
        facts.retention.reaper().free(frames).await;
        assert_eq!((frames.free_frames(), facts.retention.bytes()), (free, 0));
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn a_file_is_told_to_go_by_its_content_and_more_than_a_node_keeps_push_the_oldest_out() {
    let done = executor::run_to_end(async {
        let most = KEPT_FILES_MAX as u8;
        let (node, frames) = filled(0..most + 1).await;
        let retention = &node.facts.retention;
        assert_eq!(contents(retention), (1..=most).rev().collect::<Vec<_>>());
        // The same bytes once more are still one file, and the newest.
        put(&node, 2).await;
        assert_eq!(contents(retention).len(), KEPT_FILES_MAX);
        assert_eq!(contents(retention)[0], 2);
        let kept = node.facts.staging.kept();
        let gone = kept.discard(Some(ProgramId([5; 32])));
        assert_eq!(gone.iter().map(|held| (held.program.0[0], held.pages)).collect::<Vec<_>>(), [(5, 256)]);
        assert_eq!(kept.discard(Some(ProgramId([5; 32]))), []);
        assert_eq!(kept.discard(None).len(), KEPT_FILES_MAX - 1);
        retention.reaper().free(frames).await;
        assert_eq!((contents(retention), retention.bytes()), (vec![], 0));
        assert_eq!(
            node.facts.quota.taken(),
            node_of(&wires(|_, _, _| false), 0, &staged(&[]), frames).facts.quota.taken()
        );
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn one_that_is_still_on_its_way_goes_too_and_nobody_is_to_blame() {
    let done = executor::run_to_end(async {
        let wires = wires(|_, _, _| true);
        let frames = FramePool::for_host(32 << 20);
        let transfer = Transfer::new(1, file(4_000_000));
        let node = node_of(&wires, 0, &staged(&[]), frames);
        let free = frames.free_frames();
        transfer.begin(0, &node);
        let retention = Arc::clone(&node.facts.retention);
        let wanted = executor::spawn(async move {
            executor::sleep(100_000_000).await;
            assert!(retention.give_back(), "what has come so far");
        });
        assert!(wanted.is_ok());
        let home = transfer.home(&wires);
        let (lost, _) = executor::timeout(60_000_000_000, home).await.expect("home gives it up");
        assert!(lost.contains(&1), "{lost:?}");
        let reason = String::from("its memory was wanted for something else");
        assert_eq!(transfer.told(1).await, [KeepOutcome::Refused(reason)]);
        assert!(transfer.kept(&node).is_none());
        node.facts.retention.reaper().free(frames).await;
        assert_eq!(frames.free_frames(), free);
        assert!(crate::ras::queue().pop().is_none(), "somebody was blamed");
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn nothing_is_left_of_one_that_is_given_up() {
    let done = executor::run_to_end(async {
        let wires = wires(|_, _, _| true);
        let frames = FramePool::for_host(32 << 20);
        let transfer = Transfer::new(1, file(4_000_000));
        let node = node_of(&wires, 0, &staged(&[]), frames);
        let (free, taken) = (frames.free_frames(), node.facts.quota.taken());
        let keeping = executor::timeout(50_000_000, transfer.order(0, &node));
        let sending = executor::timeout(50_000_000, transfer.home(&wires));
        assert!(matches!(executor::race(keeping, sending).await, executor::Either::First(Err(_))));
        assert!(transfer.told.lock().is_empty());
        node.facts.retention.reaper().free(frames).await;
        assert_eq!((frames.free_frames(), node.facts.quota.taken()), (free, taken));
        assert_eq!(node.facts.retention.held(), []);
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn what_cannot_be_kept_is_refused_with_the_reason() {
    let done = executor::run_to_end(async {
        let wires = wires(|_, _, _| true);
        let node = node_of(&wires, 0, &staged(&[]), pool());
        let mut long = Transfer::new(1, file(9));
        long.transfer.staging.files[0].bytes = 200 << 20;
        long.order(0, &node).await;
        let mut several = Transfer::new(2, file(9));
        several.transfer.staging.files.clear();
        several.order(0, &node).await;
        let other = Transfer::new(3, file(9));
        other.order(NODES, &node).await;
        let reasons = [long, several, other].map(|transfer| match transfer.told.lock().values().next() {
            Some(KeepOutcome::Refused(reason)) => reason.clone(),
            other => panic!("{other:?}"),
        });
        assert!(reasons[0].starts_with("it has 200 MiB and the node has "), "{}", reasons[0]);
        assert!(reasons[1].contains("a transfer has bytes"), "{}", reasons[1]);
        assert!(reasons[2].contains("none of those that are to keep it"), "{}", reasons[2]);
    });
    assert_eq!(done, Ok(()));
}
