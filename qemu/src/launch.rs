//! A machine running, and how it ended.

use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use std::{fmt, os::unix::process::ExitStatusExt};

use tokio::io::{AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use crate::locate::Qemu;
use crate::machine::{Machine, MachineError, QmpChannel, Serial};
use crate::qmp::{Qmp, QmpError};
use crate::tether::Tether;

/// Bytes of QEMU's last words that are kept.
const LAST_WORDS_BYTES_MAX: usize = 4096;

/// How long the pipe of a process that ended is listened to: somebody else may hold it open.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_millis(200);

/// Starts machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launcher {
    /// The QEMU to run.
    pub qemu: Qemu,
    /// What keeps machines from outliving this process.
    pub tether: Tether,
}

/// Why a machine did not start.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The description is wrong.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A file of the machine is not there, or QEMU is not.
    #[error("cannot start {what}: {error}")]
    Start {
        /// What could not be used.
        what: String,
        /// Why.
        error: io::Error,
    },
}

/// A machine that was started. Dropping it ends it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    pid: u32,
    stdio: Option<(ChildStdout, ChildStdin)>,
    qmp: QmpChannel,
    last_words: Option<JoinHandle<Vec<u8>>>,
    leftovers: Vec<PathBuf>,
    exit: Option<Exit>,
}

/// How a machine ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The guest powered off or asked for a reset, or QEMU was told to quit.
    Off,
    /// The guest wrote `status` to the exit device.
    Guest {
        /// What it wrote, 1 to 127.
        status: u8,
    },
    /// A signal ended QEMU.
    Signal(i32),
    /// QEMU gave up; a guest that wrote 0 to the exit device looks the same.
    Qemu {
        /// Its exit status.
        status: i32,
        /// The end of what it said.
        message: String,
    },
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("the machine is off"),
            Self::Guest { status } => write!(f, "the guest ended the machine with status {status}"),
            Self::Signal(signal) => write!(f, "QEMU was ended by signal {signal}"),
            Self::Qemu { status, message } if message.is_empty() => write!(f, "QEMU ended with status {status}"),
            Self::Qemu { status, message } => write!(f, "QEMU ended with status {status}: {message}"),
        }
    }
}

impl Exit {
    /// Reads QEMU's exit status. The exit device turns the value `v` that a guest writes into `(v << 1) | 1`, so 1 may
    /// be a guest's 0 as well as QEMU's own failure: guests that want to be understood write 1 to 127.
    #[must_use]
    pub fn new(status: ExitStatus, last_words: &[u8]) -> Self {
        match (status.code(), status.signal()) {
            (Some(0), _) => Self::Off,
            (Some(code @ 3..=255), _) if code % 2 == 1 => {
                // In range by the pattern.
                Self::Guest { status: u8::try_from(code >> 1).unwrap_or(u8::MAX) }
            }
            (None, Some(signal)) => Self::Signal(signal),
            (code, _) => {
                let words = String::from_utf8_lossy(last_words);
                let message =
                    words.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
                Self::Qemu { status: code.unwrap_or(-1), message }
            }
        }
    }
}

impl Launcher {
    /// Starts `machine`. Must be called inside a tokio runtime, from a thread that lives as long as the machine is to
    /// (see [`crate::tether`]).
    ///
    /// # Errors
    /// What is wrong with the description or its files. QEMU's own complaints come as [`Exit::Qemu`].
    pub fn start(&self, machine: &Machine) -> Result<Running, LaunchError> {
        for file in std::iter::once(&machine.kernel).chain(&machine.initrd) {
            std::fs::File::open(file)
                .map_err(|error| LaunchError::Start { what: format!("a machine from {}", file.display()), error })?;
        }
        let mut command = Command::from(self.tether.command(&self.qemu.path));
        command.args(machine.arguments()?);
        let piped = machine.qmp == QmpChannel::Stdio || machine.serial == Serial::Stdio;
        let pipe = || if piped { Stdio::piped() } else { Stdio::null() };
        command.stdin(pipe()).stdout(pipe()).stderr(Stdio::piped()).kill_on_drop(true);
        // Its own group: a Ctrl-C at the terminal is for whoever started it, who decides what becomes of machines.
        command.process_group(0);
        let failed = |error| LaunchError::Start { what: self.qemu.path.display().to_string(), error };
        let mut child = command.spawn().map_err(failed)?;
        let pid = child.id().ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        Ok(Running {
            pid,
            stdio: child.stdout.take().zip(child.stdin.take()),
            last_words: child.stderr.take().map(|stderr| tokio::spawn(keep_last_words(stderr))),
            child,
            qmp: machine.qmp.clone(),
            leftovers: machine.leftovers(),
            exit: None,
        })
    }
}

