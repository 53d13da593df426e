//! Names that ranks publish, and ports to be found under them (`MPI_Publish_name`), for all ranks of a job.
//!
//! **Where they are.** One node of the job keeps a name; which one follows from the name ([`keeper`]). It does what a
//! rank wants with it, wherever the rank is, in the order in which it hears of it. So it is with keys that barriers do
//! not bring ([`super::modex`]).
//!
//! **Letters.** A node asks the keeper in a letter and is answered in another. Letters go where barriers go: a node
//! hands one on to its successor ([`Route`]) that is as near to the addressee as one can be without being behind it. So
//! it arrives after `⌈log₂ n⌉` nodes at most, and no node of a job talks to more others than it does anyhow.
//!
//! **Loss.** What is handed on is not kept, and may be lost with a connection, or with a node of which nobody knows yet
//! that it is gone. Who asked asks again, each time by another way, until it is answered or [`PMI_SILENCE_NS`] have
//! passed, also since a node was found to be gone by which letters may have gone: then what is wanted of that keeper is
//! refused. A node has one question at a time on its way to a keeper, and numbers them; the keeper knows of each node
//! the last change that it made for it and what came of that. So a change is made once however often it is asked for.
//!
//! **Checkpoints.** Who has written down what it keeps does nothing for anybody until the ranks run again, which is
//! when all nodes have ([`Names::hold`]). So nobody is written down who has heard of a change that is written down
//! nowhere; and what is on its way then is asked for again. Nor does a node for which that is to be read again do
//! anything before it is.

use alloc::boxed::Box;
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::frame::PeerError;
use super::letter::{Answer, Letter, Refusal, Says, Verb, Wish};
use super::modex;
use super::placement::Placement;
use super::route::{Hop, Route, Way};
use super::shelf::{OVERHEAD_BYTES, Shelf, ShelfRecord};
use crate::ids::Rank;
use crate::limits::{PMI_ASK_NS, PMI_ASKS_MAX, PMI_LETTERS_BYTES_MAX, PMI_SILENCE_NS};

/// The node that does what is wanted with a name or a key.
fn keeper(wish: &Wish, placement: &Placement) -> u32 {
    if wish.verb.is_of_keys() {
        modex::home(&wish.name, placement)
    } else {
        modex::spread(&wish.name, placement.nodes())
    }
}

/// A node's part in the names of its job.
#[derive(Debug)]
pub(super) struct Names {
    me: u32,
    placement: Placement,
    route: Route,
    /// Those that this node keeps.
    shelf: Shelf,
    /// What ranks here want, by number: at most [`PMI_ASKS_MAX`] of each.
    asks: BTreeMap<u64, Ask>,
    /// The number of the last one.
    number: u64,
    /// Which of them each keeper is being asked for.
    under_way: BTreeMap<u32, UnderWay>,
    /// To be handed on: at most [`PMI_LETTERS_BYTES_MAX`] bytes. Further ones are lost, as any may be.
    letters: VecDeque<Outgoing>,
    letters_bytes: usize,
    /// Ranks for which something has come.
    answered: Vec<Rank>,
    /// There is memory for more.
    has_room: bool,
    /// What is kept was written down, and nothing is to happen to it.
    is_held: bool,
}

/// What a rank wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Ask {
    rank: Rank,
    wish: Wish,
    answer: Option<Answer>,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    number: u64,
    /// When it was asked first, and when to ask again, ns.
    since_ns: u64,
    again_ns: u64,
    /// How often it was asked again.
    tries: u32,
}

/// A letter on its way.
#[derive(Debug)]
struct Outgoing {
    /// Who gets it next.
    hop: Hop,
    body: Vec<u8>,
}

/// The value of a key, which was put before this barrier.
#[derive(Debug)]
pub(super) struct KnownValue {
    pub(super) key: Box<[u8]>,
    pub(super) generation: u64,
    pub(super) value: Box<[u8]>,
}

/// What a node knows of names, for a checkpoint.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct NamesRecord {
    shelf: ShelfRecord,
    asks: Vec<(u64, Ask)>,
    number: u64,
}

