//! The program's own file, `/proc/self/exe`, of which the I/O node gives pages.

use alloc::vec::Vec;

use coppice_hal::heap::block_bytes;
use coppice_protocol::limits::{BULK_BYTES_MAX, PAGES_PER_REQUEST_MAX};

use crate::errno::Errno;
use crate::limits::PAGES_CALL_BYTES;
use crate::process::Process;
use crate::ship::ProgramFile;

/// Reads the program's own file, by its pages. `length` bytes are charged already.
pub(crate) async fn read_program(process: &Process, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
    const PAGE: u64 = coppice_hal::addr::PAGE_BYTES as u64;
    let identity = &process.identity;
    if offset >= identity.program_bytes {
        return Ok(Vec::new());
    }
    // What comes is whole pages, from which the bytes are copied.
    let first_bytes = ((offset % PAGE) as usize).saturating_add(length).next_multiple_of(PAGE as usize);
    let _charge = process.node.quota.charge(block_bytes(first_bytes.min(BULK_BYTES_MAX)) + PAGES_CALL_BYTES)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| Errno::ENOMEM)?;
    while bytes.len() < length && offset + (bytes.len() as u64) < identity.program_bytes {
        let at = offset + bytes.len() as u64;
        let first = u32::try_from(at / PAGE).map_err(|_| Errno::EOVERFLOW)?;
        let skipped = (at % PAGE) as usize;
        let wanted = (skipped + length - bytes.len()).div_ceil(PAGE as usize);
        let count = wanted.min(PAGES_PER_REQUEST_MAX.into()) as u16;
        let file = ProgramFile { program: identity.program, bytes: identity.program_bytes };
        let pages = process.client.program_pages(file, first, count).await?;
        let part = pages.get(skipped..).unwrap_or_default();
        if part.is_empty() {
            break;
        }
        bytes.extend_from_slice(&part[..part.len().min(length - bytes.len())]);
    }
    Ok(bytes)
}
