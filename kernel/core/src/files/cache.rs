//! What a job's ranks on a node know of the I/O node's files: pages, lengths, and bytes that are not written yet, as
//! far as the node has leases ([`coppice_protocol::lease`]).
//!
//! All ranks of the job share it. Pages lie in memory that nobody else wants: who finds no frame has those given back
//! that were used longest ago ([`Spare`]). Bytes that were not written yet stay, and there are few.
//!
//! A file is known from its first open to the end of the job; its pages outlive the last close, as long as there is no
//! lack of memory, and are believed at the next open if the I/O node says that they are what is in the file. A file of
//! which the node has no lease is known, too, by nothing but its name: every call is made at the I/O node.

mod ahead;
mod dropping;
mod extents;
mod file;
mod fill;
mod incoming;
mod later;
mod left;
mod mapped;
#[cfg(all(test, feature = "model"))]
mod models;
mod outside;
mod pages;
mod showing;
mod taking;
#[cfg(test)]
mod tests;
mod write_back;
mod writers;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::frames::FramePool;
use coppice_hal::heap::block_bytes;
use coppice_protocol::lease::{FileId, Grant};
use coppice_protocol::retain::RetainedProgram;
use coppice_protocol::ship::{FileStatus, Owner};

pub(crate) use self::file::CachedFile;
pub(crate) use self::incoming::Incoming;
pub(crate) use self::left::{Leaves, LeftFiles};
pub(crate) use self::mapped::Mappers;
pub(crate) use self::outside::Outside;
pub(crate) use self::taking::{COPY_BYTES_MAX, Taking};
pub(crate) use self::writers::WRITER_BYTES;

use self::extents::Extents;
use self::incoming::Coming;
use super::names::KnownNames;
use crate::errno::Errno;
use crate::executor;
use crate::limits::{FILES_KNOWN_MAX, MAPPED_WRITE_BACK_NS, SETTLE_NS_MAX};
use crate::memory::{FileChange, FileIdentity, MappedPages, Retention, SharedMemory, Spare};
use crate::quota::{Charge, Quota, shared_bytes};
use crate::ship::{Client, Leaseholder};
use crate::sync::{LockLevel, Mutex};

/// Pages that are given back at a time.
const GIVEN_BACK_PAGES: u64 = 64;

/// What a file that is known is charged with, bytes: itself, and its place among others.
pub(crate) const KNOWN_FILE_BYTES: usize =
    shared_bytes::<CachedFile>() + 3 * size_of::<InFiles>() + block_bytes(2 * Extents::BYTES);

/// What [`Files`] has of one that is known, at most.
type InFiles = ((FileIdentity, Known), FileIdentity, (u64, FileIdentity));

/// See the [module](self).
pub(crate) struct FileCache {
    frames: &'static FramePool,
    retention: Arc<Retention>,
    quota: Arc<Quota>,
    /// What is told apart by when it was: opens, closes and changes that were so far.
    uses: Arc<AtomicU64>,
    /// Bytes that wait to be written.
    waiting: Arc<AtomicU64>,
    /// Pages that mappings have written.
    mapped: Arc<MappedPages>,
    /// A task writes those back.
    is_writing_mapped: AtomicBool,
    files: Mutex<Files>,
    names: KnownNames,
    left: Option<Leaves>,
}

#[derive(Default)]
struct Files {
    known: BTreeMap<FileIdentity, Known>,
    /// Those of them with bytes that wait to be written, or had some a moment ago ([`later`]).
    written: BTreeSet<FileIdentity>,
    /// A task writes those back.
    is_writing_back: bool,
    /// Those that nobody has open, by [`Known::used`].
    closed: BTreeMap<u64, FileIdentity>,
    /// What comes of files that nobody here has opened.
    early: BTreeMap<FileIdentity, Coming>,
    /// Leases up to this number that were not heard of yet are not to be used: they were asked for already.
    void: u64,
    /// When a file of which nothing is known was changed or closed last, by [`FileCache::uses`].
    changed: u64,
}

