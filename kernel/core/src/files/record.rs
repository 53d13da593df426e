//! Open files as data: what a process has open can be written down and made again from that.
//!
//! Files are numbered ([`Catalogue`]), and whatever refers to one (a descriptor, an epoll, a mapping, a lock) names its
//! number; so are the channels between the ends of pipes and pairs. What lies on the node but outside of the process is
//! not written down but stays there while the rest is data ([`Outside`]): a handle of the I/O node, a connection,
//! memory that other ranks show.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::channel::{Channel, ChannelRecord};
use super::descriptors::Descriptors;
use super::event::EventRecord;
use super::locks::Locks;
use super::locks::record::LocksRecord;
use super::netlink::NetlinkRecord;
use super::open_file::{Object, OpenFile, Shipped};
use super::pair::record::PairRecord;
use super::pipe::PipeRecord;
use super::poller::record::PollerRecord;
use super::service::Service;
use super::shared::SharedFile;
use super::socket::Transport;
use super::socket::record::SocketRecord;
use super::special::NodeRecord;
use super::timer::TimerRecord;

mod making;
pub(crate) mod outside;
pub(crate) mod transports;

pub(super) use making::MadeChannel;
pub(crate) use making::{Making, NotMade};

/// The number of an open file, or of a channel.
pub(crate) type Number = u32;

/// What a process has open.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FilesRecord {
    pub(super) channels: Vec<ChannelRecord>,
    pub(super) files: Vec<FileRecord>,
    pub(super) descriptors: Vec<DescriptorRecord>,
    /// Numbers from here on are not given to descriptors.
    pub(super) limit: u32,
    pub(super) locks: LocksRecord,
}

/// A descriptor.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DescriptorRecord {
    pub(super) number: u32,
    pub(super) file: Number,
    pub(super) close_on_exec: bool,
}

/// An open file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FileRecord {
    pub(super) id: u64,
    pub(super) object: ObjectRecord,
    pub(super) fixed: u32,
    pub(super) settable: u32,
    pub(super) offset: u64,
    /// It may have locks.
    pub(super) locks: bool,
}

/// What an open file stands for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ObjectRecord {
    /// [`Outside::Shipped`], the next one.
    Shipped,
    /// [`Outside::Shared`], the next one.
    Shared,
    /// [`Outside::Service`], the next one.
    Service,
    /// [`Outside::Transport`], the next one, and what was asked of it; then [`Outside::Service`] if it is connected
    /// with the kernel.
    Socket(SocketRecord),
    /// A standard stream, by its number.
    Standard(u8),
    Device(u32),
    Text(NodeRecord),
    /// Nothing of it was read when it is made again.
    Asks(NodeRecord),
    /// And what a line was begun with.
    Counters(NodeRecord, Vec<u8>),
    Program(NodeRecord),
    Special(NodeRecord),
    Pipe(PipeRecord),
    Pair(PairRecord),
    Event(EventRecord),
    Timer(TimerRecord),
    /// The signals that are read.
    Signals(u64),
    Poller(PollerRecord),
    Netlink(NetlinkRecord),
}

/// What stays on the node.
pub(crate) enum Outside {
    /// With what `F_GETFL` tells.
    Shipped(Shipped, u32),
    Shared(Arc<SharedFile>),
    Service(Box<dyn Service>),
    Transport(Transport),
    /// A transport that was let go of, and is to be made again.
    NoTransport,
}

/// A record that says what cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record of its open files is damaged")]
pub(crate) struct BadFiles;

/// Files of a process by their numbers.
#[derive(Default)]
pub(crate) struct Catalogue {
    files: Vec<Arc<OpenFile>>,
    channels: Vec<Arc<Channel>>,
}

impl Catalogue {
    /// The number of a file, which has one from now on.
    pub(crate) fn number(&mut self, file: &Arc<OpenFile>) -> Number {
        let known = self.files.iter().position(|known| Arc::ptr_eq(known, file));
        known.unwrap_or_else(|| {
            self.files.push(Arc::clone(file));
            self.files.len() - 1
        }) as Number
    }

    /// The number of the file that lies there, if it has one.
    pub(super) fn number_at(&self, address: usize) -> Option<Number> {
        self.files.iter().position(|known| Arc::as_ptr(known).addr() == address).map(|number| number as Number)
    }

    /// The number of the first file that is so.
    pub(super) fn number_where(&self, is_it: impl Fn(&OpenFile) -> bool) -> Option<Number> {
        self.files.iter().position(|file| is_it(file)).map(|number| number as Number)
    }

    /// Gives numbers to all files of a process's descriptors.
    pub(crate) fn add(&mut self, descriptors: &Descriptors) {
        for number in descriptors.numbers() {
            if let Ok(descriptor) = descriptors.descriptor(number as i32) {
                self.number(&descriptor.file);
            }
        }
    }

