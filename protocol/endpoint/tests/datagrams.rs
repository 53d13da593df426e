//! Programs' datagrams: between two nodes and within one, as Linux has it.

#![expect(clippy::unwrap_used, reason = "helpers of a test fail as tests do")]

use std::future::poll_fn;
use std::net::Ipv4Addr;
use std::task::Poll;

use coppice_endpoint::limits::{
    DATAGRAM_BYTES_MAX, DATAGRAM_OVERHEAD_BYTES, DATAGRAM_QUEUE_BYTES, DATAGRAM_SEND_BYTES,
};
use coppice_endpoint::testing::{CLEAN, End, Faults, JOB_LEFT as LEFT, JOB_RIGHT as RIGHT, World};
use coppice_endpoint::{Received, SocketError, Stack, UdpSocket, UserConfig};

type Socket = UdpSocket<End>;

const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
const SECOND_NS: u64 = 1_000_000_000;

fn socket(stack: &Stack<End>) -> Socket {
    UdpSocket::new(stack).unwrap()
}

fn bound(stack: &Stack<End>, address: Ipv4Addr, port: u16) -> Socket {
    let socket = socket(stack);
    socket.bind(address, port, false).unwrap();
    socket
}

fn send(socket: &Socket, to: Option<(Ipv4Addr, u16)>, bytes: &[u8]) -> Result<(), SocketError> {
    socket.send_with(bytes.len(), to, |room| {
        room.copy_from_slice(bytes);
        Ok(())
    })
}

fn receive(socket: &Socket) -> Result<(Vec<u8>, (Ipv4Addr, u16)), SocketError> {
    let mut bytes = Vec::new();
    let Received { length, source } = socket.receive_with(|from| {
        bytes.extend_from_slice(from);
        true
    })?;
    assert_eq!(bytes.len(), length);
    Ok((bytes, source))
}

/// Waits for the next datagram.
async fn next(socket: &Socket) -> Result<(Vec<u8>, (Ipv4Addr, u16)), SocketError> {
    poll_fn(|context| {
        socket.register(context.waker());
        match receive(socket) {
            Err(SocketError::WouldBlock) => Poll::Pending,
            outcome => Poll::Ready(outcome),
        }
    })
    .await
}

fn run<R: 'static>(world: &mut World, program: impl Future<Output = R> + 'static) -> R {
    world.finish(program, 100 * SECOND_NS)
}

#[test]
fn datagrams_go_there_and_back() {
    let mut world = World::new(CLEAN, 1);
    let (asking, answering) = (socket(&world.left()), bound(&world.right(), ANY, 53));
    assert_eq!(asking.local(), (ANY, 0));
    assert!(asking.readiness().writable && !asking.readiness().readable);
    run(&mut world, async move {
        send(&asking, Some((RIGHT, 53)), b"question").unwrap();
        let (port, (question, from)) = (asking.local().1, next(&answering).await.unwrap());
        assert_eq!((question.as_slice(), from), (b"question".as_slice(), (LEFT, port)));
        assert!(port >= 49_152);
        send(&answering, Some(from), b"").unwrap();
        assert_eq!(next(&asking).await.unwrap(), (Vec::new(), (RIGHT, 53)));
        assert_eq!(receive(&asking), Err(SocketError::WouldBlock));
    });
    assert_eq!((world.left().user_sockets(), world.right().user_sockets()), (0, 0));
}

