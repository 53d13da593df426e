//! Ranks, and what those of a node share, as a checkpoint has them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_endpoint::record::NotMade;
use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::frames::FramePool;
use coppice_protocol::checkpoint::ObjectId;
use coppice_protocol::ids::ProgramId;

use super::image::{MemoryImage, NodeImage, RankImage, VERSION};
use super::objects::{Found, NotRead, Reader, Source, find};
use crate::errno::Errno;
use crate::executor;
use crate::files::asks::Asks;
use crate::files::record::outside::{self, Elsewhere, Longer, NotThere};
use crate::files::record::{Outside, transports};
use crate::files::shared::{SharedFile, SharedFiles};
use crate::files::{Closer, Turns};
use crate::memory::{AddressSpace, NoPage, Retention, SharedMemory, Window};
use crate::net::Network;
use crate::pmi::Seat;
use crate::quota::Quota;
use crate::region::Region;
use crate::ship::Client;
use crate::sync::{LockLevel, Mutex};

/// Why there is not what a checkpoint has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotLoaded {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] NotRead),
    /// Another kernel wrote it.
    #[error("the checkpoint was made by another release of Coppice (format {0}, this one reads {VERSION})")]
    Version(u32),
    /// It is another program's.
    #[error("the checkpoint is of another program")]
    Program,
    /// Something that it had open is not there any more.
    #[error(transparent)]
    NotThere(#[from] NotThere),
    /// What ranks share cannot be made.
    #[error("what its ranks share: {0}")]
    Shared(Errno),
    /// Its sockets cannot be made again.
    #[error("its sockets: {0}")]
    Sockets(#[from] NotMade),
    /// The rank that made it for all of the node has not.
    #[error("{0}")]
    Elsewhere(String),
}

impl From<Errno> for NotLoaded {
    fn from(errno: Errno) -> Self {
        Self::Read(NotRead::Errno(errno))
    }
}

/// What the ranks of a node share.
pub(crate) struct Shared {
    memories: BTreeMap<u64, Arc<SharedMemory>>,
    files: BTreeMap<u64, Arc<SharedFile>>,
}

/// Made by the first of a job's ranks on the node that is made from a checkpoint, for all of them.
pub(crate) struct OfNode {
    turns: Turns,
    made: Mutex<Option<Result<Arc<Shared>, String>>>,
    /// Files that are to be cut back when all of the job's ranks are made, and none goes on yet: others may have them
    /// open, too.
    longer: Mutex<Vec<(Client, Longer)>>,
    /// Why one was not.
    not_cut: Mutex<Option<String>>,
}

impl Default for OfNode {
    fn default() -> Self {
        Self {
            turns: Turns::new(),
            made: Mutex::new(LockLevel::Job, None),
            longer: Mutex::new(LockLevel::Job, Vec::new()),
            not_cut: Mutex::new(LockLevel::Job, None),
        }
    }
}

impl OfNode {
    /// These are to be cut back.
    pub(crate) fn is_to_cut(&self, client: &Client, longer: Vec<Longer>) {
        self.longer.lock().extend(longer.into_iter().map(|longer| (client.clone(), longer)));
    }

    /// Cuts back what is to be.
    pub(crate) async fn cut_back(&self) {
        let longer = core::mem::take(&mut *self.longer.lock());
        for (client, file) in longer {
            if let Err(error) = file.cut(&client).await {
                *self.not_cut.lock() = Some(error.to_string());
            }
        }
    }

    /// Why a file was not cut back.
    pub(crate) fn not_cut(&self) -> Option<String> {
        self.not_cut.lock().clone()
    }

    /// Nobody needs it any more.
    pub(crate) fn forget(&self) {
        let made = self.made.lock().take();
        drop(made);
    }
}

/// Where a rank is to be made.
pub(crate) struct Place<'a> {
    pub(crate) client: &'a Client,
    pub(crate) seat: &'a Seat,
    /// What the ranks here share, as far as it is made.
    pub(crate) of_node: &'a OfNode,
    /// The job's `/dev/shm` here.
    pub(crate) files: &'a SharedFiles,
    /// The job's checkpoints.
    pub(crate) asks: &'a Asks,
    pub(crate) frames: &'static FramePool,
    pub(crate) retention: &'a Arc<Retention>,
    pub(crate) quota: &'a Arc<Quota>,
    pub(crate) network: &'a dyn Network,
    /// What may have it without asking the I/O node.
    pub(crate) region: Option<&'a Region>,
}

impl<'a> Place<'a> {
    fn source(&self) -> Source<'a> {
        Source { client: self.client, region: self.region }
    }
}

/// What the ranks here share, made if it is not yet.
///
/// # Errors
/// [`NotLoaded`].
pub(crate) async fn load_node(name: ObjectId, on: &Place<'_>) -> Result<Arc<Shared>, NotLoaded> {
    let _turn = on.of_node.turns.take().await;
    if let Some(made) = &*on.of_node.made.lock() {
        return made.clone().map_err(NotLoaded::Elsewhere);
    }
    let made = make_node(name, on).await.map(Arc::new);
    let told = made.as_ref().map(Arc::clone).map_err(ToString::to_string);
    *on.of_node.made.lock() = Some(told);
    made
}

async fn make_node(name: ObjectId, on: &Place<'_>) -> Result<Shared, NotLoaded> {
    let found = find(on.source(), name, on.quota).await?;
    let image: NodeImage = read(&found.record)?;
    let mut reader = Reader::new(on.source(), &found)?;
    let mut memories = BTreeMap::new();
    for image in image.memories {
        memories.insert(image.id, make_memory(image, &mut reader, on).await?);
    }
    if !reader.is_done() {
        return Err(NotRead::Damaged.into());
    }
    let files = on.files.restore(image.files, &mut memories, on.quota).map_err(NotLoaded::Shared)?;
    on.asks.go_on(image.checkpoints);
    on.seat.restore_job(&image.pmi).map_err(NotLoaded::Shared)?;
    let again = on.network.again();
    again.make_orphans(&image.orphans)?;
    Ok(Shared { memories, files })
}