    /// How many files and channels there are.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Bytes that lie in channels.
    pub(crate) fn bytes(&self) -> usize {
        let held = |file: &Arc<OpenFile>| match &file.object {
            Object::Pipe(end) => end.held(),
            Object::Pair(end) => end.incoming().held() + end.outgoing().held(),
            Object::Netlink(netlink) => netlink.held(),
            _ => 0,
        };
        self.files.iter().map(held).sum()
    }

    /// How many bytes the records of what carries sockets' bytes take at most, as values or as bytes.
    pub(crate) fn transport_bytes(&self) -> usize {
        let of = |file: &Arc<OpenFile>| match &file.object {
            Object::Socket(socket) => socket.transport_bytes(),
            _ => 0,
        };
        self.files.iter().map(of).sum()
    }

    /// Writes them down; all that are open are to have numbers. `of_node` says what the process's clock shows when the
    /// node's shows that, ns.
    pub(crate) fn record(
        &mut self,
        descriptors: &Descriptors,
        locks: &Locks,
        of_node: &dyn Fn(u64) -> u64,
    ) -> FilesRecord {
        let files = (0..self.files.len()).map(|index| self.file(index, of_node)).collect();
        let descriptor = |number: usize| {
            let descriptor = descriptors.descriptor(number as i32).ok()?;
            let file = self.number_at(Arc::as_ptr(&descriptor.file).addr())?;
            Some(DescriptorRecord { number: number as u32, file, close_on_exec: descriptor.close_on_exec })
        };
        FilesRecord {
            files,
            channels: self.channels.iter().map(|channel| channel.record()).collect(),
            descriptors: descriptors.numbers().filter_map(descriptor).collect(),
            limit: descriptors.limit_now(),
            locks: locks.record(self),
        }
    }

    fn file(&mut self, index: usize, of_node: &dyn Fn(u64) -> u64) -> FileRecord {
        let file = Arc::clone(&self.files[index]);
        let object = match &file.object {
            Object::Shipped(_) => ObjectRecord::Shipped,
            Object::Shared(_) => ObjectRecord::Shared,
            Object::Service(_) => ObjectRecord::Service,
            Object::Socket(socket) => ObjectRecord::Socket(socket.record()),
            Object::Standard(stream) => ObjectRecord::Standard(stream.number() as u8),
            Object::Device(device) => ObjectRecord::Device(device.minor()),
            Object::Text(_, node) => ObjectRecord::Text(node.record()),
            Object::Asks(_, node) => ObjectRecord::Asks(node.record()),
            Object::Counters(counters, node) => ObjectRecord::Counters(node.record(), counters.begun()),
            Object::Program(node) => ObjectRecord::Program(node.record()),
            Object::Special(node) => ObjectRecord::Special(node.record()),
            Object::Pipe(end) => ObjectRecord::Pipe(end.record(|channel| self.channel(channel))),
            Object::Pair(end) => ObjectRecord::Pair(end.record(|channel| self.channel(channel))),
            Object::Netlink(netlink) => ObjectRecord::Netlink(netlink.record(|channel| self.channel(channel))),
            Object::Event(event) => ObjectRecord::Event(event.record()),
            Object::Timer(timer) => ObjectRecord::Timer(timer.record(of_node)),
            Object::Signals(signals) => ObjectRecord::Signals(signals.wanted().0),
            Object::Poller(poller) => ObjectRecord::Poller(poller.record(self)),
        };
        let (fixed, settable) = file.flags_apart();
        FileRecord { id: file.id, object, fixed, settable, offset: file.offset(), locks: file.has_locks() }
    }

    fn channel(&mut self, channel: &Arc<Channel>) -> Number {
        let known = self.channels.iter().position(|known| Arc::ptr_eq(known, channel));
        known.unwrap_or_else(|| {
            self.channels.push(Arc::clone(channel));
            self.channels.len() - 1
        }) as Number
    }

    /// Takes them apart, when nobody else has any of them. Gives what stays on the node, in order; `None`: somebody
    /// has.
    pub(crate) fn take_apart(self) -> Option<Vec<Outside>> {
        let Self { files, channels } = self;
        drop(channels);
        let mut outside = Vec::new();
        for file in files {
            let file = Arc::into_inner(file)?;
            let flags = file.flags();
            match file.into_object() {
                Object::Shipped(shipped) => outside.push(Outside::Shipped(shipped, flags)),
                Object::Shared(shared) => outside.push(Outside::Shared(shared)),
                Object::Service(service) => outside.push(Outside::Service(service)),
                Object::Socket(socket) => {
                    let (transport, service) = socket.into_parts();
                    outside.push(Outside::Transport(transport));
                    outside.extend(service.map(Outside::Service));
                }
                _ => {}
            }
        }
        Some(outside)
    }
}
