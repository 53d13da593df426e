//! The program that drives the browser: Debian's ChromeDriver, in a home of its own.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::TIME_MAX;
use crate::cluster::processes_of;

const DRIVER: &str = "/usr/bin/chromedriver";

/// What it says in front of the port that it listens at.
const LISTENS: &str = "was started successfully on port ";

/// How long processes may take to vanish that were killed.
const VANISH_TIME_MAX: Duration = Duration::from_secs(30);

/// See this module. When it is dropped it ends, and so does the browser, and nothing of both is left on the disk.
pub(super) struct Driver {
    child: Child,
    pub(super) port: u16,
    home: Option<TempDir>,
}

impl Driver {
    /// # Panics
    /// If it is not there, or does not start.
    pub(super) fn start() -> Self {
        assert!(Path::new(DRIVER).exists(), "no {DRIVER}: set up first with `cargo xtask setup`");
        // By its name its processes are known, as they all have it in their environment.
        let home = tempfile::Builder::new().prefix("coppice-browser-").tempdir().expect("directory");
        // It ends with the thread that has it started, whatever becomes of that, and the browser with it: they have a
        // pipe in common.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", DRIVER, "--port=0"]);
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            .envs(["HOME", "TMPDIR", "XDG_RUNTIME_DIR"].map(|name| (name, home.path())))
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(home.path().join("log")).expect("a file"));
        let mut child = command.spawn().expect("setpriv");
        let said = child.stdout.take().expect("piped");
        // From here on it is ended in any case.
        let mut driver = Self { child, port: 0, home: Some(home) };
        driver.port = listens_at(said).unwrap_or_else(|| panic!("{DRIVER} does not listen: {}", driver.log()));
        driver
    }

    /// A directory for what the browser keeps.
    pub(super) fn profile(&self) -> PathBuf {
        self.home().join("profile")
    }

    /// What it and the browser said, for a test that fails.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_else(|error| error.to_string())
    }

    fn log_path(&self) -> PathBuf {
        self.home().join("log")
    }

    fn home(&self) -> &Path {
        self.home.as_ref().map_or(Path::new(""), TempDir::path)
    }

    /// Ends it and waits for the browser's end; says what does not end or cannot be removed.
    fn end(&mut self) -> Result<(), String> {
        self.child.kill().and_then(|()| self.child.wait()).map_err(|error| format!("{DRIVER}: {error}"))?;
        let Some(home) = self.home.take() else { return Ok(()) };
        let end = Instant::now() + VANISH_TIME_MAX;
        let mut left = processes_of(home.path());
        while !left.is_empty() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
            left = processes_of(home.path());
        }
        for pid in left.iter().filter_map(|process| Pid::from_raw(process.pid)) {
            // What has ended by itself in between is as good.
            let _ = kill_process(pid, Signal::KILL);
        }
        home.close().map_err(|error| format!("its files stay: {error}"))?;
        if left.is_empty() { Ok(()) } else { Err(format!("these go on without it: {left:?}")) }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let ended = self.end();
        // A test that fails has said why.
        if let (Err(why), false) = (ended, std::thread::panicking()) {
            panic!("the browser does not end: {why}");
        }
    }
}

/// The port that it says it listens at. What it says later is read, too, so that it never has to wait.
fn listens_at(said: impl Read + Send + 'static) -> Option<u16> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(said).lines().map_while(Result::ok) {
            if let Some((_, port)) = line.split_once(LISTENS) {
                // Whoever waited may have given up.
                let _ = sender.send(port.trim_end_matches('.').parse().ok());
            }
        }
    });
    receiver.recv_timeout(TIME_MAX).ok().flatten()
}
