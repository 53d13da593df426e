//! Asks a cluster for all that a page about a job is made of.

use coppice_api::Client;
use coppice_api::checkpoint::CheckpointsQuery;
use coppice_api::error::ApiError;
use coppice_api::output::LogQuery;
use coppice_api::overlay::{OverlayState, ProfileQuery, RankProfileView};
use coppice_api::stacks::StacksView;
use coppice_api::stream::{JobEvent, StreamFrame};
use coppice_explain::Evidence;
use coppice_symbols::Profile;
use coppice_symbols::limits::LOOK_UP_TIME_MAX;
use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::matter::{Function, Matter, Output, drawn_ranks};
use crate::samples::{stacks, symbols};

/// Ranks that are asked for at a time.
const AT_A_TIME: usize = 8;

/// Functions that are listed.
const FUNCTIONS_MAX: usize = 20;

/// The end of the output that is shown, bytes.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// Output that is read for that, bytes; of what is longer the end is not reached.
const OUTPUT_READ_BYTES_MAX: u64 = 64 << 20;

impl Matter {
    /// Of that job, as its service node has it now.
    ///
    /// # Errors
    /// [`ApiError`], of which that there is no such job is the first.
    pub async fn gather(client: &Client, job: u64) -> Result<Self, ApiError> {
        let evidence = Evidence::gather(client, job).await?;
        let overlay = unless_refused(client.overlay(job).await)?;
        let ranks = if evidence.profile.epochs.is_empty() { vec![] } else { ranks(client, &evidence).await? };
        let checkpoints = client.checkpoints(&CheckpointsQuery { job: Some(job) }).await?;
        let (functions, flame_graph) = sampled(client.stacks(job).await?).await;
        let output = match evidence.job.job.output {
            // Of one that runs all of it would be read again and again, for its end.
            Some(kept) if !kept.given_back && kept.bytes.is_some() => unless_refused(output(client, job).await)?,
            _ => None,
        };
        let overlay = overlay.filter(|overlay| overlay.state != OverlayState::Off);
        Ok(Self { evidence, overlay, ranks, checkpoints, functions, flame_graph, output })
    }
}

/// What there is, if there is any: a job that has ended has no overlay, and one may end at any time.
fn unless_refused<T>(asked: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match asked {
        Err(ApiError::Refused { .. }) => Ok(None),
        other => other.map(Some),
    }
}

/// What was recorded of the ranks that are drawn.
async fn ranks(client: &Client, evidence: &Evidence) -> Result<Vec<RankProfileView>, ApiError> {
    let job = evidence.job.job.job;
    let each = drawn_ranks(evidence.job.job.ranks).into_iter();
    let asked = each.map(|rank| client.rank_profile(job, rank, ProfileQuery { limit: None }));
    stream::iter(asked).buffered(AT_A_TIME).try_collect().await
}

/// Functions that ranks were in, and a flame graph. Names take a while, and nobody else is to wait for them.
async fn sampled(view: StacksView) -> (Vec<Function>, Option<Vec<u8>>) {
    if view.samples == 0 {
        return (vec![], None);
    }
    let named = tokio::task::spawn_blocking(move || {
        let (symbols, _) = symbols(&view);
        let profile = Profile::new(&symbols, &stacks(&view), LOOK_UP_TIME_MAX);
        let share = |count: u64| count as f64 * 100.0 / profile.samples().max(1) as f64;
        let function = |row: coppice_symbols::Row| Function {
            itself: share(row.own),
            with_callees: share(row.all),
            name: row.function,
        };
        let title = format!("job {}: {}", view.job, symbols.program());
        // What has no picture has its table.
        let flame_graph = profile.flame_graph(&title, "").ok();
        (profile.top(FUNCTIONS_MAX).into_iter().map(function).collect(), flame_graph)
    });
    // It ends early only if all does.
    named.await.unwrap_or_default()
}

/// The end of what is kept of a job's output.
async fn output(client: &Client, job: u64) -> Result<Output, ApiError> {
    let mut log = client.log(job, &LogQuery { follow: false, rank: None, stream: None }).await?;
    let (mut output, mut read) = (Output::default(), 0);
    while let Some(frame) = log.next_frame().await? {
        match frame {
            StreamFrame::Output { bytes, .. } | StreamFrame::Error { bytes, .. } => {
                read += bytes.len() as u64;
                output.bytes.extend_from_slice(&bytes);
                output.keep_the_end(OUTPUT_BYTES_MAX);
            }
            StreamFrame::Event(JobEvent::Kept(_) | JobEvent::Unreadable { .. }) => break,
            StreamFrame::Event(_) | StreamFrame::Trace { .. } => {}
        }
        if read > OUTPUT_READ_BYTES_MAX {
            break;
        }
    }
    Ok(output)
}
