//! The pages of a job's program, read from a file that does not change, and the nodes of its hash tree beside them.

use coppice_protocol::ids::ProgramId;
use coppice_protocol::limits::PAGES_PER_REQUEST_MAX;
use coppice_protocol::program::tree::TreeNode;
use coppice_protocol::program::{PAGE_BYTES, tree};
use coppice_protocol::ship::Reply;
use rustix::io::Errno;

use crate::files::{ReadStart, Result, Source};
use crate::machine::Answer;

/// An open program.
#[derive(Debug)]
pub(crate) struct Program {
    id: ProgramId,
    bytes: u64,
    source: Source,
    tree: Source,
}

/// Pages that are being read, and what is beside them in the tree.
#[derive(Debug)]
pub(crate) struct PagesStart {
    /// The pages.
    pub pages: ReadStart,
    /// The nodes, in the order in which they are sent.
    pub beside: Vec<ReadStart>,
}

impl PagesStart {
    /// Whether all of it is there.
    pub(crate) fn is_done(&self) -> bool {
        std::iter::once(&self.pages).chain(&self.beside).all(|read| matches!(read, ReadStart::Done(_)))
    }

    /// Reads what is missing.
    pub(super) fn finish(self) -> Result<Answer> {
        let (pages, beside) = self.wait()?;
        Ok((Reply::Pages { beside }, pages))
    }

    /// Reads what is missing, for other uses.
    ///
    /// # Errors
    /// As pread(2).
    pub(crate) fn wait(self) -> Result<(Vec<u8>, Vec<TreeNode>)> {
        let pages = self.pages.finish()?;
        let node = |read: ReadStart| read.finish()?.try_into().map_err(|_| Errno::IO);
        Ok((pages, self.beside.into_iter().map(node).collect::<Result<_>>()?))
    }
}

impl Program {
    /// Opens the file that holds the program's bytes, and the one beside it with its hash tree.
    ///
    /// # Errors
    /// The errno of opening one; `EINVAL` if it is no regular file, `EIO` if they are not as long as a program of
    /// `bytes` bytes and its tree.
    pub(crate) fn open(path: &[u8], id: ProgramId, bytes: u64) -> Result<Self> {
        let open = |path: &[u8], expected: u64| {
            let (source, length) = Source::open(path)?;
            if length == expected { Ok(source) } else { Err(Errno::IO) }
        };
        let source = open(path, bytes)?;
        let tree = [path, tree::SUFFIX.as_bytes()].concat();
        let tree = open(&tree, tree::nodes(bytes) * tree::NODE_BYTES as u64)?;
        Ok(Self { id, bytes, source, tree })
    }

    /// Reads pages of the program `id`. Beyond the end there are none; the last may be short.
    ///
    /// # Errors
    /// `ENOENT` for another program, `EINVAL` for no pages or too many.
    pub(crate) fn pages(&self, id: ProgramId, first: u32, count: u16) -> Result<PagesStart> {
        if id != self.id {
            return Err(Errno::NOENT);
        }
        if count == 0 || count > PAGES_PER_REQUEST_MAX {
            return Err(Errno::INVAL);
        }
        self.part(first.into(), count.into())
    }

    /// Reads any number of pages. Beyond the end there are none; the last may be short.
    ///
    /// # Errors
    /// As pread(2); `EINVAL` for more than there can be.
    pub(crate) fn part(&self, first: u64, count: u64) -> Result<PagesStart> {
        let offset = first.checked_mul(PAGE_BYTES).ok_or(Errno::INVAL)?;
        let length = count.saturating_mul(PAGE_BYTES).min(self.bytes.saturating_sub(offset));
        let pages = self.source.read(offset, usize::try_from(length).map_err(|_| Errno::INVAL)?)?;
        let places = if length == 0 { Vec::new() } else { tree::beside(self.bytes, first, count) };
        let node = |place: u64| self.tree.read(place * tree::NODE_BYTES as u64, tree::NODE_BYTES);
        Ok(PagesStart { pages, beside: places.into_iter().map(node).collect::<Result<_>>()? })
    }
}
