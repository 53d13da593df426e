//! The nodes of a job on a network in memory, with ranks that the tests play.

mod barriers;
mod charges;
mod departures;
mod ports;
mod strangers;

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::ops::Range;

use coppice_endpoint::Stack;
use coppice_protocol::control::{Exit, JobFailure, Launch};
use coppice_protocol::ids::{JobNode, NodeId, Rank};
use coppice_protocol::world::{JobKey, World};
use spin::Mutex;

use super::{Endpoint, Pmi, Seat};
use crate::agent::{Failures, Trouble};
use crate::errno::Errno;
use crate::executor;
use crate::files::Service;
use crate::files::readiness::until_watched;
use crate::files::stream::{Stream, copy_from};
use crate::net::job;
use crate::net::testing::fabric::{Fabric, Faults, Station};
use crate::process::testing::order;
use crate::quota::tests::quota;

const MS_NS: u64 = 1_000_000;
const SECOND_NS: u64 = 1000 * MS_NS;

/// A node.
#[derive(Clone)]
struct Node {
    id: NodeId,
    pmi: Pmi,
    stack: Stack<Station>,
}

impl Node {
    /// Its address in the job.
    fn address(&self) -> Ipv4Addr {
        JobNode(self.id.0).address()
    }
}

/// Some nodes.
struct Cluster {
    fabric: Fabric,
    nodes: Vec<Node>,
    failures: Arc<Mutex<Vec<JobFailure>>>,
    /// Barriers in which ranks were said to wait.
    waits: Arc<Mutex<Vec<u64>>>,
}

impl Cluster {
    fn new(nodes: u32, faults: Faults) -> Self {
        let fabric = Fabric::new(faults);
        let node = |id: u32| {
            let id = NodeId(id);
            let stack = fabric.stack(id.address());
            let world = World::new(JobKey([9; 32]), 1, (0..nodes).map(NodeId));
            let launch = Launch { first: Rank(id.0), world, ..order(nodes) };
            assert_eq!(job::enter(&launch, &stack, &quota()), Ok(()));
            let pmi = Pmi::new(id, Arc::new(stack.clone()), quota());
            assert!(executor::spawn(pmi.clone().listen()).is_ok());
            assert!(executor::spawn(pmi.clone().serve(Arc::new(stack.clone()))).is_ok());
            Node { id, pmi, stack }
        };
        Self { nodes: (0..nodes).map(node).collect(), fabric, failures: Arc::default(), waits: Arc::default() }
    }

    fn launch_order(&self, rank: u32, size: u32, per_node: u32) -> Launch {
        let nodes = self.nodes.iter().map(|node| node.id).take(size.div_ceil(per_node) as usize);
        Launch { first: Rank(rank), size, world: World::new(JobKey([9; 32]), per_node, nodes), ..order(size) }
    }

    /// Starts a rank of a job, where its place is.
    fn start(&self, rank: u32, size: u32, per_node: u32) -> Player {
        let node = &self.nodes[(rank / per_node) as usize];
        let (failures, waits) = (Arc::clone(&self.failures), Arc::clone(&self.waits));
        let told = Failures::new(move |trouble| match trouble {
            Trouble::Asks(_) | Trouble::Spawns(_) => {}
            Trouble::Failed(failure) => failures.lock().push(failure),
            Trouble::Waits(waiting) => waits.lock().push(waiting.barrier),
            Trouble::Dies(dying) => panic!("{dying:?}"),
        });
        let seat = node.pmi.join(&self.launch_order(rank, size, per_node).into(), told).expect("a place");
        Player { rank, size, endpoint: Some(seat.endpoint().expect("memory")), seat }
    }

    fn start_all(&self, ranks: Range<u32>, per_node: u32) -> Vec<Player> {
        let size = ranks.end;
        ranks.map(|rank| self.start(rank, size, per_node)).collect()
    }

    /// Why jobs cannot go on: codes and reasons.
    fn failures(&self) -> Vec<(u8, String)> {
        self.failures.lock().iter().map(|failure| (failure.code, failure.reason.clone())).collect()
    }

    /// All nodes are told that no rank of the job runs any more: then nothing is left of it.
    async fn job_is_over(self: Arc<Self>) {
        for node in &self.nodes {
            executor::timeout(SECOND_NS, node.pmi.over(order(1).job)).await.expect("nothing of it goes on");
        }
        assert!(self.is_empty());
    }

