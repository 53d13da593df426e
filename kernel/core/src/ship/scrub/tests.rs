//! What is waited for when a process is gone, and for how long.

use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::limits::BULK_BYTES_MAX;
use coppice_protocol::session::{Channel, Frame};
use coppice_protocol::ship::{Call, Handle, Reply, Stream};

use crate::executor::{Elapsed, now_ns, run_to_end, sleep, spawn, timeout};
use crate::limits::{SCRUB_PAUSE_NS, SCRUB_WAIT_NS_MAX};
use crate::net::testing::{Net, Peer, Port, credentials};
use crate::ship::{Client, Ship};

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
    ship.scrub().await;
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
