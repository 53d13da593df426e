//! The calls on files that need nothing but these, each to its function in [`crate::files`].

use coppice_protocol::ship::{Call, Keeping, Known, Reply};
use rustix::io::Errno;

use crate::files::{Files, Result, plain};
use crate::machine::{Answer, failed};

/// Executes a call that needs nothing but the rank's files. `EINVAL` for any other. The answer says what may be known
/// beside: whether the path is a plain one, and what entries of a directory are.
pub(super) fn execute(files: &Files, call: Call) -> Answer {
    plain::begin();
    let (reply, bytes) = make(files, call).unwrap_or_else(failed);
    let keeping = Keeping { number: 0, is_plain: plain::is_plain(), attributes: true };
    match reply.into_known() {
        Ok(known) => (Reply::Known(keeping, known), bytes),
        Err(reply) => (*reply, bytes),
    }
}

fn make(files: &Files, call: Call) -> Result<(Reply, Vec<u8>)> {
    let reply = match call {
        Call::Open { at, flags, mode } => {
            let (handle, status) = files.open(&at, flags, mode)?;
            Reply::Opened { handle, status, grant: None }
        }
        // What it was when it was closed, if that can be had.
        Call::Close(handle) => {
            let status = files.handle_stat(handle);
            done(files.close(handle))?;
            status.map_or(Reply::Done, Reply::Status)
        }
        Call::Stat { at, follow } => Reply::Status(files.stat(&at, follow)?),
        Call::HandleStat(handle) => Reply::Status(files.handle_stat(handle)?),
        Call::FileSystem(at) => Reply::FileSystem(files.file_system(&at)?),
        Call::HandleFileSystem(handle) => Reply::FileSystem(files.handle_file_system(handle)?),
        Call::Access { at, mode, flags } => done(files.access(&at, mode, flags))?,
        Call::ReadLink(at) => return Ok((Reply::Data, files.read_link(&at)?)),
        Call::Resolve(at) => Reply::Path(files.resolve(&at)?),
        Call::MakeDirectory { at, mode } => done(files.make_directory(&at, mode))?,
        Call::Remove { at, directory } => done(files.remove(&at, directory))?,
        Call::Rename { from, to, flags } => done(files.rename(&from, &to, flags))?,
        Call::Link { from, to, follow } => done(files.link(&from, &to, follow))?,
        Call::SymbolicLink { target, at } => done(files.symbolic_link(&target, &at))?,
        Call::Truncate { at, length } => done(files.truncate(&at, length))?,
        Call::HandleTruncate { file, length } => done(files.handle_truncate(file, length))?,
        Call::SeekData { file, offset, hole } => Reply::Count(files.seek_data(file, offset, hole)?),
        Call::ChangeMode { at, mode } => done(files.change_mode(&at, mode))?,
        Call::HandleChangeMode { file, mode } => done(files.handle_change_mode(file, mode))?,
        Call::ChangeTimes { at, accessed, modified, follow } => {
            done(files.change_times(&at, accessed, modified, follow))?
        }
        Call::HandleChangeTimes { file, accessed, modified } => {
            done(files.handle_change_times(file, accessed, modified))?
        }
        Call::List { directory, position, length, attributes } => {
            let listing = files.list(directory, position, length)?;
            let (records, next) = listing.run()?;
            let attributes = if attributes { listing.attributes(&records) } else { Vec::new() };
            return Ok((Reply::Known(Keeping::default(), Known::Entries { next, attributes }), records));
        }
        Call::SetFlags { file, flags } => done(files.set_flags(file, flags))?,
        Call::Pages { .. }
        | Call::Return { .. }
        | Call::ReturnNames { .. }
        | Call::Manifest { .. }
        | Call::Read { .. }
        | Call::Fill { .. }
        | Call::Write { .. }
        | Call::PutObject
        | Call::GetObject(_)
        | Call::SettleObjects
        | Call::Input { .. }
        | Call::InputReady
        | Call::Print(_)
        | Call::PrintNothing
        | Call::Lock { .. }
        | Call::LockNothing { .. }
        | Call::Unlock(_)
        | Call::TestLock(_)
        | Call::Allocate { .. }
        | Call::Synchronise { .. } => return Err(Errno::INVAL),
    };
    Ok((reply, Vec::new()))
}

fn done(result: Result<()>) -> Result<Reply> {
    result.map(|()| Reply::Done)
}
