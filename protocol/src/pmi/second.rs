//! PMI version 2: what a rank says and hears once it has asked for it, as MPICH's `simple2pmi.c` speaks and Hydra's
//! `pmip_pmi_v2.c` answers it.
//!
//! Every command has an answer of its own name. A client of several threads marks commands (`thrid`), answers carry the
//! mark, and it may say more before it has heard all: so calls that wait, for a fence or for what another rank of the
//! node is to say, are noted and answered when that has come. Where Hydra says nothing, which would leave a thread
//! waiting for ever, the answer is `rc=-1`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::conversation::{Conversation, MAPPING_KEY, Speaker, printable};
use super::letter::{Answer, Refusal};
use super::message::{Message, Messages, Pairs, Written, has_tail, without_tail};
use super::naming::NameCommand;
use super::question::{Outcome, Question};
use super::server::{Patience, Server, space_name};
use super::space::{Put, PutError};
use super::spawning::{self, Awaited};
use crate::ids::Rank;
use crate::limits::{PMI_ANSWER_BYTES_MAX, PMI_KEY_BYTES_MAX, PMI_MARK_BYTES_MAX, PMI_WAITS_MAX};

/// Commands that are not for us. Ranks wait for their answers.
const REFUSED: [&[u8]; 2] = [b"job-connect", b"job-disconnect"];

/// What a client's thread is marked with; nothing if there is but one.
type Mark = Box<[u8]>;

/// What there is of a conversation of this version.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Second {
    messages: Messages,
    /// Whether messages of this client have a tail; `None` before the first one.
    has_tail: Option<bool>,
    /// Who waits in a fence.
    fence: Option<Mark>,
    /// Who waits for which attribute of the node, at most [`PMI_WAITS_MAX`].
    waits: Vec<(Mark, Box<[u8]>)>,
    /// Who waits for what came of what: the number of the answer.
    asked: Vec<(Mark, Question, u64)>,
    /// Who waits for ranks that are to be started.
    spawned: Option<(Mark, Awaited)>,
}

impl Conversation {
    /// Takes a message off the front of `bytes`, or as much of it as there is.
    pub(super) fn advance_second(&mut self, second: &mut Second, rest: &mut &[u8], server: &mut Server, now_ns: u64) {
        match second.messages.advance(rest) {
            None => {}
            Some(_) if self.is_over() => {}
            // There is no next message.
            Some(Message::Nonsense) => {
                self.answer(Written::new(b"unknown").shown("rc", -1).shown("errmsg", "no_length"));
                self.speaker = Speaker::Nobody;
            }
            Some(Message::TooLong(message)) => match Pairs::of(&message).0 {
                pairs if pairs.command() == Some(b"spawn") => {
                    self.answer(spawning::write(response(&pairs), Err("message_too_long")));
                }
                pairs => self.fail(&pairs, "message_too_long"),
            },
            Some(Message::Whole(message)) => {
                let has_tail = *second.has_tail.get_or_insert_with(|| has_tail(&message));
                let (pairs, is_whole) = Pairs::of(if has_tail { without_tail(&message) } else { &message });
                if !is_whole || pairs.command().is_none() {
                    return self.fail(&pairs, "malformed_message");
                }
                self.hear_second(second, &pairs, server, now_ns);
            }
        }
    }

    fn hear_second(&mut self, second: &mut Second, pairs: &Pairs, server: &mut Server, now_ns: u64) {
        if let Speaker::Known(rank) = self.speaker {
            return self.obey_second(second, rank, pairs, server, now_ns);
        }
        // On a port the first message says who speaks.
        let says = pairs.number("pmirank").map(Rank).filter(|_| pairs.command() == Some(b"fullinit"));
        match says.filter(|rank| self.speaker == Speaker::Unknown && server.attach(*rank)) {
            Some(rank) => {
                self.speaker = Speaker::Known(rank);
                self.obey_second(second, rank, pairs, server, now_ns);
            }
            None => {
                self.fail(pairs, "no_such_rank_here");
                self.speaker = Speaker::Nobody;
            }
        }
    }

