//! Where threads sleep, as data.

use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Entry, Futexes, Sleeper, Word};
use crate::sync::atomic::Ordering;

/// Where a thread sleeps, and for which bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    word: Word,
    bits: u32,
}

impl Futexes {
    /// Takes these sleepers out of their queues. Gives where each was by its index, those that have slept longest at a
    /// word first; those that were woken are nowhere.
    pub(crate) fn take_places(&self, sleepers: &[Arc<Sleeper>]) -> Vec<(u32, Place)> {
        let mut places = Vec::new();
        for queue in self.0.get().into_iter().flatten() {
            let mut queue = queue.lock();
            queue.0.retain(|Entry { word, bits, sleeper }| {
                let known = sleepers.iter().position(|known| Arc::ptr_eq(known, sleeper));
                if let Some(index) = known {
                    places.push((index as u32, Place { word: *word, bits: *bits }));
                }
                known.is_none()
            });
            queue.settle();
        }
        places
    }

    /// Has a thread lie where it lay, behind those that are there.
    pub(crate) fn lie_down_again(&self, sleeper: &Arc<Sleeper>, place: Place) {
        let index = place.word.queue();
        let mut queue = self.queue(index).lock();
        sleeper.queue.store(index, Ordering::Relaxed);
        sleeper.woken.store(false, Ordering::Relaxed);
        queue.0.push_back(Entry { word: place.word, bits: place.bits, sleeper: Arc::clone(sleeper) });
    }
}
