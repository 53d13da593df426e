//! An open file: what descriptors refer to.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use core::task::Waker;

use coppice_protocol::lease::Grant;
use coppice_protocol::ship::{FileStatus, Handle};
use coppice_protocol::text::ByteString;
use spin::Once;

use super::asks::AskFile;
use super::cache::{CachedFile, Opening};
use super::closer::Closer;
use super::counters::CounterFile;
use super::device::Device;
use super::event::Event;
use super::flags;
use super::input::Input;
use super::locks::Locks;
use super::netlink::Netlink;
use super::pair::PairEnd;
use super::pipe::PipeEnd;
use super::poller::Poller;
use super::readiness::{Level, Ready};
use super::service::Service;
use super::shared::SharedFile;
use super::signal_file::SignalFile;
use super::socket::Socket;
use super::special::{Node, Text};
use super::stream::Stream;
use super::timer::TimerFile;
use super::turns::{Turn, Turns};
use crate::errno::Errno;
use crate::memory::FileIdentity;
use crate::quota::{Charge, Quota, shared_bytes};
use crate::ship::Client;

/// The type bits of a mode.
pub(crate) const S_IFMT: u32 = 0o170_000;
/// A directory.
pub(crate) const S_IFDIR: u32 = 0o040_000;
/// A regular file.
pub(crate) const S_IFREG: u32 = 0o100_000;

/// A standard stream of the job.
#[derive(Clone)]
pub(crate) enum Standard {
    /// Standard input.
    Input(Arc<Input>),
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

impl Standard {
    /// 0, 1 or 2, as the descriptors of new processes.
    pub(crate) const fn number(&self) -> u64 {
        match self {
            Self::Input(_) => 0,
            Self::Output => 1,
            Self::Error => 2,
        }
    }
}

/// A file at the I/O node. Its handle goes back when this is dropped.
pub(crate) struct Shipped {
    pub(crate) handle: Handle,
    /// What it was when it was opened; device, inode and type do not change.
    pub(crate) status: FileStatus,
    /// Where it was opened.
    pub(crate) path: ByteString,
    /// What its node knows of it, if it is a regular file.
    cached: Option<Arc<CachedFile>>,
    /// What that is charged with.
    _charge: Charge,
    closer: Closer,
}

impl Shipped {
    /// One that was opened with these flags, and is `now`, with that lease and what came with it; when it was opened
    /// first it was `was`.
    /// `known` is what it is charged with that something is known of it.
    pub(super) fn opened(
        (handle, now, lease): (Handle, &FileStatus, Option<(Grant, &[u8])>),
        was: FileStatus,
        opened_with: u32,
        (path, charge, known): (ByteString, Charge, Opening),
        closer: &Closer,
    ) -> Self {
        let is_file = opened_with & flags::O_PATH == 0 && now.mode & S_IFMT == S_IFREG;
        let is_leased = lease.is_some();
        let cached = is_file.then(|| closer.cache().opened(now, lease, known));
        closer.client().tally().opened(cached.as_ref().map_or(0, |cached| cached.take_found()));
        if let Some(cached) = &cached
            && matches!(opened_with & flags::O_ACCMODE, flags::O_WRONLY | flags::O_RDWR)
        {
            if !is_leased {
                cached.is_not_sole();
            }
            cached.writes_with(closer.client(), handle);
        }
        Self { handle, status: was, path, cached, _charge: charge, closer: closer.clone() }
    }

    /// Whose it is.
    pub(crate) fn client(&self) -> &Client {
        self.closer.client()
    }

    /// What its node knows of it.
    pub(crate) fn cached(&self) -> Option<&Arc<CachedFile>> {
        self.cached.as_ref()
    }

