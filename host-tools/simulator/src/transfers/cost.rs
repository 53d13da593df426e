//! What a run itself takes of the machine that it runs on.

use std::fs::read_to_string;
use std::time::Instant;

/// Says it, measured since `begin`: the time that passed, and the most memory that the process has had.
pub(crate) fn show(begin: Instant) {
    let seconds = begin.elapsed().as_secs_f64();
    match read_to_string("/proc/self/status").ok().as_deref().and_then(peak_bytes) {
        Some(bytes) => println!("simulated in {seconds:.1} s and at most {:.0} MB of memory", bytes as f64 / 1e6),
        None => println!("simulated in {seconds:.1} s"),
    }
}

/// The most memory that a process has had, of its `/proc/<pid>/status`, bytes.
fn peak_bytes(status: &str) -> Option<u64> {
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?;
    kib.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::peak_bytes;

    #[test]
    fn the_peak_is_found_where_the_kernel_says_it() {
        assert_eq!(peak_bytes("VmPeak:\t    9 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 3 kB\n"), Some(2 << 20));
        assert_eq!(
            [peak_bytes(""), peak_bytes("VmHWM: much"), peak_bytes(&format!("VmHWM: {} kB", u64::MAX))],
            [None; 3]
        );
        let own = std::fs::read_to_string("/proc/self/status").expect("Linux");
        assert!(peak_bytes(&own).is_some_and(|bytes| bytes > 100_000));
    }
}
