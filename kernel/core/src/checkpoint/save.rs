//! What ranks and their node are, taken down while they stand, and given to the I/O node while they go on.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_endpoint::record::OrphanRecord;
use coppice_protocol::checkpoint::{Part, PartOf};
use coppice_protocol::ids::{JobId, JobNode, ProgramId, Rank};
use coppice_protocol::region::TablePart;
use coppice_protocol::ship::Call;

use super::image::{MemoryImage, NodeImage, RankImage, VERSION};
use super::last::{Known, KnownPages, Last, LastPages, PagesOf};
use super::objects::{Finished, NotPut, Writer, Written};
use super::of_job::{Kept, OfJob};
use crate::errno::Errno;
use crate::executor;
use crate::files::asks::Counts;
use crate::files::record::Outside;
use crate::files::record::outside::{self, OutsideRecord};
use crate::files::shared::record::SharedFileRecord;
use crate::files::shared::{SharedFile, SharedFiles};
use crate::memory::{GivenUp, Pages, SharedMemory, Snapshot, Taken, Window};
use crate::quota::{Charge, Quota};
use crate::region::{Filling, NotWritten, Region};
use crate::ship::Client;

/// What stays on the node of a rank that is data.
pub(crate) struct Outer<'a> {
    pub(crate) client: &'a Client,
    pub(crate) quota: &'a Arc<Quota>,
    pub(crate) region: &'a Option<Arc<Region>>,
    pub(crate) outside: &'a [Outside],
    pub(crate) pages: &'a mut Pages,
}

/// Files in memory that it has open.
fn shared_files(outside: &[Outside]) -> Vec<Arc<SharedFile>> {
    let shared = outside.iter().filter_map(|outside| match outside {
        Outside::Shared(file) => Some(Arc::clone(file)),
        _ => None,
    });
    shared.collect()
}

/// What a rank is.
pub(crate) struct RankPart {
    rank: Rank,
    program: ProgramId,
    client: Client,
    region: Option<Arc<Region>>,
    process: Vec<u8>,
    transports: Vec<u8>,
    outside: Vec<OutsideRecord>,
    memories: Vec<Arc<SharedMemory>>,
    files: Vec<Arc<SharedFile>>,
    snapshot: Arc<Snapshot>,
    /// What its node knows of PMI, and barriers that are through.
    pmi: (Vec<u8>, u64),
    quota: Arc<Quota>,
    charge: Charge,
}

impl RankPart {
    /// Takes down what a rank is that is data, with what carries its sockets' bytes written down already.
    ///
    /// # Errors
    /// One line on what cannot be kept.
    pub(crate) async fn of(
        (rank, program): (Rank, ProgramId),
        (process, transports): (&[u8], &[u8]),
        Outer { client, quota, region, outside, pages }: Outer<'_>,
        pmi: (Vec<u8>, u64),
    ) -> Result<Self, String> {
        let no_memory = |errno: Errno| format!("rank {rank}: there is no memory to keep what it is: {errno}");
        // As values, as bytes, and once more while those grow.
        let charge = quota.charge(4 * (process.len() + transports.len() + pmi.0.len()));
        let mut charge = charge.map_err(no_memory)?;
        let outside_records = outside::record(outside, client).await;
        let files = shared_files(outside);
        let outside = outside_records.map_err(|errno| format!("rank {rank}: what it has open: {errno}"))?;
        let bytes: usize = outside.iter().map(OutsideRecord::bytes).sum();
        charge.grow(4 * bytes).map_err(no_memory)?;
        let snapshot = pages.snapshot().map_err(|_| no_memory(Errno::ENOMEM))?;
        Ok(Self {
            rank,
            program,
            client: client.clone(),
            region: region.clone(),
            process: process.to_vec(),
            transports: transports.to_vec(),
            outside,
            memories: pages.memories().to_vec(),
            files,
            snapshot,
            pmi,
            quota: Arc::clone(quota),
            charge,
        })
    }

    /// Its pages.
    pub(super) fn pages(&self) -> u64 {
        self.snapshot.pages()
    }

    /// They as they were.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot)
    }
}

/// What the ranks of a node share.
pub(crate) struct NodePart {
    checkpoints: Counts,
    orphans: Vec<OrphanRecord>,
    files: Vec<SharedFileRecord>,
    memories: Vec<(MemoryImage, Arc<Snapshot>)>,
}

