//! A call as text, the way strace(1) shows it.

use std::fmt::Write;
use std::ops::Range;

use coppice_api::syscalls::{self as nr, Kind, Names, Returns, SystemCall, call};
use coppice_api::trace::{CallRecord, EXCERPT_BYTES, Outcome, PIECE_BYTES, PIECES_MAX};
use nix::errno::Errno;
use nix::libc;

use super::names;

/// A call as text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// Its name.
    name: String,
    /// Its arguments, and whether each can be known before the call is over.
    arguments: Vec<(String, Known)>,
    /// What came of it.
    result: String,
}

/// When an argument is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// At once.
    Early,
    /// When the call is over, or when its page is there.
    Late,
}

impl Shown {
    /// Name and arguments up to the first that is not known before the call is over, and how many those are.
    pub(super) fn begin(&self) -> (String, usize) {
        let split = self.arguments.iter().position(|(_, known)| *known == Known::Late).unwrap_or(self.arguments.len());
        let comma = if split > 0 && split < self.arguments.len() { ", " } else { "" };
        (format!("{}({}{comma}", self.name, self.texts(0..split)), split)
    }

    /// What follows so many arguments.
    pub(super) fn end(&self, begun: usize) -> String {
        format!("{}) = {}", self.texts(begun..self.arguments.len()), self.result)
    }

    /// All of it.
    pub(super) fn whole(&self) -> String {
        format!("{}({}", self.name, self.end(0))
    }

    fn texts(&self, which: Range<usize>) -> String {
        let texts = self.arguments.get(which).unwrap_or_default().iter().map(|(text, _)| text.as_str());
        texts.collect::<Vec<_>>().join(", ")
    }
}

/// Errors are numbers from here on.
const FIRST_ERROR: u64 = 4096_u64.wrapping_neg();

/// Restarts of calls have errors of their own inside of Linux, which strace tells.
const RESTART: &str = "? ERESTARTSYS (To be restarted if SA_RESTART is set)";
const RESTART_ALWAYS: &str = "? ERESTARTNOINTR (To be restarted)";

/// The call as text.
pub(super) fn show(record: &CallRecord, outcome: Outcome) -> Shown {
    let found = call(record.number);
    let name = found.map_or_else(|| format!("syscall_{:#x}", record.number), |call| call.name.to_owned());
    let kinds = found.map_or(&[Kind::Unknown][..], |call| call.arguments);
    let arguments = if kinds == [Kind::Unknown] {
        record.arguments.iter().map(|argument| (format!("{argument:#x}"), Known::Early)).collect()
    } else if record.number == u64::from(nr::CLONE) {
        clone(record)
    } else {
        arguments(record, kinds, outcome)
    };
    let result = flags_of(record, outcome).unwrap_or_else(|| result(found, outcome));
    Shown { name, arguments, result }
}

