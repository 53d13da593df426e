//! A cluster of real QEMU nodes for one test, in a home of its own, gone when the test is over however it ends.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Longest a command of the control tool may take in a test; a hang becomes a failure with its output.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(300);

/// How long processes may take to vanish after they were told to.
const VANISH_TIME_MAX: Duration = Duration::from_secs(10);

/// What a command did.
#[derive(Debug)]
pub struct Ran {
    /// Exit status; a signal counts as 128 + its number.
    pub status: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error as text.
    pub stderr: String,
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
        }
    }
}

/// Directory the built programs lie in.
#[must_use]
pub fn binaries() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir));
    target.join("release")
}

/// A home for clusters with nothing in it yet, and the directory jobs see as `/`.
pub struct Cluster {
    home: TempDir,
    root: TempDir,
}

impl Cluster {
    /// A home and a root, no nodes.
    ///
    /// # Panics
    /// If there is no room for temporary files, or the tools are not built.
    #[must_use]
    pub fn home() -> Self {
        assert!(
            binaries().join("coppice").exists(),
            "no {}: build first with `cargo xtask build`",
            binaries().join("coppice").display()
        );
        // Sockets live in the home; their paths are limited to 107 bytes, so it must be short.
        let home = tempfile::Builder::new().prefix("cop").tempdir_in("/tmp").expect("temporary directory");
        let root = tempfile::tempdir().expect("temporary directory");
        Self { home, root }
    }

    /// A cluster of that many nodes, ready.
    ///
    /// # Panics
    /// If it does not come up.
    #[must_use]
    #[track_caller]
    pub fn up(nodes: u32) -> Self {
        Self::up_with(&["--nodes", &nodes.to_string()])
    }

    /// A cluster brought up with these arguments.
    ///
    /// # Panics
    /// If it does not come up.
    #[must_use]
    #[track_caller]
    pub fn up_with(arguments: &[&str]) -> Self {
        let cluster = Self::home();
        let _ = cluster.coppice(&[&["up", "--accel", "tcg"], arguments].concat()).success();
        cluster
    }

    /// The directory that jobs see as `/`.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Where the cluster keeps its state.
    #[must_use]
    pub fn home_path(&self) -> &Path {
        self.home.path()
    }

    /// The control tool, ready for arguments; runs in the job's root directory.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(binaries().join("coppice"));
        command
            .args(arguments)
            .env("COPPICE_HOME", self.home.path())
            .env("NO_COLOR", "1")
            .current_dir(self.root.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs the control tool to its end.
    ///
    /// # Panics
    /// If it cannot be started or hangs.
    #[track_caller]
    pub fn coppice<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Ran {
        finish(self.command(arguments))
    }

    /// `coppice run` with these arguments.
    ///
    /// # Panics
    /// As [`Self::coppice`].
    #[track_caller]
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Ran {
        let mut command = self.command(&["run"]);
        command.args(arguments);
        finish(command)
    }

    /// A listing as JSON.
    ///
    /// # Panics
    /// If it fails or is no JSON.
    #[track_caller]
    pub fn json<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Value {
        let mut command = self.command(arguments);
        command.arg("--json");
        let ran = finish(command).success();
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.text()))
    }

    /// The last job's record.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn last_job(&self) -> Value {
        let jobs = self.json(&["jobs"]);
        let id = jobs.as_array().and_then(|jobs| jobs.iter().filter_map(|job| job["job"].as_u64()).max());
        self.json(&["job", &id.expect("a job").to_string()])
    }

    /// Processes that belong to this home: daemons and machines.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        let home = self.home.path().to_string_lossy().into_owned();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
            let belongs = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(&home);
            if belongs(&read("cmdline")) || (belongs(&read("environ")) && pid != std::process::id() as i32) {
                let command = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
                // A process that has exited and waits for its parent has no command line.
                if !command.is_empty() {
                    found.push(Process { pid, command });
                }
            }
        }
        found
    }

    /// Kills (-9) the one process of this home whose command line contains `what`.
    ///
    /// # Panics
    /// If there is not exactly one.
    #[track_caller]
    pub fn kill_process(&self, what: &str) {
        let matching: Vec<_> = self.processes().into_iter().filter(|process| process.command.contains(what)).collect();
        assert_eq!(matching.len(), 1, "processes with “{what}”: {matching:?}");
        let pid = rustix::process::Pid::from_raw(matching[0].pid).expect("a process id");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("kill");
    }

    /// Waits until no process of this home is left.
    ///
    /// # Panics
    /// If some stay.
    #[track_caller]
    pub fn assert_no_process_left(&self) {
        wait_until("all processes are gone", VANISH_TIME_MAX, || {
            let left = self.processes();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        });
    }

    /// Waits until all nodes are ready.
    ///
    /// # Panics
    /// If they do not get ready.
    #[track_caller]
    pub fn wait_until_ready(&self) {
        wait_until("all nodes are ready", COMMAND_TIME_MAX, || {
            let nodes = self.json(&["nodes"]);
            let ready = nodes.as_array().is_some_and(|nodes| nodes.iter().all(|node| node["state"] == "ready"));
            if ready { Ok(()) } else { Err(nodes.to_string()) }
        });
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show_logs();
        }
        let _ = self.command(&["down"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        for process in self.processes() {
            if let Some(pid) = rustix::process::Pid::from_raw(process.pid) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

impl Cluster {
    /// Prints the ends of all logs, for a test that failed.
    fn show_logs(&self) {
        let mut directories = vec![self.home.path().to_path_buf()];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    directories.push(path);
                } else if path.extension().is_some_and(|extension| extension == "log") {
                    let text = std::fs::read(&path).unwrap_or_default();
                    let tail = String::from_utf8_lossy(&text[text.len().saturating_sub(3000)..]).into_owned();
                    eprintln!("--- {}\n{tail}", path.display());
                }
            }
        }
    }
}

/// A process of a cluster.
#[derive(Debug)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its command line.
    pub command: String,
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
pub fn finish_child(child: std::process::Child, name: &str) -> Ran {
    let pid = rustix::process::Pid::from_child(&child);
    let (sender, receiver) = std::sync::mpsc::channel();
    let waiter = std::thread::spawn(move || sender.send(child.wait_with_output()));
    let output = receiver.recv_timeout(COMMAND_TIME_MAX);
    if output.is_err() {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        let said = receiver.recv().ok().and_then(Result::ok).map(Ran::from);
        let bytes = said.as_ref().map_or(0, |ran| ran.stdout.len());
        let stderr = said.map(|ran| ran.stderr).unwrap_or_default();
        panic!("no end after {} s: {name}: {bytes} bytes of output; {stderr}", COMMAND_TIME_MAX.as_secs());
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
