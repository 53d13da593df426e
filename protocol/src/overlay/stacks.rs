//! Where programs were when somebody looked: how often each stack was seen, in bounded room, such that those of parts
//! come together to those of the whole.
//!
//! A stack is the address of the instruction at which a thread was, and behind it the return addresses of the calls in
//! which it was, innermost first, as far as they are known. Whatever there is no room for is still counted: a stack of
//! which too many others were seen more often counts as its innermost address alone, and that, if it comes to the
//! worst, as *elsewhere*, a stack of no address. So the sum is exact, and what each function takes itself stays right
//! as long as possible.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::{iter, slice};

use crate::limits::{OVERLAY_LEAVES_MAX, OVERLAY_STACK_ADDRESSES_MAX, OVERLAY_STACK_DEPTH_MAX, OVERLAY_STACKS_MAX};

mod coding;

/// Programs have no code from here on.
const ADDRESS_END: u64 = 1 << 47;

/// See this module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// Those of more than one address, in order of their outermost addresses, so that those are neighbours that have
    /// most in common.
    deep: Vec<Deep>,
    /// Addresses of all of them.
    addresses: usize,
    /// Those of one address, in order.
    leaves: Vec<(u64, u64)>,
    elsewhere: u64,
}

/// Innermost address first, and how often.
type Deep = (Box<[u64]>, u64);

/// The order of [`Stacks::deep`].
fn order(one: &[u64], other: &[u64]) -> Ordering {
    one.iter().rev().cmp(other.iter().rev())
}

/// Where the one is that was seen least often.
fn lightest<T>(of: &[(T, u64)]) -> Option<usize> {
    of.iter().enumerate().min_by_key(|(_, (_, count))| *count).map(|(place, _)| place)
}

impl Stacks {
    /// What one of [`OVERLAY_STACKS_MAX`] takes besides its addresses, bytes.
    pub const DEEP_BYTES: usize = size_of::<Deep>();

    /// What one of [`OVERLAY_LEAVES_MAX`] takes, bytes.
    pub const LEAF_BYTES: usize = size_of::<(u64, u64)>();

    /// Of nobody.
    #[must_use]
    pub const fn none() -> Self {
        Self { deep: Vec::new(), addresses: 0, leaves: Vec::new(), elsewhere: 0 }
    }

    /// A stack was seen so often, innermost address first. It ends before the first address that no program has, and
    /// after [`OVERLAY_STACK_DEPTH_MAX`].
    pub fn add(&mut self, stack: &[u64], count: u64) {
        let end = stack.iter().take(OVERLAY_STACK_DEPTH_MAX).take_while(|address| **address < ADDRESS_END).count();
        let stack = stack.get(..end).unwrap_or_default();
        match stack {
            _ if count == 0 => {}
            [] => self.elsewhere = self.elsewhere.saturating_add(count),
            [leaf] => self.add_leaf(*leaf, count),
            _ => self.add_deep(stack, count, true),
        }
    }

    /// Those of another, too.
    pub fn merge(&mut self, other: &Self) {
        // What is rare goes when all are there, as what is rare here may be frequent there.
        other.deep.iter().for_each(|(stack, count)| self.add_deep(stack, *count, false));
        while self.deep.len() > OVERLAY_STACKS_MAX || self.addresses > OVERLAY_STACK_ADDRESSES_MAX {
            self.cut_one();
        }
        other.leaves.iter().for_each(|(leaf, count)| self.add_leaf(*leaf, *count));
        self.elsewhere = self.elsewhere.saturating_add(other.elsewhere);
    }

    fn add_deep(&mut self, stack: &[u64], count: u64, is_bounded: bool) {
        let found = self.deep.binary_search_by(|(known, _)| order(known, stack));
        if let Ok(place) = found {
            self.deep[place].1 = self.deep[place].1.saturating_add(count);
            return;
        }
        // Room is made before it is taken, so that there is never more than is charged. The newest is not what goes:
        // else nothing that begins late would ever be seen.
        let has_room = |this: &Self| {
            this.deep.len() < OVERLAY_STACKS_MAX && this.addresses + stack.len() <= OVERLAY_STACK_ADDRESSES_MAX
        };
        while is_bounded && !has_room(self) {
            self.cut_one();
        }
        let (Ok(place) | Err(place)) = self.deep.binary_search_by(|(known, _)| order(known, stack));
        self.deep.insert(place, (stack.into(), count));
        self.addresses += stack.len();
    }

    /// The rarest of those of more than one address counts as its innermost one.
    fn cut_one(&mut self) {
        let Some(place) = lightest(&self.deep) else { return };
        let (stack, count) = self.deep.remove(place);
        self.addresses -= stack.len();
        self.add(stack.get(..1).unwrap_or_default(), count);
    }

    fn add_leaf(&mut self, leaf: u64, count: u64) {
        let search = |leaves: &[(u64, u64)]| leaves.binary_search_by_key(&leaf, |(known, _)| *known);
        if let Ok(place) = search(&self.leaves) {
            self.leaves[place].1 = self.leaves[place].1.saturating_add(count);
            return;
        }
        if self.leaves.len() >= OVERLAY_LEAVES_MAX
            && let Some(place) = lightest(&self.leaves)
        {
            let (_, gone) = self.leaves.remove(place);
            self.elsewhere = self.elsewhere.saturating_add(gone);
        }
        let (Ok(place) | Err(place)) = search(&self.leaves);
        self.leaves.insert(place, (leaf, count));
    }

    /// How often somebody looked and a thread was in its program: all counts together.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.iter().fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.deep.is_empty() && self.leaves.is_empty() && self.elsewhere == 0
    }

    /// Each stack once, innermost address first, and how often it was seen. All addresses but the innermost one are
    /// behind a call instruction. That of no address is what there was no room for.
    pub fn iter(&self) -> impl Iterator<Item = (&[u64], u64)> {
        let deep = self.deep.iter().map(|(stack, count)| (&stack[..], *count));
        let leaves = self.leaves.iter().map(|(leaf, count)| (slice::from_ref(leaf), *count));
        let elsewhere = iter::once((&[][..], self.elsewhere)).filter(|(_, count)| *count > 0);
        deep.chain(leaves).chain(elsewhere)
    }
}

#[cfg(test)]
pub(super) mod tests;
