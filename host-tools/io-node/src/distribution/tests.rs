//! A file on its way from one pset's I/O node through another's to a node, over a network in memory.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use coppice_endpoint::{Config, DatagramPort, Stack};
use coppice_protocol::distribution::{Outcome, Party, Plan, Scheme, Step};
use coppice_protocol::ids::{MacAddress, NETWORK_PREFIX, NodeId, ProgramId, PsetId};
use coppice_protocol::keep::KeptTransfer;
use coppice_protocol::limits::DISTRIBUTION_PORT;
use coppice_protocol::program::{PAGE_BYTES, tree};
use coppice_protocol::psets::PsetTable;
use coppice_protocol::ras::RasKind;
use coppice_protocol::staging::{self, Roster, Staging};
use coppice_protocol::world::{JobKey, World};
use tempfile::TempDir;
use tokio::task::LocalSet;

use super::received::Received;
use super::{Alarm, Held, Homes, News, Said, StagedFile};
use crate::clock::Clock;
use crate::disk::Program;
use crate::limits::RECEIVED_MIB_MAX;
use crate::link::Device;

/// Nine whole pieces and a part of one, whose last page is short.
const BYTES: usize = 9 * 32 * 1024 + 4096 + 77;
const MTU: u16 = 9000;
const PATIENCE: Duration = Duration::from_secs(30);
/// Psets of one node each; home is the first's, and the second's node is the test.
const HOME: PsetId = PsetId(0);
const OTHER: PsetId = PsetId(1);
const NODE: NodeId = NodeId(1);

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = LocalSet::new();
    local.block_on(&runtime, async { tokio::time::timeout(PATIENCE, test).await.expect("test takes too long") });
}

/// Stations, each at the end of a cable.
#[derive(Clone)]
struct Net {
    stations: HashMap<MacAddress, Stack<Device>>,
    clock: Clock,
}

impl Net {
    fn of(addresses: &[std::net::Ipv4Addr]) -> Self {
        let clock = Clock::start();
        let station = |address: &std::net::Ipv4Addr| {
            let mac = MacAddress::of(*address);
            let config = Config { mac, address: *address, prefix: NETWORK_PREFIX, seed: 5 };
            (mac, Stack::new(Device::new(MTU), config, clock.now_ns()))
        };
        Self { stations: addresses.iter().map(station).collect(), clock }
    }

    fn port(&self, address: std::net::Ipv4Addr) -> DatagramPort<Device> {
        self.stations[&MacAddress::of(address)].open_port(DISTRIBUTION_PORT, 1 << 20).expect("a port")
    }

    /// Carries frames for ever.
    async fn carry(self) {
        loop {
            for stack in self.stations.values() {
                let _ = stack.poll(self.clock.now_ns());
                for frame in stack.with_device(|device| std::mem::take(device.queued())) {
                    let to = MacAddress(frame[..6].try_into().unwrap());
                    if let Some(to) = self.stations.get(&to) {
                        to.with_device(|device| device.push_received(&frame));
                        let _ = to.poll(self.clock.now_ns());
                    }
                }
            }
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }
}

/// A file, and the order to bring it to both psets' nodes.
struct Case {
    dir: TempDir,
    file: Vec<u8>,
    transfer: KeptTransfer,
    roster: Roster,
    plan: Plan,
}

impl Case {
    fn new() -> Self {
        let file: Vec<u8> = (0..BYTES).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let (dir, nodes) = (TempDir::new().unwrap(), tree::of(&file));
        std::fs::write(dir.path().join("file"), &file).unwrap();
        std::fs::write(dir.path().join("file.tree"), nodes.as_flattened()).unwrap();
        let staged = staging::StagedFile { content: ProgramId(nodes[0]), bytes: BYTES as u64, path: None };
        let (mtu, bytes_per_second, latency_ns, stall_ns) = (MTU, 20_000_000, 100_000, 0);
        let (psets, scheme, files) = (PsetTable::new(2, 1), Scheme::TwoTrees, vec![staged]);
        let staging = Staging { home: HOME, psets, mtu, bytes_per_second, latency_ns, stall_ns, scheme, files };
        // Only the other pset's node.
        let transfer = KeptTransfer { request: 3, world: World::new(JobKey([7; 32]), 1, [NODE]), staging };
        let roster = transfer.roster().unwrap();
        let plan = transfer.plan(&roster).unwrap();
        Self { dir, file, transfer, roster, plan }
    }

