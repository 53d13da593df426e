//! What is told of a process's open files to whoever asks from outside ([`coppice_protocol::inspect`]).

use alloc::string::String;
use alloc::vec::Vec;

use coppice_protocol::inspect::{self, OBJECTS_MAX, OpenObject, PATH_BYTES_TOLD, What};
use coppice_protocol::text::ByteString;

use super::descriptors::{Descriptor, Descriptors};
use super::open_file::{Object, OpenFile};
use super::pair::PairKind;

impl Descriptors {
    /// What the descriptors from `from` on stand for, up to [`OBJECTS_MAX`] of them, and the next one if there are
    /// more.
    pub(crate) fn told(&self, from: u32) -> (Vec<OpenObject>, Option<u32>) {
        let mut objects = Vec::new();
        for number in self.numbers().filter(|number| *number >= from as usize) {
            if objects.len() == OBJECTS_MAX {
                return (objects, Some(number as u32));
            }
            if let Ok(descriptor) = self.descriptor(number as i32) {
                objects.push(told(number as u32, descriptor));
            }
        }
        (objects, None)
    }
}

fn told(number: u32, descriptor: &Descriptor) -> OpenObject {
    let file = &descriptor.file;
    OpenObject {
        descriptor: number,
        close_on_exec: descriptor.close_on_exec,
        id: file.id,
        flags: file.flags(),
        offset: file.offset(),
        what: what(file),
    }
}

fn what(file: &OpenFile) -> What {
    match &file.object {
        Object::Shipped(shipped) => What::File {
            path: cut(&shipped.path),
            mode: shipped.status.mode,
            device: shipped.status.device,
            inode: shipped.status.inode,
            size: shipped.status.size,
        },
        Object::Standard(stream) => What::Standard(stream.number() as u8),
        Object::Device(device) => What::Kernel { path: device.path().into() },
        Object::Text(_, node)
        | Object::Asks(_, node)
        | Object::Counters(_, node)
        | Object::Program(node)
        | Object::Special(node) => {
            let path: String = node.path();
            What::Kernel { path: cut(path.as_bytes()) }
        }
        Object::Shared(shared) => {
            let status = shared.status();
            What::Shared { inode: status.inode, size: status.size }
        }
        Object::Pipe(end) => What::Pipe { pipe: end.serial, held: end.held() as u64 },
        Object::Pair(end) => What::Pair { end: end.serial, kind: kind(end.kind), held: end.held() as u64 },
        Object::Socket(socket) => What::Socket {
            stream: matches!(socket.kind(), super::socket::SocketKind::Stream),
            listening: socket.is_listening(),
            local: socket.local(),
            peer: socket.peer().ok(),
            held: socket.held() as u64,
            unsent: socket.unsent() as u64,
        },
        Object::Event(event) => What::Event { value: event.value() },
        Object::Timer(timer) => {
            let setting = timer.setting();
            What::Timer { left_ns: setting.value_ns, interval_ns: setting.interval_ns }
        }
        Object::Signals(signals) => What::Signals { wanted: signals.wanted().0 },
        Object::Poller(poller) => {
            let (watched, count) = poller.watched();
            What::Poller { watched, count }
        }
        Object::Service(service) => What::Service { held: service.held() as u64 },
        Object::Netlink(netlink) => What::Service { held: netlink.held() as u64 },
    }
}

fn kind(kind: PairKind) -> inspect::PairKind {
    match kind {
        PairKind::Stream => inspect::PairKind::Stream,
        PairKind::Sequence => inspect::PairKind::Sequence,
        PairKind::Datagrams => inspect::PairKind::Datagrams,
    }
}

/// As much of a path as is told.
fn cut(path: &[u8]) -> ByteString {
    path[..path.len().min(PATH_BYTES_TOLD)].into()
}
