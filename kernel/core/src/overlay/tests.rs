//! Nodes of a job with an overlay, on a network in memory. No rank runs on the host, so what goes up is that there is
//! nothing.

mod stacks;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use coppice_endpoint::{BufferSizes, Stack};
use coppice_protocol::control::{Launch, Order, OverlayOrder};
use coppice_protocol::ids::{JobId, NodeId, Rank};
use coppice_protocol::limits::{OVERLAY_CALLERS_MAX, OVERLAY_PORT};
use coppice_protocol::overlay::frame::Keys;
use coppice_protocol::overlay::{Above, Child, Down, METRICS, Part, Source, Up};
use coppice_protocol::ranks::Ranks;
use coppice_protocol::world::{JobKey, World};
use spin::Mutex;

use super::{Auxiliary, Overlays};
use crate::agent::{Processes, Started};
use crate::executor::{self, run_to_end};
use crate::launch::ProcessTable;
use crate::limits::{OVERLAY_NODE_BYTES, OVERLAY_STRANGER_NS_MAX, OVERLAY_WRITE_NS_MAX};
use crate::net::testing::Nowhere;
use crate::net::testing::fabric::{Fabric, Faults, Station};
use crate::pmi::Pmi;
use crate::process::testing::{node_facts, order, pool};
use crate::process::{JobOnNode, JobsOnNode};
use crate::quota::Quota;
use crate::quota::tests::quota;
use crate::ship::Ship;

const SECOND_NS: u64 = 1_000_000_000;
const PERIOD_NS: u64 = 100_000_000;
const SIZES: BufferSizes = BufferSizes { receive: 4096, transmit: 4096 };

struct Node {
    overlays: Overlays,
    job: Option<Arc<JobOnNode>>,
    quota: Arc<Quota>,
    number: u32,
}

/// Some nodes of a job, the first of which has a process that hears all.
struct Cluster {
    fabric: Fabric,
    nodes: Vec<Node>,
    /// What the front end was told.
    said: Arc<Mutex<Vec<Up>>>,
}

impl Cluster {
    fn new(count: u32) -> Self {
        let fabric = Fabric::new(Faults::default());
        let world = World::new(JobKey([9; 32]), 1, (0..count).map(NodeId));
        let node = |id: u32| {
            let (id, quota) = (NodeId(id), quota());
            let stack: Stack<Station> = fabric.stack(id.address());
            let facts = node_facts(pool(), Arc::new(stack.clone()));
            let auxiliary = Auxiliary::new(&facts, 0, Arc::default());
            let overlays = Overlays::new(id, Arc::new(stack), Arc::clone(&quota), auxiliary);
            assert!(executor::spawn_program(overlays.clone().listen()).is_ok());
            let launch = Launch { first: Rank(id.0), world: world.clone(), ..order(count) };
            let memory = (pool(), &facts.left);
            let job = Arc::new(JobsOnNode::default()).enter(&launch, memory, &quota).expect("memory");
            Node { overlays, job: Some(job), quota, number: 0 }
        };
        Self { nodes: (0..count).map(node).collect(), fabric, said: Arc::default() }
    }

    fn tell(&mut self, node: u32, down: Down) {
        let said = Arc::clone(&self.said);
        let node = &mut self.nodes[node as usize];
        node.number += 1;
        let told = OverlayOrder { job: order(1).job, number: node.number, order: down };
        node.overlays.obey(told, node.job.as_ref(), Arc::new(move |up| said.lock().push(up)));
    }

    fn begin(&mut self) {
        let count = self.nodes.len() as u32;
        (0..count).for_each(|node| {
            self.tell(node, Down::Announce { generation: 1, period_ns: PERIOD_NS, sample_period_ns: 0, size: count })
        });
        let children =
            (0..count).map(|node| Child { source: Source::BackEnds(NodeId(node)), ranks: of(node) }).collect();
        self.tell(0, Down::Begin { generation: 1, index: 0, above: Above::FrontEnd, height: 1, children });
        let above = Above::Process { index: 0, node: NodeId(0) };
        (0..count).for_each(|node| self.tell(node, Down::Attach { generation: 1, ranks: of(node), above }));
    }

    /// Epochs that the process has brought together.
    fn epochs(&self) -> Vec<u64> {
        let epoch = |up: &Up| match up {
            Up::Part { source: Source::Process(0), part, .. } => Some(part.epoch()),
            _ => None,
        };
        self.said.lock().iter().filter_map(epoch).collect()
    }

