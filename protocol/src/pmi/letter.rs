//! What nodes of a job say to each other about names that ranks publish, and about keys that they put
//! ([`super::names`]).

use alloc::boxed::Box;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::frame::PeerError;
use super::space::{Put, PutError};
use crate::limits::{PMI_NAME_BYTES_MAX, PMI_PORT_NAME_BYTES_MAX, PMI_VALUE_BYTES_MAX};

/// What a rank wants with a name, or with a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wish {
    /// At most [`PMI_NAME_BYTES_MAX`] bytes, at least one; a key as a [`Put`] may have one.
    pub(crate) name: Box<[u8]>,
    pub(crate) verb: Verb,
}

/// See [`Wish`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Verb {
    /// This port is to be found under it: at most [`PMI_PORT_NAME_BYTES_MAX`] bytes.
    Publish(Box<[u8]>),
    /// Nothing is to be found under it any more.
    Unpublish,
    /// What is to be found under it?
    LookUp,
    /// It is a key, and this its value; it is put before this barrier.
    Put { generation: u64, value: Box<[u8]> },
    /// It is a key; what is its value?
    Get,
}

impl Verb {
    /// Whether it changes nothing.
    pub(crate) const fn only_asks(&self) -> bool {
        matches!(self, Self::LookUp | Self::Get)
    }

    /// Whether it is about a key.
    pub(crate) const fn is_of_keys(&self) -> bool {
        matches!(self, Self::Put { .. } | Self::Get)
    }

    /// What comes with it.
    fn text(&self) -> &[u8] {
        match self {
            Self::Publish(text) | Self::Put { value: text, .. } => text,
            Self::Unpublish | Self::LookUp | Self::Get => &[],
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// It is done.
    Done,
    /// This port is to be found under the name.
    Port(Box<[u8]>),
    /// This is the value of the key, which was put before this barrier.
    Value { generation: u64, value: Box<[u8]> },
    /// It is not done.
    No(Refusal),
}

/// Why it is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// The name is published, the key was put.
    Taken,
    /// It is not.
    Unknown,
    /// The node that would keep it has no room for more.
    NoRoom,
    /// That node does not answer. It may have done it.
    NoAnswer,
}

impl Refusal {
    /// A word that says so.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Taken => "name_is_published",
            Self::Unknown => "name_is_not_published",
            Self::NoRoom => "no_room_for_names",
            Self::NoAnswer => "no_answer_from_the_node_that_keeps_it",
        }
    }
}

impl Wish {
    /// If lengths are within their limits; otherwise a word that says what is not.
    pub(crate) fn new(name: &[u8], verb: Verb) -> Result<Self, &'static str> {
        let wish = Self { name: name.into(), verb };
        wish.check().map(|()| wish)
    }

    /// Publishing a port.
    pub(crate) fn publish(name: &[u8], port: &[u8]) -> Result<Self, &'static str> {
        // What is too long is not copied whole.
        let port = port.get(..=PMI_PORT_NAME_BYTES_MAX).unwrap_or(port);
        Self::new(name, Verb::Publish(port.into()))
    }

    /// Putting a key before a barrier.
    pub(crate) fn put(key: &[u8], value: &[u8], generation: u64) -> Result<Self, PutError> {
        Put::check(key, value)?;
        Ok(Self { name: key.into(), verb: Verb::Put { generation, value: value.into() } })
    }

    /// Getting a key; nothing, if there can be none of that name.
    pub(crate) fn get(key: &[u8]) -> Option<Self> {
        Put::check(key, b"").ok().map(|()| Self { name: key.into(), verb: Verb::Get })
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.verb.is_of_keys() {
            return Put::check(&self.name, self.verb.text()).map_err(|_| "no_key_or_too_long");
        }
        if !(1..=PMI_NAME_BYTES_MAX).contains(&self.name.len()) {
            return Err("no_name_or_too_long");
        }
        match &self.verb {
            Verb::Publish(port) if port.len() > PMI_PORT_NAME_BYTES_MAX => Err("port_too_long"),
            _ => Ok(()),
        }
    }

    pub(super) fn is_within_limits(&self) -> bool {
        self.check().is_ok()
    }

    /// Bytes of its name and of what comes with it.
    pub(super) fn bytes(&self) -> usize {
        self.name.len() + self.verb.text().len()
    }
}

impl Answer {
    pub(super) fn is_within_limits(&self) -> bool {
        match self {
            Self::Port(port) => port.len() <= PMI_PORT_NAME_BYTES_MAX,
            Self::Value { value, .. } => value.len() <= PMI_VALUE_BYTES_MAX,
            Self::Done | Self::No(_) => true,
        }
    }

    /// Bytes of the port or the value in it.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Port(text) | Self::Value { value: text, .. } => text.len(),
            Self::Done | Self::No(_) => 0,
        }
    }
}

/// From one node to another, by their index in the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Letter {
    /// Who wrote it.
    pub(super) from: u32,
    /// For whom it is.
    pub(super) to: u32,
    /// The number that who asked gave to it.
    pub(super) number: u64,
    /// How often that was asked before: each time a letter goes another way, and so does the answer.
    pub(super) tries: u32,
    pub(super) says: Says,
}

/// What is in a letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Says {
    Asks(Wish),
    Answers(Answer),
}

impl Letter {
    /// The body of a frame.
    pub(super) fn encode(&self) -> Result<Vec<u8>, PeerError> {
        // Plain data into a growing vector has no other way to fail.
        postcard::to_allocvec(self).map_err(|_| PeerError::OutOfMemory)
    }

    /// Understands the body of a frame in a job of so many nodes.
    pub(super) fn decode(body: &[u8], nodes: u32) -> Result<Self, PeerError> {
        let Ok((letter, [])) = postcard::take_from_bytes::<Self>(body) else {
            return Err(PeerError::Nonsense("letter"));
        };
        let is_within_limits = match &letter.says {
            Says::Asks(wish) => wish.is_within_limits(),
            Says::Answers(answer) => answer.is_within_limits(),
        };
        let are_two = letter.from < nodes && letter.to < nodes && letter.from != letter.to;
        if is_within_limits && are_two { Ok(letter) } else { Err(PeerError::Nonsense("what a letter says")) }
    }
}
