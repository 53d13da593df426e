//! What a node knows and does for PMIx clients of a job: cards, those of other nodes, and calls that ranks make
//! together.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::board::Board;
use super::call::{CallId, Places};
use super::cards::Cards;
use super::collective::{Collectives, CollectivesRecord, Outcome};
use super::dialect::Dialect;
use super::exchange::{Exchange, Heard, Own};
use super::notification::{Ending, Notification};
use super::relay::{Relay, RelayRecord};
use super::status::Status;
use crate::ids::Rank;
use crate::limits::{PMIX_GROUPS_MAX, PMIX_KEY_BYTES_MAX};
use crate::pmi::{NodeRanks, PeerError, Way};

/// What a piece of memory takes beyond its bytes, about.
const OVERHEAD_BYTES: usize = 128;

/// See this module.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) cards: Cards,
    pub(crate) exchange: Exchange,
    pub(crate) collectives: Collectives,
    /// What ranks here are to be told.
    pub(crate) board: Board,
    relay: Relay,
    /// Ranks whose ends those here were told of: once, whoever says so next, and whatever else is said of their node.
    ended: BTreeSet<Rank>,
    /// Groups that ranks here are members of, and all of their members, in order.
    groups: BTreeMap<Box<[u8]>, Box<[Rank]>>,
    /// Which ranks want to hear when, ns.
    alarms: BTreeMap<Rank, u64>,
}

/// What a parcel has brought.
#[derive(Debug, Default)]
pub(crate) struct Brought {
    /// Ranks here that may find something now.
    pub(crate) for_ranks: Vec<Rank>,
    /// A rank of another node that has ended, and how.
    pub(crate) ended: Option<(Rank, Ending)>,
}

/// A desk for a checkpoint.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct DeskRecord {
    cards: Cards,
    collectives: CollectivesRecord,
    board: Board,
    relay: RelayRecord,
    groups: BTreeMap<Box<[u8]>, Box<[Rank]>>,
}

impl DeskRecord {
    /// Whether it is of these ranks in a job of so many nodes, and within the limits.
    pub(crate) fn is_of(&self, here: NodeRanks, nodes: u32) -> bool {
        self.cards.is_of(here)
            && self.collectives.is_within_limits(nodes)
            && self.board.is_of(here, nodes)
            && self.relay.is_within_limits(nodes)
            && self.groups.len() <= PMIX_GROUPS_MAX
            && self.groups.keys().all(|name| name.len() <= PMIX_KEY_BYTES_MAX)
    }
}

impl Desk {
    /// Of node `me` of `nodes`, which goes on from this.
    pub(crate) fn new(record: DeskRecord, me: u32, nodes: u32) -> Self {
        let DeskRecord { cards, collectives, board, relay, groups } = record;
        let (exchange, alarms, ended) = (Exchange::new(me, nodes), BTreeMap::new(), BTreeSet::new());
        let (collectives, relay) = (Collectives::again(me, collectives), Relay::new(me, relay));
        Self { cards, exchange, collectives, board, relay, ended, groups, alarms }
    }

    /// What is to be written down. Nothing happens to it until [`Self::go_on`].
    pub(crate) fn record(&mut self) -> DeskRecord {
        self.collectives.hold();
        let (cards, groups, board) = (self.cards.clone(), self.groups.clone(), self.board.clone());
        DeskRecord { cards, collectives: self.collectives.record(), board, relay: self.relay.record(), groups }
    }

    /// The ranks run again. For these of them something has come.
    pub(crate) fn go_on(&mut self, places: &dyn Places, now_ns: u64) -> Vec<Rank> {
        self.collectives.go_on(places, now_ns);
        self.relay.go_on(places, now_ns);
        self.pass_words();
        let mut ranks = self.collectives.take_released();
        ranks.extend(self.board.go_on(now_ns));
        ranks
    }

