//! Ranks that call PMI_PORT.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use coppice_endpoint::SocketError;
use coppice_protocol::control::Exit;
use coppice_protocol::limits::PMI_PORT;

use super::{Cluster, MS_NS, Node, SECOND_NS, all};
use crate::executor::{self, run_to_end};
use crate::files::readiness::until;
use crate::limits::PMI_LOCAL_CALLERS_MAX;
use crate::net::testing::fabric::Faults;
use crate::net::{Network, Tcp};

/// A program that calls.
struct Caller(Box<dyn Tcp>);

impl Caller {
    async fn call(node: &Node, address: Ipv4Addr) -> Result<Self, SocketError> {
        let socket = node.stack.tcp()?;
        let attempt = || match socket.connect(address, PMI_PORT) {
            Err(SocketError::InProgress | SocketError::AlreadyInProgress) => None,
            other => Some(other),
        };
        until(|waker| socket.register(waker), attempt).await?;
        Ok(Self(socket))
    }

    async fn say(&self, line: &str) {
        let text = format!("{line}\n");
        let mut rest = text.as_bytes();
        let mut fill = |room: &mut [u8]| {
            let count = room.len().min(rest.len());
            room[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            count
        };
        assert_eq!(self.0.send(&mut fill), Ok(text.len()));
    }

    /// The next line; `None` at the end.
    async fn hear(&self) -> Option<String> {
        let mut line = Vec::new();
        loop {
            let mut byte = None;
            let attempt = || {
                let taken = self.0.receive(&mut |bytes| {
                    byte = byte.or(bytes.first().copied());
                    usize::from(!bytes.is_empty())
                });
                if taken == Err(SocketError::WouldBlock) { None } else { Some(taken) }
            };
            match until(|waker| self.0.register(waker), attempt).await {
                Ok(1..) if byte == Some(b'\n') => return String::from_utf8(line).ok(),
                Ok(1..) => line.extend(byte),
                Ok(0) | Err(_) => return None,
            }
        }
    }

    async fn ask(&self, line: &str) -> String {
        self.say(line).await;
        self.hear().await.expect("an answer")
    }
}

#[test]
fn ranks_may_call_instead() {
    let cluster = Arc::new(Cluster::new(2, Faults::default()));
    let lives = (0..4).map(|rank| {
        let cluster = Arc::clone(&cluster);
        async move {
            let node = &cluster.nodes[rank as usize / 2];
            let player = cluster.start(rank, 4, 2);
            let address = if rank % 2 == 0 { node.address() } else { Ipv4Addr::LOCALHOST };
            let caller = Caller::call(node, address).await.expect("a connection");
            assert_eq!(caller.ask(&format!("cmd=initack pmiid={rank}")).await, "cmd=initack");
            for line in ["cmd=set size=4".to_string(), format!("cmd=set rank={rank}"), "cmd=set debug=0".to_string()] {
                assert_eq!(caller.hear().await, Some(line));
            }
            let put = format!("cmd=put kvsname=k7 key=P{rank} value={rank}");
            assert_eq!(caller.ask(&put).await, "cmd=put_result rc=0 msg=success");
            assert_eq!(caller.ask("cmd=barrier_in").await, "cmd=barrier_out");
            let next = (rank + 1) % 4;
            let get = format!("cmd=get kvsname=k7 key=P{next}");
            assert_eq!(caller.ask(&get).await, format!("cmd=get_result rc=0 msg=success value={next}"));
            assert_eq!(caller.ask("cmd=finalize").await, "cmd=finalize_ack");
            assert_eq!(caller.hear().await, None);
            drop(caller);
            player.end(Exit::Status(0)).await;
        }
    });
    let lives: Vec<_> = lives.collect();
    assert_eq!(run_to_end(all(SECOND_NS, lives)), Ok(()));
    assert_eq!(run_to_end(Arc::clone(&cluster).job_is_over()), Ok(()));
    assert_eq!(cluster.failures(), []);
}

#[test]
fn who_calls_wrongly_is_turned_away() {
    let cluster = Arc::new(Cluster::new(2, Faults::default()));
    let ran = Arc::clone(&cluster);
    let done = run_to_end(async move {
        let node = &ran.nodes[0];
        // There is no job.
        let caller = Caller::call(node, node.address()).await.expect("a connection");
        assert_eq!(caller.hear().await, None);
        let player = ran.start(0, 1, 1);
        // A rank of another node, and one that does not say who it is.
        for words in ["cmd=initack pmiid=1", "cmd=init pmi_version=1 pmi_subversion=1", "x"] {
            let caller = Caller::call(node, node.address()).await.expect("a connection");
            assert!(caller.ask(words).await.contains("rc=-1"));
            assert_eq!(caller.hear().await, None);
        }
        // Another node.
        let caller = Caller::call(&ran.nodes[1], node.address()).await.expect("a connection");
        assert_eq!(caller.hear().await, None);
        // Too many at once: the last one is closed.
        let mut crowd = Vec::new();
        for _ in 0..=PMI_LOCAL_CALLERS_MAX {
            crowd.push(Caller::call(node, node.address()).await.expect("a connection"));
            executor::sleep(MS_NS).await;
        }
        assert_eq!(crowd.pop().expect("the last one").hear().await, None);
        // The end of the job ends them all.
        player.seat.ended(Exit::Status(0));
        player.end(Exit::Status(0)).await;
        for caller in &crowd {
            assert_eq!(caller.hear().await, None);
        }
    });
    assert_eq!(done, Ok(()));
    assert_eq!(run_to_end(Arc::clone(&cluster).job_is_over()), Ok(()));
    assert_eq!(cluster.failures(), []);
}

/// Whoever was on the port when a rank went away is the rank that went away.
#[test]
fn a_caller_that_goes_is_missed() {
    let cluster = Arc::new(Cluster::new(1, Faults::default()));
    let ran = Arc::clone(&cluster);
    let done = run_to_end(async move {
        let node = &ran.nodes[0];
        let (player, other) = (ran.start(0, 2, 2), ran.start(1, 2, 2));
        let caller = Caller::call(node, node.address()).await.expect("a connection");
        assert_eq!(caller.ask("cmd=initack pmiid=0").await, "cmd=initack");
        other.init().await;
        other.say("cmd=barrier_in").await;
        drop(caller);
        executor::sleep(SECOND_NS).await;
        drop((player, other));
    });
    assert_eq!(done, Ok(()));
    let reason = "rank 0 on node 0 closed its PMI descriptor, and other ranks wait for it in a PMI barrier";
    assert_eq!(cluster.failures(), [(1, reason.to_string())]);
}
