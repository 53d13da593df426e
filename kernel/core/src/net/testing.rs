//! Two stacks on one wire in the executor's simulated time: a node's, and an I/O node's that tests play.

pub(crate) mod fabric;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::sync::atomic::{AtomicU32, Ordering};

use coppice_endpoint::{BufferSizes, Config, JobNetwork, NetError, Stack, TcpListener, TcpStream};
use coppice_protocol::ids::{Generation, JobId, JobNode, MacAddress, NodeId};
use coppice_protocol::limits::{CONTROL_PORT, SHIP_PORT};
use coppice_protocol::personality::NodeKey;
use coppice_protocol::session::{Channel, Event, Frame, Identity, Session};
use coppice_protocol::world::{JobKey, World};
use serde::Serialize;
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use spin::Mutex;

use super::{BoxFuture, Card, Credentials, Datagrams, Door, IoNode, Neighbours, Network, Wire, drive};
use crate::executor::{self, Notify};

const IO_NODE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// One end of the wire: what it receives, and what the other end does.
#[derive(Clone)]
pub(crate) struct End {
    received: Arc<Queue>,
    peer: Arc<Queue>,
    traces: Arc<Traces>,
}

/// What a card has in its buffers.
#[derive(Default)]
pub(crate) struct Traces {
    /// How many more times it is not done with its frames.
    pub(crate) busy: AtomicU32,
    /// How often its buffers were wiped, whatever was in them.
    pub(crate) forced: AtomicU32,
    /// Frames it has sent.
    pub(crate) sent: AtomicU32,
}

#[derive(Default)]
struct Queue {
    frames: Mutex<VecDeque<Vec<u8>>>,
    arrived: Notify,
}

impl Device for End {
    type RxToken<'a> = Received;
    type TxToken<'a> = Self;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 9014;
        capabilities
    }

    fn receive(&mut self, _now: Instant) -> Option<(Received, Self)> {
        let frame = self.received.frames.lock().pop_front()?;
        Some((Received(frame), self.clone()))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Self> {
        Some(self.clone())
    }
}

impl Card for End {
    fn scrub(&mut self, force: bool) -> bool {
        self.traces.forced.fetch_add(force.into(), Ordering::Relaxed);
        let busy = self.traces.busy.load(Ordering::Relaxed);
        self.traces.busy.store(busy.saturating_sub(1), Ordering::Relaxed);
        force || busy == 0
    }

    fn keep(&mut self) {}
}

pub(crate) struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for End {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut frame = vec![0; length];
        let result = f(&mut frame);
        self.traces.sent.fetch_add(1, Ordering::Relaxed);
        self.peer.frames.lock().push_back(frame);
        self.peer.arrived.notify();
        result
    }
}

fn stack_on(end: End, address: Ipv4Addr) -> Stack<End> {
    let config = Config { mac: MacAddress::of(address), address, prefix: 8, seed: 1 };
    let arrived = Arc::clone(&end.received);
    let stack = Stack::new(end, config, executor::now_ns());
    let driven = stack.clone();
    let driver = executor::spawn(drive(driven, move || {
        let arrived = Arc::clone(&arrived);
        async move { arrived.arrived.notified().await }
    }));
    assert!(driver.is_ok());
    stack
}

/// A node's way to the I/O node, and the I/O node's ports.
pub(crate) struct Net {
    pub(crate) dial: IoNode<End>,
    /// The node's card.
    pub(crate) traces: Arc<Traces>,
    /// The I/O node's.
    pub(crate) stack: Stack<End>,
}

pub(crate) fn credentials() -> Credentials {
    let identity = Identity { node: NodeId(3), generation: Generation(2) };
    Credentials { identity, key: NodeKey([9; 32]) }
}

/// Two nodes on one wire, with their cards: nodes 0 and 1 of a job, whose node 2 is switched off.
pub(crate) fn two_nodes() -> [(Stack<End>, Arc<Traces>); 2] {
    let (here, there) = (Arc::<Queue>::default(), Arc::<Queue>::default());
    [(3, &here, &there), (4, &there, &here)].map(|(node, received, peer)| {
        let traces = Arc::<Traces>::default();
        let end = End { received: Arc::clone(received), peer: Arc::clone(peer), traces: Arc::clone(&traces) };
        let stack = stack_on(end, NodeId(node).address());
        enter_job(&stack, &[3, 4, 9], JobNode(node - 3));
        (stack, traces)
    })
}

/// Has a stack be in the network of a job with these nodes of the cluster, of which it is `own`.
fn enter_job(stack: &Stack<End>, nodes: &[u32], own: JobNode) {
    let key = JobKey([4; 32]);
    let tag = key.network_tag(JobId(1));
    let world = World::new(key, 1, nodes.iter().copied().map(NodeId));
    let job = JobNetwork::new(tag, &world, own);
    Network::enter_job(stack, job.unwrap_or_else(|| panic!("{own} is no node of the job")));
}

