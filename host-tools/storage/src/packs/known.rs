//! What is known of the packs that there are: where which object is. For a GiB of objects of full length that takes
//! some 400 KiB.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use coppice_protocol::checkpoint::ObjectId;

use super::entry::Contents;

/// The first bytes of an object's name: enough, as whoever looks sees the whole name.
type Key = [u8; 16];

/// See this module.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// By their names. A file that took the name of another has another inode.
    packs: BTreeMap<Arc<str>, Pack>,
    /// Their names, by their numbers. Those that are gone have none.
    names: Vec<Option<Arc<str>>>,
    /// In which pack each object is, and which of its entries that is.
    objects: HashMap<Key, (u32, u32)>,
}

#[derive(Debug)]
struct Pack {
    number: u32,
    inode: u64,
    entries_at: u64,
}

/// Where an object is.
#[derive(Debug)]
pub(super) struct Place {
    /// In this pack.
    pub(super) name: Arc<str>,
    /// Where that has its entries.
    pub(super) entries_at: u64,
    /// Which of them.
    pub(super) number: u32,
}

fn key(id: ObjectId) -> Key {
    let [first, _] = *id.0.as_chunks().0 else { return Key::default() };
    first
}

impl Known {
    /// Forgets those that are not there, and gives those that are not known.
    pub(super) fn keep(&mut self, there: &[(String, u64)]) -> Vec<(String, u64)> {
        let inodes: HashMap<&str, u64> = there.iter().map(|(name, inode)| (&**name, *inode)).collect();
        let gone: Vec<Arc<str>> = self
            .packs
            .iter()
            .filter(|(name, pack)| inodes.get(&***name) != Some(&pack.inode))
            .map(|(name, _)| Arc::clone(name))
            .collect();
        for name in &gone {
            if let Some(pack) = self.packs.remove(name) {
                self.names[pack.number as usize] = None;
            }
        }
        if !gone.is_empty() {
            let names = &self.names;
            self.objects.retain(|_, (pack, _)| names[*pack as usize].is_some());
        }
        there.iter().filter(|(name, _)| !self.packs.contains_key(&**name)).cloned().collect()
    }

    /// This one is there.
    pub(super) fn add(&mut self, name: &str, inode: u64, Contents { entries_at, entries }: &Contents) {
        let name: Arc<str> = name.into();
        let Ok(number) = u32::try_from(self.names.len()) else { return };
        self.names.push(Some(Arc::clone(&name)));
        if let Some(other) = self.packs.insert(name, Pack { number, inode, entries_at: *entries_at }) {
            self.names[other.number as usize] = None;
        }
        let there = entries.iter().filter(|(_, entry)| !entry.is_going);
        self.objects.extend(there.map(|(of, entry)| (key(entry.id), (number, *of))));
    }

    /// Where an object is.
    pub(super) fn place(&self, id: ObjectId) -> Option<Place> {
        let (pack, number) = *self.objects.get(&key(id))?;
        let name = self.names[pack as usize].as_ref()?;
        let entries_at = self.packs.get(name)?.entries_at;
        Some(Place { name: Arc::clone(name), entries_at, number })
    }
}
