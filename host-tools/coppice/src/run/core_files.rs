//! Core files of ranks that signals end (`run --core`): each stands until its file is written.

use std::sync::Arc;

use coppice_api::{Client, signal};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::core::{name, take};
use crate::failure::say;
use crate::held::HeldRank;
use crate::units::show_bytes;

/// Core files of one job, so that one whose ranks all die does not fill the disk: of the others none is written.
const CORE_FILES_MAX: usize = 16;

/// Ranks whose core files are written, or that are told to go on, at once: a node answers few questions at a time.
const AT_ONCE_MAX: usize = 4;

/// Ranks that are to be told to go on. Of more, each waits until its node does not wait any more.
const TOLD_MAX: usize = 64;

/// Those of a job, which are written while it goes on. When this is dropped, what is not whole is gone.
pub(crate) struct CoreFiles {
    client: Client,
    job: u64,
    begun: usize,
    turns: Arc<Semaphore>,
    under_way: JoinSet<()>,
}

impl CoreFiles {
    /// None yet.
    pub(crate) fn of(client: &Client, job: u64) -> Self {
        let turns = Arc::new(Semaphore::new(AT_ONCE_MAX));
        Self { client: client.clone(), job, begun: 0, turns, under_way: JoinSet::new() }
    }

    /// A signal is about to end a rank.
    pub(crate) fn rank_dies(&mut self, rank: u32, signal: u8) {
        let held = HeldRank::new(&self.client, self.job, rank);
        self.begun = self.begun.saturating_add(1);
        if self.begun > CORE_FILES_MAX {
            if self.begun == CORE_FILES_MAX + 1 {
                say(&format!("no core file of rank {rank} and those after it: {CORE_FILES_MAX} of a job are enough"));
            }
            // It need not wait for somebody who does not come; if too many do, some wait.
            while self.under_way.try_join_next().is_some() {}
            if self.under_way.len() < TOLD_MAX {
                let turns = Arc::clone(&self.turns);
                self.under_way.spawn(async move {
                    let _turn = turns.acquire().await;
                    if held.hold().await.is_ok() {
                        held.release().await;
                    }
                });
            }
            return;
        }
        let (path, turns) = (name(self.job, rank), Arc::clone(&self.turns));
        self.under_way.spawn(async move {
            let _turn = turns.acquire().await;
            let signal = signal::name(signal);
            match take(&held, &path).await {
                Ok(bytes) => {
                    say(&format!("rank {rank} is ended by {signal}: {}, {}", path.display(), show_bytes(bytes)));
                }
                Err(error) => say(&format!("no core file of rank {rank}, which {signal} ends: {error:#}")),
            }
        });
    }

    /// Waits until all are written.
    pub(crate) async fn finish(&mut self) {
        while self.under_way.join_next().await.is_some() {}
    }
}
