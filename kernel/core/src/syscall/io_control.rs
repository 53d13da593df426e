//! ioctl(2): what is no device's own. Nothing here is a terminal, so everything else is `ENOTTY`.

use coppice_protocol::ship::{Call, Reply};

use super::{Arguments, interfaces};
use crate::errno::Errno;
use crate::files::{Object, OpenFile, Standard, flags};
use crate::process::{Awaited, Caller, Immediate};

const FIONREAD: u32 = 0x541b;
const FIONBIO: u32 = 0x5421;
const FIONCLEX: u32 = 0x5450;
const FIOCLEX: u32 = 0x5451;

/// ioctl(2); `None` if the I/O node must be asked.
pub(super) fn ioctl(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    let number = a.int(0);
    let file = match caller.process.files.lock().get(number) {
        Ok(file) if !file.is_path() => file,
        _ => return Some(Err(Errno::EBADF.into())),
    };
    let control = || match a.uint(1) {
        FIOCLEX | FIONCLEX => {
            caller.process.files.lock().set_close_on_exec(number, a.uint(1) == FIOCLEX)?;
            Ok(0)
        }
        FIONBIO => {
            let on = u32::from_le_bytes(caller.get(a.get(2))?) != 0;
            let others = file.flags() & !flags::O_NONBLOCK;
            file.set_flags(if on { others | flags::O_NONBLOCK } else { others });
            Ok(0)
        }
        command if interfaces::is_asked(command) && matches!(file.object, Object::Socket(_)) => {
            interfaces::answer(caller, command, a.get(2))
        }
        // As each of them says it on Linux.
        _ if matches!(file.object, Object::Poller(_)) => Err(Errno::EINVAL.into()),
        FIONREAD if matches!(&file.object, Object::Socket(socket) if socket.is_listening()) => {
            Err(Errno::EINVAL.into())
        }
        _ => Err(Errno::ENOTTY.into()),
    };
    if a.uint(1) == FIONREAD
        && let Some(bytes) = held(&file)
    {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        return Some(caller.put(a.get(2), &bytes.to_le_bytes()).map(|()| 0));
    }
    let asks = file.is_regular() || matches!(file.object, Object::Standard(Standard::Input(_)));
    if a.uint(1) == FIONREAD && asks { None } else { Some(control()) }
}

/// Bytes that can be read, where the kernel has them itself.
fn held(file: &OpenFile) -> Option<usize> {
    match &file.object {
        Object::Pipe(end) => Some(end.held()),
        Object::Pair(end) => Some(end.held()),
        Object::Socket(socket) if !socket.is_listening() => Some(socket.held()),
        Object::Service(service) => Some(service.held()),
        _ => None,
    }
}

/// `FIONREAD`: bytes up to the end of a file; for standard input, 1 if there is anything.
pub(super) async fn bytes_readable(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = caller.process.files.lock().get(a.int(0))?;
    // Negative beyond the end.
    let bytes = match &file.object {
        Object::Standard(_) => match caller.ask(Call::InputReady).await? {
            (Reply::Count(ready), _) => ready.min(1).cast_signed(),
            _ => return Err(Errno::EIO.into()),
        },
        _ => file.size(caller.process).await?.cast_signed().wrapping_sub(file.offset().cast_signed()),
    };
    let bytes = bytes as i32;
    caller.write(a.get(2), &bytes.to_le_bytes()).await?;
    Ok(0)
}
