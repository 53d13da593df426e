//! What the system says of the cluster's processes, in `/proc`: no disk is behind that.

use rustix::param::{clock_ticks_per_second, page_size};

use super::seen::HelperSeen;

/// A process of the cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessSeen {
    /// What it is.
    pub role: &'static str,
    /// Its pset, if it is an I/O node.
    pub pset: Option<u32>,
    /// It does its work.
    pub up: bool,
    /// How often it was started anew, if somebody does that.
    pub restarts: Option<u64>,
    /// What it takes of the host, if the system says so.
    pub usage: Option<Usage>,
}

/// What a process takes of the host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// Memory, bytes.
    pub resident_bytes: u64,
    /// Processor time, seconds.
    pub cpu_s: f64,
}

/// This process and those that it has started.
#[must_use]
pub fn processes(helpers: &[HelperSeen]) -> Vec<ProcessSeen> {
    let own = std::process::id();
    let usage = usage_of(own).map(|(_, usage)| usage);
    let service_node = ProcessSeen { role: "coppiced", pset: None, up: true, restarts: None, usage };
    let of_helper = |helper: &HelperSeen| ProcessSeen {
        role: if helper.pset.is_some() { "io-node" } else { "fabric" },
        pset: helper.pset,
        up: helper.up,
        restarts: Some(helper.starts.saturating_sub(1).into()),
        // If it has just ended, somebody else may have its number by now.
        usage: helper.pid.and_then(usage_of).filter(|(parent, _)| *parent == own).map(|(_, usage)| usage),
    };
    std::iter::once(service_node).chain(helpers.iter().map(of_helper)).collect()
}

/// Whose child a process is, and what it takes.
fn usage_of(pid: u32) -> Option<(u32, Usage)> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// What the system says of a process (proc_pid_stat(5)).
fn parse(stat: &str) -> Option<(u32, Usage)> {
    // What is in brackets before is the program's name, which may hold anything.
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().collect();
    let number = |field: usize| fields.get(field)?.parse::<u64>().ok();
    let ticks = number(11)?.saturating_add(number(12)?);
    let resident_bytes = number(21)?.saturating_mul(page_size() as u64);
    let usage = Usage { resident_bytes, cpu_s: ticks as f64 / clock_ticks_per_second() as f64 };
    Some((u32::try_from(number(1)?).ok()?, usage))
}

#[cfg(test)]
mod tests {
    use super::{HelperSeen, parse, processes};

    #[test]
    fn fields_are_found_behind_any_name() {
        let stat =
            "7 (a) R (b) S 3 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 12345 1000000 10 18446744073709551615";
        let (parent, usage) = parse(stat).expect("whole");
        let pages = rustix::param::page_size() as u64;
        assert_eq!((parent, usage.resident_bytes), (3, 10 * pages));
        assert!((usage.cpu_s * rustix::param::clock_ticks_per_second() as f64 - 300.0).abs() < 1e-6);
        assert_eq!((parse(""), parse("7 (a) S 3"), parse("7 (a")), (None, None, None));
    }

    #[test]
    fn only_children_count_as_ours() {
        let helper = |pid| HelperSeen { pset: Some(1), up: true, starts: 3, pid };
        let seen = processes(&[helper(None), helper(Some(1)), helper(Some(std::process::id()))]);
        assert!(seen[0].usage.is_some_and(|usage| usage.resident_bytes > 0));
        assert!(seen[1..].iter().all(|process| process.usage.is_none() && process.restarts == Some(2)));
    }
}
