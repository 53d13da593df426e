//! What lies in the regions of nodes: I/O nodes are had pull it and wipe it.

use coppice_protocol::ids::{JobId, NodeId};
use coppice_protocol::pset::Pulled;
use coppice_protocol::region::SlotKey;
use futures_util::future::try_join_all;
use tokio::sync::{oneshot, watch};

use super::{Around, going_down};
use crate::controller::{Objects, Refused, Request};

/// Nodes that are named in a message; of more it says how many.
const NODES_NAMED: usize = 8;

/// What is to be pulled, with how far that is.
#[derive(Debug)]
pub(super) struct Pull {
    node: NodeId,
    from: SlotKey,
    progress: watch::Sender<Objects>,
}

impl Pull {
    /// From that slot of a node's region.
    pub(super) fn new(node: NodeId, from: SlotKey) -> Self {
        Self { node, from, progress: watch::channel((0, 0)).0 }
    }

    /// How far it is.
    pub(super) fn progress(&self) -> watch::Receiver<Objects> {
        self.progress.subscribe()
    }
}

/// Wipes that were ordered, with their nodes.
#[derive(Debug)]
#[must_use]
pub(super) struct Wipes(Vec<(NodeId, oneshot::Receiver<Result<(), Refused>>)>);

/// Has all of these pulled into the storage, and gives the sum, or says why one of them could not be.
pub(super) async fn pull(around: &impl Around, pulls: Vec<Pull>) -> Result<Pulled, Refused> {
    let ordered = pulls
        .into_iter()
        .map(|Pull { node, from, progress }| around.ask(move |answer| Request::Pull(node, from, progress, answer)));
    let all = try_join_all(ordered).await?;
    let hash_ns = all.iter().map(|pulled| pulled.hash_ns).fold(0, u64::saturating_add);
    Ok(Pulled { parts: all.into_iter().flat_map(|pulled| pulled.parts).collect(), hash_ns })
}

/// Orders the regions of nodes to be wiped, of a job or of all, but for a slot of each. What is ordered of them later
/// is done later.
pub(super) async fn wipe(
    around: &impl Around,
    nodes: impl IntoIterator<Item = (NodeId, Option<SlotKey>), IntoIter: Send>,
    job: Option<JobId>,
) -> Wipes {
    let mut wipes = Vec::new();
    for (node, but) in nodes {
        let (answer, answered) = oneshot::channel();
        // If nobody takes it any more, the answer says so.
        let _ = around.tell(Request::Wipe(node, job, but, answer)).await;
        wipes.push((node, answered));
    }
    Wipes(wipes)
}

impl Wipes {
    /// Waits for all of them. Says in one line which regions are not wiped, and why the first of them is not.
    pub(super) async fn failed(self) -> Option<String> {
        let (mut nodes, mut why) = (Vec::new(), None);
        for (node, answered) in self.0 {
            if let Err(refused) = answered.await.unwrap_or_else(|_| Err(going_down())) {
                nodes.push(node);
                why.get_or_insert(refused.message);
            }
        }
        let why = why?;
        let mut named: Vec<String> = nodes.iter().take(NODES_NAMED).map(ToString::to_string).collect();
        if nodes.len() > NODES_NAMED {
            named.push(format!("{} more", nodes.len() - NODES_NAMED));
        }
        let whose = if nodes.len() == 1 { "the region of node" } else { "the regions of nodes" };
        Some(format!("{whose} {} may have it yet: {why}", named.join(", ")))
    }

    /// Has it noted if some are not wiped, when that is known.
    pub(super) fn in_background(self, around: &impl Around, job: JobId) {
        around.spawn(async move {
            if let Some(why) = self.failed().await {
                tracing::warn!(job = job.0, why, "not wiped");
            }
        });
    }
}
