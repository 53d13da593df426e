//! What is to be done with nodes' regions ([`coppice_protocol::region`]): some of it at once, for one node in the order
//! in which it came, and the rest in turn.

use std::collections::{BTreeMap, VecDeque};

use coppice_protocol::ids::{JobId, NodeId};
use coppice_protocol::pset::{FromPset, Pulled};
use coppice_protocol::region::SlotKey;

use super::Machine;
use super::effect::Effect;
use crate::limits::{REGION_ORDERS_MAX, REGION_THREADS_MAX};

/// Something to be done with a node's region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionOrder {
    /// The number of its request.
    pub request: u64,
    /// Whose region.
    pub node: NodeId,
    /// What to do.
    pub work: RegionWork,
}

/// What is to be done with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionWork {
    /// As [`coppice_protocol::pset::ToPset::Pull`].
    Pull(SlotKey),
    /// As [`coppice_protocol::pset::ToPset::Wipe`].
    Wipe {
        /// Of which job; `None`: of all.
        job: Option<JobId>,
        /// What stays.
        but: Option<SlotKey>,
    },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegionAnswer {
    /// As [`FromPset::Pulled`].
    Pulled(Result<Pulled, String>),
    /// As [`FromPset::Wiped`].
    Wiped(Option<String>),
}

impl RegionWork {
    /// The answer where it was not done.
    #[must_use]
    pub fn failed(&self, reason: String) -> RegionAnswer {
        match self {
            Self::Pull(_) => RegionAnswer::Pulled(Err(reason)),
            Self::Wipe { .. } => RegionAnswer::Wiped(Some(reason)),
        }
    }
}

impl RegionAnswer {
    fn message(self, request: u64) -> FromPset {
        match self {
            Self::Pulled(pulled) => FromPset::Pulled { request, pulled },
            Self::Wiped(failed) => FromPset::Wiped { request, failed },
        }
    }
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Regions {
    /// At most [`REGION_ORDERS_MAX`].
    waiting: VecDeque<RegionOrder>,
    /// The requests that are carried out, one for a node and at most [`REGION_THREADS_MAX`].
    begun: BTreeMap<NodeId, u64>,
}

impl Regions {
    /// How many orders there are.
    pub(super) fn count(&self) -> usize {
        self.waiting.len() + self.begun.len()
    }

    /// Takes the first that can be begun now.
    fn begin(&mut self) -> Option<RegionOrder> {
        if self.begun.len() >= REGION_THREADS_MAX {
            return None;
        }
        let first = self.waiting.iter().position(|order| !self.begun.contains_key(&order.node))?;
        let order = self.waiting.remove(first)?;
        self.begun.insert(order.node, order.request);
        Some(order)
    }
}

impl Machine {
    /// Has something done with a node's region, as soon as it is its turn.
    pub(super) fn order_region(&mut self, order: RegionOrder) {
        if self.regions.waiting.len() >= REGION_ORDERS_MAX {
            let reason =
                format!("{REGION_ORDERS_MAX} other orders about the regions of the pset's nodes wait; try again later");
            return self.outbox.push(order.work.failed(reason).message(order.request));
        }
        self.regions.waiting.push_back(order);
        self.begin_regions();
    }

    fn begin_regions(&mut self) {
        while let Some(order) = self.regions.begin() {
            self.effects.push(Effect::Region(order));
        }
    }

    /// What was to be done with a node's region is, or is not.
    pub fn region_done(&mut self, node: NodeId, answer: RegionAnswer) {
        if let Some(request) = self.regions.begun.remove(&node) {
            self.outbox.push(answer.message(request));
        }
        self.begin_regions();
    }

    /// So many objects of a node's region are stored, of so many. That is said if the service node has taken everything
    /// else, and not kept for later.
    pub fn pulling(&mut self, node: NodeId, objects: (u64, u64)) {
        if self.outbox.is_empty()
            && let Some(&request) = self.regions.begun.get(&node)
        {
            self.outbox.push(FromPset::Pulling { request, objects });
        }
    }
}

#[cfg(test)]
mod tests {
    use coppice_protocol::pset::ToPset;

