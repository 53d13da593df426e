//! Nodes of a job that are there, and those that are not ([`Watch`]).

use alloc::vec::Vec;

use super::{Failure, Server};
use crate::ids::Rank;
use crate::pmi::frame::{Header, PeerError, PeerFrame, PeerFrameKind};
use crate::pmi::news::Death;
use crate::pmi::watch::Word;

impl Server {
    /// Nodes of the job do not watch each other: who says which are gone is whoever has them run it, and who waits for
    /// one that is silent. To be said on all nodes alike.
    pub fn trust_nodes(&mut self) {
        self.watch.stop();
    }

    /// Whether the node with this index is known to be gone.
    #[must_use]
    pub fn is_gone(&self, index: u32) -> bool {
        self.watch.is_gone(index)
    }

    pub(super) fn handle_word(&mut self, frame: &PeerFrame, now_ns: u64) -> Result<(), PeerError> {
        let Header { kind, generation, step: by, from, .. } = self.spread.verify(frame)?;
        let nodes = self.placement.nodes();
        let node = u32::try_from(generation).ok().filter(|node| *node < nodes && by < nodes);
        let death = node.map(|node| Death { node, by }).ok_or(PeerError::Nonsense("about a node that there is not"))?;
        let word = match kind {
            PeerFrameKind::AreYouThere => Word::AreYouThere,
            PeerFrameKind::Gone => Word::Gone(death),
            PeerFrameKind::Noted => Word::Noted(death),
            _ => Word::Here,
        };
        self.watch.take(from, word, now_ns);
        self.hear_of_deaths(now_ns);
        Ok(())
    }

    /// The frame with the next word for a node.
    pub(super) fn next_word(&mut self, to: u32) -> Option<Vec<u8>> {
        let (kind, Death { node, by }) = match self.watch.poll_transmit(to)? {
            Word::Here => (PeerFrameKind::Here, Death { node: 0, by: 0 }),
            Word::AreYouThere => (PeerFrameKind::AreYouThere, Death { node: 0, by: 0 }),
            Word::Gone(death) => (PeerFrameKind::Gone, death),
            Word::Noted(death) => (PeerFrameKind::Noted, death),
        };
        let (generation, from) = (node.into(), self.here());
        let header =
            Header { kind, generation, step: by, fence: None, from, to, part: 0, parts: 1, without_end: false };
        Some(self.spread.keys().seal(&header, &[]))
    }

    /// Does what follows from deaths that were found: the job goes on without those nodes, or fails.
    pub(super) fn hear_of_deaths(&mut self, now_ns: u64) {
        for Death { node, by } in self.watch.take_found() {
            if self.outlives_ranks {
                self.lose_all_of(node, now_ns);
            } else if let (Some(dead), Some(by)) = (self.placement.place(node), self.placement.place(by)) {
                self.fail(Failure::Dead { rank: self.here.first, dead: dead.node, by: by.node });
            }
        }
    }

    /// What was known of deaths before what the server goes on from was read holds after it, too.
    pub(super) fn lose_again(&mut self, now_ns: u64) {
        if self.outlives_ranks {
            self.watch.gone().into_iter().for_each(|node| self.lose_all_of(node, now_ns));
        }
    }

    /// Which of a node's ranks had ended before it is known to none of the nodes that are left.
    fn lose_all_of(&mut self, node: u32, now_ns: u64) {
        let ranks: Vec<Rank> = self.placement.place(node).map_or_else(Vec::new, |place| place.ranks().collect());
        self.lose_node(node, &ranks, now_ns);
    }
}