/// Each argument that the call looks at, and when it is known.
fn arguments(record: &CallRecord, kinds: &[Kind], outcome: Outcome) -> Vec<(String, Known)> {
    // How much was read, if anything was.
    let read = match outcome {
        Outcome::Result(result) if result < FIRST_ERROR => Some(result),
        _ => None,
    };
    let value = |index: usize| record.arguments.get(index).copied().unwrap_or(0);
    let mut shown = Vec::new();
    for (index, kind) in kinds.iter().enumerate() {
        let (number, excerpt) = (value(index), excerpt(record, index));
        let given = |how: &dyn Fn(&[u8]) -> Option<String>| match excerpt {
            Some(bytes) => (how(bytes).unwrap_or_else(|| pointer(number)), Known::Early),
            None if number == 0 => (pointer(number), Known::Early),
            // If it is never there, the call says so.
            None => (pointer(number), Known::Late),
        };
        let got = |how: &dyn Fn(&[u8]) -> Option<String>| {
            let text = excerpt.filter(|_| read.is_some()).and_then(how);
            (text.unwrap_or_else(|| pointer(number)), Known::Late)
        };
        let early = |text: String| (text, Known::Early);
        shown.push(match kind {
            Kind::Int | Kind::Fd => early((number as i32).to_string()),
            Kind::Uint => early((number as u32).to_string()),
            Kind::Long => early(number.cast_signed().to_string()),
            Kind::Size => early(number.to_string()),
            Kind::Hex => early(hex(number)),
            Kind::Mode => early(mode(number)),
            Kind::NewMode(flags) if makes_files(value(usize::from(*flags))) => early(mode(number)),
            Kind::At if number as i32 == libc::AT_FDCWD => early("AT_FDCWD".to_owned()),
            Kind::At => early((number as i32).to_string()),
            Kind::Pointer | Kind::Unknown => early(pointer(number)),
            Kind::Path => given(&|bytes| Some(quote(bytes, false))),
            Kind::In(length) => {
                let more = value(usize::from(*length)) > EXCERPT_BYTES as u64;
                given(&|bytes| Some(quote(bytes, more)))
            }
            Kind::Iovec(count) => given(&|bytes| Some(pieces(bytes, value(usize::from(*count)), u64::MAX))),
            Kind::OutIovec(count) => got(&|bytes| Some(pieces(bytes, value(usize::from(*count)), read.unwrap_or(0)))),
            Kind::Time => given(&time),
            Kind::Set => given(&set),
            Kind::Action => given(&action),
            Kind::Out => got(&|bytes| Some(quote(bytes, read.is_some_and(|read| read > EXCERPT_BYTES as u64)))),
            Kind::OutText => got(&|bytes| Some(quote(bytes, false))),
            Kind::Pair => got(&pair),
            Kind::SetOut => got(&set),
            Kind::ActionOut => got(&action),
            Kind::Signal => early(signal(number as u32)),
            Kind::Named(names) => early(names::name(*names, number)),
            Kind::OfFcntl => match of_fcntl(value(1), number) {
                Some(text) => early(text),
                None => continue,
            },
            Kind::OfFutex(place) if futex_takes(value(1), *place) => early(of_futex(value(1), *place, number)),
            Kind::MovedTo if value(3) & libc::MREMAP_FIXED as u64 != 0 => early(pointer(number)),
            Kind::OfPrctl(place) if prctl_takes(value(0), *place) => early(pointer(number)),
            Kind::NewMode(_) | Kind::OfFutex(_) | Kind::OfPrctl(_) | Kind::MovedTo => continue,
        });
    }
    shown
}

/// clone(2) has its arguments in another order everywhere but in the registers.
fn clone(record: &CallRecord) -> Vec<(String, Known)> {
    let [flags, stack, parent, child, thread_pointer, _] = record.arguments;
    let has = |flag: i32| flags & flag as u64 != 0;
    let exit_signal = (flags & 0xff) as u32;
    let names = names::name(Names::Clone, flags & !0xff);
    let names = if exit_signal == 0 { names } else { format!("{names}|{}", signal(exit_signal)) };
    let mut shown = vec![format!("child_stack={}", pointer(stack)), format!("flags={names}")];
    if has(libc::CLONE_PARENT_SETTID) {
        shown.push(format!("parent_tid={}", pointer(parent)));
    }
    if has(libc::CLONE_SETTLS) {
        shown.push(format!("tls={}", pointer(thread_pointer)));
    }
    if has(libc::CLONE_CHILD_SETTID) || has(libc::CLONE_CHILD_CLEARTID) {
        shown.push(format!("child_tidptr={}", pointer(child)));
    }
    shown.into_iter().map(|text| (text, Known::Early)).collect()
}

/// A set of signals: those that are in it, or, if they are fewer, those that are not.
fn set(bytes: &[u8]) -> Option<String> {
    let set = u64::from_le_bytes(*bytes.first_chunk()?);
    // As many as strace takes for most of them.
    let is_most = set.count_ones() >= 64 * 2 / 3;
    let shown = if is_most { !set } else { set };
    let name = |number: u32| signal(number).trim_start_matches("SIG").to_owned();
    let names: Vec<String> = (1..=64).filter(|number| shown & 1 << (number - 1) != 0).map(name).collect();
    Some(format!("{}[{}]", if is_most { "~" } else { "" }, names.join(" ")))
}

/// What is to be done about a signal.
fn action(bytes: &[u8]) -> Option<String> {
    let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let (handler, flags, restorer) = (word(0)?, word(8)?, word(16)?);
    let handler = match handler {
        0 => "SIG_DFL".to_owned(),
        1 => "SIG_IGN".to_owned(),
        address => pointer(address),
    };
    let restorer =
        if flags & 0x0400_0000 == 0 { String::new() } else { format!(", sa_restorer={}", pointer(restorer)) };
    let (mask, flags) = (set(bytes.get(24..)?)?, names::name(Names::Action, flags));
    Some(format!("{{sa_handler={handler}, sa_mask={mask}, sa_flags={flags}{restorer}}}"))
}

