//! A helper process: fed through its standard input, read through its standard output, logging on standard error.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, watch};

use crate::limits::{LAST_WORDS_BYTES, LOG_BYTES_MAX};
use crate::store::plain;

/// The controller's way to a helper process.
#[derive(Debug)]
pub(super) struct Link {
    messages: mpsc::Sender<Vec<u8>>,
    kill: watch::Sender<bool>,
}

impl Link {
    /// Sends bytes in order. A process that lets too many messages wait is killed; to one that is gone they are lost.
    pub(super) fn send(&self, bytes: Vec<u8>) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.messages.try_send(bytes) {
            tracing::error!("a helper process does not read what it is told");
            self.kill();
        }
    }

    /// Kills the process; its end is reported as any other.
    pub(super) fn kill(&self) {
        self.kill.send_replace(true);
    }
}

/// A helper process as its task sees it. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pub(super) pid: u32,
    pub(super) output: ChildStdout,
    /// Where it logs, and where what it logs begins.
    log: (File, u64),
    killed: watch::Receiver<bool>,
}

/// Starts a tethered command with its standard error in a log file.
pub(super) fn start(
    command: std::process::Command,
    log: &Path,
    messages_max: usize,
) -> Result<(Process, Link), String> {
    let program = command.get_args().nth(3).map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
    let failed = |error: &std::io::Error| format!("cannot start {program}: {}", plain(error));
    put_aside(log);
    let mut options = OpenOptions::new();
    let log = options.create(true).read(true).append(true).mode(0o600).open(log).map_err(|error| failed(&error))?;
    let begin = log.metadata().map_err(|error| failed(&error))?.len();
    let own = log.try_clone().map_err(|error| failed(&error))?;
    let mut child = Command::from(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .kill_on_drop(true)
        // A Ctrl-C at a terminal is not meant for it.
        .process_group(0)
        .spawn()
        .map_err(|error| failed(&error))?;
    let (Some(pid), Some(input), Some(output)) = (child.id(), child.stdin.take(), child.stdout.take()) else {
        return Err(format!("{program} ended at once"));
    };
    let (messages, queue) = mpsc::channel(messages_max);
    let (kill, killed) = watch::channel(false);
    tokio::spawn(write_all(input, queue));
    Ok((Process { child, pid, output, log: (own, begin), killed }, Link { messages, kill }))
}

/// Renames a log that has become too long, so that it does not grow for ever.
pub(crate) fn put_aside(log: &Path) {
    if std::fs::metadata(log).is_ok_and(|metadata| metadata.len() > LOG_BYTES_MAX) {
        // If it cannot be renamed it goes on growing, which is no reason not to start.
        let _ = std::fs::rename(log, log.with_extension("log.1"));
    }
}

/// Why a process ended, if the last line of its log behind `begin` says so: programs of ours put their names in front.
fn last_words(mut log: File, begin: u64) -> Option<String> {
    let end = log.metadata().ok()?.len();
    log.seek(SeekFrom::Start(begin.max(end.saturating_sub(LAST_WORDS_BYTES)))).ok()?;
    let mut bytes = Vec::new();
    log.take(LAST_WORDS_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let (name, words) = text.lines().next_back()?.split_once(": ")?;
    name.starts_with("coppice-").then(|| words.to_owned())
}

async fn write_all(mut input: ChildStdin, mut queue: mpsc::Receiver<Vec<u8>>) {
    while let Some(bytes) = queue.recv().await {
        if input.write_all(&bytes).await.is_err() {
            // It is gone or about to be; whoever waits for its end says so.
            return;
        }
    }
}

impl Process {
    /// Runs a reader of the process's output until it ends, is killed, or the reader gives up; then makes sure that
    /// the process is gone. Returns how it ended, one line.
    pub(super) async fn follow<F>(mut self, read: impl FnOnce(ChildStdout) -> F) -> String
    where
        F: Future<Output = Option<String>>,
    {
        let mut killed = self.killed.clone();
        let gave_up = tokio::select! {
            said = read(self.output) => said,
            // An error means that the controller is gone.
            _ = killed.wait_for(|killed| *killed) => None,
        };
        let was_killed = *killed.borrow();
        if was_killed || gave_up.is_some() {
            // It may have ended by itself just now.
            let _ = self.child.start_kill();
        }
        let status = self.child.wait().await;
        match (gave_up, status) {
            (Some(reason), _) => reason,
            (None, _) if was_killed => "it was ended".to_owned(),
            (None, Ok(status)) if status.success() => status.to_string(),
            (None, Ok(status)) => match last_words(self.log.0, self.log.1) {
                Some(words) => format!("{status}: {words}"),
                None => status.to_string(),
            },
            (None, Err(error)) => format!("its end could not be seen: {}", plain(&error)),
        }
    }
}
