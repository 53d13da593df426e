//! Jobs on one wire: programs reach nodes of their own job alone, and hear of nothing else.

#![expect(clippy::unwrap_used, reason = "helpers of a test fail as tests do")]

mod support;

use std::net::Ipv4Addr;

use coppice_endpoint::limits::FRAMES_PER_POLL_MAX;
use coppice_endpoint::testing::{
    CLEAN, End, Faults, JOB_LEFT, JOB_RIGHT, JOB_THIRD, LEFT, RIGHT, SIZES, World, job_network,
};
use coppice_endpoint::{NetError, SocketError, Stack, UdpSocket};
use coppice_protocol::ids::MacAddress;
use support::{ANY, SECOND_NS, accept, connect, listener, receive, receive_exactly, send, socket, until};

const ALL: Ipv4Addr = Ipv4Addr::new(10, 255, 255, 255);
/// An address of the job's network that none of its three nodes has.
const NOBODY: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 4);
/// Where a frame has its destination, its source, its type, its job's tag, and the packet's source address.
const TO: usize = 0;
const FROM: usize = 6;
const TYPE: usize = 12;
const TAG: usize = 14;
const SOURCE: usize = TAG + 8 + 12;

fn run<R: 'static>(world: &mut World, program: impl Future<Output = R> + 'static) -> R {
    world.finish(program, 100 * SECOND_NS)
}

fn datagrams(stack: &Stack<End>, port: u16) -> UdpSocket<End> {
    let socket = UdpSocket::new(stack).unwrap();
    socket.bind(ANY, port, false).unwrap();
    socket.set_broadcast(true);
    socket
}

fn throw(socket: &UdpSocket<End>, to: (Ipv4Addr, u16), bytes: &[u8]) -> Result<(), SocketError> {
    socket.send_with(bytes.len(), Some(to), |room| {
        room.copy_from_slice(bytes);
        Ok(())
    })
}

fn is_silent(socket: &UdpSocket<End>) -> bool {
    matches!(socket.receive_with(|_| true), Err(SocketError::WouldBlock))
}

#[test]
fn only_nodes_of_the_job_have_addresses() {
    let world = World::new(CLEAN, 1);
    let left = world.left();
    let (io_node, strange) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(11, 0, 0, 1));
    let udp = datagrams(&left, 5);
    for address in [LEFT, RIGHT, io_node, strange, Ipv4Addr::new(10, 64, 0, 3), Ipv4Addr::new(224, 0, 0, 1)] {
        assert_eq!(socket(&left).connect(address, 9), Err(SocketError::Unreachable), "{address}");
        assert_eq!(udp.connect(Some((address, 9))), Err(SocketError::Unreachable), "{address}");
        assert_eq!(throw(&udp, (address, 9), b"x"), Err(SocketError::Unreachable), "{address}");
        assert_eq!(socket(&left).bind(address, 9, false), Err(SocketError::AddressNotAvailable), "{address}");
    }
    for address in [NOBODY, Ipv4Addr::new(10, 128, 0, 0), Ipv4Addr::new(10, 200, 0, 1)] {
        assert_eq!(socket(&left).connect(address, 9), Err(SocketError::NoHost), "{address}");
        assert_eq!(throw(&udp, (address, 9), b"x"), Err(SocketError::NoHost), "{address}");
    }
    assert_eq!(socket(&left).connect(JOB_THIRD, 9), Err(SocketError::InProgress));
    assert_eq!(socket(&left).bind(JOB_RIGHT, 9, false), Err(SocketError::AddressNotAvailable));
    assert_eq!(socket(&left).bind(JOB_LEFT, 9, false), Ok(()));
}

#[test]
fn programs_and_the_nodes_own_connections_do_not_meet() {
    let mut world = World::new(CLEAN, 2);
    let (left, right) = (world.left(), world.right());
    let (programs, nodes) = (listener(&right, 9, 5), right.listen(7003, 5, SIZES).unwrap());
    let ends = run(&mut world, async move {
        let to_program = left.connect(RIGHT, 9, SIZES).await.err();
        let to_node = connect(&left, JOB_RIGHT, 7003).await.err();
        // Both are there for their own kind.
        let (node, program) =
            (left.connect(RIGHT, 7003, SIZES).await.is_ok(), connect(&left, JOB_RIGHT, 9).await.is_ok());
        (to_program, to_node, node, program)
    });
    assert_eq!(ends, (Some(NetError::Refused), Some(SocketError::Refused), true, true));
    drop((programs, nodes));
}

