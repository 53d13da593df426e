//! The files in `/dev/shm`: memory that ranks of a job on one node share by name.
//!
//! They are a job's own and lie in this node's memory: other nodes of the job have others by the same names. There are
//! no directories and no symbolic links; link(2) gives a file a second name, and those of memfd_create(2) have none.
//! A job's staged files ([`crate::staging`]) are like them, sealed, but that their names are absolute paths, anywhere.
//!
//! What no name, descriptor or mapping refers to any more is zeroed and free, and so is all of it at the end of the
//! job's last rank on the node.

pub(crate) mod record;
mod staged;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicBool;

use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::frames::FramePool;
use coppice_hal::heap::block_bytes;
use coppice_protocol::limits::NAME_BYTES_MAX;
use coppice_protocol::ship::{FileStatus, FileSystemStatus, TimeChange, Timestamp};
use coppice_protocol::text::ByteString;
use serde::{Deserialize, Serialize};

use self::staged::is_staged;
use super::{S_IFREG, serial};
use crate::abi::status::device;
use crate::clock;
use crate::errno::Errno;
use crate::limits::{NAME_PLACE_BYTES, SHARED_FILES_MAX, SHARED_MEMORY_SHARE};
use crate::memory::{Budget, NoPage, Retention, SHARED_BYTES_MAX, SharedMemory};
use crate::quota::{Charge, Quota, shared_bytes};
use crate::sync::{LockLevel, Mutex};

/// Device number of `/dev/shm`.
const DEVICE: u64 = device(0, 25);

/// What a file is besides its bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Facts {
    /// Permissions.
    mode: u32,
    /// Names.
    links: u64,
    accessed: Timestamp,
    modified: Timestamp,
    changed: Timestamp,
    /// What may not be done any more: bits of [`seals`].
    seals: u32,
}

/// `F_SEAL_*` of fcntl(2).
pub(crate) mod seals {
    /// There are no more seals to come.
    pub(crate) const SEAL: u32 = 1;
    /// It does not get shorter.
    pub(crate) const SHRINK: u32 = 2;
    /// It does not get longer.
    pub(crate) const GROW: u32 = 4;
    /// It is not written.
    pub(crate) const WRITE: u32 = 8;
    /// It is not written but by those who show it already.
    pub(crate) const FUTURE_WRITE: u32 = 16;
    /// All of them.
    pub(crate) const ALL: u32 = SEAL | SHRINK | GROW | WRITE | FUTURE_WRITE;
}

/// A file.
pub(crate) struct SharedFile {
    /// Its bytes.
    pub(crate) memory: Arc<SharedMemory>,
    inode: u64,
    user: u32,
    group: u32,
    facts: Mutex<Facts>,
    /// What memfd_create(2) called it, if that made it.
    label: Option<Box<[u8]>>,
    /// What it takes of the kernel's heap.
    _charge: Charge,
}

fn now() -> Timestamp {
    let ns = clock::realtime_ns();
    Timestamp { seconds: (ns / 1_000_000_000).cast_signed(), nanoseconds: (ns % 1_000_000_000) as u32 }
}

/// What a program is told when there is no page for what it writes.
fn errno_of(error: NoPage) -> Errno {
    match error {
        NoPage::Beyond => Errno::EFBIG,
        // Of files at the I/O node only.
        NoPage::NotRead => Errno::EIO,
        NoPage::Full => Errno::ENOSPC,
        NoPage::Memory(_) => Errno::ENOMEM,
    }
}

impl SharedFile {
    /// What tells it from all others on the node.
    pub(crate) fn inode(&self) -> u64 {
        self.inode
    }

    /// What it is now.
    pub(crate) fn status(&self) -> FileStatus {
        let facts = *self.facts.lock();
        FileStatus {
            device: DEVICE,
            inode: self.inode,
            mode: S_IFREG | facts.mode,
            links: facts.links,
            user: self.user,
            group: self.group,
            size: self.memory.length(),
            block_size: PAGE_BYTES as u32,
            blocks: self.memory.pages() * (PAGE_BYTES as u64 / 512),
            accessed: facts.accessed,
            modified: facts.modified,
            changed: facts.changed,
            ..FileStatus::default()
        }
    }

    /// What the link of its descriptors says, if that is known.
    pub(crate) fn name(&self) -> Option<Vec<u8>> {
        self.label.as_ref().map(|label| [b"/memfd:", &**label, b" (deleted)"].concat())
    }

