//! Bringing pages in that the program, or a call for it, has touched.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::pin::Pin;
use core::ptr;
use core::sync::atomic::Ordering;

use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::frames::Frame;
use coppice_hal::heap::block_bytes;
use coppice_protocol::ids::ProgramId;
use coppice_protocol::limits::PAGES_PER_REQUEST_MAX;

use crate::errno::Errno;
use crate::executor::Phase;
use crate::files::{Object, OpenFile, Turn};
use crate::limits::{PAGES_CALL_BYTES, READ_AGAIN_MAX};
use crate::memory::{Fetch, Resolution, Signal, Source};
use crate::process::{Awaited, Caller, Failure, Process};
use crate::quota::Charge;
use crate::ship::ProgramFile;

/// What became of a fetch.
pub(crate) enum Fetched {
    /// The page is there, or nobody wants it any more: try again.
    Ready,
    /// The bytes could not be had: the file is shorter than its mapping (no error), or reading failed.
    Failed(Signal, Option<Errno>),
    /// There is no memory for it.
    OutOfMemory,
}

/// Memory for pages until they are installed.
enum Room<'a> {
    /// It was charged.
    Charged { _charge: Charge },
    /// A page's, which the process has in any case. Its threads take turns at it.
    Own { _turn: Turn<'a> },
}

/// What a fetch under way takes of the heap, bytes. A thread has one at most, and is charged with it from its start:
/// that a page has to be fetched is no reason for a call to fail.
pub(crate) const FETCH_BYTES: usize = block_bytes(size_of_output(Process::bring));

/// What maps pages that are kept, until it is done.
type Showing<'a> = Pin<Box<dyn Future<Output = Option<Fetched>> + Send + 'a>>;

/// What that takes of the heap, bytes: itself with its charge, and what it finds.
const SHOW_BYTES: usize = block_bytes(size_of_output(Process::show_kept) + 2 * size_of::<Charge>())
    + block_bytes(PAGES_PER_REQUEST_MAX as usize * size_of::<(u64, Frame)>());

const fn size_of_output<A, B, F>(_: fn(A, B) -> F) -> usize {
    size_of::<F>()
}

impl Process {
    /// Reads what `fetch` wants and installs it. Dropped meanwhile, it has done nothing. What another thread fetches
    /// just now is waited for, and pages of the program that another rank has here are not read again.
    ///
    /// It is in a box ([`FETCH_BYTES`]): wherever the kernel copies a page may be missing, and hardly ever is.
    pub(crate) fn fetch<'a>(&'a self, fetch: &'a Fetch) -> Pin<Box<dyn Future<Output = Fetched> + Send + 'a>> {
        Box::pin(self.bring(fetch))
    }

    async fn bring(&self, fetch: &Fetch) -> Fetched {
        let of = match &fetch.source {
            Source::Program(_) => 0,
            Source::File(file) => Arc::as_ptr(file).addr(),
            Source::Change => {
                self.after_change().await;
                return Fetched::Ready;
            }
        };
        let _turn = self.job.turn_to_fetch(of, fetch.first_page).await;
        // Another thread may have fetched it meanwhile, or taken it away.
        let is_wanted = self.space.lock().wants(fetch);
        if !is_wanted || self.share(fetch) {
            return Fetched::Ready;
        }
        if let Some(showing) = self.showing_kept(fetch)
            && let Some(shown) = showing.await
        {
            return shown;
        }
        self.account.major_faults.fetch_add(1, Ordering::Relaxed);
        let (fetch, _room) = &self.room_for(fetch).await;
        for attempt in 1.. {
            let seen = self.space.lock().file_changes();
            let bytes = match self.read_pages(fetch).await {
                Ok(bytes) => bytes,
                Err(_) if !self.space.lock().wants(fetch) => return Fetched::Ready,
                Err(errno) => return Fetched::Failed(fetch.failure(), Some(errno)),
            };
            let mut space = self.space.lock();
            // Who writes there all the time cannot expect to be seen at once, but must not keep others from going on.
            if attempt < READ_AGAIN_MAX && space.is_stale(fetch, seen) {
                continue;
            }
            return match space.install(fetch, &bytes) {
                // The next touch decides about anything but a page that is not in the file.
                Resolution::Ready | Resolution::Fetch(_) => Fetched::Ready,
                Resolution::Signal(signal) => Fetched::Failed(signal, None),
                Resolution::OutOfMemory => Fetched::OutOfMemory,
            };
        }
        Fetched::Ready
    }

    /// [`Self::show_kept`], if it is a file's pages that are wanted and there is memory for that, which threads are not
    /// charged with from their start.
    fn showing_kept<'a>(&'a self, fetch: &'a Fetch) -> Option<Showing<'a>> {
        let Source::File(_) = fetch.source else { return None };
        let charge = self.node.quota.charge(SHOW_BYTES).ok()?;
        Some(Box::pin(async move {
            let _charge = charge;
            self.show_kept(fetch).await
        }))
    }

