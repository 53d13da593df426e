//! A cluster that answers on its socket, with the real client, and whoever makes checkpoints.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use coppice_api::checkpoint::{CheckpointPolicy, CheckpointView, CheckpointsQuery};
use coppice_api::job::{JobView, Submission};
use coppice_api::{ApiError, Client};
use coppice_protocol::checkpoint::PartOf;
use coppice_protocol::ids::{Generation, NodeId, PsetId, Rank};
use coppice_protocol::pset::FromPset;
use coppice_service_node::connections::Connections;
use coppice_service_node::controller::Event;
use coppice_service_node::http::Api;
use coppice_service_node::plant::{HelperEvent, Incarnation, LastWords, MachineEvent, PlantEvent};
use coppice_storage::Storage;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Cluster;
use super::cutting::{listing, part};

/// How long anything may take; the tests themselves take less than a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// In which a second passes for the cluster, if time passes.
pub(crate) const TICK: Duration = Duration::from_millis(5);

/// A cluster that answers on its socket.
pub(crate) struct Served {
    pub(crate) client: Client,
    pub(crate) api: Api,
    cluster: JoinHandle<Cluster>,
    events: mpsc::Sender<Event>,
    pub(crate) storage: Arc<Storage>,
    pub(crate) program: PathBuf,
    _files: tempfile::TempDir,
}

impl Served {
    /// One whose time stands.
    pub(crate) fn new(cluster: Cluster) -> Self {
        Self::with(cluster, Cluster::serve)
    }

    /// One in which a second passes in each tick.
    pub(crate) fn in_time(cluster: Cluster) -> Self {
        Self::with(cluster, Cluster::serve_in_time)
    }

    fn with<F: Future<Output = Cluster> + Send + 'static>(
        mut cluster: Cluster,
        serve: impl FnOnce(Cluster, mpsc::Receiver<Event>) -> F,
    ) -> Self {
        let paths = super::paths(cluster.home.path());
        let listener = UnixListener::bind(paths.api_socket()).expect("socket");
        let ((events, queue), store) = (mpsc::channel(100), cluster.store.clone());
        let (connections, storage) = (Connections::new(100), super::storage(cluster.home.path()));
        let (orders, to_be_done) = mpsc::unbounded_channel();
        cluster.behaviour.tasks = Some(orders);
        let api = Api::new(events.clone(), store, connections.clone(), Arc::clone(&storage));
        tokio::spawn(api.clone().carry_out(to_be_done));
        let router = api.clone().router();
        tokio::spawn(async move { axum::serve(connections.bound(listener), router).await });
        let files = tempfile::tempdir().expect("directory");
        let program = files.path().join("prog");
        std::fs::write(&program, super::program_file()).expect("program");
        let cluster = tokio::spawn(serve(cluster, queue));
        Self { client: Client::new(paths), api, cluster, events, storage, program, _files: files }
    }

    /// Has a job of two ranks on each node.
    pub(crate) async fn submit(&self, ranks: u32) -> u64 {
        self.submit_with(ranks, None).await
    }

    /// The same, of which checkpoints are made by itself.
    pub(crate) async fn submit_with(&self, ranks: u32, checkpoint_policy: Option<CheckpointPolicy>) -> u64 {
        let job = Submission {
            checkpoint_policy,
            program: self.program.clone(),
            ranks_per_node: 2,
            detached: true,
            staged: Vec::new(),
            ..super::job(ranks)
        };
        self.client.submit(&job).await.expect("accepted").job
    }

    /// Puts the objects that parts of so many ranks and nodes have.
    pub(crate) fn put(&self, ranks: u32, nodes: u32) {
        let of = (0..ranks).map(|rank| PartOf::Rank(Rank(rank))).chain((0..nodes).map(PartOf::Node));
        for of in of {
            let listing = listing(of);
            let id = self.storage.put(&listing.bytes().expect("short")).expect("put");
            assert_eq!(id, part(of).object);
            for number in 0..2 * ranks.max(nodes) {
                self.storage.put(&number.to_le_bytes()).expect("put");
            }
        }
    }

    /// A node's machine is gone all of a sudden.
    pub(crate) async fn lose_machine(&self, node: u32) {
        let nodes = self.client.nodes().await.expect("listed");
        let generation = Generation(nodes[node as usize].generation);
        let event = MachineEvent::Ended { reason: "QEMU was ended by signal 9".into(), last_words: LastWords::None };
        let event = PlantEvent::Machine { node: NodeId(node), generation, event };
        self.events.send(Event::Plant(event)).await.expect("it is up");
    }

    /// An I/O node says something.
    pub(crate) async fn said(&self, pset: u32, message: FromPset) {
        self.pset(pset, HelperEvent::Said(message)).await;
    }

    /// An I/O node ends all of a sudden.
    pub(crate) async fn lose_io_node(&self, pset: u32) {
        self.pset(pset, HelperEvent::Ended("it was killed by signal 9".into())).await;
    }

    /// Something about an I/O node, the first that its pset has.
    async fn pset(&self, pset: u32, event: HelperEvent<FromPset>) {
        let event = PlantEvent::Pset { pset: PsetId(pset), incarnation: Incarnation::default().next(), event };
        self.events.send(Event::Plant(event)).await.expect("it is up");
    }

    /// Waits until the checkpoints of a job are listed as wanted, and gives them.
    pub(crate) async fn listed(&self, job: u64, is_wanted: impl Fn(&[CheckpointView]) -> bool) -> Vec<CheckpointView> {
        let waited = tokio::time::timeout(PATIENCE, async {
            loop {
                let views = self.client.checkpoints(&CheckpointsQuery { job: Some(job) }).await.expect("listed");
                if is_wanted(&views) {
                    return views;
                }
                tokio::time::sleep(TICK).await;
            }
        });
        waited.await.expect("in time")
    }

    /// Waits until a job is as wanted, and gives it.
    pub(crate) async fn until(&self, job: u64, is_wanted: impl Fn(&JobView) -> bool) -> JobView {
        let waited = tokio::time::timeout(PATIENCE, async {
            loop {
                let view = self.client.job(job).await.expect("known").job;
                if is_wanted(&view) {
                    return view;
                }
                tokio::time::sleep(TICK).await;
            }
        });
        waited.await.expect("in time")
    }

    /// Ends the cluster and returns it with all orders it gave.
    pub(crate) async fn down(self) -> Cluster {
        self.client.down().await.expect("told");
        self.ended().await
    }

    /// The same after somebody else has told it to end.
    pub(crate) async fn ended(self) -> Cluster {
        tokio::time::timeout(PATIENCE, self.cluster).await.expect("in time").expect("no panic")
    }
}

/// Why something is refused, one line.
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, ApiError>) -> String {
    match result {
        Err(ApiError::Refused { message, .. }) => {
            assert!(!message.contains('\n'), "{message}");
            message
        }
        other => panic!("{other:?}"),
    }
}
