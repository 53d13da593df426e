//! The test as another node of the machine's job, and as a station that sends what it likes.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use coppice_endpoint::{JobNetwork, SocketError, TcpSocket, UdpSocket};
use coppice_io_node::link::Device;
use coppice_protocol::control::Launch;
use coppice_protocol::ids::{JobId, JobNode, NodeId, ProgramId};
use coppice_protocol::world::World;

use super::{JOB_KEY, NODE, PSET, Rig};

/// The test, as the second node of a job: its number is that of a node which would have the address of an I/O node.
fn neighbour() -> NodeId {
    NodeId(PSET.address().to_bits().wrapping_sub(NodeId(0).address().to_bits()))
}

fn world() -> World {
    World::new(JOB_KEY, 1, [NODE, neighbour()])
}

impl Rig {
    /// An order to start a program that was added, as rank 0 of two, whose rank 1 is the test.
    ///
    /// # Panics
    /// If it was not added.
    #[must_use]
    pub fn launch_beside(&self, job: u64, program: ProgramId, arguments: &[&str]) -> Launch {
        Launch { size: 2, world: world(), ..self.launch(job, program, false, arguments) }
    }

    /// The test is in the network of that job from now on.
    ///
    /// # Panics
    /// If there is no memory.
    pub fn enter_job(&self, job: u64) {
        let network = JobNetwork::new(JOB_KEY.network_tag(JobId(job)), &world(), JobNode(1)).expect("a network");
        self.stack.enter_job(network, job, self.clock.now_ns());
    }

    /// The last frame that waits to be sent, taken off.
    fn take_frame(&self) -> Vec<u8> {
        self.stack.push(self.clock.now_ns());
        self.stack.with_device(|device| device.queued().pop_back()).expect("a frame")
    }

    /// The frame of a datagram from the test to a port of the machine's program. It is not sent.
    ///
    /// # Panics
    /// If there is none, as the test is in no job.
    #[must_use]
    pub fn datagram(&self, port: u16, text: &str) -> Vec<u8> {
        let socket = UdpSocket::<Device>::new(&self.stack).expect("a socket");
        let sent = socket.send_with(text.len(), Some((JobNode(0).address(), port)), |room| {
            room.copy_from_slice(text.as_bytes());
            Ok(())
        });
        assert_eq!(sent, Ok::<_, SocketError>(()));
        self.take_frame()
    }

    /// A socket of the test that wants to connect to a port of the machine's program, and the frame that asks for it.
    /// It is not sent; what is to be sent later goes by itself.
    ///
    /// # Panics
    /// If there is none, as the test is in no job.
    #[must_use]
    pub fn call(&self, port: u16) -> (TcpSocket<Device>, Vec<u8>) {
        let socket = TcpSocket::new(&self.stack).expect("a socket");
        assert_eq!(socket.connect(JobNode(0).address(), port), Err(SocketError::InProgress));
        (socket, self.take_frame())
    }

    /// Has the machine receive a frame.
    ///
    /// # Panics
    /// If it has gone.
    pub fn put(&self, frame: &[u8]) {
        let socket = UnixDatagram::unbound().expect("a socket");
        socket.send_to(frame, self.directory.path().join("node")).expect("the machine");
    }

    /// Has the machine receive frames as fast as it takes them, until this is dropped.
    ///
    /// # Panics
    /// If there is no thread for it.
    #[must_use]
    pub fn flood(&self, frame: Vec<u8>) -> Flood {
        Flood::start(frame, &self.directory.path().join("node"))
    }
}

/// A flood of frames.
pub struct Flood {
    is_over: Arc<AtomicBool>,
    sender: Option<JoinHandle<()>>,
}

impl Flood {
    fn start(frame: Vec<u8>, machine: &Path) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let (over, machine): (_, PathBuf) = (Arc::clone(&is_over), machine.into());
        let sender = std::thread::spawn(move || {
            let socket = UnixDatagram::unbound().expect("a socket");
            while !over.load(Ordering::Relaxed) && socket.send_to(&frame, &machine).is_ok() {}
        });
        Self { is_over, sender: Some(sender) }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(sender) = self.sender.take() {
            let _ = sender.join();
        }
    }
}