    fn obey_second(&mut self, second: &mut Second, rank: Rank, pairs: &Pairs, server: &mut Server, now_ns: u64) {
        let text = |key: &str| pairs.get(key).unwrap_or_default();
        if pairs.get("thrid").is_some_and(|mark| mark.len() > PMI_MARK_BYTES_MAX) {
            return self.fail(pairs, "mark_too_long");
        }
        match pairs.command().unwrap_or_default() {
            b"fullinit" => match pairs.number("pmirank").map(Rank) {
                Some(says) if says != rank => self.fail(pairs, "another_rank"),
                _ => {
                    let answer = response(pairs).shown("pmi-version", 2).shown("pmi-subversion", 0);
                    let answer = answer.shown("rank", rank).shown("size", server.size()).shown("appnum", 0);
                    let answer = answer.shown("debugged", "FALSE").shown("pmiverbose", "FALSE").shown("rc", 0);
                    self.answer(match server.spawner() {
                        Some(job) => answer.pair("spawner-jobid", space_name(job).as_bytes()),
                        None => answer,
                    });
                }
            },
            b"job-getid" => self.answer(response(pairs).shown("jobid", server.space_name()).shown("rc", 0)),
            b"info-getjobattr" => match text("key") {
                MAPPING_KEY => self.found(pairs, server.mapping().map(str::as_bytes)),
                b"universeSize" => {
                    self.answer(
                        response(pairs).shown("found", "TRUE").shown("value", server.universe()).shown("rc", 0),
                    );
                }
                _ => self.found(pairs, None),
            },
            b"info-putnodeattr" => {
                let put = server.put_attribute(text("key"), text("value"));
                self.answer_put(pairs, put);
                self.poll_second(second, rank, server);
            }
            b"info-getnodeattr" => match server.attribute(text("key")) {
                None if text("wait") == b"TRUE" => {
                    if let Err(why) = Put::check(text("key"), b"") {
                        return self.answer_put(pairs, Err(why));
                    }
                    if second.waits.len() >= PMI_WAITS_MAX {
                        return self.fail(pairs, "too_many_wait");
                    }
                    second.waits.push((mark(pairs), text("key").into()));
                    self.poll_second(second, rank, server);
                }
                value => self.found(pairs, value),
            },
            b"kvs-put" => match server.put_key(rank, (text("key"), text("value")), now_ns) {
                Ok(Some(number)) => {
                    second.asked.push((mark(pairs), Question::Put(text("key").into()), number));
                    self.poll_second(second, rank, server);
                }
                Ok(None) => self.answer(response(pairs).shown("rc", 0)),
                Err(error) => self.fail(pairs, put_error(error)),
            },
            b"kvs-get" => {
                // An empty name is that of the rank's own job.
                let is_ours = [&b""[..], server.space_name().as_bytes()].contains(&text("jobid"));
                if !is_ours {
                    return self.fail(pairs, "no_such_job");
                }
                let key = text("key");
                let is_here = server.value(key).is_some();
                match (!is_here).then(|| server.ask_for_key(rank, key, now_ns)).flatten() {
                    Some(number) => {
                        second.asked.push((mark(pairs), Question::Get(key.into()), number));
                        self.poll_second(second, rank, server);
                    }
                    None => self.found(pairs, server.value(key)),
                }
            }
            b"kvs-fence" => {
                if !server.enter(rank, Patience::default(), now_ns) {
                    return self.fail(pairs, "in_a_fence_already");
                }
                second.fence = Some(mark(pairs));
                self.poll_second(second, rank, server);
            }
            // The answer is that the job ends.
            b"abort" => server.abort(rank, code_in(text("msg")).unwrap_or(1), printable(text("msg")), now_ns),
            b"finalize" => {
                server.finalize(rank, now_ns);
                self.answer(response(pairs).shown("rc", 0));
                self.speaker = Speaker::Nobody;
            }
            b"spawn" => match spawning::wanted(pairs).and_then(|wanted| server.spawn(rank, wanted)) {
                Ok(number) => {
                    second.spawned = Some((mark(pairs), (rank, number)));
                    self.poll_second(second, rank, server);
                }
                Err(why) => self.answer(spawning::write(response(pairs), Err(why))),
            },
            command if REFUSED.contains(&command) => self.fail(pairs, "not_supported"),
            command => match NameCommand::of_second(command) {
                Some(command) => {
                    let wish = command.wish(text("name"), text("port"));
                    match wish.and_then(|wish| server.ask(rank, wish, now_ns)) {
                        Ok(number) => second.asked.push((mark(pairs), Question::Name(command), number)),
                        Err(why) => self.fail(pairs, why),
                    }
                    self.poll_second(second, rank, server);
                }
                None => self.fail(pairs, "unknown_command"),
            },
        }
    }