    fn content(&self) -> ProgramId {
        self.transfer.staging.files[0].content
    }

    /// An I/O node has its part in it, with the file or without.
    fn begin(&self, net: &Net, pset: PsetId, has_file: bool) -> (Rc<Homes>, Held) {
        let (homes, held, _) = self.begin_watched(net, pset, has_file);
        (homes, held)
    }

    /// And what it says of it.
    fn begin_watched(&self, net: &Net, pset: PsetId, has_file: bool) -> (Rc<Homes>, Held, News) {
        let (homes, task, news) = Homes::start(pset, net.clock, net.port(pset.address()), Alarm::new().unwrap());
        tokio::task::spawn_local(task.run());
        let permit = homes.permit_for(1).unwrap().unwrap();
        let path = self.dir.path().join("file");
        let path = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
        let file = has_file.then(|| Program::open(path, self.content(), BYTES as u64).unwrap());
        let staged = StagedFile { plan: self.plan.clone(), roster: self.roster.clone(), content: self.content(), file };
        let held = homes.add_kept(&self.transfer, staged, permit).unwrap();
        (homes, held, news)
    }
}

/// The node gets the file, and stays until home says that all is over, if there is a home.
async fn get(case: &Case, net: &Net, has_home: bool) -> Vec<u8> {
    let (port, plan) = (net.port(NODE.address()), &case.plan);
    let me = case.roster.member_of(NODE).unwrap();
    let now_ns = || net.clock.now_ns();
    let mut party = Party::new(plan, case.transfer.key(), case.roster.clone(), me, 5, now_ns()).unwrap();
    let room = std::sync::Arc::new(tokio::sync::Semaphore::new(1)).acquire_many_owned(1).await.unwrap();
    let mut received = Received::new(plan.clone(), case.content(), room);
    let mut is_whole = false;
    loop {
        while let Some((source, datagram)) = port.receive() {
            let keep = |piece, packet, bytes: &[u8]| received.keep(piece, packet, bytes);
            party.receive(source, &datagram, now_ns(), keep).unwrap();
        }
        party.machine().advance(now_ns());
        while let Some(step) = party.next(now_ns()) {
            match step {
                Step::Datagram { to, bytes } => port.send(to, bytes),
                Step::Check { piece } => party.checked(piece, received.check(piece), now_ns()),
                Step::End(Outcome::Whole) => {
                    is_whole = true;
                    party.machine().withdraw(now_ns());
                }
                other => panic!("{other:?}"),
            }
        }
        if is_whole && !(has_home && party.is_needed()) {
            let piece = |piece| received.get(piece).expect("whole").bytes.clone();
            return (0..plan.pieces()).flat_map(piece).collect();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn mib_free(homes: &Homes) -> usize {
    homes.room.available_permits()
}

#[test]
fn a_file_that_is_not_here_comes_from_home_is_passed_on_and_goes_when_all_have_it() {
    run(async {
        let (case, net) = (Case::new(), Net::of(&[HOME.address(), OTHER.address(), NODE.address()]));
        tokio::task::spawn_local(net.clone().carry());
        let (_home, _sends) = case.begin(&net, HOME, true);
        let (homes, held) = case.begin(&net, OTHER, false);
        assert_eq!(mib_free(&homes), RECEIVED_MIB_MAX - 1);
        assert!(get(&case, &net, true).await == case.file);
        while !homes.table.borrow().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(mib_free(&homes), RECEIVED_MIB_MAX, "nobody wants it any more");
        drop(held);
        // Whoever goes before all have it leaves nothing either.
        let (homes, held) = case.begin(&Net::of(&[OTHER.address()]), OTHER, false);
        drop(held);
        assert!(homes.table.borrow().is_empty() && mib_free(&homes) == RECEIVED_MIB_MAX);
    });
}

#[test]
fn a_file_that_is_here_is_sent_from_here_alone() {
    run(async {
        let (case, net) = (Case::new(), Net::of(&[OTHER.address(), NODE.address()]));
        tokio::task::spawn_local(net.clone().carry());
        // There is no home: nothing comes from elsewhere, and it cannot say that all is over.
        let (homes, _held) = case.begin(&net, OTHER, true);
        assert!(get(&case, &net, false).await == case.file);
        assert_eq!(mib_free(&homes), RECEIVED_MIB_MAX, "it takes no memory");
    });
}

#[test]
fn nobody_is_given_what_is_not_the_files() {
    let case = Case::new();
    let room = std::sync::Arc::new(tokio::sync::Semaphore::new(1)).try_acquire_many_owned(1).unwrap();
    let mut received = Received::new(case.plan.clone(), case.content(), room);
    let nodes = tree::of(&case.file);
    let pages = u64::from(case.plan.piece_bytes) / PAGE_BYTES;
    let put = |received: &mut Received, piece: u32, change: u8| {
        let first = u64::from(piece) * pages;
        let length = case.plan.piece_length(piece) as usize;
        let start = piece as usize * case.plan.piece_bytes as usize;
        let bytes = &case.file[start..start + length];
        let count = (length as u64).div_ceil(PAGE_BYTES);
        let beside = tree::beside(BYTES as u64, first, count);
        let proof: Vec<u8> = beside.iter().flat_map(|index| nodes[*index as usize]).collect();
        for packet in case.plan.packets(piece).numbers() {
            if case.plan.is_proof(piece, packet) {
                received.keep(piece, packet, &proof);
            } else {
                let at = packet as usize * case.plan.packet_bytes as usize;
                let end = length.min(at + case.plan.packet_bytes as usize);
                let mut packet_bytes = bytes[at..end].to_vec();
                packet_bytes[0] ^= change;
                received.keep(piece, packet, &packet_bytes);
            }
        }
    };
    for piece in [0, 4, case.plan.pieces() - 1] {
        put(&mut received, piece, 1);
        assert!(!received.check(piece) && received.get(piece).is_none(), "piece {piece} is changed");
        assert!(!received.check(piece), "nothing is left of it");
        put(&mut received, piece, 0);
        assert!(received.check(piece) && received.get(piece).is_some(), "piece {piece} is right");
    }
    // What is no proof, or belongs nowhere, is nothing.
    received.keep(1, case.plan.packets(1).count() - 1, &[1, 2, 3]);
    received.keep(1, 60, &[0; 9000]);
    assert!(!received.check(1));
}

#[test]
fn whoever_sends_what_is_not_the_files_is_named() {
    run(async {
        let (case, net) = (Case::new(), Net::of(&[HOME.address(), OTHER.address(), NODE.address()]));
        tokio::task::spawn_local(net.clone().carry());
        let mut changed = case.file.clone();
        changed[case.plan.piece_bytes as usize] ^= 1;
        std::fs::write(case.dir.path().join("file"), &changed).unwrap();
        let (_home, _sends) = case.begin(&net, HOME, true);
        let (_homes, _held, mut news) = case.begin_watched(&net, OTHER, false);
        let event = loop {
            match news.next().await.expect("it goes on") {
                Said::Damaged(event) => break event,
                _ => continue,
            }
        };
        assert_eq!(event.kind, RasKind::DamagedPiece);
        let text = "piece 1 of a staged file, from the I/O node of pset 0, is not what the file's hash says";
        assert_eq!((event.text.as_str(), event.job), (text, None));
    });
}

#[test]
fn a_file_for_which_there_is_no_memory_is_refused() {
    run(async {
        let (case, net) = (Case::new(), Net::of(&[OTHER.address()]));
        let (homes, _held) = case.begin(&net, OTHER, true);
        let mut long = case.plan.clone();
        long.bytes = ((RECEIVED_MIB_MAX as u64) << 20) + 1;
        let refused = homes.room_for(&long).expect_err("it is longer than all memory for it");
        assert!(refused.contains("pset 1") && refused.contains("4096 MiB of 4096 are free"), "{refused}");
        assert!(homes.room_for(&case.plan).is_ok());
    });
}
