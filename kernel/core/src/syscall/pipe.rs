//! What a process makes to talk to itself: pipe(2), socketpair(2), eventfd(2).

use alloc::vec::Vec;

use super::Arguments;
use crate::errno::Errno;
use crate::files::pair::{PairKind, pair};
use crate::files::pipe::pipe as make_pipe;
use crate::files::{Descriptor, Event, Object, OpenFile, flags};
use crate::process::{Caller, Immediate};

/// Gives an object a descriptor, opened with these `O_*` flags. Gives its number.
///
/// # Errors
/// `EMFILE`, `ENOMEM`.
pub(super) fn install(caller: Caller<'_>, object: Object, opened_with: u32) -> Result<i32, Errno> {
    let file = OpenFile::object(object, opened_with).charged(&caller.process.node.quota)?;
    let close_on_exec = opened_with & flags::O_CLOEXEC != 0;
    caller.process.files.lock().insert(Descriptor { file, close_on_exec }, 0)
}

/// As [`install`], for two, whose numbers are written to `address`; if they cannot be, there are none. No other thread
/// sees them before they are written.
fn install_two(caller: Caller<'_>, objects: [(Object, u32); 2], address: u64) -> Immediate {
    let quota = &caller.process.node.quota;
    let describe = |(object, opened_with)| {
        let file = OpenFile::object(object, opened_with).charged(quota)?;
        Ok::<_, Errno>(Descriptor { file, close_on_exec: opened_with & flags::O_CLOEXEC != 0 })
    };
    let [one, other] = objects;
    let descriptors = [describe(one)?, describe(other)?];
    let mut files = caller.process.files.lock();
    let mut numbers = Vec::new();
    let mut installed = || {
        let mut bytes = [0; 8];
        for (descriptor, bytes) in descriptors.iter().zip(bytes.chunks_exact_mut(4)) {
            let number = files.insert(descriptor.clone(), 0)?;
            numbers.push(number);
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        caller.put(address, &bytes)
    };
    let result = installed();
    if result.is_err() {
        for number in numbers {
            // What they stand for is still held here.
            let _ = files.remove(number);
        }
    }
    drop(files);
    result.map(|()| 0)
}

/// pipe(2).
pub(super) fn pipe(caller: Caller<'_>, a: &Arguments) -> Immediate {
    make(caller, a.get(0), 0)
}

/// pipe2(2).
pub(super) fn pipe2(caller: Caller<'_>, a: &Arguments) -> Immediate {
    make(caller, a.get(0), a.uint(1))
}

fn make(caller: Caller<'_>, address: u64, how: u32) -> Immediate {
    if how & !(flags::O_CLOEXEC | flags::O_NONBLOCK | flags::O_DIRECT) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let (reads, writes) = make_pipe(how & flags::O_DIRECT != 0, &caller.process.node.quota)?;
    let objects = [(Object::Pipe(reads), how | flags::O_RDONLY), (Object::Pipe(writes), how | flags::O_WRONLY)];
    install_two(caller, objects, address)
}

/// `SOCK_*` as socket(2) and socketpair(2) have them.
pub(super) mod socket_type {
    pub(in super::super) const STREAM: u32 = 1;
    pub(in super::super) const DATAGRAM: u32 = 2;
    /// Of pairs, the same.
    pub(in super::super) const RAW: u32 = 3;
    pub(in super::super) const SEQUENCE: u32 = 5;
    /// What is type and not flag.
    pub(in super::super) const MASK: u32 = 0xf;
}

/// The flags of a socket's type, which are those of open(2).
///
/// # Errors
/// `EINVAL`: others.
pub(super) fn socket_flags(kind: u32) -> Result<u32, Errno> {
    let given = kind & !socket_type::MASK;
    if given & !(flags::O_CLOEXEC | flags::O_NONBLOCK) != 0 { Err(Errno::EINVAL) } else { Ok(given) }
}

/// socketpair(2): `AF_UNIX` alone.
pub(super) fn socketpair(caller: Caller<'_>, a: &Arguments) -> Immediate {
    const AF_UNIX: u32 = 1;
    const AF_INET: u32 = 2;
    let opened_with = socket_flags(a.uint(1))? | flags::O_RDWR;
    match a.uint(0) {
        AF_UNIX if a.uint(2) <= 1 => {}
        AF_UNIX => return Err(Errno::EPROTONOSUPPORT.into()),
        AF_INET if matches!((a.uint(1) & socket_type::MASK, a.uint(2)), (1, 0 | 6) | (2, 0 | 17)) => {
            return Err(Errno::EOPNOTSUPP.into());
        }
        AF_INET => return Err(Errno::EPROTONOSUPPORT.into()),
        _ => return Err(Errno::EAFNOSUPPORT.into()),
    }
    let kind = match a.uint(1) & socket_type::MASK {
        socket_type::STREAM => PairKind::Stream,
        socket_type::DATAGRAM | socket_type::RAW => PairKind::Datagrams,
        socket_type::SEQUENCE => PairKind::Sequence,
        _ => return Err(Errno::ESOCKTNOSUPPORT.into()),
    };
    let (one, other) = pair(kind, &caller.process.node.quota)?;
    install_two(caller, [(Object::Pair(one), opened_with), (Object::Pair(other), opened_with)], a.get(3))
}

/// eventfd(2).
pub(super) fn eventfd(caller: Caller<'_>, a: &Arguments) -> Immediate {
    make_event(caller, a.uint(0), 0)
}

/// eventfd2(2).
pub(super) fn eventfd2(caller: Caller<'_>, a: &Arguments) -> Immediate {
    make_event(caller, a.uint(0), a.uint(1))
}

fn make_event(caller: Caller<'_>, value: u32, how: u32) -> Immediate {
    const EFD_SEMAPHORE: u32 = 1;
    if how & !(EFD_SEMAPHORE | flags::O_CLOEXEC | flags::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let event = Event::new(value, how & EFD_SEMAPHORE != 0, &caller.process.node.quota)?;
    let number = install(caller, Object::Event(event), how & !EFD_SEMAPHORE | flags::O_RDWR)?;
    Ok(number.cast_unsigned().into())
}
