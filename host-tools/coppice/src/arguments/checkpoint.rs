//! The command lines for checkpoints.

use clap::{Args, ValueEnum};
use coppice_api::checkpoint::{CheckpointChoice, CheckpointMode, MakeOrder, RestartOrder};

use super::Listing;
use super::automatic::Automatic;
use super::job_options::JobOptions;
use super::run::{NodesList, parse_seconds};

#[derive(Debug, Args)]
#[command(after_help = "\
All ranks of the job stand for a moment, on all of its nodes, and go on as if nothing had been. What they were in that \
moment lies in the regions of their nodes (`coppice up --nmr SIZE`) soon: it is local. From there it goes to the \
directory of checkpoints (`coppice up --storage DIR`), whatever becomes of the job and its nodes; pages that are there \
already, from whatever checkpoint, are not written again. There is a checkpoint when it is drained, and this command \
ends: an end of the job before it is local, or of the cluster before it is drained, leaves none. Files are not in it: \
a job that is restarted finds them as they are then.\n\n\
Exit status: 0 if there is a checkpoint; 125 if not, and the job goes on.\n\nExamples:\n  \
    coppice checkpoint 7                 make a checkpoint of job 7\n  \
    coppice checkpoint --phase1 copy 7   the same, while the job stands\n  \
    coppice checkpoints                  list those that there are\n  \
    coppice restart 7                    have a new job go on from the newest one of job 7")]
pub(crate) struct Checkpoint {
    /// The job's number
    #[arg(value_name = "JOB")]
    pub(crate) job: u64,
    /// How ranks are kept from changing what is kept of them
    #[arg(long, value_enum, default_value_t = Phase1::Cow)]
    pub(crate) phase1: Phase1,
    /// With `copy`, processors copy what finds so many requests with the engine of their node's region; 0: all of it
    /// [default: as many as an engine takes]
    #[arg(long, value_name = "REQUESTS")]
    pub(crate) dma_pending: Option<u8>,
    #[command(flatten)]
    pub(crate) listing: Listing,
}

impl Checkpoint {
    /// What the service node is asked for.
    pub(crate) fn order(&self) -> Result<MakeOrder, String> {
        if self.dma_pending.is_some() && self.phase1 != Phase1::Copy {
            return Err("--dma-pending is for ranks that stand meanwhile: give --phase1 copy, too".into());
        }
        Ok(MakeOrder { mode: self.phase1.into(), dma_pending: self.dma_pending })
    }
}

/// See [`CheckpointMode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Phase1 {
    /// They stand until nodes have copied all of it into their regions
    Copy,
    /// They go on at once, and a page that they write is copied first
    Cow,
}

