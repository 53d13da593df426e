//! Quantities, and text from anywhere, as people are shown them.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::job::{JobView, RankOutcome, RankView};
use crate::signal;

/// Bytes for people.
#[must_use]
pub fn show_bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

/// Bits per second for people, such as were given.
#[must_use]
pub fn show_rate(bits_per_s: u64) -> String {
    let units = [("G", 1_000_000_000), ("M", 1_000_000), ("k", 1_000)];
    match units.into_iter().find(|(_, factor)| bits_per_s >= 10 * factor || bits_per_s.is_multiple_of(*factor)) {
        Some((unit, factor)) => format!("{} {unit}bit/s", bits_per_s as f64 / factor as f64),
        None => format!("{bits_per_s} bit/s"),
    }
}

/// A share of a million in percent, as it was given.
#[must_use]
pub fn show_loss(ppm: u32) -> String {
    format!("{}%", f64::from(ppm) / 10_000.0)
}

/// A span of time for people.
#[must_use]
pub fn show_ns(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{:.0} µs", ns as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.0} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// A moment for people, ns since 1970: UTC, as ISO 8601 has it.
#[must_use]
pub fn show_time(ns: u64) -> String {
    // All of these moments lie before the year 2600, and the library's end with the year 9999.
    let moment = Timestamp::from_nanosecond(ns.into()).unwrap_or(Timestamp::MAX);
    moment.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// Numbers as ranges: `0-3,7`.
#[must_use]
pub fn show_ranges(numbers: &[u32]) -> String {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in sorted {
        match ranges.last_mut() {
            Some((_, last)) if *last == number || last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let show = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(show).collect::<Vec<_>>().join(",")
}

/// How a rank ended, in short.
#[must_use]
pub fn show_end(rank: &RankView) -> String {
    match (rank.outcome, rank.exit, rank.signal) {
        (RankOutcome::Exited, Some(status), _) => format!("exit {status}"),
        (RankOutcome::Signalled, _, Some(number)) => signal::name(number).into_owned(),
        (RankOutcome::NotStarted, ..) => "not started".to_owned(),
        (RankOutcome::Lost, ..) => "lost".to_owned(),
        _ => "?".to_owned(),
    }
}

/// A job's program as the user gave it, with its arguments, in one harmless line.
#[must_use]
pub fn show_command(job: &JobView) -> String {
    std::iter::once(&job.name).chain(&job.arguments).map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Whether this has what is around it read from right to left, or otherwise than it stands there.
const fn turns_text(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text that may have come from anywhere, such as what a program gave as its reason: what a terminal would obey is
/// escaped, and what shows text in another order than it has. Line breaks are for whoever prints it.
#[must_use]
pub fn harmless(text: &str) -> Cow<'_, str> {
    let is_bad = |c: char| c.is_control() && c != '\n' || turns_text(c);
    if !text.contains(is_bad) {
        return text.into();
    }
    let escape = |c: char| if is_bad(c) { c.escape_debug().to_string() } else { c.to_string() };
    text.chars().map(escape).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::{harmless, show_bytes, show_loss, show_ns, show_ranges, show_rate};

    #[test]
    fn quantities_have_units() {
        assert_eq!(show_bytes(1536), "1.5 KiB");
        let rates = [1, 9_600, 12_500, 100_000_000, 1_000_000_000, 2_500_000_000].map(show_rate);
        assert_eq!(rates, ["1 bit/s", "9600 bit/s", "12.5 kbit/s", "100 Mbit/s", "1 Gbit/s", "2500 Mbit/s"]);
        assert_eq!([0, 500, 10_000, 1_000_000, 1].map(show_loss), ["0%", "0.05%", "1%", "100%", "0.0001%"]);
        assert_eq!(show_ns(1_500_000_000), "1500 ms");
    }

    #[test]
    fn numbers_are_ranges() {
        assert_eq!(show_ranges(&[3, 0, 1, 7, 2, 9, 8]), "0-3,7-9");
        assert_eq!(show_ranges(&[]), "");
        assert_eq!(show_ranges(&[5]), "5");
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(harmless("plain ü\n"), "plain ü\n");
        assert_eq!(harmless("a\x1b[2J\tb\r\u{9b}"), "a\\u{1b}[2J\\tb\\r\\u{9b}");
        assert_eq!(harmless("\u{202e}txt.exe"), "\\u{202e}txt.exe");
    }
}