impl NamesRecord {
    /// Whether it is of node `me` of these with these ranks, and within the limits.
    pub(super) fn is_of(&self, me: u32, placement: &Placement, is_here: impl Fn(Rank) -> bool) -> bool {
        let is_ask = |(number, ask): &(u64, Ask)| {
            let of_rank = self.asks.iter().filter(|(_, other)| other.rank == ask.rank).count();
            *number <= self.number
                && is_here(ask.rank)
                && of_rank <= PMI_ASKS_MAX
                && ask.wish.is_within_limits()
                && ask.answer.as_ref().is_none_or(Answer::is_within_limits)
        };
        let nodes = placement.nodes();
        let (keeps, is_home) =
            (|name: &[u8]| modex::spread(name, nodes) == me, |key: &[u8]| modex::home(key, placement) == me);
        self.shelf.is_of(nodes, keeps, is_home) && self.asks.iter().all(is_ask)
    }
}

impl Names {
    /// For node `me` of these.
    pub(super) fn new(me: u32, placement: &Placement) -> Self {
        Self {
            me,
            placement: placement.clone(),
            route: Route::new(me, placement.nodes()),
            shelf: Shelf::default(),
            asks: BTreeMap::new(),
            number: 0,
            under_way: BTreeMap::new(),
            letters: VecDeque::new(),
            letters_bytes: 0,
            answered: Vec::new(),
            has_room: true,
            is_held: false,
        }
    }

    /// For a checkpoint.
    pub(super) fn record(&self) -> NamesRecord {
        NamesRecord {
            shelf: self.shelf.record(),
            asks: self.asks.iter().map(|(number, ask)| (*number, ask.clone())).collect(),
            number: self.number,
        }
    }

    /// As it was written down. Then see [`Self::advance`].
    pub(super) fn again(me: u32, placement: &Placement, record: NamesRecord) -> Self {
        let NamesRecord { shelf, asks, number } = record;
        Self {
            shelf: Shelf::again(shelf),
            answered: asks.iter().filter(|(_, ask)| ask.answer.is_some()).map(|(_, ask)| ask.rank).collect(),
            asks: asks.into_iter().collect(),
            number,
            ..Self::new(me, placement)
        }
    }

    /// What it is was written down, and nothing is to happen until [`Self::go_on`]; or it is to be made again from
    /// that, and nothing is to happen before.
    pub(super) fn hold(&mut self) {
        self.is_held = true;
    }

    /// The ranks run again. Then see [`Self::advance`].
    pub(super) fn go_on(&mut self) {
        self.is_held = false;
    }

    /// Whether there is memory for more.
    pub(super) fn set_room(&mut self, has_room: bool) {
        self.has_room = has_room;
    }

