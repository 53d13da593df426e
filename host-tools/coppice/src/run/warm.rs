//! What retained page tables saved a job, in one line.

use coppice_api::counted;
use coppice_api::job::{EXIT_COPPICE, JobView};

/// `4 nodes warm: 512 pages kept, 0 fetched`. Nothing if no rank was warm, or if Coppice made the job fail: then there
/// is something else to say.
pub(super) fn line(view: &JobView) -> Option<String> {
    let failed = view.reason.is_some() && view.exit_status.is_none_or(|status| status == EXIT_COPPICE);
    let summary = view.retention.filter(|summary| summary.warm_ranks > 0 && !failed)?;
    let (nodes, pages) = (counted(summary.warm_nodes, "node"), counted(summary.pages_kept, "page"));
    Some(format!("{nodes} warm: {pages} kept, {} fetched", summary.pages_fetched))
}

#[cfg(test)]
mod tests {
    use coppice_api::job::JobView;
    use coppice_api::retain::RetentionSummary;

    use super::line;
    use crate::commands::job::tests::view;

    fn job(warm_nodes: u32, pages_kept: u64, pages_fetched: u64) -> JobView {
        let warm_ranks = 2 * warm_nodes;
        JobView { retention: Some(RetentionSummary { warm_ranks, warm_nodes, pages_kept, pages_fetched }), ..view() }
    }

    #[test]
    fn a_warm_job_says_what_was_kept() {
        assert_eq!(line(&job(4, 512, 0)).as_deref(), Some("4 nodes warm: 512 pages kept, 0 fetched"));
        assert_eq!(line(&job(1, 1, 0)).as_deref(), Some("1 node warm: 1 page kept, 0 fetched"));
        assert_eq!(line(&job(2, 30, 5)).as_deref(), Some("2 nodes warm: 30 pages kept, 5 fetched"));
    }

    #[test]
    fn a_cold_job_says_nothing() {
        assert_eq!(line(&view()), None);
        assert_eq!(line(&job(0, 0, 100)), None);
    }

    #[test]
    fn a_job_that_coppice_failed_says_nothing_and_others_do() {
        let lost = JobView { exit_status: Some(125), reason: Some("node 3 was lost".into()), ..job(1, 1, 0) };
        assert_eq!(line(&lost), None);
        let unknown = JobView { exit_status: None, reason: Some("the cluster ended".into()), ..job(1, 1, 0) };
        assert_eq!(line(&unknown), None);
        let own_125 = JobView { exit_status: Some(125), ..job(1, 1, 0) };
        let killed = JobView { exit_status: Some(143), reason: Some("killed".into()), ..job(1, 1, 0) };
        assert!(line(&own_125).is_some() && line(&killed).is_some());
    }
}
