//! Names and numbers of Linux's signals on x86-64, one table for whoever sends, delivers or shows them.

use alloc::borrow::Cow;
use alloc::format;

/// The signals that have names, by number from 1.
const NAMES: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

/// Highest signal number Linux has.
pub const SIGNAL_MAX: u8 = 64;

/// `SIGINT`.
pub const SIGINT: u8 = 2;

/// `SIGKILL`, which nothing survives.
pub const SIGKILL: u8 = 9;

/// `SIGTERM`.
pub const SIGTERM: u8 = 15;

/// The first real-time signal, as glibc counts: it keeps the two below for itself.
pub const SIGRTMIN: u8 = 34;

/// The signal's name, such as `SIGSEGV` or `SIGRTMIN+2`; `SIG33` and the like for one without a name.
#[must_use]
pub fn name(signal: impl Into<u32>) -> Cow<'static, str> {
    let signal = signal.into();
    let above = signal.checked_sub(SIGRTMIN.into()).filter(|_| signal <= SIGNAL_MAX.into());
    match (signal.checked_sub(1).and_then(|index| NAMES.get(index as usize)), above) {
        (Some(name), _) => Cow::Borrowed(name),
        (None, Some(0)) => Cow::Borrowed("SIGRTMIN"),
        (None, Some(above)) => Cow::Owned(format!("SIGRTMIN+{above}")),
        (None, None) => Cow::Owned(format!("SIG{signal}")),
    }
}

/// The number of a signal given as `9`, `KILL`, `SIGKILL`, `RTMIN+2` or `RTMAX-1`, in any case.
#[must_use]
pub fn parse(text: &str) -> Option<u8> {
    if let Some(number) = decimal(text) {
        return (1..=SIGNAL_MAX).contains(&number).then_some(number);
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some(offset) = name.strip_prefix("RTMIN") {
        let above = if offset.is_empty() { 0 } else { decimal(offset.strip_prefix('+')?)? };
        return SIGRTMIN.checked_add(above).filter(|number| *number <= SIGNAL_MAX);
    }
    if let Some(offset) = name.strip_prefix("RTMAX") {
        let below = if offset.is_empty() { 0 } else { decimal(offset.strip_prefix('-')?)? };
        return SIGNAL_MAX.checked_sub(below).filter(|number| *number >= SIGRTMIN);
    }
    if let Some(number) = upper.strip_prefix("SIG").and_then(decimal) {
        return (1..=SIGNAL_MAX).contains(&number).then_some(number);
    }
    let index = NAMES.iter().position(|known| known.strip_prefix("SIG") == Some(name))?;
    u8::try_from(index + 1).ok()
}

/// A number without a sign.
fn decimal(digits: &str) -> Option<u8> {
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::{SIGNAL_MAX, name, parse};

    #[test]
    fn names_and_numbers_agree() {
        let named =
            [(11_u8, "SIGSEGV"), (0, "SIG0"), (33, "SIG33"), (34, "SIGRTMIN"), (36, "SIGRTMIN+2"), (65, "SIG65")];
        for (signal, text) in named {
            assert_eq!(name(signal), text);
        }
        for signal in 1..=SIGNAL_MAX {
            assert_eq!(parse(&name(signal)), Some(signal));
            assert_eq!(parse(&format!("{signal}")), Some(signal));
        }
    }

    #[test]
    fn signals_are_given_in_many_ways() {
        let known = [("kill", 9), ("SIGTERM", 15), ("2", 2), ("sigusr1", 10), ("RTMIN", 34), ("rtmin+30", 64)];
        let more = [("SIGRTMIN+0", 34), ("RTMAX", 64), ("RTMAX-30", 34), ("SIGRTMAX-1", 63)];
        for (text, signal) in known.into_iter().chain(more) {
            assert_eq!(parse(text), Some(signal), "{text}");
        }
        let none = ["", "0", "65", "256", "+9", "-9", "nonsense", "SIG", "RTMIN+31", "RTMIN-1", "RTMIN2", "RTMIN+"];
        let nor = ["RTMAX+1", "RTMAX-31", "RTMAX-", "RTMIN+-1", "RTMIN++1", "SIGSIGINT", "SIG65", "RTMIN+256", "١"];
        for text in none.into_iter().chain(nor) {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
