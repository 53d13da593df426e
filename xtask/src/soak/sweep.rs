//! Ending in order: Ctrl-C and SIGTERM are noticed, and what test clusters leave when their test is killed is taken
//! away.
//!
//! A cluster's daemons outlive whoever started them. So everything that is started here has a mark in its environment,
//! which its children inherit; what still has it at the end is killed, and its directories are removed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

/// The mark's name; its value is this process.
const MARK: &str = "COPPICE_SOAK";
/// Where the clusters of tests have their state.
const HOMES: &str = "/tmp/cop";

/// Notices interrupts, and knows what was started.
pub(super) struct Watch {
    interrupted: Arc<AtomicBool>,
    /// For temporary files of tests.
    directory: TempDir,
}

impl Watch {
    /// From now on Ctrl-C and SIGTERM are noticed instead of ending this process.
    ///
    /// # Errors
    /// If the system does not allow that.
    pub(super) fn start() -> Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        let noticed = Arc::clone(&interrupted);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let guard = runtime.enter();
        let [mut interrupt, mut terminate] = [
            signal(SignalKind::interrupt()).context("cannot notice Ctrl-C")?,
            signal(SignalKind::terminate()).context("cannot notice SIGTERM")?,
        ];
        drop(guard);
        std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            });
            eprintln!("soak: ending");
            noticed.store(true, Ordering::Relaxed);
        });
        Ok(Self { interrupted, directory: tempfile::tempdir()? })
    }

    /// Whether somebody wants an end.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Marks what is about to be started.
    pub(super) fn mark(&self, command: &mut Command) {
        command.env(MARK, std::process::id().to_string()).env("TMPDIR", self.directory.path());
    }

    /// Ends everything that has the mark, and removes its directories.
    pub(super) fn sweep(&self) {
        let mark = format!("{MARK}={}", std::process::id());
        let mut homes = Vec::new();
        // Whoever is killed may just have started another.
        for _ in 0..3 {
            for (process, environment) in processes() {
                if environment.contains(&mark) {
                    homes.extend(environment.iter().filter_map(|variable| home(variable)));
                    let _ = kill_process(process, Signal::KILL);
                }
            }
        }
        homes.iter().for_each(|home| drop(std::fs::remove_dir_all(home)));
    }
}

/// The directory of a test's cluster, if a variable says one.
fn home(variable: &str) -> Option<PathBuf> {
    let path = variable.strip_prefix("COPPICE_HOME=").filter(|path| path.starts_with(HOMES))?;
    Some(Path::new(path).to_path_buf())
}

/// All processes whose environment can be read, without this one.
fn processes() -> Vec<(Pid, Vec<String>)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbered = entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse::<i32>().ok()?, entry.path())));
    let readable = numbered.filter_map(|(number, path)| {
        let bytes = std::fs::read(path.join("environ")).ok()?;
        let variables = bytes.split(|byte| *byte == 0).map(|variable| String::from_utf8_lossy(variable).into_owned());
        Some((Pid::from_raw(number)?, variables.collect()))
    });
    readable.filter(|(process, _)| process.as_raw_nonzero().get() as u32 != std::process::id()).collect()
}
