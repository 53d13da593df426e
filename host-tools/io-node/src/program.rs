//! The pages of a job's program, read from a file that does not change.

use coppice_protocol::ids::ProgramId;
use coppice_protocol::limits::PAGES_PER_REQUEST_MAX;
use rustix::io::Errno;

use crate::files::{ReadStart, Result, Source};

/// Size of a page, bytes.
const PAGE_BYTES: u64 = 4096;

/// An open program.
#[derive(Debug)]
pub(crate) struct Program {
    id: ProgramId,
    bytes: u64,
    source: Source,
}

impl Program {
    /// Opens the file that holds the program's bytes.
    ///
    /// # Errors
    /// The errno of opening it; `EINVAL` if it is no regular file, `EIO` if it is not `bytes` long.
    pub(crate) fn open(path: &str, id: ProgramId, bytes: u64) -> Result<Self> {
        let (source, length) = Source::open(path)?;
        if length != bytes {
            return Err(Errno::IO);
        }
        Ok(Self { id, bytes, source })
    }

    /// Reads pages of the program `id`. Beyond the end there are none; the last may be short.
    ///
    /// # Errors
    /// `ENOENT` for another program, `EINVAL` for no pages or too many.
    pub(crate) fn pages(&self, id: ProgramId, first: u32, count: u16) -> Result<ReadStart> {
        if id != self.id {
            return Err(Errno::NOENT);
        }
        if count == 0 || count > PAGES_PER_REQUEST_MAX {
            return Err(Errno::INVAL);
        }
        let offset = u64::from(first) * PAGE_BYTES;
        let length = (u64::from(count) * PAGE_BYTES).min(self.bytes.saturating_sub(offset));
        // At most PAGES_PER_REQUEST_MAX pages.
        self.source.read(offset, usize::try_from(length).map_err(|_| Errno::INVAL)?)
    }
}
