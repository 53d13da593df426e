//! The command line for what is done with checkpoints of a job by itself, by `run` and `restart`.

use clap::Args;
use coppice_api::checkpoint::CheckpointPolicy;
use coppice_api::limits::{CHECKPOINTS_KEPT_DEFAULT, CHECKPOINTS_KEPT_MAX, RESTARTS_MAX};

use crate::units::parse_checkpoint_interval;

#[derive(Debug, Args)]
pub(crate) struct Automatic {
    /// Make a checkpoint again and again while all ranks run, each so long after the last one began, such as 30s or 10m
    #[arg(long, value_name = "DURATION", value_parser = parse_checkpoint_interval, help_heading = "Checkpoints")]
    pub(crate) checkpoint_every: Option<u64>,
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
    pub(crate) fn policy(&self) -> Option<CheckpointPolicy> {
        self.checkpoint_every.map(|every_ms| CheckpointPolicy {
            every_ms,
            keep: self.keep_checkpoints.unwrap_or(CHECKPOINTS_KEPT_DEFAULT),
            max_restarts: self.max_restarts.unwrap_or(0),
        })
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
            Command::Run(run) => Ok(run.automatic.policy()),
            Command::Restart(restart) => Ok(restart.order().checkpoint_policy),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn checkpoints_are_made_as_it_is_said() {
        for (command, program) in [("run", "./p"), ("restart", "7")] {
            let said = |options: &str| policy(&format!("{command} {options}{program}"));
            let plain = CheckpointPolicy { every_ms: 30_000, keep: 2, max_restarts: 0 };
            assert_eq!(said(""), Ok(None));
            assert_eq!(said("--checkpoint-every 30s "), Ok(Some(plain)));
            let all = CheckpointPolicy { every_ms: 600_000, keep: 5, max_restarts: 3 };
            assert_eq!(said("--checkpoint-every 10m --keep-checkpoints 5 --max-restarts 3 "), Ok(Some(all)));
            for (bad, word) in [
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
