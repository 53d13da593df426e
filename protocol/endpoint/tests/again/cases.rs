//! What there is beside connections that are open, and what goes wrong.

use std::net::Ipv4Addr;

use coppice_endpoint::record::{NotMade, NotQuiet, TcpRecord, UdpRecord};
use coppice_endpoint::testing::{CLEAN, End, JOB_LEFT as LEFT, JOB_RIGHT as RIGHT, JOB_THIRD, World, job_network};
use coppice_endpoint::{Readiness, SocketError, TcpSocket, UdpSocket, UserConfig};
use proptest::prelude::{ProptestConfig, any, prop, proptest};

use super::elsewhere::{MOMENT_NS, Place, Sockets, connect_all, stacks, stored, take_to};
use crate::support::{ANY, SECOND_NS, Socket, accept, connect, listener, receive_exactly, send, socket, until};
use crate::{connection, run};

fn tcp<const N: usize>(sockets: [Socket; N]) -> Sockets {
    Sockets { tcp: sockets.into(), udp: Vec::new() }
}

/// Takes these of the left and of the right side elsewhere, where all of them are there again.
#[track_caller]
fn moved<const L: usize, const R: usize>(
    world: &mut World,
    left: [Socket; L],
    right: [Socket; R],
) -> ([Socket; L], [Socket; R]) {
    let ([left, right], late) = take_to(Place::OtherStacks, world, [tcp(left), tcp(right)]);
    assert_eq!(late, 0);
    (left.tcp.try_into().unwrap_or_else(|_| unreachable!()), right.tcp.try_into().unwrap_or_else(|_| unreachable!()))
}

/// Some from both sides wait to be accepted, with bytes, and some for room to do so.
#[test]
fn those_who_wait_to_be_accepted_are_not_forgotten() {
    let mut world = World::new(CLEAN, 1);
    let (left, right) = (world.left(), world.right());
    let listening = listener(&right, 7, 2);
    let [far, near, third] = [socket(&left), socket(&right), socket(&right)];
    let _ = far.connect(RIGHT, 7);
    world.idle(MOMENT_NS);
    assert_eq!(near.connect(RIGHT, 7), Ok(()));
    assert_eq!(third.connect(RIGHT, 7), Err(SocketError::InProgress));
    assert_eq!((far.send(b"far"), near.send(b"near")), (Ok(3), Ok(4)));
    world.idle(MOMENT_NS);
    let names = [far.local(), near.local(), third.local()];
    let ([far], [listening, near, third]) = moved(&mut world, [far], [listening, near, third]);
    assert_eq!([far.local(), near.local(), third.local()], names);
    assert_eq!(third.send(b"third"), Err(SocketError::WouldBlock));
    run(&mut world, async move {
        for (name, said) in names.into_iter().zip([&b"far"[..], b"near", b"third"]) {
            let accepted = accept(&listening).await;
            assert_eq!(accepted.peer(), Some(name));
            if said == b"third" {
                assert_eq!(third.connect(RIGHT, 7), Ok(()));
                assert_eq!(third.send(said), Ok(5));
            }
            assert_eq!(receive_exactly(&accepted, said.len()).await, said);
        }
        drop(far);
    });
}

/// Whoever waits for somebody who does not answer goes on to do so, and hears of it when he does.
#[test]
fn who_calls_goes_on_calling() {
    let mut world = World::new(CLEAN, 2);
    let (left, right) = (world.left(), world.right());
    let listening = listener(&right, 7, 1);
    let [first, second, lost] = [socket(&left), socket(&left), socket(&left)];
    for (socket, address) in [(&first, RIGHT), (&second, RIGHT), (&lost, JOB_THIRD)] {
        assert_eq!(socket.connect(address, 7), Err(SocketError::InProgress));
        world.idle(MOMENT_NS);
    }
    let ([first, second, lost], [listening]) = moved(&mut world, [first, second, lost], [listening]);
    assert_eq!(first.connect(RIGHT, 7), Ok(()));
    assert_eq!(second.connect(RIGHT, 7), Err(SocketError::AlreadyInProgress));
    let (second, third) = run(&mut world, async move {
        let accepted = accept(&listening).await;
        assert_eq!(accepted.peer(), Some(first.local()));
        until(&second, |ready| ready.writable).await;
        (second, accept(&listening).await)
    });
    assert_eq!(third.peer(), Some(second.local()));
    let error = run(&mut world, async move {
        until(&lost, |ready| ready.error).await;
        lost.take_error()
    });
    assert_eq!(error, Some(SocketError::TimedOut));
}

