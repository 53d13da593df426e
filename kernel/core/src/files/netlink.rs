//! Netlink sockets for interfaces, addresses and routes (rtnetlink(7)): how getifaddrs(3) and its like ask for them.
//!
//! The kernel is at the other end. It answers a request while it is sent, so what a socket has is answers that wait to
//! be read. Nothing ever changes by itself, so nobody who is in a group hears anything.

mod answers;

use alloc::sync::Arc;
use core::task::Waker;

use coppice_hal::heap::block_bytes;
use serde::{Deserialize, Serialize};

use self::answers::answer_all;
use super::buffer;
use super::channel::{Channel, Kind};
use super::readiness::{Level, Ready};
use super::record::{MadeChannel, Number};
use super::serial;
use super::socket_options::Options;
use super::stream::{Shape, Sink, Source, Stream, Taken, copy_from};
use crate::abi::netlink::Name;
use crate::errno::Errno;
use crate::limits::{NETLINK_ANSWER_BYTES, NETLINK_BYTES_MAX, NETLINK_REQUEST_BYTES_MAX};
use crate::net::Network;
use crate::quota::Quota;
use crate::sync::{LockLevel, Mutex};

/// A socket.
pub(crate) struct Netlink {
    /// The answers.
    incoming: Arc<Channel>,
    /// What can be done with it.
    pub(crate) level: Level,
    /// Tells it from other sockets.
    pub(crate) serial: u64,
    /// Its type is `SOCK_RAW`, which makes no difference but that it is told.
    pub(crate) is_raw: bool,
    chosen: Mutex<Chosen>,
    network: Arc<dyn Network>,
    quota: Arc<Quota>,
}

/// What the program chose.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Chosen {
    /// 0 as long as it has none.
    port: u32,
    groups: u32,
    options: Options,
}

/// A socket as data.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NetlinkRecord {
    incoming: Number,
    serial: u64,
    is_raw: bool,
    chosen: Chosen,
}

impl NetlinkRecord {
    /// The number of the channel of its answers.
    pub(crate) const fn channel(&self) -> Number {
        self.incoming
    }
}

impl Netlink {
    /// A new one, which tells of this network's interfaces.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new(is_raw: bool, network: &Arc<dyn Network>, quota: &Arc<Quota>) -> Result<Self, Errno> {
        let level = Level::new(Ready::WRITE.bits());
        let incoming = Channel::new(Kind::Messages, NETLINK_BYTES_MAX, (&level, &Level::new(0)), quota)?;
        Ok(Self {
            incoming,
            level,
            serial: serial(),
            is_raw,
            chosen: Mutex::new(LockLevel::Fact, Chosen::default()),
            network: Arc::clone(network),
            quota: Arc::clone(quota),
        })
    }

    /// What it is called.
    pub(crate) fn name(&self) -> Name {
        let chosen = self.chosen.lock();
        Name { port: chosen.port, groups: chosen.groups }
    }

    /// Gives it a name. Without a port in it, it gets one.
    ///
    /// # Errors
    /// `EINVAL`: it has another port.
    pub(crate) fn bind(&self, name: Name) -> Result<(), Errno> {
        let mut chosen = self.chosen.lock();
        if chosen.port != 0 && chosen.port != name.port {
            return Err(Errno::EINVAL);
        }
        chosen.port = if name.port == 0 { self.own_port() } else { name.port };
        chosen.groups = name.groups;
        Ok(())
    }

    /// Its port; it has one from now on.
    pub(crate) fn port(&self) -> u32 {
        let mut chosen = self.chosen.lock();
        if chosen.port == 0 {
            chosen.port = self.own_port();
        }
        chosen.port
    }

    /// The port that it gets if it does not choose one. Negative, as Linux has them of processes' further sockets:
    /// those are no process's number, and no other socket's here.
    const fn own_port(&self) -> u32 {
        const NEGATIVE: u32 = 1 << 31;
        self.serial as u32 | NEGATIVE
    }

    /// What was asked of it.
    pub(crate) fn options(&self) -> Options {
        self.chosen.lock().options
    }

    /// Asks something else of it.
    pub(crate) fn change_options(&self, change: impl FnOnce(&mut Options)) {
        change(&mut self.chosen.lock().options);
    }

    /// It is in a group from now on, or no more.
    ///
    /// # Errors
    /// `EINVAL`: there is no such group.
    pub(crate) fn join(&self, group: u32, is_in: bool) -> Result<(), Errno> {
        let which = group.checked_sub(1).and_then(|bit| 1_u32.checked_shl(bit)).ok_or(Errno::EINVAL)?;
        let groups = &mut self.chosen.lock().groups;
        *groups = if is_in { *groups | which } else { *groups & !which };
        Ok(())
    }

    /// Bytes that can be read.
    pub(crate) fn held(&self) -> usize {
        self.incoming.held()
    }

    /// See [`super::OpenFile::watch`].
    pub(crate) fn watch(&self, waker: &Waker) -> Result<(), Errno> {
        self.incoming.readers.watch(waker)
    }

    /// Writes it down.
    pub(crate) fn record(&self, mut number: impl FnMut(&Arc<Channel>) -> Number) -> NetlinkRecord {
        let (serial, is_raw) = (self.serial, self.is_raw);
        NetlinkRecord { incoming: number(&self.incoming), serial, is_raw, chosen: *self.chosen.lock() }
    }

    /// Makes it again.
    pub(super) fn again(
        record: &NetlinkRecord,
        incoming: &MadeChannel,
        network: &Arc<dyn Network>,
        quota: &Arc<Quota>,
    ) -> Self {
        let level = incoming.reader.clone();
        level.set(Ready::WRITE.bits(), Ready::WRITE.bits());
        Self {
            incoming: Arc::clone(&incoming.channel),
            level,
            serial: record.serial,
            is_raw: record.is_raw,
            chosen: Mutex::new(LockLevel::Fact, record.chosen),
            network: Arc::clone(network),
            quota: Arc::clone(quota),
        }
    }
}

impl Stream for Netlink {
    fn take(&self, limit: usize, peek: bool, sink: &mut Sink<'_>) -> Result<Taken, Errno> {
        self.incoming.take(limit, peek, sink)
    }

    /// Answers requests. Those for whose answers there is no room are answered with `ENOBUFS`, and so nobody waits for
    /// room: who sends is who would have to read.
    fn put(&self, length: usize, source: &mut Source<'_>) -> Result<usize, Errno> {
        if length > NETLINK_REQUEST_BYTES_MAX {
            return Err(Errno::EMSGSIZE);
        }
        // An error says what it is about.
        let _charge = self.quota.charge(block_bytes(length) + block_bytes(2 * length + NETLINK_ANSWER_BYTES))?;
        let mut requests = buffer(length)?;
        if source(&mut requests) < length {
            return Ok(0);
        }
        answer_all(&requests, self.port(), &*self.network, &mut |answer| match self
            .incoming
            .put(answer.len(), &mut copy_from(answer))
        {
            Err(Errno::EAGAIN) => Err(Errno::ENOBUFS),
            other => other.map(drop),
        })?;
        Ok(length)
    }

    fn shape(&self) -> Shape {
        Shape::Messages
    }
}

#[cfg(test)]
mod tests;
