//! `coppice explain`: what became of a job's time, and why it failed.

use coppice_api::Client;
use coppice_explain::{Evidence, Explanation, explain as explained};

use crate::arguments::Explain;
use crate::show::{print, print_json};

pub(crate) async fn explain(client: &Client, arguments: &Explain) -> anyhow::Result<()> {
    let explanation = explained(&Evidence::gather(client, arguments.job).await?);
    if arguments.listing.json { print_json(&explanation) } else { print(&text(&explanation)) }
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