    /// Which file it is.
    pub(crate) fn identity(&self) -> FileIdentity {
        FileIdentity { device: self.status.device, inode: self.status.inode }
    }
}

impl Drop for Shipped {
    fn drop(&mut self) {
        self.closer.close(self.handle, self.cached.take());
    }
}

/// What an open file stands for.
pub(crate) enum Object {
    /// A file or directory at the I/O node.
    Shipped(Shipped),
    /// A standard stream.
    Standard(Standard),
    /// A device the kernel makes.
    Device(Device),
    /// A text that the kernel makes whenever it is read.
    Text(Text, Node),
    /// Where programs ask for checkpoints, and are told of them.
    Asks(AskFile, Node),
    /// Where programs offer counters.
    Counters(CounterFile, Node),
    /// The program's own file.
    Program(Node),
    /// A directory the kernel makes, or (`O_PATH`) any other entry of one.
    Special(Node),
    /// A file in `/dev/shm`.
    Shared(Arc<SharedFile>),
    /// One end of a pipe.
    Pipe(PipeEnd),
    /// One end of a pair of sockets.
    Pair(PairEnd),
    /// A socket of the network.
    Socket(Socket),
    /// A socket that tells of the network's interfaces.
    Netlink(Netlink),
    /// A counter.
    Event(Event),
    /// A timer.
    Timer(TimerFile),
    /// Signals that are read.
    Signals(SignalFile),
    /// A set of open files to wait for.
    Poller(Poller),
    /// What the kernel is at the other end of.
    Service(Box<dyn Service>),
}

/// What an open file takes of the heap, bytes: itself, and where it says what it is ready for. What its object takes
/// beside that, the object charges.
pub(crate) const OPEN_FILE_BYTES: usize = shared_bytes::<OpenFile>() + shared_bytes::<AtomicU16>();

/// An open file.
pub(crate) struct OpenFile {
    pub(crate) object: Object,
    /// Which it is: no other has this number.
    pub(crate) id: u64,
    /// Of [`flags::KEPT`]: what `F_GETFL` tells and nothing changes.
    fixed: u32,
    /// What `F_SETFL` changes.
    settable: AtomicU32,
    /// Where reads and writes go on, bytes; for directories, the position in the listing.
    offset: AtomicU64,
    /// Whose turn it is to use that.
    turns: Turns,
    level: Level,
    /// Where it has locks, if it ever had one.
    locks: Once<Arc<Locks>>,
    /// The memory it takes ([`OPEN_FILE_BYTES`]); none for what each process has from the start.
    charge: Once<Charge>,
}

impl Object {
    /// Where it says what it is ready for.
    fn level(&self) -> Level {
        match self {
            Self::Pipe(end) => end.level.clone(),
            Self::Pair(end) => end.level.clone(),
            Self::Socket(socket) => socket.level.clone(),
            Self::Netlink(netlink) => netlink.level.clone(),
            Self::Event(event) => event.level.clone(),
            Self::Standard(Standard::Input(_))
            | Self::Poller(_)
            | Self::Service(_)
            | Self::Timer(_)
            | Self::Asks(..)
            | Self::Signals(_) => Level::new(Level::LOOK_CLOSER),
            Self::Standard(_) => Level::new(Ready::WRITE.bits()),
            Self::Shipped(_)
            | Self::Device(_)
            | Self::Text(..)
            | Self::Counters(..)
            | Self::Program(_)
            | Self::Special(_)
            | Self::Shared(_) => Level::new(Ready::NEVER_WAITS.bits()),
        }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if let Some(locks) = self.locks.get() {
            locks.gone(self);
        }
    }
}

impl OpenFile {
    /// An object opened with these `O_*` flags.
    pub(crate) fn new(object: Object, opened_with: u32) -> Self {
        let level = if opened_with & flags::O_PATH != 0 { Level::new(Level::INVALID) } else { object.level() };
        // What stands for a place only is never read, so it is not large either.
        let large = if opened_with & flags::O_PATH != 0 { 0 } else { flags::O_LARGEFILE };
        Self {
            object,
            id: super::serial(),
            level,
            fixed: opened_with & flags::KEPT | large,
            settable: AtomicU32::new(opened_with & flags::SETTABLE),
            offset: AtomicU64::new(0),
            turns: Turns::new(),
            locks: Once::new(),
            charge: Once::new(),
        }
    }

    /// One that was written down, with the memory it takes charged.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn again(
        object: Object,
        (id, fixed, settable, offset): (u64, u32, u32, u64),
        quota: &Arc<Quota>,
    ) -> Result<Self, Errno> {
        let charge = quota.charge(OPEN_FILE_BYTES)?;
        let mut file = Self::new(object, fixed & flags::O_PATH);
        file.id = id;
        super::serials_from(id);
        file.fixed = fixed;
        file.settable = AtomicU32::new(settable & flags::SETTABLE);
        file.set_offset(offset);
        file.charge(charge);
        Ok(file)
    }

