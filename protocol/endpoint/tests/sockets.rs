//! Programs' sockets between two nodes: making connections, using them, ending them, as Linux has it.

#![expect(clippy::unwrap_used, reason = "helpers of a test fail as tests do")]

mod again;
mod ends;
mod resets;
mod support;

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::rc::Rc;

use coppice_endpoint::limits::{CONNECT_NS_MAX, UNACKNOWLEDGED_NS_MAX};
use coppice_endpoint::testing::{CLEAN, JOB_LEFT as LEFT, JOB_RIGHT as RIGHT, World};
use coppice_endpoint::{Readiness, SocketError};
use coppice_protocol::ids::{JobId, JobNode};
use coppice_protocol::world::JobKey;
use support::{ANY, SECOND_NS, Socket, accept, connect, listener, receive, receive_exactly, send, socket, until, wait};

const FRESH: Readiness =
    Readiness { readable: false, writable: true, error: false, hang_up: true, read_hang_up: false };
const NONE: Readiness =
    Readiness { readable: false, writable: false, error: false, hang_up: false, read_hang_up: false };
const OPEN: Readiness = Readiness { writable: true, ..NONE };

/// Runs `program` to its end and returns its result.
fn run<R: 'static>(world: &mut World, program: impl Future<Output = R> + 'static) -> R {
    world.finish(program, 1000 * SECOND_NS)
}

/// A connection from left to right.
fn connection(world: &mut World) -> (Socket, Socket) {
    let (left, right) = (world.left(), world.right());
    run(world, async move {
        let listener = listener(&right, 7, 1);
        let connected = connect(&left, RIGHT, 7).await.unwrap();
        (connected, accept(&listener).await)
    })
}

#[test]
fn a_connection_is_made_as_mpich_makes_it() {
    let mut world = World::new(CLEAN, 1);
    let (left, right) = (world.left(), world.right());
    let listening = socket(&right);
    assert_eq!(listening.readiness(), FRESH);
    assert_eq!(listening.local(), (ANY, 0));
    listening.bind(ANY, 0, false).unwrap();
    let (address, port) = listening.local();
    assert_eq!(address, ANY);
    assert!(port >= 49_152);
    listening.listen(5).unwrap();
    assert_eq!((listening.local(), listening.readiness()), ((ANY, port), NONE));
    assert_eq!(listening.accept().err(), Some(SocketError::WouldBlock));

    let connecting = socket(&left);
    assert_eq!(connecting.connect(RIGHT, port), Err(SocketError::InProgress));
    assert_eq!(connecting.connect(RIGHT, port), Err(SocketError::AlreadyInProgress));
    assert_eq!((connecting.readiness(), connecting.peer()), (NONE, None));
    assert_eq!(connecting.send(b"early"), Err(SocketError::WouldBlock));
    assert_eq!(connecting.receive(&mut [0; 9], false), Err(SocketError::WouldBlock));
    let connecting = run(&mut world, async move {
        until(&connecting, |ready| ready.writable).await;
        connecting
    });
    assert_eq!(connecting.readiness(), OPEN);
    assert_eq!(connecting.take_error(), None);
    assert_eq!(connecting.peer(), Some((RIGHT, port)));
    assert_eq!(connecting.connect(RIGHT, port), Ok(()));
    assert_eq!(connecting.connect(RIGHT, port), Err(SocketError::AlreadyConnected));

    let accepted = run(&mut world, async move { accept(&listening).await });
    assert_eq!(accepted.peer(), Some(connecting.local()));
    assert_eq!(accepted.local(), (RIGHT, port));
    assert_eq!(connecting.local().0, LEFT);
    assert_eq!((left.user_sockets(), right.user_sockets()), (1, 1));
}

