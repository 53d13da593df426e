//! Commands run to their end, and waiting for what they bring about, each under a limit.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longest a command of the control tool may take in a test; a hang becomes a failure with its output.
pub(crate) const COMMAND_TIME_MAX: Duration = Duration::from_secs(300);

/// What a command did.
#[derive(Debug)]
pub struct Ran {
    /// Exit status; a signal counts as 128 + its number.
    pub status: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error as text.
    pub stderr: String,
    /// Standard error as it is.
    pub stderr_bytes: Vec<u8>,
}

impl Ran {
    /// Standard output as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Itself, if the command succeeded.
    ///
    /// # Panics
    /// With all output if it did not.
    #[must_use]
    #[track_caller]
    pub fn success(self) -> Self {
        assert_eq!(self.status, 0, "stdout: {}\nstderr: {}", self.text(), self.stderr);
        self
    }

    /// Itself, if the command failed with that status and printed one line of error that contains all of `words`.
    ///
    /// # Panics
    /// With all output if not.
    #[must_use]
    #[track_caller]
    pub fn refused(self, words: &[&str]) -> Self {
        assert_ne!(self.status, 0, "succeeded: {}", self.text());
        let lines: Vec<&str> = self.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
        assert_eq!(lines.len(), 1, "not one line: {}", self.stderr);
        for word in words {
            assert!(lines[0].contains(word), "no “{word}” in: {}", lines[0]);
        }
        self
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let status = output.status;
        Self {
            status: status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            stderr_bytes: output.stderr,
        }
    }
}

/// Runs a command to its end, capturing its output.
///
/// # Panics
/// If it cannot be started, or hangs (it is then killed).
#[track_caller]
pub fn finish(mut command: Command) -> Ran {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    finish_child(child, &format!("{command:?}"))
}

/// Waits for a started command, capturing what it still prints.
///
/// # Panics
/// If it hangs (it is then killed).
#[track_caller]
pub fn finish_child(child: Child, name: &str) -> Ran {
    finish_child_within(COMMAND_TIME_MAX, child, name)
}

/// The same for one that may take that long.
///
/// # Panics
/// If it takes longer (it is then killed).
#[track_caller]
pub fn finish_child_within(limit: Duration, child: Child, name: &str) -> Ran {
    let pid = rustix::process::Pid::from_child(&child);
    let (sender, receiver) = std::sync::mpsc::channel();
    let waiter = std::thread::spawn(move || sender.send(child.wait_with_output()));
    let output = receiver.recv_timeout(limit);
    if output.is_err() {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        let said = receiver.recv().ok().and_then(Result::ok).map(Ran::from);
        let bytes = said.as_ref().map_or(0, |ran| ran.stdout.len());
        let stderr = said.map(|ran| ran.stderr).unwrap_or_default();
        panic!("no end after {} s: {name}: {bytes} bytes of output; {stderr}", limit.as_secs());
    }
    let _ = waiter.join();
    Ran::from(output.expect("checked above").expect("output of the command"))
}

/// Asks again and again until `done` is content, at most for `limit`.
///
/// # Panics
/// With what `done` last said if it never is.
#[track_caller]
pub fn wait_until(what: &str, limit: Duration, mut done: impl FnMut() -> Result<(), String>) {
    let end = Instant::now() + limit;
    loop {
        match done() {
            Ok(()) => return,
            Err(state) if Instant::now() >= end => panic!("not after {} s: {what}: {state}", limit.as_secs()),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Waits until a command does not ignore SIGINT: a test run in the background does, and so does its command until it
/// says what it does about it.
///
/// # Panics
/// If it does not say so.
#[track_caller]
pub fn wait_until_interruptible(child: &Child) {
    wait_until("the command can be interrupted", Duration::from_secs(30), || {
        if has_interrupt(child, "SigIgn:") { Err("SIGINT is ignored".into()) } else { Ok(()) }
    });
}

/// Waits until a command listens to SIGINT.
///
/// # Panics
/// If it does not.
#[track_caller]
pub fn wait_until_it_listens(child: &Child) {
    wait_until("the command listens to SIGINT", Duration::from_secs(30), || {
        if has_interrupt(child, "SigCgt:") { Ok(()) } else { Err("it does not".into()) }
    });
}

/// Whether SIGINT is in one of the sets of signals that the system shows of a process.
#[track_caller]
fn has_interrupt(child: &Child, set: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("a process of ours");
    let signals = status.lines().find_map(|line| line.strip_prefix(set)).expect("a set of signals").trim();
    let signals = u64::from_str_radix(signals, 16).expect("a number");
    signals >> (rustix::process::Signal::INT.as_raw() - 1) & 1 == 1
}