impl NodePart {
    /// Takes it down while all ranks stand.
    fn of(
        (shared, checkpoints): (&SharedFiles, Counts),
        parts: &mut [RankPart],
        orphans: Vec<OrphanRecord>,
    ) -> Result<Self, String> {
        let no_memory = |_| String::from("there is no memory to keep what ranks share");
        let open: Vec<_> = parts.iter_mut().flat_map(|part| core::mem::take(&mut part.files)).collect();
        let (mut files, mut memories, mut staged) = (Vec::new(), Vec::new(), Vec::new());
        for (record, memory) in shared.record(&open) {
            match memory {
                Some(memory) => memories.push(memory),
                None => staged.push(record.memory),
            }
            files.push(record);
        }
        for memory in parts.iter().flat_map(|part| &part.memories) {
            let is_known = memories.iter().any(|known| Arc::ptr_eq(known, memory));
            if !is_known && !staged.contains(&memory.id()) {
                memories.push(Arc::clone(memory));
            }
        }
        let taken = memories.iter().map(|memory| {
            let image = MemoryImage {
                id: memory.id(),
                length: memory.length(),
                is_counted: memory.has_budget(),
                windows: Vec::new(),
            };
            Ok((image, memory.snapshot().map_err(no_memory)?))
        });
        Ok(Self { checkpoints, orphans, files, memories: taken.collect::<Result<_, String>>()? })
    }

    /// What ranks share as it was.
    fn snapshots(&self) -> Vec<Arc<Snapshot>> {
        self.memories.iter().map(|(_, snapshot)| Arc::clone(snapshot)).collect()
    }
}

/// Has what all ranks here have said, and what they share, be kept from now on.
///
/// # Errors
/// One line on what cannot be kept.
pub(crate) fn begin(
    saving: &Arc<OfJob>,
    (job, here): (JobId, JobNode),
    shared: (&SharedFiles, Counts),
    orphans: Vec<OrphanRecord>,
) -> Result<(), String> {
    let mut parts = saving.take();
    let node = NodePart::of(shared, &mut parts, orphans)?;
    let Some(barriers) = parts.first().map(|part| part.pmi.1) else { return Err("no rank is left".into()) };
    saving.runs(barriers, node.snapshots());
    // Nothing else of the job, which is to be gone when its last rank is.
    let kept_in = Arc::clone(saving);
    let started = executor::spawn_program(async move {
        let kept = match executor::race(kept_in.given_up(), save(&kept_in, job, here, parts, node)).await {
            executor::Either::First(()) => Err(String::new()),
            executor::Either::Second(kept) => kept,
        };
        kept_in.done(kept);
    });
    if started.is_err() {
        let why = "there are too many tasks on the node";
        saving.done(Err(why.into()));
        return Err(why.into());
    }
    Ok(())
}

async fn save(
    saving: &OfJob,
    job: JobId,
    here: JobNode,
    mut parts: Vec<RankPart>,
    node: NodePart,
) -> Result<Kept, String> {
    let (by, keeping) = saving.order();
    let Some(first) = parts.first_mut() else { return Ok(Kept::Parts(Vec::new())) };
    let (client, quota, pmi) = (first.client.clone(), Arc::clone(&first.quota), core::mem::take(&mut first.pmi.0));
    let device = first.region.clone();
    let said = |error: NotSaved| error.to_string();
    let known = saving.take_last().map(|last| Known::new(last, device.as_deref(), &quota)).transpose();
    let known = known.map_err(|errno| said(errno.into()))?;
    let mut region = match device.filter(|_| !keeping.elsewhere) {
        Some(region) => region.fill((job, by), keeping.copy, &quota).await.map_err(|error| said(error.into()))?,
        None => None,
    };
    let (mut written, mut kept_pages) = (Vec::new(), Vec::new());
    for part in parts {
        let rank = part.rank;
        let known = known.as_ref().and_then(|known| known.of(PagesOf::Rank(rank), &part.snapshot));
        let of_rank = save_rank(saving, part, region.as_mut(), known).await;
        let (of_rank, pages) = of_rank.map_err(|error| format!("rank {rank}: {error}"))?;
        written.push((PartOf::Rank(rank), of_rank));
        kept_pages.push(pages);
    }
    let of_node = save_node(saving, (&client, &quota), node, pmi, region.as_mut(), known.as_ref()).await;
    let (of_node, pages) = of_node.map_err(said)?;
    written.push((PartOf::Node(here.0), of_node));
    kept_pages.extend(pages);
    drop(known);
    let kept = match region {
        Some(region) => {
            let listed = written.into_iter().filter_map(|(of, written)| match written {
                Written::Listed(record_bytes, sections) => Some(TablePart { of, record_bytes, sections }),
                Written::Named(_) => None,
            });
            let committed = region.commit(listed.collect()).await;
            Kept::Local(committed.map_err(|error| said(error.into()))?)
        }
        None => {
            let settled = client.call(Call::SettleObjects, Vec::new()).await;
            settled.map_err(|errno| said(errno.into()))?;
            let named = written.into_iter().filter_map(|(of, written)| match written {
                Written::Named(object) => Some(Part { of, object }),
                Written::Listed(..) => None,
            });
            Kept::Parts(named.collect())
        }
    };
    let slot = if let Kept::Local(slot) = kept { Some(slot) } else { None };
    saving.remember(Last { by, slot, pages: kept_pages });
    Ok(kept)
}