/// A file that is about to be opened.
pub(crate) struct Opening {
    /// What it is charged with that something is known of it, [`KNOWN_FILE_BYTES`].
    charge: Charge,
    /// When it was begun, by [`FileCache::uses`]: what the I/O node says of the file may be as old.
    begun: u64,
}

/// A file that is known.
struct Known {
    file: Arc<CachedFile>,
    /// Handles that are open.
    opens: u32,
    /// When it was opened or closed last, by [`FileCache::uses`], and as spare memory counts.
    used: u64,
    spare_used: u64,
    /// When it was changed at the I/O node or its last handle closed, by [`FileCache::uses`].
    changed: u64,
    _charge: Charge,
}

impl FileCache {
    /// Nothing known, but for what others have left. Its pages are given back when `retention` is to give something
    /// back.
    pub(crate) fn new(
        frames: &'static FramePool,
        retention: &Arc<Retention>,
        quota: &Arc<Quota>,
        left: Option<Leaves>,
    ) -> Arc<Self> {
        let files = Mutex::new(LockLevel::KnownFiles, Files::default());
        let names = KnownNames::new(quota, retention);
        let (retention_too, quota) = (Arc::clone(retention), Arc::clone(quota));
        let (uses, waiting, mapped) = (Arc::default(), Arc::default(), Arc::new(MappedPages::new()));
        let cache = Arc::new(Self {
            frames,
            retention: retention_too,
            quota,
            uses,
            waiting,
            mapped,
            is_writing_mapped: AtomicBool::new(false),
            files,
            names,
            left,
        });
        let spare: Weak<dyn Spare> = Arc::downgrade(&(Arc::clone(&cache) as Arc<dyn Spare>));
        retention.add_spare(spare);
        cache
    }

    /// What is known of names.
    pub(crate) fn names(&self) -> &KnownNames {
        &self.names
    }

