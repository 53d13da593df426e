//! What one step of a barrier carries from node to node: the puts of some nodes since the barrier before, in as many
//! frames as they need.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::compact::{self, Measures, Room};
use super::frame::PeerError;
use super::space::Put;
use crate::limits::PMI_PARTS_MAX;

/// Puts of nodes, by the nodes' index. A node that put nothing may be left out.
pub(crate) type Gathered = BTreeMap<u32, Vec<Put>>;

/// The bodies of the frames that carry what `gathered` has of these nodes, at least one.
pub(crate) fn bodies(gathered: &Gathered, origins: impl Iterator<Item = u32>) -> Result<Vec<Vec<u8>>, PeerError> {
    let of_nodes = origins.filter_map(|origin| Some((origin, gathered.get(&origin)?)));
    let puts = of_nodes.flat_map(|(origin, puts)| puts.iter().map(move |put| (origin, &*put.key, &*put.value)));
    compact::pack(puts, Measures::ALL)
}

/// What has come of one step.
#[derive(Debug)]
pub(crate) struct Incoming {
    parts: u32,
    /// Each with whose it is.
    got: BTreeMap<u32, Vec<(u32, Put)>>,
    room: Room,
}

impl Incoming {
    /// A step that comes in so many parts.
    pub(crate) fn new(parts: u32) -> Result<Self, PeerError> {
        if (1..=PMI_PARTS_MAX).contains(&parts) {
            Ok(Self { parts, got: BTreeMap::new(), room: Room::default() })
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
        let (mut room, mut puts) = (self.room, Vec::new());
        compact::unpack_with(body, |origin, put| {
            if !may(origin) {
                return Err(PeerError::Nonsense("puts of a node that has no part in this step"));
            }
            room.take(put.bytes())?;
            puts.try_reserve(1).map_err(|_| PeerError::OutOfMemory)?;
            puts.push((origin, put));
            Ok(())
        })?;
        self.room = room;
        self.got.insert(part, puts);
        Ok(())
    }

    /// What it takes of the node's memory, about, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.got.values().flatten().map(|(_, put)| put.memory_bytes()).sum()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.got.len() == self.parts as usize
    }

    /// Adds what came to what there is.
    pub(crate) fn merge_into(self, gathered: &mut Gathered) {
        for (origin, put) in self.got.into_values().flatten() {
            gathered.entry(origin).or_default().push(put);
        }
    }
}
