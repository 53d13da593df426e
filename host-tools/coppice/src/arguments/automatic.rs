//! The command line for what is done with checkpoints of a job by itself, by `run` and `restart`.

use clap::Args;
use coppice_api::checkpoint::CheckpointPolicy;
use coppice_api::limits::{
    CHECKPOINT_FIRST_MS, CHECKPOINTS_KEPT_DEFAULT, CHECKPOINTS_KEPT_MAX, NODE_MTBF_MS_DEFAULT, RESTARTS_MAX,
};

use crate::units::{parse_checkpoint_interval, parse_mtbf};

/// How often checkpoints are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Every {
    /// As often as pays.
    Auto,
    /// So often, ms.
    Ms(u64),
}

fn parse_every(text: &str) -> Result<Every, String> {
    if text == "auto" { Ok(Every::Auto) } else { parse_checkpoint_interval(text).map(Every::Ms) }
}

#[derive(Debug, Args)]
pub(crate) struct Automatic {
    /// Make a checkpoint again and again while all ranks run, each so long after the last one began, such as 30s or
    /// 10m; with `auto` as often as pays for what the last one cost, the first after a minute
    #[arg(long, value_name = "DURATION|auto", value_parser = parse_every, help_heading = "Checkpoints")]
    pub(crate) checkpoint_every: Option<Every>,
    /// How long a node lasts on average, such as 12h or 90d, for --checkpoint-every auto [default: 30d]
    #[arg(long, value_name = "DURATION", requires = "checkpoint_every", value_parser = parse_mtbf,
          help_heading = "Checkpoints")]
    pub(crate) node_mtbf: Option<u64>,
    /// Checkpoints of the job that stay when a new one is whole: so many, the newest [default: 2]
    #[arg(long, value_name = "N", requires = "checkpoint_every", help_heading = "Checkpoints",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(CHECKPOINTS_KEPT_MAX)))]
    pub(crate) keep_checkpoints: Option<u32>,
    /// Restart the job from its newest checkpoint when it has lost a node, at most so often
    #[arg(long, value_name = "N", requires = "checkpoint_every", help_heading = "Checkpoints",
          value_parser = clap::value_parser!(u32).range(0..=i64::from(RESTARTS_MAX)))]
    pub(crate) max_restarts: Option<u32>,
}

impl Automatic {
    /// What the service node is asked for.
    pub(crate) fn policy(&self) -> Result<Option<CheckpointPolicy>, String> {
        let Some(every) = self.checkpoint_every else { return Ok(None) };
        let (every_ms, node_mtbf_ms) = match (every, self.node_mtbf) {
            (Every::Auto, mtbf) => (CHECKPOINT_FIRST_MS, Some(mtbf.unwrap_or(NODE_MTBF_MS_DEFAULT))),
            (Every::Ms(every_ms), None) => (every_ms, None),
            (Every::Ms(_), Some(_)) => {
                return Err("--node-mtbf is for --checkpoint-every auto; leave one of them out".to_owned());
            }
        };
        let keep = self.keep_checkpoints.unwrap_or(CHECKPOINTS_KEPT_DEFAULT);
        Ok(Some(CheckpointPolicy { every_ms, keep, max_restarts: self.max_restarts.unwrap_or(0), node_mtbf_ms }))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use coppice_api::checkpoint::CheckpointPolicy;

    use crate::arguments::{Arguments, Command};

    fn policy(line: &str) -> Result<Option<CheckpointPolicy>, String> {
        let words = ["coppice"].into_iter().chain(line.split(' '));
        match Arguments::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Run(run) => run.automatic.policy(),
            Command::Restart(restart) => restart.order().map(|order| order.checkpoint_policy),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn checkpoints_are_made_as_it_is_said() {
        for (command, program) in [("run", "./p"), ("restart", "7")] {
            let said = |options: &str| policy(&format!("{command} {options}{program}"));
            let plain = CheckpointPolicy { every_ms: 30_000, keep: 2, max_restarts: 0, node_mtbf_ms: None };
            assert_eq!(said(""), Ok(None));
            assert_eq!(said("--checkpoint-every 30s "), Ok(Some(plain)));
            let all = CheckpointPolicy { every_ms: 600_000, keep: 5, max_restarts: 3, node_mtbf_ms: None };
            assert_eq!(said("--checkpoint-every 10m --keep-checkpoints 5 --max-restarts 3 "), Ok(Some(all)));
            let auto = |ms| Ok(Some(CheckpointPolicy { every_ms: 60_000, node_mtbf_ms: Some(ms), ..plain }));
            assert_eq!(said("--checkpoint-every auto "), auto(2_592_000_000));
            assert_eq!(said("--checkpoint-every auto --node-mtbf 2d "), auto(172_800_000));
            for (bad, word) in [
                ("--node-mtbf 2d ", "--checkpoint-every"),
                ("--checkpoint-every 30s --node-mtbf 2d ", "for --checkpoint-every auto"),
                ("--checkpoint-every Auto ", "such as 30s"),
                ("--checkpoint-every auto --node-mtbf 999ms ", "such as 12h or 90d"),
                ("--checkpoint-every 999ms ", "at least 1 s"),
                ("--checkpoint-every 30 ", "such as 30s"),
                ("--keep-checkpoints 2 ", "--checkpoint-every"),
                ("--max-restarts 2 ", "--checkpoint-every"),
                ("--checkpoint-every 30s --keep-checkpoints 0 ", "1..=1000"),
                ("--checkpoint-every 30s --max-restarts 1001 ", "0..=1000"),
            ] {
                let error = said(bad).expect_err(bad);
                assert!(error.contains(word), "{error}");
            }
        }
        let error = policy("run --trace t --checkpoint-every 30s --max-restarts 1 ./p").expect_err("not traced again");
        assert!(error.contains("--trace"), "{error}");
    }
}
