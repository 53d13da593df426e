//! Times: `struct timespec`, `struct timeval`, `struct tms`, `struct itimerval`.

use super::{Record, i64_at};
use crate::errno::Errno;

/// Length of `struct timespec` and of `struct timeval`, bytes.
pub(crate) const TIME_BYTES: usize = 16;
/// Nanoseconds in a second.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;
/// Length of a clock tick as times(2) counts them, ns (`AT_CLKTCK` is 100).
const TICK_NS: u64 = 10_000_000;

/// How a timer is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimerSetting {
    /// When it is up, ns: a time, or how long until then; 0: never.
    pub(crate) value_ns: u64,
    /// How long until it is up again, ns; 0: never.
    pub(crate) interval_ns: u64,
}

/// `struct timespec`.
pub(crate) fn timespec(ns: u64) -> Record<TIME_BYTES> {
    Record::new().u64(0, ns / SECOND_NS).u64(8, ns % SECOND_NS)
}

/// `struct timeval`, rounded down.
pub(crate) fn timeval(ns: u64) -> Record<TIME_BYTES> {
    Record::new().u64(0, ns / SECOND_NS).u64(8, ns % SECOND_NS / 1000)
}

/// `struct tms`: the process's own time, all of it in user mode, and none of children.
pub(crate) fn tms(cpu_ns: u64) -> Record<32> {
    Record::new().u64(0, ticks(cpu_ns))
}

/// Clock ticks in a time.
pub(crate) fn ticks(ns: u64) -> u64 {
    ns / TICK_NS
}

/// `struct timespec` of a duration or of a point in time → ns; what does not fit is the greatest there is (584
/// years).
///
/// # Errors
/// `EINVAL`: negative, or the nanoseconds are not below a second's.
pub(crate) fn parse_timespec(bytes: &[u8; TIME_BYTES]) -> Result<u64, Errno> {
    let nanoseconds = fraction(i64_at(bytes, 8), SECOND_NS)?;
    let seconds = u64::try_from(i64_at(bytes, 0)).map_err(|_| Errno::EINVAL)?;
    Ok(seconds.saturating_mul(SECOND_NS).saturating_add(nanoseconds))
}

/// `struct timeval` → ns, as [`parse_timespec`]. Unlike utimes(2), select(2) takes any number of microseconds.
///
/// # Errors
/// `EINVAL`: negative.
pub(crate) fn parse_timeval(bytes: &[u8; TIME_BYTES]) -> Result<u64, Errno> {
    let seconds = u64::try_from(i64_at(bytes, 0)).map_err(|_| Errno::EINVAL)?;
    let microseconds = u64::try_from(i64_at(bytes, 8)).map_err(|_| Errno::EINVAL)?;
    Ok(seconds.saturating_mul(SECOND_NS).saturating_add(microseconds.saturating_mul(1000)))
}

/// A part of a second in units of which `unit_count` make one.
///
/// # Errors
/// `EINVAL`: it is none.
pub(crate) fn fraction(value: i64, unit_count: u64) -> Result<u64, Errno> {
    u64::try_from(value).ok().filter(|value| *value < unit_count).ok_or(Errno::EINVAL)
}

#[cfg(test)]
mod tests {
    use core::mem::{offset_of, size_of};

    use super::super::u64_at;
    use super::{Errno, Record, SECOND_NS, TIME_BYTES, parse_timespec, parse_timeval, timespec, timeval, tms};

    #[test]
    fn layouts_are_the_hosts() {
        assert_eq!(TIME_BYTES, size_of::<libc::timespec>());
        assert_eq!(TIME_BYTES, size_of::<libc::timeval>());
        let b = timespec(3_000_000_004).into_bytes();
        assert_eq!(u64_at(&b, offset_of!(libc::timespec, tv_sec)), 3);
        assert_eq!(u64_at(&b, offset_of!(libc::timespec, tv_nsec)), 4);
        let b = timeval(3_000_004_999).into_bytes();
        assert_eq!(u64_at(&b, offset_of!(libc::timeval, tv_sec)), 3);
        assert_eq!(u64_at(&b, offset_of!(libc::timeval, tv_usec)), 4);
        let b = tms(70_000_000).into_bytes();
        assert_eq!(b.len(), size_of::<libc::tms>());
        assert_eq!(u64_at(&b, offset_of!(libc::tms, tms_utime)), 7);
    }

    #[test]
    fn impossible_times_are_refused_and_huge_ones_saturate() {
        let parse = |seconds: i64, rest: i64| parse_timespec(&Record::new().i64(0, seconds).i64(8, rest).into_bytes());
        assert_eq!(parse(2, 5), Ok(2 * SECOND_NS + 5));
        assert_eq!(parse(-1, 0), Err(Errno::EINVAL));
        assert_eq!(parse(0, -1), Err(Errno::EINVAL));
        assert_eq!(parse(0, 1_000_000_000), Err(Errno::EINVAL));
        assert_eq!(parse(i64::MAX, 0), Ok(u64::MAX));
        let parse = |seconds: i64, rest: i64| parse_timeval(&Record::new().i64(0, seconds).i64(8, rest).into_bytes());
        assert_eq!(parse(1, 2_000_000), Ok(3 * SECOND_NS));
        assert_eq!(parse(1, -2), Err(Errno::EINVAL));
    }
}