    use super::super::Now;
    use super::*;

    const NOW: Now = Now { ns: 0, realtime_ns: 0 };
    const FROM: SlotKey = SlotKey { slot: 1, key: 9 };

    fn pull(machine: &mut Machine, request: u64, node: u32) {
        let order = ToPset::Pull { request, node: NodeId(node), from: FROM };
        machine.order(order, NOW).expect("makes sense");
    }

    fn wipe(machine: &mut Machine, request: u64, node: u32) {
        let order = ToPset::Wipe { request, node: NodeId(node), job: None, but: Some(FROM) };
        machine.order(order, NOW).expect("makes sense");
    }

    /// The requests that are begun.
    fn begun(machine: &mut Machine) -> Vec<u64> {
        let effects = std::iter::from_fn(|| machine.next_effect());
        let request = |effect| if let Effect::Region(order) = effect { order.request } else { panic!("{effect:?}") };
        effects.map(request).collect()
    }

    #[test]
    fn a_node_has_one_at_a_time_in_order_and_others_pass() {
        let mut machine = Machine::default();
        pull(&mut machine, 1, 0);
        wipe(&mut machine, 2, 0);
        pull(&mut machine, 3, 0);
        pull(&mut machine, 4, 7);
        pull(&mut machine, 5, 8);
        assert_eq!(begun(&mut machine), [1, 4], "as many as there are threads for it");
        assert_eq!(machine.remains().regions, 5);
        machine.region_done(NodeId(0), RegionAnswer::Pulled(Ok(Pulled::default())));
        assert_eq!(begun(&mut machine), [2]);
        machine.region_done(NodeId(7), RegionAnswer::Pulled(Err("why".into())));
        assert_eq!(begun(&mut machine), [5], "it passes what waits for its node");
        machine.region_done(NodeId(0), RegionAnswer::Wiped(None));
        assert_eq!(begun(&mut machine), [3]);
        for node in [0, 8] {
            machine.region_done(NodeId(node), RegionAnswer::Pulled(Ok(Pulled::default())));
        }
        let said: Vec<_> = std::iter::from_fn(|| machine.next_message(NOW)).collect();
        let [
            FromPset::Pulled { request: 1, pulled: Ok(_) },
            FromPset::Pulled { request: 4, pulled: Err(_) },
            FromPset::Wiped { request: 2, failed: None },
            FromPset::Pulled { request: 3, .. },
            FromPset::Pulled { request: 5, .. },
        ] = &said[..]
        else {
            panic!("{said:?}")
        };
        assert_eq!(machine.remains().regions, 0);
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let mut machine = Machine::default();
        let most = (REGION_ORDERS_MAX + 1) as u64;
        (0..most).for_each(|request| wipe(&mut machine, request, 0));
        assert!(!machine.has_messages());
        wipe(&mut machine, most, 0);
        pull(&mut machine, most + 1, 1);
        let reason = |message: Option<FromPset>| match message {
            Some(
                FromPset::Wiped { request, failed: Some(reason) } | FromPset::Pulled { request, pulled: Err(reason) },
            ) => (request, reason),
            other => panic!("{other:?}"),
        };
        for request in [most, most + 1] {
            let (of, reason) = reason(machine.next_message(NOW));
            assert!(of == request && reason.contains("4096") && !reason.contains('\n'), "{reason}");
        }
    }

    #[test]
    fn how_far_it_is_is_said_to_whoever_has_heard_the_rest() {
        let mut machine = Machine::default();
        machine.pulling(NodeId(3), (1, 2));
        assert!(!machine.has_messages(), "nothing is pulled from there");
        pull(&mut machine, 5, 3);
        machine.pulling(NodeId(3), (1, 9));
        machine.pulling(NodeId(3), (2, 9));
        let said = machine.next_message(NOW);
        assert!(matches!(said, Some(FromPset::Pulling { request: 5, objects: (1, 9) })), "{said:?}");
        assert!(!machine.has_messages());
    }
}
