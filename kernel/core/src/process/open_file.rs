//! What a process is told of its open files, and reads of those that have offsets.

use alloc::vec::Vec;

use coppice_protocol::limits::BULK_BYTES_MAX;
use coppice_protocol::ship::{Call, FileStatus, Known, Reply};

use crate::errno::Errno;
use crate::files::cache::CachedFile;
use crate::files::special::Node;
use crate::files::{Object, OpenFile, buffer};
use crate::process::Process;
use crate::process::special::{MODE_PIPE, read_program};

/// Type and permissions of a socket.
const MODE_SOCKET: u32 = 0o140_777;
/// What Linux gives to what has no type.
const MODE_ANONYMOUS: u32 = 0o600;

impl OpenFile {
    /// Its type and permissions (`st_mode`) when it was opened.
    pub(crate) fn mode(&self, process: &Process) -> u32 {
        match &self.object {
            Object::Shipped(shipped) => shipped.status.mode,
            object => special_status(object, process).mode,
        }
    }

    /// What it is, now.
    pub(crate) async fn status(&self, process: &Process) -> Result<FileStatus, Errno> {
        match &self.object {
            Object::Shipped(shipped) => {
                let names = process.job.cache.names();
                if let Some(status) = names.status(shipped.identity()) {
                    return Ok(status);
                }
                process.job.cache.settle().await;
                let asked = names.ask();
                let (reply, _) = process.client.look(Call::HandleStat(shipped.handle)).await?;
                if let Reply::Known(keeping, Known::Status(status)) = &reply {
                    names.told_status(asked, *keeping, status);
                }
                match reply.plain() {
                    Reply::Status(status) => Ok(status),
                    Reply::Failed(errno) => Err(Errno::from_wire(errno)),
                    _ => Err(Errno::EIO),
                }
            }
            object => Ok(special_status(object, process)),
        }
    }

    /// Its length now, bytes, if it is a regular file.
    pub(crate) async fn size(&self, process: &Process) -> Result<u64, Errno> {
        match &self.object {
            // Its status says 0, as on Linux.
            Object::Text(text, _) => Ok(text.length(process)),
            Object::Asks(asks, _) => Ok(asks.length()),
            Object::Counters(counters, _) => Ok(counters.length()),
            Object::Shipped(shipped) if let Some(size) = shipped.cached().and_then(|cached| cached.size()) => Ok(size),
            _ => Ok(self.status(process).await?.size),
        }
    }

    /// As [`Self::read_at`], for a page that is to be mapped, and `shared`.
    pub(crate) async fn read_to_map(
        &self,
        process: &Process,
        (offset, length): (u64, usize),
        shared: bool,
    ) -> Result<Vec<u8>, Errno> {
        let Some((shipped, cached)) = self.as_shipped().and_then(|shipped| Some((shipped, shipped.cached()?))) else {
            return self.read_at(process, offset, length).await;
        };
        let _outside = cached.outside();
        let length = length.min(BULK_BYTES_MAX);
        if shared {
            // What others have written by mapping it is in these pages.
            cached.settled_for_mapping().await;
        } else if let Some(settled) = cached.unsettled() {
            settled.await;
        }
        match cached.known_bytes(offset, length) {
            Some(bytes) => Ok(bytes),
            None => {
                let call = Call::Read { file: shipped.handle, offset, length: length as u32 };
                let (_, mut bytes) = process.client.call(call, Vec::new()).await?;
                bytes.truncate(length);
                Ok(bytes)
            }
        }
    }

    /// Reads up to `length` bytes, [`BULK_BYTES_MAX`] at most, from `offset` on; fewer only at the end of the file.
    pub(crate) async fn read_at(&self, process: &Process, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let length = length.min(BULK_BYTES_MAX);
        match &self.object {
            Object::Shipped(shipped) => {
                let _outside = shipped.cached().map(CachedFile::outside);
                if let Some(settled) = shipped.cached().and_then(|cached| cached.unsettled()) {
                    settled.await;
                }
                let call = Call::Read { file: shipped.handle, offset, length: length as u32 };
                let (_, mut bytes) = process.client.call(call, Vec::new()).await?;
                bytes.truncate(length);
                Ok(bytes)
            }
            Object::Text(text, _) => text.read(process, offset, length),
            Object::Asks(asks, _) => asks.read(offset, length),
            Object::Counters(counters, _) => counters.read(offset, length),
            Object::Program(_) => read_program(process, offset, length).await,
            Object::Shared(file) => {
                let left = file.memory.length().saturating_sub(offset);
                let mut bytes = buffer(usize::try_from(left).map_or(length, |left| left.min(length)))?;
                let given = file.memory.read(offset, &mut bytes);
                bytes.truncate(given);
                Ok(bytes)
            }
            Object::Device(device) => {
                let mut bytes = buffer(length)?;
                let given = device.read(&mut bytes);
                bytes.truncate(given);
                Ok(bytes)
            }
            Object::Special(_) => Err(Errno::EISDIR),
            _ => Err(Errno::ESPIPE),
        }
    }
}

fn special_status(object: &Object, process: &Process) -> FileStatus {
    match object {
        // The caller asks the I/O node; what it said when the file was opened is as good an answer.
        Object::Shipped(shipped) => shipped.status,
        Object::Standard(stream) => Node::standard_status(stream.number(), process),
        Object::Pipe(end) => Node::object_status(MODE_PIPE, end.serial, process),
        Object::Pair(end) => Node::object_status(MODE_SOCKET, end.serial, process),
        Object::Socket(socket) => Node::object_status(MODE_SOCKET, socket.serial, process),
        Object::Netlink(netlink) => Node::object_status(MODE_SOCKET, netlink.serial, process),
        Object::Service(service) => Node::object_status(MODE_SOCKET, service.serial(), process),
        Object::Event(_) | Object::Timer(_) | Object::Signals(_) | Object::Poller(_) => {
            Node::object_status(MODE_ANONYMOUS, 0, process)
        }
        Object::Device(device) => Node::device_status(*device),
        Object::Shared(file) => file.status(),
        Object::Text(_, node)
        | Object::Asks(_, node)
        | Object::Counters(_, node)
        | Object::Program(node)
        | Object::Special(node) => node.status(process),
    }
}