#[test]
fn what_is_for_all_goes_to_each_node_of_the_job() {
    let mut world = World::new(CLEAN, 3);
    let (sender, receiver) = (datagrams(&world.left(), 5), datagrams(&world.right(), 5));
    world.keep_frames();
    throw(&sender, (ALL, 5), b"all").unwrap();
    throw(&sender, (Ipv4Addr::BROADCAST, 5), b"of you").unwrap();
    world.idle(SECOND_NS);
    let to: Vec<_> = world.take_frames().iter().map(|frame| frame[TO..FROM].to_vec()).collect();
    let third = Ipv4Addr::new(10, 64, 0, 3);
    let stations: Vec<_> = [RIGHT, third, RIGHT, third].map(|address| MacAddress::of(address).0.to_vec()).into();
    assert_eq!(to, stations);
    for bytes in [&b"all"[..], b"of you"] {
        let received = receiver.receive_with(|came| came == bytes).unwrap();
        assert_eq!((received.length, received.source), (bytes.len(), (JOB_LEFT, 5)));
    }
    assert!(is_silent(&receiver) && is_silent(&sender));
}

/// The frames of a connection and of datagrams of job 1, from left to right, and the port they are for.
fn talk(world: &mut World) -> Vec<Vec<u8>> {
    let (left, right) = (world.left(), world.right());
    world.keep_frames();
    let (sender, receiver) = (datagrams(&left, 5), datagrams(&right, 9));
    let listening = listener(&right, 9, 5);
    run(world, async move {
        let connecting = connect(&left, JOB_RIGHT, 9).await.unwrap();
        let accepted = accept(&listening).await;
        send(&connecting, 0, 5000, 1000).await.unwrap();
        assert_eq!(receive_exactly(&accepted, 5000).await.len(), 5000);
        send(&connecting, 0, 1000, 1000).await.unwrap();
        until(&accepted, |ready| ready.readable).await;
        drop(connecting);
        assert_eq!(receive(&accepted, 100).await, Ok(1000));
        throw(&sender, (JOB_RIGHT, 9), b"one").unwrap();
        throw(&sender, (ALL, 9), b"all").unwrap();
    });
    world.idle(SECOND_NS);
    assert!(receiver.receive_with(|_| true).is_ok());
    let to_right = MacAddress::of(RIGHT).0;
    world.take_frames().into_iter().filter(|frame| frame[TO..FROM] == to_right).collect()
}

/// Whether these are resets of connections of the job whose these late frames are, one at least, and nothing else.
fn are_resets(frames: &[Vec<u8>], late: &[Vec<u8>]) -> bool {
    const RESET: u8 = 4;
    let is_reset = |frame: &Vec<u8>| frame[TAG..TAG + 8] == late[0][TAG..TAG + 8] && frame[TAG + 8 + 33] & RESET != 0;
    !frames.is_empty() && frames.iter().all(is_reset)
}

#[test]
fn who_still_sends_to_a_node_that_has_left_the_job_is_told() {
    let mut world = World::new(CLEAN, 8);
    let (left, right) = (world.left(), world.right());
    let listening = listener(&right, 9, 5);
    let connecting = run(&mut world, async move {
        let connecting = connect(&left, JOB_RIGHT, 9).await.unwrap();
        let _accepted = accept(&listening).await;
        connecting
    });
    world.right().leave_job();
    let left = world.left();
    let (sent, again) = run(&mut world, async move {
        let sent = send(&connecting, 0, 1, 1).await;
        until(&connecting, |ready| ready.hang_up).await;
        (sent, connect(&left, JOB_RIGHT, 9).await.err())
    });
    assert_eq!((sent, again), (Ok(()), Some(SocketError::Refused)));
    assert!(world.now_ns < SECOND_NS);
}

#[test]
fn what_comes_late_reaches_no_other_job() {
    let mut world = World::new(CLEAN, 4);
    let late = talk(&mut world);
    assert!(late.len() > 6);
    let right = world.right();
    for (job, heard) in [(2, 0), (1, 2)] {
        right.leave_job();
        // Between two jobs it is for nobody.
        late.iter().for_each(|frame| world.put_right(frame.clone()));
        world.idle(SECOND_NS);
        assert!(are_resets(&world.take_frames(), &late));

        right.enter_job(job_network(job, 3, 1), 7, world.now_ns);
        let (receiver, listening) = (datagrams(&right, 9), listener(&right, 9, 5));
        late.iter().for_each(|frame| world.put_right(frame.clone()));
        world.idle(SECOND_NS);
        let count = std::iter::from_fn(|| receiver.receive_with(|_| true).ok()).count();
        // Seen by the job whose they are, as datagrams may come twice, and by no other.
        assert_eq!(count, heard, "job {job}");
        assert_eq!(are_resets(&world.take_frames(), &late), heard == 0, "job {job}");
        drop((receiver, listening));
    }
}