async fn make_memory(
    image: MemoryImage,
    reader: &mut Reader<'_>,
    on: &Place<'_>,
) -> Result<Arc<SharedMemory>, NotLoaded> {
    let budget = image.is_counted.then(|| Arc::clone(on.files.budget()));
    let retention = Arc::clone(on.retention);
    let memory = SharedMemory::again(image.id, on.frames, retention, image.length, budget);
    for window in &image.windows {
        let bytes = window_bytes(window, reader).await?;
        let mut pages = bytes.chunks(PAGE_BYTES);
        for page in window.pages(window.filled | window.zeros) {
            let is_zero = window.is_zero(page);
            let bytes = if is_zero { &[0; PAGE_BYTES][..] } else { pages.next().ok_or(NotRead::Damaged)? };
            match memory.put_page(page.address(), bytes) {
                // Nobody can see what is allocated behind the end.
                Ok(()) | Err(NoPage::Beyond | NoPage::NotRead) => {}
                Err(NoPage::Full) => return Err(NotLoaded::Shared(Errno::ENOSPC)),
                Err(NoPage::Memory(_)) => return Err(NotLoaded::Shared(Errno::ENOMEM)),
            }
        }
        executor::yield_now().await;
    }
    Ok(Arc::new(memory))
}

/// The bytes of a window's pages.
async fn window_bytes(window: &Window, reader: &mut Reader<'_>) -> Result<Vec<u8>, NotRead> {
    if window.filled == 0 {
        return Ok(Vec::new());
    }
    let bytes = reader.next().await?;
    let is_whole = bytes.len() == window.filled.count_ones() as usize * PAGE_BYTES;
    is_whole.then_some(bytes).ok_or(NotRead::Damaged)
}

fn read<'a, Image: serde::Deserialize<'a>>(record: &'a [u8]) -> Result<Image, NotLoaded> {
    // The version comes first in all of them, whatever follows.
    let (version, _) = postcard::take_from_bytes::<u32>(record).map_err(|_| NotRead::Damaged)?;
    if version != VERSION {
        return Err(NotLoaded::Version(version));
    }
    postcard::from_bytes(record).map_err(|_| NotRead::Damaged.into())
}

/// A rank that was found, but for its pages.
pub(crate) struct Loaded {
    /// See [`crate::process::record`].
    pub(crate) process: Vec<u8>,
    pub(crate) outside: Vec<Outside>,
    /// Memories that it shows, in the order of its record.
    pub(crate) memories: Vec<Arc<SharedMemory>>,
    pub(crate) pages: StoredPages,
    /// Files that have grown since.
    pub(crate) longer: Vec<Longer>,
}

/// A rank's pages, still at the I/O node.
pub(crate) struct StoredPages {
    windows: Vec<Window>,
    found: Found,
}

/// Reads what a rank is, and makes what it has outside of itself.
///
/// # Errors
/// [`NotLoaded`].
pub(crate) async fn load(
    name: ObjectId,
    program: ProgramId,
    closer: &Closer,
    shared: &Shared,
    on: &Place<'_>,
) -> Result<Loaded, NotLoaded> {
    let Place { client, seat, quota, network, .. } = *on;
    let found = find(on.source(), name, quota).await?;
    let image: RankImage = read(&found.record)?;
    if image.program != program {
        return Err(NotLoaded::Program);
    }
    let memory = |id: &u64| shared.memories.get(id).map(Arc::clone).ok_or(NotRead::Damaged);
    let memories = image.memories.iter().map(memory).collect::<Result<Vec<_>, _>>()?;
    let elsewhere = Elsewhere { client, closer, quota, shared: &shared.files };
    let service = |record: &[u8]| Ok(Box::new(seat.endpoint_again(record)?) as _);
    let (mut outside, longer) = outside::make(image.outside, &elsewhere, service).await?;
    let records: Vec<_> = postcard::from_bytes(&image.transports).map_err(|_| NotRead::Damaged)?;
    transports::make(&mut outside, &records, network)?;
    let pages = StoredPages { windows: image.windows, found };
    Ok(Loaded { process: image.process, outside, memories, pages, longer })
}

/// Puts a rank's pages where they were. Nothing of it runs yet.
///
/// # Errors
/// [`NotLoaded`].
pub(crate) async fn place_pages(
    pages: &StoredPages,
    (client, region): (&Client, Option<&Region>),
    space: &Mutex<AddressSpace>,
) -> Result<(), NotLoaded> {
    space.lock().keep_what_fits();
    let mut reader = Reader::new(Source { client, region }, &pages.found)?;
    for window in &pages.windows {
        let bytes = window_bytes(window, &mut reader).await?;
        place_window(window, &bytes, &mut space.lock())?;
        executor::yield_now().await;
    }
    if reader.is_done() { Ok(()) } else { Err(NotRead::Damaged.into()) }
}

fn place_window(window: &Window, bytes: &[u8], space: &mut AddressSpace) -> Result<(), NotLoaded> {
    let mut filled = bytes.chunks(PAGE_BYTES);
    for page in window.pages(window.filled | window.zeros) {
        let bytes = if window.is_zero(page) { None } else { Some(filled.next().ok_or(NotRead::Damaged)?) };
        space.put_page(page, bytes).map_err(|_| Errno::ENOMEM)?;
    }
    Ok(())
}
