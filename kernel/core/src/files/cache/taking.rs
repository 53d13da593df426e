//! Copying between a program's memory and pages of a file, under the locks of both.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::paging::Access;
use coppice_protocol::ship::Handle;

use super::file::{CachedFile, PAGE, State};
use super::pages;
use crate::files::buffer;
use crate::limits::{JOB_UNWRITTEN_BYTES_MAX, UNWRITTEN_BYTES_MAX};
use crate::memory::{AddressSpace, CopyError};
use crate::ship::Client;

/// Bytes that are copied at once.
pub(crate) const COPY_BYTES_MAX: usize = 128 * 1024;

/// How far a copy came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taking {
    /// So many bytes, one at least.
    Copied(usize),
    /// The file ends there.
    End,
    /// The page is not here.
    Missing,
    /// What was written is to be written back first.
    Full,
    /// The node has no lease: the call is to be made at the I/O node.
    Strict,
}

/// How many bytes of the program's memory can be used like that without anybody waiting.
fn usable(space: &mut AddressSpace, address: u64, count: usize, access: Access) -> Result<usize, CopyError> {
    match space.touch(address, count, access) {
        Ok(()) => Ok(count),
        Err(CopyError::Fetch { done: done @ 1.., .. } | CopyError::Fault { done: done @ 1.. }) => Ok(done),
        Err(error) => Err(error),
    }
}

impl CachedFile {
    /// Copies up to `count` bytes from `offset` on to the program.
    ///
    /// # Errors
    /// [`CopyError`], of its memory: nothing was copied.
    pub(crate) fn read(
        &self,
        space: &mut AddressSpace,
        address: u64,
        offset: u64,
        count: usize,
    ) -> Result<Taking, CopyError> {
        // Where a file ends nobody looks at memory, nor behind what is left of it.
        let wanted = {
            let state = self.state.lock();
            if !state.is_leased() || state.is_written_by_mappings() {
                return Ok(Taking::Strict);
            }
            match state.size.checked_sub(offset) {
                None | Some(0) => return Ok(Taking::End),
                Some(left) => usize::try_from(left).map_or(COPY_BYTES_MAX, |left| left.min(COPY_BYTES_MAX)),
            }
        };
        let count = usable(space, address, count.min(wanted), Access::WRITE)?;
        let state = self.state.lock();
        if !state.is_leased() {
            return Ok(Taking::Strict);
        }
        let Some(left @ 1..) = state.size.checked_sub(offset) else { return Ok(Taking::End) };
        let run = state.run(offset, left.min(count as u64));
        if run == 0 {
            return Ok(Taking::Missing);
        }
        let mut done = 0;
        while done < run {
            let at = offset + done;
            let inside = (at % PAGE) as usize;
            let part = (PAGE_BYTES - inside).min((run - done) as usize);
            let Some(page) = state.pages.at(at) else { break };
            if space.write_page(address + done, part, &page, inside).is_none() {
                break;
            }
            done += part as u64;
        }
        Ok(if done > 0 { Taking::Copied(done as usize) } else { Taking::Strict })
    }

    /// As [`Self::read`], of few bytes, where all of them are here and the program's pages are, too. How many they are,
    /// and whether all of the file is here. `None`: it is to be done as others are.
    pub(crate) fn read_now(
        &self,
        space: &AddressSpace,
        address: u64,
        offset: u64,
        count: usize,
    ) -> Option<(usize, bool)> {
        let state = self.state.lock();
        if !state.is_leased() || state.is_written_by_mappings() || state.has_parts() {
            return None;
        }
        let left = usize::try_from(state.size.saturating_sub(offset)).unwrap_or(count);
        let (count, mut done) = (count.min(left), 0);
        while done < count {
            let at = offset + done as u64;
            let inside = (at % PAGE) as usize;
            let part = (PAGE_BYTES - inside).min(count - done);
            space.write_page(address + done as u64, part, &state.pages.at(at)?, inside)?;
            done += part;
        }
        Some((count, state.pages.count() >= state.size.div_ceil(PAGE)))
    }

