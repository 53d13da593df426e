//! Names of Linux's signals.

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

/// `SIGKILL`.
pub const SIGKILL: u8 = 9;

/// `SIGTERM`.
pub const SIGTERM: u8 = 15;

/// The signal's name, such as `SIGSEGV`; `SIG35` and the like for one without a name.
#[must_use]
pub fn name(signal: u8) -> String {
    let named = usize::from(signal).checked_sub(1).and_then(|index| NAMES.get(index));
    named.map_or_else(|| format!("SIG{signal}"), |name| (*name).to_owned())
}

/// The number of a signal given as `9`, `KILL` or `SIGKILL`, in any case.
#[must_use]
pub fn parse(text: &str) -> Option<u8> {
    if let Ok(number) = text.parse::<u8>() {
        return (1..=SIGNAL_MAX).contains(&number).then_some(number);
    }
    let upper = text.to_ascii_uppercase();
    let full = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    NAMES.iter().position(|name| *name == full).and_then(|index| u8::try_from(index + 1).ok())
}

#[cfg(test)]
mod tests {
    use super::{name, parse};

    #[test]
    fn names_and_numbers_agree() {
        assert_eq!(name(11), "SIGSEGV");
        assert_eq!(name(35), "SIG35");
        assert_eq!(name(0), "SIG0");
        assert_eq!(parse("kill"), Some(9));
        assert_eq!(parse("SIGTERM"), Some(15));
        assert_eq!(parse("2"), Some(2));
        assert_eq!(parse("0"), None);
        assert_eq!(parse("65"), None);
        assert_eq!(parse("nonsense"), None);
        for signal in 1..=31 {
            assert_eq!(parse(&name(signal)), Some(signal));
        }
    }
}
