//! A process that is tried with: logged, under a time limit, ended with all it started if somebody wants an end.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

use super::Turn;
use crate::command::root;

const POLL: Duration = Duration::from_millis(20);
/// Lines of a log that are shown with what was found.
const LINES_SHOWN: usize = 12;

/// How a process ended.
pub(super) enum Ended {
    /// It succeeded.
    Well,
    /// It failed, and logged why.
    Badly,
    /// It was ended because it took too long.
    Late,
    /// It was ended because all of this is.
    Interrupted,
}

/// What came of a process.
pub(super) struct Ran {
    pub(super) ended: Ended,
    /// What it wrote.
    pub(super) log: PathBuf,
    pub(super) text: String,
}

impl Ran {
    /// The end of what it wrote.
    pub(super) fn tail(&self) -> String {
        let lines: Vec<&str> = self.text.lines().rev().take(LINES_SHOWN).collect();
        lines.into_iter().rev().map(|line| format!("\n  | {line}")).collect()
    }
}

/// Runs a command to its end, or ends it after `limit`. Its output goes to a file of that name.
///
/// # Errors
/// If it cannot be started.
pub(super) fn run(mut command: Command, name: &str, limit: Duration, turn: &Turn<'_>) -> Result<Ran> {
    let log = turn.logs.join(name).with_extension("log");
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    turn.watch.mark(&mut command);
    // A group of its own: the terminal's interrupt is for this program, which ends the others in order.
    let child = command
        .current_dir(root())
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .with_context(|| format!("cannot start {}", Path::new(command.get_program()).display()))?;
    let ended = wait(child, limit, turn)?;
    let text = std::fs::read(&log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    if matches!(ended, Ended::Well) {
        let _ = std::fs::remove_file(&log);
    }
    Ok(Ran { ended, log, text })
}

fn wait(mut child: Child, limit: Duration, turn: &Turn<'_>) -> Result<Ended> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a process")? {
            return Ok(if status.success() { Ended::Well } else { Ended::Badly });
        }
        let late = start.elapsed() > limit;
        if late || turn.watch.is_interrupted() {
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            let _ = child.wait();
            turn.watch.sweep();
            return Ok(if late { Ended::Late } else { Ended::Interrupted });
        }
        std::thread::sleep(POLL);
    }
}
