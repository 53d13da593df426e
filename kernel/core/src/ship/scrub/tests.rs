//! What is waited for when a process is gone, and for how long.

use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicU64, Ordering};

use coppice_endpoint::{SocketError, TcpSocket, UserConfig};
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::limits::BULK_BYTES_MAX;
use coppice_protocol::session::{Channel, Frame};
use coppice_protocol::ship::{Call, Handle, Reply, Stream};

use crate::executor::{Elapsed, now_ns, run_to_end, sleep, spawn, timeout};
use crate::limits::{DELIVER_NS_MAX, DELIVER_SAID_NS, SCRUB_PAUSE_NS, SCRUB_WAIT_NS_MAX};
use crate::net::testing::{End, Net, Peer, Port, credentials};
use crate::ship::{Client, Delivery, Ship};

const MS: u64 = 1_000_000;

struct Stage {
    net: Net,
    port: Port,
    ship: Ship,
    client: Client,
}

fn stage() -> Stage {
    let net = Net::new();
    let port = net.listen(Channel::Ship);
    let ship = Ship::new();
    let client = ship.client(JobId(7), Rank(1));
    let (connected, dial) = (ship.clone(), net.dial());
    assert!(spawn(async move { connected.keep_connected(dial, credentials()).await }).is_ok());
    Stage { net, port, ship, client }
}

fn read() -> Call {
    Call::Read { file: Handle(4), offset: 0, length: 10 }
}

/// Makes a call, and is gone while it is under way. The request, as it arrived.
async fn die_in_a_call(peer: &mut Peer, client: &Client) -> Frame {
    assert_eq!(timeout(MS, client.call(read(), Vec::new())).await, Err(Elapsed));
    client.release();
    peer.receive().await.unwrap()
}

/// How long it takes to leave nothing behind, ns.
async fn time_to_scrub(ship: &Ship) -> u64 {
    let since_ns = now_ns();
    ship.scrub(&|| ()).await;
    now_ns() - since_ns
}