#[test]
fn frames_that_are_not_what_they_say_are_dropped() {
    let mut world = World::new(CLEAN, 5);
    let frames = talk(&mut world);
    let receiver = datagrams(&world.right(), 9);
    let (own, third) = (MacAddress::of(LEFT).0, MacAddress::of(Ipv4Addr::new(10, 64, 0, 3)).0);
    let datagram = frames.iter().find(|frame| frame.ends_with(b"one")).unwrap();
    assert_eq!((&datagram[FROM..TYPE], &datagram[TYPE..TAG]), (&own[..], &[0x88, 0xb5][..]));
    let with = |at: usize, bytes: &[u8]| {
        let mut frame = datagram.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    };
    let in_the_cluster = [&datagram[..TYPE], &[8, 0], &datagram[TAG + 8..]].concat();
    let lies = [
        // To all, as no kernel of ours sends it.
        with(TO, &[0xff; 6]),
        // From another station than the one with that address in the job, and from outside the job.
        with(FROM, &third),
        with(FROM, &MacAddress::of(Ipv4Addr::new(10, 64, 0, 9)).0),
        with(SOURCE, &JOB_THIRD.octets()),
        with(SOURCE, &NOBODY.octets()),
        with(SOURCE, &LEFT.octets()),
        // Of another job.
        with(TAG, &[datagram[TAG] ^ 1]),
        with(TAG + 7, &[datagram[TAG + 7] ^ 1]),
        // Of the cluster's network, in which programs are not.
        in_the_cluster,
        with(TYPE, &[8, 0]),
    ];
    let short = (0..datagram.len() - 1).map(|length| datagram[..length].to_vec());
    for lie in lies.into_iter().chain(short) {
        world.put_right(lie.clone());
        world.idle(SECOND_NS);
        assert!(is_silent(&receiver), "{lie:02x?}");
    }
    assert_eq!(world.take_frames(), Vec::<Vec<u8>>::new());
    world.put_right(datagram.clone());
    world.idle(SECOND_NS);
    assert!(!is_silent(&receiver));
}

#[test]
fn a_node_without_a_job_reaches_itself_alone() {
    let mut world = World::new(CLEAN, 6);
    let left = world.left();
    let (before, kept) = (socket(&left), datagrams(&left, 6));
    assert_eq!(before.connect(JOB_RIGHT, 9), Err(SocketError::InProgress));
    throw(&kept, (JOB_RIGHT, 9), b"never goes").unwrap();
    left.leave_job();
    world.keep_frames();
    assert_eq!(left.job_address(), None);
    let within = listener(&left, 9, 5);
    assert_eq!(socket(&left).connect(JOB_RIGHT, 9), Err(SocketError::Unreachable));
    assert_eq!(socket(&left).connect(JOB_LEFT, 9), Err(SocketError::Unreachable));
    assert_eq!(throw(&kept, (ALL, 9), b"x"), Err(SocketError::Unreachable));
    assert_eq!(socket(&left).connect(Ipv4Addr::LOCALHOST, 9), Ok(()));
    world.idle(SECOND_NS);
    drop((before, kept, within));
    world.idle(SECOND_NS);
    assert_eq!(world.take_frames(), Vec::<Vec<u8>>::new());
    assert_eq!(left.user_sockets(), 0);
}

#[test]
fn one_poll_sends_no_more_than_its_share() {
    let mut world = World::new(Faults { ring: 1000, ..CLEAN }, 7);
    let (left, right) = (world.left(), world.right());
    let (sender, receiver) = (datagrams(&left, 5), datagrams(&right, 5));
    let shares = 5;
    for _ in 0..shares * FRAMES_PER_POLL_MAX / 2 {
        // Two frames each, as there are two other nodes.
        throw(&sender, (ALL, 5), &[7; 9]).unwrap();
    }
    for _ in 0..shares {
        assert_eq!(left.poll(1), Some(1), "it wants to be called again at once");
    }
    world.keep_frames();
    world.idle(SECOND_NS);
    assert_eq!(world.take_frames().len(), shares * FRAMES_PER_POLL_MAX);
    let received = std::iter::from_fn(|| receiver.receive_with(|_| true).ok()).count();
    assert_eq!(received, shares * FRAMES_PER_POLL_MAX / 2);
}
