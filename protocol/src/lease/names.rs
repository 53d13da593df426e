//! The I/O node's table of who may keep what it is told of names. See the [module](super).
//!
//! A look-up tells the truth if nobody changed anything between its beginning and its answer whom the table does not
//! ask first: those who have no lease, and the changes of the one who looks. Both are counted here, and a [`Mark`] from
//! the beginning says at the end whether there was one.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::limits::{LOOKS_AFTER_RECALL, LOOKS_BEFORE_LEASE};

/// Who has a lease of names. `P` is whoever may have one: a job on a node.
#[derive(Debug)]
pub struct Names<P> {
    parties: BTreeMap<P, Party>,
    /// Those who have a lease.
    holders: BTreeSet<P>,
    /// Changes that are under way, of all.
    changing: u32,
    /// Leases so far.
    numbers: u64,
    /// Files so far that somebody had open to write and has closed.
    written: u64,
}

#[derive(Debug)]
struct Party {
    /// The number of its lease.
    lease: Option<u64>,
    /// That was asked for.
    is_recalled: bool,
    /// Look-ups without a lease, and how many there are to be before it gets one.
    looks: u32,
    wanted: u32,
    /// Its changes that are under way, and all so far.
    changing: u32,
    changes: u64,
    /// It is no more, but for its changes.
    is_gone: bool,
}

/// What was so when a call began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The lease that its answer may be kept with.
    pub number: u64,
    changes: u64,
    written: u64,
}

impl<P> Default for Names<P> {
    fn default() -> Self {
        Self { parties: BTreeMap::new(), holders: BTreeSet::new(), changing: 0, numbers: 0, written: 0 }
    }
}

impl<P: Ord + Copy> Names<P> {
    fn party(&mut self, party: P) -> &mut Party {
        self.parties.entry(party).or_insert(Party {
            lease: None,
            is_recalled: false,
            looks: 0,
            wanted: LOOKS_BEFORE_LEASE,
            changing: 0,
            changes: 0,
            is_gone: false,
        })
    }

    /// Somebody looks something up, who gets a lease if it is time. Gives the mark if the answer may be kept with one.
    pub fn look(&mut self, party: P) -> Option<Mark> {
        let (changing, next) = (self.changing, self.numbers + 1);
        let own = self.party(party);
        if own.lease.is_none() {
            own.looks = own.looks.saturating_add(1);
            if own.looks <= own.wanted || changing > own.changing {
                return None;
            }
            (own.lease, own.is_recalled) = (Some(next), false);
            self.numbers = next;
            self.holders.insert(party);
        }
        self.mark(party, 0)
    }

    /// Somebody looks up all at once that it is going to want, and gets a lease for that, unless one was asked back
    /// from it a moment ago.
    pub fn look_at_all(&mut self, party: P) -> Option<Mark> {
        let own = self.party(party);
        if own.wanted == LOOKS_BEFORE_LEASE {
            own.looks = own.looks.max(LOOKS_BEFORE_LEASE);
        }
        self.look(party)
    }

    /// The mark of a call that begins and is no look-up that counts.
    #[must_use]
    pub fn beside(&self, party: P) -> Option<Mark> {
        self.mark(party, 0)
    }

    /// The mark of a call that begins beside so many changes of its own party's.
    fn mark(&self, party: P, own_changes: u32) -> Option<Mark> {
        let own = self.parties.get(&party)?;
        let number = own.lease.filter(|_| !own.is_recalled && own.changing == own_changes)?;
        Some(Mark { number, changes: own.changes, written: self.written })
    }

    /// Whether the answer to a call that began so may be kept, now that it is there; and whether attributes that it
    /// tells may be, if nobody has the file open to write now.
    #[must_use]
    pub fn still(&self, party: P, mark: Mark) -> (bool, bool) {
        let own = self.parties.get(&party);
        let is_so =
            own.is_some_and(|own| own.lease == Some(mark.number) && !own.is_recalled && own.changes == mark.changes);
        (is_so, is_so && self.written == mark.written)
    }

    /// Somebody is about to change something: [`Names::changed`] is to follow. Gives who is to give leases back first,
    /// as far as that was not said before, with their numbers: [`Names::may_change`] says when they are. Gives also the
    /// mark of the change, which counts from now on.
    pub fn change(&mut self, party: P) -> (Vec<(P, u64)>, Option<Mark>) {
        let own = self.party(party);
        own.changing += 1;
        own.changes += 1;
        self.changing += 1;
        let others: Vec<P> = self.holders.iter().copied().filter(|other| *other != party).collect();
        let mut recalls = Vec::new();
        for other in others {
            let held = self.party(other);
            if let Some(number) = held.lease.filter(|_| !core::mem::replace(&mut held.is_recalled, true)) {
                recalls.push((other, number));
            }
        }
        (recalls, self.mark(party, 1))
    }

    /// Whether nobody else has a lease any more.
    #[must_use]
    pub fn may_change(&self, party: P) -> bool {
        self.holders.len() == usize::from(self.holders.contains(&party))
    }

    /// A change is made, or will not be.
    pub fn changed(&mut self, party: P) {
        if let Some(own) = self.parties.get_mut(&party)
            && own.changing > 0
        {
            own.changing -= 1;
            self.changing -= 1;
            if own.is_gone && own.changing == 0 {
                self.parties.remove(&party);
            }
        }
    }

    /// Somebody has closed a file that was open to be written.
    pub fn wrote(&mut self) {
        self.written += 1;
    }

    /// Somebody has given a lease back. Whether it had it.
    pub fn returned(&mut self, party: P, number: u64) -> bool {
        let Some(own) = self.parties.get_mut(&party).filter(|own| own.lease == Some(number)) else { return false };
        (own.lease, own.is_recalled, own.looks, own.wanted) = (None, false, 0, LOOKS_AFTER_RECALL);
        self.holders.remove(&party);
        true
    }

    /// Somebody is no more; its changes may go on all the same. Whether it had a lease.
    pub fn gone(&mut self, party: P) -> bool {
        let had = self.holders.remove(&party);
        if let Some(own) = self.parties.get_mut(&party) {
            (own.lease, own.is_recalled, own.is_gone) = (None, false, true);
            if own.changing == 0 {
                self.parties.remove(&party);
            }
        }
        had
    }

    /// The number of a party's lease that was asked for and not given back: to be asked for again on a new connection.
    #[must_use]
    pub fn recalled(&self, party: P) -> Option<u64> {
        self.parties.get(&party).filter(|own| own.is_recalled).and_then(|own| own.lease)
    }

    /// Those who have a lease.
    pub fn holders(&self) -> impl Iterator<Item = P> {
        self.holders.iter().copied()
    }
}

#[cfg(test)]
mod tests;
