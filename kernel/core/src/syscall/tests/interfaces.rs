//! What ioctl(2) tells of the network's interfaces.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use coppice_protocol::ids::JobNode;
use coppice_protocol::syscalls as nr;

use crate::abi::interface;
use crate::abi::socket::parse_name;
use crate::errno::Errno;
use crate::net::testing::two_nodes;
use crate::process::testing::{Bench, MEMORY};

const REQUEST: u64 = 0x100;
const LIST: u64 = 0x200;
const ROOM: u64 = 0x300;

fn bench() -> (Bench, u64) {
    let [(stack, _), _] = two_nodes();
    let bench = Bench::new(&[]).sibling(Some(Arc::new(stack)));
    let socket = u64::try_from(bench.call(nr::SOCKET, &[2, 2, 0])).expect("a descriptor");
    (bench, socket)
}

fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

/// What is told of the interface with this name, behind the name.
fn ask(bench: &Bench, socket: u64, command: u32, name: &str) -> Result<Vec<u8>, i64> {
    let mut request = [0; 40];
    request[..name.len()].copy_from_slice(name.as_bytes());
    let at = bench.put(REQUEST, &request);
    match bench.call(nr::IOCTL, &[socket, command.into(), at]) {
        0 => Ok(bench.get(REQUEST + 16, 24)),
        error => Err(error),
    }
}

fn address(bench: &Bench, socket: u64, command: u32, name: &str) -> Ipv4Addr {
    let told = ask(bench, socket, command, name).expect("an address");
    parse_name(told[..16].try_into().expect("as long")).0
}

/// The names that are told, with this room for them, and how many bytes they are said to be.
fn names(bench: &Bench, socket: u64, room: u32, at: u64) -> (Vec<Vec<u8>>, u32) {
    let list = [&u64::from(room).to_le_bytes()[..], &at.to_le_bytes()].concat();
    let list = bench.put(LIST, &list);
    assert_eq!(bench.call(nr::IOCTL, &[socket, interface::ALL.into(), list]), 0);
    let bytes = u32::from_le_bytes(bench.get(LIST, 4).try_into().expect("four"));
    let of = |place: u32| bench.get(ROOM + u64::from(place) * 40, 4);
    ((0..bytes / 40).filter(|_| at != 0).map(of).collect(), bytes)
}

#[test]
fn all_are_listed_as_far_as_there_is_room() {
    let (bench, socket) = bench();
    assert_eq!(names(&bench, socket, 0, 0), (Vec::new(), 80));
    let all = [b"lo\0\0".to_vec(), b"eth0".to_vec()];
    assert_eq!(names(&bench, socket, 4000, MEMORY + ROOM), (all.to_vec(), 80));
    assert_eq!(names(&bench, socket, 79, MEMORY + ROOM), (all[..1].to_vec(), 40));
}

#[test]
fn each_has_its_addresses_and_sizes() {
    let (bench, socket) = bench();
    let own = JobNode(0).address();
    assert_eq!(address(&bench, socket, interface::ADDRESS, "eth0"), own);
    assert_eq!(address(&bench, socket, interface::MASK, "eth0"), Ipv4Addr::new(255, 128, 0, 0));
    assert_eq!(address(&bench, socket, interface::BROADCAST, "eth0"), Ipv4Addr::new(10, 255, 255, 255));
    assert_eq!(address(&bench, socket, interface::ADDRESS, "lo"), Ipv4Addr::LOCALHOST);
    let number = |command: u32, name: &str| {
        let told = ask(&bench, socket, command, name).expect("a number");
        u32::from_le_bytes(told[..4].try_into().expect("four"))
    };
    assert_eq!((number(interface::FLAGS, "lo"), number(interface::FLAGS, "eth0")), (0x49, 0x43));
    assert_eq!((number(interface::INDEX, "lo"), number(interface::INDEX, "eth0")), (1, 2));
    assert_eq!(number(interface::MTU, "lo"), 65_536);
    assert_eq!(Some(number(interface::MTU, "eth0") as usize), bench.process.node.network.mtu());
    let hardware = ask(&bench, socket, interface::HARDWARE, "eth0").expect("an address");
    assert_eq!(hardware[..8], [1, 0, 2, 0, 10, 128, 0, 1]);
    // By its index.
    let at = bench.put(REQUEST, &[0; 40]);
    bench.put(REQUEST + 16, &2_u32.to_le_bytes());
    assert_eq!(bench.call(nr::IOCTL, &[socket, interface::NAME.into(), at]), 0);
    assert_eq!(bench.get(REQUEST, 5), b"eth0\0");
}

#[test]
fn nothing_can_be_changed_and_what_is_not_there_is_not_there() {
    let (bench, socket) = bench();
    assert_eq!(ask(&bench, socket, interface::FLAGS, "eth1"), Err(error(Errno::ENODEV)));
    assert_eq!(ask(&bench, socket, 0x8914, "lo"), Err(error(Errno::EOPNOTSUPP)));
    let (reader, at) = (bench.put(0, &[0; 8]), bench.put(REQUEST, &[0; 40]));
    assert_eq!(bench.call(nr::PIPE2, &[reader, 0]), 0);
    let pipe = u64::from(bench.get(0, 1)[0]);
    assert_eq!(bench.call(nr::IOCTL, &[pipe, interface::FLAGS.into(), at]), error(Errno::ENOTTY));
    assert_eq!(bench.call(nr::IOCTL, &[socket, interface::ALL.into(), 8]), error(Errno::EFAULT));
}
