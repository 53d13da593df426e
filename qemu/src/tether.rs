//! Children that cannot outlive whoever started them, without a line of unsafe code.
//!
//! Linux kills a process when its parent dies only if the process itself has asked for it. So a child is started as the
//! parent's own program once more, with `--tether PARENT -- program arguments…`: [`intercept`], called first in `main`,
//! asks for the signal, checks that the parent was still there when it did, and becomes the program. What was asked for
//! survives that step, a `kill -9` of the parent included.
//!
//! The system means the *thread* that started the child: start children from a thread that lives as long as the
//! process.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Pid, Signal};

/// First argument of a program that is to become another one.
const FLAG: &str = "--tether";

/// Exit status when the program could not be started or the parent was gone, as shells have it for "cannot execute".
pub const FAILED_STATUS: i32 = 126;

/// Which program does the becoming. Its `main` calls [`intercept`] first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tether {
    /// The running program itself.
    #[default]
    Own,
    /// Another one, for programs whose `main` is not ours (a test under the usual harness).
    Through(PathBuf),
}

impl Tether {
    /// A command that runs `program` and ends with this thread. Arguments are added by the caller as usual.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let executable = match self {
            // Not current_exe(): its path is wrong once the file was replaced by a newer build.
            Self::Own => OsStr::new("/proc/self/exe"),
            Self::Through(path) => path.as_os_str(),
        };
        let mut command = Command::new(executable);
        command.arg(FLAG).arg(std::process::id().to_string()).arg("--").arg(program);
        command
    }
}

/// Shorthand for [`Tether::Own`]`.command(program)`.
#[must_use]
pub fn command(program: impl AsRef<OsStr>) -> Command {
    Tether::Own.command(program)
}

/// Call this first in `main`. If the program was started as a tether it becomes the other program and never returns;
/// if that fails it says why and exits with [`FAILED_STATUS`].
pub fn intercept() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().as_deref() != Some(OsStr::new(FLAG)) {
        return;
    }
    let Err(error) = become_program(arguments);
    // Standard error may be closed; the status still tells.
    let _unheard = io::Write::write_fmt(&mut io::stderr(), format_args!("{error}\n"));
    std::process::exit(FAILED_STATUS);
}

#[derive(Debug, thiserror::Error)]
enum TetherError {
    #[error("{FLAG} takes the parent's process id, -- and a program")]
    Usage,
    #[error("the parent, process {0}, is gone")]
    ParentGone(i32),
    #[error("cannot ask to end with the parent: {0}")]
    Refused(io::Error),
    #[error("cannot run {}: {error}", program.display())]
    Exec { program: OsString, error: io::Error },
}

fn become_program(mut arguments: impl Iterator<Item = OsString>) -> Result<Infallible, TetherError> {
    let parent: i32 = arguments.next().and_then(|id| id.to_str()?.parse().ok()).ok_or(TetherError::Usage)?;
    if arguments.next().as_deref() != Some(OsStr::new("--")) {
        return Err(TetherError::Usage);
    }
    let program = arguments.next().ok_or(TetherError::Usage)?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| TetherError::Refused(errno.into()))?;
    // A parent that died before the line above sent no signal: then someone else is the parent by now.
    if rustix::process::getppid().map(Pid::as_raw_pid) != Some(parent) {
        return Err(TetherError::ParentGone(parent));
    }
    let error = Command::new(&program).args(arguments).exec();
    Err(TetherError::Exec { program, error })
}
