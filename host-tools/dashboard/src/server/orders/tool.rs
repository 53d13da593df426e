//! The tool that does what is ordered: the program whose dashboard this is, with another verb.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncRead, AsyncReadExt, copy, sink};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

/// How long it may take.
const TIME_MAX: Duration = Duration::from_secs(600);

/// How long it may take to end then; after that it is killed.
const END_TIME_MAX: Duration = Duration::from_millis(800);

/// What is shown of what it prints, bytes of each of its two streams; the rest is let go.
const SHOWN_BYTES_MAX: u64 = 256 << 10;

/// See this module.
#[derive(Clone, Debug)]
pub struct Tool {
    /// The program.
    pub program: PathBuf,
    /// What comes before the verb.
    pub arguments: Vec<OsString>,
}

/// What became of an order.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) status: ExitStatus,
    pub(super) output: String,
    pub(super) errors: String,
}

/// Why nothing is known of what became of it.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotDone {
    #[error("cannot start {0}: {1}")]
    NotStarted(PathBuf, io::Error),
    #[error("cannot read what it says: {0}")]
    Unread(#[from] io::Error),
    #[error("it was not done after {} s, and was given up", TIME_MAX.as_secs())]
    TooLong,
    #[error("the dashboard is ending")]
    Ending,
}

impl Tool {
    /// Has it do what is on a command line, unless `ended` is done before. What is given up may put away what it was
    /// at, as on Ctrl-C.
    pub(super) async fn obey(&self, line: &[String], ended: impl Future<Output = ()>) -> Result<Done, NotDone> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).args(line).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = command.kill_on_drop(true).spawn();
        let mut child = started.map_err(|error| NotDone::NotStarted(self.program.clone(), error))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let given_up = tokio::select! {
            done = async {
                let (output, errors) = tokio::try_join!(shown(stdout), shown(stderr))?;
                Ok(Done { status: child.wait().await?, output, errors })
            } => return done,
            () = sleep(TIME_MAX) => NotDone::TooLong,
            () = ended => NotDone::Ending,
        };
        if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
            // It may have ended just now.
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = timeout(END_TIME_MAX, child.wait()).await;
        Err(given_up)
    }
}

/// What is shown of a stream, all of which is read; with how much is not shown.
async fn shown(stream: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let Some(mut stream) = stream else { return Ok(String::new()) };
    let mut bytes = Vec::new();
    let _ = (&mut stream).take(SHOWN_BYTES_MAX).read_to_end(&mut bytes).await?;
    let left = copy(&mut stream, &mut sink()).await?;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if left > 0 {
        text += &format!("\n… and {left} bytes more, which are not shown here");
    }
    Ok(text)
}