impl Net {
    pub(crate) fn new() -> Self {
        let (here, there) = (Arc::<Queue>::default(), Arc::<Queue>::default());
        let traces = Arc::<Traces>::default();
        let node = End { received: Arc::clone(&here), peer: Arc::clone(&there), traces: Arc::clone(&traces) };
        let io_node = End { received: there, peer: here, traces: Arc::default() };
        let dial = IoNode { stack: stack_on(node, NodeId(3).address()), address: IO_NODE };
        Self { dial, traces, stack: stack_on(io_node, IO_NODE) }
    }

    /// Has the node and the other station be nodes 0 and 1 of a job. Gives the other one's address.
    pub(crate) fn enter_job(&self) -> Ipv4Addr {
        // The number of a node that has the I/O node's address.
        let other = IO_NODE.to_bits().wrapping_sub(NodeId(0).address().to_bits());
        for (stack, own) in [(&self.dial.stack, JobNode(0)), (&self.stack, JobNode(1))] {
            enter_job(stack, &[3, other], own);
        }
        JobNode(1).address()
    }

    /// Another way to the same I/O node.
    pub(crate) fn dial(&self) -> IoNode<End> {
        IoNode { stack: self.dial.stack.clone(), address: IO_NODE }
    }

    /// Listens where the node calls for `channel`.
    pub(crate) fn listen(&self, channel: Channel) -> Port {
        let port = match channel {
            Channel::Control => CONTROL_PORT,
            Channel::Ship => SHIP_PORT,
        };
        let sizes = BufferSizes { receive: 256 * 1024, transmit: 256 * 1024 };
        match self.stack.listen(port, 2, sizes) {
            Ok(listener) => Port { channel, listener },
            Err(error) => panic!("cannot listen: {error}"),
        }
    }
}

/// A port of the I/O node.
pub(crate) struct Port {
    channel: Channel,
    listener: TcpListener<End>,
}

impl Port {
    /// Waits for the node and shakes hands with it.
    pub(crate) async fn accept(&self) -> Peer {
        let stream = match self.listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => panic!("cannot accept: {error}"),
        };
        let mut peer = Peer { stream, session: Session::accept(self.channel, [5; 16], executor::now_ns()) };
        loop {
            match peer.next_event().await {
                Ok(Event::KeyWanted(identity)) => {
                    assert_eq!(identity, credentials().identity);
                    peer.session.supply_key(Some(&credentials().key));
                    peer.write().await;
                }
                Ok(Event::Established(_)) => return peer,
                other => panic!("no handshake: {other:?}"),
            }
        }
    }
}

/// The I/O node's end of a connection.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream<End>,
    session: Session,
}

impl Peer {
    async fn next_event(&mut self) -> Result<Event, NetError> {
        loop {
            if let Some(event) = self.session.poll_event() {
                return Ok(event);
            }
            let mut buffer = vec![0; 64 * 1024];
            let count = self.stream.read(&mut buffer).await?;
            if count == 0 {
                return Err(NetError::Closed);
            }
            if let Err(error) = self.session.handle_bytes(&buffer[..count]) {
                panic!("node broke the rules: {error}");
            }
        }
    }

    async fn write(&mut self) {
        while !self.session.transmit().is_empty() {
            match self.stream.write(self.session.transmit()).await {
                Ok(count) => self.session.consume(count),
                Err(_) => return,
            }
        }
    }

    /// The node's next message.
    pub(crate) async fn receive(&mut self) -> Result<Frame, NetError> {
        match self.next_event().await? {
            Event::Frame(frame) => Ok(frame),
            other => panic!("no message: {other:?}"),
        }
    }

    /// Sends the node the first half of a message.
    pub(crate) async fn send_half<T: Serialize>(&mut self, id: u64, message: &T, bulk: &[u8]) {
        if let Err(error) = self.session.send(id, message, bulk) {
            panic!("cannot send: {error}");
        }
        let half = self.session.queued_bytes() / 2;
        let bytes = self.session.transmit();
        let written = self.stream.write(&bytes[..half.min(bytes.len())]).await;
        assert!(written.is_ok());
    }

    /// Sends the node a message.
    pub(crate) async fn send<T: Serialize>(&mut self, id: u64, message: &T, bulk: &[u8]) {
        if let Err(error) = self.session.send(id, message, bulk) {
            panic!("cannot send: {error}");
        }
        self.write().await;
    }
}

/// For a node that has no neighbours.
pub(crate) struct Nowhere;

impl Neighbours for Nowhere {
    fn connect(&self, _: NodeId, _: u16, _: usize) -> BoxFuture<'_, Result<Arc<dyn Wire>, NetError>> {
        Box::pin(async { Err(NetError::Refused) })
    }

    fn listen(&self, _: u16, _: usize, _: usize) -> Result<Box<dyn Door>, NetError> {
        Err(NetError::PortInUse)
    }

    fn datagrams(&self, _: u16, _: usize) -> Result<Arc<dyn Datagrams>, NetError> {
        Err(NetError::PortInUse)
    }
}
