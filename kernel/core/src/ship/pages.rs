//! Pages of programs: believed only if the program's hash says that they are the program's.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::pin::Pin;

use coppice_hal::heap::block_bytes;
use coppice_protocol::ids::ProgramId;
use coppice_protocol::limits::{PAGES_PER_REQUEST_MAX, TREE_NODES_PER_REPLY_MAX};
use coppice_protocol::program::{PAGE_BYTES, tree};
use coppice_protocol::ras::{RasEvent, RasKind, Severity};
use coppice_protocol::ship::{Call, Reply};

use super::Client;
use crate::errno::Errno;
use crate::executor;
use crate::limits::PAGES_CALL_BYTES;
use crate::ras;

/// Pages that are hashed in one go.
const HASHED_PAGES_MAX: usize = 8;

/// A program's file, as a launch names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramFile {
    /// Its hash.
    pub(crate) program: ProgramId,
    /// Its length, bytes.
    pub(crate) bytes: u64,
}

impl Client {
    /// Pages of a program, as far as its file goes; at most [`PAGES_PER_REQUEST_MAX`].
    ///
    /// In a block of its own: every thread has room for what it waits for, and few wait for this. The caller charges it
    /// ([`PAGES_CALL_BYTES`]).
    ///
    /// # Errors
    /// As [`Client::call`]; `EBADMSG` if what came is not what belongs there, which is reported, too.
    pub(crate) fn program_pages(
        &self,
        file: ProgramFile,
        first: u32,
        count: u16,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<u8>, Errno>> + Send + '_>> {
        let call = self.checked_pages(file, first, count);
        debug_assert!(block_bytes(size_of_val(&call)) <= PAGES_CALL_BYTES);
        Box::pin(call)
    }

    async fn checked_pages(&self, file: ProgramFile, first: u32, count: u16) -> Result<Vec<u8>, Errno> {
        let call = Call::Pages { program: file.program, first, count };
        let (reply, bytes) = self.call(call, Vec::new()).await?;
        let Reply::Pages { beside } = reply else { return Err(Errno::EIO) };
        let there = file.bytes.saturating_sub(u64::from(first) * PAGE_BYTES);
        let expected = there.min(u64::from(count.min(PAGES_PER_REQUEST_MAX)) * PAGE_BYTES);
        if bytes.is_empty() && expected == 0 {
            return Ok(bytes);
        }
        let is_whole = bytes.len() as u64 == expected && beside.len() <= TREE_NODES_PER_REPLY_MAX;
        if is_whole && is_of_program(file, first, &bytes, &beside).await? {
            return Ok(bytes);
        }
        self.report_damage(file.program, first, count);
        Err(Errno::EBADMSG)
    }

    fn report_damage(&self, program: ProgramId, first: u32, count: u16) {
        let text = format!(
            "{count} pages from page {first} of program {program} are not what its hash says: its copy in the store is \
             damaged, or they were changed on their way"
        );
        ras::report(RasEvent {
            severity: Severity::Error,
            kind: RasKind::DamagedProgram,
            job: Some(self.owner.job),
            rank: Some(self.owner.rank),
            address: None,
            instruction: None,
            text,
        });
    }
}

/// Whether pages and the nodes beside them lead to the program's hash. Others have their turns meanwhile.
async fn is_of_program(file: ProgramFile, first: u32, bytes: &[u8], beside: &[tree::TreeNode]) -> Result<bool, Errno> {
    let mut leaves = Vec::new();
    leaves.try_reserve_exact(bytes.len().div_ceil(PAGE_BYTES as usize)).map_err(|_| Errno::ENOMEM)?;
    for (page, content) in (u64::from(first)..).zip(bytes.chunks(PAGE_BYTES as usize)) {
        leaves.push(tree::leaf(file.bytes, page, content));
        if leaves.len().is_multiple_of(HASHED_PAGES_MAX) {
            executor::yield_now().await;
        }
    }
    Ok(tree::program_of(file.bytes, first.into(), &leaves, beside) == Some(file.program))
}
