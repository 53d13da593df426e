//! `coppice checkpoint` and `coppice checkpoints`.

use std::process::ExitCode;

use coppice_api::checkpoint::{
    CheckpointChoice, CheckpointCost, CheckpointReport, CheckpointState, CheckpointView, CheckpointsQuery, Deleted,
    Verified,
};
use coppice_api::job::EXIT_COPPICE;
use coppice_api::{Client, counted};

use crate::arguments::{Checkpoint, Checkpoints};
use crate::failure::say;
use crate::show::{print, print_json, table};
use crate::units::{show_bytes, show_ns, show_time};

pub(crate) async fn checkpoint(client: &Client, order: &Checkpoint) -> anyhow::Result<()> {
    let made = client.checkpoint(order.job, order.order().map_err(anyhow::Error::msg)?).await?;
    if order.listing.json { print_json(&made) } else { print(&line(&made)) }
}

/// What was made.
fn line(made: &CheckpointReport) -> String {
    format!("checkpoint {} on {}: {}\n", made.checkpoint, counted(made.nodes, "node"), cost(&made.cost))
}

/// What one cost.
pub(super) fn cost(cost: &CheckpointCost) -> String {
    let ms = |ms: u64| show_ns(ms.saturating_mul(1_000_000));
    let hashed = cost.hash_ms.map(|hash| format!(", hashed for {}", ms(hash))).unwrap_or_default();
    format!(
        "paused {}, local after {}, drained after {}{hashed}; {}, {}",
        show_ns(cost.pause_us.saturating_mul(1000)),
        ms(cost.local_ms),
        ms(cost.drain_ms),
        counted(cost.pages, "page"),
        show_bytes(cost.bytes),
    )
}

pub(crate) async fn checkpoints(client: &Client, order: &Checkpoints) -> anyhow::Result<ExitCode> {
    if let Some(which) = &order.verify {
        return verify(client, which, order.listing.json).await;
    }
    list_or_delete(client, order).await.map(|()| ExitCode::SUCCESS)
}

/// Has checkpoints read; it is no success if one is not what was written.
async fn verify(client: &Client, which: &CheckpointChoice, json: bool) -> anyhow::Result<ExitCode> {
    let Verified { checkpoints, damaged } = client.verify_checkpoints(which).await?;
    let is_whole = damaged.is_empty();
    if json {
        print_json(&Verified { checkpoints, damaged })?;
    } else {
        checkpoints.iter().try_for_each(|checkpoint| print(&format!("{checkpoint} verified\n")))?;
        damaged.iter().for_each(|why| say(why));
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(EXIT_COPPICE) })
}

async fn list_or_delete(client: &Client, order: &Checkpoints) -> anyhow::Result<()> {
    if let Some(which) = &order.delete {
        let deleted = client.delete_checkpoints(which).await?;
        if let Some(why) = &deleted.kept {
            say(&format!("room is not given back yet: {why}"));
        }
        if let Some(which) = &deleted.not_wiped {
            say(which);
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

/// How far it is.
fn state(view: &CheckpointView) -> String {
    match (view.state, view.drained) {
        (CheckpointState::Local, Some(drained)) if drained.of > 0 => {
            format!("local, {} of {} objects drained", drained.objects, drained.of)
        }
        (CheckpointState::Local, _) => "local".to_owned(),
        (CheckpointState::Drained, _) => "drained".to_owned(),
        (CheckpointState::Verified, _) => "verified".to_owned(),
    }
}

fn checkpoints_table(views: &[CheckpointView]) -> String {
    let row = |view: &CheckpointView| {
        let command = std::iter::once(&view.name).chain(&view.arguments).map(ToString::to_string);
        let known = |text: String| if view.damaged.is_some() { "-".to_owned() } else { text };
        vec![
            view.checkpoint.to_string(),
            known(state(view)),
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
    let heading = ["CHECKPOINT", "STATE", "MADE", "RANKS", "PAUSE", "PAGES", "SIZE", "COMMAND"];
    table(&heading, views.iter().map(row))
}

#[cfg(test)]
mod tests {
    use coppice_api::checkpoint::{
        CheckpointChoice, CheckpointCost, CheckpointMode, CheckpointName, CheckpointReport, CheckpointState,
        CheckpointView, Deleted, Drained,
    };

    use super::{checkpoints_table, gone, line};

    const NAME: CheckpointName = CheckpointName { job: 7, number: 2 };

    #[test]
    fn what_was_made_is_a_line() {
        let cost = CheckpointCost {
            pause_us: 12_000,
            pages: 900,
            bytes: 3 << 20,
            local_ms: 80,
            drain_ms: 300,
            hash_ms: Some(40),
        };
        let mode = CheckpointMode::Cow;
        let made = CheckpointReport { checkpoint: NAME, nodes: 4, steps: Vec::new(), mode, cost };
        let text = "checkpoint 7@2 on 4 nodes: paused 12 ms, local after 80 ms, drained after 300 ms, hashed for 40 \
                    ms; 900 pages, 3.0 MiB\n";
        assert_eq!(line(&made), text);
    }

    #[test]
    fn what_was_deleted_is_a_line() {
        let (one, all) = (CheckpointChoice { job: 7, number: Some(2) }, CheckpointChoice { job: 7, number: None });
        let deleted = Deleted { checkpoints: vec![NAME], bytes: 2048, ..Deleted::default() };
        assert_eq!(gone(&one, &deleted), "7@2 deleted, 2.0 KiB given back\n");
        assert_eq!(gone(&all, &deleted), "1 checkpoint of job 7 deleted, 2.0 KiB given back\n");
        assert_eq!(gone(&one, &Deleted { kept: Some("later".into()), ..deleted }), "7@2 deleted\n");
    }

    #[test]
    fn the_list_says_how_far_they_are_and_what_is_damaged() {
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
        let verified = CheckpointView { state: CheckpointState::Verified, ..good.clone() };
        let local = |objects, of| CheckpointView {
            state: CheckpointState::Local,
            drained: Some(Drained { objects, of }),
            ..good.clone()
        };
        let text = checkpoints_table(&[good.clone(), verified, local(0, 0), local(3, 40), bad]);
        let rows: Vec<_> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            rows,
            [
                "CHECKPOINT STATE MADE RANKS PAUSE PAGES SIZE COMMAND",
                "7@2 drained 1970-01-01 00:00:00Z 8 (2/node) 12 ms 900 3.0 MiB ./a b c",
                "7@2 verified 1970-01-01 00:00:00Z 8 (2/node) 12 ms 900 3.0 MiB ./a b c",
                "7@2 local 1970-01-01 00:00:00Z 8 (2/node) 12 ms 900 3.0 MiB ./a b c",
                "7@2 local, 3 of 40 objects drained 1970-01-01 00:00:00Z 8 (2/node) 12 ms 900 3.0 MiB ./a b c",
                "7@3 - - - - - - checkpoint 3 of job 7 is damaged",
            ]
        );
    }
}
