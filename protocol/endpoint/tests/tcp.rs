//! Connections between two stacks, over good and bad wires.

#![expect(clippy::unwrap_used, reason = "helpers of a test fail as tests do")]

use std::cell::Cell;
use std::rc::Rc;

use coppice_endpoint::testing::{CLEAN, End, Faults, RIGHT, SIZES, World};
use coppice_endpoint::{BufferSizes, NetError, Stack, TcpStream};

const SECOND_NS: u64 = 1_000_000_000;

/// The bytes a sender sends, which a receiver can check anywhere in the stream.
fn pattern(position: usize) -> u8 {
    (position / 251 + position) as u8
}

async fn send(stream: TcpStream<End>, total: usize, chunk: usize) {
    let mut sent = 0;
    while sent < total {
        let bytes: Vec<u8> = (sent..total.min(sent + chunk)).map(pattern).collect();
        stream.write_all(&bytes).await.unwrap();
        sent += bytes.len();
    }
    stream.close();
}

async fn receive(stream: TcpStream<End>, total: usize, chunk: usize) {
    let mut buffer = vec![0; chunk];
    let mut received = 0;
    loop {
        let count = stream.read(&mut buffer).await.unwrap();
        if count == 0 {
            break;
        }
        assert!(buffer[..count].iter().enumerate().all(|(index, byte)| *byte == pattern(received + index)));
        received += count;
    }
    assert_eq!(received, total);
}

/// Sends `total` bytes each way at once and returns when the last byte had arrived, ns.
fn exchange(faults: Faults, seed: u64, total: usize, sizes: BufferSizes) -> World {
    let mut world = World::new(faults, seed);
    let (left, right) = (world.left(), world.right());
    let listener = right.listen(7, 4, sizes).unwrap();
    world.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        // One task does both here, one after the other; the left end does both at once.
        let reader = stream.clone();
        let both = futures_join(send(stream, total, 100_000), receive(reader, total, 30_000));
        both.await;
    });
    world.spawn(async move {
        let stream = left.connect(RIGHT, 7, sizes).await.unwrap();
        let reader = stream.clone();
        futures_join(send(stream, total, 65_536), receive(reader, total, 200_000)).await;
    });
    world.run(600 * SECOND_NS);
    world
}