    /// Nothing is left of the job's overlay.
    async fn end(&mut self) {
        for node in &mut self.nodes {
            let over = node.overlays.over(order(1).job);
            executor::timeout(SECOND_NS, over).await.expect("nothing of it goes on");
            node.job = None;
            assert_eq!(node.quota.taken(), 0, "what it was charged with is given back");
            assert!(node.overlays.shared.jobs.lock().is_empty());
        }
    }
}

fn of(node: u32) -> Ranks {
    Ranks::from(Rank(node))
}

#[test]
fn epochs_come_together_over_the_network_one_in_each_period() {
    let done = run_to_end(async {
        let mut cluster = Cluster::new(3);
        cluster.begin();
        executor::sleep(2 * SECOND_NS).await;
        let epochs = cluster.epochs();
        assert!((17..=20).contains(&epochs.len()), "{epochs:?}");
        assert!(epochs.windows(2).all(|pair| pair[1] == pair[0] + 1), "{epochs:?}");
        let here = cluster.said.lock().iter().filter(|up| matches!(up, Up::Here { .. })).count();
        assert_eq!(here, 3);
        // One connection for each node that is not its own, and no frames when it is over.
        cluster.end().await;
        executor::sleep(SECOND_NS).await;
        let frames = cluster.fabric.frames();
        executor::sleep(5 * SECOND_NS).await;
        assert_eq!(cluster.fabric.frames(), frames);
        assert_eq!(cluster.epochs().len(), epochs.len());
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn what_is_said_again_is_obeyed_once_and_answered_again() {
    let done = run_to_end(async {
        let mut cluster = Cluster::new(1);
        cluster.begin();
        executor::sleep(SECOND_NS).await;
        let before = cluster.epochs();
        // As over a new connection: the same numbers.
        cluster.nodes[0].number = 0;
        cluster.begin();
        let answers = |cluster: &Cluster| {
            let said = cluster.said.lock();
            said.iter().filter(|up| matches!(up, Up::Here { .. } | Up::Ready { .. })).count()
        };
        assert_eq!(answers(&cluster), 4);
        executor::sleep(SECOND_NS).await;
        let epochs = cluster.epochs();
        assert!(epochs.len() > before.len() + 5 && epochs.windows(2).all(|pair| pair[1] == pair[0] + 1), "{epochs:?}");
        cluster.end().await;
    });
    assert_eq!(done, Ok(()));
}

/// Others are heard, and who cannot be reached costs no more than what waits for him.
#[test]
fn a_node_that_is_cut_off_holds_nobody_up() {
    let done = run_to_end(async {
        let mut cluster = Cluster::new(3);
        cluster.begin();
        executor::sleep(SECOND_NS).await;
        cluster.fabric.cut(NodeId(2).address());
        let before = cluster.epochs().len();
        executor::sleep(30 * SECOND_NS).await;
        let more = cluster.epochs().len() - before;
        assert!(more > 280, "{more} epochs in 300 periods");
        cluster.fabric.mend(NodeId(2).address());
        executor::sleep(2 * SECOND_NS).await;
        cluster.end().await;
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn who_is_no_node_of_the_job_is_not_heard() {
    let done = run_to_end(async {
        let mut cluster = Cluster::new(2);
        let stranger = cluster.fabric.stack(Ipv4Addr::new(10, 0, 0, 9));
        let other = cluster.fabric.stack(NodeId(7).address());
        cluster.begin();
        executor::sleep(PERIOD_NS).await;
        let node = NodeId(0).address();
        let job = order(1).job;
        let word = |key: u8, source| {
            let part = Part::of(u64::MAX / 2, Rank(1), &[7; METRICS]);
            let up = Up::Part { generation: 1, source, is_apart: false, part };
            Keys::derive(&JobKey([key; 32]), job).seal(0, &up).expect("short")
        };
        // Another job's key, no frame at all, the right key from a station that is no node, and another's back ends.
        let theirs = Source::BackEnds(NodeId(1));
        for (from, bytes) in [
            (&other, word(8, theirs)),
            (&other, b"GET / HTTP/1.1".to_vec()),
            (&stranger, word(9, theirs)),
            (&other, word(9, theirs)),
        ] {
            let wire = from.connect(node, OVERLAY_PORT, SIZES).await.expect("a connection");
            wire.write_all(&bytes).await.expect("room");
            let start_ns = executor::now_ns();
            let mut buffer = [0; 16];
            assert!(!matches!(wire.read(&mut buffer).await, Ok(1..)));
            assert!(executor::now_ns() - start_ns < SECOND_NS);
        }
        // Silence, before the first frame and in the middle of one.
        let silent = other.connect(node, OVERLAY_PORT, SIZES).await.expect("a connection");
        let halting = other.connect(node, OVERLAY_PORT, SIZES).await.expect("a connection");
        let mine = word(9, Source::Process(3));
        halting.write_all(&mine).await.expect("room");
        halting.write_all(&mine[..50]).await.expect("room");
        for (wire, limit_ns) in [(silent, OVERLAY_STRANGER_NS_MAX), (halting, OVERLAY_WRITE_NS_MAX)] {
            let mut buffer = [0; 16];
            let closed = executor::timeout(limit_ns + SECOND_NS, wire.read(&mut buffer)).await;
            assert!(!matches!(closed, Err(_) | Ok(Ok(1..))), "it is closed");
        }
        assert!(cluster.epochs().iter().all(|epoch| *epoch < u64::MAX / 2));
        cluster.end().await;
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn callers_are_bounded() {
    let done = run_to_end(async {
        let mut cluster = Cluster::new(1);
        let stranger = cluster.fabric.stack(Ipv4Addr::new(10, 0, 0, 9));
        cluster.begin();
        executor::sleep(PERIOD_NS).await;
        let mut crowd = Vec::new();
        for _ in 0..2 * OVERLAY_CALLERS_MAX {
            crowd.extend(stranger.connect(NodeId(0).address(), OVERLAY_PORT, SIZES).await.ok());
        }
        let tasks = executor::tasks();
        assert!(tasks <= OVERLAY_CALLERS_MAX + 20, "{tasks} tasks");
        executor::sleep(OVERLAY_STRANGER_NS_MAX + SECOND_NS).await;
        assert!(executor::tasks() < 20);
        cluster.end().await;
    });
    assert_eq!(done, Ok(()));
}

/// Of a job on one node nothing is left when its last rank has ended; of one on several what is heard from others
/// stays.
#[test]
fn what_nobody_wants_goes_with_the_last_rank() {
    let done = run_to_end(async {
        let job = order(1).job;
        for (nodes, is_killed, stays) in [(1, false, false), (2, false, true), (2, true, false)] {
            let mut cluster = Cluster::new(nodes);
            cluster.begin();
            executor::sleep(SECOND_NS).await;
            let overlays = cluster.nodes[0].overlays.clone();
            if is_killed {
                overlays.kill(job);
            }
            executor::timeout(SECOND_NS, overlays.left(job)).await.expect("soon");
            assert_eq!(overlays.shared.jobs.lock().len() == 1, stays, "{nodes} nodes, {is_killed}");
            cluster.end().await;
        }
    });
    assert_eq!(done, Ok(()));
}

/// The word that a job is over may be lost with a connection. The next job's first rank does for it, whether somebody
/// wants to know what that job does or not.
#[test]
fn the_next_job_ends_what_is_left_of_the_last() {
    let done = run_to_end(async {
        let mut cluster = Cluster::new(2);
        cluster.begin();
        executor::sleep(SECOND_NS).await;
        let Node { overlays, job, quota, .. } = &mut cluster.nodes[1];
        *job = None;
        assert!(quota.taken() >= OVERLAY_NODE_BYTES);
        let facts = node_facts(pool(), Arc::new(cluster.fabric.stack(NodeId(1).address())));
        let pmi = Pmi::new(NodeId(1), Arc::new(Nowhere), Arc::clone(&facts.quota));
        let table = ProcessTable::new(facts, pmi, overlays.clone());
        let world = World::new(JobKey([8; 32]), 1, [NodeId(1)]);
        let next = Order::from(Launch { job: JobId(8), first: Rank(0), world, ..order(1) });
        let client = Ship::new().client(next.job, next.rank);
        let started = Started::unheard(next.job, next.rank);
        let launched = table.launch(next, client, started);
        assert_eq!(quota.taken(), 0);
        drop(launched);
        executor::sleep(SECOND_NS).await;
        cluster.end().await;
    });
    assert_eq!(done, Ok(()));
}
