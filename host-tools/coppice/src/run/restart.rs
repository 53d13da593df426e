//! `coppice restart`: a new job that goes on from a checkpoint, its streams being ours.

use std::cell::Cell;
use std::process::ExitCode;

use anyhow::anyhow;
use coppice_api::Client;
use tokio::signal::unix::{SignalKind, signal};

use super::{EXIT_INTERRUPTED, Following, interrupted};
use crate::arguments::Restart;
use crate::failure::say;
use crate::show::print;

pub(crate) async fn restart(client: &Client, restart: &Restart) -> anyhow::Result<ExitCode> {
    // From here on, so that there is no moment at which a Ctrl-C is lost or does nothing.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let accepted = Cell::new(None);
    tokio::select! {
        done = restart_and_follow(client, restart, &accepted) => done,
        () = interrupted(client, &accepted, restart.options.detach, &mut interrupts) => {
            Ok(ExitCode::from(EXIT_INTERRUPTED))
        }
    }
}

/// Has a job go on to its end, and says its number as soon as it has one.
async fn restart_and_follow(
    client: &Client,
    restart: &Restart,
    accepted: &Cell<Option<u64>>,
) -> anyhow::Result<ExitCode> {
    let order = restart.order().map_err(|wrong| anyhow!(wrong))?;
    let restarted = client.restart(restart.checkpoint.job, &order).await?;
    let job = restarted.job;
    accepted.set(Some(job));
    if restart.options.detach {
        print(&format!("{job}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !restart.quiet {
        say(&format!("job {job} goes on from checkpoint {}", restarted.checkpoint));
    }
    let following = Following {
        trace: None,
        reads_input: restarted.reads_input,
        core_file: restart.options.core_file,
        label: restart.options.label,
        json: restart.options.json,
        quiet: restart.quiet,
    };
    following.follow_to_end(client, job, accepted).await
}
