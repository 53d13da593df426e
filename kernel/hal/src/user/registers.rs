//! The integer registers of a thread.

/// What a thread has in its integer registers, and where it is.
///
/// After a system call `rcx` and `r11` say what they said before it, and are not given back to the thread as they are
/// here: the system-call instruction destroys them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "the fields are named as the processor's registers are")]
pub struct Registers {
    pub rax: u64,
    pub rbx: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rbp: u64,
    pub rsp: u64,
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rip: u64,
    /// Bits a program may not set are ignored.
    pub rflags: u64,
    /// Base address of segment `fs`. Bits above the program's half of the address space are ignored.
    pub fs_base: u64,
    /// Base address of segment `gs`; as for `fs`.
    pub gs_base: u64,
}

impl Registers {
    /// How many there are.
    pub const COUNT: usize = 20;

    /// All of them, in the order of the fields.
    #[must_use]
    pub const fn words(&self) -> [u64; Self::COUNT] {
        let r = self;
        [
            r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14,
            r.r15, r.rip, r.rflags, r.fs_base, r.gs_base,
        ]
    }

    /// From all of them, in that order.
    #[must_use]
    pub const fn of(words: [u64; Self::COUNT]) -> Self {
        let [rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15, rest @ ..] = words;
        let [rip, rflags, fs_base, gs_base] = rest;
        Self {
            rax,
            rbx,
            rcx,
            rdx,
            rsi,
            rdi,
            rbp,
            rsp,
            r8,
            r9,
            r10,
            r11,
            r12,
            r13,
            r14,
            r15,
            rip,
            rflags,
            fs_base,
            gs_base,
        }
    }

    /// A thread's first registers: all 0 but where it starts and its stack pointer.
    #[must_use]
    pub fn start(entry: u64, stack: u64) -> Self {
        Self { rip: entry, rsp: stack, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};
    use proptest::prop_assert_eq;

    use super::Registers;

    proptest! {
        #[test]
        fn all_of_them_are_among_the_words(words in any::<[u64; Registers::COUNT]>()) {
            prop_assert_eq!(Registers::of(words).words(), words);
        }
    }
}