/// Polls both until both are done.
async fn futures_join(first: impl Future<Output = ()>, second: impl Future<Output = ()>) {
    let (mut first, mut second) = (Box::pin(first), Box::pin(second));
    let (mut first_done, mut second_done) = (false, false);
    std::future::poll_fn(|context| {
        first_done = first_done || first.as_mut().poll(context).is_ready();
        second_done = second_done || second.as_mut().poll(context).is_ready();
        if first_done && second_done { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[test]
fn bulk_runs_at_window_speed() {
    let world = exchange(CLEAN, 1, 8 << 20, SIZES);
    // 8 MiB in windows of 256 KiB, one per round trip of 40 µs and a little more: far below a second.
    assert!(world.now_ns < SECOND_NS / 50, "took {} µs", world.now_ns / 1000);
    // A frame of 9000 bytes each way for the data, and not even one acknowledgement per data frame on top.
    assert!(world.frames < 2 * 2 * (8 << 20) / 8900, "took {} frames", world.frames);
    assert!(world.polls < 2 * world.frames, "{} polls for {} frames", world.polls, world.frames);
}

#[test]
fn bulk_survives_loss() {
    for seed in 0..3 {
        let world = exchange(Faults { lost_per_mille: 20, ..CLEAN }, seed, 4 << 20, SIZES);
        assert!(world.now_ns < 60 * SECOND_NS, "took {} ms", world.now_ns / 1_000_000);
    }
}

#[test]
fn bulk_survives_reordering() {
    let world = exchange(Faults { late_per_mille: 50, ..CLEAN }, 3, 4 << 20, SIZES);
    assert!(world.now_ns < 10 * SECOND_NS, "took {} ms", world.now_ns / 1_000_000);
}

#[test]
fn bulk_survives_loss_and_reordering_with_small_buffers() {
    let sizes = BufferSizes { receive: 20_000, transmit: 12_000 };
    exchange(Faults { lost_per_mille: 10, late_per_mille: 30, ..CLEAN }, 4, 1 << 20, sizes);
}

#[test]
fn a_small_transmit_ring_is_waited_for() {
    exchange(Faults { ring: 2, ..CLEAN }, 5, 1 << 20, SIZES);
}

#[test]
fn a_slow_reader_stops_the_writer_and_loses_nothing() {
    let mut world = World::new(CLEAN, 6);
    let (left, right) = (world.left(), world.right());
    let listener = right.listen(7, 1, BufferSizes { receive: 50_000, transmit: 50_000 }).unwrap();
    let accepted = Rc::new(Cell::new(None));
    let slot = Rc::clone(&accepted);
    world.spawn(async move { slot.set(Some(listener.accept().await.unwrap().0)) });
    let sender = Rc::new(Cell::new(None));
    let slot = Rc::clone(&sender);
    world.spawn(async move { slot.set(Some(left.connect(RIGHT, 7, SIZES).await.unwrap())) });
    world.run(SECOND_NS);
    let (sender, receiver) = (sender.take().unwrap(), accepted.take().unwrap());
    world.spawn(send(sender, 1_000_000, 65_536));
    // The window is full, then the probes go on at the pace of retransmissions.
    let polls = world.polls;
    world.idle(10 * SECOND_NS);
    assert!(world.polls - polls < 300, "{} polls while nobody reads", world.polls - polls);
    world.spawn(receive(receiver, 1_000_000, 1000));
    let start_ns = world.now_ns;
    world.run(60 * SECOND_NS);
    assert!(world.now_ns - start_ns < SECOND_NS, "took {} ms", (world.now_ns - start_ns) / 1_000_000);
}

async fn echo_once(stream: TcpStream<End>) {
    let mut byte = [0; 100];
    let count = stream.read(&mut byte).await.unwrap();
    stream.write_all(&byte[..count]).await.unwrap();
}

#[test]
fn a_round_trip_takes_two_frames() {
    let mut world = World::new(CLEAN, 7);
    let (left, right) = (world.left(), world.right());
    let listener = right.listen(7, 1, SIZES).unwrap();
    world.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        for _ in 0..100 {
            echo_once(stream.clone()).await;
        }
        assert_eq!(stream.read(&mut [0]).await, Ok(0));
    });
    world.spawn(async move {
        let stream = left.connect(RIGHT, 7, SIZES).await.unwrap();
        for _ in 0..100 {
            stream.write_all(&[1; 100]).await.unwrap();
            assert_eq!(stream.read(&mut [0; 100]).await, Ok(100));
        }
    });
    world.run(SECOND_NS);
    assert!(world.frames < 212, "took {} frames", world.frames);
    assert!(world.now_ns < 20_000_000, "took {} µs", world.now_ns / 1000);
}

#[test]
fn many_connections_at_once() {
    let mut world = World::new(CLEAN, 8);
    let (left, right) = (world.left(), world.right());
    let sizes = BufferSizes { receive: 10_000, transmit: 10_000 };
    let listener = right.listen(7, 100, sizes).unwrap();
    let served = Rc::new(Cell::new(0));
    for _ in 0..100 {
        let (left, served) = (left.clone(), Rc::clone(&served));
        world.spawn(async move {
            let stream = left.connect(RIGHT, 7, sizes).await.unwrap();
            stream.write_all(b"hello").await.unwrap();
            assert_eq!(stream.read(&mut [0; 100]).await, Ok(5));
            served.set(served.get() + 1);
        });
    }
    world.spawn(async move {
        for _ in 0..100 {
            echo_once(listener.accept().await.unwrap().0).await;
        }
    });
    world.run(10 * SECOND_NS);
    assert_eq!(served.get(), 100);
}

/// Connects `count` times at once and returns how many were refused.
fn refusals(world: &mut World, stack: &Stack<End>, count: usize) -> usize {
    let refused = Rc::new(Cell::new(0));
    for _ in 0..count {
        let (stack, refused) = (stack.clone(), Rc::clone(&refused));
        world.spawn(async move {
            match stack.connect(RIGHT, 7, SIZES).await {
                Ok(stream) => std::mem::forget(stream),
                Err(error) => {
                    assert_eq!(error, NetError::Refused);
                    refused.set(refused.get() + 1);
                }
            }
        });
    }
    world.run(10 * SECOND_NS);
    refused.get()
}

#[test]
fn the_backlog_is_a_limit_and_refills() {
    let mut world = World::new(CLEAN, 9);
    let (left, right) = (world.left(), world.right());
    assert_eq!(refusals(&mut world, &left, 3), 3);
    let listener = Rc::new(right.listen(7, 2, SIZES).unwrap());
    assert!(matches!(right.listen(7, 1, SIZES), Err(NetError::PortInUse)));
    assert_eq!(refusals(&mut world, &left, 5), 3);
    let accepting = Rc::clone(&listener);
    world.spawn(async move {
        drop(accepting.accept().await.unwrap());
        drop(accepting.accept().await.unwrap());
    });
    world.run(SECOND_NS);
    assert_eq!(refusals(&mut world, &left, 2), 0);
    drop(listener);
    assert_eq!(refusals(&mut world, &left, 1), 1);
}

#[test]
fn an_abort_is_seen_by_the_peer() {
    let mut world = World::new(CLEAN, 10);
    let (left, right) = (world.left(), world.right());
    let listener = right.listen(7, 1, SIZES).unwrap();
    world.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        assert_eq!(stream.read(&mut [0; 10]).await, Ok(2));
        stream.abort();
        assert_eq!(stream.write(b"x").await, Err(NetError::Reset));
    });
    world.spawn(async move {
        let stream = left.connect(RIGHT, 7, SIZES).await.unwrap();
        stream.write_all(b"hi").await.unwrap();
        assert_eq!(stream.read(&mut [0; 10]).await, Err(NetError::Reset));
        assert_eq!(stream.write(b"x").await, Err(NetError::Reset));
    });
    world.run(SECOND_NS);
}