/// Why something is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum NotSaved {
    #[error(transparent)]
    GivenUp(#[from] GivenUp),
    #[error("{}", said(*.0))]
    Errno(#[from] Errno),
    #[error(transparent)]
    Region(#[from] NotWritten),
}

impl From<NotPut> for NotSaved {
    fn from(not_put: NotPut) -> Self {
        match not_put {
            NotPut::Errno(errno) => Self::Errno(errno),
            NotPut::Region(error) => Self::Region(error),
        }
    }
}

fn said(errno: Errno) -> String {
    match errno {
        Errno::ENODEV => "the cluster has no storage for checkpoints".into(),
        Errno::ENOSPC => "the storage for checkpoints is full".into(),
        Errno::ESRCH => "it came to its end before it was kept".into(),
        errno => format!("the I/O node could not keep it: {errno}"),
    }
}

async fn save_rank(
    saving: &OfJob,
    part: RankPart,
    region: Option<&mut Filling>,
    known: Option<KnownPages<'_>>,
) -> Result<(Written, LastPages), NotSaved> {
    let RankPart { rank, program, client, process, transports, outside, memories, snapshot, quota, charge, .. } = part;
    let memories = memories.iter().map(|memory| memory.id()).collect();
    let mut writer = Writer::new(&client, &quota, region)?;
    let windows = save_pages(saving, &snapshot, &mut writer, known, false).await?;
    let image = RankImage { version: VERSION, program, process, transports, outside, memories, windows };
    let record = postcard::to_allocvec(&image).map_err(|_| Errno::ENOMEM)?;
    let windows = image.windows;
    drop(charge);
    let Finished { written, pages, charge, .. } = finish(saving, writer, &record).await?;
    let last = LastPages::new(PagesOf::Rank(rank), &snapshot, windows, &mut pages.into_iter(), Some(charge));
    Ok((written, last))
}

async fn save_node(
    saving: &OfJob,
    (client, quota): (&Client, &Arc<Quota>),
    node: NodePart,
    pmi: Vec<u8>,
    region: Option<&mut Filling>,
    known: Option<&Known>,
) -> Result<(Written, Vec<LastPages>), NotSaved> {
    let NodePart { checkpoints, orphans, files, memories } = node;
    let mut writer = Writer::new(client, quota, region)?;
    let (mut images, mut snapshots) = (Vec::new(), Vec::new());
    for (image, snapshot) in memories {
        let known = known.and_then(|known| known.of(PagesOf::Memory(image.id), &snapshot));
        let windows = save_pages(saving, &snapshot, &mut writer, known, true).await?;
        images.push(MemoryImage { windows, ..image });
        snapshots.push(snapshot);
    }
    let image = NodeImage { version: VERSION, checkpoints, orphans, pmi, files, memories: images };
    let record = postcard::to_allocvec(&image).map_err(|_| Errno::ENOMEM)?;
    let Finished { written, pages, charge, .. } = finish(saving, writer, &record).await?;
    let (mut sections, mut charge) = (pages.into_iter(), Some(charge));
    let last = image.memories.into_iter().zip(snapshots).map(|(MemoryImage { id, windows, .. }, snapshot)| {
        LastPages::new(PagesOf::Memory(id), &snapshot, windows, &mut sections, charge.take())
    });
    Ok((written, last.collect()))
}

async fn finish(saving: &OfJob, writer: Writer<'_>, record: &[u8]) -> Result<Finished, NotSaved> {
    let before = writer.bytes;
    let finished = writer.finish(record).await?;
    saving.kept(0, finished.bytes - before);
    Ok(finished)
}

/// Writes the pages of a snapshot. Frames of memory that ranks share (`is_shared`) are written where they are as soon
/// as nobody has them to keep, so of these it is their bytes.
async fn save_pages(
    saving: &OfJob,
    snapshot: &Snapshot,
    writer: &mut Writer<'_>,
    known: Option<KnownPages<'_>>,
    is_shared: bool,
) -> Result<Vec<Window>, NotSaved> {
    let mut windows = Vec::new();
    loop {
        let (before, mut bytes, mut frames) = (writer.bytes, Vec::new(), Vec::new());
        let was = |number| known.and_then(|known| known.window(number));
        let taken = if is_shared { snapshot.take(&mut bytes, was)? } else { snapshot.take_frames(&mut frames, was)? };
        let window = match taken {
            Some(Taken::Changed(window)) => {
                match window.filled {
                    0 => {}
                    _ if is_shared => writer.put(bytes).await?,
                    _ => writer.put_pages(frames).await?,
                }
                window
            }
            Some(Taken::Unchanged(window)) => {
                if let Some(section) = known.and_then(|known| known.section(window.number)) {
                    writer.put_known(section)?;
                }
                window
            }
            None => return Ok(windows),
        };
        windows.push(window);
        let pages = u64::from((window.filled | window.zeros).count_ones());
        saving.kept(pages, writer.bytes - before);
        executor::yield_now().await;
    }
}
