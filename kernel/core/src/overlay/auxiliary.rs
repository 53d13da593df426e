//! The auxiliary process: what a node says of itself in each epoch, beside what its ranks do.
//!
//! All of it is counted or known where it happens; nothing is walked for it but the few programs and files that the
//! node keeps.

use alloc::sync::Arc;

use coppice_hal::frames::FramePool;
use coppice_hal::heap;
use coppice_protocol::overlay::{NodeMetric, NodeValues};

use crate::memory::{self, Retention};
use crate::net::CardCounts;
use crate::process::NodeFacts;
use crate::region::Region;
use crate::staging::Staging;
use crate::{clock, executor};

/// Where it looks.
pub struct Auxiliary {
    /// Usable memory the machine has.
    memory_bytes: u64,
    frames: &'static FramePool,
    retention: Arc<Retention>,
    staging: Staging,
    region: Option<Arc<Region>>,
    card: Arc<CardCounts>,
}

impl Auxiliary {
    /// That of a node with so much memory and this card.
    #[must_use]
    pub fn new(node: &NodeFacts, memory_bytes: u64, card: Arc<CardCounts>) -> Self {
        let NodeFacts { frames, retention, staging, region, .. } = node;
        let (retention, staging, region) = (Arc::clone(retention), staging.clone(), region.clone());
        Self { memory_bytes, frames, retention, staging, region, card }
    }

    /// How the node is now, and what it has done since it booted.
    pub(super) fn look(&self) -> NodeValues {
        let memory = memory::status(self.memory_bytes, self.frames, &self.retention);
        let heap = heap::usage();
        let (sent, received) = (self.card.sent(), self.card.received());
        let now_ns = executor::now_ns();
        NodeMetric::ALL.map(|metric| match metric {
            NodeMetric::MemoryFree => memory.free,
            NodeMetric::MemoryKernel => memory.kernel,
            NodeMetric::HeapHeld => heap.held_bytes as u64,
            NodeMetric::HeapPromised => heap.promised_bytes as u64,
            NodeMetric::HeapLimit => heap.limit_bytes as u64,
            NodeMetric::MemoryRetained => memory.retained,
            NodeMetric::FilesKept => self.staging.kept().spare_bytes(),
            NodeMetric::RegionUsed => self.region.as_ref().map_or(0, |region| region.used_bytes()),
            NodeMetric::FramesSent => sent.frames,
            NodeMetric::FramesReceived => received.frames,
            NodeMetric::FramesDropped => self.card.dropped(),
            NodeMetric::FrameBytesSent => sent.bytes,
            NodeMetric::FrameBytesReceived => received.bytes,
            NodeMetric::Idle => (0..executor::cores()).map(|core| executor::idle_ns_until(core, now_ns)).sum(),
            NodeMetric::Cores => executor::cores() as u64,
            NodeMetric::Tasks => executor::tasks() as u64,
            NodeMetric::ClockOffPing => clock::off_ping_ns(),
        })
    }
}

/// What a node has done between two looks, and how it was at the later one.
pub(super) fn since(before: &NodeValues, now: &NodeValues) -> NodeValues {
    NodeMetric::ALL.map(|metric| {
        let place = metric as usize;
        // What another core counts may be seen a moment late: then less comes out, and more the next time.
        if metric.unit().is_now() { now[place] } else { now[place].saturating_sub(before[place]) }
    })
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;

    use coppice_hal::frames::FrameKind;
    use coppice_protocol::overlay::NodeMetric;

    use super::{Auxiliary, since};
    use crate::memory::Retention;
    use crate::net::CardCounts;
    use crate::net::testing::Nowhere;
    use crate::process::testing::pool;
    use crate::quota::{Quota, Store};
    use crate::staging::Staging;
    use crate::{clock, executor};

    #[test]
    fn what_is_there_is_told_as_it_is_and_what_happens_as_it_came_since() {
        let frames = pool();
        let (card, retention) = (Arc::<CardCounts>::default(), Arc::<Retention>::default());
        let quota = Arc::new(Quota::new(Store::new(frames, retention.clone())));
        let staging = Staging::new(Arc::new(Nowhere), quota, &retention);
        let memory_bytes = 128 << 20;
        let auxiliary = Auxiliary { memory_bytes, frames, retention, staging, region: None, card: Arc::clone(&card) };
        card.has_sent(100);
        let before = auxiliary.look();
        let taken = frames.alloc(FrameKind::Kernel).expect("a frame");
        card.has_sent(60);
        card.has_sent(1500);
        card.has_received(90);
        card.has_dropped();
        clock::heard(clock::realtime_ns() + 5_000_000);
        let now = auxiliary.look();
        let told = since(&before, &now);
        let of = |metric: NodeMetric| told[metric as usize];
        let page = 4096;
        assert_eq!(of(NodeMetric::MemoryFree), before[NodeMetric::MemoryFree as usize] - page);
        assert_eq!(of(NodeMetric::MemoryKernel), before[NodeMetric::MemoryKernel as usize] + page);
        assert_eq!((of(NodeMetric::FramesSent), of(NodeMetric::FrameBytesSent)), (2, 1560));
        assert_eq!((of(NodeMetric::FramesReceived), of(NodeMetric::FrameBytesReceived)), (1, 90));
        assert_eq!((of(NodeMetric::FramesDropped), of(NodeMetric::RegionUsed)), (1, 0));
        assert_eq!(of(NodeMetric::Cores), executor::cores() as u64);
        assert_eq!(since(&now, &before)[NodeMetric::FramesSent as usize], 0, "never less than nothing");
        drop(taken);
    }
}
