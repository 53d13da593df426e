//! The names and keys that one node keeps for its job, and what it has done with them for others.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::drawer::{Drawer, KeptRecord};
use super::letter::{Answer, Refusal, Verb, Wish};
use crate::limits::{PMI_BYTES_PER_HOME_MAX, PMI_KEYS_PER_HOME_MAX, PMI_NAMES_MAX};

/// What a piece of memory takes beyond its bytes, about, with its place in a tree.
pub(super) const OVERHEAD_BYTES: usize = 96;

/// See this module.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    /// Ports by their names, at most [`PMI_NAMES_MAX`].
    ports: BTreeMap<Box<[u8]>, Box<[u8]>>,
    /// Bytes of both.
    bytes: usize,
    /// Keys and values.
    keys: Drawer,
    /// The last change that was made for each other node: its number, and why it was not made, if so.
    changes: BTreeMap<u32, (u64, Option<Refusal>)>,
}

/// The same for a checkpoint.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ShelfRecord {
    /// As what would publish them.
    names: Vec<Wish>,
    keys: Vec<KeptRecord>,
    changes: Vec<(u32, u64, Option<Refusal>)>,
}

impl ShelfRecord {
    /// Whether it is of a node in a job of so many which keeps these names and these keys, and within the limits.
    pub(super) fn is_of(&self, nodes: u32, keeps: impl Fn(&[u8]) -> bool, is_home: impl Fn(&[u8]) -> bool) -> bool {
        let is_kept =
            |wish: &Wish| wish.is_within_limits() && matches!(wish.verb, Verb::Publish(_)) && keeps(&wish.name);
        let bytes: usize = self.keys.iter().map(|(put, ..)| put.bytes()).sum();
        self.names.len() <= PMI_NAMES_MAX
            && self.names.iter().all(is_kept)
            && self.keys.len() <= PMI_KEYS_PER_HOME_MAX
            && bytes <= PMI_BYTES_PER_HOME_MAX
            && self.keys.iter().all(|(put, _, node)| put.is_within_limits() && *node < nodes && is_home(&put.key))
            && self.changes.iter().all(|(node, ..)| *node < nodes)
    }
}

impl Shelf {
    /// For a checkpoint.
    pub(super) fn record(&self) -> ShelfRecord {
        let wish = |name: &[u8], port: &[u8]| Wish { name: name.into(), verb: Verb::Publish(port.into()) };
        ShelfRecord {
            names: self.ports.iter().map(|(name, port)| wish(name, port)).collect(),
            keys: self.keys.record(),
            changes: self.changes.iter().map(|(node, (number, refusal))| (*node, *number, *refusal)).collect(),
        }
    }

    /// As it was written down.
    pub(super) fn again(record: ShelfRecord) -> Self {
        let mut shelf = Self { keys: Drawer::again(record.keys), ..Self::default() };
        for wish in record.names {
            // There was room before, and who has published it is nothing.
            shelf.obey(0, &wish, true);
        }
        shelf.changes = record.changes.into_iter().map(|(node, number, refusal)| (node, (number, refusal))).collect();
        shelf
    }

    /// What it takes of the node's memory, about, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes + self.keys.memory_bytes() + (2 * self.ports.len() + self.changes.len()) * OVERHEAD_BYTES
    }

    /// Does what another node asks for with this number; `None`: it has given that up, and needs no answer. A change is
    /// made once, however often it is asked for.
    pub(super) fn obey_once(&mut self, (from, number): (u32, u64), wish: &Wish, has_room: bool) -> Option<Answer> {
        if wish.verb.only_asks() {
            return Some(self.obey(from, wish, has_room));
        }
        let answer = |refusal: Option<Refusal>| refusal.map_or(Answer::Done, Answer::No);
        match self.changes.get(&from) {
            Some((last, _)) if *last > number => return None,
            Some((last, refusal)) if *last == number => return Some(answer(*refusal)),
            _ => {}
        }
        let refusal = if let Answer::No(refusal) = self.obey(from, wish, has_room) { Some(refusal) } else { None };
        self.changes.insert(from, (number, refusal));
        Some(answer(refusal))
    }

    /// Does what somebody on node `from` wants with a name or a key.
    pub(super) fn obey(&mut self, from: u32, wish: &Wish, has_room: bool) -> Answer {
        let name = &wish.name;
        match (&wish.verb, self.ports.get(name)) {
            (Verb::Put { generation, value }, _) => self.keys.put((name, value.clone()), *generation, from, has_room),
            (Verb::Get, _) => self.keys.get(name),
            (Verb::Publish(_), Some(_)) => Answer::No(Refusal::Taken),
            (Verb::Publish(_), None) if !has_room || self.ports.len() >= PMI_NAMES_MAX => Answer::No(Refusal::NoRoom),
            (Verb::Publish(port), None) => {
                self.bytes += name.len() + port.len();
                self.ports.insert(name.clone(), port.clone());
                Answer::Done
            }
            (Verb::Unpublish, Some(port)) => {
                self.bytes -= name.len() + port.len();
                self.ports.remove(name);
                Answer::Done
            }
            (Verb::LookUp, Some(port)) => Answer::Port(port.clone()),
            (Verb::Unpublish | Verb::LookUp, None) => Answer::No(Refusal::Unknown),
        }
    }
}
