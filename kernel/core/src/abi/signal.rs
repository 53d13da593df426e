//! Signals: the kernel's `struct sigaction`, `stack_t`, `siginfo_t`.

use serde::{Deserialize, Serialize};

use super::{Record, i64_at, u32_at, u64_at};

/// Length of the kernel's `struct sigaction` (not the C library's), bytes.
pub(crate) const SIGACTION_BYTES: usize = 32;
/// Length of `stack_t`, bytes.
pub(crate) const STACK_BYTES: usize = 24;
/// Length of `siginfo_t`, bytes.
pub(crate) const SIGINFO_BYTES: usize = 128;
/// Length of `struct signalfd_siginfo`, bytes.
pub(crate) const SIGNALFD_BYTES: usize = 128;
/// Length of a signal set as the kernel has it, bytes.
pub(crate) const SIGSET_BYTES: usize = 8;

/// The kernel's `struct sigaction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// `SA_SIGINFO`: the handler wants to know what the signal says.
    pub(crate) const SIGINFO: u64 = 4;
    /// `SA_RESTORER`: there is a restorer. Without, no handler can return.
    pub(crate) const RESTORER: u64 = 0x0400_0000;
    /// `SA_ONSTACK`: the handler runs on the alternate stack, if there is one.
    pub(crate) const ONSTACK: u64 = 0x0800_0000;
    /// `SA_RESTART`: calls that are interrupted are made again.
    pub(crate) const RESTART: u64 = 0x1000_0000;
    /// `SA_NODEFER`: the signal is not blocked while its handler runs.
    pub(crate) const NODEFER: u64 = 0x4000_0000;
    /// `SA_RESETHAND`: the handler runs once.
    pub(crate) const RESETHAND: u64 = 0x8000_0000;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AlternateStack {
    /// Its lowest address.
    pub(crate) address: u64,
    /// `SS_*`.
    pub(crate) flags: u32,
    /// Its length, bytes.
    pub(crate) bytes: u64,
}

impl AlternateStack {
    /// `SS_ONSTACK`: the thread is on it.
    pub(crate) const ONSTACK: u32 = 1;
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

    /// Whether an address is on it.
    pub(crate) const fn holds(&self, address: u64) -> bool {
        address > self.address && address - self.address <= self.bytes
    }

    /// Whether a thread with this stack pointer runs on it, as far as anybody may know.
    pub(crate) const fn is_used(&self, stack_pointer: u64) -> bool {
        self.flags & Self::AUTODISARM == 0 && self.holds(stack_pointer)
    }

    /// To the program's bytes.
    pub(crate) fn record(&self) -> Record<STACK_BYTES> {
        Record::new().u64(0, self.address).u32(8, self.flags).u64(16, self.bytes)
    }
}

/// Sent by kill(2).
pub(crate) const SI_USER: i32 = 0;
/// Sent by the kernel.
pub(crate) const SI_KERNEL: i32 = 0x80;
/// Sent by a timer of timer_create(2).
pub(crate) const SI_TIMER: i32 = -2;
/// Sent by tkill(2) or tgkill(2).
pub(crate) const SI_TKILL: i32 = -6;

/// What a signal says: as much of `siginfo_t` as Linux keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SignalInfo {
    /// The signal.
    pub(crate) signal: u32,
    /// `si_errno`, which nobody uses.
    errno: i32,
    /// `si_code`: who sent it, or what happened.
    pub(crate) code: i32,
    /// What else there is to say, which depends on that.
    fields: [u8; INFO_FIELDS_BYTES],
    /// A timer of timer_create(2) sent it. Who sends a signal with rt_sigqueueinfo(2) may only say so.
    is_from_timer: bool,
}

/// Where the part of `siginfo_t` is that depends on who sent the signal.
const INFO_FIELDS_AT: usize = 16;

/// How much of it Linux keeps.
const INFO_FIELDS_BYTES: usize = 32;

