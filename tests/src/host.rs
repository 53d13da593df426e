//! Programs run on the host, to compare with.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cluster::{Ran, finish};

/// Runs a program natively in a directory with an environment of nothing but `PATH`.
///
/// # Panics
/// If it cannot be started or hangs.
#[track_caller]
pub fn run<S: AsRef<OsStr>>(directory: &Path, program: &Path, arguments: &[S]) -> Ran {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory).stdin(Stdio::null()).env_clear().env("PATH", "/usr/bin:/bin");
    finish(command)
}
