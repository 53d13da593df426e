//! Nodes' regions: what lies there is pulled into the storage, and wiped.

mod file;
mod pull;
mod refused;
mod wipe;

use coppice_protocol::checkpoint::{Listing, ObjectId, Part};
use coppice_protocol::ids::{JobId, NodeId};
use coppice_protocol::pset::{FromPset, ToPset};
use coppice_protocol::region::SlotKey;
use coppice_storage::Storage;

use crate::common::Pset;

/// A filling of the first slot.
const FROM: SlotKey = SlotKey { slot: 0, key: 0xabc };

async fn start() -> Pset {
    Pset::start_with_regions(Some("storage")).await
}

fn storage(pset: &Pset) -> Storage {
    Storage::open(pset.storage()).unwrap()
}

/// What came of the next pull, after what it said of how far it was.
async fn pulled(pset: &mut Pset) -> Result<Vec<Part>, String> {
    loop {
        match pset.receive().await {
            FromPset::Pulling { request: 7, objects: (done, all) } => assert!(done <= all),
            FromPset::Pulled { request: 7, pulled } => break pulled.map(|pulled| pulled.parts),
            other => panic!("{other:?}"),
        }
    }
}

async fn pull(pset: &mut Pset, node: NodeId, from: SlotKey) -> Result<Vec<Part>, String> {
    pset.send(ToPset::Pull { request: 7, node, from }).await;
    pulled(pset).await
}

async fn wiped(pset: &mut Pset) -> Option<String> {
    match pset.receive().await {
        FromPset::Wiped { request: 8, failed } => failed,
        other => panic!("{other:?}"),
    }
}

async fn wipe(pset: &mut Pset, node: NodeId, job: Option<JobId>, but: Option<SlotKey>) -> Option<String> {
    pset.send(ToPset::Wipe { request: 8, node, job, but }).await;
    wiped(pset).await
}

/// The lists of a part that is stored: the length of its record, and its objects.
fn list(storage: &Storage, part: &Part) -> (u64, Vec<ObjectId>, Vec<ObjectId>) {
    let (mut lists, mut objects, mut record_bytes) = (Vec::new(), Vec::new(), None);
    let mut next = Some(part.object);
    while let Some(id) = next {
        let listing = Listing::read(&storage.get(id).unwrap()).unwrap();
        let first = *record_bytes.get_or_insert(listing.record_bytes);
        assert!(lists.is_empty() || listing.record_bytes == 0, "the record is in the first list, of {first} bytes");
        lists.push(id);
        objects.extend(listing.objects);
        next = listing.next;
    }
    (record_bytes.unwrap(), objects, lists)
}
