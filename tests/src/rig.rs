//! One machine whose I/O node is the test: for what no I/O node of ours would ever say.
//!
//! The machine is what `coppiced` starts, with a personality made here, and its wire ends at a network stack in the
//! test. Both of the node's connections are accepted whenever it makes them. The one for shipped calls is served as far
//! as simple programs need it ([`Rig::add_program`], [`Rig::output`]); the control connection is the test's ([`Wire`]).

mod neighbour;
mod ship;
mod wire;

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use coppice_endpoint::{BufferSizes, Config, Stack};
use coppice_io_node::clock::{Clock, random, realtime_ns};
use coppice_io_node::link::{Device, Port, drive};
use coppice_protocol::control::{Launch, NodeStatus, ToIoNode};
use coppice_protocol::ids::{Generation, JobId, MacAddress, NETWORK_PREFIX, NodeId, ProgramId, PsetId, Rank};
use coppice_protocol::limits::{CONTROL_PORT, SHIP_PORT};
use coppice_protocol::personality::{NodeKey, Personality};
use coppice_protocol::program::tree;
use coppice_protocol::retain::RetentionPolicy;
use coppice_protocol::session::{Channel, Event, Session};
use coppice_protocol::trace::Traced;
use coppice_protocol::world::{JobKey, World};
use coppice_qemu::launch::{Launcher, Running};
use coppice_qemu::locate::find_qemu;
use coppice_qemu::machine::{Accelerator, Machine, Nic, QmpChannel, Serial};
use coppice_qemu::tether::Tether;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, LocalSet};

pub use self::neighbour::Flood;
pub use self::ship::Damage;
use self::ship::Program;
pub use self::wire::Wire;
use crate::cluster::{binaries, cores};
pub use crate::debugger::Debugger;
use crate::physical::{Memory, Monitor, NODE_BYTES};

/// Longest a test with a rig may take.
const TEST_TIME_MAX: Duration = Duration::from_secs(120);

/// The machine.
pub const NODE: NodeId = NodeId(0);
/// Which boot of it this is.
pub const GENERATION: Generation = Generation(7);
const KEY: NodeKey = NodeKey([0x5a; 32]);
const PSET: PsetId = PsetId(0);
/// What the nodes of all jobs know each other by.
const JOB_KEY: JobKey = JobKey([0x5a; 32]);
const MTU: u16 = 9000;
/// The debugger's socket in the machine's directory.
const DEBUGGER: &str = "debugger";
/// As `log::LevelFilter` counts.
const LOG_LEVEL_INFO: u8 = 3;
/// More than there is room for below 4 GiB.
const IDLE_REGISTERS_BYTES: u64 = 8 << 30;
const BUFFERS: BufferSizes = BufferSizes { receive: 256 * 1024, transmit: 256 * 1024 };

/// Runs a test to its end, under a limit.
///
/// # Panics
/// If it takes too long.
pub fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        tokio::time::timeout(TEST_TIME_MAX, test).await.expect("the test takes too long");
    });
}

/// The machine and what serves it. It ends with this.
pub struct Rig {
    directory: TempDir,
    _machine: Running,
    /// The test's end of the wire.
    stack: Stack<Device>,
    clock: Clock,
    shared: Rc<RefCell<ship::Shared>>,
    accepted: mpsc::UnboundedReceiver<Wire>,
    _tasks: JoinSet<()>,
}

impl Rig {
    /// Boots the machine, with as many cores as other tests' nodes have; the control connection it makes comes from
    /// [`Rig::connected`].
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn boot() -> Self {
        Self::boot_with_cores(cores())
    }

