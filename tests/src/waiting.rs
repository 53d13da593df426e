//! A job that has come to a known point and stays there until the test wants it to go on.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::cluster::{Cluster, Ran, finish_child};

/// A running `coppice run` whose program waits for the end of its standard input.
pub struct Waiting {
    child: Child,
    name: String,
}

impl Waiting {
    /// Starts `coppice run` with these arguments and waits until the program has written this line.
    ///
    /// # Panics
    /// If it writes anything else.
    #[must_use]
    #[track_caller]
    pub fn start(cluster: &Cluster, arguments: &[&str], line: &str) -> Self {
        let mut command = cluster.command(&[&["run", "--quiet"], arguments].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("start");
        let mut first = String::new();
        BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut first).expect("output");
        if first != format!("{line}\n") {
            let ran = finish_child(child, "a program that should wait");
            panic!("{arguments:?} wrote “{first}”; {}", ran.stderr);
        }
        Self { child, name: format!("{arguments:?}") }
    }

    /// Lets it go on and waits for its end.
    ///
    /// # Panics
    /// If it hangs.
    #[track_caller]
    pub fn go_on(self) -> Ran {
        // Waiting for a child closes its standard input first.
        finish_child(self.child, &self.name)
    }

    /// Waits for its end without letting it go on: something else ends it.
    ///
    /// # Panics
    /// If nothing does.
    #[track_caller]
    pub fn end(mut self) -> Ran {
        let input = self.child.stdin.take();
        let ran = finish_child(self.child, &self.name);
        drop(input);
        ran
    }
}