    /// What it stands for, in its place.
    pub(super) fn into_object(mut self) -> Object {
        core::mem::replace(&mut self.object, Object::Device(Device::Null))
    }

    /// What `F_GETFL` tells: what nothing changes, and what `F_SETFL` does.
    pub(super) fn flags_apart(&self) -> (u32, u32) {
        (self.fixed, self.settable.load(Ordering::Relaxed))
    }

    /// Whether it may have locks.
    pub(super) fn has_locks(&self) -> bool {
        self.locks.get().is_some()
    }

    /// It may have locks there from now on, which end with it.
    pub(crate) fn may_lock(&self, locks: &Arc<Locks>) {
        self.locks.call_once(|| Arc::clone(locks));
    }

    /// The same, with the memory it takes charged.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn charged(self, quota: &Arc<Quota>) -> Result<Arc<Self>, Errno> {
        let charge = quota.charge(OPEN_FILE_BYTES)?;
        self.charge(charge);
        Ok(Arc::new(self))
    }

    /// It has the memory that it takes, if it had none before.
    pub(crate) fn charge(&self, charge: Charge) {
        self.charge.call_once(|| charge);
    }

    /// A file that the I/O node has opened.
    pub(crate) fn shipped(
        (handle, status, lease): (Handle, FileStatus, Option<(Grant, &[u8])>),
        charged: (ByteString, Charge, Opening),
        opened_with: u32,
        closer: &Closer,
    ) -> Self {
        let shipped = Shipped::opened((handle, &status, lease), status, opened_with, charged, closer);
        Self::new(Object::Shipped(shipped), opened_with)
    }

    /// What a program made to talk through or to wait at.
    pub(crate) fn object(object: Object, opened_with: u32) -> Self {
        let mut file = Self::new(object, opened_with);
        file.fixed = opened_with & flags::O_ACCMODE;
        file
    }

    /// A standard stream: one end of a pipe, as far as the program can see.
    pub(crate) fn standard(stream: Standard) -> Self {
        let access = if matches!(stream, Standard::Input(_)) { flags::O_RDONLY } else { flags::O_WRONLY };
        Self::object(Object::Standard(stream), access)
    }

    /// What `F_GETFL` tells.
    pub(crate) fn flags(&self) -> u32 {
        self.fixed | self.settable.load(Ordering::Relaxed)
    }

    /// Sets what `F_SETFL` can.
    pub(crate) fn set_flags(&self, flags: u32) {
        self.settable.store(flags & flags::SETTABLE, Ordering::Relaxed);
    }

    /// Whether it stands for a place only (`O_PATH`).
    pub(crate) fn is_path(&self) -> bool {
        self.fixed & flags::O_PATH != 0
    }

    /// Whether it may be read.
    pub(crate) fn is_readable(&self) -> bool {
        !self.is_path() && matches!(self.fixed & flags::O_ACCMODE, flags::O_RDONLY | flags::O_RDWR)
    }

    /// Whether it may be written.
    pub(crate) fn is_writable(&self) -> bool {
        !self.is_path() && matches!(self.fixed & flags::O_ACCMODE, flags::O_WRONLY | flags::O_RDWR)
    }

    /// Whether writes go to the end.
    pub(crate) fn appends(&self) -> bool {
        self.flags() & flags::O_APPEND != 0
    }

    /// Whether reads do not wait.
    pub(crate) fn is_nonblocking(&self) -> bool {
        self.flags() & flags::O_NONBLOCK != 0
    }

    /// What can be done with it now without waiting. Of standard input, as far as that is known.
    pub(crate) fn ready(&self) -> Ready {
        let bits = self.level.bits();
        if bits & Level::LOOK_CLOSER == 0 {
            return Ready::from_bits_truncate(bits);
        }
        match &self.object {
            Object::Standard(Standard::Input(input)) => input.ready(),
            Object::Pair(end) => end.ready(),
            Object::Poller(poller) => poller.ready(),
            Object::Service(service) => service.ready(),
            Object::Socket(socket) => socket.ready(),
            Object::Timer(timer) => timer.ready(),
            Object::Asks(asks, _) => asks.ready(),
            Object::Signals(signals) => signals.ready(),
            _ => Ready::empty(),
        }
    }

    /// What [`Self::ready`] says, if it can be said without a closer look.
    #[inline]
    pub(crate) fn level(&self) -> &Level {
        &self.level
    }

    /// Has `waker` woken when [`Self::ready`] may say something else.
    ///
    /// # Errors
    /// `ENOMEM`: it is woken now.
    pub(crate) fn watch(&self, waker: &Waker) -> Result<(), Errno> {
        match &self.object {
            Object::Standard(Standard::Input(input)) => input.watch(waker),
            Object::Pipe(end) => end.watch(waker),
            Object::Pair(end) => end.watch(waker),
            Object::Socket(socket) => socket.watch(waker),
            Object::Netlink(netlink) => netlink.watch(waker),
            Object::Event(event) => event.watch(waker),
            Object::Poller(poller) => poller.watch(waker),
            Object::Service(service) => service.watch(waker),
            Object::Timer(timer) => timer.watch(waker),
            Object::Asks(asks, _) => asks.watch(waker),
            Object::Signals(signals) => signals.watch(waker),
            _ => Ok(()),
        }
    }

    /// Tells those who watch it of what has come true and was not announced yet: a time that was reached since the
    /// clock was last looked at. Whether there was something.
    pub(crate) fn settle(&self) -> bool {
        matches!(&self.object, Object::Timer(timer) if timer.settle())
    }

    /// Whether it ever makes anybody wait, so that there is something to watch.
    pub(crate) fn makes_wait(&self) -> bool {
        matches!(self.object, Object::Asks(..)) || self.has_no_offsets()
    }

    /// What is read and written without offsets, if it is that.
    pub(crate) fn as_stream(&self) -> Option<&dyn Stream> {
        match &self.object {
            Object::Pipe(end) => Some(end),
            Object::Pair(end) => Some(end),
            Object::Socket(socket) => Some(socket),
            Object::Netlink(netlink) => Some(netlink),
            Object::Event(event) => Some(event),
            Object::Timer(timer) => Some(timer),
            Object::Service(service) => Some(&**service),
            _ => None,
        }
    }

    /// Whether reads and writes have no offsets (`ESPIPE`).
    pub(crate) fn has_no_offsets(&self) -> bool {
        matches!(self.object, Object::Standard(_) | Object::Poller(_) | Object::Signals(_))
            || self.as_stream().is_some()
    }

    /// Waits for one's turn to read or write where it was left.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        self.turns.take().await
    }

    /// The same if nobody has it.
    pub(crate) fn try_turn(&self) -> Option<Turn<'_>> {
        self.turns.try_take()
    }

    /// Where reads and writes go on, bytes. To be used in one's turn.
    pub(crate) fn offset(&self) -> u64 {
        self.offset.load(Ordering::Relaxed)
    }

    /// Sets where reads and writes go on, in one's turn.
    pub(crate) fn set_offset(&self, offset: u64) {
        self.offset.store(offset, Ordering::Relaxed);
    }

    /// The file at the I/O node, if it is one.
    pub(crate) fn as_shipped(&self) -> Option<&Shipped> {
        match &self.object {
            Object::Shipped(shipped) => Some(shipped),
            _ => None,
        }
    }

    /// The file in `/dev/shm`, if it is one.
    pub(crate) fn as_shared(&self) -> Option<&SharedFile> {
        match &self.object {
            Object::Shared(file) => Some(file),
            _ => None,
        }
    }

    /// Whether it is a directory.
    pub(crate) fn is_directory(&self) -> bool {
        match &self.object {
            Object::Shipped(shipped) => shipped.status.mode & S_IFMT == S_IFDIR,
            Object::Special(node) => node.is_directory(),
            _ => false,
        }
    }

    /// Whether it is a regular file, whose bytes have offsets.
    pub(crate) fn is_regular(&self) -> bool {
        match &self.object {
            Object::Shipped(shipped) => shipped.status.mode & S_IFMT == S_IFREG,
            Object::Text(..) | Object::Program(_) | Object::Shared(_) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
