//! What a node has to say about barriers to others: steps until they have come, and what is said once.
//!
//! A step is kept until its receiver has it, or until that follows from what other nodes say, and goes out again on a
//! new connection or when it is asked for. A frame without a body is gone when it was sent: whoever misses it asks
//! again.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::fence::Fence;
use super::frame::{Header, PeerFrameKind};
use crate::limits::PMI_SHORT_FRAMES_MAX;

/// A step of a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) generation: u64,
    pub(super) fence: Fence,
    pub(super) step: u32,
}

impl Place {
    /// No step of a barrier or a later one is before it.
    pub(super) const fn first_of(generation: u64) -> Self {
        Self { generation, fence: Fence::Dissemination, step: 0 }
    }

    /// A frame in one part about it.
    pub(super) const fn header(self, kind: PeerFrameKind, from: u32, to: u32) -> Header {
        let Self { generation, fence, step } = self;
        Header { kind, generation, step, fence: Some(fence), from, to, part: 0, parts: 1, without_end: false }
    }
}

/// See this module.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Steps that their receiver does not have yet as far as this node knows: of two barriers at most.
    steps: Vec<Outgoing>,
    /// Frames without a body.
    short: BTreeSet<Short>,
}

/// A step on its way.
#[derive(Debug)]
struct Outgoing {
    to: u32,
    place: Place,
    /// Sealed.
    frames: Vec<Vec<u8>>,
    /// How many of them went out on the present connection.
    sent: usize,
    /// The receiver says that it has come.
    is_confirmed: bool,
}

/// A frame without a body: to whom, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Short {
    to: u32,
    kind: PeerFrameKind,
    place: Place,
}

/// A frame that goes out.
pub(super) enum Out {
    /// Of a step.
    Sealed(Vec<u8>),
    /// Without a body.
    Short(PeerFrameKind, Place),
}

impl Outbox {
    /// All was said, and what others say that they have they have.
    pub(super) fn is_settled(&self) -> bool {
        let is_over = |step: &Outgoing| !step.is_confirmed && step.sent == step.frames.len();
        self.short.is_empty() && self.steps.iter().all(is_over)
    }

    /// Steps that are kept.
    pub(super) fn steps(&self) -> usize {
        self.steps.len()
    }

    /// What they take of the node's memory, about, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.steps.iter().flat_map(|outgoing| &outgoing.frames).map(Vec::len).sum()
    }

    /// A step is to go out. The receiver may say that it has come.
    pub(super) fn send(&mut self, to: u32, place: Place, frames: Vec<Vec<u8>>, is_confirmed: bool) {
        self.steps.push(Outgoing { to, place, frames, sent: 0, is_confirmed });
    }

    /// A frame without a body is to go out. At the limit it is lost, as any frame may be. Its barrier has so many
    /// steps: of each, in two barriers, it may be said that it has come, and to another node that it has not.
    pub(super) fn say(&mut self, to: u32, kind: PeerFrameKind, place: Place, steps: u32) {
        if self.short.len() < PMI_SHORT_FRAMES_MAX.saturating_add(4 * steps as usize) {
            self.short.insert(Short { to, kind, place });
        }
    }

    /// A step has come.
    pub(super) fn has_come(&mut self, to: u32, place: Place) {
        self.steps.retain(|it| (it.to, it.place) != (to, place));
    }

    /// A step is asked for: it goes out again. Whether it is here.
    pub(super) fn send_again(&mut self, to: u32, place: Place) -> bool {
        let wanted = self.steps.iter_mut().find(|it| (it.to, it.place) == (to, place));
        let Some(outgoing) = wanted else { return false };
        // What is going out now need not start again.
        if outgoing.sent == outgoing.frames.len() {
            outgoing.sent = 0;
        }
        true
    }

    /// Nobody needs steps of barriers before that.
    pub(super) fn forget_before(&mut self, generation: u64) {
        self.steps.retain(|outgoing| outgoing.place.generation >= generation);
    }

    /// What was sent to a node, and is not known to have come, may be lost: it is sent again.
    pub(super) fn reconnected(&mut self, peer: u32) {
        for outgoing in self.steps.iter_mut().filter(|outgoing| outgoing.to == peer) {
            outgoing.sent = 0;
        }
    }

    /// A node is gone and has to be told nothing.
    pub(super) fn node_lost(&mut self, node: u32) {
        self.steps.retain(|outgoing| outgoing.to != node);
        self.short.retain(|short| short.to != node);
    }

    /// Whether there is something for a node.
    pub(super) fn has_output(&self, peer: u32) -> bool {
        self.first_short(peer).is_some()
            || self.steps.iter().any(|outgoing| outgoing.to == peer && outgoing.sent < outgoing.frames.len())
    }

    fn first_short(&self, peer: u32) -> Option<Short> {
        let first = Short { to: peer, kind: PeerFrameKind::Step, place: Place::first_of(0) };
        self.short.range(first..).next().copied().filter(|short| short.to == peer)
    }

    /// The next for a node.
    pub(super) fn poll_transmit(&mut self, peer: u32) -> Option<Out> {
        if let Some(short @ Short { kind, place, .. }) = self.first_short(peer) {
            self.short.remove(&short);
            return Some(Out::Short(kind, place));
        }
        let mut waiting = self.steps.iter_mut().filter(|outgoing| outgoing.to == peer);
        let outgoing = waiting.find(|outgoing| outgoing.sent < outgoing.frames.len())?;
        let frame = outgoing.frames.get(outgoing.sent).cloned();
        outgoing.sent += 1;
        frame.map(Out::Sealed)
    }
}
