//! What lies in the regions of nodes: their I/O nodes are ordered to pull it into the storage, and to wipe it.
//!
//! It concerns the I/O node alone; the node may be lost, or run something else. An order is answered when the I/O node
//! has answered or has ended, or when too long nothing was heard: of a pull, that its pset's pulls come any further
//! ([`PULL_SILENCE_MAX`]), as they may wait for each other; of a wipe, the answer ([`WIPE_TIME_MAX`]). It has its place
//! until then, whether somebody still waits or not.

use std::collections::BTreeMap;
use std::time::Instant;

use coppice_api::cluster::ClusterState;
use coppice_protocol::ids::{JobId, NodeId, PsetId};
use coppice_protocol::pset::{Pulled, ToPset};
use coppice_protocol::region::SlotKey;
use tokio::sync::watch;

use super::requests::{Answer, Refused, reply};
use super::{Controller, Now};
use crate::limits::{PULL_SILENCE_MAX, REGION_ORDERS_MAX, WIPE_TIME_MAX};
use crate::plant::Plant;

/// How far a pull is: objects that are stored, and that there are.
pub type Objects = (u64, u64);

/// What an I/O node was ordered to do with the region of a node.
#[derive(Debug)]
struct Open {
    pset: PsetId,
    node: NodeId,
    deadline: Instant,
    order: Order,
}

/// See [`Open`].
#[derive(Debug)]
enum Order {
    Pull { progress: watch::Sender<Objects>, answer: Answer<Pulled> },
    Wipe(Answer<()>),
}

impl Open {
    fn is_pull(&self) -> bool {
        matches!(self.order, Order::Pull { .. })
    }

    /// Why it is not waited for any more.
    fn too_late(&self) -> String {
        let Self { pset, node, .. } = self;
        match self.order {
            Order::Pull { .. } => format!(
                "the I/O node of pset {pset} has stored nothing more of what node {node} has in its region for {} s; \
                 is what the checkpoints lie on still there?",
                PULL_SILENCE_MAX.as_secs()
            ),
            Order::Wipe(_) => {
                let seconds = WIPE_TIME_MAX.as_secs();
                format!("the I/O node of pset {pset} did not wipe the region of node {node} within {seconds} s")
            }
        }
    }

    fn refuse(self, why: &str) {
        let refused = Refused::conflict(why);
        match self.order {
            Order::Pull { answer, .. } => reply(answer, Err(refused)),
            Order::Wipe(answer) => reply(answer, Err(refused)),
        }
    }
}

/// Orders that wait for I/O nodes, at most [`REGION_ORDERS_MAX`], by the number their answers carry.
#[derive(Debug, Default)]
pub(super) struct Regions {
    last: u64,
    open: BTreeMap<u64, Open>,
}

impl Regions {
    /// When one of them has waited long enough.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.open.values().map(|open| open.deadline).min()
    }

    fn refuse_where(&mut self, is_over: impl Fn(&Open) -> bool, why: impl Fn(&Open) -> String) {
        let over: Vec<u64> = self.open.iter().filter(|(_, open)| is_over(open)).map(|(request, _)| *request).collect();
        for open in over.iter().filter_map(|request| self.open.remove(request)).collect::<Vec<_>>() {
            let why = why(&open);
            open.refuse(&why);
        }
    }

    /// Those that have waited long enough wait no more.
    pub(super) fn give_up(&mut self, now: Now) {
        self.refuse_where(|open| open.deadline <= now.instant, Open::too_late);
    }

    /// An I/O node has ended, and does nothing more of what it was ordered to.
    pub(super) fn pset_lost(&mut self, pset: PsetId, reason: &str) {
        self.refuse_where(|open| open.pset == pset, |_| reason.to_owned());
    }

    /// The cluster goes down.
    pub(super) fn end(&mut self) {
        self.refuse_where(|_| true, |_| "the cluster is going down".to_owned());
    }

    /// The pulls of a pset come further.
    fn renew(&mut self, pset: PsetId, now: Now) {
        for open in self.open.values_mut().filter(|open| open.pset == pset && open.is_pull()) {
            open.deadline = now.instant + PULL_SILENCE_MAX;
        }
    }

    /// What a message of a pset with this number is about.
    fn find(&mut self, request: u64, pset: PsetId) -> Option<&mut Open> {
        self.open.get_mut(&request).filter(|open| open.pset == pset)
    }

    /// The same when it is the answer.
    fn take(&mut self, request: u64, pset: PsetId, pull: bool) -> Option<Open> {
        self.find(request, pset).filter(|open| open.is_pull() == pull)?;
        self.open.remove(&request)
    }
}

