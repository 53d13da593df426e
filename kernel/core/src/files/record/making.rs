//! Open files made again from their record.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::task::Waker;

use super::{BadFiles, FileRecord, FilesRecord, Number, ObjectRecord, Outside};
use crate::abi::signal_set::SignalSet;
use crate::errno::Errno;
use crate::files::asks::{AskFile, Asks};
use crate::files::channel::{Channel, ChannelRecord};
use crate::files::counters::{CounterFile, Offered};
use crate::files::descriptors::{Descriptor, Descriptors};
use crate::files::device::Device;
use crate::files::event::Event;
use crate::files::input::Input;
use crate::files::locks::Locks;
use crate::files::netlink::Netlink;
use crate::files::open_file::{Object, OpenFile, Standard};
use crate::files::pair::PairEnd;
use crate::files::pipe::PipeEnd;
use crate::files::poller::Poller;
use crate::files::readiness::Level;
use crate::files::signal_board::SignalBoard;
use crate::files::signal_file::SignalFile;
use crate::files::socket::Socket;
use crate::files::special::{Kind, Node};
use crate::files::timer::TimerFile;
use crate::net::Network;
use crate::quota::Quota;

/// What files are made with.
pub(crate) struct Making<'a> {
    pub(crate) quota: &'a Arc<Quota>,
    /// The node's network.
    pub(crate) network: &'a Arc<dyn Network>,
    pub(crate) input: &'a Arc<Input>,
    pub(crate) locks: &'a Arc<Locks>,
    /// The job's checkpoints.
    pub(crate) asks: &'a Arc<Asks>,
    /// The process's counters.
    pub(crate) offered: &'a Arc<Offered>,
    /// Where signals are read, if any are.
    pub(crate) board: &'a dyn Fn() -> Arc<SignalBoard>,
    /// What the node's clock shows when the process's shows that, ns.
    pub(crate) on_node: &'a dyn Fn(u64) -> u64,
}

/// The files of a process.
pub(crate) struct Made {
    pub(crate) descriptors: Descriptors,
    /// By their numbers.
    pub(crate) files: Vec<Arc<OpenFile>>,
}

/// Why there is not one that is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotMade {
    /// See there.
    #[error(transparent)]
    Bad(#[from] BadFiles),
    /// There is no memory.
    #[error("there is no memory for its open files: {0}")]
    Errno(Errno),
}

