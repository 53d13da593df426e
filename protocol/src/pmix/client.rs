//! The conversation with one rank.
//!
//! Bytes that came from the rank go in by [`Client::handle_bytes`], in any split; the bytes to hand to it are
//! [`Client::transmit`]. Every call has a tag and an answer of its own, and a client of several threads makes more
//! calls before it has heard all answers: those that wait are noted here, and answered by [`Client::poll`].

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::dialect::Dialect;
use super::fences::{Fence, Together};
use super::handshake::Greeting;
use super::header::{self, Message, Messages};
use super::information::Facts;
use super::key;
use super::naming::NameCall;
use super::reader::{Process, Reader};
use super::request::{Buckets, Get, Request};
use super::status::Status;
use super::writer::Writer;
use crate::ids::Rank;
use crate::limits::{PMI_ANSWER_BYTES_MAX, PMI_ASK_NS, PMI_MESSAGE_BYTES_MAX, PMIX_KEY_BYTES_MAX, PMIX_WAITS_MAX};
use crate::pmi::Server;

/// Lower tags are not calls: nobody waits for an answer.
const FIRST_CALL_TAG: u32 = 100;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// See this module. It can be written down, and goes on from that.
#[derive(Debug, Serialize, Deserialize)]
pub struct Client {
    pub(super) rank: Rank,
    phase: Phase,
    messages: Messages,
    /// Fences of the whole job: the first one is entered, the others come after it.
    pub(super) fences: VecDeque<Fence>,
    /// Calls that it makes with a part of the job: of those that are the same, the first one is made.
    pub(super) calls: Vec<Together>,
    /// Calls about names.
    pub(super) names: Vec<NameCall>,
    /// Who waits for what others put, at most [`PMIX_WAITS_MAX`] with all the others.
    pub(super) gets: Vec<Awaited>,
    answers: Vec<u8>,
    /// Bytes of `answers` that are on their way.
    sent: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    /// It has not said who it is.
    Greeting,
    Speaking(Dialect),
    /// It has said its last words, and closes the connection.
    Finalized,
    /// Nothing more is said or heard.
    Over,
}

/// A key that a rank waits for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Awaited {
    tag: u32,
    of: Rank,
    /// If it is not said, whatever comes.
    key: Option<Box<[u8]>>,
    deadline_ns: Option<u64>,
}

impl Client {
    /// On a connection that the process of this rank has made.
    #[must_use]
    pub fn new(rank: Rank) -> Self {
        Self {
            rank,
            phase: Phase::Greeting,
            messages: Messages::default(),
            fences: VecDeque::new(),
            calls: Vec::new(),
            names: Vec::new(),
            gets: Vec::new(),
            answers: Vec::new(),
            sent: 0,
        }
    }

    /// Who speaks, once that has been said.
    #[must_use]
    pub fn rank(&self) -> Option<Rank> {
        matches!(self.phase, Phase::Speaking(_) | Phase::Finalized).then_some(self.rank)
    }

