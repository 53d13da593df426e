//! An I/O node under test between its service node, on its pipes, and nodes, on its socket, that are all the test.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use coppice_endpoint::{BufferSizes, Config, DatagramPort, Stack};
use coppice_io_node::clock::{Clock, random};
use coppice_io_node::link::{Device, Port, drive};
use coppice_protocol::control::{MemoryStatus, NodeStatus, ToIoNode, ToNode};
use coppice_protocol::ids::{Generation, JobId, MacAddress, NETWORK_PREFIX, NodeId, ProgramId, PsetId, Rank};
use coppice_protocol::limits::{CONTROL_PORT, DISTRIBUTION_PORT, SHIP_PORT};
use coppice_protocol::personality::NodeKey;
use coppice_protocol::program::tree;
use coppice_protocol::pset::{FromPset, Member, StartJob, ToPset, VERSION, decode, encode};
use coppice_protocol::ras::{RasEvent, RasKind, Severity};
use coppice_protocol::session::{Channel, Event, Identity, Session};
use coppice_protocol::ship::Owner;
use coppice_protocol::text::ByteString;
use coppice_protocol::world::{JobKey, World};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::{JoinSet, LocalSet};

use crate::node::{Node, Wire};

/// Nothing here takes that long; a test that waits longer has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const NODE: NodeId = NodeId(0);
pub(crate) const KEY: NodeKey = NodeKey([7; 32]);
pub(crate) const JOB: JobId = JobId(41);
pub(crate) const RANK: Rank = Rank(3);
pub(crate) const OWNER: Owner = Owner { job: JOB, rank: RANK };
pub(crate) const PROGRAM: ProgramId = ProgramId([9; 32]);
pub(crate) const PROGRAM_BYTES: usize = 5 * 4096 + 100;
const MTU: u16 = 9000;

pub(crate) fn identity(generation: u32) -> Identity {
    Identity { node: NODE, generation: Generation(generation) }
}

/// Runs a test to its end, under the limit.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = LocalSet::new();
    local.block_on(&runtime, async { tokio::time::timeout(PATIENCE, test).await.expect("test takes too long") });
}

/// The I/O node under test, and the cable to it.
pub(crate) struct Pset {
    pub(crate) dir: TempDir,
    child: Child,
    commands: Option<ChildStdin>,
    messages: ChildStdout,
    buffer: Vec<u8>,
    stack: Stack<Device>,
    clock: Clock,
    _driver: JoinSet<()>,
}

impl Pset {
    /// Starts one and waits until it listens.
    pub(crate) async fn start() -> Self {
        Self::start_with_files(None).await
    }

    /// As [`Self::start`], with so many files that it may have open.
    pub(crate) async fn start_with_files(limit: Option<u64>) -> Self {
        Self::start_in(TempDir::new().unwrap(), limit, [None, None]).await
    }

    /// As [`Self::start`], with a directory for checkpoints, which something happened to before.
    pub(crate) async fn start_with_storage(happens: impl FnOnce(&Path)) -> Self {
        let dir = TempDir::new().unwrap();
        let storage = dir.path().join("storage");
        happens(&storage);
        Self::start_in(dir, None, [Some("storage"), None]).await
    }

    /// As [`Self::start`], with a directory for regions, and perhaps one for checkpoints.
    pub(crate) async fn start_with_regions(storage: Option<&str>) -> Self {
        Self::start_in(TempDir::new().unwrap(), None, [storage, Some("regions")]).await
    }