    /// Bytes from `offset` on as they are, if they are here: `length`, or up to the end of the file. Nothing of what
    /// mappings have written meanwhile.
    pub(crate) fn known_bytes(&self, offset: u64, length: usize) -> Option<Vec<u8>> {
        let state = self.state.lock();
        let wanted = state.size.saturating_sub(offset).min(length as u64);
        if !state.is_leased() || state.run(offset, wanted) < wanted {
            return None;
        }
        let mut bytes = buffer(wanted as usize).ok()?;
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let inside = (at % PAGE) as usize;
            let end = bytes.len().min(done + PAGE_BYTES - inside);
            state.pages.at(at)?.read(inside, &mut bytes[done..end]);
            done = end;
        }
        Some(bytes)
    }

    /// Copies up to `count` bytes from the program to `offset` on, or for `None` to the end, to be written later by
    /// this writer or whoever has it open then. Gives also where the first went.
    ///
    /// # Errors
    /// [`CopyError`], of its memory: nothing was copied.
    pub(crate) fn write(
        &self,
        (client, handle): (&Client, Handle),
        space: &mut AddressSpace,
        (address, count): (u64, usize),
        offset: Option<u64>,
    ) -> Result<(Taking, u64), CopyError> {
        let count = usable(space, address, count.min(COPY_BYTES_MAX), Access::READ)?;
        let mut state = self.state.lock();
        let offset = offset.unwrap_or(state.size);
        let is_mapped = state.is_written_by_mappings();
        if !state.is_sole() || is_mapped || state.error.is_some() || !state.is_writer(client, handle) {
            return Ok((Taking::Strict, offset));
        }
        if state.is_full(&self.waiting) {
            return Ok((Taking::Full, offset));
        }
        let end = offset + count as u64;
        let mut done = 0;
        while offset + done < end {
            let at = offset + done;
            let part = (PAGE - at % PAGE).min(end - at);
            if !state.make_room(self, at, part) {
                break;
            }
            let Some(page) = state.pages.at(at) else { break };
            if space.read_page(address + done, part as usize, &page, (at % PAGE) as usize).is_none() {
                break;
            }
            done += part;
        }
        if done == 0 {
            return Ok((Taking::Full, offset));
        }
        state.size = state.size.max(offset + done);
        state.count(&self.waiting);
        Ok((Taking::Copied(done as usize), offset))
    }
}

impl State {
    /// Whether nothing more may be written before something is written back.
    pub(super) fn is_full(&self, waiting: &AtomicU64) -> bool {
        let own = self.unwritten.bytes() + self.writing.bytes();
        own >= UNWRITTEN_BYTES_MAX || waiting.load(Ordering::Relaxed) >= JOB_UNWRITTEN_BYTES_MAX
    }

    /// There is a page for these bytes, which do not go beyond one, and they are noted as unwritten. False: something
    /// is to be written back first, or there is no memory.
    fn make_room(&mut self, file: &CachedFile, at: u64, length: u64) -> bool {
        let page = at / PAGE * PAGE;
        let written = at..at + length;
        // Bytes of the page that are in the file.
        let there = self.size.saturating_sub(page).min(PAGE);
        let covers = written.start == page && length >= there || there == 0;
        if !self.unwritten.fits(&written) {
            return false;
        }
        // What comes for it is older than what is written.
        self.fills.forget(&(page..page + PAGE));
        if self.pages.at(page).is_some() {
            let size = self.size;
            if let Some(known) = self.partial_at(page)
                && let Some(range) = known
            {
                if written.start > range.end || range.start > written.end {
                    return false;
                }
                let grown = range.start.min(written.start)..range.end.max(written.end);
                *known = if grown.start == page && grown.end >= size.min(page + PAGE) { None } else { Some(grown) };
            }
        } else {
            let place = self.partial.iter().position(Option::is_none);
            if !covers && place.is_none() {
                return false;
            }
            let Some(frame) = pages::frame(file.frames) else { return false };
            if !self.pages.insert(file.frames, page, frame) {
                return false;
            }
            if !covers && let Some(known) = place.and_then(|place| self.partial.get_mut(place)) {
                *known = Some(written.clone());
            }
        }
        self.unwritten.add(written)
    }
}
