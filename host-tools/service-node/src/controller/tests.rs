//! Reports of ranks are taken in without a look at the other ranks and nodes.

use std::collections::BTreeMap;
use std::time::Instant;

use coppice_api::job::{JobState, Submission};
use coppice_api::link::{LinkShape, LinkShapes, Station};
use coppice_api::paths::ClusterPaths;
use coppice_protocol::control::{Ends, Exit, RankReport, Waiting};
use coppice_protocol::ids::{JobId, NodeId, ProgramId, PsetId, Rank};
use coppice_protocol::personality::{NodeKey, Personality};
use coppice_protocol::pset::{FromPset, NodeEnds, ToPset};
use coppice_protocol::retain::RetentionPolicy;
use coppice_protocol::world::{JobKey, Passage};
use coppice_qemu::machine::Accelerator;

use super::node::Phase;
use super::{Config, Controller, Event, Now, walks};
use crate::database::{Database, ProgramRow};
use crate::plant::{
    CheckpointOrder, FabricOrder, HelperEvent, Incarnation, Plant, PlantEvent, Secrets, SpawnOrder, Stop,
};
use crate::records::Records;
use crate::store::{Found, Held, ProgramStore, Source};

const RANKS_PER_NODE: u32 = 64;
const PSET_NODES: u32 = 10;

/// Does nothing, counts what it tells I/O nodes, and keeps what it said last of a job's links.
#[derive(Debug, Default)]
struct Idle {
    told: u64,
    passage: Option<Passage>,
}

impl Plant for Idle {
    fn find_accelerator(&mut self) {}
    fn start_fabric(&mut self, _incarnation: Incarnation, _links: &BTreeMap<Station, LinkShapes>) {}
    fn stop_fabric(&mut self, _how: Stop) {}
    fn ask_fabric(&mut self) {}
    fn tell_fabric(&mut self, _request: u64, _orders: &[FabricOrder]) {}
    fn start_io_node(&mut self, _pset: PsetId, _incarnation: Incarnation) {}
    fn kill_io_node(&mut self, _pset: PsetId) {}
    fn tell(&mut self, _pset: PsetId, message: &ToPset) {
        self.told += 1;
        if let ToPset::Start(job) = message {
            self.passage = Some(job.world.passage);
        }
    }
    fn secrets(&mut self) -> Result<Secrets, String> {
        Ok(Secrets { key: NodeKey([7; 32]), seed: [8; 32] })
    }
    fn job_key(&mut self) -> Result<JobKey, String> {
        Ok(JobKey([9; 32]))
    }
    fn check_program(&mut self, _job: JobId, _copy: Held, _source: Source) {}
    fn keep(&mut self, _order: crate::output::OutputOrder) {}
    fn record_profile(&mut self, _order: crate::profiles::ProfileOrder) -> bool {
        true
    }
    fn profiles_written(&mut self) -> tokio::sync::oneshot::Receiver<()> {
        tokio::sync::oneshot::channel().1
    }
    fn checkpoint(&mut self, _order: CheckpointOrder) {}
    fn spawn(&mut self, _order: SpawnOrder) {}
    fn boot(&mut self, _personality: &Personality, _accelerator: Accelerator) {}
    fn forget_personality(&mut self, _node: NodeId) {}
    fn kill_machine(&mut self, _node: NodeId) {}
}

struct World {
    controller: Controller<Idle>,
    ranks: u32,
    now: Now,
    _home: tempfile::TempDir,
}

impl World {
    /// A cluster on all but one of whose nodes a job has been told to start; another job waits.
    fn new(nodes: u32) -> Self {
        Self::over(nodes, LinkShape::default())
    }

    /// One whose links are like that.
    fn over(nodes: u32, link: LinkShape) -> Self {
        let home = tempfile::tempdir().expect("directory");
        let name = "test".parse().expect("a name");
        let variable = |wanted: &str| (wanted == "COPPICE_HOME").then(|| home.path().as_os_str().to_owned());
        let paths = ClusterPaths::find_with(name, variable, 0).expect("paths");
        paths.create().expect("directories");
        let store = ProgramStore::open(paths.programs()).expect("store");
        let retention = RetentionPolicy::One;
        let config = Config {
            paths,
            nodes,
            cores: 2,
            memory_bytes: 1 << 30,
            region_bytes: 0,
            pset_size: PSET_NODES,
            retention,
            freeze_every_ns: 0,
            host_cores: 2,
            boots_max: 4,
            link,
        };
        let records = Records::new(Box::new(Database::in_memory().expect("database")));
        let now = Now { instant: Instant::now(), realtime_ns: 1 };
        let mut controller = Controller::new(config, records, store, Idle::default(), now).expect("controller");
        for node in 0..nodes {
            controller.set_phase(NodeId(node), Phase::Ready);
        }
        let ranks = (nodes - 1) * RANKS_PER_NODE;
        let mut world = Self { controller, ranks, now, _home: home };
        assert_eq!(world.submit(ranks), JobId(1));
        assert_eq!(world.submit(nodes * RANKS_PER_NODE), JobId(2));
        world.event(PlantEvent::Program { job: JobId(1), found: Ok(Found::Sound) });
        world
    }