    /// Writes at an offset or, for `None`, at the end. Gives how many bytes and the offset behind them.
    ///
    /// # Errors
    /// `EFBIG`, `ENOSPC`, `ENOMEM`, `EPERM` (sealed): not one byte was written.
    pub(crate) fn write(&self, offset: Option<u64>, bytes: &[u8]) -> Result<(u64, u64), Errno> {
        let bytes = &bytes[..self.writable(offset, bytes.len())?];
        let (done, end, result) = self.memory.write(offset, bytes);
        if done == 0
            && let Err(error) = result
        {
            return Err(errno_of(error));
        }
        self.touched();
        Ok((done as u64, end))
    }

    /// How many of `length` bytes may be written at an offset: as on Linux, no page beyond the end if it is not to
    /// grow.
    fn writable(&self, offset: Option<u64>, length: usize) -> Result<usize, Errno> {
        let seals = self.seals();
        if seals & (seals::WRITE | seals::FUTURE_WRITE) != 0 && length > 0 {
            return Err(Errno::EPERM);
        }
        let end = self.memory.length();
        let offset = offset.unwrap_or(end);
        if seals & seals::GROW == 0 || offset.saturating_add(length as u64) <= end {
            return Ok(length);
        }
        let whole_pages = end / PAGE_BYTES as u64 * PAGE_BYTES as u64;
        let room = whole_pages.checked_sub(offset).filter(|room| *room > 0).ok_or(Errno::EPERM)?;
        Ok(usize::try_from(room).map_or(length, |room| room.min(length)))
    }

    /// What may not be done any more, bits of [`seals`].
    pub(crate) fn seals(&self) -> u32 {
        self.facts.lock().seals
    }

    /// Forbids more. What shows it to be written keeps it from being sealed against that.
    ///
    /// # Errors
    /// `EPERM`: no more may be forbidden. `EBUSY`: a rank's memory shows it, and may be written.
    pub(crate) fn seal(&self, more: u32, viewers: &impl Viewers) -> Result<(), Errno> {
        let before = {
            let mut facts = self.facts.lock();
            if facts.seals & seals::SEAL != 0 {
                return Err(Errno::EPERM);
            }
            let before = facts.seals;
            facts.seals |= more;
            before
        };
        // Who maps it from now on finds the seal.
        if more & !before & seals::WRITE != 0 && viewers.may_write(&self.memory) {
            self.facts.lock().seals = before;
            return Err(Errno::EBUSY);
        }
        Ok(())
    }

    /// Whether a shared mapping of it may be written.
    pub(crate) fn may_be_shown_to_be_written(&self) -> bool {
        self.seals() & (seals::WRITE | seals::FUTURE_WRITE) == 0
    }

    /// ftruncate(2). What was cut off is gone from the memory of all ranks.
    ///
    /// # Errors
    /// `EFBIG`, `EPERM` (sealed).
    pub(crate) async fn set_length(&self, length: u64, viewers: &impl Viewers) -> Result<(), Errno> {
        if length > SHARED_BYTES_MAX {
            return Err(Errno::EFBIG);
        }
        let (seals, before) = (self.seals(), self.memory.length());
        if seals & seals::SHRINK != 0 && length < before || seals & seals::GROW != 0 && length > before {
            return Err(Errno::EPERM);
        }
        if let Some(first) = self.memory.set_length(length) {
            viewers.forget(&self.memory, first).await;
            self.memory.shrunk().await;
        }
        self.touched();
        Ok(())
    }

    /// A part of fallocate(2), and the `last` one or not.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for what is not plain allocation; `EPERM` (sealed), `EFBIG`, `ENOSPC`, `ENOMEM`.
    pub(crate) fn allocate(&self, mode: u32, offset: u64, length: u64, last: bool) -> Result<(), Errno> {
        const FALLOC_FL_KEEP_SIZE: u32 = 1;
        if mode & !FALLOC_FL_KEEP_SIZE != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if self.seals() & seals::GROW != 0 && offset.saturating_add(length) > self.memory.length() {
            return Err(Errno::EPERM);
        }
        self.memory.allocate(offset, length, last && mode == 0).map_err(errno_of)?;
        self.touched();
        Ok(())
    }

    /// fchmod(2).
    pub(crate) fn set_mode(&self, mode: u32) {
        let mut facts = self.facts.lock();
        facts.mode = mode & 0o7777;
        facts.changed = now();
    }

    /// futimens(3).
    pub(crate) fn set_times(&self, accessed: TimeChange, modified: TimeChange) {
        let mut facts = self.facts.lock();
        let changed = |change, before| match change {
            TimeChange::Omit => before,
            TimeChange::Now => now(),
            TimeChange::To(time) => time,
        };
        facts.accessed = changed(accessed, facts.accessed);
        facts.modified = changed(modified, facts.modified);
        facts.changed = now();
    }

