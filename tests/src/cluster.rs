//! A cluster of real QEMU nodes for one test, in a home of its own, gone when the test is over however it ends.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde_json::Value;
use tempfile::TempDir;

use crate::commands::COMMAND_TIME_MAX;
use crate::namespace::Namespace;

pub use crate::commands::{
    Ran, finish, finish_child, finish_child_within, wait_until, wait_until_interruptible, wait_until_it_listens,
};

/// How long processes may take to vanish after they were told to.
const VANISH_TIME_MAX: Duration = Duration::from_secs(10);

/// What became of one rank of a job.
#[derive(Debug)]
pub struct Rank(pub Value);

impl Rank {
    /// One of the numbers in it.
    ///
    /// # Panics
    /// If it has none of that name.
    #[must_use]
    #[track_caller]
    pub fn count(&self, field: &str) -> u64 {
        self.0[field].as_u64().unwrap_or_else(|| panic!("no {field} in {}", self.0))
    }
}

/// Directory the built programs lie in.
#[must_use]
pub fn binaries() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir));
    target.join("release")
}

/// Cores of a node where a test does not say: `COPPICE_TEST_CORES`, or one.
///
/// # Panics
/// If that is no number.
#[must_use]
pub fn cores() -> u16 {
    std::env::var("COPPICE_TEST_CORES").map_or(1, |cores| cores.parse().expect("COPPICE_TEST_CORES is a number"))
}

/// A home for clusters with nothing in it yet, and the directory jobs see as `/`.
pub struct Cluster {
    home: TempDir,
    root: TempDir,
    /// Where its commands run, if not where the test does.
    namespace: Option<Namespace>,
}

impl Cluster {
    /// A home and a root, no nodes.
    ///
    /// # Panics
    /// If there is no room for temporary files, or the tools are not built.
    #[must_use]
    pub fn home() -> Self {
        Self::home_called(OsStr::new("cop"))
    }

    /// As [`Self::home`], in a directory whose name begins so; the sockets in it leave little room for that.
    fn home_called(name: &OsStr) -> Self {
        assert!(
            binaries().join("coppice").exists(),
            "no {}: build first with `cargo xtask build`",
            binaries().join("coppice").display()
        );
        // Sockets live in the home; their paths are limited to 107 bytes, so it must be short.
        let home = tempfile::Builder::new().prefix(name).tempdir_in("/tmp").expect("temporary directory");
        let root = tempfile::tempdir().expect("temporary directory");
        Self { home, root, namespace: None }
    }

