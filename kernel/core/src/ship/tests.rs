//! Calls to an I/O node that the tests play.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::pin::pin;
use core::task::{Context, Waker};

use coppice_hal::heap::measure;
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::lease::FileId;
use coppice_protocol::limits::{BULK_BYTES_MAX, HEARTBEAT_DEAD_NS, REQUESTS_IN_FLIGHT_MAX};
use coppice_protocol::session::Channel;
use coppice_protocol::ship::{Call, FileStatus, Handle, NOTICE_ID, Notice, Owner, Reply, Request, Stream};
use spin::Mutex;

use super::{Client, Printing, Ship};
use crate::errno::Errno;
use crate::executor::{Elapsed, now_ns, run_to_end, sleep, spawn, timeout, yield_now};
use crate::files::OpenFile;
use crate::files::pipeline::Pipeline;
use crate::limits::{PART_CALL_BYTES, SHIP_CONNECT_WAIT_NS};
use crate::net::testing::{Net, Peer, Port, credentials};
use crate::process::testing::Bench;

fn go(future: impl Future<Output = ()> + Send + 'static) {
    assert!(spawn(future).is_ok());
}

fn client() -> (Net, Port, Client) {
    let net = Net::new();
    let port = net.listen(Channel::Ship);
    let ship = Ship::new();
    let client = ship.client(JobId(7), Rank(1));
    let dial = net.dial();
    go(async move { ship.keep_connected(dial, credentials()).await });
    (net, port, client)
}

fn read(offset: u64) -> Call {
    Call::Read { file: Handle(4), offset, length: 10 }
}

/// Answers every read with its offset as the data.
async fn answer_reads(peer: &mut Peer, count: usize) {
    for _ in 0..count {
        let Ok(frame) = peer.receive().await else { return };
        match frame.message::<Request>() {
            Ok(Request { owner: Owner { job: JobId(7), rank: Rank(1) }, call: Call::Read { offset, .. } }) => {
                peer.send(frame.id, &Reply::Data, &offset.to_le_bytes()).await;
            }
            other => panic!("unexpected request: {other:?}"),
        }
    }
}