    /// What it takes of the node's memory, about, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let asks = self.asks.values().map(|ask| ask.wish.bytes() + ask.answer.as_ref().map_or(0, Answer::bytes));
        let pieces = 2 * self.asks.len() + self.letters.len();
        let letters = self.letters_bytes + self.route.memory_bytes();
        self.shelf.memory_bytes() + asks.sum::<usize>() + letters + pieces * OVERHEAD_BYTES
    }

    /// A rank wants something. Returns the number under which the answer is to be had ([`Self::take`]), or why that is
    /// not asked for. Then see [`Self::advance`].
    pub(super) fn ask(&mut self, rank: Rank, wish: Wish) -> Result<u64, &'static str> {
        if self.asks.values().filter(|ask| ask.rank == rank).count() >= PMI_ASKS_MAX {
            return Err("too_many_wait");
        }
        if !self.has_room {
            return Err(Refusal::NoRoom.word());
        }
        self.number += 1;
        self.asks.insert(self.number, Ask { rank, wish, answer: None });
        Ok(self.number)
    }

    /// The answer, if it has come.
    pub(super) fn take(&mut self, number: u64) -> Option<Answer> {
        // What nobody knows of is answered, too, so that nobody waits for it.
        let Some(ask) = self.asks.get(&number) else { return Some(Answer::No(Refusal::NoAnswer)) };
        ask.answer.as_ref()?;
        self.asks.remove(&number)?.answer
    }

    /// The value of a key stays what it is: whoever else here waits for it has it, and it is asked for no more. Then
    /// see [`Self::advance`].
    pub(super) fn is_known(&mut self, KnownValue { key, generation, value }: &KnownValue) {
        let waits = |ask: &Ask| ask.answer.is_none() && ask.wish.verb == Verb::Get && ask.wish.name == *key;
        let same: Vec<u64> = self.asks.iter().filter(|(_, ask)| waits(ask)).map(|(number, _)| *number).collect();
        for number in same {
            self.answer(number, Answer::Value { generation: *generation, value: value.clone() });
        }
    }

    /// A rank has left and wants nothing any more.
    pub(super) fn forget(&mut self, rank: Rank) {
        self.asks.retain(|_, ask| ask.rank != rank);
        let asks = &self.asks;
        self.under_way.retain(|_, under_way| asks.contains_key(&under_way.number));
    }

    /// Ranks for which an answer has come.
    pub(super) fn take_answered(&mut self) -> Vec<Rank> {
        core::mem::take(&mut self.answered)
    }

    /// Asks, or does, what ranks here want next.
    pub(super) fn advance(&mut self, now_ns: u64) {
        // A question that was not written down as one that was asked must not be answered.
        if self.is_held {
            return;
        }
        let waiting: Vec<(u64, u32)> = self
            .asks
            .iter()
            .filter(|(_, ask)| ask.answer.is_none())
            .map(|(number, ask)| (*number, keeper(&ask.wish, &self.placement)))
            .collect();
        for (number, keeper) in waiting {
            if keeper == self.me {
                if let Some(wish) = self.asks.get(&number).map(|ask| ask.wish.clone()) {
                    let answer = self.shelf.obey(self.me, &wish, self.has_room);
                    self.answer(number, answer);
                }
            } else if self.route.is_gone(keeper) {
                self.answer(number, Answer::No(Refusal::NoAnswer));
            } else if let Entry::Vacant(free) = self.under_way.entry(keeper) {
                let again_ns = now_ns.saturating_add(PMI_ASK_NS);
                let way = *free.insert(UnderWay { number, since_ns: now_ns, again_ns, tries: 0 });
                self.write_to(keeper, way);
            }
        }
    }

    fn answer(&mut self, number: u64, answer: Answer) {
        if let Some(ask) = self.asks.get_mut(&number) {
            ask.answer = Some(answer);
            self.answered.push(ask.rank);
        }
    }

    /// Asks a keeper.
    fn write_to(&mut self, keeper: u32, UnderWay { number, tries, .. }: UnderWay) {
        let Some(ask) = self.asks.get(&number) else { return };
        self.post(&Letter { from: self.me, to: keeper, number, tries, says: Says::Asks(ask.wish.clone()) });
    }

    fn post(&mut self, letter: &Letter) {
        if let Ok(body) = letter.encode() {
            self.put(self.route.detour(letter.to, letter.tries), body);
        }
    }

    fn put(&mut self, hop: Option<Hop>, body: Vec<u8>) {
        let Some(hop) = hop else { return };
        if self.has_room && self.letters_bytes + body.len() <= PMI_LETTERS_BYTES_MAX {
            self.letters_bytes += body.len();
            self.letters.push_back(Outgoing { hop, body });
        }
    }

    /// Takes a letter that came this way, for this node or for another. The value of a key, if it brings one that
    /// somebody here waits for. Then see [`Self::advance`].
    ///
    /// # Errors
    /// [`PeerError`]: it makes no sense.
    pub(super) fn handle(&mut self, way: Way, body: &[u8]) -> Result<Option<KnownValue>, PeerError> {
        let letter = Letter::decode(body, self.placement.nodes())?;
        if letter.to != self.me {
            self.put(self.route.next(letter.to, way), body.to_vec());
            return Ok(None);
        }
        let Letter { from, number, tries, says, .. } = letter;
        match says {
            Says::Asks(_) if self.is_held => {}
            Says::Asks(wish) => {
                if keeper(&wish, &self.placement) != self.me {
                    return Err(PeerError::Nonsense("about a name that another node keeps"));
                }
                if let Some(answer) = self.shelf.obey_once((from, number), &wish, self.has_room) {
                    let says = Says::Answers(answer);
                    self.post(&Letter { from: self.me, to: from, number, tries, says });
                }
            }
            Says::Answers(answer) => {
                if self.under_way.get(&from).is_some_and(|under_way| under_way.number == number) {
                    self.under_way.remove(&from);
                    let known = self.value_of(number, &answer);
                    self.answer(number, answer);
                    return Ok(known);
                }
            }
        }
        Ok(None)
    }

    /// What an answer says of a key.
    fn value_of(&self, number: u64, answer: &Answer) -> Option<KnownValue> {
        let Answer::Value { generation, value } = answer else { return None };
        let key = self.asks.get(&number)?.wish.name.clone();
        Some(KnownValue { key, generation: *generation, value: value.clone() })
    }

    /// Whether there is a letter for a node.
    pub(super) fn has_output(&self, peer: u32) -> bool {
        self.letters.iter().any(|letter| letter.hop.peer == peer)
    }

    /// The next letter for a node: its way, and the body of the frame.
    pub(super) fn poll_transmit(&mut self, peer: u32) -> Option<(Hop, Vec<u8>)> {
        let place = self.letters.iter().position(|letter| letter.hop.peer == peer)?;
        let Outgoing { hop, body } = self.letters.remove(place)?;
        self.letters_bytes -= body.len();
        Some((hop, body))
    }

    /// When [`Self::handle_timeout`] wants to be called, ns.
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        let next = |way: &UnderWay| way.again_ns.min(way.since_ns.saturating_add(PMI_SILENCE_NS));
        self.under_way.values().map(next).min()
    }

    /// Says what time it is. Then see [`Self::advance`].
    pub(super) fn handle_timeout(&mut self, now_ns: u64) {
        let due: Vec<(u32, UnderWay)> = self.under_way.iter().map(|(keeper, way)| (*keeper, *way)).collect();
        for (keeper, way) in due {
            if now_ns >= way.since_ns.saturating_add(PMI_SILENCE_NS) {
                self.give_up(keeper);
            } else if now_ns >= way.again_ns {
                let again_ns = now_ns.saturating_add(PMI_ASK_NS);
                let way = UnderWay { again_ns, tries: way.tries.saturating_add(1), ..way };
                self.under_way.insert(keeper, way);
                self.write_to(keeper, way);
            }
        }
    }

    /// Whether a node is known to be gone.
    pub(super) fn is_gone(&self, node: u32) -> bool {
        self.route.is_gone(node)
    }

    /// A node is gone, with the names that it kept. What others are asked for may have been lost with it on its way,
    /// and is asked for again: they have as much time to answer as before. Then see [`Self::advance`].
    pub(super) fn node_lost(&mut self, node: u32, now_ns: u64) {
        self.route.lose(node);
        self.letters.retain(|letter| letter.hop.peer != node);
        self.letters_bytes = self.letters.iter().map(|letter| letter.body.len()).sum();
        self.give_up(node);
        self.under_way.values_mut().for_each(|way| (way.since_ns, way.again_ns) = (now_ns, now_ns));
    }

    /// Nobody need wait for a node that does not answer.
    fn give_up(&mut self, silent: u32) {
        self.under_way.remove(&silent);
        let placement = &self.placement;
        let wants = |ask: &Ask| ask.answer.is_none() && keeper(&ask.wish, placement) == silent;
        let hopeless: Vec<u64> = self.asks.iter().filter(|(_, ask)| wants(ask)).map(|(number, _)| *number).collect();
        for number in hopeless {
            self.answer(number, Answer::No(Refusal::NoAnswer));
        }
    }
}
