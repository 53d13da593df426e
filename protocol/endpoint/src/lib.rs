//! Async TCP and UDP over smoltcp, the same for a node and for its I/O node.
//!
//! A [`Stack`] owns a network device and moves frames and connections on whenever somebody calls [`Stack::poll`]; time
//! is an argument. Whoever owns the device drives the stack: poll, then wait for the first of a received frame, the
//! time that `poll` returned, and [`Stack::on_work`]'s waker (an application queued something), then poll again.
//!
//! Applications await [`Stack::connect`], [`TcpListener::accept`] and a [`TcpStream`]'s reads and writes on any
//! executor. Locks are held for short, bounded work only and never while waiting.
//!
//! A stack is in two networks at once ([`ethernet`]): the node's own connections ([`TcpStream`], [`TcpListener`]) are
//! in the cluster's, and programs' sockets ([`TcpSocket`], [`UdpSocket`]) in that of the job that is on the node
//! ([`Stack::enter_job`]). Without a job they reach the node itself alone.
//!
//! Programs' sockets can be written down and made again elsewhere ([`record`]).
//!
//! Both have small ports for datagrams of their own, too ([`DatagramPort`]).
//!
//! Two things differ from an everyday stack. Ethernet addresses are computed from IPv4 addresses
//! ([`coppice_protocol::ids::MacAddress::of`]), so there is no address resolution and nothing to wait for before the
//! first packet. And all of TCP's clocks run [`limits::TIME_SCALE`] times faster than the standard's, whose one-second
//! least retransmission time is made for the world and not for one machine room.
#![cfg_attr(not(any(test, feature = "testing")), no_std)]

extern crate alloc;

mod accounts;
mod cell;
mod datagrams;
mod error;
mod ethernet;
mod job;
pub mod limits;
mod listener;
mod local;
mod own_datagrams;
pub mod record;
mod reset;
mod stack;
mod stream;
mod tcp_socket;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod udp_socket;

pub use accounts::Lender;
pub use cell::Readiness;
pub use error::{NetError, SocketError};
pub use ethernet::ETHERNET_HEADER_BYTES;
pub use job::JobNetwork;
pub use listener::{Peer, TcpListener};
pub use own_datagrams::DatagramPort;
pub use stack::{BufferSizes, Config, Stack, UserConfig};
pub use stream::TcpStream;
pub use tcp_socket::TcpSocket;
pub use udp_socket::{Received, UdpSocket};
