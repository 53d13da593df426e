//! What nobody needs any more is deleted, in the storage and in regions.

use std::sync::Arc;

use coppice_protocol::ids::{JobId, NodeId};
use coppice_storage::{Collected, Storage};

use super::Around;
use super::regions::wipe;
use crate::controller::{Refused, Request};
use crate::limits::STORAGE_TIME_MAX;

/// Has what nodes have of a job in their regions wiped, as its newest checkpoint is deleted, which alone lies there.
/// Says in one line what may be left.
pub(crate) async fn wipe_job(around: &impl Around, job: JobId) -> Option<String> {
    // Whoever makes one now has all others wiped when that is done, well or not.
    let _deleting = around.checkpoints().delete(job)?;
    // It may lie on any of them: the job, or one that it went on as, may be anywhere by now.
    match around.ask(Request::Nodes).await {
        Ok(nodes) => {
            let nodes = nodes.into_iter().map(|view| (NodeId(view.node), None));
            wipe(around, nodes, Some(job)).await.failed().await
        }
        Err(refused) => Some(refused.message),
    }
}

/// Removes what no checkpoint has any more, unless somebody still needs it.
pub(crate) async fn collect(around: &impl Around) -> Result<Collected, Refused> {
    let Ok(alone) = Arc::clone(&around.checkpoints().used).try_write_owned() else {
        let later = "others are being made or restarted from; it is given back with the next that is deleted";
        return Err(Refused::conflict(later));
    };
    let collect = move |storage: &Storage| {
        // Nobody puts anything there now: what is half-written is of I/O nodes that were killed.
        let collected = storage.sweep().and_then(|_| storage.collect());
        drop(alone);
        collected
    };
    around.stored(STORAGE_TIME_MAX, collect).await
}