/// A peer whose other end was closed before finds that out, also when it writes there.
#[test]
fn who_is_gone_is_gone_elsewhere_too() {
    for end in [0, 1] {
        let mut world = World::new(CLEAN, 3);
        let (left, right) = connection(&mut world);
        let mut ends = [Some(left), Some(right)];
        ends[end] = None;
        world.idle(MOMENT_NS);
        let [left, right] = ends.map(|end| Sockets { tcp: end.into_iter().collect(), udp: Vec::new() });
        let ([left, right], late) = take_to(Place::OtherStacks, &mut world, [left, right]);
        let kept = left.tcp.into_iter().chain(right.tcp).next().unwrap();
        assert_eq!(late, 0);
        world.idle(MOMENT_NS);
        assert_eq!((kept.receive(&mut [0; 9], false), kept.send(b"more")), (Ok(0), Ok(4)));
        world.idle(MOMENT_NS);
        assert_eq!(kept.send(b"more"), Err(SocketError::Closed));
        drop(kept);
        world.idle(100 * SECOND_NS);
        assert_eq!(stacks(&world).map(|stack| stack.user_sockets()), [0, 0]);
    }
}

/// A connection of which one end alone was made again: it is reset, and so is one within a node.
#[test]
fn who_has_nobody_is_reset() {
    for end in [0, 1] {
        let mut world = World::new(CLEAN, 4);
        let (left, right) = connection(&mut world);
        let listening = listener(&world.left(), 8, 1);
        let near = socket(&world.left());
        assert_eq!(near.connect(LEFT, 8), Ok(()));
        let records = [[&left, &right][end], &near].map(|socket| stored(&socket.record().unwrap()));
        world.restart();
        drop((left, right, listening, near));
        let kept = TcpSocket::again(&stacks(&world)[end], &records[0]).unwrap();
        let near = TcpSocket::again(&world.left(), &records[1]).unwrap();
        let late = connect_all(&mut world);
        // Right calls, and hears that nobody is there.
        assert_eq!(late, 2 - end);
        for socket in [kept, near] {
            assert!(socket.readiness().error && socket.readiness().hang_up);
            assert_eq!(socket.take_error(), Some(SocketError::Reset));
        }
    }
}

/// A connection to a listener at 7, and that.
struct Called {
    listening: Socket,
    accepted: Socket,
    calling: Socket,
}

fn called_from_the_right(world: &mut World) -> Called {
    let (left, right) = (world.left(), world.right());
    let listening = listener(&left, 7, 1);
    let calling = run(world, async move { connect(&right, LEFT, 7).await.unwrap() });
    world.idle(MOMENT_NS);
    let accepted = listening.accept().unwrap();
    Called { listening, accepted, calling }
}

/// Nobody takes the place of a peer that does not come: a listener at its port does not know the caller.
#[test]
fn nobody_else_gets_a_connection_meanwhile() {
    let mut world = World::new(CLEAN, 5);
    // What was accepted is not taken elsewhere.
    let Called { listening, accepted: _lost, calling } = called_from_the_right(&mut world);
    let (listening, calling) = (listening.record().unwrap(), calling.record().unwrap());
    world.restart();
    let calling = TcpSocket::again(&world.right(), &calling).unwrap();
    let listening = TcpSocket::again(&world.left(), &listening).unwrap();
    assert_eq!(connect_all(&mut world), 0);
    assert_eq!(calling.take_error(), Some(SocketError::Reset));
    assert_eq!(listening.accept().err(), Some(SocketError::WouldBlock));
    let right = world.right();
    assert!(run(&mut world, async move { connect(&right, LEFT, 7).await.is_ok() }));
}

