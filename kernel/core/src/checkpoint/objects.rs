//! Parts as objects at the I/O node ([`coppice_protocol::checkpoint`]) or in the node's region: written and read a few
//! at once.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::frames::Frame;

use coppice_protocol::checkpoint::{LISTED_MAX, Listing, OBJECT_BYTES_MAX, ObjectId};
use coppice_protocol::region::Section;
use coppice_protocol::ship::{Call, Reply};

use crate::errno::Errno;
use crate::files::pipeline::Pipeline;
use crate::limits::{CHECKPOINT_CALLS, CHECKPOINT_RECORD_BYTES_MAX};
use crate::memory::Window;
use crate::quota::{Charge, Quota};
use crate::region::{Filling, NotWritten, Region};
use crate::ship::Client;

/// What a name in a list takes while it is kept, and which pages are in the object, with room for both lists to grow.
const NAME_BYTES: usize = 3 * (size_of::<ObjectId>() + size_of::<Window>());

/// The same of what is written, with the table that it goes to.
const SECTION_BYTES: usize = 6 * (size_of::<Section>() + size_of::<Window>());

/// What is charged while objects are written or read, bytes: those that are under way, and the next.
const BUFFER_BYTES: usize = (CHECKPOINT_CALLS + 1) * OBJECT_BYTES_MAX;

/// Objects whose names are charged at a time.
const NAMES_CHARGED: usize = 128;

/// Writes the objects of one part.
pub(super) struct Writer<'a> {
    client: &'a Client,
    /// Where they go as long as there is room; then, or without one, to the I/O node.
    region: Option<&'a mut Filling>,
    calls: Pipeline<'a>,
    sections: Sections,
    /// Those of them whose names the I/O node has yet to say, in order.
    unnamed: VecDeque<usize>,
    /// Bytes that were given away.
    pub(super) bytes: u64,
    _buffers: Charge,
}

/// A part of which all is written.
pub(super) struct Finished {
    pub(super) written: Written,
    /// Bytes that were given away.
    pub(super) bytes: u64,
    /// The objects of its pages, in order.
    pub(super) pages: Vec<Section>,
    /// What that takes, and windows beside it.
    pub(super) charge: Charge,
}

/// Where it is.
pub(super) enum Written {
    /// It is with the I/O node, by this name.
    Named(ObjectId),
    /// It goes to the region's table: the bytes of its record, and what it has.
    Listed(u64, Vec<Section>),
}

/// What a part has, charged.
struct Sections {
    sections: Vec<Section>,
    charge: Charge,
}

impl Sections {
    fn add(&mut self, section: Section) -> Result<(), Errno> {
        if self.sections.len().is_multiple_of(NAMES_CHARGED) {
            self.charge.grow(NAMES_CHARGED * SECTION_BYTES)?;
        }
        self.sections.push(section);
        Ok(())
    }
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

/// Why an object is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotPut {
    /// The I/O node does not keep it, or there is no memory.
    #[error(transparent)]
    Errno(#[from] Errno),
    /// The region does not take it.
    #[error(transparent)]
    Region(#[from] NotWritten),
}

impl<'a> Writer<'a> {
    /// None written yet. What is to be remembered is charged to `quota`.
    pub(super) fn new(client: &'a Client, quota: &Arc<Quota>, region: Option<&'a mut Filling>) -> Result<Self, Errno> {
        let buffers = quota.charge(BUFFER_BYTES)?;
        let sections = Sections { sections: Vec::new(), charge: quota.charge(0)? };
        let (calls, unnamed) = (Pipeline::new(), VecDeque::new());
        Ok(Self { client, region, calls, sections, unnamed, bytes: 0, _buffers: buffers })
    }

    /// Writes an object, or has that be under way.
    ///
    /// # Errors
    /// [`NotPut`], of this or one before.
    pub(super) async fn put(&mut self, bytes: Vec<u8>) -> Result<(), NotPut> {
        self.bytes += bytes.len() as u64;
        if let Some(region) = self.region.as_deref_mut().filter(|region| region.has_room()) {
            let extent = region.put_bytes(&bytes).await?;
            return Ok(self.sections.add(Section::New(extent))?);
        }
        self.give(bytes).await
    }

    /// Writes an object of whole pages, as [`Self::put`]. Nobody writes to these any more.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub(super) async fn put_pages(&mut self, frames: Vec<Frame>) -> Result<(), NotPut> {
        if let Some(region) = self.region.as_deref_mut().filter(|region| region.has_room()) {
            self.bytes += (frames.len() * PAGE_BYTES) as u64;
            let extent = region.put(frames).await?;
            return Ok(self.sections.add(Section::New(extent))?);
        }
        let mut bytes = vec![0; frames.len() * PAGE_BYTES];
        bytes.chunks_mut(PAGE_BYTES).zip(frames).for_each(|(page, frame)| frame.read(0, page));
        self.put(bytes).await
    }

    /// Adds an object that was written for an earlier checkpoint.
    ///
    /// # Errors
    /// There is no memory for its name.
    pub(super) fn put_known(&mut self, section: Section) -> Result<(), NotPut> {
        if let Some(region) = self.region.as_deref_mut() {
            region.names_another();
        }
        Ok(self.sections.add(section)?)
    }

    /// Gives an object to the I/O node.
    async fn give(&mut self, bytes: Vec<u8>) -> Result<(), NotPut> {
        while self.calls.len() >= CHECKPOINT_CALLS {
            self.answered().await?;
        }
        if let Some(region) = self.region.as_deref_mut() {
            region.names_another();
        }
        self.unnamed.push_back(self.sections.sections.len());
        self.sections.add(Section::Known(ObjectId([0; 32]), None))?;
        let client = self.client;
        self.calls.push(async move { client.call(Call::PutObject, bytes).await });
        Ok(())
    }

    async fn answered(&mut self) -> Result<(), Errno> {
        let Reply::Object(name) = self.calls.next().await?.0 else { return Err(Errno::EIO) };
        let section = self.unnamed.pop_front().and_then(|index| self.sections.sections.get_mut(index));
        *section.ok_or(Errno::EIO)? = Section::Known(name, None);
        Ok(())
    }

    async fn all_answered(&mut self) -> Result<(), Errno> {
        while self.calls.len() > 0 {
            self.answered().await?;
        }
        Ok(())
    }

    /// Writes the record that goes before what was written, and without a region the lists.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub(super) async fn finish(mut self, record: &[u8]) -> Result<Finished, NotPut> {
        let pages = self.sections.sections.len();
        for chunk in record.chunks(OBJECT_BYTES_MAX) {
            self.put(chunk.to_vec()).await?;
        }
        self.all_answered().await?;
        // The record's are the first.
        self.sections.sections.rotate_left(pages);
        let sections = core::mem::take(&mut self.sections.sections);
        let pages = sections[sections.len() - pages..].to_vec();
        if self.region.is_some() {
            let written = Written::Listed(record.len() as u64, sections);
            return Ok(Finished { written, bytes: self.bytes, pages, charge: self.sections.charge });
        }
        let mut next = None;
        let runs = sections.len().div_ceil(LISTED_MAX).max(1);
        for run in (0..runs).rev() {
            let objects = &sections[run * LISTED_MAX..sections.len().min((run + 1) * LISTED_MAX)];
            let objects = objects.iter().map(name).collect::<Option<_>>().ok_or(Errno::EIO)?;
            let record_bytes = if run == 0 { record.len() as u64 } else { 0 };
            let listing = Listing { record_bytes, objects, next };
            self.give(listing.bytes().map_err(|_| Errno::ENOMEM)?).await?;
            self.all_answered().await?;
            next = self.sections.sections.pop().as_ref().and_then(name);
        }
        let written = Written::Named(next.ok_or(Errno::EIO)?);
        Ok(Finished { written, bytes: self.bytes, pages, charge: self.sections.charge })
    }
}

