//! What sockets say of peers that take nothing more, between nodes and within one.

use std::net::Ipv4Addr;

use coppice_endpoint::SocketError;
use coppice_endpoint::testing::{CLEAN, JOB_LEFT as LEFT, JOB_RIGHT as RIGHT, World};

use super::run;
use super::support::{SECOND_NS, Socket, accept, connect, listener};

/// A connection from left to right, or within left.
fn connection(world: &mut World, peer: Ipv4Addr) -> (Socket, Socket) {
    let (left, right) = (world.left(), if peer == LEFT { world.left() } else { world.right() });
    run(world, async move {
        let listener = listener(&right, 7, 1);
        let connected = connect(&left, peer, 7).await.unwrap();
        (connected, accept(&listener).await)
    })
}

#[test]
fn what_comes_behind_the_end_is_told_to_who_sends() {
    for peer in [RIGHT, LEFT] {
        let mut world = World::new(CLEAN, 6);
        let (left, right) = connection(&mut world, peer);
        right.shutdown(false, true).unwrap();
        world.idle(SECOND_NS);
        assert_eq!(left.send(b"never read"), Ok(10));
        world.idle(SECOND_NS);
        drop(right);
        world.idle(SECOND_NS);
        assert!(left.readiness().error);
        assert_eq!(left.receive(&mut [0; 9], false), Ok(0));
        assert_eq!(left.receive(&mut [0; 9], true), Ok(0));
        assert_eq!(left.take_error(), Some(SocketError::Closed));
        assert_eq!(left.send(b"x"), Err(SocketError::Closed));
    }
}

#[test]
fn the_first_bytes_for_a_peer_that_is_gone_are_sent() {
    let mut world = World::new(CLEAN, 7);
    let (left, right) = connection(&mut world, LEFT);
    drop(right);
    assert_eq!(left.receive(&mut [0; 9], false), Ok(0));
    assert_eq!((left.send(b""), left.readiness().error), (Ok(0), false));
    assert_eq!((left.send(&[1; 1000]), left.readiness().error), (Ok(1000), true));
    assert_eq!(left.send(b"x"), Err(SocketError::Closed));
    assert_eq!((left.send(b"x"), left.take_error()), (Err(SocketError::Closed), None));
}

#[test]
fn what_is_shut_down_in_both_directions_answers_with_a_reset() {
    let mut world = World::new(CLEAN, 8);
    let (left, right) = connection(&mut world, LEFT);
    right.shutdown(true, true).unwrap();
    assert_eq!(left.send(b"too late"), Ok(8));
    assert_eq!((left.take_error(), right.take_error()), (Some(SocketError::Closed), Some(SocketError::Reset)));
    assert_eq!((right.received(), left.receive(&mut [0; 9], false)), (0, Ok(0)));
    assert_eq!(left.shutdown(false, true), Err(SocketError::NotConnected));
}

#[test]
fn a_connection_that_is_over_in_both_directions_has_no_peer() {
    for (seed, peer) in [(9, RIGHT), (10, LEFT)] {
        for first in [true, false] {
            let mut world = World::new(CLEAN, seed);
            let (left, right) = connection(&mut world, peer);
            let (stays, goes) = if first { (left, right) } else { (right, left) };
            let name = goes.local();
            stays.shutdown(true, true).unwrap();
            world.idle(SECOND_NS);
            assert_eq!((stays.peer(), goes.peer()), (Some(name), Some(stays.local())));
            drop(goes);
            world.idle(SECOND_NS);
            assert_eq!(stays.peer(), None, "{peer}, {first}");
            assert_eq!(stays.shutdown(false, true), Err(SocketError::NotConnected));
        }
    }
}