impl Running {
    /// QEMU's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Connects to the machine's QMP. On [`QmpChannel::Stdio`] this can be done once.
    ///
    /// # Errors
    /// There is none (any more), or it does not answer in time.
    pub async fn qmp(&mut self) -> Result<Qmp, QmpError> {
        match &self.qmp {
            QmpChannel::None => Err(QmpError::None),
            QmpChannel::Socket(path) => Qmp::connect(path).await,
            QmpChannel::Stdio => {
                let (reader, writer) = self.stdio.take().ok_or(QmpError::None)?;
                Qmp::over(reader, writer).await
            }
        }
    }

    /// The serial line of a machine with [`Serial::Stdio`], once.
    pub fn serial(&mut self) -> Option<ChildStdout> {
        if self.qmp == QmpChannel::Stdio { None } else { self.stdio.take().map(|(reader, _)| reader) }
    }

    /// Waits for the end. May be dropped and called again.
    ///
    /// # Errors
    /// The system does not say.
    pub async fn wait(&mut self) -> io::Result<Exit> {
        if let Some(exit) = &self.exit {
            return Ok(exit.clone());
        }
        let status = self.child.wait().await?;
        let words = match &mut self.last_words {
            Some(task) => match tokio::time::timeout(LAST_WORDS_TIMEOUT, task).await {
                Ok(words) => words.unwrap_or_default(),
                Err(_) => Vec::new(),
            },
            None => Vec::new(),
        };
        self.last_words = None;
        let exit = Exit::new(status, &words);
        self.exit = Some(exit.clone());
        self.remove_leftovers();
        Ok(exit)
    }

    /// Ends the machine at once and waits until its process and files are gone.
    ///
    /// # Errors
    /// The system does not say.
    pub async fn kill(&mut self) -> io::Result<Exit> {
        if self.exit.is_none() {
            self.child.start_kill()?;
        }
        self.wait().await
    }

    fn remove_leftovers(&mut self) {
        for path in self.leftovers.drain(..) {
            // It may never have been made.
            let _absent = std::fs::remove_file(path);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.exit.is_none() {
            // It may have ended by itself just now.
            let _ended = self.child.start_kill();
        }
        self.remove_leftovers();
    }
}

/// Reads to the end and returns the last part.
async fn keep_last_words(stderr: ChildStderr) -> Vec<u8> {
    let mut reader = BufReader::with_capacity(LAST_WORDS_BYTES_MAX, stderr);
    let (mut words, mut chunk) = (Vec::new(), [0; 1024]);
    while let Ok(count @ 1..) = reader.read(&mut chunk).await {
        words.extend_from_slice(&chunk[..count]);
        let excess = words.len().saturating_sub(LAST_WORDS_BYTES_MAX);
        words.drain(..excess);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_device_statuses() {
        let exit = |code: i32| Exit::new(ExitStatus::from_raw(code << 8), b"qemu: no\n\n way\n");
        assert_eq!(exit(0), Exit::Off);
        assert_eq!(exit(1), Exit::Qemu { status: 1, message: "qemu: no; way".into() });
        assert_eq!(exit(3), Exit::Guest { status: 1 });
        assert_eq!(exit(255), Exit::Guest { status: 127 });
        assert_eq!(exit(126), Exit::Qemu { status: 126, message: "qemu: no; way".into() });
        assert_eq!(Exit::new(ExitStatus::from_raw(9), b""), Exit::Signal(9));
    }
}