/// The name of what the I/O node has.
fn name(section: &Section) -> Option<ObjectId> {
    match section {
        Section::Known(name, _) => Some(*name),
        Section::New(_) => None,
    }
}

/// Where objects are found.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    /// At the I/O node.
    pub(super) client: &'a Client,
    /// Or here.
    pub(super) region: Option<&'a Region>,
}

impl Source<'_> {
    async fn get(self, name: ObjectId) -> Result<(Reply, Vec<u8>), Errno> {
        match self.region.and_then(|region| region.object(&name)) {
            Some(bytes) => Ok((Reply::Data, bytes)),
            None => self.client.call(Call::GetObject(name), Vec::new()).await,
        }
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
pub(super) async fn find(source: Source<'_>, name: ObjectId, quota: &Arc<Quota>) -> Result<Found, NotRead> {
    let first = listing(source, name).await?;
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
                record.extend_from_slice(&get(source, object).await?);
                if record.len() > bytes {
                    return Err(NotRead::Damaged);
                }
            } else {
                pages.add(object)?;
            }
        }
        list = match next {
            Some(next) => Some(listing(source, next).await?),
            None => None,
        };
    }
    if record.len() != bytes {
        return Err(NotRead::Damaged);
    }
    Ok(Found { record, pages, _charge: charge })
}

async fn listing(source: Source<'_>, name: ObjectId) -> Result<Listing, NotRead> {
    Listing::read(&get(source, name).await?).map_err(|_| NotRead::Damaged)
}

async fn get(source: Source<'_>, name: ObjectId) -> Result<Vec<u8>, Errno> {
    match source.get(name).await? {
        (Reply::Data, bytes) => Ok(bytes),
        _ => Err(Errno::EIO),
    }
}

/// Reads the objects of a part's pages, in order.
pub(super) struct Reader<'a> {
    source: Source<'a>,
    rest: core::slice::Iter<'a, ObjectId>,
    calls: Pipeline<'a>,
    _buffers: Charge,
}

impl<'a> Reader<'a> {
    /// From the first on.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn new(source: Source<'a>, found: &'a Found) -> Result<Self, Errno> {
        let buffers = found.pages.charge.quota().charge(BUFFER_BYTES)?;
        Ok(Self { source, rest: found.pages.names.iter(), calls: Pipeline::new(), _buffers: buffers })
    }

    /// The next one.
    ///
    /// # Errors
    /// [`NotRead`].
    pub(super) async fn next(&mut self) -> Result<Vec<u8>, NotRead> {
        while self.calls.len() < CHECKPOINT_CALLS
            && let Some(name) = self.rest.next().copied()
        {
            self.calls.push(self.source.get(name));
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
