//! The conversation with one rank, on its inherited descriptor or on a port.
//!
//! Bytes that came from the rank go in by [`Conversation::handle_bytes`], in any split; the bytes to hand to it are
//! [`Conversation::transmit`]. What it may say, and what it hears, is PMI version 1.1, as MPICH's `simple_pmi.c` speaks
//! and `pmiserv.c` answers it, unless it asks for version 2 ([`super::second`]). Where that server says nothing, which
//! would leave a rank waiting for ever, this one answers `rc=-1`; its answers never have a space in a value, which that
//! client could not read.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use super::letter::Refusal;
use super::line::{Fields, Line, Lines};
use super::naming::Asked;
use super::question::{Outcome, Question};
use super::request::Request;
use super::second::Second;
use super::server::{Patience, Server};
use super::space::PutError;
use super::spawning::{Awaited, Spawning};
use crate::ids::Rank;
use crate::limits::{
    PMI_ANSWER_BYTES_MAX, PMI_KEY_BYTES_MAX, PMI_MESSAGE_BYTES_MAX, PMI_NAME_BYTES_MAX, PMI_VALUE_BYTES_MAX,
};

/// The key whose value says which ranks are on which node.
pub(super) const MAPPING_KEY: &[u8] = b"PMI_process_mapping";

/// What the answer to a get begins with when all is well.
const GOT: &str = "cmd=get_result rc=0 msg=success value=";

/// What a line that is no command is answered with.
const MALFORMED: &str = "cmd=unknown rc=-1 msg=malformed_line";

/// The conversation with one rank. It can be written down, and goes on from that.
#[derive(Debug, Serialize, Deserialize)]
pub struct Conversation {
    pub(super) speaker: Speaker,
    lines: Lines,
    /// A command of several lines that is going on.
    pub(super) spawning: Option<Spawning>,
    /// Whoever waits for ranks that are to be started. Nothing else is heard before it is told what came of that.
    pub(super) spawned: Option<Awaited>,
    /// What it wants with a name or a key. Nothing else is heard before it is told what came of that.
    pub(super) asked: Option<Box<Asked>>,
    /// The rank has asked for version 2, and speaks it.
    second: Option<Box<Second>>,
    pub(super) answers: Vec<u8>,
    /// Bytes of `answers` that are on their way.
    sent: usize,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Speaker {
    /// This rank, on its descriptor. It has said nothing.
    Descriptor(Rank),
    /// Somebody on a port.
    Unknown,
    /// This rank.
    Known(Rank),
    /// Nobody any more.
    Nobody,
}

impl Conversation {
    /// On the descriptor of a rank.
    #[must_use]
    pub fn on_descriptor(rank: Rank) -> Self {
        Self::new(Speaker::Descriptor(rank))
    }

    /// On a port: the first line says who speaks.
    #[must_use]
    pub fn on_port() -> Self {
        Self::new(Speaker::Unknown)
    }

    fn new(speaker: Speaker) -> Self {
        Self {
            speaker,
            lines: Lines::default(),
            spawning: None,
            spawned: None,
            asked: None,
            second: None,
            answers: Vec::new(),
            sent: 0,
        }
    }

    /// Who speaks, once that is known.
    #[must_use]
    pub fn rank(&self) -> Option<Rank> {
        match self.speaker {
            Speaker::Known(rank) => Some(rank),
            Speaker::Descriptor(_) | Speaker::Unknown | Speaker::Nobody => None,
        }
    }

    /// What it keeps beside what every one may, bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.spawning.as_ref().map_or(0, Spawning::memory_bytes)
    }

    /// There is no memory for that.
    pub fn out_of_memory(&mut self) {
        if let Some(spawning) = &mut self.spawning {
            spawning.hear_too_long();
        }
    }

