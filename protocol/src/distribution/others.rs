//! What a member thinks of the others: who does not answer, who sends what is wrong, and whether any of them has what
//! it looks for.

use alloc::collections::VecDeque;

use crate::limits::SUSPECTS_PER_MEMBER_MAX;

/// See this module.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// Who did not answer. What comes from them is as good as any.
    silent: VecDeque<u32>,
    /// Who sent what was wrong. Nothing of theirs is taken.
    liars: VecDeque<u32>,
    /// How many in a row did not have what they were asked for.
    misses: u8,
}

impl Others {
    /// One did not answer.
    pub(super) fn suspect(&mut self, member: u32) {
        add(&mut self.silent, member);
    }

    /// The first of those that did not answer may be asked again. Whether there was any.
    pub(super) fn forgive(&mut self) -> bool {
        self.silent.pop_front().is_some()
    }

    /// One sent what was wrong.
    pub(super) fn lied(&mut self, member: u32) {
        add(&mut self.liars, member);
    }

    pub(super) fn is_liar(&self, member: u32) -> bool {
        self.liars.contains(&member)
    }

    pub(super) fn has_liars(&self) -> bool {
        !self.liars.is_empty()
    }

    /// Whether it is asked for nothing.
    pub(super) fn is_avoided(&self, member: u32) -> bool {
        self.silent.contains(&member) || self.is_liar(member)
    }

    /// One did not have what it was asked for, or there was none to ask.
    pub(super) const fn miss(&mut self) {
        self.misses = self.misses.saturating_add(1);
    }

    /// One had it, or the next to be asked has it for certain.
    pub(super) const fn hit(&mut self) {
        self.misses = 0;
    }

    pub(super) fn misses(&self) -> u32 {
        self.misses.into()
    }
}

/// Adds a member to a list of at most [`SUSPECTS_PER_MEMBER_MAX`], from which the first goes.
fn add(list: &mut VecDeque<u32>, member: u32) {
    if list.contains(&member) {
        return;
    }
    if list.len() >= SUSPECTS_PER_MEMBER_MAX {
        list.pop_front();
    }
    if list.try_reserve(1).is_ok() {
        list.push_back(member);
    }
}