impl SignalInfo {
    const fn new(signal: u32, code: i32) -> Self {
        Self { signal, errno: 0, code, fields: [0; INFO_FIELDS_BYTES], is_from_timer: false }
    }

    /// The first of the fields that depend on who sent it: who that was, or an address.
    pub(crate) fn first_fields(&self) -> [u8; 16] {
        self.fields.first_chunk().copied().unwrap_or([0; 16])
    }

    fn with(mut self, offset: usize, bytes: &[u8]) -> Self {
        self.fields[offset..offset + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// That a process sent it, to the process it is for.
    pub(crate) fn user(signal: u32, sender: u32, user: u32) -> Self {
        Self::new(signal, SI_USER).sent_by(sender, user)
    }

    /// That a process sent it, to the thread it is for.
    pub(crate) fn to_thread(signal: u32, sender: u32, user: u32) -> Self {
        Self::new(signal, SI_TKILL).sent_by(sender, user)
    }

    fn sent_by(self, sender: u32, user: u32) -> Self {
        self.with(0, &sender.to_le_bytes()).with(4, &user.to_le_bytes())
    }

    /// That the kernel sent it.
    pub(crate) const fn kernel(signal: u32) -> Self {
        Self::new(signal, SI_KERNEL)
    }

    /// That its thread did what the processor does not do, and where.
    pub(crate) fn fault(signal: u32, code: i32, address: u64) -> Self {
        Self::new(signal, code).with(0, &address.to_le_bytes())
    }

    /// That a timer of timer_create(2) sent it, with the value it was given.
    pub(crate) fn timer(signal: u32, timer: u32, value: u64) -> Self {
        let info = Self::new(signal, SI_TIMER).with(0, &timer.to_le_bytes()).with(8, &value.to_le_bytes());
        Self { is_from_timer: true, ..info }
    }

    /// Which timer sent it, if one did.
    pub(crate) fn timer_id(&self) -> Option<u32> {
        self.is_from_timer.then(|| u32_at(&self.fields, 0))
    }

    /// The same of a timer that was up so many more times since it was sent.
    pub(crate) fn with_overruns(self, count: u32) -> Self {
        self.with(4, &count.to_le_bytes())
    }

    /// From the program's bytes, as the signal with this number.
    pub(crate) fn parse(bytes: &[u8; SIGINFO_BYTES], signal: u32) -> Self {
        let mut fields = [0; INFO_FIELDS_BYTES];
        fields.copy_from_slice(&bytes[INFO_FIELDS_AT..INFO_FIELDS_AT + INFO_FIELDS_BYTES]);
        let [errno, code] = [4, 8].map(|offset| u32_at(bytes, offset).cast_signed());
        Self { signal, errno, code, fields, is_from_timer: false }
    }

    /// To the program's bytes.
    pub(crate) fn record(&self) -> Record<SIGINFO_BYTES> {
        let [errno, code] = [self.errno, self.code].map(i32::cast_unsigned);
        Record::new().u32(0, self.signal).u32(4, errno).u32(8, code).raw(INFO_FIELDS_AT, &self.fields)
    }
}

impl SignalInfo {
    /// `struct signalfd_siginfo`: what signalfd(2) gives.
    pub(crate) fn read_record(&self) -> Record<SIGNALFD_BYTES> {
        let [errno, code] = [self.errno, self.code].map(i32::cast_unsigned);
        let record = Record::new().u32(0, self.signal).u32(4, errno).u32(8, code);
        let [one, other] = [0, 4].map(|offset| u32_at(&self.fields, offset));
        let value = u64_at(&self.fields, 8);
        let with_value = |record: Record<SIGNALFD_BYTES>| record.u32(44, value as u32).u64(48, value);
        match self.code {
            SI_TIMER => with_value(record.u32(24, one).u32(32, other)),
            // Sent with a value, or as if.
            ..SI_USER => with_value(record.u32(12, one).u32(16, other)),
            _ => record.u32(12, one).u32(16, other),
        }
    }
}

/// The seconds and nanoseconds are in no structure of their own, but read alike everywhere.
pub(crate) fn signed_pair(bytes: &[u8; 16]) -> (i64, i64) {
    (i64_at(bytes, 0), i64_at(bytes, 8))
}

#[cfg(test)]
mod tests {
    use core::mem::{offset_of, size_of};

    use super::super::{u32_at, u64_at};
    use super::{
        AlternateStack, SI_KERNEL, SI_TIMER, SI_TKILL, SI_USER, SIGACTION_BYTES, SIGINFO_BYTES, SIGNALFD_BYTES,
        STACK_BYTES,
    };
    use super::{SignalAction, SignalInfo};

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
        let b = SignalInfo::to_thread(6, 1000, 7).record().into_bytes();
        assert_eq!(u32_at(&b, offset_of!(libc::siginfo_t, si_signo)), 6);
        assert_eq!(u32_at(&b, offset_of!(libc::siginfo_t, si_code)).cast_signed(), libc::SI_TKILL);
        assert_eq!(u32_at(&b, offset_of!(libc::siginfo_t, si_errno)), 0);
        assert_eq!([16, 20].map(|offset| u32_at(&b, offset)), [1000, 7]);
        let timer = SignalInfo::timer(34, 5, 9).with_overruns(3);
        assert_eq!(timer.timer_id(), Some(5));
        let b = timer.record().into_bytes();
        assert_eq!([16, 20].map(|offset| u32_at(&b, offset)), [5, 3]);
        assert_eq!(u64_at(&b, 24), 9);
        let claimed = SignalInfo::parse(&b, 34);
        assert_eq!((claimed.record().into_bytes(), claimed.timer_id()), (b, None), "only a timer is one");
        assert_eq!(u64_at(&SignalInfo::fault(11, 1, 0x1234).record().into_bytes(), 16), 0x1234);
    }

    #[test]
    fn what_is_read_of_a_signal_has_the_hosts_layout() {
        assert_eq!(SIGNALFD_BYTES, size_of::<libc::signalfd_siginfo>());
        let b = SignalInfo::timer(34, 5, 0x1_0000_0009).with_overruns(3).read_record().into_bytes();
        let at = |offset: usize| u32_at(&b, offset);
        assert_eq!(at(offset_of!(libc::signalfd_siginfo, ssi_signo)), 34);
        assert_eq!(at(offset_of!(libc::signalfd_siginfo, ssi_code)).cast_signed(), libc::SI_TIMER);
        assert_eq!(at(offset_of!(libc::signalfd_siginfo, ssi_tid)), 5);
        assert_eq!(at(offset_of!(libc::signalfd_siginfo, ssi_overrun)), 3);
        assert_eq!(at(offset_of!(libc::signalfd_siginfo, ssi_int)), 9);
        assert_eq!(u64_at(&b, offset_of!(libc::signalfd_siginfo, ssi_ptr)), 0x1_0000_0009);
        let b = SignalInfo::user(10, 1000, 7).read_record().into_bytes();
        assert_eq!(u32_at(&b, offset_of!(libc::signalfd_siginfo, ssi_pid)), 1000);
        assert_eq!(u32_at(&b, offset_of!(libc::signalfd_siginfo, ssi_uid)), 7);
    }

    #[test]
    fn codes_and_flags_are_the_hosts() {
        assert_eq!([SI_USER, SI_KERNEL, SI_TIMER, SI_TKILL], [0, libc::SI_KERNEL, libc::SI_TIMER, libc::SI_TKILL]);
        let host =
            [libc::SA_SIGINFO, 0x0400_0000, libc::SA_ONSTACK, libc::SA_RESTART, libc::SA_NODEFER, libc::SA_RESETHAND];
        let ours = [
            SignalAction::SIGINFO,
            SignalAction::RESTORER,
            SignalAction::ONSTACK,
            SignalAction::RESTART,
            SignalAction::NODEFER,
            SignalAction::RESETHAND,
        ];
        assert_eq!(ours, host.map(|flag| u64::from(flag.cast_unsigned())));
    }
}