    fn submit(&mut self, ranks: u32) -> JobId {
        let job = Submission {
            ranks_per_node: RANKS_PER_NODE,
            ..Submission::plain("/bin/prog".into(), "prog".into(), ranks)
        };
        let program = ProgramRow { id: ProgramId([3; 32]), bytes: 100, memory_bytes: 4096 };
        let program = self.controller.store.hold(program);
        let id = self.controller.submit(job, program, Vec::new(), self.now).expect("accepted");
        self.controller.settle(self.now);
        id
    }

    fn event(&mut self, event: PlantEvent) {
        self.controller.handle(Event::Plant(event), self.now);
        // The daemon asks after each event.
        let _ = self.controller.deadline();
    }

    fn said(&mut self, node: u32, message: FromPset) {
        let incarnation = Incarnation::default();
        self.event(PlantEvent::Pset {
            pset: PsetId(node / PSET_NODES),
            incarnation,
            event: HelperEvent::Said(message),
        });
    }

    /// Has each rank say something, from both ends to the middle. Returns how many ranks and nodes were looked at for
    /// all of it.
    fn each_says(&mut self, message: impl Fn(NodeId, Rank) -> FromPset) -> u64 {
        let before = walks::seen();
        for number in 0..self.ranks {
            let rank = if number % 2 == 0 { number / 2 } else { self.ranks - 1 - number / 2 };
            let node = rank / RANKS_PER_NODE;
            self.said(node, message(NodeId(node), Rank(rank)));
        }
        walks::seen() - before
    }

    fn state(&self) -> JobState {
        self.controller.records.job(JobId(1)).expect("read").expect("there").job.state
    }
}

fn launched(_node: NodeId, rank: Rank) -> FromPset {
    FromPset::Launched { job: JobId(1), ranks: rank.into() }
}

fn ended(node: NodeId, rank: Rank) -> FromPset {
    let report = RankReport { barriers: 5, ..RankReport::ended(JobId(1), rank, Exit::Signal(11)) };
    FromPset::Ended(vec![NodeEnds { node, ends: Ends { held: Vec::new(), reports: vec![report] } }])
}

fn waits(_node: NodeId, _rank: Rank) -> FromPset {
    FromPset::Waits(Waiting { job: JobId(1), barrier: 4 })
}

fn refused(_node: NodeId, rank: Rank) -> FromPset {
    FromPset::Refused { job: JobId(1), ranks: rank.into(), reason: "no".into() }
}

#[test]
fn reports_of_ranks_cost_the_same_however_many_ranks_and_nodes_there_are() {
    for nodes in [11, 41] {
        let mut world = World::new(nodes);
        // What is done once for the whole job may look at each rank some times.
        let few_times = 4 * u64::from(world.ranks + nodes);
        assert_eq!((world.each_says(launched), world.state()), (0, JobState::Running));
        assert_eq!((world.each_says(launched), world.each_says(waits)), (0, 0));
        let seen = world.each_says(ended);
        assert!(seen <= few_times, "{seen} looks for {} ranks", world.ranks);
        assert_eq!(world.state(), JobState::Ended);
        assert_eq!(world.each_says(ended), 0);
    }
}

#[test]
fn ranks_that_are_lost_cost_the_same_however_many_ranks_and_nodes_there_are() {
    for nodes in [11, 41] {
        let mut world = World::new(nodes);
        let few_times = 4 * u64::from(world.ranks + nodes);
        let told = world.controller.plant.told;
        let seen = world.each_says(refused);
        assert!(seen <= few_times, "{seen} looks for {} ranks", world.ranks);
        assert_eq!(world.state(), JobState::Ended);
        let psets = u64::from((nodes - 1).div_ceil(PSET_NODES));
        assert_eq!(world.controller.plant.told - told, 2 * psets, "each is told once to kill and once to forget");

        let mut world = World::new(nodes);
        let before = walks::seen();
        for node in 0..nodes - 1 {
            world.controller.end_node(NodeId(node), "gone", world.now);
        }
        let seen = walks::seen() - before;
        assert!(seen <= few_times, "{seen} looks for {} ranks", world.ranks);
        assert_eq!(world.state(), JobState::Ended);
    }
}

#[test]
fn who_starts_a_job_is_told_what_its_links_are_like() {
    let told = |link| World::over(3, link).controller.plant.passage;
    assert_eq!(told(LinkShape::default()), Some(Passage::default()));
    let slow = LinkShape { latency_ns: 2_000, bandwidth_bits_per_s: Some(1_000_000), ..LinkShape::default() };
    assert_eq!(told(slow), Some(Passage { latency_ns: 4_000, byte_ns: 8_000 }));
}
