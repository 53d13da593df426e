//! Cards of ranks of other nodes, when no fence has brought them: the node of the rank is asked for them, and what it
//! answers is kept here for all ranks of this one.
//!
//! **Nothing of it is a state that two nodes share.** A node that wants a card asks for it every [`PMI_ASK_NS`] for as
//! long as one of its ranks waits, and whoever is asked answers what is so: the card, nothing yet, or that there will
//! be nothing. What is lost on the way is asked for again; a checkpoint has nothing of it, since ranks that go on ask
//! anew. That a rank has committed more is told to those who have asked for its card, so that nobody waits for the
//! next time.
//!
//! Parcels go where barriers go, from node to node ([`crate::pmi`]), and are not kept on the way.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::call::CallId;
use super::dialect::Dialect;
use super::parcel::{About, PIECES_MAX, Parcel, Says};
use super::relay::Telling;
use super::status::Status;
use super::word::Word;
use crate::ids::Rank;
use crate::limits::{PMI_ASK_NS, PMI_SILENCE_NS, PMIX_KNOWN_BYTES_MAX, PMIX_PARCELS_BYTES_MAX, PMIX_PIECE_BYTES_MAX};
use crate::pmi::{Hop, PeerError, Route, Way};

/// What a piece of memory takes beyond its bytes, about.
const OVERHEAD_BYTES: usize = 96;

/// What this node says of its own ranks.
pub(crate) trait Own {
    /// What the rank has put for others elsewhere, as one stream, and which version of it that is; nothing if it has
    /// committed nothing. An error: there will be nothing that is written so.
    fn card(&self, rank: Rank, dialect: Dialect) -> Result<Option<(u64, Vec<u8>)>, Status>;

    /// Whether it puts nothing more.
    fn has_left(&self, rank: Rank) -> bool;
}

/// See this module.
#[derive(Debug)]
pub(crate) struct Exchange {
    me: u32,
    nodes: u32,
    route: Route,
    /// What ranks here wait for.
    fetches: BTreeMap<Rank, Fetch>,
    /// What is known of ranks of other nodes, and which version of it that is.
    known: BTreeMap<Rank, (u64, Box<[u8]>)>,
    known_bytes: usize,
    /// Ranks of other nodes from which nothing comes, and why.
    gone: BTreeMap<Rank, Status>,
    /// Nodes that have asked for cards of ranks here, and how they are to be written.
    askers: BTreeMap<Rank, BTreeMap<u32, Dialect>>,
    /// To be handed on: at most [`PMIX_PARCELS_BYTES_MAX`] bytes. Further ones are lost, as any may be.
    parcels: VecDeque<Outgoing>,
    parcels_bytes: usize,
}

/// What has come.
#[derive(Debug)]
pub(super) enum Heard {
    /// Nothing that anybody here waits for.
    Nothing,
    /// Something of a card.
    Card,
    /// A word of this node about a call.
    Call(u32, CallId, Word),
    /// Something that ranks here are to be told, or what this node was told of what it has said.
    Event(u32, Telling),
}

/// A card that is asked for.
#[derive(Debug)]
struct Fetch {
    owner: u32,
    dialect: Dialect,
    /// When its node was last heard of, or first asked, ns.
    heard_ns: u64,
    /// When to ask again, ns.
    again_ns: u64,
    /// Somebody has said since it was asked last that he waits.
    is_wanted: bool,
    /// How often it was asked since its node was last heard of.
    tries: u32,
    version: u64,
    pieces: BTreeMap<u32, Box<[u8]>>,
}

/// A parcel on its way.
#[derive(Debug)]
struct Outgoing {
    /// Who gets it next.
    hop: Hop,
    body: Vec<u8>,
}

