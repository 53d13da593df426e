//! Ends what a command of this tool has started however the command itself ends: by itself, by Ctrl-C, or killed.
//!
//! A shell in a process group of its own waits for the end of its standard input, which comes when this process drops
//! the other end of the pipe or is gone. Then it runs what cleans up. There is no other way on which that happens, so
//! it is tried with every run.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// The first argument is a directory to remove in the end, the others are the command that is run before.
const SCRIPT: &str = r#"
trap "" HUP INT TERM
cat >/dev/null
directory=$1
shift
"$@" >/dev/null 2>&1 </dev/null
rm -rf -- "$directory"
"#;

/// Runs a command when it is dropped, or this process ends in whatever way.
pub(crate) struct Guard(Child);

impl Guard {
    /// Has `command` run in the end, with its arguments, environment and directory, and then `directory` removed.
    ///
    /// # Errors
    /// If no shell can be started.
    pub(crate) fn new(command: &Command, directory: &Path) -> Result<Self> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", SCRIPT, "guard"]).arg(directory).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        // Ctrl-C at a terminal is meant for all processes of the group.
        let child = shell.stdin(Stdio::piped()).current_dir("/").process_group(0).spawn();
        child.map(Self).context("cannot start /bin/sh")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};

    use rustix::process::{Pid, Signal, kill_process};

    use super::Guard;

    /// Where the test that is to be killed says what it guards.
    const MARK: &str = "COPPICE_GUARD_TEST";

    fn guarded(directory: &Path) -> (Guard, PathBuf) {
        let (home, mark) = (directory.join("home"), directory.join("cleaned"));
        std::fs::create_dir(&home).expect("a directory");
        let mut command = Command::new("touch");
        command.arg(&mark);
        (Guard::new(&command, &home).expect("a shell"), mark)
    }

    #[test]
    fn it_cleans_up_when_it_is_dropped_and_not_before() {
        let directory = tempfile::tempdir().expect("a directory");
        let (guard, mark) = guarded(directory.path());
        assert!(!mark.exists());
        drop(guard);
        assert!(mark.exists() && !directory.path().join("home").exists());
    }

    /// The process of the next test that is killed.
    #[test]
    fn victim() {
        let Some(directory) = std::env::var_os(MARK) else { return };
        let _guard = guarded(Path::new(&directory));
        eprintln!("guarded");
        loop {
            std::thread::park();
        }
    }

    #[test]
    fn it_cleans_up_when_its_process_is_killed() {
        // Ctrl-C is like these, but whoever started the tests may have it ignored.
        for signal in [Signal::TERM, Signal::KILL] {
            let directory = tempfile::tempdir().expect("a directory");
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            command.args(["--exact", "guard::tests::victim", "--nocapture"]).env(MARK, directory.path());
            let mut victim = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
            // The shell has this end of it, too: it is closed when all is done.
            let mut said = BufReader::new(victim.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
            assert!(said.any(|line| line == "guarded"), "it says so");
            let pid = Pid::from_raw(victim.id().cast_signed()).expect("a process");
            kill_process(pid, signal).expect("it is there");
            let _ = victim.wait();
            said.for_each(drop);
            assert!(directory.path().join("cleaned").exists(), "{signal:?}");
            assert!(!directory.path().join("home").exists(), "{signal:?}");
        }
    }
}
