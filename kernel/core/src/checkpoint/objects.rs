//! Parts as objects at the I/O node ([`coppice_protocol::checkpoint`]): written and read a few at once.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::checkpoint::{LISTED_MAX, Listing, OBJECT_BYTES_MAX, ObjectId};
use coppice_protocol::ship::{Call, Reply};

use crate::errno::Errno;
use crate::files::pipeline::Pipeline;
use crate::limits::{CHECKPOINT_CALLS, CHECKPOINT_RECORD_BYTES_MAX};
use crate::memory::Window;
use crate::quota::{Charge, Quota};
use crate::ship::Client;

/// What a name in a list takes while it is kept, and which pages are in the object, with room for both lists to grow.
const NAME_BYTES: usize = 3 * (size_of::<ObjectId>() + size_of::<Window>());

/// What is charged while objects are written or read, bytes: those that are under way, and the next.
const BUFFER_BYTES: usize = (CHECKPOINT_CALLS + 1) * OBJECT_BYTES_MAX;

/// Objects whose names are charged at a time.
const NAMES_CHARGED: usize = 128;

/// Writes the objects of one part.
pub(super) struct Writer<'a> {
    client: &'a Client,
    calls: Pipeline<'a>,
    names: Names,
    /// Bytes that were given to the I/O node.
    pub(super) bytes: u64,
    _buffers: Charge,
}

/// Names of objects, charged.
struct Names {
    names: Vec<ObjectId>,
    charge: Charge,
}

impl Names {
    fn new(quota: &Arc<Quota>) -> Result<Self, Errno> {
        Ok(Self { names: Vec::new(), charge: quota.charge(0)? })
    }

    fn add(&mut self, name: ObjectId) -> Result<(), Errno> {
        if self.names.len().is_multiple_of(NAMES_CHARGED) {
            self.charge.grow(NAMES_CHARGED * NAME_BYTES)?;
        }
        self.names.push(name);
        Ok(())
    }
}

impl<'a> Writer<'a> {
    /// None written yet. What is to be remembered is charged to `quota`.
    pub(super) fn new(client: &'a Client, quota: &Arc<Quota>) -> Result<Self, Errno> {
        let buffers = quota.charge(BUFFER_BYTES)?;
        Ok(Self { client, calls: Pipeline::new(), names: Names::new(quota)?, bytes: 0, _buffers: buffers })
    }

    /// Writes an object, or has that be under way.
    ///
    /// # Errors
    /// What the I/O node said of this or one before.
    pub(super) async fn put(&mut self, bytes: Vec<u8>) -> Result<(), Errno> {
        while self.calls.len() >= CHECKPOINT_CALLS {
            self.answered().await?;
        }
        self.bytes += bytes.len() as u64;
        let client = self.client;
        self.calls.push(async move { client.call(Call::PutObject, bytes).await });
        Ok(())
    }

    async fn answered(&mut self) -> Result<(), Errno> {
        match self.calls.next().await? {
            (Reply::Object(name), _) => self.names.add(name),
            _ => Err(Errno::EIO),
        }
    }

    async fn all_answered(&mut self) -> Result<(), Errno> {
        while self.calls.len() > 0 {
            self.answered().await?;
        }
        Ok(())
    }

    /// Writes the record that goes before what was written, and the lists. Gives the part's name.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub(super) async fn finish(mut self, record: &[u8]) -> Result<(ObjectId, u64), Errno> {
        self.all_answered().await?;
        let pages = self.names.names.len();
        for chunk in record.chunks(OBJECT_BYTES_MAX) {
            self.put(chunk.to_vec()).await?;
        }
        self.all_answered().await?;
        let mut names = core::mem::take(&mut self.names.names);
        // The record's are the first.
        names.rotate_left(pages);
        let mut next = None;
        let runs = names.len().div_ceil(LISTED_MAX).max(1);
        for run in (0..runs).rev() {
            let objects = names[run * LISTED_MAX..names.len().min((run + 1) * LISTED_MAX)].to_vec();
            let record_bytes = if run == 0 { record.len() as u64 } else { 0 };
            let listing = Listing { record_bytes, objects, next };
            self.put(listing.bytes().map_err(|_| Errno::ENOMEM)?).await?;
            self.all_answered().await?;
            next = self.names.names.pop();
        }
        Ok((next.ok_or(Errno::EIO)?, self.bytes))
    }
}

