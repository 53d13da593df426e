//! What a rank and this node speak with each other: PMI, or PMIx.

use coppice_protocol::ids::Rank;
use coppice_protocol::limits::{PMI_LINE_BYTES_MAX, PMIX_HEARD_BYTES_MAX};
use coppice_protocol::pmi::{Conversation, Server};
use coppice_protocol::pmix::Client;
use serde::{Deserialize, Serialize};

/// See this module.
#[derive(Serialize, Deserialize)]
pub(super) enum Speech {
    Pmi(Conversation),
    Pmix(Client),
}

impl Speech {
    /// Who the rank is, once it has said something.
    pub(super) fn rank(&self) -> Option<Rank> {
        match self {
            Self::Pmi(conversation) => conversation.rank(),
            Self::Pmix(client) => client.rank(),
        }
    }

    /// Nothing more is said or heard.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Pmi(conversation) => conversation.is_over(),
            Self::Pmix(client) => client.is_over(),
        }
    }

    /// Has the rank told what it waits for, if that has come.
    pub(super) fn poll(&mut self, server: &mut Server, now_ns: u64) {
        match self {
            Self::Pmi(conversation) => conversation.poll(server),
            Self::Pmix(client) => client.poll(server, now_ns),
        }
    }

    /// Takes what the rank said, as far as there is room for answers, and says how many bytes that were.
    pub(super) fn handle_bytes(&mut self, bytes: &[u8], server: &mut Server, now_ns: u64) -> usize {
        match self {
            Self::Pmi(conversation) => conversation.handle_bytes(bytes, server, now_ns),
            Self::Pmix(client) => client.handle_bytes(bytes, server, now_ns),
        }
    }

    /// The bytes to hand to the rank next.
    pub(super) fn transmit(&self) -> &[u8] {
        match self {
            Self::Pmi(conversation) => conversation.transmit(),
            Self::Pmix(client) => client.transmit(),
        }
    }

    /// So many of them are handed over.
    pub(super) fn consume(&mut self, count: usize) {
        match self {
            Self::Pmi(conversation) => conversation.consume(count),
            Self::Pmix(client) => client.consume(count),
        }
    }

    /// What the rank says at once, at most, bytes.
    pub(super) const fn heard_bytes_max(&self) -> usize {
        match self {
            Self::Pmi(_) => PMI_LINE_BYTES_MAX,
            Self::Pmix(_) => PMIX_HEARD_BYTES_MAX,
        }
    }

    /// What it takes of the memory beyond what is kept for every rank, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Pmi(conversation) => conversation.memory_bytes(),
            Self::Pmix(client) => client.memory_bytes(),
        }
    }

    /// There is no memory for what is said.
    pub(super) fn out_of_memory(&mut self) {
        match self {
            Self::Pmi(conversation) => conversation.out_of_memory(),
            Self::Pmix(client) => client.out_of_memory(),
        }
    }

    /// Whether it is within the limits, if it was written down.
    pub(super) fn is_within_limits(&self) -> bool {
        match self {
            Self::Pmi(_) => true,
            Self::Pmix(client) => client.is_within_limits(),
        }
    }
}