#[test]
fn bytes_go_both_ways_and_are_counted_peeked_and_ended() {
    let mut world = World::new(CLEAN, 2);
    let (left, right) = connection(&mut world);
    let (left, right) = run(&mut world, async move {
        send(&left, 0, 1000, 100).await.unwrap();
        until(&right, |ready| ready.readable).await;
        (left, right)
    });
    world.idle(SECOND_NS);
    assert_eq!((right.received(), left.unsent()), (1000, 0));
    let mut first = [0; 300];
    assert_eq!(right.receive(&mut first, true), Ok(300));
    let mut again = [1; 300];
    assert_eq!(right.receive(&mut again, false), Ok(300));
    assert_eq!(first, again);
    assert_eq!(right.received(), 700);
    left.shutdown(false, true).unwrap();
    assert_eq!(left.send(b"more"), Err(SocketError::Closed));
    let received = run(&mut world, async move {
        until(&right, |ready| ready.read_hang_up).await;
        assert_eq!(right.receive(&mut [0; 9999], false), Ok(700));
        assert_eq!(right.receive(&mut [0; 9999], false), Ok(0));
        assert_eq!(right.receive(&mut [0; 9999], true), Ok(0));
        // The other direction is open.
        assert!(!right.readiness().hang_up);
        send(&right, 0, 5000, 5000).await.unwrap();
        drop(right);
        receive(&left, 999).await
    });
    assert_eq!(received, Ok(5000));
    world.idle(SECOND_NS);
    assert_eq!((world.left().user_sockets(), world.right().user_sockets()), (0, 0));
}

#[test]
fn what_was_received_survives_the_end_of_the_connection() {
    let mut world = World::new(CLEAN, 3);
    let (left, right) = connection(&mut world);
    let left = run(&mut world, async move {
        left.shutdown(false, true).unwrap();
        send(&right, 0, 5000, 5000).await.unwrap();
        until(&right, |ready| ready.read_hang_up).await;
        drop(right);
        left
    });
    // Much longer than a connection that is closed in both directions is remembered.
    world.idle(100 * SECOND_NS);
    assert_eq!(left.received(), 5000);
    assert!(left.readiness().hang_up && !left.readiness().error);
    assert_eq!(run(&mut world, async move { receive(&left, 10_000).await }), Ok(5000));
}

#[test]
fn nobody_listens() {
    let mut world = World::new(CLEAN, 4);
    let socket = socket(&world.left());
    socket.bind(ANY, 0, false).unwrap();
    let name = socket.local();
    assert_eq!(socket.connect(RIGHT, 9), Err(SocketError::InProgress));
    let socket = run(&mut world, async move {
        until(&socket, |ready| ready.error).await;
        socket
    });
    let failed = Readiness { readable: true, writable: true, error: true, hang_up: true, read_hang_up: true };
    assert_eq!(socket.readiness(), failed);
    assert_eq!(socket.peer(), None);
    assert_eq!(socket.take_error(), Some(SocketError::Refused));
    assert_eq!(socket.take_error(), None);
    assert_eq!(socket.readiness(), Readiness { error: false, ..failed });
    assert_eq!(socket.receive(&mut [0], false), Ok(0));
    assert_eq!(socket.send(b"x"), Err(SocketError::Closed));
    // Once more, from the same port, without asking for the error in between.
    assert_eq!(socket.connect(RIGHT, 9), Err(SocketError::InProgress));
    let outcome =
        run(&mut world, async move { wait(&socket, |socket| socket.connect(RIGHT, 9)).await.map(|()| socket) });
    assert_eq!(outcome.err(), Some(SocketError::Refused));
    assert!(name.1 > 0);
    assert_eq!(world.left().user_sockets(), 0);
}

#[test]
fn nobody_answers() {
    let mut world = World::new(CLEAN, 5);
    world.lose(1000);
    let (left, start_ns) = (world.left(), world.now_ns);
    let outcome = run(&mut world, async move { connect(&left, RIGHT, 9).await.map(drop) });
    assert_eq!(outcome, Err(SocketError::TimedOut));
    let took_ns = world.now_ns - start_ns;
    assert!((CONNECT_NS_MAX..CONNECT_NS_MAX + SECOND_NS).contains(&took_ns), "took {took_ns} ns");
}

#[test]
fn there_can_be_no_such_peer() {
    let world = World::new(CLEAN, 6);
    let left = world.left();
    let outcome = |address, port| socket(&left).connect(address, port);
    assert_eq!(outcome(Ipv4Addr::new(11, 0, 0, 1), 9), Err(SocketError::Unreachable));
    assert_eq!(outcome(Ipv4Addr::new(10, 255, 255, 255), 9), Err(SocketError::Unreachable));
    assert_eq!(outcome(Ipv4Addr::BROADCAST, 9), Err(SocketError::Unreachable));
    assert_eq!(outcome(Ipv4Addr::new(224, 0, 0, 1), 9), Err(SocketError::Unreachable));
    assert_eq!(outcome(RIGHT, 0), Err(SocketError::Refused));
    let bound = socket(&left);
    bound.bind(Ipv4Addr::LOCALHOST, 0, false).unwrap();
    assert_eq!(bound.connect(RIGHT, 9), Err(SocketError::Invalid));
}

