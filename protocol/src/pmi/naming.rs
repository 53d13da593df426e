//! What ranks say about names, and hear, in the words of both versions.

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use super::conversation::Conversation;
use super::letter::{Answer, Refusal, Verb, Wish};
use super::message::Written;
use super::question::Question;
use super::server::Server;
use crate::ids::Rank;

/// A command about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum NameCommand {
    Publish,
    Unpublish,
    LookUp,
}

/// What the answers of version 1 end with when all is well, as Hydra's.
const SUCCESS: &str = "info=ok rc=0 msg=success";

impl NameCommand {
    const ALL: [Self; 3] = [Self::Publish, Self::Unpublish, Self::LookUp];

    /// Its name in version 1, and that of its answer.
    const fn first(self) -> (&'static str, &'static str) {
        match self {
            Self::Publish => ("publish_name", "publish_result"),
            Self::Unpublish => ("unpublish_name", "unpublish_result"),
            Self::LookUp => ("lookup_name", "lookup_result"),
        }
    }

    /// Its name in version 2.
    pub(super) const fn second(self) -> &'static str {
        match self {
            Self::Publish => "name-publish",
            Self::Unpublish => "name-unpublish",
            Self::LookUp => "name-lookup",
        }
    }

    /// That of a line of version 1.
    pub(super) fn of_first(command: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.first().0.as_bytes() == command)
    }

    /// That of a message of version 2.
    pub(super) fn of_second(command: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.second().as_bytes() == command)
    }

    /// What a rank wants that says so, or a word that says why that cannot be.
    pub(super) fn wish(self, name: &[u8], port: &[u8]) -> Result<Wish, &'static str> {
        match self {
            Self::Publish => Wish::publish(name, port),
            Self::Unpublish => Wish::new(name, Verb::Unpublish),
            Self::LookUp => Wish::new(name, Verb::LookUp),
        }
    }

    /// Goes on with what came of it, in version 2.
    pub(super) fn write(self, message: Written, answer: &Answer) -> Written {
        match answer {
            Answer::Done => message.shown("rc", 0),
            Answer::Port(port) | Answer::Value { value: port, .. } => {
                message.pair("port", port).shown("found", "TRUE").shown("rc", 0)
            }
            Answer::No(refusal) => {
                let is_missing = (self, *refusal) == (Self::LookUp, Refusal::Unknown);
                let message = if is_missing { message.shown("found", "FALSE") } else { message };
                message.shown("rc", -1).shown("errmsg", refusal.word())
            }
        }
    }
}

/// A command of version 1 that waits for its answer, and what comes behind it for that.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) number: u64,
}

impl Conversation {
    /// A rank of version 1 wants something with a name.
    pub(super) fn ask(
        &mut self,
        (rank, command): (Rank, NameCommand),
        (name, port): (&[u8], &[u8]),
        server: &mut Server,
        now_ns: u64,
    ) {
        // Its client could not read that.
        let port_is_word = !port.contains(&b' ');
        let wish = if port_is_word { command.wish(name, port) } else { Err("port_has_spaces") };
        match wish.and_then(|wish| server.ask(rank, wish, now_ns)) {
            Ok(number) => {
                self.asked = Some(Box::new(Asked { question: Question::Name(command), number }));
                self.poll(server);
            }
            Err(why) => self.refuse(command, why),
        }
    }

    /// Has a rank of version 1 told what came of it, if anything has.
    pub(super) fn poll_asked(&mut self, server: &mut Server) {
        let Some(answer) = self.asked.as_ref().and_then(|asked| server.take_answer(asked.number)) else { return };
        let Some(question) = self.asked.take().map(|asked| asked.question) else { return };
        if let (Some(key), Some(outcome)) = (question.key(), question.outcome(&answer)) {
            return self.say_outcome(key, outcome, server);
        }
        let Question::Name(command) = question else { return };
        let (_, result) = command.first();
        match answer {
            Answer::Done => self.say(format_args!("cmd={result} {SUCCESS}")),
            Answer::Port(port) if port.contains(&b' ') => self.refuse(command, "port_has_spaces"),
            Answer::Port(port) | Answer::Value { value: port, .. } => {
                let line = [b"port=", &*port, b" ", SUCCESS.as_bytes()].concat();
                self.say_with(format_args!("cmd={result} "), &line);
            }
            Answer::No(refusal) => self.refuse(command, refusal.word()),
        }
    }

    fn refuse(&mut self, command: NameCommand, why: &str) {
        let (_, result) = command.first();
        self.say(format_args!("cmd={result} rc=-1 msg={why}"));
    }
}

/// The name and the port of a line of version 1: `service=NAME` or `service=NAME port=PORT`, where a name may have
/// spaces.
pub(super) fn name_and_port(command: NameCommand, rest: &[u8]) -> (&[u8], &[u8]) {
    const PORT: &[u8] = b" port=";
    if command != NameCommand::Publish {
        return (rest, &[]);
    }
    let at = rest.windows(PORT.len()).rposition(|window| window == PORT);
    at.and_then(|at| Some((rest.get(..at)?, rest.get(at + PORT.len()..)?))).unwrap_or((&[], &[]))
}