    /// To be called before a file is opened.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn opening(&self) -> Result<Opening, Errno> {
        let charge = self.quota.charge(KNOWN_FILE_BYTES)?;
        Ok(Opening { charge, begun: self.next_use() })
    }

    fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A file was opened that is this, with that lease, and with all that is in it or nothing. [`Self::closed`] is to
    /// follow.
    pub(crate) fn opened(
        &self,
        status: &FileStatus,
        lease: Option<(Grant, &[u8])>,
        Opening { charge, begun }: Opening,
    ) -> Arc<CachedFile> {
        let identity = FileIdentity { device: status.device, inode: status.inode };
        let mut forgotten = None;
        let mut left = self.left.as_ref().and_then(|left| left.files.take(identity));
        let mut files = self.files.lock();
        let (files, now) = (&mut *files, self.next_use());
        if files.known.len() >= FILES_KNOWN_MAX
            && !files.known.contains_key(&identity)
            && let Some((_, oldest)) = files.closed.first_key_value()
        {
            forgotten = files.remove(*oldest);
        }
        files.changed = files.changed.max(forgotten.as_ref().map_or(0, |known| known.changed));
        let changed = files.known.get(&identity).map_or(files.changed, |known| known.changed);
        let of_job = (&self.uses, &self.waiting, &self.mapped);
        let new = || CachedFile::new(identity, self.frames, &self.retention, &self.quota, of_job);
        let known = files.known.entry(identity).or_insert_with(|| Known {
            file: Arc::new(new().with(left.take())),
            opens: 0,
            used: 0,
            spare_used: 0,
            changed,
            _charge: charge,
        });
        files.closed.remove(&known.used);
        known.opens += 1;
        (known.used, known.spare_used) = (now, self.retention.next_use());
        if let Some((grant, _)) = lease.filter(|(grant, _)| grant.number <= files.void) {
            // It may have said that what is known is not so.
            known.file.is_unsure();
            log::debug!("files: lease {} was wanted back before it came", grant.number);
        } else if let Some((grant, bytes)) = lease {
            known.file.granted(grant, status, (begun, changed < begun));
            // Nobody else here can have written to it since.
            if known.opens == 1 {
                known.file.came_with(bytes);
            }
        }
        let file = Arc::clone(&known.file);
        let before = files.early.remove(&identity).and_then(|coming| file.comes(coming));
        if let Some(forgotten) = forgotten {
            self.leave(forgotten);
        }
        drop((before, left));
        file
    }

    /// One of a file's handles is closed.
    pub(crate) fn closed(&self, identity: FileIdentity) {
        let mut guard = self.files.lock();
        let (files, now) = (&mut *guard, self.next_use());
        let Some(known) = files.known.get_mut(&identity) else { return };
        known.opens = known.opens.saturating_sub(1);
        (known.used, known.spare_used) = (now, self.retention.next_use());
        if known.opens > 0 {
            return;
        }
        let (knows_something, leaving) = known.file.rest();
        known.changed = now;
        files.closed.insert(now, identity);
        let gone = if knows_something {
            None
        } else {
            files.changed = now;
            files.remove(identity)
        };
        drop(guard);
        drop(gone);
        // The lease ends with the last handle, but another rank may be opening the file: then it does not.
        if let Some((client, number)) = leaving {
            client.give_back(FileId { device: identity.device, inode: identity.inode }, number);
        }
    }

    /// A file changed, by a call that was made at the I/O node.
    pub(crate) fn changed(&self, identity: FileIdentity, change: &FileChange) {
        let known = {
            let mut files = self.files.lock();
            let (files, now) = (&mut *files, self.next_use());
            match files.known.get_mut(&identity) {
                Some(known) => {
                    known.changed = now;
                    Some(Arc::clone(&known.file))
                }
                None => {
                    files.changed = now;
                    None
                }
            }
        };
        if let Some(known) = known {
            known.changed(change);
        }
    }

    /// What shared mappings of a file show, if there ever were any.
    pub(crate) fn mapped(&self, identity: FileIdentity) -> Option<Arc<SharedMemory>> {
        let known = self.files.lock().known.get(&identity).map(|known| Arc::clone(&known.file));
        known.and_then(|known| known.mapped())
    }

    /// From now on, what mappings write is written back in a while.
    ///
    /// # Errors
    /// `ENOMEM`: there is no task for it.
    pub(crate) fn writes_back_mapped(self: &Arc<Self>) -> Result<(), Errno> {
        if self.is_writing_mapped.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let (cache, pages) = (Arc::downgrade(self), Arc::clone(&self.mapped));
        let spawned = executor::spawn_on(0, async move {
            while pages.some().await {
                executor::sleep(MAPPED_WRITE_BACK_NS).await;
                // Once the job is over, nobody else holds it.
                let Some(cache) = cache.upgrade() else { return };
                for file in cache.all() {
                    // Its disk may not answer; others' may.
                    let _ = executor::timeout(SETTLE_NS_MAX, file.write_back_mapped()).await;
                }
            }
        });
        spawned.map(drop).map_err(|_| {
            self.is_writing_mapped.store(false, Ordering::Relaxed);
            Errno::ENOMEM
        })
    }

    fn all(&self) -> Vec<Arc<CachedFile>> {
        self.files.lock().known.values().map(|known| Arc::clone(&known.file)).collect()
    }

    /// What became of a file nobody knows: nothing of it is believed until it is opened again.
    pub(crate) fn is_unsure(&self, identity: FileIdentity) {
        let known = self.files.lock().known.get(&identity).map(|known| Arc::clone(&known.file));
        if let Some(known) = known {
            known.is_unsure();
        }
    }

    /// Pages that mappings have written and that are not in their files yet.
    #[cfg(test)]
    pub(crate) fn mapped_pages(&self) -> u64 {
        self.mapped.count()
    }

    /// Bytes that wait to be written.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits until all that was written so far is at the I/O node, but for files of which nothing is heard for
    /// [`SETTLE_NS_MAX`]. What fails is told to who uses the file next.
    pub(crate) async fn settle(&self) {
        if self.waiting.load(Ordering::Relaxed) == 0 && self.mapped.count() == 0 {
            return;
        }
        // As of one file.
        Box::pin(async {
            for file in self.unwritten() {
                if executor::timeout(SETTLE_NS_MAX, file.settle()).await.is_err() {
                    file.is_slow();
                }
            }
        })
        .await;
    }

    /// Waits until all that was written so far is at the I/O node, however long that takes, or is lost.
    pub(crate) async fn settled(&self) {
        for file in self.all() {
            file.settle().await;
        }
    }

    /// The same for a rank that is about to end, with whose handles nothing is being written then.
    pub(crate) async fn settled_for(&self, owner: Owner) {
        let files = self.all();
        files.iter().for_each(|file| file.is_left_by(owner));
        for file in files {
            file.settle().await;
            file.is_unused_by(owner).await;
        }
    }

    /// The last rank has ended: nothing is known any more. Gives what was written and is lost.
    pub(crate) fn end(&self) -> Option<Errno> {
        self.names.forget();
        let (known, early) = {
            let mut files = self.files.lock();
            files.written.clear();
            files.closed.clear();
            (core::mem::take(&mut files.known), core::mem::take(&mut files.early))
        };
        drop(early);
        let mut lost = None;
        for known in known.into_values() {
            let is_unwritten = known.file.is_unwritten();
            lost = lost.or(known.file.take_error()).or(is_unwritten.then_some(Errno::EIO));
            self.leave(known);
        }
        lost
    }
}