    /// Whether its owner may use it like that, bits as in a mode.
    pub(crate) fn allows(&self, wanted: u32) -> bool {
        wanted & !(self.facts.lock().mode >> 6) == 0
    }

    fn touched(&self) {
        let mut facts = self.facts.lock();
        facts.modified = now();
        facts.changed = facts.modified;
    }

    fn count_links(&self, change: i64) {
        let mut facts = self.facts.lock();
        facts.links = facts.links.saturating_add_signed(change);
        facts.changed = now();
    }
}

fn check_name(name: &[u8]) -> Result<(), Errno> {
    if name.len() > NAME_BYTES_MAX { Err(Errno::ENAMETOOLONG) } else { Ok(()) }
}

/// Who makes a file: whose it is to be, and what it is made of and charged to.
pub(crate) struct Maker<'a> {
    pub(crate) frames: &'static FramePool,
    pub(crate) retention: &'a Arc<Retention>,
    pub(crate) quota: &'a Arc<Quota>,
    pub(crate) user: u32,
    pub(crate) group: u32,
}

/// Those whose memory may show a file: the job's ranks on the node.
pub(crate) trait Viewers: Sync {
    /// Whether any of them shows it so that it may be written.
    fn may_write(&self, memory: &Arc<SharedMemory>) -> bool;

    /// Takes its pages from number `first` on out of the memory of all.
    fn forget(&self, memory: &Arc<SharedMemory>, first: u64) -> impl Future<Output = ()> + Send;
}

/// What a name stands for.
struct Named {
    file: Arc<SharedFile>,
    /// What the name takes of the kernel's heap.
    _charge: Charge,
}

/// A job's `/dev/shm` on this node.
pub(crate) struct SharedFiles {
    names: Mutex<BTreeMap<Vec<u8>, Named>>,
    budget: Arc<Budget>,
    /// Some of the names are paths of staged files.
    has_staged: AtomicBool,
}

impl SharedFiles {
    /// Nothing in it yet, on a node with that many frames.
    pub(crate) fn new(frames: u32) -> Self {
        Self {
            names: Mutex::new(LockLevel::Job, BTreeMap::new()),
            budget: Arc::new(Budget::new(u64::from(frames / SHARED_MEMORY_SHARE))),
            has_staged: AtomicBool::new(false),
        }
    }

    /// The file of that name.
    ///
    /// # Errors
    /// `ENOENT`.
    pub(crate) fn find(&self, name: &[u8]) -> Result<Arc<SharedFile>, Errno> {
        self.names.lock().get(name).map(|named| Arc::clone(&named.file)).ok_or(Errno::ENOENT)
    }

    /// Makes an empty file of that name, where none is.
    ///
    /// # Errors
    /// `EEXIST`; `ENOSPC` at [`SHARED_FILES_MAX`]; `ENOMEM`; `ENAMETOOLONG`.
    pub(crate) fn make(&self, name: &[u8], mode: u32, maker: &Maker<'_>) -> Result<Arc<SharedFile>, Errno> {
        let file = self.file(mode, maker, None)?;
        self.insert(name, Arc::clone(&file), maker.quota)?;
        Ok(file)
    }