    /// A home and a root in a mount namespace of their own, with what is mounted there; `None`: it cannot be had here,
    /// which is said.
    ///
    /// # Panics
    /// As [`Self::home`].
    #[must_use]
    pub fn with_mounts(mount: impl FnOnce(&Self, &Namespace) -> bool) -> Option<Self> {
        let mut cluster = Self::home();
        let namespace = Namespace::new();
        if !mount(&cluster, &namespace) {
            eprintln!("not tried: this machine does not let its users mount file systems for themselves");
            return None;
        }
        cluster.namespace = Some(namespace);
        Some(cluster)
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

    /// The same in a home whose name begins so.
    ///
    /// # Panics
    /// If it does not come up.
    #[must_use]
    #[track_caller]
    pub fn up_called(name: &OsStr, arguments: &[&str]) -> Self {
        let cluster = Self::home_called(name);
        let _ = cluster.coppice(&[&["up", "--accel", "tcg"], arguments].concat()).success();
        cluster
    }

    /// The directory that jobs see as `/`.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Where the cluster keeps its state, for the test.
    #[must_use]
    pub fn home_path(&self) -> PathBuf {
        self.seen(self.home.path())
    }

    /// Where the cluster keeps its state, for its commands and mounts.
    #[must_use]
    pub fn home_name(&self) -> &Path {
        self.home.path()
    }

    /// A path of the cluster's as the test reaches it.
    #[must_use]
    pub fn seen(&self, path: &Path) -> PathBuf {
        self.namespace.as_ref().map_or_else(|| path.to_owned(), |namespace| namespace.path(path))
    }

    /// Its mounts, if it has some of its own.
    #[must_use]
    pub fn namespace(&self) -> Option<&Namespace> {
        self.namespace.as_ref()
    }

    /// The control tool, ready for arguments; runs in the job's root directory. `up` without a number of cores gives
    /// nodes as many as [`cores`] says.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let program = binaries().join("coppice");
        let mut command = match &self.namespace {
            Some(namespace) => namespace.command(&program),
            None => Command::new(&program),
        };
        let is_one = |word: &S, wanted: &str| word.as_ref() == wanted;
        command.args(arguments);
        if arguments.first().is_some_and(|word| is_one(word, "up"))
            && !arguments.iter().any(|word| is_one(word, "--cores"))
        {
            command.args(["--cores", &cores().to_string()]);
        }
        // Every guest is to go through whole clusters of nodes that take processes apart, too.
        if arguments.first().is_some_and(|word| is_one(word, "up"))
            && let Some(every) = std::env::var_os("COPPICE_TEST_FREEZE")
        {
            command.arg("--freeze-every").arg(every);
        }
        command
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

    /// `coppice run` with these arguments, without the line that says what retained pages saved: standard error is what
    /// the program wrote there.
    ///
    /// # Panics
    /// As [`Self::coppice`].
    #[track_caller]
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Ran {
        let mut command = self.command(&["run", "--quiet"]);
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

    /// What became of one rank of the last job.
    ///
    /// # Panics
    /// If nothing is known of it.
    #[track_caller]
    pub fn last_rank(&self, rank: usize) -> Rank {
        let job = self.last_job();
        let report = job["rank_reports"][rank].clone();
        assert!(report.is_object(), "no rank {rank} in {job}");
        Rank(report)
    }

    /// Processes that belong to this home: daemons and machines.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        processes_of(self.home.path())
    }

    /// Kills (-9) the one process of this home whose command line contains `what`, and waits until it is gone: its
    /// memory, by which [`Cluster::processes`] finds it, goes before its sockets.
    ///
    /// # Panics
    /// If there is not exactly one, or it stays.
    #[track_caller]
    pub fn kill_process(&self, what: &str) {
        let pid = self.process(what);
        let process = pidfd_open(pid, PidfdFlags::empty()).expect("a process");
        pidfd_send_signal(&process, Signal::KILL).expect("kill");
        let end = Instant::now() + VANISH_TIME_MAX;
        let ended = loop {
            let left = Timespec::try_from(end.saturating_duration_since(Instant::now())).expect("a time");
            match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&left)) {
                // Whoever stops this test and has it go on ends its waits.
                Err(Errno::INTR) => {}
                other => break other.expect("poll"),
            }
        };
        assert_eq!(ended, 1, "“{what}” is killed and goes on");
    }

    /// Sends the one process of this home whose command line contains `what` a signal.
    ///
    /// # Panics
    /// If there is not exactly one.
    #[track_caller]
    pub fn signal_process(&self, what: &str, signal: Signal) {
        kill_process(self.process(what), signal).expect("kill");
    }

    #[track_caller]
    fn process(&self, what: &str) -> Pid {
        let matching: Vec<_> = self.processes().into_iter().filter(|process| process.command.contains(what)).collect();
        assert_eq!(matching.len(), 1, "processes with “{what}”: {matching:?}");
        Pid::from_raw(matching[0].pid).expect("a process id")
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
            if let Some(pid) = Pid::from_raw(process.pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

impl Cluster {
    /// Prints the ends of all logs, for a test that failed.
    fn show_logs(&self) {
        let mut directories = vec![self.home_path()];
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

/// Processes whose arguments or environment name a directory.
pub(crate) fn processes_of(directory: &Path) -> Vec<Process> {
    let directory = directory.to_string_lossy();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let belongs = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(&*directory);
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
