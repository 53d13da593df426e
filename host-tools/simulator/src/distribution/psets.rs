//! Links between psets: each pset has one to all others, which all of its members share, and which queues.

use std::sync::Arc;

use coppice_protocol::trees::Topology;

/// The psets of a run's members. Whether the members know of them is the plan's matter.
#[derive(Clone, Debug, PartialEq)]
pub struct Psets {
    /// The pset of home and of each member.
    pub of: Arc<Vec<u32>>,
    /// Bandwidth of a pset's link to the others in each direction, bytes/s.
    pub bytes_per_second: u64,
    /// The I/O nodes have the file from the beginning: members that are the first of their psets.
    pub hold: bool,
}

impl Psets {
    /// Psets as a topology has them, over links of that bandwidth, bytes/s.
    #[must_use]
    pub fn of(topology: &Topology, bytes_per_second: u64) -> Self {
        let members = topology.members().unwrap_or(0);
        let of = (0..=members).map(|member| topology.place(member).0).collect();
        Self { of: Arc::new(of), bytes_per_second, hold: false }
    }

    fn pset(&self, member: u32) -> u32 {
        self.of.get(member as usize).copied().unwrap_or(0)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.of.iter().max().map_or(0, |last| last + 1)
    }

    /// The members that have the file from the beginning.
    pub(super) fn holders(&self) -> impl Iterator<Item = u32> {
        let is_first = |member: &u32| self.pset(*member) != self.pset(member - 1);
        (1..self.of.len() as u32).filter(|_| self.hold).filter(is_first)
    }
}

/// When the links of psets are free, ns.
#[derive(Debug, Default)]
pub(super) struct PsetLinks {
    psets: Option<Psets>,
    out_free_ns: Vec<u64>,
    in_free_ns: Vec<u64>,
    buffer_bytes: u64,
}

impl PsetLinks {
    pub(super) fn new(psets: Option<&Psets>, buffer_bytes: u64) -> Self {
        let free_ns = vec![0; psets.map_or(0, Psets::count) as usize];
        Self { psets: psets.cloned(), out_free_ns: free_ns.clone(), in_free_ns: free_ns, buffer_bytes }
    }

    /// Whether what one sends to the other goes through them.
    pub(super) fn is_across(&self, from: u32, to: u32) -> bool {
        self.psets.as_ref().is_some_and(|psets| psets.pset(from) != psets.pset(to))
    }

    /// When bytes that one has sent the other by `sent_ns` are through the links of both their psets. `None` if they
    /// would have to wait for too long there, and are lost.
    pub(super) fn through(&mut self, (from, to): (u32, u32), bytes: u64, sent_ns: u64) -> Option<u64> {
        let Some(psets) = self.psets.as_ref().filter(|psets| psets.pset(from) != psets.pset(to)) else {
            return Some(sent_ns);
        };
        let takes_ns =
            |bytes: u64| (u128::from(bytes) * 1_000_000_000 / u128::from(psets.bytes_per_second.max(1))) as u64;
        let mut at_ns = sent_ns;
        let links = [(&mut self.out_free_ns, from), (&mut self.in_free_ns, to)];
        for (free_ns, member) in links {
            let free_ns = free_ns.get_mut(psets.pset(member) as usize)?;
            if free_ns.saturating_sub(at_ns) > takes_ns(self.buffer_bytes) {
                return None;
            }
            // Its packets come as they are sent, and so go on while others still come.
            at_ns = at_ns.max(*free_ns + takes_ns(bytes));
            *free_ns = at_ns;
        }
        Some(at_ns)
    }
}