/// An argument of futex(2).
fn of_futex(command: u64, place: u8, number: u64) -> String {
    let command = command as i32 & 0x7f;
    match (place, command) {
        (4, _) => pointer(number),
        (3, libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET | libc::FUTEX_LOCK_PI) => pointer(number),
        (5, libc::FUTEX_WAIT_BITSET) if number as u32 == u32::MAX => "FUTEX_BITSET_MATCH_ANY".to_owned(),
        _ => (number as u32).to_string(),
    }
}

fn excerpt(record: &CallRecord, index: usize) -> Option<&[u8]> {
    let found = record.excerpts.iter().find(|excerpt| usize::from(excerpt.argument) == index)?;
    Some(&found.bytes)
}

fn hex(number: u64) -> String {
    if number == 0 { "0".to_owned() } else { format!("{number:#x}") }
}

fn pointer(number: u64) -> String {
    if number == 0 { "NULL".to_owned() } else { format!("{number:#x}") }
}

fn mode(number: u64) -> String {
    format!("{:#o}", number as u32).replacen("0o", "0", 1)
}

fn makes_files(flags: u64) -> bool {
    let temporary = (libc::O_TMPFILE & !libc::O_DIRECTORY) as u64;
    flags & libc::O_CREAT as u64 != 0 || flags & temporary != 0
}

/// A signal's name as strace has it, which counts those without names of their own from 32, as the kernel does.
pub(super) fn signal(number: u32) -> String {
    match number {
        1..=31 => coppice_api::signal::name(number).into_owned(),
        32 => "SIGRTMIN".to_owned(),
        33..=64 => format!("SIGRT_{}", number - 32),
        _ => number.to_string(),
    }
}

fn pair(bytes: &[u8]) -> Option<String> {
    let (one, other) = bytes.split_first_chunk::<4>()?;
    let other = other.first_chunk::<4>()?;
    Some(format!("[{}, {}]", i32::from_le_bytes(*one), i32::from_le_bytes(*other)))
}

fn time(bytes: &[u8]) -> Option<String> {
    let (seconds, rest) = bytes.split_first_chunk::<8>()?;
    let nanoseconds = rest.first_chunk::<8>()?;
    let (seconds, nanoseconds) = (i64::from_le_bytes(*seconds), i64::from_le_bytes(*nanoseconds));
    Some(format!("{{tv_sec={seconds}, tv_nsec={nanoseconds}}}"))
}

/// So many entries of `struct iovec`, and what they are about behind them, in which there are so many bytes in all.
fn pieces(bytes: &[u8], count: u64, filled: u64) -> String {
    let mut left = filled;
    let count = usize::try_from(count).map_or(PIECES_MAX, |count| count.min(PIECES_MAX));
    let (entries, mut about) = bytes.split_at_checked(count * PIECE_BYTES).unwrap_or((bytes, &[]));
    let shown: Vec<String> = entries
        .chunks_exact(PIECE_BYTES)
        .filter_map(|entry| {
            let length = u64::from_le_bytes(*entry.last_chunk::<8>()?);
            let there = length.min(left);
            left -= there;
            let excerpt = usize::try_from(there).map_or(EXCERPT_BYTES, |there| there.min(EXCERPT_BYTES));
            let (now, later) = about.split_at_checked(excerpt).unwrap_or((about, &[]));
            about = later;
            Some(format!("{{iov_base={}, iov_len={length}}}", quote(now, excerpt as u64 != there)))
        })
        .collect();
    format!("[{}]", shown.join(", "))
}

/// The third argument of fcntl(2), if its command has one.
fn of_fcntl(command: u64, number: u64) -> Option<String> {
    match command as i32 {
        libc::F_GETFD | libc::F_GETFL | libc::F_GETOWN | libc::F_GETPIPE_SZ | libc::F_GET_SEALS | libc::F_GETLEASE => {
            None
        }
        libc::F_SETFD if number == libc::FD_CLOEXEC as u64 => Some("FD_CLOEXEC".to_owned()),
        libc::F_SETFL => Some(names::name(Names::Open, number)),
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC | libc::F_SETFD | libc::F_SETPIPE_SZ => Some(number.to_string()),
        _ => Some(pointer(number)),
    }
}

/// Whether the command of futex(2) looks at this argument.
fn futex_takes(command: u64, place: u8) -> bool {
    match command as i32 & 0x7f {
        libc::FUTEX_WAIT | libc::FUTEX_LOCK_PI => place == 3,
        libc::FUTEX_REQUEUE => place <= 4,
        libc::FUTEX_CMP_REQUEUE | libc::FUTEX_WAKE_OP | libc::FUTEX_WAIT_BITSET => true,
        libc::FUTEX_WAKE_BITSET => place == 5,
        _ => false,
    }
}