    /// Makes an empty file that has no name, which may be sealed if `sealable`; `label` is what its maker calls it.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn make_nameless(
        &self,
        label: ByteString,
        sealable: bool,
        maker: &Maker<'_>,
    ) -> Result<Arc<SharedFile>, Errno> {
        let file = self.file(0o777, maker, Some(label))?;
        let mut facts = file.facts.lock();
        facts.links = 0;
        facts.seals = if sealable { 0 } else { seals::SEAL };
        drop(facts);
        Ok(file)
    }

    fn file(&self, mode: u32, maker: &Maker<'_>, label: Option<ByteString>) -> Result<Arc<SharedFile>, Errno> {
        let Maker { frames, retention, quota, user, group } = *maker;
        let label = label.map(|label| label.into_bytes().into_boxed_slice());
        let label_bytes = label.as_ref().map_or(0, |label| block_bytes(label.len()));
        let file_bytes = shared_bytes::<SharedFile>() + SharedMemory::BYTES;
        let charge = quota.charge(file_bytes + label_bytes)?;
        let memory = SharedMemory::new(frames, Arc::clone(retention), 0, Some(Arc::clone(&self.budget)));
        let now = now();
        let facts =
            Facts { mode: mode & 0o7777, links: 1, accessed: now, modified: now, changed: now, seals: seals::SEAL };
        Ok(Arc::new(SharedFile {
            memory: Arc::new(memory),
            inode: serial(),
            user,
            group,
            facts: Mutex::new(LockLevel::Fact, facts),
            label,
            _charge: charge,
        }))
    }

    fn insert(&self, name: &[u8], file: Arc<SharedFile>, quota: &Arc<Quota>) -> Result<(), Errno> {
        let charge = quota.charge(block_bytes(name.len()) + NAME_PLACE_BYTES)?;
        let mut names = self.names.lock();
        if names.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        check_name(name)?;
        if names.len() >= SHARED_FILES_MAX {
            return Err(Errno::ENOSPC);
        }
        names.insert(name.to_vec(), Named { file, _charge: charge });
        Ok(())
    }

    /// unlink(2).
    ///
    /// # Errors
    /// `ENOENT`.
    pub(crate) fn remove(&self, name: &[u8]) -> Result<(), Errno> {
        if is_staged(name) {
            return Err(Errno::EROFS);
        }
        let named = self.names.lock().remove(name).ok_or(Errno::ENOENT)?;
        named.file.count_links(-1);
        Ok(())
    }

    /// link(2).
    ///
    /// # Errors
    /// `ENOENT`, `EEXIST`, `ENOSPC`, `ENAMETOOLONG`, `ENOMEM`.
    pub(crate) fn link(&self, from: &[u8], to: &[u8], quota: &Arc<Quota>) -> Result<(), Errno> {
        let file = self.find(from)?;
        if is_staged(from) || is_staged(to) {
            return Err(Errno::EROFS);
        }
        self.insert(to, Arc::clone(&file), quota)?;
        file.count_links(1);
        Ok(())
    }

    /// rename(2), with Linux's flags `RENAME_NOREPLACE` and `RENAME_EXCHANGE`.
    ///
    /// # Errors
    /// `ENOENT`, `EEXIST`, `ENAMETOOLONG`, `ENOMEM`, `EINVAL` for other flags.
    pub(crate) fn rename(&self, from: &[u8], to: &[u8], flags: u32, quota: &Arc<Quota>) -> Result<(), Errno> {
        const NO_REPLACE: u32 = 1;
        const EXCHANGE: u32 = 2;
        if !matches!(flags, 0 | NO_REPLACE | EXCHANGE) {
            return Err(Errno::EINVAL);
        }
        if is_staged(from) || is_staged(to) {
            return Err(Errno::EROFS);
        }
        check_name(to)?;
        let charge = quota.charge(block_bytes(to.len()) + NAME_PLACE_BYTES)?;
        // What is left over goes when nothing is locked any more.
        let (old, replaced) = {
            let mut names = self.names.lock();
            let file = names.get(from).map(|named| Arc::clone(&named.file)).ok_or(Errno::ENOENT)?;
            match names.get_mut(to) {
                Some(_) if flags == NO_REPLACE => return Err(Errno::EEXIST),
                None if flags == EXCHANGE => return Err(Errno::ENOENT),
                Some(there) if Arc::ptr_eq(&there.file, &file) => return Ok(()),
                Some(there) if flags == EXCHANGE => {
                    let there = core::mem::replace(&mut there.file, file);
                    if let Some(named) = names.get_mut(from) {
                        named.file = there;
                    }
                    return Ok(());
                }
                Some(there) => {
                    let replaced = core::mem::replace(&mut there.file, file);
                    (names.remove(from), Some(replaced))
                }
                None => {
                    let old = names.remove(from);
                    names.insert(to.to_vec(), Named { file, _charge: charge });
                    (old, None)
                }
            }
        };
        drop(old);
        if let Some(replaced) = replaced {
            replaced.count_links(-1);
        }
        Ok(())
    }

    /// Calls `each` with names and inodes, in order.
    pub(crate) fn list(&self, mut each: impl FnMut(&[u8], u64)) {
        let names = self.names.lock();
        let own = names.iter().filter(|(name, _)| !is_staged(name));
        own.for_each(|(name, named)| each(name, named.file.inode));
    }

    /// What statfs(2) says.
    pub(crate) fn file_system(&self) -> FileSystemStatus {
        const TMPFS_MAGIC: u64 = 0x0102_1994;
        let (blocks, used) = self.budget.pages();
        let free = blocks - used;
        let files = SHARED_FILES_MAX as u64;
        FileSystemStatus {
            kind: TMPFS_MAGIC,
            block_size: PAGE_BYTES as u64,
            fragment_size: PAGE_BYTES as u64,
            blocks,
            blocks_free: free,
            blocks_available: free,
            files,
            files_free: files - self.names.lock().len() as u64,
            name_bytes_max: NAME_BYTES_MAX as u64,
            ..FileSystemStatus::default()
        }
    }
}