impl Files {
    /// Takes out what is known of a file.
    fn remove(&mut self, identity: FileIdentity) -> Option<Known> {
        let known = self.known.remove(&identity)?;
        self.written.remove(&identity);
        if known.opens == 0 {
            self.closed.remove(&known.used);
        }
        Some(known)
    }
}

impl Leaseholder for FileCache {
    fn recall(&self, client: &Client, file: FileId, number: u64) {
        let identity = FileIdentity { device: file.device, inode: file.inode };
        let known = {
            let mut files = self.files.lock();
            let known = files.known.get(&identity).map(|known| Arc::clone(&known.file));
            // Also if it is there: one before it may not be heard of yet.
            files.void = files.void.max(number);
            known
        };
        match known {
            Some(known) => known.recall(client, number),
            None => client.give_back(file, number),
        }
    }

    fn recall_names(&self, client: &Client, number: u64) {
        self.names.recall(client, number);
    }
}

impl Drop for FileCache {
    fn drop(&mut self) {
        self.end();
        self.mapped.end();
    }
}

impl Spare for FileCache {
    fn oldest(&self) -> Option<u64> {
        let files = self.files.lock();
        if !files.early.is_empty() {
            // Nobody here has asked for it.
            return Some(0);
        }
        let spare = files.known.values().filter(|known| known.file.spare_pages() > 0);
        spare.map(|known| known.spare_used).chain(self.names.oldest()).min()
    }

    fn give_back(&self) -> bool {
        let early = self.files.lock().early.pop_first();
        if early.is_some() {
            return true;
        }
        let oldest = {
            let files = self.files.lock();
            let spare = files.known.values().filter(|known| known.file.spare_pages() > 0);
            let oldest = spare.min_by_key(|known| known.spare_used);
            if self.names.oldest().is_some_and(|names| oldest.is_none_or(|oldest| names < oldest.spare_used)) {
                drop(files);
                return self.names.forget();
            }
            oldest.map(|known| Arc::clone(&known.file))
        };
        oldest.is_some_and(|oldest| oldest.give_back(GIVEN_BACK_PAGES))
    }

    fn held(&self) -> Vec<RetainedProgram> {
        // They go with the job.
        Vec::new()
    }

    fn bytes(&self) -> u64 {
        let files = self.files.lock();
        let early = files.early.values().map(|(_, incoming)| incoming.pages());
        let pages = files.known.values().map(|known| known.file.spare_pages()).chain(early);
        pages.sum::<u64>() * PAGE_BYTES as u64
    }
}
