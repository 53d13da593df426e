//! What conversations with PMIx clients need of a server beyond what others do ([`crate::pmix::Client`]).
//!
//! What a rank has put for others elsewhere goes with a barrier as everything does: in pieces under keys that no other
//! client can name, in the order in which they were put. So it is known, counted and written down as any key is.

use alloc::vec::Vec;

use super::{Departure, Event, Local, Phase, Placement, Server};
use crate::ids::Rank;
use crate::limits::PMI_VALUE_BYTES_MAX;
use crate::pmi::frame::{PeerError, PeerFrame};
use crate::pmi::space::PutError;
use crate::pmix::{Buckets, CallId, Desk, Dialect, Pairs, Places, Reader, Status, Writer, pieces};

/// Where the job's ranks are, and which of this node have left.
pub(super) struct Whereabouts<'a> {
    pub(super) placement: &'a Placement,
    pub(super) ranks: &'a [Local],
}

impl Places for Whereabouts<'_> {
    fn node_of(&self, rank: Rank) -> Option<u32> {
        self.placement.index_of_rank(rank)
    }

    fn has_left(&self, rank: Rank) -> bool {
        self.ranks.iter().find(|local| local.rank == rank).is_none_or(|local| local.departure.is_some())
    }
}

/// Whether some pairs have one with this key, or any if that is not said.
fn has(stream: &[u8], key: Option<&[u8]>, dialect: Dialect) -> bool {
    let mut pairs = Pairs::of(Reader::new(stream, dialect)).map_while(Result::ok);
    key.map_or(!stream.is_empty(), |key| pairs.any(|(name, _)| name == key))
}

/// Bytes of a key of pieces: a zero byte, how they are written, and the rank.
const PREFIX_BYTES: usize = 6;

/// Keys of a rank's pieces begin like this; then comes which piece it is, and of which version of what the rank has
/// put.
fn prefix(rank: Rank, dialect: Dialect) -> [u8; PREFIX_BYTES] {
    let [a, b, c, d] = rank.0.to_be_bytes();
    let dialect = match dialect {
        Dialect::Wide => 3,
        Dialect::Short => 4,
    };
    [0, dialect, a, b, c, d]
}

impl Server {
    /// The index of this node.
    pub(crate) fn here(&self) -> u32 {
        self.spread.me()
    }

    /// Which of the node's ranks it is.
    pub(crate) fn index_here(&self, rank: Rank) -> u32 {
        rank.0.saturating_sub(self.here.first.0)
    }

    /// As [`Self::attach`]; a rank that has said that it is done may begin once more.
    pub(crate) fn attach_again(&mut self, rank: Rank) -> bool {
        if let Some(local) = self.local(rank)
            && local.departure == Some(Departure::Finalized)
        {
            (local.departure, local.is_heard) = (None, false);
        }
        self.attach(rank)
    }

    /// A rank of the node commits what it has put.
    pub(crate) fn commit(&mut self, rank: Rank, dialect: Dialect, buckets: Buckets<'_>) -> Result<(), Status> {
        let committed = self.pmix.cards.commit(rank, dialect, buckets);
        self.pmix.exchange.committed(rank);
        self.wake_who_await();
        committed
    }

    /// What a rank of the node has put is to go with the next barrier.
    pub(crate) fn publish(&mut self, rank: Rank, dialect: Dialect) -> Result<(), Status> {
        let mut one = Writer::new(dialect);
        one.packed(1);
        let pieces = pieces(self.pmix.cards.fresh(rank), one.bytes(), PMI_VALUE_BYTES_MAX);
        let prefix = prefix(rank, dialect);
        let known = self.space.of_prefix(&prefix).count() as u32;
        let version = self.pmix.cards.version(rank);
        for (piece, number) in pieces.iter().zip(known..) {
            let key: Vec<u8> = prefix.into_iter().chain(number.to_be_bytes()).chain(version.to_be_bytes()).collect();
            self.space.put(&key, piece).map_err(|error| match error {
                PutError::NoRoom => Status::OUT_OF_RESOURCE,
                PutError::Duplicate | PutError::Key | PutError::Value => Status::BAD_PARAM,
            })?;
        }
        self.pmix.cards.told(rank);
        Ok(())
    }

    /// Appends what a rank has put, if there is something: this key, or if that is not said, anything.
    pub(crate) fn append_card(&self, of: Rank, key: Option<&[u8]>, dialect: Dialect, card: &mut Writer) -> bool {
        if self.here.has(of) {
            let is_there = key.map_or_else(|| self.pmix.cards.is_there(of), |key| self.pmix.cards.has(of, key));
            if is_there {
                for pair in self.pmix.cards.near(of) {
                    card.packed(1).put(pair);
                }
            }
            return is_there;
        }
        // Both are all that the rank had put, each of its time: a fence may have brought what is newer than what was
        // fetched, and the other way round.
        let (version, brought) = self.brought(of, dialect);
        let fetched = self.pmix.exchange.card(of).unwrap_or_default();
        let newest = if version > fetched.0 { &brought[..] } else { fetched.1 };
        let is_there = has(newest, key, dialect);
        if is_there {
            card.put(newest);
        }
        is_there
    }

    /// What fences of the whole job have brought of a rank, and which version of what it has put that is.
    fn brought(&self, of: Rank, dialect: Dialect) -> (u64, Vec<u8>) {
        let prefix = prefix(of, dialect);
        let (mut version, mut stream) = (0, Vec::new());
        for (key, piece) in self.space.of_prefix(&prefix) {
            version = key.last_chunk().map_or(0, |version| u64::from_be_bytes(*version));
            stream.extend_from_slice(piece);
        }
        (version, stream)
    }

