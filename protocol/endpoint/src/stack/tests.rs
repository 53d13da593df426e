//! What connections leave in their buffers.

use std::cell::Cell;
use std::rc::Rc;

use crate::testing::{CLEAN, End, Faults, RIGHT, World};
use crate::{BufferSizes, Stack, TcpStream};

const SECOND_NS: u64 = 1_000_000_000;

/// What is sent, over and over.
const SECRET: u8 = 0xa5;

/// More than fits into a buffer, and no multiple of it.
const TOTAL: usize = 300_123;

const SIZES: BufferSizes = BufferSizes { receive: 60_000, transmit: 50_000 };

/// How much of the secret is in the connections' buffers, roughly.
fn secrets(stack: &Stack<End>) -> usize {
    let listed: String =
        stack.with_net(|net| net.table.iter_mut().map(|(_, entry)| format!("{:?}", entry.set)).collect());
    listed.matches(&format!("{SECRET}, {SECRET}, {SECRET}, {SECRET}")).count() * 4
}

fn scrub(stack: &Stack<End>, world: &World) {
    stack.scrub(world.now_ns, |bytes| bytes.fill(0));
}

/// Reads `total` bytes, leaving nothing behind.
async fn receive(stream: &TcpStream<End>, mut total: usize) {
    while total > 0 {
        let readable = std::future::poll_fn(|context| stream.poll_readable(context)).await;
        assert_eq!(readable, Ok(true));
        let taken = stream.take_in_place(|bytes| {
            // Not all at once.
            let length = bytes.len().min(7777);
            let taken = &mut bytes[..length];
            assert!(taken.iter().all(|byte| *byte == SECRET));
            taken.fill(0);
            (length, length)
        });
        total -= taken.unwrap().unwrap();
    }
}

/// Sends the secret from left to right, and returns both ends of the connection.
fn exchange(world: &mut World) -> (TcpStream<End>, TcpStream<End>) {
    let (left, right) = (world.left(), world.right());
    let listener = right.listen(7, 1, SIZES).unwrap();
    let (sender, receiver) = (Rc::new(Cell::new(None)), Rc::new(Cell::new(None)));
    let (from, to) = (Rc::clone(&sender), Rc::clone(&receiver));
    world.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        receive(&stream, TOTAL).await;
        to.set(Some(stream));
    });
    world.spawn(async move {
        let stream = left.connect(RIGHT, 7, SIZES).await.unwrap();
        stream.write_all(&vec![SECRET; TOTAL]).await.unwrap();
        stream.flush().await.unwrap();
        from.set(Some(stream));
    });
    world.run(100 * SECOND_NS);
    (sender.take().unwrap(), receiver.take().unwrap())
}

#[test]
fn nothing_is_left_of_what_was_sent_and_taken() {
    let bad = Faults { lost_per_mille: 50, late_per_mille: 100, ..CLEAN };
    for (faults, seed) in [(CLEAN, 1), (bad, 2), (bad, 3), (bad, 4)] {
        let mut world = World::new(faults, seed);
        let ends = exchange(&mut world);
        let (left, right) = (world.left(), world.right());
        assert_eq!(secrets(&right), 0);
        assert!(secrets(&left) > SIZES.transmit / 2);
        scrub(&left, &world);
        assert_eq!(secrets(&left), 0);
        drop(ends);
    }
}

#[test]
fn what_is_not_acknowledged_is_left_alone_and_arrives() {
    let mut world = World::new(CLEAN, 5);
    let (sender, receiver) = exchange(&mut world);
    let left = world.left();
    world.spawn(async move {
        sender.write_all(&[SECRET; 1000]).await.unwrap();
        sender.flush().await.unwrap();
        std::mem::forget(sender);
    });
    world.lose(1000);
    world.idle(SECOND_NS / 100);
    scrub(&left, &world);
    assert_eq!(secrets(&left), 1000);
    world.lose(0);
    world.spawn(async move { receive(&receiver, 1000).await });
    world.run(100 * SECOND_NS);
    scrub(&left, &world);
    assert_eq!(secrets(&left), 0);
}

#[test]
fn a_connection_that_nobody_holds_goes_with_its_buffers() {
    let mut world = World::new(CLEAN, 6);
    let (sender, receiver) = exchange(&mut world);
    let left = world.left();
    world.lose(1000);
    world.spawn(async move {
        sender.write_all(&[SECRET; 1000]).await.unwrap();
        drop(sender);
    });
    world.idle(SECOND_NS);
    assert!(secrets(&left) >= 1000);
    scrub(&left, &world);
    assert_eq!(left.with_net(|net| net.table.len()), 0);
    drop(receiver);
}
