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
    use std::path::Path;

    use clap::Parser;
    use coppice_explain::{Advice, Cause, Explanation, Finding};

    use super::text;
    use crate::arguments::Arguments;

    /// Every command in the snapshots of what is said is one that this tool takes.
    #[test]
    fn what_is_advised_can_be_done() {
        let snapshots = Path::new(env!("CARGO_MANIFEST_DIR")).join("../explain/src/tests/snapshots");
        let mut tried = 0;
        for entry in std::fs::read_dir(snapshots).expect("snapshots") {
            let snapshot = std::fs::read_to_string(entry.expect("a file").path()).expect("text");
            let advised = snapshot.lines().filter_map(|line| line.strip_prefix("  ")?.split_once(": coppice "));
            for (_, command) in advised {
                // What the user is to give, and what a shell does.
                let command = command.replace('…', "./program").replace("SECONDS", "60");
                let words = command.split(' ').take_while(|word| *word != "<");
                let parsed = Arguments::try_parse_from(std::iter::once("coppice").chain(words));
                assert!(parsed.is_ok(), "{command}: {}", parsed.expect_err("refused"));
                tried += 1;
            }
        }
        assert!(tried >= 30, "{tried} commands");
    }

    #[test]
    fn a_finding_is_a_line_and_what_to_try_another() {
        let advice = Some(Advice { text: "Try".into(), command: "coppice job 3".into() });
        let first = Finding { cause: Cause::Queue, lost_ns: 3, text: "It waited.".into(), advice };
        let second = Finding { cause: Cause::Shares, lost_ns: 0, text: "All in all.".into(), advice: None };
        let explanation = Explanation { job: 3, findings: vec![first, second] };
        assert_eq!(text(&explanation), "It waited.\n  Try: coppice job 3\nAll in all.\n");
    }
}