#[test]
fn calls_are_answered_and_bulk_goes_both_ways() {
    let (_net, port, client) = client();
    go(async move {
        let mut peer = port.accept().await;
        let frame = peer.receive().await.unwrap();
        assert!(matches!(frame.message(), Ok(Request { call: Call::Print(Stream::Error), .. })));
        assert!(frame.bulk.iter().all(|byte| *byte == 3));
        let bytes = frame.bulk.len() as u32;
        peer.send(frame.id, &Reply::Written { bytes, end: 0 }, &vec![4; BULK_BYTES_MAX]).await;
        let frame = peer.receive().await.unwrap();
        peer.send(frame.id, &Reply::Failed(13), &[]).await;
        sleep(u64::MAX).await;
    });
    let result = run_to_end(async move {
        let answer = client.call(Call::Print(Stream::Error), vec![3; BULK_BYTES_MAX]).await;
        assert_eq!(answer, Ok((Reply::Written { bytes: BULK_BYTES_MAX as u32, end: 0 }, vec![4; BULK_BYTES_MAX])));
        assert_eq!(client.call(read(0), Vec::new()).await, Err(Errno::EACCES));
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn replies_may_overtake_each_other_and_the_number_under_way_is_limited() {
    let (_net, port, client) = client();
    let most = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&most);
    go(async move {
        let mut peer = port.accept().await;
        loop {
            let mut requests = Vec::new();
            while let Ok(frame) = timeout(1_000_000, peer.receive()).await {
                requests.push(frame.unwrap());
            }
            let mut most = seen.lock();
            *most = requests.len().max(*most);
            drop(most);
            for frame in requests.into_iter().rev() {
                let Ok(Request { call: Call::Read { offset, .. }, .. }) = frame.message() else { panic!("no read") };
                peer.send(frame.id, &Reply::Data, &offset.to_le_bytes()).await;
            }
        }
    });
    let done = Arc::new(Mutex::new(0));
    for offset in 0..100_u64 {
        let (client, done) = (client.clone(), Arc::clone(&done));
        go(async move {
            assert_eq!(client.call(read(offset), Vec::new()).await, Ok((Reply::Data, offset.to_le_bytes().to_vec())));
            *done.lock() += 1;
        });
    }
    assert_eq!(run_to_end(sleep(1_000_000_000)), Ok(()));
    assert_eq!((*done.lock(), *most.lock()), (100, REQUESTS_IN_FLIGHT_MAX));
}

#[test]
fn more_writes_than_the_connection_holds_wait_and_all_arrive_in_order() {
    let (_net, port, client) = client();
    let total = Arc::new(Mutex::new(0));
    let sum = Arc::clone(&total);
    go(async move {
        let mut peer = port.accept().await;
        loop {
            let frame = peer.receive().await.unwrap();
            *sum.lock() += frame.bulk.len();
            let bytes = frame.bulk.len() as u32;
            peer.send(frame.id, &Reply::Written { bytes, end: 0 }, &[]).await;
        }
    });
    for _ in 0..64 {
        let client = client.clone();
        go(async move {
            let answer = client.call(Call::Print(Stream::Output), vec![1; BULK_BYTES_MAX]).await;
            assert!(matches!(answer, Ok((Reply::Written { .. }, _))));
        });
    }
    assert_eq!(run_to_end(sleep(5_000_000_000)), Ok(()));
    assert_eq!(*total.lock(), 64 * BULK_BYTES_MAX);
}

#[test]
fn a_dropped_call_gives_its_place_back_when_it_is_answered() {
    let (_net, port, client) = client();
    go(async move {
        let mut peer = port.accept().await;
        let mut first = Vec::new();
        for _ in 0..REQUESTS_IN_FLIGHT_MAX {
            first.push(peer.receive().await.unwrap().id);
        }
        sleep(100_000_000).await;
        for id in first {
            peer.send(id, &Reply::Data, &[]).await;
        }
        // One that was given up before it was sent never is.
        let frame = peer.receive().await.unwrap();
        assert!(matches!(frame.message(), Ok(Request { call: Call::Read { offset: 3, .. }, .. })));
        peer.send(frame.id, &Reply::Data, &3_u64.to_le_bytes()).await;
        sleep(u64::MAX).await;
    });
    let result = run_to_end(async move {
        for _ in 0..REQUESTS_IN_FLIGHT_MAX {
            assert_eq!(timeout(1_000_000, client.call(read(1), Vec::new())).await, Err(Elapsed));
        }
        assert_eq!(timeout(1_000_000, client.call(read(2), Vec::new())).await, Err(Elapsed));
        client.release();
        assert_eq!(client.call(read(3), Vec::new()).await, Ok((Reply::Data, 3_u64.to_le_bytes().to_vec())));
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn a_lost_connection_loses_no_call() {
    let (_net, port, client) = client();
    let ids = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ids);
    go(async move {
        let mut peer = port.accept().await;
        for _ in 0..2 {
            seen.lock().push(peer.receive().await.unwrap().id);
        }
        peer.stream.abort();
        let mut peer = port.accept().await;
        for _ in 0..2 {
            let frame = peer.receive().await.unwrap();
            assert_eq!(frame.bulk.len(), BULK_BYTES_MAX);
            seen.lock().push(frame.id);
            peer.send(frame.id, &Reply::Done, &[]).await;
        }
        answer_reads(&mut peer, usize::MAX).await;
    });
    let result = run_to_end(async move {
        let append = |byte| client.call(Call::Write { file: Handle(4), offset: None }, vec![byte; BULK_BYTES_MAX]);
        let (first, second) = (append(1), append(2));
        let mut both = Pipeline::new();
        both.push(first);
        both.push(second);
        assert_eq!(both.next().await, Ok((Reply::Done, Vec::new())));
        assert_eq!(both.next().await, Ok((Reply::Done, Vec::new())));
        assert_eq!(client.call(read(2), Vec::new()).await, Ok((Reply::Data, 2_u64.to_le_bytes().to_vec())));
    });
    assert_eq!(result, Ok(()));
    let ids = ids.lock();
    assert_eq!(ids[..2], ids[2..], "they are said again under their ids, in their order");
}

/// As if its length was changed on the way: nothing follows that would be its rest.
#[test]
fn the_rest_of_a_reply_is_not_waited_for_for_ever() {
    let (_net, port, client) = client();
    go(async move {
        let mut peer = port.accept().await;
        let id = peer.receive().await.unwrap().id;
        peer.send_half(id, &Reply::Data, &[0; 100]).await;
        let mut again = port.accept().await;
        answer_reads(&mut again, 1).await;
        drop(peer);
    });
    let result = run_to_end(async move {
        let begin_ns = now_ns();
        assert_eq!(client.call(read(2), Vec::new()).await, Ok((Reply::Data, 2_u64.to_le_bytes().to_vec())));
        let took_ns = now_ns() - begin_ns;
        assert!((HEARTBEAT_DEAD_NS..HEARTBEAT_DEAD_NS + 1_000_000_000).contains(&took_ns), "{took_ns}");
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn a_reply_wakes_its_caller_and_nobody_else() {
    let (_net, port, client) = client();
    go(async move {
        let mut peer = port.accept().await;
        answer_reads(&mut peer, usize::MAX).await;
    });
    let polls = Arc::new(Mutex::new(Vec::new()));
    for offset in 0..200_u64 {
        let (client, polls) = (client.clone(), Arc::clone(&polls));
        go(async move {
            let mut count = 0;
            let mut call = pin!(client.call(read(offset), Vec::new()));
            let answer = poll_fn(|context| {
                count += 1;
                call.as_mut().poll(context)
            });
            assert!(answer.await.is_ok());
            polls.lock().push(count);
        });
    }
    assert_eq!(run_to_end(sleep(1_000_000_000)), Ok(()));
    assert_eq!(*polls.lock(), [2; 200], "once when it is made, once when it is answered");
}

/// Whoever waits for people holds no place, however many they are.
#[test]
fn those_who_cannot_print_keep_nobody_from_their_files() {
    let (_net, port, client) = client();
    let room = Arc::new(Mutex::new(false));
    let (has_room, printed) = (Arc::clone(&room), Arc::new(Mutex::new(0)));
    go(async move {
        let mut peer = port.accept().await;
        loop {
            let Ok(frame) = timeout(1_000_000, peer.receive()).await else {
                if *has_room.lock() {
                    peer.send(NOTICE_ID, &Notice::Output(Owner { job: JobId(7), rank: Rank(1) }), &[]).await;
                }
                continue;
            };
            let frame = frame.unwrap();
            let reply = match frame.message::<Request>().unwrap().call {
                Call::Print(_) if *has_room.lock() => Reply::Written { bytes: 3, end: 0 },
                Call::Print(_) => Reply::Later,
                _ => Reply::Done,
            };
            peer.send(frame.id, &reply, &[]).await;
        }
    });
    for _ in 0..5 * REQUESTS_IN_FLIGHT_MAX {
        let (client, printed) = (client.clone(), Arc::clone(&printed));
        go(async move {
            let mut printing = Printing::new(&client, Stream::Output, b"abc".to_vec());
            loop {
                let count = client.bells().output.count();
                match printing.attempt().await {
                    Some(answer) => break assert_eq!(answer, Ok((Reply::Written { bytes: 3, end: 0 }, Vec::new()))),
                    None => client.bells().output.rung_since(count).await,
                }
            }
            *printed.lock() += 1;
        });
    }
    let result = run_to_end(async move {
        sleep(1_000_000_000).await;
        let start_ns = now_ns();
        assert_eq!(client.call(read(1), Vec::new()).await, Ok((Reply::Done, Vec::new())));
        assert!(now_ns() - start_ns < 10_000_000);
        *room.lock() = true;
        sleep(1_000_000_000).await;
    });
    assert_eq!((result, *printed.lock()), (Ok(()), 5 * REQUESTS_IN_FLIGHT_MAX));
}

/// The I/O node keeps room for who stands in its line, so it is told when nobody does any more.
#[test]
fn who_gives_up_printing_says_so() {
    let (_net, port, client) = client();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    go(async move {
        let mut peer = port.accept().await;
        loop {
            let frame = peer.receive().await.unwrap();
            let call = frame.message::<Request>().unwrap().call;
            let reply = if matches!(call, Call::Print(_)) { Reply::Later } else { Reply::Done };
            seen.lock().push(call);
            peer.send(frame.id, &reply, &[]).await;
        }
    });
    let result = run_to_end(async move {
        let mut first = Printing::new(&client, Stream::Output, b"abc".to_vec());
        let mut second = Printing::new(&client, Stream::Error, b"de".to_vec());
        assert_eq!((first.attempt().await, second.attempt().await), (None, None));
        drop(first);
        sleep(1_000_000).await;
        assert!(!calls.lock().contains(&Call::PrintNothing), "another thread of the rank waits");
        drop(second);
        sleep(1_000_000).await;
        assert_eq!(calls.lock().pop(), Some(Call::PrintNothing));
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn without_an_io_node_calls_fail_in_time() {
    let net = Net::new();
    let ship = Ship::new();
    let client = ship.client(JobId(7), Rank(1));
    let dial = net.dial();
    go(async move { ship.keep_connected(dial, credentials()).await });
    let start_ns = now_ns();
    let result = run_to_end(async move { client.call(read(1), Vec::new()).await });
    assert_eq!(result, Ok(Err(Errno::EIO)));
    assert_eq!(now_ns() - start_ns, SHIP_CONNECT_WAIT_NS);
}

#[test]
fn a_reply_that_makes_no_sense_fails_its_call_only() {
    let (_net, port, client) = client();
    go(async move {
        let mut peer = port.accept().await;
        let frame = peer.receive().await.unwrap();
        peer.send(frame.id + 1000, &Reply::Done, &[]).await;
        peer.send(frame.id, &"what?", &[]).await;
        answer_reads(&mut peer, usize::MAX).await;
    });
    let result = run_to_end(async move {
        yield_now().await;
        assert_eq!(client.call(read(1), Vec::new()).await, Err(Errno::EIO));
        assert!(client.call(read(2), Vec::new()).await.is_ok());
    });
    assert_eq!(result, Ok(()));
}

/// A rank ends while the lease that it was to give back waits for a place; others of its job go on.
#[test]
fn a_lease_is_given_back_though_the_rank_that_was_to_say_so_has_ended() {
    let net = Net::new();
    let port = net.listen(Channel::Ship);
    let ship = Ship::new();
    let [ends, stays, of_another] = [(7, 1), (7, 2), (8, 0)].map(|(job, rank)| ship.client(JobId(job), Rank(rank)));
    let file = FileId { device: 1, inode: 2 };
    ends.give_back(file, 5);
    ends.give_names_back(6);
    of_another.give_back(file, 7);
    of_another.release();
    ends.release();
    let dial = net.dial();
    go(async move { ship.keep_connected(dial, credentials()).await });
    let result = run_to_end(async move {
        let mut peer = port.accept().await;
        let expected = [Call::Return { file, number: 5 }, Call::ReturnNames { number: 6 }];
        for call in expected {
            let frame = peer.receive().await.unwrap();
            assert_eq!(frame.message::<Request>(), Ok(Request { owner: stays.owner(), call }));
            peer.send(frame.id, &Reply::Done, &[]).await;
        }
        assert!(timeout(100_000_000, peer.receive()).await.is_err(), "a job that has no rank here has no lease");
    });
    assert_eq!(result, Ok(()));
}

/// As reads make them, of as many threads as a process has, while there is no connection.
#[test]
fn parts_that_wait_take_no_more_than_they_are_charged_with_and_no_long_run_of_it() {
    const THREADS: usize = 512;
    const PARTS: usize = 4;
    let bench = Bench::new(&[]);
    let nothing = bench.process.node.quota.charge(0).expect("nothing");
    let path = ("/a".into(), nothing, bench.process.closer.cache().opening().expect("there is memory"));
    let file = OpenFile::shipped((Handle(1), FileStatus::default(), None), path, 0, &bench.process.closer);
    let process = &*bench.process;
    let (waiting, taken) = measure(|| {
        let read = || {
            let mut parts = Pipeline::new();
            for _ in 0..PARTS {
                parts.push(async { Ok((Reply::Data, file.read_at(process, 0, BULK_BYTES_MAX).await?)) });
            }
            let mut waiting = Box::pin(async move { parts.next().await });
            assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            waiting
        };
        (0..THREADS).map(|_| read()).collect::<Vec<_>>()
    });
    let kept = usize::try_from(taken.kept_bytes).expect("something");
    assert!(kept <= THREADS * PARTS * PART_CALL_BYTES, "{} bytes each", kept / THREADS / PARTS);
    assert!(taken.largest_bytes <= 64 * 1024, "{} bytes", taken.largest_bytes);
    drop(waiting);
}
