//! `coppice checkpoint` and `coppice checkpoints`.

use coppice_api::checkpoint::{CheckpointChoice, CheckpointReport, CheckpointView, CheckpointsQuery, Deleted};
use coppice_api::{Client, counted};

use crate::arguments::{Checkpoint, Checkpoints};
use crate::failure::say;
use crate::show::{print, print_json, table};
use crate::units::{show_bytes, show_ns, show_time};

pub(crate) async fn checkpoint(client: &Client, order: &Checkpoint) -> anyhow::Result<()> {
    let made = client.checkpoint(order.job).await?;
    if order.listing.json { print_json(&made) } else { print(&line(&made)) }
}

/// What was made.
fn line(made: &CheckpointReport) -> String {
    format!(
        "checkpoint {} on {}: paused {}, then {} kept, {}, in {}\n",
        made.checkpoint,
        counted(made.nodes, "node"),
        show_ns(made.pause_us.saturating_mul(1000)),
        counted(made.pages, "page"),
        show_bytes(made.bytes),
        show_ns(made.drain_ms.saturating_mul(1_000_000)),
    )
}

pub(crate) async fn checkpoints(client: &Client, order: &Checkpoints) -> anyhow::Result<()> {
    if let Some(which) = &order.delete {
        let deleted = client.delete_checkpoints(which).await?;
        if let Some(why) = &deleted.kept {
            say(&format!("room is not given back yet: {why}"));
        }
        return if order.listing.json { print_json(&deleted) } else { print(&gone(which, &deleted)) };
    }
    let views = client.checkpoints(&CheckpointsQuery { job: order.job }).await?;
    if order.listing.json { print_json(&views) } else { print(&checkpoints_table(&views)) }
}

/// What was deleted.
fn gone(which: &CheckpointChoice, deleted: &Deleted) -> String {
    let names: Vec<_> = deleted.checkpoints.iter().map(ToString::to_string).collect();
    let what = match which.number {
        Some(_) => names.join(", "),
        None => format!("{} of job {}", counted(names.len(), "checkpoint"), which.job),
    };
    let room =
        if deleted.kept.is_some() { String::new() } else { format!(", {} given back", show_bytes(deleted.bytes)) };
    format!("{what} deleted{room}\n")
}

fn checkpoints_table(views: &[CheckpointView]) -> String {
    let row = |view: &CheckpointView| {
        let command = std::iter::once(&view.name).chain(&view.arguments).map(ToString::to_string);
        let known = |text: String| if view.damaged.is_some() { "-".to_owned() } else { text };
        vec![
            view.checkpoint.to_string(),
            known(show_time(view.at_ns)),
            known(match view.ranks_per_node {
                1 => view.ranks.to_string(),
                per_node => format!("{} ({per_node}/node)", view.ranks),
            }),
            known(show_ns(view.pause_us.saturating_mul(1000))),
            known(view.pages.to_string()),
            known(show_bytes(view.bytes)),
            view.damaged.clone().unwrap_or_else(|| command.collect::<Vec<_>>().join(" ")),
        ]
    };
    let heading = ["CHECKPOINT", "MADE", "RANKS", "PAUSE", "PAGES", "SIZE", "COMMAND"];
    table(&heading, views.iter().map(row))
}

#[cfg(test)]
mod tests {
    use coppice_api::checkpoint::{CheckpointChoice, CheckpointName, CheckpointReport, CheckpointView, Deleted};

    use super::{checkpoints_table, gone, line};

    const NAME: CheckpointName = CheckpointName { job: 7, number: 2 };

    #[test]
    fn what_was_made_is_a_line() {
        let (steps, bytes) = (Vec::new(), 3 << 20);
        let made =
            CheckpointReport { checkpoint: NAME, nodes: 4, steps, pause_us: 12_000, pages: 900, bytes, drain_ms: 300 };
        let text = "checkpoint 7@2 on 4 nodes: paused 12 ms, then 900 pages kept, 3.0 MiB, in 300 ms\n";
        assert_eq!(line(&made), text);
    }

    #[test]
    fn what_was_deleted_is_a_line() {
        let (one, all) = (CheckpointChoice { job: 7, number: Some(2) }, CheckpointChoice { job: 7, number: None });
        let deleted = Deleted { checkpoints: vec![NAME], bytes: 2048, kept: None };
        assert_eq!(gone(&one, &deleted), "7@2 deleted, 2.0 KiB given back\n");
        assert_eq!(gone(&all, &deleted), "1 checkpoint of job 7 deleted, 2.0 KiB given back\n");
        assert_eq!(gone(&one, &Deleted { kept: Some("later".into()), ..deleted }), "7@2 deleted\n");
    }

    #[test]
    fn a_damaged_one_says_so_in_the_list() {
        let good = CheckpointView {
            name: "./a".into(),
            arguments: vec!["b c".into()],
            ranks: 8,
            ranks_per_node: 2,
            pause_us: 12_000,
            pages: 900,
            bytes: 3 << 20,
            ..CheckpointView::unknown(NAME)
        };
        let damaged = Some("checkpoint 3 of job 7 is damaged".to_owned());
        let bad = CheckpointView { damaged, ..CheckpointView::unknown(CheckpointName { job: 7, number: 3 }) };
        let text = checkpoints_table(&[good, bad]);
        let rows: Vec<_> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            rows,
            [
                "CHECKPOINT MADE RANKS PAUSE PAGES SIZE COMMAND",
                "7@2 1970-01-01 00:00:00Z 8 (2/node) 12 ms 900 3.0 MiB ./a b c",
                "7@3 - - - - - checkpoint 3 of job 7 is damaged",
            ]
        );
    }
}
