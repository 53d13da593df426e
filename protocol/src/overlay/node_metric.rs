//! What is gathered of each node.

use super::metric::Unit;

/// One of the things that a node's auxiliary process says in each epoch, beside what its ranks do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeMetric {
    /// Memory that nobody uses.
    MemoryFree,
    /// Memory that the kernel keeps: image, tables, heap, buffers.
    MemoryKernel,
    /// Of that, what its heap has taken.
    HeapHeld,
    /// Of that, what is promised to whoever has been charged for it.
    HeapPromised,
    /// What the heap may take at most.
    HeapLimit,
    /// Pages of programs that ran, with their tables, and kept files: given back when memory is wanted.
    MemoryRetained,
    /// Of that, kept files: what was staged and stays.
    FilesKept,
    /// What is used of the node's region, as far as it was known when a slot of it was filled or wiped last.
    RegionUsed,
    /// Frames that its card has sent.
    FramesSent,
    /// Frames that came.
    FramesReceived,
    /// Frames that were to be sent and for which the card had no room. What the card itself loses it tells nobody.
    FramesDropped,
    /// Bytes of the frames that were sent.
    FrameBytesSent,
    /// Bytes of those that came.
    FrameBytesReceived,
    /// Time in which its cores had nothing to do, all together.
    Idle,
    /// Cores that run.
    Cores,
    /// Tasks of its kernel: a thread of a program is one.
    Tasks,
    /// By how much its wall clock was wrong by the last ping, when that came: what the ping was late, or the clock.
    ClockOffPing,
}

/// How many there are.
pub const NODE_METRICS: usize = NodeMetric::ALL.len();

/// What a node says of an epoch, by what it is.
pub type NodeValues = [u64; NODE_METRICS];

impl NodeMetric {
    /// All, in the order in which messages have them.
    pub const ALL: [Self; 17] = [
        Self::MemoryFree,
        Self::MemoryKernel,
        Self::HeapHeld,
        Self::HeapPromised,
        Self::HeapLimit,
        Self::MemoryRetained,
        Self::FilesKept,
        Self::RegionUsed,
        Self::FramesSent,
        Self::FramesReceived,
        Self::FramesDropped,
        Self::FrameBytesSent,
        Self::FrameBytesReceived,
        Self::Idle,
        Self::Cores,
        Self::Tasks,
        Self::ClockOffPing,
    ];

    /// What it is called by users and on disk.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MemoryFree => "memory-free",
            Self::MemoryKernel => "memory-kernel",
            Self::HeapHeld => "heap-held",
            Self::HeapPromised => "heap-promised",
            Self::HeapLimit => "heap-limit",
            Self::MemoryRetained => "memory-retained",
            Self::FilesKept => "files-kept",
            Self::RegionUsed => "region-used",
            Self::FramesSent => "frames-sent",
            Self::FramesReceived => "frames-received",
            Self::FramesDropped => "frames-dropped",
            Self::FrameBytesSent => "frame-bytes-sent",
            Self::FrameBytesReceived => "frame-bytes-received",
            Self::Idle => "idle",
            Self::Cores => "cores",
            Self::Tasks => "tasks",
            Self::ClockOffPing => "clock-off-ping",
        }
    }

    /// What its values count.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::MemoryFree
            | Self::MemoryKernel
            | Self::HeapHeld
            | Self::HeapPromised
            | Self::HeapLimit
            | Self::MemoryRetained
            | Self::FilesKept
            | Self::RegionUsed => Unit::BytesNow,
            Self::FramesSent | Self::FramesReceived | Self::FramesDropped => Unit::Times,
            Self::FrameBytesSent | Self::FrameBytesReceived => Unit::Bytes,
            Self::Idle => Unit::Nanoseconds,
            Self::Cores | Self::Tasks => Unit::Now,
            Self::ClockOffPing => Unit::NanosecondsNow,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::NodeMetric;
    use crate::overlay::Metric;

    #[test]
    fn they_are_in_order_and_have_names_of_their_own() {
        for (place, metric) in NodeMetric::ALL.into_iter().enumerate() {
            assert_eq!(metric as usize, place);
        }
        let of_ranks = Metric::ALL.into_iter().map(Metric::name);
        let names: BTreeSet<&str> = NodeMetric::ALL.into_iter().map(NodeMetric::name).chain(of_ranks).collect();
        assert_eq!(names.len(), NodeMetric::ALL.len() + Metric::ALL.len());
    }
}