    /// The same with so many cores.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn boot_with_cores(cores: u16) -> Self {
        Self::boot_with(cores, |_, _| {})
    }

    /// The same, with firmware that lists `listed` cores, of which none runs the image before the debugger lets it.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn boot_in_debugger(cores: u16, listed: u16) -> (Self, Debugger) {
        let rig = Self::boot_with(cores, |machine, directory| {
            (machine.cpus_listed, machine.debugger) = (Some(listed), Some(directory.join(DEBUGGER)));
        });
        let debugger = Debugger::at_start(&rig.directory.path().join(DEBUGGER), &image());
        (rig, debugger)
    }

    /// The same, with so much address space taken by a device's registers below 4 GiB that firmware puts those of the
    /// network card above.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn boot_with_high_registers() -> Self {
        Self::boot_with(cores(), |machine, _| machine.idle_registers_bytes = Some(IDLE_REGISTERS_BYTES))
    }

    /// Where the registers of the machine's devices are, physical addresses.
    ///
    /// # Panics
    /// If QEMU does not say it.
    #[must_use]
    pub fn registers(&self) -> Vec<u64> {
        let mut monitor = Monitor::connect(&self.directory.path().join("qmp"), self.directory.path());
        let buses = monitor.command("query-pci", &serde_json::json!({}));
        let list = |value: &serde_json::Value, field: &str| value[field].as_array().cloned().unwrap_or_default();
        let devices = buses.as_array().into_iter().flatten().flat_map(|bus| list(bus, "devices"));
        devices.flat_map(|device| list(&device, "regions")).filter_map(|region| region["address"].as_u64()).collect()
    }

    fn boot_with(cores: u16, change: impl FnOnce(&mut Machine, &Path)) -> Self {
        // Sockets' paths are limited to 107 bytes.
        let directory = tempfile::Builder::new().prefix("rig").tempdir_in("/tmp").expect("temporary directory");
        let at = |name: &str| directory.path().join(name);
        let clock = Clock::start();
        let io_node = PSET.address();
        let config = Config { mac: MacAddress::of(io_node), address: io_node, prefix: NETWORK_PREFIX, seed: 5 };
        let stack = Stack::new(Device::new(MTU), config, clock.now_ns());
        let mut tasks = JoinSet::new();
        let port = Port::bind(&at("io"), &at("node")).expect("a socket");
        tasks.spawn_local(drive(stack.clone(), port, clock));

        let (sender, accepted) = mpsc::unbounded_channel();
        let shared = Rc::new(RefCell::new(ship::Shared::default()));
        tasks.spawn_local(accept(stack.clone(), clock, Channel::Control, move |wire| {
            let _ = sender.send(wire);
        }));
        let served = Rc::clone(&shared);
        tasks.spawn_local(accept(stack.clone(), clock, Channel::Ship, move |wire| {
            tokio::task::spawn_local(ship::serve(wire, Rc::clone(&served)));
        }));

        std::fs::write(at("personality"), personality().encode()).expect("personality");
        let launcher =
            Launcher { qemu: find_qemu().expect("QEMU"), tether: Tether::Through(binaries().join("coppiced")) };
        let mut machine = machine(directory.path(), cores);
        change(&mut machine, directory.path());
        let machine = launcher.start(&machine).expect("a machine");
        Self { directory, _machine: machine, stack, clock, shared, accepted, _tasks: tasks }
    }

    /// The node's next control connection, on which it has said that it is ready, and what it said.
    ///
    /// # Panics
    /// If it says anything else first.
    pub async fn connected(&mut self) -> (Wire, NodeStatus) {
        let wire = self.accepted.recv().await.expect("connections are accepted as long as there is a rig");
        match wire.next().await {
            Some(ToIoNode::Ready(status)) => (wire, status),
            other => panic!("{other:?} where the node should say that it is ready"),
        }
    }

    /// Lets the node load a program, and says which one it is.
    ///
    /// # Panics
    /// If its file cannot be read.
    #[must_use]
    pub fn add_program(&self, file: &Path) -> ProgramId {
        let bytes = std::fs::read(file).expect("program");
        let tree = tree::of(&bytes);
        let id = ProgramId(tree[0]);
        self.shared.borrow_mut().programs.insert(id, Program { bytes, tree });
        id
    }

    /// Changes a byte of a program that was added, or a node of its tree, without anybody's being told. Called again,
    /// it is as before.
    ///
    /// # Panics
    /// If there is no such program or place.
    pub fn damage(&self, program: ProgramId, damage: Damage) {
        let mut shared = self.shared.borrow_mut();
        let program = shared.programs.get_mut(&program).expect("it was added");
        match damage {
            Damage::Byte(at) => program.bytes[at] ^= 1,
            Damage::Node(at) => program.tree[at][0] ^= 1,
        }
    }

    /// An order to start a program that was added.
    ///
    /// # Panics
    /// If it was not.
    #[must_use]
    pub fn launch(&self, job: u64, program: ProgramId, use_retained: bool, arguments: &[&str]) -> Launch {
        let program_bytes = self.shared.borrow().programs[&program].bytes.len() as u64;
        Launch {
            job: JobId(job),
            first: Rank(0),
            count: 1,
            size: 1,
            program,
            program_bytes,
            path: "/program".into(),
            executable: None,
            arguments: ["program"].iter().chain(arguments).map(|&text| text.into()).collect(),
            environment: Vec::new(),
            directory: "/".into(),
            user: 0,
            group: 0,
            umask: 0o22,
            use_retained,
            keeps_files: use_retained,
            has_manifest: false,
            world: World::new(JOB_KEY, 1, [NODE]),
            staging: None,
            traced: Traced::None,
            core_file: false,
            restore: None,
            outlives_ranks: false,
            universe: 0,
            origin: None,
        }
    }

    /// What programs have written until now; the next call gives what comes after.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.shared.borrow_mut().output)).into_owned()
    }

    /// Waits until programs have written this, and nothing else, since the last look.
    ///
    /// # Panics
    /// If they write anything else.
    pub async fn wait_for_output(&self, text: &str) {
        let written = Rc::clone(&self.shared.borrow().written);
        loop {
            let woken = written.notified();
            let output = String::from_utf8_lossy(&self.shared.borrow().output).into_owned();
            if output == text {
                break;
            }
            assert!(text.starts_with(&output), "{output}");
            woken.await;
        }
        let _ = self.output();
    }

    /// How many program pages the node has asked for since the last look.
    #[must_use]
    pub fn pages_sent(&self) -> u64 {
        std::mem::take(&mut self.shared.borrow_mut().pages_sent)
    }

    /// Ends the standard input of the program that runs.
    pub fn end_input(&self) {
        self.shared.borrow().input_ended.notify_one();
    }

    /// Breaks off the connection for shipped calls.
    pub fn cut_ship(&self) {
        self.shared.borrow().cut.notify_waiters();
    }

    /// All memory of the machine. QEMU answers by itself, so it does no harm that nothing else goes on here meanwhile.
    #[must_use]
    pub fn memory(&self) -> Memory {
        Monitor::connect(&self.directory.path().join("qmp"), self.directory.path()).memory(NODE_BYTES)
    }

    /// What the kernel has said on its console.
    #[must_use]
    pub fn console(&self) -> String {
        let text = std::fs::read(self.directory.path().join("console")).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }
}