    /// Answers what has come that somebody waits for.
    pub(super) fn poll_second(&mut self, second: &mut Second, rank: Rank, server: &mut Server) {
        if second.fence.is_some() && server.take_release(rank) {
            let mark = second.fence.take().unwrap_or_default();
            self.answer(marked("kvs-fence", &mark).shown("rc", 0));
        }
        for (mark, question, number) in core::mem::take(&mut second.asked) {
            // The others when it has read these.
            let has_room = self.transmit().len() < PMI_ANSWER_BYTES_MAX;
            match has_room.then(|| server.take_answer(number)).flatten() {
                Some(answer) => self.answer_question(&question, &mark, &answer),
                None => second.asked.push((mark, question, number)),
            }
        }
        if let Some((mark, (rank, number))) = second.spawned.take() {
            match server.take_spawned(rank, number) {
                Some(Ok(job)) => self.answer(spawning::write(marked("spawn", &mark), Ok(job))),
                Some(Err(_)) => self.answer(spawning::write(marked("spawn", &mark), Err("not_started"))),
                None => second.spawned = Some((mark, (rank, number))),
            }
        }
        let is_hopeless = server.is_alone(rank);
        let waits = core::mem::take(&mut second.waits);
        for (mark, key) in waits {
            if self.transmit().len() >= PMI_ANSWER_BYTES_MAX {
                second.waits.push((mark, key));
                continue;
            }
            let answer = marked("info-getnodeattr", &mark);
            match server.attribute(&key) {
                Some(value) => self.answer(answer.shown("found", "TRUE").pair("value", value).shown("rc", 0)),
                // Unless another thread of its own says it.
                None if is_hopeless && mark.is_empty() => {
                    self.answer(answer.shown("rc", -1).shown("errmsg", "nobody_is_left_who_could_say_it"));
                }
                None => second.waits.push((mark, key)),
            }
        }
        if !second.waits.is_empty() {
            server.await_others(rank);
        }
    }

    /// Says what came of what was asked.
    fn answer_question(&mut self, question: &Question, mark: &[u8], answer: &Answer) {
        if let Question::Name(command) = question {
            return self.answer(command.write(marked(command.second(), mark), answer));
        }
        let (put, get) = (marked("kvs-put", mark), marked("kvs-get", mark));
        let no_answer = Refusal::NoAnswer.word();
        self.answer(match question.outcome(answer) {
            Some(Outcome::Put(Ok(()))) => put.shown("rc", 0),
            Some(Outcome::Put(Err(error))) => put.shown("rc", -1).shown("errmsg", put_error(error)),
            Some(Outcome::NotPut) => put.shown("rc", -1).shown("errmsg", no_answer),
            Some(Outcome::Got(value)) => with_value(get, value.as_deref()),
            Some(Outcome::NotGot) | None => get.shown("rc", -1).shown("errmsg", no_answer),
        });
    }

    fn answer_put(&mut self, pairs: &Pairs, put: Result<(), PutError>) {
        match put {
            Ok(()) => self.answer(response(pairs).shown("rc", 0)),
            Err(error) => self.fail(pairs, put_error(error)),
        }
    }

    fn found(&mut self, pairs: &Pairs, value: Option<&[u8]>) {
        self.answer(with_value(response(pairs), value));
    }

    /// The answer to what is not done.
    fn fail(&mut self, pairs: &Pairs, why: &str) {
        self.answer(response(pairs).shown("rc", -1).shown("errmsg", why));
    }

    fn answer(&mut self, message: Written) {
        message.append_to(&mut self.answers);
    }
}

/// A word that says why a key was not put.
const fn put_error(error: PutError) -> &'static str {
    match error {
        PutError::Duplicate => "duplicate_key",
        PutError::Key => "no_key_or_too_long",
        PutError::Value => "value_too_long",
        PutError::NoRoom => "no_room",
    }
}

/// Goes on with what was found.
fn with_value(answer: Written, value: Option<&[u8]>) -> Written {
    match value {
        Some(value) => answer.shown("found", "TRUE").pair("value", value).shown("rc", 0),
        None => answer.shown("found", "FALSE").shown("rc", 0),
    }
}

fn mark(pairs: &Pairs) -> Mark {
    pairs.get("thrid").unwrap_or_default().into()
}

/// The code that `MPI_Abort` was called with. An abort of this version has none, but the message has that MPICH gives
/// with it: `application called MPI_Abort(COMMUNICATOR, CODE) - process RANK`.
fn code_in(message: &[u8]) -> Option<i32> {
    let (_, call) = core::str::from_utf8(message).ok()?.split_once("called MPI_Abort(")?;
    let (arguments, _) = call.rsplit_once(") - process ")?;
    let (_, code) = arguments.rsplit_once(", ")?;
    code.parse().ok()
}

/// The beginning of the answer to a command.
fn response(pairs: &Pairs) -> Written {
    // No command has a longer name, and what is none need not be said back.
    let command = pairs.command().filter(|command| command.len() <= PMI_KEY_BYTES_MAX).unwrap_or(b"unknown");
    begin(command, pairs.get("thrid").filter(|mark| mark.len() <= PMI_MARK_BYTES_MAX).unwrap_or_default())
}

fn marked(command: &str, mark: &[u8]) -> Written {
    begin(command.as_bytes(), mark)
}

fn begin(command: &[u8], mark: &[u8]) -> Written {
    let answer = Written::new(&[command, b"-response"].concat());
    if mark.is_empty() { answer } else { answer.pair("thrid", mark) }
}