    /// Maps pages of a file as they are kept for all of the job's ranks here, and has them come for that. `None`: they
    /// are to be read, as nothing may be kept of the file, or there is no memory for it.
    async fn show_kept(&self, fetch: &Fetch) -> Option<Fetched> {
        let Source::File(file) = &fetch.source else { return None };
        let file: &dyn Any = &**file;
        let shipped = file.downcast_ref::<OpenFile>()?.as_shipped()?;
        let cached = shipped.cached()?;
        if self.space.lock().is_mapped_shared(fetch.address) {
            return None;
        }
        let needed = fetch.alone().offset();
        let end = fetch.offset() + fetch.length() as u64;
        let was_here = cached.shown(needed).is_some();
        for _ in 0..READ_AGAIN_MAX {
            let seen = self.space.lock().file_changes();
            cached.fetch_to_show((shipped.client(), shipped.handle), needed, fetch.offset()..end).await;
            let numbers = fetch.first_page..fetch.first_page + u64::from(fetch.pages);
            let shown = |number: u64| Some((number, cached.shown(number * PAGE_BYTES as u64)?));
            // The one that is needed first, in case there are no tables for all.
            let own = needed / PAGE_BYTES as u64;
            let mut kept = Vec::new();
            kept.try_reserve_exact(usize::from(fetch.pages)).ok()?;
            kept.push(shown(own)?);
            kept.extend(numbers.filter(|number| *number != own).filter_map(shown));
            let mut space = self.space.lock();
            if space.is_stale(fetch, seen) {
                continue;
            }
            // As on Linux, only what had to come counts.
            self.account.major_faults.fetch_add(u64::from(!was_here), Ordering::Relaxed);
            return Some(match space.install_kept(fetch, &kept) {
                Resolution::OutOfMemory => Fetched::OutOfMemory,
                _ => Fetched::Ready,
            });
        }
        None
    }

    /// Memory for what `fetch` reads: threads may take long to install what was read for them, and each has asked for
    /// pages of its own. If there is not enough for all that was to be read ahead, it is read without. There is always
    /// memory for one page, so that nothing but frames keeps a program from going on.
    async fn room_for(&self, fetch: &Fetch) -> (Fetch, Room<'_>) {
        let is_of_program = |source: &Source| match source {
            Source::Program(_) => true,
            Source::File(file) => {
                let file: &dyn Any = &**file;
                file.downcast_ref::<OpenFile>().is_some_and(|file| matches!(file.object, Object::Program(_)))
            }
            Source::Change => false,
        };
        let call_bytes = if is_of_program(&fetch.source) { PAGES_CALL_BYTES } else { 0 };
        for fetch in [fetch.clone(), fetch.alone()] {
            if let Ok(charge) = self.node.quota.charge(block_bytes(fetch.length()) + call_bytes) {
                return (fetch, Room::Charged { _charge: charge });
            }
        }
        (fetch.alone(), Room::Own { _turn: self.own_page.take().await })
    }

    /// Takes what `fetch` wants from the job's other ranks here, as far as they have it. Returns whether the page that
    /// is needed was there.
    fn share(&self, fetch: &Fetch) -> bool {
        let processes = self.job.processes();
        let siblings = || processes.iter().filter(|process| !ptr::eq(Arc::as_ptr(process), self));
        if siblings().next().is_none() {
            return false;
        }
        let wanted = self.space.lock().wanted(fetch);
        for wanted in wanted {
            let frame = siblings().find_map(|sibling| sibling.space.lock().pristine(wanted));
            if let Some(frame) = frame {
                self.space.lock().adopt(wanted, frame);
            }
        }
        self.space.lock().has_page(fetch.address)
    }

    /// As [`Self::fetch`], for who copies: what cannot be read is `EFAULT`.
    pub(crate) async fn fetch_for_copy(&self, fetch: &Fetch) -> Awaited<()> {
        match self.fetch(fetch).await {
            Fetched::Ready => Ok(()),
            Fetched::Failed(..) => Err(Errno::EFAULT.into()),
            Fetched::OutOfMemory => Err(Failure::OutOfMemory),
        }
    }

    async fn read_pages(&self, fetch: &Fetch) -> Result<Vec<u8>, Errno> {
        match &fetch.source {
            Source::Program(program) => self.read_program_pages(*program, fetch).await,
            Source::File(file) => {
                let file: &dyn Any = &**file;
                // Nothing but open files is ever mapped.
                let file = file.downcast_ref::<OpenFile>().ok_or(Errno::EIO)?;
                match file.object {
                    Object::Program(_) if fetch.offset() >= self.identity.program_bytes => Ok(Vec::new()),
                    Object::Program(_) => self.read_program_pages(self.identity.program, fetch).await,
                    _ => {
                        let shared = self.space.lock().is_mapped_shared(fetch.address);
                        file.read_to_map(self, (fetch.offset(), fetch.length()), shared).await
                    }
                }
            }
            Source::Change => Ok(Vec::new()),
        }
    }

    async fn read_program_pages(&self, program: ProgramId, fetch: &Fetch) -> Result<Vec<u8>, Errno> {
        let first = u32::try_from(fetch.first_page).map_err(|_| Errno::EIO)?;
        let file = ProgramFile { program, bytes: self.identity.program_bytes };
        let mut bytes = self.job.program_pages(&self.client, file, first, fetch.pages).await?;
        bytes.truncate(fetch.length());
        Ok(bytes)
    }
}

impl Caller<'_> {
    /// As [`Process::fetch_for_copy`], in a system call.
    pub(crate) async fn fetch_for_copy(&self, fetch: &Fetch) -> Awaited<()> {
        self.thread.waits_for(Phase::Page);
        let fetched = self.process.fetch_for_copy(fetch).await;
        self.thread.waits_for(Phase::File);
        fetched
    }
}