#[test]
fn names_are_given_once() {
    let world = World::new(CLEAN, 7);
    let left = world.left();
    let bind = |address, port, reuse| {
        let socket = socket(&left);
        socket.bind(address, port, reuse).map(|()| socket)
    };
    let first = bind(ANY, 80, true).unwrap();
    assert_eq!(first.bind(ANY, 81, true), Err(SocketError::Invalid));
    assert_eq!(bind(RIGHT, 81, false).err(), Some(SocketError::AddressNotAvailable));
    assert_eq!(bind(ANY, 80, false).err(), Some(SocketError::AddressInUse));
    assert_eq!(bind(LEFT, 80, false).err(), Some(SocketError::AddressInUse));
    let second = bind(LEFT, 80, true).unwrap();
    first.listen(1).unwrap();
    assert_eq!(second.listen(1), Err(SocketError::AddressInUse));
    assert_eq!(bind(ANY, 80, true).err(), Some(SocketError::AddressInUse));
    drop((first, second));
    // Different addresses are different names.
    let (loopback, own) = (bind(Ipv4Addr::LOCALHOST, 80, false).unwrap(), bind(LEFT, 80, false).unwrap());
    loopback.listen(1).unwrap();
    own.listen(1).unwrap();
    // The node's own ports are nobody else's, in either direction.
    let sizes = coppice_endpoint::BufferSizes { receive: 10_000, transmit: 10_000 };
    assert!(left.listen(80, 1, sizes).is_err());
    let _nodes = left.listen(7003, 1, sizes).unwrap();
    assert_eq!(bind(ANY, 7003, true).err(), Some(SocketError::AddressInUse));
    let config = coppice_endpoint::UserConfig {
        buffer_bytes: 1 << 20,
        reserved_ports: 7001..=7003,
        wipe: |bytes| bytes.fill(0),
    };
    left.set_user_config(config);
    assert_eq!(bind(ANY, 7001, true).err(), Some(SocketError::AddressInUse));
    assert!(bind(ANY, 7004, true).is_ok());
}

#[test]
fn a_reset_gives_what_came_before_it_then_one_error_then_the_end() {
    let mut world = World::new(CLEAN, 8);
    let (left, right) = connection(&mut world);
    let left = run(&mut world, async move {
        send(&right, 0, 100, 100).await.unwrap();
        until(&left, |ready| ready.readable).await;
        right.set_linger(true);
        drop(right);
        until(&left, |ready| ready.error).await;
        left
    });
    assert!(left.readiness().hang_up);
    assert_eq!(left.peer(), None);
    assert_eq!(left.receive(&mut [0; 200], false), Ok(100));
    assert_eq!(left.receive(&mut [0; 200], false), Err(SocketError::Reset));
    assert_eq!(left.receive(&mut [0; 200], false), Ok(0));
    assert_eq!(left.send(b"x"), Err(SocketError::Closed));
    assert_eq!(left.shutdown(true, true), Err(SocketError::NotConnected));
    assert_eq!((world.left().user_sockets(), world.right().user_sockets()), (1, 0));
}

#[test]
fn a_socket_closed_with_something_unread_resets_its_peer() {
    let mut world = World::new(CLEAN, 9);
    let (left, right) = connection(&mut world);
    let error = run(&mut world, async move {
        send(&left, 0, 100, 100).await.unwrap();
        until(&right, |ready| ready.readable).await;
        drop(right);
        until(&left, |ready| ready.error).await;
        left.take_error()
    });
    assert_eq!(error, Some(SocketError::Reset));
}

#[test]
fn a_peer_that_is_gone_resets_who_sends_to_it() {
    let mut world = World::new(CLEAN, 10);
    let (left, right) = connection(&mut world);
    let left = run(&mut world, async move {
        drop(right);
        until(&left, |ready| ready.read_hang_up).await;
        left
    });
    assert_eq!(left.receive(&mut [0; 200], false), Ok(0));
    // As on Linux: the first goes out, and the answer to it is a reset of a connection whose peer had ended it.
    assert_eq!(left.send(b"anybody?"), Ok(8));
    let left = run(&mut world, async move {
        until(&left, |ready| ready.hang_up).await;
        left
    });
    assert_eq!(left.send(b"anybody?"), Err(SocketError::Closed));
}

