//! Ends that are not heard of at once, and silence before.

use coppice_endpoint::testing::{CLEAN, World};

use crate::support::{SECOND_NS, pattern, receive_exactly, send, until};
use crate::{OPEN, connection, run};

/// smoltcp's clock stops when it is told three times that a peer still waits for the end, and nothing but that.
#[test]
fn an_end_that_is_lost_is_sent_again_whatever_the_peer_acknowledges() {
    let mut world = World::new(CLEAN, 21);
    let (left, right) = connection(&mut world);
    world.keep_frames();
    let (left, right) = run(&mut world, async move {
        send(&right, 0, 10, 10).await.unwrap();
        assert_eq!(receive_exactly(&left, 10).await.len(), 10);
        (left, right)
    });
    world.idle(SECOND_NS);
    // The last one is left's, that it has them.
    let acknowledgement = world.take_frames().pop().unwrap();
    world.lose(1000);
    right.shutdown(false, true).unwrap();
    world.idle(1_000_000);
    world.lose(0);
    (0..3).for_each(|_| world.put_right(acknowledgement.clone()));
    let left = run(&mut world, async move {
        until(&left, |ready| ready.read_hang_up).await;
        left
    });
    assert!(!left.readiness().error && left.peer().is_some());
    assert_eq!((left.receive(&mut [0; 9], false), right.take_error()), (Ok(0), None));
}

/// It stops, too, when the peer's room ends within what is sent again, and there is room some time later. Signs of life
/// that the sender asks for meanwhile do not get among the bytes.
#[test]
fn bytes_are_sent_again_when_there_is_room_for_them() {
    for asks_after_ns in [None, Some(SECOND_NS / 100)] {
        bytes_wait_for_room(asks_after_ns);
    }
}

fn bytes_wait_for_room(asks_after_ns: Option<u64>) {
    const ROOM: usize = 84;
    let mut world = World::new(CLEAN, 23);
    let (left, right) = connection(&mut world);
    right.set_keep_alive(asks_after_ns);
    let total = left.capacities().unwrap().0 + 4000;
    let first = total - 4000 - ROOM;
    world.keep_frames();
    let (left, right) = run(&mut world, async move {
        send(&right, 0, first, 4096).await.unwrap();
        (left, right)
    });
    right.set_keep_alive(None);
    world.idle(SECOND_NS);
    right.set_keep_alive(asks_after_ns);
    // The last one is left's, that it has so much.
    let acknowledgement = world.take_frames().pop().unwrap();
    world.lose(1000);
    let rest: Vec<u8> = (first..total).map(pattern).collect();
    assert_eq!(right.send(&rest), Ok(rest.len()));
    world.idle(1_000_000);
    world.lose(0);
    (0..3).for_each(|_| world.put_right(acknowledgement.clone()));
    // It says so, and is not asked yet whether there is more room.
    world.idle(10_000_000);
    assert_eq!(left.received(), first + ROOM);
    let received = run(&mut world, async move { receive_exactly(&left, total).await });
    assert!(received.iter().enumerate().all(|(index, byte)| *byte == pattern(index)));
    world.idle(SECOND_NS);
    assert_eq!((right.unsent(), right.take_error()), (0, None));
}

#[test]
fn a_connection_that_was_silent_for_long_ends_as_others_do() {
    let mut world = World::new(CLEAN, 22);
    let (left, right) = connection(&mut world);
    world.idle(1000 * SECOND_NS);
    left.set_keep_alive(Some(SECOND_NS));
    world.idle(100 * SECOND_NS);
    assert_eq!((left.readiness(), right.readiness()), (OPEN, OPEN));
    left.set_keep_alive(None);
    world.idle(1000 * SECOND_NS);
    right.shutdown(false, true).unwrap();
    world.idle(SECOND_NS);
    assert!(left.readiness().read_hang_up && !left.readiness().error && right.take_error().is_none());
    world.idle(1000 * SECOND_NS);
    drop(left);
    world.idle(SECOND_NS);
    assert_eq!(right.take_error(), None);
}