impl<P: Plant> Controller<P> {
    /// Has what a node's region has of a checkpoint pulled into the storage.
    pub(super) fn pull(
        &mut self,
        (node, from): (NodeId, SlotKey),
        progress: watch::Sender<Objects>,
        answer: Answer<Pulled>,
        now: Now,
    ) {
        match self.check_region(node) {
            Ok(pset) => {
                let deadline = now.instant + PULL_SILENCE_MAX;
                let order = Order::Pull { progress, answer };
                let request = self.open_region_order(Open { pset, node, deadline, order });
                self.plant.tell(pset, &ToPset::Pull { request, node, from });
            }
            Err(refused) => reply(answer, Err(refused)),
        }
    }

    /// Has what a node's region has wiped, of a job or all, but for one slot.
    pub(super) fn wipe(
        &mut self,
        node: NodeId,
        (job, but): (Option<JobId>, Option<SlotKey>),
        answer: Answer<()>,
        now: Now,
    ) {
        if self.config.region_bytes == 0 {
            return reply(answer, Ok(()));
        }
        match self.check_region(node) {
            Ok(pset) => {
                let deadline = now.instant + WIPE_TIME_MAX;
                let request = self.open_region_order(Open { pset, node, deadline, order: Order::Wipe(answer) });
                self.plant.tell(pset, &ToPset::Wipe { request, node, job, but });
            }
            Err(refused) => reply(answer, Err(refused)),
        }
    }

    fn open_region_order(&mut self, open: Open) -> u64 {
        self.regions.last += 1;
        self.regions.open.insert(self.regions.last, open);
        self.regions.last
    }

    /// Who does something with the region of a node, if that is possible now.
    fn check_region(&mut self, node: NodeId) -> Result<PsetId, Refused> {
        if self.state == ClusterState::Stopping {
            return Err(Refused::conflict("the cluster is going down"));
        }
        if self.regions.open.len() >= REGION_ORDERS_MAX {
            let most = format!("{REGION_ORDERS_MAX} orders about regions wait for I/O nodes already; try again");
            return Err(Refused::busy(&most));
        }
        let pset = self.nodes.get(node).map(|node| node.pset);
        let Some(pset) = pset.and_then(|pset| self.pset_mut(pset)) else {
            return Err(Refused::missing(format!("there is no node {node}")));
        };
        if pset.helper.is_listening() {
            Ok(pset.id)
        } else {
            Err(Refused::conflict(&format!("the I/O node of pset {} does not run; try again when it does", pset.id)))
        }
    }

    /// A pull has come further, as far as is said.
    pub(super) fn pulling(&mut self, pset: PsetId, request: u64, objects: Objects, now: Now) {
        let Some(Open { order: Order::Pull { progress, .. }, .. }) = self.regions.find(request, pset) else { return };
        if progress.send_replace(objects) != objects {
            self.regions.renew(pset, now);
        }
    }

    /// A pull is over.
    pub(super) fn pulled(&mut self, pset: PsetId, request: u64, pulled: Result<Pulled, String>, now: Now) {
        let Some(Open { node, order, .. }) = self.regions.take(request, pset, true) else { return };
        self.regions.renew(pset, now);
        let Order::Pull { answer, .. } = order else { return };
        let failed = |why| Refused::conflict(&format!("what node {node} has in its region cannot be stored: {why}"));
        reply(answer, pulled.map_err(failed));
    }

    /// A wipe is over.
    pub(super) fn wiped(&mut self, pset: PsetId, request: u64, failed: Option<String>) {
        let Some(Open { order: Order::Wipe(answer), .. }) = self.regions.take(request, pset, false) else { return };
        reply(answer, failed.map_or(Ok(()), |why| Err(Refused::conflict(&why))));
    }
}