/// Whether prctl(2) looks at this argument for its option.
fn prctl_takes(option: u64, place: u8) -> bool {
    match option as i32 {
        libc::PR_GET_DUMPABLE | libc::PR_GET_KEEPCAPS | libc::PR_GET_TIMERSLACK => false,
        libc::PR_SET_NAME | libc::PR_GET_NAME | libc::PR_SET_DUMPABLE | libc::PR_SET_KEEPCAPS => place == 1,
        libc::PR_SET_PDEATHSIG | libc::PR_GET_PDEATHSIG | libc::PR_SET_TIMERSLACK | libc::PR_CAPBSET_READ => place == 1,
        _ => true,
    }
}

/// Bytes as a string of C.
fn quote(bytes: &[u8], more: bool) -> String {
    let mut text = String::from("\"");
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            b'\r' => text.push_str("\\r"),
            0x0b => text.push_str("\\v"),
            0x0c => text.push_str("\\f"),
            0x20..=0x7e => text.push(char::from(*byte)),
            // As few digits as can be told from what follows.
            _ if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => {
                let _ = write!(text, "\\{byte:03o}");
            }
            _ => {
                let _ = write!(text, "\\{byte:o}");
            }
        }
    }
    text.push('"');
    if more {
        text.push_str("...");
    }
    text
}

/// What fcntl(2) says of flags, in names.
fn flags_of(record: &CallRecord, outcome: Outcome) -> Option<String> {
    let Outcome::Result(flags @ 1..FIRST_ERROR) = outcome else { return None };
    let names = match record.arguments[1] as i32 {
        _ if record.number != u64::from(nr::FCNTL) => return None,
        libc::F_GETFD if flags == libc::FD_CLOEXEC as u64 => "FD_CLOEXEC".to_owned(),
        libc::F_GETFL => names::name(Names::Open, flags),
        _ => return None,
    };
    Some(format!("{flags:#x} (flags {names})"))
}