    /// A rank here asks for what another one has put: whatever was found out before is no answer but what is known.
    pub(crate) fn ask_anew(&mut self, of: Rank) {
        self.pmix.exchange.ask_anew(of);
    }

    /// A rank here waits for what another one puts.
    pub(crate) fn want(&mut self, of: Rank, dialect: Dialect, now_ns: u64) {
        if !self.here.has(of)
            && let Some(owner) = self.placement.index_of_rank(of)
        {
            self.pmix.exchange.want(of, owner, dialect, now_ns);
        }
    }

    /// Whether the job has other nodes.
    pub(crate) fn is_spread(&self) -> bool {
        self.placement.nodes() > 1
    }

    /// Why ranks here do not get a key of a rank, if that is so: it is gone, or has said that it is done, or has put
    /// that for ranks elsewhere only.
    pub(crate) fn why_nothing(&self, rank: Rank, key: Option<&[u8]>) -> Option<Status> {
        let has_left = self.ranks.iter().any(|local| local.rank == rank && local.departure.is_some());
        if has_left || key.is_some_and(|key| self.pmix.cards.is_kept_from_here(rank, key)) {
            Some(Status::NOT_FOUND)
        } else {
            self.pmix.exchange.why_nothing(rank)
        }
    }

    pub(super) fn handle_parcel(&mut self, frame: &PeerFrame, now_ns: u64) -> Result<(), PeerError> {
        let way = self.spread.verify_hop(frame)?;
        let places = Whereabouts { placement: &self.placement, ranks: &self.ranks };
        let brought = self.pmix.handle_parcel((way, frame.body()), (self.here, &places), now_ns)?;
        self.released(brought.for_ranks);
        if let Some((rank, how)) = brought.ended {
            self.hear_of_loss(rank, how);
        }
        Ok(())
    }

    /// Does what it is time for.
    pub(super) fn go_on_with_cards(&mut self, now_ns: u64) {
        let places = Whereabouts { placement: &self.placement, ranks: &self.ranks };
        let ranks = self.pmix.handle_timeout(&places, now_ns);
        self.released(ranks);
    }

    /// The ranks run again, or go on.
    pub(super) fn cards_go_on(&mut self, now_ns: u64) {
        let places = Whereabouts { placement: &self.placement, ranks: &self.ranks };
        let ranks = self.pmix.go_on(&places, now_ns);
        self.released(ranks);
    }

    /// A node is gone.
    pub(super) fn cards_of_lost(&mut self, node: u32, now_ns: u64) {
        let places = Whereabouts { placement: &self.placement, ranks: &self.ranks };
        let ranks = self.pmix.node_lost(node, &places, now_ns);
        self.released(ranks);
    }

    /// A rank of the node has left.
    pub(super) fn card_ends(&mut self, rank: Rank, now_ns: u64) {
        let places = Whereabouts { placement: &self.placement, ranks: &self.ranks };
        self.pmix.left(rank, &places, now_ns);
        let ranks = self.pmix.take_released();
        self.released(ranks);
    }

    pub(super) fn released(&mut self, ranks: Vec<Rank>) {
        self.events.extend(ranks.into_iter().map(Event::Released));
    }

    /// A rank here makes a call together with others; what it has put goes with it if that is to be collected.
    pub(crate) fn join(
        &mut self,
        (rank, call): (Rank, CallId),
        members: &[Rank],
        collected: Option<Dialect>,
        now_ns: u64,
    ) -> Result<(), Status> {
        let part = collected.map_or_else(|| Ok(Vec::new()), |dialect| self.pmix.part(rank, dialect))?;
        let places = Whereabouts { placement: &self.placement, ranks: &self.ranks };
        let joined = self.pmix.join((rank, call), members, &part, &places, now_ns);
        let ranks = self.pmix.take_released();
        self.released(ranks);
        joined
    }

    /// What came of it, if it is over.
    pub(crate) fn take_outcome(&mut self, rank: Rank, call: CallId) -> Option<(Status, u64)> {
        self.pmix.take_outcome(rank, call, self.here)
    }

    /// What it knows for PMIx clients.
    pub(crate) fn desk(&mut self) -> &mut Desk {
        &mut self.pmix
    }

    /// The members of a group that a rank here is one of.
    pub(crate) fn group(&self, name: &[u8]) -> Option<&[Rank]> {
        self.pmix.group(name)
    }

    /// A rank does not wait for it any longer; false if other nodes count on it already.
    pub(crate) fn leave_call(&mut self, rank: Rank, call: CallId) -> bool {
        self.pmix.collectives.withdraw(rank, call)
    }

    /// A rank does not wait in its barrier any longer; false if other nodes count on it already.
    pub(crate) fn withdraw(&mut self, rank: Rank) -> bool {
        let is_entered = self.spread.is_entered();
        match self.local(rank) {
            Some(local) if local.phase == Phase::InBarrier && !is_entered => local.phase = Phase::Outside,
            _ => return false,
        }
        true
    }

    /// A rank wants to hear at this time, ns, or not any more.
    pub(crate) fn wake_at(&mut self, rank: Rank, at_ns: Option<u64>) {
        self.pmix.wake_at(rank, at_ns);
    }
}