impl Exchange {
    /// For node `me` of `nodes`.
    pub(crate) fn new(me: u32, nodes: u32) -> Self {
        Self {
            me,
            nodes,
            route: Route::new(me, nodes),
            fetches: BTreeMap::new(),
            known: BTreeMap::new(),
            known_bytes: 0,
            gone: BTreeMap::new(),
            askers: BTreeMap::new(),
            parcels: VecDeque::new(),
            parcels_bytes: 0,
        }
    }

    /// What it takes of the node's memory, about, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let coming = self.fetches.values().flat_map(|fetch| fetch.pieces.values()).map(|piece| piece.len());
        let askers = self.askers.values().map(BTreeMap::len).sum::<usize>();
        let things = self.fetches.len() + self.known.len() + self.gone.len() + askers + self.parcels.len();
        let bytes = self.known_bytes + self.parcels_bytes + self.route.memory_bytes();
        coming.sum::<usize>() + bytes + things * OVERHEAD_BYTES
    }

    /// What a rank of another node has put, as far as that is known, and which version of it that is.
    pub(crate) fn card(&self, rank: Rank) -> Option<(u64, &[u8])> {
        self.known.get(&rank).map(|(version, card)| (*version, &**card))
    }

    /// Why nothing more comes from a rank of another node, if that is so.
    pub(crate) fn why_nothing(&self, rank: Rank) -> Option<Status> {
        self.gone.get(&rank).copied()
    }

    /// A rank here asks once more: that a node was silent before is no answer to that.
    pub(crate) fn ask_anew(&mut self, rank: Rank) {
        if self.gone.get(&rank) == Some(&Status::UNREACHABLE) {
            self.gone.remove(&rank);
        }
    }

    /// A rank here waits for what a rank of node `owner` puts.
    pub(crate) fn want(&mut self, rank: Rank, owner: u32, dialect: Dialect, now_ns: u64) {
        if self.route.is_gone(owner) {
            self.gone.insert(rank, Status::UNREACHABLE);
            return;
        }
        if let Some(fetch) = self.fetches.get_mut(&rank) {
            fetch.is_wanted = true;
            return;
        }
        let again_ns = now_ns.saturating_add(PMI_ASK_NS);
        let pieces = BTreeMap::new();
        let fetch = Fetch { owner, dialect, heard_ns: now_ns, again_ns, is_wanted: true, tries: 0, version: 0, pieces };
        self.gone.remove(&rank);
        self.fetches.insert(rank, fetch);
        self.ask(owner, rank, dialect, 0);
    }

    /// A node is gone: of its ranks there is what is known of them, and nothing more. What others are asked for may
    /// have been lost with it on its way, and is asked for again: they have as much time to answer as before.
    pub(crate) fn node_lost(&mut self, node: u32, now_ns: u64) {
        self.route.lose(node);
        self.parcels.retain(|parcel| parcel.hop.peer != node);
        self.parcels_bytes = self.parcels.iter().map(|parcel| parcel.body.len()).sum();
        let of_node = |fetch: &Fetch| fetch.owner == node;
        self.gone
            .extend(self.fetches.iter().filter(|(_, it)| of_node(it)).map(|(rank, _)| (*rank, Status::UNREACHABLE)));
        self.fetches.retain(|_, fetch| !of_node(fetch));
        for fetch in self.fetches.values_mut() {
            (fetch.heard_ns, fetch.again_ns, fetch.is_wanted) = (now_ns, now_ns, true);
        }
        for askers in self.askers.values_mut() {
            askers.remove(&node);
        }
    }

    /// A rank of this node has put more.
    pub(crate) fn committed(&mut self, rank: Rank) {
        let askers = self.askers.get(&rank).map(|askers| askers.keys().copied().collect::<Vec<_>>());
        for asker in askers.unwrap_or_default() {
            self.post(asker, rank, Says::News);
        }
    }

    /// A rank of this node puts nothing more. Who has asked is told what it has put at last, so that he need not ask
    /// once more.
    pub(crate) fn left(&mut self, rank: Rank, own: &dyn Own) {
        for (asker, dialect) in self.askers.remove(&rank).unwrap_or_default() {
            self.answer((asker, dialect, 0), rank, own.card(rank, dialect), true);
        }
    }

    fn ask(&mut self, owner: u32, rank: Rank, dialect: Dialect, tries: u32) {
        self.send((owner, tries), About::Card(rank, Says::Wants(dialect, tries)));
    }

    fn post(&mut self, to: u32, rank: Rank, says: Says) {
        self.send((to, 0), About::Card(rank, says));
    }

    /// Says something to another node about a call.
    pub(super) fn say(&mut self, to: u32, call: CallId, word: Word) {
        self.send((to, 0), About::Call(call, word));
    }

    /// Says something to another node about what ranks are to be told; on another way each time it is tried.
    pub(super) fn tell(&mut self, to: u32, tries: u32, telling: Telling) {
        self.send((to, tries), About::Event(telling));
    }

    fn send(&mut self, (to, tries): (u32, u32), about: About) {
        if let Ok(body) = (Parcel { from: self.me, to, about }).encode() {
            self.put(self.route.detour(to, tries), body);
        }
    }

    fn put(&mut self, hop: Option<Hop>, body: Vec<u8>) {
        let Some(hop) = hop else { return };
        if self.parcels_bytes + body.len() <= PMIX_PARCELS_BYTES_MAX {
            self.parcels_bytes += body.len();
            self.parcels.push_back(Outgoing { hop, body });
        }
    }

    /// Takes a parcel that came this way, for this node or for another.
    ///
    /// # Errors
    /// [`PeerError`]: it makes no sense.
    pub(super) fn handle(&mut self, (way, body): (Way, &[u8]), own: &dyn Own, now_ns: u64) -> Result<Heard, PeerError> {
        let Parcel { from, to, about } = Parcel::decode(body, self.nodes)?;
        if to != self.me {
            self.put(self.route.next(to, way), body.to_vec());
            return Ok(Heard::Nothing);
        }
        Ok(match about {
            About::Call(call, word) => Heard::Call(from, call, word),
            About::Event(telling) => Heard::Event(from, telling),
            About::Card(rank, Says::Wants(dialect, tries)) => {
                self.answer((from, dialect, tries), rank, own.card(rank, dialect), own.has_left(rank));
                Heard::Nothing
            }
            About::Card(rank, says) => {
                if self.hear(from, rank, says, now_ns) {
                    Heard::Card
                } else {
                    Heard::Nothing
                }
            }
        })
    }

    /// Hears of a rank of node `from`; whether ranks here that wait may find something now.
    fn hear(&mut self, from: u32, rank: Rank, says: Says, now_ns: u64) -> bool {
        let Some(fetch) = self.fetches.get_mut(&rank).filter(|fetch| fetch.owner == from) else { return false };
        (fetch.heard_ns, fetch.tries) = (now_ns, 0);
        match says {
            Says::Wants(..) | Says::Nothing => {}
            Says::News => {
                let dialect = fetch.dialect;
                self.ask(from, rank, dialect, 0);
            }
            Says::Gone => {
                self.fetches.remove(&rank);
                self.gone.insert(rank, Status::NOT_FOUND);
                return true;
            }
            Says::Piece { version, number, count, bytes } => {
                if fetch.version != version {
                    (fetch.version, fetch.pieces) = (version, BTreeMap::new());
                }
                fetch.pieces.insert(number, bytes);
                if fetch.pieces.len() == count as usize {
                    let whole: Vec<u8> = core::mem::take(&mut fetch.pieces).into_values().flatten().collect();
                    self.learn(rank, version, whole.into());
                    return true;
                }
            }
        }
        false
    }

    fn answer(
        &mut self,
        (to, dialect, tries): (u32, Dialect, u32),
        rank: Rank,
        card: Result<Option<(u64, Vec<u8>)>, Status>,
        is_last: bool,
    ) {
        let post = |here: &mut Self, says| here.send((to, tries), About::Card(rank, says));
        match card {
            Err(_) => return post(self, Says::Gone),
            Ok(None) => post(self, Says::Nothing),
            Ok(Some((version, stream))) => {
                // An empty card has one piece, which is empty.
                let pieces: Vec<&[u8]> = stream.chunks(PMIX_PIECE_BYTES_MAX).collect();
                let pieces = if pieces.is_empty() { Vec::from([&[][..]]) } else { pieces };
                let count = (pieces.len() as u32).min(PIECES_MAX);
                for (piece, number) in pieces.into_iter().zip(0..count) {
                    post(self, Says::Piece { version, number, count, bytes: piece.into() });
                }
            }
        }
        if is_last {
            post(self, Says::Gone);
        } else {
            self.askers.entry(rank).or_default().insert(to, dialect);
        }
    }

    /// What is known of others has room for this beside what was learnt last. What comes late is forgotten.
    pub(super) fn learn(&mut self, rank: Rank, version: u64, card: Box<[u8]>) {
        if self.known.get(&rank).is_some_and(|(known, _)| *known > version) {
            return;
        }
        if let Some((_, before)) = self.known.remove(&rank) {
            self.known_bytes -= before.len();
        }
        while self.known_bytes + card.len() > PMIX_KNOWN_BYTES_MAX
            && let Some((_, (_, forgotten))) = self.known.pop_first()
        {
            self.known_bytes -= forgotten.len();
        }
        self.known_bytes += card.len();
        self.known.insert(rank, (version, card));
    }

    /// Whether there is a parcel for a node.
    pub(crate) fn has_output(&self, peer: u32) -> bool {
        self.parcels.iter().any(|parcel| parcel.hop.peer == peer)
    }

    /// The next parcel for a node: its way, and the body of the frame.
    pub(crate) fn poll_transmit(&mut self, peer: u32) -> Option<(Hop, Vec<u8>)> {
        let place = self.parcels.iter().position(|parcel| parcel.hop.peer == peer)?;
        let Outgoing { hop, body } = self.parcels.remove(place)?;
        self.parcels_bytes -= body.len();
        Some((hop, body))
    }

    /// When [`Self::handle_timeout`] wants to be called, ns.
    pub(crate) fn poll_timeout(&self) -> Option<u64> {
        self.fetches.values().map(|fetch| fetch.again_ns.min(fetch.heard_ns.saturating_add(PMI_SILENCE_NS))).min()
    }

    /// Says what time it is, and hears whether ranks here that wait wait in vain now.
    pub(crate) fn handle_timeout(&mut self, now_ns: u64) -> bool {
        let silent = |fetch: &Fetch| now_ns >= fetch.heard_ns.saturating_add(PMI_SILENCE_NS);
        let lost: Vec<Rank> = self.fetches.iter().filter(|(_, fetch)| silent(fetch)).map(|(rank, _)| *rank).collect();
        for rank in &lost {
            self.fetches.remove(rank);
            self.gone.insert(*rank, Status::UNREACHABLE);
        }
        let due = |fetch: &Fetch| now_ns >= fetch.again_ns;
        self.fetches.retain(|_, fetch| !due(fetch) || fetch.is_wanted);
        let mut again = Vec::new();
        for (rank, fetch) in self.fetches.iter_mut().filter(|(_, fetch)| due(fetch)) {
            (fetch.again_ns, fetch.is_wanted) = (now_ns.saturating_add(PMI_ASK_NS), false);
            fetch.tries = fetch.tries.saturating_add(1);
            again.push((fetch.owner, *rank, fetch.dialect, fetch.tries));
        }
        for (owner, rank, dialect, tries) in again {
            self.ask(owner, rank, dialect, tries);
        }
        !lost.is_empty()
    }
}
