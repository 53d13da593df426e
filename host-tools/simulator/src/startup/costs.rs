//! What things cost. What nodes work was measured on booted ones under `-icount`, where an instruction takes a
//! nanosecond: a launch of 16 ranks whose pages were kept, barriers of two nodes, `MPI_Init` of MPICH in one rank (7.0
//! million, of which most come before the card is put). What the service node works for a node of a job was measured
//! with
//! `cargo xtask bench crowd`. Where that was not measured it is said: those are taken such that the old order looks
//! better.

/// See this module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// The service node, for a job. Estimated.
    pub submit_ns: u64,
    /// The service node, for each I/O node of a job. Estimated.
    pub tell_pset_ns: u64,
    /// The service node, for each node that it has an I/O node told of.
    pub tell_node_ns: u64,
    /// The same for each rank, in the old order, and an I/O node for each of either. Estimated.
    pub tell_member_ns: u64,
    /// An I/O node, for a launch that it sends. Estimated.
    pub send_launch_ns: u64,
    /// A node, for a launch that it gets, before it makes a rank of it.
    pub take_launch_ns: u64,
    /// A node, to make a rank of a program whose pages it has kept.
    pub make_rank_ns: u64,
    /// Length of a launch on the wire, bytes.
    pub launch_bytes: u64,
    /// A rank, from its first instruction until it has something to put.
    pub before_put_ns: u64,
    /// A rank, between the two barriers of `MPI_Init`.
    pub between_ns: u64,
    /// A node, for a line that a rank says and the answer. Estimated.
    pub line_ns: u64,
    /// A node, for a frame that it sends or gets, its packet included.
    pub frame_ns: u64,
    /// A node, for each byte behind a frame's header: sealed or verified, read, kept. Estimated.
    pub byte_ns: f64,
    /// A card, with its key, bytes.
    pub card_bytes: u64,
    /// Bandwidth of every link, bytes per second.
    pub link_bytes_per_second: u64,
    /// Latency between any two, ns.
    pub latency_ns: u64,
    /// Cores of a node: ranks work at the same time on all of them.
    pub cores: u32,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            submit_ns: 400_000,
            tell_pset_ns: 30_000,
            tell_node_ns: 3_000,
            tell_member_ns: 200,
            send_launch_ns: 15_000,
            take_launch_ns: 35_000,
            make_rank_ns: 60_000,
            launch_bytes: 1_200,
            before_put_ns: 5_500_000,
            between_ns: 1_500_000,
            line_ns: 6_000,
            frame_ns: 9_500,
            byte_ns: 12.0,
            card_bytes: 70,
            link_bytes_per_second: 1_250_000_000,
            latency_ns: 5_000,
            cores: 64,
        }
    }
}

impl Costs {
    /// How long so many bytes take on a link, ns.
    #[must_use]
    pub fn on_link_ns(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(1_000_000_000) / self.link_bytes_per_second.max(1)
    }

    /// What a node works for bytes behind a header, ns.
    #[must_use]
    pub fn for_bytes_ns(&self, bytes: u64) -> u64 {
        (bytes as f64 * self.byte_ns) as u64
    }
}
