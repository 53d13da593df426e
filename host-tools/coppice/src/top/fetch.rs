//! What `top` shows is asked for again and again, beside what draws it: a service node that takes long holds nobody up,
//! and one that is gone is asked until there is one again.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use coppice_api::Client;
use coppice_api::cluster::ClusterView;
use coppice_api::job::{JobDetail, JobState, JobView, JobsQuery};
use coppice_api::node::NodeView;
use coppice_api::overlay::OverlayView;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// How long an answer may take.
pub(super) const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// Jobs that are listed, the newest.
const JOBS_MAX: u32 = 500;

/// Jobs of which it is asked what their ranks do: the newest that run, and the one that is looked at.
const OVERLAYS_MAX: usize = 16;

/// What there was at a moment.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// Then, ns since 1970.
    pub(super) at_ns: u64,
    pub(super) cluster: ClusterView,
    pub(super) nodes: Vec<NodeView>,
    /// The newest first.
    pub(super) jobs: Vec<JobView>,
    /// What ranks of jobs do that run.
    pub(super) overlays: BTreeMap<u64, OverlayView>,
    /// The job that is looked at.
    pub(super) job: Option<JobDetail>,
}

/// The service node takes longer than [`ANSWER_TIME_MAX`].
pub(super) fn no_answer() -> String {
    format!("the service node has not answered for {} s", ANSWER_TIME_MAX.as_secs())
}

/// Now, ns since 1970.
pub(super) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Asks again and again, and at once when another job is looked at, until nobody wants to know any more.
pub(super) async fn ask(
    client: Client,
    every: Duration,
    mut looked_at: watch::Receiver<Option<u64>>,
    seen: mpsc::Sender<Result<Seen, String>>,
) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            changed = looked_at.changed() => if changed.is_err() {
                return;
            },
        }
        let job = *looked_at.borrow_and_update();
        let asked = timeout(ANSWER_TIME_MAX, all(&client, job)).await;
        let answer = match asked {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err(no_answer()),
        };
        if seen.send(answer).await.is_err() {
            return;
        }
    }
}

async fn all(client: &Client, looked_at: Option<u64>) -> Result<Seen, coppice_api::ApiError> {
    let query = JobsQuery { limit: Some(JOBS_MAX), before: None };
    let (cluster, nodes, jobs) = tokio::try_join!(client.cluster(), client.nodes(), client.jobs(&query))?;
    let mut jobs = jobs;
    jobs.sort_by_key(|job| std::cmp::Reverse(job.job));
    let running = jobs.iter().filter(|job| job.state == JobState::Running).map(|job| job.job);
    let mut wanted: Vec<u64> = running.take(OVERLAYS_MAX).collect();
    wanted.extend(looked_at.filter(|job| !wanted.contains(job)));
    let mut overlays = BTreeMap::new();
    for job in wanted {
        // One that has ended meanwhile has none.
        if let Ok(overlay) = client.overlay(job).await {
            overlays.insert(job, overlay);
        }
    }
    let job = match looked_at {
        // It may have been removed from the records.
        Some(job) => client.job(job).await.ok(),
        None => None,
    };
    Ok(Seen { at_ns: now_ns(), cluster, nodes, jobs, overlays, job })
}