#[test]
fn replies_that_nobody_waits_for_are_waited_for() {
    let Stage { port, ship, client, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = port.accept().await;
        let request = die_in_a_call(&mut peer, &client).await;
        let answering = spawn(async move {
            sleep(50 * MS).await;
            peer.send(request.id, &Reply::Data, &[1; 10]).await;
            // The connection is the same as before.
            let next = peer.receive().await.unwrap();
            peer.send(next.id, &Reply::Done, &[]).await;
        });
        assert!(answering.is_ok());
        let took_ns = time_to_scrub(&ship).await;
        assert!((50 * MS..51 * MS).contains(&took_ns), "took {took_ns} ns");
        assert_eq!(client.call(read(), Vec::new()).await, Ok((Reply::Done, Vec::new())));
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn a_connection_that_brings_no_reply_is_made_anew_in_time() {
    let Stage { port, ship, client, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = port.accept().await;
        die_in_a_call(&mut peer, &client).await;
        let took_ns = time_to_scrub(&ship).await;
        assert!((SCRUB_WAIT_NS_MAX..SCRUB_WAIT_NS_MAX + MS).contains(&took_ns), "took {took_ns} ns");
        assert!(peer.receive().await.is_err());
        port.accept().await;
        // Nothing of the old connection is waited for.
        assert!(time_to_scrub(&ship).await < MS);
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn so_is_one_that_takes_no_requests() {
    let Stage { port, ship, client, .. } = stage();
    let result = run_to_end(async move {
        let _peer = port.accept().await;
        for _ in 0..8 {
            let call = client.call(Call::Print(Stream::Output), vec![1; BULK_BYTES_MAX]);
            assert_eq!(timeout(MS, call).await, Err(Elapsed));
        }
        client.release();
        let took_ns = time_to_scrub(&ship).await;
        assert!((SCRUB_WAIT_NS_MAX..SCRUB_WAIT_NS_MAX + MS).contains(&took_ns), "took {took_ns} ns");
        port.accept().await;
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn without_a_connection_nothing_is_waited_for() {
    let ship = Ship::new();
    let result = run_to_end(async move {
        assert_eq!(time_to_scrub(&ship).await, 0);
        let net = Net::new();
        let (connected, dial) = (ship.clone(), net.dial());
        assert!(spawn(async move { connected.keep_connected(dial, credentials()).await }).is_ok());
        sleep(MS).await;
        assert_eq!(time_to_scrub(&ship).await, 0);
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn the_card_is_waited_for_and_then_wiped_anyway() {
    let Stage { net, port, ship, .. } = stage();
    let result = run_to_end(async move {
        let _peer = port.accept().await;
        sleep(100 * MS).await;
        net.traces.busy.store(3, Ordering::Relaxed);
        assert_eq!(time_to_scrub(&ship).await, 3 * SCRUB_PAUSE_NS);
        assert_eq!(net.traces.forced.load(Ordering::Relaxed), 0);
        net.traces.busy.store(u32::MAX, Ordering::Relaxed);
        assert_eq!(time_to_scrub(&ship).await, SCRUB_WAIT_NS_MAX);
        assert_eq!(net.traces.forced.load(Ordering::Relaxed), 1);
    });
    assert_eq!(result, Ok(()));
}

/// A connection that a program of the node made to one of another node of its job, which has little room for what it
/// does not read.
async fn connected(net: &Net) -> (TcpSocket<End>, TcpSocket<End>) {
    let peer = net.enter_job();
    let little =
        UserConfig { buffer_bytes: 64 * 1024, reserved_ports: RangeInclusive::new(1, 0), wipe: |bytes| bytes.fill(0) };
    net.stack.set_user_config(little);
    let listener = TcpSocket::new(&net.stack).unwrap();
    listener.bind(Ipv4Addr::UNSPECIFIED, 9, false).unwrap();
    listener.listen(1).unwrap();
    let socket = TcpSocket::new(&net.dial.stack).unwrap();
    assert_eq!(socket.connect(peer, 9), Err(SocketError::InProgress));
    sleep(MS).await;
    (socket, listener.accept().unwrap())
}

/// What comes next.
async fn next(socket: &TcpSocket<End>, buffer: &mut [u8]) -> Result<usize, SocketError> {
    loop {
        match socket.receive(buffer, false) {
            Err(SocketError::WouldBlock) => sleep(MS).await,
            other => return other,
        }
    }
}

#[test]
fn what_a_process_sent_is_delivered_before_it_is_forgotten() {
    let Stage { net, ship, .. } = stage();
    let result = run_to_end(async move {
        let (socket, peer) = connected(&net).await;
        assert_eq!(socket.send(&[7; 10_000]), Ok(10_000));
        drop(socket);
        let read = spawn(async move {
            sleep(100 * MS).await;
            let mut bytes = vec![0; 10_000];
            let mut count = 0;
            while count < bytes.len() {
                let more = next(&peer, &mut bytes[count..]).await.unwrap();
                assert!(more > 0, "only {count} bytes came");
                count += more;
            }
            assert_eq!((&*bytes, next(&peer, &mut [0; 9]).await), (&[7; 10_000][..], Ok(0)));
        });
        assert!(read.is_ok());
        let took_ns = time_to_scrub(&ship).await;
        assert!((100 * MS..200 * MS).contains(&took_ns), "took {took_ns} ns");
        assert_eq!(net.dial.stack.user_sockets(), 0);
        sleep(MS).await;
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn a_peer_that_does_not_read_does_not_keep_the_node() {
    let Stage { net, ship, .. } = stage();
    let result = run_to_end(async move {
        let (socket, peer) = connected(&net).await;
        assert_eq!(socket.send(&[7; 10_000]), Ok(10_000));
        drop(socket);
        let (since_ns, said_ns) = (now_ns(), AtomicU64::new(0));
        let delivery = ship.scrub(&|| said_ns.store(now_ns() - since_ns, Ordering::Relaxed)).await;
        let took_ns = now_ns() - since_ns;
        assert!((DELIVER_NS_MAX..DELIVER_NS_MAX + SCRUB_WAIT_NS_MAX).contains(&took_ns), "took {took_ns} ns");
        assert_eq!(delivery, Delivery::BrokenOff);
        let said_ns = said_ns.into_inner();
        assert!((DELIVER_SAID_NS..2 * DELIVER_SAID_NS).contains(&said_ns), "said after {said_ns} ns");
        assert_eq!(net.dial.stack.user_sockets(), 0);
        // It hears that something is missing.
        assert_eq!(next(&peer, &mut [0; 10_000]).await, Ok(2048));
        assert_eq!(next(&peer, &mut [0; 10_000]).await, Err(SocketError::Reset));
    });
    assert_eq!(result, Ok(()));
}

/// Whatever it had read, and whether or not it had taken the connection: nobody waits for one who is gone.
#[test]
fn a_reader_that_has_ended_keeps_nobody() {
    for case in ["unread", "read", "not accepted"] {
        let Stage { net, ship, .. } = stage();
        let result = run_to_end(async move {
            let address = net.enter_job();
            let listener = TcpSocket::new(&net.stack).unwrap();
            listener.bind(address, 9, false).unwrap();
            listener.listen(2).unwrap();
            let writer = TcpSocket::new(&net.dial.stack).unwrap();
            assert_eq!(writer.connect(address, 9), Err(SocketError::InProgress));
            sleep(MS).await;
            let reader = (case != "not accepted").then(|| listener.accept().unwrap());
            // More than its peer has room for, so that some is here when the other end is gone.
            let send = || while writer.send(&[7; 10_000]).is_ok() {};
            if case != "read" {
                send();
            }
            let ended = spawn(async move {
                sleep(50 * MS).await;
                drop(reader);
                drop(listener);
            });
            assert!(ended.is_ok());
            if case == "read" {
                sleep(100 * MS).await;
                send();
            }
            drop(writer);
            let took_ns = time_to_scrub(&ship).await;
            assert!(took_ns < 100 * MS, "{case}: took {took_ns} ns");
            assert_eq!(net.dial.stack.user_sockets(), 0, "{case}");
        });
        assert_eq!(result, Ok(()), "{case}");
    }
}

#[test]
fn nothing_is_delivered_for_a_job_that_was_ended() {
    let Stage { net, ship, .. } = stage();
    let result = run_to_end(async move {
        let (socket, _peer) = connected(&net).await;
        assert_eq!(socket.send(&[7; 10_000]), Ok(10_000));
        drop(socket);
        let ended = ship.clone();
        let ending = spawn(async move {
            sleep(50 * MS).await;
            ended.stop_delivering();
        });
        assert!(ending.is_ok());
        let took_ns = time_to_scrub(&ship).await;
        assert!((50 * MS..80 * MS).contains(&took_ns), "took {took_ns} ns");
        assert_eq!(net.dial.stack.user_sockets(), 0);
    });
    assert_eq!(result, Ok(()));
}