/// Programs of one node go on before those of another: they can connect to those already, and go on calling.
#[test]
fn who_goes_on_first_connects_to_the_others() {
    let mut world = World::new(CLEAN, 12);
    let (left, right) = (world.left(), world.right());
    let (listening, calling) = (listener(&right, 7, 4), socket(&left));
    assert_eq!(calling.connect(RIGHT, 7), Err(SocketError::InProgress));
    let (listening, calling) = (listening.record().unwrap(), calling.record().unwrap());
    world.restart();
    let (left, right) = (world.left(), world.right());
    let calling = TcpSocket::again(&left, &calling).unwrap();
    let listening = TcpSocket::again(&right, &listening).unwrap();
    for stack in [&left, &right] {
        stack.call_again();
        stack.settle_again(world.now_ns);
    }
    assert_eq!(left.end_making_again(world.now_ns), 0);
    let (calling, new) = run(&mut world, async move {
        until(&calling, |ready| ready.writable).await;
        (calling, connect(&left, RIGHT, 7).await.unwrap())
    });
    world.idle(MOMENT_NS);
    assert_eq!((right.end_making_again(world.now_ns), calling.connect(RIGHT, 7)), (0, Ok(())));
    assert_eq!(listening.accept().unwrap().peer(), Some(calling.local()));
    assert_eq!(listening.accept().unwrap().peer(), Some(new.local()));
}

/// A node that goes on alone gives up connections that its peers call for later: those do not get others instead.
#[test]
fn who_calls_too_late_gets_no_connection() {
    let mut world = World::new(CLEAN, 13);
    let Called { listening, accepted, calling } = called_from_the_right(&mut world);
    let [listening, accepted, calling] = [listening, accepted, calling].map(|socket| socket.record().unwrap());
    world.restart();
    let (left, right) = (world.left(), world.right());
    let listening = TcpSocket::again(&left, &listening).unwrap();
    let accepted = TcpSocket::again(&left, &accepted).unwrap();
    let calling = TcpSocket::again(&right, &calling).unwrap();
    left.settle_again(world.now_ns);
    assert_eq!(left.end_making_again(world.now_ns), 1);
    assert_eq!(accepted.take_error(), Some(SocketError::Reset));
    // Its program has let go of it.
    drop(accepted);
    world.idle(SECOND_NS);
    right.call_again();
    world.idle(SECOND_NS);
    assert_eq!(calling.take_error(), Some(SocketError::Reset));
    right.settle_again(world.now_ns);
    assert_eq!(right.end_making_again(world.now_ns), 0);
    assert_eq!(listening.accept().err(), Some(SocketError::WouldBlock));
    let name = calling.local();
    drop(calling);
    world.idle(100 * SECOND_NS);
    let same = socket(&right);
    same.bind(RIGHT, name.1, true).unwrap();
    let _ = same.connect(LEFT, 7);
    world.idle(SECOND_NS);
    assert_eq!(listening.accept().unwrap().peer(), Some(name));
}

/// What was given up in one job is nothing to the next, whose nodes have the same addresses.
#[test]
fn names_are_free_in_the_next_job() {
    let mut world = World::new(CLEAN, 14);
    let Called { listening, accepted, calling } = called_from_the_right(&mut world);
    let name = calling.local();
    let accepted = accepted.record().unwrap();
    world.restart();
    drop((listening, calling));
    let (left, right) = (world.left(), world.right());
    let accepted = TcpSocket::again(&left, &accepted).unwrap();
    assert_eq!(left.end_making_again(world.now_ns), 1);
    drop(accepted);
    // One is left in the middle of it, and one has given something up.
    let waits = listener(&right, 7, 1);
    let waiting = waits.record().unwrap();
    drop(waits);
    drop(TcpSocket::again(&right, &waiting).unwrap());
    for (own, stack) in [&left, &right].into_iter().enumerate() {
        stack.enter_job(job_network(2, 3, own as u32), 5, world.now_ns);
    }
    let listening = [listener(&left, 7, 1), listener(&right, 8, 1)];
    let same = socket(&right);
    same.bind(RIGHT, name.1, true).unwrap();
    let (same, other) = run(&mut world, async move {
        let _ = same.connect(LEFT, 7);
        until(&same, |ready| ready.writable).await;
        (same, connect(&left, RIGHT, 8).await.unwrap())
    });
    world.idle(MOMENT_NS);
    assert_eq!(
        listening.map(|socket| socket.accept().unwrap().peer()),
        [same, other].map(|socket| Some(socket.local()))
    );
}

