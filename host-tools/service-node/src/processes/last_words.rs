//! What a node's console says of its machine's end.
//!
//! A kernel that panics says why on its console and nowhere else: whatever it would need to send a message may be what
//! broke, or what another core holds.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::limits::{CONSOLE_TAIL_BYTES, LAST_WORDS_BYTES};
use crate::plant::LastWords;

/// Begins the cause of a panic on the console; `kernel/hal/src/machine/diagnosis.rs` writes it.
const PANIC: &str = "kernel panic: ";

/// What the lines behind the cause begin with: registers, callers, and a second panic.
const BEHIND_CAUSE: [&str; 3] = ["  rip ", "  called from ", "... and then"];

/// Reads a console's end. One that cannot be read says nothing.
pub(super) fn read(console: &Path) -> LastWords {
    end_of(console).map_or(LastWords::None, |(text, is_cut)| find(&text, is_cut))
}

/// The last [`LAST_WORDS_BYTES`] of a file, and whether there are more before.
fn end_of(console: &Path) -> io::Result<(String, bool)> {
    let mut file = File::open(console)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LAST_WORDS_BYTES).read_to_end(&mut bytes)?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), length > LAST_WORDS_BYTES))
}

fn find(text: &str, is_cut: bool) -> LastWords {
    cause(text).map_or_else(|| tail(text, is_cut), LastWords::Panic)
}

/// Why the kernel panicked: the text may have had several lines.
fn cause(text: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with(PANIC));
    let first = lines.next()?.strip_prefix(PANIC)?;
    let more = lines.take_while(|line| !BEHIND_CAUSE.iter().any(|begin| line.starts_with(begin)));
    Some(one_line(std::iter::once(first).chain(more), " "))
}

/// The last lines that fit into [`CONSOLE_TAIL_BYTES`].
fn tail(text: &str, is_cut: bool) -> LastWords {
    let start = text.ceil_char_boundary(text.len().saturating_sub(CONSOLE_TAIL_BYTES));
    let end = text.get(start..).unwrap_or_default();
    // The first line is cut in the middle, unless it is the only one.
    let whole = match end.split_once('\n') {
        Some((_, rest)) if (is_cut || start > 0) && !rest.trim().is_empty() => rest,
        _ => end,
    };
    let line = one_line(whole.lines(), " | ");
    if line.is_empty() { LastWords::None } else { LastWords::Tail(line) }
}

fn one_line<'a>(lines: impl Iterator<Item = &'a str>, between: &str) -> String {
    lines.map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PANICKED: &str = "[   0.1] INFO  coppice: node 0\n\nkernel panic: assertion `left == right` failed\n  \
                            left: 1\n right: 2 (src/x.rs:3:4)\n\n  rip 00\n  rax 00\n  called from 0x12\n";

    #[test]
    fn a_panic_is_found_with_its_whole_cause() {
        let cause = "assertion `left == right` failed left: 1 right: 2 (src/x.rs:3:4)";
        assert_eq!(find(PANICKED, false), LastWords::Panic(cause.into()));
        // With as many callers as there may be, and a second panic while the first is told.
        let long = format!("{PANICKED}{}\n... and then: a\n", "  called from 0xffffffff80001234\n".repeat(32));
        assert_eq!(find(&long, true), LastWords::Panic(cause.into()));
        assert!((long.len() as u64) < LAST_WORDS_BYTES);
        let again = "kernel panic: a (b:1:2)\n\n... and then: c\n";
        assert_eq!(find(again, false), LastWords::Panic("a (b:1:2)".into()));
    }

    #[test]
    fn without_a_panic_the_end_is_told_in_whole_lines() {
        assert_eq!(find("", false), LastWords::None);
        assert_eq!(find(" \n\n", false), LastWords::None);
        assert_eq!(find("one\n\n  two\n", false), LastWords::Tail("one | two".into()));
        assert_eq!(find("what kernel panic: x\n", false), LastWords::Tail("what kernel panic: x".into()));
        // Where it is cut is no matter, not even in the middle of a character.
        let LastWords::Tail(tail) = find(&"é0123456\n".repeat(100), false) else { panic!("nothing is told") };
        assert!(tail.split(" | ").all(|line| line == "é0123456"), "{tail}");
        let LastWords::Tail(tail) = find(&"é".repeat(1000), true) else { panic!("nothing is told") };
        assert!(tail.len() <= CONSOLE_TAIL_BYTES && tail.len() > 100, "{tail}");
    }

    #[test]
    fn a_long_console_is_read_at_its_end_only() {
        let directory = tempfile::TempDir::new().expect("directory");
        let console = directory.path().join("console");
        assert_eq!(read(&console), LastWords::None);
        std::fs::write(&console, format!("{PANICKED}{}", "x\n".repeat(100_000))).expect("written");
        assert!(matches!(read(&console), LastWords::Tail(tail) if tail.starts_with("x | x")));
        std::fs::write(&console, format!("{}{PANICKED}", "x\n".repeat(100_000))).expect("written");
        assert!(matches!(read(&console), LastWords::Panic(_)));
    }
}
