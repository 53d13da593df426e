//! `coppice attach` and `coppice wait`: jobs that somebody else, or nobody, runs.

use std::process::ExitCode;

use coppice_api::Client;
use coppice_api::job::EXIT_COPPICE;
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::{Attach, Wait};
use crate::failure::say;
use crate::run::output::Output;
use crate::run::{EXIT_INTERRUPTED, EXIT_PIPE, End, explain_end, follow, goes_on};

pub(crate) async fn attach(client: &Client, attach: &Attach) -> anyhow::Result<ExitCode> {
    let job = attach.job;
    let mut interrupts = signal(SignalKind::interrupt())?;
    let stream = client.attach(job).await?;
    if !attach.quiet {
        // There may be nothing else to see for long.
        say(&format!("attached to job {job}; Ctrl-C leaves, and the job goes on"));
    }
    let left = |how: &str| say(&format!("{how}; job {job} goes on, see `coppice jobs`"));
    let followed = tokio::select! {
        followed = follow(stream, Output::new(attach.label, false), true, None, None) => followed?,
        _ = interrupts.recv() => {
            left("left");
            return Ok(ExitCode::from(EXIT_INTERRUPTED));
        }
    };
    match followed {
        End::Job(view) => {
            explain_end(client, &view).await?;
            Ok(ExitCode::from(view.exit_status.unwrap_or(EXIT_COPPICE)))
        }
        End::ReaderGone => {
            left("nobody reads the output");
            Ok(ExitCode::from(EXIT_PIPE))
        }
    }
}

/// Waits for jobs one after the other; that makes no difference, as all must have ended. One that has lost a node and
/// goes on as another ends when that does.
pub(crate) async fn wait(client: &Client, wait: &Wait) -> anyhow::Result<ExitCode> {
    let mut first_bad = 0;
    // So that nobody waits for hours to hear that the last is none.
    for job in &wait.jobs {
        let _ = client.job(*job).await?;
    }
    for job in &wait.jobs {
        let mut view = client.wait(*job).await?;
        while let Some((next, line)) = view.continued_as.zip(goes_on(&view)) {
            say(&line);
            view = client.wait(next.job).await?;
        }
        explain_end(client, &view).await?;
        if first_bad == 0 {
            first_bad = view.exit_status.unwrap_or(EXIT_COPPICE);
        }
    }
    Ok(ExitCode::from(first_bad))
}
