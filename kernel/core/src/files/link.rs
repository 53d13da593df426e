//! What the links in `/proc/self/fd` say.

use alloc::format;
use alloc::vec::Vec;

use super::open_file::{Object, OpenFile};
use super::pair::PairEnd;
use super::socket::Socket;

impl OpenFile {
    /// What it stands for, as the link of a descriptor says it, if that is known.
    pub(crate) fn name(&self) -> Option<Vec<u8>> {
        let anonymous = |kind: &str| Some(format!("anon_inode:[{kind}]").into_bytes());
        let socket = |serial: u64| Some(format!("socket:[{serial}]").into_bytes());
        match &self.object {
            Object::Shipped(_) => None,
            Object::Standard(stream) => Some(format!("pipe:[{}]", 1 + stream.number()).into_bytes()),
            Object::Pipe(end) => Some(format!("pipe:[{}]", end.serial).into_bytes()),
            Object::Pair(PairEnd { serial, .. }) | Object::Socket(Socket { serial, .. }) => socket(*serial),
            Object::Netlink(netlink) => socket(netlink.serial),
            Object::Service(service) => socket(service.serial()),
            Object::Event(_) => anonymous("eventfd"),
            Object::Timer(_) => anonymous("timerfd"),
            Object::Signals(_) => anonymous("signalfd"),
            Object::Poller(_) => anonymous("eventpoll"),
            Object::Shared(file) => file.name(),
            Object::Device(device) => Some(Vec::from(device.path())),
            Object::Text(_, node)
            | Object::Asks(_, node)
            | Object::Counters(_, node)
            | Object::Program(node)
            | Object::Special(node) => Some(node.path().into_bytes()),
        }
    }
}
