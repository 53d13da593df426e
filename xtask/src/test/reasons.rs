//! Why tests failed, in short: said once more at the very end of a run, behind which output of hours may lie.

use std::fmt;

/// Lines of a panic that are said again.
const LINES_MAX: usize = 12;

/// Characters of each of them.
const CHARACTERS_MAX: usize = 300;

/// What the runner says of tests that failed, as its lines go by.
#[derive(Default)]
pub(super) struct Reasons {
    failed: Vec<Reason>,
    /// What comes now is of the last one, and of its panic.
    is_told: bool,
    is_panic: bool,
}

struct Reason {
    test: String,
    lines: Vec<String>,
}

impl Reasons {
    /// Looks at a line of the runner's.
    pub(super) fn add(&mut self, line: &str) {
        if let Some(test) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.failed.push(Reason { test: test.to_owned(), lines: Vec::new() });
            (self.is_told, self.is_panic) = (true, false);
            return;
        }
        let Some(reason) = self.failed.last_mut().filter(|_| self.is_told) else { return };
        self.is_panic |= line.starts_with("thread '") && line.contains(" panicked at ");
        let is_over = line.starts_with("stack backtrace:") || line.starts_with("note: run with") || line == "failures:";
        self.is_told = !is_over && reason.lines.len() < LINES_MAX;
        if self.is_told && self.is_panic && !line.is_empty() {
            reason.lines.push(line.chars().take(CHARACTERS_MAX).collect());
        }
    }
}

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Reason { test, lines } in &self.failed {
            writeln!(f, "\nfailed: {test}")?;
            lines.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Reasons;

    #[test]
    fn each_failed_test_is_named_with_its_panic() {
        let mut reasons = Reasons::default();
        let output = "test a::b ... FAILED\n\nfailures:\n\n---- a::b stdout ----\nsome output\n\n\
                      thread 'a::b' (7) panicked at src/a.rs:3:5:\nassertion failed\n  left: 1\n\
                      stack backtrace:\n   0: core\n\n\
                      ---- a::c stdout ----\nthread 'a::c' (8) panicked at src/a.rs:9:5:\nno\n\
                      note: run with `RUST_BACKTRACE=1`\n\nfailures:\n    a::b\n    a::c\n";
        output.lines().for_each(|line| reasons.add(line));
        let first =
            "failed: a::b\n    thread 'a::b' (7) panicked at src/a.rs:3:5:\n    assertion failed\n      left: 1\n";
        let second = "failed: a::c\n    thread 'a::c' (8) panicked at src/a.rs:9:5:\n    no\n";
        let wanted = format!("\n{first}\n{second}");
        assert_eq!(reasons.to_string(), wanted);
    }

    #[test]
    fn long_ones_are_cut() {
        let mut reasons = Reasons::default();
        reasons.add("---- a stdout ----");
        reasons.add("thread 'a' panicked at src/a.rs:9:5:");
        (0..100).for_each(|_| reasons.add(&"x".repeat(1000)));
        let text = reasons.to_string();
        assert_eq!((text.lines().count(), text.lines().map(str::len).max()), (14, Some(304)));
    }
}
