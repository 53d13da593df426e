//! A dashboard that serves a cluster.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::Cluster;
use crate::cluster::{Ran, finish_child};

/// See this module. It ends when this is dropped.
pub struct Dashboard {
    child: Option<Child>,
    port: u16,
    address: String,
    /// What it says after its address has a reader.
    _stdout: BufReader<ChildStdout>,
}

impl Dashboard {
    /// One at a port that is free.
    ///
    /// # Panics
    /// If it does not say where it is.
    #[must_use]
    #[track_caller]
    pub fn start(cluster: &Cluster) -> Self {
        Self::start_at(cluster, 0)
    }

    /// One at that port.
    ///
    /// # Panics
    /// If it does not say where it is.
    #[must_use]
    #[track_caller]
    pub fn start_at(cluster: &Cluster, port: u16) -> Self {
        let mut command = cluster.command(&["dashboard", "--port", &port.to_string()]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("an address");
        let address = line.trim_end().to_owned();
        let port = address.strip_prefix("http://127.0.0.1:").and_then(|rest| rest.split_once('/')?.0.parse().ok());
        let Some(port) = port else {
            panic!("it said “{line}”: {}", finish_child(child, "dashboard").stderr);
        };
        Self { child: Some(child), port, address, _stdout: stdout }
    }

    /// Where a browser is to go first.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its port of loopback.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The address of one of its pages.
    #[must_use]
    pub fn page(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Ends it, as a user does.
    ///
    /// # Panics
    /// If it goes on.
    #[track_caller]
    pub fn end(mut self) -> Ran {
        let child = self.child.take().expect("it runs");
        kill_process(Pid::from_child(&child), Signal::TERM).expect("sent");
        finish_child(child, "dashboard")
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
