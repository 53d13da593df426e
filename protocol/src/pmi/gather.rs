//! What one step of a barrier carries from node to node: the puts of some nodes since the barrier before, in as many
//! frames as they need.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::frame::PeerError;
use super::space::Put;
use crate::limits::{PMI_BYTES_PER_JOB_MAX, PMI_FRAME_BODY_BYTES_MAX, PMI_PARTS_MAX};

/// Puts of nodes, by the nodes' index. A node that put nothing may be left out.
pub(crate) type Gathered = BTreeMap<u32, Vec<Put>>;

/// Bytes that a list of puts costs in a body beyond its puts, at most, and the list of lists: two varints of 32 bits.
const LIST_BYTES: usize = 2 * 5;

/// Bytes that a put costs in a body beyond its own, at most: the varints of two lengths.
const PUT_BYTES: usize = 2 * 3;

/// Some of the puts of a node.
#[derive(Debug, Deserialize)]
struct Puts {
    origin: u32,
    puts: Vec<Put>,
}

/// The same on its way out.
#[derive(Serialize)]
struct PutsOut<'a> {
    origin: u32,
    puts: Vec<&'a Put>,
}

/// The bodies of the frames that carry what `gathered` has of these nodes, at least one.
pub(crate) fn bodies(gathered: &Gathered, origins: impl Iterator<Item = u32>) -> Result<Vec<Vec<u8>>, PeerError> {
    let mut bodies = Vec::new();
    let mut body: Vec<PutsOut<'_>> = Vec::new();
    let mut bytes = LIST_BYTES;
    let puts = origins.filter_map(|origin| Some((origin, gathered.get(&origin)?)));
    for (origin, put) in puts.flat_map(|(origin, puts)| puts.iter().map(move |put| (origin, put))) {
        let needed = put.bytes() + PUT_BYTES + LIST_BYTES;
        if bytes + needed > PMI_FRAME_BODY_BYTES_MAX {
            bodies.push(encode(&body)?);
            body.clear();
            bytes = LIST_BYTES;
        }
        bytes += needed;
        match body.last_mut().filter(|last| last.origin == origin) {
            Some(last) => last.puts.push(put),
            None => body.push(PutsOut { origin, puts: Vec::from([put]) }),
        }
    }
    if bodies.is_empty() || !body.is_empty() {
        bodies.push(encode(&body)?);
    }
    Ok(bodies)
}

fn encode(body: &[PutsOut<'_>]) -> Result<Vec<u8>, PeerError> {
    // Plain data into a growing vector has no other way to fail.
    postcard::to_allocvec(body).map_err(|_| PeerError::OutOfMemory)
}

/// What has come of one step.
#[derive(Debug)]
pub(crate) struct Incoming {
    parts: u32,
    got: BTreeMap<u32, Vec<Puts>>,
    /// Bytes of all puts that came.
    bytes: usize,
}

impl Incoming {
    /// A step that comes in so many parts.
    pub(crate) fn new(parts: u32) -> Result<Self, PeerError> {
        if (1..=PMI_PARTS_MAX).contains(&parts) {
            Ok(Self { parts, got: BTreeMap::new(), bytes: 0 })
        } else {
            Err(PeerError::Nonsense("number of parts"))
        }
    }

    /// Takes a part, once. `may` says whose puts it may have.
    pub(crate) fn take(
        &mut self,
        part: u32,
        parts: u32,
        body: &[u8],
        may: impl Fn(u32) -> bool,
    ) -> Result<(), PeerError> {
        if parts != self.parts || part >= parts {
            return Err(PeerError::Nonsense("number of a part"));
        }
        if self.got.contains_key(&part) {
            return Ok(());
        }
        let Ok((of_nodes, [])) = postcard::take_from_bytes::<Vec<Puts>>(body) else {
            return Err(PeerError::Nonsense("body"));
        };
        if !of_nodes.iter().all(|of_node| may(of_node.origin)) {
            return Err(PeerError::Nonsense("puts of a node that has no part in this step"));
        }
        let puts = || of_nodes.iter().flat_map(|of_node| &of_node.puts);
        let bytes = self.bytes + puts().map(Put::bytes).sum::<usize>();
        if bytes > PMI_BYTES_PER_JOB_MAX || !puts().all(Put::is_within_limits) {
            return Err(PeerError::Nonsense("more than a job may put"));
        }
        self.bytes = bytes;
        self.got.insert(part, of_nodes);
        Ok(())
    }

    /// What it takes of the node's memory, about, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.got.values().flatten().flat_map(|of_node| &of_node.puts).map(Put::memory_bytes).sum()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.got.len() == self.parts as usize
    }

    /// Adds what came to what there is.
    pub(crate) fn merge_into(self, gathered: &mut Gathered) {
        for Puts { origin, mut puts } in self.got.into_values().flatten() {
            gathered.entry(origin).or_default().append(&mut puts);
        }
    }
}
