//! Jobs that ranks of a job have started: they are ours as that is, and are followed beside it.

use coppice_api::Client;
use coppice_api::job::EXIT_COPPICE;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::core_files::CoreFiles;
use super::output::Output;
use super::{End, explain_end, follow};
use crate::failure::say;

/// How the streams of jobs are followed that a job or its family has started.
#[derive(Clone, Copy)]
pub(super) struct Manner {
    pub(super) core_file: bool,
    pub(super) label: bool,
    pub(super) json: bool,
    pub(super) quiet: bool,
}

/// Jobs that are followed.
pub(super) struct Family {
    client: Client,
    manner: Manner,
    /// Those that are told to have been started.
    told: mpsc::UnboundedReceiver<u64>,
    tell: mpsc::UnboundedSender<u64>,
    followed: JoinSet<u8>,
    /// The first exit status of one that has ended that is not 0.
    status: Option<u8>,
}

impl Family {
    pub(super) fn new(client: &Client, manner: Manner) -> Self {
        let (tell, told) = mpsc::unbounded_channel();
        Self { client: client.clone(), manner, told, tell, followed: JoinSet::new(), status: None }
    }

    /// Where to tell of one.
    pub(super) fn tell(&self) -> mpsc::UnboundedSender<u64> {
        self.tell.clone()
    }

    /// Follows those that are told of while something else is done.
    pub(super) async fn beside<T>(&mut self, task: impl Future<Output = T>) -> T {
        let mut task = std::pin::pin!(task);
        loop {
            tokio::select! {
                // What it tells of at its end is there then.
                biased;
                done = &mut task => return done,
                Some(job) = self.told.recv() => self.begin(job),
                Some(ended) = self.followed.join_next() => self.ended(ended.unwrap_or(EXIT_COPPICE)),
            }
        }
    }

    /// Follows all to their end. Gives the first exit status of one of them that is not 0.
    pub(super) async fn followed_to_the_end(mut self) -> Option<u8> {
        loop {
            while let Ok(job) = self.told.try_recv() {
                self.begin(job);
            }
            match self.followed.join_next().await {
                Some(ended) => self.ended(ended.unwrap_or(EXIT_COPPICE)),
                None => return self.status,
            }
        }
    }

    fn begin(&mut self, job: u64) {
        let (client, tell, manner) = (self.client.clone(), self.tell.clone(), self.manner);
        self.followed.spawn(async move {
            follow_one(&client, job, manner, &tell).await.unwrap_or_else(|error| {
                say(&format!("job {job}: {error:#}"));
                EXIT_COPPICE
            })
        });
    }

    fn ended(&mut self, status: u8) {
        self.status = self.status.or(Some(status).filter(|status| *status != 0));
    }
}

/// Follows one to its end, and gives what it exits with.
async fn follow_one(
    client: &Client,
    job: u64,
    Manner { core_file, label, json, quiet }: Manner,
    tell: &mpsc::UnboundedSender<u64>,
) -> anyhow::Result<u8> {
    let stream = client.stream(job).await?;
    let mut core_files = core_file.then(|| CoreFiles::of(client, job));
    let end = follow(stream, Output::of(job, label, json), quiet, core_files.as_mut(), Some(tell)).await?;
    if let Some(core_files) = &mut core_files {
        core_files.finish().await;
    }
    // Whose reader is gone is noticed by the others, too.
    let End::Job(view) = end else { return Ok(super::EXIT_PIPE) };
    explain_end(client, &view).await?;
    Ok(view.exit_status.unwrap_or(EXIT_COPPICE))
}
