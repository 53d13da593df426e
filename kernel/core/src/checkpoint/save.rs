//! What ranks and their node are, taken down while they stand, and given to the I/O node while they go on.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_endpoint::record::OrphanRecord;
use coppice_protocol::checkpoint::{ObjectId, Part, PartOf};
use coppice_protocol::ids::{JobNode, ProgramId, Rank};
use coppice_protocol::ship::Call;

use super::image::{MemoryImage, NodeImage, RankImage, VERSION};
use super::objects::Writer;
use super::of_job::OfJob;
use crate::errno::Errno;
use crate::executor;
use crate::files::record::Outside;
use crate::files::record::outside::{self, OutsideRecord};
use crate::files::shared::record::SharedFileRecord;
use crate::files::shared::{SharedFile, SharedFiles};
use crate::memory::{GivenUp, Pages, SharedMemory, Snapshot, Taken, Window};
use crate::quota::{Charge, Quota};
use crate::ship::Client;

/// What stays on the node of a rank that is data.
pub(crate) struct Outer<'a> {
    pub(crate) client: &'a Client,
    pub(crate) quota: &'a Arc<Quota>,
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
        Outer { client, quota, outside, pages }: Outer<'_>,
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
    orphans: Vec<OrphanRecord>,
    files: Vec<SharedFileRecord>,
    memories: Vec<(MemoryImage, Snapshot)>,
}

impl NodePart {
    /// Takes it down while all ranks stand.
    fn of(shared: &SharedFiles, parts: &mut [RankPart], orphans: Vec<OrphanRecord>) -> Result<Self, String> {
        let no_memory = |_| String::from("there is no memory for a copy of what ranks share");
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
        Ok(Self { orphans, files, memories: taken.collect::<Result<_, String>>()? })
    }

    fn pages(&self) -> u64 {
        self.memories.iter().map(|(_, snapshot)| snapshot.pages()).sum()
    }
}

/// Has what all ranks here have said, and what they share, be kept from now on.
///
/// # Errors
/// One line on what cannot be kept.
pub(crate) fn begin(
    saving: &Arc<OfJob>,
    here: JobNode,
    shared: &SharedFiles,
    orphans: Vec<OrphanRecord>,
) -> Result<(), String> {
    let mut parts = saving.take();
    let node = NodePart::of(shared, &mut parts, orphans)?;
    let Some(barriers) = parts.first().map(|part| part.pmi.1) else { return Err("no rank is left".into()) };
    saving.runs(barriers, node.pages());
    // Nothing else of the job, which is to be gone when its last rank is.
    let kept_in = Arc::clone(saving);
    let started = executor::spawn_program(async move {
        let kept = match executor::race(kept_in.given_up(), save(&kept_in, here, parts, node)).await {
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

async fn save(saving: &OfJob, here: JobNode, mut parts: Vec<RankPart>, node: NodePart) -> Result<Vec<Part>, String> {
    let mut kept = Vec::new();
    let (client, quota, pmi) = match parts.first_mut() {
        Some(first) => (first.client.clone(), Arc::clone(&first.quota), core::mem::take(&mut first.pmi.0)),
        None => return Ok(kept),
    };
    for part in parts {
        let of = PartOf::Rank(part.rank);
        let rank = part.rank;
        let object = save_rank(saving, part).await.map_err(|error| format!("rank {rank}: {error}"))?;
        kept.push(Part { of, object });
    }
    let object = save_node(saving, &client, &quota, node, pmi).await.map_err(|error| error.to_string())?;
    kept.push(Part { of: PartOf::Node(here.0), object });
    let settled = client.call(Call::SettleObjects, Vec::new()).await;
    settled.map_err(|errno| NotSaved::Errno(errno).to_string())?;
    Ok(kept)
}

/// Why something is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum NotSaved {
    #[error(transparent)]
    GivenUp(#[from] GivenUp),
    #[error("{}", said(*.0))]
    Errno(#[from] Errno),
}

fn said(errno: Errno) -> String {
    match errno {
        Errno::ENODEV => "the cluster has no storage for checkpoints".into(),
        Errno::ENOSPC => "the storage for checkpoints is full".into(),
        Errno::ESRCH => "it came to its end before it was kept".into(),
        errno => format!("the I/O node could not keep it: {errno}"),
    }
}

async fn save_rank(saving: &OfJob, part: RankPart) -> Result<ObjectId, NotSaved> {
    let RankPart { program, client, process, transports, outside, memories, snapshot, quota, charge, .. } = part;
    let memories = memories.iter().map(|memory| memory.id()).collect();
    let mut writer = Writer::new(&client, &quota)?;
    let windows = save_pages(saving, &snapshot, &mut writer).await?;
    let image = RankImage { version: VERSION, program, process, transports, outside, memories, windows };
    let record = postcard::to_allocvec(&image).map_err(|_| Errno::ENOMEM)?;
    drop((image, charge));
    finish(saving, writer, &record).await
}

async fn save_node(
    saving: &OfJob,
    client: &Client,
    quota: &Arc<Quota>,
    node: NodePart,
    pmi: Vec<u8>,
) -> Result<ObjectId, NotSaved> {
    let NodePart { orphans, files, memories } = node;
    let mut writer = Writer::new(client, quota)?;
    let mut images = Vec::new();
    for (image, snapshot) in memories {
        let windows = save_pages(saving, &snapshot, &mut writer).await?;
        images.push(MemoryImage { windows, ..image });
    }
    let image = NodeImage { version: VERSION, orphans, pmi, files, memories: images };
    let record = postcard::to_allocvec(&image).map_err(|_| Errno::ENOMEM)?;
    finish(saving, writer, &record).await
}

async fn finish(saving: &OfJob, writer: Writer<'_>, record: &[u8]) -> Result<ObjectId, NotSaved> {
    let before = writer.bytes;
    let (object, bytes) = writer.finish(record).await?;
    saving.kept(0, bytes - before);
    Ok(object)
}

async fn save_pages(saving: &OfJob, snapshot: &Snapshot, writer: &mut Writer<'_>) -> Result<Vec<Window>, NotSaved> {
    let mut windows = Vec::new();
    loop {
        let mut bytes = Vec::new();
        let Some(taken) = snapshot.take(&mut bytes, |_| None)? else { return Ok(windows) };
        let (Taken::Changed(window) | Taken::Unchanged(window)) = taken;
        let before = writer.bytes;
        if window.filled != 0 {
            writer.put(bytes).await?;
        }
        windows.push(window);
        let pages = u64::from((window.filled | window.zeros).count_ones());
        saving.kept(pages, writer.bytes - before);
        executor::yield_now().await;
    }
}