fn personality() -> Personality {
    let address: Ipv4Addr = NODE.address();
    Personality {
        node: NODE,
        generation: GENERATION,
        pset: PSET,
        address,
        prefix: NETWORK_PREFIX,
        mac: MacAddress::of(address),
        mtu: MTU,
        io_node: PSET.address(),
        key: KEY,
        seed: random().expect("random numbers"),
        realtime_ns: realtime_ns(),
        log_level: LOG_LEVEL_INFO,
        retention: RetentionPolicy::One,
        freeze_every_ns: 0,
    }
}

fn image() -> PathBuf {
    binaries().join("coppice-node.elf")
}

fn machine(directory: &Path, cores: u16) -> Machine {
    let mut machine = Machine::new("rig", image(), NODE_BYTES as u64, Accelerator::Tcg);
    let at = |name: &str| directory.join(name);
    machine.cpus = cores;
    machine.initrd = Some(at("personality"));
    machine.nic = Some(Nic { mac: MacAddress::of(NODE.address()).0, mtu: MTU, local: at("node"), remote: at("io") });
    machine.serial = Serial::File { path: at("console"), append: false };
    machine.qmp = QmpChannel::Socket(at("qmp"));
    machine
}

/// Accepts the node's connections for a channel, one after the other, and gives each to `use_it` once the node has
/// proved who it is.
async fn accept(stack: Stack<Device>, clock: Clock, channel: Channel, use_it: impl Fn(Wire)) {
    let port = match channel {
        Channel::Control => CONTROL_PORT,
        Channel::Ship => SHIP_PORT,
    };
    let listener = stack.listen(port, 4, BUFFERS).expect("a port");
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let session = Session::accept(channel, random().expect("random numbers"), clock.now_ns());
        let wire = Wire::new(stream, session);
        // A connection that the node gave up before is of no use; it makes another one.
        while let Some(event) = wire.event().await {
            match event {
                Event::KeyWanted(_) => wire.supply_key(&KEY).await,
                Event::Established(identity) => {
                    assert_eq!((identity.node, identity.generation), (NODE, GENERATION));
                    use_it(wire);
                    break;
                }
                Event::Frame(_) => panic!("a message in a handshake"),
            }
        }
    }
}
