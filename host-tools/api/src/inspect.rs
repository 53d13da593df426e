//! What a rank has open, and what its node is asked about it while it is held.

use std::net::Ipv4Addr;

pub use coppice_protocol::inspect::{Answer, Query, Question, debug, held};
use coppice_protocol::inspect::{OpenObject, PairKind, What};
use coppice_protocol::text::ByteString;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::schema::Text;

/// What of a rank is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ObjectsQuery {
    /// Descriptors from this number on.
    #[serde(default)]
    pub from: u32,
}

/// Some of what a rank has open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ObjectsView {
    /// By their descriptors.
    pub objects: Vec<ObjectView>,
    /// The next descriptor, if there are more.
    pub next: Option<u32>,
}

/// What a descriptor stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ObjectView {
    /// The descriptor.
    pub descriptor: u32,
    /// The number of the open file: descriptors that share one have the same.
    pub id: u64,
    /// `O_*`, as fcntl(2) tells.
    pub flags: u32,
    /// `FD_CLOEXEC` is set.
    pub close_on_exec: bool,
    /// Where reads and writes go on, bytes.
    pub offset: u64,
    /// What it is.
    #[serde(flatten)]
    pub object: ObjectKind,
}

/// What an open file stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ObjectKind {
    /// A file or directory of the job's root.
    File {
        /// Where it was opened, cut if it is long.
        #[schema(value_type = Text)]
        path: ByteString,
        /// Type and permissions when it was opened.
        mode: u32,
        /// Device.
        device: u64,
        /// Inode.
        inode: u64,
        /// Length when it was opened, bytes.
        size: u64,
    },
    /// A standard stream.
    Standard {
        /// 0, 1 or 2.
        stream: u8,
    },
    /// A file, directory or device that the node's kernel makes.
    Kernel {
        /// Its path.
        #[schema(value_type = Text)]
        path: ByteString,
    },
    /// Memory that ranks share.
    Shared {
        /// Inode.
        inode: u64,
        /// Length, bytes.
        size: u64,
    },
    /// An end of a pipe.
    Pipe {
        /// Which pipe.
        pipe: u64,
        /// Bytes in it.
        held: u64,
    },
    /// An end of a pair of sockets.
    Pair {
        /// Which end.
        end: u64,
        /// `stream`, `sequence` or `datagrams`.
        keeps: String,
        /// Bytes that can be read.
        held: u64,
    },
    /// A socket of the network.
    Socket {
        /// Whether it is for connections, or else for datagrams.
        stream: bool,
        /// It accepts connections.
        listening: bool,
        /// Its own address.
        #[schema(value_type = String, format = Ipv4)]
        address: Ipv4Addr,
        /// Its own port; 0: none.
        port: u16,
        /// Its peer's address and port.
        #[schema(value_type = Option<(String, u16)>)]
        peer: Option<(Ipv4Addr, u16)>,
        /// Bytes that can be read.
        held: u64,
        /// Bytes that the peer's node has not acknowledged.
        unsent: u64,
    },
    /// A counter.
    Event {
        /// What it counts.
        value: u64,
    },
    /// A timer.
    Timer {
        /// How long until it is up, ns; 0: it is not set.
        left_ns: u64,
        /// How long from then until it is up again, ns; 0: it is not.
        interval_ns: u64,
    },
    /// Signals that are read.
    Signals {
        /// Their numbers.
        signals: Vec<u32>,
    },
    /// An epoll.
    Poller {
        /// The first files it watches.
        watched: Vec<WatchedView>,
        /// How many it watches.
        count: u32,
    },
    /// What the node's kernel is at the other end of.
    Service {
        /// Bytes that can be read.
        held: u64,
    },
}

/// A file that an epoll watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WatchedView {
    /// The descriptor that it was given by.
    pub descriptor: i32,
    /// The number of the open file.
    pub id: u64,
    /// `EPOLL*`.
    pub events: u32,
}

impl From<OpenObject> for ObjectView {
    fn from(object: OpenObject) -> Self {
        let OpenObject { descriptor, close_on_exec, id, flags, offset, what } = object;
        Self { descriptor, id, flags, close_on_exec, offset, object: what.into() }
    }
}

impl From<What> for ObjectKind {
    fn from(what: What) -> Self {
        match what {
            What::File { path, mode, device, inode, size } => Self::File { path, mode, device, inode, size },
            What::Standard(stream) => Self::Standard { stream },
            What::Kernel { path } => Self::Kernel { path },
            What::Shared { inode, size } => Self::Shared { inode, size },
            What::Pipe { pipe, held } => Self::Pipe { pipe, held },
            What::Pair { end, kind, held } => {
                let keeps = match kind {
                    PairKind::Stream => "stream",
                    PairKind::Sequence => "sequence",
                    PairKind::Datagrams => "datagrams",
                };
                Self::Pair { end, keeps: keeps.to_owned(), held }
            }
            What::Socket { stream, listening, local: (address, port), peer, held, unsent } => {
                Self::Socket { stream, listening, address, port, peer, held, unsent }
            }
            What::Event { value } => Self::Event { value },
            What::Timer { left_ns, interval_ns } => Self::Timer { left_ns, interval_ns },
            What::Signals { wanted } => {
                Self::Signals { signals: (1..=64).filter(|signal| wanted >> (signal - 1) & 1 != 0).collect() }
            }
            What::Poller { watched, count } => {
                let watched = watched.into_iter();
                let view = |(descriptor, id, events)| WatchedView { descriptor, id, events };
                Self::Poller { watched: watched.map(view).collect(), count }
            }
            What::Service { held } => Self::Service { held },
        }
    }
}
