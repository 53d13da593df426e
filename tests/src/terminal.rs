//! A terminal of its own for a program: tmux, which shows what is on its screen.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::cluster::wait_until;

/// How long it may take until something is on the screen.
const SEEN_TIME_MAX: Duration = Duration::from_secs(60);

/// See this module. What runs in it ends when this is dropped.
pub struct Terminal {
    socket: PathBuf,
    _home: TempDir,
}

impl Terminal {
    /// Runs a command in one of that size: by a shell, which says how it ended and what the terminal is like before and
    /// after.
    ///
    /// # Panics
    /// If there is no tmux, or it does not start.
    #[must_use]
    pub fn start(command: &Command, (width, height): (u16, u16)) -> Self {
        let home = tempfile::tempdir().expect("directory");
        let terminal = Self { socket: home.path().join("tmux"), _home: home };
        let set = command.get_envs().filter_map(|(name, value)| {
            let mut pair = name.to_owned();
            pair.push("=");
            pair.push(value?);
            Some(pair)
        });
        let script = "before=$(stty -g); \"$@\"; echo \"left $?\"; \
                      [ \"$before\" = \"$(stty -g)\" ] && echo as before; exec sleep 1000";
        let (width, height) = (width.to_string(), height.to_string());
        let begin =
            ["new-session", "-d", "-s", "it", "-x", &width, "-y", &height, "--", "sh", "-c", script, "sh", "env"];
        let mut tmux = terminal.tmux(&begin);
        tmux.args(set).arg(command.get_program()).args(command.get_args());
        let _ = done(&mut tmux);
        terminal
    }

    fn tmux<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-u").arg("-f").arg("/dev/null").arg("-S").arg(&self.socket).args(arguments).stdin(Stdio::null());
        // It is in none of ours.
        command.env_remove("TMUX").env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8");
        command
    }

    /// What is on the screen.
    #[must_use]
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&done(&mut self.tmux(&["capture-pane", "-p", "-t", "it"])).stdout).into_owned()
    }

    /// Waits until the screen is as it should be, and gives it.
    pub fn wait_for(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        wait_until(what, SEEN_TIME_MAX, || {
            last = self.screen();
            if is_so(&last) { Ok(()) } else { Err(format!("\n{last}")) }
        });
        last
    }

    /// Presses keys, as tmux calls them.
    pub fn press(&self, keys: &[&str]) {
        let _ = done(&mut self.tmux(&[&["send-keys", "-t", "it"], keys].concat()));
    }

    /// Gives it another size.
    pub fn resize(&self, width: u16, height: u16) {
        let (width, height) = (width.to_string(), height.to_string());
        let _ = done(&mut self.tmux(&["resize-window", "-t", "it", "-x", &width, "-y", &height]));
    }
}

fn done(command: &mut Command) -> Output {
    let output = command.output().expect("tmux: set up first with `cargo xtask setup`");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.tmux(&["kill-server"]).output();
    }
}
