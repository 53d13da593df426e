//! A rank that is held to be looked at.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use anyhow::bail;
use coppice_api::inspect::held::{ABANDONED_NS, HeldProcess, HeldThread, MappedArea, MemoryPart, NotTold};
use coppice_api::inspect::{Answer, Query, Question};
use coppice_api::{ApiError, Client};
use tokio::time::sleep;

/// How long, and with which pauses, a rank is waited for that somebody else has held.
const TAKEN_TIME_MAX: Duration = Duration::from_nanos(2 * ABANDONED_NS);
const TAKEN_PAUSE: Duration = Duration::from_millis(100);

/// HTTP's status of what cannot be answered now, and how long, and with which pauses, it is asked again.
const BUSY: u16 = 503;
const BUSY_TIME_MAX: Duration = Duration::from_secs(5);
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// A rank, and who asks about it.
#[derive(Clone, Debug)]
pub(crate) struct HeldRank {
    client: Client,
    pub(crate) job: u64,
    pub(crate) rank: u32,
    /// A number that nobody else has.
    by: u64,
}

impl HeldRank {
    /// That one, of which nothing is asked yet.
    pub(crate) fn new(client: &Client, job: u64, rank: u32) -> Self {
        Self { client: client.clone(), job, rank, by: RandomState::new().hash_one(std::process::id()) }
    }

    /// The cluster's service node.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Asks its node, again if that or the service node has more questions than it answers at a time.
    pub(crate) async fn ask(&self, question: Question) -> anyhow::Result<Answer> {
        let (query, end) = (Query { by: self.by, question }, Instant::now() + BUSY_TIME_MAX);
        loop {
            match self.client.question(self.job, self.rank, &query).await {
                Err(ApiError::Refused { status: BUSY, .. }) if Instant::now() < end => sleep(BUSY_PAUSE).await,
                answered => return Ok(answered?),
            }
        }
    }

    /// What is said if the answer is none to the question.
    pub(crate) fn odd<T>(&self) -> anyhow::Result<T> {
        bail!("the node of rank {} said something else than was asked", self.rank)
    }

    /// Has it held. Waits for a while for somebody else who has it, and may be gone.
    pub(crate) async fn hold(&self) -> anyhow::Result<HeldProcess> {
        let end = Instant::now() + TAKEN_TIME_MAX;
        loop {
            match self.ask(Question::Hold).await? {
                Answer::Held(process) => return Ok(process),
                Answer::NotTold(NotTold::Taken) if Instant::now() < end => sleep(TAKEN_PAUSE).await,
                Answer::NotTold(NotTold::Taken) => {
                    let (job, rank) = (self.job, self.rank);
                    bail!("somebody else looks at rank {rank} of job {job}; try again when that is over")
                }
                _ => return self.odd(),
            }
        }
    }

    /// Has it held for longer, if it still is.
    pub(crate) async fn keep(&self) -> anyhow::Result<()> {
        // Of no thread.
        match self.ask(Question::Threads { from: u32::MAX }).await? {
            Answer::Threads(..) => Ok(()),
            _ => self.odd(),
        }
    }

    /// Lets it go on. If it cannot be told to, it does so by itself, later.
    pub(crate) async fn release(&self) {
        let _ = self.ask(Question::Release).await;
    }

    /// Its threads. Whatever the node says, the list comes to an end.
    pub(crate) async fn threads(&self) -> anyhow::Result<Vec<HeldThread>> {
        let (mut all, mut from) = (Vec::new(), Some(0));
        while let Some(first) = from {
            let Answer::Threads(threads, next) = self.ask(Question::Threads { from: first }).await? else {
                return self.odd();
            };
            all.extend(threads);
            from = next.filter(|next| *next > first);
        }
        Ok(all)
    }

    /// What is mapped; as for the threads.
    pub(crate) async fn areas(&self) -> anyhow::Result<Vec<MappedArea>> {
        let (mut all, mut from) = (Vec::new(), Some(0));
        while let Some(first) = from {
            let Answer::Areas(areas, next) = self.ask(Question::Areas { from: first }).await? else {
                return self.odd();
            };
            all.extend(areas);
            from = next.filter(|next| *next > first);
        }
        Ok(all)
    }

    /// Some of what lies at an address, up to `length` bytes, at least one of them.
    pub(crate) async fn memory(&self, address: u64, length: u64) -> anyhow::Result<MemoryPart> {
        let Answer::Memory(part) = self.ask(Question::Memory { address, length }).await? else { return self.odd() };
        let told = part.zeros.saturating_add(part.bytes.len() as u64);
        if told == 0 || told > length { self.odd() } else { Ok(part) }
    }
}
