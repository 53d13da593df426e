//! lseek(2), and advice on what will be read.

use coppice_protocol::ship::{Call, Reply};

use super::Arguments;
use crate::errno::Errno;
use crate::files::{Object, OpenFile};
use crate::process::{Awaited, Caller, Immediate};

const SEEK_SET: u32 = 0;
const SEEK_CUR: u32 = 1;
const SEEK_END: u32 = 2;
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

/// lseek(2), where the file's length does not matter and no other thread uses the offset; `None` otherwise.
pub(super) fn lseek(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    let seek = || -> Result<Option<u64>, Errno> {
        let file = caller.process.files.lock().get(a.int(0))?;
        if file.is_path() {
            return Err(Errno::EBADF);
        }
        let (offset, whence) = (a.get(1).cast_signed(), a.uint(2));
        match &file.object {
            _ if whence > SEEK_HOLE => Err(Errno::EINVAL),
            // They have no offset, and say 0 for any.
            Object::Event(_) | Object::Timer(_) | Object::Signals(_) | Object::Poller(_) => Ok(Some(0)),
            _ if file.has_no_offsets() => Err(Errno::ESPIPE),
            Object::Device(_) => Ok(Some(0)),
            _ => {
                let Some(_turn) = file.try_turn() else { return Ok(None) };
                match whence {
                    SEEK_SET => place(&file, offset).map(Some),
                    SEEK_CUR => place(&file, add(file.offset(), offset)?).map(Some),
                    SEEK_END | SEEK_DATA | SEEK_HOLE => Ok(None),
                    _ => Err(Errno::EINVAL),
                }
            }
        }
    };
    match seek() {
        Ok(None) => None,
        Ok(Some(offset)) => Some(Ok(offset)),
        Err(errno) => Some(Err(errno.into())),
    }
}

/// lseek(2) in one's turn: from the end of the file, or to data or a hole.
pub(super) async fn lseek_in_turn(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = caller.process.files.lock().get(a.int(0))?;
    // The number may stand for something else by now.
    if file.is_path() || file.has_no_offsets() {
        return Err(if file.is_path() { Errno::EBADF } else { Errno::ESPIPE }.into());
    }
    let (offset, whence) = (a.get(1).cast_signed(), a.uint(2));
    let _turn = file.turn().await;
    match whence {
        SEEK_SET => return Ok(place(&file, offset)?),
        SEEK_CUR => return Ok(place(&file, add(file.offset(), offset)?)?),
        SEEK_END => {
            let size = file.size(caller.process).await?;
            return Ok(place(&file, add(size, offset)?)?);
        }
        SEEK_DATA | SEEK_HOLE => {}
        _ => return Err(Errno::EINVAL.into()),
    }
    let start = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
    let found = match &file.object {
        Object::Shipped(shipped) => {
            let hole = whence == SEEK_HOLE;
            match caller.ask(Call::SeekData { file: shipped.handle, offset: start, hole }).await? {
                (Reply::Count(found), _) => found,
                _ => return Err(Errno::EIO.into()),
            }
        }
        // All data, up to the end.
        _ => {
            let size = file.size(caller.process).await?;
            if start >= size {
                return Err(Errno::ENXIO.into());
            }
            if whence == SEEK_HOLE { size } else { start }
        }
    };
    Ok(place(&file, found.cast_signed())?)
}

fn add(base: u64, offset: i64) -> Result<i64, Errno> {
    i64::try_from(base).ok().and_then(|base| base.checked_add(offset)).ok_or(Errno::EOVERFLOW)
}

fn place(file: &OpenFile, offset: i64) -> Result<u64, Errno> {
    let offset = u64::try_from(offset).map_err(|_| Errno::EINVAL)?;
    file.set_offset(offset);
    Ok(offset)
}

/// fadvise64(2): accepted; the I/O node's host reads ahead by itself.
pub(super) fn fadvise64(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let file = caller.process.files.lock().get(a.int(0))?;
    match file.object {
        _ if file.is_path() => Err(Errno::EBADF.into()),
        Object::Pipe(_) | Object::Standard(_) => Err(Errno::ESPIPE.into()),
        _ if !(0..=5).contains(&a.int(3)) || a.get(2).cast_signed() < 0 => Err(Errno::EINVAL.into()),
        _ => Ok(0),
    }
}

/// readahead(2): accepted, as fadvise64(2).
pub(super) fn readahead(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let file = caller.process.files.lock().get(a.int(0))?;
    if !file.is_readable() {
        return Err(Errno::EBADF.into());
    }
    if file.is_regular() && a.get(2).cast_signed() >= 0 { Ok(0) } else { Err(Errno::EINVAL.into()) }
}

#[cfg(test)]
mod tests {
    use super::add;
    use crate::errno::Errno;

    #[test]
    fn offsets_do_not_overflow() {
        assert_eq!(add(10, -4), Ok(6));
        assert_eq!(add(10, -14), Ok(-4));
        assert_eq!(add(u64::MAX, 0), Err(Errno::EOVERFLOW));
        assert_eq!(add(1, i64::MAX), Err(Errno::EOVERFLOW));
    }
}