#[test]
fn a_peek_leaves_the_datagram() {
    let mut world = World::new(CLEAN, 2);
    let (sender, receiver) = (socket(&world.left()), bound(&world.right(), RIGHT, 9));
    run(&mut world, async move {
        send(&sender, Some((RIGHT, 9)), &[7; 1200]).unwrap();
        send(&sender, Some((RIGHT, 9)), &[8; 3]).unwrap();
        poll_fn(|context| {
            receiver.register(context.waker());
            if receiver.first_bytes() > 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let peeked = receiver.receive_with(|bytes| bytes != [7; 1200]).unwrap();
        assert_eq!((peeked.length, receiver.first_bytes()), (1200, 1200));
        assert_eq!(next(&receiver).await.unwrap().0, [7; 1200]);
        assert_eq!(next(&receiver).await.unwrap().0, [8; 3]);
    });
}

#[test]
fn a_connected_socket_hears_its_peer_only() {
    let mut world = World::new(CLEAN, 3);
    let (left, right) = (world.left(), world.right());
    run(&mut world, async move {
        let (friend, stranger, server) = (socket(&left), socket(&left), bound(&right, ANY, 5));
        send(&friend, Some((RIGHT, 5)), b"hello").unwrap();
        let (_, name) = next(&server).await.unwrap();
        server.connect(Some(name)).unwrap();
        assert_eq!((server.peer(), server.local()), (Some(name), (RIGHT, 5)));
        // One for all that are connected to nobody, at the same port.
        let other = socket(&right);
        assert_eq!(other.bind(ANY, 5, true), Err(SocketError::AddressInUse));
        send(&stranger, Some((RIGHT, 5)), b"psst").unwrap();
        send(&friend, Some((RIGHT, 5)), b"again").unwrap();
        assert_eq!(next(&server).await.unwrap().0, b"again");
        send(&server, None, b"answer").unwrap();
        assert_eq!(next(&friend).await.unwrap().0, b"answer");
        server.connect(None).unwrap();
        assert_eq!(send(&server, None, b"?"), Err(SocketError::NoDestination));
        assert_eq!(receive(&stranger), Err(SocketError::WouldBlock));
    });
}

#[test]
fn a_port_that_nobody_has_refuses() {
    let mut world = World::new(CLEAN, 4);
    let left = world.left();
    run(&mut world, async move {
        let (connected, loose) = (socket(&left), socket(&left));
        connected.connect(Some((RIGHT, 99))).unwrap();
        send(&loose, Some((RIGHT, 98)), b"1").unwrap();
        send(&connected, None, b"2").unwrap();
        assert_eq!(next(&connected).await, Err(SocketError::Refused));
        assert_eq!((connected.take_error(), loose.take_error()), (None, None));
        // The same within a node, at once.
        let own = socket(&left);
        own.connect(Some((Ipv4Addr::LOCALHOST, 99))).unwrap();
        send(&own, None, b"3").unwrap();
        assert!(own.readiness().error);
        assert_eq!(own.take_error(), Some(SocketError::Refused));
    });
}

#[test]
fn a_node_sends_to_itself() {
    let world = World::new(CLEAN, 5);
    let left = world.left();
    let (all, loop_back) = (bound(&left, ANY, 6), bound(&left, Ipv4Addr::LOCALHOST, 7));
    let sender = bound(&left, ANY, 8);
    for (address, port, socket) in
        [(LEFT, 6, &all), (Ipv4Addr::LOCALHOST, 6, &all), (Ipv4Addr::LOCALHOST, 7, &loop_back)]
    {
        send(&sender, Some((address, port)), &[1; DATAGRAM_BYTES_MAX]).unwrap();
        assert_eq!(receive(socket).unwrap(), (vec![1; DATAGRAM_BYTES_MAX], (address, 8)));
    }
    send(&sender, Some((LEFT, 7)), b"not there").unwrap();
    assert_eq!(receive(&loop_back), Err(SocketError::WouldBlock));
    assert_eq!(send(&sender, Some((LEFT, 6)), &[1; DATAGRAM_BYTES_MAX + 1]), Err(SocketError::MessageTooLong));
}

#[test]
fn a_broadcast_reaches_all_that_have_the_port() {
    let mut world = World::new(CLEAN, 6);
    let (left, right) = (world.left(), world.right());
    run(&mut world, async move {
        let (one, other, sender) = (socket(&right), socket(&right), socket(&left));
        for socket in [&one, &other] {
            socket.bind(ANY, 4, true).unwrap();
        }
        let all = Some((Ipv4Addr::new(10, 255, 255, 255), 4));
        assert_eq!(send(&sender, all, b"all"), Err(SocketError::NotPermitted));
        sender.set_broadcast(true);
        send(&sender, all, b"all").unwrap();
        assert_eq!(next(&one).await.unwrap().0, b"all");
        assert_eq!(next(&other).await.unwrap().0, b"all");
    });
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let world = World::new(CLEAN, 7);
    let socket = socket(&world.left());
    let attempt = |to, bytes: usize| send(&socket, to, &vec![0; bytes]);
    assert_eq!(attempt(None, 1), Err(SocketError::NoDestination));
    assert_eq!(attempt(Some((RIGHT, 0)), 1), Err(SocketError::Invalid));
    assert_eq!(attempt(Some((Ipv4Addr::new(11, 0, 0, 1), 1)), 1), Err(SocketError::Unreachable));
    assert_eq!(attempt(Some((RIGHT, 1)), DATAGRAM_BYTES_MAX), Err(SocketError::MessageTooLong));
    assert_eq!(socket.bind(RIGHT, 1, false), Err(SocketError::AddressNotAvailable));
    assert_eq!(socket.shutdown(true, true), Err(SocketError::NotConnected));
    assert_eq!(attempt(Some((RIGHT, 1)), 1), Err(SocketError::Closed));
    assert_eq!(receive(&socket), Err(SocketError::Closed));
    assert!(socket.readiness().hang_up);
}

/// The sender waits when its own queue is full; the receiver loses what its queue has no room for; both come back.
#[test]
fn queues_are_bounded() {
    let mut world = World::new(Faults { ring: 1, ..CLEAN }, 8);
    let (sender, receiver) = (socket(&world.left()), bound(&world.right(), ANY, 3));
    let mut sent = 0;
    let full = loop {
        match send(&sender, Some((RIGHT, 3)), &[sent as u8; 1000]) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full, SocketError::WouldBlock);
    assert!(!sender.readiness().writable);
    assert_eq!(sent, DATAGRAM_SEND_BYTES.div_ceil(1000 + DATAGRAM_OVERHEAD_BYTES));
    let (came, sender) = run(&mut world, async move {
        let mut total = sent;
        while total < 2000 {
            poll_fn(|context| {
                sender.register(context.waker());
                match send(&sender, Some((RIGHT, 3)), &[total as u8; 1000]) {
                    Err(SocketError::WouldBlock) => Poll::Pending,
                    outcome => Poll::Ready(outcome),
                }
            })
            .await
            .unwrap();
            total += 1;
        }
        (receiver, sender)
    });
    // All of it was sent in an instant.
    world.idle(SECOND_NS);
    let mut count = 0;
    while let Ok((bytes, _)) = receive(&came) {
        assert_eq!(bytes, [count as u8; 1000]);
        count += 1;
    }
    assert_eq!(count, DATAGRAM_QUEUE_BYTES / (1000 + DATAGRAM_OVERHEAD_BYTES));
    assert!(sender.readiness().writable);
}

#[test]
fn bytes_are_wiped_when_they_are_taken_and_when_nobody_does() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static WIPED: AtomicUsize = AtomicUsize::new(0);
    fn wipe(bytes: &mut [u8]) {
        WIPED.fetch_add(bytes.iter().filter(|byte| **byte == 0x5e).count(), Ordering::Relaxed);
        bytes.fill(0);
    }
    let world = World::new(CLEAN, 9);
    let left = world.left();
    left.set_user_config(UserConfig { buffer_bytes: 1 << 20, reserved_ports: 7001..=7004, wipe });
    let (sender, receiver) = (socket(&left), bound(&left, ANY, 2));
    send(&sender, Some((LEFT, 2)), &[0x5e; 10]).unwrap();
    send(&sender, Some((LEFT, 2)), &[0x5e; 100]).unwrap();
    send(&sender, Some((RIGHT, 2)), &[0x5e; 1000]).unwrap();
    receive(&receiver).unwrap();
    assert_eq!(WIPED.load(Ordering::Relaxed), 10);
    drop((receiver, sender));
    assert_eq!(WIPED.load(Ordering::Relaxed), 110);
    left.scrub(0, wipe);
    assert_eq!(WIPED.load(Ordering::Relaxed), 1110);
    assert_eq!(left.user_sockets(), 0);
}

#[test]
fn memory_for_datagrams_ends() {
    let world = World::new(CLEAN, 10);
    let left = world.left();
    left.set_user_config(UserConfig {
        buffer_bytes: 100_000,
        reserved_ports: 7001..=7004,
        wipe: |bytes| bytes.fill(0),
    });
    let (sender, receiver) = (socket(&left), bound(&left, ANY, 2));
    send(&sender, Some((LEFT, 2)), &[1; 60_000]).unwrap();
    assert_eq!(send(&sender, Some((LEFT, 2)), &[1; 60_000]), Err(SocketError::NoMemory));
    receive(&receiver).unwrap();
    send(&sender, Some((LEFT, 2)), &[1; 60_000]).unwrap();
}
