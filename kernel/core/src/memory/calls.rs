//! In which calls a thread is: where each of them returns to, as far as the frames on its stack say so.
//!
//! Programs that keep frame pointers (`-fno-omit-frame-pointer`) have in `rbp` where the frame of a function lies: the
//! caller's `rbp`, and behind it where the call returns to. Others have anything there. So what looks like a frame is
//! believed only if its place is plausible and what it returns to is code behind a call; else the calls are unknown
//! from there on, rather than wrong. Where a function has just been entered, or is about to return, its frame is not
//! there, but where it returns to is known from the instruction at hand. What is never known: the caller of a function
//! that keeps no frame, of which it does not look so; that one is left out.
//!
//! Nothing is fetched or brought in for that, and nothing changed: what is not there ends it.

use coppice_hal::addr::UserPage;
use coppice_hal::paging::Access;

use super::limits::PAGE;
use super::space::AddressSpace;

/// Of a word, and of an address.
const WORD: u64 = 8;

/// The longest call instruction, without prefixes, bytes.
const CALL_BYTES_MAX: usize = 7;

impl AddressSpace {
    /// Puts into `out` where a thread with these registers is, and after that where each of its calls returns to, the
    /// innermost first. How many these are: as many as there is room for at most, and one in any case, if there is.
    #[must_use]
    pub fn calls(&self, rip: u64, rsp: u64, rbp: u64, out: &mut [u64]) -> usize {
        let Some(first) = out.first_mut() else { return 0 };
        *first = rip;
        let mut count = 1;
        let stack_end = self.areas.find(rsp).map_or(0, |(_, area)| area.end);
        let mut from = rsp;
        if let Some(at) = self.without_frame(rip, rsp)
            && let Some(address) = self.word(at, stack_end).filter(|address| self.is_behind_call(*address))
            && let Some(place) = out.get_mut(count)
        {
            *place = address;
            count += 1;
            from = at + WORD;
        }
        let mut frame = rbp;
        // Each lies further out than the one before, so they come to an end.
        while frame >= from
            && let Some(next) = self.word(frame, stack_end)
            && let Some(address) = self.word(frame + WORD, stack_end).filter(|address| self.is_behind_call(*address))
            && let Some(place) = out.get_mut(count)
        {
            *place = address;
            count += 1;
            (from, frame) = (frame + 2 * WORD, next);
        }
        count
    }

    /// Where on the stack it lies where a function returns to that is about to make its frame, or has taken it away;
    /// nothing if it does not look so.
    fn without_frame(&self, rip: u64, rsp: u64) -> Option<u64> {
        const ENTRY: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
        const PUSH_RBP: u8 = 0x55;
        const RBP_IS_RSP: [&[u8]; 2] = [&[0x48, 0x89, 0xe5], &[0x48, 0x8b, 0xec]];
        const RETURNS: [u8; 2] = [0xc3, 0xc2];
        let mut code = [0; 4];
        self.look(rip, &mut code);
        if code == ENTRY || code[0] == PUSH_RBP || RETURNS.contains(&code[0]) {
            Some(rsp)
        } else if RBP_IS_RSP.iter().any(|instruction| code.starts_with(instruction)) {
            rsp.checked_add(WORD)
        } else {
            None
        }
    }

    /// A word of the stack, which ends there. Nothing if it is not aligned, or is not in memory now.
    fn word(&self, address: u64, stack_end: u64) -> Option<u64> {
        let is_there = address.is_multiple_of(WORD) && address.checked_add(WORD).is_some_and(|end| end <= stack_end);
        let mapped = self.table.lookup(UserPage::containing(address).filter(|_| is_there)?)?;
        let mut word = [0; WORD as usize];
        if mapped.access().is_empty() {
            return None;
        }
        mapped.read((address % PAGE) as usize, &mut word);
        Some(u64::from_le_bytes(word))
    }

    /// Bytes of memory, as far as they are there now, with zeros for others.
    fn look(&self, address: u64, out: &mut [u8]) {
        let on_first = ((PAGE - address % PAGE) as usize).min(out.len());
        let (first, second) = out.split_at_mut(on_first);
        for (address, part) in [(Some(address), first), (address.checked_add(on_first as u64), second)] {
            let page = address.and_then(UserPage::containing);
            let mapped = page.and_then(|page| self.table.lookup(page)).filter(|mapped| !mapped.access().is_empty());
            match (mapped, address) {
                (Some(mapped), Some(address)) => mapped.read((address % PAGE) as usize, part),
                _ => part.fill(0),
            }
        }
    }

    /// Whether an address is one that a call returns to: it is code, and behind a call instruction.
    fn is_behind_call(&self, address: u64) -> bool {
        const CALL: u8 = 0xe8;
        let Some(from) = address.checked_sub(CALL_BYTES_MAX as u64) else { return false };
        if !self.may_access(address, Access::EXECUTE) {
            return false;
        }
        let mut code = [0; CALL_BYTES_MAX];
        self.look(from, &mut code);
        if let [.., CALL, a, b, c, d] = code {
            let far = i32::from_le_bytes([a, b, c, d]);
            let to = address.checked_add_signed(far.into());
            if to.is_some_and(|to| self.may_access(to, Access::EXECUTE)) {
                return true;
            }
        }
        (2..=CALL_BYTES_MAX).any(|bytes| is_indirect_call(&code[CALL_BYTES_MAX - bytes..]))
    }
}

/// Whether this is a call of what a register or a word of memory says, and nothing behind it.
fn is_indirect_call(code: &[u8]) -> bool {
    const OPERATION: u8 = 0xff;
    const CALL: u8 = 2;
    let [OPERATION, operand, rest @ ..] = code else { return false };
    let (mode, what, base) = (operand >> 6, operand >> 3 & 7, operand & 7);
    let has_index = mode != 3 && base == 4;
    let is_absolute = base == 5 || has_index && rest.first().is_some_and(|index| index & 7 == 5);
    let distance_bytes = match mode {
        0 if is_absolute => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    what == CALL && rest.len() == usize::from(has_index) + distance_bytes
}