impl From<Phase1> for CheckpointMode {
    fn from(phase1: Phase1) -> Self {
        match phase1 {
            Phase1::Copy => Self::Copy,
            Phase1::Cow => Self::Cow,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Checkpoints outlive their jobs and the cluster, until they are deleted. SIZE is what nodes gave for one; what several \
have in common is on the disk once. One that is local is on its way there yet, and none before.\n\n\
Exit status: 0 if it was done; 125 if not, or one that was read is not what was written.\n\nExamples:\n  \
    coppice checkpoints                  all of them\n  \
    coppice checkpoints 7                those of job 7\n  \
    coppice checkpoints --verify 7       read all that is in those of job 7\n  \
    coppice checkpoints --delete 7@2     delete the second one of job 7\n  \
    coppice checkpoints --delete 7       delete all of job 7")]
pub(crate) struct Checkpoints {
    /// Those of this job
    #[arg(value_name = "JOB")]
    pub(crate) job: Option<u64>,
    /// Delete this one, or all of a job, and give back the room that nothing else needs
    #[arg(long, value_name = "JOB[@N]", conflicts_with = "job")]
    pub(crate) delete: Option<CheckpointChoice>,
    /// Read all that is in this one, or in all of a job, and note which are what was written
    #[arg(long, value_name = "JOB[@N]", conflicts_with_all = ["job", "delete"])]
    pub(crate) verify: Option<CheckpointChoice>,
    #[command(flatten)]
    pub(crate) listing: Listing,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The new job has the program, arguments, environment, root, files to be staged and ranks of the one that the checkpoint \
was made of, which must have ended, and goes on where that was. It has as many ranks on each node, on any nodes. \
The program must be stored yet, or lie where it lay. The job is followed as `coppice run` follows one; what it reads \
from standard input comes from here. Checkpoints are made of it by itself, and it is restarted, as the old job was, \
unless --checkpoint-every says otherwise.\n\n\
Exit status and Ctrl-C: as with `coppice run`.\n\nExamples:\n  \
    coppice restart 7                    from the newest checkpoint of job 7\n  \
    coppice restart 7@2                  from its second one\n  \
    coppice restart --nodes-list 4-7 7   on these nodes\n  \
    job=$(coppice restart --detach 7); coppice wait $job")]
pub(crate) struct Restart {
    /// The job, or one of its checkpoints; without @N the newest
    #[arg(value_name = "JOB[@N]")]
    pub(crate) checkpoint: CheckpointChoice,
    /// Read all that is in the checkpoint before, and do nothing if any of it is not what was written
    #[arg(long)]
    pub(crate) verify: bool,
    /// Leave files as they are that the job was writing and that have grown since the checkpoint, instead of cutting
    /// them back to what they were
    #[arg(long)]
    pub(crate) keep_files: bool,
    #[command(flatten)]
    pub(crate) options: JobOptions,
    /// Kill the new job after that many seconds [default: as the job that the checkpoint is of]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) timeout: Option<u64>,
    /// Do not say which checkpoint it goes on from, nor at the end which nodes had kept pages of the program
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) automatic: Automatic,
}

impl Restart {
    /// What the service node is asked for.
    pub(crate) fn order(&self) -> Result<RestartOrder, String> {
        Ok(RestartOrder {
            checkpoint: self.checkpoint.number,
            verify: self.verify,
            keep_files: self.keep_files,
            nodes: self.options.nodes_list.as_ref().map(|NodesList(nodes)| nodes.clone()).unwrap_or_default(),
            detached: self.options.detach,
            keep_output: self.options.output_kept(),
            core_file: self.options.core_file,
            timeout_ms: self.timeout,
            checkpoint_policy: self.automatic.policy()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use coppice_api::checkpoint::{CheckpointChoice, CheckpointMode, MakeOrder, RestartOrder};
    use coppice_api::limits::OUTPUT_LOG_BYTES_DEFAULT;

    use crate::arguments::{Arguments, Command};

    fn command(line: &str) -> Result<Command, String> {
        let words = ["coppice"].into_iter().chain(line.split(' '));
        Arguments::try_parse_from(words).map(|arguments| arguments.command).map_err(|error| error.to_string())
    }

    #[test]
    fn checkpoints_are_named_by_job_and_number() {
        assert!(matches!(command("checkpoint 7"), Ok(Command::Checkpoint(order)) if order.job == 7));
        assert!(matches!(command("checkpoints"), Ok(Command::Checkpoints(order)) if order.job.is_none()));
        let Ok(Command::Checkpoints(order)) = command("checkpoints 7 --json") else { panic!("valid") };
        assert!(order.job == Some(7) && order.listing.json && order.delete.is_none());
        let deleted = |line: &str| match command(line) {
            Ok(Command::Checkpoints(order)) => order.delete,
            other => panic!("{other:?}"),
        };
        assert_eq!(deleted("checkpoints --delete 7@2"), Some(CheckpointChoice { job: 7, number: Some(2) }));
        assert_eq!(deleted("checkpoints --delete 7"), Some(CheckpointChoice { job: 7, number: None }));
        let verified = |line: &str| matches!(command(line), Ok(Command::Checkpoints(order)) if order.verify.is_some());
        assert!(verified("checkpoints --verify 7@2") && verified("checkpoints --verify 7"));
        assert!(command("checkpoints --verify 7 --delete 7").is_err() && command("checkpoints 7 --verify 7").is_err());
        let phase1 = |line: &str| match command(line) {
            Ok(Command::Checkpoint(order)) => order.order(),
            other => panic!("{other:?}"),
        };
        let copied = |dma_pending| MakeOrder { mode: CheckpointMode::Copy, dma_pending };
        assert_eq!(phase1("checkpoint 7"), Ok(MakeOrder::default()));
        assert_eq!(phase1("checkpoint --phase1 copy 7"), Ok(copied(None)));
        assert_eq!(phase1("checkpoint --phase1 copy --dma-pending 0 7"), Ok(copied(Some(0))));
        assert!(phase1("checkpoint --dma-pending 0 7").is_err(), "for those who stand");
        for bad in ["checkpoint", "checkpoint 7@2", "checkpoints 7@2", "checkpoints 7 --delete 7", "restart"] {
            assert!(command(bad).is_err(), "{bad}");
        }
        for bad in ["restart x", "restart 7@", "restart @2", "checkpoints --delete 7@x"] {
            assert!(command(bad).is_err_and(|error| error.contains("JOB@NUMBER")), "{bad}");
        }
    }

    #[test]
    fn a_restart_is_ordered_as_it_is_said() {
        let order = |line: &str| match command(line) {
            Ok(Command::Restart(restart)) => restart.order().expect("fits"),
            other => panic!("{other:?}"),
        };
        assert_eq!(order("restart 7"), RestartOrder::default());
        let wanted = RestartOrder {
            checkpoint: Some(2),
            verify: true,
            keep_files: true,
            nodes: vec![4, 6, 7],
            core_file: true,
            timeout_ms: Some(1500),
            ..RestartOrder::default()
        };
        assert_eq!(order("restart --verify --keep-files --nodes-list 4,6-7 --core --timeout 1.5 7@2"), wanted);
        let kept = Some(OUTPUT_LOG_BYTES_DEFAULT);
        assert_eq!(
            order("restart -d 7"),
            RestartOrder { detached: true, keep_output: kept, ..RestartOrder::default() }
        );
        assert_eq!(order("restart --keep-output=8K 7").keep_output, Some(8192));
        for bad in ["restart -d --json 7", "restart -d --label 7", "restart -d --core 7", "restart -n 2 7"] {
            assert!(command(bad).is_err(), "{bad}");
        }
    }
}
