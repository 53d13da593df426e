//! Who makes a system call, and how the call gets at its memory.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::limits::PATH_BYTES_MAX;
use coppice_protocol::text::ByteString;

use crate::errno::Errno;
use crate::files::OpenFile;
use crate::memory::{CopyError, StringError};
use crate::process::hold::PendingCall;
use crate::process::{Awaited, Failure, Immediate, Process, ThreadState, Trouble};

/// The thread that makes a call, with its process.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) process: &'a Process,
    pub(crate) thread: &'a ThreadState,
}

/// A path that a call is about is there so often while the call waits: as it was read, as it is looked up, and as it is
/// said to the I/O node.
const PATH_COPIES: usize = 3;

/// How a copy ended: bytes copied, and what stopped it if not its end.
pub(crate) struct Copied {
    pub(crate) bytes: usize,
    pub(crate) result: Awaited<()>,
}

impl Caller<'_> {
    /// The open file that a number stands for, as long as the call goes on: another thread may close it meanwhile.
    ///
    /// # Errors
    /// `EBADF`: none.
    #[inline]
    pub(crate) fn file(&self, number: i32) -> Result<Arc<OpenFile>, Errno> {
        // A call that nobody can disturb looks once.
        if !self.process.threads.were_several() {
            return self.process.files.lock().get(number);
        }
        self.file_of_call(number)
    }

    fn file_of_call(&self, number: i32) -> Result<Arc<OpenFile>, Errno> {
        let kept = self.thread.call_files();
        if let Some(file) = kept.find(number) {
            return Ok(file);
        }
        let file = self.process.files.lock().get(number)?;
        // As does one that is made at once.
        if self.thread.in_call().is_some() {
            kept.keep(number, &file);
        }
        Ok(file)
    }

    /// Reads a structure without waiting.
    pub(crate) fn get<const N: usize>(&self, address: u64) -> Immediate<[u8; N]> {
        Ok(self.process.space.lock().read_array(address)?)
    }

    /// Writes a structure without waiting.
    pub(crate) fn put(&self, address: u64, bytes: &[u8]) -> Immediate<()> {
        let mut space = self.process.space.lock();
        // Not one byte before all of them can be written: the call may be made again.
        space.touch(address, bytes.len(), coppice_hal::paging::Access::WRITE)?;
        Ok(space.write_bytes(address, bytes)?)
    }

    /// Reads bytes, fetching pages as needed.
    pub(crate) async fn read(&self, address: u64, out: &mut [u8]) -> Awaited<()> {
        self.read_part(address, out).await.result
    }

    /// Reads bytes as far as they can be read.
    pub(crate) async fn read_part(&self, address: u64, out: &mut [u8]) -> Copied {
        let mut done = 0;
        loop {
            let at = address.wrapping_add(done as u64);
            let copied = self.process.space.lock().read_bytes(at, &mut out[done..]);
            match self.settle(&copied, out.len() - done).await {
                Step::More(bytes) => done += bytes,
                Step::End(bytes, result) => return Copied { bytes: done + bytes, result },
            }
        }
    }

    /// Writes bytes, fetching pages as needed.
    pub(crate) async fn write(&self, address: u64, bytes: &[u8]) -> Awaited<()> {
        self.write_part(address, bytes).await.result
    }

    /// Writes bytes as far as they can be written.
    pub(crate) async fn write_part(&self, address: u64, bytes: &[u8]) -> Copied {
        let mut done = 0;
        loop {
            let at = address.wrapping_add(done as u64);
            let copied = self.process.space.lock().write_bytes(at, &bytes[done..]);
            match self.settle(&copied, bytes.len() - done).await {
                Step::More(bytes) => done += bytes,
                Step::End(bytes, result) => return Copied { bytes: done + bytes, result },
            }
        }
    }

    /// Reads a structure.
    pub(crate) async fn read_array<const N: usize>(&self, address: u64) -> Awaited<[u8; N]> {
        let mut bytes = [0; N];
        self.read(address, &mut bytes).await?;
        Ok(bytes)
    }

    /// Reads a path: `ENAMETOOLONG`. It may be empty.
    pub(crate) async fn read_path(&self, address: u64) -> Awaited<ByteString> {
        let mut text = Vec::new();
        loop {
            let begun = text.capacity();
            let error = match self.process.space.lock().read_string(address, &mut text, PATH_BYTES_MAX) {
                Ok(()) => break,
                Err(StringError::TooLong) => return Err(Errno::ENAMETOOLONG.into()),
                Err(StringError::Copy(error)) => error,
            };
            match error {
                CopyError::Fetch { fetch, .. } => {
                    self.thread.keep(text.capacity() - begun)?;
                    self.fetch_for_copy(&fetch).await?;
                }
                CopyError::Fault { .. } => return Err(Errno::EFAULT.into()),
                CopyError::OutOfMemory => return Err(Failure::OutOfMemory),
            }
        }
        self.thread.keep(PATH_COPIES * text.capacity())?;
        Ok(text.into())
    }

    /// Goes on after a copy of `length` bytes stopped.
    async fn settle(&self, copied: &Result<(), CopyError>, length: usize) -> Step {
        match *copied {
            Ok(()) => Step::End(length, Ok(())),
            Err(CopyError::Fetch { done, ref fetch }) => match self.fetch_for_copy(fetch).await {
                Ok(()) => Step::More(done),
                Err(failure) => Step::End(done, Err(failure)),
            },
            Err(CopyError::Fault { done }) => Step::End(done, Err(Errno::EFAULT.into())),
            Err(CopyError::OutOfMemory) => Step::End(0, Err(Failure::OutOfMemory)),
        }
    }

    /// The call has done so much so far.
    pub(crate) fn completed(&self, done: u64) {
        self.thread.note(|pending| pending.done = done);
    }

    /// How much the call had done when its thread was held, if it is one that is taken up again.
    pub(crate) fn done_before(&self) -> u64 {
        self.thread.pending().done
    }

    /// Until when the call waits, ns of the monotonic clock: what `first` says, unless the call was taken up again and
    /// it was said before.
    pub(crate) fn deadline_ns(&self, first: impl FnOnce() -> u64) -> u64 {
        let clock = &self.process.clock;
        clock.on_node(self.until_ns(|| clock.of_node(first())))
    }

    /// The same by another clock, which is what it is wherever the process runs.
    pub(crate) fn until_ns(&self, first: impl FnOnce() -> u64) -> u64 {
        if let Some(until_ns) = self.thread.pending().deadline_ns {
            return until_ns;
        }
        let until_ns = first();
        self.thread.note(|pending| pending.deadline_ns = Some(until_ns));
        until_ns
    }

    /// How many messages the call had moved when its thread was held, and until when it moves more, ns of the monotonic
    /// clock: what `first` says, unless it was said before.
    pub(crate) fn messages_before(&self, first: impl FnOnce() -> u64) -> (u64, u64) {
        let clock = &self.process.clock;
        let PendingCall { messages, messages_until_ns, .. } = self.thread.pending();
        let until_ns = messages_until_ns.unwrap_or_else(|| clock.of_node(first()));
        self.thread.note(|pending| pending.messages_until_ns = Some(until_ns));
        (messages, clock.on_node(until_ns))
    }

    /// The call has moved so many messages, and begins with the next.
    pub(crate) fn moved(&self, messages: u64) {
        self.thread.note(|pending| (pending.messages, pending.done, pending.deadline_ns) = (messages, 0, None));
    }
}

/// How a copy goes on.
enum Step {
    /// That many bytes were copied; the next can be.
    More(usize),
    /// That many bytes were copied, and that is all.
    End(usize, Awaited<()>),
}

impl From<Trouble> for Failure {
    /// For calls that may wait and have made sure that nothing must be fetched; if something must after all, the memory
    /// was taken away meanwhile.
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Errno(errno) => Self::Errno(errno),
            Trouble::Fetch(_) => Self::Errno(Errno::EFAULT),
            Trouble::OutOfMemory => Self::OutOfMemory,
            Trouble::End(end) => Self::End(end),
        }
    }
}
