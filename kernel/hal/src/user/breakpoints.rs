//! Where a debugger has threads stop: the processor's breakpoints (SDM volume 3, 17.2), which need no change of the
//! program and are nobody's but a thread's that has them.
//!
//! They are loaded with the rest of what is the processor's own of a thread, so that threads without any pay nothing.
//! The kernel never reaches a program's memory by the program's addresses, so that it never meets them itself.

use crate::addr::USER_END;

/// How many the processor has.
pub const BREAKPOINTS: usize = 4;

/// What one is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakOn {
    /// An instruction that is about to be executed. The thread comes back before it.
    Execute,
    /// A write. The thread comes back behind it.
    Write,
    /// A write or a read. The thread comes back behind it.
    Access,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breakpoint {
    address: u64,
    on: BreakOn,
    /// 1, 2, 4 or 8 bytes.
    length: u8,
}

impl Breakpoint {
    /// One at that address, of so many bytes. None, if the processor cannot have it, or not in a program.
    #[must_use]
    pub const fn new(address: u64, on: BreakOn, length: u8) -> Option<Self> {
        let is_length = match on {
            BreakOn::Execute => length == 1,
            BreakOn::Write | BreakOn::Access => matches!(length, 1 | 2 | 4 | 8),
        };
        if is_length && address < USER_END && address.is_multiple_of(length as u64) {
            Some(Self { address, on, length })
        } else {
            None
        }
    }

    /// What it is for.
    #[must_use]
    pub const fn on(&self) -> BreakOn {
        self.on
    }

    /// Kind and length as the control register has them.
    #[cfg(any(test, target_os = "none"))]
    const fn control(&self) -> u64 {
        let kind = match self.on {
            BreakOn::Execute => 0b00,
            BreakOn::Write => 0b01,
            BreakOn::Access => 0b11,
        };
        let length = match self.length {
            2 => 0b01,
            4 => 0b11,
            8 => 0b10,
            _ => 0b00,
        };
        length << 2 | kind
    }
}

/// All that a thread has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakpoints([Option<Breakpoint>; BREAKPOINTS]);

impl Breakpoints {
    /// These.
    #[must_use]
    pub const fn new(breakpoints: [Option<Breakpoint>; BREAKPOINTS]) -> Self {
        Self(breakpoints)
    }

    /// The number of the first that the error of a [`super::vector::DEBUG`] says was met, and it. (It may also say so
    /// of some that are not in use.)
    #[must_use]
    pub fn met(&self, error: u64) -> Option<(usize, Breakpoint)> {
        let all = self.0.iter().enumerate();
        all.filter(|(number, _)| error & 1 << number != 0).find_map(|(number, one)| one.map(|one| (number, one)))
    }

    /// What the control register (DR7) is to be.
    #[cfg(any(test, target_os = "none"))]
    fn control(&self) -> u64 {
        /// Always 1.
        const FIXED: u64 = 1 << 10;
        let one = |(number, one): (usize, &Option<Breakpoint>)| {
            one.map_or(0, |one| 1 << (2 * number) | one.control() << (16 + 4 * number))
        };
        self.0.iter().enumerate().map(one).fold(FIXED, |all, one| all | one)
    }

    #[cfg(target_os = "none")]
    fn address(&self, number: usize) -> u64 {
        self.0[number].map_or(0, |one| one.address)
    }

    /// Puts them into the processor.
    #[cfg(target_os = "none")]
    pub(super) fn load(&self) {
        use core::arch::asm;
        let [first, second, third, fourth] = core::array::from_fn(|number| self.address(number));
        // SAFETY: the addresses are in the program's half, which the kernel does not use; none is in use before the
        // control register says so, with bits that mean what they should.
        unsafe {
            asm!("mov dr7, {}", in(reg) Self::default().control(), options(nomem, nostack, preserves_flags));
            asm!("mov dr0, {}", "mov dr1, {}", "mov dr2, {}", "mov dr3, {}", "mov dr7, {}", in(reg) first,
                in(reg) second, in(reg) third, in(reg) fourth, in(reg) self.control(),
                options(nomem, nostack, preserves_flags));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BreakOn, Breakpoint, Breakpoints};
    use crate::addr::USER_END;

    #[test]
    fn the_control_register_says_what_each_is_for() {
        assert_eq!(Breakpoints::default().control(), 0x400);
        let execute = Breakpoint::new(0x40_1003, BreakOn::Execute, 1);
        let write = Breakpoint::new(0x40_2008, BreakOn::Write, 8);
        let access = Breakpoint::new(0x40_2004, BreakOn::Access, 4);
        let all = Breakpoints::new([execute, None, write, access]);
        // L0, L2 and L3; the length of 8 bytes is 0b10, of 4 bytes 0b11.
        assert_eq!(all.control(), 0x400 | 0b101_0001 | 0b1001 << 24 | 0b1111 << 28);
        assert_eq!(all.met(0x4004), write.map(|one| (2, one)));
        assert_eq!(all.met(0b1011), execute.map(|one| (0, one)));
        assert_eq!((all.met(0b0010), all.met(1 << 14)), (None, None));
    }

    #[test]
    fn what_the_processor_cannot_have_is_none() {
        for (address, on, length) in [
            (0x40_1000, BreakOn::Execute, 2),
            (0x40_1001, BreakOn::Write, 2),
            (0x40_1004, BreakOn::Access, 8),
            (0x40_1000, BreakOn::Write, 3),
            (0x40_1000, BreakOn::Write, 0),
            (USER_END, BreakOn::Execute, 1),
            (u64::MAX, BreakOn::Execute, 1),
        ] {
            assert_eq!(Breakpoint::new(address, on, length), None, "{address:#x} {on:?} {length}");
        }
        assert!(Breakpoint::new(USER_END - 8, BreakOn::Write, 8).is_some());
    }
}