#[test]
fn a_silent_peer_is_given_up_while_something_is_on_its_way_to_it() {
    let mut world = World::new(CLEAN, 11);
    let (left, right) = connection(&mut world);
    world.lose(1000);
    world.idle(1000 * SECOND_NS);
    assert_eq!(left.readiness(), OPEN);
    let start_ns = world.now_ns;
    let error = run(&mut world, async move {
        send(&left, 0, 100, 100).await.unwrap();
        until(&left, |ready| ready.error).await;
        left.receive(&mut [0], false)
    });
    assert_eq!(error, Err(SocketError::TimedOut));
    assert!(world.now_ns - start_ns < UNACKNOWLEDGED_NS_MAX + SECOND_NS);
    drop(right);
}

/// A program that only listens to its peer would never find out.
#[test]
fn a_peer_that_is_known_to_be_gone_is_not_waited_for() {
    let mut world = World::new(CLEAN, 11);
    let (left, right) = connection(&mut world);
    let (stack, tag) = (world.left(), |job| JobKey([3; 32]).network_tag(JobId(job)));
    world.lose(1000);
    // Of another job, and of another node.
    stack.break_off(tag(2), JobNode(1));
    stack.break_off(tag(1), JobNode(2));
    world.idle(1000 * SECOND_NS);
    assert_eq!(left.readiness(), OPEN);
    stack.break_off(tag(1), JobNode(1));
    let start_ns = world.now_ns;
    let error = run(&mut world, async move {
        until(&left, |ready| ready.error).await;
        left.receive(&mut [0], false)
    });
    assert_eq!(error, Err(SocketError::TimedOut));
    assert!(world.now_ns - start_ns < SECOND_NS);
    drop(right);
}

#[test]
fn the_end_may_be_waited_for_as_long_as_it_takes() {
    let mut world = World::new(CLEAN, 12);
    let (left, right) = connection(&mut world);
    left.shutdown(false, true).unwrap();
    world.idle(1000 * SECOND_NS);
    assert!(!left.readiness().hang_up);
    let received = run(&mut world, async move {
        send(&right, 0, 10, 10).await.unwrap();
        drop(right);
        receive(&left, 10).await
    });
    assert_eq!(received, Ok(10));
}

#[test]
fn a_burst_of_connections_is_not_refused() {
    let mut world = World::new(CLEAN, 13);
    let (left, right) = (world.left(), world.right());
    let listening = listener(&right, 7, 64);
    let made = Rc::new(Cell::new(0));
    for _ in 0..64 {
        let (left, made) = (left.clone(), Rc::clone(&made));
        world.spawn(async move {
            let socket = connect(&left, RIGHT, 7).await.unwrap();
            made.set(made.get() + 1);
            assert_eq!(receive(&socket, 100).await, Ok(10));
        });
    }
    // All of them at once, before anybody accepts: no connection had to ask twice.
    world.idle(SECOND_NS / 1000);
    assert_eq!(made.get(), 64);
    world.spawn(async move {
        for _ in 0..64 {
            send(&accept(&listening).await, 0, 10, 10).await.unwrap();
        }
    });
    world.run(SECOND_NS);
    world.idle(SECOND_NS);
    assert_eq!((left.user_sockets(), right.user_sockets()), (0, 0));
}

#[test]
fn connections_beyond_the_backlog_wait_their_turn() {
    let mut world = World::new(CLEAN, 14);
    let (left, right) = (world.left(), world.right());
    let listening = listener(&right, 7, 2);
    for _ in 0..10 {
        let left = left.clone();
        world.spawn(async move {
            let socket = connect(&left, RIGHT, 7).await.unwrap();
            assert_eq!(receive(&socket, 100).await, Ok(10));
        });
    }
    world.idle(SECOND_NS / 1000);
    assert_eq!(right.user_sockets(), 1 + 2);
    world.spawn(async move {
        for _ in 0..10 {
            send(&accept(&listening).await, 0, 10, 10).await.unwrap();
        }
    });
    world.run(60 * SECOND_NS);
}