    /// Nothing more is said or heard: close the connection when [`Self::transmit`] is empty.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// What it takes of the memory beyond itself, about, bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let gets = self.gets.iter().map(|get| get.key.as_ref().map_or(0, |key| key.len()) + size_of_val(get));
        let others = self.calls.iter().map(Together::memory_bytes).chain(self.names.iter().map(NameCall::memory_bytes));
        self.messages.memory_bytes() + self.answers.capacity() + gets.chain(others).sum::<usize>()
    }

    /// Whether it is within the limits, if it was written down.
    #[must_use]
    pub fn is_within_limits(&self) -> bool {
        self.messages.is_within_limits() && self.sent <= self.answers.len() && self.waits() <= PMIX_WAITS_MAX
    }

    /// There is no memory for what it says or hears.
    pub fn out_of_memory(&mut self) {
        (self.phase, self.messages) = (Phase::Over, Messages::default());
        (self.answers, self.sent) = (Vec::new(), 0);
    }

    /// Takes what a rank said and returns how many bytes that were: fewer than there are while the answers to what it
    /// said before fill their buffer, [`PMI_ANSWER_BYTES_MAX`]; then the rank has to read first.
    pub fn handle_bytes(&mut self, bytes: &[u8], server: &mut Server, now_ns: u64) -> usize {
        let mut rest = bytes;
        while !rest.is_empty() && self.has_room() {
            match self.phase {
                // What a rank says after its last word is not heard.
                Phase::Finalized | Phase::Over => return bytes.len(),
                Phase::Greeting | Phase::Speaking(_) => {}
            }
            match self.messages.advance(&mut rest, self.phase == Phase::Greeting) {
                None => {}
                Some(Message::TooLong) => self.phase = Phase::Over,
                Some(Message::Whole { tag, body }) => match self.phase {
                    Phase::Speaking(dialect) if tag >= FIRST_CALL_TAG => {
                        self.hear(tag, Reader::new(&body, dialect), dialect, server, now_ns);
                    }
                    Phase::Speaking(_) => {}
                    _ => self.greet(&body, server),
                },
            }
        }
        self.wake_in_time(server, now_ns);
        bytes.len() - rest.len()
    }

    pub(super) fn has_room(&self) -> bool {
        self.transmit().len() < PMI_ANSWER_BYTES_MAX
    }

    /// Answers what it waits for, as far as that has come, or its time is up.
    pub fn poll(&mut self, server: &mut Server, now_ns: u64) {
        let Phase::Speaking(dialect) = self.phase else { return };
        self.go_on_with_fences(dialect, server, now_ns);
        self.go_on_with_names(dialect, server, now_ns);
        let mut waiting = core::mem::take(&mut self.gets);
        waiting.retain(|awaited| !self.answer_get(awaited, dialect, server, now_ns));
        for awaited in &waiting {
            server.want(awaited.of, dialect, now_ns);
        }
        self.gets = waiting;
        self.tell_events(dialect, server);
        self.wake_in_time(server, now_ns);
    }

    /// The bytes to hand to the rank next.
    #[must_use]
    pub fn transmit(&self) -> &[u8] {
        self.answers.get(self.sent..).unwrap_or_default()
    }

    /// The first `count` bytes of [`Self::transmit`] are handed over.
    pub fn consume(&mut self, count: usize) {
        self.sent += count.min(self.transmit().len());
        if self.sent == self.answers.len() {
            (self.answers, self.sent) = (Vec::new(), 0);
        }
    }

    /// Has [`Self::poll`] called when the first of those who wait has waited long enough, and when others of the node
    /// have said something.
    fn wake_in_time(&self, server: &mut Server, now_ns: u64) {
        let fences = self.fences.iter().filter(|fence| !fence.is_given_up).filter_map(|fence| fence.deadline_ns);
        let calls = self.calls.iter().filter(|call| !call.is_given_up).filter_map(|call| call.deadline_ns);
        let names = self.names.iter().flat_map(|call| [call.deadline_ns, call.again_ns]).flatten();
        let first = fences.chain(calls).chain(names).chain(self.gets.iter().filter_map(|get| get.deadline_ns)).min();
        // What is waited for from elsewhere is asked for again as long as somebody says that he waits.
        let renews = !self.gets.is_empty() && server.is_spread();
        let renews_ns = renews.then(|| now_ns.saturating_add(PMI_ASK_NS / 2));
        server.wake_at(self.rank, first.into_iter().chain(renews_ns).min());
        if !self.gets.is_empty() {
            server.await_others(self.rank);
        }
    }

    pub(super) fn say(&mut self, tag: u32, writer: &Writer) {
        header::append(&mut self.answers, tag, writer.bytes());
    }

    pub(super) fn say_status(&mut self, tag: u32, dialect: Dialect, status: Status) {
        let mut writer = Writer::new(dialect);
        self.say(tag, writer.status(status));
    }

    fn greet(&mut self, body: &[u8], server: &mut Server) {
        let greeted = Greeting::parse(body).and_then(|greeting| {
            let is_it = greeting.process == Process { space: server.space_name().as_bytes(), rank: self.rank.0 };
            let refused = if is_it { Status::EXISTS } else { Status::NOT_FOUND };
            if is_it && server.attach_again(self.rank) { Ok(greeting.dialect) } else { Err(refused) }
        });
        let status = greeted.err().unwrap_or(Status::SUCCESS);
        self.answers.extend_from_slice(&status.0.to_be_bytes());
        self.phase = match greeted {
            Err(_) => Phase::Over,
            Ok(dialect) => {
                // Its index among the clients.
                self.answers.extend_from_slice(&server.index_here(self.rank).to_be_bytes());
                Phase::Speaking(dialect)
            }
        };
    }

    fn hear(&mut self, tag: u32, call: Reader<'_>, dialect: Dialect, server: &mut Server, now_ns: u64) {
        let status = match Request::parse(call) {
            Err(status) => status,
            Ok(Request::Job) => {
                let answer = facts(server).of_job(dialect);
                return self.say(tag, &answer);
            }
            Ok(Request::Abort { status, message }) => {
                server.abort(self.rank, status, printable(message), now_ns);
                Status::SUCCESS
            }
            Ok(Request::Commit(buckets)) => self.commit(buckets, dialect, server),
            Ok(Request::Fence { members, collect, timeout_s }) => {
                let deadline_ns = timeout_s.map(|seconds| deadline_ns(now_ns, seconds));
                match self.members(&members, server) {
                    Ok(members) => {
                        self.begin_fence(tag, members, (collect, deadline_ns));
                        return self.go_on_with_fences(dialect, server, now_ns);
                    }
                    Err(status) => status,
                }
            }
            Ok(Request::Together { what, members, wants_number, timeout_s }) => {
                let deadline_ns = timeout_s.map(|seconds| deadline_ns(now_ns, seconds));
                match self.begin_together(tag, (what, wants_number), &members, deadline_ns, server) {
                    Ok(()) => return self.go_on_with_fences(dialect, server, now_ns),
                    Err(status) => status,
                }
            }
            Ok(Request::Named(named)) => match self.begin_naming(tag, &named, dialect, server, now_ns) {
                Ok(()) => return self.go_on_with_names(dialect, server, now_ns),
                Err(status) => status,
            },
            Ok(Request::Get(get)) => match self.get(tag, &get, dialect, server, now_ns) {
                Ok(()) => return,
                Err(status) => status,
            },
            Ok(Request::Finalize) => {
                self.phase = Phase::Finalized;
                server.finalize(self.rank, now_ns);
                Status::SUCCESS
            }
            Ok(Request::Register(codes)) => {
                let status = server.register(self.rank, &codes, now_ns).err().unwrap_or(Status::SUCCESS);
                self.say_status(tag, dialect, status);
                return self.tell_events(dialect, server);
            }
            Ok(Request::Query(queries)) => return self.answer_query(tag, &queries, dialect, server),
            Ok(Request::Deregister(codes)) => return server.deregister(self.rank, &codes),
            Ok(Request::Notify(notify)) => {
                self.notify(&notify, dialect, server, now_ns).err().unwrap_or(Status::SUCCESS)
            }
            Ok(Request::Spawn) => {
                server.refused_spawn(self.rank);
                Status::NOT_SUPPORTED
            }
            Ok(Request::Other) => Status::NOT_SUPPORTED,
        };
        self.say_status(tag, dialect, status);
    }

    fn commit(&self, buckets: Buckets<'_>, dialect: Dialect, server: &mut Server) -> Status {
        server.commit(self.rank, dialect, buckets).err().unwrap_or(Status::SUCCESS)
    }

    // What others have put.

    fn get(
        &mut self,
        tag: u32,
        get: &Get<'_>,
        dialect: Dialect,
        server: &mut Server,
        now_ns: u64,
    ) -> Result<(), Status> {
        if get.of.space != server.space_name().as_bytes() || get.of.rank >= server.size() {
            return Err(Status::NOT_FOUND);
        }
        if get.key.is_some_and(|key| key.len() > PMIX_KEY_BYTES_MAX) {
            return Err(Status::BAD_PARAM);
        }
        let is_reserved = get.key.is_some_and(|key| key.starts_with(key::RESERVED));
        let deadline_ns = get.timeout_s.map(|seconds| deadline_ns(now_ns, seconds));
        let awaited = Awaited { tag, of: Rank(get.of.rank), key: get.key.map(Box::from), deadline_ns };
        server.ask_anew(awaited.of);
        if self.answer_get(&awaited, dialect, server, now_ns) {
            return Ok(());
        }
        if is_reserved && !facts(server).is_told(get.of.rank) {
            let card = facts(server).of_rank(dialect, get.of.rank).ok_or(Status::NOT_FOUND)?;
            self.say_card(tag, dialect, card.bytes());
            return Ok(());
        }
        if is_reserved || get.immediate {
            return Err(Status::NOT_FOUND);
        }
        if self.waits() >= PMIX_WAITS_MAX {
            return Err(Status::OUT_OF_RESOURCE);
        }
        server.want(awaited.of, dialect, now_ns);
        self.gets.push(awaited);
        Ok(())
    }

    /// Whether there was an answer, and room for it.
    fn answer_get(&mut self, awaited: &Awaited, dialect: Dialect, server: &mut Server, now_ns: u64) -> bool {
        if !self.has_room() {
            return false;
        }
        let process = Process { space: server.space_name().as_bytes(), rank: awaited.of.0 };
        let mut card = Writer::new(dialect);
        card.packed(1).process(process);
        if server.append_card(awaited.of, awaited.key.as_deref(), dialect, &mut card) {
            self.say_card(awaited.tag, dialect, card.bytes());
        } else if let Some(status) = server.why_nothing(awaited.of, awaited.key.as_deref()) {
            self.say_status(awaited.tag, dialect, status);
        } else if awaited.deadline_ns.is_some_and(|deadline_ns| deadline_ns <= now_ns) {
            self.say_status(awaited.tag, dialect, Status::TIMEOUT);
        } else {
            return false;
        }
        true
    }

    fn say_card(&mut self, tag: u32, dialect: Dialect, card: &[u8]) {
        let mut answer = Writer::new(dialect);
        answer.status(Status::SUCCESS).packed(1).object(card);
        self.say(tag, &answer);
    }
}

fn facts(server: &Server) -> Facts<'_> {
    Facts { space: server.space_name(), placement: server.placement(), mapping: server.mapping(), here: server.here() }
}

pub(super) fn deadline_ns(now_ns: u64, seconds: u32) -> u64 {
    now_ns.saturating_add(u64::from(seconds) * SECOND_NS)
}

/// A text for people, without what would disturb a terminal.
fn printable(bytes: &[u8]) -> String {
    let cut = bytes.get(..PMI_MESSAGE_BYTES_MAX).unwrap_or(bytes);
    let text = cut.utf8_chunks().flat_map(|chunk| chunk.valid().chars());
    text.map(|character| if character.is_control() { ' ' } else { character }).collect()
}