    /// What it takes of the node's memory, about, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let names = self.groups.keys().map(|name| name.len() + OVERHEAD_BYTES).sum::<usize>();
        let groups = names + self.groups.values().map(|members| size_of_val(&**members)).sum::<usize>();
        let ended = self.ended.len() * size_of::<[Rank; 2]>();
        let told = self.board.memory_bytes() + self.relay.memory_bytes() + ended;
        self.cards.memory_bytes() + self.exchange.memory_bytes() + self.collectives.memory_bytes() + told + groups
    }

    /// Whether other nodes have what they are to tell their ranks.
    pub(crate) fn is_settled(&self) -> bool {
        self.relay.is_settled()
    }

    /// Ranks of this node and of these others are to be told something. Those here hear of it now.
    pub(crate) fn notify(
        &mut self,
        notification: Notification,
        nodes: impl Iterator<Item = u32>,
        (here, places): (NodeRanks, &dyn Places),
        now_ns: u64,
    ) -> Vec<Rank> {
        self.relay.tell(&notification, nodes, places, now_ns);
        self.pass_words();
        self.post(notification, (here, places), now_ns)
    }

    /// Ranks here are to be told something, unless it is an end that they were told of: its node may be found to be
    /// gone after that, or before that comes.
    fn post(&mut self, notification: Notification, (here, places): (NodeRanks, &dyn Places), now_ns: u64) -> Vec<Rank> {
        let ended = notification.rank_that_ended().filter(|(_, how)| !matches!(how, Ending::Abort(_)));
        let is_known = ended.is_some_and(|(rank, _)| places.node_of(rank).is_some() && !self.ended.insert(rank));
        if is_known { Vec::new() } else { self.board.post(notification, here, now_ns) }
    }

    /// Whether a rank may have others told something now.
    pub(crate) fn may_notify(&self) -> bool {
        self.relay.has_room()
    }

    fn pass_words(&mut self) {
        for (to, call, word) in self.collectives.take_words() {
            self.exchange.say(to, call, word);
        }
        for (to, tries, telling) in self.relay.take_words() {
            self.exchange.tell(to, tries, telling);
        }
    }

    /// A rank of this node puts nothing more.
    pub(crate) fn left(&mut self, rank: Rank, places: &dyn Places, now_ns: u64) {
        self.exchange.left(rank, &OwnCards { cards: &self.cards, places });
        self.collectives.left(rank, places, now_ns);
        self.board.left(rank);
        self.pass_words();
    }

    /// See [`Collectives::join`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn join(
        &mut self,
        call: (Rank, CallId),
        members: &[Rank],
        part: &[u8],
        places: &dyn Places,
        now_ns: u64,
    ) -> Result<(), Status> {
        let joined = self.collectives.join(call, members, part, places, now_ns);
        self.pass_words();
        joined
    }

    /// What a rank brings to a call that collects: all that it has put for others elsewhere.
    ///
    /// # Errors
    /// [`Status::NOT_SUPPORTED`]: it has put that otherwise.
    pub(crate) fn part(&self, rank: Rank, dialect: Dialect) -> Result<Vec<u8>, Status> {
        let (version, stream) = self.cards.far(rank, dialect)?.unwrap_or_default();
        let mut part = rank.0.to_le_bytes().to_vec();
        part.extend_from_slice(&version.to_le_bytes());
        part.extend_from_slice(&(stream.len() as u32).to_le_bytes());
        part.extend_from_slice(&stream);
        Ok(part)
    }

    /// The members of a group that a rank here is one of.
    pub(crate) fn group(&self, name: &[u8]) -> Option<&[Rank]> {
        self.groups.get(name).map(|members| &**members)
    }

    /// A group is there from now on, with these members.
    ///
    /// # Errors
    /// [`Status::OUT_OF_RESOURCE`]: there are too many.
    pub(crate) fn make_group(&mut self, name: &[u8], members: &[Rank]) -> Result<(), Status> {
        if self.groups.len() >= PMIX_GROUPS_MAX && !self.groups.contains_key(name) {
            return Err(Status::OUT_OF_RESOURCE);
        }
        self.groups.insert(name.into(), members.into());
        Ok(())
    }

    /// It is not.
    pub(crate) fn remove_group(&mut self, name: &[u8]) {
        self.groups.remove(name);
    }

    /// What came of a rank's call, if it is over, and a number that no other call of the job has. What others have
    /// brought is known from then on.
    pub(crate) fn take_outcome(&mut self, rank: Rank, call: CallId, here: NodeRanks) -> Option<(Status, u64)> {
        let Outcome { status, serial, parts } = self.collectives.take(rank, call)?;
        let mut rest = &parts[..];
        while let Some((rank, version, stream)) = next_part(&mut rest) {
            if !here.has(rank) {
                self.exchange.learn(rank, version, stream.into());
            }
        }
        Some((status, serial))
    }

    /// Takes a parcel of another node that came this way.
    ///
    /// # Errors
    /// [`PeerError`]: it makes no sense.
    pub(crate) fn handle_parcel(
        &mut self,
        parcel: (Way, &[u8]),
        (here, places): (NodeRanks, &dyn Places),
        now_ns: u64,
    ) -> Result<Brought, PeerError> {
        let own = OwnCards { cards: &self.cards, places };
        match self.exchange.handle(parcel, &own, now_ns)? {
            Heard::Nothing => Ok(Brought::default()),
            Heard::Card => Ok(Brought { for_ranks: self.alarms.keys().copied().collect(), ended: None }),
            Heard::Call(from, call, word) => {
                self.collectives.handle(from, call, word, places, now_ns);
                self.pass_words();
                Ok(Brought { for_ranks: self.collectives.take_released(), ended: None })
            }
            Heard::Event(from, telling) => {
                let notification = self.relay.handle(from, telling, now_ns);
                self.pass_words();
                let ended = notification.as_ref().and_then(Notification::rank_that_ended);
                let for_ranks = notification.map(|it| self.post(it, (here, places), now_ns)).unwrap_or_default();
                Ok(Brought { for_ranks, ended })
            }
        }
    }

    /// A node is gone. For these ranks here something has come.
    pub(crate) fn node_lost(&mut self, node: u32, places: &dyn Places, now_ns: u64) -> Vec<Rank> {
        self.exchange.node_lost(node, now_ns);
        self.relay.node_lost(node, now_ns);
        self.collectives.node_lost(node, places, now_ns);
        self.pass_words();
        // Who waits for a card wants to be woken in time, and finds out now.
        let mut ranks: Vec<Rank> = self.alarms.keys().copied().collect();
        ranks.extend(self.collectives.take_released());
        ranks
    }

    /// Ranks for which something has come.
    pub(crate) fn take_released(&mut self) -> Vec<Rank> {
        self.collectives.take_released()
    }

    /// A rank wants to hear at this time, ns, or not any more.
    pub(crate) fn wake_at(&mut self, rank: Rank, at_ns: Option<u64>) {
        match at_ns {
            Some(at_ns) => self.alarms.insert(rank, at_ns),
            None => self.alarms.remove(&rank),
        };
    }

    /// When something is to be done, ns.
    pub(crate) fn poll_timeout(&self) -> Option<u64> {
        let own = [self.exchange.poll_timeout(), self.collectives.poll_timeout(), self.relay.poll_timeout()];
        let own = own.into_iter().flatten();
        self.alarms.values().copied().chain(own).min()
    }

    /// Says what time it is, and hears which ranks may find something.
    pub(crate) fn handle_timeout(&mut self, places: &dyn Places, now_ns: u64) -> Vec<Rank> {
        let is_lost = self.exchange.handle_timeout(now_ns);
        self.collectives.handle_timeout(places, now_ns);
        self.relay.handle_timeout(places, now_ns);
        self.pass_words();
        let mut ranks: Vec<Rank> =
            self.alarms.iter().filter(|(_, at_ns)| is_lost || **at_ns <= now_ns).map(|(rank, _)| *rank).collect();
        self.alarms.retain(|_, at_ns| *at_ns > now_ns);
        ranks.extend(self.collectives.take_released());
        ranks
    }
}

/// The next rank, and what it has brought in which version.
fn next_part<'a>(rest: &mut &'a [u8]) -> Option<(Rank, u64, &'a [u8])> {
    let (rank, behind) = rest.split_first_chunk()?;
    let (version, behind) = behind.split_first_chunk()?;
    let (length, behind) = behind.split_first_chunk()?;
    let (stream, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = behind;
    Some((Rank(u32::from_le_bytes(*rank)), u64::from_le_bytes(*version), stream))
}

/// What a node says to others of its own ranks.
struct OwnCards<'a> {
    cards: &'a Cards,
    places: &'a dyn Places,
}

impl Own for OwnCards<'_> {
    fn card(&self, rank: Rank, dialect: Dialect) -> Result<Option<(u64, Vec<u8>)>, Status> {
        self.cards.far(rank, dialect)
    }

    fn has_left(&self, rank: Rank) -> bool {
        self.places.has_left(rank)
    }
}