    /// The names are those of the directories for checkpoints and for regions.
    async fn start_in(dir: TempDir, limit: Option<u64>, names: [Option<&str>; 2]) -> Self {
        let (own, fabric) = (dir.path().join("io.sock"), dir.path().join("io.sw"));
        std::fs::create_dir(dir.path().join("root")).unwrap();
        let program: Vec<u8> = (0..PROGRAM_BYTES).map(|index| (index / 7 % 251) as u8).collect();
        std::fs::write(dir.path().join("program.tree"), tree::of(&program).as_flattened()).unwrap();
        std::fs::write(dir.path().join("program"), program).unwrap();
        let limits = limit.map(|limit| format!("ulimit -n {limit} && ")).unwrap_or_default();
        let mut child = Command::new("sh")
            .args(["-c", &format!("{limits}exec \"$0\""), env!("CARGO_BIN_EXE_coppice-io-node")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (commands, messages) = (child.stdin.take(), child.stdout.take().unwrap());
        let clock = Clock::start();
        let address: Ipv4Addr = NODE.address();
        let config = Config { mac: MacAddress::of(address), address, prefix: NETWORK_PREFIX, seed: 5 };
        let stack = Stack::new(Device::new(MTU), config, clock.now_ns());
        let mut driver = JoinSet::new();
        let port = Port::bind(&fabric, &own).unwrap();
        driver.spawn_local(drive(stack.clone(), port, clock));
        let buffer = Vec::new();
        let text = |path: &Path| ByteString::from(path.to_str().unwrap());
        let [storage, regions] = names.map(|name| name.map(|name| text(&dir.path().join(name))));
        let mut pset = Self { dir, child, commands, messages, buffer, stack, clock, _driver: driver };
        let (socket, fabric) = (text(&own), text(&fabric));
        pset.send(ToPset::Configure { version: VERSION, pset: PsetId(0), mtu: MTU, socket, fabric, storage, regions })
            .await;
        assert!(matches!(pset.receive().await, FromPset::Listening));
        pset
    }

    /// The node's end of the transfers of staged files, and its clock.
    pub(crate) fn open_distribution(&self) -> (DatagramPort<Device>, Clock) {
        (self.stack.open_port(DISTRIBUTION_PORT, 1 << 20).expect("a port"), self.clock)
    }

    /// Its number on the host.
    pub(crate) fn process(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Starts one with a node that is ready, of generation 1.
    pub(crate) async fn with_node() -> (Self, Node) {
        Self::start().await.with_its_node().await
    }

    async fn with_its_node(mut self) -> (Self, Node) {
        self.add_node(1).await;
        let node = self.ready_node(1).await;
        (self, node)
    }

    /// As [`Self::with_node`], with the job started there.
    pub(crate) async fn with_job() -> (Self, Node) {
        Self::start().await.with_its_job().await
    }

    /// As [`Self::with_job`], with a directory for checkpoints.
    pub(crate) async fn with_storage() -> (Self, Node) {
        Self::start_with_storage(|_| {}).await.with_its_job().await
    }

    /// The same with one that was started.
    pub(crate) async fn with_its_job(self) -> (Self, Node) {
        let (mut pset, node) = self.with_its_node().await;
        let spec = pset.job();
        pset.send(ToPset::Start(spec)).await;
        let ToNode::Launch(launch) = node.control.message().await else { panic!("no launch") };
        assert_eq!((launch.job, launch.first, launch.program), (JOB, RANK, PROGRAM));
        (pset, node)
    }

    pub(crate) async fn add_node(&mut self, generation: u32) {
        self.add(identity(generation)).await;
    }

    pub(crate) async fn add(&mut self, Identity { node, generation }: Identity) {
        self.send(ToPset::AddNode { node, generation, key: KEY }).await;
    }

    /// A node with both connections that the service node has heard of.
    pub(crate) async fn ready_node(&mut self, generation: u32) -> Node {
        self.ready(identity(generation)).await
    }

    pub(crate) async fn ready(&mut self, identity: Identity) -> Node {
        let connected = self.connect_as(identity).await;
        match self.receive().await {
            FromPset::NodeReady { node, generation, status } => {
                assert_eq!((Identity { node, generation }, status), (identity, self::status()));
            }
            other => panic!("{other:?} where the node should be ready"),
        }
        connected
    }

    pub(crate) async fn connect_node(&self, generation: u32) -> Node {
        self.connect_as(identity(generation)).await
    }

    async fn connect_as(&self, identity: Identity) -> Node {
        let control = self.connect_control(identity).await;
        let ship = self.connect(Channel::Ship, identity, KEY).await.expect("authenticated");
        Node::new(control, ship)
    }

    /// A control connection on which the node has said that it is ready.
    pub(crate) async fn connect_control(&self, identity: Identity) -> Wire {
        let control = self.connect(Channel::Control, identity, KEY).await.expect("authenticated");
        control.send(0, &ToIoNode::Ready(status()), &[]);
        control
    }

    /// Connects and authenticates; `None` if the I/O node refuses.
    pub(crate) async fn connect(&self, channel: Channel, identity: Identity, key: NodeKey) -> Option<Wire> {
        let port = match channel {
            Channel::Control => CONTROL_PORT,
            Channel::Ship => SHIP_PORT,
        };
        let sizes = BufferSizes { receive: 256 * 1024, transmit: 256 * 1024 };
        let stream = self.stack.connect(PsetId(0).address(), port, sizes).await.expect("connected");
        let session = Session::connect(channel, identity, &key, random().unwrap(), self.clock.now_ns());
        let wire = Wire::new(stream, session);
        match wire.event().await {
            Some(Event::Established(_)) => Some(wire),
            None => None,
            other => panic!("{other:?} in a handshake"),
        }
    }

    pub(crate) async fn send(&mut self, command: ToPset) {
        self.commands.as_mut().unwrap().write_all(&encode(&command).unwrap()).await.unwrap();
    }

    pub(crate) async fn receive(&mut self) -> FromPset {
        self.try_receive().await.expect("I/O node ended")
    }

    pub(crate) async fn try_receive(&mut self) -> Option<FromPset> {
        loop {
            if let Some((message, taken)) = decode(&self.buffer).unwrap() {
                self.buffer.drain(..taken);
                return Some(message);
            }
            if self.messages.read_buf(&mut self.buffer).await.unwrap() == 0 {
                return None;
            }
        }
    }

    /// Closes its standard input and waits for its end.
    pub(crate) async fn close(&mut self) -> ExitStatus {
        self.commands = None;
        self.child.wait().await.unwrap()
    }

    pub(crate) async fn wait(&mut self) -> ExitStatus {
        self.child.wait().await.unwrap()
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    pub(crate) fn storage(&self) -> PathBuf {
        self.dir.path().join("storage")
    }

    pub(crate) fn job(&self) -> StartJob {
        let text = |name: &str| ByteString::from(self.dir.path().join(name).to_str().unwrap());
        StartJob {
            job: JOB,
            size: 8,
            root: text("root"),
            program: PROGRAM,
            program_bytes: PROGRAM_BYTES as u64,
            program_file: text("program"),
            path: "/bin/test".into(),
            arguments: vec!["test".into()],
            environment: vec!["A=B".into()],
            directory: "/".into(),
            user: 0,
            group: 0,
            executable: None,
            umask: 0o22,
            input_rank: Some(RANK),
            members: vec![Member { first: RANK, count: 1, node: NODE, use_retained: false, restore: None }],
            world: World::new(JobKey([7; 32]), 1, (0..8).map(NodeId)),
            staging: None,
            traced: coppice_protocol::trace::Traced::None,
            core_file: false,
            broadcasts: None,
            leases: true,
            outlives_ranks: false,
            keeps_files: false,
            universe: 0,
            origin: None,
            staged_files: Vec::new(),
        }
    }
}

/// An event that a node may report.
pub(crate) fn event(text: &str) -> RasEvent {
    RasEvent {
        severity: Severity::Info,
        kind: RasKind::UnknownSyscall,
        job: None,
        rank: None,
        address: None,
        instruction: None,
        text: text.into(),
    }
}

pub(crate) fn status() -> NodeStatus {
    NodeStatus {
        kernel: "test".into(),
        boot_ns: 5,
        boot_idle_ns: 2,
        cores: 1,
        memory: MemoryStatus { total: 3, kernel: 1, free: 2, retained: 0 },
    }
}
