//! What the links in `/proc/self/fd` say.

use alloc::format;
use alloc::string::String;

use super::open_file::{Object, OpenFile};
use super::pair::PairEnd;
use super::socket::Socket;
use crate::pmi;

impl OpenFile {
    /// What it stands for, as the link of a descriptor says it, if that is known.
    pub(crate) fn name(&self) -> Option<String> {
        let anonymous = |kind: &str| Some(format!("anon_inode:[{kind}]"));
        match &self.object {
            Object::Shipped(_) => None,
            Object::Stream(stream) => Some(format!("pipe:[{}]", 1 + stream.number())),
            Object::Pipe(end) => Some(format!("pipe:[{}]", end.serial)),
            Object::Pair(PairEnd { serial, .. })
            | Object::Socket(Socket { serial, .. })
            | Object::Pmi(pmi::Endpoint { serial, .. }) => Some(format!("socket:[{serial}]")),
            Object::Event(_) => anonymous("eventfd"),
            Object::Timer(_) => anonymous("timerfd"),
            Object::Signals(_) => anonymous("signalfd"),
            Object::Poller(_) => anonymous("eventpoll"),
            Object::Shared(file) => file.name(),
            Object::Device(device) => Some(String::from(device.path())),
            Object::Text(_, node) | Object::Program(node) | Object::Special(node) => Some(node.path()),
        }
    }
}
