//! The calls on the data of files, and on the program: done here and now if the host has what they need in memory, else
//! prepared for a thread that may wait for the disk.

use coppice_protocol::ship::{Call, Reply};
use rustix::io::Errno;

use super::program::{PagesStart, Program};
use crate::files::{DiskCall, Files, Read, ReadStart, Result, Write, WriteAt};
use crate::machine::Answer;

/// A call that was tried.
#[derive(Debug)]
pub(super) enum Tried {
    /// Done, with this answer.
    Done(Answer),
    /// It may have to wait for the disk.
    Waits(Prepared),
}

/// A call that may have to wait. It has all it needs.
#[derive(Debug)]
pub(super) enum Prepared {
    /// pread(2).
    Read(Read),
    /// Pages of the program.
    Pages(PagesStart),
    /// pwrite(2), or an append.
    Write(Write, Vec<u8>),
    /// fsync(2) and the like.
    Disk(DiskCall),
}

/// Does a call as far as it goes without waiting. `EINVAL` for one that is not of this kind.
pub(super) fn attempt(program: &Program, files: &Files, call: Call, bulk: Vec<u8>) -> Result<Tried> {
    Ok(match call {
        Call::Pages { program: id, first, count } => {
            let pages = program.pages(id, first, count)?;
            if pages.is_done() { Tried::Done(pages.finish()?) } else { Tried::Waits(Prepared::Pages(pages)) }
        }
        Call::Read { file, offset, length } => match files.read(file, offset, length)? {
            ReadStart::Done(bytes) => Tried::Done((Reply::Data, bytes)),
            ReadStart::Waits(read) => Tried::Waits(Prepared::Read(read)),
        },
        Call::Write { file, offset } => {
            let write = files.write(file, offset.map_or(WriteAt::End, WriteAt::Offset))?;
            if write.may_wait {
                Tried::Waits(Prepared::Write(write, bulk))
            } else {
                Tried::Done(written(write.run(&bulk)?))
            }
        }
        Call::Synchronise { file, data_only } => Tried::Waits(Prepared::Disk(files.synchronise(file, data_only)?)),
        Call::Allocate { file, mode, offset, length } => {
            Tried::Waits(Prepared::Disk(files.allocate(file, mode, offset, length)?))
        }
        _ => return Err(Errno::INVAL),
    })
}

impl Prepared {
    /// Does it, however long it waits.
    pub(super) fn run(self) -> Result<Answer> {
        match self {
            Self::Read(read) => Ok((Reply::Data, read.finish()?)),
            Self::Pages(pages) => pages.finish(),
            Self::Write(write, bytes) => Ok(written(write.run(&bytes)?)),
            Self::Disk(call) => call.run().map(|()| (Reply::Done, Vec::new())),
        }
    }
}

fn written((bytes, end): (usize, u64)) -> Answer {
    // At most the request's bulk.
    (Reply::Written { bytes: u32::try_from(bytes).unwrap_or(u32::MAX), end }, Vec::new())
}
