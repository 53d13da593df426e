//! The node's own datagrams: between ports of the same number, as many as there is room for.

use std::future::poll_fn;
use std::net::Ipv4Addr;
use std::task::Poll;

use coppice_endpoint::limits::DATAGRAM_OVERHEAD_BYTES;
use coppice_endpoint::testing::{CLEAN, End, World};
use coppice_endpoint::{DatagramPort, NetError};

const PORT: u16 = 7005;
const QUEUE_BYTES: usize = 64 * 1024;

async fn next(port: &DatagramPort<End>) -> (Ipv4Addr, Vec<u8>) {
    poll_fn(|context| {
        port.register(context.waker());
        port.receive().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

fn run<R: 'static>(world: &mut World, program: impl Future<Output = R> + 'static) -> R {
    world.finish(program, 10_000_000_000)
}

#[test]
fn they_go_there_and_back_and_to_no_other_port() {
    let mut world = World::new(CLEAN, 1);
    let (left, right) = (world.left(), world.right());
    let (asking, answering) = (left.open_port(PORT, QUEUE_BYTES).unwrap(), right.open_port(PORT, QUEUE_BYTES).unwrap());
    let other = right.open_port(PORT + 1, QUEUE_BYTES).unwrap();
    assert_eq!(left.open_port(PORT, QUEUE_BYTES).err(), Some(NetError::PortInUse));
    let (asker, answerer) = (left.address(), right.address());
    run(&mut world, async move {
        asking.send(answerer, vec![7; 1400]);
        assert_eq!(next(&answering).await, (asker, vec![7; 1400]));
        answering.send(asker, Vec::new());
        assert_eq!(next(&asking).await, (answerer, Vec::new()));
        assert_eq!(other.receive(), None);
        // A port that was closed can be opened, and has nothing of before.
        asking.send(answerer, vec![8]);
        drop(answering);
        let again = right.open_port(PORT, QUEUE_BYTES).unwrap();
        asking.send(answerer, vec![9]);
        while next(&again).await.1 != [9] {}
    });
}

#[test]
fn what_there_is_no_room_for_is_lost_and_room_is_told() {
    let mut world = World::new(CLEAN, 1);
    let (left, right) = (world.left(), world.right());
    let (sender, receiver) = (left.open_port(PORT, QUEUE_BYTES).unwrap(), right.open_port(PORT, QUEUE_BYTES).unwrap());
    let to = right.address();
    const BYTES: usize = 1000;
    let most = QUEUE_BYTES / (BYTES + DATAGRAM_OVERHEAD_BYTES);
    run(&mut world, async move {
        for number in 0..2 * most {
            assert_eq!(sender.has_room(BYTES), number < most, "{number}");
            sender.send(to, vec![number as u8; BYTES]);
        }
        poll_fn(|context| {
            sender.register(context.waker());
            if sender.has_room(QUEUE_BYTES - DATAGRAM_OVERHEAD_BYTES) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        assert_eq!(next(&receiver).await.1, [0; BYTES]);
        let mut came = 1;
        while came < most {
            assert_eq!(next(&receiver).await.1[0], came as u8);
            came += 1;
        }
        assert_eq!(receiver.receive(), None);
    });
}
