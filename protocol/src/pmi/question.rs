//! What a rank has asked for, in either version, that its node may have to ask another node for: something with a name,
//! or a key in a direct exchange ([`super::modex`]).

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use super::letter::{Answer, Refusal};
use super::naming::NameCommand;
use super::space::PutError;

/// What was asked. The number of the answer is kept beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Question {
    /// Something with a name.
    Name(NameCommand),
    /// That a key has a value.
    Put(Box<[u8]>),
    /// What its value is.
    Get(Box<[u8]>),
}

/// What came of a put or a get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Of a put.
    Put(Result<(), PutError>),
    /// Of a get: the value, if there is one.
    Got(Option<Box<[u8]>>),
    /// Of a put: the node that keeps the key does not answer.
    NotPut,
    /// Of a get: the same.
    NotGot,
}

impl Question {
    /// The key that it is about, if it is about one.
    pub(super) fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Name(_) => None,
            Self::Put(key) | Self::Get(key) => Some(key),
        }
    }

    /// What an answer to it says, if it is about a key.
    pub(super) fn outcome(&self, answer: &Answer) -> Option<Outcome> {
        let is_put = match self {
            Self::Name(_) => return None,
            Self::Put(_) => true,
            Self::Get(_) => false,
        };
        Some(match answer {
            Answer::Value { value, .. } => Outcome::Got(Some(value.clone())),
            Answer::Done | Answer::Port(_) => Outcome::Put(Ok(())),
            Answer::No(Refusal::NoAnswer) => {
                if is_put {
                    Outcome::NotPut
                } else {
                    Outcome::NotGot
                }
            }
            Answer::No(Refusal::Taken) => Outcome::Put(Err(PutError::Duplicate)),
            Answer::No(_) if is_put => Outcome::Put(Err(PutError::NoRoom)),
            Answer::No(_) => Outcome::Got(None),
        })
    }
}
