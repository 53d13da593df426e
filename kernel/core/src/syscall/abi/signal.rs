//! Signals: the kernel's `struct sigaction`, `stack_t`, `siginfo_t`.

use super::{Record, i64_at, u32_at, u64_at};

/// Length of the kernel's `struct sigaction` (not the C library's), bytes.
pub(crate) const SIGACTION_BYTES: usize = 32;
/// Length of `stack_t`, bytes.
pub(crate) const STACK_BYTES: usize = 24;
/// Length of `siginfo_t`, bytes.
pub(crate) const SIGINFO_BYTES: usize = 128;
/// Length of a signal set as the kernel has it, bytes.
pub(crate) const SIGSET_BYTES: usize = 8;

/// The kernel's `struct sigaction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SignalAction {
    /// `SIG_DFL` (0), `SIG_IGN` (1), or the handler's address.
    pub(crate) handler: u64,
    /// `SA_*`.
    pub(crate) flags: u64,
    /// Where a handler returns to.
    pub(crate) restorer: u64,
    /// Signals blocked while the handler runs.
    pub(crate) mask: u64,
}

impl SignalAction {
    /// From the program's bytes.
    pub(crate) fn parse(bytes: &[u8; SIGACTION_BYTES]) -> Self {
        let [handler, flags, restorer, mask] = [0, 8, 16, 24].map(|offset| u64_at(bytes, offset));
        Self { handler, flags, restorer, mask }
    }

    /// To the program's bytes.
    pub(crate) fn record(&self) -> Record<SIGACTION_BYTES> {
        Record::new().u64(0, self.handler).u64(8, self.flags).u64(16, self.restorer).u64(24, self.mask)
    }
}

/// `stack_t`: where handlers run that ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AlternateStack {
    /// Its lowest address.
    pub(crate) address: u64,
    /// `SS_*`.
    pub(crate) flags: u32,
    /// Its length, bytes.
    pub(crate) bytes: u64,
}

impl AlternateStack {
    /// `SS_DISABLE`: there is none.
    pub(crate) const DISABLE: u32 = 2;
    /// `SS_AUTODISARM`.
    pub(crate) const AUTODISARM: u32 = 1 << 31;
    /// Shortest that is taken, bytes (`MINSIGSTKSZ`).
    pub(crate) const BYTES_MIN: u64 = 2048;
    /// None.
    pub(crate) const NONE: Self = Self { address: 0, flags: Self::DISABLE, bytes: 0 };

    /// From the program's bytes.
    pub(crate) fn parse(bytes: &[u8; STACK_BYTES]) -> Self {
        Self { address: u64_at(bytes, 0), flags: u32_at(bytes, 8), bytes: u64_at(bytes, 16) }
    }

    /// To the program's bytes.
    pub(crate) fn record(&self) -> Record<STACK_BYTES> {
        Record::new().u64(0, self.address).u32(8, self.flags).u64(16, self.bytes)
    }
}

/// `siginfo_t` of a signal that process `sender` of `user` sent itself.
pub(crate) fn siginfo(signal: u32, code: i32, sender: u32, user: u32) -> Record<SIGINFO_BYTES> {
    Record::new().u32(0, signal).u32(8, code.cast_unsigned()).u32(16, sender).u32(20, user)
}

/// The seconds and nanoseconds are in no structure of their own, but read alike everywhere.
pub(crate) fn signed_pair(bytes: &[u8; 16]) -> (i64, i64) {
    (i64_at(bytes, 0), i64_at(bytes, 8))
}

#[cfg(test)]
mod tests {
    use core::mem::{offset_of, size_of};

    use super::super::{u32_at, u64_at};
    use super::{AlternateStack, SIGACTION_BYTES, SIGINFO_BYTES, STACK_BYTES, SignalAction, siginfo};

    #[test]
    fn actions_survive_the_way_through_the_programs_memory() {
        let action = SignalAction { handler: 1, flags: 2, restorer: 3, mask: 4 };
        let bytes = action.record().into_bytes();
        assert_eq!(bytes.len(), SIGACTION_BYTES);
        assert_eq!([0, 8, 16, 24].map(|offset| u64_at(&bytes, offset)), [1, 2, 3, 4]);
        assert_eq!(SignalAction::parse(&bytes), action);
    }

    #[test]
    fn stacks_have_the_hosts_layout() {
        assert_eq!(STACK_BYTES, size_of::<libc::stack_t>());
        let stack = AlternateStack { address: 1, flags: 2, bytes: 3 };
        let b = stack.record().into_bytes();
        assert_eq!(u64_at(&b, offset_of!(libc::stack_t, ss_sp)), 1);
        assert_eq!(u32_at(&b, offset_of!(libc::stack_t, ss_flags)), 2);
        assert_eq!(u64_at(&b, offset_of!(libc::stack_t, ss_size)), 3);
        assert_eq!(AlternateStack::parse(&b), stack);
        assert_eq!(AlternateStack::DISABLE, libc::SS_DISABLE as u32);
    }

    #[test]
    fn signal_information_has_the_hosts_layout() {
        assert_eq!(SIGINFO_BYTES, size_of::<libc::siginfo_t>());
        let b = siginfo(6, -6, 1000, 7).into_bytes();
        assert_eq!(u32_at(&b, offset_of!(libc::siginfo_t, si_signo)), 6);
        assert_eq!(u32_at(&b, offset_of!(libc::siginfo_t, si_code)).cast_signed(), -6);
        assert_eq!(u32_at(&b, 16), 1000);
        assert_eq!(u32_at(&b, 20), 7);
    }
}