/// What a program asked of its sockets holds for them elsewhere.
#[test]
fn names_and_wishes_are_kept() {
    let mut world = World::new(CLEAN, 6);
    let (left, right) = connection(&mut world);
    let bound = socket(&world.left());
    bound.bind(LEFT, 99, true).unwrap();
    left.set_linger(true);
    left.shutdown(true, false).unwrap();
    assert_eq!(left.receive(&mut [0; 9], false), Ok(0));
    let capacities = [left.capacities(), right.capacities()];
    let ([left, bound], [right]) = moved(&mut world, [left, bound], [right]);
    assert_eq!([left.capacities(), right.capacities()], capacities);
    assert_eq!((bound.local(), bound.readiness().hang_up), ((LEFT, 99), true));
    let other = socket(&world.left());
    assert_eq!(other.bind(LEFT, 99, false), Err(SocketError::AddressInUse));
    assert_eq!(other.bind(LEFT, left.local().1, false), Err(SocketError::AddressInUse));
    assert_eq!(other.bind(LEFT, 99, true), Ok(()));
    assert_eq!(left.receive(&mut [0; 9], false), Ok(0));
    drop(left);
    world.idle(MOMENT_NS);
    assert_eq!(right.take_error(), Some(SocketError::Reset));
}

#[test]
fn datagrams_that_came_are_kept() {
    let mut world = World::new(CLEAN, 7);
    let [from, to] = stacks(&world).map(|stack| UdpSocket::new(&stack).unwrap());
    to.bind(ANY, 5, false).unwrap();
    to.connect(Some((LEFT, 6))).unwrap();
    from.bind(ANY, 6, false).unwrap();
    let put = |socket: &UdpSocket<End>, text: &[u8]| {
        socket.send_with::<SocketError>(text.len(), Some((RIGHT, 5)), |room| {
            room.copy_from_slice(text);
            Ok(())
        })
    };
    put(&from, b"one").unwrap();
    put(&from, b"").unwrap();
    assert_eq!(from.record(), Err(NotQuiet));
    let sockets = [from, to].map(|socket| Sockets { tcp: Vec::new(), udp: vec![socket] });
    let (made, _) = take_to(Place::OtherStacks, &mut world, sockets);
    let [from, to] = made.map(|side| side.udp.into_iter().next().unwrap());
    assert_eq!((from.local(), to.local(), to.peer()), ((ANY, 6), (RIGHT, 5), Some((LEFT, 6))));
    put(&from, b"three").unwrap();
    world.idle(MOMENT_NS);
    for text in [&b"one"[..], b"", b"three"] {
        let received = to.receive_with(|bytes| bytes == text).unwrap();
        assert_eq!((received.length, received.source), (text.len(), (LEFT, 6)));
    }
    assert_eq!(to.first_bytes(), 0);
}

/// What is on its way is no data, and bytes are set aside only where there is memory for them.
#[test]
fn what_is_not_quiet_is_not_written_down() {
    let mut world = World::new(CLEAN, 8);
    let (left, right) = connection(&mut world);
    assert_eq!(left.send(b"bytes"), Ok(5));
    assert_eq!(left.record(), Err(NotQuiet));
    world.idle(SECOND_NS);
    left.shutdown(false, true).unwrap();
    assert_eq!(left.record(), Err(NotQuiet));
    world.idle(SECOND_NS);
    assert!(left.record().is_ok());
    drop(left);
    assert!(world.left().record_orphans().is_ok_and(|orphans| orphans.len() == 1));
    drop(right);
    assert_eq!(world.right().record_orphans(), Err(NotQuiet));
    // More than a buffer holds goes the other way.
    let mut world = World::new(CLEAN, 8);
    let (left, right) = connection(&mut world);
    let (sender, receiver) = run(&mut world, async move {
        let all = right.capacities().unwrap().1 + left.capacities().unwrap().0 * 3 / 4;
        send(&right, 0, all, 4096).await.unwrap();
        (right, left)
    });
    let is_quiet = |world: &World| stacks(world).map(|stack| stack.quieten());
    world.left().set_user_config(UserConfig { buffer_bytes: 0, reserved_ports: 1..=1, wipe: |bytes| bytes.fill(0) });
    world.idle(SECOND_NS);
    assert_eq!(is_quiet(&world), [Err(SocketError::NoMemory), Ok(false)]);
    world.left().set_user_config(UserConfig {
        buffer_bytes: 16 << 20,
        reserved_ports: 1..=1,
        wipe: |bytes| bytes.fill(0),
    });
    while is_quiet(&world) != [Ok(true); 2] {
        world.idle(MOMENT_NS);
    }
    assert_eq!((sender.unsent(), receiver.received()), (0, receiver.received()));
}