#[test]
fn what_was_written_before_a_drop_arrives() {
    let mut world = World::new(Faults { lost_per_mille: 100, ..CLEAN }, 11);
    let (left, right) = (world.left(), world.right());
    let listener = right.listen(7, 1, SIZES).unwrap();
    world.spawn(async move { receive(listener.accept().await.unwrap().0, 100_000, 9999).await });
    world.spawn(async move {
        let stream = left.connect(RIGHT, 7, SIZES).await.unwrap();
        stream.write_all(&(0..100_000).map(pattern).collect::<Vec<_>>()).await.unwrap();
    });
    world.run(60 * SECOND_NS);
}

#[test]
fn a_dead_peer_is_noticed_while_writing_and_left_alone_while_idle() {
    let mut world = World::new(CLEAN, 12);
    let (left, right) = (world.left(), world.right());
    let listener = right.listen(7, 1, SIZES).unwrap();
    let kept = Rc::new(Cell::new(None));
    let slot = Rc::clone(&kept);
    world.spawn(async move { slot.set(Some(listener.accept().await.unwrap())) });
    let client = Rc::new(Cell::new(None));
    let slot = Rc::clone(&client);
    world.spawn(async move { slot.set(Some(left.connect(RIGHT, 7, SIZES).await.unwrap())) });
    world.run(SECOND_NS);
    let stream = client.take().unwrap();
    // An idle connection costs nothing, however long.
    let polls = world.polls;
    world.idle(1000 * SECOND_NS);
    assert!(world.polls - polls < 5, "{} polls while idle", world.polls - polls);
    assert_eq!(stream.unacknowledged(), 0);
    world.lose(1000);
    world.spawn(async move {
        stream.write_all(b"anybody?").await.unwrap();
        assert_eq!(stream.flush().await, Err(NetError::Reset));
    });
    let start_ns = world.now_ns;
    world.run(2000 * SECOND_NS);
    assert!(world.now_ns - start_ns < 40 * SECOND_NS);
}

#[test]
fn keep_alive_probes_a_silent_peer_and_no_other() {
    let mut world = World::new(CLEAN, 13);
    let (left, right) = (world.left(), world.right());
    let listener = right.listen(7, 1, SIZES).unwrap();
    let kept = Rc::new(Cell::new(None));
    let slot = Rc::clone(&kept);
    world.spawn(async move { slot.set(Some(listener.accept().await.unwrap())) });
    let client = Rc::new(Cell::new(None));
    let slot = Rc::clone(&client);
    world.spawn(async move { slot.set(Some(left.connect(RIGHT, 7, SIZES).await.unwrap())) });
    world.run(SECOND_NS);
    let stream = client.take().unwrap();
    stream.set_keep_alive(Some(5 * SECOND_NS));
    world.idle(SECOND_NS);
    let frames = world.frames;
    world.idle(20 * SECOND_NS);
    assert_eq!(world.frames - frames, 8, "a probe and its answer every five seconds");
    // The peer forgets the connection without a word, as one that was restarted has.
    world.restart_right();
    world.spawn(async move { assert_eq!(stream.read(&mut [0; 1]).await, Err(NetError::Reset)) });
    let start_ns = world.now_ns;
    world.run(100 * SECOND_NS);
    assert!(world.now_ns - start_ns < 6 * SECOND_NS);
}