    /// Nothing more is said or heard: close the connection when [`Self::transmit`] is empty.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.speaker == Speaker::Nobody
    }

    /// Takes what a rank said and returns how many bytes that were: fewer than there are while the answers to what it
    /// said before fill their buffer, [`PMI_ANSWER_BYTES_MAX`]; then the rank has to read first. Or while it waits for
    /// what comes of a name, or for ranks that are to be started.
    pub fn handle_bytes(&mut self, bytes: &[u8], server: &mut Server, now_ns: u64) -> usize {
        let mut rest = bytes;
        while !rest.is_empty() && self.transmit().len() < PMI_ANSWER_BYTES_MAX && !self.is_waiting() {
            if let Some(mut second) = self.second.take() {
                self.advance_second(&mut second, &mut rest, server, now_ns);
                self.second = Some(second);
                continue;
            }
            match self.lines.advance(&mut rest) {
                None => {}
                // What a rank says after its last word is not heard.
                Some(_) if self.is_over() => {}
                Some(Line::TooLong) => match &mut self.spawning {
                    Some(spawning) => spawning.hear_too_long(),
                    None => self.say("cmd=unknown rc=-1 msg=line_too_long"),
                },
                Some(Line::Whole(line)) => self.hear(&line, server, now_ns),
            }
        }
        bytes.len() - rest.len()
    }

    /// Has the rank told what it waits for, if that has come: that it may leave its barrier, what another rank of its
    /// node has said, or what came of a name.
    pub fn poll(&mut self, server: &mut Server) {
        let Speaker::Known(rank) = self.speaker else { return };
        if let Some(mut second) = self.second.take() {
            self.poll_second(&mut second, rank, server);
            self.second = Some(second);
        } else {
            if server.take_release(rank) {
                self.say("cmd=barrier_out");
            }
            self.poll_asked(server);
            self.poll_spawned(server);
        }
    }

    /// Whether a rank of version 1 waits for the answer to what it said last.
    fn is_waiting(&self) -> bool {
        self.asked.is_some() || self.spawned.is_some()
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
            self.answers.clear();
            self.sent = 0;
        }
    }

    pub(super) fn say(&mut self, line: impl fmt::Display) {
        // Writing to a vector does not fail.
        let _ = fmt::write(&mut Text(&mut self.answers), format_args!("{line}\n"));
    }

    fn hear(&mut self, line: &[u8], server: &mut Server, now_ns: u64) {
        let fields = Fields::of(line);
        if let Some(spawning) = self.spawning.take() {
            return self.hear_spawning(spawning, line, server);
        }
        if fields.is_blank() {
            return;
        }
        let request = Request::parse(line);
        let rank = match (self.speaker, request) {
            (Speaker::Known(rank), _) => rank,
            (Speaker::Descriptor(rank), _) if server.attach(rank) => {
                self.speaker = Speaker::Known(rank);
                rank
            }
            (Speaker::Unknown, Request::InitAck { rank: Some(rank) }) if server.attach(Rank(rank)) => {
                self.speaker = Speaker::Known(Rank(rank));
                Rank(rank)
            }
            // Who that is comes later.
            (Speaker::Unknown, Request::Init { version: Some(2), .. }) => return self.begin_second(),
            // The wrong rank, one that is heard elsewhere, or none: there is nobody to talk to.
            (_, Request::InitAck { .. }) => return self.end("cmd=initack rc=-1 msg=no_such_rank_here"),
            _ => return self.end("cmd=unknown rc=-1 msg=unknown_rank"),
        };
        self.obey(rank, request, server, now_ns);
    }

    fn begin_second(&mut self) {
        self.say("cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0");
        self.second = Some(Box::default());
    }

    fn end(&mut self, last_words: &str) {
        self.say(last_words);
        self.speaker = Speaker::Nobody;
    }

    fn obey(&mut self, rank: Rank, request: Request<'_>, server: &mut Server, now_ns: u64) {
        match request {
            Request::Init { version: Some(2), .. } => self.begin_second(),
            Request::Init { version, subversion } => {
                let rc = if version == Some(1) && subversion.is_some_and(|minor| minor <= 1) { 0 } else { -1 };
                self.say(format_args!("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc={rc}"));
            }
            Request::InitAck { rank: Some(says) } if says == rank.0 => {
                let size = server.size();
                self.say(format_args!("cmd=initack\ncmd=set size={size}\ncmd=set rank={rank}\ncmd=set debug=0"));
            }
            Request::InitAck { .. } => self.say("cmd=initack rc=-1 msg=another_rank"),
            Request::GetMaxes => self.say(format_args!(
                "cmd=maxes kvsname_max={PMI_NAME_BYTES_MAX} keylen_max={PMI_KEY_BYTES_MAX} \
                 vallen_max={PMI_VALUE_BYTES_MAX}"
            )),
            Request::GetAppnum => self.say("cmd=appnum appnum=0"),
            Request::GetMyKvsname => self.say(format_args!("cmd=my_kvsname kvsname={}", server.space_name())),
            Request::GetUniverseSize => self.say(format_args!("cmd=universe_size size={}", server.universe())),
            Request::Get { space, key } => self.get(rank, (space, key), server, now_ns),
            Request::Put { space, key, value } => self.put(rank, space, (key, value), server, now_ns),
            Request::GetByIdx { space, index } => self.get_by_index(space, index, server),
            Request::BarrierIn => {
                if !server.enter(rank, Patience::default(), now_ns) {
                    self.say("cmd=barrier_out rc=-1 msg=in_a_barrier_already");
                }
                self.poll(server);
            }
            Request::Name { command, name, port } => self.ask((rank, command), (name, port), server, now_ns),
            // The answer is that the job ends.
            Request::Abort { code, message } => server.abort(rank, code.unwrap_or(1), printable(message), now_ns),
            Request::Finalize => {
                server.finalize(rank, now_ns);
                self.end("cmd=finalize_ack");
            }
            Request::Spawn => self.spawning = Some(Spawning::default()),
            Request::Refused { answer } => self.say(format_args!("cmd={answer} rc=-1 msg=not_supported")),
            Request::Unknown => self.say("cmd=unknown rc=-1 msg=unknown_command"),
            Request::Malformed => self.say(MALFORMED),
        }
    }

    fn get(&mut self, rank: Rank, (space, key): (&[u8], &[u8]), server: &mut Server, now_ns: u64) {
        if space != server.space_name().as_bytes() {
            let space = Echo(space);
            return self.say(format_args!("cmd=get_result rc=-1 msg=kvs_{space}_not_found value=unknown"));
        }
        let mapping = server.mapping().map(str::as_bytes).filter(|_| key == MAPPING_KEY);
        if let Some(value) = mapping.or_else(|| server.value(key)) {
            return self.say_with(GOT, value);
        }
        match server.ask_for_key(rank, key, now_ns) {
            Some(number) => self.wait_for(Question::Get(key.into()), number, server),
            None => self.say_outcome(key, Outcome::Got(None), server),
        }
    }

    fn put(&mut self, rank: Rank, space: &[u8], (key, value): (&[u8], &[u8]), server: &mut Server, now_ns: u64) {
        if space != server.space_name().as_bytes() {
            return self.say(format_args!("cmd=put_result rc=-1 msg=kvs_{}_not_found", Echo(space)));
        }
        let is_ours = key == MAPPING_KEY;
        let done = if is_ours { Err(PutError::Duplicate) } else { server.put_key(rank, (key, value), now_ns) };
        match done {
            Ok(Some(number)) => self.wait_for(Question::Put(key.into()), number, server),
            Ok(None) => self.say_outcome(key, Outcome::Put(Ok(())), server),
            Err(error) => self.say_outcome(key, Outcome::Put(Err(error)), server),
        }
    }

    /// The answer comes when another node has said what it is.
    fn wait_for(&mut self, question: Question, number: u64, server: &mut Server) {
        self.asked = Some(Box::new(Asked { question, number }));
        self.poll(server);
    }

    /// Has a rank told what came of its put or its get.
    pub(super) fn say_outcome(&mut self, key: &[u8], outcome: Outcome, server: &Server) {
        let put = match outcome {
            Outcome::Got(Some(value)) => return self.say_with(GOT, &value),
            Outcome::Got(None) => {
                let key = Echo(key);
                return self.say(format_args!("cmd=get_result rc=-1 msg=key_{key}_not_found value=unknown"));
            }
            Outcome::NotGot => {
                return self.say(format_args!("cmd=get_result rc=-1 msg={} value=unknown", Refusal::NoAnswer.word()));
            }
            Outcome::NotPut => {
                return self.say(format_args!("cmd=put_result rc=-1 msg={}", Refusal::NoAnswer.word()));
            }
            Outcome::Put(put) => put,
        };
        match put {
            Ok(()) => self.say("cmd=put_result rc=0 msg=success"),
            Err(PutError::Duplicate) => {
                self.say(format_args!("cmd=put_result rc=-1 msg=duplicate_key_{}", Echo(key)));
            }
            Err(PutError::Key) => self.say("cmd=put_result rc=-1 msg=no_key_or_too_long"),
            Err(PutError::Value) => self.say("cmd=put_result rc=-1 msg=value_too_long"),
            Err(PutError::NoRoom) => {
                let space = server.space_name();
                self.say(format_args!("cmd=put_result rc=-1 msg=no_room_in_kvs_{space}"));
            }
        }
    }

    fn get_by_index(&mut self, space: &[u8], index: Option<usize>, server: &Server) {
        if space != server.space_name().as_bytes() {
            let space = Echo(space);
            return self.say(format_args!("cmd=getbyidx_results rc=-1 reason=kvs_{space}_not_found"));
        }
        if !server.brings_keys() {
            return self.say("cmd=getbyidx_results rc=-1 reason=keys_are_not_brought_by_barriers");
        }
        match index.and_then(|index| Some((index, server.space().at(index)?))) {
            Some((index, (key, value))) => {
                let mut words = Vec::new();
                words.extend_from_slice(key);
                words.extend_from_slice(b" val=");
                words.extend_from_slice(value);
                self.say_with(format_args!("cmd=getbyidx_results rc=0 nextidx={} key=", index + 1), &words);
            }
            None => self.say("cmd=getbyidx_results rc=-1 reason=no_more_keyvals"),
        }
    }

    /// A line with bytes at its end that came from a rank.
    pub(super) fn say_with(&mut self, words: impl fmt::Display, bytes: &[u8]) {
        // Writing to a vector does not fail.
        let _ = fmt::write(&mut Text(&mut self.answers), format_args!("{words}"));
        self.answers.extend_from_slice(bytes);
        self.answers.push(b'\n');
    }
}

/// Writes to a vector.
pub(super) struct Text<'a>(pub(super) &'a mut Vec<u8>);

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// A word of a rank's that is said back to it, or what stands for a longer one.
struct Echo<'a>(&'a [u8]);

impl fmt::Display for Echo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match core::str::from_utf8(self.0) {
            Ok(word) if word.len() <= PMI_NAME_BYTES_MAX => f.write_str(word),
            _ => f.write_str("?"),
        }
    }
}

/// A text for people, without what would disturb a terminal.
pub(super) fn printable(bytes: &[u8]) -> String {
    let cut = bytes.get(..PMI_MESSAGE_BYTES_MAX).unwrap_or(bytes);
    let text = cut.utf8_chunks().flat_map(|chunk| chunk.valid().chars());
    text.map(|character| if character.is_control() { ' ' } else { character }).collect()
}