/// Records that no socket can have are refused, and leave nothing.
#[test]
fn records_of_others_are_refused() {
    let mut world = World::new(CLEAN, 9);
    let (left, right) = connection(&mut world);
    let listening = listener(&world.right(), 9, 1);
    let records = [left, right, listening].map(|socket| socket.record().unwrap());
    world.restart();
    // Of the other side.
    assert_eq!(TcpSocket::again(&world.right(), &records[0]).err(), Some(NotMade::Damaged));
    let _first = TcpSocket::again(&world.right(), &records[1]).unwrap();
    let _listening = TcpSocket::again(&world.right(), &records[2]).unwrap();
    for again in &records[1..] {
        assert_eq!(TcpSocket::again(&world.right(), again).err(), Some(NotMade::Damaged));
    }
    assert_eq!(world.right().user_sockets(), 2);
    world.left().set_user_config(UserConfig { buffer_bytes: 0, reserved_ports: 1..=1, wipe: |bytes| bytes.fill(0) });
    let refused = TcpSocket::again(&world.left(), &records[0]).err();
    assert_eq!(refused, Some(NotMade::Socket(SocketError::NoMemory)));
    assert_eq!(world.left().user_sockets(), 0);
}

/// Records of sockets of all kinds, as bytes.
fn records() -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut world = World::new(CLEAN, 10);
    let (left, right) = connection(&mut world);
    let (near, waiting, listening) = (socket(&world.left()), socket(&world.left()), listener(&world.left(), 8, 1));
    let _ = (near.connect(LEFT, 8), waiting.connect(LEFT, 8), near.send(b"near"), right.send(b"far"));
    let datagrams = UdpSocket::new(&world.left()).unwrap();
    datagrams.bind(ANY, 5, false).unwrap();
    world.idle(SECOND_NS);
    let tcp = [left, near, waiting, listening].map(|socket| postcard::to_allocvec(&socket.record().unwrap()).unwrap());
    (tcp.into(), postcard::to_allocvec(&datagrams.record().unwrap()).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever is in a record, it makes a socket or is refused, and all of it goes when that does.
    #[test]
    fn damaged_records_do_no_harm(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let (tcp, udp) = records();
        let mut world = World::new(CLEAN, 11);
        let stack = world.left();
        let damage = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            for (place, byte) in &changes {
                let place = place.index(bytes.len());
                bytes[place] = *byte;
            }
            bytes
        };
        let records = tcp.iter().filter_map(|bytes| postcard::from_bytes::<TcpRecord>(&damage(bytes)).ok());
        let made: Vec<_> = records.filter_map(|record| TcpSocket::again(&stack, &record).ok()).collect();
        let record = postcard::from_bytes::<UdpRecord>(&damage(&udp)).ok();
        let datagrams = record.and_then(|record| UdpSocket::again(&stack, &record).ok());
        connect_all(&mut world);
        for socket in &made {
            let _: (Readiness, (Ipv4Addr, u16)) = (socket.readiness(), socket.local());
            let _ = (socket.send(b"more"), socket.receive(&mut [0; 99], false), socket.accept().is_ok());
        }
        drop((made, datagrams));
        world.idle(1000 * SECOND_NS);
        assert_eq!(stack.user_sockets(), 0);
    }
}