impl From<Errno> for NotMade {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// A channel that is made, and the levels of its ends.
pub(in crate::files) struct MadeChannel {
    pub(in crate::files) channel: Arc<Channel>,
    pub(in crate::files) reader: Level,
    pub(in crate::files) writer: Level,
}

impl FilesRecord {
    /// Makes them. What stayed on the node is taken, in order.
    ///
    /// # Errors
    /// [`NotMade`].
    pub(crate) fn make(self, making: &Making<'_>, outside: Vec<Outside>) -> Result<Made, NotMade> {
        let levels = levels(&self.channels, &self.files)?;
        let mut channels = Vec::new();
        for (record, (reader, writer)) in self.channels.into_iter().zip(levels) {
            let channel = record.make((&reader, &writer), making.quota)?;
            channels.push(MadeChannel { channel, reader, writer });
        }
        let mut outside = outside.into_iter();
        let mut files = Vec::new();
        let mut pollers = Vec::new();
        for FileRecord { id, object, fixed, settable, offset, locks } in self.files {
            let made = object.make(making, &mut outside, &channels, &mut |record| {
                pollers.push((files.len(), record));
            })?;
            let file = OpenFile::again(made, (id, fixed, settable, offset), making.quota)?;
            if locks {
                file.may_lock(making.locks);
            }
            files.push(Arc::new(file));
        }
        for (number, record) in &pollers {
            if let Object::Poller(poller) = &files[*number].object {
                poller.watch_again(record, &files, making.quota)?;
            }
        }
        let mut changed = Vec::new();
        for (number, record) in pollers {
            if let Object::Poller(poller) = &files[number].object {
                changed.extend(poller.as_before(record, &files)?);
            }
        }
        changed.into_iter().for_each(Waker::wake);
        making.locks.make(self.locks, &files)?;
        let mut descriptors = Descriptors::empty(self.limit, making.quota);
        for record in self.descriptors {
            let file = Arc::clone(files.get(record.file as usize).ok_or(BadFiles)?);
            let descriptor = Descriptor { file, close_on_exec: record.close_on_exec };
            descriptors.put_again(record.number, descriptor)?;
        }
        Ok(Made { descriptors, files })
    }
}

/// The levels of the reading and the writing side of each channel. Both directions of a pair's end have one.
fn levels(channels: &[ChannelRecord], files: &[FileRecord]) -> Result<Vec<(Level, Level)>, BadFiles> {
    let mut levels = vec![(None, None); channels.len()];
    for file in files {
        let level = Level::new(0);
        match &file.object {
            ObjectRecord::Pipe(end) => {
                let (channel, reads) = end.side();
                let of = levels.get_mut(channel as usize).ok_or(BadFiles)?;
                *(if reads { &mut of.0 } else { &mut of.1 }) = Some(level);
            }
            ObjectRecord::Pair(end) => {
                let (incoming, outgoing) = end.channels();
                levels.get_mut(incoming as usize).ok_or(BadFiles)?.0 = Some(level.clone());
                levels.get_mut(outgoing as usize).ok_or(BadFiles)?.1 = Some(level);
            }
            ObjectRecord::Netlink(netlink) => {
                levels.get_mut(netlink.channel() as usize).ok_or(BadFiles)?.0 = Some(level);
            }
            _ => {}
        }
    }
    // Of a side that is closed nobody looks at the level.
    let or_none = |level: Option<Level>| level.unwrap_or_else(|| Level::new(0));
    Ok(levels.into_iter().map(|(reader, writer)| (or_none(reader), or_none(writer))).collect())
}

impl ObjectRecord {
    fn make(
        self,
        making: &Making<'_>,
        outside: &mut dyn Iterator<Item = Outside>,
        channels: &[MadeChannel],
        poller: &mut dyn FnMut(crate::files::poller::record::PollerRecord),
    ) -> Result<Object, NotMade> {
        let channel = |number: Number| channels.get(number as usize).ok_or(BadFiles);
        Ok(match self {
            Self::Shipped | Self::Shared | Self::Service => match (self, outside.next()) {
                (Self::Shipped, Some(Outside::Shipped(shipped, _))) => Object::Shipped(shipped),
                (Self::Shared, Some(Outside::Shared(shared))) => Object::Shared(shared),
                (Self::Service, Some(Outside::Service(service))) => Object::Service(service),
                _ => return Err(BadFiles.into()),
            },
            Self::Socket(record) => match outside.next() {
                Some(Outside::Transport(transport)) => {
                    let service = match record.is_served().then(|| outside.next()) {
                        None => None,
                        Some(Some(Outside::Service(service))) => Some(service),
                        Some(_) => return Err(BadFiles.into()),
                    };
                    Object::Socket(Socket::again(record, (transport, service), making.quota)?)
                }
                _ => return Err(BadFiles.into()),
            },
            Self::Standard(0) => Object::Standard(Standard::Input(Arc::clone(making.input))),
            Self::Standard(1) => Object::Standard(Standard::Output),
            Self::Standard(2) => Object::Standard(Standard::Error),
            Self::Standard(_) => return Err(BadFiles.into()),
            Self::Device(minor) => Object::Device(Device::of_minor(minor).ok_or(BadFiles)?),
            Self::Text(node) => match Node::again(&node).ok_or(BadFiles)? {
                node @ Node { kind: Kind::Text(text), .. } => Object::Text(text, node),
                _ => return Err(BadFiles.into()),
            },
            Self::Asks(node) => match Node::again(&node).ok_or(BadFiles)? {
                node @ Node { kind: Kind::Checkpoint, .. } => Object::Asks(AskFile::new(making.asks), node),
                _ => return Err(BadFiles.into()),
            },
            Self::Counters(node, begun) => match Node::again(&node).ok_or(BadFiles)? {
                node @ Node { kind: Kind::Counters, .. } => {
                    Object::Counters(CounterFile::again(making.offered, &begun).map_err(|_| BadFiles)?, node)
                }
                _ => return Err(BadFiles.into()),
            },
            Self::Program(node) => Object::Program(Node::again(&node).ok_or(BadFiles)?),
            Self::Special(node) => Object::Special(Node::again(&node).ok_or(BadFiles)?),
            Self::Pipe(record) => Object::Pipe(PipeEnd::again(&record, channel(record.side().0)?)),
            Self::Pair(record) => {
                let (incoming, outgoing) = record.channels();
                Object::Pair(PairEnd::again(&record, channel(incoming)?, channel(outgoing)?))
            }
            Self::Netlink(record) => {
                let incoming = channel(record.channel())?;
                Object::Netlink(Netlink::again(&record, incoming, making.network, making.quota))
            }
            Self::Event(record) => Object::Event(Event::again(record, making.quota)?),
            Self::Timer(record) => Object::Timer(TimerFile::again(&record, making.on_node, making.quota)?),
            Self::Signals(wanted) => Object::Signals(SignalFile::new(SignalSet(wanted), (making.board)())),
            Self::Poller(record) => {
                poller(record);
                Object::Poller(Poller::new(making.quota)?)
            }
        })
    }
}
