//! `coppice explain`: what became of a job's time, and why it failed.

use std::time::{SystemTime, UNIX_EPOCH};

use coppice_api::Client;
use coppice_api::job::JobsQuery;
use coppice_api::link::LinksQuery;
use coppice_api::overlay::ProfileQuery;
use coppice_api::ras::RasQuery;
use coppice_explain::{Evidence, Explanation, explain as explained};

use crate::arguments::Explain;
use crate::show::{print, print_json};

/// Rows of each listing that are looked at, the newest.
const ROWS_MAX: u32 = 1000;

pub(crate) async fn explain(client: &Client, arguments: &Explain) -> anyhow::Result<()> {
    let explanation = explained(&gather(client, arguments.job).await?);
    if arguments.listing.json { print_json(&explanation) } else { print(&text(&explanation)) }
}

/// Asks for all that is known of a job.
async fn gather(client: &Client, job: u64) -> anyhow::Result<Evidence> {
    // That there is none is said before anything else is asked for.
    let detail = client.job(job).await?;
    let of_job = RasQuery { limit: Some(ROWS_MAX), node: None, job: Some(job) };
    let of_all = RasQuery { job: None, ..of_job };
    let listed = JobsQuery { limit: Some(ROWS_MAX) };
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
    let links = client.links(&links).await.ok();
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let now_ns = u64::try_from(now_ns).unwrap_or(u64::MAX);
    Ok(Evidence { job: detail, profile, ras, jobs, nodes, links, now_ns })
}

/// A line for each finding, and one for what to try.
fn text(explanation: &Explanation) -> String {
    let mut text = String::new();
    for finding in &explanation.findings {
        text += &finding.text;
        text.push('\n');
        if let Some(advice) = &finding.advice {
            text += &format!("  {}: {}\n", advice.text, advice.command);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use coppice_explain::{Advice, Cause, Explanation, Finding};

    use super::text;

    #[test]
    fn a_finding_is_a_line_and_what_to_try_another() {
        let advice = Some(Advice { text: "Try".into(), command: "coppice job 3".into() });
        let first = Finding { cause: Cause::Queue, lost_ns: 3, text: "It waited.".into(), advice };
        let second = Finding { cause: Cause::Shares, lost_ns: 0, text: "All in all.".into(), advice: None };
        let explanation = Explanation { job: 3, findings: vec![first, second] };
        assert_eq!(text(&explanation), "It waited.\n  Try: coppice job 3\nAll in all.\n");
    }
}