/// A part that was found.
pub(super) struct Found {
    pub(super) record: Vec<u8>,
    /// The objects of its pages.
    pages: Names,
    _charge: Charge,
}

/// Why a part cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotRead {
    /// What is there is none.
    #[error("the checkpoint is damaged: an object says what it cannot")]
    Damaged,
    /// The I/O node does not have it, or there is no memory.
    #[error("an object of the checkpoint: {0}")]
    Errno(#[from] Errno),
}

/// Reads a part's record and lists. What it takes is charged to `quota`.
///
/// # Errors
/// [`NotRead`].
pub(super) async fn find(client: &Client, name: ObjectId, quota: &Arc<Quota>) -> Result<Found, NotRead> {
    let first = listing(client, name).await?;
    let bytes = usize::try_from(first.record_bytes).ok().filter(|bytes| *bytes <= CHECKPOINT_RECORD_BYTES_MAX);
    let bytes = bytes.ok_or(NotRead::Damaged)?;
    // As bytes, and as what they say.
    let charge = quota.charge(3 * bytes)?;
    let mut record = Vec::new();
    record.try_reserve_exact(bytes).map_err(|_| Errno::ENOMEM)?;
    let mut of_record = first.record_objects();
    let mut pages = Names::new(quota)?;
    let mut list = Some(first);
    while let Some(Listing { objects, next, .. }) = list {
        for object in objects {
            if of_record > 0 {
                of_record -= 1;
                record.extend_from_slice(&get(client, object).await?);
                if record.len() > bytes {
                    return Err(NotRead::Damaged);
                }
            } else {
                pages.add(object)?;
            }
        }
        list = match next {
            Some(next) => Some(listing(client, next).await?),
            None => None,
        };
    }
    if record.len() != bytes {
        return Err(NotRead::Damaged);
    }
    Ok(Found { record, pages, _charge: charge })
}

async fn listing(client: &Client, name: ObjectId) -> Result<Listing, NotRead> {
    Listing::read(&get(client, name).await?).map_err(|_| NotRead::Damaged)
}

async fn get(client: &Client, name: ObjectId) -> Result<Vec<u8>, Errno> {
    match client.call(Call::GetObject(name), Vec::new()).await? {
        (Reply::Data, bytes) => Ok(bytes),
        _ => Err(Errno::EIO),
    }
}

/// Reads the objects of a part's pages, in order.
pub(super) struct Reader<'a> {
    client: &'a Client,
    rest: core::slice::Iter<'a, ObjectId>,
    calls: Pipeline<'a>,
    _buffers: Charge,
}

impl<'a> Reader<'a> {
    /// From the first on.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn new(client: &'a Client, found: &'a Found) -> Result<Self, Errno> {
        let buffers = found.pages.charge.quota().charge(BUFFER_BYTES)?;
        Ok(Self { client, rest: found.pages.names.iter(), calls: Pipeline::new(), _buffers: buffers })
    }

    /// The next one.
    ///
    /// # Errors
    /// [`NotRead`].
    pub(super) async fn next(&mut self) -> Result<Vec<u8>, NotRead> {
        while self.calls.len() < CHECKPOINT_CALLS
            && let Some(name) = self.rest.next().copied()
        {
            let client = self.client;
            self.calls.push(async move { client.call(Call::GetObject(name), Vec::new()).await });
        }
        if self.calls.len() == 0 {
            return Err(NotRead::Damaged);
        }
        match self.calls.next().await? {
            (Reply::Data, bytes) => Ok(bytes),
            _ => Err(NotRead::Damaged),
        }
    }

    /// Whether all were read.
    pub(super) fn is_done(&self) -> bool {
        self.calls.len() == 0 && self.rest.len() == 0
    }
}
