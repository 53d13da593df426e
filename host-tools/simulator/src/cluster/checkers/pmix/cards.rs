//! What a rank must get of what another one has put, at least: what a fence has brought, what it got before, and on its
//! own node all that was committed.

use std::collections::BTreeMap;

use crate::cluster::pmix::{Course, Want};

/// See this module. Commits are counted.
#[derive(Debug, Default)]
pub(super) struct Cards {
    /// How often each rank was about to commit, and how often it was told that it has.
    begun: BTreeMap<u32, u64>,
    done: BTreeMap<u32, u64>,
    /// What the first of two ranks must know of the second.
    known: BTreeMap<(u32, u32), u64>,
}

/// How often a rank must have committed for this to be there.
fn needs(want: Want) -> Option<u64> {
    match want {
        Want::Again(_) | Want::Scoped => Some(1),
        Want::Once(round, _) => Some(round + 1),
        Want::Never | Want::NeverEver => None,
    }
}

impl Cards {
    pub(super) fn begins(&mut self, rank: u32, round: u64) {
        self.begun.insert(rank, round + 1);
    }

    pub(super) fn has_committed(&mut self, rank: u32, round: u64) {
        self.done.insert(rank, round + 1);
    }

    /// Whether what is wanted is there, for whoever asks.
    pub(super) fn is_there(&self, of: u32, want: Want) -> bool {
        needs(want).is_some_and(|commits| self.commits(of) >= commits)
    }

    /// How often a rank was told that it has committed.
    pub(super) fn commits(&self, rank: u32) -> u64 {
        self.done.get(&rank).copied().unwrap_or_default()
    }

    /// A fence has brought one what its members had put when they entered it, after so many commits.
    pub(super) fn are_brought(&mut self, to: u32, members: &BTreeMap<u32, u64>) {
        for (of, commits) in members {
            self.knows(to, *of, *commits);
        }
    }

    fn knows(&mut self, who: u32, of: u32, commits: u64) {
        let known = self.known.entry((who, of)).or_default();
        *known = commits.max(*known);
    }

    /// What a rank must get that asks now.
    pub(super) fn floor(&self, course: &Course, who: u32, of: u32) -> u64 {
        let known = self.known.get(&(who, of)).copied().unwrap_or_default();
        if course.are_neighbours(who, of) { self.commits(of).max(known) } else { known }
    }

    /// A rank is told what another one had put after so many commits.
    pub(super) fn gets(&mut self, who: u32, of: u32, want: Want, floor: u64, commits: u64) -> Result<(), String> {
        let begun = self.begun.get(&of).copied().unwrap_or_default();
        let least = floor.max(needs(want).unwrap_or(u64::MAX));
        if commits < least {
            return Err(format!("gets what rank {of} had put after {commits} commits, and knows of {least}"));
        }
        if commits > begun {
            return Err(format!("gets what rank {of} has put after {commits} commits, of {begun}"));
        }
        self.knows(who, of, commits);
        Ok(())
    }
}