    /// Whether nothing is left of any job.
    fn is_empty(&self) -> bool {
        self.nodes.iter().all(|node| node.pmi.shared.jobs.lock().is_empty())
    }
}

/// A rank that the test plays.
struct Player {
    rank: u32,
    size: u32,
    endpoint: Option<Endpoint>,
    seat: Seat,
}

impl Player {
    fn endpoint(&self) -> &Endpoint {
        self.endpoint.as_ref().expect("it is open")
    }

    async fn say(&self, line: &str) {
        let text = format!("{line}\n");
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let attempt = || match self.endpoint().put(rest.len(), &mut copy_from(rest)) {
                Err(Errno::EAGAIN) => None,
                other => Some(other),
            };
            let count = until_watched(|waker| self.endpoint().watch(waker), attempt)
                .await
                .and_then(|put| put)
                .expect("PMI listens");
            rest = &rest[count..];
        }
    }

    /// What there is to read, up to `limit` bytes.
    async fn read(&self, limit: usize) -> Vec<u8> {
        let attempt = || {
            let mut bytes = Vec::new();
            let taken = self.endpoint().take(limit, false, &mut |part| {
                bytes.extend_from_slice(part);
                part.len()
            });
            match taken {
                Err(Errno::EAGAIN) => None,
                taken => Some(taken.map(|_| bytes)),
            }
        };
        until_watched(|waker| self.endpoint().watch(waker), attempt).await.and_then(|read| read).expect("PMI speaks")
    }

    async fn hear(&self) -> String {
        let mut line = Vec::new();
        loop {
            match &*self.read(1).await {
                b"\n" => return String::from_utf8(line).expect("text"),
                [] => panic!("the end after {line:?}"),
                byte => line.extend_from_slice(byte),
            }
        }
    }

    async fn ask(&self, line: &str) -> String {
        self.say(line).await;
        self.hear().await
    }

    async fn init(&self) {
        assert_eq!(
            self.ask("cmd=init pmi_version=1 pmi_subversion=1").await,
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
        );
        assert_eq!(self.ask("cmd=get_my_kvsname").await, "cmd=my_kvsname kvsname=k7");
    }

    async fn barrier(&self) {
        assert_eq!(self.ask("cmd=barrier_in").await, "cmd=barrier_out");
    }

    /// Puts a card, waits for all, gets all others' cards and waits for all again.
    async fn exchange(&self, round: u32) {
        let put = format!("cmd=put kvsname=k7 key=P{}-{round} value=card-{}-{round}", self.rank, self.rank);
        assert_eq!(self.ask(&put).await, "cmd=put_result rc=0 msg=success");
        self.barrier().await;
        for other in 0..self.size {
            assert_eq!(
                self.ask(&format!("cmd=get kvsname=k7 key=P{other}-{round}")).await,
                format!("cmd=get_result rc=0 msg=success value=card-{other}-{round}")
            );
        }
        self.barrier().await;
    }

    /// Says its last words.
    async fn finalize(&self) {
        assert_eq!(self.ask("cmd=finalize").await, "cmd=finalize_ack");
    }

    /// Ends, and gives up its place.
    async fn end(mut self, exit: Exit) {
        self.seat.ended(exit);
        drop(self.endpoint.take());
        self.seat.leave().await;
    }
}

/// Runs futures beside each other to their ends, for so long at most.
async fn all<F: Future<Output = ()> + Send + 'static>(limit_ns: u64, futures: impl IntoIterator<Item = F>) {
    let receivers: Vec<_> = futures
        .into_iter()
        .map(|future| {
            let (sender, receiver) = executor::oneshot::channel();
            let spawned = executor::spawn(async move {
                future.await;
                let _ = sender.send(());
            });
            assert!(spawned.is_ok());
            receiver
        })
        .collect();
    let waiting = async {
        for receiver in receivers {
            receiver.await.expect("it comes to its end");
        }
    };
    executor::timeout(limit_ns, waiting).await.expect("in time");
}

/// Bytes of another protocol.
fn nonsense() -> Vec<u8> {
    vec![b'x'; 100]
}
