//! What a process has cost so far.

use std::io;
use std::time::Duration;

/// Processor time of a process since it started, all its threads together, with the resolution of the system's clock
/// tick (10 ms as a rule).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In its own code.
    pub user: Duration,
    /// In the system on its behalf.
    pub system: Duration,
}

impl CpuTime {
    /// Both together.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.user.saturating_add(self.system)
    }

    /// Reads the processor time of process `pid`.
    ///
    /// # Errors
    /// There is no such process, or `/proc` is not what it should be.
    pub fn of(pid: u32) -> io::Result<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        parse(&stat, rustix::param::clock_ticks_per_second())
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("cannot read /proc/{pid}/stat")))
    }
}

/// Reads fields 14 and 15 of a stat line. Field 2, the program's name, may hold spaces and parentheses.
fn parse(stat: &str, ticks_per_second: u64) -> Option<CpuTime> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let mut time = || {
        let ticks: u64 = fields.next()?.parse().ok()?;
        let nanoseconds = u128::from(ticks) * 1_000_000_000 / u128::from(ticks_per_second.max(1));
        Some(Duration::from_nanos(u64::try_from(nanoseconds).ok()?))
    };
    Some(CpuTime { user: time()?, system: time()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines() {
        let line = "17 (a) b (c) S 1 17 17 0 -1 4194560 100 0 0 0 250 31 7 8 20 0 1 0 500 1000 10";
        let time = parse(line, 100).unwrap();
        assert_eq!(time.user, Duration::from_millis(2500));
        assert_eq!(time.system, Duration::from_millis(310));
        assert_eq!(parse("17 (a) S 1", 100), None);
        assert_eq!(parse("", 100), None);
    }

    #[test]
    fn own_time_grows() {
        let pid = std::process::id();
        let before = CpuTime::of(pid).unwrap();
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_millis(60) {
            std::hint::spin_loop();
        }
        assert!(CpuTime::of(pid).unwrap().total() > before.total());
        assert!(CpuTime::of(0).is_err());
    }
}
