//! Stacks as bytes. A stack follows the one with which it has most in common, and says how many of the outermost
//! addresses it shares with that; each other address is how far it is from the one outside of it, and most are near.
//! All numbers are LEB128. What is decoded is looked at before anything is allocated for it.

use alloc::vec::Vec;
use core::cmp::Ordering;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{ADDRESS_END, Stacks, order};
use crate::limits::{OVERLAY_LEAVES_MAX, OVERLAY_STACK_ADDRESSES_MAX, OVERLAY_STACK_DEPTH_MAX, OVERLAY_STACKS_MAX};

/// Bytes that are no stacks, or more than there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no stacks")]
pub(super) struct NoStacks;

impl Serialize for Stacks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&encode(self))
    }
}

impl<'de> Deserialize<'de> for Stacks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        decode(<&[u8]>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take(bytes: &mut &[u8]) -> Result<u64, NoStacks> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or(NoStacks)?;
        *bytes = rest;
        let part = u64::from(first & 0x7f);
        if part << shift >> shift != part {
            return Err(NoStacks);
        }
        number |= part << shift;
        if first & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(NoStacks)
}

/// How far it is from one address to the next, those before it as odd numbers.
fn step(from: u64, to: u64) -> u64 {
    let far = to.wrapping_sub(from).cast_signed();
    (far << 1 ^ far >> 63).cast_unsigned()
}

fn stepped(from: u64, step: u64) -> Result<u64, NoStacks> {
    let far = (step >> 1) ^ (step & 1).wrapping_neg();
    Some(from.wrapping_add(far)).filter(|to| *to < ADDRESS_END).ok_or(NoStacks)
}

pub(super) fn encode(stacks: &Stacks) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, stacks.deep.len() as u64);
    let mut last: &[u64] = &[];
    for (stack, count) in &stacks.deep {
        let shared = stack.iter().rev().zip(last.iter().rev()).take_while(|(one, other)| one == other).count();
        put(&mut out, shared as u64);
        put(&mut out, (stack.len() - shared) as u64);
        let (inner, outer) = stack.split_at(stack.len() - shared);
        let mut from = outer.first().or(last.last()).copied().unwrap_or_default();
        for address in inner.iter().rev() {
            put(&mut out, step(from, *address));
            from = *address;
        }
        put(&mut out, *count);
        last = stack;
    }
    put(&mut out, stacks.leaves.len() as u64);
    let mut from = 0;
    for (leaf, count) in &stacks.leaves {
        put(&mut out, leaf - from);
        put(&mut out, *count);
        from = *leaf;
    }
    put(&mut out, stacks.elsewhere);
    out
}

/// A count, which the sum has room for.
fn take_count(bytes: &mut &[u8], sum: &mut u64) -> Result<u64, NoStacks> {
    let count = take(bytes)?;
    *sum = sum.checked_add(count).ok_or(NoStacks)?;
    Ok(count)
}

/// What is decoded is as it would have been made.
pub(super) fn decode(mut bytes: &[u8]) -> Result<Stacks, NoStacks> {
    let bytes = &mut bytes;
    let (mut stacks, mut sum) = (Stacks::default(), 0);
    let number = |number: u64, most: usize| usize::try_from(number).ok().filter(|it| *it <= most).ok_or(NoStacks);
    for _ in 0..number(take(bytes)?, OVERLAY_STACKS_MAX)? {
        let stack = take_stack(bytes, stacks.deep.last().map_or(&[], |(stack, _)| stack))?;
        let is_next = stacks.deep.last().is_none_or(|(last, _)| order(last, &stack) == Ordering::Less);
        let count = take_count(bytes, &mut sum)?;
        stacks.addresses += stack.len();
        if !is_next || count == 0 || stacks.addresses > OVERLAY_STACK_ADDRESSES_MAX {
            return Err(NoStacks);
        }
        stacks.deep.push((stack.into(), count));
    }
    for place in 0..number(take(bytes)?, OVERLAY_LEAVES_MAX)? {
        let (far, count) = (take(bytes)?, take_count(bytes, &mut sum)?);
        let leaf = stacks.leaves.last().map_or(Some(far), |(last, _)| last.checked_add(far));
        let leaf = leaf.filter(|leaf| *leaf < ADDRESS_END).ok_or(NoStacks)?;
        if count == 0 || place > 0 && far == 0 {
            return Err(NoStacks);
        }
        stacks.leaves.push((leaf, count));
    }
    stacks.elsewhere = take_count(bytes, &mut sum)?;
    if bytes.is_empty() { Ok(stacks) } else { Err(NoStacks) }
}

/// A stack of more than one address that follows that one; innermost first.
fn take_stack(bytes: &mut &[u8], last: &[u64]) -> Result<Vec<u64>, NoStacks> {
    let (shared, own) = (take(bytes)?, take(bytes)?);
    let length = shared.checked_add(own).ok_or(NoStacks)?;
    let is_there = shared <= last.len() as u64 && (2..=OVERLAY_STACK_DEPTH_MAX as u64).contains(&length);
    if !is_there {
        return Err(NoStacks);
    }
    // Outermost first, as they come.
    let mut stack: Vec<u64> = last.iter().rev().take(shared as usize).copied().collect();
    let mut from = stack.last().or(last.last()).copied().unwrap_or_default();
    for _ in 0..own {
        from = stepped(from, take(bytes)?)?;
        stack.push(from);
    }
    stack.reverse();
    Ok(stack)
}
