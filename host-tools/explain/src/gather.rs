//! Asks for all that is known of a job.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use coppice_api::Client;
use coppice_api::error::ApiError;
use coppice_api::job::JobsQuery;
use coppice_api::link::LinksQuery;
use coppice_api::overlay::ProfileQuery;
use coppice_api::ras::RasQuery;
use tokio::time::timeout;

use crate::Evidence;

/// Rows of each listing that are looked at, the newest.
const ROWS_MAX: u32 = 1000;

/// How long a fabric is waited for.
const LINKS_TIME_MAX: Duration = Duration::from_secs(1);

impl Evidence {
    /// Of that job, as its service node has it now.
    ///
    /// # Errors
    /// [`ApiError`], of which that there is no such job is the first.
    pub async fn gather(client: &Client, job: u64) -> Result<Self, ApiError> {
        // That there is none is said before anything else is asked for.
        let detail = client.job(job).await?;
        let of_job = RasQuery { limit: Some(ROWS_MAX), node: None, job: Some(job) };
        let of_all = RasQuery { job: None, ..of_job };
        let listed = JobsQuery { limit: Some(ROWS_MAX), before: None };
        let links = LinksQuery { links: None };
        let (profile, mut ras, all_ras, jobs, nodes) = tokio::try_join!(
            client.profile(job, ProfileQuery { limit: None }),
            client.ras(&of_job),
            client.ras(&of_all),
            client.jobs(&listed),
            client.nodes(),
        )?;
        ras.extend(all_ras);
        ras.sort_by_key(|event| event.event);
        ras.dedup_by_key(|event| event.event);
        // A fabric that does not answer just now leaves a sentence out, and not all of them.
        let links = timeout(LINKS_TIME_MAX, client.links(&links)).await.ok().and_then(Result::ok);
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let now_ns = u64::try_from(now_ns).unwrap_or(u64::MAX);
        Ok(Self { job: detail, profile, ras, jobs, nodes, links, now_ns })
    }
}