#[test]
fn a_listener_that_goes_resets_who_waited() {
    let mut world = World::new(CLEAN, 15);
    let (left, right) = (world.left(), world.right());
    let listening = listener(&right, 7, 5);
    let error = run(&mut world, async move {
        let socket = connect(&left, RIGHT, 7).await.unwrap();
        drop(listening);
        until(&socket, |ready| ready.error).await;
        assert_eq!(connect(&left, RIGHT, 7).await.err(), Some(SocketError::Refused));
        socket.take_error()
    });
    assert_eq!(error, Some(SocketError::Reset));
    world.idle(SECOND_NS);
    assert_eq!(world.right().user_sockets(), 0);
}

#[test]
fn a_port_can_be_listened_at_again_at_once_if_that_is_wanted() {
    let mut world = World::new(CLEAN, 16);
    let (left, right) = connection(&mut world);
    // The connection has the port, its listener is gone.
    let again = socket(&world.right());
    assert_eq!(again.bind(ANY, 7, false), Err(SocketError::AddressInUse));
    again.bind(ANY, 7, true).unwrap();
    again.listen(1).unwrap();
    let stack = world.left();
    let answer = run(&mut world, async move {
        let more = connect(&stack, RIGHT, 7).await.unwrap();
        send(&accept(&again).await, 0, 3, 3).await.unwrap();
        let answer = receive_exactly(&more, 3).await;
        send(&left, 0, 3, 3).await.unwrap();
        assert_eq!(receive_exactly(&right, 3).await, answer);
        answer
    });
    assert_eq!(answer, [0, 1, 2]);
}

#[test]
fn a_listener_stops_when_it_is_shut_down() {
    let mut world = World::new(CLEAN, 17);
    let (left, right) = (world.left(), world.right());
    let outcome = run(&mut world, async move {
        let listening = listener(&right, 7, 5);
        assert!(listening.is_listening());
        listening.shutdown(false, true).unwrap();
        assert!(listening.is_listening());
        listening.shutdown(true, false).unwrap();
        let ready = listening.readiness();
        assert!(ready.hang_up && ready.writable && !ready.readable && !listening.is_listening());
        assert_eq!(listening.accept().err(), Some(SocketError::Invalid));
        assert_eq!(connect(&left, RIGHT, 7).await.err(), Some(SocketError::Refused));
        // It has its name still, and can start again.
        listening.listen(1).unwrap();
        connect(&left, RIGHT, 7).await.map(drop)
    });
    assert_eq!(outcome, Ok(()));
}

#[test]
fn keep_alive_finds_a_peer_that_was_restarted() {
    let mut world = World::new(CLEAN, 18);
    let (left, right) = connection(&mut world);
    left.set_keep_alive(Some(5 * SECOND_NS));
    std::mem::forget(right);
    world.restart_right();
    let start_ns = world.now_ns;
    let error = run(&mut world, async move {
        until(&left, |ready| ready.error).await;
        left.take_error()
    });
    assert_eq!(error, Some(SocketError::Reset));
    assert!(world.now_ns - start_ns < 6 * SECOND_NS);
}

#[test]
fn nothing_can_be_done_with_sockets_that_are_not_connected() {
    let world = World::new(CLEAN, 19);
    let fresh = socket(&world.left());
    let listening = listener(&world.left(), 7, 1);
    for socket in [&fresh, &listening] {
        assert_eq!(socket.send(b"x"), Err(SocketError::Closed));
        assert_eq!(socket.receive(&mut [0], false), Err(SocketError::NotConnected));
        assert_eq!(socket.receive(&mut [0], true), Err(SocketError::NotConnected));
        assert_eq!((socket.peer(), socket.received(), socket.unsent(), socket.capacities()), (None, 0, 0, None));
    }
    assert_eq!(fresh.accept().err(), Some(SocketError::Invalid));
    assert_eq!(fresh.shutdown(true, true), Err(SocketError::NotConnected));
    assert_eq!(listening.connect(RIGHT, 7), Err(SocketError::AlreadyConnected));
    assert_eq!(listening.bind(ANY, 9, false), Err(SocketError::Invalid));
}

#[test]
fn sockets_can_be_handed_to_other_cores() {
    fn check<T: Send + Sync>(_: &T) {}
    let world = World::new(CLEAN, 20);
    check(&socket(&world.left()));
}