fn result(call: Option<&SystemCall>, outcome: Outcome) -> String {
    match outcome {
        Outcome::Interrupted { again: false } => RESTART.to_owned(),
        Outcome::Interrupted { again: true } => RESTART_ALWAYS.to_owned(),
        Outcome::Gone => "?".to_owned(),
        Outcome::Result(result) if result >= FIRST_ERROR => {
            let errno = Errno::from_raw(result.wrapping_neg() as i32);
            // As the C library says it, with the number behind.
            let text = std::io::Error::from(errno).to_string();
            let meaning = text.split(" (os error").next().unwrap_or_default();
            format!("-1 {errno:?} ({meaning})")
        }
        Outcome::Result(result) => match call.map(|call| call.returns) {
            Some(Returns::Hex) => pointer(result),
            Some(Returns::Octal) => mode(result),
            _ => result.cast_signed().to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use coppice_api::syscalls as nr;
    use coppice_api::trace::{CallRecord, Excerpt, Outcome};

    use super::show;

    fn shown(number: u32, arguments: &[u64], excerpts: &[(u8, &[u8])], outcome: Outcome) -> String {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        let excerpts =
            excerpts.iter().map(|(argument, bytes)| Excerpt { argument: *argument, bytes: bytes.to_vec() }).collect();
        let record = CallRecord { number: number.into(), arguments: all, excerpts };
        show(&record, outcome).whole()
    }

    #[test]
    fn calls_look_as_strace_shows_them() {
        let result = Outcome::Result;
        let error = |errno: u64| Outcome::Result(errno.wrapping_neg());
        let text = shown(nr::READ, &[3, 0x1000, 832], &[(1, b"\x7fELF\x02\x01")], result(6));
        assert_eq!(text, r#"read(3, "\177ELF\2\1", 832) = 6"#);
        let text = shown(nr::OPENAT, &[-100_i64 as u64, 1, 0o2_000_000, 0], &[(1, b"/etc/x")], error(2));
        assert_eq!(text, r#"openat(AT_FDCWD, "/etc/x", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)"#);
        let text = shown(nr::OPENAT, &[5, 1, 0o101, 0o644], &[(1, b"x")], result(3));
        assert_eq!(text, r#"openat(5, "x", O_WRONLY|O_CREAT, 0644) = 3"#);
        let text = shown(nr::MMAP, &[0, 4096, 3, 0x22, u64::MAX, 0], &[], result(0x7000_0000));
        assert_eq!(text, "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x70000000");
        let text = shown(nr::WRITE, &[1, 0x1000, 40], &[(1, &[b'a'; 32])], result(40));
        assert_eq!(text, format!(r#"write(1, "{}"..., 40) = 40"#, "a".repeat(32)));
        assert_eq!(shown(nr::EXIT_GROUP, &[3], &[], Outcome::Gone), "exit_group(3) = ?");
        assert_eq!(
            shown(nr::PIPE2, &[0x1000, 0], &[(0, &[3, 0, 0, 0, 4, 0, 0, 0])], result(0)),
            "pipe2([3, 4], 0) = 0"
        );
        let text = shown(nr::FUTEX, &[0x1000, 128, 2, 0, 9, 9], &[], error(11));
        let again = "Resource temporarily unavailable";
        assert_eq!(text, format!("futex(0x1000, FUTEX_WAIT_PRIVATE, 2, NULL) = -1 EAGAIN ({again})"));
        assert_eq!(shown(nr::FUTEX, &[0x1000, 129, 1], &[], result(1)), "futex(0x1000, FUTEX_WAKE_PRIVATE, 1) = 1");
        let entries = [&0x10_u64.to_le_bytes()[..], &2_u64.to_le_bytes(), b"ab"].concat();
        let text = shown(nr::WRITEV, &[1, 0x1000, 1], &[(1, &entries)], result(2));
        assert_eq!(text, r#"writev(1, [{iov_base="ab", iov_len=2}], 1) = 2"#);
        assert!(shown(9999, &[1], &[], error(38)).starts_with("syscall_0x270f(0x1, 0x0"));
        assert_eq!(shown(nr::FCNTL, &[3, 1, 77], &[], result(0)), "fcntl(3, F_GETFD) = 0");
        assert_eq!(shown(nr::FCNTL, &[3, 2, 1], &[], result(0)), "fcntl(3, F_SETFD, FD_CLOEXEC) = 0");
        assert_eq!(shown(nr::FCNTL, &[3, 1], &[], result(1)), "fcntl(3, F_GETFD) = 0x1 (flags FD_CLOEXEC)");
        assert_eq!(shown(nr::KILL, &[1000, 15], &[], result(0)), "kill(1000, SIGTERM) = 0");
        for (number, name) in
            [(0, "0"), (31, "SIGSYS"), (32, "SIGRTMIN"), (36, "SIGRT_4"), (64, "SIGRT_32"), (65, "65")]
        {
            assert_eq!(shown(nr::KILL, &[1000, number], &[], result(0)), format!("kill(1000, {name}) = 0"));
        }
        let set = 0x4000_u64.to_le_bytes();
        let text = shown(nr::RT_SIGPROCMASK, &[0, 0x1000, 0, 8], &[(1, &set)], result(0));
        assert_eq!(text, "rt_sigprocmask(SIG_BLOCK, [TERM], NULL, 8) = 0");
        let all_but = (!(7_u64 << 31)).to_le_bytes();
        let text = shown(nr::RT_SIGPROCMASK, &[0, 0x1000, 0x2000, 8], &[(1, &all_but), (2, &[0; 8])], result(0));
        assert_eq!(text, "rt_sigprocmask(SIG_BLOCK, ~[RTMIN RT_1 RT_2], [], 8) = 0");
        let words: [u64; 4] = [0x40_1139, 0x1400_0000, 0x40_32c9, 0];
        let action: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let text = shown(nr::RT_SIGACTION, &[10, 0x1000, 0, 8], &[(1, &action)], result(0));
        let expected = "{sa_handler=0x401139, sa_mask=[], sa_flags=SA_RESTORER|SA_RESTART, sa_restorer=0x4032c9}";
        assert_eq!(text, format!("rt_sigaction(SIGUSR1, {expected}, NULL, 8) = 0"));
        let text = shown(nr::CLONE, &[0x7d_0f00, 0x1000, 0, 0x2000, 0x3000], &[], result(1001));
        let flags = "CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD|CLONE_SYSVSEM|CLONE_SETTLS|\
                     CLONE_PARENT_SETTID|CLONE_CHILD_CLEARTID|0x400000";
        let parts = "parent_tid=NULL, tls=0x3000, child_tidptr=0x2000";
        assert_eq!(text, format!("clone(child_stack=0x1000, flags={flags}, {parts}) = 1001"));
        assert_eq!(shown(nr::UMASK, &[0o22], &[], result(0o77)), "umask(022) = 077");
    }
}
