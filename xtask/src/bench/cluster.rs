//! A cluster for one measurement, in a home of its own, down again when it is over, however that comes about.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::build::Built;
use crate::guard::Guard;

/// A cluster that is up.
pub(crate) struct Cluster {
    /// Takes it down. Dropped before its files.
    guard: Option<Guard>,
    coppice: PathBuf,
    files: TempDir,
    /// How long `up` took until all nodes were ready.
    pub(crate) up_time: Duration,
}

impl Cluster {
    /// Brings a cluster up.
    ///
    /// # Errors
    /// If it does not come up.
    pub(crate) fn up(built: &Built, arguments: &[&str]) -> Result<Self> {
        // Sockets live in there, and their paths must be short.
        let files = tempfile::Builder::new().prefix("cop").tempdir_in("/tmp")?;
        let mut cluster = Self { guard: None, coppice: built.coppice.clone(), files, up_time: Duration::ZERO };
        for directory in ["h", "root"] {
            std::fs::create_dir(cluster.files.path().join(directory))?;
        }
        cluster.guard = Some(Guard::new(&cluster.command(&["down"]), cluster.files.path())?);
        let start = Instant::now();
        cluster.output(&[&["up", "--accel", "tcg"], arguments].concat())?;
        cluster.up_time = start.elapsed();
        Ok(cluster)
    }

    /// The directory that jobs see as `/`.
    pub(crate) fn root(&self) -> PathBuf {
        self.files.path().join("root")
    }

    /// Runs the control tool and returns what it printed.
    ///
    /// # Errors
    /// If it fails; with what it said.
    pub(crate) fn output(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command(arguments).output().context("cannot start coppice")?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            bail!("`coppice {}` failed ({}): {}", arguments.join(" "), output.status, error.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// A listing as JSON.
    ///
    /// # Errors
    /// As [`Self::output`].
    pub(crate) fn json(&self, arguments: &[&str]) -> Result<Value> {
        self.json_of(&[arguments, &["--json"]].concat())
    }

    /// What a command prints that was told to print JSON.
    ///
    /// # Errors
    /// As [`Self::output`].
    pub(crate) fn json_of(&self, arguments: &[&str]) -> Result<Value> {
        let text = self.output(arguments)?;
        serde_json::from_str(&text).context("coppice printed no JSON")
    }

    /// How long a command of the control tool takes.
    ///
    /// # Errors
    /// As [`Self::output`].
    pub(crate) fn time(&self, arguments: &[&str]) -> Result<Duration> {
        let start = Instant::now();
        self.output(arguments)?;
        Ok(start.elapsed())
    }

    /// The control tool, ready to be started; jobs see [`Self::root`] as `/`.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.coppice);
        command
            .args(arguments)
            .env("COPPICE_HOME", self.files.path().join("h"))
            .current_dir(self.root())
            .stdin(Stdio::null());
        command
    }
}

/// A number of a JSON object.
///
/// # Errors
/// If there is none of that name.
pub(crate) fn field(value: &Value, name: &str) -> Result<u64> {
    value[name].as_u64().with_context(|| format!("no number `{name}` in {value}"))
}
